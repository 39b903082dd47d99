"""The mini-cluster: a head, compute nodes, a real Slurm with accounting, and fabrics with a line rate, on one machine.

Everything lives in namespaces of one process, the cluster's init: when it dies, the kernel takes away every process,
mount, link and namespace with it. Modules, from the outside in:

- ``lifecycle``: up, down, status; ``faults``: break something on purpose, and heal it.
- ``plan``: which nodes, fabrics and cores; ``slurm`` and ``network``: the plan as configuration text.
- ``daemons``: what runs on which node; ``namespaces``: the cluster's init and its nodes; ``kernel``: the system calls.
- ``packages``: Debian's Slurm, unpacked beside the system; ``state``: what is up, kept in one runtime directory.
"""

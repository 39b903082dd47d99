"""The mini-cluster: a head, compute nodes, a real Slurm with accounting,
and fabrics with a line rate, on one machine.

Everything lives in namespaces of one process, the cluster's init: when it dies, the kernel takes
away every process, mount, link and namespace with it. Modules, from the outside in:

- ``lifecycle``: up, down, status; ``faults``: break something on purpose, and clear it.
- ``slurm``: configuration and daemons; ``plan``: which nodes, fabrics
  and cores, and the lines that make its network.
- ``namespaces``: the cluster's init, its nodes and what runs in them; ``kernel``: the system calls.
- ``packages``: Debian's Slurm, unpacked beside the system; ``state``:
  what is up, kept in one runtime directory.

Whatever cannot be done raises BadInput, with a sentence for the user.
"""

"""A TEMPLATE, to copy, of a Cray EX: Slingshot 11, four cards a node,
PBS, PALS. Nothing was ever measured on it.

    mkdir site_configs/NAME
    sed 's/"mysystem"/"NAME"/' site_configs/template/cray_ex_pals.py > site_configs/NAME/system.py
    mpibench doctor --system NAME            # lists what is still to be filled in

Nothing is loaded from this folder, because the file is not called system.py. Replace every text
that begins with FILL_IN. With Slurm in place of PBS the scheduler is "slurm" and the launcher
"srun". Cards and their NUMA nodes: fi_info -p cxi, and /sys/class/cxi/cxi*/device/numa_node.

Stacks of Cray MPICH are registered where its launcher and library are:

    mpibench stacks add --mpirun /opt/cray/pe/pals/default/bin/mpiexec --binaries FOLDER \\
        --library /opt/cray/pe/mpich/8.1.28/ofi/gnu/9.1/lib/libmpi_gnu_91.so.12

Where there is no PALS, its stack.json is written by hand, with "launcher_family": "pals" and
"commands": {"mpirun": ["srun"]}.
"""

from reframe_tests.harness.machine.topology import describe

#: Two sockets of 64 cores with two hardware threads each, and four NUMA
#: nodes a socket, as AMD's processors in NPS4.
_NODE = describe(
    sockets=2, cores_per_socket=64, numa_per_socket=4, smt=2, numbering="smt_last", arch="zen3"
)

#: Slingshot 11: 200 Gbit/s for each card.
_CARDS = [
    {"device": f"cxi{card}", "line_rate_gbit_per_s": 200, "numa_node": 2 * card}
    for card in range(4)
]


def _slingshot(rails):
    """The gate is ours; references.yaml has yours."""
    return {"transport": "cxi", "scope": "cluster", "min_efficiency": 0.85, "rails": rails}


system = {
    "name": "mysystem",
    "descr": "FILL_IN: nodes and network in one line",
    "hostnames": ["FILL_IN: regular expression of the login nodes' names"],
    "prefix": "FILL_IN: folder all nodes see",
    "partitions": [
        {
            "name": "compute",
            "descr": "Slingshot 11, ranks started by PALS",
            "scheduler": "pbspro",
            "launcher": "pals",
            "access": [
                "-q FILL_IN: queue",
                "-A FILL_IN: account to charge",
                "-l place=scatter:excl",
            ],
            "processor": _NODE,
            "extras": {
                "node_counts": [2],
                # MPICH built with PMIx, as Aurora's; Cray MPICH and Open MPI need nothing here.
                "pals_pmi": {"mpich": "pmix"},
                "fabrics": {
                    # One rank a node on one card, and each rank on the card of its NUMA node.
                    "ss200": _slingshot(_CARDS[:1]),
                    "ss800": _slingshot(_CARDS),
                    # What a user's plain mpiexec takes, and what it ought to.
                    "plain": {"transport": "as_shipped", "scope": "cluster", "expect": "ss800"},
                    "shm": {"transport": "shm", "scope": "node"},
                },
            },
        }
    ],
}

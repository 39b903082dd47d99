"""The mini-cluster of the OpenHPC white paper: a head and two
compute nodes, one fabric at a time (2021).

"Interconnect Performance Validation, Open-Source Mini-Clusters, CentOS 8.3, OpenHPC v2.3 xCAT/SLURM
Edition", I. Reed, revision 1.4. Each section of the paper has the named adapter and the 1 Gbit/s
network, so each is a partition.
"""

from reframe_tests.harness.machine.topology import describe

#: The paper names no processor. This is what OpenHPC's
#: slurm.conf.ohpc describes until a site edits it.
_NODE = describe(sockets=2, cores_per_socket=8, smt=2, numbering="smt_last")

#: Gates are ours except where the paper gives one: "~93%" on 1GbE (High-Speed Ethernet,
#: Validation). With an MTU of 1500, TCP payload is 0.9415 of the rate, so that 0.99 of a 40 Gbit/s
#: link is more than a link can carry. 92.09 of 100 on EDR is "within range", 78.91 on Omni-Path
#: "much less".
_FABRICS = {
    "eth1g": {
        "transport": "tcp",
        "mtu_bytes": 1500,
        "min_efficiency": 0.9,
        "rails": [{"device": "eth0", "line_rate_gbit_per_s": 1}],
    },
    # The paper's cards are called enp97s0 on c1 and enp182s0 on c2. A rail has one name on all
    # nodes: give both cards that name (systemd.link(5)); eth40 is the suffix xCAT puts on their
    # host names.
    "eth40g": {
        "transport": "tcp",
        "mtu_bytes": 1500,
        "min_efficiency": 0.9,
        "rails": [{"device": "eth40", "line_rate_gbit_per_s": 40}],
    },
    "opa100": {
        "transport": "psm2",
        "min_efficiency": 0.9,
        "tcp_interfaces": ["ib0"],
        "rails": [{"device": "hfi1_0", "line_rate_gbit_per_s": 100}],
    },
    "edr100": {
        "transport": "ucx",
        "min_efficiency": 0.9,
        "tcp_interfaces": ["ib0"],
        "rails": [{"device": "mlx5_0", "line_rate_gbit_per_s": 100}],
    },
}

_DESCRIPTIONS = {
    "eth1g": "Standard Ethernet",
    "eth40g": "Intel XL710, 40 Gbit/s",
    "opa100": "Intel Omni-Path 100HFA016, back to back",
    "edr100": "Mellanox ConnectX-4 CX455A, EDR, back to back",
}


def _partition(fabric):
    return {
        "name": fabric,
        "descr": _DESCRIPTIONS[fabric],
        "scheduler": "slurm",
        # The paper's scripts start mpirun inside the job.
        "launcher": "mpirun",
        "access": ["--partition=normal"],
        "extras": {
            "fabrics": {
                fabric: {"scope": "cluster", **_FABRICS[fabric]},
                "shm": {"transport": "shm", "scope": "node"},
            },
            "node_counts": [2],
            # What the paper's output of osu_put_bw says: "Window creation: MPI_Win_allocate",
            # "Synchronization: MPI_Win_flush".
            "suite_options": {"one_sided_osu": {"window": "allocate", "sync": "flush"}},
            "stacks": ["openmpi-ohpc", "intelmpi-oneapi", "intelmpi-201*"],
        },
        "processor": _NODE,
    }


system = {
    "name": "openhpc-mini",
    "descr": "OpenHPC mini-cluster: 1GbE, 40GbE, Omni-Path, EDR (2021); published, not at hand",
    "hostnames": [r"^quartz$"],
    "partitions": [_partition(fabric) for fabric in _FABRICS],
}

"""Two nodes with two Omni-Path adapters each, one per socket (Intel, 2020).

"200Gb MPI Performance with Intel Omni-Path Architecture", J. Erwin. The
batch system is ours: the article names none.
"""

from reframe_tests.harness.machine.topology import describe

#: Configuration: two Xeon Gold 6252 with 24 cores and Hyper-Threading on.
_NODE = describe(sockets=2, cores_per_socket=24, smt=2, numbering="smt_last", arch="cascadelake")
_RAILS = [
    {
        "device": f"hfi1_{unit}",
        "line_rate_gbit_per_s": 100,
        "numa_node": unit,
        "adapter": f"hfi{unit}",
    }
    for unit in (0, 1)
]
#: The article calls 100 and 200 Gbit/s reached; what counts as reached is ours.
_BETWEEN = {"transport": "psm2", "scope": "cluster", "min_efficiency": 0.95}

system = {
    "name": "opa-dual-rail",
    "descr": "Two nodes, one Omni-Path adapter per socket (2020); published, not at hand",
    "hostnames": [r"^opa-dual-login\d*$"],
    "partitions": [
        {
            "name": "dual",
            "descr": "2 x Xeon Gold 6252, two HFIs, one 48-port switch",
            "scheduler": "slurm",
            "launcher": "mpirun",
            "access": ["--partition=dual"],
            "extras": {
                "fabrics": {
                    # One rank per node uses the adapter next to it; two,
                    # one per NUMA node, use both.
                    "opa100": {**_BETWEEN, "rails": _RAILS[:1]},
                    "opa200": {**_BETWEEN, "rails": _RAILS},
                    # Each rank splits its messages over both
                    # (PSM2_MULTIRAIL=1; "How to Use Dual Rail?", 2).
                    "opa200_striped": {**_BETWEEN, "rails": _RAILS, "striped": True},
                    "shm": {"transport": "shm", "scope": "node"},
                },
                "node_counts": [2],
                "stacks": ["intelmpi-201*"],
                "recommended": [
                    {
                        "section": "Configuration and Disclaimers",
                        "stacks": ["intelmpi-*"],
                        "env_vars": {"PSM2_MQ_EAGER_SDMA_SZ": "16384"},
                    }
                ],
            },
            "processor": _NODE,
        }
    ],
}

"""A TEMPLATE, to copy, of a cluster under Flux with InfiniBand. Nothing was ever measured on it.

    mkdir site_configs/NAME
    sed 's/"mysystem"/"NAME"/' site_configs/template/flux_infiniband.py >
    site_configs/NAME/system.py mpibench doctor --system NAME            # lists what is still to be
    filled in

Nothing is loaded from this folder, because the file is not called
system.py. Replace every text that begins with FILL_IN.

ReFrame is started inside an allocation, so that all repeats of a job have the same nodes; its own
scheduler for Flux knows no number of nodes:

    flux alloc --nodes=2 --exclusive --time-limit=4h ci/nightly
"""

from reframe_tests.harness.machine.topology import describe

#: Two sockets of 28 cores: of nodes other than the one ReFrame
#: runs on, so it is said and not detected.
_NODE = describe(sockets=2, cores_per_socket=28, arch="FILL_IN: ReFrame's name of the processor")

#: Write the number without quotes; leave numa_node out where the kernel says -1.
_NUMA = "FILL_IN: number in /sys/class/infiniband/mlx5_0/device/numa_node of a node"

system = {
    "name": "mysystem",
    "descr": "FILL_IN: nodes and network in one line",
    "hostnames": ["FILL_IN: regular expression of the names of the allocation's first node"],
    "prefix": "FILL_IN: folder all nodes see",
    "partitions": [
        {
            "name": "compute",
            "descr": "HDR InfiniBand, ranks started by flux run",
            "scheduler": "local",
            "launcher": "flux",
            # The allocation is one: a case after the other.
            "max_jobs": 1,
            "processor": _NODE,
            "extras": {
                "remote": True,
                "node_counts": [2],
                "fabrics": {
                    "hdr200": {
                        "transport": "ucx",
                        "scope": "cluster",
                        "min_efficiency": 0.9,
                        "rails": [
                            {
                                "device": "FILL_IN: mlx5_0 (ibv_devices)",
                                "line_rate_gbit_per_s": 200,
                                "numa_node": _NUMA,
                            }
                        ],
                    },
                    "plain": {"transport": "as_shipped", "scope": "cluster", "expect": "hdr200"},
                    "shm": {"transport": "shm", "scope": "node"},
                },
            },
        }
    ],
}

"""Any Linux machine: one node, no scheduler, two fabrics that every machine has."""

system = {
    "name": "generic",
    "descr": "Any Linux machine: one node, two fabrics inside it",
    "hostnames": [".*"],
    # Two jobs at the same time would disturb each other's numbers.
    "max_local_jobs": 1,
    "partitions": [
        {
            "name": "default",
            "descr": "This node",
            "scheduler": "local",
            # The stack's own mpirun; called local because ReFrame then
            # detects the topology by itself.
            "launcher": "local",
            "max_jobs": 1,
            "extras": {
                "fabrics": {
                    # Memory of the node: what ranks of one node use by default.
                    "shm": {"transport": "shm", "scope": "node"},
                    # TCP over loopback through each MPI's own network path: a
                    # second real fabric on one machine.
                    "lo": {"transport": "tcp", "scope": "node", "rails": [{"device": "lo"}]},
                },
            },
        },
    ],
}

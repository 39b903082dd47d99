"""IBM BladeCenter JS21 with one link of 4X InfiniBand under AIX (2007);
see site_configs/ibm-p5-575 for paper and limits.
"""

from reframe_tests.harness.machine.topology import describe

#: Appendix A: one memory domain per blade, no SMT.
_BLADES = {
    "cores4": (
        "4 cores of 2.5 GHz",
        describe(sockets=1, cores_per_socket=4, caches_per_socket=4, arch="ppc970"),
    ),
    "cores2": (
        "2 cores of 2.7 GHz",
        describe(sockets=1, cores_per_socket=2, caches_per_socket=2, arch="ppc970"),
    ),
}

#: Table A1 and appendix B; only sn_single is possible here, and there is no memory affinity to set.
_RECOMMENDED = [
    {
        "section": "Appendix A, Table A1",
        "stacks": ["pempi-*"],
        "env_vars": {
            "MP_SINGLE_THREAD": "yes",
            "MP_EAGER_LIMIT": "65536",
            "MP_CSS_INTERRUPT": "no",
            "MP_POLLING_INTERVAL": "2000000000",
        },
    },
    {"section": "Appendix B", "stacks": ["pempi-*"], "env_vars": {"MP_BUFFER_MEM": "64M"}},
]


def _partition(name):
    descr, processor = _BLADES[name]
    return {
        "name": name,
        "descr": f"JS21 blades with {descr}",
        "scheduler": "local",
        "launcher": "local",
        "max_jobs": 1,
        "extras": {
            "fabrics": {
                # 8 Gbit/s of payload (8b/10b); the gate is ours.
                "ib4x": {
                    "transport": "verbs",
                    "scope": "cluster",
                    "min_efficiency": 0.8,
                    "rails": [{"device": "ib0", "line_rate_gbit_per_s": 8}],
                },
                "shm": {"transport": "shm", "scope": "node"},
            },
            "node_counts": [2],
            "stacks": ["pempi-43"],
            "pinning": ["default", "bunch", "scatter"],
            "remote": True,
            "recommended": _RECOMMENDED,
        },
        "processor": processor,
    }


system = {
    "name": "ibm-js21",
    "descr": "IBM BladeCenter JS21, AIX, 4X InfiniBand (2007); published, not at hand",
    "hostnames": [r"^js21-\d+$"],
    "partitions": [_partition(name) for name in _BLADES],
}

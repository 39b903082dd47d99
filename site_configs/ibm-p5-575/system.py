"""IBM System p5 575 with one, two or four links of 4X InfiniBand under AIX (2007).

"High Performance Computing for AIX Using InfiniBand", G. Chochia, F. Johnston, J. Lewars, IBM.

What can be expressed: POE starts the ranks and asks LoadLeveler for nodes by itself (MP_RESD), so
jobs need no batch system that ReFrame knows; MP_* variables choose protocol and links. What cannot:
the evidence library is for Linux, so a run on AIX proves nothing and fails; and a task is bound to
a module (MP_TASK_AFFINITY), not to a core, so explicit core lists are skipped.
"""

from reframe_tests.harness.machine.topology import describe

#: Appendix A: 16 cores in eight modules (DCM) with a memory of their own; SMT off (ST mode).
_NODE = describe(sockets=8, cores_per_socket=2, arch="power5+")

#: Table A1 and appendix B. MP_EUILIB and MP_EUIDEVICE belong to the condition and come from the
#: table. MP_POLLING_INTERVAL is 2000000000 in Table A1, which is "used to measure", and 200000000
#: in appendix B.
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
    {"section": "Appendix A", "stacks": ["pempi-*"], "env_vars": {"MEMORY_AFFINITY": "MCM"}},
    {"section": "Appendix B", "stacks": ["pempi-*"], "env_vars": {"MP_BUFFER_MEM": "64M"}},
]


def _rail(link):
    # "Two IBM GX dual-port 4X IB adapters" (appendix A).
    return {"device": f"ib{link}", "line_rate_gbit_per_s": 8, "adapter": f"hca{link // 2}"}


def _partition(links):
    return {
        "name": f"links{links}",
        "descr": f"{links} link{'s' * (links > 1)} per node, each in a network of its own",
        "scheduler": "local",
        "launcher": "local",
        "max_jobs": 1,
        "extras": {
            "fabrics": {
                # A 4X link signals at 10 Gbit/s and carries 8 (8b/10b). No gate: one task per node
                # uses one link of several, and in both directions the adapter is the limit (below
                # Table 4).
                "ib4x": {
                    "transport": "verbs",
                    "scope": "cluster",
                    # Two ports of an adapter each (appendix A).
                    "rails": [
                        {
                            "device": f"ib{link}",
                            "line_rate_gbit_per_s": 8,
                            "adapter": f"hca{link // 2}",
                        }
                        for link in range(links)
                    ],
                },
                "shm": {"transport": "shm", "scope": "node"},
            },
            "node_counts": [2],
            "stacks": ["pempi-43"],
            "pinning": ["default", "bunch", "scatter"],
            "remote": True,
            "recommended": _RECOMMENDED,
        },
        "processor": _NODE,
    }


system = {
    "name": "ibm-p5-575",
    "descr": "IBM p5-575, AIX, 4X InfiniBand with 1, 2 or 4 links (2007); published, not at hand",
    "hostnames": [r"^p5-575-\d+$"],
    "partitions": [_partition(links) for links in (1, 2, 4)],
}

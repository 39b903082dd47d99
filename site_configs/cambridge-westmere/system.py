"""The Westmere cluster of the University of Cambridge with 4X QDR
InfiniBand, as its white paper describes it (2011).

"Optimising Performance on Mellanox QDR and Intel Westmere Platforms", A. Korzynski, P. Calleja, S.
Rankin, Dell/Cambridge HPC Solution Centre. What the paper does not say is marked as ours.
"""

from reframe_tests.harness.machine.topology import describe

#: Section 3.3: twelve cores, the even numbers on socket 1 and the odd ones on socket 0; one NUMA
#: node and one L3 cache each.
_NODE = describe(sockets=2, cores_per_socket=6, numbering="alternating", arch="westmere")
for _masks in (
    _NODE["topology"]["sockets"],
    _NODE["topology"]["numa_nodes"],
    _NODE["topology"]["caches"][0]["cpusets"],
):
    _masks.reverse()

#: Section 2.2 for Open MPI 1.4.2, appendix B.2 and B.3 for Intel MPI 4.0.1. Fabric, provider,
#: fallback and the way in through TM belong to the condition and come from the tables;
#: published/environment.csv has the whole list.
_RECOMMENDED = [
    # "we set the OpenMPIs mpi_leave_pinned parameter to 1, which is recommended for benchmarking"
    {"section": "2.2", "stacks": ["openmpi-*"], "env_vars": {"OMPI_MCA_mpi_leave_pinned": "1"}},
    {
        "section": "Appendix B.2",
        "stacks": ["intelmpi-*"],
        "env_vars": {
            "I_MPI_PIN_MODE": "mpd",
            "I_MPI_JOB_STARTUP_TIMEOUT": "60",
            "I_MPI_ADJUST_ALLTOALLV": "2",
        },
    },
    {
        "section": "Appendix B.3",
        "stacks": ["intelmpi-*"],
        "env_vars": {
            "DAPL_ACK_RETRY": "7",
            "DAPL_ACK_TIMER": "20",
            "DAPL_CM_ROUTE_TIMEOUT_MS": "20000",
            "DAPL_CM_ARP_TIMEOUT_MS": "10000",
            "DAPL_UCM_REP_TIME": "800",
            "DAPL_UCM_RTU_TIME": "400",
            "DAPL_UCM_RETRY": "15",
        },
    },
]

#: 4X QDR signals at 40 Gbit/s and carries 32 (8b/10b, InfiniBand Architecture Specification 1.2.1).
#: The gate is ours: an adapter behind eight lanes of PCI Express 2.0 reaches about 26.
_QDR = {
    "transport": "verbs",
    "scope": "cluster",
    "mtu_bytes": 2048,
    "min_efficiency": 0.75,
    "rails": [{"device": "mlx4_0", "line_rate_gbit_per_s": 32}],
}


def _partition(name, descr, fabric):
    return {
        "name": name,
        "descr": descr,
        # Section 3.5: a node is never shared between jobs, so no option asks for that.
        "scheduler": "torque",
        "launcher": "mpirun",
        "access": [f"-q {name}"],
        "extras": {
            "fabrics": {fabric: _QDR, "shm": {"transport": "shm", "scope": "node"}},
            # 64 ranks at 8 per node (figures 1 and 2), 96 at 12 (figures 4 and 5).
            "node_counts": [2, 8],
            "stacks": ["intelmpi-401", "openmpi-142", "mvapich2-15"],
            "recommended": _RECOMMENDED,
        },
        "processor": _NODE,
    }


system = {
    "name": "cambridge-westmere",
    "descr": "University of Cambridge, Westmere and 4X QDR InfiniBand (2011); published, not at "
    "hand",
    "hostnames": [r"^westmere-login\d*$"],
    "partitions": [
        _partition("connectx2", "Nodes with ConnectX-2 adapters (figures 2, 4 and 5)", "qdr"),
        _partition("mixed", "Nodes with ConnectX and ConnectX-2 adapters (figure 1)", "qdr_mixed"),
    ],
}

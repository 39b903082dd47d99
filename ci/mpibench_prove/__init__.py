"""What one run of an MPI program really used: its network, its cores, its MPI library."""

#: Words of ``--expect``, each as it is written.
FORMS = {
    "fabric": "fabric=DEVICE|tcp|shm",
    "no-ethernet": "no-ethernet",
    "cores": "cores=own",
    "mpi": "mpi=NAME",
}
#: Between nodes, fewer bytes are no traffic of the program: starting and ending ranks takes as much
#: (:data:`reframe_tests.harness.evidence.traffic.OTHER_FLOOR_BYTES`).
BYTES_FROM = 1_000_000

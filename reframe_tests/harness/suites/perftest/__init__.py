"""perftest: RDMA without an MPI."""

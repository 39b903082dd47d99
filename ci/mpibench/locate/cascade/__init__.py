"""Where bandwidth or latency is lost on the way from the wire over the transport library to the MPI."""

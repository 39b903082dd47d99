"""mpi4py's own benchmark."""

"""Performance guidelines: which calls of an MPI are slower than what could replace them."""

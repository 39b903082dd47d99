"""Intel MPI Benchmarks."""

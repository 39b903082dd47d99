"""MPI profiles of applications: each profiler's file into one record, with nothing lost on the way."""

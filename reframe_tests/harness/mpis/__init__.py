"""MPI libraries, one file each: how each is told to use a transport and what it prints to prove it."""

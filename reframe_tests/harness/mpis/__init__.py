"""MPI libraries, one file each: who it is, how it is told to use a transport and what it prints to prove it."""

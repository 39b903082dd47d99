"""MPI libraries, one file each: how each is recognised, how a transport is selected and what it prints to prove it."""

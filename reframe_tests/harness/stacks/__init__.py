"""MPI stacks: what ``stack.json`` says of each, where they are found, which were asked for."""

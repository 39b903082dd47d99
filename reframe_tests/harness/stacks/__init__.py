"""MPI stacks: what ``stack.json`` says of each, where they are found, and which were requested."""

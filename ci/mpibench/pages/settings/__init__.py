"""The environment that measurements proved best for a stack, in the files that users' modules are made of."""

"""The memory of a node: STREAM with pinned threads, its build, and what its output proves."""

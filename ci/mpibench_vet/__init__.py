"""May these nodes go back into service? Node facts, all pairs, memory; and a node's own facts."""

#: Begins each reason that this tool writes beside a node: what it drained itself, and no other.
PREFIX = "mpibench vet"

"""Benchmark suites, one file each: their rows, their output, what they must send, how they run."""

#: Modules that hold no record: what the others share.
SHARED = (
    "algorithms",
    "benchmark",
    "catalogue",
    "model",
    "node_memory",
    "options",
    "pair",
    "preamble",
    "reader",
    "side_by_side",
    "traffic",
)

"""Benchmark suites, one file each: their rows, their output, what they must send, how they are run."""

#: Modules that hold no record: what the others share.
SHARED = (
    "algorithms",
    "benchmark",
    "catalogue",
    "cross_check",
    "model",
    "node_memory",
    "options",
    "pair",
    "plans",
    "preamble",
    "reader",
    "records",
    "side_by_side",
    "traffic",
)

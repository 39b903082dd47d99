"""Benchmark suites, one folder each: their rows, their output, what they must send, how they are run."""

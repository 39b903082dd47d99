"""A job: its condition, its script, its ending, and a second stack interleaved with the first."""

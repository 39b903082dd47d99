"""A job: its condition, its script, its end, and a second stack interleaved with the first."""

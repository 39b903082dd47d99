"""The algorithms of one collective, interleaved in one job: each a condition of its own."""

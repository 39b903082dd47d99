"""A job: its condition, its script, its ending, and a second stack in turn with the first."""

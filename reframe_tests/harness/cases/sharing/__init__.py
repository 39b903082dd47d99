"""Several programs side by side on one node: who has which cores, the job, and the proof."""

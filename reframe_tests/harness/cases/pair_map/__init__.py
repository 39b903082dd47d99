"""The test of pairs of nodes: one job, one start of MPI, and what
each node counted compared with the schedule.
"""

"""The algorithms of one collective, interleaved in one job:
conditions that differ in one variable.
"""

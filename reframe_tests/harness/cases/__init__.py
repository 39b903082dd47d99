"""The test cases: base classes, conditions, the measuring job, and the way from its files to
samples with proof.
"""

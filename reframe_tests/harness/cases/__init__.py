"""The test cases: base classes, conditions, the job that measures, and
from its files to samples with their proof.
"""

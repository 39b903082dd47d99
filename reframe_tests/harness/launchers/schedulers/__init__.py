"""Schedulers that ReFrame does not have: many cases in one job of the batch system."""

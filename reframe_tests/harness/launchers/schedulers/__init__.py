"""Schedulers missing from ReFrame: many cases in one job of the batch system."""

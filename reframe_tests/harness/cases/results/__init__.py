"""Judges what a job printed and recorded: one result for one case."""

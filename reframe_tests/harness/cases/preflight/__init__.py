"""Preflight: before anything is measured, is each node configured as it should be, and like the
others?
"""

"""Preflight: is each node set as it should be, and as the others
are, before anything is measured on it?
"""

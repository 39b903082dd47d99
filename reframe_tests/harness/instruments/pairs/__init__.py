"""Pairs of nodes: in which rounds they are measured, the
instrument that measures them, and what it gives.
"""

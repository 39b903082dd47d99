"""Verdicts on measurements: what a session must contain, and whether it is worse, as good, or
faster.
"""

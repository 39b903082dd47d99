"""What is made of measurements: what a session must hold, and
whether it is worse, as good, or faster.
"""

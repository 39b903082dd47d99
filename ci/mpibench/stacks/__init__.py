"""Stacks made here: from wheels, from what the system has, from
Spack; and the probes that find what they are.
"""

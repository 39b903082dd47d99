"""Makes stacks: from wheels, from what the system has, from Spack; with the probes that identify
them.
"""

"""Algorithms of collectives, as each MPI names them, and the files and variables that choose among
them.
"""

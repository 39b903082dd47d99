"""Stacks built by Spack: finds Spack, concretizes and installs the environments of
``environments/``, reads their lock files.

Spack does the work. This package asks it, turns its answers into sentences, and its lock files into
stack metadata and into proof that stacks differ only in their MPI.
"""

"""Stacks built by Spack: finds it, concretizes and installs the
environments of ``environments/``, reads their lock files.

Spack does the work. What is here asks it, says what it answers in sentences, and turns lock files
into stack metadata and into the proof that stacks differ in their MPI only.
"""

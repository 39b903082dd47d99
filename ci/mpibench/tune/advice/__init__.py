"""Advice for an application: what its profile of MPI calls would take on each stack, fabric and pinning that was measured."""

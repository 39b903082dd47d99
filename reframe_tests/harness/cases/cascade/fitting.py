"""Which fabrics a group below MPI can be measured on, and why not on others; what ``doctor`` asks without loading a test."""

from __future__ import annotations

from ...batch_systems import SLURM
from ...machine.fabric import Fabric
from ...mpis import registry as mpis
from ...suites import pair


def find_obstacle(fabric: Fabric, group: pair.PairGroup, scheduler: str) -> str:
    """Why a group cannot be measured on a fabric; empty where it can.

    :param scheduler: ReFrame's name of it.
    """
    if fabric.within_node:
        return f"{fabric.name} is inside a node, and server and client run on two"
    if fabric.transport not in group.transports:
        known = ", ".join(group.transports)
        if mpis.transport(fabric.transport).interfaces:
            return f"{fabric.name} is of transport {fabric.transport}, without an RDMA adapter; it is measured on {known}"
        return f"{fabric.name} is of transport {fabric.transport}; it is measured on {known}"
    if scheduler not in SLURM.schedulers:
        known = ", ".join(SLURM.schedulers)
        return f"nothing here starts one task on each of two nodes under scheduler {scheduler} ({known} do)"
    return ""

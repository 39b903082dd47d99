"""Why a group below MPI cannot be measured: on a fabric (``doctor`` asks without loading a test), or on nodes without its
program."""

from __future__ import annotations

import re
from pathlib import Path

from ...batch_systems import SLURM
from ...machine.fabric import Fabric
from ...mpis import registry as mpis
from ...suites import pair

#: In an end's record: why it could not measure (``end.py``, ``require``), and where it ran.
_ABSENT = re.compile(r'"failed": "there is no program (\S+) on PATH"')
_HOST = re.compile(r'"host": "([^"]+)"')


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


def find_lacking(directory: Path) -> dict[str, str]:
    """Host of each end that left its record and lacks its program, to that."""
    found = {}
    for path in sorted(path for which in pair.ENDS for path in directory.rglob(f"*.{which}")):
        text = path.read_text(errors="replace")
        host, absent = _HOST.search(text), _ABSENT.search(text)
        if host and absent:
            found[host[1]] = absent[1]
    return found


def describe_remedy(group: pair.PairGroup) -> str:
    """What to do where a group's program is not there."""
    return f"install Debian's {group.debian} or Spack's {group.spack}, or load its module (-S modules=...)"

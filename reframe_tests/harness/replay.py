"""Replays: recorded outputs go through parser, sanity, metrics and references on a bundled system nobody has here.

A replayed number was measured by somebody else at another time. So a replay has a kind of evidence of its own, ``replayed``,
which is never ``proven``: every command that judges measurements asks for the latter and leaves it out. Its stacks have the
origin ``replay``, its tests are called ``Replay...``, its sessions are kept in a database of their own. In this mode the
system's partitions run on this machine and know replay stacks only; outside it no replay stack is registered.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from . import catalogue
from .stack import Stack

#: Origin of a stack whose launcher prints a recorded output.
ORIGIN = "replay"
#: Feature of its environment.
FEATURE = "replay"
#: Name of the system to replay; empty or unset outside replays.
VARIABLE = "MPIBENCH_REPLAY"


def system(environ: Mapping[str, str] = os.environ) -> str:
    """System being replayed; empty when measuring."""
    return environ.get(VARIABLE, "")


def results(environ: Mapping[str, str] = os.environ) -> Path | None:
    """Folder of a replay's own results, which are never put beside measurements; ``None`` when measuring."""
    return Path(environ.get("RFM_PREFIX", "replay")) if system(environ) else None


def wanted(stacks: Iterable[Stack]) -> list[Stack]:
    """Stacks of this mode: recordings when replaying, real ones otherwise."""
    return [stack for stack in stacks if (stack.origin == ORIGIN) == bool(system())]


def stage(described: dict[str, Any], stacks: Iterable[Stack]) -> dict[str, Any]:
    """A system with its partitions on this machine and the recordings as environments; others are left as they are."""
    if described["name"] != system():
        return described
    found = list(stacks)

    def local(partition: dict[str, Any]) -> dict[str, Any]:
        names = [stack.name for stack in found if stack.build["replay"]["partition"] == partition["name"]]
        extras = {**partition["extras"], "remote": True, "stacks": names or ["-"]}
        return {**partition, "scheduler": "local", "launcher": "local", "access": [], "max_jobs": 1, "extras": extras}

    return {**described, "partitions": [local(partition) for partition in described["partitions"]]}


def launches(stack: Stack, ranks: int) -> tuple[catalogue.Launch, ...]:
    """The one launch a recording holds: a benchmark over the sizes the paper printed."""
    recorded = stack.build["replay"]
    row = catalogue.find(recorded["binary"], recorded["benchmark"])
    sizes = tuple(recorded["sizes"])
    expected = catalogue.Expected(row.name, row.active(ranks), sizes, tuple(recorded["variants"]))
    return (catalogue.Launch("recorded", row.suite, recorded["binary"], tuple(recorded["arguments"]), (expected,)),)

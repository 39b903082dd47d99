"""Nodes that could not be looked at because they are drained or down: which these are, why, and which of them the site misses.

A node in use comes back by itself and is counted only (:func:`node_answers.count_states`); these do not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from typing import Any

import msgspec

from ...printable import one_line
from ...vocabulary import SITE_FILES
from .node_answers import FEW

#: Key of a partition's extras: shell patterns of nodes that must be in service.
KEY = "nodes_in_service"
#: States and flags of nodes that no job gets (sinfo(1), "NODE STATE CODES"; a ``*`` behind one: it does not respond).
_OUT = {"down", "drain", "drained", "draining", "error", "fail", "failing", "inval", "invalid_reg", "not_responding"}
#: Behind a state, further flags in short.
_FLAGS = "*~#!%$@^-+"
#: State of a node that is reserved for others.
_RESERVED = re.compile(r"\bRESERVED\b")
#: Why, and who said so when, in a line of ``scontrol -o show nodes``.
_REASON = re.compile(r"\bReason=(?P<why>.+?)(?: \[\S+@\S+\]| \w+=|$)")


#: A node of Slurm as ReFrame knows it: ``name``, ``states`` and ``descr``.
SchedulerNode = Any


@dataclass(frozen=True)
class OutOfService:
    """One node.

    :param states: as the scheduler has them, in lower case, joined by ``+``.
    :param reason: what was written beside it; empty: nothing.
    :param missed: the site says that it must be in service.
    """

    node: str
    states: str
    reason: str
    missed: bool

    def __str__(self) -> str:
        return f"{self.node} ({self.states}{': ' if self.reason else ''}{self.reason})"


def find(nodes: Iterable[SchedulerNode], patterns: Sequence[str]) -> list[OutOfService]:
    """Those of a partition's nodes that are out of service, by name.

    :param patterns: of the nodes that the site says must be in service.
    """
    found = []
    for node in nodes:
        states = {state.lower() for state in node.states}
        silent = any("*" in state for state in states)
        if silent or {state.rstrip(_FLAGS) for state in states} & _OUT:
            why = _REASON.search(node.descr)
            missed = any(fnmatchcase(node.name, pattern) for pattern in patterns)
            name, reason = one_line(node.name), one_line(why["why"])[:100] if why else ""
            found.append(OutOfService(name, "+".join(sorted(states)), reason, missed))
    return sorted(found, key=lambda one: one.node)


def find_reserved(
    everything: Iterable[SchedulerNode],
    choose: Callable[[set[Any]], Iterable[SchedulerNode]],
    nodes: Iterable[SchedulerNode],
    patterns: Sequence[str],
) -> list[OutOfService]:
    """Nodes that must be in service and are reserved for others: ReFrame 4.10 drops those before it looks at anything else.

    :param everything: all nodes that the scheduler knows, as ReFrame makes them of a line of ``scontrol -o show nodes``.
    :param choose: those of some nodes that the job's options leave (``JobScheduler.filternodes``): partition, constraint, ...
    :param nodes: those that it chose from all.
    """
    reserved = {node.name: node for node in everything if "RESERVED" in node.states}
    unreserved = set()
    for node in reserved.values():
        made_from: Any = type(node)
        unreserved.add(made_from(_RESERVED.sub("IDLE", node.descr)))
    there = {node.name for node in nodes}
    hidden = [reserved[one.name] for one in choose(unreserved) if one.name not in there]
    return [
        OutOfService(one_line(one.name), "+".join(sorted(map(str.lower, one.states))), "", True)
        for one in sorted(hidden, key=lambda one: one.name)
        if any(fnmatchcase(one.name, pattern) for pattern in patterns)
    ]


def find_absent(names: Iterable[str], patterns: Sequence[str]) -> list[str]:
    """Sentence on patterns that no node of the partition has; none where each has one."""
    known = list(names)
    absent = [pattern for pattern in patterns if not any(fnmatchcase(name, pattern) for name in known)]
    return [f"{KEY} in {SITE_FILES} has {', '.join(absent)}, and the partition has no such node"] if absent else []


def missed(found: Sequence[OutOfService]) -> list[str]:
    """Sentence on nodes that must be in service; none where all are."""
    return _sentence("not looked at though they must be in service", [one for one in found if one.missed])


def others(found: Sequence[OutOfService]) -> list[str]:
    """Sentence on the other nodes out of service; none without any."""
    return _sentence("not looked at because they are out of service", [one for one in found if not one.missed])


def _sentence(what: str, found: Sequence[OutOfService]) -> list[str]:
    more = f" and {len(found) - FEW} more" if len(found) > FEW else ""
    return [f"{what}: {', '.join(map(str, found[:FEW]))}{more}"] if found else []


def as_stored(found: Iterable[OutOfService]) -> list[dict[str, Any]]:
    return [asdict(one) for one in found]


def read(rows: object) -> list[OutOfService]:
    """What :func:`as_stored` wrote; empty for anything else."""
    try:
        return msgspec.convert(rows, list[OutOfService])
    except msgspec.ValidationError:
        return []

"""Which nodes answered, and what; which did not, because they are drained, down or in use; and
which of these the site needs.

A node in use becomes free by itself and is only counted; one that is drained or down does not, and
is named.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any

import msgspec

from ...printable import few, one_line
from ...vocabulary import SITE_FILES
from .node_facts import SUFFIX

#: Facts of one node: fact to instance (empty: the node as a whole) to value.
NodeFacts = Mapping[str, Mapping[str, Any]]
#: Folder of the nodes' answers in the job's directory. The job makes it: a node without that
#: directory then leaves nothing elsewhere.
FOLDER = "facts"
#: The names of the job's nodes, which the job asks Slurm for while it has them all: while a job
#: completes, ``sacct``, which ReFrame asks, shows those nodes only that have not done so yet (Slurm
#: 22.05: ``c1`` of a job on ``c[1-2]``).
NODES_FILE = "nodes.txt"
#: Lines of a job script, ``scontrol(1)``, "show hostnames": those of ``SLURM_JOB_NODELIST``.
MAKE_FOLDER = f"rm -rf {FOLDER}; mkdir {FOLDER}"
WRITE_NODES = f"scontrol show hostnames >{NODES_FILE}"
#: Why a partition is left out whose scheduler starts no task on each
#: node by itself; the scheduler's name follows.
NO_LAUNCHER = "no launcher is known that starts one program a node with"
#: Nodes at most that a sentence names.
FEW = 8
#: Numbers that can be stored (SQLite and Parquet: 64 bits); not-a-number is none.
_BOUNDS = msgspec.Meta(ge=-(2**63), le=2**63 - 1)
_Facts = dict[str, dict[str, str | Annotated[int, _BOUNDS] | Annotated[float, _BOUNDS]]]
#: Key of a partition's extras: shell patterns of nodes that must be in service.
IN_SERVICE = "nodes_in_service"
#: States and flags of nodes that no job gets (sinfo(1), "NODE STATE
#: CODES"; a ``*`` behind one: it does not respond).
_OUT = {
    "down",
    "drain",
    "drained",
    "draining",
    "error",
    "fail",
    "failing",
    "inval",
    "invalid_reg",
    "not_responding",
}
#: Behind a state, further flags in short.
_FLAGS = "*~#!%$@^-+"
_RESERVED = re.compile(r"\bRESERVED\b")
#: Why, and who said so when, in a line of ``scontrol -o show nodes``.
_REASON = re.compile(r"\bReason=(?P<why>.+?)(?: \[\S+@\S+\]| \w+=|$)")
#: A node of Slurm as ReFrame knows it: ``name``, ``states`` and ``descr``.
SchedulerNode = Any


def read(directory: Path) -> tuple[dict[str, NodeFacts], list[str]]:
    """Facts by node from what a job's nodes left, and a sentence for each that cannot be used.

    Users choose names of processes, firmware those of cards: all texts
    come back without what a terminal would obey.
    """
    nodes: dict[str, NodeFacts] = {}
    wrong: list[str] = []
    for path in sorted((directory / FOLDER).glob(f"*{SUFFIX}")):
        node = one_line(path.name.removesuffix(SUFFIX))
        try:
            facts = msgspec.convert(json.loads(path.read_text(encoding="utf-8")), _Facts)
        except (OSError, ValueError, RecursionError) as error:
            wrong.append(f"{node}'s facts are unreadable: {one_line(str(error))[:100]}")
            continue
        nodes[node] = {
            one_line(fact): {
                one_line(at): one_line(value) if isinstance(value, str) else value
                for at, value in rows.items()
            }
            for fact, rows in facts.items()
        }
    return nodes, wrong


def job_nodes(directory: Path) -> tuple[str, ...]:
    """Names of the job's nodes (:data:`WRITE_NODES`); empty where Slurm did not say them."""
    path = directory / NODES_FILE
    return tuple(one_line(path.read_text(errors="replace")).split()) if path.exists() else ()


def of_job(nodes: Mapping[str, NodeFacts], there: Sequence[str]) -> dict[str, NodeFacts]:
    """What the job's own nodes answered: no scheduler knows another name,
    to leave that node out, and none counts twice.
    """
    return {name: facts for name, facts in nodes.items() if not there or name in there}


def find_missing(nodes: Mapping[str, Any], there: Sequence[str], expected: int) -> list[str]:
    """Sentences unless exactly the nodes of a job answered.

    :param there: names of the job's nodes; empty where the scheduler does not say them.
    """
    silent = [name for name in there if name not in nodes]
    strangers = [name for name in nodes if name not in there] if there else []
    sentences = []
    if silent or len(nodes) < expected:
        who = f"; silent: {few(silent, FEW)}" if silent else ""
        sentences.append(
            f"{len(nodes) - len(strangers)} of {max(expected, len(there))} nodes answered{who}"
        )
    if strangers:
        sentences.append(
            f"{few(strangers, FEW)} answered, but are not nodes of the job ({few(there, FEW)})"
        )
    return sentences


def count_states(states: Iterable[Iterable[str]]) -> dict[str, int]:
    """Nodes that are not idle alone, by their states (``scontrol show
    nodes``) in lower case, the most frequent first.

    :param states: of each node, such as ``{"IDLE", "DRAIN"}``.
    """
    named = ("+".join(sorted(state.lower() for state in node)) or "unknown" for node in states)
    return dict(Counter(name for name in named if name != "idle").most_common())


def describe_others(counts: Mapping[str, int]) -> tuple[str, ...]:
    """Sentence on nodes that were not looked at (:func:`count_states`); none where all were."""
    if not counts:
        return ()
    total = sum(counts.values())
    states = ", ".join(f"{count} {name}" for name, count in counts.items())
    return (
        f"{total} {'node was' if total == 1 else 'nodes were'} not idle and not checked: {states}",
    )


@dataclass(frozen=True)
class OutOfService:
    """A node that no job gets.

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


def _is_among(node: SchedulerNode, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(node.name, pattern) for pattern in patterns)


def _describe(node: SchedulerNode, reason: str, missed: bool) -> OutOfService:
    states = "+".join(sorted(state.lower() for state in node.states))
    return OutOfService(one_line(node.name), states, one_line(reason)[:100], missed)


def find_out_of_service(
    nodes: Iterable[SchedulerNode], patterns: Sequence[str]
) -> list[OutOfService]:
    """Those of a partition's nodes that are out of service, by name.

    :param patterns: of the nodes that the site says must be in service.
    """
    out_of_service = []
    for node in nodes:
        states = [state.lower() for state in node.states]
        if any("*" in state or state.rstrip(_FLAGS) in _OUT for state in states):
            why = _REASON.search(node.descr)
            out_of_service.append(
                _describe(node, why["why"] if why else "", _is_among(node, patterns))
            )
    return sorted(out_of_service, key=lambda node: node.node)


def find_reserved(
    everything: Iterable[SchedulerNode],
    choose: Callable[[set[Any]], Iterable[SchedulerNode]],
    nodes: Iterable[SchedulerNode],
    patterns: Sequence[str],
) -> list[OutOfService]:
    """Nodes that must be in service and are reserved for others: ReFrame
    4.10 drops those before it looks at anything else.

    :param everything: all nodes that the scheduler knows, as ReFrame makes
        them of a line of ``scontrol -o show nodes``.
    :param choose: those of some nodes that the job's options leave
        (``JobScheduler.filternodes``): partition, constraint, ...
    :param nodes: those that it chose from all.
    """
    reserved = {node.name: node for node in everything if "RESERVED" in node.states}
    unreserved = {type(node)(_RESERVED.sub("IDLE", node.descr)) for node in reserved.values()}
    there = {node.name for node in nodes}
    hidden = sorted(
        node.name
        for node in choose(unreserved)
        if node.name not in there and _is_among(node, patterns)
    )
    return [_describe(reserved[name], "", True) for name in hidden]


def find_absent(names: Iterable[str], patterns: Sequence[str]) -> list[str]:
    """Sentence on patterns that no node of the partition has; none where each has one."""
    known = list(names)
    absent = [
        pattern for pattern in patterns if not any(fnmatchcase(name, pattern) for name in known)
    ]
    return (
        [
            f"{IN_SERVICE} in {SITE_FILES} names {', '.join(absent)}, but the partition has no "
            "such node"
        ]
        if absent
        else []
    )


def missed(gone: Sequence[OutOfService]) -> list[str]:
    """Sentence on nodes that must be in service; none where all are."""
    names = [node for node in gone if node.missed]
    return [f"not checked, although they must be in service: {few(names, FEW)}"] if names else []


def others(gone: Sequence[OutOfService]) -> list[str]:
    """Sentence on the other nodes out of service; none without any."""
    names = [node for node in gone if not node.missed]
    return [f"not checked, because they are out of service: {few(names, FEW)}"] if names else []


def read_out_of_service(rows: object) -> list[OutOfService]:
    try:
        return msgspec.convert(rows, list[OutOfService])
    except msgspec.ValidationError:
        return []

"""What the nodes of a job answered, and which did not: only what came whole, once, and from a node of the job counts."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

import msgspec

from ...printable import one_line
from .node_facts import MARK, checksum

#: Facts of one node: fact to instance (empty: the node as a whole) to value.
NodeFacts = Mapping[str, Mapping[str, Any]]
#: Before the names of the job's nodes, which the job asks Slurm for while it has them all: while a job completes, ``sacct``,
#: which ReFrame asks, shows those nodes only that have not done so yet (Slurm 22.05: ``c1`` of a job on ``c[1-2]``).
NODES_MARK = "mpibench-job-nodes "
#: Lines of a job script that print them (``scontrol(1)``, "show hostnames": those of ``SLURM_JOB_NODELIST``).
PRINT_NODES = f'echo "{NODES_MARK}$(scontrol show hostnames | paste -sd " ")"'
#: Begins the sentence on a job that was given up, or cancelled, while it waited for its nodes: Slurm makes no output for it.
NEVER_STARTED = "the job never started"
#: Why a partition is left out whose scheduler starts no task on each node by itself; the scheduler's name follows.
NO_LAUNCHER = "no launcher is known that starts one program a node with"
#: Nodes at most that a sentence names.
FEW = 8
#: Numbers that can be stored (SQLite and Parquet: 64 bits); not-a-number is none.
_BOUNDS = msgspec.Meta(ge=-(2**63), le=2**63 - 1)
_Value = str | Annotated[int, _BOUNDS] | Annotated[float, _BOUNDS]
#: A line of :func:`node_facts.lines` behind its mark: node, number of the line, of how many, characters that follow, checksum.
_LINE = re.compile(
    r"(?P<node>\S+) (?P<place>(?P<line>[0-9]{1,6})/(?P<lines>[0-9]{1,6})) "
    r"(?P<characters>[0-9]{1,6}) (?P<sum>[0-9a-f]{8}) (?P<part>.*)"
)


def listed(names: Sequence[str]) -> str:
    """Names of nodes, the first few of many."""
    return ", ".join(names[:FEW]) + (f" and {len(names) - FEW} more" if len(names) > FEW else "")


def parse(text: str) -> tuple[dict[str, NodeFacts], list[str]]:
    """Facts by node from what a job printed, and a sentence for all that cannot be used.

    Users choose names of processes, firmware those of cards: all texts come back without what a terminal would obey.
    """
    parts: dict[str, dict[int, str]] = {}
    counts: dict[str, int] = {}
    twice: dict[str, None] = {}
    damaged: dict[str, str] = {}
    wrong: list[str] = []
    for line in text.split("\n"):
        _, mark, rest = line.partition(MARK)
        if not mark:
            continue
        found = _LINE.fullmatch(rest.rstrip("\r"))
        node = one_line(found["node"]) if found else ""
        if not found or not node:
            wrong.append(f"a line of a node cannot be read, it is cut off or mixed with other output: {one_line(rest)[:60]!r}")
        elif not _is_whole(found) or counts.setdefault(node, int(found["lines"])) != int(found["lines"]):
            damaged.setdefault(node, one_line(rest)[:60])
            parts.setdefault(node, {})
        elif int(found["line"]) in parts.setdefault(node, {}):
            twice[node] = None
        else:
            parts[node][int(found["line"])] = found["part"]
    nodes: dict[str, NodeFacts] = {}
    for node, pieces in parts.items():
        if node in damaged:
            wrong.append(f"{node}'s facts cannot be read, they are cut off or mixed with other output: {damaged[node]!r}")
        elif sorted(pieces) != list(range(1, counts[node] + 1)):
            wrong.append(f"{node}'s facts cannot be read: {len(pieces)} of {counts[node]} lines are there")
        else:
            try:
                nodes[node] = _facts("".join(pieces[at] for at in sorted(pieces)))
            except (ValueError, RecursionError) as error:
                wrong.append(f"{node}'s facts cannot be read: {one_line(str(error))[:100]}")
    return nodes, wrong + [f"{node} answered twice; start one task on each node" for node in twice]


def _is_whole(line: re.Match[str]) -> bool:
    part = line["part"]
    return len(part) == int(line["characters"]) and checksum(line["node"], line["place"], part) == line["sum"]


def _facts(text: str) -> dict[str, dict[str, str | int | float]]:
    """:raises ValueError: it is not JSON, or not facts with instances and plain values."""
    content: dict[str, dict[str, Any]] = msgspec.convert(json.loads(text), dict[str, dict[str, _Value]])
    return {
        one_line(fact): {one_line(name): one_line(value) if isinstance(value, str) else value for name, value in values.items()}
        for fact, values in content.items()
    }


def job_nodes(text: str) -> tuple[str, ...]:
    """Names of the job's nodes from what it printed (:data:`PRINT_NODES`); empty where it did not say them."""
    lines = (line for line in text.split("\n") if line.startswith(NODES_MARK))
    return tuple(one_line(next(lines, "").removeprefix(NODES_MARK)).split())


def count_states(states: Iterable[Iterable[str]]) -> dict[str, int]:
    """Nodes that are not idle alone, by their states (``scontrol show nodes``) in lower case, the most frequent first.

    :param states: of each node, such as ``{"IDLE", "DRAIN"}``.
    """
    named = ("+".join(sorted(each.lower() for each in one)) or "unknown" for one in states)
    return dict(Counter(name for name in named if name != "idle").most_common())


def describe_others(counts: Mapping[str, int]) -> tuple[str, ...]:
    """Sentence on nodes that were not looked at; none where all were.

    :param counts: :func:`count_states`.
    """
    if not counts:
        return ()
    total = sum(counts.values())
    states = ", ".join(f"{count} {name}" for name, count in counts.items())
    return (f"{total} {'node was' if total == 1 else 'nodes were'} not idle and not looked at: {states}",)


def of_job(nodes: Mapping[str, NodeFacts], there: Sequence[str]) -> dict[str, NodeFacts]:
    """What the job's own nodes answered: no scheduler knows another name, to leave that node out, and none counts twice.

    :param there: as of :func:`find_missing`.
    """
    return {name: facts for name, facts in nodes.items() if not there or name in there}


def find_missing(nodes: Mapping[str, Any], there: Sequence[str], expected: int) -> list[str]:
    """Sentences unless each node of a job answered, and nobody else.

    :param nodes: those that answered.
    :param there: names of the job's nodes; empty where the scheduler does not say them.
    :param expected: number of nodes that were asked for.
    """
    silent = [name for name in there if name not in nodes]
    strangers = [name for name in nodes if name not in there] if there else []
    sentences = []
    if silent or len(nodes) < expected:
        who = f"; silent: {listed(silent)}" if silent else ""
        sentences.append(f"{len(nodes) - len(strangers)} of {max(expected, len(there))} nodes answered{who}")
    if strangers:
        sentences.append(f"{listed(strangers)} answered without being a node of the job ({listed(there)})")
    return sentences

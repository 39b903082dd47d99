"""Why a node does not pass, or could not be decided: an enumerated reason with numbers, and the one
place that makes sentences of them.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping

import msgspec

#: Verdicts on a node.
PASS = "PASS"
FAIL = "FAIL"
UNDECIDED = "UNDECIDED"
VERDICTS = (PASS, FAIL, UNDECIDED)
#: What is looked at, in the order in which reasons are told.
FACTS = "facts"
WIRE = "wire"
PAIRS = "pairs"
MEMORY = "memory"
CHECKS = (FACTS, WIRE, PAIRS, MEMORY)
#: The state that Slurm has a node in, which keeps it from being looked at.
SERVICE = "service"


class Why(str, enum.Enum):
    """Reasons, by their codes in ``--json``."""

    ODD_FACT = "odd-fact"
    MAP_ACCUSES = "map-accuses"
    BELOW_LEVEL = "below-level"
    SLOW_MEMORY = "slow-memory"
    NOT_THERE = "not-there"
    BUSY = "busy"
    DRAINED_BY_OTHERS = "drained-by-others"
    DRAINED_BY_VET = "drained-by-vet"
    RESERVED = "reserved"
    SOME_CORES = "some-cores"
    NOT_ALONE = "not-alone"
    JOB_ENDED = "job-ended"
    ALONE = "alone"
    SILENT = "silent"
    STOPPED = "stopped"
    NOT_MEASURED = "not-measured"
    NO_MAJORITY = "no-majority"
    SHARED_ADDRESS = "shared-address"
    PATH_ACCUSED = "path-accused"
    UNCLEAR_MAP = "unclear-map"
    ALL_BELOW_LEVEL = "all-below-level"
    FEW_FOR_MEMORY = "few-for-memory"


#: Reasons for which a node fails; all others leave it undecided.
FAILING = frozenset((Why.ODD_FACT, Why.MAP_ACCUSES, Why.BELOW_LEVEL, Why.SLOW_MEMORY))
#: Sentence of each reason, without the node.
_SENTENCES: Mapping[Why, str] = {
    Why.ODD_FACT: "{said}",
    Why.MAP_ACCUSES: "{said}",
    Why.BELOW_LEVEL: "{way} at {value:.0f} MB/s, {percent:.0f} % of {what}; at least {least:.0f} % "
    "are wanted",
    Why.SLOW_MEMORY: "its memory gives {value:.0f} MB/s at most, {percent:.0f} % of what the other "
    "nodes' gives, in each of {runs} runs",
    Why.NOT_THERE: "Slurm has it as {state}{because}",
    Why.BUSY: "others' jobs run on it ({state})",
    Why.DRAINED_BY_OTHERS: "drained{because}, and not by this command",
    Why.DRAINED_BY_VET: "drained by this command before{because}",
    Why.RESERVED: "reserved ({state})",
    Why.SOME_CORES: "this job has only some of its cores ({state})",
    Why.NOT_ALONE: "{other} runs on it, too",
    Why.JOB_ENDED: "job {job} ended before all was measured",
    Why.ALONE: "too few nodes to look at {check}: it takes others to exchange messages with",
    Why.STOPPED: "{said} while its {check} was measured: it may be lost, or the job that broke",
    Why.SILENT: "gave no answer when its {check} were asked for{because}",
    Why.NOT_MEASURED: "nothing was measured of its {check}{because}",
    Why.NO_MAJORITY: "nodes differ, and none has what most have: {said}",
    Why.SHARED_ADDRESS: "{said}",
    Why.PATH_ACCUSED: "something on the way to it is slow: {said}",
    Why.UNCLEAR_MAP: "the map cannot tell: {said}",
    Why.ALL_BELOW_LEVEL: "{way} at {percent:.0f} % of {what}, as most of the others: the fabric or "
    "all of these nodes",
    Why.FEW_FOR_MEMORY: "its memory gives {percent:.0f} % of what the other node's gives, and of "
    "{nodes} nodes none is the majority",
}
_AGAIN = "run it once more, and see the log if it is so again"
_MORE = "vet it together with nodes known to be good, {more} in all"
#: What would decide it.
_REMEDIES: Mapping[Why, str] = {
    Why.NOT_THERE: "bring it back to Slurm (its slurmd, its network), then vet it",
    Why.BUSY: "wait for its jobs, or drain it and wait",
    Why.DRAINED_BY_OTHERS: "ask who drained it; in a reservation of yours resume it and give "
    "--reservation",
    Why.DRAINED_BY_VET: "mpibench vet NODES --apply resume, which measures it in a reservation",
    Why.RESERVED: "--reservation NAME of a reservation that you may use",
    Why.SOME_CORES: "begin the job with --exclusive",
    Why.NOT_ALONE: "wait for its end, or leave the job",
    Why.JOB_ENDED: "begin a job that lasts longer, and vet it there",
    Why.ALONE: _MORE.format(more="three or more"),
    Why.SILENT: _AGAIN,
    Why.STOPPED: _AGAIN,
    Why.NOT_MEASURED: _AGAIN,
    Why.NO_MAJORITY: _MORE.format(more="three or more"),
    Why.SHARED_ADDRESS: "see 'ip neigh' on a third node for the one that answers",
    Why.PATH_ACCUSED: "see that way first, then vet the nodes beside it again",
    Why.UNCLEAR_MAP: _MORE.format(more="five or more"),
    Why.ALL_BELOW_LEVEL: "vet some of them together with nodes known to be good",
    Why.FEW_FOR_MEMORY: _MORE.format(more="three or more"),
}


class NodeReason(msgspec.Struct, frozen=True):
    """One reason of one node.

    :param check: one of :data:`CHECKS`, or :data:`SERVICE`.
    :param numbers: what its sentence needs: bandwidths in MB/s, shares in percent; ``said`` is what
        the tests, `locate` or Slurm say of it.
    """

    node: str
    check: str
    why: Why
    numbers: Mapping[str, float | int | str] = {}

    @property
    def fails(self) -> bool:
        return self.why in FAILING

    @property
    def text(self) -> str:
        """In one line, without the node."""
        said = self.numbers.get("said", "")
        because = f" ({said})" if said else ""
        named = {"check": self.check, "because": because, **self.numbers}
        text = _SENTENCES[self.why].format(**named)
        return text.removeprefix(f"{self.node}: ").removeprefix(f"{self.node} ")

    @property
    def remedy(self) -> str:
        """What would decide it; empty where it is decided."""
        return _REMEDIES.get(self.why, "")


class NodeVerdict(msgspec.Struct, frozen=True):
    """The verdict on one node, one of :data:`VERDICTS`, with all its reasons; the first is told."""

    node: str
    verdict: str
    reasons: tuple[NodeReason, ...] = ()


def fold(nodes: list[str], reasons: list[NodeReason]) -> list[NodeVerdict]:
    """The verdict on each node: what fails first, then what is undecided."""
    verdicts = []
    for node in nodes:
        own = [reason for reason in reasons if reason.node == node]
        own.sort(key=lambda reason: not reason.fails)
        word = PASS if not own else FAIL if own[0].fails else UNDECIDED
        verdicts.append(NodeVerdict(node, word, tuple(own)))
    return verdicts


def status(verdicts: list[NodeVerdict]) -> int:
    """Exit status: 1 a node fails; 3 none does, and not all could be decided; 0 all pass."""
    words = {verdict.verdict for verdict in verdicts}
    return 1 if FAIL in words else 0 if words == {PASS} else 3

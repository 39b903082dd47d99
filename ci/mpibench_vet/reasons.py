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


_AGAIN = "run it again; see the log if the result is the same"
_THREE = "vet it together with nodes known to be good, three or more in all"
_FIVE = "vet it together with nodes known to be good, five or more in all"


class Why(str, enum.Enum):
    """Reasons: code in ``--json``, sentence without the node, and what would decide it; none for
    those for which a node fails.
    """

    sentence: str
    remedy: str | None

    def __new__(cls, code: str, sentence: str, remedy: str | None = None) -> Why:
        member = str.__new__(cls, code)
        member._value_ = code
        member.sentence = sentence
        member.remedy = remedy
        return member

    ODD_FACT = ("odd-fact", "{said}")
    MAP_FLAGS = ("map-flags", "{said}")
    BELOW_LEVEL = (
        "below-level",
        "{way} at {value:.0f} MB/s, {percent:.0f} % of {what}; at least {least:.0f} % are required",
    )
    SLOW_MEMORY = (
        "slow-memory",
        "its memory reaches at most {value:.0f} MB/s, {percent:.0f} % of the other nodes', in each "
        "of {runs} runs",
    )
    NOT_THERE = (
        "not-there",
        "Slurm has it as {state}{because}",
        "restore it in Slurm (slurmd, network), then vet it",
    )
    BUSY = ("busy", "jobs of others run on it ({state})", "wait for its jobs, or drain it and wait")
    DRAINED_BY_OTHERS = (
        "drained-by-others",
        "drained{because}, but not by this command",
        "ask who drained it; or resume it in your own reservation and give --reservation",
    )
    DRAINED_BY_VET = (
        "drained-by-vet",
        "drained earlier by this command{because}",
        "measure it in a reservation with mpibench vet NODES --apply resume",
    )
    RESERVED = (
        "reserved",
        "reserved ({state})",
        "give --reservation NAME of a reservation that you may use",
    )
    SOME_CORES = (
        "some-cores",
        "this job has only some of its cores ({state})",
        "start the job with --exclusive",
    )
    NOT_ALONE = ("not-alone", "{other} runs on it, too", "wait until it ends, or leave the job")
    JOB_ENDED = (
        "job-ended",
        "job {job} ended before all was measured",
        "start a longer job and vet it there",
    )
    ALONE = (
        "alone",
        "too few nodes to check {check}: others must exchange messages with it",
        _THREE,
    )
    SILENT = ("silent", "did not respond when asked for its {check}{because}", _AGAIN)
    STOPPED = (
        "stopped",
        "{said} while its {check} was measured: the node may be lost, or only the job broke",
        _AGAIN,
    )
    NOT_MEASURED = ("not-measured", "its {check} could not be measured{because}", _AGAIN)
    NO_MAJORITY = ("no-majority", "nodes differ without a majority: {said}", _THREE)
    SHARED_ADDRESS = (
        "shared-address",
        "{said}",
        "see 'ip neigh' on a third node for the address that responds",
    )
    PATH_FLAGGED = (
        "path-flagged",
        "something on the path to it is slow: {said}",
        "repair that path first, then vet the nodes next to it again",
    )
    UNCLEAR_MAP = ("unclear-map", "the map cannot tell: {said}", _FIVE)
    ALL_BELOW_LEVEL = (
        "all-below-level",
        "{way} at {percent:.0f} % of {what}, like most others: the fabric, or all of these nodes",
        "vet some of them together with nodes known to be good",
    )
    FEW_FOR_MEMORY = (
        "few-for-memory",
        "its memory reaches {percent:.0f} % of the other node's; {nodes} nodes have no majority",
        _THREE,
    )


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
        return self.why.remedy is None

    @property
    def text(self) -> str:
        """In one line, without the node."""
        said = self.numbers.get("said", "")
        because = f" ({said})" if said else ""
        named = {"check": self.check, "because": because, **self.numbers}
        text = self.why.sentence.format(**named)
        return text.removeprefix(f"{self.node}: ").removeprefix(f"{self.node} ")

    @property
    def remedy(self) -> str:
        """What would decide it; empty if it is decided."""
        return self.why.remedy or ""


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

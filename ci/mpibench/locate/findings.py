"""The answer for a map or for ordinary sessions: what is flagged, as sentences, JSON, JUnit and
Slurm commands.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any
from xml.etree import ElementTree

import numpy as np

from reframe_tests.harness.instruments.pairs.pair_values import MEAN
from reframe_tests.harness.machine.switch_paths import kind_of, node_of
from reframe_tests.harness.printable import one_line, plain_data
from reframe_tests.harness.vocabulary import LOWER, QUANTITIES

from .maps import (
    BOTH,
    LINK,
    NODE,
    PAIR,
    RECEIVES,
    SENDS,
    SWITCH,
    UPLINK,
    Observations,
    Places,
    Suspect,
)
from .search import ALL, Residuals

#: Kinds whose directions are two names; a node, an uplink and a switch are one thing in both.
FLIPPED = (LINK, PAIR)
#: What to look at first where all measurements are slow, by kind,
#: direction and whether it is a latency.
_CAUSES: Mapping[tuple[str, str, bool], str] = {
    (NODE, SENDS, False): "its transmit side (cable, port, driver)",
    (NODE, RECEIVES, False): "its receive side (cable, the switch's port, interrupts)",
    (NODE, BOTH, False): "the node or its cable (link rate, PCIe, MTU, CPU)",
    (NODE, BOTH, True): "its CPU frequency or its NIC's interrupt settings",
    (LINK, SENDS, False): "the uplink",
    (LINK, BOTH, False): "the uplink",
    (LINK, BOTH, True): "the way between them",
    (UPLINK, SENDS, False): "its uplink, upwards",
    (UPLINK, RECEIVES, False): "its uplink, downwards",
    (UPLINK, BOTH, False): "its uplink",
    (UPLINK, BOTH, True): "its uplink",
    **{
        (SWITCH, way, late): "the switch itself"
        for way in (SENDS, RECEIVES, BOTH)
        for late in (False, True)
    },
    (PAIR, SENDS, False): "a route or one of several parallel cables",
    (PAIR, BOTH, False): "a route or one of several parallel cables",
    (PAIR, BOTH, True): "a route between them",
}
_OF_GPUS = "the GPUs' links (NVLink, xGMI, PCIe) or the switch between them"
#: Names of nodes that Slurm takes as one node and no shell takes for anything else.
NODE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
#: Characters of a reason that a shell, Slurm's parser and a terminal
#: all take as they are; and so many at most.
_REASON = re.compile(r"[^A-Za-z0-9 .,:;%()/_+-]")
_LONGEST = 160


@dataclass(frozen=True)
class Direction:
    """One detection in words of the machine.

    :param times: how many times as long it takes as others of its class, or by how much its
        bandwidth is divided; median of what it is flagged by. ``low``, ``high``: its interval.
    :param added_us: of a latency, what it takes longer, in microseconds.
    :param value: median of the values themselves, in the quantity's unit.
    :param slow: observations beyond the threshold, of ``count``;
        ``partners``: nodes at the other end.
    :param pairs: pairs of nodes it was observed in; ``moments``: how
        many had slow ones, of ``all_moments``.
    :param alike: others that show in just the same observations.
    """

    suspect: Suspect
    extent: str
    times: float
    low: float
    high: float
    added_us: float | None
    value: float
    slow: int
    count: int
    partners: int
    pairs: int
    moments: int
    all_moments: int
    probability: float
    threshold: float
    alike: tuple[Suspect, ...]


@dataclass(frozen=True)
class Flagged:
    """One thing that is flagged by one quantity, in all its directions.

    :param directions: sending before receiving.
    :param said: its sentence, where it is not the usual one.
    """

    quantity: str
    kind: str
    names: tuple[str, ...]
    level: int
    directions: tuple[Direction, ...]
    said: str = ""

    @property
    def thing(self) -> tuple[str, tuple[str, ...], int]:
        return self.kind, self.names, self.level

    @property
    def is_late(self) -> bool:
        """Whether it takes longer, and not less goes through."""
        return QUANTITIES[self.quantity].direction == LOWER

    @property
    def is_two_way(self) -> bool:
        """Whether both directions of a link or pair are flagged."""
        return self.kind in FLIPPED and len(self.directions) > 1

    @property
    def way(self) -> str:
        """Its direction, or :data:`BOTH`."""
        ways = {direction.suspect.way for direction in self.directions}
        return ways.pop() if len(ways) == 1 and not self.is_two_way else BOTH

    @property
    def worst(self) -> Direction:
        """The direction that loses most."""
        return max(self.directions, key=lambda one: one.times)

    @property
    def extent(self) -> str:
        """``all`` if any direction is slow throughout."""
        return (
            ALL
            if any(direction.extent == ALL for direction in self.directions)
            else self.directions[0].extent
        )

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes that are flagged: itself if it is one and nothing
        else shows in the same observations.
        """
        return (
            self.names
            if self.kind == NODE and not any(direction.alike for direction in self.directions)
            else ()
        )

    def text(self, line_rate: float | None = None) -> str:
        """A sentence without a full stop: who, how slow, to whom, what is
        normal about it, and what that points to.

        :param line_rate: of a link of a node, in MB/s; bandwidths are then held against it.
        """
        if self.said:
            return self.said
        what = self._node_text(line_rate) if self.kind == NODE else self._way_text(line_rate)
        if self.quantity == MEAN and self.kind == NODE:
            cause = "it stalls now and then: a CPU quota, other programs, or interrupts"
        elif self.extent == ALL:
            cause = (
                _OF_GPUS
                if kind_of(self.names) == "GPUs"
                else _CAUSES[self.kind, self.way, self.is_late]
            )
        elif self.kind in (NODE, PAIR):
            cause = "intermittent: a cable, a port, or another program"
        else:
            cause = "one of several parallel cables, or other traffic"
        # The way between two switches is a part of what either has upwards, and
        # an uplink by how many share it is the same.
        own = {(UPLINK, (name,)) for name in self.names if self.kind == LINK} | {
            (self.kind, self.names)
        }
        alike = [
            other
            for direction in self.directions
            for other in direction.alike
            if (other.kind, other.names) not in own
        ]
        names = list(dict.fromkeys(other.text for other in alike))
        rest = f"; these pairs cannot distinguish it from {', '.join(names[:3])}" if names else ""
        return f"{what}: {cause}{rest}"

    def _way_text(self, line_rate: float | None) -> str:
        """Of what joins nodes, and of pairs."""
        worst = self.worst
        late = self.is_late
        both = self.is_two_way or self.is_late
        loss = self._loss(worst, line_rate)
        names = self.names if self.is_two_way else worst.suspect.names
        if self.kind == PAIR:
            return (
                f"{names[0]} {'and' if both else 'to'} {names[1]}: {loss} in {worst.slow} of "
                f"{worst.count} measurements"
            )
        if self.kind == LINK:
            where = f"across {'-'.join(self.names)}" if both else f"from {names[0]} to {names[1]}"
        elif self.kind == UPLINK:
            where = {SENDS: "out of {}", RECEIVES: "into {}", BOTH: "across the uplink of {}"}[
                self.way
            ].format(names[0])
        else:
            where = {SENDS: "that {} sends", RECEIVES: "that {} receives", BOTH: "with {}"}[
                self.way
            ].format(names[0])
            where += ", also below it,"
        if worst.suspect.load:
            where += f" with {worst.suspect.load} or more at once"
        if self.extent == ALL:
            return f"all {worst.pairs} pairs {where} {'have' if late else 'at'} {loss}"
        rounds = f"in {worst.moments} of {worst.all_moments} rounds, {'have' if late else 'at'}"
        return f"{worst.slow} of {worst.count} measurements {where}, {rounds} {loss}"

    def _node_text(self, line_rate: float | None) -> str:
        node = self.names[0]
        worst = self.worst
        if self.is_late and worst.extent == ALL:
            count = (
                f"all {worst.pairs} pairs"
                if worst.slow == worst.count
                else f"{worst.slow} of {worst.count} measurements"
            )
            return f"{node}: {self._loss(worst, None)} in {count}"
        rows = []
        for worst in self.directions:
            verb, to = {
                SENDS: ("sends", "to"),
                RECEIVES: ("receives", "from"),
                BOTH: ("communicates", "with"),
            }[worst.suspect.way]
            loss = self._loss(worst, line_rate)
            if self.extent != ALL:
                where = f"in {worst.slow} of {worst.count} measurements ({worst.moments} rounds)"
                rows.append(f"{where} {loss}" if self.is_late else f"{verb} {where} at {loss}")
                continue
            partners = f"{worst.partners} partners" if worst.partners > 1 else "its partner"
            if worst.slow < worst.count:
                partners += f" in {worst.slow} of {worst.count} measurements"
            elif worst.partners > 1:
                partners = f"all {partners}"
            rows.append(f"{verb} at {loss} {to} {partners}")
        if self.extent != ALL:
            return f"{node} {', '.join(rows)}, otherwise normally"
        other = {SENDS: ", receives normally", RECEIVES: ", sends normally"}.get(self.way, "")
        return f"{node} {' and '.join(rows)}{other}"

    def _loss(self, one: Direction, line_rate: float | None) -> str:
        if self.is_late:
            added = one.added_us or 0.0
            return (
                f"{added:{'.0f' if added >= 10 else '.2g'}} us more "
                f"{QUANTITIES[self.quantity].title}"
            )
        if line_rate:
            return f"{100 * one.value / line_rate:.0f} % of line rate"
        return f"{100 / one.times:.0f} % of what others reach"


@dataclass(frozen=True)
class QuantityFindings:
    """What one quantity shows.

    :param floor: of a node that is slow in all of its pairs, the smallest loss (as a factor of
        time) that would have been flagged; ``None``: none would have been.
    """

    seen: Observations
    residuals: Residuals
    places: Places
    findings: tuple[Flagged, ...]
    tests: int
    rate: float
    floor: float | None

    def as_data(self) -> dict[str, Any]:
        sign = 1 if QUANTITIES[self.seen.quantity].direction == LOWER else -1
        return {
            "quantity": self.seen.quantity,
            "observations": len(self.seen),
            "rounds": len(np.unique(self.seen.moment)),
            "tests": self.tests,
            "false_positives_per_run_at_most": self.rate,
            "noise_percent": 100 * math.expm1(self.residuals.spread),
            "smallest_loss_flagged_times": self.floor,
            "levels": [
                {**asdict(level), "value": math.exp(sign * level.slowness)}
                for level in self.residuals.levels
            ],
        }


@dataclass(frozen=True)
class MapJudgement:
    """The whole answer for one map.

    :param findings: what is flagged, the worst first.
    :param inconclusive: sentences on what could not be decided: with
        these nobody can be called healthy.
    :param notes: sentences for the reader.
    :param evident: node to a sentence on what is wrong with it whatever its times are: it stopped
        answering, its link is set otherwise than all others.
    :param facts: of flagged nodes, sentences on what else is unlike others.
    :param title: condition it was measured under.
    :param line_rate_mb_per_s: of a node's link; ``None``: not known.
    :param wires: commands that measure the links of the flagged without MPI.
    :param session: of a stored map the session that measured it; ``started``: when that began.
    """

    parts: tuple[QuantityFindings, ...]
    places: Places
    findings: tuple[Flagged, ...]
    inconclusive: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    evident: Mapping[str, str] = field(default_factory=dict)
    facts: Mapping[str, Sequence[str]] = field(default_factory=dict)
    title: str = ""
    line_rate_mb_per_s: float | None = None
    wires: tuple[str, ...] = ()
    session: str = ""
    started: datetime | None = None
    stack: str = ""
    fabric: str = ""

    @property
    def nodes(self) -> tuple[str, ...]:
        """All nodes that were measured."""
        return tuple(dict.fromkeys(node for part in self.parts for node in part.seen.nodes))

    @property
    def flagged(self) -> tuple[str, ...]:
        """Nodes that are flagged, the worst first."""
        return tuple(
            dict.fromkeys(
                [*self.evident, *(node for finding in self.findings for node in finding.nodes)]
            )
        )

    @property
    def status(self) -> int:
        """Exit status: 1 something is flagged; 3 nothing is; some could not be decided; else 0."""
        return 1 if self.findings or self.evident else 3 if self.inconclusive else 0

    @property
    def headline(self) -> str:
        """In one line."""
        # A node that two quantities flag counts once.
        count = len(
            {(NODE, (node,)) for node in self.evident}
            | {(finding.kind, finding.names) for finding in self.findings}
        )
        flagged = {0: "nothing", 1: "1 suspect"}.get(count, f"{count} suspects")
        but = "; some could not be decided" if self.inconclusive and not count else ""
        among = f"{len(self.nodes)} {kind_of(self.nodes)}"
        return (
            f"{flagged} flagged among {among}{but} (false positives expected per run: at most "
            f"{self.rate:g})"
        )

    @property
    def rate(self) -> float:
        """False positives per run, expected at most."""
        return sum(part.rate for part in self.parts)

    def say(self, finding: Flagged) -> str:
        """A finding as a sentence, with what is known of its nodes beside."""
        facts = [fact for node in finding.nodes for fact in self.facts.get(node, ())]
        return "; ".join([finding.text(self.line_rate_mb_per_s), *facts])

    @property
    def remarks(self) -> list[str]:
        """How slow a node had to be to be flagged, a sentence for each quantity; then the notes."""
        rows = []
        for part in self.parts:
            if part.floor is not None:
                late = QUANTITIES[part.seen.quantity].direction == LOWER
                loss = (
                    f"{100 * (part.floor - 1):.0f} % more"
                    if late
                    else f"{100 * (1 - 1 / part.floor):.0f} % less"
                )
                noise = 100 * math.expm1(part.residuals.spread)
                shown = f"(noise here: {noise:{'.0f' if noise >= 10 else '.2g'}} %)"
                rows.append(
                    f"a node with {loss} {part.seen.title} in every measurement would be flagged "
                    f"{shown}"
                )
        return [*rows, *self.notes]

    def drain(self, session: str) -> list[str]:
        """A command for each flagged node, to print but never to run; Slurm cannot drain a switch
        or cable.
        """
        reasons: dict[str, str] = {}
        flagged = ((node, self.say(finding)) for finding in self.findings for node in finding.nodes)
        for name, why in (*self.evident.items(), *flagged):
            reasons.setdefault(node_of(name), why)
        rows = []
        for node, why in reasons.items():
            if NODE_NAME.fullmatch(node):
                reason = _REASON.sub("_", one_line(f"mpibench {session[:8]}: {why}"))[
                    :_LONGEST
                ].strip()
                rows.append(
                    f"scontrol update nodename={node} state=drain reason={shlex.quote(reason)}"
                )
            else:
                refused = "it is not a name that Slurm accepts as one node"
                rows.append(f"# no command for {shlex.quote(one_line(node))}: {refused}")
        return rows

    def lines(self, session: str, system: str) -> Iterator[str]:
        """For a terminal."""
        yield f"{system}, session {session[:8]}, {self.title}: {self.headline}"
        yield from (f"  {text}" for text in self.evident.values())
        yield from (f"  {self.say(finding)}" for finding in self.findings)
        yield from (f"  inconclusive: {text}" for text in self.inconclusive)
        yield from (f"  note: {text}" for text in self.remarks)
        commands = {
            "take them out of service": self.drain(session),
            "measure their links without MPI": self.wires,
        }
        for title, rows in commands.items():
            yield from [*([f"  to {title}:"] if rows else []), *(f"    {line}" for line in rows)]

    def as_data(self, session: str, system: str) -> dict[str, Any]:
        """Everything, for programs; what is unknown is ``None``."""
        data: dict[str, Any] = plain_data(
            {
                "title": self.title,
                "session": session,
                "system": system,
                "status": self.status,
                "nodes": list(self.nodes),
                "false_positives_per_run_at_most": self.rate,
                "switches": {"origin": self.places.origin or None, "guessed": self.places.guessed},
                "flagged_nodes": list(self.flagged),
                "evident": dict(self.evident),
                "findings": [
                    {
                        "sentence": self.say(finding),
                        "quantity": finding.quantity,
                        "kind": finding.kind,
                        "names": list(finding.names),
                        "way": finding.way,
                        "switch_level": finding.level,
                        "extent": finding.extent,
                        "flagged_nodes": list(finding.nodes),
                        "facts": [
                            sentence
                            for node in finding.nodes
                            for sentence in self.facts.get(node, ())
                        ],
                        "directions": [
                            {
                                **asdict(direction),
                                "suspect": direction.suspect._asdict(),
                                "alike": [other._asdict() for other in direction.alike],
                                "percent_of_others": 100 / direction.times,
                            }
                            for direction in finding.directions
                        ],
                    }
                    for finding in self.findings
                ],
                "inconclusive": list(self.inconclusive),
                "quantities": [part.as_data() for part in self.parts],
                "notes": list(self.notes),
            }
        )
        return data


def junit(answers: Sequence[MapJudgement], system: str) -> str:
    """A test suite for each map: a test case for each node, each other
    suspect that is flagged, and what is inconclusive.
    """
    root = ElementTree.Element("testsuites")
    for answer in answers:
        flagged = {node: [text] for node, text in answer.evident.items()}
        for finding in answer.findings:
            for name in finding.nodes or (" and ".join(finding.names),):
                flagged.setdefault(name, []).append(answer.say(finding))
        cases: list[tuple[str, str, str, Sequence[str]]] = [
            (name, "failure", "flagged", flagged.get(name, ()))
            for name in dict.fromkeys([*answer.nodes, *flagged])
        ]
        cases.append(("everything was decided", "error", "inconclusive", answer.inconclusive))
        suite = ElementTree.SubElement(
            root,
            "testsuite",
            name=one_line(f"mpibench locate {system}, {answer.title}"),
            failures=str(sum(bool(said) for *_, said in cases[:-1])),
            errors=str(int(bool(answer.inconclusive))),
            tests=str(len(cases)),
        )
        for name, element, kind, said in cases:
            case = ElementTree.SubElement(
                suite, "testcase", classname="locate", name=one_line(name)
            )
            if said:
                text = one_line("; ".join(said))
                ElementTree.SubElement(case, element, type=kind, message=text).text = text
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"

"""What is said of each finding: who, how slow, to whom, what is normal about it, and what that points to."""

from __future__ import annotations

import math
from collections.abc import Mapping

from reframe_tests.harness.instruments.pairs.pair_values import MEAN
from reframe_tests.harness.vocabulary import LOWER, QUANTITIES

from .effects import Accused, Direction
from .judgement import Localisation
from .search import ALL
from .suspects import BOTH, LINK, NODE, PAIR, RECEIVES, SENDS, SWITCH, UPLINK, Suspect

#: What to look at first, by kind, direction and whether it is a latency.
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
    (SWITCH, SENDS, False): "the switch itself",
    (SWITCH, RECEIVES, False): "the switch itself",
    (SWITCH, BOTH, False): "the switch itself",
    (SWITCH, BOTH, True): "the switch itself",
    (PAIR, SENDS, False): "a route or one of several parallel cables",
    (PAIR, BOTH, False): "a route or one of several parallel cables",
    (PAIR, BOTH, True): "a route between them",
}
#: Of a node that only the mean shows.
_NOW_AND_THEN = "it stands still now and then: a quota of its processor, other programs on it, or interrupts"
_NEVER_ALL = "intermittent: a cable, a port, or another program on it"
_ONE_OF_SEVERAL = "one of several parallel cables, or others' traffic"
_OTHER_WAY = {SENDS: "receives normally", RECEIVES: "sends normally"}


def percent(direction: Direction) -> float:
    """Share of what others reach."""
    return 100 / direction.times


def text(finding: Accused, line_rate_mb_per_s: float | None = None) -> str:
    """One finding as a sentence without a full stop.

    :param line_rate_mb_per_s: of a link of a node, in MB/s; bandwidths are then held against it.
    """
    if finding.said:
        return finding.said
    late = QUANTITIES[finding.quantity].direction == LOWER
    cause = _cause(finding, late)
    others = _alike(finding)
    return f"{_what(finding, late, line_rate_mb_per_s)}: {cause}{others}"


def _cause(finding: Accused, late: bool) -> str:
    if finding.quantity == MEAN and finding.kind == NODE:
        return _NOW_AND_THEN
    if finding.extent != ALL:
        return _NEVER_ALL if finding.kind in (NODE, PAIR) else _ONE_OF_SEVERAL
    way = BOTH if finding.is_two_way else finding.way
    return _CAUSES[finding.kind, way, late]


def _what(finding: Accused, late: bool, line_rate: float | None) -> str:
    one = finding.worst
    if finding.kind == NODE:
        return (
            f"{finding.names[0]}: {_longer(one, finding.quantity)}"
            if late and one.extent == ALL
            else _node(finding, late, line_rate)
        )
    if finding.kind == PAIR:
        joint = "and" if finding.is_two_way or late else "to"
        names = finding.names if finding.is_two_way else one.suspect.names
        return (
            f"{f' {joint} '.join(names)}: {_loss(one, finding.quantity, line_rate)} in {one.slow} of {one.count} measurements"
        )
    if finding.kind == LINK:
        names = one.suspect.names
        where = f"across {'-'.join(finding.names)}" if finding.is_two_way or late else f"from {names[0]} to {names[1]}"
    elif finding.kind == UPLINK:
        where = {SENDS: "out of {}", RECEIVES: "into {}", BOTH: "across the uplink of {}"}[finding.way].format(finding.names[0])
    else:
        where = {SENDS: "that {} sends", RECEIVES: "that {} receives", BOTH: "with {}"}[finding.way].format(finding.names[0])
        where += ", also below it,"
    if one.suspect.load:
        where += f" with {one.suspect.load} or more at once"
    if finding.extent == ALL:
        return f"all {one.pairs} pairs {where} {'have' if late else 'at'} {_loss(one, finding.quantity, line_rate)}"
    share = f"{one.slow} of {one.count} measurements {where}, in {one.moments} of {one.all_moments} rounds,"
    return f"{share} {'have' if late else 'at'} {_loss(one, finding.quantity, line_rate)}"


def _node(finding: Accused, late: bool, line_rate: float | None) -> str:
    name = finding.names[0]
    if finding.extent != ALL:
        rows = []
        for one in finding.directions:
            where = f"in {one.slow} of {one.count} measurements ({one.moments} rounds)"
            loss = _loss(one, finding.quantity, line_rate)
            rows.append(f"{where} {loss}" if late else f"{_verb(one)} {where} at {loss}")
        return f"{name} {', '.join(rows)}, otherwise normally"
    rows = [f"{_verb(one)} at {_loss(one, finding.quantity, line_rate)} {_to(one)}" for one in finding.directions]
    other = [f", {_OTHER_WAY[finding.way]}"] if finding.way in _OTHER_WAY else []
    return f"{name} {' and '.join(rows)}{''.join(other)}"


def _verb(one: Direction) -> str:
    return {SENDS: "sends", RECEIVES: "receives", BOTH: "communicates"}[one.suspect.way]


def _to(one: Direction) -> str:
    preposition = {SENDS: "to", RECEIVES: "from", BOTH: "with"}[one.suspect.way]
    partners = f"{one.partners} partners" if one.partners > 1 else "its partner"
    if one.slow == one.count:
        return f"{preposition} {'all ' if one.partners > 1 else ''}{partners}"
    return f"{preposition} {partners} in {one.slow} of {one.count} measurements"


def _loss(one: Direction, quantity: str, line_rate: float | None) -> str:
    late = QUANTITIES[quantity].direction == LOWER
    if late:
        return f"{_microseconds(one)} more {QUANTITIES[quantity].title}"
    if line_rate:
        return f"{100 * one.value / line_rate:.0f} % of line rate"
    return f"{percent(one):.0f} % of what others reach"


def _longer(one: Direction, quantity: str) -> str:
    count = f"all {one.pairs} pairs" if one.slow == one.count else f"{one.slow} of {one.count} measurements"
    return f"{_microseconds(one)} more {QUANTITIES[quantity].title} in {count}"


def _microseconds(one: Direction) -> str:
    added = one.added_us or 0.0
    return f"{added:.0f} us" if added >= 10 else f"{added:.2g} us"


def _alike(finding: Accused) -> str:
    alike = [one for direction in finding.directions for one in direction.alike]
    # The way between two switches is a part of what either has upwards.
    own = finding.names if finding.kind == LINK else ()
    # An uplink by how many share it is the same uplink.
    others = [one for one in alike if (one.kind, one.names) != (finding.kind, finding.names)]
    rows = list(dict.fromkeys(name(one) for one in others if not (one.kind == UPLINK and one.names[0] in own)))
    return f"; from these pairs it cannot be distinguished from {', '.join(rows[:3])}" if rows else ""


def name(suspect: Suspect) -> str:
    """A suspect in words."""
    one = suspect.names[0]
    way = {SENDS: "what {} sends", RECEIVES: "what {} receives", BOTH: "{}"}[suspect.way]
    if suspect.kind in (LINK, PAIR):
        return f"the way from {one} to {suspect.names[1]}"
    if suspect.kind == UPLINK:
        return f"the uplink of {one}"
    return way.format(f"the switch {one}" if suspect.kind == SWITCH else one)


def headline(answer: Localisation) -> str:
    """The answer in one line."""
    # A node that two quantities accuse is one.
    count = len({(NODE, (node,)) for node in answer.evident} | {(one.kind, one.names) for one in answer.findings})
    nodes, rate = len(answer.nodes), sum(part.rate for part in answer.parts)
    if count:
        accused = "1 suspect is" if count == 1 else f"{count} suspects are"
        return f"{accused} accused among {nodes} nodes (innocents expected per run: at most {rate:g})"
    but = ", and not all could be decided" if answer.inconclusive else ""
    return f"nobody is accused among {nodes} nodes{but} (innocents expected per run: at most {rate:g})"


def floors(answer: Localisation) -> list[str]:
    """How slow a node had to be to be accused, a sentence for each quantity."""
    rows = []
    for part in answer.parts:
        words = QUANTITIES[part.seen.quantity]
        if part.floor is not None:
            loss = (
                f"{100 * (part.floor - 1):.0f} % more"
                if words.direction == LOWER
                else f"{100 * (1 - 1 / part.floor):.0f} % less"
            )
            noise = 100 * (math.exp(part.residuals.spread) - 1)
            shown = f"{noise:.0f}" if noise >= 10 else f"{noise:.2g}"
            rows.append(f"a node with {loss} {words.title} in every measurement would be accused (noise here: {shown} %)")
    return rows

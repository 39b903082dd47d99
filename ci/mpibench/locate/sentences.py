"""What is said of each finding: who, how slow, to whom, what is normal about it, and what that points to."""

from __future__ import annotations

import math
from collections.abc import Mapping

from reframe_tests.harness.instruments.pairs.pair_values import MEAN
from reframe_tests.harness.vocabulary import LOWER, QUANTITIES

from .judgement import Answer, Direction, Finding
from .maps import BOTH, LINK, NODE, PAIR, RECEIVES, SENDS, SWITCH, UPLINK, Suspect
from .search import ALL

#: What to look at first where all measurements are slow, by kind, direction and whether it is a latency.
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
    **{(SWITCH, way, late): "the switch itself" for way in (SENDS, RECEIVES, BOTH) for late in (False, True)},
    (PAIR, SENDS, False): "a route or one of several parallel cables",
    (PAIR, BOTH, False): "a route or one of several parallel cables",
    (PAIR, BOTH, True): "a route between them",
}


def say(answer: Answer, finding: Finding) -> str:
    """A finding as a sentence, with what is known of its nodes beside."""
    beside = [fact for node in finding.nodes for fact in answer.facts.get(node, ())]
    return "; ".join([text(finding, answer.line_rate_mb_per_s), *beside])


def text(finding: Finding, line_rate_mb_per_s: float | None = None) -> str:
    """One finding as a sentence without a full stop.

    :param line_rate_mb_per_s: of a link of a node, in MB/s; bandwidths are then held against it.
    """
    return finding.said or f"{_what(finding, line_rate_mb_per_s)}: {_cause(finding)}{_alike(finding)}"


def _cause(finding: Finding) -> str:
    if finding.quantity == MEAN and finding.kind == NODE:
        return "it stands still now and then: a quota of its processor, other programs on it, or interrupts"
    if finding.extent == ALL:
        return _CAUSES[finding.kind, finding.way, finding.is_late]
    if finding.kind in (NODE, PAIR):
        return "intermittent: a cable, a port, or another program on it"
    return "one of several parallel cables, or others' traffic"


def _what(finding: Finding, line_rate: float | None) -> str:
    one, late, both = finding.worst, finding.is_late, finding.is_two_way or finding.is_late
    if finding.kind == NODE:
        return _node(finding, line_rate)
    loss = _loss(finding, one, line_rate)
    names = finding.names if finding.is_two_way else one.suspect.names
    if finding.kind == PAIR:
        return f"{names[0]} {'and' if both else 'to'} {names[1]}: {loss} in {one.slow} of {one.count} measurements"
    if finding.kind == LINK:
        where = f"across {'-'.join(finding.names)}" if both else f"from {names[0]} to {names[1]}"
    elif finding.kind == UPLINK:
        where = {SENDS: "out of {}", RECEIVES: "into {}", BOTH: "across the uplink of {}"}[finding.way].format(names[0])
    else:
        where = {SENDS: "that {} sends", RECEIVES: "that {} receives", BOTH: "with {}"}[finding.way].format(names[0])
        where += ", also below it,"
    if one.suspect.load:
        where += f" with {one.suspect.load} or more at once"
    if finding.extent == ALL:
        return f"all {one.pairs} pairs {where} {'have' if late else 'at'} {loss}"
    rounds = f"in {one.moments} of {one.all_moments} rounds, {'have' if late else 'at'}"
    return f"{one.slow} of {one.count} measurements {where}, {rounds} {loss}"


def _node(finding: Finding, line_rate: float | None) -> str:
    node, one = finding.names[0], finding.worst
    if finding.is_late and one.extent == ALL:
        count = f"all {one.pairs} pairs" if one.slow == one.count else f"{one.slow} of {one.count} measurements"
        return f"{node}: {_loss(finding, one, None)} in {count}"
    rows = []
    for one in finding.directions:
        verb, to = {SENDS: ("sends", "to"), RECEIVES: ("receives", "from"), BOTH: ("communicates", "with")}[one.suspect.way]
        loss = _loss(finding, one, line_rate)
        if finding.extent != ALL:
            where = f"in {one.slow} of {one.count} measurements ({one.moments} rounds)"
            rows.append(f"{where} {loss}" if finding.is_late else f"{verb} {where} at {loss}")
            continue
        partners = f"{one.partners} partners" if one.partners > 1 else "its partner"
        if one.slow < one.count:
            partners += f" in {one.slow} of {one.count} measurements"
        elif one.partners > 1:
            partners = f"all {partners}"
        rows.append(f"{verb} at {loss} {to} {partners}")
    if finding.extent != ALL:
        return f"{node} {', '.join(rows)}, otherwise normally"
    other = {SENDS: ", receives normally", RECEIVES: ", sends normally"}.get(finding.way, "")
    return f"{node} {' and '.join(rows)}{other}"


def _loss(finding: Finding, one: Direction, line_rate: float | None) -> str:
    if finding.is_late:
        added = one.added_us or 0.0
        return f"{added:{'.0f' if added >= 10 else '.2g'}} us more {QUANTITIES[finding.quantity].title}"
    if line_rate:
        return f"{100 * one.value / line_rate:.0f} % of line rate"
    return f"{100 / one.times:.0f} % of what others reach"


def _alike(finding: Finding) -> str:
    # The way between two switches is a part of what either has upwards, and an uplink by how many share it is the same uplink.
    own = {(UPLINK, (name,)) for name in finding.names if finding.kind == LINK} | {(finding.kind, finding.names)}
    alike = [one for direction in finding.directions for one in direction.alike if (one.kind, one.names) not in own]
    rows = list(dict.fromkeys(map(name, alike)))
    return f"; from these pairs it cannot be distinguished from {', '.join(rows[:3])}" if rows else ""


def name(suspect: Suspect) -> str:
    """A suspect in words."""
    one = suspect.names[0]
    if suspect.kind in (LINK, PAIR):
        return f"the way from {one} to {suspect.names[1]}"
    if suspect.kind == UPLINK:
        return f"the uplink of {one}"
    one = f"the switch {one}" if suspect.kind == SWITCH else one
    return one if suspect.way == BOTH else f"what {one} {suspect.way}"


def headline(answer: Answer) -> str:
    """The answer in one line."""
    # A node that two quantities accuse is one.
    count = len({(NODE, (node,)) for node in answer.evident} | {(one.kind, one.names) for one in answer.findings})
    accused = {0: "nobody is", 1: "1 suspect is"}.get(count, f"{count} suspects are")
    but = ", and not all could be decided" if answer.inconclusive and not count else ""
    rate = sum(part.rate for part in answer.parts)
    return f"{accused} accused among {len(answer.nodes)} nodes{but} (innocents expected per run: at most {rate:g})"


def floors(answer: Answer) -> list[str]:
    """How slow a node had to be to be accused, a sentence for each quantity."""
    rows = []
    for part in answer.parts:
        if part.floor is not None:
            late = QUANTITIES[part.seen.quantity].direction == LOWER
            loss = f"{100 * (part.floor - 1):.0f} % more" if late else f"{100 * (1 - 1 / part.floor):.0f} % less"
            noise = 100 * (math.exp(part.residuals.spread) - 1)
            shown = f"{noise:{'.0f' if noise >= 10 else '.2g'}}"
            rows.append(f"a node with {loss} {part.seen.title} in every measurement would be accused (noise here: {shown} %)")
    return rows

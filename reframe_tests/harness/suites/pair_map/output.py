"""Summary of a pair map's output, which must be whole: what the median pair and the slowest have."""

from __future__ import annotations

import math
from statistics import median

from ...pairs import output as map_output
from ...pairs.pair_values import BANDWIDTH, LATENCY
from ...vocabulary import BadInput
from ..model import Said
from ..records import OutputError, Record
from . import rows


def parse(text: str, source: str) -> list[Record]:
    """Records of one output: latency, then bandwidth.

    :raises OutputError: if it is damaged, mixed up, cut off or empty, or a pair has no value.
    """
    try:
        found = map_output.read(text, source)
    except BadInput as error:
        raise OutputError(str(error)) from None
    if not found.whole:
        raise OutputError(f"{source}: the pair map was cut off after {len(found.values)} values; run it again.")
    if found.silent:
        named = ", ".join(f"{node} ({why})" for node, why in found.silent.items())
        raise OutputError(f"{source}: nodes stopped answering: {named}; see to them, and run it again.")
    lacking = [f"{one.source} to {one.target}" for one in found.values if one.value is None]
    if lacking:
        raise OutputError(f"{source}: {len(lacking)} values of pairs are missing, the first from {lacking[0]}; run it again.")
    return [_record(found, LATENCY), _record(found, BANDWIDTH)]


def _record(found: map_output.MapOutput, quantity: str) -> Record:
    pairs: dict[tuple[str, str], list[float]] = {}
    for one in found.values:
        if one.quantity == quantity and one.value is not None:
            pairs.setdefault((one.source, one.target), []).append(one.value)
    ordered = sorted(median(values) for values in pairs.values())
    values = sum(map(len, pairs.values()))
    size = next(one.message_bytes for one in found.values if one.quantity == quantity)
    if quantity == LATENCY:
        # Of each value both ranks send.
        sent, name = 2 * values * found.latency_count, rows.LATENCY
        summary = {f"latency_p{percent}_us": _percentile(ordered, percent) for percent in (50, 90, 99)}
    else:
        sent, name = values * found.message_count, rows.BANDWIDTH
        summary = {"bandwidth_p50_mb_per_s": _percentile(ordered, 50), "bandwidth_slowest_mb_per_s": ordered[0]}
    # Rounded down: it is the least that was sent.
    return Record(rows.NAME, name, len(found.nodes), 1, size, max(1, sent // len(found.nodes)), summary)


def _percentile(ordered: list[float], percent: int) -> float:
    """The nearest-rank percentile."""
    return ordered[max(0, math.ceil(percent / 100 * len(ordered)) - 1)]


def said(text: str) -> Said:
    """Design and rounds, and where the ranks were.

    :param text: an output that :func:`parse` reads.
    """
    found = map_output.read(text, "the output")
    switches = f"switches from {found.tree.origin}" if found.tree else "the switches are not known"
    took = f" in {found.seconds:.0f} s" if found.seconds is not None else ""
    note = f"{len(found.values)} values of pairs ({found.design}) in {found.rounds} rounds{took}; {switches}"
    return Said((note,), dict(enumerate(found.nodes)))

"""Strict reader of ``instrument.py``: a head of three lines, two rows of the victims, one of the load, then a checksum."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..instrument_table import InstrumentTable, columns, wrong
from ..records import OutputError, Record
from . import rows

TITLE = "# MPI latency under load, format 1"
_TABLE = InstrumentTable(
    "latency under load",
    (
        re.compile(re.escape(TITLE)),
        re.compile(
            r"# ([1-9][0-9]{0,8}) ranks, ([1-9][0-9]{0,8}) a node, the first of each a victim, windows of 16 messages both ways"
        ),
        columns("#", "benchmark", "state", "bytes", "repetitions", "mean[us]", "p50[us]", "p90[us]", "p99[us]"),
    ),
)
_NUMBER = r" +([0-9]{1,12}\.[0-9]{3})"
_VICTIM = re.compile(rf"{rows.VICTIM} +({rows.ALONE}|{rows.LOADED}) +{rows.PING} +([1-9][0-9]{{0,8}})" + _NUMBER * 4)
_LOAD = re.compile(rf"{rows.LOAD} +{rows.LOADED} +{rows.STREAM} +([1-9][0-9]{{0,8}}){_NUMBER} MB/s")


def parse(text: str, source: str) -> list[Record]:
    """Records of one output, in printed order, and then how many times longer the victims took beside the streams.

    :raises OutputError: if it is damaged, mixed up, cut off or empty, or a percentile is below a smaller one.
    """
    records = _TABLE.read(text, source, _record)
    if [(record.benchmark, record.variant) for record in records] != [
        *((rows.VICTIM, rows.ALONE), (rows.VICTIM, rows.LOADED), (rows.LOAD, "")),
    ]:
        raise OutputError(f"{source}: the rows are not those of latency alone, latency under load and load; run it again.")
    alone, loaded, _ = (record.values for record in records)
    ratios = {"impact": "latency_us", "impact_p99": "latency_p99_us"}
    values = {name: loaded[of] / alone[of] for name, of in ratios.items()}
    return [*records, Record(rows.NAME, rows.IMPACT, records[0].ranks, 1, rows.PING, None, values)]


def _record(source: str, number: int, line: str, head: Sequence[re.Match[str]]) -> Record:
    ranks = int(head[1][1])
    if load := _LOAD.fullmatch(line):
        values = {"bandwidth_mb_per_s": float(load[2])}
        if not values["bandwidth_mb_per_s"]:
            raise wrong(source, number, "the streams carried nothing, so that the victims were alone all the time")
        return Record(rows.NAME, rows.LOAD, ranks, 1, rows.STREAM, int(load[1]), values)
    found = _VICTIM.fullmatch(line)
    if not found:
        raise _TABLE.refuse(source, number, line)
    times = dict(zip(rows.LATENCIES, map(float, found.groups()[2:]), strict=True))
    percentiles = list(times.values())[1:]
    if percentiles != sorted(percentiles) or not percentiles[0]:
        raise wrong(source, number, "a percentile is nothing or below a smaller one; the output is damaged")
    # Half of the times are the median or longer; 0.002 for the digits.
    if 2 * times["latency_us"] < percentiles[0] - 0.002 or not times["latency_us"]:
        raise wrong(source, number, "the mean is below half of the median; the output is damaged")
    return Record(rows.NAME, rows.VICTIM, ranks, 1, rows.PING, int(found[2]), times, found[1])

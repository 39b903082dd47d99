"""Intel Application Performance Snapshot's function summary, ``aps-report -f`` (User Guide, 'Function Summary for All Ranks').

A row per function with seconds, volume in MB (2^20 bytes, printed with two decimals) and calls of all ranks; sizes are the
mean, volume over calls. The chart does not say how many ranks there are, nor sizes of communicators. A function whose volume
rounds to nothing has no size. The line TOTAL shows whether rows were lost.
"""

from __future__ import annotations

import re

from reframe_tests.harness.vocabulary import BadInput

from . import columns
from .record import Calls, Given, Profile, agree, call_of, gathered, number

FORM = "Intel APS function summary"
_TITLE = re.compile(r"^\|?\s*Function summary for all ranks", re.MULTILINE | re.IGNORECASE)
MIB = 1 << 20
#: Volume below which the two printed decimals are no size, in MB.
LEAST_VOLUME_MB = 0.1
#: Seconds and megabytes of a row are rounded to that, at most.
ROUNDED = 0.005


def recognise(text: str) -> bool:
    """Whether the chart is there."""
    return _TITLE.search(text) is not None


def read(text: str, source: str, given: Given) -> Profile:
    """:raises BadInput: no such chart, rows that are missing, or nobody said how many ranks there are."""
    if given.ranks is None:
        raise BadInput(f"{source} ({FORM}) does not say how many ranks were profiled: give --ranks.")
    heads: list[str] = []
    rows: list[tuple[str, dict[str, str]]] = []
    total: dict[str, str] = {}
    first = len(text[: _TITLE.search(text).start()].splitlines())  # type: ignore[union-attr]
    for at, line in enumerate(text.splitlines()[first + 1 :], start=first + 2):
        where, bare = f"{source}, line {at}", line.strip(" |")
        if re.match(r"Function\s{2,}", bare):
            heads = columns.names(line)
        elif not heads or not bare or re.fullmatch(r"[-=]+", bare) or bare.startswith(("[", "Disclaimer")):
            continue
        elif bare.startswith("TOTAL"):
            total = columns.row(bare, heads, where)
            break
        else:
            rows.append((where, columns.row(bare, heads, where)))
    lacking = [name for name in ("Time(sec)", "Volume(MB)", "Calls") if name not in heads]
    if lacking:
        raise BadInput(f"{source} has no column {lacking[0]}, without which nothing can be predicted: use aps-report -f.")
    if not total:
        raise BadInput(f"{source} is cut off: the function summary ends with a line TOTAL; get the report again.")
    calls = [_calls(row, where) for where, row in rows]
    seconds, whole = sum(one.seconds or 0.0 for one in calls), number(total["Time(sec)"], "time", source)
    if abs(seconds - whole) > ROUNDED * (len(rows) + 1) + 1e-4 * whole:
        agree({"total time": whole, "the sum over functions": seconds}, source)
    agree(
        {"total calls": number(total["Calls"], "calls", source), "the sum over functions": sum(c.count for c in calls)},
        source,
        1e-5,
    )
    notes = ("sizes are the mean of each function (APS)", "APS's summary has no communicator sizes")
    wall = None if given.wall_s is None else given.wall_s * given.ranks
    return Profile(FORM, given.ranks, gathered(calls), wall, seconds, notes=notes)


def _calls(row: dict[str, str], where: str) -> Calls:
    count = int(number(row["Calls"], "calls", where, whole=True))
    volume = number(row["Volume(MB)"], "volume", where)
    size = volume * MIB / count if count and volume >= LEAST_VOLUME_MB else None
    return Calls(call_of(row["Function"]), size, count, number(row["Time(sec)"], "time", where))

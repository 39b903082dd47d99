"""A comparison in tables: who wins where and by how much first, then every benchmark under the heading of its condition.

There is one direction: "1.25 times faster", for times and bandwidths alike, of the side that is ahead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl
from polars import selectors
from rich.table import Table
from rich.text import Text

from reframe_tests.harness.printable import one_line

from ..results.quantity_text import nodes_text, size_text
from ..results.session_values import CONDITION, METRIC
from ..verdicts import sides as verdict_sides
from ..verdicts import text as verdict_text
from ..verdicts.pairing import TIE, UNKNOWN, Comparison
from .parts import number

#: Terminal columns where the output is not a terminal.
WIDTH = 160


def condition_text(row: Mapping[str, Any], subject: str) -> str:
    """The condition both sides share, without what is compared."""
    parts = {
        "stack": row["stack"],
        "partition": f"partition {row['partition']}",
        "fabric": row["fabric"],
        "nodes": nodes_text(row["nodes"]),
        "ppn": f"{row['ppn']} per node",
        "pinning": f"pinning {row['pinning']}",
    }
    return ", ".join(str(text) for name, text in parts.items() if name != subject)


def by_condition(rows: pl.DataFrame, subject: str) -> Iterator[tuple[str, pl.DataFrame]]:
    """Rows under the heading of their condition, in order."""
    for _, part in rows.group_by(CONDITION, maintain_order=True):
        yield condition_text(part.row(0, named=True), subject), part


def times_text(times: float) -> str:
    """How many times faster, for a reader."""
    return f"{times:.2f} times faster" if times < 10 else f"{times:.1f} times faster"


def mean_text(rows: pl.DataFrame, first: str, second: str) -> str:
    """Geometric mean over the curves of some rows; empty if none is known."""
    known = rows.filter(pl.col("slower").is_not_null())
    if not known.height:
        return ""
    mean = float(known.select((1 + pl.col("slower")).log().mean().exp()).item())
    return f"{second if mean <= 1 else first} {times_text(max(mean, 1 / mean))}"


def summary(comparison: Comparison) -> tuple[tuple[str, ...], list[list[str]]]:
    """Head and one row per band: curves won by either, ties, not compared, geometric mean, largest difference."""
    head = ("messages", *_sides(comparison), TIE, UNKNOWN, "geometric mean", "largest difference that is no tie")
    sides = comparison.first, comparison.second
    return head, [
        [str(band[0]), *_counts(part, comparison), mean_text(part, *sides), _largest(part, comparison)]
        for band, part in comparison.bands.group_by("band", maintain_order=True)
    ]


def _sides(comparison: Comparison) -> tuple[str, str]:
    return f"{comparison.first} wins", f"{comparison.second} wins"


def _counts(rows: pl.DataFrame, comparison: Comparison) -> list[str]:
    counted = [rows.filter(pl.col("winner") == one).height for one in (comparison.first, comparison.second, TIE, UNKNOWN)]
    return [f"{count} of {rows.height}" if place < 2 else str(count) for place, count in enumerate(counted)]


def _largest(rows: pl.DataFrame, comparison: Comparison) -> str:
    won = rows.filter(~pl.col("winner").is_in([TIE, UNKNOWN])).sort("times", descending=True)
    if not won.height:
        return ""
    row = won.row(0, named=True)
    where = condition_text(row, comparison.subject)
    return f"{row['winner']} {times_text(row['times'])}: {verdict_text.benchmark_text(row)}, {where}"


def where(comparison: Comparison) -> tuple[tuple[str, ...], list[list[str]]]:
    """Head and one row per condition: curves won by either, ties, not compared, geometric mean of each band."""
    bands = list(dict.fromkeys(comparison.bands["band"]))
    head = ("condition", *_sides(comparison), TIE, UNKNOWN, *(f"{band} messages" for band in bands))
    sides = comparison.first, comparison.second
    return head, [
        [heading, *_counts(part, comparison), *(mean_text(part.filter(pl.col("band") == band), *sides) for band in bands)]
        for heading, part in by_condition(comparison.bands, comparison.subject)
    ]


def every_pair(compared: Sequence[Comparison | str]) -> Iterator[Table | Text]:
    """Of each pair of stacks: what it differs in, who is how many times faster in each band; then what was not compared."""
    pairs = [one for one in compared if not isinstance(one, str)]
    bands = list(dict.fromkeys(band for one in pairs for band in one.bands["band"]))
    rows = []
    for one in pairs:
        means = [mean_text(one.bands.filter(pl.col("band") == band), one.first, one.second) for band in bands]
        things = one.things
        said = "not known of both" if things is None else "; ".join(things.values()) or "nothing"
        rows.append([f"{one.first}, {one.second}", *_counts(one.bands, one)[:3], *means, said])
    head = ("stacks", "first wins", "second wins", TIE, *(f"{band} messages" for band in bands), "their locks differ in")
    yield from _table("Pairs of stacks, those that differ in one thing first (geometric means)", head, rows)
    yield from (_text(one) for one in compared if isinstance(one, str))


def _cell(row: Mapping[str, Any]) -> str:
    if row["winner"] == UNKNOWN:
        return UNKNOWN
    if row["winner"] == TIE:
        return TIE
    return f"{row['winner']} {row['times']:.2f} ({row['times_low']:.2f} to {row['times_high']:.2f})"


def terminal(comparison: Comparison) -> Iterator[Table | Text]:
    """What the terminal shows: the summary, where who wins, a table per condition, and what is to be known of them."""
    curves, conditions = comparison.bands.height, comparison.bands.select(CONDITION).n_unique()
    yield _text(
        f"{comparison.first} and {comparison.second} by {comparison.subject}: {curves} comparisons (a curve in a band of "
        f"message sizes) under {conditions} condition{'' if conditions == 1 else 's'}"
    )
    yield from _table("Summary", *summary(comparison))
    yield from _table("Where", *where(comparison))
    bands = list(dict.fromkeys(comparison.bands["band"]))
    for heading, part in by_condition(comparison.bands, comparison.subject):
        lines = []
        for _, curve in part.group_by("suite", "benchmark", "variant", "ranks", "groups", "quantity", maintain_order=True):
            row = curve.row(0, named=True)
            cells = {one["band"]: _cell(one) for one in curve.to_dicts()}
            name, quantity = verdict_text.benchmark_text(row), verdict_text.quantity_text(row["quantity"])
            lines.append([name, quantity, *(cells.get(band, "") for band in bands)])
        yield from _table(f"{heading}: who is how many times faster (95 % interval)", ("benchmark", "quantity", *bands), lines)
    yield from map(_text, notes(comparison))


#: What the answer says of a band of sizes and of a single size, beside its condition.
_CURVE = ("suite", "benchmark", "variant", "ranks", "groups", "quantity")
_OUTCOME = ("winner", "ahead", "times", "times_low", "times_high")
_SIZE = ("message_bytes", "unit", "baseline", "candidate", "baseline_repeats", "candidate_repeats", "why")


def as_data(comparison: Comparison) -> dict[str, Any]:
    """The whole answer: who is how many times faster, by band and by size, and what is to be known of it."""

    def rows(table: pl.DataFrame, *more: str) -> list[dict[str, Any]]:
        shared = [name for name in CONDITION if name != comparison.subject]
        shown = table.select(*shared, *_CURVE, *more, *_OUTCOME).with_columns(selectors.float().fill_nan(None))
        return shown.rename({"baseline": "first", "candidate": "second"}, strict=False).to_dicts()

    return {
        "by": comparison.subject,
        "first": comparison.first,
        "second": comparison.second,
        "sessions": [list(side.sessions) for side in comparison.sides],
        "bands": rows(comparison.bands, "band"),
        "sizes": rows(comparison.metrics, *_SIZE),
        "notes": [one_line(note) for note in notes(comparison)],
    }


def notes(comparison: Comparison) -> list[str]:
    """What must be known to read the tables."""
    found = []
    paired = comparison.bands.filter(pl.col("units") == "pairs").height
    if paired:
        found.append(f"{paired} of {comparison.bands.height} were measured interleaved in the same jobs and compared in pairs")
    metrics = comparison.metrics
    zero = metrics.filter(pl.col("ratio").is_null(), pl.col("why").str.contains("are zero"))
    for row in zero.to_dicts():
        where = f"{verdict_text.benchmark_text(row)} at {size_text(row['message_bytes'])}"
        why = row["why"].partition(":")[0]
        why = why.replace("the baseline", comparison.first).replace("the candidate", comparison.second)
        found.append(f"{UNKNOWN}: {where}, {condition_text(row, comparison.subject)}: {why}")
    for name, count in (
        (comparison.first, metrics.filter(pl.col("verdict") == "missing").height),
        (comparison.second, comparison.judgement.new.height),
    ):
        if count:
            found.append(f"{UNKNOWN}: {count} metrics only {name} has")
    for side, selection in zip((comparison.first, comparison.second), comparison.sides, strict=True):
        if text := verdict_sides.count_unproven(side, selection):
            found.append(f"{UNKNOWN}: {text}")
    unlike = [f"{comparison.first} is unlike its history: {text}" for text in comparison.judgement.unlike_past.values()]
    unequal = [f"not equal: {text}" for text in comparison.unequal]
    return [*comparison.built, *found, *comparison.past.sentences(), *unlike, *unequal]


def _table(heading: str, head: tuple[str, ...], rows: list[list[str]]) -> Iterator[Table | Text]:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in head:
        table.add_column(_text(name), overflow="fold")
    for row in rows:
        table.add_row(*map(_text, row))
    yield from (Text(f"\n{one_line(heading)}", style="bold"), table)


def _text(line: str) -> Text:
    """One line for the terminal, whatever a stored name holds."""
    return Text(one_line(line))


@dataclass(frozen=True)
class Parts:
    """A table in parts: its head, and the rows under the heading of each condition."""

    head: tuple[str, ...]
    rows: list[tuple[str, list[list[object]]]]


def band_parts(comparison: Comparison) -> Parts:
    """Every curve and band."""
    head = ("benchmark", "quantity", "messages", "ahead", "times faster", "95 % interval", "winner")

    def cells(row: Mapping[str, Any]) -> list[object]:
        return [*_names(row), row["band"], *_difference(row)]

    return Parts(head, _rows(comparison, comparison.bands, cells))


def metric_parts(comparison: Comparison) -> Parts:
    """Every metric."""
    head = ("benchmark", "quantity", "size", comparison.first, comparison.second, "unit", "ahead", "times faster")

    def cells(row: Mapping[str, Any]) -> list[object]:
        values = (number(row[side], 2) for side in ("baseline", "candidate"))
        size = size_text(row["message_bytes"])
        repeats = f"{row['baseline_repeats'] or 0} / {row['candidate_repeats'] or 0}"
        return [*_names(row), size, *values, row["unit"] or "", *_difference(row), repeats, row["why"] or ""]

    tail = ("95 % interval", "winner", "repeats", "note")
    return Parts((*head, *tail), _rows(comparison, comparison.metrics, cells))


def best_parts(table: pl.DataFrame, subject: str) -> Parts:
    """The best of all at each size, and how many times faster than each other.

    :param table: of :func:`compare_charts.best_of_all`.
    """
    keys = [name for name in CONDITION if name != subject]
    point = [name for name in METRIC if name != subject]
    found = []
    for _, part in table.group_by(keys, maintain_order=True):
        rows: list[list[object]] = []
        for _, ranked in part.group_by(point, maintain_order=True):
            best, *others = ranked.to_dicts()
            behind = "; ".join(f"{times_text(1 + row['behind'])} than {row[subject]}" for row in others)
            rows.append([*_names(best), size_text(best["message_bytes"]), best[subject], behind])
        first = part.row(0, named=True)
        found.append((condition_text({**dict.fromkeys(CONDITION, ""), **first}, subject), rows))
    return Parts(("benchmark", "quantity", "size", "best", "by how much"), found)


def _names(row: Mapping[str, Any]) -> list[str]:
    return [verdict_text.benchmark_text(row), verdict_text.quantity_text(row["quantity"])]


def _difference(row: Mapping[str, Any]) -> list[object]:
    """Who is ahead, how many times, its interval, the winner."""
    if row["winner"] == UNKNOWN:
        return ["", "", "", UNKNOWN]
    return [row["ahead"], number(row["times"]), f"{number(row['times_low'])} to {number(row['times_high'])}", row["winner"]]


def _rows(
    comparison: Comparison, rows: pl.DataFrame, cells: Callable[[Mapping[str, Any]], list[object]]
) -> list[tuple[str, list[list[object]]]]:
    return [(text, [cells(row) for row in part.to_dicts()]) for text, part in by_condition(rows, comparison.subject)]

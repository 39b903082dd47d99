"""The page of ``mpibench compare`` and what the terminal shows of it: who wins where and by how
much first, then every benchmark under the heading of its condition.

There is one direction: "1.25 times faster", for times and
bandwidths alike, of the side that is ahead.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
import polars as pl
from polars import selectors
from rich.table import Table as TerminalTable
from rich.text import Text

from reframe_tests.harness.printable import one_line, plural

from ..judge import text as verdict_text
from ..judge.pairing import TIE, UNKNOWN, Comparison
from ..store.quantity_text import directed_text, nodes_text, size_text
from ..store.session_values import CONDITION, METRIC, describe_condition
from . import figures
from .page import Block, Cell, Section, Table, number, sections


def job_table(sides: Mapping[str, Iterable[Mapping[str, Any]]]) -> Table:
    """Every job of each side, with a link to the folder of its script,
    outputs and evidence where that is an absolute path.

    :param sides: name to rows of ``cases``.
    """
    rows = []
    for side, cases in sides.items():
        for row in cases:
            job = (
                side,
                row["session"],
                str(row["started"])[:16],
                row["job_id"] or "",
                row["nodelist"] or "",
            )
            folder = row["outputdir"] or ""
            link = Cell("link", folder, Path(folder).as_uri()) if folder.startswith("/") else folder
            rows.append((*job, describe_condition(row), link))
    return Table(
        ("side", "session", "started", "job", "nodes", "condition", "script, outputs, evidence"),
        rows,
    )


#: Terminal columns where the output is not a terminal.
WIDTH = 160


def condition_text(row: Mapping[str, Any], subject: str) -> str:
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
    for _, part in rows.group_by(CONDITION, maintain_order=True):
        yield condition_text(part.row(0, named=True), subject), part


def times_text(times: float) -> str:
    return f"{times:.2f} times faster" if times < 10 else f"{times:.1f} times faster"


def mean_text(rows: pl.DataFrame, first: str, second: str) -> str:
    """Geometric mean of who is how many times faster, of rows that
    have an interval; empty without any.

    A tie where the geometric means of both ends of the intervals have 1 between them. That interval
    is the widest: rows of the same jobs may all err in one direction.
    """
    known = rows.filter(pl.col("times_low").is_not_null())
    if not known.height:
        return ""
    sign = pl.when(pl.col("ahead") == second).then(1.0).otherwise(-1.0)
    ends = [sign * pl.col(name).log() for name in ("times_low", "times_high")]
    mean, low, high = known.select(
        (sign * pl.col("times").log()).mean(),
        low=pl.min_horizontal(ends).mean(),
        high=pl.max_horizontal(ends).mean(),
    ).row(0)
    if low <= 0 <= high:
        return TIE
    return f"{second if mean > 0 else first} {times_text(math.exp(abs(mean)))}"


def summary(comparison: Comparison) -> tuple[tuple[str, ...], list[list[str]]]:
    """Head and one row per band: curves won by either, ties, not
    compared, geometric mean, largest difference.
    """
    head = (
        "messages",
        *_sides(comparison),
        TIE,
        UNKNOWN,
        "geometric mean",
        "largest difference beyond noise",
    )
    sides = comparison.first, comparison.second
    return head, [
        [
            str(band[0]),
            *_counts(part, comparison),
            mean_text(part, *sides),
            _largest(part, comparison),
        ]
        for band, part in comparison.bands.group_by("band", maintain_order=True)
    ]


def _sides(comparison: Comparison) -> tuple[str, str]:
    return f"{comparison.first} wins", f"{comparison.second} wins"


def _counts(rows: pl.DataFrame, comparison: Comparison) -> list[str]:
    counted = [
        rows.filter(pl.col("winner") == winner).height
        for winner in (comparison.first, comparison.second, TIE, UNKNOWN)
    ]
    return [
        f"{count} of {rows.height}" if place < 2 else str(count)
        for place, count in enumerate(counted)
    ]


def _largest(rows: pl.DataFrame, comparison: Comparison) -> str:
    won = rows.filter(~pl.col("winner").is_in([TIE, UNKNOWN])).sort("times", descending=True)
    if not won.height:
        return ""
    row = won.row(0, named=True)
    where = condition_text(row, comparison.subject)
    return (
        f"{row['winner']} {times_text(row['times'])}: {verdict_text.benchmark_text(row)}, {where}"
    )


def where(comparison: Comparison) -> tuple[tuple[str, ...], list[list[str]]]:
    """Head and one row per condition: curves won by either, ties, not
    compared, geometric mean of each band.
    """
    bands = list(dict.fromkeys(comparison.bands["band"]))
    head = ("condition", *_sides(comparison), TIE, UNKNOWN, *(f"{band} messages" for band in bands))
    sides = comparison.first, comparison.second
    return head, [
        [
            heading,
            *_counts(part, comparison),
            *(mean_text(part.filter(pl.col("band") == band), *sides) for band in bands),
        ]
        for heading, part in by_condition(comparison.bands, comparison.subject)
    ]


def every_pair(compared: Sequence[Comparison | str]) -> Iterator[TerminalTable | Text]:
    """Of each pair of stacks: what it differs in, who is how many times
    faster in each band; then what was not compared.
    """
    pairs = [pair for pair in compared if not isinstance(pair, str)]
    bands = list(dict.fromkeys(band for pair in pairs for band in pair.bands["band"]))
    yield from (
        _text(line) for line in dict.fromkeys(line for pair in pairs for line in pair.troubles)
    )
    rows = []
    for pair in pairs:
        means = [
            mean_text(pair.bands.filter(pl.col("band") == band), pair.first, pair.second)
            for band in bands
        ]
        things = pair.things
        said = "not known of both" if things is None else "; ".join(things.values()) or "nothing"
        rows.append([f"{pair.first}, {pair.second}", *_counts(pair.bands, pair)[:3], *means, said])
    head = (
        "stacks",
        "first wins",
        "second wins",
        TIE,
        *(f"{band} messages" for band in bands),
        "their locks differ in",
    )
    yield from _table(
        "Pairs of stacks, those that differ in one thing first (geometric means)", head, rows
    )
    yield from (_text(sentence) for sentence in compared if isinstance(sentence, str))


def _cell(row: Mapping[str, Any]) -> str:
    if row["winner"] == UNKNOWN:
        return UNKNOWN
    if row["winner"] == TIE:
        return TIE
    return f"{row['winner']} {row['times']:.2f} ({row['times_low']:.2f} to {row['times_high']:.2f})"


def terminal(comparison: Comparison) -> Iterator[TerminalTable | Text]:
    """What the terminal shows: the summary, where who wins, a table per
    condition, and what is to be known of them.
    """
    curves = comparison.bands.height
    conditions = comparison.bands.select(CONDITION).n_unique()
    yield _text(comparison.finding)
    yield from map(_text, comparison.troubles)
    yield _text(
        f"{comparison.first} and {comparison.second} by {comparison.subject}: "
        f"{plural(curves, 'comparison')} (a curve in a band of message sizes) under "
        f"{plural(conditions, 'condition')}"
    )
    yield from _table("Summary", *summary(comparison))
    yield from _table("Where", *where(comparison))
    bands = list(dict.fromkeys(comparison.bands["band"]))
    for heading, part in by_condition(comparison.bands, comparison.subject):
        lines = []
        for _, curve in part.group_by(
            "suite", "benchmark", "variant", "ranks", "groups", "quantity", maintain_order=True
        ):
            row = curve.row(0, named=True)
            cells = {band_row["band"]: _cell(band_row) for band_row in curve.to_dicts()}
            name = verdict_text.benchmark_text(row)
            quantity = verdict_text.quantity_text(row["quantity"])
            lines.append([name, quantity, *(cells.get(band, "") for band in bands)])
        yield from _table(
            f"{heading}: who is how many times faster (95 % interval)",
            ("benchmark", "quantity", *bands),
            lines,
        )
    yield from map(_text, notes(comparison))


#: What the answer says of a band of sizes and of a single size, beside its condition.
_CURVE = ("suite", "benchmark", "variant", "ranks", "groups", "quantity")
_OUTCOME = ("winner", "ahead", "times", "times_low", "times_high")
_SIZE = (
    "message_bytes",
    "unit",
    "baseline",
    "candidate",
    "baseline_repeats",
    "candidate_repeats",
    "why",
)


def as_data(comparison: Comparison) -> dict[str, Any]:
    """The whole answer: who is how many times faster, by band and
    by size, and what is to be known of it.
    """

    def rows(table: pl.DataFrame, *more: str) -> list[dict[str, Any]]:
        shared = [name for name in CONDITION if name != comparison.subject]
        shown = table.select(*shared, *_CURVE, *more, *_OUTCOME).with_columns(
            selectors.float().fill_nan(None)
        )
        return shown.rename({"baseline": "first", "candidate": "second"}, strict=False).to_dicts()

    return {
        "by": comparison.subject,
        "first": comparison.first,
        "second": comparison.second,
        "headline": one_line(comparison.headline),
        "troubles": [one_line(line) for line in comparison.troubles],
        "sessions": [list(side.sessions) for side in comparison.sides],
        "bands": rows(comparison.bands, "band"),
        "sizes": rows(comparison.metrics, *_SIZE),
        "notes": [one_line(note) for note in notes(comparison)],
    }


def notes(comparison: Comparison) -> list[str]:
    found = []
    paired = comparison.bands.filter(pl.col("units") == "pairs").height
    if paired:
        found.append(
            f"{paired} of {comparison.bands.height} were measured interleaved in the same jobs "
            "and compared in pairs"
        )
    metrics = comparison.metrics
    for row in comparison.judgement.zeros.to_dicts():
        where = f"{verdict_text.benchmark_text(row)} at {size_text(row['message_bytes'])}"
        side = "baseline" if row["baseline_zeros"] else "candidate"
        name = comparison.first if row["baseline_zeros"] else comparison.second
        why = f"{row[f'{side}_zeros']} of {row[f'{side}_all']} values of {name} are zero"
        found.append(f"{UNKNOWN}: {where}, {condition_text(row, comparison.subject)}: {why}")
    for name, count in (
        (comparison.first, metrics.filter(pl.col("verdict") == "missing").height),
        (comparison.second, comparison.judgement.new.height),
    ):
        if count:
            found.append(f"{UNKNOWN}: {plural(count, 'metric')} that only {name} has")
    unlike = [
        f"{comparison.first} differs from its history: {text}"
        for text in comparison.judgement.unlike_past.values()
    ]
    unequal = [f"not equal: {text}" for text in comparison.unequal]
    return [*comparison.built, *found, *comparison.past.sentences(), *unlike, *unequal]


def _table(
    heading: str, head: tuple[str, ...], rows: list[list[str]]
) -> Iterator[TerminalTable | Text]:
    table = TerminalTable(box=None, header_style="bold", pad_edge=False)
    for name in head:
        table.add_column(_text(name), overflow="fold")
    for row in rows:
        table.add_row(*map(_text, row))
    yield from (Text(f"\n{one_line(heading)}", style="bold"), table)


def _text(line: str) -> Text:
    return Text(one_line(line))


def _band_cells(row: Mapping[str, Any]) -> list[object]:
    return [*_names(row), row["band"], *_difference(row)]


def _metric_cells(row: Mapping[str, Any]) -> list[object]:
    values = (number(row[side], 2) for side in ("baseline", "candidate"))
    size = size_text(row["message_bytes"])
    repeats = f"{row['baseline_repeats'] or 0} / {row['candidate_repeats'] or 0}"
    return [
        verdict_text.benchmark_text(row),
        directed_text(row["quantity"]),
        size,
        *values,
        row["unit"] or "",
        *_difference(row),
        repeats,
        row["why"] or "",
    ]


def best_tables(table: pl.DataFrame, subject: str) -> list[Table]:
    """The best of all at each size, and how many times faster than each other.

    :param table: of :func:`figures.best_of_all`.
    """
    tables = []
    for _, part in table.group_by(
        [name for name in CONDITION if name != subject], maintain_order=True
    ):
        rows: list[list[object]] = []
        for _, ranked in part.group_by(
            [name for name in METRIC if name != subject], maintain_order=True
        ):
            best, *others = ranked.to_dicts()
            behind = "; ".join(
                f"{times_text(1 + row['behind'])} than {row[subject]}" for row in others
            )
            rows.append([*_names(best), size_text(best["message_bytes"]), best[subject], behind])
        title = condition_text({**dict.fromkeys(CONDITION, ""), **part.row(0, named=True)}, subject)
        tables.append(
            Table(("benchmark", "quantity", "size", "best", "by how much"), rows, (2,), title=title)
        )
    return tables


def _names(row: Mapping[str, Any]) -> list[str]:
    return [verdict_text.benchmark_text(row), directed_text(row["quantity"])]


def _difference(row: Mapping[str, Any]) -> list[object]:
    if row["winner"] == UNKNOWN:
        return ["", "", "", UNKNOWN]
    return [
        row["ahead"],
        number(row["times"]),
        f"{number(row['times_low'])} to {number(row['times_high'])}",
        row["winner"],
    ]


#: Sizes in bytes of the Kiviat charts, as in the 2011 white paper, and of pinning maps.
KIVIAT_BYTES = (32, 1 << 20)


def _drawings(values: pl.DataFrame, subject: str) -> list[go.Figure]:
    """All charts, the condensed ones first."""
    sizes = KIVIAT_BYTES
    kiviats = [figure for size in sizes if (figure := figures.kiviat(values, subject, size))]
    maps = [figure for size in sizes for figure in figures.pinning_maps(values, size)]
    return [
        *kiviats,
        *figures.best_stacks(values, subject),
        *maps,
        *figures.curves(values, subject),
    ]


#: What stands below the curves of ratios.
RATIOS = (
    "Thick: geometric mean of all curves; shaded: between the geometric means of the lower and of "
    "the upper ends of their 95 % intervals; thin: each curve."
)


def next_step(comparison: Comparison) -> str:
    """What to do with the answer."""
    again = "measure both again"
    if comparison.subject == "stack":
        again += f" in one job (-p {comparison.first} -S paired_stack={comparison.second})"
    if comparison.faults:
        return f"Before you choose, mend what is wrong and {again}."
    if not comparison.compares:
        return f"To compare them, {again} with more repeats (-S repeats=5)."
    if comparison.loads:
        return f"Before you choose, {again} while nobody else uses the nodes."
    winners = set(comparison.bands["winner"]) - {TIE, UNKNOWN}
    if len(winners) == 1:
        return f"Choose {winners.pop()} where they differ."
    if winners:
        return "Neither is always the faster: see below which one for which call and size."
    return "Either will do."


def page(comparison: Comparison, values: pl.DataFrame) -> str:
    """The page of a comparison.

    :param values: of both sides, and maybe of others, which are not drawn.
    """
    subject = comparison.subject
    names = (comparison.first, comparison.second)
    values = values.filter(pl.col(subject).cast(pl.String).is_in(names))
    now = datetime.now(timezone.utc)
    meant = [
        line
        for name, side in zip(names, comparison.sides, strict=True)
        for line in verdict_text.identity_lines(name, side, now)
    ]

    def tables(
        head: Sequence[str],
        numeric: Sequence[int],
        rows: pl.DataFrame,
        cells: Callable[[Mapping[str, Any]], list[object]],
    ) -> list[Table]:
        parts = by_condition(rows, subject)
        return [
            Table(head, [cells(row) for row in part.to_dicts()], numeric, title=title)
            for title, part in parts
        ]

    difference = ("ahead", "times faster", "95 % interval", "winner")
    of_band = ("benchmark", "quantity", "messages", *difference)
    of_metric = ("benchmark", "quantity", "size", *names, "unit", *difference, "repeats", "note")
    jobs = job_table(dict(zip(names, (side.jobs() for side in comparison.sides), strict=True)))
    ratios = list(figures.ratios(comparison.metrics, comparison.first, comparison.second))
    faults = comparison.faults
    content: list[Section] = [
        ("", [next_step(comparison), *([Block("items", faults, label="wrong")] if faults else [])]),
        (
            "How many times faster",
            [Block("charts", ratios), Block("text", RATIOS, label="note")] if ratios else [],
        ),
        ("Caveats", [Block("items", comparison.caveats)] if comparison.caveats else []),
        ("Summary", [Table(*summary(comparison), (1, 2, 3, 4))]),
        ("Where", [Table(*where(comparison), (1, 2, 3, 4))]),
        (
            "Sessions and what is not equal or not compared",
            [Block("items", [*meant, *notes(comparison)])],
        ),
        ("Charts", [Block("charts", _drawings(values, subject))]),
        ("Curves by band of sizes", tables(of_band, (4, 5), comparison.bands, _band_cells)),
        (
            f"Which {subject} for which call and size",
            best_tables(figures.best_of_all(values, subject), subject),
        ),
        ("Jobs", [jobs]),
        ("Metrics", tables(of_metric, (2, 3, 4, 7, 8, 10), comparison.metrics, _metric_cells)),
    ]
    return sections(f"Comparison by {subject}", comparison.finding, content)

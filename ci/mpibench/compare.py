"""Stacks, fabrics, ppn or pinning policies side by side: who is faster where, by how much, and is that more than noise.

Only equals are compared: everything but what is compared must be the same, the nodes and the placement on them included.
What is not is refused by name; ``allow`` names what may differ, and the result says so.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
import polars as pl

from reframe_tests.harness.vocabulary import BadInput

from . import compare_charts, verdict_data, verdict_page, verdict_policy, verdict_text, verdicts
from .report import plotly_source
from .verdict_data import CONDITION, METRIC, Selection

#: What can be compared.
SUBJECTS = ("stack", "fabric", "ppn", "pinning", "session")
#: Sizes of the Kiviat charts, in bytes, as in the 2011 white paper.
KIVIAT_BYTES = (32, 1 << 20)
TIE = "tie"


@dataclass(frozen=True)
class Comparison:
    """One pair.

    :param ratios: band verdicts of ``second`` against ``first`` (:class:`verdicts.Judgement`), with a column ``winner``.
    :param unequal: what was allowed to differ and does.
    :param sides: what was compared.
    """

    first: str
    second: str
    judgement: verdicts.Judgement
    bands: pl.DataFrame
    unequal: tuple[str, ...]
    sides: tuple[Selection, ...]

    def geometric_means(self) -> list[tuple[str, float, int]]:
        """Band, geometric mean of time ratios second / first over its curves, number of curves."""
        known = self.bands.filter(pl.col("slower").is_not_null())
        rows = known.group_by("band", maintain_order=True).agg(
            (1 + pl.col("slower")).log().mean().exp().alias("mean"), pl.len()
        )
        return [(row["band"], row["mean"], row["len"]) for row in rows.to_dicts()]


def pair(
    folder: Path,
    selector: str,
    subject: str,
    first: str,
    second: str,
    *,
    system: str | None = None,
    where: str | None = None,
    allow: Sequence[str] = (),
) -> Comparison:
    """Compare two values of one subject.

    :param subject: one of :data:`SUBJECTS`; for ``session`` the values are selectors and ``selector`` is not used.
    :raises BadInput: a side has no case that may be used, or the sides differ in something that is not compared.
    """
    if subject not in SUBJECTS:
        raise BadInput(f"--by {subject!r} is none of {', '.join(SUBJECTS)}.")
    name = verdict_data.system_of(folder, system)
    if subject == "session":
        sides = [verdict_data.read(folder, name, one, where=where) for one in (first, second)]
    else:
        whole = verdict_data.read(folder, name, selector, where=where)
        sides = [_side(whole, subject, value, other) for value, other in ((first, second), (second, first))]
    differing = _unequal(sides, subject)
    refused = [text for what, text in differing if what not in allow]
    if refused:
        raise BadInput(
            f"{first} and {second} were not measured under equal conditions: {refused[0]}; if that may be, --allow it."
        )
    policy = verdict_policy.load(name).judging_all()
    judgement = verdicts.judge(sides[0], sides[1], policy, paired=subject == "stack")
    if not judgement.metrics.filter(pl.col("ratio").is_not_null()).height:
        raise BadInput(f"{first} and {second} have no metric in common under equal conditions.")
    bands = judgement.bands.with_columns(
        winner=pl.when(pl.col("ratio").is_null())
        .then(pl.lit("not compared"))
        .when((pl.col("low") > 1) | (pl.col("high") < 1))
        .then(pl.when(pl.col("slower") > 0).then(pl.lit(first)).otherwise(pl.lit(second)))
        .otherwise(pl.lit(TIE))
    )
    order = {band: place for place, band in enumerate(policy.bands_bytes)}
    bands = bands.sort([*CONDITION, "benchmark", pl.col("band").replace_strict(order, return_dtype=pl.Int32), "quantity"])
    return Comparison(first, second, judgement, bands, tuple(text for _, text in differing), tuple(sides))


def _side(whole: Selection, subject: str, value: str, other: str) -> Selection:
    """One side, with what is compared given a common name, so that the rest of the condition pairs the metrics."""
    same = pl.col(subject).cast(pl.String) == value
    cases = whole.cases.filter(same)
    if not cases.height:
        there = sorted({str(one) for one in whole.cases[subject]})
        raise BadInput(f"there is no case with {subject} {value!r}; there are {', '.join(there)}.")
    common = pl.lit(0, dtype=pl.Int32) if subject == "ppn" else pl.lit(" or ".join(sorted((value, other))))
    values = whole.values.filter(same).with_columns(common.alias(subject))
    if subject == "ppn":  # the number of ranks follows from it
        values = values.with_columns(ranks=pl.lit(0, dtype=pl.Int32), groups=pl.lit(0, dtype=pl.Int32))
    return replace(whole, cases=cases, values=values, planned=whole.planned.filter(same))


def _unequal(sides: Sequence[Selection], subject: str) -> list[tuple[str, str]]:
    """What differs beside the subject: its name and a sentence. Placement follows from ppn and pinning where these differ."""
    keys = [name for name in CONDITION if name != subject]
    found = []
    for what in ("nodelist", "placement", "suites"):
        if what == "placement" and subject in ("ppn", "pinning"):
            continue
        tables = [_fact(side.cases, keys, what) for side in sides]
        for condition in tables[0].keys() & tables[1].keys():
            one, two = tables[0][condition], tables[1][condition]
            if one != two:
                names = (" and ".join(sorted(values)) for values in (one, two))
                found.append((what, f"{what} of {', '.join(map(str, condition))} is {next(names)} against {next(names)}"))
    unique: dict[str, str] = {}
    for what, text in sorted(found):
        unique.setdefault(what, text)
    return list(unique.items())


def _fact(cases: pl.DataFrame, keys: list[str], what: str) -> dict[tuple[Any, ...], set[str]]:
    found: dict[tuple[Any, ...], set[str]] = {}
    for row in cases.to_dicts():
        stored = json.loads(row["condition"] or "{}")
        if what == "suites":
            value: Any = {name: suite.get("version") for name, suite in (stored.get("suites") or {}).items() if name == "imb"}
        else:
            value = row["nodelist"] if what == "nodelist" else stored.get(what)
        found.setdefault(tuple(row[key] for key in keys), set()).add(json.dumps(value))
    return found


def figures(values: pl.DataFrame, subject: str, sizes: Sequence[int]) -> list[go.Figure]:
    """All pictures, the condensed ones first.

    :param sizes: in bytes, of the Kiviat charts and of the maps of pinning x ppn.
    """
    stars = [figure for size in sizes if (figure := compare_charts.kiviat(values, subject, size))]
    maps = [figure for size in sizes for figure in compare_charts.placements(values, size)]
    return [*stars, *compare_charts.winners(values, subject), *maps, *compare_charts.curves(values, subject)]


#: Tells a browser under test that every chart has been drawn.
_READY = '<script>document.documentElement.dataset.ready = "yes";</script>'


def _drawn(figure: go.Figure) -> str:
    """HTML of a figure; its tool bar saves it as SVG, which every ticket system shows and which prints well."""
    options = {"responsive": True, "displaylogo": False, "toImageButtonOptions": {"format": "svg"}}
    return figure.to_html(full_html=False, include_plotlyjs=False, config=options)


def page(comparison: Comparison, values: pl.DataFrame, subject: str, kiviat_bytes: Sequence[int] = KIVIAT_BYTES) -> str:
    """The comparison as one HTML file with its charts."""
    drawn = [_drawn(figure) for figure in figures(values, subject, kiviat_bytes)]
    map_rows = [
        [
            verdict_data.describe_condition({**dict.fromkeys(CONDITION, ""), **rows.row(0, named=True)}),
            *(rows["benchmark"][0], verdict_text.size_text(rows["message_bytes"][0]), rows[subject][0]),
            "; ".join(f"{row[subject]} +{100 * row['behind']:.0f} %" for row in rows.to_dicts()[1:]),
        ]
        for _, rows in compare_charts.best_of_all(values, subject).group_by(
            [name for name in METRIC if name != subject], maintain_order=True
        )
    ]
    band_rows = [
        [verdict_data.describe_condition(row), row["benchmark"], row["band"], *_cells(row), row["winner"]]
        for row in comparison.bands.to_dicts()
    ]
    names = comparison.first, comparison.second
    return verdict_page.page(
        f"Comparison by {subject}",
        f"{comparison.second} against {comparison.first}",
        [
            ("Not equal, by permission", verdict_page.items(comparison.unequal)),
            (
                "Bands",
                verdict_page.table(("condition", "benchmark", "band", "ratio", "95 % interval", "winner"), band_rows, (3, 4)),
            ),
            ("Charts", f"<script>{plotly_source()}</script>" + "\n".join(drawn) + _READY),
            (
                f"Which {subject} for which call and size",
                verdict_page.table(("condition", "benchmark", "size", "best", "behind"), map_rows, (2,)),
            ),
            ("Jobs", verdict_page.jobs(dict(zip(names, (side.jobs() for side in comparison.sides), strict=True)))),
            (
                "Metrics",
                verdict_page.metric_table(comparison.judgement.metrics.to_dicts(), names),
            ),
        ],
    )


def _cells(row: dict[str, Any]) -> list[str]:
    if row["ratio"] is None:
        return ["", ""]
    return [f"{row['ratio']:.3f}", f"{row['low']:.3f} to {row['high']:.3f}"]


def lines(comparison: Comparison) -> list[str]:
    """The terminal's table."""
    head = f"{comparison.second} / {comparison.first}"
    rows = [f"{'benchmark':<22} {'band':<7} {head[:28]:>28} {'95 % interval':>18}  winner"]
    for row in comparison.bands.to_dicts():
        ratio, interval = _cells(row)
        rows.append(f"{row['benchmark']:<22} {row['band']:<7} {ratio:>28} {interval:>18}  {row['winner']}  ({row['quantity']})")
    for band, mean, count in comparison.geometric_means():
        rows.append(f"geometric mean of times, {band}: {mean:.3f} over {count} curves")
    paired = comparison.bands.filter(pl.col("units") == verdicts.PAIRS).height
    if paired:
        rows.append(
            f"{paired} of {comparison.bands.height} bands were measured in turns in the same jobs and compared in pairs"
        )
    return [*rows, *(f"not equal: {text}" for text in comparison.unequal)]

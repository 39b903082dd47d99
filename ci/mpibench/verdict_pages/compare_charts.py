"""Pictures of a comparison: Kiviat charts, the best-stack heat map, pinning maps, curves with their spread."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import plotly.graph_objects as go
import polars as pl

from reframe_tests.harness.vocabulary import LOWER, QUANTITIES

from ..pages.palette import PALETTE
from ..results.quantity_text import nodes_text, size_text, unit_text
from ..results.session_values import BENCHMARK, CONDITION, CURVE, METRIC
from ..verdicts import text as verdict_text

#: Legend under the chart, so that a phone has room for the chart.
BELOW = {"orientation": "h", "y": -0.25}


def best_of_all(values: pl.DataFrame, subject: str) -> pl.DataFrame:
    """Which one for which call and size: per benchmark and size the best and how far the others are behind.

    :param values: values of a selection. Conditions other than the subject are kept apart.
    """
    keys = [name for name in METRIC if name != subject]
    medians = values.group_by([*keys, subject, "direction"], maintain_order=True).agg(pl.col("value").median())
    best = pl.when(pl.col("direction") == LOWER).then(pl.col("value").min()).otherwise(pl.col("value").max()).over(keys)
    behind = pl.when(pl.col("direction") == LOWER).then(pl.col("value") / best).otherwise(best / pl.col("value"))
    return medians.with_columns(behind=behind - 1).sort([*keys, "behind"])


def _labels(rows: pl.DataFrame) -> pl.Series:
    """Name of each row's benchmark; with suite, ranks and quantity where there are several of that name."""
    kinds: dict[str, set[tuple[object, ...]]] = {}
    for kind in rows.select(BENCHMARK).unique().to_dicts():
        kinds.setdefault(kind["benchmark"], set()).add(tuple(kind.values()))
    return pl.Series(
        [
            row["benchmark"]
            if len(kinds[row["benchmark"]]) == 1
            else f"{verdict_text.benchmark_text(row)}, {verdict_text.quantity_text(row['quantity'])}"
            for row in rows.to_dicts()
        ],
        dtype=pl.String,
    )


def kiviat(values: pl.DataFrame, subject: str, message_bytes: int) -> go.Figure | None:
    """Speed relative to the best (1 is the rim) of each collective at one size; ``None`` with fewer than 3 benchmarks."""
    table = best_of_all(values.filter(pl.col("message_bytes") == message_bytes), subject)
    names = sorted(set(table["benchmark"]))
    if len(names) < 3:
        return None
    figure = go.Figure()
    for place, (label, part) in enumerate(table.group_by(subject, maintain_order=True)):
        speed = {
            row["benchmark"]: row["speed"]
            for row in part.group_by("benchmark").agg((1 / (1 + pl.col("behind"))).log().mean().exp().alias("speed")).to_dicts()
        }
        axis = [*names, names[0]]
        colour = PALETTE["light"][place % len(PALETTE["light"])]
        figure.add_scatterpolar(r=[speed.get(name) for name in axis], theta=axis, name=str(label[0]), line_color=colour)
    conditions = table.select(name for name in CONDITION if name != subject).n_unique()
    over = f", mean over {conditions} conditions" if conditions > 1 else ""
    figure.update_layout(
        title=f"{size_text(message_bytes)}: speed relative to the best{over}",
        polar_radialaxis_range=[0, 1],
        height=480,
        legend=BELOW,
    )
    return figure


def best_stacks(values: pl.DataFrame, subject: str) -> Iterator[go.Figure]:
    """Map of which one is best for which call and size: one map per remaining condition; colour says who, text by how much."""
    table = best_of_all(values, subject)
    names = sorted({str(one) for one in table[subject]})
    keys = [name for name in ("partition", "stack", "fabric", "nodes", "ppn", "pinning") if name != subject]
    for key, part in table.group_by(keys, maintain_order=True):
        part = part.with_columns(call=_labels(part))
        calls = sorted(set(part["call"]))
        sizes = sorted(set(part["message_bytes"].drop_nulls()))
        if not sizes or part[subject].n_unique() < 2:
            continue
        best = {(row["call"], row["message_bytes"]): row for row in part.filter(pl.col("behind") == 0).to_dicts()}
        second = {
            (row["call"], row["message_bytes"]): row["behind"] for row in part.filter(pl.col("behind") > 0).reverse().to_dicts()
        }
        cells = [[best.get((call, size)) for size in sizes] for call in calls]
        ahead = [[100 * second.get((call, size), 0.0) if (call, size) in best else None for size in sizes] for call in calls]
        steps = [(place / len(names), (place + 1) / len(names)) for place in range(len(names))]
        scale = [(end, PALETTE["light"][place % 8]) for place, pair in enumerate(steps) for end in pair]
        figure = go.Figure(
            go.Heatmap(
                x=[size_text(size) for size in sizes],
                y=calls,
                z=[[names.index(str(cell[subject])) if cell else None for cell in row] for row in cells],
                zmin=-0.5,
                zmax=len(names) - 0.5,
                colorscale=scale,
                colorbar={
                    "tickvals": list(range(len(names))),
                    "ticktext": names,
                    "orientation": "h",
                    "thickness": 12,
                    "y": 0,
                    "ypad": 50,
                    "yanchor": "top",
                },
                text=[["" if value is None else f"+{value:.0f} %" if value >= 1 else "=" for value in row] for row in ahead],
                texttemplate="%{text}",
                textfont_size=9,
                xgap=1,
                ygap=1,
                hovertemplate="%{y}, %{x}: next best %{text}<extra></extra>",
            )
        )
        title = ", ".join(str(one) for one in key)
        figure.update_layout(title=f"best {subject}: {title}", height=300 + 26 * len(calls), margin_b=150)
        yield figure


def pinning_maps(values: pl.DataFrame, message_bytes: int) -> Iterator[go.Figure]:
    """Pinning x ppn: median of each benchmark at one size, where there are at least two of either."""
    keys = ["partition", "stack", "fabric", "nodes", "suite", "benchmark", "variant", "quantity", "direction", "unit"]
    chosen = values.filter(pl.col("message_bytes") == message_bytes)
    for key, part in chosen.group_by(keys, maintain_order=True):
        shown = dict(zip(keys, key, strict=True))
        policies, counts = sorted(set(part["pinning"])), sorted(set(part["ppn"]))
        if len(policies) < 2 and len(counts) < 2:
            continue
        middle = {
            (row["pinning"], row["ppn"]): row["value"]
            for row in part.group_by("pinning", "ppn").agg(pl.col("value").median()).to_dicts()
        }
        figure = go.Figure(
            go.Heatmap(
                x=[f"{count} per node" for count in counts],
                y=policies,
                z=[[middle.get((policy, count)) for count in counts] for policy in policies],
                texttemplate="%{z:.4g}",
                colorscale="Cividis",
                reversescale=shown["direction"] == LOWER,
                colorbar_title=str(shown["unit"]),
                xgap=1,
                ygap=1,
            )
        )
        where = f"{shown['stack']} on {shown['partition']}, {shown['fabric']}, {nodes_text(shown['nodes'])}"
        size = size_text(message_bytes)
        figure.update_layout(title=f"{shown['benchmark']}, {size}: {where}", height=180 + 40 * len(policies))
        yield figure


def curves(values: pl.DataFrame, subject: str) -> Iterator[go.Figure]:
    """One figure per benchmark: median over size with the range of the repeats, one line per subject and condition."""
    for (benchmark, quantity), part in values.group_by("benchmark", "quantity", maintain_order=True):
        figure = go.Figure()
        keys = list(dict.fromkeys([*CURVE, subject]))
        labels = ["stack", "fabric", "nodes", "ppn", "pinning"]
        labels += [name for name in ("suite", "ranks", "variant") if part[name].n_unique() > 1]
        for place, (key, rows) in enumerate(part.group_by(keys, maintain_order=True)):
            shown = dict(zip(keys, key, strict=True))
            line = rows.group_by("message_bytes").agg(
                pl.col("value").median().alias("middle"), low=pl.col("value").min(), high=pl.col("value").max()
            )
            line = line.sort("message_bytes")
            middle, low, high = (line[name].to_numpy() for name in ("middle", "low", "high"))
            figure.add_scatter(
                x=np.maximum(line["message_bytes"].fill_null(0).to_numpy(), 0.5),
                y=middle,
                error_y={"array": high - middle, "arrayminus": middle - low, "thickness": 1},
                name=" ".join(str(shown[name])[:24] for name in dict.fromkeys((subject, *labels))),
                line_color=PALETTE["light"][place % len(PALETTE["light"])],
            )
        figure.update_xaxes(type="log", title="message, bytes")
        figure.update_yaxes(type="log", title=f"{QUANTITIES[str(quantity)].title}, {unit_text(QUANTITIES[str(quantity)].unit)}")
        figure.update_layout(title=f"{benchmark}, {QUANTITIES[str(quantity)].title}", height=420, legend=BELOW)
        yield figure

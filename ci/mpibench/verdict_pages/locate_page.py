"""The page of ``mpibench locate``: its sentences, the map of all pairs ordered by switch, the tree with accused links."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import plotly.graph_objects as go

from reframe_tests.harness.vocabulary import LOWER, QUANTITIES

from ..locate import sentences
from ..locate.answers.node_trends import Trend
from ..locate.effects import Accused
from ..locate.judgement import Localisation, Part
from ..locate.observations import Floats, numbered
from ..locate.suspects import BOTH, LINK, NODE, UPLINK
from ..pages import page as page_templates
from ..pages.palette import PALETTE
from ..results.quantity_text import unit_text
from .parts import TEMPLATES, number

#: Nodes of which each pair has a cell; larger maps have a cell for each pair of switches.
MOST_NODES = 200
#: Switches of a larger map that are shown with their nodes: those of accused nodes and links.
_MOST_DETAILS = 6
#: Nodes that the tree is drawn with; those beside each other that all have their names in it.
_MOST_IN_TREE, _MOST_NAMED = 64, 20
_GOOD, _BAD = PALETTE["light"][6], PALETTE["light"][1]


class Shown(NamedTuple):
    """One map with its answer.

    :param say: a finding as a sentence.
    """

    title: str
    answer: Localisation
    say: Callable[[Accused], str]


def page(maps: Sequence[Shown], title: str, trends: Sequence[Trend] = ()) -> str:
    """The answer as one HTML file.

    :param trends: of the nodes over the nights before.
    """
    return page_templates.render(
        TEMPLATES,
        "locate.html",
        script=True,
        title=f"Locate: {title}",
        head=HEAD,
        maps=[
            {
                "title": one.title,
                "headline": sentences.headline(one.answer),
                "accused": [*one.answer.evident.values(), *map(one.say, one.answer.findings)],
                "inconclusive": one.answer.inconclusive,
                "notes": [*sentences.floors(one.answer), *one.answer.notes],
                "table": _table(one),
            }
            for one in maps
        ],
        figures=[*(figure for one in maps for figure in figures(one.answer)), *map(_over_nights, trends)],
        plotly=page_templates.plotly_source(),
    )


HEAD = ("suspect", "quantity", "direction", "times as slow", "interval", "slow", "of", "rounds", "probability if innocent")


def _table(shown: Shown) -> list[list[str]]:
    return [
        [
            *(sentences.name(one.suspect), QUANTITIES[finding.quantity].title, one.suspect.way, number(one.times)),
            *(f"{number(one.low)} to {number(one.high)}", str(one.slow), str(one.count)),
            *(f"{one.moments} of {one.all_moments}", f"{one.probability:.1e}"),
        ]
        for finding in shown.answer.findings
        for one in finding.directions
    ]


def figures(answer: Localisation) -> Iterator[go.Figure]:
    """The map of each quantity, and the tree where it is known."""
    tree = _tree(answer)
    if tree:
        yield tree
    for part in answer.parts:
        if len(part.seen.nodes) <= MOST_NODES:
            yield _node_map(part)
        else:
            yield _switch_map(part)
            yield from _details(part)


def _over_nights(trend: Trend) -> go.Figure:
    """A line for each of the slowest nodes, and a band in which most nodes are."""
    days = [began.isoformat(timespec="minutes") for began, _ in trend.nights]
    figure = go.Figure()
    figure.add_scatter(x=days, y=trend.high.tolist(), mode="lines", line={"width": 0}, showlegend=False, hoverinfo="skip")
    figure.add_scatter(
        x=days,
        y=trend.low.tolist(),
        mode="lines",
        line={"width": 0},
        fill="tonexty",
        fillcolor="rgba(128,128,128,0.25)",
        name="9 of 10 nodes",
        hoverinfo="skip",
    )
    sessions = [session[:8] for _, session in trend.nights]
    for at, node in enumerate(trend.nodes):
        figure.add_scatter(
            x=days,
            y=[None if np.isnan(one) else float(one) for one in trend.percent[:, at]],
            mode="lines+markers",
            name=node,
            text=sessions,
            hovertemplate=f"{node}: %{{y:.0f}} % in session %{{text}}<extra></extra>",
        )
    words = QUANTITIES[trend.quantity].title
    what = words if trend.way == BOTH else f"{words} that a node {trend.way}"
    title = f"{what} over the nights<br><sup>median of its pairs, {trend.stack} on {trend.fabric}</sup>"
    figure.update_xaxes(title="night", type="date")
    figure.update_yaxes(title="% of what others reach", rangemode="tozero")
    figure.update_layout(title=title, height=380, legend={"traceorder": "normal"})
    return figure


def _ordered(part: Part) -> list[int]:
    """Places of the nodes, those of a switch together, as they are listed."""
    path = [tuple(reversed(part.places.switches.get(node, ()))) for node in part.seen.nodes]
    _, rank = numbered(path)
    return sorted(range(len(path)), key=lambda place: (path[place], rank[place], place))


def _node_map(part: Part) -> go.Figure:
    """A cell for each pair: how much slower than its class, with its values."""
    seen = part.seen
    order = _ordered(part)
    place = np.empty(len(order), dtype=np.intp)
    place[order] = np.arange(len(order))
    names = [seen.nodes[one] for one in order]
    values: dict[tuple[int, int], list[int]] = {}
    for number_, (source, target) in enumerate(zip(place[seen.source].tolist(), place[seen.target].tolist(), strict=True)):
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
    figure = _heat(names, names, cells, proof, title, "%{y} to %{x}" if seen.directed else "%{y} and %{x}")
    for edge in _edges([part.places.leaf(name) for name in names]):
        line = {"color": _GOOD, "width": 1}
        figure.add_vline(x=edge - 0.5, line=line)
        figure.add_hline(y=edge - 0.5, line=line)
    return figure


def _proof(part: Part, mine: Sequence[int]) -> str:
    """Values of a pair and the rounds they are of."""
    words = QUANTITIES[part.seen.quantity]
    logs = part.seen.slowness[mine]
    values = np.exp(logs if words.direction == LOWER else -logs).tolist()
    moments = part.seen.moment[mine].tolist()
    rows = [f"{value:.4g} {unit_text(words.unit)} in round {moment + 1}" for value, moment in zip(values, moments, strict=True)]
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
    figure = go.Figure(
        go.Heatmap(
            x=list(across),
            y=list(down),
            z=cells,
            zmin=0,
            zmax=100,
            colorscale="Cividis",
            colorbar={"title": "%", "thickness": 12},
            text=proof,
            xgap=1 if len(across) <= 64 else 0,
            ygap=1 if len(down) <= 64 else 0,
            hovertemplate=f"{pair}: %{{z:.0f}} %<br>%{{text}}<extra></extra>",
        )
    )
    figure.update_xaxes(type="category", title="receives", constrain="domain")
    figure.update_yaxes(type="category", title="sends", autorange="reversed")
    figure.update_layout(title=title, height=int(min(1200, 260 + 18 * len(down))))
    return figure


def _blocks(part: Part, row: Sequence[int], column: Sequence[int], rows: int, columns: int) -> tuple[Floats, Floats, Floats]:
    """Median and largest excess of each cell, and how many observations it has.

    :param row: of each observation; ``column`` likewise; -1: in none.
    """
    rows_of, columns_of = np.asarray(row), np.asarray(column)
    there = np.flatnonzero((rows_of >= 0) & (columns_of >= 0))
    code = rows_of[there] * columns + columns_of[there]
    excess = part.residuals.excess[there]
    order = np.lexsort((excess, code))
    codes, starts, counts = np.unique(code[order], return_index=True, return_counts=True)
    middle, worst, count = (np.full(rows * columns, fill) for fill in (np.nan, np.nan, 0.0))
    middle[codes] = excess[order][starts + (counts - 1) // 2]
    worst[codes] = excess[order][starts + counts - 1]
    count[codes] = counts
    return middle.reshape(rows, columns), worst.reshape(rows, columns), count.reshape(rows, columns)


def _switch_map(part: Part) -> go.Figure:
    """A cell for each pair of switches: the median of its pairs, and the slowest."""
    seen = part.seen
    names, leaf = numbered([part.places.leaf(node) or "no switch" for node in seen.nodes])
    blocks = _blocks(part, leaf[seen.source].tolist(), leaf[seen.target].tolist(), len(names), len(names))
    title = f"{QUANTITIES[seen.quantity].title} between switches, median of their pairs, % of what others reach"
    return _aggregated(names, names, blocks, title)


def _aggregated(across: Sequence[str], down: Sequence[str], blocks: tuple[Floats, Floats, Floats], title: str) -> go.Figure:
    middle, worst, count = blocks
    cells = [[None if np.isnan(one) else float(100 * np.exp(-one)) for one in row] for row in middle]
    proof = [
        [
            f"{int(many)} measurements, the slowest {100 * np.exp(-low):.0f} %" if many else ""
            for low, many in zip(*pair, strict=True)
        ]
        for pair in zip(worst, count, strict=True)
    ]
    return _heat(across, down, cells, proof, title, "%{y} to %{x}")


def _details(part: Part) -> Iterator[go.Figure]:
    """Nodes of the switches in which somebody is accused, against all switches."""
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
        blocks = _blocks(part, row[seen.source].tolist(), leaf[seen.target].tolist(), len(own), len(names))
        title = f"{QUANTITIES[seen.quantity].title}: what the nodes below {switch} send, % of what others reach"
        yield _aggregated(names, [seen.nodes[one] for one in own], blocks, title)


def _tree(answer: Localisation) -> go.Figure | None:
    """Switches and, of few, nodes below them; accused links are drawn thick. ``None`` where no switch is known."""
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
    at = {name: (sum(where) / len(where), 0) for name, where in columns.items()}
    height = {station: level for path in stations.values() for level, station in enumerate(path)}
    at = {name: (column, height[name]) for name, (column, _) in at.items()}
    widest = max(Counter(height.values()).values())
    accused = {finding.names[0] for finding in answer.findings if finding.kind in (NODE, UPLINK)} | set(answer.evident)
    accused |= {name for finding in answer.findings if finding.kind == LINK for name in finding.names}
    figure = go.Figure()
    links = dict.fromkeys(pair for path in stations.values() for pair in pairwise(path))
    for bad in (False, True):
        drawn = [(at[low], at[high]) for low, high in links if (low in accused) == bad]
        figure.add_scatter(
            x=[one for (first, _), (second, _) in drawn for one in (first, second, None)],
            y=[one for (_, first), (_, second) in drawn for one in (first, second, None)],
            mode="lines",
            line={"color": _BAD if bad else _GOOD, "width": 4 if bad else 1},
            name="accused" if bad else "nobody is accused",
            hoverinfo="skip",
        )
    figure.add_scatter(
        x=[column for column, _ in at.values()],
        y=[level for _, level in at.values()],
        text=[name if widest <= _MOST_NAMED or name in accused or height[name] == depth - 1 else "" for name in at],
        customdata=list(at),
        mode="markers+text",
        textposition="bottom center",
        marker={"color": [_BAD if name in accused else _GOOD for name in at], "size": 8},
        showlegend=False,
        hovertemplate="%{customdata}<extra></extra>",
    )
    figure.update_xaxes(visible=False)
    figure.update_yaxes(visible=False, range=[-0.5, depth - 0.5])
    where = "guessed from the map" if answer.places.guessed else f"from {answer.places.origin}"
    figure.update_layout(title=f"switches, {where}", height=260 + 60 * depth, legend={"orientation": "h", "y": -0.1})
    return figure

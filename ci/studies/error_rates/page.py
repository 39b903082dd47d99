"""The answer as a page: its sentences, charts of the smallest slowdown found, and the tables; and the pictures that
docs/background/verdicts.md explains verdicts with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

import numpy as np
import plotly.graph_objects as go

from mpibench.judge import curve_tests, history
from mpibench.judge.policy import Policy
from mpibench.judge.statistics import prediction
from mpibench.judge.statistics.two_sides import Array
from mpibench.pages.page import PALETTE, SYMBOLS, Block, Section, Table, sections
from mpibench.store.quantity_text import size_text
from studies.lasting_changes import rows_of

from .answer import MARGIN_PERCENT, Question, Row, rows, spread_text, tables, with_margin
from .draws import job_medians
from .noise import NoiseCurve, Trace
from .shares import FOUND_WITH

#: Legend under the chart, so that a phone has room for the chart.
_BELOW = {"orientation": "h", "y": -0.3}


def figures(answers: Sequence[Row]) -> list[go.Figure]:
    """Smallest slowdown found over the jobs of the candidate, a line per band: one figure per fabric, spread and history.

    What is not found at all has no point.
    """
    found = []
    for _, part in groupby(answers, key=lambda row: (row["fabric"], row["spread_percent"], row["history_jobs"])):
        rows = list(part)
        figure = go.Figure()
        for place, pattern in enumerate(rows[0]["smallest_found_percent"]):
            shown = [row for row in rows if row["smallest_found_percent"][pattern] is not None]
            values = [row["smallest_found_percent"][pattern] for row in shown]
            ends = [row["interval_95"]["smallest_found_percent"][pattern] for row in shown]
            figure.add_scatter(
                x=[str(row["candidate_jobs"]) for row in shown],
                y=values,
                error_y={
                    "array": [0 if high is None else high - value for value, (_, high) in zip(values, ends, strict=True)],
                    "arrayminus": [value - low for value, (low, _) in zip(values, ends, strict=True)],
                    "thickness": 1,
                },
                name=pattern,
                mode="lines+markers",
                marker_symbol=list(SYMBOLS)[place % len(SYMBOLS)],
                line_color=PALETTE["light"][place % len(PALETTE["light"])],
            )
        figure.update_xaxes(type="category", title="jobs of the candidate")
        figure.update_yaxes(type="log", dtick="D1", title=f"% slower, found in {100 * FOUND_WITH:g} of 100")
        first = rows[0]
        spread = "noise as recorded" if first["spread_percent"] is None else f"spread {spread_text(first)}"
        title = f"{first['fabric']}: {spread}, history of {first['history_jobs']}"
        figure.update_layout(title=title, height=420, legend=_BELOW)
        found.append(figure)
    return found


def page(answers: Sequence[Row], sentences: Sequence[str], notes: Sequence[str], title: str) -> str:
    """The answer as one HTML file."""
    content: list[Section] = [
        ("What can be seen here, and how often is nothing called something?", sentences),
        ("Smallest slowdown found", [Block("charts", figures(answers))]),
        *((heading, [Table(head, rows, range(2, len(head)))]) for heading, head, rows in tables(answers)),
        ("What this rests on", [Block("items", notes)]),
    ]
    return sections("Error rates", title, content)


#: Of the pictures: noise of the typical metric, nights before, what a loss and one bad night cost, draws, their seed.
SPREAD, NIGHTS, SLOWER, BAD, DRAWS, SEED = 0.01, 15, 0.05, 0.15, 400, 1
_BLUE, _ORANGE, _GREEN = PALETTE["light"][:3]
_GREY = PALETTE["light"][6]
_VERDICTS = {curve_tests.PASS: _GREEN, curve_tests.INCONCLUSIVE: _GREY, curve_tests.REGRESSED: _ORANGE}


def explaining(recorded: Trace, quiet: Trace) -> Iterator[tuple[str, go.Figure]]:
    """Pictures of how a verdict is made, with their names, drawn for a phone.

    :param recorded: noise whose jobs differ, shown as it is; ``quiet``: what nights are drawn from.
    """
    policy = with_margin(Policy(), MARGIN_PERCENT)
    trace = quiet.scaled(SPREAD)
    drawn = trace_of(trace, np.random.default_rng(SEED).permutation(trace.jobs))
    question = Question(DRAWS, [NIGHTS], spreads_percent=[100 * SPREAD], seed=SEED)
    found = figures(list(rows([quiet], question, policy)))[0].update_layout(title=f"{NIGHTS} sessions before, one job each")
    pictures = {
        "spread": _spread(recorded),
        "history": _history(drawn, policy),
        "found": found,
        "lasting": _lasting(drawn, policy),
        "accept": _accept(drawn, policy),
    }
    for name, figure in pictures.items():
        figure.update_layout(font_size=14, title_font_size=15, title_x=0.02, margin={"l": 60, "r": 12, "t": 44, "b": 50})
        yield name, figure.update_layout(plot_bgcolor="#f3f4f6", legend={"orientation": "h", "y": -0.24, "x": 0})


def trace_of(trace: Trace, jobs: Array) -> Trace:
    """The same noise with some of its jobs, in this order."""
    return replace(trace, curves=tuple(replace(curve, logs=curve.logs[:, jobs]) for curve in trace.curves))


def _percent(logs: Array) -> list[float]:
    return [round(float(value), 3) for value in 100 * np.expm1(logs)]


def _points(figure: go.Figure, x: Sequence[float], y: Array, name: str, symbol: str, colour: str, size: int = 8) -> None:
    marker = {"symbol": symbol, "color": colour, "size": size}
    figure.add_scatter(x=list(x), y=_percent(y), name=name, mode="markers", marker=marker)


def _spread(trace: Trace) -> go.Figure:
    """Repeats of each job of one metric, and the jobs' medians."""
    curve = next(one for one in trace.curves if one.benchmark == "PingPong")
    logs = curve.logs[0] - np.nanmedian(curve.logs[0])
    figure, jobs = go.Figure(), np.arange(1, trace.jobs + 1)
    _points(figure, np.repeat(jobs, logs.shape[1]).tolist(), logs.ravel(), "a repeat", "circle-open", _GREY, 6)
    _points(figure, jobs.tolist(), np.nanmedian(logs, axis=1), "median of the job", "diamond", _BLUE, 10)
    figure.update_xaxes(title="job")
    figure.update_yaxes(title="% slower than the median")
    return figure.update_layout(title=f"{curve.benchmark}, {size_text(curve.sizes[0])}, {trace.fabric}", height=380)


def _history(trace: Trace, policy: Policy) -> go.Figure:
    """Nights of one metric, what one more may be, and two that come next: as before, and slower."""
    logs = job_medians(trace)[:1, : NIGHTS + 1]
    before = prediction.by_session(logs[:, :NIGHTS], range(NIGHTS))
    centre, reach = float(before.values.mean()), float(prediction.reach(before, policy.confidence)[0])
    shown, figure = logs[0] - centre, go.Figure()
    figure.add_hrect(*_percent(np.array([-reach, reach])), fillcolor=_BLUE, opacity=0.15, line_width=0)
    _points(figure, range(1, NIGHTS + 1), shown[:NIGHTS], "nights before", "circle", _BLUE)
    _points(figure, [NIGHTS + 1], shown[NIGHTS:], "next night", "diamond", _GREEN, 12)
    slower = shown[NIGHTS:] + np.log1p(SLOWER)
    _points(figure, [NIGHTS + 1], slower, f"the same, {100 * SLOWER:g} % slower", "x", _ORANGE, 12)
    figure.update_xaxes(title="night")
    figure.update_yaxes(title="% slower than their mean")
    curve: NoiseCurve = trace.curves[0]
    return figure.update_layout(title=f"{curve.benchmark}, {size_text(curve.sizes[0])}: band of one more night", height=380)


def _lasting(trace: Trace, policy: Policy) -> go.Figure:
    """One bad night, and a loss that lasts, as nights are judged one after the other."""
    nights = np.arange(NIGHTS + 25)
    loss = np.select([nights == NIGHTS + 3, nights >= NIGHTS + 12], [np.log1p(BAD), np.log1p(SLOWER)], 0.0)
    logs = job_medians(trace)[:, : len(nights)] + loss
    tested = rows_of(trace, logs, policy)
    judged = history.judge_nights(tested, np.ones((1, len(nights)), dtype=bool), policy)
    shown = np.nanmean(logs, axis=0)
    shown = shown - shown[:NIGHTS].mean()
    figure = go.Figure()
    is_called, counts = judged.called[0], judged.counts[0]
    kinds = (
        ("becomes history", counts, "circle", _BLUE),
        ("called slower", is_called, "x", _ORANGE),
        ("waits", ~counts & ~is_called, "circle-open", _GREY),
    )
    for name, chosen, symbol, colour in kinds:
        _points(figure, (nights[chosen] + 1).tolist(), shown[chosen], name, symbol, colour, 9)
    figure.update_xaxes(title="night")
    figure.update_yaxes(title="% slower, mean of all metrics")
    return figure.update_layout(title="One bad night, then a loss that lasts", height=380)


def _accept(trace: Trace, policy: Policy) -> go.Figure:
    """Interval and verdict of the large messages of one benchmark, for several candidates."""
    figure, names = go.Figure(), []
    drawn: dict[str, list[tuple[str, list[float]]]] = {verdict: [] for verdict in _VERDICTS}
    for percent, count in ((0, 1), (3, 1), (3, 3), (5, 1)):
        nights = tuple(range(NIGHTS)), tuple(range(NIGHTS, NIGHTS + count))
        tests: list[curve_tests.CurveTest] = []
        for number, curve in enumerate(trace.curves):
            medians = np.nanmedian(curve.logs, axis=2)
            sides = medians[:, :NIGHTS], medians[:, NIGHTS : NIGHTS + count] + np.log1p(percent / 100)
            described = number, curve.quantity, curve.sizes, *sides, policy
            tests += curve_tests.tests_of_curve(*described, units=curve_tests.SESSIONS, nights=nights)
        results = curve_tests.evaluate(tests, policy)
        place = max(at for at, test in enumerate(tests) if test.level == curve_tests.BAND and test.curve == 0)
        verdict = curve_tests.combine_verdicts(tests, results, policy)[place][0]
        names.append(f"{f'{percent} % slower' if percent else 'as before'}<br>{count} session{'s' * (count > 1)}")
        ends = np.array([getattr(results, name)[place] for name in ("low", "effect", "high")])
        drawn[verdict].append((names[-1], _percent(ends)))
    for symbol, (verdict, rows_) in zip(SYMBOLS, drawn.items(), strict=False):
        bars = {"array": [ends[2] - ends[1] for _, ends in rows_], "arrayminus": [ends[1] - ends[0] for _, ends in rows_]}
        words = {"mode": "markers", "name": verdict, "marker": {"symbol": symbol, "size": 10}, "error_x": bars}
        middle = [ends[1] for _, ends in rows_]
        figure.add_scatter(x=middle, y=[name for name, _ in rows_], line_color=_VERDICTS[verdict], showlegend=True, **words)
    figure.add_vline(x=MARGIN_PERCENT, line_dash="dash", line_color=_GREY)
    figure.update_xaxes(title="% slower (dashed: margin)")
    figure.update_yaxes(categoryorder="array", categoryarray=names[::-1], type="category", automargin=True)
    return figure.update_layout(title=f"{trace.curves[0].benchmark}, large messages, after {NIGHTS} nights", height=380)

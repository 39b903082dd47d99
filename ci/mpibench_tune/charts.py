"""A page for one condition over all stacks that were tuned under it: every algorithm's times, which
is fastest where, and what the proven settings bring.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import plotly.graph_objects as go

from mpibench.pages import figures, page
from mpibench.pages.page import Block, Section, Table, sections, writing
from mpibench.store.quantity_text import size_text
from mpibench.store.sessions import read_report
from reframe_tests.harness.mpis.tuning.model import DEFAULT
from reframe_tests.harness.sites import tuned_settings
from reframe_tests.harness.sites.tuned_settings import TunedPlace
from reframe_tests.harness.vocabulary import BadInput

from . import measuring
from .race import ALL_SIZES, BETTER, SLACK, Times, TuneState, read_state

#: Sizes of the Kiviat charts in bytes, as in the Cambridge paper.
KIVIAT_BYTES = (32, 1 << 20)


@dataclass(frozen=True)
class TunedStack:
    """One stack under the condition.

    :param times: collective to its times.
    :param gains: collective and message size to tuned over default time, as proven and installed.
    :param oversubscribed: ``4 ranks on 2 cores``, where ranks waited
        for each other's cores; else empty.
    """

    name: str
    times: Mapping[str, Times]
    gains: Mapping[tuple[str, int], float] = field(default_factory=dict)
    oversubscribed: str = ""

    def lines(self, collective: str) -> dict[str, dict[int, float]]:
        """Stack and algorithm to message size to median time in microseconds."""
        times = self.times.get(collective, Times(collective))
        found: dict[str, dict[int, float]] = {}
        for size in times.sizes:
            for word in times.words(size):
                found.setdefault(f"{self.name} {word}", {})[size] = times.location(size, word)
        return found


class SweetSpot(NamedTuple):
    """Neighbouring sizes at which one algorithm of one stack is the
    fastest, or within :data:`SLACK` of it.

    :param also: others of which the same holds.
    """

    sizes: str
    name: str
    also: tuple[str, ...]


def collect(place: TunedPlace, collectives: Sequence[str]) -> list[TunedStack]:
    found = []
    for folder in sorted((measuring.RESULTS / place.system).glob(f"*/{place.name}")):
        if state := read_state(folder):
            found.append(_read_stack(folder, state, collectives))
    return [stack for stack in found if stack.times]


def _read_stack(folder: Path, state: TuneState, collectives: Sequence[str]) -> TunedStack:
    times: dict[str, Times] = {}
    shared = ""
    for race_round in state.rounds:
        session = read_report(folder / race_round.report)
        for name, case in measuring.cases_of(session, collectives).items():
            if not measuring.why_unusable(case):
                times.setdefault(name, Times(name)).add(session.uuid, case.samples)
                shared = shared or str(case.condition.get("oversubscribed") or "")
    return TunedStack(state.place.stack, times, _gains(state.place), shared)


def _gains(place: TunedPlace) -> dict[tuple[str, int], float]:
    try:
        installed = tuned_settings.read_of(place)
    except BadInput:
        return {}
    covered = [
        (rule.collective, row["message_bytes"], float(row["ratio"]))
        for rule in installed.rules
        for row in installed.proof.get("rows", ())
        if row["collective"] == rule.collective
        and row["message_bytes"] != ALL_SIZES
        and row["ratio"] is not None
        # One algorithm for all sizes also holds where it is slower.
        and (
            not rule.last
            or (rule.first <= row["message_bytes"] <= rule.last and row["outcome"] == BETTER)
        )
    ]
    return {(name, size): ratio for name, size, ratio in covered}


def sweet_spots(lines: Mapping[str, Mapping[int, float]]) -> list[SweetSpot]:
    """Runs of sizes, as long as one name is within :data:`SLACK` of the
    fastest at each of them, so that noise ends none.
    """
    runs: list[tuple[list[int], set[str]]] = []
    for size in sorted({size for line in lines.values() for size in line}):
        there = {name: line[size] for name, line in lines.items() if size in line}
        near = {name for name, time in there.items() if time <= (1 + SLACK) * min(there.values())}
        if runs and runs[-1][1] & near:
            runs[-1] = ([*runs[-1][0], size], runs[-1][1] & near)
        else:
            runs.append(([size], near))
    spots = []
    for sizes, names in runs:
        ordered = sorted(
            names, key=lambda name: math.fsum(math.log(lines[name][size]) for size in sizes)
        )
        text = " to ".join(map(size_text, dict.fromkeys((sizes[0], sizes[-1]))))
        spots.append(SweetSpot(text, ordered[0], tuple(ordered[1:])))
    return spots


_DASHES = ("dash", "dot", "dashdot", "longdash")


def algorithm_curves(stacks: Sequence[TunedStack], collective: str) -> go.Figure:
    """Time over message size, both axes logarithmic: a colour for each
    stack, a line for each algorithm, thick by default.
    """
    figure = go.Figure()
    sizes = sorted(
        {size for stack in stacks for size in stack.times.get(collective, Times(collective)).sizes}
    )
    zero = figures.message_axis(figure, sizes)
    for at, stack in enumerate(stacks):
        own = stack.lines(collective)
        for number, (name, line) in enumerate(own.items()):
            solid = name == f"{stack.name} {DEFAULT}"
            style = {
                "color": figures.colour(at),
                "dash": "solid" if solid else _DASHES[number % len(_DASHES)],
                "width": 3 if solid else 1.5,
            }
            figure.add_scatter(
                x=[size or zero for size in line],
                y=list(line.values()),
                name=name,
                line=style,
                mode="lines+markers",
                marker_size=4,
            )
    figure.update_yaxes(type="log", title="time in µs", exponentformat="none")
    figure.update_layout(
        title=f"MPI_{collective}, lower is better",
        height=620,
        legend={**figures.BELOW, "font": {"size": 10}},
    )
    return figure


def algorithm_kiviat(stacks: Sequence[TunedStack], message_bytes: int) -> go.Figure | None:
    """Speed of each call at one size, default and tuned, relative to the
    best of all (the rim); ``None``: too few calls.
    """
    times: dict[str, dict[str, float]] = {}
    for stack in stacks:
        for name, stack_times in stack.times.items():
            if DEFAULT not in stack_times.words(message_bytes):
                continue
            own = stack_times.location(message_bytes, DEFAULT)
            times.setdefault(f"{stack.name} {DEFAULT}", {})[name] = own
            times.setdefault(f"{stack.name} tuned", {})[name] = own * stack.gains.get(
                (name, message_bytes), 1.0
            )
    names = sorted({name for time in times.values() for name in time})
    if len(names) < figures.FEWEST_AXES:
        return None
    best = {name: min(time[name] for time in times.values() if name in time) for name in names}
    speeds = {
        label: {name: best[name] / time for name, time in own.items()}
        for label, own in times.items()
    }
    return figures.radar(
        f"{size_text(message_bytes)}: speed relative to the best", names, speeds, 520, each=2
    )


def write(path: Path, place: TunedPlace, collectives: Sequence[str]) -> None:
    """Write the page.

    :raises BadInput: nothing was measured, or it cannot be written.
    """
    stacks = collect(place, collectives)
    there = [name for name in collectives if any(name in stack.times for stack in stacks)]
    if not there:
        raise BadInput(
            "nothing-measured",
            f"nothing was measured of {', '.join(collectives)} on {place.fabric}: tune first.",
        )
    slack = f"{100 * SLACK:.0f} %"
    untuned = [stack.name for stack in stacks if not stack.gains]
    spots = [
        (f"MPI_{name}", spot.sizes, spot.name, ", ".join(spot.also))
        for name in there
        for spot in sweet_spots(
            {line: of for stack in stacks for line, of in stack.lines(name).items()}
        )
    ]
    kiviats = [figure for size in KIVIAT_BYTES if (figure := algorithm_kiviat(stacks, size))]
    drawn = [*kiviats, *(algorithm_curves(stacks, name) for name in there)]
    shared = [
        f"Oversubscribed: {text}. Ranks waited for each other's cores; the order may differ where "
        "each has its own."
        for text in sorted({stack.oversubscribed for stack in stacks} - {""})
    ]
    which = (
        f"Sizes at which one algorithm of one stack takes at most {slack} longer than the "
        "fastest, by the median over the repeats of interleaved launches; stacks were measured "
        "one after the other."
    )
    legend = (
        "Solid, thick lines show the library's own choice. In the Kiviat charts, dotted lines show "
        "the library's own choice, solid lines the proven and installed settings; calls without "
        "settings are as by default."
    )
    legend += f" Without such settings: {', '.join(untuned)}." if untuned else ""
    table = Table(("call", "message size", "fastest", f"no more than {slack} behind"), spots)
    content: list[Section] = [
        ("Sweet spots", [*shared, which, table]),
        ("Charts", [legend, Block("charts", drawn)]),
    ]
    condition = f"{place.system}, {place.fabric}, {place.nodes} x {place.ppn}, {place.pinning}"
    text = sections("Tuning", f"Collective algorithms: {condition}", content)
    with writing(path):
        page.write(path, text)

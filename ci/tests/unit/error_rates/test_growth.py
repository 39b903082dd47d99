"""Many systems in one dataset: read by DuckDB as documented, and a year of nights through the watch."""

from __future__ import annotations

from pathlib import Path

import pytest

from mpibench.judge import drift
from mpibench.judge import policy as verdict_policy
from mpibench.pages import session as report
from mpibench.store.store import Store
from refusals import refused_as
from studies import detection, growth, report_speed
from studies import drift as bench_drift
from synthetic_verdicts import write_session


def test_duckdb_reads_many_systems(tmp_path: Path) -> None:
    import duckdb

    for number in range(6):
        write_session(tmp_path, number, system=f"system{number % 3}", evidence="proven" if number < 5 else "missing")
    asked = {"quantity": "bandwidth_mb_per_s", "message_bytes": 4194304}
    query = growth.QUERY.format(folder=tmp_path, first="2026-01-01", last="2026-12-31", **asked)
    rows = duckdb.sql(query).fetchall()
    assert [(system, stack, nights) for system, stack, nights, _ in rows] == [
        ("system0", "openmpi-spack", 2),
        ("system1", "openmpi-spack", 2),
        ("system2", "openmpi-spack", 1),
    ]
    assert all(900 < value < 1100 for *_, value in rows)
    assert growth.ask_polars(tmp_path, **asked).rows() == [pytest.approx(row) for row in rows]
    assert duckdb.sql(query.replace("2026-12-31", "2026-01-05")).fetchall()[0][:3] == ("system0", "openmpi-spack", 1)


def test_other_systems_files_are_not_looked_at(tmp_path: Path) -> None:
    """One store for many systems: what is damaged on one of them stops nobody else."""
    for number in range(2):
        write_session(tmp_path, number, system=f"system{number}")
    for path in tmp_path.glob("*/system=system1/*/*.parquet"):
        path.write_bytes(path.read_bytes()[:-40])
    assert Store(tmp_path).select("system0", "latest").values.height
    assert drift.read(Store(tmp_path), "system0").nights.height == 1
    with refused_as("session-unreadable", match="cut off"):
        Store(tmp_path).select("system1", "latest")


def test_a_short_year_finds_what_was_changed_and_nothing_else(tmp_path: Path) -> None:
    bench_drift.write_year(tmp_path, nights=215, metrics=250)
    history = drift.read(Store(tmp_path))
    assert history.logs.shape == (250, 215)
    points = drift.change_points(history, verdict_policy.Policy(), 30)
    assert set(points["row"]) <= {
        row for row in range(250) if history.logs[row, 200:].mean() - history.logs[row, :200].mean() > 0.04
    }
    assert points.height >= 3


def test_nights_to_detection_on_recorded_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(detection, "MOST_NIGHTS", 4)
    few, title, quiet, *found = sorted(
        detection.lines(detection.NOISE, 1, [1.0]), key=lambda line: not line.startswith("eth1g")
    )
    assert few == "eth1g: 20 jobs recorded, too few"
    assert title == "shm, scaled to a spread of 1 %"
    assert quiet.startswith("    drift, 34 quiet nights: 0.0 of 1,000")
    assert [line.split(" is reported: ")[0] for line in found] == [
        f"    nights until a slowdown of {pattern}" for pattern in ("all sizes", "band", "one size")
    ]
    assert "20%: 3 nights (100% of 1, 3% to 100%)" in found[0]


def test_the_large_session_has_the_curves_it_is_measured_with(tmp_path: Path) -> None:
    large = report_speed.session(150)
    assert sum(len(rows) for rows in report.curves(large).values()) == 150
    assert "data-ready" not in (page := report.write_report(report.View(large, tmp_path), "r.html").read_text())
    assert page.count('id="case-') == 3

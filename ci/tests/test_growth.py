"""Many systems in one dataset: read by DuckDB as documented, and a year of nights through the watch."""

from __future__ import annotations

from pathlib import Path

from mpibench import bench_drift, bench_verdicts, drift, verdict_policy
from synthetic_verdicts import write_session

#: The documented query: yearly median of the 4 MiB bandwidth of each system and stack.
QUERY = """
SELECT system, stack, count(DISTINCT session) AS nights, median(value) AS mb_per_s
FROM read_parquet('{folder}/samples/*/*/*.parquet', hive_partitioning = true)
WHERE evidence = 'proven' AND quantity = 'bandwidth_mb_per_s' AND message_bytes = 4194304
  AND date BETWEEN DATE '2026-01-01' AND DATE '2026-12-31'
GROUP BY system, stack ORDER BY system
"""


def test_duckdb_reads_many_systems(tmp_path: Path) -> None:
    import duckdb

    for number in range(6):
        write_session(tmp_path, number, system=f"system{number % 3}", evidence="proven" if number < 5 else "missing")
    rows = duckdb.sql(QUERY.format(folder=tmp_path)).fetchall()
    assert [(system, stack, nights) for system, stack, nights, _ in rows] == [
        ("system0", "openmpi-spack", 2),
        ("system1", "openmpi-spack", 2),
        ("system2", "openmpi-spack", 1),
    ]
    assert all(900 < value < 1100 for *_, value in rows)


def test_a_short_year_finds_what_was_changed_and_nothing_else(tmp_path: Path) -> None:
    bench_drift.write_year(tmp_path, nights=215, metrics=250)
    history = drift.read(tmp_path)
    assert history.logs.shape == (250, 215)
    points = drift.change_points(history, verdict_policy.Policy(), 30)
    assert set(points["row"]) <= {
        row for row in range(250) if history.logs[row, 200:].mean() - history.logs[row, :200].mean() > 0.04
    }
    assert points.height >= 3


def test_rates_on_recorded_noise() -> None:
    recorded = bench_verdicts.load("shm")
    assert sum(len(curve.sizes) for curve in recorded) == 48
    assert {curve.logs.shape[1] for curve in recorded} == {400}
    rates = bench_verdicts.experiment(bench_verdicts.scale(recorded, 0.01), repeats=5, splits=8, by_job=False)
    assert rates["false alarm"].share <= 0.005
    assert rates["found 5% all sizes"].share >= 0.95
    assert rates["interval holds the truth"].share > 0.88
    assert rates["sizes found 5% all sizes, single run +-10%"].share < 0.2

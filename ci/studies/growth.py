"""Many systems in one object store: ``python -m studies.growth``. 50 systems, each with a year of nights.

Writes the dataset (``--systems`` x ``--nights`` x ``--metrics`` values, one file per system and night and table) into a folder
that is removed again and asks it three things: the documented query in DuckDB over all systems, the same in Polars, and
the watch on one system, which reads the files of that system only.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import polars as pl

from mpibench.judge import drift
from mpibench.store.store import Store

from .drift import NIGHTS, write_year

#: Median of one metric per system and stack over a period, of proven cases only. ``{folder}`` may be ``s3://bucket/dataset``.
QUERY = """
SELECT system, stack, count(DISTINCT session) AS nights, median(value) AS median
FROM read_parquet('{folder}/samples/*/*/*.parquet', hive_partitioning = true)
WHERE evidence = 'proven' AND quantity = '{quantity}' AND message_bytes = {message_bytes}
  AND date BETWEEN DATE '{first}' AND DATE '{last}'
GROUP BY system, stack ORDER BY system, stack
"""

Answer = TypeVar("Answer")


def _timed(ask: Callable[[], Answer]) -> tuple[Answer, float]:
    began = time.perf_counter()
    answer = ask()
    return answer, time.perf_counter() - began


def ask_polars(folder: Path, quantity: str, message_bytes: int) -> pl.DataFrame:
    """The query over all dates."""
    table = pl.scan_parquet(folder / "samples" / "**" / "*.parquet", hive_partitioning=True)
    wanted = table.filter(
        pl.col("evidence") == "proven", pl.col("quantity") == quantity, pl.col("message_bytes") == message_bytes
    )
    groups = wanted.group_by("system", "stack").agg(pl.col("session").n_unique().alias("nights"), pl.col("value").median())
    return groups.sort("system", "stack").collect()


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--systems", type=int, default=50)
    parser.add_argument("--nights", type=int, default=NIGHTS)
    parser.add_argument("--metrics", type=int, default=100, help="per system and night; a multiple of 25")
    options = parser.parse_args()
    import duckdb

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for number in range(options.systems):
            write_year(folder, options.nights, options.metrics, system=f"system{number:02}")
        files = list(folder.rglob("*.parquet"))
        rows = options.systems * options.nights * options.metrics
        print(f"{options.systems} systems x {options.nights} nights: {rows} values in {len(files)} files, ", end="")
        print(f"{sum(path.stat().st_size for path in files) / 1e6:.0f} MB")
        asked = {"quantity": "latency_us", "message_bytes": 1024}
        query = QUERY.format(folder=folder, first="2025-01-01", last="2025-12-31", **asked)
        found, seconds = _timed(lambda: duckdb.sql(query).fetchall())
        print(f"DuckDB, whole year of all systems: {len(found)} rows in {seconds:.1f} s")
        one = query.replace("WHERE", "WHERE system = 'system00' AND")
        found, seconds = _timed(lambda: duckdb.sql(one).fetchall())
        print(f"DuckDB, whole year of one system: {len(found)} rows in {seconds:.1f} s")
        table, seconds = _timed(lambda: ask_polars(folder, **asked))
        print(f"Polars, whole year of all systems: {table.height} rows in {seconds:.1f} s")
        (history, events), seconds = _timed(lambda: drift.watch(Store(folder), "system00"))
        print(f"drift on one of them: {history.logs.size} values in {seconds:.1f} s, {len(events)} events")


if __name__ == "__main__":
    main()

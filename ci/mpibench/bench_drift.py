"""How long a year takes: ``python -m mpibench.bench_drift``. 5,000 metrics a night for 365 nights, load and drift.

Writes 1.8 million rows (365 sessions, noise of 2 % with heavy tails, one metric in fifty 8 % slower from night 200 on)
into a folder that is removed again, then runs ``drift`` on it in a process of its own and prints time and peak memory.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
import uuid
from datetime import datetime, timedelta, timezone
from pathlib import Path

import numpy as np
import polars as pl

from . import drift, verdict_policy
from .dataset import CASES_SCHEMA, SAMPLES_SCHEMA

NIGHTS, METRICS, SIZES = 365, 5000, 25
CHANGED_FROM = 200


def write_year(folder: Path, nights: int = NIGHTS, metrics: int = METRICS, system: str = "year") -> None:
    """A year of nights: ``metrics / SIZES`` cases a night, one value per metric."""
    rng = np.random.default_rng(1)
    stacks = [f"stack{number % 5}" for number in range(metrics // SIZES)]
    size = np.tile(2 ** np.arange(SIZES), metrics // SIZES)
    for night in range(nights):
        name = str(uuid.UUID(int=(night + 1) << 96))
        started = datetime(2025, 1, 1, 2, tzinfo=timezone.utc) + timedelta(days=night)
        base = dict.fromkeys(CASES_SCHEMA)
        known = {
            **{
                "session": name,
                "started": started,
                "labels": "{}",
                "run": 0,
                "partition": "p",
                "mpi": "openmpi",
                "fabric": "f",
            },
            **{"mpi_version": "5", "origin": "spack", "nodes": 2, "ppn": 1, "ppn_symbol": "1", "result": "pass"},
            **{"evidence": "proven", "group": "p2p"},
        }
        cases = [
            {
                **base,
                **known,
                **{
                    "case": f"{name}:0:{number}",
                    "stack": stack,
                    "pinning": f"p{number // 5}",
                    "name": "T",
                    "superseded": False,
                },
                **{
                    "condition": json.dumps({"machine": {"kernel release": ["6"]}}),
                    "samples": SIZES,
                    "gates": [],
                    "sentences": [],
                },
            }
            for number, stack in enumerate(stacks)
        ]
        table = pl.DataFrame(cases, schema=CASES_SCHEMA, orient="row")
        values = (5 + size / 1000) * np.exp(0.02 * rng.standard_t(4, metrics))
        values = np.where((np.arange(metrics) % 50 == 0) & (night >= CHANGED_FROM), 1.08 * values, values)
        shared = [column for column in SAMPLES_SCHEMA if column in table.columns]
        samples = (
            table[np.repeat(np.arange(len(stacks)), SIZES)]
            .select(shared)
            .with_columns(
                **{"suite": pl.lit("imb"), "benchmark": pl.lit("PingPong"), "variant": pl.lit("")},
                **{"ranks": pl.lit(2, pl.Int32), "groups": pl.lit(1, pl.Int32), "message_bytes": pl.Series(size)},
                **{"repetitions": pl.lit(100, pl.Int64), "quantity": pl.lit("latency_us"), "unit": pl.lit("us")},
                **{"direction": pl.lit("lower"), "repeat": pl.lit(1, pl.Int32), "value": pl.Series(values)},
            )
        )
        for kind, frame, schema in (("cases", table, CASES_SCHEMA), ("samples", samples, SAMPLES_SCHEMA)):
            path = folder / kind / f"system={system}" / f"date={started:%Y-%m-%d}" / f"{name}.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            frame.select(schema.names()).cast(dict(schema)).write_parquet(path)


def measure(folder: Path, recent: int | None) -> str:
    """Load and search; seconds, peak memory, what was found."""
    began = time.perf_counter()
    history = drift.read(folder)
    loaded = time.perf_counter()
    points = drift.change_points(history, verdict_policy.Policy(), recent)
    found = drift.events(folder, history, points)
    done = time.perf_counter()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    span = "the whole year" if recent is None else f"the last {recent} nights"
    return (
        f"{span}: {history.logs.size} values of {len(history.logs)} metrics loaded in {loaded - began:.1f} s, searched in "
        f"{done - loaded:.1f} s, peak {peak:.0f} MiB; {points.height} change points in {len(found)} events"
    )


def main() -> None:
    """Print the figures."""
    if len(sys.argv) == 3:
        print(measure(Path(sys.argv[1]), None if sys.argv[2] == "all" else int(sys.argv[2])))
        return
    with tempfile.TemporaryDirectory() as folder:
        write_year(Path(folder))
        for recent in ("14", "200", "all"):
            subprocess.run([sys.executable, "-m", "mpibench.bench_drift", folder, recent], check=True)


if __name__ == "__main__":
    main()

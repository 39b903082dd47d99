"""How long the site of a year takes, and how heavy it is: ``python -m
studies.site_speed``. 365 nights of 5,000 metrics.

Writes a dataset into a folder that is removed again (5 stacks on 2 fabrics under 2 pinnings, 10
benchmarks of 25 sizes, three repeats each, references, one stack 8 % slower from night 200 on, a
red night in every 30), builds its site in a process of its own, builds it again without anything
new, and again with one more night. Processor time is printed beside the clock's, which counts what
else the machine does. With ``--judge 1`` the newest night is also compared with those before it, as
the gate does.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
import uuid
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from mpibench.store.dataset_layout import CASES_SCHEMA, SAMPLES_SCHEMA, write_file
from mpibench.store.store import Store
from mpibench_site import site as building

NIGHTS = 365
SIZES = 25
REPEATS = 3
STACKS = 5
FABRICS = 2
PINNINGS = 2
BENCHMARKS = 10
METRICS = STACKS * FABRICS * PINNINGS * BENCHMARKS * SIZES
CHANGED_FROM = 200
RED_EVERY = 30
FIRST = datetime(2023, 1, 1, 2, tzinfo=timezone.utc)


def write_night(
    folder: Path, night: int, system: str = "year", benchmarks: int = BENCHMARKS
) -> None:
    """One night: a case for each stack, fabric and pinning, which measures all benchmarks."""
    rng = np.random.default_rng(night)
    name = str(uuid.UUID(int=(night + 1) << 96))
    started = FIRST + timedelta(days=night)
    known = {
        "session": name,
        "started": started,
        "labels": json.dumps({"run": "nightly"}),
        "run": 0,
        "partition": "p",
        "mpi": "openmpi",
        "mpi_version": "5",
        "origin": "spack",
        "lock_hash": "h",
        "nodes": 2,
        "ppn": 1,
        "ppn_symbol": "1",
        "result": "pass",
        "evidence": "proven",
        "group": "p2p",
        "job_id": "1",
        "nodelist": "n1,n2",
        "superseded": False,
        "measurement": True,
        "cmdline": "reframe -c reframe_tests -r",
        "sentences": [],
        "session_seconds": 3600.0,
    }
    condition = {
        "line_rate_gbit_per_s": 100.0,
        "transport": "ucx",
        "machine": {"kernel release": [f"6.{night // 100}"]},
        "environment": {f"UCX_SETTING_{number}": "y" * 40 for number in range(30)},
    }
    failed = {
        "result": "fail",
        "evidence": "contradicted",
        "fail_phase": "sanity",
        "reason": "it went over lo",
    }
    cases: list[dict[str, Any]] = []
    for number, (stack, fabric, pinning) in enumerate(
        itertools.product(range(STACKS), range(FABRICS), range(PINNINGS))
    ):
        red = number == 0 and night % RED_EVERY == RED_EVERY - 1
        check = {
            "metric": f"B0.bandwidth.{1 << 24:010d}",
            "layer": "learned",
            "value": 9000.0,
            "reference": 9000.0,
        }
        gates = [{**check, "lower": 8000.0, "upper": None, "unit": "MB/s", "outcome": "pass"}]
        cases.append(
            {
                **known,
                "case": f"{name}:0:{number}",
                "stack": f"stack{stack}",
                "fabric": f"fabric{fabric}",
                "pinning": f"p{pinning}",
                "name": f"ImbAll %fabric=fabric{fabric} %pinning=p{pinning}",
                "samples": benchmarks * SIZES,
                "condition": json.dumps(condition),
                "gates": [] if red else gates,
                **(failed if red else {}),
            }
        )
    table = pl.DataFrame(cases, schema=CASES_SCHEMA, orient="row")
    per_case = benchmarks * SIZES
    size = np.tile(2 ** np.arange(SIZES), len(cases) * benchmarks)
    benchmark = np.tile(
        np.repeat([f"B{number}" for number in range(benchmarks)], SIZES), len(cases)
    )
    slower = np.repeat(
        [1.08 if case["stack"] == "stack0" and night >= CHANGED_FROM else 1.0 for case in cases],
        per_case,
    )
    level = size / ((5 + size / 10_000) * slower) * np.exp(0.01 * rng.standard_t(4, len(size)))
    shared = [column for column in SAMPLES_SCHEMA if column in table.columns]
    samples = (
        table[np.repeat(np.arange(len(cases)), per_case * REPEATS)]
        .select(shared)
        .with_columns(
            **{
                "suite": pl.lit("imb"),
                "benchmark": pl.Series(np.repeat(benchmark, REPEATS)),
                "variant": pl.lit(""),
            },
            **{
                "ranks": pl.lit(2, pl.Int32),
                "groups": pl.lit(1, pl.Int32),
                "message_bytes": pl.Series(np.repeat(size, REPEATS)),
            },
            **{
                "repetitions": pl.lit(100, pl.Int64),
                "quantity": pl.lit("bandwidth_mb_per_s"),
                "unit": pl.lit("MB/s"),
            },
            **{
                "direction": pl.lit("higher"),
                "repeat": pl.Series(np.tile(np.arange(1, REPEATS + 1), len(size))),
            },
            value=pl.Series(
                np.repeat(level, REPEATS) * (1 + 0.003 * rng.standard_normal(len(size) * REPEATS))
            ),
        )
    )
    for kind, frame, schema in (
        ("cases", table, CASES_SCHEMA),
        ("samples", samples, SAMPLES_SCHEMA),
    ):
        path = folder / kind / f"system={system}" / f"date={started:%Y-%m-%d}" / f"{name}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, frame.select(schema.names()).cast(dict(schema)))


def measure(top: Path, judged: int, nights: int) -> None:
    """Build once and print how long it took."""
    began = time.perf_counter()
    began_cpu = time.process_time()
    built = building.build(
        Store(top / "dataset"),
        top / "site",
        judged=judged,
        now=FIRST + timedelta(days=nights - 1, hours=9),
    )
    took = time.perf_counter() - began
    took_cpu = time.process_time() - began_cpu
    print(
        f"  {took:.1f} s ({took_cpu:.1f} s of processors): {built.written} files written, "
        f"{built.unchanged} unchanged"
    )


def weigh(site: Path) -> str:
    """Sizes of a site."""
    sizes = {path: path.stat().st_size for path in site.rglob("*") if path.is_file()}
    pages = [
        size
        for path, size in sizes.items()
        if path.suffix == ".html" and path.parent.name == "nights"
    ]
    proofs = [size for path, size in sizes.items() if path.name.endswith("-proof.html")]
    shared = sum(size for path, size in sizes.items() if path.parent.name == "assets")
    metric = max(
        size
        for path, size in sizes.items()
        if path.suffix == ".html" and path.parent.name == "metrics"
    )
    per_metric = sum(size for path, size in sizes.items() if path.parent.name == "data") / max(
        1, sum(path.parent.name == "metrics" for path in sizes)
    )
    return (
        f"{len(sizes)} files, {sum(sizes.values()) / 1e6:.0f} MB; the largest page of a night "
        f"{max(pages) / 1e3:.0f} kB, of its proofs {max(proofs, default=0) / 1e3:.0f} kB; first "
        f"screen {sizes[site / 'index.html'] / 1e3:.0f} kB; a metric's page {metric / 1e3:.0f} "
        f"kB with {per_metric / 1e3:.0f} kB of values; shared by all {shared / 1e6:.1f} MB"
    )


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nights", type=int, default=NIGHTS)
    parser.add_argument(
        "--judge", type=int, default=0, help="newest nights to hold against those before"
    )
    parser.add_argument("--one", nargs=2, metavar=("FOLDER", "NIGHTS"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        measure(Path(options.one[0]), options.judge, int(options.one[1]))
        return
    with tempfile.TemporaryDirectory() as name:
        top = Path(name)
        for night in range(options.nights):
            write_night(top / "dataset", night)
        print(
            f"{options.nights} nights of {METRICS} metrics, {REPEATS} repeats; {os.cpu_count()} "
            "cores"
        )
        for what, nights in (
            ("everything", options.nights),
            ("nothing new", options.nights),
            ("a night more", options.nights + 1),
        ):
            if nights > options.nights:
                write_night(top / "dataset", options.nights)
            print(f"{what}:", flush=True)
            one = ["--one", name, str(nights), "--judge", str(options.judge)]
            began = time.perf_counter()
            subprocess.run([sys.executable, "-m", "studies.site_speed", *one], check=True)
            print(f"  {time.perf_counter() - began:.1f} s with the program's start")
        print(weigh(top / "site"))


if __name__ == "__main__":
    main()

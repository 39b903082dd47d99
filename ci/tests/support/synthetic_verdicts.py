"""Datasets with known contents for verdicts, and a year of nights for the site of results."""

from __future__ import annotations

import io
import itertools
import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import yaml

from folders import DATA
from mpibench import cli
from mpibench.judge.gate import GateAnswer, decide
from mpibench.store.dataset_layout import CASES_SCHEMA, SAMPLES_SCHEMA, write_file
from mpibench.store.store import Store
from reframe_tests.harness.vocabulary import QUANTITIES

# ---- Datasets with known contents for verdicts: latency and bandwidth curves with known noise
# and known changes.

SIZES = (0, 8, 64, 512, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304)
#: benchmark -> quantity.
BENCHMARKS = {"PingPong": "latency_us", "Uniband": "bandwidth_mb_per_s"}
#: Columns that are the same in all rows.
ROWS = yaml.safe_load((DATA / "dataset_rows.yaml").read_text())
FIRST = datetime(2026, 1, 5, 2, 0, tzinfo=timezone.utc)
#: Label of the sessions of a night.
NIGHTLY = {"run": "nightly"}

#: (benchmark, message_bytes, stack) -> factor on time.
Change = Callable[[str, int, str], float]


def unchanged(benchmark: str, size: int, stack: str) -> float:
    """No change."""
    return 1.0


def by(
    factor: float, benchmark: str | None = None, size: int | None = None, stack: str | None = None
) -> Change:
    """All metrics slower by a factor, or those of a benchmark, a size, a stack."""
    only = (benchmark, size, stack)
    return lambda *of: (
        factor if all(one in (None, its) for one, its in zip(only, of, strict=True)) else 1.0
    )


def write_session(
    folder: Path,
    number: int,
    *,
    labels: Mapping[str, str] | None = None,
    change: Change = unchanged,
    noise: float = 0.005,
    jobs: int = 1,
    repeats: int = 5,
    system: str = "testbed",
    stacks: Sequence[str] = ("openmpi-spack",),
    result: str = "pass",
    evidence: str = "proven",
    condition: Mapping[str, Any] | None = None,
    mpi_version: str = "5.0.10",
    sizes: Sequence[int] = SIZES,
    benchmarks: Mapping[str, str] = BENCHMARKS,
    started: datetime | None = None,
    night: int | None = None,
    edit: Callable[[dict[str, Any]], dict[str, Any] | None] = lambda row: row,
    where: Mapping[str, Any] | Sequence[Mapping[str, Any]] = (),
    command_line: str | None = "reframe -c reframe_tests -r",
) -> str:
    """Write one session; returns its id. Times are (5 us + size /
    1000 MB/s) x change x log-normal noise.

    :param number: seeds the noise and makes the id; the session starts
        ``night`` (default: number) days after FIRST.
    :param where: replaces columns of all cases: partition, fabric, group,
        pinning, reason, ...; several: a case of each
    :param edit: changes each row of ``samples``, or drops it by returning ``None``.
    """
    rng = np.random.default_rng(number)
    name = str(uuid.UUID(int=(number + 1) << 96 | 0x4000 << 64 | number))
    started = started or FIRST + timedelta(days=number if night is None else night)
    samples = []
    cases = []
    wheres = [where] if isinstance(where, Mapping) else where or [{}]
    for place, (own, stack, _) in enumerate(itertools.product(wheres, stacks, range(jobs))):
        case = {
            **ROWS["shared"],
            "session": name,
            "started": started,
            "labels": json.dumps(dict(labels or {}), sort_keys=True),
            "case": f"{name}:0:{place}",
            "stack": stack,
            "mpi_version": mpi_version,
            "lock_hash": f"hash-{mpi_version}",
            "result": result,
            "evidence": evidence,
            "job_id": str(100 + number),
            **{key: value for key, value in own.items() if key in SAMPLES_SCHEMA},
        }
        stored = {**ROWS["condition"], **(condition or {})}
        cases.append(
            {
                **ROWS["cases"],
                **case,
                "name": f"ImbPointToPoint %stack={stack}",
                "fail_phase": None if result == "pass" else "performance",
                "library_version": f"Open MPI v{mpi_version}",
                "condition": json.dumps(stored),
                "cmdline": command_line,
                **own,
            }
        )
        for benchmark, quantity in benchmarks.items():
            for size in sizes:
                times = (
                    (5 + size / 1000)
                    * change(benchmark, size, stack)
                    * np.exp(noise * rng.standard_normal(repeats))
                )
                if quantity == "bandwidth_mb_per_s":
                    times = size / times
                for repeat, value in enumerate(times, start=1):
                    row = {
                        **ROWS["samples"],
                        **case,
                        "benchmark": benchmark,
                        "message_bytes": size,
                        "quantity": quantity,
                        "repeat": repeat,
                        "unit": QUANTITIES[quantity].unit,
                        "direction": QUANTITIES[quantity].direction,
                        "value": float(value),
                    }
                    if (edited := edit(row)) is not None:
                        samples.append(edited)
    for table, rows, schema in (
        ("samples", samples, SAMPLES_SCHEMA),
        ("cases", cases, CASES_SCHEMA),
    ):
        path = folder / table / f"system={system}" / f"date={started:%Y-%m-%d}" / f"{name}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, pl.DataFrame(rows, schema=schema, orient="row"))
    return name


def write_sessions(
    folder: Path, changes: int | Sequence[float | Change], first: int = 0, **options: Any
) -> str:
    """Sessions, one a night; returns the id of the last.

    :param changes: of each how many times slower it is, or its change; or how many are unchanged.
    :param first: number of the first.
    """
    each = [1.0] * changes if isinstance(changes, int) else changes
    last = ""
    for number, change in enumerate(each, first):
        changed = change if callable(change) else by(change)
        last = write_session(folder, number, **{"change": changed, **options})
    return last


def judged(folder: Path, session: str = "latest", **options: Any) -> GateAnswer:
    """What the gate says of a session, however old it is."""
    return decide(Store(folder), "testbed", session, **{"max_age_hours": 1e6, **options})


class Said(NamedTuple):
    """Exit status of a command, and what it printed."""

    status: int
    out: str
    err: str


def ask(folder: Path, command: str, *words: str) -> Said:
    """Run a command on a dataset.

    :param command: split at blanks; ``words`` are not.
    """
    where = ("--dataset-only", "--dataset", str(folder))
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
        status = cli.main([*command.split(), *words, *where])
    return Said(status, out.getvalue(), err.getvalue())


def write_before(folder: Path, count: int = 5, **options: Any) -> None:
    """Nights before that of number 0: enough to decide what one candidate is."""
    for night in range(-count, 0):
        write_session(folder, 1000 + night, night=night, **options)


# ---- A year of nights for tests of the site: red and green ones, gaps, two in a day, a change
# that lasts, files of the jobs.

#: Night in which Uniband becomes 8 % slower, and stays so.
SLOWER_FROM = 30
NIGHTS = 44
#: Nights without any session, night with two, night that failed.
GAPS = (10, 11, 12)
TWICE = 20
RED = 43


def gate(
    metric: str,
    value: float,
    lower: float,
    outcome: str = "pass",
) -> dict[str, Any]:
    """A reference check as ``cases`` stores it."""
    bounds = {"reference": lower / 0.97, "lower": lower, "upper": None}
    return {
        "metric": metric,
        "layer": "learned",
        "value": value,
        **bounds,
        "unit": "MB/s",
        "outcome": outcome,
    }


def write_night(folder: Path, number: int, **changes: Any) -> str:
    """One night of two stacks; the last one fails on one of them."""
    kernel = "6.1.0-21" if SLOWER_FROM <= number < NIGHTS else "6.1.0-18"
    red = number == RED and "started" not in changes
    jobs = folder.parent / "jobs" / str(number)
    jobs.mkdir(parents=True, exist_ok=True)
    (jobs / "rfm_job.sh").write_text("#!/bin/bash\nmpirun -n 2 IMB-MPI1 Uniband\n")
    (jobs / "rfm_job.out").write_text("# Uniband <b>not markup</b>\n")
    (jobs / "rfm_job.err").write_text("libfabric: no such device: eth1\n")
    held = {"outputdir": str(jobs), "gates": [gate("Uniband.bandwidth.0004194304", 930.0, 900.0)]}
    sentence = "asked for eth1g, 2.1 GB went over lo"
    failed: dict[str, Any] = {
        "result": "fail",
        "fail_phase": "sanity",
        "evidence": "contradicted",
        "gates": [],
    }
    failed |= {"reason": sentence, "sentences": [sentence], "samples": 0}
    skipped = {"result": "skip", "evidence": None, "reason": "no cores left", "samples": 0}
    cases: list[Mapping[str, Any]] = [
        {**held, "session_seconds": 600.0},
        {**held, "pinning": "scatter", **(failed if red else {})},
        {**skipped, "pinning": "none"},
    ]
    slower = 1.08 if SLOWER_FROM <= number < NIGHTS else 1.0
    settings: dict[str, Any] = {
        "labels": {"run": "nightly"},
        "where": cases,
        "condition": {"line_rate_gbit_per_s": 10.0, "machine": {"kernel release": [kernel]}},
        "change": lambda benchmark, size, stack: slower if benchmark == "Uniband" else 1.0,
        "repeats": 3,
        "sizes": (8, 65536, 4194304),
        "edit": lambda row: (
            None if row["pinning"] == "none" or row["evidence"] != "proven" else row
        ),
        **changes,
    }
    return write_session(folder, number, **settings)


def write_nights(folder: Path, nights: int = NIGHTS) -> dict[int, str]:
    """Some weeks of nights, ids by number; with gaps, and two sessions in one day."""
    ids = {number: write_night(folder, number) for number in range(nights) if number not in GAPS}
    if nights > TWICE:
        ids[1000] = write_night(folder, 1000, started=FIRST + timedelta(days=TWICE, hours=9))
    return ids

"""How long a year takes: ``python -m studies.drift``. 5,000 metrics a night for 365 nights, load and drift.

Three searches are timed, and they are not the same: for changes of the last 14 nights (what ``drift`` and the gate do each
night; it looks at 44 nights), of the last 200 nights, and of the whole year, which takes longest. The nights are loaded whole
in each. Processor time is printed beside the clock's, which counts what else the machine does.

Writes 1.8 million rows (365 sessions, noise of 2 % with heavy tails, one metric in fifty 8 % slower from night 200 on)
into a folder that is removed again, then runs ``drift`` on it in a process of its own and prints time and peak memory.
Beside it ``reframe --performance-compare`` on the same values in ReFrame's own database: the means of two halves of the year
(``--reframe-nights`` of it), which is one comparison and no search.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sqlite3
import subprocess
import sys
import tempfile
import time
import uuid
from contextlib import closing
from datetime import datetime, timedelta, timezone
from pathlib import Path

import numpy as np
import polars as pl

from mpibench.judge import drift
from mpibench.judge import policy as verdict_policy
from mpibench.store.dataset_layout import CASES_SCHEMA, SAMPLES_SCHEMA, write_file
from mpibench.store.store import Store

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
            write_file(path, frame.select(schema.names()).cast(dict(schema)))


#: ReFrame 4.10, ``frontend/reporting/storage.py``.
_TABLES = """
CREATE TABLE sessions(uuid TEXT PRIMARY KEY, session_start_unix REAL, session_end_unix REAL, json_blob TEXT, report_file TEXT);
CREATE TABLE testcases(name TEXT, system TEXT, partition TEXT, environ TEXT, job_completion_time_unix REAL, session_uuid TEXT,
    uuid TEXT, FOREIGN KEY(session_uuid) REFERENCES sessions(uuid) ON DELETE CASCADE);
CREATE TABLE metadata(schema_version TEXT);
CREATE INDEX index_testcases_time on testcases(job_completion_time_unix);
CREATE INDEX index_sessions_time on sessions(session_start_unix);
INSERT INTO metadata VALUES('1.0');
"""


def write_reframe(folder: Path, db: Path, nights: int) -> tuple[datetime, datetime]:
    """The first nights of :func:`write_year` as ReFrame stores them: only what a comparison reads. First and last start."""
    files = sorted((folder / "samples").glob("system=*/date=*/*.parquet"))[:nights]
    starts: list[datetime] = []
    with closing(sqlite3.connect(db)) as connection:
        connection.executescript(_TABLES)
        for path in files:
            table = pl.read_parquet(path).with_columns(name=pl.format("T %pinning={}", "pinning"))
            started = table["started"][0]
            seconds = started.timestamp()
            cases = []
            for number, part in enumerate(table.partition_by("case", maintain_order=True)):
                values = zip(part["message_bytes"], part["value"], strict=True)
                known = {"name": part["name"][0], "system": "year", "partition": "p", "environ": part["stack"][0]}
                cases.append(
                    {
                        **known,
                        **{"uuid": f"{path.stem}:0:{number}", "session_uuid": path.stem, "result": "pass", "run_index": 0},
                        **{"job_completion_time_unix": seconds, "display_name": known["name"], "job_nodelist": ["n1"]},
                        "perfvalues": {
                            f"year:p:PingPong.latency.{size:010}": [value, 0, None, None, "us", "pass"]
                            for size, value in values
                        },
                    }
                )
            info = {"uuid": path.stem, "data_version": "4.2", "time_start_unix": seconds, "time_elapsed": 1.0}
            report = {"session_info": info, "runs": [{"run_index": 0, "testcases": cases}], "restored_cases": []}
            connection.execute("INSERT INTO sessions VALUES(?,?,?,?,'')", (path.stem, seconds, seconds, json.dumps(report)))
            rows = [(case["name"], "year", "p", case["environ"], seconds, path.stem, case["uuid"]) for case in cases]
            connection.executemany("INSERT INTO testcases VALUES(?,?,?,?,?,?,?)", rows)
            starts.append(started)
        connection.commit()
    return starts[0], starts[-1]


def measure_reframe(folder: Path, nights: int) -> str:
    """Seconds and peak memory of ``reframe --performance-compare`` of two halves of the first nights."""
    db = folder / "reframe.db"
    first, last = write_reframe(folder, db, nights)
    middle = first + (last - first) / 2
    periods = [f"{one:%Y%m%dT%H%M%S%z}" for one in (first - timedelta(hours=1), middle, last + timedelta(hours=1))]
    spec = f"{periods[0]}:{periods[1]}/{periods[1]}:{periods[2]}/mean:/"
    environ = {**os.environ, "RFM_SQLITE_DB_FILE": str(db), "RFM_ENABLE_RESULTS_STORAGE": "yes", "RFM_CONFIG_FILES": ""}
    command = [str(Path(sys.executable).parent / "reframe"), f"--performance-compare={spec}", "--table-format=csv"]
    began = time.perf_counter()
    with tempfile.TemporaryFile() as out:
        child = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, env=environ, cwd=folder)
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        took = time.perf_counter() - began
        out.seek(0)
        said = out.read().decode().splitlines()
    rows = [line for line in said if "PingPong.latency" in line]
    if child.returncode or not rows:
        return f"reframe --performance-compare failed: {' '.join(said[-3:])[:300]}"
    return (
        f"reframe --performance-compare over {nights} nights ({nights * METRICS} values, {db.stat().st_size / 1e6:.0f} MB): "
        f"{took:.1f} s, peak {used.ru_maxrss / 1024:.0f} MiB, {len(rows)} rows, exit status {child.returncode}"
    )


def measure(folder: Path, recent: int | None) -> str:
    """Load and search; seconds, peak memory, what was found."""
    began, began_cpu = time.perf_counter(), time.process_time()
    history = drift.read(Store(folder))
    loaded, loaded_cpu = time.perf_counter(), time.process_time()
    points = drift.change_points(history, verdict_policy.Policy(), recent)
    found = drift.events(Store(folder), history, points, verdict_policy.Policy())
    done, done_cpu = time.perf_counter(), time.process_time()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    span = "the whole year" if recent is None else f"the last {recent} nights"
    load = f"{loaded - began:.1f} s ({loaded_cpu - began_cpu:.1f} s of processors)"
    search = f"{done - loaded:.1f} s ({done_cpu - loaded_cpu:.1f} s)"
    return (
        f"{span}: {history.logs.size} values of {len(history.logs)} metrics loaded in {load}, searched in {search}, "
        f"peak {peak:.0f} MiB; {points.height} change points in {len(found)} events"
    )


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=1, help="how often each is measured")
    parser.add_argument("--reframe-nights", type=int, default=NIGHTS, help="nights ReFrame compares; 0: it is left out")
    parser.add_argument("--one", nargs=2, metavar=("FOLDER", "NIGHTS"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(measure(Path(options.one[0]), None if options.one[1] == "all" else int(options.one[1])))
        return
    with tempfile.TemporaryDirectory() as folder:
        write_year(Path(folder))
        for recent in ("14", "200", "all"):
            for _ in range(options.repeats):
                subprocess.run([sys.executable, "-m", "studies.drift", "--one", folder, recent], check=True)
        if options.reframe_nights:
            print(measure_reframe(Path(folder), options.reframe_nights))


if __name__ == "__main__":
    main()

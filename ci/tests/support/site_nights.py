"""A year of nights for tests of the site: red and green ones, gaps, two
in a day, a change that lasts, files of the jobs.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

from synthetic_verdicts import FIRST, write_session

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
    layer: str = "learned",
    unit: str = "MB/s",
) -> dict[str, Any]:
    """A reference check as ``cases`` stores it."""
    bounds = {"reference": lower / 0.97, "lower": lower, "upper": None}
    return {
        "metric": metric,
        "layer": layer,
        "value": value,
        **bounds,
        "unit": unit,
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
    held = [gate("Uniband.bandwidth.0004194304", 930.0, 900.0)]
    cases: list[Mapping[str, Any]] = [
        {"outputdir": str(jobs), "gates": held, "session_seconds": 600.0}
    ]
    failed = {"result": "fail", "fail_phase": "sanity", "evidence": "contradicted", "gates": []}
    sentence = "asked for eth1g, 2.1 GB went over lo"
    if red:
        cases.append(
            {
                "outputdir": str(jobs),
                "pinning": "scatter",
                **failed,
                "reason": sentence,
                "sentences": [sentence],
                "samples": 0,
            }
        )
    else:
        cases.append({"outputdir": str(jobs), "pinning": "scatter", "gates": held})
    cases.append(
        {
            "pinning": "none",
            "result": "skip",
            "evidence": None,
            "reason": "no cores left",
            "samples": 0,
        }
    )
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

"""How long a large report takes to open: ``python -m
studies.report_speed``. 10,000 curves, 24 sizes, 3 repeats each.

Makes a session in memory (5 stacks x 4 fabrics x pinning x ppn, 25 benchmarks with two quantities
each), writes its report and times a headless Chromium from its start until the page's scripts have
run, less the same for an empty page.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np

from mpibench.pages import session as report
from mpibench.store.sessions import Case, Session
from reframe_tests.harness.samples import PROVEN, Evidence, Sample
from reframe_tests.harness.suites import catalogue
from reframe_tests.harness.vocabulary import BadInput

#: What a Chromium is called, as it may be installed.
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
_SIZES = [0, *(1 << power for power in range(23))]
_REPEATS = 3
_QUANTITIES = ("latency_us", "bandwidth_mb_per_s")
_PER_CASE = 50


def session(curves: int) -> Session:
    """A session with that many curves, of noise."""
    rng = np.random.default_rng(1)
    # A group whose rows all have names of their own.
    rows = catalogue.rows("guidelines")[: _PER_CASE // len(_QUANTITIES)]
    cases = []
    for number in range(curves // _PER_CASE):
        condition = {
            "stack": f"stack{number % 5}",
            "fabric": f"fabric{number // 5 % 4}",
            "nodes": 2,
            "ppn": 1 << number // 20 % 3,
            "pinning": ("default", "bunch", "scatter")[number // 60 % 3],
            "group": rows[0].group,
            "ppn_symbol": "1",
        }
        uuid = f"00000000-0000-4000-8000-000000000000:0:{number}"
        entry = {
            "uuid": uuid,
            "result": "pass",
            "system": "big",
            "partition": f"p{number // 180}",
            "name": f"T{number}",
        }
        samples = []
        for row in rows:
            for quantity in _QUANTITIES:
                values = np.exp(rng.normal(2, 0.1, (len(_SIZES), _REPEATS))).round(2)
                known = {
                    "suite": "imb",
                    "benchmark": row.name,
                    "group": row.group,
                    "ranks": 2,
                    "groups": 1,
                    "variant": "",
                }
                samples += [
                    Sample(
                        **known,
                        message_bytes=size,
                        repetitions=100,
                        quantity=quantity,
                        values=tuple(map(float, values[place])),
                    )
                    for place, size in enumerate(_SIZES)
                ]
        proof = Evidence(
            PROVEN,
            (),
            ranks=(),
            library_version="",
            library="",
            devices=(),
            transport="",
            seconds=(1.0,),
        )
        cases.append(
            Case(uuid, 0, {**entry, "condition": condition}, condition, tuple(samples), proof, ())
        )
    info = {
        "uuid": "00000000-0000-4000-8000-000000000000",
        "time_start_unix": 1.8e9,
        "time_elapsed": 1.0,
    }
    return Session(info, tuple(cases))


def open_seconds(browser: str, page: Path, profile: Path) -> float:
    """Wall time of a browser that loads a page, runs its scripts and ends."""
    began = time.perf_counter()
    words = [
        browser,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        f"--user-data-dir={profile}",
        "--dump-dom",
        page.as_uri(),
    ]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300)
    if 'data-ready="yes"' not in done.stdout[:2000] and page.name != "empty.html":
        raise BadInput("tool-failed", f"{page} was not ready: {done.stderr[-200:]}")
    return time.perf_counter() - began


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--curves", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        raise BadInput("tool-failed", f"there is no Chromium ({', '.join(BROWSERS)}).")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        began = time.perf_counter()
        page = report.write_report(report.View(session(options.curves), folder), "report.html")
        print(
            f"{options.curves} curves written in {time.perf_counter() - began:.1f} s, "
            f"{page.stat().st_size / 1e6:.1f} MB"
        )
        (folder / "empty.html").write_text("<!DOCTYPE html><title>empty</title>")
        times: dict[str, list[float]] = {"empty.html": [], "report.html": []}
        for _ in range(options.runs):
            for one, found in times.items():
                found.append(open_seconds(browser, folder / one, folder / "profile"))
        empty, full = (statistics.median(found) for found in times.values())
        print(
            f"opened in {full - empty:.2f} s (median of {options.runs}: {full:.2f} s with the "
            f"browser's start, {min(times['report.html']):.2f} to "
            f"{max(times['report.html']):.2f}; an empty page {empty:.2f} s)"
        )


if __name__ == "__main__":
    main()

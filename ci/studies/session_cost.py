"""Measures of a session and of the listing: ``python -m
studies.session_cost``. Prints; asserts nothing.

Overhead is the session's wall time divided by the benchmarks' own time, from each launch's MPI_Init
to MPI_Finalize. The listing is compared with ``reframe -l`` on an empty test file and on a trivial
one of the same number of cases.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from mpibench.store import sessions
from reframe_tests.harness.sites.site import ROOT

#: A test that does nothing, in as many variants as ours: what
#: ReFrame itself takes for listing them.
TRIVIAL = """
import reframe as rfm
@rfm.simple_test
class Trivial(rfm.RunOnlyRegressionTest):
    number = parameter(range({count}), type=int, loggable=True)
    valid_systems = ['*']
    valid_prog_environs = ['*']
    executable = 'true'
"""


def measure_session(session: sessions.Session) -> list[str]:
    """Overhead, jobs and complete curves of one session, as lines."""
    measured = [case for case in session.cases if case.samples]
    own = sum(sum(case.proof.seconds) for case in session.cases if case.proof)
    whole = [
        [s for s in case.samples if s.message_bytes is not None and None not in s.values]
        for case in measured
    ]
    curves = [len({(s.benchmark, s.variant) for s in samples}) for samples in whole]
    quantities = sum(
        len({(s.benchmark, s.variant, s.quantity) for s in samples}) for samples in whole
    )
    if not measured or not own:
        return [f"session {session.uuid}: nothing was measured"]
    return [
        f"session {session.uuid}: {len(session.cases)} cases, {len(measured)} jobs measured",
        f"wall time {session.seconds:.1f} s, benchmarks' own time {own:.1f} s, overhead "
        f"{session.seconds / own:.2f}",
        f"complete size curves {sum(curves)}, {sum(curves) / len(measured):.1f} a job (median "
        f"{statistics.median(curves):g}, most {max(curves)}), {quantities / len(measured):.1f} "
        "counting each quantity",
    ]


def _list(tests: Path | str, runs: int, *, bare: bool = False) -> tuple[float, int]:
    """Median seconds of ``reframe -lC`` over runs, and the number of cases it listed."""
    environ = {
        **os.environ,
        "RFM_CONFIG_FILES": "" if bare else str(ROOT / "site_configs" / "settings.py"),
    }
    times = []
    count = 0
    for _ in range(runs):
        started = time.perf_counter()
        command = [str(Path(sys.executable).parent / "reframe"), "-c", str(tests), "-lC"]
        output = subprocess.run(
            command, capture_output=True, text=True, env=environ, cwd=ROOT, check=True
        ).stdout
        times.append(time.perf_counter() - started)
        found = re.search(r"Found (\d+) check|Concretized (\d+) test case", output)
        count = int(next(number for number in found.groups() if number)) if found else 0
    return statistics.median(times), count


def measure_listing(runs: int = 5) -> list[str]:
    """Time of listing our tests, an empty file, and as many trivial tests, as lines with ratios."""
    with tempfile.TemporaryDirectory() as folder:
        empty = Path(folder) / "empty.py"
        trivial = Path(folder) / "trivial.py"
        empty.write_text("import reframe as rfm\n")
        nothing, _ = _list(empty, runs, bare=True)
        ours, cases = _list(ROOT / "reframe_tests", runs)
        trivial.write_text(TRIVIAL.format(count=cases))
        same, _ = _list(trivial, runs, bare=True)
    return [
        f"listing {cases} cases takes {ours:.2f} s, {ours / nothing:.1f} x an empty file "
        f"({nothing:.2f} s), {ours / same:.2f} x as many trivial tests ({same:.2f} s)"
    ]


def main(argv: Sequence[str] | None = None) -> None:
    """Print the measures of the latest session and of the listing."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--db",
        type=Path,
        default=ROOT / "results" / "results.db",
        help="ReFrame's results database",
    )
    parser.add_argument("--session", default="latest", help="session uuid (default: the latest)")
    parser.add_argument("--runs", type=int, default=5, help="listings to take the median of")
    options = parser.parse_args(argv)
    for line in measure_session(
        sessions.read_session(options.db, None if options.session == "latest" else options.session)
    ):
        print(line)
    for line in measure_listing(options.runs):
        print(line)


if __name__ == "__main__":
    main()

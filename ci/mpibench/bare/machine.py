"""Follows the README on a minimal Debian with nothing but python3, as an ordinary user and as root.

    ci/bare-machine                  both lanes, about 20 minutes on two cores
    ci/bare-machine user             one lane: user, root; or whole: the whole test suite, as continuous integration runs it
    ci/bare-machine --only WORD      only steps with that word in their title, after the set-up; repeatable
    ci/bare-machine --list           list the steps and run none

Tests the committed state of this checkout, without its caches. Needs root and debootstrap. The minimal Debian is made from
this machine's package sources and kept for a week (--cache DIR, by default ~/.cache/mpibench/bare-machine); each lane works
in a copy that is removed at its end (--keep leaves it and prints its path). Logs: results/bare-machine/.

Exit status: 0 all steps passed; 1 one failed; 2 this cannot be run here, or wrong usage.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import os
import re
import signal
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import FrameType
from typing import NoReturn

from mpibench.bare import box as bare_box
from mpibench.bare import root as bare_root
from mpibench.bare.box import Step, StepOutcome
from reframe_tests.harness.vocabulary import BadInput

PROJECT = Path(__file__).resolve().parents[3]
ACTIVATE = ". .venv/bin/activate\n"
#: A group of tests that meets host packages, the cluster's own packages and both together.
TESTS = (
    "process/project/test_setup",
    "process/cluster/test_cluster_packages",
    "cluster/fabrics/test_cluster_run",
    "cluster/test_cluster_ends",
    "process/stacks/test_system_stacks",
    "mpi/test_system_stacks_mpi",
    "cluster/fabrics/test_system_stacks_cluster",
)
CLUSTER = (
    ACTIVATE
    + """trap 'mpibench cluster down' EXIT
mpibench cluster up
mpibench cluster exec -- reframe -c reframe_tests -r -S level=smoke --system=minicluster \
    -n 'ImbPointToPoint%fabric=eth1g%nodes=2%ppn=1%pinning=default' -p mpich-wheels
"""
)
CLUSTER_SAYS = (r"Slurm: c1 idle, c2 idle", r"\[ +OK *\] \(2/2\)", r"\[ +PASSED +\] Ran 2/2", r"the cluster is down")
#: What tests need (ci/tests/support/untested.py) and a bare machine cannot have.
MAY_SKIP = "spack papers pushgateway busy git sources"
DEBIAN_MPI = "apt-get install --yes openmpi-bin mpich || { apt-get update; apt-get install --yes openmpi-bin mpich; }"


def _tests(*modules: str) -> str:
    files = " ".join(f"ci/tests/{module}.py" for module in modules)
    return f"{ACTIVATE}python -m pytest -q -p no:cacheprovider {files}"


#: Lane to what it does, in this order: packages of the host come after the cluster was used (user) and before (root).
LANES: dict[str, tuple[Step, ...]] = {
    "user": (
        Step("ci-nightly", "MODE=smoke ci/nightly", says=(r"setup: ready: ", r"done: results/report.html")),
        Step("reframe -l", f"{ACTIVATE}reframe -c reframe_tests -l", says=(r"Found [1-9]\d* check",)),
        Step("stored sessions", f"{ACTIVATE}reframe --list-stored-sessions", says=(r"(?i)uuid", r"[0-9a-f]{8}-[0-9a-f]{4}")),
        Step("doctor", f"{ACTIVATE}mpibench doctor", says=(r"mpich-wheels",)),
        Step("cluster, first", CLUSTER, says=CLUSTER_SAYS),
        Step("host packages", DEBIAN_MPI, as_root=True),
        Step("cluster, again", CLUSTER, says=CLUSTER_SAYS),
        Step("set-up for tests", "ci/setup test", says=(r"setup: ready: ",)),
        Step("tests", _tests(*(name for name in TESTS if name != "cluster/test_cluster_run")), says=(r"\d+ passed",)),
    ),
    "root": (
        Step("set-up for tests", "ci/setup test", as_root=True, says=(r"setup: ready: ", r"apt-get install chromium")),
        Step("host packages", DEBIAN_MPI, as_root=True),
        Step("tests", _tests(*TESTS, "unit/verdicts/test_rebaseline"), as_root=True, says=(r"\d+ passed",)),
        Step("cluster", CLUSTER, as_root=True, says=CLUSTER_SAYS),
        Step("doctor", f"{ACTIVATE}mpibench doctor", as_root=True, says=(r"mpich-wheels",)),
    ),
    "whole": (
        Step("ci-test", f"CI=true MPIBENCH_MAY_SKIP='{MAY_SKIP}' ci/test", as_root=True, says=(r"\d+ passed",), limit_s=5400),
    ),
}
USUAL = ("user", "root")
#: Steps that others stand on; --only leaves them in.
FOUNDATIONS = ("ci-nightly", "set-up for tests")
SHOWN_LINES = 30
#: ReFrame colours its words also where nobody looks (ECMA-48, 8.3.117: select graphic rendition).
COLOUR = re.compile(r"\x1b\[[0-9;]*m")

_began = time.monotonic()


def say(text: str) -> None:
    """A line of progress."""
    print(f"bare-machine: [{time.monotonic() - _began:4.0f} s] {text}", flush=True)


def choose(lanes: Sequence[str], words: Sequence[str]) -> dict[str, tuple[Step, ...]]:
    """The steps asked for, by lane.

    :raises BadInput: for a lane or word that names nothing.
    """
    unknown = [lane for lane in lanes if lane not in LANES]
    if unknown:
        raise bare_root.Impossible(f"there is no lane {unknown[0]!r}; there are {', '.join(LANES)}.")
    chosen = {lane: LANES[lane] for lane in lanes or USUAL}
    for word in words:
        if not any(word in step.title for steps in chosen.values() for step in steps):
            raise bare_root.Impossible(f"no step has {word!r} in its title; see ci/bare-machine --list.")
    if not words:
        return chosen
    first = {
        lane: next(i for i, step in enumerate(steps) if step.title in (*FOUNDATIONS, "ci-test"))
        for lane, steps in chosen.items()
    }
    return {
        lane: tuple(s for i, s in enumerate(steps) if i <= first[lane] or any(word in s.title for word in words))
        for lane, steps in chosen.items()
    }


def judge(outcome: StepOutcome, step: Step, log: Path) -> str:
    """Why a step failed, or an empty text."""
    if outcome.status == bare_box.TIMED_OUT:
        return f"ended at its limit of {step.limit_s} s"
    if outcome.status:
        return f"exit status {outcome.status}"
    text = COLOUR.sub("", log.read_text(errors="replace"))
    absent = [pattern for pattern in step.says if not re.search(pattern, text)]
    return f"its output has nothing like '{absent[0]}'" if absent else ""


def show_tail(log: Path) -> None:
    """The last lines of a log, for who reads only the console."""
    for line in log.read_text(errors="replace").splitlines()[-SHOWN_LINES:]:
        print(f"    | {line}", flush=True)


def run_lane(lane: str, steps: Sequence[Step], base: Path, cache: Path, logs: Path, keep: bool) -> list[tuple[str, ...]]:
    """Run a lane in a copy of the base; rows of the table.

    :raises BadInput: if the box cannot be made.
    """
    scratch = Path(tempfile.mkdtemp(dir=cache, prefix="run-"))
    scratch.chmod(0o755)
    rows: list[tuple[str, ...]] = []
    try:
        with (scratch / ".lock").open("w") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            root = scratch / "root"
            bare_root.copy(base, root, os.environ)
            # Root's where everybody may read it, as a site would install it: some tests of root try it as somebody else.
            place = "opt" if steps[0].as_root else f"home/{bare_root.USER}"
            bare_root.clone(PROJECT, root / place / "mpibench")
            if not steps[0].as_root:
                bare_root.give(root / place)
            files = [logs / f"{lane}-{re.sub('[^a-z]+', '-', step.title)}.log" for step in steps]
            say(f"{lane}: {steps[0].title}")
            variables = bare_root.carried_variables(os.environ)
            box = bare_box.run(root, f"/{place}/mpibench", steps, files, variables)
            with contextlib.closing(box) as outcomes:
                for i, outcome in enumerate(outcomes):
                    problem = judge(outcome, steps[i], files[i])
                    rows.append((lane, outcome.title, f"{outcome.seconds:.0f} s", problem or "ok"))
                    say(f"{lane}: {outcome.title}: {problem or 'ok'} after {outcome.seconds:.0f} s")
                    if problem:
                        show_tail(files[i])
                    if i + 1 < len(steps):
                        say(f"{lane}: {steps[i + 1].title}")
            rows += [(lane, step.title, "", "not run: the box died") for step in steps[len(rows) :]]
    finally:
        if keep:
            (scratch / ".lock").unlink(missing_ok=True)  # the mark of what may be removed
            say(f"{lane}: left in {scratch}; remove it when done")
        else:
            bare_root.remove(scratch)
    return rows


def remove_stale(cache: Path) -> None:
    """Copies whose command was killed; whoever is at work holds a lock."""
    for scratch in cache.glob("run-*"):
        lock = scratch / ".lock"
        if lock.exists():
            with lock.open("w") as tried:
                try:
                    fcntl.flock(tried, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    continue
                bare_root.remove(scratch)


def format_table(rows: Iterable[Sequence[str]]) -> str:
    """Rows under a heading, in columns."""
    table = [("lane", "step", "time", "outcome"), *rows]
    widths = [max(len(row[i]) for row in table) for i in range(4)]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in table)


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="ci/bare-machine", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("lanes", nargs="*", metavar="LANE", help=f"{', '.join(LANES)}; default: {' and '.join(USUAL)}")
    parser.add_argument("--only", action="append", default=[], metavar="WORD")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--cache", type=Path, metavar="DIR")
    return parser.parse_args(arguments)


def _ended(number: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)


def run(arguments: Sequence[str]) -> int:
    """Do what the command line says; the exit status.

    :raises BadInput: if it cannot be done here.
    """
    options = parse(arguments)
    chosen = choose(options.lanes, options.only)
    if options.list:
        print(
            format_table(
                (lane, step.title, f"<= {step.limit_s} s", "root" if step.as_root else "user")
                for lane in chosen
                for step in chosen[lane]
            )
        )
        return 0
    if os.geteuid() != 0:
        raise bare_root.Impossible("only root can make a root file system and enter it; run it with sudo.")
    bare_root.install_debootstrap(os.environ, say)
    if not (PROJECT / ".git").exists():
        raise bare_root.Impossible(f"{PROJECT} is not a git checkout; what is committed is what would be tried.")
    cache = (
        options.cache or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "mpibench/bare-machine")
    ).absolute()
    logs = PROJECT / "results" / "bare-machine"
    for folder in (cache, logs):
        folder.mkdir(parents=True, exist_ok=True)
    if changed := bare_root.uncommitted(PROJECT):
        say(f"{changed} files differ from what is committed; what is committed is tried")
    with (cache / "base.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        remove_stale(cache)
        base = bare_root.provide_base(cache, logs / "debootstrap.log", say)
    rows: list[tuple[str, ...]] = []
    for lane, steps in chosen.items():
        rows += run_lane(lane, steps, base, cache, logs, options.keep)
    print(f"\n{format_table(rows)}\n")
    failed = sum(row[-1] != "ok" for row in rows)
    say(f"{failed} of {len(rows)} steps failed; logs are in {logs}" if failed else f"all {len(rows)} steps went well")
    return int(bool(failed))


def main(arguments: Sequence[str]) -> int:
    """Entry point."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _ended)
    try:
        return run(arguments)
    except BadInput as error:
        print(f"bare-machine: {error}", file=sys.stderr)
        return 2 if isinstance(error, bare_root.Impossible) else 1
    except KeyboardInterrupt:
        print("bare-machine: interrupted; nothing is left mounted or running", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""A night that misses a reference, or is slower than those before, measures that again; what counts is what is seen twice."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import polars as pl
import pytest

from live_cluster import wait_for
from mpibench.store import sessions
from mpibench.store.dataset_layout import write_file
from mpibench.store.sessions import CONFIRMS
from night_project import NightProject
from page_reader import Reader
from synthetic_session import STACKS, case, gate

#: Where the night leaves its JUnit file.
JUNIT = "--report-junit=results/tonight/nightly.xml"
GOOD = (case("intelmpi-wheels"), case("openmpi-wheels"))


def with_bandwidth(value: float, **changes: Any) -> dict[str, Any]:
    """The case whose reference is at least 90 MB/s."""
    return case("mpich-wheels", gates=[gate("bandwidth", value, 100.0, "MB/s")], **changes)


@pytest.fixture
def project(tmp_path: Path) -> NightProject:
    """The first session measures 50 MB/s of at least 90."""
    project = NightProject(tmp_path, tuple(STACKS))
    project.plan([with_bandwidth(50.0), *GOOD])
    return project


def then(project: NightProject, *plan: dict[str, Any], during: str = ":") -> str:
    """What each job does before its benchmark, so that the session after this one measures another plan.

    :param during: what the jobs of that session do.
    """
    project.write("second.json", json.dumps(plan))
    again = project.results / "tonight" / "again"
    return f"if [ -d {again} ]; then {during}; else cp {project.top}/second.json {project.top}/plan.json; fi"


def gate_says(project: NightProject) -> tuple[int, str]:
    """The gate's answer on tonight's session, in the project's own checkout."""
    program = "import sys; from mpibench.cli import main; sys.exit(main(sys.argv[1:]))"
    environ = {**os.environ, "PYTHONPATH": f"{project.top}/ci:{project.top}"}
    done = subprocess.run(
        [sys.executable, "-c", program, "gate", "--session", project.session],
        cwd=project.top,
        env=environ,
        text=True,
        capture_output=True,
    )
    return done.returncode, done.stdout + done.stderr


def test_what_is_not_missed_again_is_green_and_told(project: NightProject) -> None:
    status, said = project.run(JUNIT, NIGHT_DURING=then(project, with_bandwidth(97.0), *GOOD))
    assert status == 0, said
    name = "Replay %number=p2p_shm_2_bunch_mpich @tiny:node+mpich-wheels"
    assert f"missed reference not seen again: {name}: bandwidth 50 MB/s and again 97 MB/s" in said
    first, second = (sessions.read_session(project.results / "results.db", one) for one in _stored(project))
    assert first.uuid == project.session and second.labels == {"run": "confirmation", CONFIRMS: first.uuid}
    assert [one.name for one in second.cases] == ["Replay %number=p2p_shm_2_bunch_mpich"], "nothing else is measured again"
    gated, answer = gate_says(project)
    assert gated == 0, answer
    assert "1 missed (1 not seen again)" in answer and "must be at least 90 MB/s (learned); measured again 97 MB/s" in answer
    both = "bandwidth 50 MB/s and again 97 MB/s"
    suite, elements = in_junit(project)
    assert [suite.get(name) for name in ("tests", "failures", "errors")] == ["3", "0", "0"]
    assert [one.findtext("system-out", "").rpartition(": ")[2] for one in elements if len(one)] == [both]
    page = Reader((project.results / "report.html").read_text()).text
    assert "1 of 1 cases that missed a reference reached it" in page["again"] and both in page["again"]


def in_junit(project: NightProject) -> tuple[ElementTree.Element, list[ElementTree.Element]]:
    """The suite of tonight's JUnit file, and its cases."""
    [suite] = ElementTree.parse(project.results / "tonight" / "nightly.xml").iter("testsuite")
    return suite, list(suite.iter("testcase"))


def _stored(project: NightProject) -> list[str]:
    return sessions.list_sessions(project.results / "results.db")


CONTRADICTED = {"end": "sanity", "verdict": "contradicted", "reason": "asked for lo, it went over shm"}


@pytest.mark.parametrize(
    ("second", "during", "minutes", "wanted"),
    [
        (with_bandwidth(60.0), ":", "30", "missed reference seen twice: Replay %number=p2p_shm_2_bunch_mpich @tiny:node+"),
        (with_bandwidth(97.0, **CONTRADICTED), ":", "30", "not measured again: session "),
        (case("intelmpi-wheels"), ":", "30", "not measured again: "),
        (with_bandwidth(97.0), "sleep 300", "0.2", "not measured again: "),
        (with_bandwidth(97.0), ":", "0", ""),
    ],
    ids=["twice", "unproven", "gone", "queue", "off"],
)
def test_the_night_stays_red(project: NightProject, second: dict[str, Any], during: str, minutes: str, wanted: str) -> None:
    status, said = project.run(JUNIT, CONFIRM_MINUTES=minutes, NIGHT_DURING=then(project, second, during=during))
    assert status == 1, said
    suite, elements = in_junit(project)
    assert suite.get("failures") == "1"
    assert [wanted in mark.get("message", "") for one in elements for mark in one.iter("failure")] == [True]
    problems = said.split("NOT accepted")[1]
    assert wanted in problems and "ReFrame ended with exit status 1" in problems, said
    assert "reasons: 2" in problems or not wanted
    assert project.session == _stored(project)[0], "tonight's session stays what it was"
    if minutes == "0.2":
        assert "when the budget of 0.2 min was used up" in problems or "the budget of 0.2 min was used up before" in problems
    if second["stack"] == "intelmpi-wheels" or minutes == "0":
        assert len(_stored(project)) == 1


def test_what_lacks_its_proof_is_not_measured_again(project: NightProject) -> None:
    project.plan([with_bandwidth(50.0, **CONTRADICTED), *GOOD])
    status, said = project.run()
    assert status == 1 and "measuring again" not in said
    assert len(_stored(project)) == 1


def test_a_signal_while_it_is_measured_again_loses_nothing(project: NightProject) -> None:
    during = then(project, with_bandwidth(97.0), *GOOD, during=f"echo $$ >{project.top}/pid; sleep 300")
    night = project.begin(NIGHT_DURING=during)
    try:
        assert wait_for(lambda: (project.top / "pid").exists(), 240)
        night.send_signal(signal.SIGTERM)
        said, _ = night.communicate(timeout=240)
    finally:
        night.kill()
    assert night.returncode == 128 + signal.SIGTERM, said
    assert "INTERRUPTED by SIGTERM" in said and "Traceback" not in said
    first = sessions.read_session(project.results / "results.db", project.session)
    assert len(first.cases) == 3 and f"session {first.uuid} is whole and stored" in said


@pytest.mark.parametrize("minutes", ["soon", "-1", "nan", "inf"])
def test_a_budget_that_is_none_is_refused(project: NightProject, minutes: str) -> None:
    status, said = project.run(CONFIRM_MINUTES=minutes)
    assert status == 2 and f"CONFIRM_MINUTES={minutes} is no number of minutes" in said
    assert not project.session


def at_speed(factor: float) -> dict[str, Any]:
    """A case all of whose times are longer, and all of whose rates are lower, by a factor."""
    plain = case("mpich-wheels")
    for row in plain["samples"]:
        row["values"] = [value * factor if row["direction"] == "lower" else value / factor for value in row["values"]]
    return plain


def nights_before(project: NightProject, count: int) -> None:
    """As many nights like the only one in the dataset, some parts in a thousand faster or slower, on the days before it."""
    rng = random.Random(7)
    for night in range(1, count + 1):
        session, shift = f"{night:08x}-0000-4000-8000-000000000000", timedelta(days=night)
        for table in ("cases", "samples"):
            for path in list((project.results / "dataset" / table).rglob("*.parquet")):
                if path.stem != project.session:
                    continue
                rows = pl.read_parquet(path, hive_partitioning=False)
                rows = rows.with_columns(pl.col(pl.String).str.replace_all(project.session, session, literal=True))
                if "started" in rows.columns:
                    rows = rows.with_columns(pl.col("started") - shift)
                if "value" in rows.columns:
                    rows = rows.with_columns(pl.col("value") * pl.Series([rng.gauss(1, 0.003) for _ in range(rows.height)]))
                day = f"date={datetime.now(timezone.utc) - shift:%Y-%m-%d}"
                copy = path.parents[1] / day / f"{session}.parquet"
                copy.parent.mkdir(exist_ok=True)
                write_file(copy, rows)


@pytest.mark.parametrize(("second", "status"), [(1.0, 0), (1.3, 1)], ids=["gone", "twice"])
def test_what_is_slower_than_the_nights_before_is_measured_again(tmp_path: Path, second: float, status: int) -> None:
    project = NightProject(tmp_path)
    project.plan([at_speed(1.0), *GOOD])
    assert project.run()[0] == 0
    nights_before(project, 8)
    project.plan([at_speed(1.3), *GOOD])
    during = then(project, at_speed(second), *GOOD)
    ended, said = project.run(NIGHT_DURING=during)
    assert ended == 0, "the night's references and proof are as they must be: " + said
    assert "measuring again what was called slower: 1 case of mpich-wheels on tiny:node" in said
    gated, answer = gate_says(project)
    assert gated == status, answer
    assert ("for the gate, history: mpich-wheels on node, shm" in said) == bool(status)
    assert ("seen twice" if status else "not seen again") in answer and "not measured again" not in answer

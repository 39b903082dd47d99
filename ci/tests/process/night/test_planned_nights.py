"""``BUDGET=... ci/nightly``: it measures the planned cases and no others, and is green only if all of them were proven."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from mpibench.store import sessions
from night_project import NightProject
from page_reader import Reader
from synthetic_session import STACKS, case

#: What makes the tests that replay a plan known to the harness, as its own base classes are.
IMPORT = "import reframe as rfm\n"
GROUP = '    group = variable(str, value="", loggable=True)\n'
TAKEN = "        self.plan = PLAN[self.number]\n"
KNOWN = (
    (IMPORT, f"{IMPORT}from reframe_tests.harness.sites import selected_tests\n"),
    (GROUP, f'{GROUP}    level = variable(str, value="nightly")\n'),
    (TAKEN, f"{TAKEN}        selected_tests.LOADED.append(self)\n"),
    ('        self.tags = {"production"}\n', '        self.tags = {"production", *self.plan.get("tags", ())}\n'),
)
#: One smoke case, and eleven others. Nothing is known of such tests, so that each counts as a minute.
CASES = [
    case(stack, fabric, ppn=ppn, tags=["smoke"] if (stack, fabric, ppn) == ("mpich-wheels", "shm", 2) else [])
    for stack in STACKS
    for fabric in ("shm", "lo")
    for ppn in (2, 4)
]


@pytest.fixture
def project(tmp_path: Path) -> NightProject:
    project = NightProject(tmp_path)
    path = tmp_path / "reframe_tests" / "replay_plan.py"
    changed = path.read_text()
    for old, new in KNOWN:
        assert old in changed, old
        changed = changed.replace(old, new)
    path.write_text(changed)
    project.register(*STACKS)
    project.plan(CASES)
    return project


def ran(project: NightProject) -> set[str]:
    """Names of the cases of the newest session."""
    database = project.results / "results.db"
    session = sessions.read_session(database, project.session)
    return {one.name for one in session.cases if one.result != "skip"}


def planned(project: NightProject) -> list[dict[str, Any]]:
    """Rows of the newest plan."""
    [*_, newest] = sorted((project.results / "dataset" / "plans").glob("*.json"), key=lambda path: path.stat().st_mtime)
    rows: list[dict[str, Any]] = json.loads(newest.read_text())["cases"]
    return rows


def test_a_planned_night_measures_the_planned_cases_and_no_others(project: NightProject) -> None:
    status, said = project.run(BUDGET="5m")
    assert status == 0, said
    rows = planned(project)
    wanted = {row["name"] for row in rows if row["planned"]}
    assert len(rows) == 12 and len(wanted) == 5 and ran(project) == wanted
    assert [row["why"] for row in rows if row["why"] == "smoke"] == ["smoke"]
    before = said.partition("measuring in mode")[0]
    assert re.search(r"5 jobs, 15 launches, 0\.1 node-hours, 5\.0 min \(budget 5m\); no planned night before", before), said
    assert re.search(r"plan: predicted 5\.0 min, took 0\.\d", said)
    session = sessions.read_session(project.results / "results.db", project.session)
    assert re.fullmatch(r"[0-9a-f]{16}", session.labels["plan"])
    text = Reader((project.results / "report.html").read_text()).text["plan"]
    assert "5 of 12 cases were planned" in text, text
    stacks = Counter(row["name"].partition("%plan.stack=")[2] or row["stack"] for row in rows if row["planned"])
    for stack, cases in stacks.items():
        assert f"{stack}{cases} of 4; {4 - cases} never" in text, text
    assert re.search(r"complete: tiny, .*plan [0-9a-f]{16} of \d{4}-\d\d-\d\d: 5 of 12 cases", said), said


def test_a_budget_too_small_for_the_core_measures_nothing(project: NightProject) -> None:
    status, said = project.run(BUDGET="0.5m")
    assert status == 2, said
    assert "nightly: a budget of 0.5m is too small for what is measured every night: 1 cases take 1.0 min" in said
    assert project.session == "" and not (project.results / "results.db").exists()


def test_a_planned_case_that_was_lost_makes_the_night_red(project: NightProject) -> None:
    """Between the plan and the night a stack loses its program, say: ReFrame makes no case of it, and says nothing."""
    path = project.top / "reframe_tests" / "replay_plan.py"
    path.write_text(
        path.read_text().replace(
            '        self.valid_prog_environs = [self.plan["stack"]]\n',
            '        self.valid_prog_environs = [self.plan["stack"]]\n'
            "        if 'MPIBENCH_PLAN' in os.environ and self.plan['tags']:\n"
            "            selected_tests.LOADED.pop()\n"
            "            self.valid_systems = []\n",
        )
    )
    status, said = project.run(BUDGET="5m")
    assert status == 1, said
    assert re.search(r"missing: planned and not proven: .*p2p_shm_2_bunch_mpich \(did not run\)", said), said


def test_what_ran_and_was_not_planned_makes_the_night_red(project: NightProject) -> None:
    """A test that the harness does not know cannot be left out."""
    path = project.top / "reframe_tests" / "replay_plan.py"
    path.write_text(path.read_text().replace("        selected_tests.LOADED.append(self)\n", ""))
    status, said = project.run(BUDGET="5m")
    assert status == 1 and "7 cases ran that were not planned (" in said, said


@pytest.mark.parametrize(
    ("environ", "sentence"),
    [
        ({"BUDGET": "soon"}, "a budget of 'soon' is none"),
        ({"BUDGET": "5m", "NIGHTS": "many"}, "NIGHTS=many is no number of nights"),
        ({"BUDGET": "5m", "MAX_JOBS": "0"}, "MAX_JOBS=0 is no number of jobs"),
        ({"NIGHTS": "7"}, "NIGHTS=7 is of a planned night: set BUDGET, too"),
    ],
)
def test_bad_settings_of_a_planned_night_measure_nothing(project: NightProject, environ: dict[str, str], sentence: str) -> None:
    status, said = project.run(**environ)
    assert status == 2 and sentence in said, said
    assert project.session == ""


def test_a_stray_plan_in_the_environment_narrows_no_night(project: NightProject) -> None:
    (project.top / "stray.json").write_text(json.dumps({"system": "tiny", "cases": []}))
    status, said = project.run(MPIBENCH_PLAN=str(project.top / "stray.json"), MPIBENCH_MAX_JOBS="nonsense")
    assert status == 0 and len(ran(project)) == 12, said


@pytest.mark.parametrize("options", [("--session-extras", "plan=0123456789abcdef"), ("--session-extras=ticket=12,plan=0",)])
def test_nobody_gives_a_night_the_plan_of_another(project: NightProject, options: tuple[str, ...]) -> None:
    """A session that names a plan is excused from what that plan left out."""
    status, said = project.run(*options)
    assert status == 2 and "nightly: the label 'plan' is not for anybody to give" in said, said
    assert project.session == ""

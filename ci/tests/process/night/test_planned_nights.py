"""``BUDGET=... ci/nightly``: it measures the planned cases and no
others, and is green only if all of them were proven.
"""

import itertools
import json
import re

import pytest

from mpibench.store import sessions
from synthetic_project import NightProject
from synthetic_session import STACKS, case

#: What makes the tests that replay a plan known to the harness, as its own base classes are.
IMPORT = "import reframe as rfm\n"
GROUP = '    group = variable(str, value="", loggable=True)\n'
TAKEN = "        self.plan = PLAN[self.number]\n"
KNOWN = (
    (IMPORT, f"{IMPORT}from reframe_tests.harness.sites import selected_tests\n"),
    (
        GROUP,
        f'{GROUP}    level = variable(str, value="nightly")\n    repeats = variable(int, '
        "value=1)\n",
    ),
    (TAKEN, f"{TAKEN}        selected_tests.LOADING.tests.append(self)\n"),
    (
        '        self.tags = {"production"}\n',
        '        self.tags = {"production", *self.plan.get("tags", ())}\n',
    ),
)
#: One smoke case, and eleven others. Nothing is known of such
#: tests, so that each counts as a minute.
CASES = [
    case(stack, fabric, ppn=ppn, tags=["smoke"] if at == 0 else [])
    for at, (stack, fabric, ppn) in enumerate(itertools.product(STACKS, ("shm", "lo"), (2, 4)))
]


def change(project, *changes):
    """The tests that replay a plan."""
    path = project.top / "reframe_tests" / "replay_plan.py"
    text = path.read_text()
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    path.write_text(text)


@pytest.fixture
def project(tmp_path):
    project = NightProject(tmp_path)
    change(project, *KNOWN)
    project.register(*STACKS)
    project.plan(CASES)
    return project


def ran(project):
    """Names of the cases of the newest session."""
    database = project.results / "results.db"
    session = sessions.read_session(database, project.session)
    return {one.name for one in session.cases if one.result != "skip"}


def test_a_planned_night_measures_the_planned_cases_and_no_others(project):
    status, said = project.run(BUDGET="5m")
    assert status == 0, said
    [plan] = (project.results / "dataset" / "plans").glob("*.json")
    rows = json.loads(plan.read_text())["cases"]
    wanted = {row["name"] for row in rows if row["planned"]}
    assert len(rows) == 12 and len(wanted) == 5 and ran(project) == wanted
    before = said.partition("measuring in mode")[0]
    assert "5 jobs, 15 launches, 0.1 node-hours, 5.0 min (budget 5m); no planned night" in before
    assert re.search(r"plan: predicted 5\.0 min, took 0\.\d", said), said
    session = sessions.read_session(project.results / "results.db", project.session)
    assert session.labels["plan"] in plan.name
    assert f"plan {session.labels['plan']} of " in said and ": 5 of 12 cases" in said, said


def test_a_planned_case_that_was_lost_makes_the_night_red(project):
    """Between the plan and the night a stack loses its program, say:
    ReFrame makes no case of it, and says nothing.
    """
    taken = '        self.valid_prog_environs = [self.plan["stack"]]\n'
    lost = (
        "        if 'MPIBENCH_PLAN' in os.environ and self.plan['tags']:\n"
        "            selected_tests.LOADING.tests.pop()\n"
        "            self.valid_systems = []\n"
    )
    change(project, (taken, taken + lost))
    status, said = project.run(BUDGET="20m")
    assert status == 1, said
    assert re.search(
        r"missing: planned but not proven: .*_2_bunch_intelmpi \(did not run\)", said
    ), said


def test_what_ran_and_was_not_planned_makes_the_night_red(project):
    """A test that the harness does not know cannot be left out."""
    change(project, ("        selected_tests.LOADING.tests.append(self)\n", ""))
    status, said = project.run(BUDGET="5m")
    assert status == 1 and "7 cases ran without being planned (" in said, said

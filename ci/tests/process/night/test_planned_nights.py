"""``BUDGET=... ci/nightly``: it measures the planned cases and no
others, and is green only if all of them were proven.
"""

import itertools
import json
import re

import pytest

from synthetic_project import NightProject
from synthetic_session import STACKS, case

#: What makes the tests that replay a plan known to the harness, as its own base classes are: lines
#: and what comes behind each.
KNOWN = {
    "import reframe as rfm\n": "from reframe_tests.harness.sites import selected_tests\n",
    '    group = variable(str, value="", loggable=True)\n': (
        '    level = variable(str, value="nightly")\n    repeats = variable(int, value=1)\n'
    ),
    "        self.plan = PLAN[self.number]\n": "        selected_tests.LOADING.tests.append(self)\n",
    '        self.tags = {"production"}\n': (
        '        self.tags = {"production", *self.plan.get("tags", ())}\n'
    ),
}
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
    change(project, *((line, line + more) for line, more in KNOWN.items()))
    project.register(*STACKS)
    project.plan(CASES)
    return project


def ran(project):
    """Names of the cases of the newest session."""
    return {one.name for one in project.measured.cases if one.result != "skip"}


def test_a_planned_night_measures_the_planned_cases_and_no_others(project):
    said = project.ends(0, BUDGET="5m")
    [plan] = (project.results / "dataset" / "plans").glob("*.json")
    rows = json.loads(plan.read_text())["cases"]
    wanted = {row["name"] for row in rows if row["planned"]}
    assert len(rows) == 12 and len(wanted) == 5 and ran(project) == wanted
    before = said.partition("measuring in mode")[0]
    assert "5 jobs, 15 launches, 0.1 node-hours, 5.0 min (budget 5m); no planned night" in before
    assert re.search(r"plan: predicted 5\.0 min, took 0\.\d", said), said
    label = project.measured.labels["plan"]
    assert label in plan.name
    assert f"plan {label} of " in said and ": 5 of 12 cases" in said, said


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
    missing = r"missing: planned but not proven: .*_2_bunch_intelmpi \(did not run\)"
    assert re.search(missing, project.ends(1, BUDGET="20m"))


def test_what_ran_and_was_not_planned_makes_the_night_red(project):
    """A test that the harness does not know cannot be left out."""
    change(project, ("        selected_tests.LOADING.tests.append(self)\n", ""))
    assert "7 cases ran without being planned (" in project.ends(1, BUDGET="5m")

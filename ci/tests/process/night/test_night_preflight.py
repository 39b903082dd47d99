"""A night looks at its nodes first: what is odd is named and makes
it red, and it is measured all the same.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from mpibench.store import sessions
from reframe_tests.harness.sites.site import ROOT
from synthetic_project import NightProject

ODD = "kernel: {expected: of another machine, why: because, fix: do it}\n"


@pytest.fixture
def project(tmp_path: Path) -> NightProject:
    """With the test of nodes and its rules; what else runs on this machine says nothing here."""
    project = NightProject(tmp_path)
    for name in ("reframe_tests/preflight.py", "site_configs/preflight.yaml"):
        shutil.copy(ROOT / name, project.top / name)
    rules = "".join(
        f"{fact}: null\n"
        for fact in ("busy_cores", "processes_of_others", "memory_available_percent")
    )
    project.write("site_configs/tiny/preflight.yaml", rules)
    return project


def runs(project: NightProject) -> list[str | None]:
    """Label ``run`` of each session, oldest first."""
    database = project.results / "results.db"
    return [
        sessions.read_session(database, one).labels.get("run")
        for one in sessions.list_sessions(database)
    ]


def test_nodes_that_are_as_they_must_be_say_nothing(project: NightProject) -> None:
    status, said = project.run(PREFLIGHT="yes")
    assert status == 0, said
    assert "checking the nodes first" in said and "preflight of " not in said
    assert runs(project) == ["preflight", "nightly"]
    assert project.session == sessions.list_sessions(project.results / "results.db")[-1]


def test_an_odd_node_is_named_and_the_night_is_red_and_whole(project: NightProject) -> None:
    with (project.top / "site_configs" / "tiny" / "preflight.yaml").open("a") as file:
        file.write(ODD)
    status, said = project.run(PREFLIGHT="exclude")
    assert status == 1, said
    assert "preflight of node: kernel is " in said.split("NOT accepted; reasons: 1")[1]
    assert "no node is left out: 1 of 1 differ" in said
    assert runs(project) == ["preflight", "nightly"], "what can be measured is measured"

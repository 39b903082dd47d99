"""Scripts as README and docs show them, in a project whose whole nights take seconds."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from mpibench.store import sessions
from night_project import NightProject


@pytest.fixture
def project(tmp_path: Path) -> NightProject:
    return NightProject(tmp_path / "project")


def test_a_night_takes_the_tests_of_a_site_along(project: NightProject, tmp_path: Path) -> None:
    """``ci/nightly -c /site/mpibench/tests``"""
    folder = tmp_path / "site" / "tests"
    folder.mkdir(parents=True)
    ours = (project.top / "reframe_tests" / "replay_plan.py").read_text()
    (folder / "mysuite.py").write_text(ours.replace("class Replay(", "class MysuiteRing("))
    status, said = project.run("-c", str(folder))
    assert status == 0, said
    session = sessions.read_session(project.results / "results.db", project.session)
    names = sorted(case.name.split()[0] for case in session.cases)
    assert names == ["MysuiteRing"] * 2 + ["Replay"] * 2


def test_what_a_change_alters_is_printed_where_there_is_no_request(project: NightProject) -> None:
    """``ci/pipelines/change-verdict BASE``"""

    def commit(branch: str) -> None:
        identity = "-c user.name=x -c user.email=x@example.org -c commit.gpgsign=false"
        for words in (f"checkout --quiet -b {branch}", "add --all", "commit --quiet -m x"):
            command = ["git", *identity.split(), *words.split()]
            subprocess.run(command, cwd=project.top, check=True, capture_output=True)

    subprocess.run(["git", "init", "--quiet"], cwd=project.top, check=True)
    commit("base")
    project.write("environments/common/packages.yaml", "packages: {}\n")
    specs = "spack:\n  include: [../common]\n  specs: [mpibench-suite ^mympi]\n"
    project.write("environments/mympi/spack.yaml", specs)
    commit("mine")
    nobody = dict.fromkeys(("CI_API_V4_URL", "GITHUB_API_URL", "COMMENT_TOKEN"))
    status, said = project.run("base", script="ci/pipelines/change-verdict", **nobody)
    assert status == 0, said
    comment = (project.results / "tonight" / "change.md").read_text()
    assert "mympi" in comment and comment in said

"""``ci/nightly`` and the site: whatever becomes of a night is on it, and what becomes of the site is in the night's answer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from night_project import NightProject
from synthetic_session import CONTRADICTED, STACKS, case


@pytest.fixture
def project(tmp_path: Path) -> NightProject:
    return NightProject(tmp_path)


def test_a_red_night_is_on_the_site_with_its_jobs_output(project: NightProject) -> None:
    project.register(*STACKS)
    project.plan([case(), case("mpich-wheels", end="sanity", verdict="contradicted", reason=CONTRADICTED)])
    status, said = project.run()
    assert status == 1, said
    first = (project.results / "site" / "index.html").read_text()
    assert "red: 1 of 2 cases failed" in first and "2.1 GB went over shm" in first
    (proof,) = project.results.glob("site/*/nights/*-proof.html")
    assert "rfm_job.out" in proof.read_text()
    (answer,) = (json.loads(path.read_text()) for path in project.results.glob("dataset/answers/*.night.json"))
    assert answer["session"] == project.session and not answer["passed"]
    (page,) = (path for path in project.results.glob("site/*/nights/*.html") if "-proof" not in path.name)
    assert "something expected is missing" in page.read_text()


def test_a_site_that_cannot_be_written_makes_a_good_night_red_and_hides_nothing(project: NightProject) -> None:
    (project.results / "site").mkdir(parents=True)
    (project.results / "site" / "thesis.tex").write_text("somebody else's")
    status, said = project.run()
    assert status == 1, said
    end = said.split("NOT accepted")[1]
    assert "the site of results is not that of tonight: `mpibench site` ended with exit status 2" in end
    assert f"session {project.session}" in said and "results/report.html" in end
    assert (project.results / "site" / "thesis.tex").read_text() == "somebody else's"


def test_a_failing_site_does_not_hide_why_the_night_is_red(project: NightProject) -> None:
    (project.results / "site").mkdir(parents=True)
    (project.results / "site" / "thesis.tex").write_text("somebody else's")
    project.register(*STACKS)
    project.plan([case(), case("mpich-wheels", end="sanity", verdict="contradicted", reason=CONTRADICTED)])
    status, said = project.run()
    end = said.split("NOT accepted")[1]
    assert status == 1 and "ReFrame ended with exit status 1" in end and "the site of results" in end


def test_a_night_without_a_session_is_a_red_day_of_the_site(project: NightProject) -> None:
    assert project.run()[0] == 0
    status, said = project.run("-n", "NothingOfThatName")
    assert status == 1, said
    assert "A night stored no session" in (project.results / "site" / "index.html").read_text()

"""``ci/nightly`` and the site: whatever becomes of a night is on it, and
what becomes of the site is in the night's answer.
"""

import json

import pytest

from synthetic_project import NightProject
from synthetic_session import CONTRADICTED, STACKS, case


@pytest.fixture
def project(tmp_path):
    return NightProject(tmp_path)


def spoil(project):
    """One of the night's two cases went over another fabric."""
    project.register(*STACKS)
    bad = case("mpich-wheels", end="sanity", verdict="contradicted", reason=CONTRADICTED)
    project.plan([case(), bad])
    return project.results / "site"


def test_a_red_night_is_on_the_site_with_its_jobs_output(project):
    site = spoil(project)
    project.ends(1)
    first = (site / "index.html").read_text()
    assert "red: 1 of 2 cases failed" in first and "2.1 GB went over shm" in first
    proof, page = sorted(site.glob("*/nights/*.html"))
    assert "rfm_job.out" in proof.read_text()
    assert "something expected is missing" in page.read_text()
    [path] = project.results.glob("dataset/answers/*.night.json")
    answer = json.loads(path.read_text())
    assert answer["session"] == project.session and not answer["passed"]


def test_what_was_measured_in_part_is_no_pass_of_a_night(project):
    """The site asks the gate of a night that nobody asked it of; one without a session is red."""
    project.ends(0, "-p", "mpich-wheels")
    answer = project.results / "dataset" / "answers" / f"{project.session}.gate.json"
    assert json.loads(answer.read_text())["finding"] == "measured in part"
    project.plan([])
    project.ends(1)
    assert "A night stored no session" in (project.results / "site" / "index.html").read_text()


def test_a_site_that_cannot_be_written_makes_a_night_red_and_hides_nothing(
    project,
):
    thesis = project.write("results/site/thesis.tex", "somebody else's")
    said = project.ends(1)
    end = said.split("NOT accepted")[1]
    assert "ReFrame ended with exit status" not in end
    assert "the results site does not show tonight: `mpibench site` ended with exit" in end
    assert f"session {project.session}" in said and "results/report.html" in end
    assert thesis.read_text() == "somebody else's"

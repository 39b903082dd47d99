"""A night on a system that a centre's own ReFrame configuration describes, from the doctor's draft on."""

from __future__ import annotations

import os
import subprocess

import pytest

from night_project import NightProject
from synthetic_session import STACKS, case

PARTITION = "  - {{name: {name}, scheduler: local, launcher: local, environs: [builtin], max_jobs: 1, extras: {extras}}}\n"
CENTRE = """
systems:
- name: tiny
  descr: the centre's
  hostnames: ['.*']
  partitions:
"""
FABRICS = "{fabrics: {shm: {transport: shm, scope: node}}}"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> NightProject:
    """A project without a system of its own, and the centre's configuration in another folder."""
    project = NightProject(tmp_path_factory.mktemp("project"))
    (project.top / "site_configs" / "tiny" / "system.py").unlink()
    project.write("centre/site.yaml", CENTRE + PARTITION.format(name="node", extras="{}"))
    project.plan([case(stack) for stack in STACKS])
    return project


def files(project: NightProject) -> str:
    """Both configurations."""
    return f"{project.top}/centre/site.yaml:{project.top}/site_configs/settings.py"


def mpibench(project: NightProject, *words: str, configured: str | None = None) -> subprocess.CompletedProcess[str]:
    """The command in the project's own environment."""
    line = f". {project.top}/.venv/bin/activate && mpibench {' '.join(words)}"
    environ = {**os.environ, "RFM_CONFIG_FILES": files(project) if configured is None else configured}
    return subprocess.run(["bash", "-c", line], cwd=project.top, env=environ, text=True, capture_output=True, check=False)


def test_the_doctor_prints_a_draft_and_a_system_without_fabrics_is_not_measured(project: NightProject) -> None:
    done = mpibench(project, "doctor")
    assert done.returncode == 1, done.stdout + done.stderr
    [line] = [line for line in done.stdout.splitlines() if f"no partition has fabrics in {project.top}" in line]
    assert line.split()[:2] == ["missing", "tiny"]
    assert "draft for your configuration (--draft prints it alone):" in done.stdout
    assert "# node runs where ReFrame is started" in done.stdout
    alone = mpibench(project, "doctor", "--system=tiny", "--draft")
    assert alone.returncode == 0 and alone.stdout.strip() in done.stdout and alone.stderr == ""


def test_a_night_measures_it(project: NightProject) -> None:
    project.write("centre/site.yaml", CENTRE + PARTITION.format(name="node", extras=FABRICS))
    status, said = project.run(RFM_CONFIG_FILES=files(project))
    assert status == 0, said
    assert "tiny" in said
    # As whoever is in the centre's folder sets it: ours is put behind.
    project.write("centre/site.yaml", CENTRE + PARTITION.format(name="node", extras="{}"))
    status, said = project.run(folder="centre", RFM_CONFIG_FILES="site.yaml")
    assert status == 1 and "NOT accepted" in said, said


def test_a_stored_session_is_judged_with_the_centres_configuration(project: NightProject) -> None:
    project.write("centre/site.yaml", CENTRE + PARTITION.format(name="node", extras=FABRICS))
    done = mpibench(project, "gate", "--only=completeness")
    assert done.returncode == 0, done.stdout + done.stderr
    unknown = mpibench(project, "doctor", "--system=tiny", configured="")
    assert unknown.returncode == 2 and "is known where RFM_CONFIG_FILES names that" in unknown.stderr

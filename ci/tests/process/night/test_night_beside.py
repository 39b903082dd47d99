"""A night on a system that a centre's own ReFrame configuration
describes, from the doctor's draft on.
"""

from __future__ import annotations

import os
import subprocess

import pytest

from synthetic_project import NightProject
from synthetic_session import STACKS, case

LOCAL = "scheduler: local, launcher: local"
CENTRE = """
systems:
- name: tiny
  descr: the centre's
  hostnames: ['.*']
  partitions:
"""
FABRICS = "{fabrics: {shm: {transport: shm, scope: node}}}"


def configure(project: NightProject, extras: str) -> str:
    """Both configurations, the centre's with these extras."""
    partition = f"  - {{name: node, {LOCAL}, environs: [builtin], max_jobs: 1, extras: {extras}}}\n"
    site = project.write("centre/site.yaml", CENTRE + partition)
    return f"{site}:{project.top}/site_configs/settings.py"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> NightProject:
    """A project without a system of its own, and the centre's configuration in another folder."""
    project = NightProject(tmp_path_factory.mktemp("project"))
    (project.top / "site_configs" / "tiny" / "system.py").unlink()
    project.plan([case(stack) for stack in STACKS])
    return project


def mpibench(
    project: NightProject, words: str, configured: str
) -> subprocess.CompletedProcess[str]:
    """The command in the project's own environment."""
    return subprocess.run(
        ["bash", "-c", f". {project.top}/.venv/bin/activate && mpibench {words}"],
        cwd=project.top,
        env={**os.environ, "RFM_CONFIG_FILES": configured},
        text=True,
        capture_output=True,
        check=False,
    )


def test_a_night_measures_it_and_its_session_is_judged_with_the_centres_configuration(
    project: NightProject,
) -> None:
    files = configure(project, FABRICS)
    status, said = project.run(RFM_CONFIG_FILES=files)
    assert status == 0 and "tiny" in said, said
    done = mpibench(project, "gate --only=completeness", files)
    assert done.returncode == 0, done.stdout + done.stderr
    assert mpibench(project, "doctor --system=tiny", "").returncode == 2
    # As whoever is in the centre's folder sets it: ours is put behind.
    configure(project, "{}")
    status, said = project.run(folder="centre", RFM_CONFIG_FILES="site.yaml")
    assert status == 1 and "NOT accepted" in said, said

"""Nights of sites: one that lacks what earlier nights proved, one whose nodes are odd, one on a
system that a centre's own ReFrame configuration describes.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from mpibench.store import sessions
from reframe_tests.harness.machine.topology import describe
from reframe_tests.harness.sites.site import ROOT
from synthetic_project import NightProject
from synthetic_session import STACKS, case

LOST = case("mpich-wheels", group="collectives")
MISSING = "missing: group collectives: none of its 8 expected cases is proven; not among the cases"


def test_a_case_that_is_left_out_when_the_tests_are_loaded_makes_the_night_red(
    tmp_path,
):
    """A night proved collectives on two cores; one core is left, on which the test itself makes no
    case of them, and leaves no other trace.
    """
    project = NightProject(tmp_path)
    stays = [case(stack) for stack in STACKS]
    project.plan([*stays, LOST])
    status, said = project.run()
    assert status == 0, said
    shutil.copy(ROOT / "reframe_tests" / "collectives.py", project.top / "reframe_tests")
    system = project.top / "site_configs" / "tiny" / "system.py"
    system.write_text(
        f"{system.read_text()}\nsystem['partitions'][0]['processor'] = {describe(1, 1)!r}\n"
    )
    project.plan(stays)
    status, said = project.run()
    assert status == 1 and "NOT accepted; reasons: 1" in said, said
    assert MISSING in said
    [log] = re.findall(r"something expected is missing \(.*'left out' in (\S+)\)", said)
    left_out = Path(log).read_text()
    assert "no benchmark of group collectives runs on 1 rank" in left_out, "the real test"


# ---- nodes are looked at first ----


@pytest.mark.parametrize("odd", [False, True])
def test_nodes_are_looked_at_and_what_is_odd_makes_the_night_red_and_whole(tmp_path, odd):
    project = NightProject(tmp_path)
    for name in ("reframe_tests/preflight.py", "site_configs/preflight.yaml"):
        shutil.copy(ROOT / name, project.top / name)
    # What else runs on this machine says nothing here.
    rules = [f"{fact}: null" for fact in ("busy_cores", "processes_of_others")]
    rules += ["memory_available_percent: null"]
    if odd:
        rules.append("kernel: {expected: of another machine, why: because, fix: do it}")
    project.write("site_configs/tiny/preflight.yaml", "\n".join(rules))
    status, said = project.run(PREFLIGHT="exclude" if odd else "yes")
    assert status == odd, said
    if odd:
        assert "preflight of node: kernel is " in said.split("NOT accepted; reasons: 1")[1]
        assert "no node is left out: 1 of 1 differ" in said
    else:
        assert "checking the nodes first" in said and "preflight of " not in said
    database = project.results / "results.db"
    names = sessions.list_sessions(database)
    labels = [sessions.read_session(database, name).labels.get("run") for name in names]
    assert labels == ["preflight", "nightly"] and project.session == names[-1]


# ---- beside a centre's configuration ----

LOCAL = "scheduler: local, launcher: local"
CENTRE = """
systems:
- name: tiny
  descr: the centre's
  hostnames: ['.*']
  partitions:
"""
FABRICS = "{fabrics: {shm: {transport: shm, scope: node}}}"


def configure(project, extras):
    """Both configurations, the centre's with these extras."""
    partition = f"  - {{name: node, {LOCAL}, environs: [builtin], max_jobs: 1, extras: {extras}}}\n"
    site = project.write("centre/site.yaml", CENTRE + partition)
    return f"{site}:{project.top}/site_configs/settings.py"


def mpibench(project, words, configured):
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
    tmp_path,
):
    """The project has no system of its own, and the centre's configuration is elsewhere."""
    project = NightProject(tmp_path)
    (project.top / "site_configs" / "tiny" / "system.py").unlink()
    project.plan([case(stack) for stack in STACKS])
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

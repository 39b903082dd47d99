"""Nights of sites: one that lacks what earlier nights proved, one whose nodes are odd, one on a
system that a centre's own ReFrame configuration describes.
"""

import re
import shutil
from pathlib import Path

import pytest

from mpibench.store import sessions
from programs import finished
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
    project.ends(0)
    shutil.copy(ROOT / "reframe_tests" / "collectives.py", project.top / "reframe_tests")
    system = project.top / "site_configs" / "tiny" / "system.py"
    system.write_text(
        f"{system.read_text()}\nsystem['partitions'][0]['processor'] = {describe(1, 1)!r}\n"
    )
    project.plan(stays)
    said = project.ends(1)
    assert "NOT accepted; reasons: 1" in said
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
    said = project.ends(odd, PREFLIGHT="exclude" if odd else "yes")
    if odd:
        assert "preflight of node: kernel is " in said.split("NOT accepted; reasons: 1")[1]
        assert "no node is left out: 1 of 1 differ" in said
    else:
        assert "checking the nodes first" in said and "preflight of " not in said
    looked, measured = project.stored
    first = sessions.read_session(project.results / "results.db", looked)
    assert first.labels["run"] == "preflight" and measured == project.session
    assert project.measured.labels["run"] == "nightly"


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
    script = f". {project.top}/.venv/bin/activate && mpibench {words}"
    environ = {"RFM_CONFIG_FILES": configured}
    return finished("bash", "-c", script, cwd=project.top, environ=environ)


def test_a_night_measures_it_and_its_session_is_judged_with_the_centres_configuration(
    tmp_path,
):
    """The project has no system of its own, and the centre's configuration is elsewhere."""
    project = NightProject(tmp_path)
    (project.top / "site_configs" / "tiny" / "system.py").unlink()
    project.plan([case(stack) for stack in STACKS])
    files = configure(project, FABRICS)
    assert "tiny" in project.ends(0, RFM_CONFIG_FILES=files)
    done = mpibench(project, "gate --only=completeness", files)
    assert done.returncode == 0, done.stdout + done.stderr
    assert mpibench(project, "doctor --system=tiny", "").returncode == 2
    # As whoever is in the centre's folder sets it: ours is put behind.
    configure(project, "{}")
    assert "NOT accepted" in project.ends(1, folder="centre", RFM_CONFIG_FILES="site.yaml")

"""Ready pipelines: each against its published schema, and each calls what exists."""

import os
import re
import shutil
import signal
import sys

import pytest

from folders import write
from programs import finished, wait_for
from reframe_tests.harness.process_stat import Process
from synthetic_project import NightProject


@pytest.mark.parametrize(
    ("name", "schema"),
    [
        ("github-actions.yml", ["vendor.github-workflows"]),
        ("gitlab-ci.yml", ["vendor.gitlab-ci", "--data-transform", "gitlab-ci"]),
    ],
)
def test_pipeline_keeps_to_the_published_schema(root, name, schema):
    """The schemas are those of SchemaStore and GitLab, as check-jsonschema carries them."""
    check = (sys.executable, "-m", "check_jsonschema", "--builtin-schema", *schema)
    done = finished(*check, root / "ci" / "pipelines" / name)
    assert done.returncode == 0, done.stdout + done.stderr


SCRIPT = "nightly-and-gate"
STORES = "echo 03c16d18-0000 >results/session-id\n"
SAID = "FAIL or PASS: gate --session 03c16d18-0000"
#: Of no night: what a merge request calls (``test_change_pipeline``), and ReFrame's main branch.
OF_NO_NIGHT = ("change-verdict", "comment_change.py", "reframe-main")
#: Commands that judge or show a session; without an id they would take the newest.
OF_A_SESSION = r"mpibench (?:gate|report|accept|compare|expected|export)\b.*"


def test_every_pipeline_hands_on_the_id_of_the_session(root):
    """All call the one script, which hands on what ``ci/nightly``
    left; nobody asks for the newest session.
    """
    for path in (root / "ci" / "pipelines").iterdir():
        text = path.read_text()
        assert not re.search(r"(?<!ubuntu-)\blatest\b", text), path.name
        if path.suffix == ".timer" or path.name in OF_NO_NIGHT:
            continue
        assert SCRIPT in text or path.name == SCRIPT, path.name
        found = re.findall(OF_A_SESSION, text)
        assert all('--session "$(cat results/session-id)"' in command for command in found)
        assert path.name != SCRIPT or len(found) == 1


@pytest.fixture
def night(tmp_path, root):
    """The script in a project whose ``ci/nightly`` and ``mpibench`` answer as asked."""
    script = tmp_path / "ci" / "pipelines" / SCRIPT
    script.parent.mkdir(parents=True)
    shutil.copy(root / "ci" / "pipelines" / SCRIPT, script)

    def run(nightly, judged=0, mail_to=""):
        for name, text in (
            ("ci/nightly", f"mkdir -p results/tonight\n{nightly}"),
            (".venv/bin/activate", f"PATH={tmp_path}/bin:$PATH"),
            ("bin/mpibench", f"echo FAIL or PASS: $*\nexit {judged}"),
            ("bin/mail", f'(echo "$@"; cat) >>{tmp_path}/mails'),
            (".venv/bin/mpibench", f'echo "$@" >>{tmp_path}/chat; exit 1'),
        ):
            write(tmp_path / name, f"#!/bin/bash\n{text}\n", executable=True)
        settings = {
            "MAILTO": mail_to,
            "MPIBENCH_CHAT": mail_to,
            "PATH": f"{tmp_path}/bin:{os.environ['PATH']}",
        }
        return finished(script, environ=settings)

    return run


@pytest.mark.parametrize(
    ("nightly", "judged", "expected", "subject"),
    [
        (f"{STORES}exit 0", 0, 0, None),
        (f"{STORES}exit 1", 0, 1, "FAIL: ci/nightly ended with exit status 1, and says why"),
        (f"{STORES}exit 0", 1, 1, SAID),
        (f"{STORES}exit 3", 0, 3, "NOT JUDGED: ci/nightly ended with exit status 3"),
        (f"{STORES}exit 0", 3, 3, SAID),
        (f"{STORES}exit 3", 1, 1, SAID),
        ("exit 0", 0, 1, "FAIL: no session was stored tonight"),
        (f"{STORES}exit 143", 0, 1, "FAIL: ci/nightly ended with exit status 143: nothing to"),
    ],
)
def test_a_night_fails_if_measuring_or_the_gate_does(
    night, tmp_path, nightly, judged, expected, subject
):
    """And is reported by mail; where nothing is to judge, the id that is
    there may be of an earlier night.
    """
    done = night(nightly, judged, mail_to="hpc@example.org")
    assert done.returncode == expected, done.stderr
    mails = tmp_path / "mails"
    assert mails.exists() == (subject is not None)
    assert subject is None or mails.read_text().startswith(f"-s mpibench: {subject}")
    told = (tmp_path / "chat").read_text() if subject else ""
    assert subject is None or told.startswith(f"notify mpibench: {subject}")
    is_judged = expected == 0 or ("stored" not in str(subject) and "nothing to" not in str(subject))
    assert (SAID in done.stdout) == is_judged
    kept = {path.name: path for path in (tmp_path / "results" / "nights").glob("*/*")}
    if is_judged:
        assert kept.keys() == {"gate.txt", "session-id"}
        assert kept["gate.txt"].read_text() == f"{SAID}\n"


def test_a_signal_to_the_script_reaches_the_night(tmp_path):
    project = NightProject(tmp_path)
    pids = tmp_path / "pids"
    running = project.begin(
        script="ci/pipelines/nightly-and-gate", NIGHT_DURING=f"echo $$ >>{pids}; sleep 300"
    )
    try:
        assert wait_for(pids.exists)
        running.send_signal(signal.SIGTERM)
        said, _ = running.communicate(timeout=120)
    finally:
        running.kill()
    assert running.returncode == 1 and "INTERRUPTED by SIGTERM" in said, said
    assert all(Process.observe(int(pid)) is None for pid in pids.read_text().split())

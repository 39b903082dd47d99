"""Ready pipelines: each against its published schema, and each calls what exists."""

from __future__ import annotations

import configparser
import fcntl
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from mpibench import cli
from mpibench.cluster.state import Process
from night_project import NightProject


@pytest.mark.parametrize(
    ("name", "schema"), [("github-actions.yml", "vendor.github-workflows"), ("gitlab-ci.yml", "vendor.gitlab-ci")]
)
def test_pipeline_keeps_to_the_published_schema(root: Path, name: str, schema: str, tmp_path: Path) -> None:
    """The schemas are those of SchemaStore and GitLab, as check-jsonschema carries them."""
    check = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema]
    if schema == "vendor.gitlab-ci":
        check += ["--data-transform", "gitlab-ci"]
    path = root / "ci" / "pipelines" / name
    done = subprocess.run([*check, str(path)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    broken = tmp_path / name
    broken.write_text(path.read_text().replace("timeout-minutes: 360", "timeout-minutes: [1]").replace("script:", "skript:"))
    assert subprocess.run([*check, str(broken)], capture_output=True, timeout=120).returncode != 0


SCRIPT = "nightly-and-gate"
#: Of no night: what a merge request calls (``test_change_pipeline``), and ReFrame's main branch.
OF_NO_NIGHT = ("change-verdict", "comment_change.py", "reframe-main")
#: Commands that judge or show a session; without an id they would take the newest.
OF_A_SESSION = r"mpibench (gate|report|accept|compare|expected|export)\b.*"


def test_every_pipeline_hands_on_the_id_of_the_session(root: Path) -> None:
    """All call the one script, which hands on what ``ci/nightly`` left; nobody asks for the newest session."""
    for path in (root / "ci" / "pipelines").iterdir():
        text = path.read_text()
        assert not re.search(r"(?<!ubuntu-)\blatest\b", text), path.name
        if path.suffix == ".timer" or path.name in OF_NO_NIGHT:
            continue
        assert SCRIPT in text or path.name == SCRIPT, path.name
        for found in re.finditer(OF_A_SESSION, text):
            assert '--session "$(cat results/session-id)"' in found[0], f"{path.name}: {found[0]}"
    script = (root / "ci" / "pipelines" / SCRIPT).read_text()
    assert len(re.findall(OF_A_SESSION, script)) == 1
    assert "gate" in {command.name or command.callback.__name__ for command in cli.app.registered_commands}


def test_pipelines_take_away_what_is_of_tonight_only(root: Path) -> None:
    """``results/report.html`` may be of an earlier session; ``results/tonight`` is emptied by each night."""
    for name in ("gitlab-ci.yml", "github-actions.yml", "Jenkinsfile"):
        text = (root / "ci" / "pipelines" / name).read_text()
        taken = set(re.findall(r"results/[\w./*-]*", text))
        assert {path for path in taken if not path.startswith("results/tonight")} <= {
            *("results/session-id", "results/", "results/site", "results/site/")
        }, name
        assert any(path.startswith("results/site") for path in taken), "the site of results is what a person opens"
        assert "results/tonight/nightly.xml" in taken or "github" in name


@pytest.fixture
def night(tmp_path: Path, root: Path):
    """The script in a project whose ``ci/nightly`` and ``mpibench`` answer as asked."""
    script = tmp_path / "ci" / "pipelines" / SCRIPT
    script.parent.mkdir(parents=True)
    shutil.copy(root / "ci" / "pipelines" / SCRIPT, script)

    def run(nightly: str, judged: int = 0, mail_to: str = "") -> subprocess.CompletedProcess[str]:
        for name, text in (
            ("ci/nightly", f"mkdir -p results/tonight\n{nightly}"),
            (".venv/bin/activate", f"PATH={tmp_path}/bin:$PATH"),
            ("bin/mpibench", f"echo FAIL or PASS: $*\nexit {judged}"),
            ("bin/mail", f'(echo "$@"; cat) >>{tmp_path}/mails'),
        ):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(f"#!/bin/bash\n{text}\n")
            (tmp_path / name).chmod(0o755)
        settings = {"MAILTO": mail_to, "PATH": f"{tmp_path}/bin:{os.environ['PATH']}"}
        return subprocess.run([script], capture_output=True, text=True, timeout=60, env={**os.environ, **settings})

    return run


STORES = "echo 03c16d18-0000 >results/session-id\n"


@pytest.mark.parametrize(("measured", "judged", "expected"), [(0, 0, 0), (1, 0, 1), (0, 1, 1), (0, 2, 1)])
def test_a_night_fails_if_measuring_or_the_gate_does(night, tmp_path, measured: int, judged: int, expected: int) -> None:
    done = night(f"{STORES}exit {measured}", judged)
    assert done.returncode == expected, done.stderr
    said = "FAIL or PASS: gate --session 03c16d18-0000\n"
    assert said in done.stdout
    assert (tmp_path / "results" / "tonight" / "gate.txt").read_text() == said
    kept = list((tmp_path / "results" / "nights").glob("*/*"))
    assert {path.name: path.read_text() for path in kept} == {"gate.txt": said, "session-id": "03c16d18-0000\n"}


def test_without_a_session_nothing_is_judged(night, tmp_path: Path) -> None:
    done = night("exit 0")
    assert done.returncode == 1
    assert "FAIL: no session was stored tonight" in done.stdout and "gate --session" not in done.stdout


@pytest.mark.parametrize("status", [2, 143])
def test_a_night_that_was_refused_or_interrupted_is_not_judged(night, tmp_path: Path, status: int) -> None:
    """The id that is there may be of an earlier night."""
    done = night(f"{STORES}exit {status}")
    assert done.returncode == 1 and "gate --session" not in done.stdout
    assert f"exit status {status}: nothing to judge" in done.stderr


@pytest.mark.parametrize(
    ("nightly", "judged", "subject"),
    [
        (f"{STORES}exit 0", 0, None),
        (f"{STORES}exit 0", 1, "FAIL or PASS: gate --session 03c16d18-0000"),
        ("exit 0", 0, "FAIL: no session was stored tonight; see nightly.log"),
        ("exit 2", 0, "FAIL: ci/nightly ended with exit status 2: nothing to judge"),
    ],
)
def test_a_failed_night_is_reported_by_mail_also_when_nothing_was_measured(
    night, tmp_path: Path, nightly, judged, subject
) -> None:
    night(nightly, judged, mail_to="hpc@example.org")
    mails = tmp_path / "mails"
    assert mails.exists() == (subject is not None)
    assert subject is None or mails.read_text() == f"-s mpibench: {subject} hpc@example.org\n{subject}\n"


def test_a_night_that_never_ends_is_reported_by_mail(night, tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    with (tmp_path / "results" / ".pipeline.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert night(STORES, mail_to="hpc@example.org").returncode == 1
    assert "FAIL: another night is still running" in (tmp_path / "mails").read_text()


def test_a_signal_to_the_script_reaches_the_night(tmp_path: Path, root: Path) -> None:
    project = NightProject(tmp_path)
    running = project.begin(script="ci/pipelines/nightly-and-gate", NIGHT_DURING=f"echo $$ >>{tmp_path}/pids; sleep 300")
    deadline = time.monotonic() + 120
    try:
        while not (tmp_path / "pids").exists() and time.monotonic() < deadline:
            time.sleep(0.2)
        running.send_signal(signal.SIGTERM)
        said, _ = running.communicate(timeout=120)
    finally:
        running.kill()
    assert running.returncode == 1 and "INTERRUPTED by SIGTERM" in said, said
    for pid in (tmp_path / "pids").read_text().split():
        assert Process.observe(int(pid)) is None


def test_units_start_the_script(root: Path) -> None:
    folder = root / "ci" / "pipelines"
    service, timer = (configparser.ConfigParser(strict=False) for _ in range(2))
    service.read(folder / "mpibench-nightly.service")
    timer.read(folder / "mpibench-nightly.timer")
    assert service["Service"]["ExecStart"].endswith(f"/ci/pipelines/{SCRIPT}") and os.access(folder / SCRIPT, os.X_OK)
    assert timer["Timer"]["OnCalendar"] and timer["Install"]["WantedBy"] == "timers.target"


def test_the_yaml_files_say_what_they_run(root: Path) -> None:
    jobs = yaml.safe_load((root / "ci" / "pipelines" / "gitlab-ci.yml").read_text())
    assert jobs["nightly"]["artifacts"]["reports"] == {"junit": "results/tonight/nightly.xml"}
    assert jobs["pages"]["artifacts"]["paths"] == ["public"] and jobs["pages"]["script"][-1] == "mv results/site public"
    actions = yaml.safe_load((root / "ci" / "pipelines" / "github-actions.yml").read_text())["jobs"]
    for job, command in {
        "change": "ci/pipelines/change-verdict ",
        "reframe-main": "ci/pipelines/reframe-main",
        "stacks": '.venv/bin/mpibench stacks build --push "$SPACK_CACHE" --key "$SPACK_KEY"',
    }.items():
        for words in (jobs[job]["script"], [step.get("run", "") for step in actions[job]["steps"]]):
            assert any(word.startswith(command) for word in words), job
    assert "head.repo.full_name == github.repository" in actions["change"]["if"], "no program of a stranger on a login node"

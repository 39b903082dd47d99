"""Ready pipelines: each against its published schema, and each calls what exists."""

from __future__ import annotations

import configparser
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from mpibench import cli


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


def test_every_pipeline_measures_judges_and_keeps(root: Path) -> None:
    for path in (root / "ci" / "pipelines").iterdir():
        text = path.read_text()
        if path.suffix in (".service", ".timer"):
            continue
        for needed in ("ci/nightly --report-junit=results/nightly.xml", "mpibench gate", "gate.txt", "report.html"):
            assert needed in text, f"{path.name} lacks {needed}"
    assert "gate" in {command.name or command.callback.__name__ for command in cli.app.registered_commands}


def test_units_and_script(root: Path) -> None:
    folder = root / "ci" / "pipelines"
    service, timer = (configparser.ConfigParser(strict=False) for _ in range(2))
    for parser in (service, timer):
        parser.optionxform = str
    service.read(folder / "mpibench-nightly.service")
    timer.read(folder / "mpibench-nightly.timer")
    assert service["Service"]["ExecStart"].endswith("/ci/pipelines/nightly-and-gate")
    assert timer["Timer"]["OnCalendar"] and timer["Install"]["WantedBy"] == "timers.target"
    assert os.access(folder / "nightly-and-gate", os.X_OK)
    if analyze := shutil.which("systemd-analyze"):
        done = subprocess.run([analyze, "calendar", timer["Timer"]["OnCalendar"]], capture_output=True, timeout=60)
        assert done.returncode in (0, 1)


@pytest.mark.parametrize(("measured", "judged", "expected"), [(0, 0, 0), (1, 0, 1), (0, 1, 1)])
def test_a_night_fails_if_measuring_or_the_gate_does(
    tmp_path: Path, root: Path, measured: int, judged: int, expected: int
) -> None:
    script = tmp_path / "ci" / "pipelines" / "nightly-and-gate"
    script.parent.mkdir(parents=True)
    shutil.copy(root / "ci" / "pipelines" / "nightly-and-gate", script)
    for name, text in (
        ("ci/nightly", f"echo measuring\nexit {measured}"),
        (".venv/bin/activate", f"PATH={tmp_path}/bin:$PATH"),
        ("bin/mpibench", f"echo FAIL or PASS\nexit {judged}"),
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"#!/bin/bash\n{text}\n")
        (tmp_path / name).chmod(0o755)
    done = subprocess.run([script], capture_output=True, text=True, timeout=60, env={**os.environ, "MAILTO": ""})
    assert done.returncode == expected, done.stderr
    kept = list((tmp_path / "results" / "nights").glob("*/gate.txt"))
    assert [path.read_text() for path in kept] == ["FAIL or PASS\n"]


def test_the_yaml_files_say_what_they_run(root: Path) -> None:
    jobs = yaml.safe_load((root / "ci" / "pipelines" / "gitlab-ci.yml").read_text())
    assert jobs["nightly"]["artifacts"]["reports"] == {"junit": "results/nightly.xml"}

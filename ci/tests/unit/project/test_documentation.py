"""README and docs: short where they are to be, whole in their links, and every command they show is one that exists."""

from __future__ import annotations

import importlib.util
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

import documentation
from mpibench.cli import app
from reframe_tests.harness.sites import references
from reframe_tests.harness.vocabulary import ROOT

COMMAND = typer.main.get_command(app)


def shown_code(text: str) -> Iterator[str]:
    """Lines of code blocks, joined where they end in a backslash, and code within sentences, of a page of Markdown."""
    fences = re.split(r"^```.*$", text, flags=re.MULTILINE)
    blocks = [*fences[1::2]]
    for prose in fences[::2]:
        indented = re.findall(r"(?:^    .*\n?)+", prose, re.MULTILINE)
        blocks += ["\n".join(line[4:] for line in block.splitlines()) for block in indented]
        yield from re.findall(r"(?<!`)`([^`\n]+)`(?!`)", re.sub(r"^    .*$", "", prose, flags=re.MULTILINE))
    for block in blocks:
        yield from block.replace("\\\n", " ").splitlines()


def commands(text: str, program: str) -> list[list[str]]:
    """The words behind a program's name, of each command of it that a page shows; comments, synopsis brackets and ``...``
    are left out."""
    shown = []
    for line in shown_code(text):
        code = re.sub(r"(^|\s)#.*$", "", line).strip().removeprefix("$ ")
        for part in re.split(r"&&|;|\||(?<!-)-- ", code):
            without = re.sub(r"^\s*(\w+=\S+\s+)*", "", part)
            if re.match(rf"{re.escape(program)}(\s|$)", without):
                shown.append(_words(re.sub(r"[\[\]]", " ", without)))
    return shown


def _words(code: str) -> list[str]:
    try:
        return shlex.split(code)[1:]
    except ValueError:
        return code.split()[1:]


def fault_of(words: list[str]) -> str:
    """What no ``mpibench`` would take, or an empty text.

    :param words: behind ``mpibench``, as shown.
    """
    node = COMMAND
    rest = list(words)
    while hasattr(node, "commands") and rest and not rest[0].startswith("-"):
        name = rest.pop(0)
        if name not in node.commands:
            return "" if name.isupper() else f"there is no command {name!r}"
        node = node.commands[name]
    options = {"--help", "-h", *(word for parameter in node.params for word in (*parameter.opts, *parameter.secondary_opts))}
    unknown = [word for word in rest if re.match(r"--?[a-z]", word) and word.partition("=")[0] not in options]
    return f"{node.name} has no {unknown[0]}" if unknown else ""


SHOWN = [
    pytest.param(words, id=f"{documentation.name_of(path)}: {' '.join(words)[:60]}")
    for path in (*documentation.PAGES, *documentation.BESIDE)
    for words in commands(path.read_text(), "mpibench")
]


@pytest.mark.parametrize("words", SHOWN)
def test_each_shown_command_exists_with_its_options(words: list[str]) -> None:
    assert fault_of(words) == ""


def test_commands_are_read_and_one_that_does_not_exist_is_seen() -> None:
    assert len(SHOWN) > 80
    block = "    A=1 mpibench gait \\\n        --x SEL   # why\n"
    text = f"Use `mpibench gate --jsn`.\n\n{block}\n```text\n$ mpibench locate [X]\n```\n"
    shown = sorted(commands(text, "mpibench"))
    assert shown == [["gait", "--x", "SEL"], ["gate", "--jsn"], ["locate", "X"]]
    assert [fault_of(words) for words in shown] == ["there is no command 'gait'", "gate has no --jsn", ""]


def test_each_shown_test_exists() -> None:
    """``-n`` of ReFrame: some test has a name in which the part in front of the parameters is to be found."""
    names = {*references.tests(), "NodePreflight", "MysuiteRing"}
    wrong = []
    for path in documentation.PAGES:
        for words in commands(path.read_text(), "reframe"):
            wanted = [words[at + 1].partition("%")[0] for at, word in enumerate(words[:-1]) if word == "-n"]
            wrong += [(path.name, one) for one in wanted if not any(re.search(one, name) for name in names) and one != "TEST"]
    assert wrong == []


def test_each_shown_script_and_study_exists() -> None:
    wrong = []
    for path in (*documentation.PAGES, *documentation.BESIDE):
        text = path.read_text()
        scripts = {script for line in shown_code(text) for script in re.findall(r"(?<![\w/.-])(ci/[\w-]+)(?![\w/.-])", line)}
        studies = set(re.findall(r"studies\.(\w+)", text))
        wrong += [f"{path.name}: {name}" for name in scripts if not (ROOT / name).exists()]
        wrong += [f"{path.name}: {name}" for name in studies if importlib.util.find_spec(f"studies.{name}") is None]
    assert wrong == []


def test_sentences_that_are_explained_are_said_somewhere() -> None:
    """In a row of red.md ``...`` stands for names and numbers; the words between stand in one string of the programs."""
    files = [
        path
        for folder in ("reframe_tests", "ci/mpibench")
        for path in (ROOT / folder).rglob("*.*")
        if path.suffix in (".py", ".sh")
    ]
    said = "\n".join(re.sub(r'"\s*\n\s*f?"', "", path.read_text()) for path in files)
    rows = re.findall(r"^\| `([^`]+)`", (ROOT / "docs/how-to/red.md").read_text(), re.MULTILINE)
    assert len(rows) > 20
    assert [row for row in rows if any(words.strip() not in said for words in row.split("..."))] == []


def test_the_readme_is_a_first_page() -> None:
    assert len(documentation.README.read_text().splitlines()) <= 150


def test_the_links_of_the_readme_lead_to_pages() -> None:
    """Those of the pages themselves are checked when the site is built."""
    links = re.findall(r"\]\(([^)#]+)", documentation.README.read_text())
    assert len(links) > 15
    assert [link for link in links if "://" not in link and not Path(ROOT, link).is_file()] == []

"""The commands that README and docs show, to be run by tests: whole lines of code blocks, and those within sentences that have
words of their own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import yaml

import documentation
from folders import DATA

#: Programs whose lines are commands to type. The pages that are made of the commands themselves have synopses only.
PROGRAMS = re.compile(
    r"(?:mpibench|reframe|spack|promtool|mkdocs|module(?= use| load)|scontrol|sed|cp|mkdir|export|man|mpirun|docker|apptainer|"
    r"git|python3?|ci/[a-z]\S*|venv/bin/\S+|\.)(?=\s|$)"
)
#: Settings in front of a command.
SETTINGS = r"(?:\w+=(?:\"[^\"]*\"|\S*)\s+)*"
GENERATED = "reference/generated/"


def code_of(text: str) -> Iterator[tuple[str, bool]]:
    """Lines of code blocks, joined where they end in a backslash, and code within sentences, of a page of Markdown; with each
    whether it is of a block."""
    fences = re.split(r"^```.*$", text, flags=re.MULTILINE)
    blocks = [*fences[1::2]]
    for prose in fences[::2]:
        indented = re.findall(r"(?:^    .*\n?)+", prose, re.MULTILINE)
        blocks += ["\n".join(line[4:] for line in block.splitlines()) for block in indented]
        for span in re.findall(r"(?<!`)`([^`]+)`(?!`)", re.sub(r"^    .*$", "", prose, flags=re.MULTILINE)):
            yield " ".join(span.split()), False
    for block in blocks:
        for line in block.replace("\\\n", " ").splitlines():
            yield line, True


def of_page(text: str) -> list[str]:
    """The commands of a page, in order, each once, without prompt and comment; a line may have several."""
    found = []
    for line, in_block in code_of(text):
        code = re.sub(r"(^|\s)#.*$", "", line).strip().removeprefix("$ ")
        for part in re.split(r"\s(?:&&|\|)\s|;\s|(?<=exec )-- ", code):
            command = " ".join(part.split())
            named = re.match(SETTINGS + PROGRAMS.pattern, command)
            # Within a sentence a name alone is a name: `mpibench stacks add`, `ci/nightly`, `mpirun`.
            if named and (in_block or re.search(r"[-=<./\dA-Z]", command[named.end() :]) or "=" in named[0]):
                found.append(command)
    return list(dict.fromkeys(found))


def all_of_them() -> dict[str, list[str]]:
    """Each command that is shown, with the pages it is on."""
    found: dict[str, list[str]] = {}
    for path in (*documentation.PAGES, *documentation.BESIDE):
        name = documentation.name_of(path)
        if not name.startswith(GENERATED):
            for command in of_page(path.read_text(encoding="utf-8")):
                found.setdefault(command, []).append(name)
    return found


@dataclass(frozen=True)
class Example:
    """How a command that is shown is tried in this process.

    :param words: of ``mpibench``; what stands in braces is what the trial has in place of a word such as ``ID``.
    :param said: part of what it prints.
    :param status: its exit status.
    :param written: files that are there afterwards.
    """

    words: str
    said: str = ""
    status: int = 0
    written: tuple[str, ...] = ()


_TABLE = yaml.safe_load((DATA / "shown_commands.yaml").read_text(encoding="utf-8"))
#: Commands that are run as they are shown.
HERE = {
    shown: Example(row["words"], row.get("said", ""), row.get("status", 0), tuple(row.get("written", ())))
    for shown, row in _TABLE["here"].items()
}
#: Commands for machines that are not here: the bundled system on which ReFrame writes their job scripts.
DRY: dict[str, str] = _TABLE["dry"]
#: Commands that a test of their own subject runs, and those that none runs with the reason.
TESTS: dict[str, str] = {shown: test for test, commands in _TABLE["tests"].items() for shown in commands}
NEVER: dict[str, str] = {shown: why for why, commands in _TABLE["never"].items() for shown in commands}

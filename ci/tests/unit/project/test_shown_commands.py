"""Every command that README and docs show is run by a test, or has the reason why none runs it."""

from __future__ import annotations

from pathlib import Path

import pytest

import shown_commands
from folders import SUPPORT
from mpibench.bare import machine

TESTS = SUPPORT.parent
KINDS = (shown_commands.HERE, shown_commands.DRY, shown_commands.TESTS, shown_commands.NEVER)


def test_each_command_that_is_shown_is_run_or_has_its_reason() -> None:
    shown = shown_commands.all_of_them()
    assert len(shown) > 140
    known = [command for kind in KINDS for command in kind]
    assert sorted(known) == sorted(set(known)), "each in one place"
    assert {command: pages for command, pages in shown.items() if command not in known} == {}
    assert [command for command in known if command not in shown] == [], "shown no more"


def test_few_are_never_run_and_each_has_a_reason() -> None:
    assert len(shown_commands.NEVER) < 25
    assert all(len(reason.split()) > 4 for reason in shown_commands.NEVER.values())


@pytest.mark.parametrize("place", sorted(set(shown_commands.TESTS.values())))
def test_the_test_that_runs_it_exists(place: str) -> None:
    lane, _, step = place.partition(": ")
    if lane == "bare machine":
        assert step in {one.title for steps in machine.LANES.values() for one in steps}
        return
    name, _, test = place.partition("::")
    assert f"\ndef {test}(" in Path(TESTS, name).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("text", "commands"),
    [
        ("Use `mpibench gate`, `ci/nightly` or `mpibench gate --json`.", ["mpibench gate --json"]),
        ("`mpibench\nstacks add --name X` and `mpibench stacks add`", ["mpibench stacks add --name X"]),
        ("    mkdir a && mpibench doctor --system a   # why\n", ["mkdir a", "mpibench doctor --system a"]),
        (
            "```text\n$ mpibench cluster exec -- reframe -l\nreframe says\n```\n",
            ["mpibench cluster exec", "reframe -l", "reframe says"],
        ),
        ("    A=1 ci/test \\\n        -k x\n", ["A=1 ci/test -k x"]),
        ("    mpibench manual | man -l -\n", ["mpibench manual", "man -l -"]),
        ("`BUDGET=1h ci/nightly`; `module openmpi/5.0.10`", ["BUDGET=1h ci/nightly"]),
    ],
)
def test_commands_are_found_in_blocks_and_sentences(text: str, commands: list[str]) -> None:
    assert shown_commands.of_page(text) == commands

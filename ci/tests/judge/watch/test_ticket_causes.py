"""What a ticket concludes: since when, of how many stacks, and of a case without any proof."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from mpibench.judge import gate
from mpibench.judge.ticket import FABRIC, UNKNOWN
from mpibench.store.store import Store
from synthetic_verdicts import write_session

NIGHTLY = {"run": "nightly"}
Change = Callable[[str, int, str], float]


def decided(folder: Path) -> gate.GateAnswer:
    return gate.decide(Store(folder), "testbed", "latest", max_age_hours=1e6)


def last_night(folder: Path, change: Change, stacks: tuple[str, ...] = ("a", "b"), seed: int = 0):
    """The answer on the last of 15 nights, which alone differs."""
    for night in range(15):
        changed = {"change": change} if night == 14 else {}
        write_session(folder, seed + night, night=night, stacks=stacks, labels=NIGHTLY, **changed)
    return decided(folder)


@pytest.mark.parametrize("seed", range(0, 300, 100))
def test_since_when_is_asked_of_the_sizes_that_lost(tmp_path: Path, seed: int) -> None:
    """With all sizes of the curve, the noise of those that lost nothing said that it began before."""
    answer = last_night(tmp_path, lambda _, size, __: 1.4 if size == 8 else 1.0, ("a",), seed)
    assert answer.tickets[0].since == "2026-01-19"


@pytest.mark.parametrize(
    ("change", "suspect"),
    [
        (lambda _, __, ___: 1.5, FABRIC),
        (lambda _, __, stack: 1.5 if stack == "a" else 1.35, FABRIC),
        (lambda _, __, stack: 2.5 if stack == "a" else 1.08, UNKNOWN),
        (
            lambda name, _, stack: (
                1.5 if (stack, name) in (("a", "PingPong"), ("b", "Uniband")) else 1
            ),
            UNKNOWN,
        ),
    ],
)
def test_stacks_are_alike_that_lost_as_much_of_the_same(tmp_path, change, suspect) -> None:
    answer = last_night(tmp_path, change)
    assert answer.tickets[0].suspect == suspect
    assert ("all 2 stacks alike" in answer.lines[0]) == (suspect == FABRIC)


def test_a_stack_without_proof_is_not_alike(tmp_path: Path) -> None:
    for night in range(15):
        last = night == 14
        write_session(
            tmp_path,
            night,
            stacks=("a", "b", "c"),
            labels=NIGHTLY,
            change=(lambda _, __, ___: 1.5) if last else (lambda _, __, ___: 1.0),
            edit=lambda row, last=last: (
                {**row, "evidence": "contradicted", "result": "fail", "fail_phase": "sanity"}
                if last and row["stack"] == "c" and "evidence" in row
                else row
            ),
        )
    [ticket] = decided(tmp_path).tickets
    assert ticket.suspect == UNKNOWN
    assert "c not judged there" in ticket.text


def test_a_case_without_proof_says_where_on_what_and_since_when(tmp_path: Path) -> None:
    lost = {
        "result": "fail",
        "fail_phase": "sanity",
        "evidence": "missing",
        "samples": 0,
        "reason": "p2p.1: timed out after 240 s",
    }
    for night in range(6):
        last = night >= 4
        places = [
            {"partition": "cpu", "nodelist": "c01,c02"},
            {"partition": "gpu", "nodelist": "g07,g08", **(lost if last else {})},
        ]
        kept = {"edit": lambda row: row if row["partition"] == "cpu" else None} if last else {}
        write_session(tmp_path, night, labels=NIGHTLY, where=places, **kept)
    first, _, _, *rest = decided(tmp_path).lines
    for words in ("on gpu, 2 x 1, bunch", "timed out after 240 s", "on g07, g08", "since 09 Jan"):
        assert words in first
    assert rest[0].startswith("next: mpibench report --session ")

"""The first line of a refused night is a ticket, and what a busy machine
slowed is refused only if a quiet one is slow, too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mpibench import answers
from mpibench.judge import gate
from mpibench.store.sessions import CONFIRMS
from mpibench.store.store import Store
from synthetic_verdicts import FIRST, Change, by, write_session

STACKS = ("a", "b")
NIGHTLY = {"run": "nightly"}
BUSY = {"lost_cores": True}
#: A link of 1 Gbit/s at 44 %.
MISSED = {
    "metric": "Uniband.line_rate_fraction.4194304",
    "layer": "physics",
    "value": 0.44,
    "reference": 1.0,
    "lower": 0.9,
    "upper": 1.01,
    "unit": "1",
    "outcome": "fail",
}
HELD = {**MISSED, "value": 0.93, "outcome": "pass"}


def of_stack(stack: str, factor: float) -> Change:
    return lambda name, size, of: factor if of == stack else 1.0


def write_nights(folder: Path, changes: Sequence[Change], **options: Any) -> str:
    for number, change in enumerate(changes):
        last = write_session(
            folder, number, stacks=STACKS, change=change, labels=NIGHTLY, **options
        )
    return last


def judged(folder: Path, session: str = "latest") -> gate.GateAnswer:
    return gate.decide(Store(folder), "testbed", session, max_age_hours=1e6)


@pytest.mark.parametrize(
    ("tonight", "suspect", "stacks", "others", "next_step"),
    [
        (by(1.4), "the link or the nodes", ["a", "b"], [], "reframe -c reframe_tests/cascade.py"),
        (of_stack("b", 1.4), "the stack", ["b"], ["a"], "mpibench compare"),
    ],
)
def test_all_stacks_or_one(
    tmp_path: Path,
    tonight: Change,
    suspect: str,
    stacks: list[str],
    others: list[str],
    next_step: str,
) -> None:
    write_nights(tmp_path, [by(1.0)] * 12 + [tonight])
    answer = judged(tmp_path)
    msgspec.convert(answer.as_data(), answers.Gate)
    (ticket,) = answer.tickets
    assert (ticket.suspect, ticket.stacks, ticket.others) == (suspect, stacks, others)
    assert (ticket.nodes, ticket.busy, ticket.since) == (["n1", "n2"], 0, "2026-01-17")
    assert "eth1g on node, 2 x 1, bunch: " in answer.lines[0] and ticket.next.startswith(next_step)
    assert answer.lines[3] == f"next: {ticket.next}"


def test_the_node_that_all_slow_cases_share_is_named(tmp_path: Path) -> None:
    pairs = [("n1,n2", MISSED), ("n2,n3", MISSED), ("n1,n3", HELD), ("n3,n4", HELD)]
    cases = [{"nodelist": nodes, "gates": [check]} for nodes, check in pairs]
    for number in range(2):
        write_session(tmp_path, number, labels=NIGHTLY, where=cases)
    (ticket,) = judged(tmp_path).tickets
    assert (ticket.nodes, ticket.cases) == (["n2"], 2)


SLOW = {"stack": "a", "gates": [MISSED]}


@pytest.mark.parametrize(
    ("beside", "words"),
    [
        ({"gates": [MISSED], "condition": json.dumps(BUSY)}, "a (b not judged there)"),
        ({"gates": [{**HELD, "metric": "PingPong.latency.00000008"}]}, "a (b not judged there)"),
        ({"gates": [HELD], "nodes": 4}, "a, the only stack there"),
        ({"gates": [MISSED], "nodes": 4}, "a, b, not in all cases alike"),
        ({"gates": [HELD], "nodelist": "n3,n4"}, "a alone, and b held on other nodes"),
        ({"gates": [HELD], "nodelist": None}, "a alone, and b held on other nodes"),
    ],
)
def test_a_stack_that_nothing_judged_there_neither_held_nor_is_alike(
    tmp_path: Path, beside: Mapping[str, Any], words: str
) -> None:
    for number in range(2):
        write_session(tmp_path, number, labels=NIGHTLY, where=[SLOW, {"stack": "b", **beside}])
    ticket = judged(tmp_path).tickets[0]
    assert ticket.suspect == "the fabric or the stack" and words in ticket.text


def test_stored_names_stay_on_the_line_of_a_ticket(tmp_path: Path) -> None:
    hostile = {**SLOW, "fabric": "ib\n\x1b[31m", "nodelist": "n1,n\x1b2"}
    for number in range(2):
        write_session(tmp_path, number, labels=NIGHTLY, where=hostile)
    answer = judged(tmp_path)
    assert answer.lines[0].isprintable() and answer.lines[3].isprintable()


@pytest.mark.parametrize(
    ("value", "options", "decision"),
    [
        (None, {}, "NOT JUDGED"),
        (0.45, {}, "FAIL"),
        (0.45, {"condition": BUSY}, "NOT JUDGED"),
        (0.93, {}, "PASS"),
        (0.93, {"samples": 5}, "NOT JUDGED"),
    ],
    ids=["not measured again", "slow when quiet", "busy again", "not seen again", "fewer values"],
)
def test_a_busy_machine_is_no_ordinary_red(
    tmp_path: Path, value: float | None, options: dict[str, Any], decision: str
) -> None:
    """Missed references, and what is slower than the nights before."""

    def write(number: int, fraction: float, samples: int = 10, **more: Any) -> str:
        held = fraction > 0.9
        check = {**MISSED, "value": fraction, "outcome": "pass" if held else "fail"}
        result = {"result": "pass" if held else "fail", "fail_phase": "performance"}
        where = {"gates": [check], "samples": samples, **result}
        change = by(1.0 if held else 1.5)
        return write_session(
            tmp_path, number, **{"labels": NIGHTLY, "where": where, "change": change, **more}
        )

    for number in range(12):
        write(number, 0.93)
    night = write(12, 0.44, condition=BUSY)
    if value:
        labels = {"run": "confirmation", CONFIRMS: night}
        write(13, value, labels=labels, started=FIRST.replace(day=17, hour=4), **options)
    answer = judged(tmp_path, night)
    assert answer.decision == decision
    assert ("machine busy" in answer.lines[0]) == (decision != "PASS")
    assert ("measured again at 04:00 still 45 %" in answer.lines[0]) == (decision == "FAIL")


@pytest.mark.parametrize("value", [1.5, 0.0, None, float("nan")])
def test_a_busy_machine_excuses_a_loss_alone(tmp_path: Path, value: float | None) -> None:
    where = {"gates": [{**MISSED, "value": value}]}
    for number in range(2):
        write_session(tmp_path, number, labels=NIGHTLY, where=where, condition=BUSY)
    assert judged(tmp_path).decision == "FAIL"

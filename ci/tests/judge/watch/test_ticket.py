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


def test_what_no_night_tells_is_not_said(tmp_path: Path) -> None:
    """Since when, where every night was slow; a comparison with a night that
    was slow, too; nodes of what is not measured.
    """
    always = [SLOW, {"stack": "b", "gates": [HELD]}]
    for number in range(3):
        write_session(tmp_path / "always", number, labels=NIGHTLY, where=always)
    (ticket,) = judged(tmp_path / "always").tickets
    assert "since 05 Jan 2026 or before" in ticket.text
    assert not ticket.next.startswith("mpibench compare")
    gone = tmp_path / "gone"
    write_nights(gone, [by(1.0)] * 11 + [of_stack("b", 1.4)] * 4)
    (ticket,) = judged(gone).tickets
    assert (ticket.since, ticket.nodes, ticket.stacks) == ("2026-01-16", ["n1", "n2"], ["b"])
    assert "compare --by session 0000000b 0000000f" in ticket.next
    write_session(gone, 15, labels=NIGHTLY, stacks=["a"])
    (ticket,) = judged(gone).tickets
    assert (ticket.since, ticket.nodes, ticket.stacks) == ("2026-01-16", [], [])
    assert "not measured tonight" in ticket.text and "report --session 00000010" in ticket.next


def test_stored_names_stay_on_the_line_of_a_ticket(tmp_path: Path) -> None:
    hostile = {**SLOW, "fabric": "ib\n\x1b[31m", "nodelist": "n1,n\x1b2"}
    for number in range(2):
        write_session(tmp_path, number, labels=NIGHTLY, where=hostile)
    answer = judged(tmp_path)
    assert answer.lines[0].isprintable() and answer.lines[3].isprintable()


def test_each_fabric_of_a_partition_has_a_ticket(tmp_path: Path) -> None:
    places = [(place, fabric) for place in ("cpu", "gpu") for fabric in ("ib", "eth")]
    cases = [{"partition": place, "fabric": fabric, "gates": [MISSED]} for place, fabric in places]
    for number in range(2):
        write_session(tmp_path, number, labels=NIGHTLY, where=cases)
    tickets = judged(tmp_path).tickets
    assert {(ticket.partition, ticket.fabric) for ticket in tickets} == set(places)


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


def test_a_busy_machine_makes_no_value_of_nothing(tmp_path: Path) -> None:
    def zero(row: dict[str, Any]) -> dict[str, Any]:
        dead = row["benchmark"] == "Uniband" and row["repeat"] == 1
        return {**row, "value": 0.0} if dead else row

    for number in range(12):
        write_session(tmp_path, number, labels=NIGHTLY)
    write_session(tmp_path, 12, labels=NIGHTLY, condition=BUSY, edit=zero)
    answer = judged(tmp_path)
    assert answer.decision == "FAIL"
    assert [problem.benchmark for problem in answer.problems.history] == ["Uniband"]


@pytest.mark.parametrize(
    ("usually", "tonight", "decision"),
    [(None, None, "FAIL"), (0.5, 0.55, "FAIL"), (0.5, 0.8, "NOT JUDGED"), (None, 0.8, "FAIL")],
)
def test_load_that_is_usual_excuses_nothing(
    tmp_path: Path, usually: float | None, tonight: float | None, decision: str
) -> None:
    """A machine whose ranks always lose their cores, and that held: a link at 44 % is red on it,
    but where they waited much longer for them.
    """
    usual = {"labels": NIGHTLY, "condition": {**BUSY, "core_wait": usually}}
    now = {"labels": NIGHTLY, "condition": {**BUSY, "core_wait": tonight}}
    for number in range(12):
        write_session(tmp_path, number, where={"gates": [HELD]}, **usual)
    slow = write_session(tmp_path, 12, where={"gates": [HELD]}, change=by(1.5), **now)
    assert judged(tmp_path, slow).decision == decision
    missed = {"gates": [MISSED], "result": "fail", "fail_phase": "performance"}
    write_session(tmp_path, 13, where=missed, **now)
    assert judged(tmp_path).decision == decision


def test_a_missed_reference_says_since_when_by_its_checks(tmp_path: Path) -> None:
    for number in range(6):
        missed = {"gates": [MISSED], "result": "fail", "fail_phase": "performance"}
        where = missed if number > 2 else {"gates": [HELD]}
        write_session(tmp_path, number, labels=NIGHTLY, where=where)
    (ticket,) = judged(tmp_path).tickets
    assert ticket.since == "2026-01-08"
    assert "44 % of the line rate, must be between 90 % and 101 %" in ticket.text

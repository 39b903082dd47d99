"""The first line of a refused night is a ticket, and what a busy machine
slowed is refused only if a quiet one is slow, too.
"""

import json

import msgspec
import pytest

from dataset_here import judged, write_session, write_sessions
from mpibench import answers
from mpibench.judge.ticket import FABRIC, STACK, UNKNOWN
from mpibench.store.sessions import CONFIRMS
from synthetic_verdicts import FIRST, NIGHTLY, by

AB = {"stacks": ("a", "b"), "labels": NIGHTLY}
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
#: A case that failed for it.
FAILED = {"gates": [MISSED], "result": "fail", "fail_phase": "performance"}
#: Two stacks slower in unlike benchmarks.
CROSSED = (("a", "PingPong"), ("b", "Uniband"))


@pytest.mark.parametrize(
    ("tonight", "suspect", "stacks", "others", "next_step"),
    [
        (by(1.4), FABRIC, ["a", "b"], [], "reframe -c reframe_tests/cascade.py"),
        (by(1.4, stack="b"), STACK, ["b"], ["a"], "mpibench compare"),
        (lambda *of: 1.5 if "a" in of else 1.35, FABRIC, ["a", "b"], [], "reframe"),
        (lambda *of: 2.5 if "a" in of else 1.08, UNKNOWN, ["a", "b"], [], ""),
        (
            lambda name, _, stack: 1.5 if (stack, name) in CROSSED else 1,
            UNKNOWN,
            ["a", "b"],
            [],
            "",
        ),
    ],
    ids=["all", "one", "nearly alike", "one much more", "not of the same"],
)
def test_stacks_are_alike_that_lost_as_much_of_the_same(
    tonight, suspect, stacks, others, next_step
):
    write_sessions([1.0] * 14 + [tonight], **AB)
    answer = judged()
    msgspec.convert(answer.as_data(), answers.Gate)
    (ticket,) = answer.tickets
    assert (ticket.suspect, ticket.stacks, ticket.others) == (suspect, stacks, others)
    assert (ticket.nodes, ticket.busy, ticket.since) == (["n1", "n2"], 0, "2026-01-19")
    assert "eth1g on node, 2 x 1, bunch: " in answer.lines[0]
    assert ("all 2 stacks alike" in answer.lines[0]) == (suspect == FABRIC)
    assert answer.lines[3] == f"next: {ticket.next}" and ticket.next.startswith(next_step)


def write_twice(where):
    write_sessions(2, labels=NIGHTLY, where=where)


def test_the_node_that_all_slow_cases_share_is_named():
    pairs = [("n1,n2", MISSED), ("n2,n3", MISSED), ("n1,n3", HELD), ("n3,n4", HELD)]
    write_twice([{"nodelist": nodes, "gates": [check]} for nodes, check in pairs])
    (ticket,) = judged().tickets
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
def test_a_stack_that_nothing_judged_there_neither_held_nor_is_alike(beside, words):
    write_twice([SLOW, {"stack": "b", **beside}])
    ticket = judged().tickets[0]
    assert ticket.suspect == UNKNOWN and words in ticket.text


def test_a_stack_without_proof_is_not_alike():
    wrong = {"evidence": "contradicted", "result": "fail", "fail_phase": "sanity"}
    three = {"stacks": ("a", "b", "c"), "labels": NIGHTLY}
    write_sessions(14, **three)
    write_sessions(
        [1.5], first=14, edit=lambda row: {**row, **wrong} if row["stack"] == "c" else row, **three
    )
    [ticket] = judged().tickets
    assert ticket.suspect == UNKNOWN
    assert "c not judged there" in ticket.text


def test_where_every_night_was_slow_nobody_says_since_when():
    """Nor compares with a night that was slow, too."""
    always = [SLOW, {"stack": "b", "gates": [HELD]}]
    write_sessions(3, labels=NIGHTLY, where=always)
    (ticket,) = judged().tickets
    assert "since 05 Jan 2026 or before" in ticket.text
    assert not ticket.next.startswith("mpibench compare")


def test_of_what_is_not_measured_tonight_no_nodes_are_named():
    write_sessions([1.0] * 11 + [by(1.4, stack="b")] * 4, **AB)
    (ticket,) = judged().tickets
    assert (ticket.since, ticket.nodes, ticket.stacks) == ("2026-01-16", ["n1", "n2"], ["b"])
    assert "compare --by session 0000000b 0000000f" in ticket.next
    write_session(15, labels=NIGHTLY, stacks=["a"])
    (ticket,) = judged().tickets
    assert (ticket.since, ticket.nodes, ticket.stacks) == ("2026-01-16", [], [])
    assert "not measured tonight" in ticket.text and "report --session 00000010" in ticket.next


def test_stored_names_stay_on_the_line_of_a_ticket():
    write_twice({**SLOW, "fabric": "ib\n\x1b[31m", "nodelist": "n1,n\x1b2"})
    answer = judged()
    assert answer.lines[0].isprintable() and answer.lines[3].isprintable()


def test_each_fabric_of_a_partition_has_a_ticket():
    places = [(place, fabric) for place in ("cpu", "gpu") for fabric in ("ib", "eth")]
    write_twice(
        [{"partition": place, "fabric": fabric, "gates": [MISSED]} for place, fabric in places]
    )
    tickets = judged().tickets
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
def test_a_busy_machine_is_no_ordinary_red(value, options, decision):
    """Missed references, and what is slower than the nights before."""

    def write(number, fraction, samples=10, **more):
        held = fraction > 0.9
        case = {"gates": [HELD]} if held else {**FAILED, "gates": [{**MISSED, "value": fraction}]}
        given = {"labels": NIGHTLY, "change": by(1.0 if held else 1.5), **more}
        return write_session(number, where={**case, "samples": samples}, **given)

    for number in range(12):
        write(number, 0.93)
    night = write(12, 0.44, condition=BUSY)
    if value:
        labels = {"run": "confirmation", CONFIRMS: night}
        write(13, value, labels=labels, started=FIRST.replace(day=17, hour=4), **options)
    answer = judged(night)
    assert answer.decision == decision
    assert ("machine busy" in answer.lines[0]) == (decision != "PASS")
    assert ("measured again at 04:00 still 45 %" in answer.lines[0]) == (decision == "FAIL")


@pytest.mark.parametrize("value", [1.5, 0.0, None, float("nan")])
def test_a_busy_machine_excuses_a_loss_alone(value):
    where = {"gates": [{**MISSED, "value": value}]}
    write_sessions(2, labels=NIGHTLY, where=where, condition=BUSY)
    assert judged().decision == "FAIL"


def test_a_busy_machine_makes_no_value_of_nothing():
    def zero(row):
        dead = row["benchmark"] == "Uniband" and row["repeat"] == 1
        return {**row, "value": 0.0} if dead else row

    write_sessions(12, labels=NIGHTLY)
    write_session(12, labels=NIGHTLY, condition=BUSY, edit=zero)
    answer = judged()
    assert answer.decision == "FAIL"
    assert [problem.benchmark for problem in answer.problems.history] == ["Uniband"]
    write_session(13, labels=NIGHTLY, edit=zero, change=by(1.5, "PingPong"))
    problems = judged().problems.history
    assert [problem.benchmark for problem in problems] == ["Uniband", "PingPong"], "worst first"


@pytest.mark.parametrize(
    ("usually", "tonight", "decision"),
    [(None, None, "FAIL"), (0.5, 0.55, "FAIL"), (0.5, 0.8, "NOT JUDGED"), (None, 0.8, "FAIL")],
)
def test_load_that_is_usual_excuses_nothing(usually, tonight, decision):
    """A machine whose ranks always lose their cores, and that held: a link at 44 % is red on it,
    but where they waited much longer for them.
    """
    held = {"labels": NIGHTLY, "where": {"gates": [HELD]}}
    write_sessions(12, condition={**BUSY, "core_wait": usually}, **held)
    now = {"condition": {**BUSY, "core_wait": tonight}}
    write_sessions([1.5], first=12, **held, **now)
    assert judged().decision == decision
    write_session(13, labels=NIGHTLY, where=FAILED, **now)
    assert judged().decision == decision


def test_a_missed_reference_says_since_when_by_its_checks():
    for number in range(6):
        write_session(number, labels=NIGHTLY, where=FAILED if number > 2 else {"gates": [HELD]})
    (ticket,) = judged().tickets
    assert ticket.since == "2026-01-08"
    assert "44 % of the line rate, must be between 90 % and 101 %" in ticket.text


@pytest.mark.parametrize("seed", range(0, 300, 100))
def test_since_when_is_asked_of_the_sizes_that_lost(seed):
    """With all sizes of the curve, the noise of those that lost nothing said that it began before."""
    for night in range(15):
        change = by(1.4 if night == 14 else 1.0, size=8)
        write_session(seed + night, night=night, labels=NIGHTLY, change=change)
    assert judged().tickets[0].since == "2026-01-19"


def test_a_case_without_proof_says_where_on_what_and_since_when():
    lost = {
        "result": "fail",
        "fail_phase": "sanity",
        "evidence": "missing",
        "samples": 0,
        "reason": "p2p.1: timed out after 240 s",
    }
    cpu = {"partition": "cpu", "nodelist": "c01,c02"}
    gpu = {"partition": "gpu", "nodelist": "g07,g08"}
    write_sessions(4, labels=NIGHTLY, where=[cpu, gpu])
    write_sessions(
        2,
        first=4,
        labels=NIGHTLY,
        where=[cpu, {**gpu, **lost}],
        edit=lambda row: row if row["partition"] == "cpu" else None,
    )
    first, _, _, step, *_ = judged().lines
    for words in ("on gpu, 2 x 1, bunch", "timed out after 240 s", "on g07, g08", "since 09 Jan"):
        assert words in first
    assert step.startswith("next: mpibench report --session ")

"""Which nodes answered: what came whole, once and from a node of the job, whatever else is printed between it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from reframe_tests.harness.cases.preflight import node_answers
from reframe_tests.harness.cases.preflight.node_facts import MARK, PART, checksum, lines, name_of_node


def line(node: str, facts: Any) -> str:
    return "\n".join(lines(node, facts))


def framed(part: str) -> str:
    """The only line of n1, with any JSON."""
    return f"{MARK}n1 1/1 {len(part)} {checksum('n1', '1/1', part)} {part}"


GOOD = line("n1", {"kernel": {"": "a"}})
LONG = {"kernel_command_line": {"": "word " * 500}}


def test_what_a_job_printed_is_read() -> None:
    assert node_answers.parse(f"slurmstepd: hello\n  0: {GOOD}\r\n") == ({"n1": {"kernel": {"": "a"}}}, [])


@pytest.mark.parametrize(
    "bad",
    [
        GOOD[:-3],
        MARK,
        MARK + "{}",
        MARK + "[]",
        framed("[["),
        framed("[" * 99999),
        line("n1", 3),
        line("n1", {"kernel": {"": ["a"]}}),
        line("n1", {"kernel": [["a", "b"]]}),
        line("n1", {"a": 1}),
        line("n1", {"a": {"": None}}),
        line("n1", {"a": {"": True}}),
        line("n1", {"a": {"": float("nan")}}),
        line("n1", {"a": {"": float("inf")}}),
        line("n1", {"a": {"": 10**400}}),
        line("n1", {"a": {"": 2**63}}),
        framed("1" * 5001),
    ],
)
def test_what_cannot_be_judged_is_reported(bad: str) -> None:
    found, wrong = node_answers.parse(bad)
    assert found == {} and len(wrong) == 1 and "cannot be read" in wrong[0], bad


def test_lines_are_short_enough_for_slurm_and_may_come_between_those_of_other_nodes() -> None:
    """Slurm cuts lines of more than 1024 bytes, and puts other nodes' output between the pieces."""
    first, second = lines("n" * 200, LONG), lines("n2", LONG)
    assert len(first) > 2 and max(map(len, first + second)) < 1024
    mixed = [each for pair in zip(first, second, strict=True) for each in pair]
    assert node_answers.parse("\n".join(mixed)) == ({"n" * 200: LONG, "n2": LONG}, [])


def test_a_lost_line_and_a_lost_piece_of_a_line_are_noticed() -> None:
    """Inside a long text neither would make the JSON invalid."""
    whole = lines("n1", LONG)
    found, wrong = node_answers.parse("\n".join(whole[:1] + whole[2:]))
    assert found == {} and wrong == [f"n1's facts cannot be read: {len(whole) - 1} of {len(whole)} lines are there"]
    cut = whole[1].replace("word word ", "", 1)
    assert json.loads("".join(each.split(" ", 5)[5] for each in (whole[0], cut, *whole[2:])))
    found, wrong = node_answers.parse("\n".join((whole[0], cut, *whole[2:])))
    assert found == {} and wrong[0].startswith("n1's facts cannot be read, they are cut off or mixed with other output")
    glued = whole[0] + lines("n2", {"kernel": {"": "a"}})[0]
    found, wrong = node_answers.parse("\n".join((glued, *whole[1:])))
    assert "n1" not in found and wrong, "n2's line ends n1's"


@pytest.mark.parametrize("change", [("3.10", "3.1O"), ("n1 1/1", "n2 1/1"), ("1/1", "1/2")])
def test_a_changed_letter_is_noticed(change: tuple[str, str]) -> None:
    """A version with a letter in it is a text like any other: the node would be called the odd one out."""
    whole = line("n1", {"firmware": {"mlx5_0": "20.3.10"}})
    assert change[0] in whole
    found, wrong = node_answers.parse(whole.replace(*change))
    assert found == {} and len(wrong) == 1 and "facts cannot be read, they are cut off or mixed" in wrong[0]


def test_a_node_that_answers_twice() -> None:
    found, wrong = node_answers.parse(f"{GOOD}\n{GOOD}\n")
    assert list(found) == ["n1"] and wrong == ["n1 answered twice; start one task on each node"]


def test_no_text_of_a_node_moves_a_terminal() -> None:
    """Users choose the names of their processes."""
    evil = "a\x1b[2J\x1b]0;owned\x07b\nmpibench-node-facts n2 1/1 2 {}\udc80\x85"
    found, wrong = node_answers.parse(line("n1", {"processes_of_others": {"": evil}, "x\x1b[1m": {"eth\x07": "v"}}))
    assert wrong == [] and found == {
        "n1": {"processes_of_others": {"": "ab mpibench-node-facts n2 1/1 2 {}"}, "x": {"eth": "v"}}
    }
    _, wrong = node_answers.parse(MARK + "\x1b[2Jn1 1/1 9 {}")
    assert wrong and "\x1b" not in wrong[0]


@pytest.mark.parametrize(
    ("answered", "there", "expected", "said"),
    [
        (["n1", "n2"], ["n1", "n2"], 2, []),
        (["n1"], [], 1, []),
        ([], [], 1, ["0 of 1 nodes answered"]),
        (["n1"], ["n1", "n2"], 2, ["1 of 2 nodes answered; silent: n2"]),
        # The scheduler forgot the job's nodes: what was asked for counts.
        (["n1"], [], 2, ["1 of 2 nodes answered"]),
        # It gave fewer than were asked for.
        (["n1"], ["n1"], 2, ["1 of 2 nodes answered"]),
        (
            ["n1", "n3"],
            ["n1", "n2"],
            2,
            ["1 of 2 nodes answered; silent: n2", "n3 answered without being a node of the job (n1, n2)"],
        ),
        (["c.rack1", "c.rack2"], ["c.rack1", "c.rack2"], 2, []),
        (["c.rack1"], ["c.rack1", "c.rack2"], 2, ["1 of 2 nodes answered; silent: c.rack2"]),
        ([], [f"n{at}" for at in range(9)], 9, ["0 of 9 nodes answered; silent: n0, n1, n2, n3, n4, n5, n6, n7 and 1 more"]),
    ],
)
def test_each_node_of_the_job_must_answer(answered: list[str], there: list[str], expected: int, said: list[str]) -> None:
    assert node_answers.find_missing(dict.fromkeys(answered), there, expected) == said


def test_a_stranger_is_none_of_the_nodes_that_are_judged() -> None:
    """Its name would be given to the scheduler as one to leave out."""
    answered = {"n1": {}, "n2.cluster": {}}
    assert list(node_answers.of_job(answered, ["n1", "n2"])) == ["n1"]
    assert list(node_answers.of_job(answered, [])) == ["n1", "n2.cluster"]


def test_a_node_calls_itself_as_the_scheduler_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slurm's NodeName need not be the host name; images that were copied may all have one host name."""
    monkeypatch.setenv("SLURMD_NODENAME", "gpu-0017")
    assert name_of_node() == "gpu-0017"
    monkeypatch.delenv("SLURMD_NODENAME")
    monkeypatch.setattr("socket.gethostname", lambda: "c1.cluster.example")
    assert name_of_node() == "c1.cluster.example"
    assert PART + 255 < 1024


def test_the_nodes_of_a_job_are_those_it_names_itself() -> None:
    assert node_answers.job_nodes("hello\nmpibench-job-nodes c1 c2\nmpibench-job-nodes c9\n") == ("c1", "c2")
    assert node_answers.job_nodes("srun: mpibench-job-nodes c1\n") == ()
    assert node_answers.job_nodes("mpibench-job-nodes \n") == (), "scontrol said nothing"


def test_nodes_that_were_not_looked_at_are_counted_by_state() -> None:
    states = [{"IDLE"}, {"ALLOCATED"}, {"ALLOCATED"}, {"IDLE", "DRAIN"}, set()]
    counts = node_answers.count_states(states)
    assert counts == {"allocated": 2, "drain+idle": 1, "unknown": 1}

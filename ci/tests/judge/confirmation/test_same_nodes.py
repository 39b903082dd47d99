"""Measured again counts on the same nodes only, which are asked for by
name; and a withdrawn session still decides.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from mpibench.judge import accept, comparison
from mpibench.night import remeasuring
from mpibench.night.remeasuring import CalledCase
from mpibench.store import confirmations
from mpibench.store.store import Store
from synthetic_verdicts import write_session
from test_confirmation import STACKS, night_with_references, said_of, slower

ELSEWHERE = {"where": {"nodelist": "n3,n4"}}


@pytest.mark.parametrize(
    ("nodes", "status"),
    [("n3,n4", 1), ("n1,n2,n3", 1), ("n1", 1), ("", 1), ("n2,n1", 0), ("n1, n2", 0)],
)
def test_a_reference_is_reached_again_on_the_same_nodes_only(
    tmp_path: Path, nodes: str, status: int
) -> None:
    """A slow port of one node is none of another, and the first result stands."""
    night = night_with_references(tmp_path, 50.0, [(99.0, {"where": {"nodelist": nodes}})])
    said = said_of(tmp_path, night, status)
    assert ("not measured again: session 00000003 measured it on" in said) is bool(status)


def test_what_other_nodes_say_first_is_passed_over(tmp_path: Path) -> None:
    night = night_with_references(tmp_path, 50.0, [(99.0, ELSEWHERE), (55.0, {}), (99.0, {})])
    assert "1 missed (1 seen twice)" in said_of(tmp_path, night, 1)


@pytest.mark.parametrize(("first", "outcome"), [(55.0, "seen twice"), (99.0, "not measured again")])
def test_a_withdrawn_session_that_measured_again_first_still_decides(
    tmp_path: Path, first: float, outcome: str
) -> None:
    """And what it said for the night is none any more."""
    night = night_with_references(tmp_path, 50.0, [(first, {}), (99.0, {})])
    Store(tmp_path).withdraw("00000003", "a wrong cable")
    assert f"1 missed (1 {outcome})" in said_of(tmp_path, night, 1)


def test_each_of_the_nodes_that_measured_a_metric_measures_it_again(tmp_path: Path) -> None:
    """The newest job of a candidate says nothing of the nodes of another one."""
    base = [write_session(tmp_path, number, stacks=STACKS[:1]) for number in range(5)]
    slow = {"stacks": STACKS[:1], "change": slower(1.3, *STACKS)}
    parts = [
        write_session(tmp_path, 5 + at, where={"nodelist": on}, **slow)
        for at, on in enumerate(("n1,n2", "n3,n4"))
    ]
    first = accept.decide(Store(tmp_path), ",".join(base), ",".join(parts))
    cases = remeasuring.of_metrics(first.candidate, comparison.called(first.judgement))
    groups = remeasuring.group(cases)
    assert sorted(case.on.job for [case] in groups) == [("n1", "n2"), ("n3", "n4")]


@pytest.mark.parametrize(
    ("scheduler", "nodes", "asked"),
    [
        ("slurm", ("c1", "c2"), ["nodelist=c1,c2"]),
        ("slurm", ("c1 --exclusive",), []),
        ("slurm", (), []),
        ("local", ("c1",), []),
    ],
)
def test_the_nodes_are_asked_for_by_name_where_that_is_possible(
    tmp_path: Path, scheduler: str, nodes: tuple[str, ...], asked: list[str]
) -> None:
    case = CalledCase("s", "sys", "p", "a", "X", 0.1, confirmations.MeasuredOn(nodes))
    words = remeasuring.words([case], "reframe -r", tmp_path / "report.json", scheduler)
    assert [words[at + 1] for at, word in enumerate(words) if word == "-J"] == asked

"""Measured again counts on the same nodes only, which are asked for by name; and a withdrawn session still decides."""

from __future__ import annotations

from pathlib import Path

import pytest

import synthetic_session
from mpibench import cli
from mpibench.judge import accept, comparison
from mpibench.night import remeasuring
from mpibench.night.remeasuring import CalledCase
from mpibench.store import confirmations, dataset, eligibility
from mpibench.store.store import Store
from synthetic_report import session_of
from synthetic_verdicts import write_session
from test_confirmation import STACKS, night_with_references, slower

ELSEWHERE = {"where": {"nodelist": "n3,n4"}}


@pytest.mark.parametrize(
    ("nodes", "status"),
    [("n3,n4", 1), ("n1,n2,n3", 1), ("n1", 1), ("n2,n3", 1), ("", 1), ("n2,n1", 0), ("n1, n2", 0)],
)
def test_a_reference_is_reached_again_on_the_same_nodes_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], nodes: str, status: int
) -> None:
    """A slow port of one node is none of another, and the first result stands."""
    night = night_with_references(tmp_path, 50.0, [(99.0, {"where": {"nodelist": nodes}})])
    options = ["--dataset-only", "--dataset", str(tmp_path), "--max-age", "100000"]
    assert cli.main(["gate", "--session", night, *options]) == status
    said = f"not measured again: session 00000003 measured it on {nodes.replace(',', ', ') or 'nodes that nothing names'}"
    assert (said in (out := capsys.readouterr().out) and "and not on n" in out) is bool(status)


def test_what_other_nodes_say_first_is_passed_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    night = night_with_references(tmp_path, 50.0, [(99.0, ELSEWHERE), (55.0, {}), (99.0, {})])
    assert cli.main(["gate", "--session", night, "--dataset-only", "--dataset", str(tmp_path), "--max-age", "100000"]) == 1
    assert "1 missed (1 seen twice)" in capsys.readouterr().out


@pytest.mark.parametrize(("first", "outcome"), [(55.0, "seen twice"), (99.0, "not measured again")])
def test_a_withdrawn_session_that_measured_again_first_still_decides(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], first: float, outcome: str
) -> None:
    """And what it said for the night is none any more."""
    night = night_with_references(tmp_path, 50.0, [(first, {}), (99.0, {})])
    Store(tmp_path).withdraw("00000003", "a wrong cable")
    assert cli.main(["gate", "--session", night, "--dataset-only", "--dataset", str(tmp_path), "--max-age", "100000"]) == 1
    out = capsys.readouterr().out
    assert f"1 missed (1 {outcome})" in out and ("was withdrawn, and what others say later" in out) is (first > 90)


def test_each_of_the_nodes_that_measured_a_metric_measures_it_again(tmp_path: Path) -> None:
    """The newest job of a candidate says nothing of the nodes of another one."""
    base = [write_session(tmp_path, number, stacks=STACKS[:1]) for number in range(5)]
    parts = [
        write_session(tmp_path, 5 + at, stacks=STACKS[:1], change=slower(1.3, *STACKS), where={"nodelist": on})
        for at, on in enumerate(("n1,n2", "n3,n4"))
    ]
    first = accept.decide(Store(tmp_path), ",".join(base), ",".join(parts))
    cases = remeasuring.of_metrics(first.candidate, comparison.called(first.judgement))
    assert sorted(case.on.job for case in cases) == [("n1", "n2"), ("n3", "n4")]
    assert sorted(held[0].on.job for held in remeasuring.group(cases)) == [("n1", "n2"), ("n3", "n4")]


@pytest.mark.parametrize(
    ("scheduler", "nodes", "asked"),
    [
        ("slurm", ("c1", "c2"), ["nodelist=c1,c2"]),
        ("squeue_shared", ("c1",), ["nodelist=c1"]),
        ("slurm", ("c1 --exclusive",), []),
        ("slurm", (), []),
        ("local", ("c1",), []),
        ("flux", ("c1",), []),
    ],
)
def test_the_nodes_are_asked_for_by_name_where_that_is_possible(
    tmp_path: Path, scheduler: str, nodes: tuple[str, ...], asked: list[str]
) -> None:
    on = confirmations.MeasuredOn(nodes)
    [held] = remeasuring.group([CalledCase("s", "sys", "p", "a", "X", 0.1, on), CalledCase("s", "sys", "p", "a", "Y", 0.1, on)])
    words = remeasuring.words(held, "reframe -c t -r -J nodelist=c7", tmp_path / "report.json", scheduler)
    assert [words[at + 1] for at, word in enumerate(words) if word == "-J"] == ["nodelist=c7", *asked]


def test_the_ranks_say_where_a_job_ran_that_no_scheduler_placed() -> None:
    """Their hosts are kept where they are not the job's nodes, and must be the same."""
    plan = synthetic_session.case()
    ranks = [{**rank, "host": "n2"} for rank in plan["proof"]["ranks"]]
    other = {**plan, "proof": {**plan["proof"], "ranks": ranks}}
    first, second = (session_of(one, uuid=uuid) for one, uuid in ((plan, "first"), (other, "second")))
    mine, again = (
        dataset.tables(one, "a")["cases"].with_columns(why=eligibility.WHY_NOT).row(0, named=True) for one in (first, second)
    )
    assert remeasuring.why_not(mine, mine) == ""
    why = remeasuring.why_not(mine, again)
    assert why == "session second measured it on n2, and not on n1"
    [stored] = dataset._case_rows(second, second.cases)
    assert confirmations.MeasuredOn.of_row(stored) == confirmations.MeasuredOn(("n1",), ("n2",))

"""What is called slower than the nights before is held against a night only if a fresh job is slower, too."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from mpibench.judge import gate, nights
from mpibench.judge.policy import Policy
from mpibench.store import confirmations
from mpibench.store.sessions import CONFIRMS
from mpibench.store.store import Store
from synthetic_verdicts import FIRST, by, write_session

BEFORE = 10
SLOW = 1.06


@pytest.fixture
def slow_night(tmp_path: Path) -> str:
    """Id of a night slower than the ten before it; the dataset is in ``tmp_path``."""
    for number in range(BEFORE):
        write_session(tmp_path, number, noise=0.004, labels={"run": "nightly"})
    return write_session(tmp_path, BEFORE, noise=0.004, labels={"run": "nightly"}, change=by(SLOW))


def again(folder: Path, session: str, factor: float, number: int = BEFORE + 50, **options: Any) -> None:
    labels = {"run": "confirmation", CONFIRMS: session}
    write_session(folder, number, night=BEFORE, noise=0.004, labels=labels, **{"change": by(factor), **options})


def judged(folder: Path, session: str) -> gate.GateAnswer:
    return gate.decide(Store(folder), "testbed", session, max_age_hours=1e6)


def test_a_night_without_a_second_measurement_fails(tmp_path: Path, slow_night: str) -> None:
    result = judged(tmp_path, slow_night)
    assert not result.passed
    assert "21 slower, 0 faster" in result.lines[2]
    assert "measured again" not in " ".join(result.lines)


def test_what_is_not_seen_again_is_told_and_not_held_against_the_night(tmp_path: Path, slow_night: str) -> None:
    again(tmp_path, slow_night, 1.0)
    result = judged(tmp_path, slow_night)
    assert result.passed, result.lines
    assert "21 slower (21 not seen again), 0 faster" in result.lines[1]
    (note, *_) = [line for line in result.lines if "PingPong" in line]
    assert note.startswith("note: history: openmpi-spack on node, eth1g, 2 x 1, bunch: PingPong at 0 B to 4 MiB is ")
    assert "held against 10 sessions before; not seen again, measured again 0." in note


def test_what_is_seen_twice_fails_the_night(tmp_path: Path, slow_night: str) -> None:
    again(tmp_path, slow_night, SLOW)
    result = judged(tmp_path, slow_night)
    assert not result.passed
    assert "21 slower (21 seen twice), 0 faster" in result.lines[2]
    assert any(line.startswith("history: ") and "; seen twice, measured again 6." in line for line in result.lines)


def test_of_two_benchmarks_each_has_its_answer(tmp_path: Path, slow_night: str) -> None:
    again(tmp_path, slow_night, 1.0, change=by(SLOW, "Uniband"))
    result = judged(tmp_path, slow_night)
    assert not result.passed
    assert "21 slower (10 seen twice, 11 not seen again), 0 faster" in result.lines[2]


def test_the_first_measurement_again_counts_and_no_later_one(tmp_path: Path, slow_night: str) -> None:
    """Or a night would be measured until it passes."""
    again(tmp_path, slow_night, SLOW)
    again(tmp_path, slow_night, 1.0, number=BEFORE + 51)
    assert not judged(tmp_path, slow_night).passed


@pytest.mark.parametrize(
    "otherwise",
    [
        {"evidence": "contradicted"},
        {"mpi_version": "4.1.6"},
        {"condition": {"placement": [[0], [4]]}},
        {"condition": {"depth": "smoke"}},
        {"where": {"pinning": "scatter"}},
        {"repeats": 2},
        {"started": FIRST + timedelta(days=BEFORE - 1)},
        {"started": FIRST + timedelta(days=BEFORE + 3)},
    ],
)
def test_what_was_measured_otherwise_confirms_nothing(tmp_path: Path, slow_night: str, otherwise: dict[str, Any]) -> None:
    again(tmp_path, slow_night, 1.0, **otherwise)
    result = judged(tmp_path, slow_night)
    assert not result.passed
    assert "not seen again" not in " ".join(result.lines)


def test_two_losses_have_each_their_own_second_measurement(tmp_path: Path) -> None:
    for number in range(BEFORE):
        write_session(tmp_path, number, noise=0.004, labels={"run": "nightly"})

    def both(name: str, *_: object) -> float:
        return 1.3 if name == "Uniband" else SLOW

    name = write_session(tmp_path, BEFORE, noise=0.004, labels={"run": "nightly"}, change=both)
    again(tmp_path, name, 1.0, change=both)
    lines = judged(tmp_path, name).lines
    (first,) = [line for line in lines if "Uniband at" in line]
    (second,) = [line for line in lines if "PingPong at" in line]
    assert "; seen twice, measured again 23." in first or "; seen twice, measured again 22." in first
    assert "; seen twice, measured again 6." in second or "; seen twice, measured again 5." in second


def test_what_measured_again_is_no_history(tmp_path: Path) -> None:
    """Whatever its other labels say."""
    for number in range(BEFORE):
        write_session(tmp_path, number, noise=0.004)
    for number in range(20, 26):
        write_session(tmp_path, number, night=BEFORE, noise=0.004, change=by(1.3), labels={CONFIRMS: "0" * 36})
    name = write_session(tmp_path, BEFORE + 1, noise=0.004, change=by(1.25))
    assert "held against 10 sessions before: 21 slower" in judged(tmp_path, name).lines[2]


def test_a_night_of_too_few_repeats_is_said(tmp_path: Path) -> None:
    for number in range(BEFORE + 1):
        write_session(tmp_path, number, noise=0.004, repeats=2 if number == BEFORE else 5)
    lines = gate.decide(Store(tmp_path), "testbed", max_age_hours=1e6).lines
    assert any("21 metrics were not held against the sessions before: a night needs 3 repeats" in line for line in lines)


def test_a_session_that_confirms_another_night_says_nothing_of_this_one(tmp_path: Path, slow_night: str) -> None:
    again(tmp_path, "0" * 36, 1.0)
    assert not judged(tmp_path, slow_night).passed


def test_what_is_called_names_the_metrics(tmp_path: Path, slow_night: str) -> None:
    table = Store(tmp_path).cases("testbed")
    cases = table.filter(pl.col("session") == slow_night).collect()
    found = nights.judge(Store(tmp_path), "testbed", slow_night, cases, Policy())
    assert found is not None and found.called().height == 21
    assert found.measured_again(Store(tmp_path), confirmations.confirming(table, slow_night)).again is None


def test_a_benchmark_that_gave_nothing_was_not_measured_again(tmp_path: Path, slow_night: str) -> None:
    again(tmp_path, slow_night, 1.0, change=by(float("inf"), "Uniband"))
    result = judged(tmp_path, slow_night)
    assert not result.passed
    assert "(10 not measured again, 11 not seen again)" in result.lines[2]


def test_what_is_damaged_confirms_nothing_and_is_said(tmp_path: Path, slow_night: str) -> None:
    again(tmp_path, slow_night, 1.0, change=by(float("nan"), "PingPong"))
    result = judged(tmp_path, slow_night)
    assert not result.passed
    assert any(line.startswith("note: what was measured again is not used: PingPong latency_us") for line in result.lines)


@pytest.mark.parametrize(("value", "held"), [(4.0, True), (6.0, False), (0.0, False), (-1.0, False), (float("nan"), False)])
def test_a_time_of_nothing_reaches_no_reference(value: float, held: bool) -> None:
    assert confirmations.within({"lower": None, "upper": 5.0}, value) is held


@pytest.mark.parametrize("nodes", ["n3,n4", "n1,n2,n3", "n1"])
def test_other_nodes_say_nothing_of_a_slow_night(tmp_path: Path, slow_night: str, nodes: str) -> None:
    again(tmp_path, slow_night, 1.0, where={"nodelist": nodes})
    result = judged(tmp_path, slow_night)
    assert not result.passed
    [line, *_] = [line for line in result.lines if line.startswith("history: ")]
    assert "; not measured again, session " in line and f"on {nodes.replace(',', ', ')}, and not on n" in line


def test_the_same_nodes_in_another_order_are_the_same(tmp_path: Path, slow_night: str) -> None:
    again(tmp_path, slow_night, 1.0, where={"nodelist": "n2,n1"})
    assert judged(tmp_path, slow_night).passed


def test_a_withdrawn_session_that_measured_again_first_lets_no_later_one_count(tmp_path: Path, slow_night: str) -> None:
    again(tmp_path, slow_night, SLOW)
    again(tmp_path, slow_night, 1.0, number=BEFORE + 51)
    first = next(path.stem for path in tmp_path.glob("cases/*/*/*.parquet") if path.stem.startswith(f"{BEFORE + 51:08x}"))
    Store(tmp_path).withdraw(first, "a wrong cable")
    result = judged(tmp_path, slow_night)
    assert not result.passed and any("measured it again first and was withdrawn" in line for line in result.lines)


def test_each_of_the_nodes_that_measured_a_night_measures_it_again(tmp_path: Path) -> None:
    """One job of a case was slow, and its other one, on other nodes, was not."""
    two = [{"nodelist": "n1,n2"}, {"nodelist": "n3,n4"}]
    for number in range(BEFORE):
        write_session(tmp_path, number, noise=0.004, labels={"run": "nightly"}, where=two)
    night = write_session(tmp_path, BEFORE, noise=0.004, labels={"run": "nightly"}, where=two, change=by(SLOW))
    again(tmp_path, night, 1.0, where=two[1])
    result = judged(tmp_path, night)
    assert not result.passed and any("nothing measured it on n1, n2, which measured it tonight" in one for one in result.lines)
    again(tmp_path, night, 1.0, number=BEFORE + 51, where=two[0])
    assert judged(tmp_path, night).passed

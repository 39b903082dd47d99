"""What is called slower than the nights before is held against a
night only if a fresh job is slower, too.
"""

import shutil
from datetime import timedelta

import pytest

import synthetic_verdicts as verdicts
from dataset_here import HERE, judged, write_session, write_sessions
from mpibench.store import confirmations
from mpibench.store.sessions import CONFIRMS
from mpibench.store.store import Store
from synthetic_verdicts import FIRST, NIGHTLY, by

BEFORE = 10
SLOW = 1.06
SLOW_LAST = [1.0] * BEFORE + [SLOW]


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Dataset of a night slower than the ten before it."""
    folder = tmp_path_factory.mktemp("nights")
    verdicts.write_sessions(folder, SLOW_LAST, noise=0.004, labels=NIGHTLY)
    return folder


@pytest.fixture
def slow_night(written):
    """Id of that night; a copy of the dataset is here."""
    shutil.copytree(written, ".", dirs_exist_ok=True)
    return max(written.glob("cases/*/*/*.parquet")).stem


def again(session, factor, number=BEFORE + 50, **options):
    labels = {"run": "confirmation", CONFIRMS: session}
    given = {"night": BEFORE, "noise": 0.004, "labels": labels, "change": by(factor), **options}
    return write_session(number, **given)


def test_the_first_measurement_again_counts_and_no_later_one(slow_night):
    """Or a night would be measured until it passes; nor if the first is withdrawn."""
    first = again(slow_night, SLOW)
    again(slow_night, 1.0, number=BEFORE + 51)
    assert not judged(slow_night).passed
    Store(HERE).withdraw(first, "a wrong cable")
    result = judged(slow_night)
    assert not result.passed
    assert any("measured it again first, but was withdrawn" in line for line in result.lines)


@pytest.mark.parametrize(
    "otherwise",
    [
        {"evidence": "contradicted"},
        {"mpi_version": "4.1.6"},
        {"condition": {"placement": [[0], [4]]}},
        {"condition": {"oversubscribed": "64 ranks on 2 cores"}},
        {"where": {"pinning": "scatter"}},
        {"where": {"nodelist": "n3,n4"}},
        {"where": {"nodelist": "n1,n2,n3"}},
        {"where": {"nodelist": "n1"}},
        {"repeats": 2},
        {"started": FIRST + timedelta(days=BEFORE - 1)},
        {"started": FIRST + timedelta(days=BEFORE + 3)},
        {"labels": {"run": "confirmation", CONFIRMS: "0" * 36}},
        {"change": by(float("nan"), "PingPong")},
    ],
)
def test_what_was_measured_otherwise_confirms_nothing(slow_night, otherwise):
    again(slow_night, 1.0, **otherwise)
    result = judged(slow_night)
    assert not result.passed
    assert "not seen again" not in " ".join(result.lines)


def test_what_measured_again_is_no_history():
    """Whatever its other labels say."""
    write_sessions(BEFORE, noise=0.004)
    confirming = {"night": BEFORE, "noise": 0.004, "labels": {CONFIRMS: "0" * 36}}
    write_sessions([1.3] * 6, first=20, **confirming)
    name = write_sessions([1.25], first=BEFORE + 1, noise=0.004)
    assert "compared with 10 sessions before: 21 slower" in judged(name).lines[2]


@pytest.mark.parametrize(
    ("value", "held"), [(4.0, True), (6.0, False), (0.0, False), (float("nan"), False)]
)
def test_a_time_of_nothing_reaches_no_reference(value, held):
    assert confirmations.within({"lower": None, "upper": 5.0}, value) is held


def test_each_of_the_nodes_that_measured_a_night_measures_it_again():
    """One job of a case was slow, and its other one, on other nodes, was not."""
    two = [{"nodelist": "n1,n2"}, {"nodelist": "n4,n3"}]
    name = write_sessions(SLOW_LAST, noise=0.004, labels=NIGHTLY, where=two)
    again(name, 1.0, where={"nodelist": "n3,n4"})
    assert not judged(name).passed
    again(name, 1.0, number=BEFORE + 51, where=two[0])
    assert judged(name).passed


@pytest.mark.parametrize(
    ("change", "passed", "counts"),
    [
        (None, False, "21 slower, 0 faster"),
        (by(1.0), True, "21 slower (21 not seen again), 0 faster"),
        (by(SLOW), False, "21 slower (21 seen twice), 0 faster"),
        (by(SLOW, "Uniband"), False, "21 slower (10 seen twice, 11 not seen again), 0 faster"),
        (by(float("inf"), "Uniband"), False, "(10 not measured again, 11 not seen again)"),
    ],
    ids=["not measured again", "quick again", "slow again", "one of two", "one gave nothing"],
)
def test_what_a_second_measurement_says_of_a_night(slow_night, change, passed, counts):
    if change:
        again(slow_night, 1.0, change=change)
    result = judged(slow_night)
    assert result.passed is passed
    assert counts in result.counts.history.text

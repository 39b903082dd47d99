"""The sessions before: found without being named, never
pooled with others, and counted in words.
"""

from datetime import datetime, timedelta, timezone
from functools import partial

import numpy as np
import pytest

from dataset_here import HERE, write_session, write_sessions
from mpibench.judge import accept, comparison, history, pairing
from mpibench.judge.accept import ACCEPTED, REFUSED, AcceptanceOptions
from mpibench.judge.comparison import INCONCLUSIVE
from mpibench.judge.history import NO_HISTORY, find_history
from mpibench.judge.policy import Policy
from mpibench.store.store import Store
from refusals import refused_as
from synthetic_verdicts import FIRST, SIZES, by

NIGHTS = 8


#: Nights that differ little.
write_nights = partial(write_sessions, noise=0.004)


def find(session="latest", **options):
    """The history of a session."""
    store = Store(HERE)
    cases = store.select("testbed", session).cases
    return find_history(store, "testbed", cases, Policy(), **options)


def not_used(past):
    return {row.why: row.sessions for row in past.strata[0].left_out}


def decide(baseline="latest~1", **options):
    return accept.decide(Store(HERE), baseline, "latest", AcceptanceOptions(**options))


def units(found):
    return set(found.judgement.metrics["units"])


def test_a_baseline_of_one_session_has_the_sessions_before_it():
    write_nights([1.0] * NIGHTS + [1.04])
    found = decide()
    assert units(found) == {comparison.SESSIONS}
    assert found.decision == REFUSED
    row = found.judgement.metrics.row(0, named=True)
    assert (row["baseline_jobs"], row["candidate_jobs"]) == (NIGHTS, 1)
    assert row["slower"] == pytest.approx(0.04, abs=0.015)
    assert any("8 sessions, 1 of them named on 8 days" in one for one in found.notes)
    found = decide(history=NO_HISTORY)
    assert found.decision == INCONCLUSIVE, "what one night alone cannot know"


#: What a condition stores, and what it is called.
STORED = {
    "depth": "level",
    "oversubscribed": "oversubscription",
    "transport": "transport",
    "suite_options": "suite options",
    "striped": "striping",
    "quality_of_service": "quality of service",
    "tuned": "tuned settings",
    "network": "network",  # of one fabric on which nothing is forced
}


@pytest.mark.parametrize(
    ("other", "why"),
    [
        ({"mpi_version": "4.1.6"}, "with MPI version 4.1.6"),
        ({"where": {"lock_hash": "else"}}, "with lock hash else"),
        ({"labels": {"run": "acceptance"}}, "with label run acceptance"),
        ({"condition": {"placement": [[0], [4]]}}, "with another placement"),
        ({"condition": {"suites": {"imb": {"version": "1"}}}}, "with benchmark version imb 1"),
        ({"condition": {"suites": ["imb"]}}, "with benchmark version none"),
        *(({"condition": {name: "other"}}, f"with {said} other") for name, said in STORED.items()),
        ({"evidence": "contradicted"}, "unproven for this"),
        ({"started": datetime(1970, 1, 1, 1, tzinfo=timezone.utc)}, "whose clock was wrong"),
        ({"started": FIRST + timedelta(days=100)}, "that started later"),
    ],
)
def test_what_was_measured_otherwise_is_another_history(other, why):
    write_nights(NIGHTS)
    write_session(40, **{"night": 1, **other, "change": by(3.0)})
    last = write_session(NIGHTS)
    found = find(last)
    assert not_used(found) == {why: 1}
    assert len(found.strata[0].sessions) == NIGHTS == found.values["session"].n_unique()


def test_another_fabric_pinning_or_stack_is_not_looked_at():
    for number, other in enumerate(({"fabric": "shm"}, {"pinning": "x"}, {"stack": "b"})):
        write_session(number, where=other)
    write_session(99)
    [stratum] = find().strata
    assert stratum.count == 1 and not stratum.left_out


def test_a_long_history_ends_with_the_newest_unless_a_selector_says_so(monkeypatch):
    monkeypatch.setattr(history, "MOST_SESSIONS", 10)
    write_nights(15, sizes=SIZES[:2])
    assert not_used(find()) == {history.OLDER: 4}
    assert find(selector="20260101:now").strata[0].count == 15
    with refused_as("bad-option"):
        find(selector="20200101:20200102")


def test_a_baseline_unlike_its_history_is_not_held_against_it():
    """The last night before the upgrade was slower already: the upgrade is not refused for that."""
    write_nights([1.0] * NIGHTS + [1.1] * 2)
    found = decide()
    assert found.decision == INCONCLUSIVE
    assert set(found.judgement.metrics["sessions"]) == {1}
    assert any(one.startswith("the baseline differs from its history") for one in found.notes)


def test_a_damaged_session_of_long_ago_stops_nobody():
    write_nights(NIGHTS)
    write_session(50, night=2, edit=lambda row: {**row, "value": float("nan")})
    write_session(99)
    found = find()
    assert found.strata[0].count == NIGHTS + 1
    assert any("is not used as history" in one and "nan" in one for one in found.sentences())


def test_renamed_stacks_keep_their_history():
    write_nights(NIGHTS, stacks=("old-name",))
    write_session(99, stacks=("new-name",))
    found = decide(rename={"old-name": "new-name"})
    assert units(found) == {comparison.SESSIONS}


def test_two_sessions_are_compared_with_the_history_of_the_first_on_the_same_nodes():
    write_nights(NIGHTS)
    write_nights(2, first=20, night=1, where={"nodelist": "n3,n4"})
    write_session(99)
    sides = (Store(HERE), "latest", "session", "latest~1", "latest")
    found = pairing.pair(*sides)
    assert set(found.metrics["units"]) == {comparison.SESSIONS}
    assert set(found.metrics["sessions"]) == {NIGHTS}
    assert not_used(found.past) == {"with another node list": 2}
    assert not_used(pairing.pair(*sides, allow=["nodelist"]).past) == {}
    assert set(pairing.pair(*sides, history="none").metrics["sessions"]) == {1}
    with refused_as("options-exclude"):
        pairing.pair(Store(HERE), "latest", "stack", "a", "b", history="none")


def test_constant_values_and_zeros_in_a_history_are_no_certainty():
    def zero(row):
        dead = (row["benchmark"], row["message_bytes"]) == ("Uniband", 4096)
        return {**row, "value": 0.0} if dead else row

    write_sessions([1.0] * NIGHTS + [1.001], noise=0.0)
    write_sessions(3, first=2, noise=0.0, edit=zero)
    found = decide()
    assert found.decision == ACCEPTED
    jobs = found.judgement.metrics.filter(benchmark="Uniband").sort("message_bytes")
    assert jobs["baseline_jobs"].to_list() == [NIGHTS] * 4 + [NIGHTS - 3] + [NIGHTS] * 5
    write_session(NIGHTS + 1, noise=0.0, change=by(1.1))
    assert decide().decision == REFUSED


def test_what_is_measured_on_no_fabric_is_judged_as_what_is(tmp_path, monkeypatch):
    """The memory of a node, say: the same values give the same
    answer, and no sentence names a fabric.
    """
    found = []
    for fabric in ("eth1g", None):
        folder = tmp_path / str(fabric)
        where = {"fabric": fabric, "pinning": None}
        folder.mkdir()
        monkeypatch.chdir(folder)
        write_nights([1.0] * NIGHTS + [1.3, 1.04], where=where)
        found.append(decide())
    on, off = found
    assert on.decision == off.decision
    assert on.judgement.metrics.drop("fabric").equals(off.judgement.metrics.drop("fabric"))
    assert [one.replace(", eth1g", "") for one in on.notes] == list(off.notes) != []


def write_unsteady(spread, **options):
    """Nights that differ in what all of their metrics share."""
    drawn = np.random.default_rng(300).standard_normal(NIGHTS + 1)
    write_sessions(np.exp(spread * drawn).tolist(), **options)


#: All sessions of :func:`write_nights` but the last.
HISTORY = "20260101:20260113"


def test_a_history_that_is_too_wild_says_how_many_sessions_would_decide():
    write_unsteady(spread=0.03)
    found = decide(HISTORY)
    needed = found.judgement.metrics["needed"].drop_nulls()
    assert found.decision == INCONCLUSIVE
    assert len(needed) and needed.is_between(2, 20).all()


def test_two_stacks_are_no_history_of_one_another():
    write_unsteady(spread=0.002)
    sides = [Store(HERE).select("testbed", one) for one in (HISTORY, "latest")]
    judgement = comparison.judge(*sides, Policy(), asked=comparison.Question.SIDES)
    assert set(judgement.metrics["units"]) == {comparison.REPEATS}


def test_sessions_of_several_versions_or_depths_are_no_history():
    write_unsteady(spread=0.002, condition={"depth": "nightly"})
    write_session(2, condition={"depth": "smoke"}, mpi_version="4.1.6")
    found = decide(HISTORY)
    [said] = [one for one in found.notes if "do not form one history" in one]
    assert "MPI versions 4.1.6 and 5.0.10" in said and "levels nightly and smoke" in said

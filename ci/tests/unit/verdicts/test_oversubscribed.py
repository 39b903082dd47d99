"""Cases whose ranks shared cores: no command holds them against cases whose ranks did not, and nothing is learned from them."""

from __future__ import annotations

from pathlib import Path

import pytest

from mpibench.judge import comparison, drift, pairing, rebaseline
from mpibench.judge import policy as verdict_policy
from mpibench.judge.history import describe_facts, find_history
from mpibench.judge.policy import Policy
from mpibench.night import remeasuring
from mpibench.store import confirmations, session_values
from mpibench.store.store import Store
from refusals import refused_as
from synthetic_verdicts import write_session

SYSTEM = "testbed"
SHARED = {"oversubscribed": "64 ranks on 2 cores"}


def read(folder: Path, session: str) -> session_values.Selection:
    return Store(folder).select(SYSTEM, session)


def test_their_metrics_are_other_metrics(tmp_path: Path) -> None:
    plain, shared = write_session(tmp_path, 0), write_session(tmp_path, 1, condition=SHARED)
    assert set(read(tmp_path, plain).values["variant"]) == {""}
    assert set(read(tmp_path, shared).values["variant"]) == {"oversubscribed"}
    named = write_session(tmp_path, 2, condition=SHARED, edit=lambda row: {**row, "variant": "nodes=8"})
    assert set(read(tmp_path, named).values["variant"]) == {"nodes=8,oversubscribed"}


def test_accepting_one_against_the_other_compares_nothing(tmp_path: Path) -> None:
    """What the other side has is missing, which refuses; no ratio is made."""
    plain, shared = write_session(tmp_path, 0), write_session(tmp_path, 1, condition=SHARED)
    for first, second in ((plain, shared), (shared, plain)):
        judged = comparison.judge(read(tmp_path, first), read(tmp_path, second), verdict_policy.load(SYSTEM))
        assert judged.metrics["ratio"].drop_nulls().is_empty()
        assert set(judged.metrics["verdict"]) == {"missing"} and judged.new.height == judged.metrics.height


def test_two_oversubscribed_sessions_are_compared(tmp_path: Path) -> None:
    first, second = (read(tmp_path, write_session(tmp_path, number, condition=SHARED)) for number in range(2))
    judged = comparison.judge(first, second, verdict_policy.load(SYSTEM))
    assert "missing" not in judged.metrics["verdict"].to_list() and judged.metrics["ratio"].null_count() < judged.metrics.height
    more = write_session(tmp_path, 2, condition={"oversubscribed": "128 ranks on 2 cores"})
    assert pairing.pair(Store(tmp_path), "", "session", second.sessions[0], more).unequal == (), "both share cores"


@pytest.mark.parametrize("allow", [(), ("nodelist", "placement")])
def test_compare_refuses_them_by_name_whatever_is_allowed(tmp_path: Path, allow: tuple[str, ...]) -> None:
    plain, shared = write_session(tmp_path, 0), write_session(tmp_path, 1, condition=SHARED)
    with refused_as("sharing-differs"):
        pairing.pair(Store(tmp_path), "", "session", plain, shared, allow=allow)


def test_one_is_no_history_of_the_other(tmp_path: Path) -> None:
    for number in range(3):
        write_session(tmp_path, number, condition=SHARED if number else None)
    newest = read(tmp_path, write_session(tmp_path, 3, condition=SHARED))
    found = find_history(Store(tmp_path), SYSTEM, newest.cases, Policy())
    [stratum] = found.strata
    assert len(stratum.sessions) == 2 and [(row.why, row.sessions) for row in stratum.left_out] == [
        ("with oversubscription none", 1)
    ]
    assert set(found.values["variant"]) == {"oversubscribed"}
    assert describe_facts(newest.cases)["oversubscribed"].to_list() == ["64 ranks on 2 cores"]
    assert "oversubscribed" in confirmations.SAME_CHECK and "oversubscribed" in remeasuring.ALIKE


def test_nothing_is_learned_from_them(tmp_path: Path) -> None:
    for number in range(8):
        write_session(tmp_path / "data", number, condition=SHARED, benchmarks={"PingPong": "latency_us"})
    with refused_as("selector-unusable", match="8 cases not used: each was oversubscribed, and nothing is learned from that"):
        rebaseline.propose(Store(tmp_path / "data"), "20260101:now", root=tmp_path / "root")


def test_the_watch_looks_at_none_of_them(tmp_path: Path) -> None:
    for number in range(8):
        write_session(tmp_path, number, repeats=3, condition=SHARED if number % 2 else None)
    watched = drift.read(Store(tmp_path), SYSTEM)
    assert set(watched.metrics["variant"]) == {""} and watched.nights.height == 4

"""Cases whose ranks shared cores: no command holds them against cases whose
ranks did not, and nothing is learned from them.
"""

from __future__ import annotations

from pathlib import Path

from mpibench.judge import comparison, drift, pairing, rebaseline
from mpibench.judge import policy as verdict_policy
from mpibench.store import session_values
from mpibench.store.store import Store
from refusals import refused_as
from synthetic_verdicts import write_session, write_sessions

SYSTEM = "testbed"
SHARED = {"oversubscribed": "64 ranks on 2 cores"}


def read(folder: Path, session: str) -> session_values.Selection:
    return Store(folder).select(SYSTEM, session)


def test_their_metrics_are_other_metrics(tmp_path: Path) -> None:
    """No ratio is made of one and the other; what the other side has is missing, which refuses."""
    plain = write_session(tmp_path, 0)
    shared = write_session(tmp_path, 1, condition=SHARED)
    assert set(read(tmp_path, plain).values["variant"]) == {""}
    assert set(read(tmp_path, shared).values["variant"]) == {"oversubscribed"}
    for first, second in ((plain, shared), (shared, plain)):
        sides = read(tmp_path, first), read(tmp_path, second)
        judged = comparison.judge(*sides, verdict_policy.load(SYSTEM))
        assert judged.metrics["ratio"].drop_nulls().is_empty()
        assert set(judged.metrics["verdict"]) == {"missing"}
    more = write_session(tmp_path, 2, condition={"oversubscribed": "128 ranks on 2 cores"})
    assert pairing.pair(Store(tmp_path), "", "session", shared, more).unequal == ()
    with refused_as("not-comparable"):
        pairing.pair(Store(tmp_path), "", "session", plain, shared, allow=("nodelist", "placement"))


def test_nothing_is_learned_from_them(tmp_path: Path) -> None:
    write_sessions(tmp_path / "data", 8, condition=SHARED)
    with refused_as("bad-option", match="8 cases not used: oversubscribed"):
        rebaseline.propose(Store(tmp_path / "data"), "20260101:now", root=tmp_path / "root")


def test_the_watch_looks_at_none_of_them(tmp_path: Path) -> None:
    for number in range(8):
        write_session(tmp_path, number, repeats=3, condition=SHARED if number % 2 else None)
    watched = drift.read(Store(tmp_path), SYSTEM)
    assert set(watched.metrics["variant"]) == {""} and watched.nights.height == 4

"""No history makes a doubled time pass, and nothing lasting is
forgotten: from stored sessions to the gate's decision.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from mpibench.judge import accept, drift, gate
from mpibench.judge import policy as verdict_policy
from mpibench.judge.policy import AcceptedLevel, Policy
from mpibench.store.sessions import CONFIRMS
from mpibench.store.store import Store
from synthetic_verdicts import Change, by, write_session

OLD = 1e6
NIGHTLY = {"run": "nightly"}


def write_nights(folder: Path, changes: Sequence[float | Change], **options: Any) -> None:
    """Nights in a row with 1 % noise, each slower by a factor, or changed otherwise."""
    for number, change in enumerate(changes):
        changed = change if callable(change) else by(change)
        write_session(
            folder,
            number,
            **{"noise": 0.01, "change": changed, "labels": NIGHTLY, "repeats": 3, **options},
        )


def one_size(factor: float, benchmark: str = "PingPong", size: int = 512) -> Change:
    return lambda name, bytes_, _: factor if (name, bytes_) == (benchmark, size) else 1.0


def judged(folder: Path, **options: Any) -> gate.GateAnswer:
    return gate.decide(Store(folder), "testbed", max_age_hours=OLD, **options)


def test_one_glitch_hides_no_doubled_night(tmp_path: Path) -> None:
    write_nights(tmp_path, [*(one_size(3.0) if night == 3 else 1.0 for night in range(20)), 1.9])
    answer = judged(tmp_path)
    assert answer.decision == "FAIL"
    assert answer.counts.history.slower == answer.counts.history.metrics


@pytest.mark.parametrize("nightly", [1.005, 1.1])
def test_a_steady_loss_is_red(tmp_path: Path, nightly: float) -> None:
    write_nights(tmp_path, [nightly**night for night in range(41)], sizes=(8, 65536))
    assert judged(tmp_path).decision == "FAIL"


def test_a_lasting_loss_stays_red_until_it_is_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """110 nights after, with its first night; and a larger loss is not what was accepted."""
    write_nights(tmp_path, [1.0] * 20 + [1.08] * 110, sizes=(8, 65536), repeats=3)
    answer = judged(tmp_path)
    assert answer.decision == "FAIL"
    assert [problem.since for problem in answer.problems.drift] == ["2026-01-25"]
    for percent, decision in ((10.0, "PASS"), (3.0, "FAIL")):
        level = AcceptedLevel(date(2026, 1, 25), percent, "new switch")
        monkeypatch.setattr(verdict_policy, "load", lambda *_, level=level: Policy(levels=(level,)))
        assert judged(tmp_path).decision == decision, percent


def test_a_bad_night_among_the_first_hides_no_lasting_loss(tmp_path: Path) -> None:
    write_nights(tmp_path, [*(1.08 if night == 2 else 1.0 for night in range(20)), *[1.08] * 5])
    assert judged(tmp_path).decision == "FAIL"


def test_a_night_that_missed_a_reference_is_no_history(tmp_path: Path) -> None:
    write_nights(tmp_path, [1.0] * 6)
    for number in (6, 7):
        write_session(tmp_path, number, noise=0.01, change=by(1.8), labels=NIGHTLY, result="fail")
    write_session(tmp_path, 8, noise=0.01, change=by(1.8), labels=NIGHTLY)
    answer = judged(tmp_path)
    assert answer.decision == "FAIL"
    assert answer.counts.history.slower == answer.counts.history.metrics


def test_an_unchanged_machine_under_load_is_not_refused_by_one_session(tmp_path: Path) -> None:
    """Five sessions that differ by factors, and one as slow as the
    slowest: nothing is known, nothing refused.
    """
    write_nights(tmp_path, [1.0, 2.5, 1.4, 4.0, 1.8, 4.5])
    decided = accept.decide(
        Store(tmp_path), "latest~5,latest~4,latest~3,latest~2,latest~1", "latest"
    )
    assert decided.decision == "inconclusive"


@pytest.mark.parametrize(("sessions", "candidates"), [(3, 3), (5, 1)])
@pytest.mark.parametrize(("factor", "decision"), [(1.0, "accepted"), (1.12, "refused")])
def test_a_quiet_machine_is_decided_with_few_sessions(
    tmp_path: Path, sessions: int, candidates: int, factor: float, decision: str
) -> None:
    write_nights(tmp_path, [1.0] * sessions + [factor] * candidates, noise=0.003)
    names = [f"latest~{back}" if back else "latest" for back in range(sessions + candidates)]
    decided = accept.decide(
        Store(tmp_path), ",".join(names[candidates:]), ",".join(names[:candidates])
    )
    assert decided.decision == decision, decided.headline


@pytest.mark.parametrize(("again", "decision"), [(1.0, "PASS"), (1.6, "FAIL")])
def test_what_could_not_be_judged_again_is_not_gone(
    tmp_path: Path, again: float, decision: str
) -> None:
    """Of three nights before nobody can say whether 1.6 times is unusual;
    where 1.9 times was called it is no all-clear.
    """
    write_nights(tmp_path, [1.0] * 3 + [1.9], sizes=(8, 65536))
    first = judged(tmp_path).session
    labels = {"run": "confirmation", CONFIRMS: first}
    write_session(
        tmp_path,
        50,
        night=3,
        noise=0.01,
        repeats=3,
        labels=labels,
        sizes=(8, 65536),
        change=by(again),
    )
    assert judged(tmp_path, session=first).decision == decision


@pytest.mark.parametrize(
    ("change", "called"),
    [
        (one_size(1.12), [512]),
        (
            lambda name, size, _: 1.12 if name == "PingPong" and size > 1024 else 1.0,
            [4096, 16384, 65536, 262144, 1048576, 4194304],
        ),
    ],
    ids=["one size", "half of a curve"],
)
def test_no_size_inside_its_margin_is_called(
    tmp_path: Path, change: Change, called: list[int]
) -> None:
    """Not for another of its band, nor because the whole curve is slower."""
    write_nights(tmp_path, [1.0] * 15 + [change], noise=0.003)
    names = ",".join(f"latest~{back}" for back in range(1, 16))
    judgement = accept.decide(Store(tmp_path), names, "latest").judgement
    assert judgement.verdict == "regressed"
    metrics = judgement.metrics.filter(judgement.metrics["verdict"] == "regressed")
    assert sorted(metrics["message_bytes"]) == called
    for row in judgement.bands.filter(judgement.bands["verdict"] == "regressed").to_dicts():
        assert 100 * row["slower"] > row["margin_percent"], row


def test_an_improvement_that_was_lost_again_is_told(tmp_path: Path) -> None:
    """A better level of thirty nights is the baseline; going back to the old one is a loss."""
    write_nights(tmp_path, [1.0] * 20 + [0.8] * 40 + [1.0] * 8, sizes=(8, 65536))
    [event] = [event for event in drift.watch(Store(tmp_path), "testbed").events if event.worse]
    assert event.since == date(2026, 3, 6)


@pytest.mark.parametrize(("factor", "decision"), [(2.0, "FAIL"), (1.2, "PASS")])
def test_a_new_mpi_version_hides_no_doubled_time(
    tmp_path: Path, factor: float, decision: str
) -> None:
    """Its first night has no night before it that measured alike; it
    is told what it is against the others.
    """
    write_nights(tmp_path, [1.0] * 20)
    write_session(tmp_path, 20, noise=0.01, change=by(factor), labels=NIGHTLY, mpi_version="5.0.11")
    answer = judged(tmp_path)
    assert answer.decision == decision, answer.lines
    assert answer.counts.history.judged == (21 if decision == "FAIL" else 0)
    assert any("began anew: " in note for note in answer.notes)

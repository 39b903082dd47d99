"""No history makes a doubled time pass, and nothing lasting is
forgotten: from stored sessions to the gate's decision.
"""

from datetime import date
from functools import partial

import pytest

from dataset_here import HERE, judged, write_sessions
from mpibench.judge import accept, drift
from mpibench.judge import policy as verdict_policy
from mpibench.judge.policy import AcceptedLevel, Policy
from mpibench.store.sessions import CONFIRMS
from mpibench.store.store import Store
from synthetic_verdicts import NIGHTLY, by

#: Nights with 1 % noise.
write = partial(write_sessions, noise=0.01, labels=NIGHTLY, repeats=3)
#: Of a curve where a few sizes tell as much as all.
TWO_SIZES = {"sizes": (8, 65536)}


def accepted(baseline, candidates=1):
    """The newest sessions as candidates, against those before."""
    names = [f"latest~{back}" for back in range(candidates + baseline)]
    sides = ",".join(names[candidates:]), ",".join(names[:candidates])
    return accept.decide(Store(HERE), *sides)


@pytest.mark.parametrize(
    "changes",
    [
        [1.0] * 3 + [by(3.0, "PingPong", 512)] + [1.0] * 16 + [1.9],
        [1.005**night for night in range(41)],
        [1.1**night for night in range(41)],
        [1.0] * 2 + [1.08] + [1.0] * 17 + [1.08] * 5,
    ],
    ids=["a doubled night after a glitch", "a loss of 0.5 % a night", "of 10 %", "after a bad one"],
)
def test_a_loss_is_red_whatever_was_before(changes):
    write(changes)
    answer = judged()
    assert answer.decision == "FAIL"
    if changes[-1] == 1.9:
        assert answer.counts.history.slower == answer.counts.history.metrics


def test_a_lasting_loss_stays_red_until_it_is_accepted(monkeypatch):
    """110 nights after, with its first night; and a larger loss is not what was accepted."""
    write([1.0] * 20 + [1.08] * 110, **TWO_SIZES)
    answer = judged()
    assert answer.decision == "FAIL"
    assert [problem.since for problem in answer.problems.drift] == ["2026-01-25"]
    for percent, decision in ((10.0, "PASS"), (3.0, "FAIL")):
        level = AcceptedLevel(date(2026, 1, 25), percent, "new switch")
        monkeypatch.setattr(verdict_policy, "load", lambda *_, level=level: Policy(levels=(level,)))
        assert judged().decision == decision, percent


def test_a_night_that_missed_a_reference_is_no_history():
    write(6)
    write([1.8] * 2, first=6, result="fail")
    write([1.8], first=8)
    answer = judged()
    assert answer.decision == "FAIL"
    assert answer.counts.history.slower == answer.counts.history.metrics


def test_an_unchanged_machine_under_load_is_not_refused_by_one_session():
    """Five sessions that differ by factors, and one as slow as the
    slowest: nothing is known, nothing refused.
    """
    write([1.0, 2.5, 1.4, 4.0, 1.8, 4.5])
    decided = accepted(5)
    assert decided.decision == "inconclusive"
    assert set(decided.judgement.metrics["seen_percent"]) == {None}, "nothing would be seen"


@pytest.mark.parametrize(("sessions", "candidates"), [(3, 3), (5, 1)])
@pytest.mark.parametrize(("factor", "decision"), [(1.0, "accepted"), (1.12, "refused")])
def test_a_quiet_machine_is_decided_with_few_sessions(sessions, candidates, factor, decision):
    write([1.0] * sessions + [factor] * candidates, noise=0.003)
    decided = accepted(sessions, candidates)
    assert decided.decision == decision, decided.headline


@pytest.mark.parametrize(("again", "decision"), [(1.0, "PASS"), (1.6, "FAIL")])
def test_what_could_not_be_judged_again_is_not_gone(again, decision):
    """Of three nights before nobody can say whether 1.6 times is unusual;
    where 1.9 times was called it is no all-clear.
    """
    first = write([1.0] * 3 + [1.9], **TWO_SIZES)
    labels = {"run": "confirmation", CONFIRMS: first}
    write([again], first=50, night=3, labels=labels, **TWO_SIZES)
    assert judged(first).decision == decision


@pytest.mark.parametrize(
    ("change", "called"),
    [
        (by(1.12, "PingPong", 512), [512]),
        (
            lambda name, size, _: 1.12 if name == "PingPong" and size > 1024 else 1.0,
            [4096, 16384, 65536, 262144, 1048576, 4194304],
        ),
    ],
    ids=["one size", "half of a curve"],
)
def test_no_size_inside_its_margin_is_called(change, called):
    """Not for another of its band, nor because the whole curve is slower."""
    write([1.0] * 15 + [change], noise=0.003)
    judgement = accepted(15).judgement
    assert judgement.verdict == "regressed"
    assert sorted(judgement.metrics.filter(verdict="regressed")["message_bytes"]) == called
    for row in judgement.bands.filter(verdict="regressed").to_dicts():
        assert 100 * row["slower"] > row["margin_percent"], row


def test_an_improvement_that_was_lost_again_is_told():
    """A better level of thirty nights is the baseline; going back to the old one is a loss."""
    write([1.0] * 20 + [0.8] * 40 + [1.0] * 8, **TWO_SIZES)
    [event] = [event for event in drift.watch(Store(HERE), "testbed").events if event.worse]
    assert event.since == date(2026, 3, 6)


@pytest.mark.parametrize(("factor", "decision"), [(2.0, "FAIL"), (1.2, "PASS")])
def test_a_new_mpi_version_hides_no_doubled_time(factor, decision):
    """Its first night has no night before it that measured alike; it
    is told what it is against the others.
    """
    write(20)
    write([factor], first=20, repeats=5, mpi_version="5.0.11")
    answer = judged()
    assert answer.decision == decision, answer.lines
    assert answer.counts.history.judged == (21 if decision == "FAIL" else 0)
    assert any("began anew: " in note for note in answer.notes)

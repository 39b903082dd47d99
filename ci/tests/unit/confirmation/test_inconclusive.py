"""What one session leaves inconclusive: measured again until it is slower in every session, or let go."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import polars as pl
import pytest

from mpibench import answers
from mpibench.judge import accept
from mpibench.judge.accept import REFUSED
from mpibench.judge.curve_tests import INCONCLUSIVE, REGRESSED
from mpibench.night import confirmed_acceptance as confirmed
from mpibench.night import remeasuring
from mpibench.night.confirmed_acceptance import (
    JUDGED_TOGETHER,
    SLOWER_IN_ALL,
    TOO_FEW,
    find_inconclusive,
    sessions_wanted,
)
from mpibench.night.remeasuring import Remeasured, Workspace
from mpibench.pages import acceptance as acceptance_record
from mpibench.store.sessions import CONFIRMS, Session
from mpibench.store.store import Store
from synthetic_verdicts import SIZES, Change, unchanged, write_session

#: One odd night of these widens the prediction interval so that no single session is called.
NIGHTS = 8
ODD = 3


def slower(factor: float, benchmark: str = "Uniband", sizes: Sequence[int] = SIZES) -> Change:
    return lambda name, size, stack: factor if name == benchmark and size in sizes else 1.0


def first_judgement(folder: Path, change: Change, nights: int = NIGHTS) -> accept.Acceptance:
    """A candidate against nights that differ by 0.1 %, but for one, in which everything took 2 % longer."""
    found = [
        write_session(folder, one, noise=0.001, change=(lambda *_: 1.03) if one == ODD else unchanged) for one in range(nights)
    ]
    candidate = write_session(folder, 20, noise=0.001, change=change)
    return accept.decide(Store(folder), ",".join(found), candidate)


def measured_again(
    folder: Path, first: accept.Acceptance, number: int, change: Change, sizes: Sequence[int] = SIZES
) -> Remeasured:
    cases = tuple(confirmed.cases_to_measure(first))
    [session] = first.candidate.sessions
    labels = {"run": remeasuring.RUN, CONFIRMS: session}
    new = write_session(folder, number, noise=0.001, change=change, labels=labels, sizes=sizes)
    found = Remeasured(cases, 30.0, [Session({"uuid": new}, ())])
    found.measured.update(dict.fromkeys(cases, f"{new}:0:0"))
    return found


def after(folder: Path, first: accept.Acceptance, *changes: Change) -> accept.Acceptance:
    rounds = [measured_again(folder, first, 21 + number, change) for number, change in enumerate(changes)]
    return confirmed.confirm(first, Store(folder), rounds)


def outcomes(acceptance: accept.Acceptance) -> set[str]:
    assert acceptance.confirmation
    return {row["outcome"] for row in acceptance.confirmation.record["inconclusive"]}


@pytest.mark.parametrize("nights, all_, one", [(5, 4, 12), (8, 3, 7), (15, 2, 5), (30, 2, 3)])
def test_the_fewest_sessions_whose_order_is_no_accident(nights: int, all_: int, one: int) -> None:
    """Of 50 metrics and bands all are slower in each session, or one is."""
    assert [sessions_wanted(nights, 0.01, share) for share in (1.0, 1 / 50)] == [all_, one]
    assert 50 / math.comb(nights + one, one) <= 0.01 < 50 / math.comb(nights + one - 1, one - 1)


def test_no_more_unchanged_sessions_are_refused_than_asked_for_however_many_metrics_there_are() -> None:
    """Whenever the measuring ends: heavy tails, 40 metrics that share nothing, and as many that are one."""
    rng, refused, draws, nights, most = np.random.default_rng(8), np.zeros(2), 4000, 8, 7
    for _ in range(draws):
        values = rng.standard_t(1.5, size=(40, nights + most))
        for place, metrics in enumerate((values, np.repeat(values[:1], 40, axis=0))):
            lasting = np.minimum.accumulate(metrics[:, nights:], axis=1) > metrics[:, :nights].max(axis=1, keepdims=True)
            shares = lasting.mean(axis=0)
            refused[place] += any(share and sessions_wanted(nights, 0.01, share) <= k for k, share in enumerate(shares, 1))
    assert (refused / draws <= 0.01 + 0.004).all() and refused.all()


@pytest.mark.parametrize("nights, sessions", [(5, 2), (4, 3), (6, 1)])
def test_the_probability_is_that_of_all_orders(nights: int, sessions: int) -> None:
    """Counted: of all ways to choose which ranks are the sessions', one has them all above the nights'."""
    every = list(itertools.combinations(range(nights + sessions), sessions))
    slowest = [one for one in every if min(one) >= nights]
    assert len(slowest) / len(every) == pytest.approx(1 / math.comb(nights + sessions, sessions))


def test_noise_of_any_shape_is_refused_no_more_often_than_stated() -> None:
    """Heavy tails and few nights: the share of draws in which all sessions are above all nights is the stated one."""
    rng = np.random.default_rng(7)
    values = rng.standard_t(1.5, size=(200_000, 8 + 3))
    share = float((values[:, 8:].min(axis=1) > values[:, :8].max(axis=1)).mean())
    assert share == pytest.approx(1 / math.comb(11, 3), abs=0.0008)


def test_what_one_session_cannot_tell_four_can(tmp_path: Path) -> None:
    first = first_judgement(tmp_path, slower(1.08))
    assert first.decision == INCONCLUSIVE
    found = find_inconclusive(first)
    assert found and {one.wanted for one in found} == {4} and {len(one.sessions) for one in found} == {1}
    second = after(tmp_path, first, *[slower(1.08)] * 3)
    assert second.decision == REFUSED and outcomes(second) == {SLOWER_IN_ALL}
    assert "inconclusive at first" in second.headline and "slower in every session" in second.headline
    msgspec.json.decode(json.dumps(acceptance_record.as_dict(second)), type=answers.Accept)
    row = second.confirmation.record["inconclusive"][0]
    assert len(row["session_percents"]) == 4 and len(row["night_percents"]) == NIGHTS
    assert min(row["session_percents"]) > max(row["night_percents"])


def test_two_sessions_where_four_are_needed_stay_inconclusive(tmp_path: Path) -> None:
    first = first_judgement(tmp_path, slower(1.08))
    second = after(tmp_path, first, slower(1.08))
    assert second.decision == INCONCLUSIVE and outcomes(second) == {TOO_FEW}
    assert any("; 4 would decide" in note for note in second.notes)


def test_a_disturbance_that_does_not_come_back_is_let_go(tmp_path: Path) -> None:
    first = first_judgement(tmp_path, slower(1.08))
    second = after(tmp_path, first, unchanged, unchanged)
    assert second.decision != REFUSED and outcomes(second) == {JUDGED_TOGETHER}


def test_slower_than_every_night_within_the_margin_is_not_refused(tmp_path: Path) -> None:
    """The first session was beyond the margin by chance; what came after is slower, but not by as much."""
    first = first_judgement(tmp_path, slower(1.08))
    margin = find_inconclusive(first)[0].margin
    least = math.exp(margin) - 0.005
    assert least > 1.02, "slower than the odd night"
    second = after(tmp_path, first, *[slower(least)] * 4)
    assert second.decision != REFUSED and SLOWER_IN_ALL not in outcomes(second)


def test_without_a_history_nothing_is_measured_until_it_decides(tmp_path: Path) -> None:
    first = first_judgement(tmp_path, slower(1.04), nights=3)
    assert find_inconclusive(first) == []


@pytest.mark.parametrize("changes, rounds", [((1.08,) * 4, 3), ((1.0, 1.08), 1), ((1.08, 1.0), 2)])
def test_rounds_end_when_it_is_decided(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: tuple[float, ...], rounds: int
) -> None:
    first = first_judgement(tmp_path, slower(1.08))
    made: list[Path] = []

    def measure(cases: Any, place: Workspace, *_: object) -> Remeasured:
        made.append(place.folder)
        return measured_again(tmp_path, first, 30 + len(made), slower(changes[len(made) - 1]))

    monkeypatch.setattr(remeasuring, "measure_again", measure)
    place = Workspace(tmp_path / "results.db", Store(tmp_path), tmp_path / "again")
    found = confirmed.measure(first, place, 30.0, print)
    assert len(found) == rounds and len(set(made)) == rounds


@pytest.mark.parametrize("lost", ["no room in the budget of 30 min", "interrupted by SIGTERM"])
def test_what_was_not_measured_again_stays_inconclusive_with_the_reason(tmp_path: Path, lost: str) -> None:
    first = first_judgement(tmp_path, slower(1.08))
    cases = tuple(confirmed.cases_to_measure(first))
    second = confirmed.confirm(first, Store(tmp_path), [Remeasured(cases, 30.0, left=dict.fromkeys(cases, lost))])
    assert second.decision == INCONCLUSIVE and outcomes(second) == {TOO_FEW}
    assert any(lost in note for note in second.notes)


def test_the_verdict_on_all_sessions_together_refuses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its rate is not that of the rule: what it calls slower stays inconclusive."""
    first = first_judgement(tmp_path, slower(1.08))
    joint = replace(
        first.judgement,
        **{
            name: getattr(first.judgement, name).with_columns(verdict=pl.lit(REGRESSED), why=pl.lit("together"))
            for name in ("metrics", "bands")
        },
    )
    monkeypatch.setattr(confirmed, "_judge_together", lambda *_: joint)
    second = after(tmp_path, first, unchanged)
    assert outcomes(second) == {JUDGED_TOGETHER} and second.decision == INCONCLUSIVE
    assert set(second.judgement.metrics["verdict"]) & {REGRESSED} == set()


def test_bands_are_held_against_nights_with_the_same_sizes(tmp_path: Path) -> None:
    """A fresh session that lacks the large sizes has no value of their band; its other sizes say nothing of it."""
    first = first_judgement(tmp_path, slower(1.08))
    found = [one for one in find_inconclusive(first) if "message_bytes" not in one.row]
    assert found
    rounds = [measured_again(tmp_path, first, 21 + number, slower(1.08), SIZES[:-1]) for number in range(4)]
    left = {one.key: one for one in confirmed.inconclusive_after(first, Store(tmp_path), rounds)}
    assert {len(left[one.key].sessions) for one in found if one.row["band"] == "large"} == {1}
    second = confirmed.confirm(first, Store(tmp_path), rounds)
    assert TOO_FEW in outcomes(second)


def test_sessions_that_lack_what_they_were_to_decide_are_not_measured_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = first_judgement(tmp_path, slower(1.08))
    made: list[Path] = []

    def measure(cases: Any, place: Workspace, *_: object) -> Remeasured:
        made.append(place.folder)
        assert len(made) < 20
        return measured_again(tmp_path, first, 30 + len(made), slower(1.08), SIZES[:2])

    monkeypatch.setattr(remeasuring, "measure_again", measure)
    place = Workspace(tmp_path / "results.db", Store(tmp_path), tmp_path / "again")
    assert len(confirmed.measure(first, place, 30.0, print)) == 5


def test_a_metric_of_too_few_nights_is_no_history(tmp_path: Path) -> None:
    nights = [write_session(tmp_path, one, noise=0.001, sizes=SIZES if one < 4 else SIZES[:-1]) for one in range(NIGHTS)]
    candidate = write_session(tmp_path, 20, noise=0.001, change=slower(1.08))
    first = accept.decide(Store(tmp_path), ",".join(nights), candidate)
    assert not [one for one in find_inconclusive(first) if len(one.nights) < 5]
    assert not [one for one in find_inconclusive(first) if one.row.get("message_bytes") == SIZES[-1]]

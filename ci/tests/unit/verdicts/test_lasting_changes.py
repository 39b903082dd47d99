"""A loss that lasts stays called, however many nights it lasts, until its level is accepted."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import numpy as np
import pytest

from mpibench.judge import accept, drift, gate, history, pairing
from mpibench.judge import policy as verdict_policy
from mpibench.judge.history import (
    MOST_SESSIONS,
    NO_HISTORY,
    RETURNED,
    Mask,
    MeasuredCurve,
    Rows,
    called_things,
    find_history,
    judge_nights,
    tabulate,
)
from mpibench.judge.policy import Level, Policy
from mpibench.judge.statistics import prediction
from mpibench.judge.statistics.prediction import Units
from mpibench.store.store import Store
from reframe_tests.harness.vocabulary import BadInput
from synthetic_verdicts import by, write_session

#: Nights at the start of each story here, all alike.
QUIET = 12
OLD = 1e6
LASTING = "called slower than those before, from 2026-01-17 on, and not accepted (levels of policy.yaml)"


def write_nights(folder: Path, factors: list[float], **options: object) -> None:
    """Nights of 5 January 2026 on, each slower by a factor."""
    for number, factor in enumerate(factors):
        write_session(folder, number, **{"noise": 0.004, "change": by(factor), "labels": {"run": "nightly"}, **options})


ONE = {"PingPong": "latency_us"}


def accept_level(monkeypatch: pytest.MonkeyPatch, *levels: Level) -> None:
    monkeypatch.setattr(verdict_policy, "load", lambda *_: Policy(levels=levels))


def judged(folder: Path) -> gate.GateAnswer:
    """The gate's answer on the newest session, without the search for changes, which forgets after some nights by design."""
    return gate.decide(Store(folder), "testbed", recent=1, max_age_hours=OLD)


def left_out(folder: Path) -> dict[str, int]:
    newest = Store(folder).select("testbed", "latest")
    found = find_history(Store(folder), "testbed", newest.cases, Policy(), counted=False)
    return {row.why: row.sessions for row in found.strata[0].left_out}


@pytest.mark.parametrize("slow", [1, 2, 5, 25])
def test_a_lasting_loss_is_called_each_night(tmp_path: Path, slow: int) -> None:
    write_nights(tmp_path, [1.0] * QUIET + [1.05] * slow)
    result = judged(tmp_path)
    assert not result.passed
    assert [line for line in result.lines if line.startswith("history: openmpi-spack on node, eth1g")], result.lines
    assert left_out(tmp_path) == ({LASTING: slow - 1} if slow > 1 else {})
    assert slow == 1 or any(LASTING in line for line in result.lines)


def test_one_disturbance_does_not_count_and_hides_nothing(tmp_path: Path) -> None:
    write_nights(tmp_path, [1.0] * QUIET + [1.1] + [1.0] * 5 + [1.05])
    assert left_out(tmp_path) == {"called slower than those before, on 2026-01-17": 1}
    assert not judged(tmp_path).passed


def test_nights_wait_until_some_in_a_row_are_as_before(tmp_path: Path) -> None:
    write_nights(tmp_path, [1.0] * QUIET + [1.1] + [1.0] * RETURNED)
    waiting = "called slower than those before, on 2026-01-17, and those since, until 4 in a row are as before"
    assert left_out(tmp_path) == {waiting: RETURNED}, "the newest is judged and does not count"
    assert judged(tmp_path).passed


def test_many_disturbances_hide_nothing_either(tmp_path: Path) -> None:
    disturbed = [1.1, *[1.0] * RETURNED]
    write_nights(tmp_path, [1.0] * QUIET + disturbed * 3 + [1.0, 1.1])
    assert sum(left_out(tmp_path).values()) == 3
    assert not judged(tmp_path).passed


def test_a_loss_that_some_nights_do_not_show_is_not_learned(tmp_path: Path) -> None:
    """A night in between that is as before is not the end of it."""
    write_nights(tmp_path, [1.0] * QUIET + [1.05, 1.05, 1.01] * 8 + [1.05])
    assert not judged(tmp_path).passed
    (count,) = left_out(tmp_path).values()
    assert count == 24


def test_nights_that_each_just_miss_a_loss_show_it_together() -> None:
    """Of four nights the mean is judged, too: it differs by less from night to night."""
    logs = np.array([[*[0.03, -0.03] * 6, 0.6, *[0.09] * 6]])
    nights = [f"{night:02}" for night in range(logs.shape[1])]
    curve = MeasuredCurve("latency_us", [8], logs, nights, 0, 0)
    rows = tabulate([curve], nights, Policy())
    found = judge_nights(rows, np.ones((1, len(nights)), dtype=bool), Policy())
    assert np.flatnonzero(found.called[0]).tolist() == [12]
    assert found.counts[0].tolist() == [True] * 12 + [False] * 7


def test_a_level_that_was_left_again_never_counts(tmp_path: Path) -> None:
    write_nights(tmp_path, [1.0] * QUIET + [1.1] * 4 + [1.0] * 6)
    assert judged(tmp_path).passed
    assert left_out(tmp_path) == {"called slower than those before, from 2026-01-17 to 2026-01-20": 4}


def test_what_was_not_measured_did_not_return(tmp_path: Path) -> None:
    both = {"PingPong": "latency_us", "Uniband": "bandwidth_mb_per_s"}
    for number, factor in enumerate([1.0] * QUIET + [1.15] * 2 + [1.0] * 6):
        absent = number in range(QUIET + 2, QUIET + 6)
        slow = by(factor, "PingPong")
        write_session(tmp_path, number, noise=0.004, change=slow, benchmarks={"Uniband": both["Uniband"]} if absent else both)
    (why,) = left_out(tmp_path)
    assert "until 4 in a row are as before" in why


@pytest.mark.parametrize("after", [0, 12], ids=["lasting", "over"])
def test_a_search_begins_before_what_lasts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    """Or what is older than the sessions searched would be all there is, and the usual would be the change."""
    monkeypatch.setattr(history, "SEARCHED_SESSIONS", 40)
    write_nights(tmp_path, [1.0] * QUIET + [1.05] * 33 + [1.0] * after + [1.05], sizes=(8, 4096, 1 << 20))
    assert not judged(tmp_path).passed
    assert [count for why, count in left_out(tmp_path).items() if why.startswith("called slower")] == [33]


def test_what_became_faster_waits_to_be_accepted_too(tmp_path: Path) -> None:
    """Or a later loss of all that was gained would be one more of the slow nights."""
    write_nights(tmp_path, [1.0] * QUIET + [0.9] * 4)
    assert judged(tmp_path).passed
    assert left_out(tmp_path) == {LASTING.replace("slower", "faster"): 3}


def test_one_condition_waits_and_the_others_learn_on(tmp_path: Path) -> None:
    for number in range(QUIET + 4):
        for pinning in ("bunch", "scatter"):
            slow = pinning == "scatter" and number >= QUIET
            write_session(
                tmp_path, 100 * (pinning == "scatter") + number, night=number, noise=0.004, where={"pinning": pinning},
                change=by(1.1 if slow else 1.0),
            )  # fmt: skip
    table = Store(tmp_path).cases("testbed").collect()
    found = find_history(
        Store(tmp_path), "testbed", table.filter(table["session"].is_in(list(table["session"][-2:]))), Policy()
    )
    used = found.cases.group_by("pinning").len().sort("pinning")
    assert dict(used.iter_rows()) == {"bunch": QUIET + 3, "scatter": QUIET}


def test_a_selector_means_what_it_selects(tmp_path: Path) -> None:
    write_nights(tmp_path, [1.0] * QUIET + [1.05] * 4)
    newest = Store(tmp_path).select("testbed", "latest")
    found = find_history(Store(tmp_path), "testbed", newest.cases, Policy(), selector="20260101:now")
    assert found.values["session"].n_unique() == QUIET + 3


def test_an_accepted_level_begins_a_history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_nights(tmp_path, [1.0] * QUIET + [1.05] * 8)
    assert not gate.decide(Store(tmp_path), "testbed", max_age_hours=OLD).passed
    accept_level(monkeypatch, Level(date(2026, 1, 17), 6, "switch firmware 9.2, ticket 4711", fabric="eth1g"))
    result = gate.decide(Store(tmp_path), "testbed", max_age_hours=OLD)
    assert result.passed, result.lines
    assert "metrics held against 7 sessions before: 0 slower, 0 faster" in result.lines[1]
    assert any(
        "12 sessions before the level accepted since 2026-01-17 (switch firmware 9.2, ticket 4711)" in line
        for line in result.lines
    )
    assert any(line.startswith("accepted: since 17 Jan 2026, openmpi-spack on eth1g") for line in result.lines)


def test_a_level_of_another_fabric_accepts_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_nights(tmp_path, [1.0] * QUIET + [1.05] * 8)
    accept_level(monkeypatch, Level(date(2026, 1, 17), 6, "bios", fabric="shm"))
    assert not gate.decide(Store(tmp_path), "testbed", max_age_hours=OLD).passed
    assert [event.worse for event in drift.watch(Store(tmp_path), "testbed")[1]] == [True]


def test_a_level_accepts_no_more_than_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_nights(tmp_path, [1.0] * QUIET + [1.02, *[1.4] * 7])
    accept_level(monkeypatch, Level(date(2026, 1, 17), 6, "switch firmware 9.2"))
    assert not gate.decide(Store(tmp_path), "testbed", max_age_hours=OLD).passed
    assert [event.worse for event in drift.watch(Store(tmp_path), "testbed")[1]] == [True]


@pytest.mark.parametrize("since", [date(2026, 1, 21), date(2027, 3, 1), date.max])
def test_a_level_of_another_day_accepts_no_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, since: date) -> None:
    write_nights(tmp_path, [1.0] * QUIET + [1.05] * 8)
    accept_level(monkeypatch, Level(since, 50, "another change"))
    assert [event.worse for event in drift.watch(Store(tmp_path), "testbed")[1]] == [True]


def test_accept_says_that_a_level_lies_between_the_sides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_nights(tmp_path, [1.0] * QUIET)
    levels = [Level(date(2026, 1, day), 5, "x", fabric=fabric) for day, fabric in ((12, "eth1g"), (12, "shm"), (7, "eth1g"))]
    accept_level(monkeypatch, *levels)
    found = accept.decide(Store(tmp_path), "latest~6", "latest")
    said = [
        note for note in found.notes if note.startswith("the baseline is from before the level accepted since 2026-01-12 (x);")
    ]
    assert len(said) == 1


@pytest.mark.parametrize("name", ["old-name", "new-name", None])
def test_a_level_holds_under_the_old_name_and_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str | None
) -> None:
    """policy.yaml has today's names, or has kept those of its day; the baseline is renamed with --rename."""
    write_nights(tmp_path, [1.0] * QUIET + [1.05] * 7, stacks=("old-name",))
    write_session(tmp_path, 60, night=QUIET + 7, change=by(1.05), stacks=("new-name",), labels={"run": "nightly"})
    accept_level(monkeypatch, Level(date(2026, 1, 17), 6, "ticket 4711", stack=name))
    renamed = accept.AcceptanceOptions(rename={"old-name": "new-name"})
    found = accept.decide(Store(tmp_path), "latest~1", "latest", renamed)
    (line,) = [line for line in found.notes if line.startswith("history of new-name")]
    assert "7 sessions" in line and "12 sessions before the level accepted since 2026-01-17 (ticket 4711)" in line
    assert found.decision == accept.ACCEPTED
    said = [
        line
        for line in accept.decide(Store(tmp_path), "latest~9", "latest", renamed).notes
        if "choose a baseline since" in line
    ]
    assert len(said) == 1 and "the baseline is from before the level accepted since 2026-01-17 (ticket 4711);" in said[0]


def test_a_level_of_a_third_stack_holds_for_no_renamed_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_nights(tmp_path, [1.0] * 7, stacks=("old-name",))
    write_session(tmp_path, 60, night=7, stacks=("new-name",), labels={"run": "nightly"})
    accept_level(monkeypatch, Level(date(2026, 1, 9), 6, "ticket 4711", stack="other-name"))
    found = accept.decide(Store(tmp_path), "latest~1", "latest", accept.AcceptanceOptions(rename={"old-name": "new-name"}))
    assert not [line for line in found.notes if "ticket 4711" in line]


def test_a_level_that_fits_nothing_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_nights(tmp_path, [1.0] * QUIET)
    accept_level(
        monkeypatch, Level(date(2026, 1, 7), 5, "x", fabric="eth1g"), Level(date(2026, 1, 7), 5, "x", fabric="hdr-200")
    )
    assert (
        "note: levels.1 of defaults matches nothing that was measured here: correct its partition, stack or fabric"
        in judged(tmp_path).lines
    )


def test_a_loss_is_not_forgotten_by_the_search_for_changes_while_it_lasts(tmp_path: Path) -> None:
    write_nights(tmp_path, [1.0] * QUIET + [1.05] * 30)
    (lines,) = [gate.decide(Store(tmp_path), "testbed", max_age_hours=OLD, history=NO_HISTORY).lines]
    assert "0 changes for the worse in 14 nights of 42, 1 before that lasts and nobody accepted" in lines[2]
    assert any(line.startswith("drift: since 17 Jan 2026, openmpi-spack on eth1g") for line in lines)


def test_a_loss_that_is_over_is_forgotten_after_some_nights(tmp_path: Path) -> None:
    write_nights(tmp_path, [1.0] * QUIET + [1.05] * 8 + [1.0] * 20)
    assert gate.decide(Store(tmp_path), "testbed", max_age_hours=OLD).passed


def test_a_level_to_come_does_not_hold_yet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_nights(tmp_path, [1.0] * QUIET)
    accept_level(monkeypatch, Level(date(2026, 2, 1), 6, "planned upgrade"))
    assert "metrics held against 11 sessions before" in judged(tmp_path).lines[1]


def test_compare_leaves_out_what_was_called(tmp_path: Path) -> None:
    write_nights(tmp_path, [1.0] * QUIET + [1.05] * 5 + [1.0])
    found = pairing.pair(Store(tmp_path), "latest", "session", "latest", "latest~1", system="testbed")
    assert [row.sessions for stratum in found.past.strata for row in stratum.left_out if row.why.startswith("called")] == [4]


def plain_calls(rows: Rows, counts: Mask, nights: list[int], policy: Policy) -> dict[int, tuple[bool, list[int]]]:
    """What is called, without looking first whether anything differs by its margin."""
    values = rows.units.values.copy()
    for thing, line in enumerate(counts):
        old = np.setdiff1d(np.arange(counts.shape[1]), np.flatnonzero(line)[-MOST_SESSIONS:])
        values[np.ix_(rows.things == thing, old)] = np.nan
    chosen = (~np.isnan(values)).sum(axis=1) >= prediction.FEWEST_SESSIONS
    chosen &= ~np.isnan(rows.units.values[:, nights]).all(axis=1)
    if not chosen.any():
        return {}
    newest = [np.flatnonzero(line)[-MOST_SESSIONS:] for line in counts]
    used = np.unique(np.concatenate(newest))
    history = Units(values[chosen][:, used], rows.units.jobs[chosen][:, used], rows.units.within[chosen])
    baseline = prediction.learn(history, rows.kinds[chosen])
    new = Units(rows.units.values[chosen][:, nights], rows.units.jobs[chosen][:, nights], rows.units.within[chosen])
    effects, rate = prediction.predict(baseline, new), policy.false_discovery_rate
    p = prediction.trusted(effects, prediction.widening(baseline, rate)).p_values()
    found = prediction.called(p, rate, int(baseline.units.count.max())) & (np.abs(effects.effect) > rows.margins[chosen])
    places, effect = np.flatnonzero(chosen)[found], effects.effect[found]
    return {
        int(thing): (bool(np.median(effect[rows.things[places] == thing]) > 0), places[rows.things[places] == thing].tolist())
        for thing in set(rows.things[places].tolist())
    }


@pytest.mark.parametrize("seed", range(8))
def test_what_is_called_does_not_depend_on_what_is_computed_first(seed: int) -> None:
    rng = np.random.default_rng(seed)
    curves = []
    for number in range(6):
        logs = 0.01 * rng.standard_t(3, (9, 50)) + 0.004 * rng.standard_normal(50)
        logs[:, [20 + number, 40]] += rng.choice([-0.3, 0.03, 0.3])
        logs[rng.random(logs.shape) < 0.05] = np.nan
        logs[0] = 0.0
        logs[1] = np.nan
        sizes = [None, *(4**size for size in range(8))]
        jobs = [str(night) for night in range(50)]
        curves.append(MeasuredCurve("latency_us", sizes, logs, jobs, number % 2, number % 3))
    policy = Policy()
    rows = tabulate(curves, [str(night) for night in range(50)], policy)
    counts = rng.random((3, 50)) < 0.8
    called = []
    for night in range(3, 50):
        known = counts & (np.arange(50) < night)
        found = called_things(rows, known, [night], policy)
        assert {one: (row.slower, row.rows.tolist()) for one, row in found.items()} == plain_calls(rows, known, [night], policy)
        called.append(len(found))
    assert 0 < np.count_nonzero(called) < len(called), "nights of both kinds"


@pytest.mark.parametrize("seed", range(8))
def test_what_differs_by_little_more_than_its_margin_is_looked_at(seed: int) -> None:
    """One test alone, so that nothing else has the night looked at: what is cut off first is never what would be called."""
    rng, policy = np.random.default_rng(seed), Policy()
    nights = [str(night) for night in range(60)]
    logs = rng.normal(0, 0.0005, (1, 60))
    logs[0, 20:] += rng.uniform(0, 0.1, 40)
    rows = tabulate([MeasuredCurve("latency_us", [8], logs, nights, 0, 0)], nights, policy)
    counts, beyond = np.arange(60)[None, :] < 20, []
    for night in range(20, 60):
        found = called_things(rows, counts, [night], policy)
        assert {one: (row.slower, row.rows.tolist()) for one, row in found.items()} == plain_calls(
            rows, counts, [night], policy
        )
        beyond += [logs[0, night] / rows.margins[0]] * bool(found)
    assert 0 < len(beyond) < 40 and 1 < min(beyond) < 1.5


def write_policy(folder: Path, text: str) -> Policy:
    file = folder / "site_configs" / "x" / "policy.yaml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return verdict_policy.load("x", folder)


@pytest.mark.parametrize("day", ["2026-02-03", '"2026-02-03"'])
def test_levels_are_read_from_the_policy(tmp_path: Path, day: str) -> None:
    policy = write_policy(tmp_path, f"levels: [{{since: {day}, slower_percent: 5, why: ticket 4711, stack: mpich}}]\n")
    assert policy.levels == (Level(date(2026, 2, 3), 5, "ticket 4711", stack="mpich"),)


@pytest.mark.parametrize(
    ("entry", "what"),
    [
        ("{since: 2026-02-30, slower_percent: 5, why: x}", "levels.0.since"),
        ("{since: 2026-02-03 12:00:00, slower_percent: 5, why: x}", "levels.0.since"),
        ("{since: 2026-02-03, slower_percent: 5}", "levels.0"),
        ("{since: 2026-02-03, why: x}", "levels.0"),
        ("{since: 2026-02-03, slower_percent: -5, why: x}", "levels.0.slower_percent"),
        ("{since: 2026-02-03, slower_percent: 5, why: ''}", "levels.0.why"),
        ("{since: 2026-02-03, slower_percent: 5, why: x, fabrics: eth1g}", "levels.0"),
    ],
)
def test_a_level_without_a_day_or_a_reason_is_refused(tmp_path: Path, entry: str, what: str) -> None:
    with pytest.raises(BadInput, match=what):
        write_policy(tmp_path, f"levels: [{entry}]\n")

"""A loss that lasts stays called, however many nights it lasts, until its level is accepted."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest

from mpibench.history.levels import Level
from mpibench.results import session_values
from mpibench.verdicts import lasting, pairing
from mpibench.verdicts import policy as verdict_policy
from mpibench.verdicts.policy import Policy
from mpibench.watch import drift, gate
from reframe_tests.harness.vocabulary import BadInput
from synthetic_verdicts import write_session

#: Nights at the start of each story here, all alike.
QUIET = 12
OLD = 1e6
LASTING = "called slower than those before, from 2026-01-17 on, and not accepted"


def write_nights(folder: Path, factors: list[float], **options: object) -> None:
    """Nights of 5 January 2026 on, each slower by a factor."""
    for number, factor in enumerate(factors):
        write_session(folder, number, **{"noise": 0.004, "change": same(factor), "labels": {"run": "nightly"}, **options})


def same(factor: float) -> Callable[[str, int, str], float]:
    return lambda *_: factor


def accept_level(monkeypatch: pytest.MonkeyPatch, *levels: Level) -> None:
    monkeypatch.setattr(verdict_policy, "load", lambda *_: Policy(levels=levels))


def judged(folder: Path) -> gate.Result:
    """The gate's answer on the newest session, without the search for changes, which forgets after some nights by design."""
    return gate.decide(folder, "testbed", recent=1, max_age_hours=OLD)


def left_out(folder: Path) -> dict[str, int]:
    newest = session_values.read(folder, "testbed", "latest")
    found = lasting.find_history(folder, "testbed", newest.cases, Policy(), counted=False)
    return dict(found.strata[0].left_out)


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
    write_nights(tmp_path, [1.0] * QUIET + [1.1] + [1.0] * lasting.RETURNED)
    assert left_out(tmp_path) == {LASTING: lasting.RETURNED}, "the newest is judged and does not count"
    assert judged(tmp_path).passed


def test_disturbances_that_are_frequent_are_how_much_nights_differ(tmp_path: Path) -> None:
    disturbed = [1.1, *[1.0] * lasting.RETURNED]
    write_nights(tmp_path, [1.0] * QUIET + disturbed * lasting.FREQUENT + [1.0, 1.1])
    assert left_out(tmp_path) == {}
    assert judged(tmp_path).passed


def test_a_loss_that_some_nights_do_not_show_is_not_learned(tmp_path: Path) -> None:
    """A night in between that is as before is not the end of it."""
    write_nights(tmp_path, [1.0] * QUIET + [1.05, 1.05, 1.01] * 8 + [1.05])
    assert not judged(tmp_path).passed
    assert left_out(tmp_path) == {LASTING: 24}


def test_a_level_that_was_left_again_never_counts(tmp_path: Path) -> None:
    write_nights(tmp_path, [1.0] * QUIET + [1.1] * 4 + [1.0] * 6)
    assert judged(tmp_path).passed
    assert left_out(tmp_path) == {"called slower than those before, from 2026-01-17 to 2026-01-20": 4}


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
                change=same(1.1 if slow else 1.0),
            )  # fmt: skip
    table = session_values.cases_of(tmp_path, "testbed").collect()
    found = lasting.find_history(
        tmp_path, "testbed", table.filter(table["session"].is_in(list(table["session"][-2:]))), Policy()
    )
    used = found.cases.group_by("pinning").len().sort("pinning")
    assert dict(used.iter_rows()) == {"bunch": QUIET + 3, "scatter": QUIET}


def test_a_selector_means_what_it_selects(tmp_path: Path) -> None:
    write_nights(tmp_path, [1.0] * QUIET + [1.05] * 4)
    newest = session_values.read(tmp_path, "testbed", "latest")
    found = lasting.find_history(tmp_path, "testbed", newest.cases, Policy(), selector="20260101:now")
    assert found.values["session"].n_unique() == QUIET + 3


def test_an_accepted_level_begins_a_history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_nights(tmp_path, [1.0] * QUIET + [1.05] * 8)
    assert not gate.decide(tmp_path, "testbed", max_age_hours=OLD).passed
    accept_level(monkeypatch, Level(date(2026, 1, 17), "switch firmware 9.2, ticket 4711", fabric="eth1g"))
    result = gate.decide(tmp_path, "testbed", max_age_hours=OLD)
    assert result.passed, result.lines
    assert "metrics held against 7 sessions before: 0 slower, 0 faster" in result.lines[1]
    assert any(
        "12 sessions before the level accepted since 2026-01-17 (switch firmware 9.2, ticket 4711)" in line
        for line in result.lines
    )
    assert any(line.startswith("accepted: since 17 Jan 2026, openmpi-spack on eth1g") for line in result.lines)


def test_a_level_of_another_fabric_accepts_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_nights(tmp_path, [1.0] * QUIET + [1.05] * 8)
    accept_level(monkeypatch, Level(date(2026, 1, 17), "bios", fabric="shm"))
    assert not gate.decide(tmp_path, "testbed", max_age_hours=OLD).passed
    assert [event.worse for event in drift.watch(tmp_path, "testbed")[1]] == [True]


def test_a_level_to_come_does_not_hold_yet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_nights(tmp_path, [1.0] * QUIET)
    accept_level(monkeypatch, Level(date(2026, 2, 1), "planned upgrade"))
    assert "metrics held against 11 sessions before" in judged(tmp_path).lines[1]


def test_compare_holds_against_nights_that_were_accepted(tmp_path: Path) -> None:
    write_nights(tmp_path, [1.0] * QUIET + [1.05] * 5 + [1.0])
    found = pairing.pair(tmp_path, "latest", "session", "latest", "latest~1", system="testbed")
    assert {one: count for stratum in found.past.strata for one, count in stratum.left_out if one.startswith("called")}


def write_policy(folder: Path, text: str) -> Policy:
    file = folder / "site_configs" / "x" / "policy.yaml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return verdict_policy.load("x", folder)


@pytest.mark.parametrize("day", ["2026-02-03", '"2026-02-03"'])
def test_levels_are_read_from_the_policy(tmp_path: Path, day: str) -> None:
    policy = write_policy(tmp_path, f"levels: [{{since: {day}, why: ticket 4711, stack: mpich}}]\n")
    assert policy.levels == (Level(date(2026, 2, 3), "ticket 4711", stack="mpich"),)


@pytest.mark.parametrize(
    ("entry", "what"),
    [
        ("{since: 2026-02-30, why: x}", "levels.0.since"),
        ("{since: 2026-02-03 12:00:00, why: x}", "levels.0.since"),
        ("{since: 2026-02-03}", "levels.0"),
        ("{since: 2026-02-03, why: ''}", "levels.0.why"),
        ("{since: 2026-02-03, why: x, fabrics: eth1g}", "levels.0"),
    ],
)
def test_a_level_without_a_day_or_a_reason_is_refused(tmp_path: Path, entry: str, what: str) -> None:
    with pytest.raises(BadInput, match=what):
        write_policy(tmp_path, f"levels: [{entry}]\n")

"""The nightly watch: silent when nothing happened, one event for one cause, in few nights."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from mpibench import answers, cli
from mpibench.judge import drift
from mpibench.judge import policy as verdict_policy
from mpibench.store import records
from mpibench.store.store import Store
from refusals import refused_as
from synthetic_verdicts import FIRST, by, write_session

BEFORE = {"machine": {"kernel release": ["6.1.0-40"]}}
AFTER = {"machine": {"kernel release": ["6.1.0-41"]}}
STACKS = ("openmpi-spack", "mpich-spack")


def slower_link(benchmark: str, size: int, stack: str) -> float:
    return 1.09 if size >= 65536 and stack == "openmpi-spack" else 1.0


def nights(folder: Path, count: int, changed: int = 0) -> None:
    """``count`` quiet nights, then ``changed`` ones with a slower link and another kernel."""
    for number in range(count + changed):
        late = number >= count
        change = {"change": slower_link} if late else {}
        write_session(folder, number, stacks=STACKS, noise=0.01, repeats=3, condition=AFTER if late else BEFORE, **change)


def run(folder: Path, command: str, *words: str) -> int:
    return cli.main([command, "--dataset-only", "--dataset", str(folder), *words])


def test_quiet_nights_are_silent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nights(tmp_path, 24)
    assert run(tmp_path, "drift", "--recent", "24") == 0
    assert capsys.readouterr().out == ""


def test_one_cause_is_one_event_with_what_changed_that_night(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nights(tmp_path, 20, 4)
    assert run(tmp_path, "drift") == 1
    out = capsys.readouterr().out
    assert len(out.splitlines()) == 1
    assert out.startswith("since 25 Jan 2026, openmpi-spack on eth1g, 64 KiB to 4 MiB: ")
    assert "8 metrics (PingPong, Uniband); that night: kernel release 6.1.0-40 -> 6.1.0-41" in out
    assert run(tmp_path, "drift", "--where", "stack == 'mpich-spack'") == 0


def test_too_few_nights_are_reported_and_an_empty_choice_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nights(tmp_path, 3)
    assert run(tmp_path, "drift") == 3
    assert capsys.readouterr().out == "too few nights: 3 of 13\n"
    with refused_as("selector-empty"):
        drift.watch(Store(tmp_path), selector="now-1h:now")


def test_a_night_without_a_metric_is_bridged_and_bad_cases_are_left_out(tmp_path: Path) -> None:
    for number in range(20):
        write_session(tmp_path, number, stacks=STACKS if number % 3 else STACKS[:1], noise=0.01)
    write_session(tmp_path, 20, evidence="contradicted", change=lambda *_: 5.0)
    write_session(tmp_path, 21, result="abort", change=lambda *_: 5.0)
    history, found, *_ = drift.watch(Store(tmp_path))
    assert found == []
    assert history.nights.height == 20
    assert np.isnan(history.logs).any()
    assert any("no proof" in one for one in history.notes)
    assert any("failed" in one for one in history.notes)


def test_what_the_last_night_lacks_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A metric renamed between versions ends one series and begins another: that is no silence."""
    for number in range(14):
        name = "PingPongX" if number == 13 else "PingPong"
        write_session(
            tmp_path, number, edit=lambda row, name=name: {**row, "benchmark": row["benchmark"].replace("PingPong", name)}
        )
    assert run(tmp_path, "drift") == 1
    line, young = capsys.readouterr().out.splitlines()
    assert young == "11 of 21 metrics have too few nights: fewer than 13"
    assert line.startswith("missing: openmpi-spack on eth1g, PingPong, 0 B to 4 MiB: 11 metrics of the last 3 nights ")


def test_a_bandwidth_of_zero_is_no_faster_night(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of three repeats two moved nothing: the third is not what the night measured."""

    def edit(row: dict) -> dict:
        dead = (row["benchmark"], row["message_bytes"]) == ("Uniband", 4096) and row["repeat"] > 1
        return {**row, "value": 0.0} if dead else row

    for number in range(8):
        write_session(tmp_path, number, repeats=3, **({"edit": edit} if number == 7 else {}))
    assert run(tmp_path, "drift") == 1
    assert "missing: openmpi-spack on eth1g, Uniband, 4 KiB: 1 metrics of the last 3 nights" in capsys.readouterr().out


def test_of_a_partial_last_session_it_is_said_and_nothing_is_missed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(13):
        write_session(tmp_path, number, stacks=STACKS)
    write_session(tmp_path, 13, stacks=STACKS[:1], command_line="reframe -c reframe_tests -r -p openmpi-spack")
    assert run(tmp_path, "drift") == 0
    assert capsys.readouterr().out == (
        "the last session is partial (started with --prgenv=openmpi-spack): what it lacks is not looked for\n"
    )


def test_a_young_metric_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A stack of three nights in a history of 15 is not watched yet."""
    for number in range(15):
        write_session(tmp_path, number, stacks=STACKS if number > 11 else STACKS[:1])
    assert run(tmp_path, "drift") == 0
    assert capsys.readouterr().out == "21 of 42 metrics have too few nights: fewer than 13\n"


def test_a_night_is_a_calendar_day_and_its_last_whole_session(tmp_path: Path) -> None:
    for number in range(4):
        write_session(tmp_path, number, change=lambda *_: 3.0)
        started = FIRST + timedelta(days=number, minutes=2)
        write_session(tmp_path, 10 + number, started=started)
        partial = {"started": started + timedelta(hours=1), "command_line": "reframe -c reframe_tests -r -n ImbPointToPoint"}
        write_session(tmp_path, 20 + number, change=lambda *_: 5.0, **partial)
    history = drift.read(Store(tmp_path))
    assert history.nights.height == 4 and history.too_few == "too few nights: 4 of 13"
    assert [session[:8] for session in history.nights["session"]] == ["0000000b", "0000000c", "0000000d", "00000018"]
    assert any("8 sessions not used: another session of the same day" in line for line in history.notes)


def test_drift_watches_the_sessions_with_the_label_of_the_newest(tmp_path: Path) -> None:
    for number in range(13):
        write_session(tmp_path, number, labels={"run": "nightly"})
        write_session(tmp_path, 20 + number, labels={"run": "smoke"}, night=number, sizes=(8,), change=lambda *_: 2.0)
    write_session(tmp_path, 40, labels={"run": "nightly"}, night=13)
    assert drift.read(Store(tmp_path)).nights.height == 14
    assert run(tmp_path, "drift") == 0


@pytest.mark.parametrize(
    ("change", "said"), [({"value": float("nan")}, "is nan us"), ({"unit": "ms", "value": 0.005}, "is 0.005 ms, expected")]
)
def test_values_that_are_no_numbers_or_in_another_unit_are_refused(tmp_path: Path, change: dict, said: str) -> None:
    def edit(row: dict) -> dict:
        return {**row, **change} if (row["benchmark"], row["message_bytes"], row["repeat"]) == ("PingPong", 8, 2) else row

    write_session(tmp_path, 0)
    write_session(tmp_path, 1, edit=edit)
    with refused_as("value-not-finite", match=said):
        drift.read(Store(tmp_path))


def test_a_clock_that_was_wrong_is_refused(tmp_path: Path) -> None:
    write_session(tmp_path, 0)
    write_session(tmp_path, 1, started=datetime(1970, 1, 2, tzinfo=timezone.utc))
    with refused_as("clock-wrong"):
        drift.read(Store(tmp_path))


def test_a_policy_that_judges_nothing_is_no_quiet_watch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(8):
        write_session(tmp_path, number, change=lambda *_, number=number: 1.0 if number < 5 else 3.0)
    nothing = verdict_policy.Policy(margins_percent=dict.fromkeys(verdict_policy.MARGINS), source="policy.yaml")
    monkeypatch.setattr(verdict_policy, "load", lambda *_: nothing)
    with refused_as("policy-without-margin", match=r"policy\.yaml gives none of the 21 metrics of testbed a margin"):
        drift.watch(Store(tmp_path))


def test_what_is_over_is_no_change_and_what_lasts_is_one_until_then(tmp_path: Path) -> None:
    """Six slow nights, then three as before: while they last, and afterwards."""
    for number in range(36):
        write_session(tmp_path, number, noise=0.01, change=lambda *_, late=number >= 30: 1.09 if late else 1.0)
    found = drift.watch(Store(tmp_path)).events
    assert [(event.worse, event.metrics.height) for event in found] == [(True, 21)]
    for number in range(36, 39):
        write_session(tmp_path, number, noise=0.01)
    assert drift.watch(Store(tmp_path), recent=None).events == []


def test_nights_too_noisy_to_judge_are_no_quiet_watch(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(20):
        write_session(tmp_path, number, change=by((1.0, 3.0, 9.0, 2.0, 6.0)[number % 5]))
    data = answer(tmp_path, capsys, 3)
    assert (data["decision"], data["events"]) == ("too noisy", [])
    assert data["notes"][0].startswith("21 metrics too noisy")


def answer(folder: Path, capsys: pytest.CaptureFixture[str], status: int) -> dict[str, Any]:
    words = ("drift", "--json", "--dataset-only", "--dataset", str(folder))
    assert cli.main([*words]) == status
    data: dict[str, Any] = json.loads(capsys.readouterr().out)
    msgspec.convert(data, answers.Drift)
    return data


def test_too_few_nights_then_none_that_differs_then_a_change(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(3):
        write_session(tmp_path, number, noise=0.01)
    few = answer(tmp_path, capsys, 3)
    assert (few["decision"], few["nights"], few["notes"][0]) == ("too few nights", 3, "too few nights: 3 of 13")
    for number in range(3, 20):
        last = write_session(tmp_path, number, noise=0.01, condition=BEFORE)
    quiet = answer(tmp_path, capsys, 0)
    assert (quiet["decision"], quiet["events"], quiet["absent"], quiet["session"]) == ("unchanged", [], [], last)
    assert (quiet["system"], quiet["first_night"], quiet["metrics"]) == ("testbed", "2026-01-05", 21)
    for number in range(20, 24):
        write_session(tmp_path, number, noise=0.01, condition=AFTER, change=lambda *_: 1.2, sizes=(8, 64))
    worse = answer(tmp_path, capsys, 1)
    assert worse["decision"] == "worse"
    (event,) = worse["events"]
    assert event["worse"] and event["accepted"] is None and 0.15 < event["slower"] < 0.25
    assert (event["since"], event["stack"], event["fabric"]) == ("2026-01-25", "openmpi-spack", "eth1g")
    assert {(row["benchmark"], row["message_bytes"]) for row in event["metrics"]} == {
        (name, size) for name in ("PingPong", "Uniband") for size in (8, 64)
    }
    assert all(0.1 < row["slower"] < 0.3 for row in event["metrics"])
    assert event["changed"] == [{"what": "kernel release", "before": "6.1.0-40", "after": "6.1.0-41"}]


def test_what_the_last_night_lacks_and_what_cannot_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(8):
        write_session(tmp_path, number)
    records.Unreadable("lost", FIRST, ("testbed",), "session lost is cut off.").keep(tmp_path)
    write_session(tmp_path, 8, benchmarks={"PingPong": "latency_us"})
    data = answer(tmp_path, capsys, 1)
    assert [line.startswith("missing: openmpi-spack on eth1g, Uniband, ") for line in data["absent"]] == [True]
    assert any("is cut off" in note for note in data["notes"])

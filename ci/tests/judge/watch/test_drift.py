"""The nightly watch: silent when nothing happened, one event for one cause, in few nights."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import msgspec
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
        write_session(
            folder,
            number,
            stacks=STACKS,
            noise=0.01,
            repeats=3,
            condition=AFTER if late else BEFORE,
            **change,
        )


def run(folder: Path, command: str, *words: str) -> int:
    return cli.main([command, "--dataset-only", "--dataset", str(folder), *words])


def test_one_cause_is_one_event_with_what_changed_that_night(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nights(tmp_path, 20, 4)
    assert run(tmp_path, "drift") == 1
    [line] = capsys.readouterr().out.splitlines()
    assert line.startswith("since 25 Jan 2026, openmpi-spack on eth1g, 64 KiB to 4 MiB: ")
    assert "8 metrics (PingPong, Uniband); that night: kernel release 6.1.0-40 -> 6.1.0-41" in line
    assert run(tmp_path, "drift", "--where", "stack == 'mpich-spack'") == 0
    assert capsys.readouterr().out == ""
    with refused_as("bad-option"):
        drift.watch(Store(tmp_path), selector="now-1h:now")


def test_a_bandwidth_of_zero_is_no_faster_night(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of three repeats two moved nothing: the third is not what the night measured."""

    def dead(row: dict[str, Any]) -> dict[str, Any]:
        metric = (row["benchmark"], row["message_bytes"])
        return {**row, "value": 0.0} if metric == ("Uniband", 4096) and row["repeat"] > 1 else row

    for number in range(8):
        write_session(tmp_path, number, repeats=3, **({"edit": dead} if number == 7 else {}))
    [absent] = answer(tmp_path, capsys, 1)["absent"]
    assert "Uniband, 4 KiB: 1 metric not measured in the last 3 nights" in absent


def test_of_a_partial_last_session_it_is_said_and_nothing_is_missed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(13):
        write_session(tmp_path, number, stacks=STACKS)
    partial = "reframe -c reframe_tests -r -p openmpi-spack"
    write_session(tmp_path, 13, stacks=STACKS[:1], command_line=partial)
    assert run(tmp_path, "drift") == 0
    assert capsys.readouterr().out.startswith("the last session is partial (started with --prgenv")


def test_a_night_is_a_calendar_day_and_its_last_whole_session(tmp_path: Path) -> None:
    last = []
    for number in range(4):
        write_session(tmp_path, number, change=by(3.0))
        started = FIRST + timedelta(days=number, minutes=2)
        last.append(write_session(tmp_path, 10 + number, started=started))
        write_session(
            tmp_path,
            20 + number,
            change=by(5.0),
            started=started + timedelta(hours=1),
            command_line="reframe -c reframe_tests -r -n ImbPointToPoint",
        )
    history = drift.read(Store(tmp_path))
    assert history.too_few == "too few nights: 4 of 13"
    assert history.nights["session"].to_list()[:3] == last[:3]


def test_drift_watches_the_sessions_with_the_label_of_the_newest(tmp_path: Path) -> None:
    for number in range(14):
        smoke = {"labels": {"run": "smoke"}, "night": number, "sizes": (8,), "change": by(2.0)}
        write_session(tmp_path, 20 + number, **smoke)
        write_session(
            tmp_path, number, labels={"run": "nightly"}, started=FIRST + timedelta(number, 60)
        )
    assert drift.read(Store(tmp_path)).nights.height == 14
    assert run(tmp_path, "drift") == 0


def test_a_clock_that_was_wrong_is_refused(tmp_path: Path) -> None:
    write_session(tmp_path, 0)
    write_session(tmp_path, 1, started=datetime(1970, 1, 2, tzinfo=timezone.utc))
    with refused_as("tool-failed"):
        drift.read(Store(tmp_path))


def test_a_policy_that_judges_nothing_is_no_quiet_watch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(8):
        write_session(tmp_path, number)
    nothing = verdict_policy.Policy(margins_percent=dict.fromkeys(verdict_policy.MARGINS))
    monkeypatch.setattr(verdict_policy, "load", lambda *_: nothing)
    with refused_as("configuration-unusable"):
        drift.watch(Store(tmp_path))


def test_what_is_over_is_no_change_and_what_lasts_is_one_until_then(tmp_path: Path) -> None:
    """Six slow nights, then three as before: while they last, and afterwards."""
    for number in range(36):
        write_session(tmp_path, number, noise=0.01, change=by(1.09 if number >= 30 else 1.0))
    [event] = drift.watch(Store(tmp_path)).events
    assert (event.worse, event.metrics.height) == (True, 21)
    for number in range(36, 39):
        write_session(tmp_path, number, noise=0.01)
    assert drift.watch(Store(tmp_path), recent=None).events == []


def test_nights_too_noisy_to_judge_are_no_quiet_watch(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(20):
        write_session(tmp_path, number, change=by((1.0, 3.0, 9.0, 2.0, 6.0)[number % 5]))
    data = answer(tmp_path, capsys, 3)
    assert (data["decision"], data["events"]) == ("too noisy", [])


def answer(folder: Path, capsys: pytest.CaptureFixture[str], status: int) -> dict[str, Any]:
    assert run(folder, "drift", "--json") == status
    data: dict[str, Any] = json.loads(capsys.readouterr().out)
    msgspec.convert(data, answers.Drift)
    return data


def test_too_few_nights_then_none_that_differs_then_a_change(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(3):
        write_session(tmp_path, number, noise=0.01)
    few = answer(tmp_path, capsys, 3)
    assert (few["decision"], few["notes"][0]) == ("too few nights", "too few nights: 3 of 13")
    for number in range(3, 20):
        write_session(tmp_path, number, noise=0.01)
    quiet = answer(tmp_path, capsys, 0)
    assert (quiet["decision"], quiet["events"], quiet["absent"]) == ("unchanged", [], [])
    for number in range(20, 24):
        write_session(tmp_path, number, noise=0.01, change=by(1.2), sizes=(8, 64))
    worse = answer(tmp_path, capsys, 1)
    (event,) = worse["events"]
    assert (worse["decision"], event["worse"], event["accepted"]) == ("worse", True, None)
    assert (event["since"], event["stack"]) == ("2026-01-25", "openmpi-spack")
    assert all(0.1 < row["slower"] < 0.3 for row in (event, *event["metrics"]))
    assert len(event["metrics"]) == 4


def test_what_the_last_night_lacks_and_what_cannot_be_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A metric that ends is no silence."""
    for number in range(8):
        write_session(tmp_path, number)
    lost = records.UnreadableSession("lost", FIRST, ("testbed",), "session lost is cut off.")
    lost.keep(tmp_path)
    write_session(tmp_path, 8, benchmarks={"PingPong": "latency_us"})
    data = answer(tmp_path, capsys, 1)
    [absent] = data["absent"]
    assert absent.startswith("missing: openmpi-spack on eth1g, Uniband, ")
    assert any("is cut off" in note for note in data["notes"])


def test_values_in_another_unit_are_refused(tmp_path: Path) -> None:
    write_session(tmp_path, 0)
    write_session(tmp_path, 1, edit=lambda row: {**row, "unit": "ms", "value": 0.005})
    with refused_as("output-damaged", match="is 0.005 ms, expected"):
        drift.read(Store(tmp_path))

"""The nightly watch: silent when nothing happened, one event for one cause, in few nights."""

import json
from datetime import datetime, timedelta, timezone

import msgspec
import pytest

from dataset_here import HERE, ask, write_session, write_sessions
from mpibench import answers
from mpibench.judge import accept, drift
from mpibench.judge import policy as verdict_policy
from mpibench.store import records
from mpibench.store.store import Store
from refusals import refused_as
from synthetic_verdicts import FIRST, NIGHTLY, by

STACKS = ("openmpi-spack", "mpich-spack")


def slower_link(benchmark, size, stack):
    return 1.09 if size >= 65536 and stack == "openmpi-spack" else 1.0


def answer(status):
    said = ask("drift --json")
    data = json.loads(said.out)
    msgspec.convert(data, answers.Drift)
    assert said.status == status
    return data


def test_one_cause_is_one_event_with_what_changed_that_night():
    """Twenty quiet nights, then four with a slower link and another kernel."""
    given = {"stacks": STACKS, "noise": 0.01, "repeats": 3}
    for first, changes, kernel in ((0, [1.0] * 20, "40"), (20, [slower_link] * 4, "41")):
        condition = {"machine": {"kernel release": [f"6.1.0-{kernel}"]}}
        write_sessions(changes, first, condition=condition, **given)
    said = ask("drift")
    [line] = said.out.splitlines()
    assert said.status == 1
    assert line.startswith("since 25 Jan 2026, openmpi-spack on eth1g, 64 KiB to 4 MiB: ")
    assert "8 metrics (PingPong, Uniband); that night: kernel release 6.1.0-40 -> 6.1.0-41" in line
    worse = answer(1)
    (event,) = worse["events"]
    assert (worse["decision"], event["worse"], event["accepted"]) == ("worse", True, None)
    assert (event["since"], event["stack"]) == ("2026-01-25", "openmpi-spack")
    assert all(0.05 < row["slower"] < 0.1 for row in (event, *event["metrics"]))
    assert ask("drift", "--where", "stack == 'mpich-spack'") == (0, "", "")
    with refused_as("bad-option"):
        drift.watch(Store(HERE), selector="now-1h:now")


def test_a_bandwidth_of_zero_is_no_faster_night():
    """Of three repeats two moved nothing: the third is not what the night measured."""

    def dead(row):
        metric = (row["benchmark"], row["message_bytes"])
        return {**row, "value": 0.0} if metric == ("Uniband", 4096) and row["repeat"] > 1 else row

    write_sessions(7, repeats=3)
    write_session(7, repeats=3, edit=dead)
    [absent] = answer(1)["absent"]
    assert "Uniband, 4 KiB: 1 metric not measured in the last 3 nights" in absent


def test_of_a_partial_last_session_it_is_said_and_nothing_is_missed():
    write_sessions(13, stacks=STACKS)
    partial = "reframe -c reframe_tests -r -p openmpi-spack"
    write_session(13, stacks=STACKS[:1], command_line=partial)
    said = ask("drift")
    assert said.status == 0
    assert said.out.startswith("the last session is partial (started with --prgenv")


def test_a_night_is_a_calendar_day_and_its_last_whole_session():
    write_sessions([3.0] * 4)
    partial = "reframe -c reframe_tests -r -n ImbPointToPoint"
    last = []
    for number in range(4):
        started = FIRST + timedelta(days=number, minutes=2)
        last.append(write_session(10 + number, started=started))
        later = {"started": started + timedelta(hours=1), "command_line": partial}
        write_session(20 + number, change=by(5.0), **later)
    history = drift.read(Store(HERE))
    assert history.too_few == "too few nights: 4 of 13"
    assert history.nights["session"].to_list()[:3] == last[:3]


def test_drift_watches_the_sessions_with_the_label_of_the_newest():
    smoke = {"labels": {"run": "smoke"}, "sizes": (8,), "change": by(2.0)}
    for night in range(14):
        write_session(20 + night, night=night, **smoke)
        write_session(night, labels=NIGHTLY, started=FIRST + timedelta(night, 60))
    assert drift.read(Store(HERE)).nights.height == 14
    assert ask("drift").status == 0


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"started": datetime(1970, 1, 2, tzinfo=timezone.utc)}, "tool-failed"),
        ({"edit": lambda row: {**row, "unit": "ms", "value": 0.005}}, "output-damaged"),
    ],
    ids=["a clock that was wrong", "another unit"],
)
def test_what_cannot_be_put_in_a_row_of_nights_is_refused(changes, code):
    write_session(0)
    write_session(1, **changes)
    with refused_as(code):
        drift.read(Store(HERE))


def test_a_policy_that_judges_nothing_decides_nothing(monkeypatch):
    """It is no quiet watch, and accepts nobody."""
    write_sessions(8)
    nothing = verdict_policy.Policy(margins_percent=dict.fromkeys(verdict_policy.MARGINS))
    monkeypatch.setattr(verdict_policy, "load", lambda *_: nothing)
    with refused_as("configuration-unusable"):
        drift.watch(Store(HERE))
    with refused_as("configuration-unusable", match="gives none of the 21 common metrics a margin"):
        accept.decide(Store(HERE), "latest~1", "latest")


def test_what_is_over_is_no_change_and_what_lasts_is_one_until_then():
    """Six slow nights, then three as before: while they last, and afterwards."""
    write_sessions([1.0] * 30 + [1.09] * 6, noise=0.01)
    [event] = drift.watch(Store(HERE)).events
    assert (event.worse, event.metrics.height) == (True, 21)
    write_sessions(3, first=36, noise=0.01)
    assert drift.watch(Store(HERE), recent=None).events == []


def test_nights_too_noisy_to_judge_are_no_quiet_watch():
    write_sessions([1.0, 3.0, 9.0, 2.0, 6.0] * 4)
    data = answer(3)
    assert (data["decision"], data["events"]) == ("too noisy", [])


def test_too_few_nights_then_none_that_differs():
    write_sessions(3, noise=0.01)
    few = answer(3)
    assert (few["decision"], few["notes"][0]) == ("too few nights", "too few nights: 3 of 13")
    write_sessions(17, first=3, noise=0.01)
    quiet = answer(0)
    assert (quiet["decision"], quiet["events"], quiet["absent"]) == ("unchanged", [], [])


def test_what_the_last_night_lacks_and_what_cannot_be_read():
    """A metric that ends is no silence."""
    write_sessions(8)
    lost = records.UnreadableSession("lost", FIRST, ("testbed",), "session lost is cut off.")
    lost.keep(HERE)
    write_session(8, benchmarks={"PingPong": "latency_us"})
    data = answer(1)
    [absent] = data["absent"]
    assert absent.startswith("missing: openmpi-spack on eth1g, Uniband, ")
    assert any("is cut off" in note for note in data["notes"])


def test_the_watch_looks_at_no_case_whose_ranks_shared_cores():
    write_sessions(4, repeats=3)
    shared = {"oversubscribed": "64 ranks on 2 cores"}
    write_sessions(4, first=4, repeats=3, condition=shared)
    watched = drift.read(Store(HERE), "testbed")
    assert set(watched.metrics["variant"]) == {""} and watched.nights.height == 4

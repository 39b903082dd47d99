"""What is called slower is measured again: which cases, with which
command line, and what both measurements decide.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

import synthetic_session
from mpibench.commands import nightly
from mpibench.judge import gate as gate_of_night
from mpibench.night import confirmed_night, remeasuring
from mpibench.night.remeasuring import CalledCase, Remeasured
from mpibench.store import confirmations, dataset, records, selectors
from mpibench.store.sessions import CONFIRMS, Session, encode
from mpibench.store.store import Store
from synthetic_session import gate, session_of
from synthetic_verdicts import FIRST, SIZES, Change, by, write_session


def slower(factor: float, *stacks: str, sizes: Sequence[int] = SIZES) -> Change:
    return lambda benchmark, size, stack: (
        factor if benchmark == "Uniband" and stack in stacks and size in sizes else 1.0
    )


def workspace(folder: Path) -> remeasuring.Workspace:
    return remeasuring.Workspace(folder / "results.db", Store(folder / "dataset"), folder / "again")


def said_of(folder: Path, night: str, status: int) -> str:
    """What the gate says of a night, as one text."""
    answer = gate_of_night.decide(Store(folder), "testbed", night, max_age_hours=1e6)
    assert gate_of_night.STATUS[answer.decision] == status
    return "\n".join(answer.lines)


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        ("-c t -rn Imb -p x -t smoke -x y -E 'a == 1' --system=s:p", ["-c", "t"]),
        ("-c t --mode=smoke", ["-S", "level=smoke", "-S", "repeats=3", "-c", "t"]),
        (
            "-Rr -c t -P ppn=2 -J 'p=q r' -C x.py",
            ["-c", "t", "-P", "ppn=2", "-J", "p=q r", "-C", "x.py", "-R"],
        ),
        ("--session-extras run=nightly --report-file=/x/y.json --max-retries=2 --maxfail 1", []),
        ("--repeat=2 --restore-session=x.json --failed", ["--repeat=2"]),
    ],
)
def test_how_it_was_measured_stays_and_what_was_selected_does_not(
    line: str, kept: list[str]
) -> None:
    assert remeasuring.kept_options(f"reframe -r {line}") == kept


def test_what_was_measured_otherwise_confirms_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The stack was renewed, or it ran on other nodes: the new
    session is proven, and of something else.
    """
    plan = synthetic_session.case("mpich-wheels")
    source = session_of(plan, uuid="first", cmdline="reframe -r")
    case = CalledCase("first", "a", "p", "mpich-wheels", plan["name"], 0.1)
    stored: dict[str, Session] = {}

    def run(words: Sequence[str], *_: object) -> int:
        [report] = [word.partition("=")[2] for word in words if word.startswith("--report-file=")]
        uuid = f"again-{len(stored)}"
        stored[uuid] = session_of(again, uuid=uuid, confirms="first")
        Path(report).write_text(encode(stored[uuid]))
        return 1

    def export(store: Store, _: object, ids: Sequence[str]) -> None:
        dataset.export_session(stored[ids[0]], store.folder)

    monkeypatch.setattr(remeasuring.supervision, "run", run)
    monkeypatch.setattr(Store, "export", export)
    dataset.export_session(source, tmp_path / "dataset")
    newer = {**plan["condition"], "mpi_version": "5.0.1"}
    ranks = [{**rank, "host": "n2"} for rank in plan["proof"]["ranks"]]
    for changed, why in (
        ({}, ""),
        ({"condition": newer}, "is another measurement: mpi_version 5.0.0 and now 5.0.1"),
        ({"proof": {**plan["proof"], "ranks": ranks}}, "measured it on n2, and not on n1"),
        ({"name": "Other"}, "no longer among the tests here"),
        ({"proof": {}}, "has no proof of its condition"),
    ):
        again = {**plan, **changed}
        found = remeasuring.measure_again([case], workspace(tmp_path), 1.0, lambda _: None)
        assert (case in found.measured) == (not why) and why in found.left.get(case, "")


def test_a_confirming_session_is_no_night_and_means_itself_only(tmp_path: Path) -> None:
    nights = [write_session(tmp_path, number, labels={"run": "nightly"}) for number in (0, 1)]
    new = write_session(tmp_path, 2, labels={"run": remeasuring.RUN, CONFIRMS: nights[1]})
    table = selectors.sessions_table(Store(tmp_path).cases("testbed"))
    assert selectors.select("latest", table) == nights[1:]
    for every in ("20260101:20260201", "?run != 'x'"):
        assert selectors.select(every, table) == nights
    for own in (new, f"?{CONFIRMS} == '{nights[1]}'"):
        assert selectors.select(own, table) == [new]


def night_with_references(
    folder: Path, value: float, more: Sequence[tuple[float, dict[str, Any]]]
) -> str:
    """A night with one reference (at least 90 MB/s) and sessions that measured it again."""

    def session(number: int, value: float, where: dict[str, Any], **options: Any) -> str:
        check = gate("bandwidth", value, 100.0, "MB/s")
        phase = None if check["outcome"] == "pass" else "performance"
        row = {"gates": [check], "result": check["outcome"], "fail_phase": phase, **where}
        return write_session(folder, number, where=row, **options)

    write_session(folder, 0, labels={"run": "nightly"})
    night = session(1, value, {}, labels={"run": "nightly"})
    for place, (again, options) in enumerate(more):
        given = {
            "labels": {"run": remeasuring.RUN, CONFIRMS: night},
            "started": FIRST + timedelta(days=1, hours=1 + place),
            "where": {},
            **options,
        }
        session(2 + place, again, **given)
    return night


def test_a_second_job_that_cannot_be_read_is_not_passed_over(tmp_path: Path) -> None:
    """It was missed twice, and the later job that reached it changes nothing."""
    night = night_with_references(tmp_path, 50.0, [(55.0, {}), (99.0, {})])
    [first] = tmp_path.glob("cases/*/*/00000003*.parquet")
    started = pl.read_parquet(first)["started"][0]
    for path in list(tmp_path.rglob(first.name)):
        path.unlink()
    records.UnreadableSession(first.stem, started, ("testbed",), "it is cut off.").keep(tmp_path)
    said = said_of(tmp_path, night, 1)
    assert "1 missed, 0 without" in said
    assert "session 00000003 cannot be read and may have measured this one again" in said


@pytest.mark.parametrize(("hours", "measured"), [(23, True), (30, False)])
def test_a_night_longer_than_a_day_is_not_measured_again_and_told_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hours: int, measured: bool
) -> None:
    """No budget is spent on what would confirm nothing."""
    tried: list[Sequence[CalledCase]] = []

    def measure_again(cases: Sequence[CalledCase], *_: object) -> Remeasured:
        tried.append(cases)
        return Remeasured(tuple(cases), 30.0, left=dict.fromkeys(cases, "no node is free"))

    monkeypatch.setattr(remeasuring, "measure_again", measure_again)
    gates = [gate("bandwidth", 50.0, 100.0, "MB/s")]
    missed = synthetic_session.case("mpich-wheels", end="performance", gates=gates)
    start = datetime.now(timezone.utc) - timedelta(hours=hours)
    session = session_of(missed, time_start_unix=start.timestamp())
    dataset.export_session(session, tmp_path / "dataset")
    place = workspace(tmp_path)
    answer = confirmed_night.confirm(session, place, 30.0, lambda _: None, lambda _: False)
    assert [len(cases) for cases in tried] == [1] * measured
    [problem] = answer.problems
    assert ("it starts 30 h after its start, and later than 24 h" in problem) is not measured


def test_a_night_keeps_what_was_slower_than_the_nights_before_unless_it_was_not_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the cases' names, for the next plan; nothing is known
    where nothing could be held against them.
    """
    folder = tmp_path / "dataset"
    slow = {"labels": {"run": "nightly"}, "change": by(1.5)}
    for number in range(15):
        write_session(folder, number, labels={"run": "nightly"})
    session: Any = SimpleNamespace(systems=["testbed"], cases=(), started=FIRST)
    session.uuid = write_session(folder, 15, **slow)

    def confirm(minutes: float) -> int | None:
        place = workspace(tmp_path)
        found = confirmed_night.confirm(session, place, minutes, lambda _: None, lambda _: False)
        return None if found.slower is None else len(found.slower)

    def measured(cases: Sequence[CalledCase], *_: object) -> Remeasured:
        return Remeasured(tuple(cases), 30.0)

    assert confirm(0.0) == 1
    monkeypatch.setattr(remeasuring, "measure_again", measured)
    monkeypatch.setattr(confirmations, "lateness", lambda *_: "")
    again = {"labels": {"run": remeasuring.RUN, CONFIRMS: session.uuid}, "night": 15}
    second = write_session(folder, 16, change=by(1.5), **again)
    assert confirm(30.0) == 1, "seen twice"
    for path in folder.glob(f"*/*/*/{second}.parquet"):
        path.unlink()
    write_session(folder, 17, **again)
    assert confirm(30.0) == 0
    session.uuid = write_session(folder, 18, repeats=1, **slow)
    assert confirm(0.0) is None, "of too few repeats nothing is known"


def test_a_defect_while_measuring_again_is_a_problem_and_the_night_goes_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object) -> None:
        raise KeyError("stack")

    monkeypatch.setattr(confirmed_night, "confirm", broken)
    night = nightly.Night("smoke", "smoke", [], print)
    nightly.confirm(night, Session({"uuid": "s"}, []))
    assert night.problems == [
        "not measured again, by a defect of this program (KeyError: 'stack'): report it"
    ]
    assert "Traceback" in capsys.readouterr().err

"""What is called slower is measured again: which cases, with which command line, and what both measurements decide."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest
from reframe.frontend import filters

import synthetic_session
from mpibench import cli
from mpibench.commands import nightly
from mpibench.judge import accept, comparison
from mpibench.judge.accept import REFUSED
from mpibench.night import confirmed_night, remeasuring
from mpibench.night.remeasuring import CalledCase, Remeasured
from mpibench.pages import acceptance as acceptance_record
from mpibench.store import confirmations, dataset, records, selectors
from mpibench.store.dataset_layout import write_file
from mpibench.store.sessions import CONFIRMS, PAIRED, Session, encode
from mpibench.store.store import Store
from reframe_tests.harness.vocabulary import BadInput
from synthetic_report import session_of
from synthetic_session import gate
from synthetic_verdicts import FIRST, SIZES, Change, write_session

STACKS = ("mpich-spack", "openmpi-spack")


def slower(factor: float, *stacks: str, sizes: Sequence[int] = SIZES) -> Change:
    return lambda benchmark, size, stack: factor if benchmark == "Uniband" and stack in stacks and size in sizes else 1.0


def decided(folder: Path, change: Change, **options: Any) -> accept.Acceptance:
    """A candidate with this change against a baseline of five sessions without it."""
    first = [write_session(folder, number, stacks=STACKS) for number in range(5)]
    candidate = write_session(folder, 5, stacks=STACKS, change=change, **options)
    return accept.decide(Store(folder), ",".join(first), candidate)


def test_the_newest_case_of_a_metric_is_measured_again_and_a_second_stack_in_its_job_with_it(tmp_path: Path) -> None:
    first = [write_session(tmp_path, number, stacks=STACKS) for number in range(5)]
    older, newer = (
        write_session(tmp_path, number, stacks=STACKS, change=slower(1.3, *STACKS), where={"name": "ImbPointToPoint %ppn=1"})
        for number in (5, 6)
    )
    # As if the second stack had been interleaved in the job of the first one.
    for table in ("cases", "samples"):
        [path] = (tmp_path / table).rglob(f"{newer}.parquet")
        frame = pl.read_parquet(path, hive_partitioning=False)
        write_file(path, frame.with_columns(pl.col("case").replace({f"{newer}:0:1": f"{newer}:0:0{PAIRED}"})))
    result = accept.decide(Store(tmp_path), ",".join(first), f"{older},{newer}")
    called = comparison.called(result.judgement)
    cases = remeasuring.of_metrics(result.candidate, called)
    assert [(case.session, case.stack, case.name) for case in cases] == [(newer, "mpich-spack", "ImbPointToPoint %ppn=1")]
    assert str(cases[0]) == "ImbPointToPoint %ppn=1 @testbed:node+mpich-spack"


def case_of(name: str, stack: str = "a", slower: float = 0.1, partition: str = "p", session: str = "s") -> CalledCase:
    return CalledCase(session, "sys", partition, stack, name, slower)


def test_the_worst_cases_that_fit_into_the_budget_are_chosen() -> None:
    cases = [case_of("A", slower=0.1), case_of("B", slower=0.3), case_of("C", slower=math.inf), case_of("D", slower=0.05)]
    chosen, left = remeasuring.fit(cases, [20.0, 100.0, 50.0, None], 100.0)
    assert ([case.name for case in chosen], [case.name for case in left]) == (["C", "A"], ["B", "D"])
    assert remeasuring.fit(cases, [None] * 4, 0.0) == (sorted(cases, key=lambda case: -case.slower), []), "the clock ends it"
    assert remeasuring.fit([], [], 1.0) == ([], [])


def test_sessions_hold_the_called_cases_and_no_others() -> None:
    cases = [
        *(case_of(name, stack) for stack in ("a", "b") for name in ("X %n=1", "Y")),
        case_of("X %n=1", "c", slower=0.9),
        case_of("Y", "a", partition="q"),
    ]
    groups = remeasuring.group(cases)
    found = [({case.partition for case in held}, {(case.stack, case.name) for case in held}) for held in groups]
    both = {(stack, name) for stack in ("a", "b") for name in ("X %n=1", "Y")}
    assert found == [({"p"}, {("c", "X %n=1")}), ({"p"}, both), ({"q"}, {("a", "Y")})]
    assert sum(map(len, groups)) == len(cases)


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        ("reframe -c reframe_tests -r", ["-c", "reframe_tests"]),
        ("reframe -c t -rn Imb -p x -t smoke -x y -E 'a == 1' --system=s:p", ["-c", "t"]),
        ("reframe -c t -r --mode=smoke", ["-S", "level=smoke", "-S", "repeats=3", "-c", "t"]),
        ("reframe -c t -r --mode acceptance -S repeats=9", ["-S", "level=acceptance", "-S", "repeats=5"]),
        ("reframe -Rr -c t -P ppn=2 -J 'p=q r' -C x.py", ["-c", "t", "-P", "ppn=2", "-J", "p=q r", "-C", "x.py", "-R"]),
        ("reframe -r --session-extras run=nightly --report-file=/x/y.json --max-retries=2 --maxfail 1 -vv", []),
        ("reframe -r --repeat=2 --restore-session=x.json --failed", ["--repeat=2"]),
    ],
)
def test_how_it_was_measured_stays_and_what_was_selected_does_not(line: str, kept: list[str]) -> None:
    found = remeasuring.kept_options(line)
    assert found == kept or ("acceptance" in line and found[:4] == kept and found[-2:] == ["-S", "repeats=9"])


@pytest.mark.parametrize("line", ["reframe -r 'unclosed", "reframe -r --mode=thorough", "reframe -r -n"])
def test_a_command_line_nobody_can_read_is_one_sentence(line: str) -> None:
    with pytest.raises(BadInput, match=r"thorough is not a mode|cannot be read from its command line"):
        remeasuring.kept_options(line)


def test_the_names_fit_themselves_and_nothing_else_in_reframes_own_filter(tmp_path: Path) -> None:
    names = ["ImbPointToPoint %fabric=lo %ppn=1", "Odd (a|b) %x=1.5+2 /y@z"]
    [held] = remeasuring.group([case_of(name, "mpich-wheels") for name in names])
    words = remeasuring.words(held, "reframe -c t -r -n Other", tmp_path / "report.json")
    assert words[words.index("-p") + 1] == "^(?:mpich\\-wheels)$" and "--system=sys:p" in words
    assert "run=confirmation,confirms=s" in words and f"--report-file={tmp_path}/report.json" in words
    fits = filters.have_any_name([words[words.index("-n") + 1]])
    others = ["ImbPointToPoint %fabric=lo %ppn=16", "OsuImbPointToPoint %fabric=lo %ppn=1", "Odd a", "Odd (a|b) %x=1x5+2 /y@z"]
    found = [name for name in (*names, *others) if fits(SimpleNamespace(check=SimpleNamespace(display_name=name)))]
    assert found == names


def test_what_was_measured_otherwise_confirms_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The stack was renewed, or it ran on other nodes: the new session is proven, and of something else."""
    plan = synthetic_session.case("mpich-wheels")
    source = session_of(plan, uuid="first", cmdline="reframe -r")
    case = CalledCase("first", "a", "p", "mpich-wheels", plan["name"], 0.1)
    newer = {**plan, "condition": {**plan["condition"], "mpi_version": "5.0.1"}}
    stored: dict[str, Session] = {}

    def run(words: Sequence[str], *_: object) -> int:
        [report] = [word.partition("=")[2] for word in words if word.startswith("--report-file=")]
        uuid = f"again-{len(stored)}"
        stored[uuid] = session_of(*next(plans), uuid=uuid, confirms="first")
        Path(report).write_text(encode(stored[uuid]))
        return 1

    monkeypatch.setattr(remeasuring.supervision, "run", run)
    monkeypatch.setattr(Store, "export", lambda store, _, ids: dataset.export_session(stored[ids[0]], store.folder))
    dataset.export_session(source, tmp_path / "dataset")
    elsewhere = {**plan, "condition": {**plan["condition"], "network": "eth1g"}}
    ranks = [{**rank, "host": "n2"} for rank in plan["proof"]["ranks"]]
    other = {**plan, "proof": {**plan["proof"], "ranks": ranks}}
    plans = iter([[plan], [newer], [elsewhere], [other], [{**plan, "name": "Other"}], [{**plan, "proof": {}}]])
    for wanted in (
        "",
        "is another measurement: mpi_version 5.0.0 and now 5.0.1",
        "is another measurement: network None and now eth1g",
        "measured it on n2, and not on n1",
        "no longer among the tests here",
        "has no proof of its condition",
    ):
        workspace = remeasuring.Workspace(tmp_path / "results.db", Store(tmp_path / "dataset"), tmp_path / "again")
        found = remeasuring.measure_again([case], workspace, 1.0, lambda _: None)
        assert (case in found.measured) == (not wanted) and wanted in found.left.get(case, "")
    assert len(stored) == 6


def test_measuring_again_does_not_write_the_junit_file_of_the_night(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """ReFrame takes its name from the environment, too, and would leave the few cases of the second session there."""
    monkeypatch.setenv("RFM_REPORT_JUNIT", str(tmp_path / "night.xml"))
    environs: list[dict[str, str]] = []
    monkeypatch.setattr(remeasuring.supervision, "run", lambda words, log, show, environ, *_: environs.append(environ))
    source = session_of(synthetic_session.case("mpich-wheels"), uuid="first", cmdline="reframe -r --report-junit=night.xml")
    dataset.export_session(source, tmp_path / "dataset")
    workspace = remeasuring.Workspace(tmp_path / "results.db", Store(tmp_path / "dataset"), tmp_path / "again")
    remeasuring.measure_again([case_of("Uniband", session="first")], workspace, 1.0, lambda _: None)
    [environ] = environs
    assert "RFM_REPORT_JUNIT" not in environ


def test_a_confirming_session_is_no_night_and_means_itself_only(tmp_path: Path) -> None:
    nights = [write_session(tmp_path, number, labels={"run": "nightly"}) for number in (0, 1)]
    new = write_session(tmp_path, 2, labels={"run": remeasuring.RUN, CONFIRMS: nights[1]})
    table = selectors.sessions_table(Store(tmp_path).cases("testbed"))
    assert selectors.select("latest", table) == nights[1:]
    assert selectors.select("20260101:20260201", table) == nights
    assert selectors.select("?run != 'x'", table) == nights
    assert selectors.select(new, table) == [new] == selectors.select(f"?{CONFIRMS} == '{nights[1]}'", table)


def night_with_references(folder: Path, value: float, more: Sequence[tuple[float, dict[str, Any]]]) -> str:
    """A night with one reference (at least 90 MB/s) and sessions that measured it again."""

    def session(number: int, value: float, labels: dict[str, str], **options: Any) -> str:
        missed = gate("bandwidth", value, 100.0, "MB/s")
        passed = missed["outcome"] == "pass"
        row = {"gates": [missed], "result": "pass" if passed else "fail", "fail_phase": None if passed else "performance"}
        return write_session(folder, number, labels=labels, **{"where": {**row, **options.pop("where", {})}, **options})

    write_session(folder, 0, labels={"run": "nightly"})
    night = session(1, value, {"run": "nightly"})
    for place, (again, options) in enumerate(more):
        started = FIRST + timedelta(days=1, hours=1 + place)
        session(2 + place, again, {"run": remeasuring.RUN, CONFIRMS: night}, **{"started": started, **options})
    return night


UNPROVEN = {"evidence": "missing", "result": "fail", "where": {"fail_phase": "sanity", "result": "fail", "evidence": "missing"}}


@pytest.mark.parametrize(
    ("value", "more", "status", "counts", "line"),
    [
        (95.0, [], 0, "1 references held, 0 missed, 0 without", ""),
        (
            50.0,
            [],
            1,
            "1 missed, 0",
            "reference: openmpi-spack on eth1g: bandwidth is 50 MB/s, must be at least 90 MB/s (learn",
        ),
        (50.0, [(55.0, {})], 1, "1 missed (1 seen twice)", "must be at least 90 MB/s (learned); measured again 55 MB/s"),
        (50.0, [(99.0, {})], 0, "1 missed (1 not seen again)", "note: reference not seen again: openmpi-spack on eth1g: "),
        (50.0, [(55.0, {}), (99.0, {})], 1, "1 missed (1 seen twice)", "measured again 55 MB/s"),
        (50.0, [(99.0, UNPROVEN)], 1, "1 missed (1 not measured again)", "(learned); not measured again"),
        (50.0, [(99.0, UNPROVEN), (98.0, {})], 0, "1 missed (1 not seen again)", "measured again 98 MB/s"),
        (50.0, [(99.0, {"condition": {"depth": "smoke"}})], 1, "1 missed (1 not measured again)", "not measured again"),
        (50.0, [(99.0, {"where": {"name": "ImbPointToPoint %ppn=2"}})], 1, "1 missed (1 not measured again)", "not measured"),
    ],
)
def test_the_gate_holds_against_a_night_what_was_missed_twice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], value: float, more: list, status: int, counts: str, line: str
) -> None:
    night = night_with_references(tmp_path, value, more)
    options = ["--dataset-only", "--dataset", str(tmp_path), "--max-age", "100000"]
    assert cli.main(["gate", "--session", night, *options]) == status
    out = capsys.readouterr().out
    assert counts in out and line in out


def test_what_was_measured_again_a_day_later_confirms_nothing_and_the_gate_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    night = night_with_references(tmp_path, 50.0, [(99.0, {"started": FIRST + timedelta(days=2, hours=6)})])
    assert cli.main(["gate", "--session", night, "--dataset-only", "--dataset", str(tmp_path), "--max-age", "100000"]) == 1
    out = capsys.readouterr().out
    assert (
        "note: session 00000003 measured this one again and confirms nothing: it starts 30 h after its start, and later" in out
    )


def test_a_second_job_that_cannot_be_read_is_not_passed_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It was missed twice, and the later job that reached it changes nothing."""
    night = night_with_references(tmp_path, 50.0, [(55.0, {}), (99.0, {})])
    [first] = (path for path in tmp_path.glob("cases/*/*/*.parquet") if path.stem.startswith("00000003"))
    started = pl.read_parquet(first)["started"][0]
    for path in list(tmp_path.rglob(first.name)):
        path.unlink()
    records.Unreadable(first.stem, started, ("testbed",), "it is cut off.").keep(tmp_path)
    assert cli.main(["gate", "--session", night, "--dataset-only", "--dataset", str(tmp_path), "--max-age", "100000"]) == 1
    out = capsys.readouterr().out
    assert "1 missed, 0 without" in out and "note: session 00000003 cannot be read and may have measured this one again" in out


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
    missed = synthetic_session.case("mpich-wheels", end="performance", gates=[gate("bandwidth", 50.0, 100.0, "MB/s")])
    start = datetime.now(timezone.utc) - timedelta(hours=hours)
    session = session_of(missed, time_start_unix=start.timestamp())
    dataset.export_session(session, tmp_path / "dataset")
    place = remeasuring.Workspace(tmp_path / "results.db", Store(tmp_path / "dataset"), tmp_path / "again")
    answer = confirmed_night.confirm(session, place, 30.0, lambda _: None, lambda _: False)
    assert [len(cases) for cases in tried] == [1] * measured
    [problem] = answer.problems
    late = "1 cases missed a reference, and were not measured again: it starts 30 h after its start, and later than 24 h"
    assert problem.startswith(late) is not measured


def test_a_night_keeps_what_was_slower_than_the_nights_before_unless_it_was_not_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the cases' names, for the next plan; nothing is known where nothing could be held against them."""
    dataset = tmp_path / "dataset"
    for number in range(15):
        write_session(dataset, number, labels={"run": "nightly"})
    slow = write_session(dataset, 15, labels={"run": "nightly"}, change=lambda *_: 1.5)
    [name] = set(Store(dataset).cases("testbed").select("name").collect()["name"])
    session: Any = SimpleNamespace(uuid=slow, systems=["testbed"], cases=(), started=FIRST)

    def confirm(minutes: float = 0.0) -> list[str] | None:
        place = remeasuring.Workspace(tmp_path / "results.db", Store(dataset), tmp_path / "again")
        slower = confirmed_night.confirm(session, place, minutes, lambda _: None, lambda _: False).slower
        return None if slower is None else [one.name for one in slower]

    assert confirm() == [name]
    again = {"labels": {"run": remeasuring.RUN, CONFIRMS: slow}, "night": 15}
    write_session(dataset, 16, change=lambda *_: 1.5, **again)
    monkeypatch.setattr(remeasuring, "measure_again", lambda cases, *_: Remeasured(tuple(cases), 30.0))
    monkeypatch.setattr(confirmations, "lateness", lambda *_: "")
    assert confirm(30.0) == [name], "seen twice"
    for path in dataset.glob("*/*/*/00000011*.parquet"):
        path.unlink()
    write_session(dataset, 17, **again)
    assert confirm(30.0) == []
    session.uuid = write_session(dataset, 18, labels={"run": "nightly"}, change=lambda *_: 1.5, repeats=1)
    assert confirm() is None, "of too few repeats nothing is known"
    monkeypatch.setattr(confirmed_night.nights, "judge", lambda *_: (_ for _ in ()).throw(BadInput("plan-damaged", "damaged.")))
    assert confirm() is None


def test_accept_says_that_a_night_of_the_candidate_was_measured_again(tmp_path: Path) -> None:
    """It decides nothing: another decision called it, against other sessions."""
    first = decided(tmp_path, slower(1.2, "openmpi-spack"))
    [candidate] = first.candidate.sessions
    assert (first.decision, first.measured_again) == (REFUSED, ())
    labels = {"run": remeasuring.RUN, CONFIRMS: candidate}
    again = write_session(tmp_path, 6, stacks=STACKS, labels=labels, night=5)
    write_session(tmp_path, 7, stacks=STACKS, labels=labels, night=9)
    write_session(tmp_path, 8, stacks=STACKS, labels={**labels, CONFIRMS: first.baseline.sessions[0]}, night=5)
    second = accept.decide(Store(tmp_path), ",".join(first.baseline.sessions), candidate)
    assert (second.decision, second.measured_again) == (REFUSED, ((candidate, again),))
    said = [note for note in second.notes if "was measured again by session" in note]
    assert [
        note.startswith(f"candidate: session {candidate[:8]} was measured again by session {again[:8]}, ") for note in said
    ] == [True]
    assert acceptance_record.as_dict(second)["measured_again_before"] == [{"session": candidate, "by": again}]
    both = accept.decide(Store(tmp_path), ",".join(first.baseline.sessions), f"{candidate},{again}")
    assert both.measured_again == ()


def test_what_confirms_another_session_confirms_nothing_here(tmp_path: Path) -> None:
    night_with_references(tmp_path, 50.0, [(99.0, {})])
    other = write_session(tmp_path, 9, where={"gates": [gate("bandwidth", 50.0, 100.0, "MB/s")]})
    cases = Store(tmp_path).cases("testbed")
    assert confirmations.confirming(cases, other).height == 0
    [missed] = confirmations.missed_references(
        cases.filter(pl.col("session") == other).collect(), pl.DataFrame(schema=cases.collect_schema())
    )
    assert (missed.outcome, missed.again) == ("", None)


def test_a_defect_while_measuring_again_is_a_problem_and_the_night_goes_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object) -> None:
        raise KeyError("stack")

    monkeypatch.setattr(confirmed_night, "confirm", broken)
    night = nightly.Night("smoke", "smoke", [], print)
    nightly.confirm(night, Session({"uuid": "s"}, []))
    assert night.problems == ["not measured again, by a defect of this program (KeyError: 'stack'): report it"]
    assert "Traceback" in capsys.readouterr().err


def test_a_junit_file_that_cannot_be_completed_is_one_problem(tmp_path: Path) -> None:
    """It is tried again after measuring again."""
    night = nightly.Night("smoke", "smoke", [f"--report-junit={tmp_path}/none.xml"], print)
    for _ in range(2):
        nightly.complete_junit(night, Session({"uuid": "s", "time_start_unix": 0.0}, ()))
    [problem] = night.problems
    assert "none.xml cannot be read" in problem

"""What is called slower is measured again: which cases, with which
command line, on which nodes, and what both measurements decide.
"""

import importlib
import math
from datetime import datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pytest
from reframe.frontend import filters
from reframe.utility import sanity

import synthetic_session
from dataset_here import HERE, judged, write_session, write_sessions
from mpibench.commands import nightly
from mpibench.judge import accept, comparison
from mpibench.judge import gate as gate_of_night
from mpibench.judge.accept import REFUSED
from mpibench.night import confirmed_night, remeasuring
from mpibench.night.remeasuring import CalledCase, Remeasured
from mpibench.pages import acceptance as acceptance_record
from mpibench.store import confirmations, dataset, records, selectors
from mpibench.store.dataset_layout import write_file
from mpibench.store.sessions import CONFIRMS, PAIRED, Session, encode
from mpibench.store.store import Store
from reframe_tests.harness.sites import references
from reframe_tests.harness.vocabulary import BadInput
from synthetic_session import gate, session_of
from synthetic_verdicts import FIRST, NIGHTLY, by

STACKS = ("mpich-spack", "openmpi-spack")


#: Both stacks are slower in this.
SLOW = {"stacks": STACKS, "change": by(1.3, "Uniband")}


def before():
    """A baseline of five sessions."""
    return ",".join(write_session(number, stacks=STACKS) for number in range(5))


def workspace():
    return remeasuring.Workspace(HERE / "results.db", Store(HERE), HERE / "again")


def confirm(session, minutes):
    return confirmed_night.confirm(session, workspace(), minutes, lambda _: None, lambda _: False)


def said_of(night, status):
    """What the gate says of a night, as one text."""
    answer = judged(night)
    assert gate_of_night.STATUS[answer.decision] == status
    return "\n".join(answer.lines)


def called(baseline, *candidates):
    """Cases that an acceptance would measure again."""
    result = accept.decide(Store(HERE), baseline, ",".join(candidates))
    return remeasuring.of_metrics(result.candidate, comparison.called(result.judgement))


def test_the_newest_case_of_a_metric_is_measured_again_and_a_second_stack_in_its_job_with_it():
    baseline = before()
    where = {"name": "Imb %ppn=1"}
    older, newer = (write_session(number, where=where, **SLOW) for number in (5, 6))
    # As if the second stack had been interleaved in the job of the first one.
    for table in ("cases", "samples"):
        [path] = (HERE / table).rglob(f"{newer}.parquet")
        frame = pl.read_parquet(path, hive_partitioning=False)
        paired = pl.col("case").replace({f"{newer}:0:1": f"{newer}:0:0{PAIRED}"})
        write_file(path, frame.with_columns(paired))
    [case] = called(baseline, older, newer)
    assert (case.session, case.stack, case.name) == (newer, "mpich-spack", "Imb %ppn=1")


def test_each_of_the_nodes_that_measured_a_metric_measures_it_again():
    """The newest job of a candidate says nothing of the nodes of another one."""
    baseline = before()
    parts = [
        write_session(5 + at, where={"nodelist": on}, **{**SLOW, "stacks": STACKS[:1]})
        for at, on in enumerate(("n1,n2", "n3,n4"))
    ]
    groups = remeasuring.group(called(baseline, *parts))
    assert sorted(case.on.job for [case] in groups) == [("n1", "n2"), ("n3", "n4")]


def case_of(name, stack="a", slower=0.1, partition="p", session="s"):
    return CalledCase(session, "sys", partition, stack, name, slower)


def test_the_worst_cases_that_fit_into_the_budget_are_chosen():
    slow = {"A": 0.1, "B": 0.3, "C": math.inf, "D": 0.05}
    cases = [case_of(name, slower=slower) for name, slower in slow.items()]
    for seconds, room, chosen, left in (
        ([20.0, 100.0, 50.0, None], 100.0, "CA", "BD"),
        ([None] * 4, 0.0, "CBAD", ""),  # the clock ends it
    ):
        parts = remeasuring.fit(cases, seconds, room)
        assert ["".join(case.name for case in part) for part in parts] == [chosen, left]


def test_sessions_hold_the_called_cases_and_no_others():
    both = {case_of(name, stack) for stack in ("a", "b") for name in ("X %n=1", "Y")}
    alone = case_of("X %n=1", "c", slower=0.9)
    elsewhere = case_of("Y", "a", partition="q")
    groups = remeasuring.group([*both, alone, elsewhere])
    assert [set(held) for held in groups] == [{alone}, both, {elsewhere}]


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
def test_how_it_was_measured_stays_and_what_was_selected_does_not(line, kept):
    assert remeasuring.kept_options(f"reframe -r {line}") == kept


@pytest.mark.parametrize("line", ["reframe -r 'unclosed", "reframe -r --mode=thorough"])
def test_a_command_line_nobody_can_read_is_one_sentence(line):
    with pytest.raises(BadInput):
        remeasuring.kept_options(line)


@pytest.mark.parametrize(
    ("scheduler", "nodes", "asked"),
    [
        ("slurm", ("c1", "c2"), ["nodelist=c1,c2"]),
        ("slurm", ("c1 --exclusive",), []),
        ("slurm", (), []),
        ("local", ("c1",), []),
    ],
)
def test_the_nodes_are_asked_for_by_name_where_that_is_possible(scheduler, nodes, asked):
    case = CalledCase("s", "sys", "p", "a", "X", 0.1, confirmations.MeasuredOn(nodes))
    words = remeasuring.words([case], "reframe -r", HERE / "report.json", scheduler)
    assert [words[at + 1] for at, word in enumerate(words) if word == "-J"] == asked


def test_the_names_fit_themselves_and_nothing_else_in_reframes_own_filter():
    names = ["ImbPointToPoint %fabric=lo %ppn=1", "Odd (a|b) %x=1.5+2 /y@z"]
    [held] = remeasuring.group([case_of(name, "mpich-wheels") for name in names])
    words = remeasuring.words(held, "reframe -c t -r -n Other", HERE / "report.json")
    assert words[words.index("-p") + 1] == "^(?:mpich\\-wheels)$" and "--system=sys:p" in words
    assert "run=confirmation,confirms=s" in words
    fits = filters.have_any_name([words[words.index("-n") + 1]])
    others = [names[0] + "6", "Osu" + names[0], "Odd a", "Odd (a|b) %x=1x5+2 /y@z"]
    found = [
        name
        for name in (*names, *others)
        if fits(SimpleNamespace(check=SimpleNamespace(display_name=name)))
    ]
    assert found == names


def test_what_was_measured_otherwise_confirms_nothing(monkeypatch):
    """The stack was renewed, or it ran on other nodes: the new session is proven, and of
    something else. The night's JUnit file, which ReFrame is told of in the environment, too, is
    not written again.
    """
    plan = synthetic_session.case("mpich-wheels")
    source = session_of(plan, uuid="first", cmdline="reframe -r")
    case = CalledCase("first", "a", "p", "mpich-wheels", plan["name"], 0.1)
    stored = {}

    def run(words, log, show, environ, *_):
        assert "RFM_REPORT_JUNIT" not in environ
        [report] = [word.partition("=")[2] for word in words if word.startswith("--report-file=")]
        uuid = f"again-{len(stored)}"
        stored[uuid] = session_of(again, uuid=uuid, confirms="first")
        Path(report).write_text(encode(stored[uuid]))
        return 1

    def export(store, _, ids):
        dataset.export_session(stored[ids[0]], store.folder)

    monkeypatch.setenv("RFM_REPORT_JUNIT", str(HERE / "night.xml"))
    monkeypatch.setattr(remeasuring.supervision, "run", run)
    monkeypatch.setattr(Store, "export", export)
    dataset.export_session(source, HERE)
    newer = {**plan["condition"], "mpi_version": "5.0.1"}
    ranks = [{**rank, "host": "n2"} for rank in plan["proof"]["ranks"]]
    for changed, why in (
        ({}, ""),
        ({"condition": newer}, "is another measurement: mpi_version 5.0.0 and now 5.0.1"),
        ({"proof": {**plan["proof"], "ranks": ranks}}, "measured it on n2, and not on n1"),
        ({"name": "Other"}, "its test is gone or was left out"),
        ({"proof": {}}, "has no proven condition"),
    ):
        again = {**plan, **changed}
        found = remeasuring.measure_again([case], workspace(), 1.0, lambda _: None)
        assert (case in found.measured) == (not why) and why in found.left.get(case, "")


def test_a_confirming_session_is_no_night_and_means_itself_only():
    nights = [write_session(number, labels=NIGHTLY) for number in (0, 1)]
    new = write_session(2, labels={"run": remeasuring.RUN, CONFIRMS: nights[1]})
    table = selectors.sessions_table(Store(HERE).cases("testbed"))
    assert selectors.select("latest", table) == nights[1:]
    for every in ("20260101:20260201", "?run != 'x'"):
        assert selectors.select(every, table) == nights
    for own in (new, f"?{CONFIRMS} == '{nights[1]}'"):
        assert selectors.select(own, table) == [new]


def night_with_references(more):
    """A night that missed one reference (at least 90 MB/s) and sessions that measured it again."""

    def session(number, value, where, **options):
        check = gate("bandwidth", value, 100.0, "MB/s")
        phase = None if check["outcome"] == "pass" else "performance"
        row = {"gates": [check], "result": check["outcome"], "fail_phase": phase, **where}
        return write_session(number, where=row, **options)

    write_session(0, labels=NIGHTLY)
    night = session(1, 50.0, {}, labels=NIGHTLY)
    for place, (again, options) in enumerate(more):
        given = {
            "labels": {"run": remeasuring.RUN, CONFIRMS: night},
            "started": FIRST + timedelta(days=1, hours=1 + place),
            "where": {},
            **options,
        }
        session(2 + place, again, **given)
    return night


def on(nodes):
    """Reached again on these nodes."""
    return [(99.0, {"where": {"nodelist": nodes}})]


GOOD = (99.0, {})
UNPROVEN = {"where": {"fail_phase": "sanity", "result": "fail", "evidence": "missing"}}
ELSEWHERE = "not measured again: session 00000003 measured it on"


@pytest.mark.parametrize(
    ("more", "status", "words"),
    [
        ([], 1, "1 missed, 0"),
        ([GOOD], 0, "1 missed (1 not seen again)"),
        ([(55.0, {}), GOOD], 1, "1 missed (1 seen twice)"),
        ([(99.0, UNPROVEN)], 1, "1 missed (1 not measured again)"),
        ([(99.0, UNPROVEN), GOOD], 0, "1 missed (1 not seen again)"),
        ([(99.0, {"condition": {"depth": "smoke"}})], 1, "1 missed (1 not measured again)"),
        ([(99.0, {"where": {"name": "Other"}})], 1, "1 missed (1 not measured again)"),
        ([(99.0, {"started": FIRST + timedelta(days=2, hours=6)})], 1, "30 h after it"),
        ([(99.0, {"labels": {CONFIRMS: "0" * 36}})], 1, "1 missed, 0"),
        # A slow port of one node is none of another, and the first result stands.
        (on("n3,n4"), 1, ELSEWHERE),
        (on("n1,n2,n3"), 1, ELSEWHERE),
        (on("n1"), 1, ELSEWHERE),
        (on(""), 1, ELSEWHERE),
        (on("n2, n1"), 0, "1 missed (1 not seen again)"),
        ([*on("n3,n4"), (55.0, {}), GOOD], 1, "1 missed (1 seen twice)"),
    ],
)
def test_the_gate_holds_against_a_night_what_was_missed_twice(more, status, words):
    night = night_with_references(more)
    assert words in said_of(night, status)


@pytest.mark.parametrize(("first", "outcome"), [(55.0, "seen twice"), (99.0, "not measured again")])
def test_a_withdrawn_session_that_measured_again_first_still_decides(first, outcome):
    """And what it said for the night is none any more."""
    night = night_with_references([(first, {}), GOOD])
    Store(HERE).withdraw("00000003", "a wrong cable")
    assert f"1 missed (1 {outcome})" in said_of(night, 1)


def test_a_second_job_that_cannot_be_read_is_not_passed_over():
    """It was missed twice, and the later job that reached it changes nothing."""
    night = night_with_references([(55.0, {}), GOOD])
    [first] = HERE.glob("cases/*/*/00000003*.parquet")
    started = pl.read_parquet(first)["started"][0]
    for path in list(HERE.rglob(first.name)):
        path.unlink()
    records.UnreadableSession(first.stem, started, ("testbed",), "it is cut off.").keep(HERE)
    said = said_of(night, 1)
    assert "1 missed, 0 without" in said and "session 00000003 cannot be read" in said


@pytest.mark.parametrize(("hours", "measured"), [(23, True), (30, False)])
def test_a_night_longer_than_a_day_is_not_measured_again_and_told_why(monkeypatch, hours, measured):
    """No budget is spent on what would confirm nothing."""
    tried = []

    def measure_again(cases, *_):
        tried.append(cases)
        return Remeasured(tuple(cases), 30.0, left=dict.fromkeys(cases, "no node is free"))

    monkeypatch.setattr(remeasuring, "measure_again", measure_again)
    gates = [gate("bandwidth", 50.0, 100.0, "MB/s")]
    missed = synthetic_session.case("mpich-wheels", end="performance", gates=gates)
    start = datetime.now(timezone.utc) - timedelta(hours=hours)
    session = session_of(missed, time_start_unix=start.timestamp())
    dataset.export_session(session, HERE)
    answer = confirm(session, 30.0)
    assert [len(cases) for cases in tried] == [1] * measured
    [problem] = answer.problems
    assert ("it starts 30 h after it; more than 24 h" in problem) is not measured


def test_a_night_keeps_what_was_slower_than_the_nights_before_unless_it_was_not_again(monkeypatch):
    """By the cases' names, for the next plan; nothing is known
    where nothing could be held against them.
    """
    slow = {"labels": NIGHTLY, "change": by(1.5)}
    write_sessions(15, labels=NIGHTLY)
    session = SimpleNamespace(systems=["testbed"], cases=(), started=FIRST)
    session.uuid = write_session(15, **slow)

    def slower(minutes):
        found = confirm(session, minutes).slower
        return None if found is None else len(found)

    def measured(cases, *_):
        return Remeasured(tuple(cases), 30.0)

    assert slower(0.0) == 1
    monkeypatch.setattr(remeasuring, "measure_again", measured)
    monkeypatch.setattr(confirmations, "lateness", lambda *_: "")
    again = {"labels": {"run": remeasuring.RUN, CONFIRMS: session.uuid}, "night": 15}
    second = write_session(16, change=by(1.5), **again)
    assert slower(30.0) == 1, "seen twice"
    for path in HERE.glob(f"*/*/*/{second}.parquet"):
        path.unlink()
    write_session(17, **again)
    assert slower(30.0) == 0
    session.uuid = write_session(18, repeats=1, **slow)
    assert slower(0.0) is None, "of too few repeats nothing is known"


def test_accept_says_that_a_night_of_the_candidate_was_measured_again():
    """It decides nothing: another decision called it, against other sessions."""
    baseline = before()
    candidate = write_session(5, **SLOW)
    first = accept.decide(Store(HERE), baseline, candidate)
    assert (first.decision, first.measured_again) == (REFUSED, ())
    labels = {"run": remeasuring.RUN, CONFIRMS: candidate}
    again = write_session(6, stacks=STACKS, labels=labels, night=5)
    write_session(7, stacks=STACKS, labels=labels, night=9)
    second = accept.decide(Store(HERE), baseline, candidate)
    assert (second.decision, second.measured_again) == (REFUSED, ((candidate, again),))
    [said] = acceptance_record.as_dict(second)["measured_again_before"]
    assert said == {"session": candidate, "by": again}
    both = accept.decide(Store(HERE), baseline, f"{candidate},{again}")
    assert both.measured_again == ()


def test_a_defect_while_measuring_again_is_a_problem_and_the_night_goes_on(monkeypatch, capsys):
    def broken(*_):
        raise KeyError("stack")

    monkeypatch.setattr(confirmed_night, "confirm", broken)
    night = nightly.Night("smoke", "smoke", [], print)
    nightly.confirm(night, Session({"uuid": "s"}, []))
    assert night.problems == [
        "not measured again because of a defect in mpibench (KeyError: 'stack'): report it"
    ]
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("value", "lower", "words"),
    [
        (0.33992, 0.34, "is 33.99 % of the line rate, must be at least 34 %"),
        (0.92147, 0.92149, "is 92.147 % of the line rate, must be at least 92.149 %"),
    ],
)
def test_what_misses_a_bound_never_reads_like_it(value, lower, words):
    row = {"stack": "s", "fabric": "f", "layer": "physics", "unit": "1", "busy": False}
    row |= {"metric": "PingPong.line_rate_fraction.0004194304", "upper": None}
    row |= {"value": value, "lower": lower}
    assert words in confirmations.MissedReference(row).text


def test_bounds_have_no_rounding_errors_here_and_in_reframe():
    importlib.import_module("reframe_tests.harness.cases.measured_test")
    reference = (1.0, -0.66, 0.01, "1")
    check = references.judge("m", "physics", 0.33992, reference, "1")
    assert (check.lower, check.upper) == sanity.reference_bounds(*reference[:3]) == (0.34, 1.01)

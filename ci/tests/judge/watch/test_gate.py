"""The gate: one session, its age, what it must hold, its
proof, its references, and what changed.
"""

import copy
import json
import re
from datetime import datetime, timedelta, timezone
from pathlib import Path

import msgspec
import pytest

from dataset_here import HERE, ask, write_session, write_sessions
from mpibench import answers
from mpibench.judge import gate
from mpibench.store import sessions
from mpibench.store.store import Store
from synthetic_session import SMALL_REPORT
from synthetic_verdicts import NIGHTLY, by

#: The sessions here are of January 2026; whoever asks about their age says so.
GATE = "gate --max-age 100000"


def last_cases():
    """Table of cases of the newest session."""
    return max(Path("cases").rglob("*.parquet"), key=lambda path: path.parent.name)


def of_bunch(row):
    """Leaves values to the first of several cases."""
    return row if row["pinning"] == "bunch" else None


#: A reference that was missed.
MISSED = {
    "metric": "PingPong.latency.8",
    "layer": "learned",
    "value": 9.0,
    "reference": 5.0,
    "lower": None,
    "upper": 6.0,
    "unit": "us",
    "outcome": "fail",
}


NO_REFERENCE = {**MISSED, "reference": None, "upper": None, "outcome": "no reference"}


def test_one_slow_night_fails_against_the_nights_before():
    """Drift waits until a change has lasted."""
    write_sessions([1.0] * 8 + [by(1.12, "PingPong")])
    said = ask(GATE)
    counts = said.out.splitlines()[2]
    assert said.status == 1
    assert "0 changes for the worse in 9 nights of 9 (too few nights: 9 of 13); " in counts
    assert "; 21 of 21 metrics compared with 8 sessions before: 11 slower, 0 faster;" in counts
    for history, status, words in (
        ("none", 0, "; not compared with sessions before; "),
        ("20260107:20260201", 1, "compared with 6 sessions before"),
    ):
        said = ask(GATE, "--history", history)
        assert said.status == status and words in said.out


def test_without_a_history_the_gate_says_what_it_cannot_know():
    """One night against another is no ground to fail for a small
    loss, nor are those of another version.
    """
    write_sessions([1.0, 1.12])
    status, out, _ = ask(GATE)
    assert status == 0
    assert out.startswith("PASS: ") and "no value was judged: " in out.splitlines()[0]
    assert (
        "nothing was compared with 1 session before; 21 metrics not judged: too few nights" in out
    )
    write_sessions([1.05, 0.97], first=2)
    write_sessions(6, first=4, mpi_version="4.1.6")
    write_sessions([1.3], first=10)
    said = ask(GATE)
    assert said.status == 3
    assert "not used: 6 sessions with MPI version 4.1.6" in said.out


def test_where_no_session_is_named_the_last_whole_night_is_judged():
    """And nobody's newer run of a few cases."""
    night = write_sessions(2, labels=NIGHTLY)
    for number, labels in ((2, None), (3, NIGHTLY)):
        write_session(number, labels=labels, command_line="reframe -r -n ImbP")
    said = ask(GATE)
    assert said.status == 0 and said.out.startswith(f"PASS: testbed, session {night[:8]}")


def test_values_without_their_cases_are_red():
    """Nothing else says that the session exists: the one before it would stand in for it."""
    newest = write_sessions(2)
    path = last_cases()
    path.unlink()
    for command in ("gate", f"gate --session {newest}", "gate --only=completeness", "drift"):
        said = ask(command)
        assert said.status == 2 and f"{path} is gone, but " in said.err


def test_what_an_interruption_kept_from_running_is_one_line_and_no_failure():
    write_session(0, stacks=("a", "b", "c"))
    stopped = {"result": "abort", "evidence": "missing", "reason": "aborted due to ForceExitError"}
    others = [{"stack": stack, **stopped} for stack in ("b", "c")]
    write_session(1, where=[{"stack": "a"}, *others])
    said = ask(GATE)
    lines = said.out.splitlines()
    assert said.status == 1 and "1 of 3 cases proven" in lines[1]
    assert "interrupted: 2 of 3 cases did not run (SIGTERM or SIGHUP)" in lines
    assert not [line for line in lines if line.startswith("evidence:")]
    said = ask("gate --only=completeness")
    assert said.status == 1 and "; interrupted (SIGTERM or SIGHUP); last proven" in said.out


def test_a_day_that_cannot_be_read_hides_no_session():
    """Another user's, say, of whom the newest night is; a ring of
    links cannot be read by root either.
    """
    write_sessions(2)
    Path("refused").mkdir()
    for folder in (last_cases().parent, Path("refused")):
        folder.rename("away")
        folder.symlink_to(folder)
        said = ask(GATE)
        assert said.status == 2 and f"{folder} cannot be read" in said.err
        folder.unlink()
        Path("away").rename(folder)


def test_a_night_whose_history_is_to_come_does_not_pass():
    """A clock set back puts a slow night before the nights it would be held against."""
    now = datetime.now(timezone.utc)
    write_session(0, started=now - timedelta(days=1))
    chosen = write_session(1, started=now - timedelta(hours=1), change=by(1.3))
    later = write_session(2, started=now + timedelta(days=2))
    said = ask(f"gate --session {chosen}")
    assert said.status == 2 and "which is in the future: correct the clock" in said.err
    Store(HERE).withdraw(later, "its clock")
    assert ask(f"gate --session {chosen}").status == 0


def test_references_that_have_gone_are_reported():
    """A references.yaml that is no longer there makes nothing
    fail, and must not look as if it held.
    """
    held = {**MISSED, "outcome": "pass"}
    write_session(0, where={"gates": [held, {**held, "metric": "b"}]})
    gates = [held, {**NO_REFERENCE, "metric": "b"}]
    for number in (1, 2):
        write_session(number, where={"gates": gates})
        status, out, _ = ask(GATE)
        gone = "1 reference (references.yaml) of session 00000001 no longer there"
        assert status == 0 and (gone in out.splitlines()[0]) is (number == 1)


def test_the_system_is_that_of_the_session():
    """Another system in the dataset, however new or damaged, changes
    nothing for a session given by its id.
    """
    for first, system in ((0, "mine"), (2, "other")):
        write_sessions(2, first=first, system=system)
    assert ask(GATE).out.startswith("PASS: other, session 00000004")
    for path in HERE.glob("*/system=other/*/*.parquet"):
        path.write_bytes(path.read_bytes()[:-40])
    said = ask(f"{GATE} --session 00000002")
    assert said.status == 0 and said.out.startswith("PASS: mine, session 00000002")
    said = ask(GATE)
    assert said.status == 2 and "truncated" in said.err


def test_a_damaged_older_session_is_named_and_stops_until_it_is_removed():
    write_sessions(3)
    [path] = HERE.glob("samples/*/*/00000002-*.parquet")
    path.write_bytes(path.read_bytes()[:-40])
    status, out, err = ask(f"{GATE} --json")
    assert (status, out) == (2, "") and f"{path} is truncated" in err
    for one in list(HERE.rglob(path.name)):
        one.unlink()
    said = ask(GATE)
    assert said.status == 0 and "in 2 nights of 2" in said.out


FORGED = "up\x1b[2J\r\nPASS: all is well"


def test_what_is_stored_forges_no_line_of_an_answer():
    """A label and the fields of a case, from the database's report
    and in a dataset that others wrote.
    """
    report = copy.deepcopy(SMALL_REPORT)
    report["session_info"]["run"] = FORGED
    (entry,) = report["runs"][0]["testcases"]
    entry.update(dict.fromkeys(("partition", "environ", "name", "fail_reason"), FORGED))
    entry.update(job_nodelist=[FORGED], condition={"stack": FORGED})
    Path("report.json").write_text(json.dumps(report))
    session = sessions.read_report(Path("report.json"))
    (case,) = session.cases
    texts = [session.labels["run"], case.partition, case.stack, case.name, case.nodelist]
    assert texts == ["up PASS: all is well"] * 5
    given = {"labels": {"run": FORGED}, "stacks": [FORGED], "evidence": "missing"}
    for number, field in enumerate(("reason", "partition")):
        write_session(number, where={field: FORGED}, **given)
    accept = "accept --baseline latest~1 --out out"
    for command in ("gate", "gate --only=completeness", accept):
        status, out, err = ask(command)
        assert status in (1, 2), command
        said = out + err
        assert said and "\x1b" not in said and "\r" not in said, command
        assert not any(line.startswith("PASS") for line in said.splitlines()), command


@pytest.mark.parametrize("partial", ["", "--partial"])
def test_fewer_repeats_than_the_nights_before_are_a_hole(partial):
    """With one repeat nothing is held against them, and everything may be
    twice as slow; also in the second such night. More repeats once are no new normal.
    """
    write_sessions(7, labels=NIGHTLY)
    write_session(7, labels=NIGHTLY, repeats=10)
    write_session(8, labels=NIGHTLY)
    assert ask(GATE).status == 0
    cut = f"reframe -r {'-n ImbPointToPoint' if partial else ''} -S repeats=1"
    for number in (9, 10):
        slow = {"change": by(2.0), "repeats": 1, "command_line": cut}
        name = write_session(number, labels=NIGHTLY, **slow)
        said = ask(f"{GATE} --session {name} {partial}")
        assert said.status == 1
        assert "PingPong (1 of 5 repeats), Uniband (1 of 5 repeats)" in said.out


def test_many_problems_of_one_kind_hide_none_of_another():
    write_sessions([1.0] * 20 + [1.3] * 2, noise=0.01)
    worse = {**MISSED, "metric": "b", "value": 12.0}
    missed = {"result": "fail", "fail_phase": "performance", "gates": [MISSED, worse, NO_REFERENCE]}
    broken = [
        {
            "result": "fail",
            "fail_phase": "sanity",
            "evidence": "contradicted" if number == 29 else "missing",
            "reason": f"number {number}",
            "samples": 0,
            "pinning": "none",
        }
        for number in range(30)
    ]
    where = [missed, *broken]
    write_session(22, noise=0.01, change=by(1.3), where=where, edit=of_bunch)
    said = ask("gate")
    lines = said.out.splitlines()
    assert said.status == 1 and len(lines) == gate.MOST_LINES
    assert "1 of 31 cases proven, 1 measured;" in lines[1]
    assert lines[2].startswith("0 references held, 2 missed, 1 without")
    assert lines[0].startswith("FAIL: testbed, session 00000017: the session is ")
    kinds = [line.partition(":")[0] for line in lines[3:10]]
    assert kinds == ["age", "evidence", "evidence", "reference", "history", "drift", "also"]
    assert lines[4].endswith(": number 29") and lines[5].endswith(": number 0")
    assert " b is 12 us, must be at most 6 us (references.yaml)" in lines[6]
    assert re.match(r"\.\.\. and \d+ more \(28 evidence, 1 reference, 1 history\)", lines[10])


def test_all_kinds_of_problems_are_as_the_schema_says():
    both = {"stacks": ("a", "b"), "noise": 0.01}
    where = [{"stack": name, "gates": [MISSED, {**MISSED, "value": None}]} for name in "ab"]
    write_sessions(20, **both)
    write_sessions([1.3] * 2, first=20, where=where, **both)
    where[1] = {"stack": "b", "evidence": "missing", "reason": "up\x1b[2J"}
    write_sessions([1.3], first=22, noise=0.01, where=where)
    said = ask("gate --json")
    answer = json.loads(said.out)
    msgspec.convert(answer, answers.Gate)
    assert said.status == 1
    assert answer["decision"] == "FAIL" and " more (" in answer["finding"]
    problems = answer["problems"]
    assert all(problems.values()), problems
    (old,) = problems["age"]
    assert old["hours"] == answer["counts"]["age"]["hours"] > old["most_hours"] == 36
    assert problems["evidence"][0]["stack"] == "b"
    assert [one["value"] for one in problems["reference"]] == [None, 9]
    slow = problems["history"][0]
    assert (slow["sessions"], slow["fabric"], slow["slower_again"]) == ([22, 22], "eth1g", None)
    change = problems["drift"][0]
    assert change["since"] == "2026-01-25" and 0.25 < change["slower"] < 0.35
    assert {row["stack"] for row in change["metrics"]} == {change["stack"]}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"evidence": "missing"}, "passed, but no proof of its condition was stored"),
        ({"evidence": None, "result": "fail_deps", "reason": "a dependency failed"}, "failed"),
    ],
)
def test_a_case_without_proof_fails_the_gate_as_it_fails_the_report(changed, said):
    write_session(0, stacks=("a", "b"))
    write_session(1, where=[{"stack": "a"}, {"stack": "b", **changed}])
    status, out, _ = ask(GATE)
    lines = out.splitlines()
    assert status == 1
    assert [line for line in lines if line.startswith("evidence: ImbPointToPoint") and said in line]


def test_neither_an_old_session_nor_one_of_tomorrow_is_an_answer():
    now = datetime.now(timezone.utc)
    write_session(0)
    write_session(1, started=now - timedelta(hours=35))
    assert ask("gate").status == 0
    assert ask("gate --max-age 12").status == 1
    path = Path("site_configs/testbed/policy.yaml")
    path.parent.mkdir(parents=True)
    path.write_text("max_age_hours: 30\n")
    [problem] = gate.decide(Store(HERE), root=HERE).problems.age
    assert problem.most_hours == 30
    for minutes, status in ((5, 0), (1200, 1)):
        write_session(minutes, started=now + timedelta(minutes=minutes))
        assert ask("gate").status == status


def test_a_verdict_is_of_what_was_written_since_the_last_one():
    """One command measures, judges, measures again and judges again."""
    write_session(0)
    store = Store(HERE)
    for number in range(1, 4):
        last = write_session(number)
        store.reread()
        assert gate.decide(store, "testbed", max_age_hours=1e6).session == last

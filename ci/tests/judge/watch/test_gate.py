"""The gate: one session, its age, what it must hold, its
proof, its references, and what changed.
"""

from __future__ import annotations

import copy
import json
import re
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mpibench import answers, cli
from mpibench.judge import gate
from mpibench.store import sessions
from mpibench.store.store import Store
from synthetic_session import SMALL_REPORT
from synthetic_verdicts import FIRST, SIZES, by, write_session

#: The sessions here are of January 2026; whoever asks about their age says so.
OLD = ("--max-age", "100000")


def run(folder: Path, *words: str, command: str = "gate") -> int:
    return cli.main([*command.split(), "--dataset-only", "--dataset", str(folder), *words])


def the_night_before(folder: Path, **options: Any) -> None:
    """Something to hold the first session of a test against."""
    write_session(folder, 500, **{"started": FIRST - timedelta(days=1), **options})


def last_cases(folder: Path) -> Path:
    """Table of cases of the newest session."""
    return max((folder / "cases").rglob("*.parquet"), key=lambda path: path.parent.name)


def slower(*_: object) -> float:
    return 1.3


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


def write_nights(folder: Path, count: int, **options: Any) -> None:
    for number in range(count):
        write_session(folder, number, **options)


def test_one_slow_night_fails_against_the_nights_before(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Drift waits until a change has lasted."""
    write_nights(tmp_path, 8)
    write_session(tmp_path, 8, change=by(1.12, "PingPong"))
    assert run(tmp_path, *OLD) == 1
    counts = capsys.readouterr().out.splitlines()[2]
    assert "0 changes for the worse in 9 nights of 9 (too few nights: 9 of 13); " in counts
    assert "; 21 of 21 metrics compared with 8 sessions before: 11 slower, 0 faster;" in counts
    assert run(tmp_path, "--history", "none", *OLD) == 0
    assert "; not compared with sessions before; " in capsys.readouterr().out
    assert run(tmp_path, "--history", "20260107:20260201", *OLD) == 1
    assert "compared with 6 sessions before" in capsys.readouterr().out


def test_nights_that_differ_anyway_fail_nothing(tmp_path: Path) -> None:
    """Few of them do not show how much, and more do."""
    factors = (1.0, 1.05, 0.97, 1.02, 0.95, 1.04, 0.98, 1.0, 1.05, 0.96) * 2
    for number, factor in enumerate(factors):
        write_session(tmp_path, number, change=by(factor))
        if number == 8:
            assert run(tmp_path, *OLD) == 3
    assert run(tmp_path, *OLD) == 0


def test_without_a_history_the_gate_says_what_it_cannot_know(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One night against another is no ground to fail for a small
    loss, nor are those of another version.
    """
    write_session(tmp_path, 0)
    write_session(tmp_path, 1, change=by(1.12))
    assert run(tmp_path, *OLD) == 0
    out = capsys.readouterr().out
    assert out.startswith("PASS: ") and "no value was judged: " in out.splitlines()[0]
    assert (
        "nothing was compared with 1 session before; 21 metrics not judged: too few nights" in out
    )
    for number, factor in ((2, 1.05), (3, 0.97)):
        write_session(tmp_path, number, change=by(factor))
    for number in range(4, 10):
        write_session(tmp_path, number, mpi_version="4.1.6")
    write_session(tmp_path, 10, change=by(1.3))
    assert run(tmp_path, *OLD) == 3
    assert "not used: 6 sessions with MPI version 4.1.6" in capsys.readouterr().out


def test_where_no_session_is_named_the_last_whole_night_is_judged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And nobody's newer run of a few cases."""
    nightly = {"run": "nightly"}
    the_night_before(tmp_path, labels=nightly)
    night = write_session(tmp_path, 0, labels=nightly)
    for number, labels in ((1, None), (2, nightly)):
        write_session(tmp_path, number, labels=labels, command_line="reframe -r -n ImbP")
    assert run(tmp_path, *OLD) == 0
    assert capsys.readouterr().out.startswith(f"PASS: testbed, session {night[:8]}")


def test_what_failed_and_what_was_missed_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A case that only places its ranks is proven and measures nothing."""
    failed = {"result": "fail", "fail_phase": "performance", "gates": [MISSED, NO_REFERENCE]}
    wrong = {"evidence": "contradicted", "reason": "went over shm", "pinning": "none"}
    places = {"samples": 0, "pinning": "scatter", "group": "placement"}
    where = [failed, {**failed, **wrong, "fail_phase": "sanity", "gates": []}, places]
    the_night_before(tmp_path)
    write_session(
        tmp_path, 0, where=where, edit=lambda row: row if row["pinning"] == "bunch" else None
    )
    assert run(tmp_path, *OLD) == 1
    lines = capsys.readouterr().out.splitlines()
    assert "2 of 3 cases proven, 1 measured, 1 of tests that time nothing;" in lines[1]
    assert lines[2].startswith("0 references held, 1 missed, 1 without")
    assert lines[3].startswith("next: mpibench report --session ")
    assert lines[4].startswith("evidence: ") and lines[4].endswith(": went over shm")
    assert lines[5].endswith(
        "PingPong latency at 8 B is 9 us, must be at most 6 us (references.yaml)"
    )


def test_the_level_and_what_it_asks_of_the_link_are_told(tmp_path: Path) -> None:
    """A link at 60 % is enough for some levels."""
    share = {"metric": "Uniband.line_rate_fraction.4194304", "layer": "physics", "unit": "1"}
    bounds = {"value": 0.6, "lower": 0.32, "upper": None, "outcome": "pass"}
    checked = {"gates": [{**MISSED, **share, **bounds}]}
    for number in range(2):
        write_session(tmp_path, number, where=checked, condition={"depth": "smoke"})
    answer = gate.decide(Store(tmp_path), max_age_hours=1e6)
    told = ", at level smoke: at least 32 % of the line rate asked for"
    assert answer.counts.reference.text.endswith(told)


def test_values_without_their_cases_are_red(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing else says that the session exists: the one before it would stand in for it."""
    the_night_before(tmp_path)
    newest = write_session(tmp_path, 0)
    path = last_cases(tmp_path)
    path.unlink()
    for command in ("gate", f"gate --session {newest}", "gate --only=completeness", "drift"):
        assert run(tmp_path, command=command) == 2, command
        assert f"{path} is gone, but " in capsys.readouterr().err


def test_what_an_interruption_kept_from_running_is_one_line_and_no_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    the_night_before(tmp_path, stacks=("a", "b", "c"))
    stopped = {"result": "abort", "evidence": "missing", "reason": "aborted due to ForceExitError"}
    others = [{"stack": stack, **stopped} for stack in ("b", "c")]
    write_session(tmp_path, 0, where=[{"stack": "a"}, *others])
    assert run(tmp_path, *OLD) == 1
    lines = capsys.readouterr().out.splitlines()
    assert "1 of 3 cases proven" in lines[1]
    assert "interrupted: 2 of 3 cases did not run (SIGTERM or SIGHUP)" in lines
    assert not [line for line in lines if line.startswith("evidence:")]
    assert run(tmp_path, command="gate --only=completeness") == 1
    assert "; interrupted (SIGTERM or SIGHUP); last proven" in capsys.readouterr().out


def test_a_day_that_cannot_be_read_hides_no_session(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another user's, say, of whom the newest night is; a ring of
    links cannot be read by root either.
    """
    write_nights(tmp_path, 2)
    (tmp_path / "refused").mkdir()
    for folder in (last_cases(tmp_path).parent, tmp_path / "refused"):
        folder.rename(tmp_path / "away")
        folder.symlink_to(folder)
        assert run(tmp_path, *OLD) == 2
        assert f"{folder} cannot be read" in capsys.readouterr().err
        folder.unlink()
        (tmp_path / "away").rename(folder)


def test_a_night_whose_history_is_to_come_does_not_pass(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A clock set back puts a slow night before the nights it would be held against."""
    now = datetime.now(timezone.utc)
    the_night_before(tmp_path, started=now - timedelta(days=1))
    chosen = write_session(tmp_path, 0, started=now - timedelta(hours=1), change=slower)
    later = write_session(tmp_path, 1, started=now + timedelta(days=2))
    assert run(tmp_path, "--session", chosen) == 2
    assert "which is in the future: correct the clock" in capsys.readouterr().err
    Store(tmp_path).withdraw(later, "its clock")
    assert run(tmp_path, "--session", chosen) == 0


def test_references_that_have_gone_are_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A references.yaml that is no longer there makes nothing
    fail, and must not look as if it held.
    """
    held = {**MISSED, "outcome": "pass"}
    write_session(tmp_path, 0, where={"gates": [held, {**held, "metric": "b"}]})
    for number in (1, 2):
        gates = [held, {**NO_REFERENCE, "metric": "b"}]
        write_session(tmp_path, number, where={"gates": gates})
        assert run(tmp_path, *OLD) == 0
        head = capsys.readouterr().out.splitlines()[0]
        said = "1 reference (references.yaml) of session 00000001 no longer there" in head
        assert said is (number == 1)


def test_the_system_is_that_of_the_session(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another system in the dataset, however new or damaged, changes
    nothing for a session given by its id.
    """
    for number, system in enumerate(("mine", "other")):
        the_night_before(tmp_path, system=system)
        write_session(tmp_path, number, system=system)
    assert run(tmp_path, *OLD) == 0
    assert capsys.readouterr().out.startswith("PASS: other, session 00000002")
    for path in tmp_path.glob("*/system=other/*/*.parquet"):
        path.write_bytes(path.read_bytes()[:-40])
    assert run(tmp_path, "--session", "00000001", *OLD) == 0
    assert capsys.readouterr().out.startswith("PASS: mine, session 00000001")
    assert run(tmp_path, *OLD) == 2
    assert "truncated" in capsys.readouterr().err


def test_a_damaged_older_session_is_named_and_stops_until_it_is_removed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_nights(tmp_path, 3)
    [path] = tmp_path.glob("samples/*/*/00000002-*.parquet")
    path.write_bytes(path.read_bytes()[:-40])
    assert run(tmp_path, *OLD) == 2
    assert f"{path} is truncated" in capsys.readouterr().err
    for one in list(tmp_path.rglob(path.name)):
        one.unlink()
    assert run(tmp_path, *OLD) == 0
    assert "in 2 nights of 2" in capsys.readouterr().out


FORGED = "up\x1b[2J\r\nPASS: all is well"


def test_what_is_stored_forges_no_line_of_an_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A label and the fields of a case, from the database's report
    and in a dataset that others wrote.
    """
    report = copy.deepcopy(SMALL_REPORT)
    report["session_info"]["run"] = FORGED
    (entry,) = report["runs"][0]["testcases"]
    entry.update(dict.fromkeys(("partition", "environ", "name", "fail_reason"), FORGED))
    entry.update(job_nodelist=[FORGED], condition={"stack": FORGED})
    (tmp_path / "report.json").write_text(json.dumps(report))
    session = sessions.read_report(tmp_path / "report.json")
    (case,) = session.cases
    texts = [session.labels["run"], case.partition, case.stack, case.name, case.nodelist]
    assert texts == ["up PASS: all is well"] * 5
    for number, field in enumerate(("reason", "partition")):
        write_session(
            tmp_path,
            number,
            labels={"run": FORGED},
            stacks=[FORGED],
            evidence="missing",
            where={field: FORGED},
        )
    accept = f"accept --baseline latest~1 --out {tmp_path}/out"
    for command in ("gate", "gate --only=completeness", accept):
        assert run(tmp_path, command=command) in (1, 2), command
        said = "".join(capsys.readouterr())
        assert said and "\x1b" not in said and "\r" not in said, command
        assert not any(line.startswith("PASS") for line in said.splitlines()), command


@pytest.mark.parametrize("partial", ["", "--partial"])
def test_fewer_repeats_than_the_nights_before_are_a_hole(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], partial: str
) -> None:
    """With one repeat nothing is held against them, and everything may be
    twice as slow; also in the second such night.
    """
    write_nights(tmp_path, 8, labels={"run": "nightly"})
    cut = f"reframe -r {'-n ImbPointToPoint' if partial else ''} -S repeats=1"
    for number in (8, 9):
        slow = {"change": by(2.0), "repeats": 1, "command_line": cut}
        name = write_session(tmp_path, number, labels={"run": "nightly"}, **slow)
        assert run(tmp_path, "--session", name, *partial.split(), *OLD) == 1
        assert "PingPong (1 of 5 repeats), Uniband (1 of 5 repeats)" in capsys.readouterr().out


def test_more_repeats_once_are_no_new_normal(tmp_path: Path) -> None:
    for number in range(8):
        name = write_session(
            tmp_path, number, labels={"run": "nightly"}, repeats=10 if number == 6 else 5
        )
    assert run(tmp_path, "--session", name, *OLD) == 0


def test_many_problems_of_one_kind_hide_none_of_another(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_nights(tmp_path, 20, noise=0.01)
    worse = {**MISSED, "metric": "b", "value": 12.0}
    missed = {"result": "fail", "fail_phase": "performance", "gates": [MISSED, worse]}
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
    for number in range(20, 23):
        where = [missed, *broken] if number == 22 else ()
        write_session(
            tmp_path,
            number,
            noise=0.01,
            change=slower,
            where=where,
            edit=lambda row: row if row["pinning"] == "bunch" else None,
        )
    assert run(tmp_path) == 1
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == gate.MOST_LINES
    assert lines[0].startswith("FAIL: testbed, session 00000017: the session is ")
    kinds = [line.partition(":")[0] for line in lines[3:10]]
    assert kinds == ["age", "evidence", "evidence", "reference", "history", "drift", "also"]
    assert lines[4].endswith(": number 29") and lines[5].endswith(": number 0")
    assert " b is 12 us, must be at most 6 us (references.yaml)" in lines[6]
    assert re.match(r"\.\.\. and \d+ more \(28 evidence, 1 reference, 1 history\)", lines[10])


def as_json(
    folder: Path, capsys: pytest.CaptureFixture[str], status: int, *words: str
) -> dict[str, Any]:
    """The answer of ``gate --json``, which is nothing else on
    standard output and as its schema says.
    """
    assert run(folder, "--json", *words) == status
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    msgspec.convert(answer, answers.Gate)
    return answer


def test_the_answer_for_programs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(8):
        name = write_session(tmp_path, number, labels={"run": "nightly"})
    answer = as_json(tmp_path, capsys, 0, *OLD)
    assert (answer["decision"], answer["finding"], answer["session"]) == ("PASS", "", name)
    assert answer["problems"] == {kind: [] for kind in gate.KINDS}
    write_session(tmp_path, 8, labels={"run": "nightly"}, change=by(1.12, "PingPong"))
    answer = as_json(tmp_path, capsys, 1)
    assert answer["decision"] == "FAIL" and " and 1 more (1 history)" in answer["finding"]
    (old,) = answer["problems"]["age"]
    assert old["hours"] == answer["counts"]["age"]["hours"] > old["most_hours"] == 36
    (slow,) = answer["problems"]["history"]
    assert 0.1 < slow["slower"] < 0.14 and slow["slower_again"] is None
    assert (slow["sessions"], slow["fabric"], slow["benchmark"]) == ([8, 8], "eth1g", "PingPong")
    assert len(slow["metrics"]) == len(SIZES)


def test_all_kinds_of_problems_are_as_the_schema_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_nights(tmp_path, 20, stacks=("a", "b"), noise=0.01)
    for number in range(20, 23):
        gates = {"gates": [MISSED, {**MISSED, "value": None}]}
        lost = {"evidence": "missing", "reason": "up\x1b[2J"} if number == 22 else {}
        where = [{"stack": "a", **gates}, {"stack": "b", **lost}]
        write_session(tmp_path, number, noise=0.01, change=slower, where=where)
    problems = as_json(tmp_path, capsys, 1)["problems"]
    assert all(problems.values()), problems
    assert problems["evidence"][0]["stack"] == "b"
    assert [one["value"] for one in problems["reference"]] == [None, 9]
    change = problems["drift"][0]
    assert change["since"] == "2026-01-25" and 0.25 < change["slower"] < 0.35
    assert {row["stack"] for row in change["metrics"]} == {change["stack"]}


def test_an_answer_for_programs_is_none_where_nothing_was_judged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, "--json") == 2
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"evidence": "missing"}, "passed, but no proof of its condition was stored"),
        ({"evidence": None, "result": "fail_deps", "reason": "a dependency failed"}, "failed"),
    ],
)
def test_a_case_without_proof_fails_the_gate_as_it_fails_the_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], changed: dict[str, Any], said: str
) -> None:
    the_night_before(tmp_path, stacks=("a", "b"))
    write_session(tmp_path, 0, where=[{"stack": "a"}, {"stack": "b", **changed}])
    assert run(tmp_path, *OLD) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("evidence: ImbPointToPoint") and said in line]


def test_neither_an_old_session_nor_one_of_tomorrow_is_an_answer(tmp_path: Path) -> None:
    now = datetime.now(timezone.utc)
    the_night_before(tmp_path)
    write_session(tmp_path, 0, started=now - timedelta(hours=35))
    assert run(tmp_path) == 0
    assert run(tmp_path, "--max-age", "12") == 1
    path = tmp_path / "site_configs" / "testbed" / "policy.yaml"
    path.parent.mkdir(parents=True)
    path.write_text("max_age_hours: 30\n")
    [problem] = gate.decide(Store(tmp_path), root=tmp_path).problems.age
    assert problem.most_hours == 30
    write_session(tmp_path, 1, started=now + timedelta(minutes=5))
    assert run(tmp_path) == 0
    write_session(tmp_path, 2, started=now + timedelta(hours=20))
    assert run(tmp_path) == 1


def test_a_verdict_is_of_what_was_written_since_the_last_one(tmp_path: Path) -> None:
    """One command measures, judges, measures again and judges again."""
    write_nights(tmp_path, 2)
    store = Store(tmp_path)
    judged = []
    for number in (2, 3):
        judged.append(gate.decide(store, "testbed", max_age_hours=1e6).session)
        last = write_session(tmp_path, number)
        store.reread()
    assert gate.decide(store, "testbed", max_age_hours=1e6).session == last
    assert len({*judged, last}) == 3

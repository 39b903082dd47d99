"""The gate: one session, its age, what it must hold, its proof, its references, and what changed."""

from __future__ import annotations

import copy
import json
import re
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import msgspec
import polars as pl
import pytest

import documentation
from mpibench import answers, cli
from mpibench.judge import gate
from mpibench.store import sessions
from mpibench.store.dataset_layout import write_file
from mpibench.store.store import Store
from refusals import refused_as
from synthetic_report import SMALL_REPORT
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


def test_a_quiet_session_passes_and_says_what_that_rests_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(8):
        name = write_session(tmp_path, number, labels={"run": "nightly"})
    assert run(tmp_path, "--session", name, *OLD) == 0
    head, more = capsys.readouterr().out.splitlines()
    assert head.startswith(f"PASS: testbed, session {name[:8]} (run=nightly, 2026-01-12 02:00 UTC, ")
    assert "1 of 1 cases proven, 1 measured; 2 of 2 expected there (7 earlier sessions of its label" in head
    assert more.startswith(
        "0 references held, 0 missed, 0 without; 0 changes for the worse in 8 nights of 8 (too few nights: 8 of 13); "
    )
    assert more.endswith("; sessions that could not be read: none")


def test_a_change_for_the_worse_fails_in_at_most_ten_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(24):
        write_session(tmp_path, number, stacks=("a", "b"), noise=0.01, change=slower if number > 19 else lambda *_: 1.0)
    assert run(tmp_path, *OLD) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("FAIL: testbed")
    assert [line for line in lines[3:] if line.startswith("drift: since 25 Jan 2026")]
    assert len(lines) <= 10


def test_one_slow_night_fails_against_the_nights_before(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Drift waits until a change has lasted."""
    for number in range(8):
        write_session(tmp_path, number)
    write_session(tmp_path, 8, change=lambda benchmark, *_: 1.12 if benchmark == "PingPong" else 1.0)
    assert run(tmp_path, *OLD) == 1
    lines = capsys.readouterr().out.splitlines()
    assert "0 changes for the worse in 9 nights of 9 (too few nights: 9 of 13); " in lines[2]
    assert "; 21 of 21 metrics held against 8 sessions before: 11 slower, 0 faster;" in lines[2]
    assert lines[3].startswith("history: openmpi-spack on node, eth1g, 2 x 1, bunch: PingPong at 0 B to 4 MiB is 1")
    assert lines[3].endswith("11 metrics, held against 8 sessions before")
    assert len(lines) == 4
    assert run(tmp_path, "--history", "none", *OLD) == 0
    assert "; not held against sessions before; " in capsys.readouterr().out


def test_nights_that_differ_anyway_fail_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Few of them do not show how much, and more do."""
    factors = (1.0, 1.05, 0.97, 1.02, 0.95, 1.04, 0.98, 1.0, 1.05, 0.96) * 2
    for number, factor in enumerate(factors):
        write_session(tmp_path, number, change=by(factor))
        if number == 8:
            assert run(tmp_path, *OLD) == 3
            assert capsys.readouterr().out.startswith("NOT JUDGED: ")
    assert run(tmp_path, *OLD) == 0
    assert " metrics held against 19 sessions before: 0 slower, 0 faster" in capsys.readouterr().out


def test_without_a_history_the_gate_says_what_it_cannot_know(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One night against another is no ground to fail for a small loss, nor are those of another version."""
    write_session(tmp_path, 0)
    write_session(tmp_path, 1, change=lambda *_: 1.12)
    assert run(tmp_path, *OLD) == 0
    out = capsys.readouterr().out
    assert out.startswith("PASS: ") and "no value was judged: " in out.splitlines()[0]
    assert "nothing judged against 1 session before; 21 metrics not judged: too few nights" in out
    assert "note: history of openmpi-spack 5.0.10 on node, eth1g: 1 session; 5 are needed to know how much nights differ" in out
    for number, factor in ((2, 1.05), (3, 0.97)):
        write_session(tmp_path, number, change=lambda *_, factor=factor: factor)
    for number in range(4, 10):
        write_session(tmp_path, number, mpi_version="4.1.6")
    write_session(tmp_path, 10, change=lambda *_: 1.3)
    assert run(tmp_path, *OLD) == 3
    out = capsys.readouterr().out
    assert (
        "eth1g: 4 sessions on 4 days, 2026-01-05 to 2026-01-08; 5 are needed to know how much nights differ; not used: " in out
    )
    assert "not used: 6 sessions with MPI version 4.1.6" in out


def test_a_busy_machine_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(7):
        write_session(tmp_path, number, condition={"lost_cores": True} if number == 6 else None)
    assert run(tmp_path, *OLD) == 0
    assert (
        "note: In 1 of 1 case ranks often lost their core to other programs: the machine was busy\n" in capsys.readouterr().out
    )


def test_the_gates_history_can_be_limited(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(9):
        write_session(tmp_path, number)
    assert run(tmp_path, "--history", "20260108:20260201", *OLD) == 0
    assert "held against 5 sessions before" in capsys.readouterr().out
    assert run(tmp_path, "--history", "rubbish", *OLD) == 2


def test_a_session_is_held_against_its_like_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(12):
        write_session(tmp_path, number, labels={"run": "nightly", "ci_job": str(number)})
    the_night_before(tmp_path, labels={"run": "smoke"}, sizes=(8,), change=lambda *_: 2.0)
    write_session(tmp_path, 12, labels={"run": "smoke"}, sizes=(8,), change=lambda *_: 2.0)
    assert run(tmp_path, *OLD) == 0
    assert "in 2 nights of 2" in capsys.readouterr().out
    write_session(tmp_path, 13, labels={"run": "nightly"})
    assert run(tmp_path, *OLD) == 0
    assert "of 13" in capsys.readouterr().out


def test_what_failed_and_what_was_missed_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    the_night_before(tmp_path)
    write_session(tmp_path, 0)
    path = last_cases(tmp_path)
    table = pl.read_parquet(path)
    bound = {"metric": "PingPong.latency.8", "layer": "learned", "value": 9.0, "reference": 5.0, "lower": None, "upper": 6.0}
    gates = [{**bound, "unit": "us", "outcome": "fail"}, {**bound, "upper": None, "unit": "us", "outcome": "no reference"}]
    missed = table.with_columns(gates=pl.Series([gates], dtype=table.schema["gates"]), result=pl.lit("fail"))
    broken = table.with_columns(
        case=pl.lit("other"),
        result=pl.lit("fail"),
        fail_phase=pl.lit("sanity"),
        evidence=pl.lit("contradicted"),
        reason=pl.lit("asked for lo, went over shm"),
    )
    write_file(path, pl.concat([missed.with_columns(fail_phase=pl.lit("performance")), broken]))
    assert run(tmp_path, *OLD) == 1
    lines = capsys.readouterr().out.splitlines()
    assert "1 of 2 cases proven, 1 measured" in lines[1]
    assert lines[2].startswith("0 references held, 1 missed, 1 without")
    assert lines[3] == "evidence: ImbPointToPoint %stack=openmpi-spack @node+openmpi-spack: asked for lo, went over shm"
    assert lines[4].endswith("PingPong.latency.8 is 9 us, must be at most 6 us (learned)")
    assert run(tmp_path, "--session", "latest~4") == 2


def test_proven_and_measured_are_two_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A case that only places its ranks is proven and measures nothing."""
    the_night_before(tmp_path, stacks=("a", "b"))
    write_session(tmp_path, 0, stacks=("a", "b"))
    path = last_cases(tmp_path)
    table = pl.read_parquet(path)
    times_nothing = pl.when(pl.col("stack") == "b").then(0).otherwise(pl.col("samples")).cast(pl.Int32)
    write_file(path, table.with_columns(samples=times_nothing))
    assert run(tmp_path, *OLD) == 0
    assert "2 of 2 cases proven, 1 measured, 1 of tests that time nothing;" in capsys.readouterr().out


def test_on_a_terminal_no_line_is_longer_than_it_is_wide(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    the_night_before(tmp_path)
    write_session(tmp_path, 0)
    assert run(tmp_path, *OLD) == 0
    whole = capsys.readouterr().out
    assert max(map(len, whole.splitlines())) > 100
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "72")
    for command, words in (("gate", OLD), ("gate --only=completeness", ())):
        assert run(tmp_path, *words, command=command) == 0
        lines = capsys.readouterr().out.splitlines()
        assert max(map(len, lines)) <= 72
        assert [line for line in lines[1:] if line.startswith("    ")]
        assert command != "gate" or " ".join(" ".join(lines).split()) == " ".join(whole.split())


def test_values_without_their_cases_are_red(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing else says that the session exists: the one before it would stand in for it."""
    the_night_before(tmp_path)
    newest = write_session(tmp_path, 0)
    path = last_cases(tmp_path)
    path.unlink()
    for command, words in (("gate", OLD), ("gate", ("--session", newest)), ("gate --only=completeness", ()), ("drift", ())):
        assert run(tmp_path, *words, command=command) == 2, command
        assert f"{path} is gone, and " in capsys.readouterr().err


def test_a_case_that_passed_without_proof_fails_the_gate_as_it_fails_the_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    the_night_before(tmp_path, stacks=("a", "b"))
    write_session(tmp_path, 0, stacks=("a", "b"))
    path = last_cases(tmp_path)
    table = pl.read_parquet(path)
    lacks = pl.when(pl.col("stack") == "b").then(pl.lit("missing")).otherwise(pl.col("evidence"))
    write_file(path, table.with_columns(evidence=lacks))
    assert run(tmp_path, *OLD) == 1
    said = capsys.readouterr().out
    assert "evidence: ImbPointToPoint %stack=b @node+b: passed, but no proof of its condition was stored" in said


def test_a_case_whose_dependency_failed_fails_the_gate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It never ran, and nothing of its evidence is stored."""
    the_night_before(tmp_path)
    lost = {"result": "fail_deps", "evidence": None, "reason": "a dependency failed", "name": "Later"}
    write_session(tmp_path, 0, where=[{}, lost], edit=lambda row: row if row["result"] == "pass" else None)
    assert run(tmp_path, *OLD) == 1
    said = capsys.readouterr().out
    assert "1 of 2 cases proven" in said
    assert "evidence: Later @node+openmpi-spack: a dependency failed" in said.splitlines()


def test_what_an_interruption_kept_from_running_is_one_line_and_no_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    the_night_before(tmp_path, stacks=("a", "b", "c"))
    write_session(tmp_path, 0, stacks=("a", "b", "c"))
    path = last_cases(tmp_path)
    table = pl.read_parquet(path)
    stopped = {"result": "abort", "evidence": "missing", "reason": "aborted due to ForceExitError", "fail_phase": "startup"}
    changes = {name: pl.when(pl.col("stack") == "a").then(pl.col(name)).otherwise(pl.lit(to)) for name, to in stopped.items()}
    write_file(path, table.with_columns(**changes))
    assert run(tmp_path, *OLD) == 1
    lines = capsys.readouterr().out.splitlines()
    assert "1 of 3 cases proven" in lines[1]
    assert "interrupted: 2 of 3 cases did not run (SIGTERM or SIGHUP)" in lines
    assert not [line for line in lines if line.startswith("evidence:")]
    assert run(tmp_path, command="gate --only=completeness") == 1
    assert "; interrupted (SIGTERM or SIGHUP); last proven" in capsys.readouterr().out


def test_an_old_session_is_no_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    now = datetime.now(timezone.utc)
    the_night_before(tmp_path)
    write_session(tmp_path, 0, started=now - timedelta(hours=35))
    assert run(tmp_path) == 0
    assert "35 h old" in capsys.readouterr().out
    assert run(tmp_path, "--max-age", "12") == 1
    write_session(tmp_path, 0, system="older", started=now - timedelta(days=61))
    assert run(tmp_path, "--system", "older") == 1
    assert "age: the session is 61 days old, more than 36 h" in capsys.readouterr().out


def test_the_policy_says_how_old_a_session_may_be(tmp_path: Path) -> None:
    the_night_before(tmp_path / "set")
    write_session(tmp_path / "set", 0, started=datetime.now(timezone.utc) - timedelta(hours=35))
    path = tmp_path / "site_configs" / "testbed" / "policy.yaml"
    path.parent.mkdir(parents=True)
    path.write_text("max_age_hours: 30\n")
    assert not gate.decide(Store(tmp_path / "set"), root=tmp_path).passed
    path.write_text("max_age_hours: 40\n")
    assert gate.decide(Store(tmp_path / "set"), root=tmp_path).passed


def test_a_session_of_tomorrow_is_not_young(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    now = datetime.now(timezone.utc)
    the_night_before(tmp_path)
    write_session(tmp_path, 0, started=now + timedelta(minutes=5))
    assert run(tmp_path) == 0
    write_session(tmp_path, 1, started=now + timedelta(hours=20))
    assert run(tmp_path) == 1
    assert "age: the session says it starts 20.0 h from now: correct the clock" in capsys.readouterr().out


def test_a_day_that_cannot_be_read_hides_no_session(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Another user's, say, of whom the newest night is; a ring of links cannot be read by root either."""
    for number in range(2):
        write_session(tmp_path, number)
    assert run(tmp_path, *OLD) == 0
    day, refused = last_cases(tmp_path).parent, tmp_path / "refused"
    refused.mkdir()
    for folder in (day, refused):
        folder.rename(tmp_path / "away")
        folder.symlink_to(folder)
        capsys.readouterr()
        assert run(tmp_path, *OLD) == 2
        assert (
            f"{folder} cannot be read (Too many levels of symbolic links), so what it says of sessions"
            in capsys.readouterr().err
        )
        folder.unlink()
        (tmp_path / "away").rename(folder)


def test_a_night_whose_history_is_to_come_does_not_pass(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A clock set back puts a slow night before the nights it would be held against."""
    now = datetime.now(timezone.utc)
    the_night_before(tmp_path, started=now - timedelta(days=1))
    chosen = write_session(tmp_path, 0, started=now - timedelta(hours=1), change=slower)
    later = [write_session(tmp_path, number, started=now + timedelta(days=number)) for number in range(2, 4)]
    assert run(tmp_path, "--session", chosen) == 2
    assert "which is to come: correct the clock" in capsys.readouterr().err
    for name in later:
        assert cli.main(["sessions", "withdraw", name, "--why", "its clock", "--dataset", str(tmp_path)]) == 0
    assert run(tmp_path, "--session", chosen) == 0
    assert "sessions that could not be read: none" in capsys.readouterr().out


def test_references_that_have_gone_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A references.yaml that is no longer there makes nothing fail, and must not look as if it held."""
    one = {"value": 1.0, "reference": 1.0, "lower": 0.9, "upper": None, "unit": "us", "outcome": "pass", "layer": "learned"}
    gone = {**one, "reference": None, "lower": None, "outcome": "no reference"}
    write_session(tmp_path, 0, where={"gates": [{"metric": "a", **one}, {"metric": "b", **one}, {"metric": "c", **gone}]})
    write_session(tmp_path, 1, where={"gates": [{"metric": "a", **one}, {"metric": "b", **gone}]})
    assert run(tmp_path, *OLD) == 0
    assert "note: 1 references (learned) of session 00000001 no longer exist" in capsys.readouterr().out
    write_session(tmp_path, 2, where={"gates": [{"metric": "a", **one}, {"metric": "b", **gone}]})
    assert run(tmp_path, *OLD) == 0
    assert "no longer exist" not in capsys.readouterr().out


def test_failures_that_were_run_again_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    the_night_before(tmp_path)
    failed = {"result": "fail", "evidence": "missing", "superseded": True}
    write_session(tmp_path, 0, where=[{"run": 1}, failed], edit=lambda row: row if row["result"] == "pass" else None)
    assert run(tmp_path, *OLD) == 0
    assert "1 of 1 cases proven, 1 measured (1 failures were run again)" in capsys.readouterr().out


def test_the_system_is_that_of_the_session(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Another system in the dataset, however new or damaged, changes nothing for a session given by its id."""
    for system in ("mine", "other"):
        the_night_before(tmp_path, system=system, labels={"run": system})
    mine = write_session(tmp_path, 0, system="mine", labels={"run": "mine"})
    other = write_session(tmp_path, 1, system="other", labels={"run": "other"})
    assert run(tmp_path, "--session", mine, *OLD) == 0
    assert capsys.readouterr().out.startswith("PASS: mine, session")
    assert run(tmp_path, *OLD) == 0
    assert capsys.readouterr().out.startswith(f"PASS: other, session {other[:8]}")
    for path in tmp_path.glob("*/system=other/*/*.parquet"):
        path.write_bytes(path.read_bytes()[:-40])
    assert run(tmp_path, "--session", mine, *OLD) == 0
    assert run(tmp_path, *OLD) == 2
    assert "cut off" in capsys.readouterr().err
    with refused_as("several-sessions", match="means 2 sessions"):
        gate.decide(Store(tmp_path), "mine", f"{mine},{write_session(tmp_path, 2, system='mine')}")


def test_a_damaged_older_session_is_named_and_stops_until_it_is_removed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [write_session(tmp_path, number) for number in range(3)]
    path = next(tmp_path.glob(f"samples/*/*/{names[1]}.parquet"))
    path.write_bytes(path.read_bytes()[:-40])
    assert run(tmp_path, *OLD) == 2
    said = capsys.readouterr().err
    assert f"{path} is cut off" in said and "export that session again, or remove it" in said
    for one in list(tmp_path.rglob(path.name)):
        one.unlink()
    assert run(tmp_path, *OLD) == 0
    assert "in 2 nights of 2" in capsys.readouterr().out


FORGED = "up\x1b[2J\r\nPASS: all is well"


def test_what_is_stored_forges_no_line_of_an_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A label and the fields of a case, from the database's report and in a dataset that others wrote."""
    report = copy.deepcopy(SMALL_REPORT)
    report["session_info"]["run"] = FORGED
    (entry,) = report["runs"][0]["testcases"]
    forged = {"partition": FORGED, "environ": FORGED, "name": FORGED, "fail_reason": FORGED, "job_nodelist": [FORGED]}
    entry.update(forged, condition={"stack": FORGED})
    (tmp_path / "report.json").write_text(json.dumps(report))
    session = sessions.read_report(tmp_path / "report.json")
    (case,) = session.cases
    texts = [session.labels["run"], case.partition, case.stack, case.name, case.nodelist]
    assert texts == ["up PASS: all is well"] * 5
    assert case.reason == "up\nPASS: all is well", "a reason may have several lines"
    write_session(tmp_path, 0, labels={"run": FORGED}, stacks=[FORGED], evidence="missing", where={"reason": FORGED})
    write_session(tmp_path, 1, labels={"run": FORGED}, stacks=[FORGED], evidence="missing", where={"partition": FORGED})
    for command in ("gate", "gate --only=completeness", "accept"):
        words = ["--baseline", "latest~1", "--out", str(tmp_path / "out")] if command == "accept" else []
        assert cli.main([*command.split(), "--dataset-only", "--dataset", str(tmp_path), *words]) in (1, 2), command
        said = "".join(capsys.readouterr())
        assert said and "\x1b" not in said and "\r" not in said, command
        assert not any(line.startswith("PASS") for line in said.splitlines()), command


@pytest.mark.parametrize("words", [(), ("--partial",)])
def test_fewer_repeats_than_the_nights_before_are_a_hole(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    """With one repeat nothing is held against them, and everything may be twice as slow; also in the second such night."""
    for number in range(8):
        write_session(tmp_path, number, labels={"run": "nightly"}, repeats=5)
    partial = "reframe -r -n ImbPointToPoint -S repeats=1" if words else "reframe -r -S repeats=1"
    for number in (8, 9):
        slow = {"change": lambda *_: 2.0, "repeats": 1, "command_line": partial}
        name = write_session(tmp_path, number, labels={"run": "nightly"}, **slow)
        assert run(tmp_path, "--session", name, *words, *OLD) == 1
        assert "PingPong (1 of 5 repeats), Uniband (1 of 5 repeats); last proven 2026-01-" in capsys.readouterr().out


def test_more_repeats_once_are_no_new_normal(tmp_path: Path) -> None:
    for number in range(8):
        name = write_session(tmp_path, number, labels={"run": "nightly"}, repeats=10 if number == 6 else 5)
    assert run(tmp_path, "--session", name, *OLD) == 0


def test_the_documented_example_is_the_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(15):
        write_session(tmp_path, number, labels={"run": "nightly"})
    write_session(
        tmp_path,
        15,
        labels={"run": "nightly"},
        change=lambda benchmark, size, _: 1.051 if benchmark == "Uniband" and size >= 65536 else 1.0,
    )
    assert run(tmp_path, *OLD) == 1
    said = capsys.readouterr().out.splitlines()
    shown = documentation.block_after("how-to/nights", "    $ mpibench gate\n")
    assert len(said) == len(shown) == 4
    for line, example in zip(said, shown, strict=True):
        assert re.fullmatch(re.escape(example).replace(re.escape("..."), ".+"), line), line


def test_many_problems_of_one_kind_hide_none_of_another(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(20):
        write_session(tmp_path, number, noise=0.01)
    for number in range(20, 23):
        write_session(tmp_path, number, noise=0.01, change=slower)
    path = last_cases(tmp_path)
    table = pl.read_parquet(path)
    broken = [
        table.with_columns(
            case=pl.lit(f"broken-{number}"),
            result=pl.lit("fail"),
            fail_phase=pl.lit("sanity"),
            evidence=pl.lit("contradicted" if number == 29 else "missing"),
            reason=pl.lit("went over shm" if number == 29 else f"no output {number}"),
        )
        for number in range(30)
    ]
    check = {"metric": "a", "layer": "learned", "value": 6.6, "reference": 5.0, "lower": None, "upper": 6.0, "unit": "us"}
    worse = {**check, "metric": "b", "value": 12.0}
    gates = pl.Series([[{**check, "outcome": "fail"}, {**worse, "outcome": "fail"}]], dtype=table.schema["gates"])
    missed = table.with_columns(gates=gates, result=pl.lit("fail"), fail_phase=pl.lit("performance"))
    write_file(path, pl.concat([missed, *broken]))
    assert run(tmp_path) == 1
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 10
    assert lines[0].startswith("FAIL: testbed, session 00000017: the session is ")
    kinds = [line.partition(":")[0] for line in lines[3:9]]
    assert kinds == ["age", "evidence", "evidence", "reference", "history", "drift"]
    assert lines[4].endswith(": went over shm") and lines[5].endswith(": no output 0")
    assert " b is 12 us, must be at most 6 us (learned)" in lines[6]
    assert re.match(r"\.\.\. and \d+ more \(28 evidence, 1 reference, 1 history\)", lines[9]), lines[9]


def test_the_answer_shows_the_worst_of_each_kind_before_a_second_of_any(tmp_path: Path) -> None:
    kinds = [kind for kind in gate.KINDS for _ in range(5)]
    problems: dict[str, Any] = {
        kind: [answers.Problem(text=f"{kind} {number}", finding=f"{kind} {number}") for number in range(5)]
        for kind in gate.KINDS
    }
    quiet = tmp_path / "quiet"
    write_session(quiet, 0)
    answer = msgspec.structs.replace(
        gate.decide(Store(quiet), max_age_hours=1e6),
        **{"decision": "FAIL", "notes": ["known"], "problems": answers.GateProblems(**problems), "finding": "age 0"},
    )
    assert answer.lines[3:9] == [f"{kind} 0" for kind in gate.KINDS]
    rest = ", ".join(f"4 {kind}" for kind in gate.KINDS)
    assert answer.lines[9].startswith(f"... and {len(kinds) - 6 + 1} more ({rest}, 1 note): see ")
    assert answer.lines[0].startswith("FAIL: testbed, session 00000001: age 0")
    assert gate.first_finding(answer.by_kind).startswith("age 0 and 29 more (4 age, 5 evidence, ")


def as_json(folder: Path, capsys: pytest.CaptureFixture[str], status: int, *words: str) -> dict[str, Any]:
    """The answer of ``gate --json``, which is nothing else on standard output and as its schema says."""
    assert run(folder, "--json", *words) == status
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    msgspec.convert(answer, answers.Gate)
    return answer


def test_the_answer_for_programs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(8):
        name = write_session(tmp_path, number, labels={"run": "nightly"})
    answer = as_json(tmp_path, capsys, 0, *OLD)
    assert (answer["decision"], answer["finding"], answer["session"]) == ("PASS", "", name)
    assert (answer["system"], answer["label"], answer["options"]) == ("testbed", "nightly", [])
    assert answer["problems"] == {kind: [] for kind in gate.KINDS}
    assert answer["counts"]["history"] | {"text": ""} == {
        **{"text": "", "judged": 21, "metrics": 21, "sessions": [7, 7], "slower": 0, "faster": 0, "blind": False, "again": {}}
    }
    write_session(tmp_path, 8, labels={"run": "nightly"}, change=lambda benchmark, *_: 1.12 if benchmark == "PingPong" else 1.0)
    answer = as_json(tmp_path, capsys, 1)
    assert answer["decision"] == "FAIL" and " and 1 more (1 history)" in answer["finding"]
    (old,) = answer["problems"]["age"]
    assert old["hours"] == answer["counts"]["age"]["hours"] > old["most_hours"] == 36
    (slow,) = answer["problems"]["history"]
    assert 0.1 < slow["slower"] < 0.14 and slow["slower_again"] is None and slow["sessions"] == [8, 8]
    assert (slow["stack"], slow["fabric"], slow["benchmark"]) == ("openmpi-spack", "eth1g", "PingPong")
    assert [row["message_bytes"] for row in slow["metrics"]] == list(SIZES)
    assert slow["text"].startswith("history: openmpi-spack on node") and slow["finding"].startswith("openmpi-spack on eth1g: 1")


def test_all_kinds_of_problems_are_as_the_schema_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(23):
        write_session(tmp_path, number, stacks=("a", "b"), noise=0.01, change=slower if number > 19 else lambda *_: 1.0)
    path = last_cases(tmp_path)
    table = pl.read_parquet(path)
    check = {"metric": "m", "layer": "learned", "value": 9.0, "reference": 5.0, "lower": None, "upper": 6.0, "unit": "us"}
    gates = pl.Series([[{**check, "outcome": "fail"}]] * 2, dtype=table.schema["gates"])
    lost = pl.when(pl.col("stack") == "b").then(pl.lit("missing")).otherwise(pl.col("evidence"))
    write_file(path, table.with_columns(gates=gates, evidence=lost, reason=pl.lit("up\x1b[2J")))
    answer = as_json(tmp_path, capsys, 1)
    assert all(answer["problems"].values()), answer["problems"]
    assert answer["problems"]["evidence"][0]["stack"] == "b"
    (missed,) = answer["problems"]["reference"]
    assert (missed["metric"], missed["value"], missed["upper"], missed["value_again"]) == ("m", 9, 6, None)
    nothing = pl.Series([[{**check, "value": None, "outcome": "fail"}]] * 2, dtype=table.schema["gates"])
    write_file(path, pl.read_parquet(path).with_columns(gates=nothing))
    assert [one["value"] for one in as_json(tmp_path, capsys, 1)["problems"]["reference"]] == [None]
    change = answer["problems"]["drift"][0]
    assert change["since"] == "2026-01-25" and 0.25 < change["slower"] < 0.35
    assert {row["stack"] for row in change["metrics"]} == {change["stack"]}
    stopped = table.with_columns(
        result=pl.lit("abort"), evidence=pl.lit("missing"), reason=pl.lit("aborted due to KeyboardInterrupt")
    )
    write_file(path, stopped)
    answer = as_json(tmp_path, capsys, 1, *OLD)
    assert [one.get("interrupted") for one in answer["problems"]["evidence"]] == [None, 2]


def test_an_answer_for_programs_is_none_where_nothing_was_judged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, "--json") == 2
    assert capsys.readouterr().out == ""

"""The gate's answer: its first line, what ten lines show of many problems, and the same for programs."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import polars as pl
import pytest

import documentation
from mpibench import answers, cli
from mpibench.judge import gate
from mpibench.store.dataset_layout import write_file
from synthetic_verdicts import FIRST, SIZES, write_session

#: The sessions here are of January 2026; whoever asks about their age says so.
OLD = ("--max-age", "100000")


def run(folder: Path, *words: str) -> int:
    return cli.main(["gate", "--dataset-only", "--dataset", str(folder), *words])


def last_cases(folder: Path) -> Path:
    """Table of cases of the newest session."""
    return max((folder / "cases").rglob("*.parquet"), key=lambda path: path.parent.name)


def slower(*_: object) -> float:
    return 1.3


def test_the_first_line_of_a_refusal_says_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A mail's subject, and whoever reads no more than the first line of a log."""
    for number in range(8):
        write_session(tmp_path, number)
    name = write_session(tmp_path, 8, change=lambda benchmark, size, _: 1.12 if size >= 65536 else 1.0)
    assert run(tmp_path, *OLD) == 1
    first = capsys.readouterr().out.splitlines()[0]
    said = re.fullmatch(
        rf"FAIL: testbed, session {name[:8]}: openmpi-spack on eth1g: 1[012]\.\d % slower than 8 sessions before "
        r"\((PingPong latency|Uniband bandwidth), large messages\) and 1 more \(1 history\)",
        first,
    )
    assert said, first


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
    for number in range(20, 24):
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
    assert lines[0].startswith("FAIL: testbed, session 00000018: the session is ")
    kinds = [line.partition(":")[0] for line in lines[3:9]]
    assert kinds == ["age", "evidence", "evidence", "reference", "history", "drift"]
    assert lines[4].endswith(": went over shm") and lines[5].endswith(": no output 0")
    assert " b is 12 us, must be at most 6 (learned)" in lines[6]
    assert re.match(r"\.\.\. and \d+ more \(28 evidence, 1 reference, 1 history, ", lines[9]), lines[9]


def test_the_answer_shows_the_worst_of_each_kind_before_a_second_of_any() -> None:
    kinds = [kind for kind in gate.KINDS for _ in range(5)]
    problems = {
        kind: tuple(gate.GateProblem(kind, f"{kind} {number}", f"{kind} {number}") for number in range(5))
        for kind in gate.KINDS
    }
    checks = tuple(gate.GateCheck(kind, "", problems=problems[kind]) for kind in gate.KINDS)
    answer = gate.GateAnswer("s", "0" * 36, None, FIRST, (), checks, notes=("known",))
    assert list(answer.lines[3:9]) == [f"{kind} 0" for kind in gate.KINDS]
    rest = ", ".join(f"4 {kind}" for kind in gate.KINDS)
    assert answer.lines[9].startswith(f"... and {len(kinds) - 6 + 1} more ({rest}, 1 note): see ")
    assert answer.lines[0].startswith("FAIL: s, session 00000000: age 0 and 29 more (4 age, 5 evidence, ")


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
        **{"text": "", "judged": 21, "metrics": 21, "sessions": [7, 7], "slower": 0, "faster": 0, "again": {}}
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
    for number in range(24):
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

"""The answer of ``drift --json``: as its schema says, and with the exit status of the answer for people."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mpibench import answers, cli
from mpibench.store import records
from synthetic_verdicts import FIRST, write_session

BEFORE = {"machine": {"kernel release": ["6.1.0-40"]}}
AFTER = {"machine": {"kernel release": ["6.1.0-41"]}}


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
    records.refuse(tmp_path, records.Unreadable("lost", FIRST, ("testbed",), "session lost is cut off."))
    write_session(tmp_path, 8, benchmarks={"PingPong": "latency_us"})
    data = answer(tmp_path, capsys, 1)
    assert [line.startswith("missing: openmpi-spack on eth1g, Uniband, ") for line in data["absent"]] == [True]
    assert any("is cut off" in note for note in data["notes"])

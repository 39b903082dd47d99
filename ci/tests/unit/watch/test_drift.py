"""The nightly watch: silent when nothing happened, one event for one cause, in few nights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mpibench import answers, cli
from mpibench.judge import drift
from mpibench.store import records
from mpibench.store.store import Store
from refusals import refused_as
from synthetic_verdicts import FIRST, write_session

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


def answer(folder: Path, capsys: pytest.CaptureFixture[str], status: int) -> dict[str, Any]:
    assert run(folder, "drift", "--json") == status
    data: dict[str, Any] = json.loads(capsys.readouterr().out)
    msgspec.convert(data, answers.Drift)
    return data


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

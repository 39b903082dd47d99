"""Proposals for expected.yaml: what they add, what they retire, and that nobody retires anything without a reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from mpibench import cli
from mpibench.judge import expected, rebaseline
from mpibench.store.store import Store
from reframe_tests.harness.vocabulary import BadInput
from synthetic_verdicts import write_session

ALL = "20260101:now"
STACKS = ("a-spack", "b-spack")
PLACES = [{"group": "p2p", "fabric": "eth1g"}, {"group": "p2p", "fabric": "shm"}]


def night(folder: Path, number: int, stacks: tuple[str, ...] = STACKS, run: str = "nightly", **more: Any) -> str:
    return write_session(folder / "set", number, labels={"run": run}, stacks=stacks, sizes=(8,), where=PLACES, **more)


def propose(folder: Path, selector: str = ALL) -> rebaseline.ExpectedProposal:
    return rebaseline.propose_expected(Store(folder / "set"), selector, root=folder)


def apply(folder: Path, text: str) -> None:
    path = expected.path_of("testbed", folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_what_is_proven_is_named_once_and_compactly(tmp_path: Path) -> None:
    night(tmp_path, 0)
    last = night(tmp_path, 1)
    proposal = propose(tmp_path)
    assert (proposal.added, proposal.retired) == (8, 0)
    entry = {"partition": "node", "stack": ["a-spack", "b-spack"], "fabric": ["eth1g", "shm"], "group": "p2p"}
    entry["benchmark"] = ["PingPong", "Uniband"]
    assert yaml.safe_load(proposal.after) == {"runs": {"nightly": {"expected": [entry]}}}
    assert proposal.diff(tmp_path).startswith("--- /dev/null\n+++ b/site_configs/testbed/expected.yaml\n")
    apply(tmp_path, proposal.after)
    assert propose(tmp_path).diff(tmp_path) == ""
    answer = expected.judge(Store(tmp_path / "set"), "testbed", last, root=tmp_path)
    assert answer.complete and answer.expected == 8


def test_what_is_gone_is_a_line_that_waits_for_its_reason(tmp_path: Path) -> None:
    night(tmp_path, 0)
    night(tmp_path, 1, run="smoke")
    last = night(tmp_path, 2, stacks=STACKS[:1])
    proposal = propose(tmp_path, last)
    assert proposal.retired == 1
    line = yaml.safe_load(proposal.after)["retired"][0]
    assert (line["run"], line["stack"], str(line["date"]), line["reason"]) == ("nightly", "b-spack", "2026-01-05", "")
    apply(tmp_path, proposal.after)
    with pytest.raises(BadInput, match=r"retired\.0"):
        expected.load_file("testbed", tmp_path)
    apply(tmp_path, proposal.after.replace("reason: ''", "reason: replaced by c"))
    assert expected.judge(Store(tmp_path / "set"), "testbed", last, root=tmp_path).complete
    assert propose(tmp_path, last).retired == 0


def test_a_benchmark_that_is_gone_is_retired_alone(tmp_path: Path) -> None:
    night(tmp_path, 0)
    last = write_session(
        tmp_path / "set",
        1,
        **{"labels": {"run": "nightly"}, "stacks": STACKS, "sizes": (8,), "where": PLACES},
        benchmarks={"PingPong": "latency_us"},
    )
    lines = yaml.safe_load(propose(tmp_path, last).after)["retired"]
    assert len(lines) == 4
    assert {(line["stack"], line["fabric"], tuple(line["benchmark"])) for line in lines} == {
        (stack, place["fabric"], ("Uniband",)) for stack in STACKS for place in PLACES
    }


def test_the_command_writes_both_diffs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(5):
        night(tmp_path, number, benchmarks={"PingPong": "latency_us"})
    words = ["rebaseline", "--dataset-only", "--dataset", str(tmp_path / "set"), "--sessions", ALL]
    words += ["--out", str(tmp_path / "r.diff"), "--expected-out", str(tmp_path / "e.diff")]
    assert cli.main(words) == 0
    out = capsys.readouterr().out
    assert "4 expected things to name, 0 lines to retire" in out and "references learned" in out
    assert "PingPong" in (tmp_path / "e.diff").read_text()
    assert (tmp_path / "r.diff").read_text()

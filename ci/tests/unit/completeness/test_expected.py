"""What a session must hold: holes are found however old they
are, and only a reviewed line closes one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mpibench import cli
from mpibench.judge import expected
from mpibench.store.store import Store
from synthetic_stack import write_stack
from synthetic_verdicts import SIZES, write_session

NIGHTLY = {"run": "nightly"}
BOTH = ("a-spack", "b-spack")


def judge(folder: Path, session: str, **options: Any) -> expected.Completeness:
    return expected.judge(Store(folder / "set"), "testbed", session, root=folder, **options)


def night(folder: Path, number: int, **options: Any) -> str:
    given = {"labels": NIGHTLY, "stacks": BOTH, "sizes": (8,), **options}
    return write_session(folder / "set", number, **given)


def write_file(folder: Path, text: str) -> None:
    path = expected.path_of("testbed", folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_a_stack_that_vanished_is_missing_every_night_until_it_is_retired(tmp_path: Path) -> None:
    for number in range(3):
        night(tmp_path, number)
    for number in range(3, 6):
        gone = night(tmp_path, number, stacks=BOTH[:1])
    answer = judge(tmp_path, gone)
    assert (answer.expected, answer.there) == (4, 2)
    (line,) = answer.missing
    assert line.startswith("missing: stack b-spack: none of the 2 expected of it is proven; ")
    assert line.endswith("last proven 2026-01-07 in session 00000003")
    write_file(tmp_path, "retired: [{stack: b-*, date: 2026-01-07, reason: licence ended}]")
    answer = judge(tmp_path, gone)
    assert answer.complete and answer.expected == 2
    night(tmp_path, 6)
    again = night(tmp_path, 7, stacks=BOTH[:1])
    assert not judge(tmp_path, again).complete, "it came back, and is expected again"


def test_a_partial_session_is_not_complete_unless_that_is_asked_for(tmp_path: Path) -> None:
    night(tmp_path, 0)
    command = "reframe -c reframe_tests -r -p a-spack"
    partial = night(tmp_path, 1, stacks=BOTH[:1], command_line=command)
    answer = judge(tmp_path, partial)
    assert [line.partition(":")[0] for line in answer.missing] == ["partial", "missing"]
    answer = judge(tmp_path, partial, partial=True)
    assert answer.complete and answer.not_asked == 2
    everything = night(tmp_path, 2, command_line=command)
    assert not judge(tmp_path, everything).complete, "nobody can know what it would have had"
    latency = {"benchmarks": {"PingPong": "latency_us"}, "command_line": command}
    lacking = night(tmp_path, 3, stacks=BOTH[:1], **latency)
    assert "benchmark Uniband" in judge(tmp_path, lacking, partial=True).missing[0]
    write_file(tmp_path, "runs: {nightly: {options: [-p a-spack]}}")
    assert [line.partition(":")[0] for line in judge(tmp_path, partial).missing] == ["missing"]


SYSTEM = """
system = {"name": "testbed", "descr": "d", "hostnames": ["x"], "partitions": [{
    "name": "node", "descr": "d", "scheduler": "local", "launcher": "local",
    "extras": {"stacks": ["*-spack"], "fabrics": {"eth1g": {"transport": "tcp", "scope": "cluster",
        "rails": [{"device": "eth0"}]}, "shm": {"transport": "shm", "scope": "node"}}}}]}
"""


def test_a_first_night_is_held_against_registered_stacks_and_described_fabrics(
    tmp_path: Path,
) -> None:
    path = tmp_path / "site_configs" / "testbed" / "system.py"
    path.parent.mkdir(parents=True)
    path.write_text(SYSTEM)
    for name in ("a-spack", "b-spack", "c-wheels"):
        write_stack(tmp_path / "environments" / name, name=name)
    stack, fabric = judge(tmp_path, night(tmp_path, 0, stacks=BOTH[:1])).missing
    assert "partition node, stack b-spack; not among" in stack and "never proven here" in stack
    assert "partition node, fabric shm; not among" in fabric
    write_file(tmp_path, "retired: [{fabric: shm, date: 2026-01-01, reason: measured by hand}]")
    assert judge(tmp_path, night(tmp_path, 1)).complete
    (tmp_path / "environments" / "b-spack" / "lib" / "libmpi.so.12").unlink()
    answer = judge(tmp_path, night(tmp_path, 2, stacks=BOTH[:1]))
    assert any("stack 'b-spack' is left out" in line for line in answer.missing)


def test_the_command_tells_and_exits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["gate", "--dataset-only", "--dataset", str(tmp_path / "set"), "--session"]
    night(tmp_path, 0)
    whole = night(tmp_path, 1)
    assert cli.main([*words, whole, "--only=completeness"]) == 0
    assert capsys.readouterr().out.startswith("complete: testbed, session 00000002 (run=nightly, ")
    gone = night(tmp_path, 2, stacks=BOTH[:1])
    for more in ("--only=completeness", "--max-age=100000"):
        assert cli.main([*words, gone, more]) == 1
        assert "missing: stack b-spack" in capsys.readouterr().out


def test_a_condition_that_vanished_is_missing_every_night_until_it_is_retired(
    tmp_path: Path,
) -> None:
    """Half of the cores or nodes gone: something of every stack,
    fabric and benchmark is still proven.
    """
    wheres = [{"nodes": nodes, "ppn": ppn} for nodes in (2, 4) for ppn in (8, 16)]
    for number in range(3):
        night(tmp_path, number, where=wheres)
    for number in range(3, 5):
        halved = night(tmp_path, number, where=wheres[:1])
    line, _ = judge(tmp_path, halved).missing
    assert "group p2p: not proven at 2 x 16 bunch, 4 x 16 bunch, 4 x 8 bunch (nodes x" in line
    assert line.endswith("PingPong, Uniband; last proven 2026-01-07 in session 00000003")
    write_file(tmp_path, "retired: [{stack: '*', fabric: eth1g, date: 2026-01-07, reason: sold}]")
    assert judge(tmp_path, halved).complete
    assert judge(tmp_path, night(tmp_path, 8, where=wheres)).complete
    assert not judge(tmp_path, night(tmp_path, 9, where=wheres[:1])).complete


def test_half_a_curve_or_a_curve_of_zeros_is_missing_every_night(tmp_path: Path) -> None:
    """Level smoke under the label of another, or a link that carries
    nothing: the benchmark is there by name.
    """
    curve = {"sizes": SIZES, "stacks": BOTH[:1]}
    for number in range(2):
        night(tmp_path, number, **curve)
    for number in range(2, 4):
        short = night(tmp_path, number, stacks=BOTH[:1], sizes=(8, 64))
    (line,) = judge(tmp_path, short).missing
    assert "PingPong (2 of 11 sizes), Uniband (2 of 10 sizes); last proven 2026-01-06" in line

    def dead(row: dict[str, Any]) -> dict[str, Any]:
        return row if row["benchmark"] == "PingPong" else {**row, "value": 0.0}

    (line,) = judge(tmp_path, night(tmp_path, 5, edit=dead, **curve)).missing
    assert "group p2p: benchmark Uniband; " in line


def test_a_label_that_moves_to_another_system_is_said_every_night_until_it_is_accepted(
    tmp_path: Path,
) -> None:
    """As when the site's folder cannot be reached, so that the
    night is that of the fallback system.
    """

    def moved(session: str) -> bool:
        return any(line.startswith("system: ") for line in judge(tmp_path, session).missing)

    night(tmp_path, 0, system="elsewhere")
    assert moved(night(tmp_path, 1)) and moved(night(tmp_path, 2))
    assert not moved(night(tmp_path, 4, labels={"run": "smoke"})), "another series"
    write_file(tmp_path, "runs: {nightly: {expected: [{group: p2p}]}}")
    assert judge(tmp_path, night(tmp_path, 3)).complete

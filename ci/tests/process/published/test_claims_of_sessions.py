"""``mpibench claims SYSTEM --session`` as a user starts it, and the commands it prints as ReFrame reads them."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import published_stacks
from linked_sessions import OPA, Job, dual_rail, level, write
from mpibench.published import session_claims
from mpibench.published.session_claims import NOT_MEASURED
from reframe_tests.harness.sites import site


def claims(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = Path(sys.executable).parent / "mpibench"
    arguments = ["claims", "opa-dual-rail", "--session", "latest", "--dataset-only", "--dataset", str(folder), *words]
    return subprocess.run([command, *arguments], capture_output=True, text=True, cwd=site.ROOT)


@pytest.mark.parametrize(
    ("jobs", "status", "said"),
    [
        (dual_rail(), 0, ": 9 hold, 0 do not hold, "),
        (dual_rail(two=Job("opa200", 2, {"Uniband": level(OPA)})), 1, "  does not hold: intelmpi-2019 on dual, opa200, 2 x 2"),
        ([Job("opa100", 1, {"PingPong": level(9.0)}, group="p2p")], 3, ": NOTHING MEASURED that a claim asks for ("),
    ],
)
def test_the_command_answers_with_its_exit_status(tmp_path: Path, jobs: list[Job], status: int, said: str) -> None:
    write(tmp_path, jobs)
    done = claims(tmp_path)
    assert (done.returncode, done.stderr) == (status, "")
    assert said in done.stdout


def test_bad_input_is_one_line_and_status_2(tmp_path: Path) -> None:
    write(tmp_path, dual_rail())
    done = claims(tmp_path, "--session", "latest~1")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("mpibench: selector 'latest~1' selects none of the 1 sessions in the dataset")
    assert len(done.stderr.splitlines()) == 1


def test_reframe_lists_cases_for_the_commands(
    tmp_path: Path, run_reframe: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    """One with a stack and a pinning, and one of the whole fabric because nothing was measured on it."""
    write(tmp_path / "set", [Job("opa200_striped", 1, {"Uniband": level(OPA, [4096])})])
    found = session_claims.ask(tmp_path / "set", "opa-dual-rail", "latest")
    stacks = published_stacks.write_all(tmp_path / "stacks")
    asked = {(one.claim.id, one.over.fabric.name): one for one in found.answers if one.outcome == NOT_MEASURED}
    striped = ("striped-rank-against-rank-a-rail", "opa200_striped")
    for claim, fabrics in ((striped, ("opa200", "opa200_striped")), (("uniband-32k", "opa100"), ("opa100",))):
        words = shlex.split(session_claims.command("opa-dual-rail", [asked[claim]]))
        assert words[:4] == ["reframe", "-c", "reframe_tests", "-r"]
        listed = run_reframe("-l", *words[4:], environ={"MPIBENCH_STACKS": stacks}, only="parallel_transfer.py")
        assert listed.returncode == 0, listed.stdout[-3000:]
        for fabric in fabrics:
            assert f"ImbParallelTransfer %fabric={fabric} %nodes=2" in listed.stdout, listed.stdout[-3000:]

"""Programs that a stack may bring: what a start on one node says of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from mpibench.stacks import probe
from reframe_tests.harness.stacks import metadata
from reframe_tests.harness.vocabulary import BadInput
from synthetic_stack import write_stack

REFUSES = "[utils/osu_bw_fan_util.c:102] Error: 'Please run this benchmark on more than 1 node'\n"
TOO_FEW = "ERROR: this application must be run on at least 2 nodes\n"
SAYS = {
    "network_test": (1, TOO_FEW),
    "osu_latency": (0, "# OSU MPI Latency Test v7.5\n"),
    "osu_bw_fan_in": (1, REFUSES),
    "osu_bw": (1, "error: no such interface\n"),
    "osu_bibw": (0, "# OSU MPI Bi-Directional Bandwidth Test v7.4\n"),
}


@pytest.fixture
def prove(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Prove programs whose starts say what is written above."""
    stack = metadata.read(write_stack(tmp_path))

    def start(where: object, words: Sequence[str], environ: object, folder: object) -> tuple[int, str]:
        return SAYS[next(Path(word).name for word in words if Path(word).name in SAYS)]

    monkeypatch.setattr(probe, "list_needs", lambda path, environ: ({"libmpi.so.12": stack.library}, []))
    monkeypatch.setattr(probe, "run_inside", start)
    return lambda *names: probe.prove({name: Path("/opt/osu") / name for name in names}, stack, {})


def test_a_program_that_refuses_one_node_runs(prove):
    """Fan-in and fan-out look for other nodes before they say their version; the others of the build say it."""
    found = prove("osu_bw", "osu_bw_fan_in", "osu_latency")
    assert set(found.binaries) == {"osu_bw_fan_in", "osu_latency"}
    assert found.suites == {"osu": "7.5"}
    assert set(found.left_out) == {"osu_bw"} and "no such interface" in found.left_out["osu_bw"]


def test_a_program_of_another_version_is_left_out(prove):
    assert prove("osu_latency", "osu_bibw").left_out == {"osu_bibw": "it is version 7.4, the others are 7.5"}


def test_without_a_version_nothing_is_registered(prove):
    with pytest.raises(BadInput, match="does not say its version on one node, and no other program of osu does"):
        prove("osu_bw_fan_in")


def test_a_suite_that_never_says_its_version_is_registered_without(prove):
    """GPCNeT's programs take no argument, and refuse one node."""
    found = prove("network_test")
    assert (set(found.binaries), found.suites, found.left_out) == ({"network_test"}, {"gpcnet": "unknown"}, {})

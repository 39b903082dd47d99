"""The 5 % gate on a link, on made-up runs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from reframe_tests.harness.stacks.metadata import ROOT
from reframe_tests.harness.stacks.stack import Stack
from reframe_tests.harness.vocabulary import BadInput
from studies import link_gate
from studies.link_gate import JUDGED, Run

LIMIT = 125 * 1448 / 1538
LEARNED = {name: 0.99 * LIMIT for name, _ in JUDGED}


@pytest.fixture
def resolved(stacks: dict[str, Stack]) -> link_gate.condition.Condition:
    if not stacks:
        pytest.skip("[stacks] no stack has been built here (ci/setup builds the wheels stacks)")
    return link_gate.resolve(next(iter(stacks.values())))


def run_at(fraction: float) -> Run:
    return Run({name: fraction * LIMIT for name, _ in JUDGED})


@pytest.mark.parametrize(
    ("fraction", "layers"),
    [(0.99, set()), (0.96, set()), (0.93, {"physics", "learned"}), (0.25, {"physics", "learned"})],
)
def test_both_layers_flag_what_is_more_than_five_percent_slow(
    resolved, fraction: float, layers: set[str]
) -> None:
    assert {
        alarm.split()[1] for alarm in link_gate.alarms(run_at(fraction), resolved, LEARNED)
    } == layers


def test_one_slow_benchmark_is_enough(resolved) -> None:
    run = Run({**run_at(0.99).mb_per_s, "PingPong": 0.9 * LIMIT})
    assert link_gate.alarms(run, resolved, LEARNED) == ["PingPong physics", "PingPong learned"]


def test_a_launch_that_failed_is_no_measurement(resolved, tmp_path: Path) -> None:
    cluster = tmp_path / "cluster"
    cluster.write_text("echo 'srun: error: Unable to allocate resources' >&2\nexit 1\n")
    where = link_gate.Site(("sh", str(cluster)), {**os.environ})
    with pytest.raises(BadInput, match="Unable to allocate resources"):
        link_gate.measure(where, resolved, "PingPong", 4 << 20)
    cluster.write_text(f"cat {ROOT / 'ci/tests/data/golden/imb-mpi1-2021.11-n2-4mib.txt'}\n")
    assert link_gate.measure(where, resolved, "PingPong", 4 << 20) > 0

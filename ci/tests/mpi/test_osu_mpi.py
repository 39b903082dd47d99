"""OSU for real, on every stack here that has it (a wheel has not): each launch runs, and prints exactly what was planned."""

from __future__ import annotations

import os

import pytest

from reframe_tests.harness.stacks import metadata
from reframe_tests.harness.stacks.stack import Stack
from reframe_tests.harness.suites import catalogue, reader
from reframe_tests.harness.vocabulary import QUANTITIES

GROUPS = ("p2p_osu", "transfer_osu", "one_sided_osu", "collectives_osu")


@pytest.fixture(scope="module")
def osu_stacks() -> list[Stack]:
    found, _ = metadata.discover(environ=os.environ)
    chosen = [stack for stack in found if "osu" in stack.suites]
    if not chosen:
        pytest.skip(
            "[spack] no stack here has the suite osu ('mpibench build' makes some with Spack; MPIBENCH_STACKS names others)"
        )
    return chosen


@pytest.mark.parametrize("group", GROUPS)
def test_every_launch_runs_and_is_complete(group: str, osu_stacks: list[Stack], run_on):
    for stack in osu_stacks:
        for launch in catalogue.launches(group, stack, 2, "smoke"):
            status, output = run_on(stack, *launch.words(stack), ranks=2, limit_s=300)
            assert status == 0, f"{stack.name}: {output}"
            records = reader.complete(reader.parse(output, source=launch.name), launch.expected, source=launch.name)
            given = {
                catalogue.metric_name(r.benchmark, QUANTITIES[quantity].short, r.message_bytes, r.variant)
                for r in records
                for quantity in r.values
            }
            assert given == {metric.name for metric in catalogue.metrics([launch])}
            assert all(record.repetitions and record.ranks == 2 for record in records)

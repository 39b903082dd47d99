"""The guidelines' instrument: what is planned, what it is asked for, and how its table is read."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from reframe_tests.harness.stacks import metadata
from reframe_tests.harness.suites import catalogue, reader
from studies.output_damage import golden
from synthetic_stack import DOCUMENT

GROUP = "guidelines"
STACK = metadata.parse(DOCUMENT, Path("stack.json"))
RECORDED = [
    f"guidelines-{run}-{launch}.txt"
    for run in ("mpich-n2", "intelmpi-n3", "openmpi-n3")
    for launch in ("blocks", "vectors")
]


def launches(level: str = "nightly", ranks: int = 4) -> tuple[catalogue.Launch, ...]:
    return catalogue.launches(GROUP, STACK, ranks, level)


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_outputs_of_every_mpi(name: str) -> None:
    text = golden(name)
    (launch,) = [
        one
        for one in launches("smoke", ranks=int(re.search(r"-n(\d)-", name)[1]))
        if name.endswith(f"-{one.name}.txt")
    ]
    records = reader.complete(reader.parse(text), launch.expected, source=name)
    assert {tuple(record.values) for record in records} == {
        ("call_us", "mockup_us", "call_over_mockup")
    }
    assert {record.repetitions >= 2 for record in records} == {True}

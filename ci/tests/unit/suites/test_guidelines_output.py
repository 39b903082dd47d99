"""The guidelines' instrument: recorded outputs hold what a launch asks for."""

import re

import pytest

from reframe_tests.harness.suites import reader
from studies.output_damage import GOLDEN, golden
from synthetic_stack import launches


@pytest.mark.parametrize("name", sorted(path.name for path in GOLDEN.glob("guidelines-*.txt")))
def test_recorded_outputs_of_every_mpi(name):
    ranks, asked = re.search(r"-n(\d)-(\w+)\.txt", name).groups()
    [launch] = [one for one in launches("guidelines", int(ranks), "smoke") if one.name == asked]
    records = reader.complete(reader.parse(golden(name)), launch.expected, source=name)
    assert {tuple(record.values) for record in records} == {
        ("call_us", "mockup_us", "call_over_mockup")
    }
    assert all(record.repetitions >= 2 for record in records)

"""The instruments of the tests: what they print is read whole or not at all, whichever it is."""

import re

import pytest

from reframe_tests.harness.suites import instruments, reader
from reframe_tests.harness.suites.benchmark import OutputError
from studies.output_damage import GOLDEN, golden
from synthetic_evidence import lines_of, sealed

NAMES = [suite.name for suite in instruments.SUITE]
RECORDED = sorted(
    path.name
    for path in GOLDEN.glob("*.txt")
    if path.name.startswith(tuple(f"{name}-" for name in NAMES))
)


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_outputs_are_as_the_instruments_write_them(name):
    text = golden(name)
    assert sealed(*lines_of(text)) == text
    assert reader.parse(text.replace("\n", "\r\n")) == reader.parse(text)


@pytest.mark.parametrize("name", RECORDED)
def test_a_changed_digit_is_seen(name):
    """Nobody could see it but for the checksum."""
    text = golden(name)
    for found in list(re.finditer(r"[0-9](?=[0-9]*[,}])", text))[:200]:
        changed = f"{text[: found.start()]}{(int(found[0]) + 1) % 10}{text[found.end() :]}"
        with pytest.raises(OutputError, match=r"^job\.out.*\.$"):
            reader.parse(changed, source="job.out")


def test_every_instrument_has_a_recorded_output():
    assert {name.partition("-")[0] for name in RECORDED} == set(NAMES)

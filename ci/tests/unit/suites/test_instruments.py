"""The instruments of the tests: what they print is read whole or not at all, whichever it is."""

from __future__ import annotations

import ast
import re

import pytest

from reframe_tests.harness.instruments import FOLDER
from reframe_tests.harness.suites import catalogue, instruments, reader
from reframe_tests.harness.suites.benchmark import OutputError
from studies.output_damage import GOLDEN, golden
from synthetic_evidence import lines_of, sealed

NAMES = [suite.name for suite in instruments.SUITE]
RECORDED = sorted(
    path.name
    for path in GOLDEN.glob("*.txt")
    if path.name.startswith(tuple(f"{name}-" for name in NAMES))
)


def refuse(text: str, words: str | None = None) -> None:
    with pytest.raises(OutputError, match=words) as error:
        reader.parse(text, source="job.out")
    assert str(error.value).startswith("job.out") and str(error.value).endswith(".")


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_outputs_are_as_the_instruments_write_them(name: str) -> None:
    text = golden(name)
    assert sealed(*lines_of(text)) == text
    assert reader.parse(text.replace("\n", "\r\n")) == reader.parse(text)


@pytest.mark.parametrize("name", RECORDED)
def test_a_changed_digit_is_seen(name: str) -> None:
    """Nobody could see it but for the checksum."""
    text = golden(name)
    for found in list(re.finditer(r"[0-9](?=[0-9]*[,}])", text))[:200]:
        refuse(f"{text[: found.start()]}{(int(found[0]) + 1) % 10}{text[found.end() :]}")


def _parsed(module: str) -> list[ast.stmt]:
    return ast.parse((FOLDER / f"{module}.py").read_text()).body


def test_the_instruments_know_every_row() -> None:
    """They run where nothing of the project's requirements can be
    imported, so that names must fit by themselves.
    """
    assert {name.partition("-")[0] for name in RECORDED} == set(NAMES)
    common, guidelines, sharing = (
        {
            node.name
            for each in _parsed(module)
            if isinstance(each, ast.ClassDef)
            for node in each.body
            if isinstance(node, ast.FunctionDef)
        }
        for module in ("common", "guidelines", "sharing")
    )
    for group, own in (("growth", set()), ("algorithms", set()), ("sharing", sharing)):
        assert {row.name.lower() for row in catalogue.rows(group)} <= common | own
    for row in catalogue.rows("guidelines"):
        call, _, mockup = row.name.lower().partition("-vs-")
        assert call in common
        known = mockup in ("larger", "parts")
        assert known or f"{call}_by_{mockup.replace('-', '_')}" in guidelines

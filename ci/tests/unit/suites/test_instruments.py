"""The instruments of the tests: what they print is read whole or not at all, whichever it is."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from instrument_output import lines_of, resealed, sealed
from reframe_tests.harness.instruments import FOLDER
from reframe_tests.harness.suites import catalogue, instruments, reader
from reframe_tests.harness.suites.benchmark import OutputError
from studies.output_damage import GOLDEN, golden

NAMES = [suite.name for suite in instruments.SUITE]
RECORDED = sorted(path.name for path in GOLDEN.glob("*.txt") if path.name.startswith(tuple(f"{name}-" for name in NAMES)))
#: Those without lines of others in between.
STRICT = [name for name in RECORDED if not name.startswith("pair_map")]


def refuse(text: str, words: str | None = None) -> None:
    with pytest.raises(OutputError, match=words) as error:
        reader.parse(text, source="job.out")
    assert str(error.value).startswith("job.out") and str(error.value).endswith(".")


def test_there_is_a_recorded_output_of_each() -> None:
    assert {name.partition("-")[0] for name in RECORDED} == set(NAMES)
    assert all((FOLDER / f"{name}.py").is_file() for name in NAMES)


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_outputs_are_as_the_instruments_write_them(name: str) -> None:
    text = golden(name)
    assert sealed(*lines_of(text)) == text
    assert reader.parse(text.replace("\n", "\r\n")) == reader.parse(text)


@pytest.mark.parametrize("name", RECORDED)
def test_nothing_is_lost_in_silence(name: str) -> None:
    """Without any one of its lines, with one twice, or cut after any of them, an output is refused, or is the same."""
    lines, whole = golden(name).splitlines(keepends=True), reader.parse(golden(name))
    for at in range(len(lines)):
        for damaged in ("".join(lines[:at]), "".join([*lines[:at], *lines[at + 1 :]]), "".join([*lines, lines[at]])):
            try:
                assert reader.parse(damaged, source="job.out") == whole and name not in STRICT
            except OutputError:
                continue


@pytest.mark.parametrize("name", RECORDED)
def test_a_changed_digit_is_seen(name: str) -> None:
    """Nobody could see it but for the checksum."""
    text = golden(name)
    for found in list(re.finditer(r"[0-9](?=[0-9]*[,}])", text))[:200]:
        refuse(f"{text[: found.start()]}{(int(found[0]) + 1) % 10}{text[found.end() :]}")


@pytest.mark.parametrize("name", STRICT)
def test_what_is_no_output_of_the_instrument(name: str) -> None:
    text = golden(name)
    head, rows = lines_of(text)
    refuse(sealed(head, []), "has no rows")
    refuse(sealed(head, rows, rows=len(rows) + 1), "do not fit together")
    refuse(text + text, "behind the last line|second table")
    refuse(text[: text.index('{"end"')], "no last line")
    refuse(text.replace("\n", "\nsomebody else\n", 1), "is no line of JSON")
    refuse(resealed(text, format=2), "is not how an output")
    field = next(field for field, number in rows[0].items() if isinstance(number, float))
    refuse(resealed(text, 0, **{field: 0.0}), f"{field}.* is 0")
    refuse(resealed(text, 0, repetitions=0), "is 0")


def test_the_instruments_know_every_row() -> None:
    """They run where nothing of the project's requirements can be imported, so that names must fit by themselves."""
    methods: dict[str, set[str]] = {}
    for module in ("common", "guidelines", "sharing"):
        classes = [node for node in ast.parse((FOLDER / f"{module}.py").read_text()).body if isinstance(node, ast.ClassDef)]
        methods[module] = {node.name for each in classes for node in each.body if isinstance(node, ast.FunctionDef)}
    common = methods["common"]
    assert {row.name.lower() for group in ("growth", "algorithms") for row in catalogue.rows(group)} <= common
    assert {row.name.lower() for row in catalogue.rows("sharing")} <= common | methods["sharing"]
    for row in catalogue.rows("guidelines"):
        call, _, mockup = row.name.lower().partition("-vs-")
        assert call in common
        assert mockup in ("larger", "parts") or f"{call}_by_{mockup.replace('-', '_')}" in methods["guidelines"]


def test_the_instrument_of_latency_under_load_sends_what_the_rows_say() -> None:
    [(ping, stream, window)] = [
        ast.literal_eval(node.value)
        for node in ast.parse(Path(FOLDER / "loaded_latency.py").read_text()).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "(PING, STREAM, WINDOW)"
    ]
    load = catalogue.find("loaded_latency", instruments.LOAD)
    assert (ping, stream) == (instruments.PING, instruments.STREAM)
    assert load.traffic(stream, 4) == 2 * window * stream

"""Latency under load: what is planned, and how its table is read."""

from __future__ import annotations

import ast
import re
import zlib

import pytest

from catalogue_launches import launches
from reframe_tests.harness.suites import catalogue, reader
from reframe_tests.harness.suites.loaded_latency import rows
from reframe_tests.harness.suites.records import OutputError
from reframe_tests.harness.vocabulary import NotMeasured
from studies.output_damage import golden

NAME = "loaded_latency-mpich-n4.txt"


def sealed(text: str) -> str:
    """The text with the checksum and number of rows it should have, so that only what was changed can be wrong."""
    body = text[: text.index("# end:")]
    return f"{body}# end: {len(body.splitlines()) - 3} rows, received data all right, CRC-32 {zlib.crc32(body.encode()):08x}\n"


def test_what_is_planned() -> None:
    (planned,) = launches(rows.NAME, 8, level="smoke", nodes=4)
    assert planned.args == ("--ppn", "2", "--repetitions", "200")
    names = {metric.name for metric in catalogue.metrics([planned])}
    assert {"Victim.alone.latency_p99.0000000008", "Victim.loaded.latency.0000000008"} <= names
    assert {"Victim_impact.impact_p99.0000000008", "Load.bandwidth.0000131072"} <= names


def test_a_node_needs_a_rank_for_the_load() -> None:
    with pytest.raises(NotMeasured, match="needs two ranks a node or more"):
        launches(rows.NAME, 4, nodes=4)
    with pytest.raises(NotMeasured, match="no benchmark of group loaded_latency runs on 6 ranks of 3 nodes"):
        launches(rows.NAME, 6, nodes=3)


def test_the_instrument_sends_what_the_rows_say() -> None:
    """It runs where nothing of the project can be imported, so that numbers must fit by themselves."""
    text = catalogue.SUITES[rows.NAME].script.path.read_text()
    [(ping, stream, window)] = [
        ast.literal_eval(node.value)
        for node in ast.parse(text).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "(PING, STREAM, WINDOW)"
    ]
    load = catalogue.find(rows.PROGRAM, rows.LOAD)
    assert (ping, stream, load.traffic(stream, 4)) == (rows.PING, rows.STREAM, 2 * window * stream)


def test_a_recorded_output() -> None:
    (planned,) = launches(rows.NAME, 4, level="smoke", nodes=2)
    text = golden(NAME)
    alone, loaded, load, impact = reader.complete(reader.parse(text), planned.expected, source=NAME)
    assert sealed(text) == text
    assert (alone.variant, loaded.variant, load.benchmark, impact.benchmark) == ("alone", "loaded", "Load", "Victim_impact")
    assert (alone.repetitions, loaded.repetitions) == (200, 200)
    assert impact.values == {
        "impact": pytest.approx(loaded.values["latency_us"] / alone.values["latency_us"]),
        "impact_p99": pytest.approx(loaded.values["latency_p99_us"] / alone.values["latency_p99_us"]),
    }
    assert load.repetitions and load.message_bytes == 131072


@pytest.mark.parametrize(
    ("pattern", "replacement", "words"),
    [
        (r"^Victim ", "Victor ", "is not a row"),
        (r"^(Victim +alone +)8", r"\g<1>9", "is not a row"),
        (r"^(Victim +)alone ", r"\1loaded", "the rows are not those of"),
        (r"^(Victim +alone +8 +200 +\S+ +)\S+", r"\g<1>0.000", "a percentile is nothing"),
        (r"^(Victim +alone +8 +200 +)\S+", r"\g<1>0.000", "the mean is below half of the median"),
        (r"^(Victim +loaded +8 +200 +)\S+", r"\g<1>0.001", "the mean is below half of the median"),
        (r"\S+ MB/s$", "0.000 MB/s", "the streams carried nothing"),
        (r"MB/s$", "GB/s", "is not a row"),
        (r"16 messages", "8 messages", "the head of the table"),
    ],
)
def test_lines_that_cannot_be(pattern: str, replacement: str, words: str) -> None:
    text, changes = re.subn(pattern, replacement, golden(NAME), count=1, flags=re.MULTILINE)
    assert changes == 1
    with pytest.raises(OutputError, match=words):
        reader.parse(sealed(text), source="job.out")


def test_nothing_is_lost_in_silence() -> None:
    lines = golden(NAME).splitlines(keepends=True)
    for at in range(len(lines)):
        for damaged in ("".join(lines[:at]), "".join([*lines[:at], *lines[at + 1 :]]), "".join([*lines, lines[at]])):
            with pytest.raises(OutputError):
                reader.parse(damaged, source="job.out")

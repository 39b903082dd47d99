"""``mpibench catalogue --parse``: formats, and one sentence for everything that is not output."""

import io
import json

import msgspec
import pytest

from mpibench.commands.listings import parse as parse_command
from reframe_tests.harness.suites import reader
from reframe_tests.harness.vocabulary import BadInput
from refusals import refused_as
from studies.output_damage import GOLDEN

PAIR = GOLDEN / "imb-mpi1-2021.11-n2-mpich.txt"


def test_json_and_tables_hold_every_record(monkeypatch):
    records = reader.parse(PAIR.read_text())
    rows = json.loads(parse_command.parse_files([PAIR], "json"))
    for row, record in zip(rows, records, strict=True):
        assert (row["source"], row["suite"]) == (str(PAIR), "imb")
        own = {**msgspec.to_builtins(record), **record.values}
        assert {key: own[key] for key in row.keys() - {"source", "suite"}}.items() <= row.items()
    table = parse_command.parse_files([PAIR], "table").splitlines()
    assert len([line for line in table if line and line[:9] != "benchmark"]) == len(records)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(PAIR.read_bytes())))
    read = json.loads(parse_command.parse_files([parse_command.STDIN], "json"))
    assert read == [{**row, "source": "-"} for row in rows]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "no such file"),
        (b" \n \n", "empty"),
        (b"\x7fELF\x02\x01\x01\0\0", "binary file"),
        (PAIR.read_bytes() + b"\xff\n", "not UTF-8"),
        (b"# OSU MPI Latency Test v7.4\n", "OSU"),
        (PAIR.read_bytes()[:900], "truncated"),
    ],
)
def test_what_is_no_output_is_one_sentence(tmp_path, content, words):
    path = tmp_path / "job.out"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(BadInput, match=rf"^{path}.*{words}") as error:
        parse_command.parse_files([PAIR, path], "json")
    assert "\n" not in str(error.value)
    with refused_as("file-unreadable"):
        parse_command.parse_files([tmp_path], "table")


@pytest.mark.parametrize(
    ("golden", "row"),
    [
        ("osu/osu-7.5-mpich-n2-latency.txt", "128                     7.21"),
        ("imb-mpi1-2021.11-n2-4mib.txt", "100         0.11        17.87"),
    ],
)
def test_a_message_that_took_no_time_is_a_damaged_output(golden, row):
    """As the shortest of all latencies it would be the best: no
    machine could ever be as good again.
    """
    text = (GOLDEN / golden).read_text()
    assert reader.parse(text) and text.count(row) == 1
    damaged = text.replace(row, row.replace("7.21", "0.00").replace("0.11", "0.00"))
    with refused_as("output-damaged", match=r"latency_us = 0, which is impossible.* damaged"):
        reader.parse(damaged)

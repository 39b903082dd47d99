"""A suite is one record: a made-up one in a folder outside the project
is read, run and listed without an edited file.
"""

import json
import sys

import pytest

from folders import write
from programs import MPIBENCH, finished
from reframe_tests.harness import records
from reframe_tests.harness.stacks import metadata
from synthetic_extensions import SUITE
from synthetic_stack import DOCUMENT, sealed

OUTPUT = "# Relay\n8 1.50\n16 1.75\n"
PROGRAM = """
import json, sys
from dataclasses import replace
from pathlib import Path
from reframe_tests.harness.stacks import metadata
from reframe_tests.harness.suites import catalogue, reader
from mpibench.stacks import probe

stack = replace(metadata.parse(json.loads(Path(sys.argv[1]).read_text()), "x"), binaries={"relay-run": "/opt/relay-run"})
(launch,) = catalogue.launches("relay_ring", stack, 4, "smoke")
records = reader.complete(reader.parse(Path(sys.argv[2]).read_text()), launch.expected)
print(json.dumps({
    "words": launch.words(stack),
    "values": [[record.message_bytes, record.ranks, record.values["latency_us"]] for record in records],
    "metrics": [metric.name for metric in catalogue.metrics([launch]) if metric.gated],
    "selection": catalogue.stack_selection("relay_ring"),
    "program": probe.suite_of("relay-run"),
    "globs": probe.list_globs(),
}))
"""


def run_with(folder, *words):
    """A command of the project with a folder of further records."""
    path = f"{metadata.ROOT}:{metadata.ROOT / 'ci'}"
    return finished(*words, environ={records.EXTENSIONS: folder, "PYTHONPATH": path})


@pytest.fixture
def folder(tmp_path):
    write(tmp_path / "more" / "suites" / "relay.py", SUITE)
    return tmp_path / "more"


def test_a_suite_of_a_folder_is_read_started_and_recognised(folder, tmp_path):
    stack = {
        **DOCUMENT,
        "binaries": {},
        "commands": {},
        "suites": {"relay": {"version": "1.0", "built_with": "gcc"}},
    }
    file = write(tmp_path / "stack.json", json.dumps(sealed(stack)))
    output = write(tmp_path / "output.txt", OUTPUT)
    done = run_with(folder, sys.executable, "-c", PROGRAM, file, output)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "words": ["/opt/relay-run", "--repeat", "50", "token"],
        "values": [[8, 4, 1.5], [16, 4, 1.75]],
        "metrics": ["token.latency.0000000008"],
        "selection": ["+relay"],
        "program": "relay",
        "globs": "network_*test or hpcc or IMB-* or *_perf or *.[A-FSW].* or osu_* or relay-*",
    }


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("float(row[2])", 'float("nan")', "has latency_us = nan, which is impossible"),
        ("int(row[1])", "int('nothing')", "relay.py fails (ValueError: invalid literal for int()"),
    ],
)
def test_what_a_reader_must_not_give_is_an_error_and_none_of_the_project(
    folder, tmp_path, old, new, words
):
    path = folder / "suites" / "relay.py"
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    output = write(tmp_path / "output.txt", OUTPUT)
    done = run_with(folder, *MPIBENCH, "catalogue", "--parse", output)
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr and "defect" not in done.stderr


@pytest.mark.parametrize(
    "words",
    [(*MPIBENCH, "gate"), (sys.executable, "-m", "mpibench.commands.nightly")],
    ids=["gate", "night"],
)
def test_a_file_that_ends_the_program_is_refused_and_no_answer(folder, words):
    (folder / "suites" / "relay.py").write_text("raise SystemExit(0)\n")
    done = run_with(folder, *words)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert "relay.py cannot be read (SystemExit: 0)" in done.stderr

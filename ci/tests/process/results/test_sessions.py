"""Reading what ReFrame stored: retries, labels, and every
kind of damage refused in one sentence.
"""

import json
import shutil
import signal
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings

import synthetic_session as synthetic
from folders import DATA
from mpibench.store import dataset, sessions
from mpibench.store.store import Store
from programs import finished
from reframe_tests.harness import samples
from reframe_tests.harness.vocabulary import BadInput
from synthetic_session import damaged_reports, refused


@pytest.fixture(scope="module")
def db():
    return synthetic.mixed_folder() / "results.db"


# Damage: each is one sentence that names the file.


def test_reading_does_not_touch_the_database(db, tmp_path):
    before = db.read_bytes()
    beside = sorted(db.parent.iterdir())
    dataset.export(db, tmp_path)
    assert db.read_bytes() == before
    assert sorted(db.parent.iterdir()) == beside


_KILLED_WRITER = """
import os, signal, sqlite3, sys
db = sqlite3.connect(sys.argv[1])
db.execute("PRAGMA cache_size=2")  # so that the transaction reaches the file before it is committed
for number in range(500):
    db.execute("INSERT INTO sessions (uuid, json_blob) VALUES (?, ?)", (f"half-{number}", "x" * 5000))
db.execute("DELETE FROM sessions WHERE uuid NOT LIKE 'half-%'")
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_writer_killed_in_the_middle_of_a_transaction_leaves_it_readable(db, tmp_path):
    mine = Path(shutil.copy(db, tmp_path / "results.db"))
    before = sessions.list_sessions(mine)
    size = mine.stat().st_size
    killed = finished(sys.executable, "-c", _KILLED_WRITER, mine)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert mine.stat().st_size > size and Path(f"{mine}-journal").exists(), (
        "it was in the middle of writing"
    )
    assert sessions.list_sessions(mine) == before
    assert sessions.read_session(mine).cases


# What a test may store: mutations of a report ReFrame wrote.


@pytest.fixture(scope="module")
def report():
    return json.loads((synthetic.mixed_folder() / "report-0.json").read_text())


def reread(report, path):
    path.write_text(json.dumps(report))
    return sessions.read_report(path)


@settings(max_examples=200)
@given(document=damaged_reports())
def test_any_damage_is_a_sentence_or_harmless(document, tmp_path_factory):
    """A report with anything anywhere is refused in one sentence or
    exported; nothing else ever escapes.
    """
    folder = tmp_path_factory.getbasetemp() / "any"
    folder.mkdir(exist_ok=True)
    try:
        dataset.export_session(reread(document, folder / "r.json"), folder / "out")
    except BadInput as error:
        assert "\n" not in str(error)


def test_retried_cases_are_superseded(tmp_path):
    wrong = synthetic.case(end="sanity", verdict="missing", reason="repeat 1 said nothing.")
    plan = [synthetic.case(group="barrier"), wrong]
    retried = synthetic.run_session(plan, tmp_path, options=["--max-retries", "1"])
    session = sessions.read_session(retried)
    failed = [case for case in session.cases if case.result == "fail"]
    assert [case.run for case in failed] == [0, 1]
    assert session.superseded == {failed[0].uuid}
    dataset.export_session(session, tmp_path / "out")
    table = Store(tmp_path / "out").scan("cases").select("run", "superseded").collect()
    assert sorted(table.rows()) == [(0, False), (0, True), (1, False)]


@pytest.mark.parametrize(
    ("option", "superseded"),
    [
        ("--reruns=1", set()),
        ("--rer 1", set()),
        ("--duration=1m", set()),
        ("--max-retries=1", {"s:0:0"}),
    ],
)
def test_a_case_that_failed_in_one_of_several_whole_runs_has_failed(option, superseded):
    """Where everything is run again anyway, a later success takes nothing back."""
    first = {"name": "x", "partition": "p", "environ": "e"}
    cases = tuple(
        sessions.Case(f"s:{run}:0", run, {**first, "result": result}, {}, (), None, ())
        for run, result in enumerate(("fail", "pass"))
    )
    info = {"uuid": "s", "cmdline": f"reframe -c reframe_tests -r {option}"}
    assert sessions.Session(info, cases).superseded == superseded


#: A statement, or what becomes of the file's bytes.
DAMAGE = {
    "cut off": lambda data: data[: len(data) // 2],
    "empty": lambda data: b"",
    "no database": lambda data: b"session;value\n" * 500,
    "overwritten": lambda data: data[:4096] + bytes(len(data) - 4096),
    "other schema": "UPDATE metadata SET schema_version = '9.0'",
    "half a report": "UPDATE sessions SET json_blob = substr(json_blob, 1, length(json_blob) / 2)",
    "no report": "UPDATE sessions SET json_blob = NULL",
    "other report": "UPDATE sessions SET uuid = 'another'",
    "no session": "DELETE FROM sessions",
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_database_is_refused(db, tmp_path, damage):
    broken = Path(shutil.copy(db, tmp_path / "broken.db"))
    change = DAMAGE[damage]
    if isinstance(change, str):
        with closing(sqlite3.connect(broken)) as connection, connection:
            connection.execute(change)
    else:
        broken.write_bytes(change(broken.read_bytes()))
    refused(lambda: sessions.read_session(broken), str(broken))
    if damage != "no session":
        refused(lambda: dataset.export(broken, tmp_path / "out"), str(broken))
    assert not list(tmp_path.glob("out/**/*.parquet"))


def test_what_is_stored_is_read_back_and_has_its_names():
    """Sessions of before have these names; nothing of them is lost on the way."""
    stored = yaml.safe_load((DATA / "stored_case.yaml").read_text())
    [sample] = samples.read_samples([stored["sample"]], "case")
    [gate] = samples.read_gates([stored["gate"]], "case")
    evidence = samples.read_evidence(stored["evidence"], "case")
    assert sample.values == (1.5, None) and gate.upper == 1.6
    assert (evidence.kernel, evidence.status) == (({"release": "6.1"}, "5.10"), "contradicted")
    again = {"sample": sample, "gate": gate, "evidence": evidence}
    assert json.loads(json.dumps({key: one.as_dict() for key, one in again.items()})) == stored

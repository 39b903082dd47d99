"""Reading what ReFrame stored: retries, labels, and every kind of damage refused in one sentence."""

from __future__ import annotations

import copy
import json
import math
import shutil
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

import synthetic_session as synthetic
from mpibench.store import dataset, sessions
from mpibench.store.store import Store
from reframe_tests.harness import samples
from reframe_tests.harness.samples import NUM_SELECTED
from reframe_tests.harness.vocabulary import BadInput
from synthetic_report import damaged_reports, refused


@pytest.fixture(scope="module")
def db() -> Path:
    return synthetic.mixed_folder() / "results.db"


# Retries: ReFrame stores every run; the last one counts, the others stay visible.


def test_retried_cases_are_superseded(tmp_path: Path) -> None:
    plan = [synthetic.case(group="barrier"), synthetic.case(end="sanity", verdict="missing", reason="repeat 1 said nothing.")]
    session = sessions.read_session(synthetic.run_session(plan, tmp_path, options=["--max-retries", "1"]))
    failed = [case for case in session.cases if case.result == "fail"]
    assert [case.run for case in failed] == [0, 1]
    assert session.superseded == {failed[0].uuid}
    dataset.export_session(session, tmp_path / "out")
    table = Store(tmp_path / "out").scan("cases").select("run", "superseded").sort("run", "superseded").collect()
    assert table.rows() == [(0, False), (0, True), (1, False)]


@pytest.mark.parametrize("option", ["--reruns=1", "--rer 1", "--duration=1m"])
def test_a_case_that_failed_in_one_of_several_whole_runs_has_failed(option: str) -> None:
    """Where everything is run again anyway, a later success takes nothing back."""
    first = {"name": "x", "partition": "p", "environ": "e", "result": "fail"}
    cases = tuple(
        sessions.Case(f"s:{run}:0", run, {**first, "result": result}, {}, (), None, ())
        for run, result in enumerate(("fail", "pass"))
    )
    line = "reframe -c reframe_tests -r"
    assert sessions.Session({"uuid": "s", "cmdline": f"{line} {option}"}, cases).superseded == frozenset()
    assert sessions.Session({"uuid": "s", "cmdline": f"{line} --max-retries=1"}, cases).superseded == {"s:0:0"}


# Damage: each is one sentence that names the file.


def test_no_database(tmp_path: Path) -> None:
    refused(lambda: dataset.export(tmp_path / "none.db", tmp_path), str(tmp_path / "none.db"), "reframe")
    assert not (tmp_path / "none.db").exists()


def damaged(db: Path, target: Path, damage: str) -> Path:
    """A copy of the database with one kind of damage."""
    data = db.read_bytes()
    if damage == "cut off":
        data = data[: len(data) // 2]
    elif damage == "empty":
        data = b""
    elif damage == "no database":
        data = b"session;value\n" * 500
    elif damage == "overwritten":
        data = data[:4096] + bytes(len(data) - 8192) + data[-4096:]
    target.write_bytes(data)
    changes = {
        "other schema": "UPDATE metadata SET schema_version = '9.0'",
        "half a report": "UPDATE sessions SET json_blob = substr(json_blob, 1, length(json_blob) / 2)",
        "no report": "UPDATE sessions SET json_blob = NULL",
        "other report": "UPDATE sessions SET uuid = 'another'",
        "no session": "DELETE FROM sessions",
    }
    if damage in changes:
        with sqlite3.connect(target) as connection:
            connection.execute(changes[damage])
        connection.close()
    return target


@pytest.mark.parametrize(
    "damage",
    [
        *("cut off", "empty", "no database", "overwritten"),
        *("other schema", "half a report", "no report", "other report", "no session"),
    ],
)
def test_a_damaged_database_is_refused(db: Path, tmp_path: Path, damage: str) -> None:
    broken = damaged(db, tmp_path / "broken.db", damage)
    refused(lambda: sessions.read_session(broken), str(broken))
    if damage != "no session":
        refused(lambda: dataset.export(broken, tmp_path / "out"), str(broken))
    assert not list(tmp_path.glob("out/**/*.parquet"))


def test_reading_does_not_touch_the_database(db: Path, tmp_path: Path) -> None:
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


def test_a_writer_killed_in_the_middle_of_a_transaction_leaves_it_readable(db: Path, tmp_path: Path) -> None:
    mine = Path(shutil.copy(db, tmp_path / "results.db"))
    before = sessions.list_sessions(mine)
    size = mine.stat().st_size
    killed = subprocess.run([sys.executable, "-c", _KILLED_WRITER, str(mine)], capture_output=True, text=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert mine.stat().st_size > size and Path(f"{mine}-journal").exists(), "it was in the middle of writing"
    assert sessions.list_sessions(mine) == before
    assert sessions.read_session(mine).cases


# What a test may store: mutations of a report ReFrame wrote.


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    return json.loads((synthetic.mixed_folder() / "report-0.json").read_text())


def reread(report: dict[str, Any], path: Path) -> sessions.Session:
    path.write_text(json.dumps(report))
    return sessions.read_report(path)


def test_a_report_file_holds_the_same_session(db: Path) -> None:
    assert sessions.read_report(synthetic.mixed_folder() / "report-0.json") == sessions.read_session(db)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"values": [1.0, math.nan, 2.0]}, ("latency_us", "finite", "samples[0]")),
        ({"values": [1.0, math.inf, 2.0]}, ("finite",)),
        ({"values": [10**400, 2.0, 3.0]}, ("values",)),
        ({"values": ["1.0", 2.0, 3.0]}, ("values",)),
        ({"values": [True, 2.0, 3.0]}, ("values",)),
        ({"values": []}, ("values",)),
        ({"values": None}, ("values",)),
        ({"unit": "ms"}, ("'ms'", "'us'", "latency_us")),
        ({"direction": "higher"}, ("direction", "'lower'")),
        ({"quantity": "speed"}, ("speed", "vocabulary")),
        ({"quantity": None}, ("quantity",)),
        ({"message_bytes": -1}, ("message_bytes",)),
        ({"message_bytes": 1.5}, ("message_bytes",)),
        ({"message_bytes": 1}, ("twice", "PingPong")),
        ({"ranks": None}, ("ranks",)),
        ({"benchmark": 7}, ("benchmark",)),
    ],
)
def test_a_wrong_sample_is_refused(
    report: dict[str, Any], tmp_path: Path, change: dict[str, Any], words: tuple[str, ...]
) -> None:
    broken = copy.deepcopy(report)
    row = broken["runs"][0]["testcases"][0]["samples"][0]
    assert (row["quantity"], row["message_bytes"]) == ("latency_us", 0)
    row.update(change)
    refused(lambda: reread(broken, tmp_path / "r.json"), *words, "p2p_shm_2_bunch_intelmpi", str(tmp_path / "r.json"))


GATE = samples.ReferenceCheck("m", "learned", 1.0, None, None, None, "us", "pass").as_dict()


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("proof", {"verdict": "believed"}, ("proven", "status")),
        ("proof", {"verdict": "proven", "seconds": [math.nan]}, ("seconds",)),
        ("proof", {"verdict": "proven", "devices": [{"device": "eth0", "tx_bytes": -1, "rx_bytes": 0}]}, ("tx_bytes",)),
        ("gates", [{**GATE, "value": math.nan}], ("finite",)),
        ("gates", [{**GATE, "outcome": "passed"}], ("outcome",)),
        ("gates", [{**GATE, "outcome": "fail"}], ("its value and bounds say 'no reference'",)),
        ("gates", "none", ("gates",)),
        ("samples", {"a": 1}, ("samples",)),
        ("condition", ["shm"], ("condition",)),
        ("result", None, ("result",)),
    ],
)
def test_a_wrong_case_is_refused(report: dict[str, Any], tmp_path: Path, key: str, value: Any, words: tuple[str, ...]) -> None:
    broken = copy.deepcopy(report)
    broken["runs"][0]["testcases"][0][key] = value
    refused(lambda: reread(broken, tmp_path / "r.json"), *words)


def test_what_is_stored_is_read_back() -> None:
    sample = samples.Sample("imb", "PingPong", "p2p", 2, 1, "", 1024, 1000, "latency_us", (1.5, None, 1.25))
    gate = samples.ReferenceCheck("PingPong_lat_1024B", "learned", 1.5, 1.4, None, 1.6, "us", samples.PASS)
    evidence = samples.Evidence(
        samples.CONTRADICTED,
        ("pair: wrong",),
        ranks=({"rank": 0, "host": "n1", "cpus_allowed": "0-3", "cpu": 1, "numa_node": None},),
        library_version="MPICH 4.2",
        library="/lib/libmpi.so.12",
        devices=(samples.DeviceTraffic("pair", 1, "n1", "lo", 5, 7),),
        transport="tcp",
        seconds=(0.5,),
        notes=("a note",),
        kernel=({"release": "6.1"}, "5.10"),
        links=({"node": "n1", "link": "eth0", "mtu_bytes": 9000},),
        link_errors=({"launch": "pair", "repeat": 1, "link": "eth0"},),
        link_use=({"launch": "pair", "repeat": 1, "node": "n1"},),
        environment={"FI_PROVIDER": "tcp"},
    )
    stored = json.loads(json.dumps([sample.as_dict(), gate.as_dict(), evidence.as_dict()]))
    assert samples.read_samples([stored[0]], "case") == (sample,)
    assert samples.read_gates([stored[1]], "case") == (gate,)
    assert samples.read_evidence(stored[2], "case") == evidence
    assert (evidence.status, stored[2]["verdict"]) == (samples.CONTRADICTED, "contradicted"), "stored sessions have this name"


@pytest.mark.parametrize(
    ("key", "value", "word"),
    [("data_version", "5.0", "5.0"), ("uuid", None, "uuid"), ("time_start_unix", None, "time_start_unix")],
)
def test_another_kind_of_report_is_refused(report: dict[str, Any], tmp_path: Path, key: str, value: Any, word: str) -> None:
    info = {**report["session_info"], key: value}
    if value is None:
        del info[key]
    refused(lambda: reread({**report, "session_info": info}, tmp_path / "r.json"), word)


def test_reframes_own_keys_are_no_labels() -> None:
    import reframe

    schema = json.loads((Path(reframe.__file__).parent / "schemas" / "runreport.json").read_text())
    assert set(schema["properties"]["session_info"]["properties"]) == sessions.SESSION_KEYS - {NUM_SELECTED}


def test_labels(db: Path) -> None:
    session = sessions.read_session(db)
    assert session.labels == {"run": "nightly", "why": "new firmware"}
    assert sessions.label_of(session) == "run=nightly, why=new firmware"


@settings(max_examples=200)
@given(document=damaged_reports())
def test_any_damage_is_a_sentence_or_harmless(document: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> None:
    """A report with anything anywhere is refused in one sentence or exported; nothing else ever escapes."""
    folder = tmp_path_factory.getbasetemp() / "any"
    folder.mkdir(exist_ok=True)
    try:
        dataset.export_session(reread(document, folder / "r.json"), folder / "out")
    except BadInput as error:
        assert "\n" not in str(error)

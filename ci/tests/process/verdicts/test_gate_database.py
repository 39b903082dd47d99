"""The gate beside ReFrame's own database: which session is the
newest, and what if it cannot be read.
"""

import shutil
import sqlite3
from contextlib import closing

import polars as pl
import pytest

import synthetic_session as synthetic
from mpibench import cli
from mpibench.commands import options
from mpibench.store import sessions
from mpibench.store.store import Store
from synthetic_verdicts import write_session


@pytest.fixture(scope="module")
def three_sessions(tmp_path_factory):
    """Folder with ReFrame's database of three sessions; of the project's
    tests they run none, so that they are partial.
    """
    folder = tmp_path_factory.mktemp("three-sessions")
    for _ in range(3):
        synthetic.run_session([synthetic.case(group="barrier")], folder, ["run=nightly"])
    return folder


@pytest.fixture
def measured(three_sessions, tmp_path):
    """A copy of it that a test may damage."""
    shutil.copytree(three_sessions, tmp_path, dirs_exist_ok=True)
    return tmp_path


def on_database(folder, words="", command="gate --partial"):
    places = f"--db {folder}/results.db --dataset {folder}/set"
    return cli.main([*command.split(), *places.split(), *words.split()])


def in_database(folder, statement, *values):
    with closing(sqlite3.connect(folder / "results.db")) as connection, connection:
        connection.execute(statement, values)


COMPLETENESS = "gate --partial --only=completeness"


def test_an_unreadable_newest_session_is_refused_and_no_older_one_judged(measured, capsys):
    _, before, newest = sessions.list_sessions(measured / "results.db")
    assert on_database(measured) == 0
    assert f"session {newest[:8]}" in capsys.readouterr().out
    for path in measured.glob(f"set/*/*/*/{newest}.parquet"):
        path.unlink()
    damaged = "json_set(json_blob, '$.session_info.data_version', '9.0')"
    in_database(measured, f"UPDATE sessions SET json_blob = {damaged} WHERE uuid = ?", newest)
    accept = f"accept --baseline {before} --out {measured}/out"
    for command in ("gate --partial", COMPLETENESS, "drift", accept):
        assert on_database(measured, command=command) == 2, command
        assert "data version 9.0" in capsys.readouterr().err
    assert on_database(measured, f"--session {newest}") == 2
    # A session named by its id is judged, and the refused one reported.
    assert on_database(measured, f"--session {before}") == 0
    out = capsys.readouterr().out
    assert out.startswith("PASS: testbed") and "sessions that could not be read: 1 (" in out
    in_database(measured, "DELETE FROM sessions WHERE uuid = ?", newest)
    assert on_database(measured) == 0, "a session that was removed is no longer waited for"


@pytest.mark.parametrize("empty", [False, True])
def test_without_its_database_nobody_knows_the_newest(measured, empty):
    """Nor by one that holds no session, which is not the one the dataset came from."""
    assert on_database(measured) == 0
    if empty:
        in_database(measured, "DELETE FROM sessions")
    else:
        (measured / "results.db").unlink()
    assert on_database(measured) == 2
    assert on_database(measured, "--dataset-only") == 0


def test_a_dataset_of_somebody_else_gets_none_of_this_checkouts_sessions(
    measured, tmp_path, monkeypatch
):
    """It would be judged by sessions that were never measured there."""
    theirs = tmp_path / "theirs"
    write_session(theirs, 0)
    files = sorted(theirs.rglob("*.parquet"))
    monkeypatch.setattr(options, "RESULTS", measured)
    monkeypatch.setattr(options, "DATABASE", measured / "results.db")
    database = ["--db", str(measured / "results.db"), "--dataset"]
    for command in ("gate --partial --max-age=100000", "drift", "compare"):
        assert cli.main([*command.split(), *database, str(theirs)]) != 70
        assert sorted(theirs.rglob("*.parquet")) == files
    own = measured / "dataset"
    assert cli.main(["gate", "--partial", *database, str(own)]) == 0
    assert len(Store(own).session_systems) == 3


def test_values_that_are_damaged_or_gone_are_exported_again_and_missed_without_a_database(
    measured, capsys
):
    assert on_database(measured) == 0
    newest = sessions.list_sessions(measured / "results.db")[-1]
    (path,) = measured.glob(f"set/samples/*/*/{newest}.parquet")
    whole = pl.read_parquet(path)
    path.write_bytes(path.read_bytes()[:1000])
    assert on_database(measured) == 0
    assert pl.read_parquet(path).equals(whole)
    path.unlink()
    for command in (f"gate --session {newest}", COMPLETENESS, "drift"):
        assert on_database(measured, "--dataset-only", command=command) == 2, command
        assert f"{path} is gone, but " in capsys.readouterr().err
    assert on_database(measured, f"--session {newest}") == 0
    assert pl.read_parquet(path).equals(whole)

"""The gate beside ReFrame's own database: which session is the newest, and what if it cannot be read."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import polars as pl
import pytest

import synthetic_session as synthetic
from mpibench import cli
from mpibench.commands import options
from mpibench.store import sessions
from mpibench.store.store import Store
from synthetic_verdicts import write_session


@pytest.fixture(scope="module")
def three_sessions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with ReFrame's database of three sessions; of the project's tests they run none, so that they are partial."""
    folder = tmp_path_factory.mktemp("three-sessions")
    for _ in range(3):
        synthetic.run_session([synthetic.case(group="barrier")], folder, ["run=nightly"])
    return folder


@pytest.fixture
def measured(three_sessions: Path, tmp_path: Path) -> Path:
    """A copy of it that a test may damage."""
    shutil.copytree(three_sessions, tmp_path, dirs_exist_ok=True)
    return tmp_path


def on_database(folder: Path, *words: str, command: str = "gate") -> int:
    partial = [] if command == "drift" else ["--partial"]
    return cli.main([*command.split(), "--db", str(folder / "results.db"), "--dataset", str(folder / "set"), *partial, *words])


def test_an_unreadable_newest_session_is_refused_and_no_older_one_judged(
    measured: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, before, newest = sessions.list_sessions(measured / "results.db")
    assert on_database(measured) == 0
    assert f"session {newest[:8]}" in capsys.readouterr().out
    for path in measured.glob(f"set/*/*/*/{newest}.parquet"):
        path.unlink()
    with closing(sqlite3.connect(measured / "results.db")) as connection:
        ((blob,),) = connection.execute("SELECT json_blob FROM sessions WHERE uuid = ?", [newest]).fetchall()
        report = json.loads(blob)
        report["session_info"]["data_version"] = "9.0"
        connection.execute("UPDATE sessions SET json_blob = ? WHERE uuid = ?", [json.dumps(report), newest])
        connection.commit()
    for command in ("gate", "gate --only=completeness", "drift"):
        assert on_database(measured, command=command) == 2, command
        assert "data version 9.0" in capsys.readouterr().err
    accept = [
        *("accept", "--baseline", before, "--db", str(measured / "results.db"), "--dataset", str(measured / "set")),
        *("--out", str(measured / "out")),
    ]
    assert cli.main(accept) == 2
    assert f"'latest' means session {newest[:8]}, which cannot be read" in capsys.readouterr().err
    assert on_database(measured, "--session", newest) == 2
    assert on_database(measured, "--session", before) == 0, "a session named by its id is judged, and the refused one reported"
    out = capsys.readouterr().out
    assert out.startswith("PASS: testbed") and "sessions that could not be read: 1 (" in out
    assert on_database(measured, "--session", before, command="gate --only=completeness") == 0
    out = capsys.readouterr().out
    assert out.startswith("complete: testbed") and f"note: session {newest[:8]} is not counted: " in out
    with closing(sqlite3.connect(measured / "results.db")) as connection:
        connection.execute("DELETE FROM sessions WHERE uuid = ?", [newest])
        connection.commit()
    assert on_database(measured) == 0, "a session that was removed is no longer waited for"


def test_without_a_database_nobody_knows_the_newest(measured: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert on_database(measured) == 0
    (measured / "results.db").unlink()
    capsys.readouterr()
    assert on_database(measured) == 2
    assert "there is no results database" in capsys.readouterr().err
    assert on_database(measured, "--dataset-only") == 0


def test_an_empty_database_is_not_the_one_the_dataset_came_from(measured: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert on_database(measured) == 0
    with closing(sqlite3.connect(measured / "results.db")) as connection:
        connection.execute("DELETE FROM sessions")
        connection.commit()
    capsys.readouterr()
    assert on_database(measured) == 2
    assert "holds no session, but the dataset" in capsys.readouterr().err
    assert on_database(measured, "--dataset-only") == 0


def test_a_dataset_of_somebody_else_gets_none_of_this_checkouts_sessions(
    measured: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It would be judged by sessions that were never measured there."""
    theirs = write_session(tmp_path / "theirs", 0)
    files = sorted((tmp_path / "theirs").rglob("*.parquet"))
    monkeypatch.setattr(options, "RESULTS", measured)
    monkeypatch.setattr(options, "DATABASE", measured / "results.db")
    for command in ("gate --partial --max-age=100000", "drift", "compare"):
        capsys.readouterr()
        words = [*command.split(), "--db", str(measured / "results.db"), "--dataset", str(tmp_path / "theirs")]
        assert cli.main(words) != 70
        assert sorted((tmp_path / "theirs").rglob("*.parquet")) == files
        assert command in ("drift", "compare") or theirs[:8] in capsys.readouterr().out
    own = ["gate", "--partial", "--db", str(measured / "results.db"), "--dataset", str(measured / "dataset")]
    assert cli.main(own) == 0 and len(Store(measured / "dataset").session_systems) == 3


@pytest.mark.parametrize("hours", ["inf", "nan", "-1", "0"])
def test_an_age_without_end_is_no_limit(measured: Path, hours: str) -> None:
    assert on_database(measured, "--max-age", hours) == 2


def test_a_folder_that_names_no_day_is_reported(measured: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert on_database(measured) == 0
    day = sorted(measured.glob("set/cases/*/date=*"))[0]
    day.rename(day.with_name("date=x"))
    assert on_database(measured, "--dataset-only") in (1, 2)
    captured = capsys.readouterr()
    assert "names no day" in captured.out + captured.err


def test_a_damaged_file_is_exported_again(measured: Path) -> None:
    assert on_database(measured) == 0
    path = sorted(measured.glob("set/samples/*/*/*.parquet"))[-1]
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    assert on_database(measured) == 0
    assert Store(measured / "set").scan("samples").collect()["session"].n_unique() == 3


def test_values_that_are_gone_are_exported_again_and_missed_without_a_database(
    measured: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert on_database(measured) == 0
    newest = sessions.list_sessions(measured / "results.db")[-1]
    (path,) = measured.glob(f"set/samples/*/*/{newest}.parquet")
    whole = pl.read_parquet(path)
    path.unlink()
    for command, words in (("gate", ["--session", newest]), ("gate --only=completeness", []), ("drift", [])):
        assert on_database(measured, "--dataset-only", *words, command=command) == 2, command
        assert f"{path} is gone, and " in capsys.readouterr().err
    assert on_database(measured, "--session", newest) == 0
    assert pl.read_parquet(path).equals(whole)

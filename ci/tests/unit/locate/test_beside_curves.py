"""Suspects beside curves that miss: of the session's own map, else of the
newest of a month; and new ones after an upgrade.
"""

import gzip
import json
from dataclasses import replace
from datetime import datetime, timedelta, timezone

import polars as pl
import pytest
from typer.testing import CliRunner

from folders import DATA
from mpibench.cli import app
from mpibench.locate import nights
from mpibench.store import dataset
from mpibench.store.store import Store
from reframe_tests.harness.instruments.pairs.pair_values import MapFile
from reframe_tests.harness.vocabulary import BadInput
from refusals import refused_as
from synthetic_fabric import across, names, pair_map, sends_slowly, session_of
from synthetic_verdicts import by, unchanged, write_session

NOW = datetime(2026, 11, 20, 2, tzinfo=timezone.utc)


def export(folder, uuid, days_ago, measured):
    session = session_of(measured)
    started = (NOW - timedelta(days=days_ago)).timestamp()
    info = {**session.info, "uuid": uuid, "time_start_unix": started, "time_end_unix": started + 60}
    dataset.export_session(replace(session, info=info), folder)


def said(folder, *sessions):
    return nights.suspects(Store(folder), "minicluster", sessions, NOW)


@pytest.fixture
def maps(tmp_path):
    """Results of two maps, as ReFrame stored them."""
    path = tmp_path / "maps.db"
    path.write_bytes(gzip.decompress((DATA / "oracle" / "maps.db.gz").read_bytes()))
    return path


def test_where_no_curve_misses_only_the_own_map_that_flags_is_said(tmp_path):
    export(tmp_path, "aaaa0000-1", 3, pair_map(8, sends_slowly("c2", 3.0)))
    export(tmp_path, "cccc0000-1", 0, pair_map(8))
    gate = f"gate --json --dataset-only --dataset {tmp_path} --session"
    for session, nodes in (("aaaa0000-1", ["c2"]), ("cccc0000-1", [])):
        done = CliRunner().invoke(app, [*gate.split(), session])
        notes = [note for note in json.loads(done.output)["notes"] if "suspects" in note]
        assert [note.partition("flags: ")[2][:2] for note in notes] == nodes


@pytest.mark.parametrize("damage", ["missing", "damaged"])
def test_a_map_whose_file_is_not_as_written_is_never_green(tmp_path, damage):
    export(tmp_path, "aaaa0000-1", 0, pair_map(8))
    [file] = tmp_path.glob("maps/*.parquet")
    if damage == "missing":
        file.unlink()
    else:
        file.write_bytes(file.read_bytes()[:-9])
    for command in ("gate --json", "locate"):
        words = f"{command} --dataset-only --dataset {tmp_path} --session aaaa0000-1"
        assert CliRunner().invoke(app, words.split()).exit_code != 0
    with refused_as(f"file-{damage}", match=file.name):
        said(tmp_path, "aaaa0000-1")
    export(tmp_path, "aaaa0000-1", 0, pair_map(8))
    assert nights.stored(Store(tmp_path), "minicluster")


@pytest.mark.parametrize("lost", [("pair_maps",), ("pair_maps", "reports")])
def test_a_map_whose_row_is_gone_is_not_one_that_nobody_measured(tmp_path, lost):
    """Nor is a map lost where a session measured none, or on another system."""
    session = session_of(pair_map(8), None)
    other = replace(session.cases[1], entry={**session.cases[1].entry, "system": "other"})
    dataset.export_session(replace(session, cases=(session.cases[0], other)), tmp_path)
    assert not Store(tmp_path).pair_maps("other")
    assert len(Store(tmp_path).pair_maps()) == 1
    for table in lost:
        for row in tmp_path.glob(f"{table}/*/*/*.parquet"):
            row.unlink()
    with refused_as("file-unreadable", match=lost[-1]):
        said(tmp_path, session.uuid)


@pytest.mark.parametrize("lost", ["maps/*", "pair_maps/*/*/*"])
def test_what_is_lost_of_a_map_and_the_database_has_is_exported_again(tmp_path, maps, lost):
    store = Store(tmp_path / "dataset")
    store.export(maps)
    files = sorted(store.folder.glob(f"{lost}.parquet"))
    for file in files:
        file.unlink()
    assert files and store.bring_up_to_date(maps) == []
    assert all(file.is_file() for file in files)


def test_a_damaged_map_of_before_hides_no_failure(tmp_path):
    """And the failure does not hide the damage."""
    export(tmp_path, "aaaa0000-1", 9, pair_map(8))
    for number, day in enumerate((8, 7, 6, 5, 4, 3, 0)):
        how = unchanged if day else by(1.3)
        started = NOW - timedelta(days=day)
        last = write_session(tmp_path, number, started=started, system="minicluster", change=how)
    [file] = tmp_path.glob("maps/*.parquet")
    words = f"gate --json --max-age 1e6 --dataset-only --dataset {tmp_path} --session {last}"
    before = CliRunner().invoke(app, words.split())
    file.write_bytes(file.read_bytes()[:-9])
    after = CliRunner().invoke(app, words.split())
    assert before.exit_code == after.exit_code == 1
    assert json.loads(before.output)["problems"] == json.loads(after.output)["problems"]
    assert any(file.name in note for note in json.loads(after.output)["notes"])


def test_maps_of_a_dataset_of_the_layout_before_are_read(tmp_path, maps):
    """Theirs are rows of a table; the results they were exported from have the same."""
    old = Store(DATA / "oracle" / "dataset").pair_maps("minicluster")
    dataset.export(maps, tmp_path / "dataset")
    new = Store(tmp_path / "dataset").pair_maps("minicluster")
    assert len(old) == 2 and all(isinstance(one.pair_map.values, MapFile) for one in new)
    for before, after in zip(old, new, strict=True):
        assert sorted(before.pair_map.rows()) == sorted(after.pair_map.rows())
        assert before.pair_map.tree == after.pair_map.tree
    reports = pl.read_parquet(tmp_path / "dataset" / "reports" / "**" / "*.parquet")["report"]
    assert not any('"rows":' in report for report in reports)


def test_a_withdrawn_map_flags_nothing(tmp_path):
    """Neither beside curves, nor in what nodes did over the nights, nor by itself."""
    export(tmp_path, "bbbb0000-1", 9, pair_map(8, sends_slowly("c2", 3.0)))
    export(tmp_path, "cccc0000-1", 3, pair_map(8, sends_slowly("c3", 3.0)))
    store = Store(tmp_path)
    store.withdraw("cccc0000-1", "the cable was out")
    (line,) = said(tmp_path, "none")
    assert "session bbbb0000" in line and "c2 sends at" in line
    assert [one.session for one in nights.stored(Store(tmp_path), "minicluster")] == ["bbbb0000-1"]
    words = f"locate --session=cccc0000 --dataset-only --dataset {tmp_path}"
    done = CliRunner().invoke(app, words.split())
    assert isinstance(done.exception, BadInput) and "the cable was out" in str(done.exception)
    store.restore("cccc0000-1")
    assert len(nights.stored(Store(tmp_path), "minicluster")) == 2


def test_a_map_that_cannot_tell_is_not_said_to_flag_nothing_and_no_more(tmp_path):
    """Leaves that are described otherwise than cabled, and a slow way between those there are."""
    nodes = names(8)
    otherwise = pair_map(8, across((nodes[::2], nodes[1::2]), 3.0), orders=4)
    clause = "flags nothing among 8 nodes"
    for uuid, measured, end in (
        ("aaaa0000-1", otherwise, f"{clause}; some could not be decided"),
        ("bbbb0000-1", pair_map(8), clause),
    ):
        export(tmp_path, uuid, 0, measured)
        assert end in said(tmp_path, uuid)[0]
    assert said(tmp_path, uuid)[0].endswith(clause)


@pytest.mark.parametrize(
    ("before", "new", "note"),
    [
        ("healthy", 1, ""),
        ("slow", 0, "like the baseline's, flags: c5 sends at"),
        (None, 0, "(the baseline has none to compare with): c5 sends at"),
    ],
)
def test_what_an_upgrade_brought(tmp_path, before, new, note):
    slow = pair_map(8, sends_slowly("c5", 3.0))
    uuids = ("aaaa0000-1", "bbbb0000-1")
    if before:
        export(tmp_path, uuids[0], 9, pair_map(8) if before == "healthy" else slow)
    export(tmp_path, uuids[1], 0, slow)
    store = Store(tmp_path)
    sides = (nights.stored(store, "minicluster", [uuid]) for uuid in uuids)
    found, notes = nights.newly_flagged(*sides)
    assert len(found) == new and note in "".join(notes)
    assert all("c5 sends at" in line for line in found)

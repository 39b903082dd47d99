"""Sessions from a real ReFrame database to Parquet and back: nothing
lost, nothing doubled, nothing broken let through.
"""

import dataclasses
import errno
import os
import shutil
import sqlite3
from contextlib import closing
from datetime import datetime, timezone
from pathlib import Path

import polars as pl
import pytest
import yaml

import synthetic_session as synthetic
from folders import DATA
from mpibench import whole_file
from mpibench.store import dataset, dataset_layout, sessions
from mpibench.store.store import Store
from reframe_tests.harness import samples
from reframe_tests.harness.vocabulary import BadInput
from synthetic_session import refused, session_of


@pytest.fixture(scope="module")
def plan():
    return synthetic.mixed_plan()


@pytest.fixture(scope="module")
def db():
    return synthetic.mixed_folder() / "results.db"


@pytest.fixture(scope="module")
def exported(db, tmp_path_factory):
    out = tmp_path_factory.mktemp("dataset")
    dataset.export(db, out)
    return out


def everything(out):
    return Store(out).values(evidence=samples.STATUSES).collect()


def test_statistics_see_only_what_is_proven(exported):
    assert set(Store(exported).values().collect()["evidence"]) == {"proven"}
    kept = everything(exported)
    assert set(kept["evidence"]) == {"proven", "contradicted", "missing"}
    contradicted = Store(exported).values(evidence=["contradicted"]).collect()
    assert set(contradicted["fabric"]) == {"lo"}
    assert contradicted.height == 2 * 2 * 24 * 3
    assert kept["value"].null_count() == 0


def test_partitions_are_read_by_plain_polars(exported, db):
    session = sessions.read_session(db)
    files = [str(path.relative_to(exported)) for path in sorted(exported.rglob("*.*"))]
    day = f"{datetime.fromtimestamp(session.info['time_start_unix'], timezone.utc):%Y-%m-%d}"
    assert files == [
        f"{table}/system=testbed/date={day}/{session.uuid}.parquet"
        for table in ("cases", "reports", "samples")
    ]
    assert "system" not in pl.read_parquet_schema(exported / files[2])
    assert set(pl.read_parquet(exported / "samples")["system"]) == {"testbed"}


@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))], ids=repr
)
def test_an_export_that_ends_early_leaves_no_table_without_the_others(
    db, tmp_path, monkeypatch, error
):
    """At the second table of a session: a full disk, which blames no session, or an interruption."""
    write = whole_file.write_parquet
    written = []

    def stop(path, frame, **how):
        assert path.suffix != ".parquet", "a reader could see this file before it is whole"
        written.append(path)
        write(path, frame, **how)
        if len(written) == 2:
            raise error

    monkeypatch.setattr(whole_file, "write_parquet", stop)
    with pytest.raises((KeyboardInterrupt, BadInput)) as ended:
        dataset.export(db, tmp_path)
    if isinstance(error, OSError):
        assert "cannot write the dataset" in str(ended.value)
        assert error.strerror in str(ended.value)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_damaged_dataset_is_refused(db, tmp_path):
    refused(lambda: Store(tmp_path).values(), "mpibench export")
    dataset.export(db, tmp_path)
    path = next(tmp_path.glob("samples/**/*.parquet"))
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    refused(lambda: Store(tmp_path).values(), str(path), "export")
    refused(lambda: Store(tmp_path).values(evidence=["believed"]), "believed", "proven")


def test_names_cannot_leave_the_dataset(tmp_path):
    session = session_of(synthetic.case(), uuid="../../escape")
    refused(lambda: dataset.export_session(session, tmp_path / "out"), "../../escape")
    refused(lambda: dataset.export_session(session_of(), tmp_path / "out"), "has no cases")
    assert not list(tmp_path.glob("**/*.parquet"))


def test_what_an_upgrade_may_change_is_kept_by_name():
    """Kernel settings, drivers and firmware of all nodes, each saying once."""
    nodes = [
        {"release": "6.1", "driver of eth0": "ice 1.9 firmware 4.2"},
        {"release": "6.2", "firmware of mlx5_0": None},
    ]
    entry = {"uuid": "u", "result": "pass", "system": "s"}
    stored = {"verdict": "contradicted", "kernel": nodes}
    case = sessions.Case("u", 0, entry, {}, (), samples.read_evidence(stored, "case"), ())
    said = {"kernel release": ["6.1", "6.2"], "driver of eth0": ["ice 1.9 firmware 4.2"]}
    assert dataset._machine(case) == {"machine": said}
    link = {"node": "n1", "link": "eth0", "state": "up"}
    links = [{**link, "mtu_bytes": mtu} for mtu in (9000, 1500, 9000)]
    proof = samples.read_evidence({**stored, "links": links}, "case")
    said["link eth0"] = ["MTU 1500, state up", "MTU 9000, state up"]
    assert dataset._machine(dataclasses.replace(case, proof=proof)) == {"machine": said}


#: What is left of a report that was not written to its end.
CUT = "UPDATE sessions SET json_blob = substr(json_blob, 1, 100)"


def test_what_another_database_could_not_export_is_not_forgotten_for_it(db, tmp_path):
    """Two machines, one dataset: what one of them does not know is the other's."""
    theirs = Path(shutil.copy(db, tmp_path / "theirs.db"))
    out = tmp_path / "out"
    with closing(sqlite3.connect(theirs)) as connection:
        connection.execute(f"{CUT}, uuid = 'b2b2'")
        connection.commit()
    refused(lambda: dataset.export(theirs, out), "b2b2")
    store = Store(out)
    store.bring_up_to_date(db)
    assert [lost.session for lost in store.lost()] == ["b2b2"]


def test_a_refused_session_is_kept_in_mind_until_it_is_exported(db, tmp_path):
    mine = Path(shutil.copy(db, tmp_path / "results.db"))
    (uuid,) = sessions.list_sessions(mine)
    with closing(sqlite3.connect(mine)) as connection:
        columns = "SELECT json_blob, session_start_unix FROM sessions"
        whole, start = connection.execute(columns).fetchone()
        connection.execute(CUT)
        connection.commit()
        refused(lambda: dataset.export(mine, tmp_path / "out"), uuid)
        (lost,) = Store(tmp_path / "out").lost("testbed")
        assert (lost.session, lost.systems) == (uuid, ("testbed",))
        assert Store(tmp_path / "out").lost("elsewhere") == ()
        # Without a start it does not become younger: else what measured a night again would one
        # day have been the first to do so.
        connection.execute("UPDATE sessions SET json_blob = '{', session_start_unix = 'then'")
        connection.commit()
        began = []
        for _ in range(2):
            refused(lambda: dataset.export(mine, tmp_path / "out"), "truncated")
            began += [lost.started for lost in Store(tmp_path / "out").lost()]
        assert began[0] == began[1]
        connection.execute(
            "UPDATE sessions SET json_blob = ?, session_start_unix = ?", [whole, start]
        )
        connection.commit()
    dataset.export(mine, tmp_path / "out")
    assert Store(tmp_path / "out").lost() == ()


def test_every_value_comes_back(exported, plan):
    keys = ("benchmark", "quantity", "message_bytes")
    asked = {
        (case["name"], *(row[key] for key in keys), repeat): value
        for case in plan
        if case["end"] in ("pass", "sanity")
        for row in case["samples"]
        for repeat, value in enumerate(row["values"], start=1)
    }
    names = Store(exported).scan("cases").select("case", name=pl.col("name").str.split("=").list[1])
    frame = Store(exported).scan("samples").join(names, on="case").collect()
    got = {row[:-1]: row[-1] for row in frame.select("name", *keys, "repeat", "value").rows()}
    assert got == asked
    assert frame.height == len(asked)


def test_one_row_in_full(exported, db):
    """All that the project promises to whoever reads the dataset."""
    session = sessions.read_session(db)
    case = session.cases[0]
    rows = everything(exported).filter(
        pl.col("case") == case.uuid,
        benchmark="PingPong",
        quantity="bandwidth_mb_per_s",
        message_bytes=4096,
        repeat=2,
    )
    [row] = rows.rows(named=True)
    started = session.started.replace(microsecond=session.started.microsecond // 1000 * 1000)
    outputdir = row.pop("outputdir")
    assert Path(outputdir, "benchmark.txt").exists()
    assert row.pop("value") > 0
    assert row == {
        **yaml.safe_load((DATA / "dataset_row.yaml").read_text()),
        **{"session": session.uuid, "started": started, "date": session.started.date()},
        "case": f"{session.uuid}:0:0",
        "job_id": case.entry["jobid"],
        "nodelist": case.entry["job_nodelist"][0],
    }


def test_a_session_is_never_there_twice(db, tmp_path, plan):
    """Nor where it was exported before to another day; named twice, by its beginning, or not."""
    first = dataset.export(db, tmp_path)
    before = everything(tmp_path)
    frame = Store(tmp_path).scan("samples").collect()
    assert (first.sessions, first.cases, first.rows) == (1, len(plan), frame.height)
    assert first.unproven_rows == frame.filter(pl.col("evidence") != "proven").height > 0
    [here] = tmp_path.glob("samples/system=*/date=*/*.parquet")
    elsewhere = here.parents[1] / "date=2001-01-01" / here.name
    elsewhere.parent.mkdir()
    here.rename(elsewhere)
    (uuid,) = sessions.list_sessions(db)
    assert dataset.export(db, tmp_path, [uuid, uuid[:8]]) == first
    assert everything(tmp_path).equals(before)
    assert [*tmp_path.glob("samples/system=*/date=*/*.parquet")] == [here]
    for name in ("ffffffff-none", ""):
        refused(lambda name=name: dataset.export(db, tmp_path, [name]), name)
    assert Store(tmp_path).values("another").collect().is_empty()


@pytest.mark.parametrize("change", ["version", "column", "type", "rows"])
def test_a_file_that_is_not_as_written_is_named_and_stops(exported, tmp_path, change):
    shutil.copytree(exported, tmp_path, dirs_exist_ok=True)
    [path] = tmp_path.glob("cases/system=*/date=*/*.parquet")
    whole = pl.read_parquet(path, hive_partitioning=False)
    changed = {
        "version": whole,
        "column": whole.drop("cmdline"),
        "type": whole.with_columns(pl.col("samples").cast(pl.String)),
        "rows": pl.concat([whole, whole]),
    }
    version = "1.0" if change == "version" else dataset_layout.LAYOUT
    changed[change].write_parquet(path, metadata={dataset_layout.VERSION_KEY: version})
    refused(lambda: Store(tmp_path).scan("cases"), str(path), "export")


@pytest.mark.parametrize("place", ["date=x/{}", "date=2001-01-01/{}", "{}", ""])
def test_a_file_that_is_not_where_it_was_written_is_named_and_stops(exported, tmp_path, place):
    """On another day or none; as another session in both tables; or nowhere."""
    shutil.copytree(exported, tmp_path, dirs_exist_ok=True)
    for table in ("samples", "cases"):
        [path] = tmp_path.glob(f"{table}/system=*/date=*/*.parquet")
        moved = path
        if place == "{}":
            moved = path.with_name("another.parquet")
            shutil.copy(path, moved)
        elif place and table == "cases":
            moved = path.parents[1] / place.format(path.name)
            moved.parent.mkdir()
            shutil.copy(path, moved)
    if not place:
        path.unlink()
    refused(lambda: Store(tmp_path).scan("cases"), str(moved), "export")

"""Many systems in one dataset: read by other tools as documented, and apart from one another."""

import re
from datetime import timedelta

import polars as pl

from mpibench import cli
from mpibench.store import records
from mpibench.store.store import Store
from reframe_tests.harness.sites.site import ROOT
from refusals import refused_as
from synthetic_verdicts import BENCHMARKS, FIRST, SIZES, write_session


def test_duckdb_reads_many_systems(tmp_path):
    """The query of docs/reference/results.md."""
    import duckdb

    for number in range(6):
        evidence = "proven" if number < 5 else "missing"
        write_session(tmp_path, number, system=f"system{number % 3}", evidence=evidence)
    text = (ROOT / "docs" / "reference" / "results.md").read_text()
    [query] = re.findall(r"^    (SELECT system.*?GROUP BY ALL)$", text, re.MULTILINE | re.DOTALL)
    rows = duckdb.sql(query.replace("DATASET", str(tmp_path))).fetchall()
    assert {stack for _, stack, _ in rows} == {"openmpi-spack"}
    assert sorted(system for system, *_ in rows) == ["system0", "system1", "system2"]
    assert all(900 < value < 1100 for *_, value in rows)


#: What a spreadsheet would run.
FORMULA = "=HYPERLINK(1)"


def test_proven_values_of_a_period_and_condition_become_csv(tmp_path):
    places = [{"fabric": "eth1g"}, {"fabric": "shm"}, {"fabric": "eth1g", "evidence": "missing"}]
    for night in range(3):
        write_session(tmp_path, night, where=places, stacks=(FORMULA,))
    given = ("--dataset-only", "--out", str(tmp_path), "--csv", str(tmp_path / "values.csv"))
    period = ("--sessions", f"{FIRST:%Y%m%d}:{FIRST + timedelta(days=2):%Y%m%d}")
    assert cli.main(["export", *given, *period, "--where", "fabric == 'eth1g'"]) == 0
    text = (tmp_path / "values.csv").read_text()
    assert f'"\'{FORMULA}"' in text and f'"{FORMULA}"' not in text
    rows = pl.read_csv(tmp_path / "values.csv")
    metrics = len(SIZES) * len(BENCHMARKS) - 1  # no bytes have no bandwidth
    assert rows.height == 2 * metrics * 5
    assert rows.select("session", "fabric", "job_id", "nodelist").unique().height == 2
    assert set(rows["fabric"]) == {"eth1g"}
    with refused_as("options-exclude"):
        cli.app(["export", "--where", "fabric == 'eth1g'"], standalone_mode=False)


def test_what_is_said_of_zeros_needs_no_other_values(tmp_path):
    largest = max(SIZES)

    def edit(row):
        return {**row, "value": 0.0} if row["message_bytes"] == largest else row

    names = {"B": "bandwidth_mb_per_s"}
    for night in range(3):
        write_session(tmp_path, night, benchmarks=names, edit=edit if night == 1 else dict)
    whole, few = (
        Store(tmp_path).select("testbed", "now-100000d:now", only_zeros=only)
        for only in (False, True)
    )
    assert whole.notes == few.notes and len(few.notes) == 2  # of no bytes, and of the largest
    assert 0 < few.measured.height < whole.measured.height


def test_a_night_of_which_not_all_was_judged_is_none_that_passed(tmp_path):
    session = write_session(tmp_path, 0)
    records.answer(tmp_path, session, records.GATE, "nightly", [], finding="busy", unjudged=True)
    [row] = Store(tmp_path).session_rows()
    gate = row["answers"][records.GATE]
    assert (gate["passed"], gate["unjudged"]) == (False, True)

"""Many systems in one dataset: read by other tools as documented, and apart from one another."""

from __future__ import annotations

import re
from pathlib import Path

from mpibench.judge import drift
from mpibench.store.store import Store
from reframe_tests.harness.sites.site import ROOT
from refusals import refused_as
from synthetic_verdicts import write_session


def test_duckdb_reads_many_systems(tmp_path: Path) -> None:
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


def test_other_systems_files_are_not_looked_at(tmp_path: Path) -> None:
    """What is damaged on one system stops nobody else."""
    for number in range(2):
        write_session(tmp_path, number, system=f"system{number}")
    for path in tmp_path.glob("*/system=system1/*/*.parquet"):
        path.write_bytes(path.read_bytes()[:-40])
    assert Store(tmp_path).select("system0", "latest").values.height
    assert drift.read(Store(tmp_path), "system0").nights.height == 1
    with refused_as("file-unreadable", match="cut off"):
        Store(tmp_path).select("system1", "latest")

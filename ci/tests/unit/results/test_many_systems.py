"""Many systems in one dataset: read by other tools as documented, and apart from one another."""

from __future__ import annotations

import re
from pathlib import Path

from reframe_tests.harness.sites.site import ROOT
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

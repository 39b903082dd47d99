"""The tables of MPIs and launchers have a row for each record, and say of the same ones that nobody ran them."""

from __future__ import annotations

import re

import pytest

import documentation
from reframe_tests.harness.launchers import registry as launchers
from reframe_tests.harness.mpis import registry as mpis

#: The two tables, by their heading: each row as its cells.
TABLES = {
    first: [[cell.strip() for cell in line.strip("|").split("|")] for line in rows.splitlines()]
    for first, rows in re.findall(
        r"^\| (MPI|launcher) \|[^\n]*never run here \|\n\|[-|]+\|\n((?:\|.*\n)+)",
        documentation.page("reference/mpis-and-launchers"),
        re.MULTILINE,
    )
}
#: A part of a record that nobody ran, although the record was.
PARTS = {"HPC-X"}


def rows_of(table: str, column: int, name: str) -> list[list[str]]:
    return [row for row in TABLES[table] if f"`{name}`" in row[column]]


@pytest.mark.parametrize("name", mpis.names())
def test_each_mpi_has_a_row(name: str) -> None:
    [row] = rows_of("MPI", 1, name)
    assert bool(row[3]) - (row[3] in PARTS) == bool(mpis.find(name).untested)


@pytest.mark.parametrize("name", list(launchers.known()))
def test_each_launcher_has_a_row(name: str) -> None:
    launcher = launchers.known()[name]
    named = [rows_of("launcher", 1, site) for site in launcher.site]
    named += [rows_of("launcher", 2, name)] if name in launchers.families() else []
    assert named and all(len(rows) == 1 for rows in named)
    assert {bool(row[3]) for rows in named for row in rows} == {bool(launcher.untested)}


def test_there_is_no_row_of_something_else() -> None:
    names = {name for row in TABLES["MPI"] for name in re.findall(r"`(\w+)`", row[1])}
    assert names == set(mpis.names())
    families = {name for row in TABLES["launcher"] for name in re.findall(r"`([\w-]+)`", row[2])}
    assert families == set(launchers.families())

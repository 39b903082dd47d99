"""``mpibench catalogue``: what can be measured, as groups by suite or the benchmarks of one group
or suite.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from reframe_tests.harness import records
from reframe_tests.harness.printable import plural
from reframe_tests.harness.suites import catalogue
from reframe_tests.harness.suites.benchmark import Benchmark
from reframe_tests.harness.suites.model import Suite
from reframe_tests.harness.vocabulary import QUANTITIES, ROOT, BadInput, meant

#: Subfolder of a folder of further records that has the test classes of its suites, as in
#: site_configs/template/extensions.
TESTS = "tests"
#: Beside a group that no test class names.
NOT_RUN = "no test"
_OTHERS = "Groups without a suite of their own"
#: Title of what has one group only.
_SINGLE = "one group each"


def test_folders(root: Path) -> list[Path]:
    """Folders with tests: the project's own, and ``tests`` of each folder of further records."""
    return [root / "reframe_tests", *(folder / TESTS for folder in records.extension_folders())]


def tests_by_group(folders: Sequence[Path]) -> dict[str, str]:
    """Groups that test classes name, to the first such class; the files are
    not run, and one that is no Python names none.

    :param folders: where test files lie; one that is not there has none.
    """
    named: dict[str, str] = {}
    for path in (path for folder in folders for path in sorted(folder.glob("*.py"))):
        try:
            tree = ast.parse(path.read_text())
        except (SyntaxError, ValueError):
            continue
        for node in (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)):
            for statement in ast.walk(node):
                match statement:
                    case ast.Assign(
                        targets=[ast.Name(id="group")], value=ast.Constant(value=str(group))
                    ):
                        named.setdefault(group, node.name)
    return named


def show(
    name: str | None = None, console: Console | None = None, *, tests_of_groups: bool = False
) -> None:
    """Print the table of contents, or the benchmarks of one group, of one suite, or of one name.

    :param tests_of_groups: the contents have a line for each group, with its test and what it is.
    """
    console = console or Console()
    tests = tests_by_group(test_folders(ROOT))
    if name is None:
        _show_groups(console, tests) if tests_of_groups else _show_contents(console, tests)
        return
    if (
        name not in catalogue.GROUPS
        and name in catalogue.SUITES
        and len(groups := _groups_of(catalogue.SUITES[name])) > 1
    ):
        table = _table(True)
        for group in groups:
            table.add_row(
                group, escape(", ".join(dict.fromkeys(row.name for row in catalogue.rows(group))))
            )
        console.print(table)
        return
    for group, rows in _chosen(name).items():
        _show_rows(console, group, rows, tests.get(group, NOT_RUN))


def as_data(name: str | None = None) -> dict[str, Any]:
    """Groups by name: ``suite``, ``test`` (``None``: no test class names
    it), ``description``, and their ``benchmarks``.

    :param name: a group, suite, benchmark or program; default: everything.
    """
    tests = tests_by_group(test_folders(ROOT))
    suite_of = {
        group: suite.name for suite in catalogue.SUITES.values() for group in _groups_of(suite)
    }
    suite = catalogue.SUITES.get(name or "")
    if name is None or (suite and _groups_of(suite) and name not in catalogue.GROUPS):
        chosen = {
            group: catalogue.rows(group)
            for group in (_groups_of(suite) if suite else catalogue.GROUPS)
        }
    else:
        chosen = _chosen(name)
    return {
        group: {
            "suite": suite_of.get(group),
            "test": tests.get(group),
            "description": catalogue.GROUPS[group].description,
            "benchmarks": [
                {
                    "name": row.name,
                    "program": row.binary,
                    "ranks": row.ranks,
                    "units": {quantity: QUANTITIES[quantity].unit for quantity in row.quantities},
                    "gated_bytes": {
                        quantity: list(sizes) for quantity, sizes in row.gated_sizes.items()
                    },
                }
                for row in rows
            ],
        }
        for group, rows in chosen.items()
    }


def _table(*fixed: bool) -> Table:
    """Columns without a head; fixed ones are not wrapped."""
    table = Table(box=None, show_header=False, pad_edge=False)
    for no_wrap in fixed:
        table.add_column(no_wrap=no_wrap)
    return table


def _show_contents(console: Console, tests: Mapping[str, str]) -> None:
    """One screen: suites with their groups; what has one group stands together."""
    suites = groups_by_suite()
    several = {
        title: groups for title, groups in suites.items() if len(groups) > 1 and title != _OTHERS
    }
    single = [group for title, groups in suites.items() if title not in several for group in groups]
    table = _table(True)
    for title, groups in (*several.items(), (_SINGLE, single)):
        marked = (group if group in tests else f"{group} ({NOT_RUN})" for group in groups)
        table.add_row(f"[bold]{escape(title)}[/bold]", escape(", ".join(marked)))
    console.print(table)
    benchmarks = sum(len(catalogue.rows(group)) for group in catalogue.GROUPS)
    console.print(
        f"\n{len(catalogue.GROUPS)} groups, {benchmarks} benchmarks. {_only_read()}\n",
        soft_wrap=True,
    )
    console.print(
        "mpibench catalogue NAME     the benchmarks of a group or suite, or where a benchmark "
        "is\nmpibench catalogue --tests  each group and its test (reframe -c reframe_tests -n "
        "TEST)\n",
        soft_wrap=True,
    )


def _only_read() -> str:
    only_read = ", ".join(
        suite.title for suite in catalogue.SUITES.values() if not suite.groups and not suite.pairs
    )
    return (
        "'mpibench catalogue --parse' also reads these, which no test runs: "
        f"{escape(only_read or 'none')}."
    )


def _show_groups(console: Console, tests: Mapping[str, str]) -> None:
    for title, groups in groups_by_suite().items():
        console.print(f"[bold]{escape(title)}[/bold]")
        table = _table(True, True, False)
        for name in groups:
            count = len(catalogue.rows(name))
            what = f" {plural(count, 'benchmark')}." if count else ""
            table.add_row(
                f"  {name}",
                tests.get(name, NOT_RUN),
                escape(f"{catalogue.GROUPS[name].description}.{what}"),
            )
        console.print(table)
        console.print()
    console.print(f"{_only_read()}\n", soft_wrap=True)
    console.print(
        "Left: the group, and the test that measures it (reframe -c reframe_tests -n TEST).",
        soft_wrap=True,
    )


def groups_by_suite() -> dict[str, list[str]]:
    """Titles of suites to their groups; suites that are only parsed have none."""
    listed = {
        f"{suite.title} ({suite.name})": groups
        for suite in catalogue.SUITES.values()
        if (groups := _groups_of(suite))
    }
    owned = {name for groups in listed.values() for name in groups}
    return {**listed, _OTHERS: [name for name in catalogue.GROUPS if name not in owned]}


def _groups_of(suite: Suite) -> list[str]:
    return [*suite.groups, *(pair.name for pair in suite.pairs)]


def _chosen(name: str) -> dict[str, tuple[Benchmark, ...]]:
    # A suite may be called as one of its groups.
    named_so = _groups_of(catalogue.SUITES[name]) if name in catalogue.SUITES else []
    if named_so or name in catalogue.GROUPS:
        return {group: catalogue.rows(group) for group in named_so or (name,)}
    named = {
        group: tuple(
            row
            for row in catalogue.rows(group)
            if name.lower() in (row.name.lower(), row.binary.lower())
        )
        for group in catalogue.GROUPS
    }
    if not any(named.values()):
        rows = [row for group in catalogue.GROUPS for row in catalogue.rows(group)]
        programs = [word for row in rows for word in (row.name, row.binary)]
        there = {*catalogue.SUITES, *catalogue.GROUPS, *programs}
        raise BadInput(
            "unknown-name",
            f"there is no group, suite, benchmark or program '{name}' in the catalogue"
            f"{meant(name, there)}; choose one of {', '.join(catalogue.GROUPS)}, or see 'mpibench "
            "catalogue'.",
        )
    return {group: rows for group, rows in named.items() if rows}


def _show_rows(console: Console, group: str, rows: tuple[Benchmark, ...], test: str) -> None:
    """The rows of a group: those alike in all but the name together,
    and what all of them share once, above.
    """
    console.print(
        f"[bold]{group}[/bold]: {escape(catalogue.GROUPS[group].description)}. Test: {test}."
    )
    titles = ("program", "ranks", "quantities", "reference at bytes")
    alike: dict[tuple[str, ...], list[str]] = {}
    for row in rows:
        quantities = ", ".join(
            f"{QUANTITIES[name].short} [{QUANTITIES[name].unit}]" for name in row.quantities
        )
        alike.setdefault((row.binary, row.ranks, quantities, gated_text(row)), []).append(row.name)
    shared = [len(set(cells)) == 1 for cells in zip(*alike, strict=True)]

    def show_cells(cells: Iterable[str], indent: int, which: bool) -> None:
        for title, cell, is_shared in zip(titles, cells, shared, strict=True):
            if is_shared == which:
                console.print(Padding(escape(f"{title}: {cell}"), (0, 0, 0, indent), expand=False))

    for cells in list(alike)[:1]:
        show_cells(cells, 2, True)
    for cells, names in alike.items():
        console.print(Padding(f"[bold]{', '.join(names)}[/bold]", (0, 0, 0, 2), expand=False))
        show_cells(cells, 4, False)
    console.print()


def gated_text(row: Benchmark) -> str:
    """Sizes that may have a reference, in bytes, by quantity."""
    sizes = {
        name: ["no size" if size is None else str(size) for size in known]
        for name, known in row.gated_sizes.items()
    }
    return (
        "; ".join(f"{QUANTITIES[name].short}: {', '.join(known)}" for name, known in sizes.items())
        or "none"
    )

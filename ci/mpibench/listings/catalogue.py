"""``mpibench catalogue``: what the tests can measure: its groups by suite, or the benchmarks of one group or suite."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from reframe_tests.harness.suites import catalogue
from reframe_tests.harness.suites.benchmark import Benchmark
from reframe_tests.harness.vocabulary import QUANTITIES, ROOT, BadInput

from .coverage import tests_by_group
from .doctor import test_folders

#: Beside a group that no test class names.
NOT_RUN = "no test"
_OTHERS = "Groups without a suite of their own"


def show(name: str | None = None, console: Console | None = None) -> None:
    """Print the table of contents, or the benchmarks of one group, of one suite, or of one name.

    :raises BadInput: for a name that is neither a group, nor a suite, nor a benchmark.
    """
    console = console or Console()
    tests = tests_by_group(test_folders(ROOT))
    if name is None:
        _show_contents(console, tests)
        return
    if name not in catalogue.GROUPS and name in catalogue.SUITES and catalogue.SUITES[name].groups:
        _show_names(console, list(catalogue.SUITES[name].groups))
        return
    for group, rows in _chosen(name).items():
        _show_rows(console, group, rows, tests.get(group, NOT_RUN))


def _show_contents(console: Console, tests: Mapping[str, str]) -> None:
    """One line a group, under its suite."""
    for title, groups in _groups_by_suite().items():
        console.print(f"[bold]{escape(title)}[/bold]")
        table = Table(box=None, show_header=False, pad_edge=False)
        for fixed in (True, True, False):
            table.add_column(no_wrap=fixed)
        for name in groups:
            count = len(catalogue.rows(name))
            what = f" {count} benchmark{'s'[: count != 1]}." if count else ""
            table.add_row(f"  {name}", tests.get(name, NOT_RUN), escape(f"{catalogue.GROUPS[name].description}.{what}"))
        console.print(table)
        console.print()
    only_read = ", ".join(suite.title for suite in catalogue.SUITES.values() if not suite.groups and not suite.pairs)
    console.print(f"Outputs that 'mpibench parse' reads and no test starts: {escape(only_read or 'none')}\n", soft_wrap=True)
    console.print(
        "Left: the group, and the test that measures it (reframe -c reframe_tests -n TEST).\n"
        "mpibench catalogue NAME lists the benchmarks of a group or suite, or where a benchmark is; --coverage says what each\n"
        "release of a suite offers.",
        soft_wrap=True,
    )


def _groups_by_suite() -> dict[str, list[str]]:
    """Titles of suites to their groups; suites whose outputs are only read have none."""
    listed = {f"{suite.title} ({suite.name})": list(suite.groups) for suite in catalogue.SUITES.values() if suite.groups}
    owned = {name for groups in listed.values() for name in groups}
    return {**listed, _OTHERS: [name for name in catalogue.GROUPS if name not in owned]}


def _chosen(name: str) -> dict[str, tuple[Benchmark, ...]]:
    """Groups to the rows of them that a name means."""
    if name in catalogue.GROUPS:
        # A suite may be called as one of its groups.
        named_so = catalogue.SUITES[name].groups if name in catalogue.SUITES else ()
        return {group: catalogue.rows(group) for group in named_so or (name,)}
    named = {
        group: tuple(row for row in catalogue.rows(group) if name.lower() in (row.name.lower(), row.binary.lower()))
        for group in catalogue.GROUPS
    }
    if not any(named.values()):
        raise BadInput(
            f"there is no group, suite, benchmark or program '{name}' in the catalogue; "
            f"choose one of {', '.join(catalogue.GROUPS)}, or see 'mpibench catalogue'."
        )
    return {group: rows for group, rows in named.items() if rows}


def _show_names(console: Console, groups: Iterable[str]) -> None:
    """Groups and the names of their benchmarks."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True)
    for group in groups:
        table.add_row(group, escape(", ".join(dict.fromkeys(row.name for row in catalogue.rows(group)))))
    console.print(table)


def _show_rows(console: Console, group: str, rows: tuple[Benchmark, ...], test: str) -> None:
    """The rows of a group: those alike in all but the name together, and what all of them share once, above."""
    console.print(f"[bold]{group}[/bold]: {escape(catalogue.GROUPS[group].description)}. Test: {test}.")
    titles = ("program", "ranks", "quantities", "reference at bytes")
    alike: dict[tuple[str, ...], list[str]] = {}
    for row in rows:
        alike.setdefault((row.binary, row.ranks, _quantities(row), _gated(row)), []).append(row.name)
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


def _quantities(row: Benchmark) -> str:
    return ", ".join(f"{QUANTITIES[name].short} [{QUANTITIES[name].unit}]" for name in row.quantities)


def _gated(row: Benchmark) -> str:
    """Sizes that may have a reference, in bytes, by quantity."""
    return "; ".join(f"{QUANTITIES[name].short}: {_listed(sizes)}" for name, sizes in row.gated_sizes.items()) or "none"


def _listed(sizes: Iterable[int | None]) -> str:
    return ", ".join("no size" if size is None else str(size) for size in sizes)

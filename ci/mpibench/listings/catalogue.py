"""``mpibench catalogue``: the benchmark rows as a table."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from reframe_tests.harness.suites import catalogue
from reframe_tests.harness.vocabulary import QUANTITIES, BadInput


def show(group: str | None = None, console: Console | None = None) -> None:
    """Print the rows of one group or of all.

    :raises BadInput: for a group that does not exist.
    """
    if group is not None and group not in catalogue.GROUPS:
        raise BadInput(f"there is no group '{group}' in the catalogue; choose one of {', '.join(catalogue.GROUPS)}.")
    console = console or Console()
    table = Table(box=None, header_style="bold", pad_edge=False)
    for title in ("group", "benchmark", "suite", "binary", "ranks", "quantities [unit]", "gated sizes [bytes]"):
        table.add_column(title, overflow="fold")
    for name in [group] if group else list(catalogue.GROUPS):
        for row in catalogue.rows(name):
            table.add_row(
                name,
                row.name,
                row.suite,
                row.binary,
                row.ranks,
                escape(", ".join(f"{QUANTITIES[q].short} [{QUANTITIES[q].unit}]" for q in row.quantities)),
                "; ".join(f"{QUANTITIES[q].short}: {', '.join(map(str, sizes))}" for q, sizes in row.gated_sizes.items())
                or "-",
            )
    console.print(table)

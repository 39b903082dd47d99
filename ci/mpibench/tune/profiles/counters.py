"""Counters by rank, as CSV (``rank,counter,value``) or in the text of the tool that prints them."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping

from reframe_tests.harness.vocabulary import BadInput

from .record import number

#: Counters of each rank.
Table = Mapping[int, Mapping[str, float]]
#: Columns of the CSV form; others (a module, a file) may stand beside them.
COLUMNS = ("rank", "counter", "value")


def read_csv(text: str, source: str, pattern: re.Pattern[str]) -> Table:
    """Counters whose name the pattern fits in full, of CSV with :data:`COLUMNS`.

    :raises BadInput: another table, a damaged row, a counter that is there twice.
    """
    if not text.endswith("\n"):
        raise BadInput(f"{source}: its last line does not end: the file was cut off; get the profile again.")
    found: dict[int, dict[str, float]] = {}
    heads: list[str] = []
    for at, line in enumerate(text.splitlines(), start=1):
        where = f"{source}, line {at}"
        if line.startswith("#") or not line.strip():
            continue
        fields = [field.strip() for field in next(csv.reader([line]))]
        if not heads:
            heads = fields
            if not set(COLUMNS) <= set(heads):
                raise BadInput(f"{where}: columns are {', '.join(heads)}, expected {', '.join(COLUMNS)} among them.")
            continue
        if len(fields) != len(heads):
            raise BadInput(f"{where}: {len(fields)} fields, expected {len(heads)}: the file is damaged.")
        row = dict(zip(heads, fields, strict=True))
        if pattern.fullmatch(row["counter"]):
            add(
                found,
                int(number(row["rank"], "rank", where, whole=True)),
                row["counter"],
                number(row["value"], "value", where),
                where,
            )
    return found


def add(found: dict[int, dict[str, float]], rank: int, name: str, value: float, where: str) -> None:
    """:raises BadInput: the counter is there already."""
    if name in found.setdefault(rank, {}):
        raise BadInput(f"{where}: {name} of rank {rank} is there twice: profile one run at a time.")
    found[rank][name] = value


def check_ranks(found: Table, ranks: int, source: str) -> None:
    """:raises BadInput: ranks without a counter; those printed are not all."""
    lacking = sorted(set(range(ranks)) - set(found))
    if lacking or len(found) > ranks:
        raise BadInput(
            f"{source} has counters of {len(found)} ranks and the application has {ranks}"
            + (f" (rank {lacking[0]} has none)" if lacking else "")
            + ": get the profile again."
        )

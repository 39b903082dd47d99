"""Published data: what papers print about the bundled systems, from ``site_configs/<system>/published/*.csv``.

One row per value, every digit as printed (``site_configs/published.schema.json`` describes the columns). These numbers were
measured by others and carry no evidence: they are shown beside measurements and never judged as such.
"""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from reframe_tests.harness.sites.site import ROOT
from reframe_tests.harness.vocabulary import BadInput

SCHEMA = ROOT / "site_configs" / "published.schema.json"
COLUMNS: tuple[str, ...] = tuple(json.loads(SCHEMA.read_text())["required"])


@dataclass(frozen=True)
class Value:
    """One printed value with its conditions.

    :param data: cells by column name.
    """

    system: str
    file: str
    data: dict[str, str]

    def __getitem__(self, column: str) -> str:
        return self.data[column]

    @cached_property
    def number(self) -> float:
        """The value as a number, in the unit of the row.

        :raises BadInput: if the paper prints no number there.
        """
        try:
            return float(self["value"].replace(",", ""))
        except ValueError:
            raise BadInput(
                f"{self.file}: '{self['value']}' of {self['benchmark']} ({self['table']}) is not a number."
            ) from None

    @property
    def message_bytes(self) -> int | None:
        return int(self["message_bytes"]) if self["message_bytes"] else None


def systems(root: Path = ROOT) -> list[str]:
    """Systems with published data."""
    return sorted({path.parent.parent.name for path in (root / "site_configs").glob("*/published/*.csv")})


def read(system: str, root: Path = ROOT) -> list[Value]:
    """All published values of a system, in the order of files and rows.

    :raises BadInput: if the system has none, or a file has other columns or an incomplete row.
    """
    files = sorted((root / "site_configs" / system / "published").glob("*.csv"))
    if not files:
        known = ", ".join(systems(root))
        raise BadInput(f"system '{system}' has no published data under site_configs/; those that have: {known}.")
    return [value for path in files for value in _read(system, path)]


def _read(system: str, path: Path) -> list[Value]:
    with path.open(newline="") as stream:
        reader = csv.DictReader(stream)
        if tuple(reader.fieldnames or ()) != COLUMNS:
            raise BadInput(f"{path}: the columns must be {', '.join(COLUMNS)}; see {SCHEMA.name}.")
        rows = list(reader)
    for line, row in enumerate(rows, 2):
        if None in row or None in row.values() or not all(row[name] for name in ("table", "benchmark", "value", "source")):
            raise BadInput(f"{path}, row {line}: a cell is missing or too many; see {SCHEMA.name}.")
    return [Value(system, str(path), row) for row in rows]


def select(values: list[Value], **wanted: str | int) -> list[Value]:
    """Values whose columns have exactly these texts."""
    return [value for value in values if all(value[column] == str(text) for column, text in wanted.items())]

"""``site_configs/<system>/expected.yaml``: what a session must hold by name, and what is retired.

Each is a reviewed line. Schema: ``site_configs/expected.schema.json``.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta, timezone
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

from reframe_tests.harness import optional_file, schema, yaml_file
from reframe_tests.harness.sites import folders, site
from reframe_tests.harness.sites.site import ROOT
from reframe_tests.harness.vocabulary import BadInput

from ...store import selection_options


class CoverageKey(NamedTuple):
    """Something that can be proven; a field of ``None`` stands for any."""

    partition: str | None = None
    stack: str | None = None
    fabric: str | None = None
    group: str | None = None
    benchmark: str | None = None

    def covers(self, other: CoverageKey) -> bool:
        """Whether ``other`` is what this one, read as patterns, stands for."""
        pairs = zip(self, other, strict=True)
        return all(mine is None or (theirs is not None and fnmatchcase(theirs, mine)) for mine, theirs in pairs)

    def job(self) -> CoverageKey:
        """The same without the benchmark: what one test stands for."""
        return self._replace(benchmark=None)


@dataclass(frozen=True)
class Retired:
    """A reviewed line: what matches and was last proven on ``proven_until`` or before is no longer expected.

    :param runs: labels it is for; empty: all.
    """

    places: tuple[CoverageKey, ...]
    runs: tuple[str, ...]
    proven_until: date
    reason: str

    def covers(self, place: CoverageKey, run: str | None, last: date | None) -> bool:
        """Whether a place is retired; ``last``: the day it was last proven, ``None`` if it never was."""
        if self.runs and not any(fnmatchcase(run or "", pattern) for pattern in self.runs):
            return False
        return (last is None or last <= self.proven_until) and any(one.covers(place) for one in self.places)


@dataclass(frozen=True)
class ExpectedFile:
    """What a system's file says; the empty one where there is none.

    :param expected: label to places.
    :param options: label to the selection options of its whole sessions, as :func:`.selection_options.narrowing` gives them.
    :param history: whether what was proven before is expected, too.
    """

    source: str = ""
    expected: Mapping[str, tuple[CoverageKey, ...]] = field(default_factory=dict)
    options: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    retired: tuple[Retired, ...] = ()
    history: bool = True

    def narrowing(self, command_line: str | None, run: str | None) -> tuple[str, ...]:
        """Selection options of a session, unless its label is always measured with just these.

        Those of the mode the label is named after are what makes it that mode, also where they are given one by one.
        """
        mode = " ".join(option for row in site.MODES if row["name"] == run for option in row["options"])
        own = selection_options.narrowing(f"reframe {mode}")
        found = tuple(one for one in selection_options.narrowing(command_line or "reframe") if one not in own)
        return () if sorted(found) == sorted(self.options.get(run or "", ())) else found


def path_of(system: str, root: Path = ROOT) -> Path:
    """Where a system's file is."""
    return folders.of(system, root) / "expected.yaml"


def load(system: str, root: Path = ROOT) -> ExpectedFile:
    """Read a system's file.

    :raises BadInput: it cannot be read, is not YAML or breaks the schema.
    """
    path = path_of(system, root)
    if not optional_file.is_there(path):
        return ExpectedFile()
    return parse(yaml_file.read_text(path), folders.shown(path, root))


def parse(text: str, source: str) -> ExpectedFile:
    """Check the text of a file.

    :raises BadInput: naming the key.
    """
    content = yaml_file.parse_mapping(text, source)
    fault = schema.find_fault(ROOT / "site_configs" / "expected.schema.json", content)
    if fault:
        raise BadInput(f"{source}: {fault.key}: {fault.message}; see site_configs/expected.schema.json.")
    runs = content.get("runs", {})
    given = {label: " ".join(row["options"]) for label, row in runs.items() if "options" in row}
    options = {label: selection_options.narrowing(f"reframe {words}") for label, words in given.items()}
    for label, narrowed in options.items():
        if not narrowed:
            raise BadInput(f"{source}: runs.{label}.options: {given[label]!r} selects nothing; remove it.")
    return ExpectedFile(
        source,
        {label: tuple(place for row in runs[label].get("expected", ()) for place in _places(row)) for label in runs},
        options,
        tuple(_retired(row, f"{source}: retired.{number}") for number, row in enumerate(content.get("retired", ()))),
        content.get("history", True),
    )


def _listed(value: str | list[str] | None) -> list[str | None]:
    return [*value] if isinstance(value, list) else [value]


def _places(row: Mapping[str, Any]) -> list[CoverageKey]:
    """An entry with lists as one place for each combination."""
    return [CoverageKey(*values) for values in itertools.product(*(_listed(row.get(name)) for name in CoverageKey._fields))]


def _retired(row: Mapping[str, Any], where: str) -> Retired:
    day = row["date"]
    try:
        day = day if type(day) is date else date.fromisoformat(str(day))
    except ValueError:
        raise BadInput(f"{where}.date is {row['date']!r}, expected YYYY-MM-DD.") from None
    if day > datetime.now(timezone.utc).date() + timedelta(days=1):
        raise BadInput(f"{where}.date is {day}, which is to come: it would retire what is still measured, too.")
    if not set(row) & set(CoverageKey._fields):
        raise BadInput(f"{where} names nothing that is retired: give one of {', '.join(CoverageKey._fields)}.")
    runs = tuple(name for name in _listed(row.get("run")) if name)
    return Retired(tuple(_places(row)), runs, day, row["reason"])

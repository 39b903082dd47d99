"""Changes to ``expected.yaml`` from history, as a diff to review: what is proven and not named, what is no longer proven.

Names are added. What was expected and is not proven in any of the sessions is proposed as retired, with an empty reason: the
file is refused until a person has written one.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import polars as pl
import yaml

from reframe_tests.harness import yaml_file
from reframe_tests.harness.sites.site import ROOT

from ...store import selectors
from ...store.store import Store
from . import expected, expected_file
from .expected_file import CoverageKey

HEAD = "# What each session must hold, proven; schema: site_configs/expected.schema.json.\n"


@dataclass(frozen=True)
class ExpectedProposal:
    """A new ``expected.yaml``.

    :param before: its text; ``after``: proposed text.
    :param added: things newly named; ``retired``: lines that wait for a reason.
    """

    path: Path
    before: str
    after: str
    added: int
    retired: int

    def diff(self, root: Path = ROOT) -> str:
        """Unified diff to review and apply with ``patch -p1``; empty if nothing changes."""
        name = self.path.relative_to(root) if self.path.is_relative_to(root) else self.path.name
        old, new = (text.splitlines(keepends=True) for text in (self.before, self.after))
        return "".join(difflib.unified_diff(old, new, f"a/{name}" if self.before else "/dev/null", f"b/{name}"))


def propose(store: Store, selector: str, *, system: str | None = None, root: Path = ROOT) -> ExpectedProposal:
    """Propose what the sessions of a selector show.

    Each label among them is looked at by itself.

    :raises BadInput: nothing is selected, or the present file is damaged.
    """
    name = store.system_of(system)
    path = expected_file.path_of(name, root)
    file = expected_file.load(name, root)  # refuses what is there and cannot be read
    before = yaml_file.read_text(path) if path.exists() else ""
    sessions = selectors.sessions_table(store.cases(name))
    chosen = selectors.select(selector, sessions, unreadable=store.lost(name))
    content: dict[str, Any] = yaml_file.parse_mapping(before, str(path)) if before else {}
    added, retired = 0, []
    for run, newest, ids in _series(sessions, chosen):
        past = expected.proven_places(store, name, [*selectors.alike(sessions, newest).earlier, newest])
        seen = {place for place, proof in expected.proven_places(store, name, ids).items()}
        new = [place for place in seen if not any(one.covers(place) for one in file.expected.get(run, ()))]
        if new:
            row = content.setdefault("runs", {}).setdefault(run, {})
            row["expected"] = [*row.get("expected", ()), *_entries(new)]
            added += len(new)
        retired += _retired(run, past, seen, file)
    if retired:
        content["retired"] = [*content.get("retired", ()), *retired]
    if not added and not retired:
        return ExpectedProposal(path, before, before, 0, 0)
    head = "".join(line for line in before.splitlines(keepends=True) if line.startswith("#")) or HEAD
    ordered = {key: content[key] for key in ("history", "runs", "retired") if key in content}
    text = head + yaml.safe_dump(ordered, sort_keys=False, width=120, default_flow_style=None)
    return ExpectedProposal(path, before, text, added, len(retired))


def _series(sessions: pl.DataFrame, chosen: Sequence[str]) -> list[tuple[str, str, list[str]]]:
    """The chosen sessions by label: label, newest session, all of them. Sessions without a label have no entry in the file."""
    series: dict[str, list[str]] = {}
    for session in chosen:
        run = selectors.alike(sessions, session).run
        if run is not None:
            series.setdefault(run, []).append(session)
    return [(run, ids[-1], ids) for run, ids in series.items()]


def _retired(
    run: str, past: Mapping[CoverageKey, expected.LastProven], seen: Iterable[CoverageKey], file: expected_file.ExpectedFile
) -> list[dict[str, Any]]:
    """A line for each job nothing of which is proven any more, the largest common part of it named."""
    gone = {
        place: proof.started.date()
        for place, proof in past.items()
        if place not in set(seen) and not any(one.covers(place, run, proof.started.date()) for one in file.retired)
    }
    lines = []
    for kind in expected.JOB:
        for value in dict.fromkeys(getattr(place, kind) for place in gone):
            whole = [place for place in past if getattr(place, kind) == value]
            if value and len(whole) > 1 and set(whole) <= set(gone):
                lines.append({"run": run, kind: value, **_last(gone.pop(place) for place in whole)})
    for job in dict.fromkeys(place.job() for place in gone):
        places = [place for place in gone if place.job() == job]
        benchmarks = sorted(place.benchmark for place in places if place.benchmark)
        row = {key: value for key, value in job._asdict().items() if value}
        entirely = {place for place in past if place.job() == job} == set(places)
        named = {} if entirely or not benchmarks else {"benchmark": benchmarks}
        lines.append({"run": run, **row, **named, **_last(gone[place] for place in places)})
    return lines


def _last(days: Iterable[date]) -> dict[str, Any]:
    """Date and the reason a person must give."""
    return {"date": max(days), "reason": ""}


def _entries(places: Iterable[CoverageKey]) -> list[dict[str, Any]]:
    """Places as few entries with lists: benchmarks of one job together, then stacks, then fabrics."""
    rows = [{name: frozenset([value] if value else []) for name, value in place._asdict().items()} for place in places]
    for merged in ("benchmark", "stack", "fabric", "group", "partition"):
        groups: dict[tuple[frozenset[str], ...], frozenset[str]] = {}
        for row in rows:
            # A case that times nothing has no benchmark and must not lend its place to those that have.
            key = tuple(row[name] if name != merged else frozenset([str(bool(row[name]))]) for name in CoverageKey._fields)
            groups[key] = groups.get(key, frozenset()) | row[merged]
        names = list(CoverageKey._fields)
        rows = [
            {name: values if name == merged else key[names.index(name)] for name in names} for key, values in groups.items()
        ]
    entries = [{name: _plain(row[name]) for name in CoverageKey._fields if row[name]} for row in rows]
    return sorted(entries, key=str)


def _plain(values: frozenset[str]) -> str | list[str]:
    ordered = sorted(values)
    return ordered[0] if len(ordered) == 1 else ordered

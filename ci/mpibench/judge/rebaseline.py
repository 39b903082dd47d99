"""References learned from history: robust quantiles with their origin, as a diff to review that
shows what they would have done.

A reference is the median of the jobs' medians. Its bound is their worst 5 % (Hyndman and Fan's
median-unbiased quantile, ``numpy`` ``method="median_unbiased"``), but never closer than the
policy's margin, since a bound inside the noise causes false alarms. Cases that failed, lack proof
or missed a reference are not used (:mod:`mpibench.store.eligibility`), nor are metrics with fewer
jobs than the policy requires. Entries set by hand (provenance ``session: hand``) and ``$xfail``
entries stay unchanged; physics bounds are computed, never learned.

Names are added to ``expected.yaml``. What was expected, but not proven in any of the sessions, is
proposed as retired with an empty reason; the file is rejected until somebody writes one.
"""

from __future__ import annotations

import copy
import difflib
import itertools
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import yaml

from reframe_tests.harness import optional_file, yaml_file
from reframe_tests.harness.samples import FAIL
from reframe_tests.harness.sites import references, site, systems
from reframe_tests.harness.sites.site import ROOT
from reframe_tests.harness.suites import catalogue
from reframe_tests.harness.vocabulary import LOWER, QUANTITIES, BadInput

from ..store import selectors, session_values
from ..store.session_values import CONDITION
from ..store.store import Store, StoredNight
from . import expected
from . import policy as verdict_policy
from .expected import CoverageKey

#: Share of past jobs that may be worse than the bound.
TAIL = 0.05
#: Mark of an entry a person set.
BY_HAND = "hand"


@dataclass(frozen=True)
class Proposal:
    """A new text of a file of a system."""

    path: Path
    before: str
    after: str

    def diff(self, root: Path = ROOT) -> str:
        """Unified diff to review and apply with ``patch -p1``; empty if nothing changes."""
        name = self.path.relative_to(root) if self.path.is_relative_to(root) else self.path.name
        old, new = (text.splitlines(keepends=True) for text in (self.before, self.after))
        return "".join(
            difflib.unified_diff(old, new, f"a/{name}" if self.before else "/dev/null", f"b/{name}")
        )


@dataclass(frozen=True)
class ReferenceProposal(Proposal):
    """New references.

    :param effect: one row per session: values judged, failing before and after.
    :param learned: entries learned; ``kept`` by hand; ``refused`` for too few jobs, or values that
        often double; ``unjudged`` by the policy.
    """

    effect: pl.DataFrame
    learned: int
    kept: int
    refused: int
    unjudged: int = 0


@dataclass(frozen=True)
class ExpectedProposal(Proposal):
    """A new ``expected.yaml``: how many things are newly named, and how
    many lines wait for a reason to retire something.
    """

    added: int
    retired: int


def propose(
    store: Store,
    selector: str,
    *,
    system: str | None = None,
    where: str | None = None,
    root: Path = ROOT,
) -> ReferenceProposal:
    """Learn references from a selection of sessions.

    :raises BadInput: no eligible case is selected, no metric has enough
        jobs, or the present file is damaged.
    """
    name = store.system_of(system)
    policy = verdict_policy.load(name, root)
    selection = store.select(name, selector, where=where, for_learning=True)
    jobs = _jobs(selection)
    path = site.references_file(name, root)
    there = optional_file.is_there(path)
    before = yaml_file.read_text(path) if there else ""
    present = yaml_file.parse_mapping(before, str(path)) if there else {}
    described = systems.find(name, root)
    references.check_file(str(path), present, described)
    after = copy.deepcopy(present)
    learned = kept = refused = unjudged = 0
    for (test, *index, metric), rows in jobs.group_by([*_INDEX, "metric"], maintain_order=True):
        last = rows.row(-1, named=True)
        band = policy.band(last["message_bytes"])
        if not policy.judges(last["quantity"], band):
            unjudged += 1
            continue
        if rows.height < policy.reference_jobs:
            refused += 1
            continue
        keys = (test, f"{name}:{index[0]}", *index[1:], metric)
        now = _get(present, keys)
        origin = _get(present, ("provenance", *keys))
        if now is not None and (
            now[0] == "$xfail" or (isinstance(origin, Mapping) and origin.get("session") == BY_HAND)
        ):
            kept += 1
            continue
        values = rows["value"].to_numpy()
        middle = float(np.median(values))
        low, high = np.quantile(values, [TAIL, 1 - TAIL], method="median_unbiased")
        lower_is_better = last["direction"] == LOWER
        worst = float((high - middle) / middle if lower_is_better else (middle - low) / middle)
        bound = round(max(worst, policy.margin(last["quantity"], band)), 4)
        if lower_is_better and bound >= 1:
            refused += 1  # what takes twice as long in one night of twenty has no reference
            continue
        ends = [None, bound] if lower_is_better else [-min(bound, 0.9999), None]
        _set(after, keys, [float(f"{middle:.5g}"), *ends, last["unit"]])
        after[test]["$index"] = list(references.INDEX)
        spread = round(float((high - low) / 2 / middle), 4)  # half the range of the middle 90 %
        origin = {
            "session": last["session"],
            "date": f"{last['started']:%Y-%m-%d}",
            "n": rows.height,
            "spread": spread,
        }
        _set(after.setdefault("provenance", {}), keys, origin)
        learned += 1
    if not learned and not kept:
        raise BadInput(
            "nothing-measured",
            f"no metric has {policy.reference_jobs} jobs in {selector!r} (reference_jobs in "
            f"policy.yaml; {refused} metrics have fewer): select more nights.",
        )
    head = "".join(
        itertools.takewhile(lambda line: line.startswith("#"), before.splitlines(keepends=True))
    )
    provenance = {"provenance": after.pop("provenance")} if "provenance" in after else {}
    after = {
        test: {"$index": entries["$index"], **entries} for test, entries in after.items()
    } | provenance
    text = head + yaml.safe_dump(after, sort_keys=False, width=200, default_flow_style=None)
    references.check_file(str(path), yaml_file.parse_mapping(text, str(path)), described)
    effect = _effect(jobs, name, present, after)
    return ReferenceProposal(path, before, text, effect, learned, kept, refused, unjudged)


def effect_of(
    store: Store, selector: str, system: str, before: Mapping[str, Any], after: Mapping[str, Any]
) -> pl.DataFrame:
    """How many values of each stored session miss their learned
    reference by one file and by another.

    All proven values are compared with both, those too that missed
    a reference when they were measured.

    :param before: references as they were, checked and with present
        names; ``after``: as they would be.
    :returns: ``session``, ``started``, ``values``,
        ``failed_before``, ``failed_after``; oldest first.
    :raises BadInput: nothing is selected.
    """
    return _effect(_jobs(store.select(system, selector)), system, before, after)


#: Columns that stand for the test and ``references.INDEX``.
_INDEX = ("test", "partition", "stack", "fabric", "nodes", "ppn", "pinning")


def _jobs(selection: session_values.Selection) -> pl.DataFrame:
    """Median of each job and metric, beside the test's name and the performance variable's."""
    tests = selection.cases.select("case", test=pl.col("name").str.extract(r"^(\w+)"))
    point = ["benchmark", "quantity", "message_bytes", "variant"]
    rows = selection.values.group_by(
        *CONDITION, *point, "unit", "direction", "session", "started", "case"
    ).agg(pl.col("value").median())
    names = [
        catalogue.metric_name(
            row["benchmark"],
            QUANTITIES[row["quantity"]].short,
            row["message_bytes"],
            row["variant"],
        )
        for row in rows.to_dicts()
    ]
    return (
        rows.join(tests, on="case")
        .with_columns(metric=pl.Series(names, dtype=pl.String))
        .sort([*_INDEX, "metric", "started"])
    )


def _get(tree: Any, keys: tuple[Any, ...]) -> Any:
    for key in keys:
        tree = tree.get(key) if isinstance(tree, Mapping) else None
    return tree


def _set(tree: dict[Any, Any], keys: tuple[Any, ...], value: Any) -> None:
    for key in keys[:-1]:
        tree = tree.setdefault(key, {})
    tree[keys[-1]] = value


def _effect(
    jobs: pl.DataFrame, system: str, before: Mapping[str, Any], after: Mapping[str, Any]
) -> pl.DataFrame:
    """How many values of each past session would have failed."""

    def fails(row: Mapping[str, Any], tree: Mapping[str, Any]) -> bool:
        keys = (
            row["test"],
            f"{system}:{row['partition']}",
            *(row[name] for name in _INDEX[2:]),
            row["metric"],
        )
        entry = _get(tree, keys)
        if entry is None or entry[0] == "$xfail":
            return False
        return (
            references.judge(
                row["metric"], "learned", row["value"], tuple(entry), row["unit"]
            ).outcome
            == FAIL
        )

    rows = jobs.to_dicts()
    judged = jobs.with_columns(
        before=pl.Series([fails(row, before) for row in rows]),
        after=pl.Series([fails(row, after) for row in rows]),
    )
    counted = judged.group_by("session", "started").agg(
        pl.len().alias("values"),
        pl.col("before").sum().alias("failed_before"),
        pl.col("after").sum().alias("failed_after"),
    )
    return counted.sort("started")


HEAD = "# What each session must contain, proven; schema: site_configs/expected.schema.json.\n"


def propose_expected(
    store: Store, selector: str, *, system: str | None = None, root: Path = ROOT
) -> ExpectedProposal:
    """Propose what the sessions of a selector show.

    Each label among them is looked at by itself.

    :raises BadInput: nothing is selected, or the present file is damaged.
    """
    name = store.system_of(system)
    path = expected.path_of(name, root)
    file = expected.load_file(name, root)  # refuses what is there and cannot be read
    before = yaml_file.read_text(path) if path.exists() else ""
    chosen = selectors.select(selector, store.sessions(name), unreadable=store.lost(name))
    content: dict[str, Any] = yaml_file.parse_mapping(before, str(path)) if before else {}
    added = 0
    retired = []
    series: dict[str, list[str]] = {}  # sessions without a label have no entry in the file
    for session in chosen:
        if (run := StoredNight(store, name, session).alike.run) is not None:
            series.setdefault(run, []).append(session)
    for run, ids in series.items():
        past = expected.proven_places(store, name, StoredNight(store, name, ids[-1]).series)
        seen = set(expected.proven_places(store, name, ids))
        new = [
            place
            for place in seen
            if not any(known.covers(place) for known in file.expected.get(run, ()))
        ]
        if new:
            row = content.setdefault("runs", {}).setdefault(run, {})
            row["expected"] = [*row.get("expected", ()), *_entries(new)]
            added += len(new)
        retired += _retired_lines(run, past, seen, file)
    if retired:
        content["retired"] = [*content.get("retired", ()), *retired]
    if not added and not retired:
        return ExpectedProposal(path, before, before, 0, 0)
    head = (
        "".join(line for line in before.splitlines(keepends=True) if line.startswith("#")) or HEAD
    )
    ordered = {key: content[key] for key in ("history", "runs", "retired") if key in content}
    text = head + yaml.safe_dump(ordered, sort_keys=False, width=120, default_flow_style=None)
    return ExpectedProposal(path, before, text, added, len(retired))


def _retired_lines(
    run: str,
    past: Mapping[CoverageKey, expected.LastProven],
    seen: Collection[CoverageKey],
    file: expected.ExpectedFile,
) -> list[dict[str, Any]]:
    """A line for each job nothing of which is proven any more,
    the largest common part of it named.
    """
    gone = {
        place: proof.started.date()
        for place, proof in past.items()
        if place not in seen and not file.retires(place, run, proof.started.date())
    }
    lines = []
    for kind in expected.JOB:
        for value in dict.fromkeys(getattr(place, kind) for place in gone):
            whole = [place for place in past if getattr(place, kind) == value]
            if value and len(whole) > 1 and set(whole) <= set(gone):
                lines.append(
                    {"run": run, kind: value, "date": max(gone.pop(place) for place in whole)}
                )
    for job in dict.fromkeys(place.job() for place in gone):
        places = [place for place in gone if place.job() == job]
        benchmarks = sorted(place.benchmark for place in places if place.benchmark)
        row = {key: value for key, value in job._asdict().items() if value}
        entirely = {place for place in past if place.job() == job} == set(places)
        named = {} if entirely or not benchmarks else {"benchmark": benchmarks}
        lines.append({"run": run, **row, **named, "date": max(gone[place] for place in places)})
    return [{**line, "reason": ""} for line in lines]  # which a person must give


def _entries(places: Iterable[CoverageKey]) -> list[dict[str, Any]]:
    """Places as few entries with lists: benchmarks of one job
    together, then stacks, then fabrics.
    """
    rows = [
        {name: frozenset([value] if value else []) for name, value in place._asdict().items()}
        for place in places
    ]
    for merged in ("benchmark", "stack", "fabric", "group", "partition"):
        groups: dict[tuple[frozenset[str], ...], frozenset[str]] = {}
        for row in rows:
            # A case that times nothing has no benchmark and must not
            # lend its place to those that have.
            key = tuple(
                row[name] if name != merged else frozenset([str(bool(row[name]))])
                for name in CoverageKey._fields
            )
            groups[key] = groups.get(key, frozenset()) | row[merged]
        rows = [
            {**dict(zip(CoverageKey._fields, key, strict=True)), merged: values}
            for key, values in groups.items()
        ]
    entries = []
    for row in rows:
        listed = {name: sorted(row[name]) for name in CoverageKey._fields if row[name]}
        entries.append(
            {name: values[0] if len(values) == 1 else values for name, values in listed.items()}
        )
    return sorted(entries, key=str)

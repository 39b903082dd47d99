"""The measured curves of some sessions, by what can be chosen: stack, fabric, nodes, ppn and pinning.

Only cases that proved their condition are read, and of these only plain ones: no options of a suite, no ranks that share cores.
Times between two measured sizes are on the straight line between them (a message's time is latency + size / bandwidth where the
protocol does not change); nothing is known beyond them, nor between two that are further apart than :data:`MOST_APART` times.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from reframe_tests.harness.vocabulary import BadInput

from ...judge.statistics.two_sides import Array
from ...store import dataset, session_values
from ...store.dataset_layout import read_condition
from ...store.session_values import CONDITION
from .sources import GROUPS, GUIDELINES, QUANTITIES, CallBenchmark

#: How many times apart two sizes may be for a time between them; smaller ones than :data:`SMALL` bytes always may.
MOST_APART, SMALL = 8, 64
#: Setting of a condition that chooses algorithms of collectives; two that differ in it are two choices.
TUNED = "tuned"
#: One repeat of one job.
Unit = tuple[str, int]


@dataclass(frozen=True, order=True)
class Choice:
    """What an application can be run with.

    :param tuned: the tuning in effect; empty: the library's own.
    """

    stack: str
    fabric: str
    partition: str
    nodes: int
    ppn: int
    pinning: str
    tuned: str = ""

    @property
    def ranks(self) -> int:
        """Ranks of its jobs."""
        return self.nodes * self.ppn

    @property
    def text(self) -> str:
        """In the words of the command line."""
        tuned = f", tuned ({self.tuned})" if self.tuned else ""
        return f"{self.stack}, {self.fabric}, {self.pinning}{tuned} ({self.nodes} x {self.ppn} on {self.partition})"


@dataclass(frozen=True)
class TimeCurve:
    """Times of one benchmark, in us.

    :param sizes: message sizes in bytes, ascending; a benchmark without messages has size 0 alone.
    :param units: repeats of jobs.
    :param times: shape (sizes, units), NaN where a unit lacks one.
    """

    sizes: Array
    units: tuple[Unit, ...]
    times: Array

    def weights(self, message_bytes: float) -> dict[int, float] | None:
        """Rows whose weighted sum is the time of a size; ``None``: it lies outside, or between sizes too far apart."""
        if message_bytes < self.sizes[0] or message_bytes > self.sizes[-1]:
            return None
        above = int(np.searchsorted(self.sizes, message_bytes))
        if self.sizes[above] == message_bytes:
            return {above: 1.0}
        low, high = float(self.sizes[above - 1]), float(self.sizes[above])
        if high > MOST_APART * low and high > SMALL:
            return None
        part = (message_bytes - low) / (high - low)
        return {above - 1: 1 - part, above: part}


@dataclass(frozen=True)
class Curves:
    """All curves of some sessions.

    :param by_choice: curves of each choice by suite, benchmark, quantity and ranks.
    :param notes: what was not used and why.
    """

    system: str
    sessions: tuple[str, ...]
    by_choice: Mapping[Choice, Mapping[tuple[str, str, str, int], TimeCurve]]
    notes: tuple[str, ...] = ()
    cases: int = 0
    started: tuple[str, str] = field(default=("", ""))

    def find(self, choice: Choice, source: CallBenchmark, ranks: int) -> TimeCurve | None:
        """The curve of a benchmark on so many ranks; pairs have two, whoever else there is."""
        return self.by_choice[choice].get((source.suite, source.benchmark, source.quantity, 2 if source.pair else ranks))


def read(folder: Path, system: str, selector: str, *, where: str | None = None) -> Curves:
    """Curves of the sessions a selector means.

    :param where: only these cases; an expression over the columns of ``cases``.
    :raises BadInput: no such sessions, none that may be used, or values that nothing can take.
    """
    selection = session_values.read(folder, system, selector, where=where)
    rows = {row["case"]: row for row in selection.cases.filter(pl.col("group").is_in(GROUPS)).to_dicts()}
    _check_versions(rows.values())
    choices, other = dict[str, Choice](), 0
    for case, row in rows.items():
        condition = read_condition(row["condition"])
        if condition.get(session_values.OVERSUBSCRIBED) or condition.get("suite_options") or not (row["nodes"] and row["ppn"]):
            other += 1
            continue
        named = {name: row[name] for name in CONDITION}
        choices[case] = Choice(**named, tuned=str(condition.get(TUNED) or ""))
    samples = (
        dataset.load(folder, systems=[system], sessions=list(selection.sessions))
        .filter(
            pl.col("case").is_in(list(choices)),
            pl.col("quantity").is_in(QUANTITIES),
            pl.col("variant").fill_null("") == "",
            pl.col("groups").fill_null(1) == 1,
            pl.col("value").is_finite() & (pl.col("value") > 0),
        )
        # One program times a call against each of its mock-ups; these are further repetitions of the same call.
        .with_columns(
            benchmark=pl.when(pl.col("suite") == GUIDELINES)
            .then(pl.col("benchmark").str.split("-vs-").list.first())
            .otherwise(pl.col("benchmark")),
            message_bytes=pl.col("message_bytes").fill_null(0),
        )
        .group_by("case", "suite", "benchmark", "quantity", "ranks", "message_bytes", "repeat")
        .agg(pl.col("value").median())
        .collect()
    )
    started = [row["started"].strftime("%Y-%m-%d %H:%M") for row in rows.values()]
    notes = (
        *selection.notes,
        *([f"{other} cases not used: measured with options, or with ranks that share cores"] if other else []),
    )
    return Curves(
        system,
        selection.sessions,
        _by_choice(samples, choices),
        notes,
        len(choices),
        (min(started, default=""), max(started, default="")),
    )


def _check_versions(cases: Iterable[Mapping[str, Any]]) -> None:
    """:raises BadInput: a stack was measured in two versions, which are two stacks by the same name."""
    found: dict[str, set[str]] = {}
    for row in cases:
        found.setdefault(row["stack"], set()).add(f"{row['mpi']} {row['mpi_version']} ({str(row['lock_hash'])[:8]})")
    for stack, versions in found.items():
        if len(versions) > 1:
            raise BadInput(
                f"stack {stack!r} was measured as {' and as '.join(sorted(versions))}: name the sessions of one (--sessions)."
            )


def _by_choice(
    samples: pl.DataFrame, choices: Mapping[str, Choice]
) -> dict[Choice, dict[tuple[str, str, str, int], TimeCurve]]:
    found: dict[Choice, dict[tuple[str, str, str, int], list[pl.DataFrame]]] = {}
    for key, part in samples.partition_by("case", "suite", "benchmark", "quantity", "ranks", as_dict=True).items():
        case, suite, benchmark, quantity, ranks = key
        curves = found.setdefault(choices[str(case)], {})
        curves.setdefault((str(suite), str(benchmark), str(quantity), int(ranks or 0)), []).append(part)
    return {
        choice: {name: _curve(pl.concat(parts)) for name, parts in sorted(curves.items())}
        for choice, curves in sorted(found.items())
    }


def _curve(samples: pl.DataFrame) -> TimeCurve:
    sizes = np.array(sorted(set(samples["message_bytes"])), dtype=float)
    units = sorted(set(zip(samples["case"], samples["repeat"], strict=True)))
    times = np.full((len(sizes), len(units)), np.nan)
    row = {size: at for at, size in enumerate(sizes)}
    column = {unit: at for at, unit in enumerate(units)}
    for case, repeat, size, value in samples.select("case", "repeat", "message_bytes", "value").iter_rows():
        times[row[size], column[case, repeat]] = value
    return TimeCurve(sizes, tuple(units), times)


def conditions(curves: Curves) -> list[int]:
    """Numbers of ranks that were measured, ascending."""
    return sorted({choice.ranks for choice in curves.by_choice})


def narrowed(curves: Curves, choices: Iterable[Choice]) -> Curves:
    """The same with some choices only."""
    kept = {choice: curves.by_choice[choice] for choice in choices}
    return Curves(curves.system, curves.sessions, kept, curves.notes, curves.cases, curves.started)

"""Levels that were accepted: since when a machine is what it is, so that what it was before is no history of it."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import date, timedelta

import polars as pl

from .strata import SHARED


@dataclass(frozen=True)
class Level:
    """A new level that somebody accepted, in ``levels`` of policy.yaml.

    :param since: first day (UTC) on which it was measured.
    :param slower_percent: how much slower than before it is at most; 0 where it is faster.
    :param why: the cause, for whoever reads it a year later.
    :param partition: ``None``, as for the others: whichever it is.
    """

    since: date
    slower_percent: float
    why: str
    partition: str | None = None
    stack: str | None = None
    fabric: str | None = None

    def covers(self, partition: str, stack: str, fabric: str) -> bool:
        """Whether it is one of what was measured there."""
        asked = (self.partition, self.stack, self.fabric)
        return all(one in (None, there) for one, there in zip(asked, (partition, stack, fabric), strict=True))

    def accepts(self, changed: date, slower: float) -> bool:
        """Whether a change is that to this level; a step may be seen a night early or late where noise blurs it.

        :param slower: the largest change for the worse, as a fraction.
        """
        return abs(changed - self.since) <= timedelta(days=1) and 100 * slower <= self.slower_percent

    def __str__(self) -> str:
        return f"the level accepted since {self.since:%Y-%m-%d} ({self.why})"


def under_both_names(levels: Iterable[Level], rename: Mapping[str, str] | None) -> list[Level]:
    """The levels, each under every name that what it is about has or had: policy.yaml may use the old ones or today's.

    :param rename: names of stacks, fabrics or partitions to new ones.
    """
    pairs = (rename or {}).items()

    def names(name: str | None) -> list[str | None]:
        others = [{old: new, new: old}[name] for old, new in pairs if name in (old, new)]
        return [*dict.fromkeys([name, *others])]

    return [
        replace(level, partition=partition, stack=stack, fabric=fabric)
        for level in levels
        for partition, stack, fabric in itertools.product(names(level.partition), names(level.stack), names(level.fabric))
    ]


def newest(levels: Iterable[Level], partition: str, stack: str, fabric: str, until: date) -> Level | None:
    """The level that holds on a day; ``None`` if none was accepted yet."""
    there = [one for one in levels if one.covers(partition, stack, fabric) and one.since <= until]
    return max(there, key=lambda one: one.since, default=None)


def before_level(cases: pl.DataFrame, levels: Iterable[Level], until: date) -> pl.Series:
    """Of each case why it is of an earlier level than the one that holds on a day; empty where it is not.

    :param cases: with :data:`.strata.SHARED` and ``started``.
    """
    accepted = list(levels)
    found: dict[tuple[str, str, str], Level | None] = {}
    whys = []
    for partition, stack, fabric, started in cases.select(*SHARED, "started").iter_rows():
        key = (partition, stack, fabric)
        if key not in found:
            found[key] = newest(accepted, *key, until)
        level = found[key]
        whys.append(f"before {level}" if level is not None and started.date() < level.since else "")
    return pl.Series(whys, dtype=pl.String)

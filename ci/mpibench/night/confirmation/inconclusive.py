"""What one session leaves inconclusive although it seems slower than the margin: measured again until its nights can tell.

Against a history a candidate is judged by a prediction interval that is widened by what the history's own nights did to it
(:func:`mpibench.judge.statistics.prediction.widening`). One odd night among few widens it so much that no number of sessions at
hand is called, however alike they are. What still holds then is that sessions are exchangeable as long as nothing has changed:
of n nights and k later sessions every order of their values is equally likely, so that **all k are slower than all n with
probability** ``1 / C(n + k, k)``, whatever the noise is (the extreme value of the rank sum of H. B. Mann and D. R. Whitney, On
a Test of Whether one of Two Random Variables is Stochastically Larger than the Other, Annals of Mathematical Statistics 18
(1947) 50-60). A metric or band that

- is inconclusive, slower than its margin and slower than in every night of the history

is measured again, until so many sessions were slower than all nights that chance does not do it. How many that are depends on
how many metrics and bands were looked at, m in all, since one of them is slower by chance far more often than a given one, and
on how many are still slower in every session, r of them: the fewest k with ``C(n + k, k) >= m / (r * rate)``, with the policy's
false discovery rate (:func:`sessions_wanted`; of 50 all, or one alone: 4 or 12 sessions against 5 nights, 3 or 7 against 8, 2
or 5 against 15, 2 or 3 against 30). It is regressed if it was slower in each of them than in every night and the fresh sessions
alone are, by their median, slower than the margin. Otherwise all its sessions together are judged as one candidate, and that
verdict becomes its own, unless it is regressed: then it stays inconclusive, since nothing is refused by another rule than this
one.

Where nothing has changed a session is refused by this rule with at most the policy's rate, however the metrics depend on one
another and whenever the measuring ends: ``C(n + k, k)`` for as long as all k are slower, and 0 afterwards, is on average 1
after each session, so that its mean over the m ever exceeds ``1 / rate`` with a probability of at most ``rate`` (J. Ville,
Étude critique de la notion de collectif, 1939; of some of many: R. Wang, A. Ramdas, False Discovery Rate Control with E-values,
J. R. Stat. Soc. B 84 (2022) 822-852). ``studies.error_rates`` draws whole sessions. What lasts longer than all k sessions,
such as an hour's traffic of somebody else, makes them no exchangeable sessions and is refused.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from ...judge import text as verdict_text
from ...judge.accept import Acceptance
from ...judge.curve_tests import BAND as BAND_LEVEL
from ...judge.curve_tests import INCONCLUSIVE, SESSIONS, SIZE
from ...judge.history import SHARED
from ...judge.policy import Policy
from ...judge.statistics.prediction import FEWEST_SESSIONS
from ...store.session_values import BAND, CURVE, METRIC, describe_condition, slowness
from .called import CalledCase, of_metrics

#: What became of one.
SLOWER_IN_ALL, JUDGED_TOGETHER, TOO_FEW = "slower in every session", "judged together", "too few sessions"
#: For the record.
RULE = (
    "What one session leaves inconclusive is refused if each of the candidate's sessions is slower than every night of its "
    "history, and the fresh ones are slower than the margin. There are so many that, of all metrics and bands, as many are "
    "slower in all of them at most at the false discovery rate, if nothing has changed."
)

Key = tuple[object, ...]


def sessions_wanted(nights: int, rate: float, share: float) -> int:
    """Sessions that are all slower than all nights, in this share of what is looked at, by chance at most at this rate."""
    count = 2
    while math.comb(nights + count, count) * rate * share < 1:
        count += 1
    return count


@dataclass(frozen=True)
class Inconclusive:
    """One metric or band that the first judgement left inconclusive.

    :param row: of that judgement.
    :param keys: :data:`METRIC` or :data:`BAND`.
    :param nights: slowness (log) in each night of the history.
    :param sessions: slowness in each session of the candidate, in order: ``first`` of them the first judgement knew.
    :param tests: metrics and bands that it is one of.
    :param needed: sessions that bring the probability down.
    :param why: why some of it was not measured again.
    """

    row: Mapping[str, Any]
    keys: tuple[str, ...]
    nights: tuple[float, ...]
    sessions: tuple[float, ...]
    first: int
    tests: int
    needed: int = 2
    why: str = ""

    @property
    def key(self) -> Key:
        """Which metric or band it is."""
        return tuple(self.row[name] for name in self.keys)

    @property
    def wanted(self) -> int:
        """Sessions that decide: at least one of them fresh."""
        return max(self.needed, self.first + 1)

    @property
    def measured_again(self) -> bool:
        """A fresh session has a value of it."""
        return len(self.sessions) > self.first

    @property
    def slower_in_all(self) -> bool:
        """Each session so far is slower than every night."""
        return bool(self.sessions) and min(self.sessions) > max(self.nights)

    @property
    def wants_more(self) -> bool:
        """Another session could decide it."""
        return self.slower_in_all and len(self.sessions) < self.wanted

    @property
    def regressed(self) -> bool:
        """As the module's text says."""
        if not self.slower_in_all or len(self.sessions) < self.wanted:
            return False
        fresh = statistics.median(self.sessions[self.first :]) - statistics.median(self.nights)
        return fresh >= self.margin

    @property
    def margin(self) -> float:
        """As a change for the worse in log: of a value that sank by 4 % the inverse, 1 / 0.96."""
        share = self.row["margin_percent"] / 100
        return -math.log1p(-share) if self.row["ratio"] < 1 else math.log1p(share)

    @property
    def outcome(self) -> str:
        """One of the three words."""
        return SLOWER_IN_ALL if self.regressed else TOO_FEW if self.wants_more else JUDGED_TOGETHER

    @property
    def percents(self) -> list[float]:
        """How much slower each session was than the median night."""
        return self._percents(self.sessions)

    def _percents(self, values: Sequence[float]) -> list[float]:
        middle = statistics.median(self.nights)
        return [100 * math.expm1(value - middle) for value in values]

    def text(self) -> str:
        """What was measured in words."""
        changes = ", ".join(f"{percent:+.1f} %" for percent in self.percents)
        slowest = self._percents([max(self.nights)])[0]
        nights = f"the slowest of {len(self.nights)} nights {slowest:+.1f} %"
        seen = f"{self.outcome}: {changes} in {len(self.sessions)} session{'s' if self.sessions[1:] else ''}, {nights}"
        more = f"{self.wanted} would decide" if self.wants_more else ""
        return "; ".join(filter(None, [seen, more, self.why]))

    def line(self) -> str:
        """One sentence that names it."""
        size = [self.row["message_bytes"]] if "message_bytes" in self.row else None
        at = f"at {verdict_text.sizes_text(size)}" if size else f"in {self.row['band']} messages"
        return f"inconclusive at first, {describe_condition(self.row)}: {self.row['benchmark']} {at}: {self.text()}"

    def as_dict(self) -> dict[str, Any]:
        """For the record."""
        return {
            **{name: self.row[name] for name in CURVE},
            "level": SIZE if self.keys == METRIC else BAND_LEVEL,
            "message_bytes": self.row.get("message_bytes"),
            "band": self.row["band"],
            "why": self.why,
            "outcome": self.outcome,
            "wanted_sessions": self.wanted,
            "session_percents": self.percents,
            "night_percents": self._percents(self.nights),
        }


def find(first: Acceptance) -> list[Inconclusive]:
    """What the first judgement left inconclusive and more sessions may decide, the slowest first."""
    levels = [
        (keys, rows.filter(pl.col("units") == SESSIONS))
        for keys, rows in ((METRIC, first.judgement.metrics), (BAND, first.judgement.bands))
    ]
    tests = sum(rows.height for _, rows in levels)
    found = []
    for keys, rows in levels:
        open_rows = rows.filter(pl.col("verdict") == INCONCLUSIVE, pl.col("slower") > 0)
        if not open_rows.height:
            continue
        nights, own = (_levels(values, keys, open_rows, first.policy) for values in (_history(first), first.candidate.values))
        for row in open_rows.to_dicts():
            key = tuple(row[name] for name in keys)
            before, now = (tuple(side.get(key, {}).values()) for side in (nights, own))
            if len(before) < FEWEST_SESSIONS:  # of this size, though the curve has a history
                continue
            one = Inconclusive(row, keys, before, now, len(now), tests)
            if one.slower_in_all and math.log1p(row["slower"]) >= one.margin:
                found.append(one)
    return _with_needed(sorted(found, key=lambda one: -one.row["slower"]), first.policy)


def _with_needed(found: Sequence[Inconclusive], policy: Policy) -> list[Inconclusive]:
    """The same with the sessions that each needs beside those that have been slower for as long."""
    lasting = [math.comb(len(one.nights) + len(one.sessions), len(one.sessions)) * one.slower_in_all for one in found]
    return [
        replace(
            one, needed=sessions_wanted(len(one.nights), policy.false_discovery_rate, sum(map(own.__le__, lasting)) / one.tests)
        )
        for one, own in zip(found, lasting, strict=True)
    ]


def curves(first: Acceptance, inconclusive: Iterable[Inconclusive]) -> pl.DataFrame:
    """The curves they lie on."""
    rows = list(dict.fromkeys(tuple(one.row[name] for name in CURVE) for one in inconclusive))
    return pl.DataFrame(rows, schema={name: first.candidate.values.schema[name] for name in CURVE}, orient="row")


def cases(first: Acceptance, inconclusive: Sequence[Inconclusive]) -> list[CalledCase]:
    """The candidate's cases that measured them, the worst first."""
    values = first.candidate.values
    metrics = values.join(curves(first, inconclusive), on=CURVE, how="semi", nulls_equal=True).select(METRIC).unique()
    slower: dict[Key, float] = {}
    for one in inconclusive:
        key = tuple(one.row[name] for name in CURVE)
        slower[key] = max(one.row["slower"], slower.get(key, 0.0))
    changes = pl.Series("slower", [slower[row[: len(CURVE)]] for row in metrics.iter_rows()], dtype=pl.Float64)
    return of_metrics(first.candidate, metrics.with_columns(changes))[0]


def summary(inconclusive: Sequence[Inconclusive]) -> str:
    """What became of them, in counts."""
    counts = Counter(one.outcome for one in inconclusive)
    return f"{len(inconclusive)} inconclusive at first: {', '.join(f'{count} {name}' for name, count in counts.items())}"


def with_sessions(first: Acceptance, inconclusive: Sequence[Inconclusive], fresh: pl.DataFrame) -> list[Inconclusive]:
    """The same with what fresh sessions measured, in the order in which they were measured.

    :param fresh: values of the fresh sessions, all cases proven.
    """
    history = _history(first)
    # A band is the mean of its sizes: of those that the nights have, and of all of them.
    everything = pl.concat([history, fresh.select(history.columns).join(history, on=METRIC, how="semi", nulls_equal=True)])
    new = set(fresh["session"])
    found = []
    for one in inconclusive:
        wanted = pl.DataFrame(
            [{name: one.row[name] for name in one.keys}], schema={name: _type(fresh, name) for name in one.keys}
        )
        levels = _levels(everything, one.keys, wanted, first.policy).get(one.key, {})
        again = (value for session, value in levels.items() if session in new)
        found.append(replace(one, sessions=(*one.sessions, *again)))
    return _with_needed(found, first.policy)


def _type(values: pl.DataFrame, name: str) -> pl.DataType:
    return values.schema[name] if name in values.schema else pl.String()


def _history(first: Acceptance) -> pl.DataFrame:
    """Values of the nights the first judgement held the candidate against."""
    own, past = first.baseline.values, first.past.values
    unlike = pl.DataFrame(list(first.judgement.unlike_past), schema=dict.fromkeys(SHARED, pl.String), orient="row")
    alike = past.join(unlike, on=SHARED, how="anti", nulls_equal=True)
    return pl.concat([alike.select(own.columns), own])


def _levels(values: pl.DataFrame, keys: Sequence[str], wanted: pl.DataFrame, policy: Policy) -> dict[Key, dict[object, float]]:
    """Slowness (log) of each metric or band in each session, oldest first; of a band the mean of its sizes.

    A session that lacks a size of a band has no value of the band.
    """
    held = values.join(wanted.select(CURVE).unique(), on=CURVE, how="semi", nulls_equal=True)
    bands = pl.Series([policy.band(size) for size in held["message_bytes"]], dtype=pl.String)
    held = held.with_columns(slowness(held), bands.alias("band"))
    jobs = held.group_by(*METRIC, "band", "session", "case", maintain_order=True).agg(
        pl.col("slowness").median(), pl.col("started").min()
    )
    metrics = jobs.group_by(*METRIC, "band", "session", maintain_order=True).agg(
        pl.col("slowness").mean(), pl.col("started").min()
    )
    table = metrics.group_by(*keys, "session", maintain_order=True).agg(
        pl.col("slowness").mean(), pl.col("started").min(), sizes=pl.len()
    )
    table = table.join(wanted.select(*keys).unique(), on=keys, how="semi", nulls_equal=True)
    table = table.filter(pl.col("sizes") == pl.col("sizes").max().over(*keys)).sort("started", "session")
    found: dict[Key, dict[object, float]] = {}
    for row in table.to_dicts():
        found.setdefault(tuple(row[name] for name in keys), {})[row["session"]] = row["slowness"]
    return found

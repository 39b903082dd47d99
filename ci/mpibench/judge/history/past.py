"""The sessions before a session, as far as they measured the same: found in the dataset, nobody has to name them.

Each sentence says how many sessions there were, and why others are not among them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import scipy

from reframe_tests.harness.vocabulary import BadInput

from ...store import eligibility, selectors
from ...store.dataset_layout import CASES_SCHEMA, SAMPLES_SCHEMA
from ...store.session_values import METRIC, RENAMED, VALUES, Selection, slowness
from ...store.sessions import CONFIRMS
from ...store.store import Store
from ..statistics import prediction
from ..statistics.prediction import FEWEST_SESSIONS
from . import strata
from .levels import Level, before_level, under_both_names
from .strata import FACTS, MEASURED, SHARED, Fact

#: Word in place of a selector: do without a history.
NONE = "none"
#: Newest sessions of a stratum that are its history where no selector says so: a machine of long ago is another one, and more
#: nights narrow a prediction hardly (1 + 1/30 against 1), while an old level that is past widens it.
MOST_SESSIONS = 30
#: Sessions searched for nights that do not count, so that 30 remain; more where something lasts since one of the first.
SEARCHED_SESSIONS = 90
#: Fewest sessions whose spread is taken for that between nights: with two, Student's factor for 95 % is 12.7, and nothing that
#: a site would refuse could be distinguished from it.
FEWEST_SPREAD = 3
#: Why a session is no part of a history that is long enough without it.
OLDER = "older than the newest"
#: No clock of a machine that runs this was ever right before.
OLDEST = datetime(2010, 1, 1, tzinfo=timezone.utc)
#: Names in one sentence.
MOST_NAMES = 3


class Unlike(NamedTuple):
    """Which cases are no history though they measured the same.

    :param whys: of each of these, why.
    :param begin_early: the search should begin with older sessions.
    """

    whys: Mapping[str, str]
    begin_early: bool


def units_of(values: pl.DataFrame) -> prediction.Units:
    """Sessions as units: one row per metric, its median in each session, in log.

    :param values: as :attr:`Selection.values`, of one stack on one fabric.
    """
    logs = values.with_columns(slowness=slowness(values)).pivot(
        on="session", index=METRIC, values="slowness", aggregate_function="median"
    )
    matrix = logs.drop(*METRIC).to_numpy().astype(float)
    return prediction.by_session(matrix, range(matrix.shape[1]))


class Spread(NamedTuple):
    """How much nights differ, from few of them.

    :param percent: standard deviation of the typical metric, larger by what so few sessions leave open.
    """

    sessions: int
    percent: float


def spread_of(values: pl.DataFrame, confidence: float) -> Spread | None:
    """Spread between sessions; ``None`` below :data:`FEWEST_SPREAD` of them.

    The standard deviation with which a normal interval is as wide as the prediction interval of these sessions.
    """
    if values["session"].n_unique() < FEWEST_SPREAD:
        return None
    units = units_of(values)
    known = prediction.reach(units, confidence) / np.sqrt(1 + 1 / np.maximum(units.count, 1))
    known = known[np.isfinite(known)]
    if not len(known):
        return None
    return Spread(values["session"].n_unique(), 100 * float(np.median(known) / scipy.stats.norm.ppf(0.5 + confidence / 2)))


@dataclass(frozen=True)
class Stratum:
    """The history of one stack on one fabric.

    :param facts: by column of :data:`strata.FACTS`, each with all its values.
    :param sessions: ids, the oldest first; those that a side names itself are not among them.
    :param named: sessions that the side names itself and that are of the same history.
    :param days: calendar days (UTC) of all these, in ISO form.
    :param left_out: why other sessions are not among them, and how many.
    """

    partition: str
    stack: str
    fabric: str
    facts: Mapping[str, tuple[str, ...]]
    sessions: tuple[str, ...]
    named: int
    days: tuple[str, ...]
    left_out: tuple[tuple[str, int], ...]

    @property
    def count(self) -> int:
        """Sessions in all."""
        return len(self.sessions) + self.named

    @property
    def enough(self) -> bool:
        """Whether it shows how much nights differ."""
        return self.count >= FEWEST_SESSIONS

    @property
    def unlike(self) -> bool:
        """Whether sessions measured the same thing otherwise, and not only too long ago."""
        return any(not why.startswith(OLDER) for why, _ in self.left_out)

    @property
    def name(self) -> str:
        """What it is the history of."""
        version = " and ".join(filter(None, self.facts["mpi_version"]))
        return strata.name_place(self.partition, f"{self.stack}{version and ' '}{version}", self.fabric)

    @property
    def found(self) -> str:
        """What was found, and what was not used and why."""
        count = f"{self.count} session{'' if self.count == 1 else 's'}"
        named = f", {self.named} of them named" if self.named and self.sessions else ""
        span = f" on {len(self.days)} days, {self.days[0]} to {self.days[-1]}" if len(self.days) > 1 else ""
        few = "" if self.enough else f"; {FEWEST_SESSIONS} are needed to know how much nights differ"
        left = f"; not used: {_left_out(self.left_out)}" if self.left_out else ""
        return f"{count}{named}{span}{few}{left}"

    def as_dict(self) -> dict[str, Any]:
        """As plain data with stable keys."""
        return {
            **{name: getattr(self, name) for name in (*SHARED, "named", "enough")},
            "sessions": list(self.sessions),
            "days": list(self.days),
            "facts": {name: list(values) for name, values in self.facts.items()},
            "left_out": [{"why": why, "sessions": count} for why, count in self.left_out],
        }


def _left_out(left_out: Sequence[tuple[str, int]]) -> str:
    return ", ".join(f"{count} session{'' if count == 1 else 's'} {why}" for why, count in left_out)


def _nothing() -> pl.DataFrame:
    return pl.DataFrame(schema={name: SAMPLES_SCHEMA[name] for name in VALUES})


@dataclass(frozen=True)
class Past:
    """Sessions before a side that measured the same.

    :param values: as :attr:`Selection.values`, of these sessions only.
    :param cases: rows of ``cases`` with these values.
    :param left_out: sessions that could not be read, one sentence each.
    """

    values: pl.DataFrame = field(default_factory=_nothing)
    strata: tuple[Stratum, ...] = ()
    left_out: tuple[str, ...] = ()
    cases: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=CASES_SCHEMA))

    def as_side(self, system: str) -> Selection:
        """As one side of a comparison, for a session that is held against nothing but its history."""
        nothing = self.cases.clear()
        sessions = tuple(self.cases.select("started", "session").unique().sort("started", "session")["session"])
        values, zeros = self.values, self.values.clear()
        return Selection(system, sessions, values, self.cases, self.cases, self.left_out, zeros, nothing, "history")

    def sentences(self) -> list[str]:
        """How many sessions of which stratum there are, and why others are not used; strata with one answer share a line."""
        names: dict[str, list[str]] = {}
        for one in self.strata:
            names.setdefault(one.found, []).append(one.name)
        lines = []
        for found, of in names.items():
            more = f" and {len(of) - MOST_NAMES} more" if len(of) > MOST_NAMES else ""
            lines.append(f"history of {'; '.join(of[:MOST_NAMES])}{more}: {found}")
        return [*lines, *self.left_out]


def find(
    store: Store,
    system: str,
    like: pl.DataFrame,
    *,
    without: Collection[str] = (),
    selector: str | None = None,
    where: str | None = None,
    rename: Mapping[str, str] | None = None,
    facts: Sequence[Fact] = FACTS,
    counted: bool = True,
    levels: Sequence[Level] = (),
    unlike: Callable[[pl.DataFrame, pl.DataFrame], Unlike] | None = None,
) -> Past:
    """Sessions up to the newest of some cases that measured the same as these.

    :param like: eligible rows of the table ``cases``: the side whose history is wanted.
    :param without: further sessions that are not its history, such as those of the other side.
    :param selector: only these sessions, however many; default: the :data:`MOST_SESSIONS` newest of each stratum;
        :data:`NONE`: none.
    :param where: only cases that fulfil it.
    :param rename: names of stacks, benchmarks, fabrics or partitions to new ones.
    :param facts: in what cases of one history agree.
    :param counted: the cases' own sessions are part of the history.
    :param levels: accepted ones, under old or new names; what was measured before the one that holds is no history.
    :param unlike: says of values and their cases which do not count; not asked where a selector says what is meant.
    :raises BadInput: the selector cannot be read or selects nothing.
    """
    wanted = strata.describe(like).unique([*MEASURED, *(fact.column for fact in facts)], maintain_order=True)
    # Cases of one condition that differ in a fact are no one thing, and have no history.
    single = wanted.filter(pl.len().over(MEASURED) == 1)
    own = like["session"].unique().to_list()
    if not like.height or selector == NONE:
        return Past()
    until = like.select(pl.max("started")).item()
    table = store.cases(system)
    # What measured another session again is a part of no series, whatever its other labels say.
    table = table.filter(pl.col("labels").str.json_path_match(f"$.{CONFIRMS}").is_null())
    known = selectors.sessions_table(table)
    chosen = known["session"].unique().to_list()
    if selector is not None:
        chosen = selectors.select(selector, known, unreadable=store.lost(system))
    others = [one for one in chosen if one not in {*own, *without}]
    cases = _filtered(table.filter(pl.col("session").is_in(others)).collect(), where)
    split = eligibility.split_cases(cases)
    unused = split.left_out.filter(pl.col("why").is_in([eligibility.NO_PROOF, eligibility.FAILED]))
    every = pl.concat([split.eligible.with_columns(why=pl.lit(None, dtype=pl.String)), unused])
    judged = _reasons(strata.describe(every), single, facts, until, under_both_names(levels, rename))
    most = None if selector else MOST_SESSIONS - len(own) * counted

    def read(searched: int | None) -> tuple[pl.DataFrame, list[str], pl.DataFrame, list[str]]:
        window = _without_old(judged, searched)
        part = split.eligible.join(window.filter(pl.col("why") == "").select("case"), on="case")
        return window, *_read(store, system, part)

    searched = most if most is None or unlike is None else max(most, SEARCHED_SESSIONS)
    window, used, values, lost = read(searched)
    while unlike is not None and searched is not None:
        found = unlike(values.filter(pl.col("value") > 0), split.eligible.filter(pl.col("case").is_in(used)))
        if found.begin_early and window["why"].str.starts_with(OLDER).any():
            searched *= 2
            window, used, values, lost = read(searched)
            continue
        window = window.with_columns(why=pl.col("case").replace_strict(found.whys, default=pl.col("why")))
        window = _without_old(window, most)
        used = window.filter((pl.col("why") == "") & pl.col("case").is_in(used))["case"].to_list()
        values = values.filter(pl.col("case").is_in(used))
        break
    judged = window.filter((pl.col("why") != "") | pl.col("case").is_in(used))
    for old, new in (rename or {}).items():
        values = values.with_columns(pl.col(list(RENAMED)).replace(old, new))
        judged = judged.with_columns(pl.col(list(SHARED)).replace(old, new))
        like = like.with_columns(pl.col(list(SHARED)).replace(old, new))
    cases = split.eligible.filter(pl.col("case").is_in(used))
    several = wanted.join(single, on=MEASURED, how="anti", nulls_equal=True).select(MEASURED).unique().height
    if several:
        lost.append(
            f"{several} condition{'s' if several > 1 else ''} measured in more than one way (several placements, versions or "
            "levels in one session) are held against no history"
        )
    every_stratum = _strata(strata.describe(like), judged, counted=counted)
    return Past(values.filter(pl.col("value") > 0), tuple(every_stratum), tuple(lost), cases)


def _filtered(cases: pl.DataFrame, where: str | None) -> pl.DataFrame:
    """Cases that fulfil an expression; none is an answer here."""
    try:
        return selectors.filter_cases(cases, where) if cases.height else cases
    except BadInput:
        return cases.clear()


def _reasons(
    cases: pl.DataFrame, like: pl.DataFrame, facts: Sequence[Fact], until: datetime, levels: Sequence[Level]
) -> pl.DataFrame:
    """Cases of the wanted conditions with ``why`` they are not of their history; empty where they are.

    :param cases: described, with ``why`` they are not eligible.
    :param like: one described case of each condition.
    """
    columns = [fact.column for fact in facts]
    wanted = like.select(*MEASURED, *(pl.col(name).alias(f"{name}_wanted") for name in columns))
    found = cases.join(wanted, on=MEASURED, how="inner", nulls_equal=True)
    found = found.with_columns(level=before_level(found, levels, until.date()))
    reasons = [
        (pl.col("started") > until, pl.lit("that started later")),
        (pl.col("started") < OLDEST, pl.lit("whose clock was wrong")),
        (pl.col("why").is_not_null(), pl.lit("without proof of this")),
        *((pl.col(one.column).ne_missing(pl.col(f"{one.column}_wanted")), strata.why_not(one)) for one in facts),
        (pl.col("level") != "", pl.col("level")),
    ]
    why = pl.coalesce(*(pl.when(condition).then(text) for condition, text in reasons), pl.lit(""))
    return found.with_columns(why=why).drop("level")


def _without_old(judged: pl.DataFrame, most: int | None) -> pl.DataFrame:
    """The same, where a long history is its newest sessions only.

    :param judged: of :func:`_reasons`.
    :param most: sessions of a history; ``None``: however many.
    :returns: with ``why`` also for those that are too old.
    """
    if most is None:
        return judged
    # Sessions by age within each condition; those of another stratum do not count.
    place = pl.struct("started", "session").rank("dense", descending=True).over([*MEASURED, "why"])
    old = (pl.col("why") == "") & (place > most)
    return judged.with_columns(why=pl.when(old).then(pl.lit(f"{OLDER} {MOST_SESSIONS}")).otherwise(pl.col("why")))


def _read(store: Store, system: str, cases: pl.DataFrame) -> tuple[list[str], pl.DataFrame, list[str]]:
    """Values of cases, and what cannot be used: a damaged session of long ago stops no verdict of today.

    :returns: ids of the cases that were read, their values, and a sentence for each session that was not.
    """
    if not cases.height:
        return [], _nothing(), []
    try:
        return cases["case"].to_list(), store.values_of(system, cases)[0], []
    except BadInput:
        pass
    used: list[str] = []
    parts, lost = [], []
    for (session,), part in cases.group_by("session", maintain_order=True):
        try:
            parts.append(store.values_of(system, part)[0])
            used += part["case"].to_list()
        except BadInput as damaged:
            lost.append(f"session {str(session)[:8]} is not used as history: {damaged}")
    values = pl.concat(parts) if parts else _nothing()
    return used, values, lost


def _strata(like: pl.DataFrame, judged: pl.DataFrame, *, counted: bool) -> list[Stratum]:
    """One answer for each stack on each fabric of the side whose history is wanted.

    :param judged: of :func:`_reasons`.
    :param counted: the side's own sessions are part of it.
    """
    before = judged.partition_by(SHARED, as_dict=True)
    found = []
    for key, part in sorted(like.partition_by(SHARED, as_dict=True).items(), key=str):
        others = before.get(key, judged.clear())
        used, left = others.filter(pl.col("why") == ""), others.filter(pl.col("why") != "")
        sessions = used.select("started", "session").unique().sort("started", "session")
        named = part.select("started", "session").unique() if counted else sessions.clear()
        days = sorted({f"{one:%Y-%m-%d}" for one in (*sessions["started"], *named["started"])})
        counts = left.group_by("why").agg(pl.col("session").n_unique()).sort("session", "why", descending=[True, False])
        facts = {one.column: tuple(sorted(part[one.column].unique())) for one in FACTS if one is not strata.PLACEMENT}
        partition, stack, fabric = (str(one or "") for one in key)
        not_used = tuple((why, count) for why, count in counts.iter_rows())
        found.append(Stratum(partition, stack, fabric, facts, tuple(sessions["session"]), named.height, tuple(days), not_used))
    return found

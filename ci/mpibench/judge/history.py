"""The earlier sessions that measured the same as a session, for accept, the gate and compare.

**Strata.** Cases form one history if they measured one group under one condition and agree in
:data:`FACTS`: the MPI as built, the level, the placement, the transport, the benchmarks' versions,
and the label of the session's series. Strata are never pooled: a different fact is a different
measurement, however similar the numbers look. The nodes of a job are not such a fact, because they
vary from night to night. Sessions are found in the dataset without being named; each sentence says
how many were used, and why others were not.

A night that was reported slower stays in the history: :mod:`.engine` ignores odd nights when it
learns, so none hides a later one. A loss that outlasts the history is found by comparison with the
baseline (:func:`.engine.lasting`), which never expires. A case that missed a reference is not
history. A level that should stay is accepted with ``levels`` in policy.yaml, and the history starts
with it.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timezone
from typing import Any

import polars as pl

from reframe_tests.harness.printable import few, plural
from reframe_tests.harness.suites import catalogue
from reframe_tests.harness.vocabulary import ALL_NODES, BadInput

from .. import answers
from ..store import eligibility, selectors
from ..store.dataset_layout import CASES_SCHEMA, SAMPLES_SCHEMA, read_condition
from ..store.session_values import (
    BENCHMARK,
    CONDITION,
    RENAMED,
    VALUES,
    Selection,
    beside,
    not_among,
)
from ..store.sessions import CONFIRMS
from ..store.store import Store
from .engine import ASKED, FEWEST, WINDOW
from .policy import AcceptedLevel, Policy

#: What a history is reported for, and within which spreads between sessions are shared.
SHARED = ("partition", "stack", "fabric")
#: What is measured.
MEASURED = (*CONDITION, "group")


@dataclass(frozen=True)
class FactColumn:
    """A fact in which cases of one history agree: column of :func:`describe_facts`, and its name in
    singular and plural.
    """

    column: str
    title: str
    titles: str


#: Where the ranks run: a list of cores for each.
PLACEMENT = FactColumn("placement", "placement", "placements")
#: In the order in which they explain why a session is not of a history;
#: ``depth`` is the stored name of the level.
FACTS = (
    FactColumn("mpi_version", "MPI version", "MPI versions"),
    FactColumn("lock_hash", "lock hash", "lock hashes"),
    FactColumn("depth", "level", "levels"),
    FactColumn("run", "label run", "labels run"),
    FactColumn("transport", "transport", "transports"),
    PLACEMENT,
    FactColumn("suites", "benchmark version", "benchmark versions"),
    FactColumn("suite_options", "suite options", "suite options"),
    FactColumn("striped", "striping", "striping"),
    FactColumn("quality_of_service", "quality of service", "qualities of service"),
    FactColumn("tuned", "tuned settings", "tuned settings"),
    # Ranks that wait for each other's cores.
    FactColumn("oversubscribed", "oversubscription", "oversubscription"),
    # Of what ran as shipped.
    FactColumn("network", "network", "networks"),
)
#: Those in which nights still must agree that say whether a loss is gross:
#: what was requested, and not what it was asked of.
ASKED_FACTS = tuple(
    fact
    for fact in FACTS
    if fact.column
    in (
        "depth",
        "run",
        "suite_options",
        "striped",
        "quality_of_service",
        "tuned",
        "oversubscribed",
    )
)
#: Those of them that the condition holds as they are.
_STORED = (
    "depth",
    "transport",
    "placement",
    "suite_options",
    "striped",
    "quality_of_service",
    "tuned",
    "oversubscribed",
    "network",
)
#: Its nodes, where sides are compared that must have the same.
NODES = FactColumn("nodelist", "node list", "node lists")


def own_programs(group: str | None) -> list[str]:
    """Suites a group runs as programs that stacks bring, each in a version of its own."""
    wanted = (
        catalogue.suites(group) if group and group in catalogue.GROUPS else tuple(catalogue.SUITES)
    )
    return [name for name in wanted if catalogue.SUITES[name].programs]


def describe_facts(cases: pl.DataFrame) -> pl.DataFrame:
    """The cases with a column for each of :data:`FACTS`: text, empty where nothing was stored."""
    stored = {
        name: pl.col("condition").str.json_path_match(f"$.{name}") for name in (*_STORED, "suites")
    }
    described = cases.with_columns(**stored, run=pl.col("labels").str.json_path_match("$.run"))
    versions = []
    for group, text in described.select("group", "suites").unique().iter_rows():
        suites = read_condition(text and f'{{"suites": {text}}}').get("suites")
        rows = (
            [(name, suites.get(name)) for name in own_programs(group)]
            if isinstance(suites, dict)
            else []
        )
        shown = ", ".join(
            f"{name} {row.get('version')}" for name, row in rows if isinstance(row, dict)
        )
        versions.append((group, text, shown))
    table = pl.DataFrame(
        versions, schema=dict.fromkeys(("group", "suites", "versions"), pl.String), orient="row"
    )
    described = beside(described, table, ["group", "suites"])
    described = described.with_columns(suites="versions").drop("versions")
    return described.with_columns(pl.col([fact.column for fact in FACTS]).fill_null(""))


def name_place(partition: object, stack: object, fabric: object) -> str:
    """What values of :data:`SHARED` are called; what measures nodes
    alone is on no fabric (``None`` or empty).
    """
    return f"{stack} on {partition}" + (f", {fabric}" if fabric else "")


def mixed_strata(selection: Selection) -> dict[tuple[Any, ...], str]:
    """What makes the sessions of a selection unlike one another, by
    :data:`SHARED`: such sessions are no history of one thing.

    :returns: sentences; no entry where all facts are the same in all sessions.
    """
    # By the values, which have the names that were changed with --rename.
    named = selection.values.select(*SHARED, "case").unique(maintain_order=True)
    cases = named.join(
        describe_facts(selection.cases).drop(SHARED), on="case", how="left", maintain_order="left"
    )
    sentences: dict[tuple[Any, ...], str] = {}
    for key, part in cases.group_by(SHARED, maintain_order=True):
        differ = []
        for fact in FACTS:
            counted = part.group_by("nodes", "ppn", "pinning", "group").agg(
                pl.col(fact.column).unique()
            )
            values = sorted(
                {value for several in counted[fact.column] if len(several) > 1 for value in several}
            )
            if values:
                shown = (
                    [f"{len(values)} of them"]
                    if fact is PLACEMENT
                    else [value or "none" for value in values]
                )
                differ.append(f"{fact.titles} {' and '.join(shown)}")
        if differ:
            sentences[key] = f"{name_place(*key)}: {', '.join(differ)}"
    return sentences


def why_not(fact: FactColumn) -> pl.Expr:
    """Why cases are excluded that differ in a fact from those whose history is needed."""
    if fact in (PLACEMENT, NODES):
        return pl.lit(f"with another {fact.title}")
    value = pl.when(pl.col(fact.column) == "").then(pl.lit("none")).otherwise(pl.col(fact.column))
    return pl.format(f"with {fact.title} {{}}", value)


#: What names a metric of ``nodes=all`` beside its node count,
#: which is its variant and makes its ranks.
_AT_ANY_COUNT = (
    *CONDITION,
    *(name for name in BENCHMARK if name not in ("variant", "ranks")),
    "message_bytes",
)
#: What makes two cases the same test under the same condition.
_COUNTED = ("test", *CONDITION)


def missing_metrics(absent: pl.DataFrame, there: pl.DataFrame) -> pl.DataFrame:
    """The metrics that are missing: all but those of ``nodes=all``
    that are there at other node counts.

    Such cases are one history, whose metrics are named with node counts: those that a job grew
    over, 2, 4, 8, ... up to all, or its own. Nights of 62 and of 64 idle nodes have the counts up
    to 32 in common, and the last ones are never compared with one another.

    :param absent: metrics that a side lacks, with the columns of :data:`~.session_values.METRIC`.
    """
    at_other_counts = there.filter(pl.col("nodes") == ALL_NODES)
    return not_among(absent, at_other_counts, _AT_ANY_COUNT)


def differing_node_counts(
    before: pl.DataFrame, after: pl.DataFrame, older: str, newer: str
) -> list[str]:
    """A sentence for each test and fabric that had another number
    of nodes on one side than on the other.

    :param before: rows of the table ``cases``, and likewise ``after``.
    """
    sides = []
    for cases in (before, after):
        proven = cases.filter(pl.col("nodes") == ALL_NODES, pl.col("evidence") == "proven")
        named = proven.with_columns(
            test=pl.col("name").str.split(" ").list.first(),
            count=pl.col("condition").str.json_path_match("$.nodes").cast(pl.Int64, strict=False),
        )
        counts = (
            named.drop_nulls("count")
            .group_by(_COUNTED, maintain_order=True)
            .agg(pl.col("count").unique().sort())
        )
        sides.append(counts)
    both = sides[1].join(
        sides[0], on=_COUNTED, suffix="_before", nulls_equal=True, maintain_order="left"
    )
    sentences = []
    for row in both.filter(pl.col("count") != pl.col("count_before")).to_dicts():
        had, has = (" and ".join(map(str, row[name])) for name in ("count_before", "count"))
        sentences.append(
            f"nodes=all of {row['test']} on {row['partition']}, {row['fabric']}: {has} nodes in "
            f"{newer}, {had} in {older}: only node counts that both have are compared"
        )
    return list(dict.fromkeys(sentences))


def node_count_notes(before: pl.DataFrame, cases: pl.DataFrame) -> list[str]:
    """Notes on a session with another number of nodes than the previous one of its series.

    :param before: cases of that one, none if there is none.
    """
    if not before.height:
        return []
    older = f"session {before['session'][0][:8]} before"
    return differing_node_counts(before, cases, older, "this session")


def under_both_names(
    levels: Iterable[AcceptedLevel], rename: Mapping[str, str] | None
) -> list[AcceptedLevel]:
    """The levels, each under every old and new name: policy.yaml may use either.

    :param rename: names of stacks, fabrics or partitions to new ones.
    """
    found = []
    for level in levels:
        names = []
        for name in (level.partition, level.stack, level.fabric):
            others = [
                new if name == old else old
                for old, new in (rename or {}).items()
                if name in (old, new)
            ]
            names.append([*dict.fromkeys([name, *others])])
        for partition, stack, fabric in itertools.product(*names):
            found.append(replace(level, partition=partition, stack=stack, fabric=fabric))
    return found


def _before_level(
    cases: pl.DataFrame,
    levels: Sequence[AcceptedLevel],
    rename: Mapping[str, str] | None,
    until: date,
) -> pl.Series:
    """Of each case why it is of an earlier level than the one that
    holds on a day; empty if it is not.
    """
    there = [level for level in under_both_names(levels, rename) if level.since <= until]
    there.sort(key=lambda level: level.since, reverse=True)
    newest = {
        key: next((level for level in there if level.covers(*key)), None)
        for key in cases.select(SHARED).unique().rows()
    }
    whys = []
    for *key, started in cases.select(*SHARED, "started").iter_rows():
        level = newest[tuple(key)]
        whys.append(f"before {level}" if level and started.date() < level.since else "")
    return pl.Series(whys, dtype=pl.String)


#: Word instead of a selector: do without a history.
NO_HISTORY = "none"
#: Newest sessions of a stratum that are its history where no selector says so: those that a night
#: is compared with, and those that say how heavy the tails are.
MOST_SESSIONS = WINDOW + ASKED
#: Why a session is no part of a history that is long enough without it.
OLDER = f"older than the newest {MOST_SESSIONS}"
#: No clock of a machine that runs this was ever right before.
OLDEST = datetime(2010, 1, 1, tzinfo=timezone.utc)


class Stratum(answers.StackHistory):
    """The history of one stack on one fabric; the sessions that a side
    names itself are not among its ``sessions``.
    """

    @property
    def count(self) -> int:
        return len(self.sessions) + self.named

    @property
    def unlike(self) -> bool:
        """Whether sessions measured the same thing otherwise, and not only too long ago."""
        return any(row.why != OLDER for row in self.left_out)

    @property
    def name(self) -> str:
        version = " and ".join(filter(None, self.facts["mpi_version"]))
        return name_place(self.partition, f"{self.stack} {version}".rstrip(), self.fabric)

    @property
    def found(self) -> str:
        """What was found, and what was not used and why."""
        named = f", {self.named} of them named" if self.named and self.sessions else ""
        span = (
            f" on {len(self.days)} days, {self.days[0]} to {self.days[-1]}"
            if len(self.days) > 1
            else ""
        )
        few = "" if self.enough else f"; {FEWEST} are needed to estimate how much nights differ"
        left = ", ".join(f"{plural(row.sessions, 'session')} {row.why}" for row in self.left_out)
        return f"{plural(self.count, 'session')}{named}{span}{few}{left and f'; not used: {left}'}"


def _nothing() -> pl.DataFrame:
    return pl.DataFrame(schema={name: SAMPLES_SCHEMA[name] for name in VALUES})


@dataclass(frozen=True)
class Past:
    """Sessions before a side that measured the same.

    :param values: as :attr:`Selection.values`, of these sessions only.
    """

    values: pl.DataFrame = field(default_factory=_nothing)
    strata: tuple[Stratum, ...] = ()
    left_out: tuple[str, ...] = ()
    cases: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=CASES_SCHEMA))

    def as_side(self, system: str) -> Selection:
        """As one side of a comparison, for a session that is held
        against nothing but its history.
        """
        sessions = tuple(
            self.cases.select("started", "session").unique().sort("started", "session")["session"]
        )
        values = self.values
        zeros = self.values.clear()
        nothing = self.cases.clear()
        return Selection(
            system,
            sessions,
            values,
            self.cases,
            self.cases,
            self.left_out,
            zeros,
            nothing,
            "history",
        )

    def sentences(self) -> list[str]:
        """How many sessions each stratum has, and why others are not used; strata with the same
        answer share a line.
        """
        names: dict[str, list[str]] = {}
        for stratum in self.strata:
            names.setdefault(stratum.found, []).append(stratum.name)
        lines = [f"history of {few(of, between='; ')}: {found}" for found, of in names.items()]
        return [*lines, *self.left_out]


def find_history(
    store: Store,
    system: str,
    like: pl.DataFrame,
    policy: Policy,
    *,
    without: Collection[str] = (),
    selector: str | None = None,
    where: str | None = None,
    rename: Mapping[str, str] | None = None,
    facts: Sequence[FactColumn] = FACTS,
    counted: bool = True,
) -> Past:
    """Sessions up to the newest of some cases that measured the same as these.

    What was measured before the level that was accepted last is no history. Where a selector says
    which sessions are meant, all of these are used that belong to that level.

    :param like: eligible rows of the table ``cases``: the side whose history is wanted.
    :param without: further sessions that are not its history, such as those of the other side.
    :param selector: only these sessions, however many; default: the :data:`MOST_SESSIONS` newest of
        each stratum; :data:`NO_HISTORY`: none.
    :param counted: the cases' own sessions are part of the history.
    :raises BadInput: the selector cannot be read or selects nothing.
    """
    if not like.height or selector == NO_HISTORY:
        return Past()
    wanted = describe_facts(like).unique(
        [*MEASURED, *(fact.column for fact in facts)], maintain_order=True
    )
    # Cases of one condition that differ in a fact are no one thing, and have no history.
    single = wanted.filter(pl.len().over(MEASURED) == 1)
    split = _earlier(store, system, {*like["session"], *without}, selector, where)
    until = like.select(pl.max("started")).item()
    judged = _judge_earlier(split, single, facts, until)
    before_level = _before_level(judged, policy.levels, rename, until.date())
    judged = judged.with_columns(why=pl.col("why").fill_null(before_level))
    window = _without_old(judged, None if selector else MOST_SESSIONS)
    part = split.eligible.join(window.filter(pl.col("why") == "").select("case"), on="case")
    used, values, lost = _read(store, system, part)
    judged = window.filter((pl.col("why") != "") | pl.col("case").is_in(used))
    for old, new in (rename or {}).items():
        values = values.with_columns(pl.col(list(RENAMED)).replace(old, new))
        judged, like = (
            rows.with_columns(pl.col(list(SHARED)).replace(old, new)) for rows in (judged, like)
        )
    several = not_among(wanted, single, MEASURED)
    if count := several.select(MEASURED).unique().height:
        lost.append(
            f"{plural(count, 'condition')} measured in more than one way (several placements, "
            "versions or levels in one session) are not compared with earlier sessions"
        )
    strata = _strata(describe_facts(like), judged, counted=counted)
    cases = split.eligible.filter(pl.col("case").is_in(used))
    return Past(values.filter(pl.col("value") > 0), tuple(strata), tuple(lost), cases)


def _earlier(
    store: Store, system: str, without: Collection[str], selector: str | None, where: str | None
) -> eligibility.SplitCases:
    """The cases of the sessions that may be history.

    :param without: sessions that are not.
    """
    # What measured another session again is a part of no series, whatever its other labels say.
    own = pl.col("labels").str.json_path_match(f"$.{CONFIRMS}").is_null()
    known = store.sessions(system).filter(own)
    chosen = known["session"].unique().to_list()
    if selector is not None:
        chosen = selectors.select(selector, known, unreadable=store.lost(system))
    cases = store.cases_of(system, [session for session in chosen if session not in without])
    try:
        cases = selectors.filter_cases(cases, where) if cases.height else cases
    except BadInput:  # that none fulfils it is an answer here
        cases = cases.clear()
    return eligibility.split_cases(cases)


def _judge_earlier(
    split: eligibility.SplitCases,
    single: pl.DataFrame,
    facts: Sequence[FactColumn],
    until: datetime,
) -> pl.DataFrame:
    """Earlier cases of the wanted conditions, with ``why`` they are not of
    one history with these; null where they are.

    :param single: conditions whose history is wanted, with their facts.
    :param until: start of the newest of these.
    """
    unused = split.left_out.filter(pl.col("why").is_in([eligibility.NO_PROOF, eligibility.FAILED]))
    eligible = split.eligible.with_columns(why=pl.lit(None, dtype=pl.String))
    like_facts = single.select(
        *MEASURED, *(pl.col(fact.column).alias(f"{fact.column}_wanted") for fact in facts)
    )
    judged = describe_facts(pl.concat([eligible, unused])).join(
        like_facts, on=MEASURED, how="inner", nulls_equal=True
    )
    reasons = [
        (pl.col("started") > until, pl.lit("that started later")),
        (pl.col("started") < OLDEST, pl.lit("whose clock was wrong")),
        (pl.col("why").is_not_null(), pl.lit("unproven for this")),
        (pl.col("result") == "fail", pl.lit("that missed a reference")),
        *(
            (pl.col(fact.column).ne_missing(pl.col(f"{fact.column}_wanted")), why_not(fact))
            for fact in facts
        ),
    ]
    why = pl.coalesce(*(pl.when(condition).then(text) for condition, text in reasons))
    return judged.with_columns(why=why)


def _without_old(judged: pl.DataFrame, most: int | None) -> pl.DataFrame:
    """The same, with ``why`` also for what is older than so many
    sessions of a history; ``None``: however many.
    """
    if most is None:
        return judged
    # Sessions by age within each condition; those of another stratum do not count.
    place = pl.struct("started", "session").rank("dense", descending=True).over([*MEASURED, "why"])
    old = (pl.col("why") == "") & (place > most)
    return judged.with_columns(why=pl.when(old).then(pl.lit(OLDER)).otherwise(pl.col("why")))


def _read(
    store: Store, system: str, cases: pl.DataFrame
) -> tuple[list[str], pl.DataFrame, list[str]]:
    """Values of cases, and what cannot be used: a damaged session
    of long ago stops no verdict of today.

    :returns: ids of the cases that were read, their values, and a
        sentence for each session that was not.
    """
    used: list[str] = []
    parts = [_nothing()]
    lost = []
    try:
        return (
            cases["case"].to_list(),
            store.values_of(system, cases)[0] if cases.height else _nothing(),
            [],
        )
    except BadInput:  # one of them: which?
        pass
    for (session,), part in cases.group_by("session", maintain_order=True):
        try:
            parts.append(store.values_of(system, part)[0])
            used += part["case"].to_list()
        except BadInput as damaged:
            lost.append(f"session {str(session)[:8]} is not used as history: {damaged}")
    return used, pl.concat(parts), lost


def _strata(like: pl.DataFrame, judged: pl.DataFrame, *, counted: bool) -> list[Stratum]:
    """One answer for each stack on each fabric of the side whose history is wanted.

    :param counted: the side's own sessions are part of it.
    """
    before = judged.partition_by(SHARED, as_dict=True)
    strata = []
    for key, part in sorted(like.partition_by(SHARED, as_dict=True).items(), key=str):
        others = before.get(key, judged.clear())
        left = others.filter(pl.col("why") != "").group_by("why").agg(pl.col("session").n_unique())
        used = (
            others.filter(pl.col("why") == "")
            .select("started", "session")
            .unique()
            .sort("started", "session")
        )
        named = part.select("started", "session").unique() if counted else used.clear()
        partition, stack, fabric = (str(value or "") for value in key)
        stratum = Stratum(
            partition=partition,
            stack=stack,
            fabric=fabric,
            named=named.height,
            enough=used.height + named.height >= FEWEST,
            sessions=used["session"].to_list(),
            days=sorted(
                {f"{started:%Y-%m-%d}" for started in (*used["started"], *named["started"])}
            ),
            facts={
                fact.column: sorted(part[fact.column].unique())
                for fact in FACTS
                if fact is not PLACEMENT
            },
            left_out=[
                answers.LeftOut(why=why, sessions=count)
                for why, count in left.sort("session", "why", descending=[True, False]).iter_rows()
            ],
        )
        strata.append(stratum)
    return strata

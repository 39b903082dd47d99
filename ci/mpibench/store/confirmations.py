"""Confirmation runs: what sessions that measured again (label :data:`.sessions.CONFIRMS`) say about
the references that a session missed.

A reference counts as missed if two jobs missed it: the session's own, and the first later one that
measured the same case on the same nodes and proved its condition. Later ones change nothing;
otherwise one could measure until it passes. The same holds if the first was withdrawn: its good
value no longer counts. The second value is compared with the first one's bounds, so a change of
references in between confirms nothing. Whatever was not measured again, or on other nodes (a slow
port belongs to one node), or without proof, stays missed.

On a busy machine (ranks often lost their core to other programs) a miss says little about the
fabric. It counts only if a job whose ranks kept their cores misses it, too; otherwise it is not
judged, which is neither red nor green. This excuses only losses: a value that is too good, not a
number, or absent is not caused by other programs, and stays missed.

Error rates: for independent jobs, a faultless case that misses a reference with probability f is
reported with f², and a fault that is found with probability p with p² (two independent events; 1
and 25 % become 0.01 and 6.25 %, 99 and 90 % become 98 and 81 %). A disturbance of both jobs, such
as an hour of other traffic, is not covered.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import polars as pl

from reframe_tests.harness.printable import few, one_line, plural
from reframe_tests.harness.samples import NO_REFERENCE, PASS, PROVEN
from reframe_tests.harness.vocabulary import HIGHER, LOWER, QUANTITIES

from . import eligibility
from .dataset_layout import read_condition
from .quantity_text import metric_text, source_text
from .records import UnreadableSession
from .session_values import LOST_CORES, STRETCH
from .sessions import CONFIRMS, Case

SEEN_TWICE = "seen twice"
NOT_SEEN_AGAIN = "not seen again"
NOT_MEASURED_AGAIN = "not measured again"
#: On a busy machine, and not measured again on a quiet one.
BUSY = "not judged"
#: Of a case that missed several references the first one of these that any of them has counts.
WORST_FIRST = (SEEN_TWICE, NOT_MEASURED_AGAIN, BUSY, NOT_SEEN_AGAIN)
#: What is compared with no night.
EXCUSED = (BUSY, NOT_SEEN_AGAIN)
#: What two cases have in common that measured alike, beside level, suite options, striping, shared
#: cores and the network that was taken, as the test says it measured.
_SAME_CASE = (
    "partition",
    "stack",
    "mpi_version",
    "lock_hash",
    "name",
    "fabric",
    "nodes",
    "ppn",
    "pinning",
)
#: What makes two reference checks those of one metric, measured alike.
APART = (
    "suite_options",
    "striped",
    "quality_of_service",
    "tuned",
    "oversubscribed",
    "network",
    "line_rate_gbit_per_s",
)
SAME_CHECK = (*_SAME_CASE, "level", *APART, "metric", "layer", "unit")
#: What measured again later than so much after a session is another night.
WITHIN = timedelta(hours=24)


#: Sessions that tell what load is usual.
FEWEST_LOADS = 3
#: Load is more than usual where it stretches the time of ranks by so much more than in the median
#: of the sessions before: a choice, about the loss that a usual margin allows with noise.
MORE_LOAD = 1.25
#: Nodes that are named of one job.
FEW_NODES = 8


@dataclass(frozen=True)
class MeasuredOn:
    """The nodes that measured a case, each once and sorted.

    :param job: as the scheduler calls those of its job.
    :param hosts: as its ranks recorded them, where that is something
        else: another name, or a part of the job's.
    """

    job: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()

    @classmethod
    def of(cls, case: Case) -> MeasuredOn:
        ranks = case.proof.ranks if case.proof else ()
        return cls._of(
            case.nodelist, (one_line(str(rank["host"])) for rank in ranks if rank.get("host"))
        )

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> MeasuredOn:
        """From a row of the table ``cases``."""
        hosts = read_condition(row["condition"]).get("hosts")
        return cls._of(row["nodelist"], hosts if isinstance(hosts, list) else ())

    @classmethod
    def _of(cls, nodelist: str | None, hosts: Iterable[object]) -> MeasuredOn:
        job = sorted({name.strip() for name in (nodelist or "").split(",")} - {""})
        recorded = sorted(set(map(str, hosts)))
        return cls(tuple(job), tuple(recorded) if recorded != job else ())

    def unlike(self, again: MeasuredOn, session: str) -> str:
        """Why a confirmation run says nothing about these nodes; empty if it used the same ones."""
        mine, other = (
            (self.hosts or self.job, again.hosts or again.job)
            if self.job == again.job
            else (self.job, again.job)
        )
        if self == again and (self.job or self.hosts):
            return ""
        return (
            f"session {session[:8]} measured it on {named(other, mine)}, and not on "
            f"{named(mine, other)}"
        )


def named(nodes: Sequence[str], others: Sequence[str] = ()) -> str:
    """Some nodes; of many those first that the others are not."""
    ordered = sorted(nodes, key=lambda name: (len(nodes) > FEW_NODES and name in others, name))
    return few(ordered, FEW_NODES) or "unknown nodes"


def withdrawn_first(session: str) -> str:
    """Why nothing is confirmed where a session that was
    withdrawn was the first to measure again.
    """
    return (
        f"session {session[:8]} measured it again first, but was withdrawn; later ones do not count"
    )


@dataclass(frozen=True)
class MissedReference:
    """A reference that a session missed.

    :param check: the reference check, with the columns of its case.
    :param outcome: one of :data:`WORST_FIRST`; empty where no session
        measured anything of this one again.
    :param again: value of the second job, in the unit of the first; ``None`` without one.
    :param why: why it was not measured again, where a session measured something like it.
    :param second: the same check as the second job had it, with the columns of its case.
    """

    check: Mapping[str, Any]
    outcome: str = ""
    again: float | None = None
    why: str = ""
    second: Mapping[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        return f"{self.check['stack']} on {self.check['fabric']}: {self.loss}"

    @property
    def loss(self) -> str:
        """How far what was missed, and what came of measuring it again."""
        row = self.check
        text = (
            f"{metric_text(row['metric'])} is {value_text(row['value'], row)}, must be "
            f"{_bounds(row)} ({source_text(row['layer'])})"
        )
        if self.busy:
            text += "; machine busy"
        if self.again is not None:
            when = f" at {self.second['started']:%H:%M}" if self.busy else ""
            kept = ", busy again," if self.second["busy"] else ""
            still = "still " if self.busy and self.outcome != NOT_SEEN_AGAIN else ""
            return f"{text}; measured again{when}{kept} {still}{value_text(self.again, row)}"
        outcome = "" if self.outcome == BUSY else self.outcome  # the load is said
        return "; ".join(filter(None, [text, ": ".join(filter(None, (outcome, self.why)))]))

    @property
    def busy(self) -> bool:
        """Whether its ranks often lost their core to other programs."""
        return bool(self.check["busy"])


def _bounds(check: Mapping[str, Any]) -> str:
    known = {name: check[name] for name in ("lower", "upper") if check[name] is not None}
    said = {
        name: value_text(value, check).removesuffix(" of the line rate")
        for name, value in known.items()
    }
    lower = said.get("lower")
    upper = said.get("upper")
    if lower is None:
        return f"at most {upper}"
    return f"at least {lower}" if upper is None else f"between {lower} and {upper}"


def confirming(cases: pl.LazyFrame, session: str, withdrawn: Collection[str] = ()) -> pl.DataFrame:
    """Rows of ``cases`` of the confirmation runs of this session, oldest first.

    Runs that started before it, or more than :data:`WITHIN` after it, do not count.

    :param cases: table ``cases`` of one system, with the sessions that were
        withdrawn: the first one decides all the same.
    :param withdrawn: these sessions; the result's column of that name says which rows are theirs.
    """
    return _in_time(_labelled(cases, session, withdrawn))


def _labelled(cases: pl.LazyFrame, session: str, withdrawn: Collection[str]) -> pl.DataFrame:
    """Rows of the sessions that say they confirm this one, oldest first, and how long ``after`` its
    start each started; null where this one is not there.
    """
    label = pl.col("labels").str.json_path_match(f"$.{CONFIRMS}")
    started = cases.filter(pl.col("session") == session).select(pl.max("started")).collect().item()
    return (
        cases.filter(label == session)
        .sort("started", "session", "case")
        .with_columns(
            after=pl.col("started") - pl.lit(started, pl.Datetime("us", "UTC")),
            withdrawn=pl.col("session").is_in(list(withdrawn)),
        )
        .collect()
    )


def _in_time(labelled: pl.DataFrame) -> pl.DataFrame:
    return labelled.filter(pl.col("after").is_between(timedelta(0), WITHIN)).drop("after")


def certainly_first(
    cases: pl.LazyFrame,
    session: str,
    withdrawn: Collection[str],
    lost: Iterable[UnreadableSession],
) -> tuple[pl.DataFrame, list[str]]:
    """As :func:`confirming`, without sessions that an unreadable one can have been before, and
    sentences on those that say they confirm this one and do not count.

    An unreadable session may have measured the same again, and the first
    job counts. Of some only the day is known.

    :param lost: those that cannot be read and started no earlier than this one.
    """
    labelled = _labelled(cases, session, withdrawn)
    late = labelled.filter(pl.col("after") > WITHIN, ~pl.col("withdrawn"))
    sentences = [
        f"session {name[:8]} measured this one again but does not count: {lateness(after)}"
        for name, after in late.select("session", "after").unique(maintain_order=True).iter_rows()
    ]
    again = _in_time(labelled)
    first = min(lost, key=lambda one: one.started, default=None)
    if first is None:
        return again, sentences
    kept = again.filter(pl.col("started").dt.date() < first.started.date())
    if kept.height < again.height:
        sentences.append(
            f"session {first.session[:8]} cannot be read. It may have been the first to measure "
            "this one again, so later ones do not count: export it again"
        )
    return kept, sentences


def lateness(after: timedelta) -> str:
    """Why what starts so long after a session confirms nothing of it; empty if it may.

    The window begins with the session's start: the dataset does not hold its end.
    """
    if after <= WITHIN:
        return ""
    hours = timedelta(hours=1)
    return (
        f"it starts {after / hours:.0f} h after it; more than {WITHIN / hours:g} h is another night"
    )


def missed_references(
    cases: pl.DataFrame, again: pl.DataFrame, earlier: pl.DataFrame | None = None
) -> list[MissedReference]:
    """References that eligible cases of a session missed, and what came of measuring them again.

    :param earlier: cases of sessions before. Load under which a reference
        was mostly held there excuses no miss of it.
    """
    failed = [row for row in reference_checks(cases) if row["outcome"] not in (PASS, NO_REFERENCE)]
    if earlier is not None and any(row["busy"] for row in failed):
        held: dict[tuple[object, ...], list[Mapping[str, Any]]] = {}
        for row in reference_checks(earlier):
            if row["outcome"] == PASS:
                held.setdefault(_key(row), []).append(row)
        failed = [
            {**row, "busy": row["busy"] and not _is_usual(row, held.get(_key(row), ()))}
            for row in failed
        ]
    if again.height:
        return measured_again(failed, again)
    return [MissedReference(row, BUSY if excused_by_load(row) else "") for row in failed]


def excused(cases: pl.DataFrame, missed: Sequence[MissedReference]) -> frozenset[str]:
    """Cases that failed for nothing but references that were not
    missed again, or that a busy machine missed.
    """
    missing = {one.check["case"]: True for one in missed}
    missing |= {one.check["case"]: False for one in missed if one.outcome not in EXCUSED}
    alone = cases.filter(
        pl.col("result").is_in(["pass", "fail"]),
        pl.col("evidence") == PROVEN,
        pl.col("fail_phase").fill_null("").is_in(["", "performance"]),
    )
    return frozenset(case for case in alone["case"] if missing.get(case))


def _key(check: Mapping[str, Any]) -> tuple[object, ...]:
    return tuple(check[name] for name in SAME_CHECK)


def _is_usual(check: Mapping[str, Any], held: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the load of a check is usual: ranks often lost their cores in most of at least
    :data:`FEWEST_LOADS` checks before that held, and waited for them about as long.
    """
    if len(held) < FEWEST_LOADS or 2 * sum(row["busy"] for row in held) <= len(held):
        return False
    stretches = [row["stretch"] for row in held if row["stretch"] is not None]
    return (
        not stretches
        or check["stretch"] is None
        or check["stretch"] <= MORE_LOAD * statistics.median(stretches)
    )


def measured_again(
    checks: Iterable[Mapping[str, Any]], again: pl.DataFrame
) -> list[MissedReference]:
    """What came of measuring references again that were missed.

    :param checks: rows of :func:`reference_checks`.
    """

    second: dict[tuple[object, ...], list[dict[str, Any]]] = {}
    for row in reference_checks(again):
        second.setdefault(_key(row), []).append(row)
    return [_first_again(check, second.get(_key(check), ())) for check in checks]


def _first_again(check: Mapping[str, Any], again: Sequence[Mapping[str, Any]]) -> MissedReference:
    """A missed reference and the first of its measurements that was made on the same nodes.

    :param again: the same check in sessions that measured again, oldest first.
    """
    unlike = [
        MeasuredOn.of_row(check).unlike(MeasuredOn.of_row(row), str(row["session"]))
        for row in again
    ]
    first = next((row for row, why in zip(again, unlike, strict=True) if not why), None)
    excused = excused_by_load(check)
    unknown = BUSY if excused else NOT_MEASURED_AGAIN
    if first is None:
        return MissedReference(check, unknown, why=next(iter(unlike), ""))
    value = first["value"]
    if value is None:
        return MissedReference(check, unknown, second=first)
    if not within(check, value):
        busy_again = excused and excused_by_load(
            {**check, **{name: first[name] for name in ("value", "busy")}}
        )
        return MissedReference(check, BUSY if busy_again else SEEN_TWICE, value, second=first)
    if first["withdrawn"]:
        return MissedReference(check, unknown, why=withdrawn_first(str(first["session"])))
    if first["samples"] < check["samples"]:
        fewer = (
            f"session {first['session'][:8]} has {plural(first['samples'], 'value')} of it, fewer "
            f"than {check['samples']}"
        )
        return MissedReference(check, unknown, why=f"{fewer}: measure with as many repeats")
    return MissedReference(check, NOT_SEEN_AGAIN, value, second=first)


def within(check: Mapping[str, Any], value: float) -> bool:
    lower = check["lower"]
    upper = check["upper"]
    if not (math.isfinite(value) and value > 0):  # nothing that is measured here can be that
        return False
    return (lower is None or value >= lower) and (upper is None or value <= upper)


def excused_by_load(check: Mapping[str, Any]) -> bool:
    """Whether a missed reference is a loss that other programs on its cores explain."""
    value, lower, upper = (check[name] for name in ("value", "lower", "upper"))
    if not check["busy"] or value is None or not (math.isfinite(value) and value > 0):
        return False
    words = check["metric"].split(".")[1:]
    directions = {quantity.direction for quantity in QUANTITIES.values() if quantity.short in words}
    if directions == {HIGHER}:
        return lower is not None and bool(value < lower)
    return directions == {LOWER} and upper is not None and bool(value > upper)


def value_text(value: float | None, check: Mapping[str, Any]) -> str:
    """A measured value of a reference check, or a bound, with
    its unit; a record need not hold one.
    """
    if value is None:
        return "nothing"
    share = is_of_line_rate(check)
    digits = _deciding_digits(value, check, 3 if share else 6)
    if share:
        return f"{100 * value:.{digits}g} % of the line rate"
    return f"{value:.{digits}g} {check['unit']}".removesuffix(" 1")


def _deciding_digits(value: float, check: Mapping[str, Any], least: int) -> int:
    """Fewest significant digits with which neither this value nor the one
    that was checked reads like a bound it is not.
    """
    pairs = [(one, check[name]) for one in (value, check["value"]) for name in ("lower", "upper")]
    unlike = [(one, bound) for one, bound in pairs if None not in (one, bound) and one != bound]
    exact = 15
    fits = (
        n
        for n in range(least, exact)
        if all(f"{one:.{n}g}" != f"{bound:.{n}g}" for one, bound in unlike)
    )
    return next(fits, exact)


def is_of_line_rate(check: Mapping[str, Any]) -> bool:
    """Whether it asks for a share of the line rate."""
    return f".{QUANTITIES['line_rate_fraction'].short}." in check["metric"]


def distance(value: float | None, lower: float | None, upper: float | None) -> float:
    """How far a value lies beyond the bounds of a reference, as a
    fraction; infinite where that cannot be said.
    """
    if not value or not math.isfinite(value):
        return math.inf
    return max(lower / value - 1 if lower is not None else 0.0, value / upper - 1 if upper else 0.0)


def reference_checks(cases: pl.DataFrame) -> list[dict[str, Any]]:
    """Reference checks of eligible cases, one row each: columns of
    its case, its level, and the check's own.
    """
    stored = pl.col("condition").str
    level = stored.json_path_match("$.depth").alias("level")
    apart = [stored.json_path_match(f"$.{name}").alias(name) for name in APART]
    flag = pl.col("withdrawn") if "withdrawn" in cases.columns else pl.lit(False).alias("withdrawn")
    kept = (
        *_SAME_CASE,
        "group",
        "session",
        "case",
        "started",
        "nodelist",
        "condition",
        "result",
        "reason",
        "samples",
    )
    load = (LOST_CORES.alias("busy"), STRETCH.alias("stretch"))
    eligible = eligibility.split_cases(cases).eligible.select(
        *kept, flag, *load, level, *apart, "gates"
    )
    return (
        eligible.explode("gates", empty_as_null=True).drop_nulls("gates").unnest("gates").to_dicts()
    )


def summary(missed: Iterable[MissedReference]) -> str:
    """How many of the missed references were seen twice, not seen again, not
    measured again; empty without a confirmation.
    """
    outcomes = [miss.outcome for miss in missed]
    counts = (
        (outcomes.count(name), name)
        for name in (SEEN_TWICE, NOT_SEEN_AGAIN, NOT_MEASURED_AGAIN, BUSY)
    )
    return ", ".join(f"{count} {name}" for count, name in counts if count)

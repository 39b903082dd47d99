"""From a profile and measured curves to one answer: what to run an
application with, or why nobody can tell.

The steps are those of the Cambridge method (section 2.1.1 of the paper): a profile (1), how much
time is in MPI at all (2), measured curves (3), compared on the calls, sizes and ranks of the
application (5), and the message size that would be best (6).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import msgspec
import numpy as np
import polars as pl
import scipy

from mpibench.judge import engine
from mpibench.judge.engine import Array
from mpibench.judge.policy import Policy
from mpibench.store import session_values
from mpibench.store.dataset_layout import read_condition
from mpibench.store.quantity_text import size_text
from mpibench.store.session_values import CONDITION
from mpibench.store.store import Store
from reframe_tests.harness.printable import plural
from reframe_tests.harness.vocabulary import BadInput

from .profiles import SENDS, START_AND_END, Profile, ProfiledCalls

# Which measured curve says what a call takes. Of several benchmarks that time it the first counts
# that all stacks have, because two suites do not time alike and are never compared. Message sizes
# mean the same in all of them.
#
# Point-to-point messages take the one-way time of a ping-pong, one for each send, and one more for
# each blocking receive, whose rank waits as long; receives have the sizes of the sends, as
# profilers know the size of the buffer at best. What completes nonblocking messages (MPI_Waitall)
# takes no time of its own.


class CallBenchmark(NamedTuple):
    """A benchmark that times a call.

    :param group: of the test that measures it.
    :param quantity: the column that is the time of a call, in us.
    :param pair: it is between two ranks, however many the job has.
    :param instead: what it times where that is not the call itself, for a sentence.
    """

    suite: str
    benchmark: str
    group: str
    quantity: str = "t_avg_us"
    pair: bool = False
    instead: str = ""

    @property
    def text(self) -> str:
        return f"{self.suite} {self.benchmark}"


#: In these, one program times a call several times, once against each mock-up: ``Bcast-vs-...``.
GUIDELINES = "guidelines"
_PAIRS = (
    CallBenchmark("imb", "PingPong", "p2p", "latency_us", True),
    CallBenchmark("osu", "osu_latency", "p2p_osu", "latency_us", True),
    CallBenchmark("mpi4py", "pingpong", "p2p_mpi4py", "latency_us", True),
)
_SENDRECV = (
    CallBenchmark("imb", "Sendrecv", "transfer"),
    *(pair._replace(instead="one message of a ping-pong") for pair in _PAIRS),
)


def _imb(call: str) -> CallBenchmark:
    return CallBenchmark("imb", call, "collectives")


def _osu(call: str) -> CallBenchmark:
    return CallBenchmark("osu", f"osu_{call.lower()}", "collectives_osu")


def _guideline(call: str) -> CallBenchmark:
    return CallBenchmark(GUIDELINES, call, GUIDELINES, "call_us")


def _pure(call: str) -> CallBenchmark:
    """As IMB times a nonblocking call with its completion and nothing beside it."""
    return CallBenchmark("imb", f"{call}_pure", "nonblocking_pure")


#: What times each call; IMB has none of some collectives, or one with another meaning of its size.
SOURCES: Mapping[str, tuple[CallBenchmark, ...]] = {
    **dict.fromkeys(SENDS, _PAIRS),
    **dict.fromkeys(("Sendrecv", "Sendrecv_replace"), _SENDRECV),
    **{
        call: tuple(benchmark(call) for benchmark in benchmarks)
        for calls, benchmarks in (
            (
                "Allgather Allreduce Alltoall Bcast Gather Reduce Reduce_scatter Scatter",
                (_imb, _osu, _guideline),
            ),
            ("Allgatherv Alltoallv Barrier Gatherv Scatterv", (_imb, _osu)),
            ("Reduce_scatter_block", (_osu, _guideline)),
            ("Scan", (_guideline,)),
            (
                "Iallgather Iallgatherv Iallreduce Ialltoall Ialltoallv Ibarrier Ibcast Igather "
                "Igatherv",
                (_pure,),
            ),
            ("Ireduce Ireduce_scatter Iscatter Iscatterv", (_pure,)),
        )
        for call in calls.split()
    },
}
#: Calls between two ranks, whatever the size of their communicator.
PAIRED = (*SENDS, "Sendrecv", "Sendrecv_replace")
#: Calls in which a rank waits for a message; and those whose time
#: is that of messages begun elsewhere.
RECEIVES = ("Recv", "Mrecv")
COMPLETIONS = (
    "Irecv",
    "Imrecv",
    "Wait",
    "Waitall",
    "Waitany",
    "Waitsome",
    "Test",
    "Testall",
    "Testany",
    "Testsome",
    "Probe",
    "Iprobe",
    "Mprobe",
    "Improbe",
)
#: Calls without a message.
SIZELESS = ("Barrier", "Ibarrier")

# The measured curves of some sessions, by what can be chosen.
#
# Only cases that proved their condition are read, and of these only plain ones: no options of a
# suite, no ranks that share cores. Times between two measured sizes are on the straight line
# between them (a message's time is latency + size over bandwidth where the protocol does not
# change); nothing is known beyond them, nor between two further apart than MOST_APART.

#: How many times apart two sizes may be for a time between them;
#: smaller ones than SMALL bytes always may.
MOST_APART = 8
SMALL = 64


class AdvisedChoice(msgspec.Struct, frozen=True, order=True):
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
        return self.nodes * self.ppn

    @property
    def text(self) -> str:
        """In the words of the command line."""
        tuned = f", tuned ({self.tuned})" if self.tuned else ""
        return (
            f"{self.stack}, {self.fabric}, {self.pinning}{tuned} ({self.nodes} x {self.ppn} on "
            f"{self.partition})"
        )


@dataclass(frozen=True)
class TimeCurve:
    """Times of one benchmark, in us.

    :param sizes: message sizes in bytes, ascending; a benchmark without messages has size 0 alone.
    :param units: repeats of jobs: case and number of the repeat.
    :param times: shape (sizes, units), NaN where a unit lacks one.
    """

    sizes: Array
    units: Sequence[tuple[str, int]]
    times: Array

    def weights(self, message_bytes: float) -> dict[int, float] | str:
        """Rows whose weighted sum is the time of a size, or why there are none."""
        low = float(self.sizes[0])
        high = float(self.sizes[-1])
        if message_bytes > high:
            return f"sizes above {size_text(int(high))}, the largest measured"
        if message_bytes < low:
            return f"sizes below {size_text(int(low))}, the smallest measured"
        above = int(np.searchsorted(self.sizes, message_bytes))
        if self.sizes[above] == message_bytes:
            return {above: 1.0}
        before = float(self.sizes[above - 1])
        after = float(self.sizes[above])
        if after > MOST_APART * before and after > SMALL:
            return (
                f"sizes in a wide gap between measured ones ({size_text(int(low))} to "
                f"{size_text(int(high))})"
            )
        part = (message_bytes - before) / (after - before)
        return {above - 1: 1 - part, above: part}


#: Suite, benchmark, quantity and ranks of a curve.
_Key = tuple[str, str, str, int]


@dataclass(frozen=True)
class Curves:
    """All curves of some sessions.

    :param notes: what was not used and why; ``cases``: how many jobs
        were; ``started``: the first and the last.
    """

    system: str
    sessions: tuple[str, ...]
    by_choice: Mapping[AdvisedChoice, Mapping[_Key, TimeCurve]]
    notes: tuple[str, ...] = ()
    cases: int = 0
    started: str = ""

    def find(self, choice: AdvisedChoice, source: CallBenchmark, ranks: int) -> TimeCurve | None:
        """The curve of a benchmark on so many ranks; pairs have two, whoever else there is."""
        return self.by_choice[choice].get(
            (source.suite, source.benchmark, source.quantity, 2 if source.pair else ranks)
        )


#: For an answer that needs none.
NOTHING = Curves("", (), {})


def read_curves(store: Store, system: str, selector: str, *, where: str | None = None) -> Curves:
    """Curves of the sessions a selector means; ``where``: only these cases."""
    selection = store.select(system, selector, where=where)
    used = {source for sources in SOURCES.values() for source in sources}
    rows = selection.cases.filter(
        pl.col("group").is_in(sorted({source.group for source in used}))
    ).to_dicts()
    versions: dict[str, set[str]] = {}
    choices = dict[str, AdvisedChoice]()
    other = 0
    for row in rows:
        version = f"{row['mpi']} {row['mpi_version']} ({str(row['lock_hash'])[:8]})"
        versions.setdefault(row["stack"], set()).add(version)
        condition = read_condition(row["condition"])
        if (
            condition.get(session_values.OVERSUBSCRIBED)
            or condition.get("suite_options")
            or not (row["nodes"] and row["ppn"])
        ):
            other += 1
        else:
            tuned = str(condition.get("tuned") or "")
            choices[row["case"]] = AdvisedChoice(
                **{name: row[name] for name in CONDITION}, tuned=tuned
            )
    for stack, there in versions.items():
        if len(there) > 1:
            raise BadInput(
                "ambiguous-name",
                f"stack {stack!r} was measured as {' and as '.join(sorted(there))}: name the "
                "sessions of one (--sessions).",
            )
    ordered = sorted(set(choices.values()))
    numbers = {
        "case": list(choices),
        "choice": [ordered.index(choice) for choice in choices.values()],
    }
    key = ("choice", "suite", "benchmark", "quantity", "ranks")
    samples = (
        store.values(system, selection.sessions)
        .join(pl.LazyFrame(numbers, schema={"case": pl.String, "choice": pl.Int64}), on="case")
        .filter(
            pl.col("quantity").is_in(sorted({source.quantity for source in used})),
            pl.col("variant").fill_null("") == "",
            pl.col("groups").fill_null(1) == 1,
            pl.col("value").is_finite() & (pl.col("value") > 0),
        )
        # One program times a call against each of its mock-ups; these are
        # further repetitions of the same call.
        .with_columns(
            pl.col("message_bytes", "ranks").fill_null(0),
            benchmark=pl.when(pl.col("suite") == GUIDELINES)
            .then(pl.col("benchmark").str.split("-vs-").list.first())
            .otherwise(pl.col("benchmark")),
        )
        .group_by(*key, "case", "repeat", "message_bytes")
        .agg(pl.col("value").median())
        .sort(*key, "case", "repeat")
        .collect()
    )
    curves: dict[AdvisedChoice, dict[_Key, TimeCurve]] = {}
    for (choice, suite, benchmark, quantity, ranks), part in samples.partition_by(
        key, as_dict=True
    ).items():
        units = part.select("case", "repeat").unique(maintain_order=True).rows()
        wide = part.pivot(("case", "repeat"), index="message_bytes", values="value").sort(
            "message_bytes"
        )
        sizes = wide["message_bytes"].cast(pl.Float64).to_numpy()
        curve = TimeCurve(sizes, units, wide.drop("message_bytes").to_numpy())
        curves.setdefault(ordered[choice], {})[suite, benchmark, quantity, ranks] = curve
    started = [row["started"].strftime("%Y-%m-%d %H:%M") for row in rows]
    left = (
        [f"{plural(other, 'case')} not used: measured with options, or with ranks that share cores"]
        if other
        else []
    )
    period = f"{min(started, default='')} to {max(started, default='')}"
    return Curves(
        system, selection.sessions, curves, (*selection.notes, *left), len(choices), period
    )


# What of a profile the curves say something about, and why they say nothing of the rest.
#
# Nothing is extrapolated: a call without a benchmark, one without a size, sizes beyond or too far
# between the measured ones, and a communicator of other numbers of ranks than were measured are not
# covered, each under its name. Receives and completions are covered as far as the sends are; calls
# that begin and end the program are in no share.


class Term(NamedTuple):
    """What gives the time of some calls: rows of a curve and their parts of one call."""

    source: CallBenchmark
    ranks: int
    curve: TimeCurve
    weights: Mapping[int, float]


class NoTerm(NamedTuple):
    """Why the time of some calls is unknown.

    :param other_ranks: it was measured, in communicators of other sizes.
    """

    why: str
    other_ranks: bool = False


class AdviceGap(msgspec.Struct, frozen=True):
    """Calls that are not covered, and their share of the profile (:attr:`Application.basis`)."""

    call: str
    why: str
    share: float


@dataclass(frozen=True)
class Application:
    """A profile, with what each of its rows counts.

    :param profile: whose calls are numbered from 0.
    """

    profile: Profile

    @property
    def rows(self) -> list[int]:
        """Those that a curve of their own may cover."""
        apart = {*START_AND_END, *RECEIVES, *COMPLETIONS}
        return [at for at, calls in enumerate(self.profile.calls) if calls.call not in apart]

    @property
    def followers(self) -> list[int]:
        return [
            at
            for at, calls in enumerate(self.profile.calls)
            if calls.call in (*RECEIVES, *COMPLETIONS)
        ]

    @property
    def basis(self) -> str:
        """What shares are of: ``time in MPI``, or ``MPI calls``
        where the time is unknown of all.
        """
        seconds = [calls.seconds for calls in self.profile.calls if calls.call not in START_AND_END]
        return "time in MPI" if None not in seconds and any(seconds) else "MPI calls"

    @cached_property
    def shares(self) -> Array:
        """Share of each row by itself."""
        timed = self.basis == "time in MPI"
        counted = [
            0.0 if calls.call in START_AND_END else (calls.seconds or 0.0) if timed else calls.count
            for calls in self.profile.calls
        ]
        return np.array(counted, dtype=float) / (sum(counted) or 1.0)

    @cached_property
    def sent(self) -> Array:
        """Part of all messages that each row sends."""
        counts = np.array(
            [calls.count if calls.call in SENDS else 0.0 for calls in self.profile.calls]
        )
        return counts / (counts.sum() or 1.0)

    @cached_property
    def counts(self) -> Array:
        """Calls of each row; sends count once more for each blocking
        receive, in which a rank waits for one of them.
        """
        calls = self.profile.calls
        receives, sends = (
            sum(call.count for call in calls if call.call in names) for names in (RECEIVES, SENDS)
        )
        factor = 1 + receives / sends if sends else 1.0
        return np.array([call.count * (factor if call.call in SENDS else 1.0) for call in calls])

    def covered(self, rows: Sequence[int]) -> float:
        """Share that some rows cover with what follows from them."""
        there = list(rows)
        return float(
            self.shares[there].sum() + self.sent[there].sum() * self.shares[self.followers].sum()
        )

    def gaps(self, reasons: Mapping[int, NoTerm], covered: Sequence[int]) -> tuple[AdviceGap, ...]:
        """What is not covered, by call and reason, the largest share first."""
        rows = [(at, reason.why, 1.0) for at, reason in reasons.items()]
        if (left := 1 - float(self.sent[list(covered)].sum())) > 1e-12:
            rows += [
                (at, "the profile has no sends of these messages, or they are not covered", left)
                for at in self.followers
            ]
        sums: dict[tuple[str, str], float] = {}
        for at, why, part in rows:
            key = (self.profile.calls[at].name, why)
            sums[key] = sums.get(key, 0.0) + part * float(self.shares[at])
        gaps = [AdviceGap(*key, share) for key, share in sums.items()]
        return tuple(sorted(gaps, key=lambda gap: (-gap.share, gap.call, gap.why)))

    def term(
        self,
        calls: ProfiledCalls,
        curves: Curves,
        choice: AdvisedChoice,
        sources: Mapping[str, CallBenchmark],
    ) -> Term | NoTerm:
        """The term of some calls, or why there is none."""
        if (source := sources.get(calls.call)) is None:
            return NoTerm("no benchmark times this call")
        size = 0.0 if calls.call in SIZELESS else calls.message_bytes
        if size is None:
            return NoTerm("the profile has no sizes for it")
        ranks = calls.comm_size or self.profile.ranks
        curve = curves.find(choice, source, ranks)
        if curve is None:
            names = (source.suite, source.benchmark, source.quantity)
            others = ", ".join(
                str(ranks) for *key, ranks in curves.by_choice[choice] if tuple(key) == names
            )
            if others:
                which = f"communicators of {plural(ranks, 'rank')}"
                return NoTerm(f"{which}, measured with {others}", other_ranks=True)
            return NoTerm(f"not measured ({source.text})")
        weights = curve.weights(size)
        return NoTerm(weights) if isinstance(weights, str) else Term(source, ranks, curve, weights)

    def sources(self, curves: Curves) -> dict[str, CallBenchmark]:
        """The benchmark of each call that most choices have; of equals the first."""
        ranks: dict[str, set[int]] = {}
        for calls in self.profile.calls:
            ranks.setdefault(calls.call, set()).add(calls.comm_size or self.profile.ranks)

        found = {}
        for call, sizes in ranks.items():
            if call in SOURCES:
                having = [
                    sum(
                        any(curves.find(choice, source, size) for size in sizes)
                        for choice in curves.by_choice
                    )
                    for source in SOURCES[call]
                ]
                found[call] = SOURCES[call][having.index(max(having))]
        return found


# The time a profile's calls would take with one choice, with an
# interval, and whether two choices differ.
#
# A unit is one repeat of one job. Each gives one time of the whole profile: counts times times of
# calls, so that what disturbs all sizes of a repeat alike is counted once. Benchmarks of different
# jobs (point-to-point, collectives) are added, their errors as independent ones.
#
# location of a job: 20 % trimmed mean of the logarithms of its repeats
# (mpibench.judge.engine), spreads moderated
#     over all choices;
# error: with ENOUGH_JOBS jobs or more that between them. With fewer, repeats do not show how much
# jobs differ: to the error of
#     the repeats ``between_jobs_percent`` is added, and at least ``between_jobs_times_repeats``
# times what repeats differ by
#     (the policy of the system, as for its verdicts);
# interval: Student's t with Satterthwaite's degrees of freedom, at the policy's confidence. It is
# that of the measured curves:
#     that an application is not a benchmark is no part of it (limits);
# difference: of each choice from the fastest, at a family-wise
# error of 1 - confidence (Bonferroni).

#: Jobs that show how much jobs differ.
ENOUGH_JOBS = 3


class PredictedTime(AdvisedChoice, frozen=True, kw_only=True):
    """Time in communication per rank, of the calls that are covered.

    :param seconds: mean over ranks; ``low``, ``high``: its interval,
        ``None`` if there are too few repeats.
    :param times_the_fastest: 1 for that one; ``differs_from_the_fastest``: ``False`` also where
        nobody can tell.
    :param by_call: seconds of each call, of median times.
    """

    seconds: float
    low: float | None
    high: float | None
    times_the_fastest: float
    differs_from_the_fastest: bool
    by_call: dict[str, float]


class Unranked(AdvisedChoice, frozen=True, kw_only=True):
    """A choice that is not in the ranking."""

    why: str


def _predict(
    application: Application, terms: Mapping[AdvisedChoice, Mapping[int, Term]], policy: Policy
) -> tuple[dict[AdvisedChoice, PredictedTime], dict[AdvisedChoice, str]]:
    """Predictions from rows that all choices cover, the fastest first, and why some have none.

    :param terms: of each choice, by row of the profile.
    """
    refused: dict[AdvisedChoice, str] = {}
    jobs: list[Array] = []
    # Of each choice, for each group of benchmarks, the places of its jobs.
    places: dict[AdvisedChoice, list[list[int]]] = {}
    for choice, rows in terms.items():
        groups = [list(group.values()) for group in _times_of_jobs(application, rows)]
        if not groups or not all(groups):
            refused[choice] = "no repeat of any job has all sizes that are needed"
            continue
        places[choice] = []
        for group in groups:
            places[choice].append(list(range(len(jobs), len(jobs) + len(group))))
            jobs += [np.array(times) for times in group]
    table = np.full((len(jobs), max(map(len, jobs), default=1)), np.nan)
    for at, job in enumerate(jobs):
        table[at, : len(job)] = np.log(job)
    side = engine.describe(table)
    [side] = engine.moderate(side)
    predictions: list[tuple[float, float, float, AdvisedChoice]] = []
    for choice, groups_of_jobs in places.items():
        locations, squares, dfs = np.array(
            [_combine(side, group, policy) for group in groups_of_jobs]
        ).T
        times = np.exp(locations)
        errors = (times / times.sum()) ** 2 * squares
        squared = float(errors.sum())
        below = float((errors**2 / dfs).sum())
        seconds = float(times.sum()) * 1e-6 / application.profile.ranks
        predictions.append(
            (seconds, squared, squared**2 / below if below > 0 else math.nan, choice)
        )
    predictions.sort(key=lambda row: row[0])
    ranking = {}
    for seconds, squared, df, choice in predictions:
        fastest, its_squared, its_df, _ = predictions[0]
        effect = math.log(seconds / fastest)
        both = squared + its_squared
        welch = (
            both**2 / (its_squared**2 / its_df + squared**2 / df)
            if squared and its_squared
            else math.nan
        )
        p = (
            2 * float(scipy.special.stdtr(welch, -effect / math.sqrt(both)))
            if math.isfinite(welch)
            else math.nan
        )
        reach = float(scipy.special.stdtrit(df, 0.5 + policy.confidence / 2)) * math.sqrt(squared)
        low, high = (
            seconds * math.exp(side) if math.isfinite(reach) else None for side in (-reach, reach)
        )
        by_call: dict[str, float] = {}
        for at, term in terms[choice].items():
            medians = np.nanmedian(term.curve.times[list(term.weights)], axis=1)
            name = application.profile.calls[at].name
            time = float(medians @ list(term.weights.values()))
            by_call[name] = (
                by_call.get(name, 0.0)
                + time * float(application.counts[at]) * 1e-6 / application.profile.ranks
            )
        by_call = dict(sorted(by_call.items(), key=lambda row: -row[1]))
        differs = choice != predictions[0][-1] and p < (1 - policy.confidence) / (
            len(predictions) - 1
        )
        its = msgspec.structs.asdict(choice)
        ranking[choice] = PredictedTime(
            **its,
            seconds=seconds,
            low=low,
            high=high,
            times_the_fastest=math.exp(effect),
            differs_from_the_fastest=differs,
            by_call=by_call,
        )
    return ranking, refused


def _times_of_jobs(
    application: Application, terms: Mapping[int, Term]
) -> Iterator[dict[str, list[float]]]:
    """Of each group of benchmarks, each job with its times of the
    whole profile in us, one a repeat.
    """
    by_curve: dict[tuple[CallBenchmark, int], tuple[TimeCurve, Array]] = {}
    for at, term in terms.items():
        key = (term.source, term.ranks)
        _, parts = by_curve.setdefault(key, (term.curve, np.zeros(len(term.curve.sizes))))
        parts[list(term.weights)] += np.array(list(term.weights.values())) * application.counts[at]
    groups: dict[str, list[dict[tuple[str, int], float]]] = {}
    for (source, _), (curve, parts) in by_curve.items():
        used = parts > 0
        totals = zip(curve.units, (parts[used] @ curve.times[used]).tolist(), strict=True)
        groups.setdefault(source.group, []).append(
            {unit: total for unit, total in totals if math.isfinite(total)}
        )
    for measured in groups.values():
        shared = set.intersection(*map(set, measured))
        # Curves of one group that no job has together are those of different jobs.
        for units in (
            [{unit: sum(curve[unit] for curve in measured) for unit in shared}]
            if shared
            else measured
        ):
            jobs: dict[str, list[float]] = {}
            for (case, _), total in sorted(units.items()):
                jobs.setdefault(case, []).append(total)
            yield jobs


def _combine(
    sides: engine.SideValues, places: list[int], policy: Policy
) -> tuple[float, float, float]:
    """Logarithm of the time of some jobs, its squared error and degrees of freedom."""
    locations, variance, df = (
        column[places] for column in (sides.location, sides.variance, sides.df)
    )
    jobs = len(places)
    if jobs >= ENOUGH_JOBS:
        between = max(float(np.var(locations, ddof=1)), engine.LEAST_SPREAD**2)
        return float(np.mean(locations)), between / jobs, jobs - 1.0
    repeats = float(np.mean(sides.squared_error()[places]))
    least = policy.between_jobs_times_repeats**2 * float(np.mean(variance))
    between = max((policy.between_jobs_percent / 100) ** 2, least)
    return (
        float(np.mean(locations)),
        (between + repeats) / jobs,
        float(np.sum(df)) if np.all(df > 0) else math.nan,
    )


# Which size of messages would be best: where throughput, message size over time, peaks (step 6).
# The peak is that of the measured sizes alone; sizes whose throughput differs from it by no more
# than noise are as good, and the smallest is named.

#: Share of a profile from which on a call is worth a sentence.
WORTH = 0.05


class BestSize(msgspec.Struct, frozen=True):
    """The best message size of one call with one choice.

    :param peak_bytes: measured size of most throughput; ``peak_mb_per_s``: that throughput.
    :param as_good_from_bytes: smallest size that is as good within noise.
    :param at_the_largest_measured: the peak is at the largest measured
        size, so that larger ones may be better.
    :param own_bytes: mean size in the profile; ``reached``: throughput of
        the profile's own sizes over the peak.
    """

    call: str
    peak_bytes: int
    peak_mb_per_s: float
    as_good_from_bytes: int
    at_the_largest_measured: bool
    own_bytes: float
    reached: float

    @property
    def text(self) -> str:
        least = self.as_good_from_bytes
        same = (
            f", from {size_text(least)} on as good within noise" if least < self.peak_bytes else ""
        )
        end = (
            " (the largest measured; larger ones may be better)"
            if self.at_the_largest_measured
            else ""
        )
        return (
            f"{self.call} moves most at {size_text(self.peak_bytes)}{end}, "
            f"{self.peak_mb_per_s:.4g} MB/s{same}; the profile's messages, "
            f"{size_text(round(self.own_bytes))} on average, reach "
            f"{_percent(min(self.reached, 1))} of that"
        )


def _best_sizes(
    application: Application, terms: Mapping[int, Term], policy: Policy
) -> list[BestSize]:
    """The best sizes of the calls in which most time is spent."""
    calls = application.profile.calls
    groups: dict[tuple[str, CallBenchmark, int], list[int]] = {}
    for at, term in terms.items():
        if calls[at].message_bytes and calls[at].call not in SIZELESS:
            groups.setdefault((calls[at].name, term.source, term.ranks), []).append(at)
    best: list[tuple[float, BestSize]] = []
    for (name, *_), rows in groups.items():
        share = float(application.shares[rows].sum())
        curve = terms[rows[0]].curve
        some = curve.sizes > 0
        sizes = curve.sizes[some]
        times = curve.times[some]
        if share < WORTH or len(sizes) < 2:
            continue
        side = engine.describe(np.log(sizes[:, None] / times))
        [side] = engine.moderate(side)
        peak = int(np.nanargmax(side.location))
        error = np.sqrt(side.squared_error() + side.squared_error()[peak])
        reach = scipy.special.stdtrit(np.maximum(side.df, 1), 0.5 + policy.confidence / 2) * error
        near = side.location[peak] - side.location <= reach
        first = peak
        while first and near[first - 1]:
            first -= 1
        counts = application.counts[rows]
        medians = np.nanmedian(curve.times, axis=1)
        volume = float(counts @ [calls[at].message_bytes or 0 for at in rows])
        each_us = [
            sum(part * medians[row] for row, part in terms[at].weights.items()) for at in rows
        ]
        top = math.exp(float(side.location[peak]))
        own = volume / float(counts.sum())
        reached = volume / float(counts @ each_us) / top
        row = BestSize(
            name, int(sizes[peak]), top, int(sizes[first]), peak == len(sizes) - 1, own, reached
        )
        best.append((share, row))
    return [row for _, row in sorted(best, key=lambda pair: -pair[0])]


# The answer.

#: Outcomes: one choice is the fastest; several are, within noise; there is but one; communication
#: hardly matters; too little is covered.
CHOICE = "choice"
NOISE = "noise"
ALONE = "alone"
LITTLE = "little"
UNCOVERED = "uncovered"
#: Exit status: it is answered, or nothing could be decided.
STATUS = {CHOICE: 0, LITTLE: 0, NOISE: 3, ALONE: 3, UNCOVERED: 3}
#: Gaps, and choices that are not ranked, that are listed one by one.
MOST_LISTED = 8
#: Time in MPI of the slowest rank over the mean, from which on ranks wait for one another.
IMBALANCED = 1.2
#: Predicted over recorded time, or its inverse, from which on even the nearest choice is none that
#: the profile can be of; the same of the profile's own stack, from which on a prediction is called
#: far off.
IMPOSSIBLE = 10.0
FAR_OFF = 2.0


@dataclass(frozen=True)
class Terms:
    """What is asked.

    :param least_covered: share of the profile, from 0 to 1, below which nothing is ranked.
    :param little_time: share of the run in MPI below which step 2 ends the method.
    :param profiled_on: stack that the profile was taken with, to hold
        its prediction against what was recorded.
    """

    least_covered: float = 0.8
    little_time: float = 0.1
    profiled_on: str | None = None

    def end_it(self, profile: Profile) -> bool:
        """Whether step 2 ends the method, so that nothing need have been measured."""
        return profile.share_in_mpi is not None and profile.share_in_mpi < self.little_time


class Advice(msgspec.Struct):
    """The answer, as programs get it; what is unknown is ``None``.

    :param answer: in one line.
    :param covered: share of the profile that all of the ranking cover;
        without one, what the best single choice does.
    :param basis: what shares are of.
    :param benchmarks: what stands for each call.
    :param ranking: the fastest first.
    :param message_sizes: the best ones with the first of the ranking.
    :param limits: what the answer does not know.
    """

    outcome: str
    answer: str
    profile: dict[str, Any]
    measured: dict[str, Any]
    covered: float
    basis: str
    least_covered: float
    confidence: float
    benchmarks: dict[str, str] = {}
    ranking: list[PredictedTime] = []
    not_covered: tuple[AdviceGap, ...] = ()
    not_ranked: list[Unranked] = []
    message_sizes: list[BestSize] = []
    limits: list[str] = []
    notes: list[str] = []

    def lines(self) -> Iterator[str]:
        """For a terminal."""
        profile = self.profile
        measured = self.measured
        share = self.profile["share_in_mpi"]
        if share is not None:
            in_mpi = f"{_percent(share)} of the run is in MPI"
        else:
            why = " (give --wall-s)" if profile["mpi_s"] else ": the profile has no times"
            in_mpi = f"the share of the run in MPI is unknown{why}"
        yield (
            f"{profile['form']}, {profile['ranks']} ranks, {profile['calls']} MPI calls; {in_mpi}"
        )
        if self.outcome == LITTLE:
            yield self.answer
            return
        covered = f"{_percent(self.covered)} of the {self.basis}"
        yield (
            f"measured: {measured['jobs']} jobs on {measured['system']}, {measured['started']} "
            f"UTC; they cover {covered}"
        )
        yield self.answer
        for row in self.ranking:
            interval = (
                "no interval: too few repeats"
                if row.low is None
                else f"{row.low:.3g} to {row.high:.3g}"
            )
            same = (
                ", the fastest"
                if row is self.ranking[0]
                else ", not distinguishable from the fastest"
            )
            same = "" if row.differs_from_the_fastest else same
            yield (
                f"  {row.seconds:.3g} s a rank ({interval}), {row.times_the_fastest:.2f} times: "
                f"{row.text}{same}"
            )
        for what, rows in (
            (
                "not covered",
                [f"{gap.call}, {_percent(gap.share)}: {gap.why}" for gap in self.not_covered],
            ),
            ("not ranked", [f"{row.text}: {row.why}" for row in self.not_ranked]),
        ):
            more = len(rows) - MOST_LISTED
            yield from (
                f"  {what}: {text}"
                for text in [*rows[:MOST_LISTED], *[f"{more} more, with --json"] * (more > 0)]
            )
        yield from (f"  message size: {best.text}" for best in self.message_sizes)
        yield from (f"  limit: {text}" for text in self.limits)
        yield from (f"  note: {text}" for text in self.notes)


def advise(profile: Profile, measured: Curves, policy: Policy, terms: Terms) -> Advice:
    """The answer; curves are not looked at where :meth:`Terms.end_it`."""
    application = Application(profile)
    named = ("form", "ranks", "wall_s", "mpi_s", "share_in_mpi", "imbalance")
    facts = {
        **{name: getattr(profile, name) for name in named},
        "calls": sum(calls.count for calls in profile.calls),
    }
    where = {
        "system": measured.system,
        "sessions": measured.sessions,
        "jobs": measured.cases,
        "started": measured.started,
    }
    answer = Advice(
        LITTLE, "", facts, where, 0.0, application.basis, terms.least_covered, policy.confidence
    )
    answer.notes = [*profile.notes, *measured.notes]
    if terms.end_it(profile):
        answer.answer = (
            f"stop here: only {_percent(profile.share_in_mpi or 0.0)} of the run is in MPI (less "
            f"than {_percent(terms.little_time)}); another MPI can save no more than that; look "
            "elsewhere"
        )
        return answer

    by_choice = {
        choice: curves
        for choice, curves in measured.by_choice.items()
        if choice.ranks == profile.ranks
    }
    fitting = replace(measured, by_choice=by_choice)
    sources = application.sources(fitting)
    answer.benchmarks = {
        f"MPI_{call}": ", ".join(filter(None, (source.text, source.instead)))
        for call, source in sources.items()
    }
    left = {
        choice: f"measured with {choice.ranks} ranks, the profile has {profile.ranks}"
        for choice in measured.by_choice
        if choice not in by_choice
    }
    covers: dict[AdvisedChoice, dict[int, Term]] = {}
    reasons: dict[AdvisedChoice, dict[int, NoTerm]] = {}
    for choice in by_choice:
        found = {
            at: application.term(profile.calls[at], fitting, choice, sources)
            for at in application.rows
        }
        covers[choice] = {at: term for at, term in found.items() if isinstance(term, Term)}
        reasons[choice] = {at: reason for at, reason in found.items() if isinstance(reason, NoTerm)}

    # What can be ranked together: a choice that covers too little by itself is left out; then, as
    # long as they cover too little together, the one that covers least.
    shares = {choice: application.covered([*rows]) for choice, rows in covers.items()}
    ranked = [choice for choice in covers if shares[choice] >= terms.least_covered]
    for choice in (choice for choice in covers if choice not in ranked):
        gaps = application.gaps(reasons[choice], [*covers[choice]])
        first = f" ({gaps[0].call}: {gaps[0].why})" if gaps else ""
        left[choice] = (
            f"its curves cover {100 * shares[choice]:.0f} % of the {application.basis}{first}"
        )
    common: list[int] = []
    while ranked:
        common = sorted(set.intersection(*(set(covers[choice]) for choice in ranked)))
        if application.covered(common) >= terms.least_covered or len(ranked) == 1:
            break
        worst = min(ranked, key=lambda choice: shares[choice])
        ranked.remove(worst)
        left[worst] = (
            f"with it the choices cover less than {100 * terms.least_covered:.0f} % in common"
        )

    rows_of = {choice: {at: covers[choice][at] for at in common} for choice in ranked}
    predicted, refused = _predict(application, rows_of, policy)
    left |= refused
    answer.ranking = list(predicted.values())
    answer.not_ranked = [
        Unranked(**msgspec.structs.asdict(choice), why=why) for choice, why in left.items()
    ]
    missing: dict[int, NoTerm] = {}
    if predicted:
        for choice in ranked:
            for at, reason in reasons[choice].items():
                if not all(at in reasons[other] for other in ranked):
                    reason = reason._replace(why=f"{reason.why} ({choice.text})")
                missing.setdefault(at, reason)
        answer.message_sizes = _best_sizes(application, covers[next(iter(predicted))], policy)
    elif ranked:
        common = []
    elif covers:
        best = max(covers, key=lambda choice: shares[choice])
        missing = reasons[best]
        common = [*covers[best]]
    else:
        counts = (
            ", ".join(map(str, sorted({choice.ranks for choice in measured.by_choice}))) or "no"
        )
        why = f"measured with {counts} ranks, the profile has {profile.ranks}"
        missing = dict.fromkeys(application.rows, NoTerm(why))
    answer.covered = application.covered(common)
    answer.not_covered = application.gaps(missing, common)
    same = [row.text for row in answer.ranking if not row.differs_from_the_fastest]
    if not answer.ranking:
        answer.outcome = UNCOVERED
        answer.answer = (
            f"nothing is ranked: measurements cover {_percent(answer.covered)} of the "
            f"{answer.basis}, and {_percent(terms.least_covered)} is needed"
        )
    elif len(answer.ranking) == 1:
        answer.outcome = ALONE
        answer.answer = f"no choice: only one can be ranked, {same[0]}"
    elif len(same) == 1:
        times = answer.ranking[1].times_the_fastest
        answer.outcome = CHOICE
        answer.answer = f"use {same[0]}: the next takes {times:.2f} times as long in MPI"
    else:
        answer.outcome = NOISE
        answer.answer = f"no choice: {len(same)} are the fastest within noise ({'; '.join(same)})"
    other_ranks = any(reason.other_ranks for reason in missing.values())
    answer.limits = list(_limits(application, answer, terms, other_ranks=other_ranks))
    return answer


def _percent(share: float) -> str:
    """A share; never a whole that is not one, nor nothing of something."""
    percent = 100 * share
    if 0 < percent < 0.1:
        return "less than 0.1 %"
    return f"{min(percent, 99.9) if share < 1 - 1e-9 else 100:.3g} %"


def _limits(
    application: Application, answer: Advice, terms: Terms, *, other_ranks: bool
) -> Iterator[str]:
    """What the answer does not know (section 2.2 of the paper), of this profile.

    :param other_ranks: communicators of some of its calls have sizes that were not measured.
    """
    profile = application.profile
    if not answer.ranking:
        return
    # Seconds a rank that the profile recorded of what is predicted.
    recorded = profile.mpi_s * answer.covered / profile.ranks if profile.mpi_s else None
    if recorded:
        nearest = min(
            (row.seconds / recorded for row in answer.ranking),
            key=lambda ratio: abs(math.log(ratio)),
        )
        if max(nearest, 1 / nearest) > IMPOSSIBLE:
            more = f"{nearest:.3g} times more" if nearest > 1 else f"{1 / nearest:.3g} times less"
            yield (
                f"even the nearest prediction is {more} than the profile recorded ({recorded:.3g} "
                "s a rank): its columns, units or counts were misread, or its ranks wait for "
                "something else; find out before you use the ranking"
            )
    calls = {call.call for call in profile.calls}
    own = [profile.calls[at] for at in application.rows]
    if any(term.comm_size is None and term.call not in PAIRED for term in own):
        yield (
            f"some calls have no communicator size; for these, all {profile.ranks} ranks are "
            "assumed"
        )
    if other_ranks:
        yield (
            "communicators smaller than measured are left out: they behave differently, depending "
            "on placement"
        )
    if calls & {*COMPLETIONS}:
        yield "overlap: it is unknown what the application computes while messages are on their way"
    if calls & {*SENDS}:
        yield (
            "a message is timed alone, as in a ping-pong: ranks that send at the same time "
            "share the link"
        )
    if profile.imbalance is not None and profile.imbalance > IMBALANCED:
        yield (
            f"imbalance: the rank with most time in MPI has {profile.imbalance:.2f} times the "
            "mean; the profile includes waiting for late ranks, a prediction does not"
        )
    if calls & START_AND_END:
        yield "MPI_Init and MPI_Finalize are left out"
    if any(
        call.largest is not None and call.largest > 4 * max(call.smallest or 0.0, 1.0)
        for call in profile.calls
    ):
        yield (
            "sizes of some callsites differ by more than 4 times: their mean misrepresents single "
            "messages"
        )
    yield (
        "fast communication can take CPU time that the application needs: confirm with a run of it"
    )
    rows = [row for row in answer.ranking if row.stack == terms.profiled_on]
    if terms.profiled_on and not rows:
        yield (f"{terms.profiled_on} was not ranked: nothing to compare the profile's time with")
    for row in rows if recorded else ():
        ratio = (recorded or 0.0) / row.seconds
        far = (
            ", so something other than communication decides"
            if max(ratio, 1 / ratio) > FAR_OFF
            else ""
        )
        yield f"the profile has {ratio:.2g} times what is predicted for {row.text}{far}"

"""From a profile and measured curves to one answer: what to run an application with, or why nobody can tell.

The steps are those of the Cambridge method (section 2.1.1 of the paper): a profile (1), how much time is in MPI at all (2),
measured curves (3), compared on the calls, sizes and ranks of the application (5), and the message size that would be best (6).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import polars as pl
import scipy

from reframe_tests.harness.vocabulary import BadInput

from ..judge.policy import Policy
from ..judge.statistics import two_sides
from ..judge.statistics.two_sides import Array
from ..store import session_values
from ..store.dataset_layout import read_condition
from ..store.quantity_text import size_text
from ..store.session_values import CONDITION
from ..store.store import Store
from .profiles import SENDS, START_AND_END, Calls, Profile

# Which measured curve says what a call takes. Of several benchmarks that time it the first counts that all stacks have,
# because two suites do not time alike and are never compared. Message sizes mean the same in all of them.
#
# Point-to-point messages take the one-way time of a ping-pong, one for each send, and one more for each blocking receive, whose
# rank waits as long; receives have the sizes of the sends, as profilers know the size of the buffer at best. What completes
# nonblocking messages (MPI_Waitall) takes no time of its own.


@dataclass(frozen=True)
class CallBenchmark:
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
#: Suites that time each collective; IMB has none of some, or one with another meaning of its size.
_COLLECTIVES = {
    **dict.fromkeys(("Allgather", "Allreduce", "Alltoall", "Bcast"), ("imb", "osu", GUIDELINES)),
    **dict.fromkeys(("Gather", "Reduce", "Reduce_scatter", "Scatter"), ("imb", "osu", GUIDELINES)),
    **dict.fromkeys(("Allgatherv", "Alltoallv", "Barrier", "Gatherv", "Scatterv"), ("imb", "osu")),
    "Reduce_scatter_block": ("osu", GUIDELINES),
    "Scan": (GUIDELINES,),
}
#: Nonblocking collectives, as IMB times the call with its completion and nothing beside it.
_NONBLOCKING = (
    *("Iallgather", "Iallgatherv", "Iallreduce", "Ialltoall", "Ialltoallv", "Ibarrier", "Ibcast", "Igather", "Igatherv"),
    *("Ireduce", "Ireduce_scatter", "Iscatter", "Iscatterv"),
)


def _of_suite(suite: str, call: str) -> CallBenchmark:
    if suite == "osu":
        return CallBenchmark("osu", f"osu_{call.lower()}", "collectives_osu")
    if suite == GUIDELINES:
        return CallBenchmark(GUIDELINES, call, GUIDELINES, "call_us")
    return CallBenchmark("imb", call, "collectives")


#: Calls between two ranks, whatever the size of their communicator.
PAIRED = (*SENDS, "Sendrecv", "Sendrecv_replace")
#: Calls in which a rank waits for a message; and those whose time is that of messages begun elsewhere.
RECEIVES = ("Recv", "Mrecv")
COMPLETIONS = (
    *("Irecv", "Imrecv", "Wait", "Waitall", "Waitany", "Waitsome", "Test", "Testall", "Testany", "Testsome"),
    *("Probe", "Iprobe", "Mprobe", "Improbe"),
)
#: Calls without a message.
SIZELESS = ("Barrier", "Ibarrier")
_SENDRECV = (
    CallBenchmark("imb", "Sendrecv", "transfer"),
    *(replace(pair, instead="one message of a ping-pong") for pair in _PAIRS),
)
#: What times each call.
SOURCES: Mapping[str, tuple[CallBenchmark, ...]] = {
    **dict.fromkeys(SENDS, _PAIRS),
    **dict.fromkeys(("Sendrecv", "Sendrecv_replace"), _SENDRECV),
    **{call: tuple(_of_suite(suite, call) for suite in suites) for call, suites in _COLLECTIVES.items()},
    **{call: (CallBenchmark("imb", f"{call}_pure", "nonblocking_pure"),) for call in _NONBLOCKING},
}

# The measured curves of some sessions, by what can be chosen.
#
# Only cases that proved their condition are read, and of these only plain ones: no options of a suite, no ranks that share
# cores. Times between two measured sizes are on the straight line between them (a message's time is latency + size over
# bandwidth where the protocol does not change); nothing is known beyond them, nor between two further apart than MOST_APART.

#: How many times apart two sizes may be for a time between them; smaller ones than SMALL bytes always may.
MOST_APART, SMALL = 8, 64
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


#: Suite, benchmark, quantity and ranks of a curve.
_Key = tuple[str, str, str, int]


@dataclass(frozen=True)
class Curves:
    """All curves of some sessions.

    :param notes: what was not used and why; ``cases``: how many jobs were; ``started``: the first and the last.
    """

    system: str
    sessions: tuple[str, ...]
    by_choice: Mapping[Choice, Mapping[_Key, TimeCurve]]
    notes: tuple[str, ...] = ()
    cases: int = 0
    started: tuple[str, str] = ("", "")

    def find(self, choice: Choice, source: CallBenchmark, ranks: int) -> TimeCurve | None:
        """The curve of a benchmark on so many ranks; pairs have two, whoever else there is."""
        return self.by_choice[choice].get((source.suite, source.benchmark, source.quantity, 2 if source.pair else ranks))


def read_curves(store: Store, system: str, selector: str, *, where: str | None = None) -> Curves:
    """Curves of the sessions a selector means; ``where``: only these cases."""
    selection = store.select(system, selector, where=where)
    used = {source for sources in SOURCES.values() for source in sources}
    rows = selection.cases.filter(pl.col("group").is_in(sorted({source.group for source in used}))).to_dicts()
    versions: dict[str, set[str]] = {}
    choices, other = dict[str, Choice](), 0
    for row in rows:
        version = f"{row['mpi']} {row['mpi_version']} ({str(row['lock_hash'])[:8]})"
        versions.setdefault(row["stack"], set()).add(version)
        condition = read_condition(row["condition"])
        if condition.get(session_values.OVERSUBSCRIBED) or condition.get("suite_options") or not (row["nodes"] and row["ppn"]):
            other += 1
        else:
            tuned = str(condition.get("tuned") or "")
            choices[row["case"]] = Choice(**{name: row[name] for name in CONDITION}, tuned=tuned)
    for stack, there in versions.items():
        if len(there) > 1:
            raise BadInput(
                "several-releases",
                f"stack {stack!r} was measured as {' and as '.join(sorted(there))}: name the sessions of one (--sessions).",
            )
    samples = (
        store.values(system, selection.sessions)
        .filter(
            pl.col("case").is_in(list(choices)),
            pl.col("quantity").is_in(sorted({source.quantity for source in used})),
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
    parts: dict[Choice, dict[_Key, list[pl.DataFrame]]] = {}
    for key, part in samples.partition_by("case", "suite", "benchmark", "quantity", "ranks", as_dict=True).items():
        case, suite, benchmark, quantity, ranks = key
        name = (str(suite), str(benchmark), str(quantity), int(ranks or 0))
        parts.setdefault(choices[str(case)], {}).setdefault(name, []).append(part)
    curves = {
        choice: {name: _curve(pl.concat(frames)) for name, frames in sorted(named.items())}
        for choice, named in sorted(parts.items())
    }
    started = [row["started"].strftime("%Y-%m-%d %H:%M") for row in rows]
    left = [f"{other} cases not used: measured with options, or with ranks that share cores"] if other else []
    period = (min(started, default=""), max(started, default=""))
    return Curves(system, selection.sessions, curves, (*selection.notes, *left), len(choices), period)


def _curve(samples: pl.DataFrame) -> TimeCurve:
    sizes = sorted(set(samples["message_bytes"]))
    units = sorted(set(zip(samples["case"], samples["repeat"], strict=True)))
    times = np.full((len(sizes), len(units)), np.nan)
    row, column = ({name: at for at, name in enumerate(names)} for names in (sizes, units))
    for case, repeat, size, value in samples.select("case", "repeat", "message_bytes", "value").iter_rows():
        times[row[size], column[case, repeat]] = value
    return TimeCurve(np.array(sizes, dtype=float), tuple(units), times)


# What of a profile the curves say something about, and why they say nothing of the rest.
#
# Nothing is extrapolated: a call without a benchmark, one without a size, sizes beyond or too far between the measured ones,
# and a communicator of other numbers of ranks than were measured are not covered, each under its name.


@dataclass(frozen=True)
class Term:
    """Calls whose time a curve gives.

    :param at: place of the calls in the profile.
    :param weights: rows of the curve and their parts of one call.
    """

    at: int
    source: CallBenchmark
    ranks: int
    weights: Mapping[int, float]
    count: float


@dataclass(frozen=True)
class Coverage:
    """Of one choice, by place in the profile: calls that are covered, and why each other one is not.

    Those that begin and end the program and those that follow from sends are in neither.
    """

    terms: Mapping[int, Term]
    reasons: Mapping[int, str]


@dataclass(frozen=True)
class Gap:
    """Calls that are not covered, and their share of the profile (:func:`basis`)."""

    name: str
    why: str
    share: float


def basis(profile: Profile) -> str:
    """What shares are of: ``time in MPI``, or ``MPI calls`` where the time is not known of all."""
    apart = [one for one in profile.calls if one.call not in START_AND_END]
    timed = all(one.seconds is not None for one in apart) and any(one.seconds for one in apart)
    return "time in MPI" if timed else "MPI calls"


def _weights(profile: Profile) -> list[float]:
    """What each row of a profile counts in shares."""
    timed = basis(profile) == "time in MPI"
    return [
        0.0 if one.call in START_AND_END else float(one.seconds or 0.0) if timed else float(one.count) for one in profile.calls
    ]


def _counted(profile: Profile) -> list[int]:
    """Rows of a profile that a curve of their own may cover: all but those that follow from sends, start and end."""
    apart = {*START_AND_END, *RECEIVES, *COMPLETIONS}
    return [at for at, one in enumerate(profile.calls) if one.call not in apart]


def _followers(profile: Profile) -> list[int]:
    """Receives and completions, which are covered as far as the sends are."""
    return [at for at, one in enumerate(profile.calls) if one.call in (*RECEIVES, *COMPLETIONS)]


def _sent_part(profile: Profile, covered: Iterable[int]) -> float:
    counts = {at: one.count for at, one in enumerate(profile.calls) if one.call in SENDS}
    whole = sum(counts.values())
    return sum(counts.get(at, 0) for at in covered) / whole if whole else 0.0


def _share(profile: Profile, covered: Iterable[int]) -> float:
    """Share of a profile that is covered."""
    covered, weights = list(covered), _weights(profile)
    follow = _sent_part(profile, covered) * sum(weights[at] for at in _followers(profile))
    total = sum(weights)
    return (sum(weights[at] for at in covered) + follow) / total if total else 0.0


def _gaps(profile: Profile, reasons: Mapping[int, str], covered: Iterable[int]) -> list[Gap]:
    """What is not covered, by call and reason, the largest share first."""
    weights, left = _weights(profile), 1 - _sent_part(profile, covered)
    total = sum(weights) or 1.0
    found: dict[tuple[str, str], float] = {}
    rows = [(at, why, 1.0) for at, why in reasons.items()]
    if left > 0:
        rows += [(at, "no sends of these messages are in the profile or covered", left) for at in _followers(profile)]
    for at, why, part in rows:
        key = (profile.calls[at].name, why)
        found[key] = found.get(key, 0.0) + part * weights[at] / total
    gaps = [Gap(name, why, size) for (name, why), size in found.items()]
    return sorted(gaps, key=lambda gap: (-gap.share, gap.name, gap.why))


def _choose_sources(profile: Profile, curves: Curves) -> dict[str, CallBenchmark]:
    """The benchmark of each call that most choices have; of equals the first."""
    ranks: dict[str, set[int]] = {}
    for one in profile.calls:
        ranks.setdefault(one.call, set()).add(one.comm_size or profile.ranks)
    return {
        call: max(
            SOURCES[call],
            key=lambda source: sum(any(curves.find(choice, source, each) for each in sizes) for choice in curves.by_choice),
        )
        for call, sizes in ranks.items()
        if call in SOURCES
    }


def _cover(profile: Profile, curves: Curves, choice: Choice, sources: Mapping[str, CallBenchmark]) -> Coverage:
    found = {at: _term(at, profile.calls[at], profile, curves, choice, sources) for at in _counted(profile)}
    return Coverage(
        {at: term for at, term in found.items() if isinstance(term, Term)},
        {at: why for at, why in found.items() if isinstance(why, str)},
    )


def _term(
    at: int, one: Calls, profile: Profile, curves: Curves, choice: Choice, sources: Mapping[str, CallBenchmark]
) -> Term | str:
    """The term of some calls, or why there is none."""
    if (source := sources.get(one.call)) is None:
        return "no benchmark times this call"
    size = 0.0 if one.call in SIZELESS else one.message_bytes
    if size is None:
        return "the profile has no sizes of it"
    ranks = one.comm_size or profile.ranks
    curve = curves.find(choice, source, ranks)
    if curve is None:
        names = (source.suite, source.benchmark, source.quantity)
        others = ", ".join(str(ranks) for *key, ranks in curves.by_choice[choice] if tuple(key) == names)
        if others:
            return f"communicators of {ranks} rank{'s'[: ranks != 1]}, measured with {others}"
        return f"not measured ({source.text})"
    weights = curve.weights(size)
    if weights is not None:
        return Term(at, source, ranks, weights, float(one.count))
    low, high = (size_text(int(end)) for end in (curve.sizes[0], curve.sizes[-1]))
    if size > curve.sizes[-1]:
        return f"sizes above {high}, the largest measured"
    if size < curve.sizes[0]:
        return f"sizes below {low}, the smallest measured"
    return f"sizes between measured ones that are far apart ({low} to {high})"


# The time a profile's calls would take with one choice, with an interval, and whether two choices differ.
#
# A unit is one repeat of one job. Each gives one time of the whole profile: counts times times of calls, so that what disturbs
# all sizes of a repeat alike is counted once. Benchmarks of different jobs (point-to-point, collectives) are added, their
# errors as independent ones.
#
# location of a job: 20 % trimmed mean of the logarithms of its repeats (mpibench.judge.statistics.two_sides), spreads moderated
#     over all choices;
# error: with ENOUGH_JOBS jobs or more that between them. With fewer, repeats do not show how much jobs differ: to the error of
#     the repeats ``between_jobs_percent`` is added, and at least ``between_jobs_times_repeats`` times what repeats differ by
#     (the policy of the system, as for its verdicts);
# interval: Student's t with Satterthwaite's degrees of freedom, at the policy's confidence. It is that of the measured curves:
#     that an application is not a benchmark is no part of it (limits);
# difference: of each choice from the fastest, at a family-wise error of 1 - confidence (Bonferroni).

#: Jobs that show how much jobs differ.
ENOUGH_JOBS = 3


@dataclass(frozen=True)
class PredictedTime:
    """Time in communication per rank, of the calls that are covered.

    :param seconds: mean over ranks; ``low``, ``high``: its interval, ``nan`` where there are too few repeats.
    :param error: of its logarithm; ``df``: degrees of freedom.
    :param by_call: seconds of each call.
    :param differs: from the fastest; ``False`` also where nobody can tell.
    :param over_best: times as long as the fastest; 1 for that one.
    """

    choice: Choice
    seconds: float
    low: float
    high: float
    error: float
    df: float
    by_call: Mapping[str, float]
    differs: bool = False
    over_best: float = 1.0


def _predict(
    profile: Profile, curves: Curves, covered: Mapping[Choice, Coverage], common: frozenset[int], policy: Policy
) -> tuple[list[PredictedTime], dict[Choice, str]]:
    """Predictions from the rows that all choices cover, the fastest first, and why some have none."""
    terms = {choice: _with_receives(profile, [one.terms[at] for at in sorted(common)]) for choice, one in covered.items()}
    refused: dict[Choice, str] = {}
    jobs: list[Array] = []
    # Places in jobs, of each part of each choice.
    places: dict[Choice, list[list[int]]] = {}
    for choice in covered:
        parts = _parts(curves, choice, terms[choice])
        if not parts or not all(parts):
            refused[choice] = "no repeat of any job has all the sizes that are needed"
            continue
        places[choice] = []
        for part in parts:
            places[choice].append(list(range(len(jobs), len(jobs) + len(part))))
            jobs += part
    table = np.full((len(jobs), max((len(job) for job in jobs), default=1)), np.nan)
    for row, job in enumerate(jobs):
        table[row, : len(job)] = np.log(job)
    side = two_sides.describe(table)
    side = two_sides.moderate(side, *two_sides.prior(side.variance, side.df))
    found = []
    for choice, its in places.items():
        combined = [_combine(side, rows, policy) for rows in its]
        found.append(_prediction(choice, combined, _by_call(profile, curves, choice, terms[choice]), profile.ranks, policy))
    return _ranked(found, policy), refused


def _with_receives(profile: Profile, terms: list[Term]) -> list[Term]:
    """Sends count once more for each blocking receive, in which a rank waits for one of them."""
    receives = sum(one.count for one in profile.calls if one.call in RECEIVES)
    sends = sum(one.count for one in profile.calls if one.call in SENDS)
    factor = 1 + receives / sends if sends else 1.0
    return [replace(term, count=term.count * factor) if profile.calls[term.at].call in SENDS else term for term in terms]


def _curve_of(curves: Curves, choice: Choice, term: Term) -> TimeCurve:
    curve = curves.find(choice, term.source, term.ranks)
    assert curve is not None, "it is covered"
    return curve


def _parts(curves: Curves, choice: Choice, terms: Sequence[Term]) -> list[list[Array]]:
    """Times of the whole profile in us, one a repeat, of each job of each group of benchmarks."""
    by_curve: dict[tuple[CallBenchmark, int], tuple[TimeCurve, dict[int, float]]] = {}
    for term in terms:
        _, rows = by_curve.setdefault((term.source, term.ranks), (_curve_of(curves, choice, term), {}))
        for row, part in term.weights.items():
            rows[row] = rows.get(row, 0.0) + part * term.count
    groups: dict[str, list[dict[Unit, float]]] = {}
    for (source, _), (curve, rows) in by_curve.items():
        totals = np.array([rows[row] for row in sorted(rows)]) @ curve.times[sorted(rows)]
        units = {unit: float(total) for unit, total in zip(curve.units, totals, strict=True) if math.isfinite(total)}
        groups.setdefault(source.group, []).append(units)
    parts = []
    for measured in groups.values():
        shared = set.intersection(*map(set, measured))
        # Curves of one group that no job has together are those of different jobs.
        for units in [{unit: sum(one[unit] for one in measured) for unit in shared}] if shared else measured:
            jobs: dict[str, list[float]] = {}
            for (case, _), value in sorted(units.items()):
                jobs.setdefault(case, []).append(value)
            parts.append([np.array(values) for values in jobs.values()])
    return parts


def _combine(sides: two_sides.Side, places: list[int], policy: Policy) -> tuple[float, float, float]:
    """Logarithm of the time, its squared error and degrees of freedom."""
    locations, variance, df = (column[places] for column in (sides.location, sides.variance, sides.df))
    jobs = len(places)
    if jobs >= ENOUGH_JOBS:
        between = max(float(np.var(locations, ddof=1)), two_sides.LEAST_SPREAD**2)
        return float(np.mean(locations)), between / jobs, jobs - 1.0
    repeats = float(np.mean(sides.squared_error()[places]))
    least = policy.between_jobs_times_repeats**2 * float(np.mean(variance))
    between = max((policy.between_jobs_percent / 100) ** 2, least)
    return float(np.mean(locations)), (between + repeats) / jobs, float(np.sum(df)) if np.all(df > 0) else math.nan


def _prediction(
    choice: Choice, parts: Iterable[tuple[float, float, float]], by_call: Mapping[str, float], ranks: int, policy: Policy
) -> PredictedTime:
    rows = [(math.exp(location), error, df) for location, error, df in parts]
    total = sum(time for time, *_ in rows)
    errors = [(time / total) ** 2 * error for time, error, _ in rows]
    squared = sum(errors)
    below = sum(error**2 / df for error, (*_, df) in zip(errors, rows, strict=True))
    df = squared**2 / below if below > 0 else math.nan
    reach = float(scipy.special.stdtrit(df, 0.5 + policy.confidence / 2)) * math.sqrt(squared)
    seconds = total * 1e-6 / ranks
    low, high = seconds * math.exp(-reach), seconds * math.exp(reach)
    return PredictedTime(choice, seconds, low, high, math.sqrt(squared), df, by_call)


def _by_call(profile: Profile, curves: Curves, choice: Choice, terms: Sequence[Term]) -> dict[str, float]:
    """Seconds per rank of each call, of median times."""
    found: dict[str, float] = {}
    for term in terms:
        medians = np.nanmedian(_curve_of(curves, choice, term).times[list(term.weights)], axis=1)
        name = profile.calls[term.at].name
        time = float(np.dot(medians, list(term.weights.values()))) * term.count * 1e-6 / profile.ranks
        found[name] = found.get(name, 0.0) + time
    return dict(sorted(found.items(), key=lambda row: -row[1]))


def _ranked(predictions: Sequence[PredictedTime], policy: Policy) -> list[PredictedTime]:
    """The fastest first, each with whether it differs from that (Welch)."""
    order = sorted(predictions, key=lambda one: one.seconds)
    found = order[:1]
    for one in order[1:]:
        best = order[0]
        squares = (best.error**2, one.error**2)
        error, df = (
            math.hypot(best.error, one.error),
            sum(squares) ** 2 / (squares[0] ** 2 / best.df + squares[1] ** 2 / one.df),
        )
        effect = math.log(one.seconds / best.seconds)
        p = 2 * float(scipy.special.stdtr(df, -effect / error)) if error > 0 and math.isfinite(df) else math.nan
        found.append(replace(one, differs=p < (1 - policy.confidence) / (len(order) - 1), over_best=math.exp(effect)))
    return found


# Which size of messages would be best: where throughput, message size over time, peaks (step 6). The peak is that of the
# measured sizes alone; sizes whose throughput differs from it by no more than noise are as good, and the smallest is named.

#: Share of a profile from which on a call is worth a sentence.
WORTH = 0.05


@dataclass(frozen=True)
class BestSize:
    """The best message size of one call with one choice.

    :param peak_bytes: measured size of most throughput; ``peak_mb_per_s``: that throughput.
    :param as_good_from_bytes: smallest size that is as good within noise.
    :param at_the_largest_measured: the peak is at the largest measured size, so that larger ones may be better.
    :param own_bytes: mean size in the profile; ``reached``: throughput of the profile's own sizes over the peak.
    """

    call: str
    peak_bytes: int
    peak_mb_per_s: float
    as_good_from_bytes: int
    at_the_largest_measured: bool
    own_bytes: float
    reached: float


def _best_sizes(profile: Profile, curves: Curves, choice: Choice, coverage: Coverage, policy: Policy) -> list[BestSize]:
    """The best sizes of the calls in which most time is spent."""
    weights = _weights(profile)
    groups: dict[tuple[str, CallBenchmark, int], list[Term]] = {}
    for at, term in coverage.terms.items():
        one = profile.calls[at]
        if one.message_bytes and one.call not in SIZELESS:
            groups.setdefault((one.name, term.source, term.ranks), []).append(term)
    found = []
    for (name, *_), terms in groups.items():
        weight = sum(weights[term.at] for term in terms)
        if weight >= WORTH * (sum(weights) or 1.0):
            best = _best_size(name, _curve_of(curves, choice, terms[0]), profile, terms, policy)
            found += [(weight, best)] if best else []
    return [best for _, best in sorted(found, key=lambda row: -row[0])]


def _best_size(name: str, curve: TimeCurve, profile: Profile, terms: list[Term], policy: Policy) -> BestSize | None:
    some = curve.sizes > 0
    sizes, times = curve.sizes[some], curve.times[some]
    if len(sizes) < 2:
        return None
    side = two_sides.describe(np.log(sizes[:, None] / times))
    side = two_sides.moderate(side, *two_sides.prior(side.variance, side.df))
    peak = int(np.nanargmax(side.location))
    error = np.sqrt(side.squared_error() + side.squared_error()[peak])
    reach = scipy.special.stdtrit(np.maximum(side.df, 1), 0.5 + policy.confidence / 2) * error
    near = np.flatnonzero(side.location[peak] - side.location <= reach)
    first = peak
    while first - 1 in near:
        first -= 1
    medians = np.nanmedian(curve.times, axis=1)
    volume = sum((profile.calls[term.at].message_bytes or 0) * term.count for term in terms)
    count = sum(term.count for term in terms)
    spent = sum(term.count * sum(part * medians[row] for row, part in term.weights.items()) for term in terms)
    top = math.exp(float(side.location[peak]))
    reached = volume / float(spent) / top
    return BestSize(name, int(sizes[peak]), top, int(sizes[first]), peak == len(sizes) - 1, volume / count, reached)


# The answer.

#: Outcomes: one choice is the fastest; several are, within noise; there is but one; communication hardly matters; too little is
#: covered.
CHOICE, NOISE, ALONE, LITTLE, UNCOVERED = "choice", "noise", "alone", "little", "uncovered"
#: Exit status: it is answered, or nothing could be decided.
STATUS = {CHOICE: 0, LITTLE: 0, NOISE: 3, ALONE: 3, UNCOVERED: 3}


@dataclass(frozen=True)
class Terms:
    """What is asked.

    :param least_covered: share of the profile, from 0 to 1, below which nothing is ranked.
    :param little_time: share of the run in MPI below which step 2 ends the method.
    :param profiled_on: stack that the profile was taken with, to hold its prediction against what was recorded.
    """

    least_covered: float = 0.8
    little_time: float = 0.1
    profiled_on: str | None = None


@dataclass(frozen=True)
class Advice:
    """The answer.

    :param ranking: what was ranked, the fastest first; ``unranked``: choices that are not in it, with the reason.
    :param covered: share of the profile that all of the ranking cover; without one, what the best single choice does.
    :param basis: what shares are of.
    :param sizes: best message sizes with the first of the ranking.
    :param sources: benchmark that stands for each call.
    """

    profile: Profile
    measured: Curves
    terms: Terms
    policy: Policy
    outcome: str
    ranking: tuple[PredictedTime, ...] = ()
    covered: float = 0.0
    basis: str = ""
    gaps: tuple[Gap, ...] = ()
    unranked: tuple[tuple[Choice, str], ...] = ()
    sizes: tuple[BestSize, ...] = ()
    sources: Mapping[str, str] = field(default_factory=dict)

    @property
    def best(self) -> list[PredictedTime]:
        """The fastest, and those that do not differ from it."""
        return [one for one in self.ranking if not one.differs]


def has_little(profile: Profile, terms: Terms) -> bool:
    """Whether step 2 ends the method."""
    return profile.share_in_mpi is not None and profile.share_in_mpi < terms.little_time


def stop(profile: Profile, policy: Policy, terms: Terms) -> Advice:
    """The answer of step 2, for which nothing need have been measured."""
    return Advice(profile, Curves("", (), {}), terms, policy, LITTLE, basis=basis(profile))


def advise(profile: Profile, measured: Curves, policy: Policy, terms: Terms) -> Advice:
    if has_little(profile, terms):
        return stop(profile, policy, terms)
    fitting = {choice: curves for choice, curves in measured.by_choice.items() if choice.ranks == profile.ranks}
    unranked = [
        (choice, f"measured with {choice.ranks} ranks, the profile has {profile.ranks}")
        for choice in measured.by_choice
        if choice not in fitting
    ]
    same = replace(measured, by_choice=fitting)
    sources = _choose_sources(profile, same)
    covers = {choice: _cover(profile, same, choice, sources) for choice in fitting}
    ranked, common = _common(profile, covers, terms, unranked)
    named = {f"MPI_{call}": ", ".join(filter(None, (source.text, source.instead))) for call, source in sources.items()}
    answer = Advice(profile, measured, terms, policy, UNCOVERED, basis=basis(profile), sources=named)
    share = _share(profile, common)
    if not fitting or share < terms.least_covered:
        best = max(covers.values(), key=lambda one: _share(profile, one.terms), default=None)
        if best is None:
            counts = ", ".join(map(str, sorted({choice.ranks for choice in measured.by_choice}))) or "no"
            why = f"measured with {counts} ranks, the profile has {profile.ranks}"
            best = Coverage({}, dict.fromkeys(_counted(profile), why))
        gaps = tuple(_gaps(profile, best.reasons, best.terms))
        return replace(answer, covered=_share(profile, best.terms), gaps=gaps, unranked=tuple(unranked))
    found, refused = _predict(profile, same, {choice: covers[choice] for choice in ranked}, common, policy)
    answer = replace(answer, unranked=(*unranked, *refused.items()))
    if not found:
        return answer
    reasons: dict[int, str] = {}
    for choice in ranked:
        for at, why in covers[choice].reasons.items():
            everywhere = all(at in covers[other].reasons for other in ranked)
            reasons.setdefault(at, why if everywhere else f"{why} ({choice.text})")
    first = found[0].choice
    return replace(
        answer,
        outcome=ALONE if len(found) == 1 else CHOICE if sum(not one.differs for one in found) == 1 else NOISE,
        ranking=tuple(found),
        covered=share,
        gaps=tuple(_gaps(profile, {at: why for at, why in reasons.items() if at not in common}, common)),
        sizes=tuple(_best_sizes(profile, same, first, covers[first], policy)),
    )


def _common(
    profile: Profile, covers: Mapping[Choice, Coverage], terms: Terms, unranked: list[tuple[Choice, str]]
) -> tuple[list[Choice], frozenset[int]]:
    """Choices that can be ranked together, and the rows of the profile they all cover.

    A choice that covers too little by itself is left out; then, as long as they cover too little together, the one that
    covers least.
    """
    shares = {choice: _share(profile, one.terms) for choice, one in covers.items()}
    ranked = [choice for choice in covers if shares[choice] >= terms.least_covered]
    for choice, one in covers.items():
        if choice not in ranked:
            gaps = _gaps(profile, one.reasons, one.terms)
            first = f" ({gaps[0].name}: {gaps[0].why})" if gaps else ""
            unranked.append((choice, f"its curves cover {100 * shares[choice]:.0f} % of the {basis(profile)}{first}"))
    while ranked:
        common = frozenset.intersection(*(frozenset(covers[choice].terms) for choice in ranked))
        if _share(profile, common) >= terms.least_covered or len(ranked) == 1:
            return ranked, common
        worst = min(ranked, key=lambda choice: shares[choice])
        ranked.remove(worst)
        unranked.append((worst, f"with it the choices cover less than {100 * terms.least_covered:.0f} % in common"))
    return [], frozenset()


#: Gaps, and choices that are not ranked, that are listed one by one.
MOST_LISTED = 8
#: Time in MPI of the slowest rank over the mean, from which on ranks wait for one another.
IMBALANCED = 1.2
#: Predicted over recorded time, or its inverse, from which on even the nearest choice is none that the profile can be of; the
#: same of the profile's own stack, from which on a prediction is called far off.
IMPOSSIBLE, FAR_OFF = 10.0, 2.0


def lines(advice: Advice) -> list[str]:
    """The whole answer for a terminal."""
    profile, measured, share = advice.profile, advice.measured, advice.profile.share_in_mpi
    if share is not None:
        in_mpi = f"{_percent(share)} of the run is in MPI"
    else:
        why = " (give --wall-s)" if profile.mpi_s else ": the profile has no times"
        in_mpi = f"how much of the run is in MPI is not known{why}"
    shown = [f"{profile.form}, {profile.ranks} ranks, {sum(one.count for one in profile.calls)} MPI calls; {in_mpi}"]
    if advice.outcome == LITTLE:
        return [*shown, headline(advice)]
    shown += [
        f"measured: {measured.cases} jobs on {measured.system}, {measured.started[0]} to {measured.started[1]} UTC; they cover "
        f"{_percent(advice.covered)} of the {advice.basis}",
        headline(advice),
    ]
    for one in advice.ranking:
        interval = f"{one.low:.3g} to {one.high:.3g}" if math.isfinite(one.low) else "no interval: too few repeats"
        same = "" if one.differs else ", the fastest" if one.over_best == 1.0 else ", not distinguishable from the fastest"
        shown.append(f"  {one.seconds:.3g} s a rank ({interval}), {one.over_best:.2f} times: {one.choice.text}{same}")
    for what, rows in (
        ("not covered", [f"{gap.name}, {_percent(gap.share)}: {gap.why}" for gap in advice.gaps]),
        ("not ranked", [f"{choice.text}: {why}" for choice, why in advice.unranked]),
    ):
        more = len(rows) - MOST_LISTED
        shown += [f"  {what}: {row}" for row in [*rows[:MOST_LISTED], *[f"{more} more, with --json"] * (more > 0)]]
    shown += [f"  message size: {size_sentence(best)}" for best in advice.sizes]
    shown += [f"  limit: {text}" for text in limits(advice)]
    return [*shown, *(f"  note: {text}" for text in (*profile.notes, *measured.notes))]


def _percent(share: float) -> str:
    """A share; never a whole that is not one, nor nothing of something."""
    percent = 100 * share
    if 0 < percent < 0.1:
        return "less than 0.1 %"
    return f"{min(percent, 99.9) if share < 1 - 1e-9 else 100:.3g} %"


def headline(advice: Advice) -> str:
    """The answer in one line."""
    if advice.outcome == LITTLE:
        return (
            f"stop here: only {_percent(advice.profile.share_in_mpi or 0.0)} of the run is in MPI (less than "
            f"{_percent(advice.terms.little_time)}); another MPI can save no more than that, look elsewhere"
        )
    if advice.outcome == UNCOVERED:
        return (
            f"nothing is ranked: what was measured covers {_percent(advice.covered)} of the {advice.basis}, and "
            f"{_percent(advice.terms.least_covered)} are needed"
        )
    if advice.outcome == ALONE:
        return f"no choice: only one can be ranked, {advice.ranking[0].choice.text}"
    if advice.outcome == CHOICE:
        first, second = advice.ranking[:2]
        return f"use {first.choice.text}: the next takes {second.over_best:.2f} times as long in MPI"
    names = "; ".join(one.choice.text for one in advice.best)
    return f"no choice: {len(advice.best)} are the fastest within noise ({names})"


def size_sentence(best: BestSize) -> str:
    """Where the throughput of a call peaks."""
    least = best.as_good_from_bytes
    same = f", from {size_text(least)} on as good within noise" if least < best.peak_bytes else ""
    end = " (the largest measured: larger ones may be better)" if best.at_the_largest_measured else ""
    return (
        f"{best.call} moves most at {size_text(best.peak_bytes)}{end}, {best.peak_mb_per_s:.4g} MB/s{same}; "
        f"the profile's messages, {size_text(round(best.own_bytes))} on average, reach {_percent(min(best.reached, 1))} of that"
    )


def limits(advice: Advice) -> Iterator[str]:
    """What the answer does not know (section 2.2 of the paper), of this profile."""
    profile = advice.profile
    if not advice.ranking:
        return
    # Seconds a rank that the profile recorded of what is predicted.
    recorded = profile.mpi_s * advice.covered / profile.ranks if profile.mpi_s else None
    if recorded:
        nearest = min((one.seconds / recorded for one in advice.ranking), key=lambda ratio: abs(math.log(ratio)))
        if max(nearest, 1 / nearest) > IMPOSSIBLE:
            more = f"{nearest:.3g} times more" if nearest > 1 else f"{1 / nearest:.3g} times less"
            yield (
                f"even the nearest prediction is {more} than the profile recorded ({recorded:.3g} s a rank): its columns, "
                "units or counts are not what they are taken for, or its ranks wait for something else; find out before you "
                "use the ranking"
            )
    calls = {one.call for one in profile.calls}
    if any(profile.calls[at].comm_size is None for at in _counted(profile) if profile.calls[at].call not in PAIRED):
        yield f"communicator sizes are not known of all calls: there all {profile.ranks} ranks are assumed"
    if any("communicators of" in gap.why for gap in advice.gaps):
        yield "communicators smaller than measured behave differently, and by their placement; they are left out"
    if calls & set(COMPLETIONS):
        yield "overlap: what the application computes while messages are on their way is not known"
    if calls & set(SENDS):
        yield "a message is timed alone, as in a ping-pong: ranks that send at the same time share the link"
    if profile.imbalance is not None and profile.imbalance > IMBALANCED:
        yield (
            f"imbalance: the rank with most time in MPI has {profile.imbalance:.2f} times the mean; waiting for late ranks is "
            "in the profile and in no prediction"
        )
    if calls & START_AND_END:
        yield "MPI_Init and MPI_Finalize are left out"
    if any(one.largest is not None and one.largest > 4 * max(one.smallest or 0.0, 1.0) for one in profile.calls):
        yield "sizes of some callsites differ by more than 4 times: their mean is not where each message is"
    yield "fast communication can cost processor time that the application needs: the last word is a run of it"
    if not advice.terms.profiled_on:
        return
    rows = [one for one in advice.ranking if one.choice.stack == advice.terms.profiled_on]
    if not rows:
        yield f"{advice.terms.profiled_on} is not among what is ranked: nothing to hold the profile's time against"
    for one in rows if recorded else ():
        ratio = (recorded or 0.0) / one.seconds
        far = ", so something else than communication decides" if max(ratio, 1 / ratio) > FAR_OFF else ""
        yield f"the profile has {ratio:.2g} times what is predicted for {one.choice.text}{far}"


def as_data(advice: Advice) -> dict[str, Any]:
    """The same for programs; what is not known is ``None``."""
    profile, measured = advice.profile, advice.measured
    named = ("form", "ranks", "wall_s", "mpi_s", "share_in_mpi", "imbalance")
    return {
        "outcome": advice.outcome,
        "answer": headline(advice),
        "profile": {
            **{name: getattr(profile, name) for name in named},
            "calls": sum(one.count for one in profile.calls),
        },
        "measured": {"system": measured.system, "sessions": list(measured.sessions), "jobs": measured.cases},
        "covered": advice.covered,
        "basis": advice.basis,
        "least_covered": advice.terms.least_covered,
        "confidence": advice.policy.confidence,
        "benchmarks": dict(advice.sources),
        "ranking": [
            {
                **asdict(one.choice),
                "seconds": one.seconds,
                "low": one.low if math.isfinite(one.low) else None,
                "high": one.high if math.isfinite(one.high) else None,
                "times_the_fastest": one.over_best,
                "differs_from_the_fastest": one.differs,
                "by_call": dict(one.by_call),
            }
            for one in advice.ranking
        ],
        "not_covered": [{"call": gap.name, "why": gap.why, "share": gap.share} for gap in advice.gaps],
        "not_ranked": [{**asdict(choice), "why": why} for choice, why in advice.unranked],
        "message_sizes": [asdict(best) for best in advice.sizes],
        "limits": list(limits(advice)),
        "notes": [*profile.notes, *measured.notes],
    }

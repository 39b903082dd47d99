"""The rounds of a tuning: measure what is left, leave out what is
clearly slower, until all is decided or time is up.

Then which algorithm each message size takes, and the rules that follow; the
library's own choice where none is clearly better.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np
import scipy

from mpibench import whole_file
from mpibench.judge import engine
from mpibench.night import supervision
from mpibench.store.sessions import Case, read_report
from reframe_tests.harness.cases.sweep.outcomes import NOT_STARTED
from reframe_tests.harness.cases.sweep.variants import Wish
from reframe_tests.harness.mpis.tuning.model import DEFAULT, AlgorithmRule, Tuning
from reframe_tests.harness.samples import Sample
from reframe_tests.harness.sites.tuned_settings import TunedPlace
from reframe_tests.harness.suites import algorithms
from reframe_tests.harness.vocabulary import BadInput

from . import measuring
from .measuring import TuneRequest
from .profiles import Usage

# Times of algorithms, repeat by repeat: what interleaved launches of one
# job say, kept so that it can be compared in pairs.

#: Stands for all sizes, where one algorithm is chosen for them together.
ALL_SIZES = 0
#: One repeat of one job: session, and number of the repeat in it.
Unit = tuple[str, int]


def normalise(times: Mapping[int, float], weights: Mapping[int, float] | None = None) -> float:
    """One number for all sizes: the sum of the times, each multiplied by (largest size / size).

    Cambridge paper, appendix C.1: 60 us at 32 B count 60 x 4 MiB / 32 = 7864320, 600,000 us at 4
    MiB as they are, so that small messages are not lost in the sum.

    :param times: message size in bytes to time.
    :param weights: message size to calls of that size, from an application's
        profile; then it is the sum of calls x time.
    """
    if weights is not None:
        return sum(weights.get(size, 0.0) * time for size, time in times.items())
    largest = max(times)
    return sum(time * largest / size for size, time in times.items())


@dataclass
class Times:
    """Times of the algorithms of one collective in microseconds.

    :param values: message size to algorithm to repeat to time.
    """

    collective: str
    values: dict[int, dict[str, dict[Unit, float]]] = field(default_factory=dict)

    def add(self, session: str, samples: Iterable[Sample]) -> None:
        """Add what a session measured of the collective."""
        for sample in samples:
            word = sample.variant.removeprefix(algorithms.VARIANT)
            if (
                sample.benchmark != self.collective
                or sample.message_bytes is None
                or sample.quantity != algorithms.QUANTITY
            ):
                continue
            kept = self.values.setdefault(sample.message_bytes, {}).setdefault(word, {})
            kept.update({(session, at): value for at, value in enumerate(sample.values) if value})

    @property
    def sizes(self) -> list[int]:
        """Message sizes, ascending."""
        return sorted(self.values)

    def words(self, size: int) -> list[str]:
        """Algorithms that were measured at a size."""
        return list(self.values.get(size, {}))

    def as_one(self, weights: Mapping[int, float] | None = None) -> Times:
        """The same with all sizes as one, for calls that allow one algorithm only:
        :func:`normalise` of each repeat.
        """
        sums: dict[str, dict[Unit, float]] = {}
        for word in dict.fromkeys(word for size in self.sizes for word in self.words(size)):
            units = [set(self.values[size].get(word, {})) for size in self.sizes]
            for unit in set.intersection(*units):
                sums.setdefault(word, {})[unit] = normalise(
                    {size: self.values[size][word][unit] for size in self.sizes}, weights
                )
        return Times(self.collective, {ALL_SIZES: sums} if sums else {})

    def location(self, size: int, word: str) -> float:
        """Median over the repeats in microseconds (of all sizes: of the normalised sums)."""
        return float(np.median(list(self.values[size][word].values())))

    def differences(self, size: int, one: str, other: str) -> list[float]:
        """log(one / other) of each repeat that has both."""
        first = self.values[size].get(one, {})
        second = self.values[size].get(other, {})
        return [
            float(np.log(first[unit] / second[unit]))
            for unit in sorted(first.keys() & second.keys())
        ]


def effects(rows: Sequence[Sequence[float]]) -> engine.Effects:
    """Effects of rows of paired differences, their spreads moderated over all rows
    (:func:`engine.compare_pairs`).
    """
    table = np.full((len(rows), max(map(len, rows), default=0)), np.nan)
    for at, row in enumerate(rows):
        table[at, : len(row)] = row
    return engine.compare_pairs(table)


# What was measured so far, in a folder of its own, so that a tuning can
# be resumed: run reports, and what was asked.

NAME = "state.json"


@dataclass
class Round:
    """One session of a tuning.

    :param report: file of ReFrame's run report, in the folder.
    :param asked: collective to its algorithms, in the words of the test.
    :param seconds: that it took; ``launch_s``: that a launch of all
        sizes was to time its calls for.
    """

    report: str
    asked: Mapping[str, str]
    seconds: float
    launch_s: float


@dataclass
class TuneState:
    """A tuning.

    :param library: MPI and release; a tuning of another one begins again.
    :param algorithms: collective to the algorithms it began with.
    :param refused: collective to algorithm to why it cannot be measured.
    :param finished: when nothing was left to measure and what came
        of it was installed; empty before.
    :param level: of the message sizes; empty in older states.
    """

    place: TunedPlace
    library: str
    algorithms: Mapping[str, tuple[str, ...]]
    rounds: list[Round] = field(default_factory=list)
    refused: dict[str, dict[str, str]] = field(default_factory=dict)
    finished: str = ""
    level: str = ""
    layout: Literal[2] = 2

    @property
    def measured_s(self) -> float:
        return sum(race_round.seconds for race_round in self.rounds)

    def write(self, folder: Path) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            whole_file.write_text(
                folder / NAME,
                msgspec.json.format(msgspec.json.encode(self), indent=1).decode() + "\n",
            )
        except OSError as error:
            raise BadInput(
                "cannot-write",
                f"cannot write {folder} ({error.strerror}): correct its permissions or file "
                "system.",
            ) from None


def read_state(folder: Path) -> TuneState | None:
    """The tuning of a folder; ``None`` if there is none."""
    path = folder / NAME
    if not path.exists():
        return None
    try:
        return msgspec.json.decode(path.read_bytes(), type=TuneState)
    except (OSError, ValueError) as error:
        raise BadInput(
            "file-unreadable", f"{path} cannot be read ({error}); begin again with --restart."
        ) from None


# Successive elimination: after each round of repeats, algorithms that are no better than the
# leading one are measured no more.
#
# Racing as in Maron and Moore ("Hoeffding races", NIPS 1993) and Even-Dar, Mannor and Mansour
# ("Action elimination", JMLR 7, 2006), with paired differences instead of bounds on the whole
# range. An algorithm leaves a message size when "it takes less than 1 / (1 + SLACK) of the leading
# one's time" is rejected: one-sided, Student's t of the paired logarithms of interleaved repeats,
# their spreads moderated over all pairs of the round (mpibench.judge.engine). Which of two
# algorithms within SLACK of each other is taken does not matter, so that no repeats are spent on
# telling them apart.
#
# Error: the fastest algorithm of a size is left out for a slower one only if one of its tests
# against the K - 1 others errs in one of the rounds, so each is made at ERROR over (K - 1) x
# MOST_ROUNDS (Bonferroni). The probability that it leaves for one that is slower by more than SLACK
# is then at most ERROR at each size, and so is the share of such choices, as far as repeats of a
# job are independent and their logarithms normal. The library's own choice never leaves.

#: Share by which a choice may be slower than the best one; the
#: probability at each size that it is slower than that.
SLACK = 0.05
ERROR = 0.05
#: Rounds that are counted; more are not made.
MOST_ROUNDS = 6

#: Message size to the algorithms that are still measured there.
Survivors = dict[int, tuple[str, ...]]


def eliminate(tables: Mapping[str, tuple[Times, Survivors]]) -> dict[str, Survivors]:
    """What is still to be measured of each collective.

    :param tables: collective to its times so far, and what was measured in the last round.
    """
    rows: list[tuple[str, int, str, list[float]]] = []
    others: dict[tuple[str, int], int] = {}
    for collective, (times, survivors) in tables.items():
        for size, words in survivors.items():
            there = [word for word in words if word in times.words(size)]
            others[collective, size] = len(times.words(size)) - 1
            if len(there) < 2:
                continue
            leader = min(there, key=lambda word: times.location(size, word))
            rows += [
                (collective, size, word, times.differences(size, word, leader))
                for word in there
                if word not in (leader, DEFAULT)
            ]
    left = {collective: dict(survivors) for collective, (_, survivors) in tables.items()}
    if not rows:
        return left
    found = effects([row[3] for row in rows])
    for at, (collective, size, word, differences) in enumerate(rows):
        if len(differences) < 3 or not found.error[at] > 0:
            continue
        p = scipy.stats.t.sf((found.effect[at] + math.log1p(SLACK)) / found.error[at], found.df[at])
        if p < ERROR / (others[collective, size] * MOST_ROUNDS):
            left[collective][size] = tuple(
                other_word for other_word in left[collective][size] if other_word != word
            )
    return left


# What is better than the library's own choice.

#: Share by which an algorithm must be faster than the library's own
#: choice; false discoveries among those called faster.
FASTER = 0.02
FALSE_DISCOVERIES = 0.05
#: Repeats without which nothing is called faster.
FEWEST = 3
BETTER = "better"
WORSE = "worse"
INCONCLUSIVE = "no difference shown"


@dataclass(frozen=True)
class Compared:
    """One algorithm against the library's own choice at one message size.

    :param message_bytes: :data:`ALL_SIZES` of what is chosen for all sizes together.
    :param default_us: median time of the library's own choice; ``tuned_us``: of the algorithm.
    :param ratio: tuned over default; ``low``, ``high``: its 95 % interval.
    :param outcome: :data:`BETTER`, :data:`WORSE` or :data:`INCONCLUSIVE`.
    """

    collective: str
    message_bytes: int
    word: str
    default_us: float
    tuned_us: float
    ratio: float
    low: float
    high: float
    repeats: int
    outcome: str


def compare(tables: Mapping[str, Times], against: str = DEFAULT) -> list[Compared]:
    """Every algorithm at every size against the library's own choice,
    with one false discovery rate over all of them.

    All algorithms that were measured are tested, so that choosing the fastest of those called
    faster is no further selection.
    """
    keys = []
    rows = []
    for collective, times in tables.items():
        for size in times.sizes:
            for word in times.words(size):
                differences = times.differences(size, word, against) if word != against else []
                if differences:
                    keys.append((collective, size, word))
                    rows.append(differences)
    if not rows:
        return []
    found = effects(rows)
    enough = np.array([len(row) >= FEWEST for row in rows]) & (found.error > 0)
    margin = math.log1p(FASTER)
    with np.errstate(invalid="ignore", divide="ignore"):
        faster = scipy.stats.t.cdf((found.effect + margin) / found.error, found.df)
        slower = scipy.stats.t.sf((found.effect - margin) / found.error, found.df)
        reach = scipy.stats.t.ppf(0.975, found.df) * found.error
    both = np.where(np.concatenate([enough, enough]), np.concatenate([faster, slower]), 1.0)
    called = engine.discoveries(np.where(np.isfinite(both), both, 1.0), FALSE_DISCOVERIES)
    answers = []
    for at, (collective, size, word) in enumerate(keys):
        times = tables[collective]
        outcome = BETTER if called[at] else WORSE if called[at + len(keys)] else INCONCLUSIVE
        reached = (found.effect[at], found.effect[at] - reach[at], found.effect[at] + reach[at])
        ratio, low, high = (
            float(np.exp(log_ratio)) if enough[at] else math.nan for log_ratio in reached
        )
        before = times.location(size, against)
        after = times.location(size, word)
        answers.append(
            Compared(
                collective, size, word, before, after, ratio, low, high, len(rows[at]), outcome
            )
        )
    return answers


def choose(compared: list[Compared]) -> dict[str, dict[int, str]]:
    """Collective to message size to the fastest of the algorithms that are
    better than the library's own choice there.
    """
    best: dict[tuple[str, int], Compared] = {}
    for row in compared:
        key = (row.collective, row.message_bytes)
        if row.outcome == BETTER and (key not in best or row.ratio < best[key].ratio):
            best[key] = row
    found: dict[str, dict[int, str]] = {}
    for (collective, size), row in sorted(best.items()):
        found.setdefault(collective, {})[size] = row.word
    return found


def ranges(collective: str, sizes: list[int], chosen: Mapping[int, str]) -> list[AlgorithmRule]:
    """Rules for the sizes between those measured.

    Neighbours with the same answer cover what lies between them; where they differ, each covers its
    side of their geometric mean. Below the smallest and above the largest measured size nothing is
    said: the library's own choice stays.

    :param sizes: all that were measured, ascending.
    :param chosen: size to algorithm; sizes without keep the library's own choice.
    """
    if ALL_SIZES in chosen:
        return [AlgorithmRule(collective, 0, 0, chosen[ALL_SIZES])]
    found: list[AlgorithmRule] = []
    for at, size in enumerate(sizes):
        if size not in chosen:
            continue
        first = size if at == 0 else math.isqrt(sizes[at - 1] * size) + 1
        last = size if at == len(sizes) - 1 else math.isqrt(size * sizes[at + 1])
        if found and found[-1].word == chosen[size] and found[-1].last + 1 == first:
            found[-1] = AlgorithmRule(collective, found[-1].first, last, chosen[size])
        else:
            found.append(AlgorithmRule(collective, first, last, chosen[size]))
    return found


def keep_proven(
    rows: list[Compared],
    chosen: Mapping[str, Mapping[int, str]],
    whole: Mapping[str, bool] | None = None,
) -> dict[str, dict[int, str]]:
    """The choices that a measurement of their own showed to be better; nothing else is recommended.

    :param rows: of the tuned settings against the library's own choice.
    :param whole: collectives whose settings cannot leave the library's own choice as it is at other
        sizes, and whether they may be used: such settings are kept as they were measured, at all
        sizes, or not at all.
    """
    better = {(row.collective, row.message_bytes) for row in rows if row.outcome == BETTER}
    kept = {
        name: {size: word for size, word in words.items() if (name, size) in better}
        for name, words in chosen.items()
    }
    for name, in_all in (whole or {}).items():
        kept[name] = dict(chosen[name]) if kept[name] and in_all else {}
    return {name: words for name, words in kept.items() if words}


# The rounds.

#: Repeats of a round: the fewest whose spread says something.
REPEATS = 4
#: Seconds that a launch of all sizes times its calls for, round by round:
#: later ones have fewer algorithms and sizes left.
LAUNCH_S = (0.3, 1.0, 2.0, 3.0, 3.0, 3.0)
#: Seconds that a launch is taken to last beside its calls before any
#: was seen, and a session beside its launches.
OVERHEAD_S = 0.7
SESSION_S = 10.0
#: The least that is expected of a launch once some were seen.
LEAST_OVERHEAD_S = 0.3
#: Seconds of waiting that are said.
WORTH_SAYING_S = 30.0
#: Rounds after which a collective that never gave a usable case is left.
MOST_TRIES = 2


@dataclass
class Race:
    """What is known of each collective.

    :param times: as :meth:`Times.add` has it.
    :param survivors: what is still to be measured; by :data:`ALL_SIZES`
        where one algorithm is chosen for all.
    :param messages: collective to algorithm to message size to what one call sends.
    :param unusable: collective to why the last case of it was not used.
    :param usage: of an application, for what one algorithm is chosen for.
    """

    tuning: Tuning
    state: TuneState
    times: dict[str, Times] = field(default_factory=dict)
    survivors: dict[str, Survivors] = field(default_factory=dict)
    messages: dict[str, dict[str, Mapping[str, Sequence[object]]]] = field(default_factory=dict)
    unusable: dict[str, str] = field(default_factory=dict)
    usage: Usage | None = None

    def weights(self, collective: str) -> dict[int, float]:
        """Measured sizes to an application's calls; empty where one
        size counts as the paper has it.
        """
        return self.usage.weights(collective, self.times[collective].sizes) if self.usage else {}

    def table(self, collective: str) -> Times:
        """Times by size, or of all sizes together where one algorithm is chosen for them."""
        found = self.times[collective]
        return (
            found
            if self.tuning.find(collective).by_size
            else found.as_one(self.weights(collective) or None)
        )

    def take(self, session: str, cases: Mapping[str, Case], asked: Iterable[str]) -> None:
        """Add a round, and leave out what is clearly slower.

        :param asked: the collectives that it measured.
        """
        for collective in asked:
            case = cases.get(collective)
            labels = case.condition.get("algorithms") if case else None
            for word, row in labels.items() if isinstance(labels, Mapping) else ():
                if row.get("why") and row.get("outcome") != NOT_STARTED:
                    self.state.refused.setdefault(collective, {})[word] = str(row["why"])
                if row.get("messages"):
                    self.messages.setdefault(collective, {})[word] = row["messages"]
            if (why := measuring.why_unusable(case)) or case is None:
                self.unusable[collective] = why
                continue
            self.unusable.pop(collective, None)
            self.times.setdefault(collective, Times(collective)).add(session, case.samples)
        tables = {name: self.table(name) for name in self.times}
        for name, table in tables.items():
            self.survivors.setdefault(
                name, {size: tuple(table.words(size)) for size in table.sizes}
            )
        self.survivors = eliminate(
            {name: (table, self.survivors[name]) for name, table in tables.items()}
        )

    def open(self) -> dict[str, str]:
        """Collective to what the next round measures, in the words of
        the test; without those that are decided.
        """
        found = {}
        for collective, words in self.state.algorithms.items():
            refused = self.state.refused.get(collective, {})
            survivors = self.survivors.get(collective)
            if self.rounds_of(collective) >= (MOST_TRIES if survivors is None else MOST_ROUNDS):
                continue
            if survivors is None:
                asked = [Wish(word) for word in words if word not in refused]
            else:
                # Each with the sizes at which more than one is left
                # beside the library's own choice.
                left = {
                    size for size, there in survivors.items() if len(set(there) - {DEFAULT}) > 1
                }
                asked = []
                for word in (word for word in words if word not in refused):
                    sizes = tuple(
                        size for size in survivors if size in left and word in survivors[size]
                    )
                    if sizes:
                        asked.append(Wish(word, () if sizes == tuple(survivors) else sizes))
            if len(asked) > 1:
                found[collective] = "+".join(map(str, asked))
        return found

    def rounds_of(self, collective: str) -> int:
        """How often a collective was measured."""
        return sum(collective in race_round.asked for race_round in self.state.rounds)


def resume(request: TuneRequest, state: TuneState) -> Race:
    """The race as far as its rounds went."""
    race = Race(request.tuning, state, usage=request.usage)
    for race_round in state.rounds:
        session = read_report(request.folder / race_round.report)
        race.take(
            session.uuid, measuring.cases_of(session, tuple(race_round.asked)), race_round.asked
        )
    return race


def go_on(race: Race, request: TuneRequest, limit_s: float) -> None:
    """Measure until all is decided, each collective had
    :data:`MOST_ROUNDS` rounds, or no further round fits.

    All collectives have their first round before any has its second. Where they do not fit into one
    session, those requested first come first.

    :param limit_s: seconds there are for it.
    """
    say = request.say
    clock = request.clock
    limit_s += clock.spent_s
    while left := race.open():
        number = min(race.rounds_of(name) for name in left)
        rest = limit_s - clock.spent_s
        asked = pick(
            race,
            {name: words for name, words in left.items() if race.rounds_of(name) == number},
            number,
            rest,
        )
        session = len(race.state.rounds) + 1
        expected = predict(race, asked, number)
        if rest <= 0 or (race.state.rounds and expected > rest):
            say(
                f"round {session} would take about {expected:.0f} s, and {max(rest, 0):.0f} s of "
                "the budget are left"
            )
            break
        say(
            f"round {session}: {_cost(race, asked)[0]} algorithms of {', '.join(asked)}, about "
            f"{expected:.0f} s"
        )
        unused = f"round {session} was not finished within the budget, and is not used"
        order = measuring.Order(asked, REPEATS, LAUNCH_S[number], show=not number)
        try:
            ran = measuring.run(request, order, f"round_{session}", rest)
        except supervision.OutOfTime:
            say(unused)
            break
        cases = measuring.cases_of(ran.session, tuple(asked))
        unusable = {name: why for name in asked if (why := measuring.why_unusable(cases.get(name)))}
        if ran.late:
            # What was ended with it is not a try of its own: a tuning that goes on measures it.
            asked = {name: words for name, words in asked.items() if name not in unusable}
            if not asked:
                say(unused)
                break
            say(
                f"round {session} was not finished within the budget; used from it: "
                f"{', '.join(asked)}"
            )
        elif len(unusable) == len(asked) and session == 1:
            name = next(iter(asked))
            raise BadInput(
                "nothing-measured",
                f"nothing of the first round can be used: {name}: {unusable[name].rstrip('.')}.",
            )
        race.state.rounds.append(
            Round(f"round_{session}.json", asked, ran.seconds, LAUNCH_S[number])
        )
        race.take(ran.session.uuid, cases, asked)
        race.state.write(request.folder)
        if ran.waited_s > WORTH_SAYING_S:
            say(f"round {session} waited {ran.waited_s:.0f} s for its nodes, outside the budget")
        for collective in asked:
            if said := race.unusable.get(collective):
                say(f"{collective}: not used: {said}")
        if ran.late:
            break
    if unmeasured := [name for name in race.open() if not race.rounds_of(name)]:
        say(f"not measured within the budget: {', '.join(unmeasured)}")


def pick(race: Race, asked: Mapping[str, str], number: int, rest_s: float) -> dict[str, str]:
    """As many collectives as fit into the seconds left, the first in any case."""
    found: dict[str, str] = {}
    for name, words in asked.items():
        if found and predict(race, {**found, name: words}, number) > rest_s:
            break
        found[name] = words
    return found


def _cost(race: Race, asked: Mapping[str, str]) -> tuple[int, float]:
    """Launches of a repeat, and their sum where each counts as the share of the sizes that it
    measures; algorithms that the library refused are not timed.
    """
    launches = 0
    shares = 0.0
    for name, words in asked.items():
        wishes = [
            wish for wish in Wish.parse(words) if wish.word not in race.state.refused.get(name, {})
        ]
        known = len(race.times[name].sizes) if name in race.times else 1
        launches += len(wishes)
        shares += sum(len(wish.sizes) / known if wish.sizes else 1.0 for wish in wishes)
    return launches, shares


def predict(race: Race, asked: Mapping[str, str], number: int) -> float:
    """Seconds that a round is expected to take, from those before it.

    :param number: how often its collectives were measured before.
    """
    overhead = OVERHEAD_S
    if rounds := race.state.rounds:
        costs = [_cost(race, race_round.asked) for race_round in rounds]
        spent = sum(race_round.seconds - SESSION_S for race_round in rounds)
        own = sum(
            REPEATS * shares * race_round.launch_s
            for race_round, (_, shares) in zip(rounds, costs, strict=True)
        )
        overhead = max(
            LEAST_OVERHEAD_S,
            (spent - own) / max(1, REPEATS * sum(launches for launches, _ in costs)),
        )
    launches, shares = _cost(race, asked)
    return SESSION_S + REPEATS * (launches * overhead + shares * LAUNCH_S[number])


def exhaustive_s(race: Race) -> float:
    """Seconds of a sweep in which every algorithm at every size has as many
    and as long repeats as those left to the end.

    Each round at the rate at which its own launches went; algorithms
    that the library refused are in neither.
    """
    total = 0.0
    firsts: dict[str, str] = {}
    for race_round in race.state.rounds:
        firsts = {**race_round.asked, **firsts}
        made, wanted = (
            launches * OVERHEAD_S + shares * race_round.launch_s
            for launches, shares in (
                _cost(race, race_round.asked),
                _cost(race, {name: firsts[name] for name in race_round.asked}),
            )
        )
        total += (
            SESSION_S + (race_round.seconds - SESSION_S) * wanted / made
            if made
            else race_round.seconds
        )
    return total

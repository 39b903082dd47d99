"""The rounds of a tuning: measure what is left, leave out what is clearly slower, until all is decided or time is up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from reframe_tests.harness.cases.sweep.variants import Wish
from reframe_tests.harness.mpis.tuning.model import DEFAULT, Tuning
from reframe_tests.harness.vocabulary import BadInput

from ...night import supervision
from ...store.sessions import Case, read_report
from .. import measuring
from .elimination import MOST_ROUNDS, Survivors, eliminate, is_decided
from .state import Round, TuneState
from .times import ALL_SIZES, Times, Usage

#: Repeats of a round: the fewest whose spread says something.
REPEATS = 4
#: Seconds that a launch of all sizes times its calls for, round by round: later ones have fewer algorithms and sizes left.
LAUNCH_S = (0.3, 1.0, 2.0, 3.0, 3.0, 3.0)
#: Seconds that a launch is taken to last beside its calls before any was seen, and a session beside its launches.
OVERHEAD_S, SESSION_S = 0.7, 10.0
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
    :param survivors: what is still to be measured; by :data:`ALL_SIZES` where one algorithm is chosen for all.
    :param messages: collective to algorithm to message size to what one call sends (:mod:`.algorithms.counts`).
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
        """Measured sizes to an application's calls; empty where one size counts as the paper has it."""
        return self.usage.weights(collective, self.times[collective].sizes) if self.usage else {}

    def table(self, collective: str) -> Times:
        """Times by size, or of all sizes together where one algorithm is chosen for them."""
        found = self.times[collective]
        return found if self.tuning.find(collective).by_size else found.as_one(self.weights(collective) or None)

    def take(self, session: str, cases: Mapping[str, Case], asked: Iterable[str]) -> None:
        """Add a round, and leave out what is clearly slower.

        :param asked: the collectives that it measured.
        """
        for collective in asked:
            case = cases.get(collective)
            why = measuring.why_unusable(case)
            if case is not None:
                self._take_labels(collective, case)
            if why or case is None:
                self.unusable[collective] = why
                continue
            self.unusable.pop(collective, None)
            self.times.setdefault(collective, Times(collective)).add(session, case.samples)
        for collective in self.times:
            table = self.table(collective)
            if collective not in self.survivors:
                self.survivors[collective] = {size: tuple(table.words(size)) for size in table.sizes}
        tables = {name: (self.table(name), self.survivors[name]) for name in self.times}
        self.survivors = eliminate(tables)

    def _take_labels(self, collective: str, case: Case) -> None:
        labels = case.condition.get("algorithms")
        for word, row in labels.items() if isinstance(labels, Mapping) else ():
            if row.get("why") and "not started" not in str(row["why"]):
                self.state.refused.setdefault(collective, {})[word] = str(row["why"])
            if row.get("messages"):
                self.messages.setdefault(collective, {})[word] = row["messages"]

    def open(self) -> dict[str, str]:
        """Collective to what the next round measures, in the words of the test; without those that are decided."""
        found = {}
        for collective, words in self.state.algorithms.items():
            refused = self.state.refused.get(collective, {})
            survivors = self.survivors.get(collective)
            if self.rounds_of(collective) >= (MOST_TRIES if survivors is None else MOST_ROUNDS):
                continue
            if survivors is None:
                asked = [Wish(word) for word in words if word not in refused]
            elif is_decided(survivors):
                continue
            else:
                asked = _wishes(survivors, [word for word in words if word not in refused])
            if len(asked) > 1:
                found[collective] = "+".join(map(str, asked))
        return found

    def rounds_of(self, collective: str) -> int:
        """How often a collective was measured."""
        return sum(collective in each.asked for each in self.state.rounds)


def _wishes(survivors: Survivors, words: Sequence[str]) -> list[Wish]:
    """Each algorithm with the sizes at which more than one is left beside the library's own choice."""
    open_sizes = [size for size, there in survivors.items() if len([each for each in there if each != DEFAULT]) > 1]
    found = []
    for word in words:
        sizes = tuple(size for size in open_sizes if word in survivors[size] and size != ALL_SIZES)
        if sizes or (open_sizes == [ALL_SIZES] and word in survivors[ALL_SIZES]):
            found.append(Wish(word, () if sizes == tuple(survivors) else sizes))
    return found


def resume(tuning: Tuning, state: TuneState, folder: Path, usage: Usage | None = None) -> Race:
    """The race as far as its rounds went.

    :raises BadInput: a report is gone or damaged.
    """
    race = Race(tuning, state, usage=usage)
    for each in state.rounds:
        session = read_report(folder / each.report)
        race.take(session.uuid, measuring.cases_of(session, tuple(each.asked)), each.asked)
    return race


def go_on(race: Race, base: measuring.Order, folder: Path, limit_s: float, say: Callable[[str], None]) -> Race:
    """Measure until all is decided, each collective had :data:`elimination.MOST_ROUNDS` rounds, or no further round fits.

    All collectives have their first round before any has its second. Where they do not fit into one session, those asked for
    first come first.

    :param limit_s: seconds there are for it.
    :raises BadInput: nothing of the first round can be used.
    """
    limit_s += base.clock.spent_s
    while left := race.open():
        number = min(race.rounds_of(name) for name in left)
        rest = limit_s - base.clock.spent_s
        asked = pick(race, {name: words for name, words in left.items() if race.rounds_of(name) == number}, number, rest)
        session = len(race.state.rounds) + 1
        expected = predict(race, asked, number)
        if rest <= 0 or (race.state.rounds and expected > rest):
            say(f"round {session} would take about {expected:.0f} s, and {max(rest, 0):.0f} s of the budget are left")
            break
        say(f"round {session}: {_cost(race, asked)[0]} algorithms of {', '.join(asked)}, about {expected:.0f} s")
        order = replace(base, algorithms=asked, repeats=REPEATS, seconds=LAUNCH_S[number], show=not number)
        try:
            ran = measuring.run(order, folder, f"round_{session}", rest)
        except supervision.OutOfTime:
            say(f"round {session} was not done when the budget was used up, and is not used")
            break
        cases = measuring.cases_of(ran.session, tuple(asked))
        unusable = {name: why for name in asked if (why := measuring.why_unusable(cases.get(name)))}
        if ran.late:
            # What was ended with it is not a try of its own: a tuning that goes on measures it.
            asked = {name: words for name, words in asked.items() if name not in unusable}
            if not asked:
                say(f"round {session} was not done when the budget was used up, and is not used")
                break
            say(f"round {session} was not done when the budget was used up; of it is used: {', '.join(asked)}")
        elif len(unusable) == len(asked) and session == 1:
            name = next(iter(asked))
            raise BadInput(f"nothing of the first round can be used: {name}: {unusable[name].rstrip('.')}.")
        race.state.rounds.append(Round(f"round_{session}.json", asked, ran.seconds, LAUNCH_S[number]))
        race.take(ran.session.uuid, cases, asked)
        race.state.write(folder)
        if ran.waited_s > WORTH_SAYING_S:
            say(f"round {session} waited {ran.waited_s:.0f} s for its nodes, which are not of the budget")
        for collective in asked:
            if said := race.unusable.get(collective):
                say(f"{collective}: not used: {said}")
        if ran.late:
            break
    if unmeasured := [name for name in race.open() if not race.rounds_of(name)]:
        say(f"not measured within the budget: {', '.join(unmeasured)}")
    return race


def pick(race: Race, asked: Mapping[str, str], number: int, rest_s: float) -> dict[str, str]:
    """As many collectives as fit into the seconds left, the first in any case."""
    found: dict[str, str] = {}
    for name, words in asked.items():
        if found and predict(race, {**found, name: words}, number) > rest_s:
            break
        found[name] = words
    return found


def _measured(race: Race, asked: Mapping[str, str]) -> dict[str, list[Wish]]:
    """What a round measures of each collective, without the algorithms that the library refused: those are not timed."""
    return {
        name: [wish for wish in Wish.parse(words) if wish.word not in race.state.refused.get(name, {})]
        for name, words in asked.items()
    }


def _cost(race: Race, asked: Mapping[str, str]) -> tuple[int, float]:
    """Launches of a repeat, and their sum where each counts as the share of the sizes that it measures."""
    launches, shares = 0, 0.0
    for name, wishes in _measured(race, asked).items():
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
        costs = [_cost(race, each.asked) for each in rounds]
        spent = sum(each.seconds - SESSION_S for each in rounds)
        own = sum(REPEATS * shares * each.launch_s for each, (_, shares) in zip(rounds, costs, strict=True))
        overhead = max(LEAST_OVERHEAD_S, (spent - own) / max(1, REPEATS * sum(launches for launches, _ in costs)))
    launches, shares = _cost(race, asked)
    return SESSION_S + REPEATS * (launches * overhead + shares * LAUNCH_S[number])


def exhaustive_s(race: Race) -> float:
    """Seconds of a sweep in which every algorithm at every size has as many and as long repeats as those left to the end.

    Each round at the rate at which its own launches went; algorithms that the library refused are in neither.
    """
    total = 0.0
    firsts: dict[str, str] = {}
    for each in race.state.rounds:
        firsts = {**each.asked, **firsts}
        made, wanted = (
            launches * OVERHEAD_S + shares * each.launch_s
            for launches, shares in (_cost(race, each.asked), _cost(race, {name: firsts[name] for name in each.asked}))
        )
        total += SESSION_S + (each.seconds - SESSION_S) * wanted / made if made else each.seconds
    return total

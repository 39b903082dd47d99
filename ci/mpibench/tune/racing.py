"""The rounds of a tuning: measure what is left, leave out what is clearly slower, until all is decided or time is up."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from reframe_tests.harness.sweep.variants import Wish
from reframe_tests.harness.tuning.model import DEFAULT, Tuning
from reframe_tests.harness.vocabulary import BadInput

from ..night import supervision
from ..results.sessions import Case, read_report
from . import measuring
from .elimination import MOST_ROUNDS, Survivors, eliminate, is_decided
from .state import Round, TuneState
from .times import ALL_SIZES, Times

#: Repeats of a round: the fewest whose spread says something.
REPEATS = 4
#: Seconds that a launch times its calls for, round by round: later ones have fewer algorithms left.
LAUNCH_S = (0.5, 1.0, 2.0, 3.0, 3.0, 3.0)
#: Seconds that a launch is taken to last beside its calls before any was seen, and a session beside its launches.
OVERHEAD_S, SESSION_S = 2.0, 15.0


@dataclass
class Race:
    """What is known of each collective.

    :param times: as :meth:`Times.add` has it.
    :param survivors: what is still to be measured; by :data:`ALL_SIZES` where one algorithm is chosen for all.
    :param messages: collective to algorithm to message size to what one call sends (:mod:`.algorithms.counts`).
    :param unusable: collective to why the last case of it was not used.
    """

    tuning: Tuning
    state: TuneState
    times: dict[str, Times] = field(default_factory=dict)
    survivors: dict[str, Survivors] = field(default_factory=dict)
    messages: dict[str, dict[str, Mapping[str, Sequence[object]]]] = field(default_factory=dict)
    unusable: dict[str, str] = field(default_factory=dict)

    def table(self, collective: str) -> Times:
        """Times by size, or of all sizes together where one algorithm is chosen for them."""
        found = self.times[collective]
        return found if self.tuning.find(collective).by_size else found.as_one()

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
            if survivors is None:
                asked = [Wish(word) for word in words if word not in refused]
            elif is_decided(survivors):
                continue
            else:
                asked = _wishes(survivors, [word for word in words if word not in refused])
            if len(asked) > 1:
                found[collective] = "+".join(map(str, asked))
        return found


def _wishes(survivors: Survivors, words: Sequence[str]) -> list[Wish]:
    """Each algorithm with the sizes at which more than one is left beside the library's own choice."""
    open_sizes = [size for size, there in survivors.items() if len([each for each in there if each != DEFAULT]) > 1]
    found = []
    for word in words:
        sizes = tuple(size for size in open_sizes if word in survivors[size] and size != ALL_SIZES)
        if sizes or (open_sizes == [ALL_SIZES] and word in survivors[ALL_SIZES]):
            found.append(Wish(word, () if sizes == tuple(survivors) else sizes))
    return found


def resume(tuning: Tuning, state: TuneState, folder: Path) -> Race:
    """The race as far as its rounds went.

    :raises BadInput: a report is gone or damaged.
    """
    race = Race(tuning, state)
    for each in state.rounds:
        session = read_report(folder / each.report)
        race.take(session.uuid, measuring.cases_of(session, tuple(each.asked)), each.asked)
    return race


def go_on(race: Race, base: measuring.Order, folder: Path, limit_s: float, say: Callable[[str], None]) -> Race:
    """Measure until all is decided, :data:`elimination.MOST_ROUNDS` rounds are made, or no further round fits.

    :param limit_s: seconds there are for it.
    """
    deadline = time.monotonic() + limit_s
    while len(race.state.rounds) < MOST_ROUNDS and (asked := race.open()):
        number = len(race.state.rounds)
        seconds = LAUNCH_S[number]
        expected = predict(race.state.rounds, asked, seconds)
        rest = deadline - time.monotonic()
        if rest <= 0 or (number and expected > rest):
            say(f"round {number + 1} would take about {expected:.0f} s, and {max(rest, 0):.0f} s of the budget are left")
            break
        launches = _launches(asked.values())
        say(f"round {number + 1}: {launches} algorithms of {len(asked)} collectives, about {expected:.0f} s")
        order = replace(base, algorithms=asked, repeats=REPEATS, seconds=seconds, show=not number)
        try:
            ran = measuring.run(order, folder, f"round_{number + 1}", rest)
        except supervision.OutOfTime:
            say(f"round {number + 1} was not done when the budget was used up, and is not used")
            break
        if ran.late:
            say(f"round {number + 1} was not done when the budget was used up; what was done is used")
        cases = measuring.cases_of(ran.session, tuple(asked))
        if all(measuring.why_unusable(cases.get(name)) for name in asked) and not number:
            name = next(iter(asked))
            raise BadInput(
                f"nothing of the first round can be used: {name}: {measuring.why_unusable(cases.get(name)).rstrip('.')}."
            )
        race.state.rounds.append(Round(f"round_{number + 1}.json", asked, ran.seconds))
        race.take(ran.session.uuid, cases, asked)
        race.state.write(folder)
        for collective, why in race.unusable.items():
            say(f"{collective}: not used: {why}")
    return race


def _launches(asked: Iterable[str]) -> int:
    return sum(len(words.split("+")) for words in asked)


def predict(rounds: Sequence[Round], asked: Mapping[str, str], seconds: float) -> float:
    """Seconds that a round is expected to take, from those before it."""
    overhead = OVERHEAD_S
    if rounds:
        spent = sum(each.seconds - SESSION_S for each in rounds)
        made = sum(_launches(each.asked.values()) * REPEATS for each in rounds)
        own = sum(_launches(each.asked.values()) * REPEATS * LAUNCH_S[at] for at, each in enumerate(rounds))
        overhead = max(0.3, (spent - own) / made)
    return SESSION_S + _launches(asked.values()) * REPEATS * (overhead + seconds)


def exhaustive_s(race: Race) -> float:
    """Seconds that as many repeats of all algorithms at all sizes would have taken, at the launches' own lengths."""
    rounds = race.state.rounds
    if not rounds:
        return 0.0
    first = _launches(rounds[0].asked.values())
    return sum(SESSION_S + (each.seconds - SESSION_S) * first / max(1, _launches(each.asked.values())) for each in rounds)

"""The answer for one machine: who is accused, what could not be decided, and what a healthy machine is known to have."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np
import scipy.stats

from reframe_tests.harness.instruments.pairs.pair_values import MEAN
from reframe_tests.harness.vocabulary import HIGHER, QUANTITIES, BadInput

from . import baseline, effects, guesses, search, suspects
from .baseline import PairClass, Residuals
from .effects import Accused
from .observations import Flags, Floats, Observations, Places
from .suspects import BOTH, LINK, RECEIVES, SENDS, SWITCH, UPLINK

#: Loss that is called slow at least, in percent: of a bandwidth (ClusterKit's bound), and what a latency takes longer.
MARGINS_PERCENT: Mapping[str, float] = MappingProxyType(
    {"bandwidth_mb_per_s": 7.0, "latency_us": 25.0, "latency_mean_us": 25.0}
)
OTHER_MARGIN_PERCENT = 10.0
#: Share of all values that are slow by so many margins and accuse nobody, from which on nobody can be called healthy.
_MOST_LEFT_OVER, _LEFT_OVER = 0.05, 4.0
#: Probability of so many pairs that are slow each time if slow values were anywhere, from which on that is no chance.
_BY_CHANCE = 0.01
#: Parts of the rate that a quantity has; one that is not here has one. A mean says little that the median does not.
_PARTS: Mapping[str, int] = MappingProxyType({"bandwidth_mb_per_s": 2})


@dataclass(frozen=True)
class Part:
    """What one quantity shows.

    :param floor: of a node that is slow in all of its pairs, the smallest loss (as a factor of time) that would have been
        accused; ``None``: none would have been.
    :param kinds: nodes of a second kind, as used.
    """

    seen: Observations
    residuals: Residuals
    places: Places
    findings: tuple[Accused, ...]
    tests: int
    rate: float
    floor: float | None
    kinds: Mapping[str, str]


@dataclass(frozen=True)
class Localisation:
    """The whole answer.

    :param findings: who is accused, the worst first.
    :param inconclusive: sentences on what could not be decided: with these nobody can be called healthy.
    :param notes: sentences for the reader.
    :param evident: node to a sentence on what is wrong with it whatever its times are: it stopped answering, its link is set
        otherwise than all others.
    :param facts: of accused nodes, sentences on what else is unlike others.
    """

    parts: tuple[Part, ...]
    places: Places
    findings: tuple[Accused, ...]
    inconclusive: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    evident: Mapping[str, str] = field(default_factory=dict)
    facts: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def nodes(self) -> tuple[str, ...]:
        """All nodes that were measured."""
        return tuple(dict.fromkeys(node for part in self.parts for node in part.seen.nodes))

    @property
    def accused(self) -> tuple[str, ...]:
        """Nodes that are accused, the worst first."""
        return tuple(dict.fromkeys([*self.evident, *(node for finding in self.findings for node in finding.nodes)]))

    @property
    def is_accusing(self) -> bool:
        """Whether anybody or anything is accused."""
        return bool(self.findings or self.evident)


def judge(
    observed: Sequence[Observations],
    places: Places,
    kinds: Mapping[str, str],
    *,
    rate: float = search.RATE,
    margins_percent: Mapping[str, float] = MARGINS_PERCENT,
    oversubscribed: bool | None = None,
) -> Localisation:
    """Judge all quantities of a map; the rate of innocents is that of all of them together.

    :param places: where nodes are plugged in; where nothing is known groups are sought in the map.
    :param kinds: node to its kind, where it is known that there are several; else two are sought in the map.
    :param oversubscribed: whether links between switches are meant to be slower than what is below them; ``None``: unknown.
    :raises BadInput: rate or margin is none.
    """
    if not 0 < rate < 1:
        raise BadInput(f"the rate of innocents accused per run is {rate:g}, expected a number between 0 and 1.")
    notes: list[str] = []
    if not places.switches:
        guessed = next((found for seen in observed if (found := guesses.groups(seen))), None)
        if guessed:
            places = guessed
            notes.append(_groups_text(places))
    inconclusive: list[str] = []
    parts = []
    whole = sum(_PARTS.get(seen.quantity, 1) for seen in observed)
    for seen in observed:
        margin = margin_of(seen.quantity, margins_percent)
        full_rate = oversubscribed is False and seen.directed
        part, doubts = _judge_one(seen, places, kinds, rate * _PARTS.get(seen.quantity, 1) / whole, margin, full_rate=full_rate)
        parts.append(part)
        slower, said = _across_switches(part, margin, oversubscribed)
        # Of who stands still now and then the mean tells more than the median, and on a busy machine nothing.
        inconclusive += slower if seen.quantity == MEAN else [*doubts, *slower]
        notes += [*said, *(doubts if seen.quantity == MEAN else ())]
    rows = effects.without_echoes(effects.gather([part.findings for part in parts]))
    return Localisation(tuple(parts), places, tuple(rows), tuple(inconclusive), tuple(notes))


def margin_of(quantity: str, margins_percent: Mapping[str, float]) -> float:
    """Margin of a quantity on the log scale, as a factor of time.

    :raises BadInput: it is not a percentage that can be lost.
    """
    percent = margins_percent.get(quantity, OTHER_MARGIN_PERCENT)
    lost = QUANTITIES[quantity].direction == HIGHER
    if not 0 < percent < (100 if lost else math.inf):
        raise BadInput(f"the margin of {quantity} is {percent:g} %, expected a loss above 0 % that can be had.")
    return -math.log1p(-percent / 100) if lost else math.log1p(percent / 100)


def _judge_one(
    seen: Observations, places: Places, kinds: Mapping[str, str], rate: float, margin: float, *, full_rate: bool
) -> tuple[Part, list[str]]:
    doubts = []
    if not kinds:
        kinds = guesses.slower_kind(seen, margin, places)
        if kinds:
            doubts.append(_kinds_text(seen, kinds))
    all_suspects = suspects.of_map(seen, places)
    ends = (seen.source, seen.target)

    def ask(*, drifting: bool) -> tuple[Residuals, search.Verdict]:
        found = baseline.residuals(seen, places, kinds, full_rate=full_rate, drifting=drifting)
        # What comes and goes for all is the same for all of a moment only.
        alike = baseline.numbered_together(found.stratum, seen.moment) if drifting else found.stratum
        usable = ~baseline.too_small(found)
        columns = (all_suspects, found.excess, alike, seen.moment)
        return found, search.search(*columns, margin=margin, rate=rate, usable=usable, ends=ends, held=found.held)

    found, verdict = ask(drifting=False)
    if baseline.drifts(found.excess, seen.moment, verdict.rest, margin):
        found, verdict = ask(drifting=True)
    if verdict.unexplained:
        doubts.append(_unexplained_text(seen, verdict))
    accusations, islands = effects.without_islands(seen, found, all_suspects, verdict.accusations, margin)
    doubts += [_island_text(seen, names, way, places) for names, way in islands]
    left = _lasting(seen, verdict.rest & (found.excess > _LEFT_OVER * margin))
    if left.sum() > _MOST_LEFT_OVER * len(seen) and not islands:
        doubts.append(_left_over_text(seen, left, found.excess, places))
    if verdict.floor is None or len(seen.nodes) == 2:
        doubts.append(_blind_text(seen, verdict, found.excess, margin))
    rows = effects.findings(seen, found, all_suspects, accusations)
    floor = None if verdict.floor is None else math.exp(verdict.floor)
    return Part(seen, found, places, tuple(rows), verdict.tests, rate, floor, kinds), doubts


def _title(seen: Observations) -> str:
    return QUANTITIES[seen.quantity].title


def _blind_text(seen: Observations, verdict: search.Verdict, excess: Floats, margin: float) -> str:
    if len(seen.nodes) == 2:
        return f"{_title(seen)}: of two nodes there is one pair, and nothing to hold it against: measure three nodes or more"
    rounds = len(set(seen.moment.tolist()))
    slow = 100 * float((excess > search.LADDER[-1] * margin).mean())
    times = math.exp(search.LADDER[-1] * margin)
    why = f"{slow:.0f} % of all values are {times:.2g} times as slow as healthy ones, and with these " if slow >= 1 else ""
    return (
        f"{_title(seen)}: {why}{rounds} rounds of {len(seen.nodes)} nodes are too few to accuse a node "
        f"at {verdict.rate:.2g} innocents a run: measure more rounds (-S orders=)"
    )


def _unexplained_text(seen: Observations, verdict: search.Verdict) -> str:
    pairs = list(dict.fromkeys("-".join(sorted(one.names)) for one in verdict.unexplained))
    shown = ", ".join(pairs[:5]) + (", ..." if len(pairs) > 5 else "")
    return (
        f"{_title(seen)}: {len(pairs)} pairs ({shown}) are slow, and nobody is accused of that: more is wrong than this map "
        "can tell apart: repair what is known and measure again, or measure more rounds (-S orders=)"
    )


def _fitting_text(places: Places) -> str:
    """What to do where the switches may be others than was said."""
    if not places.switches:
        return "describe the switches (-S switches=FILE)"
    return (
        "the switches guessed from the map may be others"
        if places.guessed
        else f"see whether the switches ({places.origin}) are right"
    )


def _island_text(seen: Observations, names: Sequence[str], way: str, places: Places) -> str:
    shown = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
    verb = {SENDS: "send slowly to", RECEIVES: "receive slowly from", BOTH: "are slow with"}[way]
    return (
        f"{_title(seen)}: {shown} {verb} others and not to one another, so that it is no fault of each: what joins them to the "
        f"others is slow, and no known switch has just these nodes: {_fitting_text(places)}"
    )


def _lasting(seen: Observations, slow: Flags) -> Flags:
    """Slow values of pairs that are slow whenever they were measured, twice at least; none where as many are so by chance."""
    first, second = seen.source, seen.target
    if not seen.directed:
        first, second = np.minimum(first, second), np.maximum(first, second)
    pair = baseline.numbered_together(first, second)
    count, hits = np.bincount(pair), np.bincount(pair[slow], minlength=int(pair.max()) + 1)
    lasting = (count == hits) & (count > 1)
    by_chance = float((slow.mean() ** count[count > 1]).sum())
    if scipy.stats.poisson.sf(int(lasting.sum()) - 1, by_chance) > _BY_CHANCE:
        return np.zeros_like(slow)
    there: Flags = lasting[pair]
    return there


def _left_over_text(seen: Observations, left: Flags, excess: Floats, places: Places) -> str:
    times = math.exp(float(np.median(excess[left])))
    return (
        f"{_title(seen)}: {100 * left.sum() / len(seen):.0f} % of all values are {times:.2g} times as slow as healthy ones, "
        f"and no node, switch, link or pair explains them: {_fitting_text(places)}, and measure more rounds (-S orders=)"
    )


def _kinds_text(seen: Observations, kinds: Mapping[str, str]) -> str:
    slow = [node for node in seen.nodes if node in kinds]
    shown = ", ".join(slow[:8]) + (", ..." if len(slow) > 8 else "")
    return (
        f"{_title(seen)}: {len(slow)} of {len(seen.nodes)} nodes ({shown}) are alike and slower in all pairs: of another kind, "
        "or all wrong alike; a guess from the map: give each kind a partition of its own, or name one (--kind)"
    )


def _groups_text(places: Places) -> str:
    names: dict[str, list[str]] = {}
    for node, path in places.switches.items():
        names.setdefault(path[0], []).append(node)
    rows = [f"{name} = {', '.join(nodes[:8])}{', ...' if len(nodes) > 8 else ''}" for name, nodes in names.items()]
    shown = "; ".join(rows[:8]) + (f"; {len(rows) - 8} more" if len(rows) > 8 else "")
    return f"no switches are described; a guess from the map: {len(names)} groups of nodes ({shown})"


def _across_switches(part: Part, margin: float, oversubscribed: bool | None) -> tuple[list[str], list[str]]:
    """What is said where all pairs across switches are slower than those below one: inconclusive, or a note."""
    if not part.seen.directed:
        return [], []
    near = {level.kinds: level for level in part.residuals.levels if level.distance == 0}
    far = [level for level in part.residuals.levels if level.distance > 0 and level.kinds in near]
    slower = [(level, level.slowness - near[level.kinds].slowness) for level in far]
    slower = [(level, loss) for level, loss in slower if loss > margin]
    between = any(finding.kind in (LINK, UPLINK, SWITCH) for finding in part.findings)
    if not slower or oversubscribed or (oversubscribed is False and between):
        return [], []
    worst, loss = max(slower, key=lambda row: row[1])
    text = _level_text(part, worst, loss)
    if oversubscribed is False:
        return [f"{text}, at full rate by design: these are too few to say which uplink: measure more rounds (-S orders=)"], []
    if len({part.places.leaf(node) for node in part.seen.nodes}) > 2:
        return [], [f"{text}: the links between switches are oversubscribed, or all slow alike"]
    return [f"{text}: the uplink is slow, or oversubscribed by design: say which (--oversubscribed, --full-rate)"], []


def _level_text(part: Part, level: PairClass, loss: float) -> str:
    busy = f" with {level.load} on an uplink at once" if level.load else ""
    return f"{_title(part.seen)}: pairs across switches{busy} reach {100 * math.exp(-loss):.0f} % of those below one switch"

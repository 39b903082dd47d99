"""The answer for one map: what is flagged, how slow it is, what could not be decided, and what was
guessed about the machine.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

import numpy as np
import scipy.cluster.hierarchy
import scipy.sparse.csgraph
import scipy.spatial.distance
import scipy.stats

from reframe_tests.harness.instruments.pairs.pair_values import LATENCY, MEAN
from reframe_tests.harness.printable import plural
from reframe_tests.harness.vocabulary import HIGHER, QUANTITIES, BadInput

from . import search
from .findings import FLIPPED, Direction, Flagged, MapJudgement, QuantityFindings
from .maps import (
    BOTH,
    LINK,
    NODE,
    PAIR,
    RECEIVES,
    SENDS,
    SWITCH,
    UPLINK,
    Flags,
    Floats,
    Observations,
    Places,
    Suspect,
    grouped,
    listed,
    numbered,
)
from .search import ALL, Detection, Residuals, Verdict

#: Loss that is called slow at least, in percent: of a bandwidth
#: (ClusterKit's bound), and what a latency takes longer.
MARGINS_PERCENT: Mapping[str, float] = MappingProxyType(
    {"bandwidth_mb_per_s": 7.0, "latency_us": 25.0, "latency_mean_us": 25.0}
)
_OTHER_MARGIN_PERCENT = 10.0
#: Share of all values that are slow by so many margins and flag nothing,
#: from which on nobody can be called healthy.
_MOST_LEFT_OVER = 0.01
_LEFT_OVER = 4.0
#: Share of what crosses a switch or link that must be slow where half
#: as much of all else that crosses others is.
_WHOLE = 0.9
#: Probability of so many pairs that are slow each time if slow values
#: were anywhere, from which on that is no chance.
_BY_CHANCE = 0.01
#: Parts of the rate that a quantity has; one that is not here has one. A
#: mean says little that the median does not.
_PARTS: Mapping[str, int] = MappingProxyType({"bandwidth_mb_per_s": 2})
#: Confidence of the interval of an effect.
_CONFIDENCE = 0.95


def judge(
    observed: Sequence[Observations],
    places: Places,
    kinds: Mapping[str, str],
    *,
    rate: float = search.RATE,
    margins_percent: Mapping[str, float] = MARGINS_PERCENT,
    oversubscribed: bool | None = None,
) -> MapJudgement:
    """Judge all quantities of a map; the rate of false positives is that of all of them together.

    :param places: where nodes are plugged in; where nothing is known groups are sought in the map.
    :param kinds: node to its kind, where it is known that there are
        several; else two are sought in the map.
    :param oversubscribed: whether links between switches are meant to be
        slower than what is below them; ``None``: unknown.
    :raises BadInput: rate or margin is none.
    """
    if not 0 < rate < 1:
        raise BadInput(
            "bad-option",
            f"the rate of false positives is {rate:g}; give a number between 0 and 1.",
        )
    notes = list[str]()
    inconclusive = list[str]()
    parts = list[QuantityFindings]()
    if not places.switches and (
        guessed := next((found for seen in observed if (found := groups(seen))), None)
    ):
        places = guessed
        names: dict[str, list[str]] = {}
        for node, path in places.switches.items():
            names.setdefault(path[0], []).append(node)
        rows = [f"{name} = {listed(nodes)}" for name, nodes in names.items()]
        shown = "; ".join(rows[:8]) + (f"; {len(rows) - 8} more" if len(rows) > 8 else "")
        notes.append(
            f"no switches are described; guessed from the map: {len(names)} groups of nodes "
            f"({shown})"
        )
    whole = sum(_PARTS.get(seen.quantity, 1) for seen in observed)
    for seen in observed:
        margin = margin_of(seen.quantity, margins_percent)
        full_rate = oversubscribed is False and seen.directed
        part, doubts = _judge_one(
            seen,
            places,
            kinds,
            rate * _PARTS.get(seen.quantity, 1) / whole,
            margin,
            full_rate=full_rate,
        )
        parts.append(part)
        slower, said = _across_switches(part, margin, oversubscribed)
        # Of who stands still now and then the mean tells more than the
        # median, and on a busy machine nothing.
        inconclusive += slower if seen.quantity == MEAN else [*doubts, *slower]
        notes += [*said, *(doubts if seen.quantity == MEAN else ())]
        slow = 100 * float((part.residuals.excess > _LEFT_OVER * margin).mean())
        if slow > 100 * _MOST_LEFT_OVER and not part.findings and not doubts:
            notes.append(
                f"{seen.title}: {slow:.0f} % of all values are slow, in no pattern: other traffic, "
                "or a path between switches that was measured too rarely"
            )
    findings = [finding for part in parts for finding in part.findings]
    if not places.switches and len({one.names for one in findings if one.kind == NODE}) > 1:
        notes.append(
            "no switches are known: flagged nodes may share a slow switch (-S switches=FILE)"
        )
    # What the mean latency shows as well as the latency is said once;
    # what flags one thing stands together.
    late = {finding.thing for finding in findings if finding.quantity == LATENCY}
    things = list(dict.fromkeys(finding.thing for finding in findings))
    kept = [
        finding for finding in findings if finding.quantity != MEAN or finding.thing not in late
    ]
    kept.sort(key=lambda one: things.index(one.thing))
    return MapJudgement(tuple(parts), places, tuple(kept), tuple(inconclusive), tuple(notes))


def margin_of(quantity: str, margins_percent: Mapping[str, float]) -> float:
    """Margin of a quantity on the log scale, as a factor of time.

    :raises BadInput: it is not a percentage that can be lost.
    """
    percent = margins_percent.get(quantity, _OTHER_MARGIN_PERCENT)
    lost = QUANTITIES[quantity].direction == HIGHER
    if not 0 < percent < (100 if lost else math.inf):
        raise BadInput(
            "configuration-unusable",
            f"the margin of {quantity} is {percent:g} %, give a possible loss above 0 %.",
        )
    return -math.log1p(-percent / 100) if lost else math.log1p(percent / 100)


def _judge_one(
    seen: Observations,
    places: Places,
    kinds: Mapping[str, str],
    rate: float,
    margin: float,
    *,
    full_rate: bool,
) -> tuple[QuantityFindings, list[str]]:
    """What one quantity shows, and sentences on what cannot be decided by it."""
    doubts = []
    if not kinds and (kinds := slower_kind(seen, margin, places)):
        slow = [node for node in seen.nodes if node in kinds]
        doubts.append(
            f"{len(slow)} of {len(seen.nodes)} nodes ({listed(slow)}) are alike and slower in all "
            "pairs: a different kind of node, or the same fault on all; guessed from the map: give "
            "each kind a partition of its own, or name one (--kind)"
        )
    suspects = search.of_map(seen, places)

    def ask(*, drifting: bool) -> tuple[Residuals, Verdict]:
        found = search.residuals(seen, places, kinds, full_rate=full_rate, drifting=drifting)
        # What comes and goes for all is the same for all of a moment only.
        stratum = (
            search.numbered_together(found.stratum, seen.moment) if drifting else found.stratum
        )
        columns = (suspects, found.excess, stratum, seen.moment)
        ends = (seen.source, seen.target)
        usable = (np.bincount(found.stratum) >= search.LEAST_OF_A_CLASS)[found.stratum]
        return found, search.Search(
            *columns, margin=margin, rate=rate, usable=usable, ends=ends, held=found.held
        ).run()

    found, verdict = ask(drifting=False)
    excess = found.excess
    if search.drifts(excess, seen.moment, verdict.rest, margin):
        found, verdict = ask(drifting=True)
        excess = found.excess
    if verdict.unexplained:
        pairs = list(
            dict.fromkeys("-".join(sorted(suspect.names)) for suspect in verdict.unexplained)
        )
        doubts.append(
            f"slow, and nothing is flagged for it: {plural(len(pairs), 'pair')} "
            f"({listed(pairs, 5)}); more is wrong than this map can tell apart: repair what is "
            "known and measure again, or measure more rounds (-S orders=)"
        )
    detections, islands = _without_islands(seen, found, verdict.detections, margin)
    for names, way in islands:
        verb = {SENDS: "send slowly to", RECEIVES: "receive slowly from", BOTH: "are slow with"}[
            way
        ]
        doubts.append(
            f"{listed(names)} {verb} others and not to one another, so the fault is what joins "
            "them to the others, and no known switch has exactly these nodes: "
            f"{_fitting_text(places)}"
        )
    detections, others = _without_elsewhere(seen, excess, places, detections, margin)
    for who, why in others:
        doubts.append(f"{listed(who)} {'is' if len(who) == 1 else 'are'} slow {why}")
    left = _lasting(seen, places, verdict.rest & (excess > _LEFT_OVER * margin))
    if left.sum() > _MOST_LEFT_OVER * len(seen) and not islands and not others:
        doubts.append(
            f"{100 * left.sum() / len(seen):.0f} % of all values are "
            f"{math.exp(float(np.median(excess[left]))):.2g} times as slow as healthy ones, and "
            f"no node, switch, link or pair explains them: {_fitting_text(places)}, and measure "
            "more rounds (-S orders=)"
        )
    if len(seen.nodes) == 2:
        doubts.append(
            "two nodes are one pair, with nothing to compare it to: measure three nodes or more"
        )
    elif verdict.floor is None:
        most = search.LADDER[-1] * margin
        slower = 100 * float((excess > most).mean())
        values = (
            f"{slower:.0f} % of all values are {math.exp(most):.2g} times as slow as healthy "
            "ones, and with these "
        )
        doubts.append(
            f"{values if slower >= 1 else ''}{len(np.unique(seen.moment))} rounds of "
            f"{len(seen.nodes)} nodes are too few to flag a node at {rate:.2g} false positives a "
            "run: measure more rounds (-S orders=)"
        )
    directions = [direction_of(seen, excess, detection) for detection in detections]
    floor = None if verdict.floor is None else math.exp(verdict.floor)
    part = QuantityFindings(
        seen, found, places, tuple(_findings(seen.quantity, directions)), verdict.tests, rate, floor
    )
    return part, [f"{seen.title}: {doubt}" for doubt in doubts]


def _fitting_text(places: Places) -> str:
    """What to do where the switches may be others than was said."""
    if not places.switches:
        return "describe the switches (-S switches=FILE)"
    if places.guessed:
        return "the switches guessed from the map may be wrong"
    return f"check the switches ({places.origin})"


def _across_switches(
    part: QuantityFindings, margin: float, oversubscribed: bool | None
) -> tuple[list[str], list[str]]:
    """What is said where all pairs across switches are slower than
    those below one: inconclusive, or a note.
    """
    near = {level.kinds: level.slowness for level in part.residuals.levels if level.distance == 0}
    far = [level for level in part.residuals.levels if level.distance > 0 and level.kinds in near]
    slower = [
        (loss, level.load) for level in far if (loss := level.slowness - near[level.kinds]) > margin
    ]
    between = any(finding.kind in (LINK, UPLINK, SWITCH) for finding in part.findings)
    if (
        not part.seen.directed
        or not slower
        or oversubscribed
        or (oversubscribed is False and between)
    ):
        return [], []
    loss, load = max(slower, key=lambda row: row[0])
    busy = f" with {load} on an uplink at once" if load else ""
    text = (
        f"{part.seen.title}: pairs across switches{busy} reach {100 * math.exp(-loss):.0f} % of "
        "those below one switch"
    )
    if oversubscribed is False:
        return [
            f"{text}, at full rate by design: too few values to say which uplink: measure more "
            "rounds (-S orders=)"
        ], []
    if len({part.places.leaf(node) for node in part.seen.nodes}) > 2:
        return [], [f"{text}: the links between switches are oversubscribed, or all equally slow"]
    return [
        f"{text}: the uplink is slow, or oversubscribed by design; say which (--oversubscribed, "
        "--full-rate)"
    ], []


def _lasting(seen: Observations, places: Places, slow: Flags) -> Flags:
    """Slow values of what is slow whenever it was measured, twice at least; nothing where as many
    are so by chance: pairs, and ways from a switch to a node, which are one wherever tables of
    switches say to whom a message goes and not from whom.
    """
    many = len(seen.nodes)
    found = np.zeros_like(slow)
    leaf = numbered([places.leaf(node) or node for node in seen.nodes])[1]
    inside = leaf[seen.source] == leaf[seen.target]
    share = [slow[there].mean() if there.any() else 0.0 for there in (inside, ~inside)]
    for codes in (
        seen.pairs(seen.source.astype(np.int64), seen.target.astype(np.int64), many),
        leaf[seen.source].astype(np.int64) * many + seen.target,
        inside.astype(np.int64) * many + seen.target,
    ):
        _, way = search.numbered_codes(codes)
        count = np.bincount(way)
        hits = np.bincount(way[slow], minlength=len(count))
        lasting = (count == hits) & (count > 1)
        # All of one way are inside, or none.
        own = np.zeros(len(count), dtype=bool)
        own[way] = inside
        by_chance = float((np.where(own, *share) ** count)[count > 1].sum())
        if scipy.stats.poisson.sf(int(lasting.sum()) - 1, by_chance) <= _BY_CHANCE:
            found |= lasting[way]
    return found


def _without_islands(
    seen: Observations, found: Residuals, detections: Sequence[Detection], margin: float
) -> tuple[list[Detection], list[tuple[tuple[str, ...], str]]]:
    """Detections without nodes that are slow with others only, and these
    nodes together, each time with their direction.

    Two nodes that send slowly do so to each other, too. Several that are slow with others and not
    with one another are below something slow that no description has, and none of them is flagged.
    """
    many = len(seen.nodes)
    # Pairs that were measured with each other and were not slow in either direction.
    codes, starts, counts, values = grouped(
        seen.source.astype(np.int64) * many + seen.target, found.excess
    )
    slow = (values[starts + (counts - 1) // 2] + values[starts + counts // 2]) / 2 > margin
    fast = np.zeros((many, many), dtype=bool)
    for there, is_fast in ((codes[~slow], True), (codes[slow], False)):
        fast[there // many, there % many] = fast[there % many, there // many] = is_fast
    islands: list[tuple[tuple[str, ...], str]] = []
    for way in (SENDS, RECEIVES, BOTH):
        whole = {detection.suspect for detection in detections if detection.extent == ALL}
        nodes = [at for at, name in enumerate(seen.nodes) if Suspect(NODE, (name,), way) in whole]
        _, island = scipy.sparse.csgraph.connected_components(
            fast[np.ix_(nodes, nodes)], directed=False
        )
        for number in dict.fromkeys(island.tolist()):
            names = tuple(
                seen.nodes[at] for at, mine in zip(nodes, island, strict=True) if mine == number
            )
            islands += [(names, way)] if len(names) > 1 else []
    gone = {Suspect(NODE, (name,), way) for names, way in islands for name in names}
    return [detection for detection in detections if detection.suspect not in gone], islands


def _without_elsewhere(
    seen: Observations,
    excess: Floats,
    places: Places,
    detections: Sequence[Detection],
    margin: float,
) -> tuple[list[Detection], list[tuple[list[str], str]]]:
    """Detections without those of which it may be something else that is
    slow, and these with what is said of them.

    A node, or its cable, that is slow is so with those below its own switch as well: else it may be
    a way between switches, as where one of several spines or cables is slow, which carries what is
    sent to some nodes of each leaf. Where too little was measured below its switch, others there
    tell them apart that sent to the same nodes: these took the same way. No such pairs clear the
    way to a node, as all that it receives may take one. What was measured with nodes that are on
    nobody knows what may have crossed a switch that is flagged, which has also taken along what its
    own nodes were measured in below it.
    """
    leaf = numbered([places.leaf(node) for node in seen.nodes])[1]
    known = np.array([bool(places.leaf(node)) for node in seen.nodes])
    placed = known[seen.source] & known[seen.target]
    inside = placed & (leaf[seen.source] == leaf[seen.target])
    between = (LINK, UPLINK, SWITCH)
    switch = any(detection.suspect.kind in between for detection in detections)
    bad = {
        detection.suspect.names[0] for detection in detections if detection.suspect.kind == SWITCH
    }
    below = {node for node in seen.nodes if places.leaf(node) in bad}

    def others_slow(detection: Detection) -> float:
        """Share of other traffic across the switches that is as slow."""
        others = placed & ~inside
        others[detection.observations] = False
        return float((excess[others] > detection.threshold).mean()) if others.any() else 0.0

    def is_fast_below(detection: Detection) -> bool:
        """Whether traffic below a leaf is as fast as below other leaves, whatever its moments have
        in common.
        """
        own = np.isin(np.arange(len(seen)), detection.observations) & inside
        others = inside & ~own
        if detection.suspect[::3] != (SWITCH, 0) or not (own.any() and others.any()):
            return False
        return float(np.median(seen.slowness[own]) - np.median(seen.slowness[others])) <= margin

    def is_its_own(detection: Detection) -> bool:
        """Whether a node that is slow with others than those below its own switch is so itself."""
        mine = detection.observations
        own, far = mine[inside[mine]], mine[~inside[mine]]
        worse = excess[far][excess[far] > detection.threshold]
        (name,), way = detection.suspect.names, detection.suspect.way
        if not places.leaf(name) or not len(worse):
            return True
        # Nothing on the way of the near ones hides a part of it.
        slow = excess > max(detection.threshold, float(np.median(worse)) / 2)
        share = slow[far].mean()
        if slow[own].any() and slow[own].mean() >= share / 2:
            return True
        if way != SENDS or (1 - share) ** len(own) <= _BY_CHANCE:
            return False
        node = seen.nodes.index(name)
        others = placed & ~inside & (leaf[seen.source] == leaf[node]) & (seen.source != node)
        others &= np.isin(seen.target, seen.target[far[slow[far]]])
        return bool(others.any()) and slow[others].mean() < share / 2

    nodes = [detection for detection in detections if detection.suspect.kind == NODE]
    shown = {detection.suspect.names for detection in nodes if is_its_own(detection)}
    elsewhere = switch or not shown.issuperset(detection.suspect.names for detection in nodes)
    kept = list[Detection]()
    across = list[str]()
    unknown = list[str]()
    unclear = list[str]()
    for detection in detections:
        suspect = detection.suspect
        mine = detection.observations
        if suspect.kind in (NODE, PAIR) and elsewhere and not placed[mine].any():
            unknown.append(" and ".join(suspect.names))
        elif suspect.kind == NODE and suspect.names[0] in below and not inside[mine].any():
            continue
        elif suspect.kind == NODE and suspect.names not in shown:
            across += suspect.names
        elif suspect.kind in between and (
            detection.slow < min(_WHOLE, 2 * others_slow(detection)) * detection.count
            or (detection.extent == ALL and is_fast_below(detection))
        ):
            unclear.append(" and ".join(suspect.names))
        else:
            kept.append(detection)
    found = [
        (
            across,
            "only with nodes below other switches, so a path between switches may be the cause: "
            "measure more pairs below one switch (-S orders=)",
        ),
        (
            unknown,
            "but its switch is unknown: the cause may be what is slow between others",
        ),
        (
            unclear,
            "in a part of its traffic, like others: one of several paths between switches is slow",
        ),
    ]
    return kept, [(list(dict.fromkeys(who)), why) for who, why in found if who]


def _findings(quantity: str, directions: Iterable[Direction]) -> list[Flagged]:
    """Directions of one thing together, the worst first."""
    gathered: dict[tuple[str, tuple[str, ...], int], list[Direction]] = {}
    for direction in directions:
        kind, names, _, level, _ = direction.suspect
        gathered.setdefault(
            (kind, tuple(sorted(names)) if kind in FLIPPED else names, level), []
        ).append(direction)
    ways = (SENDS, RECEIVES, BOTH)
    found = [
        Flagged(
            quantity,
            *thing,
            tuple(sorted(mine, key=lambda one: (ways.index(one.suspect.way), one.suspect.names))),
        )
        for thing, mine in gathered.items()
    ]
    return sorted(found, key=lambda one: (one.extent != ALL, -one.worst.times))


def direction_of(seen: Observations, excess: Floats, one: Detection) -> Direction:
    """How much slower a flagged suspect is, with an interval."""
    mine = one.observations
    slow = mine[excess[mine] > one.threshold]
    judged = mine if one.extent == ALL else slow
    # The interval of a median from order statistics, whatever the
    # distribution (Conover 1999, section 3.2).
    ordered = np.sort(excess[judged])
    place = int(scipy.stats.binom.ppf((1 - _CONFIDENCE) / 2, len(ordered), 0.5))
    low = ordered[max(0, place - 1)]
    high = ordered[min(len(ordered) - 1, len(ordered) - place)]
    is_time = seen.quantity.endswith("_us")
    slowness = seen.slowness[judged]
    source = seen.source[mine]
    target = seen.target[mine]
    many = len(seen.nodes)
    return Direction(
        suspect=one.suspect,
        extent=one.extent,
        times=float(np.exp(np.median(ordered))),
        low=float(np.exp(low)),
        high=float(np.exp(high)),
        added_us=float(np.median(np.exp(slowness) - np.exp(slowness - excess[judged])))
        if is_time
        else None,
        value=float(np.median(np.exp(slowness if is_time else -slowness))),
        slow=one.slow,
        count=one.count,
        partners=len(np.unique([source, target])) - (one.suspect.kind == NODE),
        pairs=len(np.unique(np.minimum(source, target) * many + np.maximum(source, target))),
        moments=len(np.unique(seen.moment[slow])),
        all_moments=len(np.unique(seen.moment[mine])),
        probability=one.probability,
        threshold=one.threshold,
        alike=one.alike,
    )


# What a map says of the machine where nobody wrote it down: nodes of two
# kinds, and groups of nodes. Both are guesses.

#: Nodes of a second kind, at least; fewer are faults.
_LEAST_SHARE = 0.2
_LEAST_NODES = 3
#: Quantile of the observations of a node that says whether all of them are slow.
_FASTEST = 0.15
#: Quantile of all observations of one distance that two of the faster kind reach.
_BEST = 0.1
#: The step between the kinds, at least so many times the spread within each.
_CLEAR = 4.0
#: Share of pairs of pairs, one inside groups and one across, of
#: which the inside one must be the faster.
_LEAST_DELTA = 0.9
#: Step from pairs inside to those across, at least so many times the
#: spread (between the quartiles) of those across.
_LEAST_STEP = 2.0
#: Groups are sought in maps of so many nodes, with this share of all pairs at least.
_FEWEST = 6
_MOST = 500
_LEAST_PAIRS = 0.6
_POLISHES = 10


def slower_kind(seen: Observations, margin: float, places: Places) -> dict[str, str]:
    """Nodes of a second, slower kind, each to ``slower``; empty if there is none.

    Even the fastest pairs of a node are slow for some nodes, which are too many to be faults and
    slow among themselves as well; below a slow uplink a node's pairs with its neighbours are not.
    Pairs of each combination of kinds are then a class of their own.

    :param margin: the least step between kinds, log scale.
    """
    distance = search.distances(seen, places)
    # How much slower each is than the fastest tenth of its
    # distance, which are two of the faster kind.
    excess = seen.slowness.copy()
    for value in np.unique(distance).tolist():
        excess[distance == value] -= np.quantile(seen.slowness[distance == value], _BEST)
    _, starts, counts, values = grouped(
        np.concatenate([seen.source, seen.target]), np.concatenate([excess, excess])
    )
    fastest = values[starts + np.floor((counts - 1) * _FASTEST).astype(np.intp)]
    order = np.argsort(fastest)
    ordered = fastest[order]
    least = max(_LEAST_NODES, int(np.ceil(_LEAST_SHARE * len(ordered))))
    if len(ordered) < max(2 * least, len(seen.nodes)):
        return {}
    steps = np.diff(ordered)[least - 1 : len(ordered) - least]
    cut = least + int(np.argmax(steps))
    # The larger half is the reference: of two kinds the slower one may be the majority.
    if float(steps.max()) <= max(
        margin, _CLEAR * max(_quartiles(ordered[:cut]), _quartiles(ordered[cut:]))
    ):
        return {}
    slow = np.zeros(len(ordered), dtype=bool)
    slow[order[cut:]] = True
    among = slow[seen.source] & slow[seen.target]
    leaf = numbered([places.leaf(node) for node in seen.nodes])[1]
    inside = among & (leaf[seen.source] == leaf[seen.target])
    # Nodes below one slow uplink are slow to others and not among themselves.
    if not among.any() or float(np.median(excess[inside if inside.any() else among])) <= margin:
        return {}
    return {seen.nodes[place]: "slower" for place in np.flatnonzero(slow).tolist()}


def _quartiles(values: Floats) -> float:
    """Between the first and the third."""
    low, high = np.quantile(values, [0.25, 0.75])
    return float(high - low)


def groups(seen: Observations) -> Places | None:
    """Groups of nodes whose pairs are faster; ``None`` if the map shows none.

    Average linkage (Sokal and Michener 1958) of the nodes by how slow their pairs are, the nodes'
    own effects taken out by median polish (Tukey 1977), cut at the largest step; accepted only
    where nearly all pairs inside groups are faster than those across (Cliff's delta, 1993).
    """
    count = len(seen.nodes)
    if not _FEWEST <= count <= _MOST:
        return None
    left = _pair_table(seen)
    known = np.isfinite(left)
    if known.sum() < _LEAST_PAIRS * count * (count - 1):
        return None
    for _ in range(_POLISHES):
        effect = np.nanmedian(left, axis=1)
        effect = np.where(np.isfinite(effect), effect, 0.0) / 2
        left -= effect[:, None] + effect[None, :]
    left[~np.isfinite(left)] = np.nanmedian(left)
    np.fill_diagonal(left, 0.0)
    distance = left - left.min() + 1e-9
    np.fill_diagonal(distance, 0.0)
    tree = scipy.cluster.hierarchy.linkage(
        scipy.spatial.distance.squareform(distance, checks=False), "average"
    )
    # So many groups that each has two nodes on average; the step up to a single one is a cut, too.
    steps = np.diff(tree[:, 2])[max(0, count - 1 - count // 2) :]
    if not len(steps):
        return None
    group = scipy.cluster.hierarchy.fcluster(
        tree, len(steps) - int(np.argmax(steps)) + 1, "maxclust"
    )
    same = group[:, None] == group[None, :]
    upper = np.triu(np.ones_like(same), 1).astype(bool) & known
    inside = left[same & upper]
    across = left[~same & upper]
    if np.bincount(group)[1:].min() < 2 or not len(inside) or not len(across):
        return None
    delta = 2 * scipy.stats.mannwhitneyu(across, inside).statistic / (len(inside) * len(across)) - 1
    # The fastest pairs of any map are faster than its others.
    if delta < _LEAST_DELTA or float(
        np.median(across) - np.median(inside)
    ) < _LEAST_STEP * _quartiles(across):
        return None
    names = {
        place: f"group{number}" for number, place in enumerate(dict.fromkeys(group.tolist()), 1)
    }
    return Places(
        {node: (names[place],) for node, place in zip(seen.nodes, group.tolist(), strict=True)},
        "the map",
        True,
    )


def _pair_table(seen: Observations) -> Floats:
    """Mean of both directions' median slowness of each pair,
    symmetric; ``nan`` where nothing was measured.
    """
    count = len(seen.nodes)
    table = np.full((count, count), np.nan)
    codes, starts, counts, values = grouped(seen.source * count + seen.target, seen.slowness)
    table[codes // count, codes % count] = values[starts + counts // 2]
    both = np.stack([table, table.T])
    there = np.isfinite(both)
    summed = np.where(there, both, 0.0).sum(axis=0)
    return np.where(there.any(axis=0), summed / np.maximum(there.sum(axis=0), 1), np.nan)

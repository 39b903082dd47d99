"""Rounds of disjoint pairs. Pure Python without imports of the project:
the instrument runs it under a stack's own Python.

All pairs: the circle method (round-robin tournament; Kirkman 1847): N - 1 rounds of N / 2 pairs for
an even number of nodes, N rounds for an odd one, in which each node has one round off. A sample:
random perfect matchings; where the switches are known every third round keeps pairs below one
switch as far as possible, and the others part them as far as possible.
"""

from __future__ import annotations

import random
from array import array
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any

#: Pairs of node numbers, the first of which is the first to send.
Round = list[tuple[int, int]]
#: Of so many rounds of a sample the first keeps pairs below one switch.
WITHIN_EACH = 3
#: Random draws of a round, of which the one with the fewest repeated pairs is taken.
DRAWS = 8


class Rounds(Sequence[Round]):
    """Rounds by their numbers, each made when it is asked for: a rank has no room for all pairs."""

    def __init__(self, make: Callable[[int], Round], numbers: Sequence[int]) -> None:
        self.make = make
        self.numbers = numbers

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, at: Any) -> Any:
        return self.make(self.numbers[at])


def circle_rounds(nodes: int) -> Rounds:
    """Every pair of ``nodes`` numbers once, in rounds of disjoint pairs."""
    return Rounds(partial(circle_round, nodes), range(number_of_rounds(nodes, 0)))


def circle_round(nodes: int, number: int) -> Round:
    """A round of all pairs, numbered from 0: the ring but for its first place has turned by so
    many.
    """
    ring = [*range(1, nodes + nodes % 2)]
    ring = [0, *ring[len(ring) - number :], *ring[: len(ring) - number]]
    pairs = zip(ring[: len(ring) // 2], reversed(ring), strict=False)
    turned = [
        (first, second) if (number + at) % 2 == 0 else (second, first)
        for at, (first, second) in enumerate(pairs)
    ]
    # Of an odd number of nodes the last place is nobody's.
    return [pair for pair in turned if nodes not in pair]


def matchings(leaves: Sequence[Hashable], rounds: int, seed: int) -> list[Round]:
    """Random perfect matchings of ``len(leaves)`` nodes; with an odd
    number one node has a round off, each in its turn.

    :param leaves: switch of each node; all alike where these are unknown.
    """
    draw = random.Random(seed)
    several = len(set(leaves)) > 1
    count = len(leaves)
    known: set[frozenset[int]] = set()
    off = [0] * count
    chosen: list[Round] = []
    for number in range(rounds if count > 1 else 0):
        idle = min(range(count), key=lambda node: (off[node], draw.random())) if count % 2 else -1
        there = [node for node in range(count) if node != idle]
        within = several and number % WITHIN_EACH == 0
        tries = [
            _match(there, leaves, draw, within=within, apart=several and not within)
            for _ in range(DRAWS)
        ]
        best = min(tries, key=lambda pairs: sum(frozenset(pair) in known for pair in pairs))
        known.update(map(frozenset, best))
        if idle >= 0:
            off[idle] += 1
        chosen.append(best)
    return chosen


def _match(
    nodes: Sequence[int],
    leaves: Sequence[Hashable],
    draw: random.Random,
    *,
    within: bool,
    apart: bool,
) -> Round:
    mixed = draw.sample(list(nodes), len(nodes))
    if within or apart:
        switches = list(dict.fromkeys(leaves[node] for node in mixed))
        draw.shuffle(switches)
        place = {switch: at for at, switch in enumerate(switches)}
        mixed.sort(key=lambda node: place[leaves[node]])
    if within:
        pairs = []
        left = []
        for switch in dict.fromkeys(leaves[node] for node in mixed):
            below = [node for node in mixed if leaves[node] == switch]
            left += below[len(below) // 2 * 2 :]
            pairs += list(zip(below[0::2], below[1::2], strict=False))
        draw.shuffle(left)
        pairs += list(zip(left[0::2], left[1::2], strict=True))
    else:
        half = len(mixed) // 2
        pairs = list(zip(mixed[:half], mixed[half:], strict=True))
    return [pair if draw.random() < 0.5 else pair[::-1] for pair in pairs]


def in_order(rounds: Sequence[Round], order: int, seed: int) -> Rounds:
    """The rounds as pass number ``order`` (from 1) runs them: the
    first as they are, each other one mixed.

    In even passes the other node of each pair sends first.
    """
    mixed = array("I", range(len(rounds)))
    if order > 1:
        random.Random(f"{seed} {order}").shuffle(mixed)
    if order % 2:
        return Rounds(rounds.__getitem__, mixed)
    return Rounds(lambda number: [(target, source) for source, target in rounds[number]], mixed)


def number_of_rounds(nodes: int, sampled: int) -> int:
    """Rounds of one pass: ``sampled``, or those of all pairs where that is 0 or more than these."""
    whole = nodes - 1 + nodes % 2 if nodes > 1 else 0
    return min(sampled, whole) if sampled else whole


#: Rounds that each node of a small map takes part in: fewer say little of one that is slow now and
#: then, or of a busy machine.
LEAST_PARTS = 28
LEAST_ORDERS = 2
MOST_ORDERS = 14


def usual_orders(nodes: int, sampled: int) -> int:
    """Default number of passes over all rounds."""
    # Of two nodes there is one pair, and more of it tells nothing of either.
    partners = min(sampled, nodes - 1) if sampled else nodes - 1
    return (
        LEAST_ORDERS
        if nodes < 3
        else min(MOST_ORDERS, max(LEAST_ORDERS, -(-LEAST_PARTS // partners)))
    )


def turn(nodes: int, rounds: int, day: int) -> int:
    """Place in the circle's rounds at which those of a day begin, if
    each day takes the next ``rounds`` of them.
    """
    return day * rounds % max(1, number_of_rounds(nodes, 0))


def days_of_turn(nodes: int, rounds: int) -> int:
    """Days in which each pair comes once."""
    return -(-number_of_rounds(nodes, 0) // max(1, rounds))


def make(
    leaves: Sequence[Hashable], sampled: int, seed: int, first: int = -1
) -> tuple[str, Sequence[Round]]:
    """Design (``all`` or ``sampled``) and rounds of one pass, for nodes on these switches.

    :param sampled: rounds of a sample; 0: all pairs.
    :param first: where the sample's rounds begin in those of all pairs; -1: it is drawn by chance.
    """
    rounds = number_of_rounds(len(leaves), sampled)
    whole = rounds == number_of_rounds(len(leaves), 0)
    if not whole and first >= 0:
        numbers = circle_rounds(len(leaves)).numbers
        tonight = [numbers[(first + at) % len(numbers)] for at in range(rounds)]
        return "sampled", Rounds(partial(circle_round, len(leaves)), tonight)
    return (
        ("all", circle_rounds(len(leaves)))
        if whole
        else ("sampled", matchings(leaves, rounds, seed))
    )


#: Seconds that all ranks take to report a step and begin the next: at all,
#: and for each of them. A small message and back.
STEP_S = 0.002
STEP_RANK_S = 0.0001
PING_S = 50e-6
#: The same where ranks share cores, and look for the next step as often as they are given one.
SHARED_STEP_S = 0.01
#: Seconds for which a latency is repeated at least. A processor that is stopped for 3 of each 4 ms
#: (a quota, other programs) is hardly met by 100 round trips of 5 us; in 8 ms their mean shows it.
LATENCY_S = 0.008


def cost_s(
    nodes: int,
    rounds: int,
    orders: int,
    *,
    transfer_s: float,
    pings: int,
    values: int = 1,
    one_at_a_time: bool = False,
) -> float:
    """Estimated seconds for the rounds: each has one step for latency (or one per pair, if pairs
    are measured one at a time) and two for bandwidth.

    :param rounds: of one pass; ``orders``: passes.
    :param transfer_s: seconds for the messages of one bandwidth at the line rate.
    :param pings: round trips of one latency at least; ``values``:
        latencies of a pair and direction in a round.
    """
    step = (SHARED_STEP_S if one_at_a_time else STEP_S) + nodes * STEP_RANK_S
    latencies = max(1, nodes // 2) if one_at_a_time else 1
    return (
        rounds
        * orders
        * (
            latencies * (step + 2 * values * max(pings * PING_S, LATENCY_S))
            + 2 * (step + transfer_s)
        )
    )

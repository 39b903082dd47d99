"""Rounds of disjoint pairs: everybody once in each, every pair in all, and samples that know the switches."""

from __future__ import annotations

from collections import Counter
from itertools import chain, combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from reframe_tests.harness.instruments import schedule


def members(pairs: schedule.Round) -> list[int]:
    return list(chain.from_iterable(pairs))


@given(some.integers(0, 60))
def test_all_pairs_are_there_once_in_disjoint_rounds(nodes: int) -> None:
    rounds = schedule.circle_rounds(nodes)
    assert len(rounds) == schedule.number_of_rounds(nodes, 0)
    assert Counter(frozenset(pair) for pair in chain.from_iterable(rounds)) == Counter(
        map(frozenset, combinations(range(nodes), 2))
    )
    for pairs in rounds:
        assert len(set(members(pairs))) == len(members(pairs)) == nodes // 2 * 2, "one has a round off at most"
    off = Counter(node for pairs in rounds for node in set(range(nodes)) - set(members(pairs)))
    assert set(off.values()) <= {1}, "each in its turn"


@given(some.lists(some.sampled_from("abcde"), min_size=2, max_size=40), some.integers(0, 12), some.integers(0, 10**6))
@settings(deadline=None)
def test_a_sample_is_perfect_matchings_that_know_the_switches(leaves: list[str], rounds: int, seed: int) -> None:
    found = schedule.matchings(leaves, rounds, seed)
    assert found == schedule.matchings(leaves, rounds, seed), "the seed determines it"
    assert len(found) == rounds
    nodes, sizes = len(leaves), Counter(leaves)
    for number, pairs in enumerate(found):
        assert len(set(members(pairs))) == len(members(pairs)) == nodes // 2 * 2
        alike = sum(leaves[one] == leaves[other] for one, other in pairs)
        if len(sizes) > 1 and number % schedule.WITHIN_EACH == 0:
            there = Counter(leaves[node] for node in members(pairs))
            assert alike >= sum(count // 2 for count in there.values()), "below one switch as far as that goes"
        elif len(sizes) > 1:
            there = Counter(leaves[node] for node in members(pairs))
            assert alike <= max(0, max(there.values()) - len(pairs)), "apart as far as that goes"
    off = Counter(dict.fromkeys(range(nodes), 0))
    off.update(node for pairs in found for node in set(range(nodes)) - set(members(pairs)))
    assert max(off.values()) - min(off.values()) <= 1, "rounds off are shared out"


@given(some.integers(2, 20), some.integers(1, 6), some.integers(0, 99))
def test_another_pass_has_the_same_pairs_in_another_order(nodes: int, order: int, seed: int) -> None:
    rounds = schedule.circle_rounds(nodes)
    mixed = schedule.in_order(rounds, order, seed)
    key = [sorted(tuple(sorted(pair)) for pair in pairs) for pairs in mixed]
    assert sorted(key) == sorted(sorted(tuple(sorted(pair)) for pair in pairs) for pairs in rounds)
    directed = {pair for pairs in mixed for pair in pairs}
    first = {pair for pairs in rounds for pair in pairs}
    assert directed == ({pair[::-1] for pair in first} if order % 2 == 0 else first), "in even passes the other sends first"


def test_rounds_are_mixed_from_the_second_pass_on() -> None:
    rounds = schedule.circle_rounds(16)
    assert schedule.in_order(rounds, 1, 1) == rounds
    assert schedule.in_order(rounds, 3, 1) != rounds


def test_two_nodes_are_one_round() -> None:
    assert schedule.make([(), ()], 0, 1) == ("all", [[(0, 1)]])


@pytest.mark.parametrize(
    ("nodes", "asked", "rounds"), [(16, 0, 15), (15, 0, 15), (16, 4, 4), (16, 99, 15), (1, 0, 0), (2, 5, 1)]
)
def test_how_many_rounds_are_known_in_advance(nodes: int, asked: int, rounds: int) -> None:
    assert schedule.number_of_rounds(nodes, asked) == rounds
    design, made = schedule.make(["x"] * nodes, asked, 1)
    assert len(made) == rounds
    assert design == ("sampled" if 0 < asked < schedule.number_of_rounds(nodes, 0) else "all")


def test_repeated_pairs_are_rare_in_a_sample() -> None:
    found = schedule.matchings(["x"] * 40, 12, 7)
    pairs = Counter(frozenset(pair) for pair in chain.from_iterable(found))
    assert sum(count > 1 for count in pairs.values()) < 12 * 20 // 5


def test_the_cost_grows_with_rounds_and_messages() -> None:
    def cost(nodes: int = 16, rounds: int = 15, **more: float) -> float:
        return schedule.cost_s(nodes, rounds, 2, **{"transfer_s": 0.25, "pings": 100, **more})  # type: ignore[arg-type]

    assert cost() == pytest.approx(2 * 15 * (2 * 0.25 + 2 * schedule.LATENCY_S + 3 * 0.0036))
    assert cost(pings=1000) == pytest.approx(cost() + 2 * 15 * 2 * (0.05 - schedule.LATENCY_S))
    assert cost(rounds=30) == pytest.approx(2 * cost())
    assert cost(one_at_a_time=True) > cost()


@pytest.mark.parametrize(("nodes", "rounds"), [(8, 1), (8, 3), (9, 2), (16, 4), (33, 5)])
def test_nights_in_turn_measure_every_pair(nodes: int, rounds: int) -> None:
    days = schedule.days_of_turn(nodes, rounds)
    for begin in (739_214, 739_215):
        seen = set()
        for day in range(begin, begin + days):
            design, tonight = schedule.make([()] * nodes, rounds, 1, schedule.turn(nodes, rounds, day))
            assert design == "sampled" and len(tonight) == rounds
            assert all(len({node for pair in one for node in pair}) == 2 * len(one) for one in tonight)
            seen |= {frozenset(pair) for one in tonight for pair in one}
        assert len(seen) == nodes * (nodes - 1) // 2


@pytest.mark.parametrize(
    ("nodes", "sampled", "orders"), [(2, 0, 2), (3, 0, 14), (4, 0, 10), (8, 0, 4), (16, 0, 2), (100, 4, 7)]
)
def test_small_maps_have_more_passes(nodes: int, sampled: int, orders: int) -> None:
    assert schedule.usual_orders(nodes, sampled) == orders

"""Nights chosen for lists of cases that nobody made by hand: every
case comes again in about the nights that the plan says.
"""

import itertools
from datetime import date, timedelta

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mpibench.judge.plan import choice, making
from mpibench.judge.plan.choice import EXPECTED, FAILED, TURN, Candidates
from mpibench.judge.plan.record import ListedCase
from reframe_tests.harness.sites import site

MONDAY = date(2026, 11, 23)


def listed(partition, stack, fabric, test="T", nodes=2, ppn="1"):
    return ListedCase(
        partition, f"s{stack}", f"{test} %fabric=f{fabric} %nodes={nodes} %ppn={ppn} %pinning=bunch"
    )


@st.composite
def sites(draw):
    """Some of all combinations on two partitions, with costs from
    none to thirty, and room for a part.
    """
    kinds = itertools.product(("cpu", "gpu"), range(3), range(3), ("T", "U"))
    every = st.sampled_from([listed(*values) for values in kinds])
    cases = sorted(draw(st.lists(every, min_size=1, max_size=30, unique=True)))
    shares = [draw(st.integers(0, 300)) / 10 for _ in cases]
    together = draw(st.booleans())
    expected = frozenset(number for number in range(len(cases)) if draw(st.integers(0, 9)) == 0)
    places = ["" if together else case.partition for case in cases]
    return Candidates(cases, shares, places, draw(st.floats(1.0, 120.0)), expected)


def rounds(asked, broken, number):
    """So many nights, one after the other; what is broken is not right whenever it is tried."""
    last = {}
    days = []
    found = []
    for day in (MONDAY + timedelta(days=night) for night in range(number)):
        failed = [asked.cases[one] for one in broken if asked.cases[one] in last]
        found.append(asked.choose(choice.state_of(asked.cases, days, last, failed)))
        last |= dict.fromkeys((asked.cases[one] for one in found[-1]), day)
        days.insert(0, day)
    return found


def longest_wait(nights, one):
    """Most nights from one time to the next, before the first and after the last among them."""
    times = [-1, *(at for at, chosen in enumerate(nights) if one in chosen), len(nights)]
    return max(after - before for before, after in itertools.pairwise(times))


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(sites(), st.data())
def test_every_case_comes_again_in_about_the_nights_that_the_plan_says(asked, data):
    """Also where some are broken for ever each has its turn: a night takes
    the oldest of each partition, whatever it owes.
    """
    fitting = set(range(len(asked.cases))) - asked.too_large
    within = 2 * asked.nights  # each night but the last is at least half full
    nights = rounds(asked, set(), 2 * within)
    for chosen in nights:
        assert all(spent <= asked.room + 1e-6 for spent in asked.spent(chosen).values())
        assert bool(chosen) == bool(fitting)
    assert all(longest_wait(nights, one) <= within for one in fitting)
    broken = data.draw(st.sets(st.sampled_from(range(len(asked.cases)))))
    with_failures = rounds(asked, broken, 2 * len(fitting) + 1)
    assert all(longest_wait(with_failures, one) <= len(fitting) + 1 for one in fitting)
    if max(asked.spent(fitting).values()) <= asked.room:
        assert all(chosen.keys() == fitting for chosen in with_failures) and asked.nights == 1


def test_what_was_not_right_and_what_is_expected_come_before_the_others_in_half_of_the_room():
    cases = sorted(listed("cpu", stack, 0) for stack in range(8))
    asked = Candidates(cases, [10.0] * 8, ["cpu"] * 8, 60.0, frozenset({7}))
    days = [MONDAY - timedelta(days=number) for number in range(1, 9)]
    last = dict(zip(cases, reversed(days), strict=True))  # the first is the oldest
    state = choice.state_of(cases, days, last, cases[4:7])
    assert asked.choose(state) == {0: TURN, 7: EXPECTED, 4: FAILED, 5: FAILED, 1: TURN, 2: TURN}


def test_the_stacks_of_a_condition_come_together():
    kinds = itertools.product(range(3), range(4), ("T", "U"))
    cases = sorted(listed("cpu", *values) for values in kinds)
    asked = Candidates(cases, [1.0] * 24, ["cpu"] * 24, 6.0)
    for chosen in rounds(asked, set(), 8):
        assert (len(chosen), len({cases[one].name for one in chosen})) == (6, 2)


def test_each_stack_answers_a_question_of_the_core_list_once():
    """With the first test that it has; a pair turn is about the network, so one stack is enough."""
    imb, osu = site.CORE[0].tests[:2]
    both = [listed("cpu", 0, 0, test) for test in (imb, osu)]
    osu_alone = listed("cpu", 1, 0, osu)
    on_gpus = listed("gpu", 0, 1, osu)
    turns = [listed("cpu", stack, 0, "PairTurn", 16) for stack in (0, 1)]
    own = listed("cpu", 0, 0, "OurOwnTest")
    found = making.core_list([*both, osu_alone, on_gpus, *turns, own])
    assert found == (both[0], osu_alone, on_gpus, turns[0], own)

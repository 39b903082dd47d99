"""Nights chosen for lists of cases that nobody made by hand: all pairs in K nights, never above the budget, always the same."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from datetime import date, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mpibench.judge.plan import choice, making
from mpibench.judge.plan.choice import Candidates, Chosen, PairTable, greedy, pairs_of
from mpibench.judge.plan.record import ListedCase

MONDAY = date(2026, 11, 23)


def listed(stack: int, fabric: int, test: int, nodes: int = 1, ppn: int = 1) -> ListedCase:
    return ListedCase("p", f"s{stack}", f"T{test} %fabric=f{fabric} %nodes={nodes} %ppn={ppn} %pinning=bunch")


def candidates(
    cases: Sequence[ListedCase], shares: Sequence[float], room: float, nights: int, core: Iterable[int] = ()
) -> Candidates:
    return Candidates(cases, shares, dict.fromkeys(core, choice.SMOKE), room, nights, PairTable(cases))


class Site:
    """Nights one after the other, with the history that each leaves.

    :param lost: nights in which nothing is measured.
    """

    def __init__(self, asked: Candidates) -> None:
        self.asked = asked
        self.tried: dict[date, set[ListedCase]] = {}
        self.last: dict[ListedCase, date] = {}
        self.failed: set[ListedCase] = set()

    def night(self, day: date) -> Chosen:
        days = sorted((one for one in self.tried if one < day), reverse=True)
        state = choice.state_of(self.asked, days, self.tried, lambda _: self.asked.cases, self.last, self.failed)
        chosen = self.asked.choose(state, day)
        self.tried[day] = {self.asked.cases[one] for one in chosen.reasons}
        self.last.update(dict.fromkeys(self.tried[day], day))
        return chosen


@st.composite
def sites(draw: st.DrawFn) -> Candidates:
    """Some of all combinations, with costs from one to thirty, a small core, and room for a part."""
    everything = [listed(*values) for values in itertools.product(range(3), range(2), range(3), (1, 2), (1, 2))]
    cases = sorted(draw(st.lists(st.sampled_from(everything), min_size=1, max_size=40, unique=True)))
    shares = [draw(st.integers(0, 300)) / 10 for _ in cases]
    core = [number for number in range(len(cases)) if draw(st.integers(0, 9)) == 0]
    nights = draw(st.integers(1, 8))
    least = sum(shares[one] for one in core)
    room = least + draw(st.floats(0.0, 1.5)) * (sum(shares) - least) / nights + draw(st.sampled_from([0.0, 30.0]))
    return candidates(cases, shares, room, nights, core)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(sites())
def test_every_pair_comes_in_any_k_nights_or_the_night_that_breaks_it_says_so(asked: Candidates) -> None:
    site = Site(asked)
    nights = [site.night(MONDAY + timedelta(days=number)) for number in range(3 * asked.nights + 1)]
    for chosen in nights:
        assert chosen.spent <= asked.room + 1e-6
        assert chosen.spent == pytest.approx(sum(asked.shares[one] for one in chosen.reasons))
        assert set(asked.core) <= set(chosen.reasons)
    covered = [{pair for one in chosen.reasons for pair in asked.pairs.of[one]} for chosen in nights]
    everything = set(range(len(asked.pairs)))
    for end in range(asked.nights, len(nights) + 1):
        window = set().union(*covered[end - asked.nights : end])
        assert everything - window == set(nights[end - 1].overdue)
    if sum(asked.shares) <= asked.room:
        assert all(len(chosen.reasons) == len(asked.cases) for chosen in nights)


@settings(max_examples=60, deadline=None)
@given(sites())
def test_with_room_for_a_whole_cover_no_pair_is_ever_late(asked: Candidates) -> None:
    """A greedy cover costs at most H(d) times the best, d pairs a case (Chvatal 1979), here of 21; so a night with so much room
    beside its core has room for whatever is due.
    """
    everything = dict.fromkeys(range(len(asked.pairs)), 1.0)
    shares = asked.shares
    cover = greedy(everything, range(len(asked.cases)), asked.pairs.of, shares.__getitem__, 1e9, lambda one: one)
    best = sum(shares[one] for one in cover)
    core = sum(shares[one] for one in asked.core)
    roomy = candidates(asked.cases, shares, core + best * sum(1 / number for number in range(1, 22)), asked.nights, asked.core)
    site = Site(roomy)
    for number in range(3 * asked.nights):
        assert not site.night(MONDAY + timedelta(days=number)).overdue


@settings(max_examples=40, deadline=None)
@given(sites())
def test_a_day_has_one_plan_and_what_lies_ahead_is_what_comes(asked: Candidates) -> None:
    state = choice.state_of(asked, [], {}, lambda _: (), {}, [])
    first = asked.choose(state, MONDAY)
    assert asked.choose(state, MONDAY) == first
    ahead = itertools.islice(asked.ahead(state, first, MONDAY), asked.nights)
    site = Site(asked)
    assert [site.night(MONDAY + timedelta(days=number)).reasons for number in range(asked.nights)] == [
        one.reasons for one in ahead
    ]


def test_the_stalest_come_first_and_what_failed_before_them() -> None:
    cases = sorted(listed(stack, 0, 0) for stack in range(6))
    asked = candidates(cases, [10.0] * 6, 20.0, 30)
    days = [MONDAY - timedelta(days=number) for number in range(1, 7)]
    last = dict(zip(cases, days, strict=True))
    tried = {day: {case} for case, day in last.items()}
    state = choice.state_of(asked, days, tried, lambda _: cases, last, [])
    assert [cases[one] for one in asked.choose(state, MONDAY).reasons] == [cases[5], cases[4]]
    state = choice.state_of(asked, days, tried, lambda _: cases, last, [cases[0]])
    chosen = asked.choose(state, MONDAY)
    assert {cases[one]: why for one, why in chosen.reasons.items()} == {cases[0]: choice.FAILED, cases[5]: choice.STALEST}


def test_what_was_not_right_comes_before_pairs_that_are_due_and_is_said_where_it_does_not_fit() -> None:
    cases = sorted(listed(stack, fabric, 0) for stack in range(3) for fabric in range(2))
    asked = candidates(cases, [10.0] * len(cases), 20.0, 1, core=[0])
    state = choice.state_of(asked, [], {}, lambda _: (), {}, cases[3:])
    chosen = asked.choose(state, MONDAY)
    assert sorted(chosen.reasons.values()) == sorted([choice.SMOKE, choice.FAILED]) and chosen.overdue
    [said] = making.left_out(asked, state, chosen)
    assert said.startswith("2 cases that were not right when they were last tried do not fit into the budget: T0 ")


def test_what_a_night_missed_comes_in_the_next() -> None:
    """A night in which the planned cases did not run leaves their pairs as stale as they were."""
    cases = sorted(listed(stack, fabric, 0) for stack in range(3) for fabric in range(2))
    site = Site(candidates(cases, [1.0] * len(cases), 2.0, 4))
    for number in range(3):
        site.night(MONDAY + timedelta(days=number))
    lost = MONDAY + timedelta(days=1)
    for case in site.tried[lost]:
        site.last.pop(case, None)
    site.tried[lost] = set()
    before = {pair for day in (MONDAY, MONDAY + timedelta(days=2)) for pair in site.asked.pairs.known(site.tried[day])}
    chosen = site.night(MONDAY + timedelta(days=3))
    assert {site.asked.cases[one] for one, why in chosen.reasons.items() if why == choice.DUE}
    after = before | {pair for one in chosen.reasons for pair in site.asked.pairs.of[one]}
    assert after == set(range(len(site.asked.pairs))) - chosen.overdue


def test_a_pair_that_is_new_has_k_nights_of_its_own() -> None:
    old, new = sorted(listed(0, 0, test) for test in range(3)), sorted(listed(1, 0, test) for test in range(3))
    days = [MONDAY - timedelta(days=number) for number in range(1, 8)]
    tried = {day: set(old) for day in days}
    asked = candidates(sorted([*old, *new]), [1.0] * 6, 3.0, 7)
    state = choice.state_of(asked, days, tried, lambda _: old, dict.fromkeys(old, days[0]), [])
    chosen = asked.choose(state, MONDAY)
    assert set(chosen.reasons.values()) == {choice.PAIRS}, "measured first, because nothing is staler, and not because due"
    assert {asked.cases[one] for one in chosen.reasons} == set(new)
    known = choice.state_of(asked, days, tried, lambda _: asked.cases, dict.fromkeys(old, days[0]), [])
    assert set(asked.choose(known, MONDAY).reasons.values()) == {choice.DUE}, "it was there for all these nights"


@pytest.mark.parametrize("partly", [1, 3, 5])
def test_a_night_that_knew_of_a_part_does_not_begin_the_waiting_anew(partly: int) -> None:
    """`ci/nightly -n Test` without a budget between planned nights: what it did not run exists all the same."""
    cases = sorted(listed(0, 0, test) for test in range(6))
    rest, lonely = cases[:-1], cases[-1]
    days = [MONDAY - timedelta(days=number) for number in range(1, 7)]
    tried = {day: set(rest) for day in days}
    known = {day: rest if number == partly else cases for number, day in enumerate(days, 1)}
    asked = candidates(cases, [1.0] * 6, 1.0, 7)
    state = choice.state_of(asked, days, tried, known.__getitem__, dict.fromkeys(rest, days[0]), [])
    chosen = asked.choose(state, MONDAY)
    assert [(cases[one], why) for one, why in chosen.reasons.items()] == [(lonely, choice.DUE)]
    full = candidates(cases, [1.0] * 6, 0.5, 7)
    assert full.choose(state, MONDAY).overdue, "what does not fit is said"


def test_what_was_skipped_covers_nothing_where_another_case_can_be_measured() -> None:
    """The cheap case is skipped each night with a reason; the pairs that the dear one shares with it come all the same."""
    cheap, dear, other = listed(0, 0, 0, ppn=1), listed(0, 0, 0, ppn=2), listed(1, 0, 0)
    days = [MONDAY - timedelta(days=number) for number in range(1, 7)]
    cases = sorted([cheap, dear, other])
    shares = [10.0 if case == dear else 1.0 for case in cases]
    asked = Candidates(cases, shares, {}, 11.0, 7, PairTable(cases, {cheap}))
    assert len(asked.pairs) == len(PairTable([dear, other])), "a pair that only skipped cases have cannot be promised"
    state = choice.state_of(asked, days, {day: {other} for day in days}, lambda _: cases, {cheap: days[0], other: days[0]}, [])
    chosen = asked.choose(state, MONDAY)
    assert chosen.reasons[cases.index(dear)] == choice.DUE
    assert cases.index(cheap) not in chosen.reasons or chosen.reasons[cases.index(cheap)] == choice.STALEST
    earlier = choice.state_of(asked, days, {days[3]: {cheap}, days[0]: {other}}, lambda _: cases, {}, [])
    assert set(earlier.waiting.values()) == {0, 3, 6}, "where it ran it measured"


def test_of_a_core_that_does_not_fit_nothing_else_is_chosen() -> None:
    cases = sorted(listed(stack, 0, 0) for stack in range(4))
    asked = candidates(cases, [10.0] * 4, 25.0, 7, core=(0, 1, 2))
    chosen = asked.choose(choice.state_of(asked, [], {}, lambda _: (), {}, []), MONDAY)
    assert (len(chosen.reasons), chosen.core) == (2, 30.0) and 3 not in chosen.reasons


def test_pairs_are_those_of_different_parameters() -> None:
    found = pairs_of(listed(1, 2, 3, 4, 5))
    assert len(found) == len(set(found)) == 21, "of seven values"
    assert (("fabric", "f2"), ("stack", "s1")) in found and (("group", "T3"), ("nodes", "4")) in found
    assert len(PairTable([listed(0, 0, 0), listed(0, 0, 1)])) == 21 + 6

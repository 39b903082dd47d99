"""Choices: the paper's worked example, noise is never preferred, and
nothing is said beyond what was measured.
"""

import math

import numpy as np
import pytest

from mpibench_tune import race
from mpibench_tune.choice import FASTER, SAME, SLOWER, Gain
from mpibench_tune.profiles import Profile, ProfiledCalls, Usage
from mpibench_tune.race import ALL_SIZES, Times, TuneState
from reframe_tests.harness.mpis import registry
from reframe_tests.harness.mpis.tuning.model import DEFAULT, AlgorithmRule
from reframe_tests.harness.sites.tuned_settings import TunedPlace

SIZES = (8, 32, 128, 512)


def table(medians, seed=1, repeats=8, spread=0.03):
    """Times of algorithms at some sizes; repeats have a
    disturbance in common, as those of a job do.
    """
    rng = np.random.default_rng(seed)
    found = Times("Allreduce")
    for size in SIZES:
        common = rng.normal(0, 0.2, repeats)
        for word, median in medians.items():
            values = median * size * np.exp(common + rng.normal(0, spread, repeats))
            units = {("s", at): float(value) for at, value in enumerate(values)}
            found.values.setdefault(size, {})[word] = units
    return found


def test_timings_are_normalised_as_in_the_paper():
    """Cambridge paper, appendix C.1: 60 x 4M / 32 = 7864320; 600,000 x 4M / 4M = 600,000."""
    assert race.normalise({32: 60.0, 4 << 20: 600_000.0}) == 7864320 + 600_000
    assert race.normalise({8: 2.0, 1024: 30.0}, {8: 100.0}) == 200.0, "weights of an application"


def test_an_application_says_what_is_used_most_and_which_sizes():
    """Calls between two measured sizes count for both, those beyond for
    none, those of other communicators not at all.
    """
    calls = (
        ProfiledCalls("Allreduce", 8, 1000, 1.0),
        ProfiledCalls("Alltoallv", 64, 30, 5.0, 4),
        ProfiledCalls("Alltoallv", 80, 10, 2.0, 4),
        ProfiledCalls("Alltoallv", 4096, 60, 2.0, 4),
        ProfiledCalls("Bcast", 8, 99, 99.0, 2),
        ProfiledCalls("Send", 8, 99, 99.0),
    )
    usage = Usage.of(Profile("CSV table", 4, calls), "app.csv", 4)
    assert list(usage.shares) == ["Alltoallv", "Allreduce"]
    assert usage.shares["Alltoallv"] == pytest.approx(0.9)
    weights = {32: 30 * 2 / 3 + 10 * 0.5, 128: 30 / 3 + 10 * 0.5}
    assert usage.weights("Alltoallv", SIZES) == pytest.approx(weights)
    assert usage.covered("Alltoallv", SIZES) == pytest.approx(0.4)
    assert usage.weights("Gather", SIZES) == {} and usage.covered("Gather", SIZES) == 0.0


def test_the_sizes_of_an_application_decide_a_single_choice():
    """Small messages do otherwise, as in the paper; here one that only
    sends large messages gets what is fast there.
    """
    tuning = registry.find("intelmpi").tuning
    assert tuning is not None
    found = Times("Alltoallv")
    for size, default in zip(SIZES, (1.0, 1.0, 4.0, 16.0), strict=True):
        other = default * (2.0 if size < 128 else 0.8)
        for word, median in ((DEFAULT, default), ("2", other)):
            units = {("s", at): median * (1 + 0.01 * at) for at in range(8)}
            found.values.setdefault(size, {})[word] = units
    state = TuneState(TunedPlace("generic", "x", "shm", 1, 4, "none"), "x", {})
    whole = race.Race(tuning, state, {"Alltoallv": found})
    for calls, chosen in (
        ((), {}),
        ((ProfiledCalls("Alltoallv", 512, 100, 1.0),), {"Alltoallv": {ALL_SIZES: "2"}}),
    ):
        if calls:
            whole.usage = Usage.of(Profile("CSV table", 4, calls), "app.csv", 4)
        assert race.choose(race.compare({"Alltoallv": whole.table("Alltoallv")})) == chosen


def test_noise_is_hardly_ever_preferred():
    chosen = [
        race.choose(race.compare({"Allreduce": table({DEFAULT: 1.0, "2": 1.0, "3": 1.0}, seed)}))
        for seed in range(40)
    ]
    assert sum(map(bool, chosen)) <= 4


def test_what_is_faster_slower_and_measured_too_rarely_is_called_so():
    """Two repeats are no interval, however far apart the medians are."""
    ratios = {"2": 0.5, "3": 2.0, "4": 1.0}
    rare, few = (table({DEFAULT: 1.0, "2": 0.5}, repeats=race.FEWEST - at) for at in (1, 0))
    [one, *_] = race.compare({"Gather": few})
    assert math.isfinite(one.low)
    called = dict(zip(ratios, (race.BETTER, race.WORSE, race.INCONCLUSIVE), strict=True))
    for row in race.compare({"Allreduce": table({DEFAULT: 1.0, **ratios}), "Bcast": rare}):
        if row.collective == "Allreduce":
            assert row.outcome == called[row.word] and row.low < row.ratio < row.high
            assert row.ratio == pytest.approx(ratios[row.word], rel=0.1)
        else:
            assert row.outcome == race.INCONCLUSIVE
            assert not any(map(math.isfinite, (row.ratio, row.low, row.high)))


def gain(low, high, **bands):
    return Gain("x", 1.0, low, high, 1, bands)


def test_faster_at_some_sizes_and_slower_at_others_is_not_better():
    faster, slower, same = gain(1.01, 1.2), gain(0.8, 0.99), gain(1.0, 1.2)
    assert [one.outcome for one in (faster, slower, same)] == [FASTER, SLOWER, SAME]
    assert gain(0.9, 1.0).outcome == gain(math.nan, math.nan).outcome == SAME
    assert gain(1.01, 1.2, small=same).better and not gain(1.01, 1.2, small=slower).better
    assert not same.better
    shown = [one.as_data() for one in (faster, gain(math.nan, math.nan))]
    assert [(one["low"], one["high"]) for one in shown] == [(1.01, 1.2), (None, None)]


def test_the_best_is_hardly_ever_left_out():
    medians = {DEFAULT: 1.0, **{str(at): 1.0 + 0.01 * at for at in range(8)}}
    left_out = 0
    for seed in range(40):
        found = table(medians, seed, repeats=4, spread=0.1)
        words = tuple(found.words(8))
        left = race.eliminate({"Allreduce": (found, dict.fromkeys(SIZES, words))})["Allreduce"]
        left_out += any("0" not in words for words in left.values())
    assert left_out <= 2


@pytest.mark.parametrize(
    ("chosen", "rules"),
    [
        (dict.fromkeys(SIZES, "2"), [(8, 512, "2")]),
        ({8: "2", 32: "3", 512: "2"}, [(8, 16, "2"), (17, 64, "3"), (257, 512, "2")]),
        ({ALL_SIZES: "2"}, [(0, 0, "2")]),
    ],
)
def test_rules_reach_halfway_to_a_neighbour_and_never_beyond_what_was_measured(chosen, rules):
    found = race.ranges("Bcast", list(SIZES), chosen)
    assert found == [AlgorithmRule("Bcast", *each) for each in rules]

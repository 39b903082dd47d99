"""Choices: the paper's worked example, noise is never preferred, and nothing is said beyond what was measured."""

from __future__ import annotations

import numpy as np
import pytest

from mpibench.tune import race
from mpibench.tune.profiles import Calls, Profile, Usage
from mpibench.tune.race import ALL_SIZES, Times, TuneState
from reframe_tests.harness.mpis import registry
from reframe_tests.harness.mpis.tuning.model import DEFAULT, AlgorithmRule
from reframe_tests.harness.sites.tuned_settings import Place
from refusals import refused_as

SIZES = (8, 32, 128, 512)


def table(
    medians: dict[str, float], seed: int = 1, repeats: int = 8, spread: float = 0.03, collective: str = "Allreduce"
) -> Times:
    """Times of algorithms at some sizes; repeats have a disturbance in common, as those of a job do."""
    rng = np.random.default_rng(seed)
    found = Times(collective)
    for size in SIZES:
        common = rng.normal(0, 0.2, repeats)
        for word, median in medians.items():
            values = median * size * np.exp(common + rng.normal(0, spread, repeats))
            found.values.setdefault(size, {})[word] = {("s", at): float(value) for at, value in enumerate(values)}
    return found


def test_timings_are_normalised_as_in_the_paper() -> None:
    """Cambridge paper, appendix C.1: 60 x 4M / 32 = 7864320; 600,000 x 4M / 4M = 600,000."""
    four_mib = 4 << 20
    assert race.normalise({32: 60.0, four_mib: 0.0}) == 7864320
    assert race.normalise({32: 60.0, four_mib: 600_000.0}) == 7864320 + 600_000


def test_weights_of_an_application_take_the_place_of_the_normalisation() -> None:
    assert race.normalise({8: 2.0, 1024: 30.0}, {8: 100.0}) == 200.0


def profile(*calls: Calls, ranks: int = 4) -> Profile:
    return Profile("CSV table", ranks, calls)


def test_an_application_says_what_is_used_most_and_which_sizes() -> None:
    """Calls between two measured sizes count for both, those beyond for none, those of other communicators not at all."""
    calls = (
        Calls("Allreduce", 8, 1000, 1.0),
        Calls("Alltoallv", 64, 30, 5.0, 4),
        Calls("Alltoallv", 80, 10, 2.0, 4),
        Calls("Alltoallv", 4096, 60, 2.0, 4),
        Calls("Bcast", 8, 99, 99.0, 2),
        Calls("Send", 8, 99, 99.0),
    )
    usage = Usage.of(profile(*calls), "app.csv", 4)
    assert usage.shares == pytest.approx({"Alltoallv": 0.9, "Allreduce": 0.1}) and next(iter(usage.shares)) == "Alltoallv"
    assert usage.weights("Alltoallv", SIZES) == pytest.approx({32: 30 * 2 / 3 + 10 * 0.5, 128: 30 / 3 + 10 * 0.5})
    assert usage.covered("Alltoallv", SIZES) == pytest.approx(0.4)
    assert usage.weights("Gather", SIZES) == {} and usage.covered("Gather", SIZES) == 0.0


@pytest.mark.parametrize(
    ("calls", "sentence"),
    [
        ((Calls("Allreduce", None, 5, 1.0),), "has no sizes of its collectives"),
        ((Calls("Allreduce", 8, 5, 1.0, 2),), "has no collective in a communicator of 4 ranks"),
        ((Calls("Send", 8, 5, 1.0),), "has no collective in a communicator of 4 ranks"),
    ],
)
def test_a_profile_that_weighs_nothing_is_refused(calls: tuple[Calls, ...], sentence: str) -> None:
    with refused_as("profile-lacks-collectives", match=sentence):
        Usage.of(profile(*calls), "app.csv", 4)


def test_the_sizes_of_an_application_decide_a_single_choice() -> None:
    """The paper's case the other way round: an application that only sends large messages gets what is fast there."""
    tuning = registry.find("intelmpi").tuning
    assert tuning is not None
    rng = np.random.default_rng(3)
    found = Times("Alltoallv")
    for size, medians in zip(SIZES, ((1.0, 2.0), (1.0, 2.0), (4.0, 3.6), (16.0, 12.0)), strict=True):
        for word, median in zip((DEFAULT, "2"), medians, strict=True):
            values = {("s", at): float(median * np.exp(rng.normal(0, 0.01))) for at in range(8)}
            found.values.setdefault(size, {})[word] = values
    whole = race.Race(tuning, TuneState(Place("generic", "x", "shm", 1, 4, "none"), "x", {}), {"Alltoallv": found})
    assert race.choose(race.compare({"Alltoallv": whole.table("Alltoallv")})) == {}
    whole.usage = Usage.of(profile(Calls("Alltoallv", 512, 100, 1.0)), "app.csv", 4)
    assert race.choose(race.compare({"Alltoallv": whole.table("Alltoallv")})) == {"Alltoallv": {ALL_SIZES: "2"}}


def test_small_messages_decide_a_single_choice() -> None:
    """As in the paper: one is twice as fast on small messages, the other 20 to 40 % faster on large ones."""
    found = Times("Alltoallv")
    for unit in range(4):
        for size, one, two in ((32, 120.0, 60.0), (4 << 20, 600_000.0, 800_000.0)):
            for word, value in ((DEFAULT, one), ("2", two)):
                found.values.setdefault(size, {}).setdefault(word, {})[("s", unit)] = value * (1 + 0.01 * unit)
    whole = found.as_one()
    assert whole.sizes == [ALL_SIZES]
    assert whole.location(ALL_SIZES, "2") < whole.location(ALL_SIZES, DEFAULT)


def test_what_is_faster_is_found_and_what_is_noise_is_not() -> None:
    compared = race.compare({"Allreduce": table({DEFAULT: 1.0, "2": 0.8, "3": 1.0, "4": 1.5})})
    assert race.choose(compared) == {"Allreduce": dict.fromkeys(SIZES, "2")}
    assert {row.outcome for row in compared if row.word == "4"} == {race.WORSE}
    assert {row.outcome for row in compared if row.word == "3"} == {race.INCONCLUSIVE}


def test_noise_is_hardly_ever_preferred() -> None:
    called = sum(
        bool(race.choose(race.compare({"Allreduce": table({DEFAULT: 1.0, "2": 1.0, "3": 1.0}, seed=seed)})))
        for seed in range(40)
    )
    assert called <= 4


def test_too_few_repeats_decide_nothing() -> None:
    assert race.choose(race.compare({"Allreduce": table({DEFAULT: 1.0, "2": 0.5}, repeats=2)})) == {}


def test_an_algorithm_that_is_no_better_than_another_leaves() -> None:
    found = table({DEFAULT: 1.0, "2": 1.0}, repeats=24)
    left = race.eliminate({"Allreduce": (found, dict.fromkeys(SIZES, (DEFAULT, "2")))})["Allreduce"]
    assert race.is_decided(left)
    found = table({"2": 1.0, "3": 1.0, "4": 1.0}, repeats=24)
    left = race.eliminate({"Allreduce": (found, dict.fromkeys(SIZES, ("2", "3", "4")))})["Allreduce"]
    assert all(len(words) == 1 for words in left.values()), "which of them does not matter"


def test_what_may_be_better_stays() -> None:
    found = table({DEFAULT: 1.2, "2": 1.0, "3": 0.98}, repeats=4, spread=0.15)
    left = race.eliminate({"Allreduce": (found, dict.fromkeys(SIZES, (DEFAULT, "2", "3")))})["Allreduce"]
    assert all({"2", "3"} <= set(words) for words in left.values())


def test_clearly_slower_algorithms_leave_and_the_default_stays() -> None:
    found = table({DEFAULT: 3.0, "2": 1.0, "3": 2.0, "4": 1.01}, repeats=5, spread=0.1)
    left = race.eliminate({"Allreduce": (found, dict.fromkeys(SIZES, (DEFAULT, "2", "3", "4")))})["Allreduce"]
    for words in left.values():
        assert DEFAULT in words and "2" in words and "4" in words and "3" not in words


def test_the_best_is_hardly_ever_left_out() -> None:
    lost = 0
    for seed in range(40):
        found = table({DEFAULT: 1.0, **{str(at): 1.0 + 0.01 * at for at in range(8)}}, seed=seed, repeats=4, spread=0.1)
        words = tuple(found.words(8))
        left = race.eliminate({"Allreduce": (found, dict.fromkeys(SIZES, words))})["Allreduce"]
        lost += any("0" not in there for there in left.values())
    assert lost <= 2


@pytest.mark.parametrize(
    ("chosen", "rules"),
    [
        (dict.fromkeys(SIZES, "2"), [(8, 512, "2")]),
        ({8: "2", 32: "3"}, [(8, 16, "2"), (17, 64, "3")]),
        ({128: "2"}, [(65, 256, "2")]),
        ({}, []),
        ({ALL_SIZES: "2"}, [(0, 0, "2")]),
    ],
)
def test_rules_reach_halfway_to_a_neighbour_and_never_beyond_what_was_measured(
    chosen: dict[int, str], rules: list[tuple[int, int, str]]
) -> None:
    assert race.ranges("Bcast", list(SIZES), chosen) == [AlgorithmRule("Bcast", *each) for each in rules]


@pytest.mark.parametrize(("in_all", "kept"), [(True, {"Alltoall": {8: "ring", 32: "ring"}}), (False, {})])
def test_settings_that_change_every_size_are_kept_whole_or_not_at_all(in_all: bool, kept: dict[str, dict[int, str]]) -> None:
    """MPICH's layer above is kept from a collective at all sizes: without a choice for 32 B, something else is taken there than
    by default, and not what was measured."""
    rows = [race.Compared("Alltoall", 8, "ring", 6.5, 2.8, 0.43, 0.31, 0.59, 8, race.BETTER)]
    chosen = {"Alltoall": {8: "ring", 32: "ring"}}
    assert race.keep_proven(rows, chosen) == {"Alltoall": {8: "ring"}}
    assert race.keep_proven(rows, chosen, {"Alltoall": in_all}) == kept
    assert race.keep_proven([], chosen, {"Alltoall": in_all}) == {}


def test_only_what_is_proven_again_is_kept() -> None:
    rows = race.compare({"Allreduce": table({DEFAULT: 1.0, "tuned": 0.8})})
    kept = race.keep_proven([row for row in rows if row.message_bytes != 32], {"Allreduce": {8: "2", 32: "2"}})
    assert kept == {"Allreduce": {8: "2"}}

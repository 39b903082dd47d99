"""What is flagged, on simulated maps: faults by name, false positives at a
rate, and the right thing of those that look alike.
"""

import numpy as np
import pytest

from mpibench.locate import judgement
from mpibench.locate.maps import LINK, NODE, Places, Suspect
from studies import fabric_faults, simulated_map
from studies.simulated_map import NOISES, all_pairs, fat_tree, matchings, observe, place_faults

QUIET = NOISES["slow tail"]


def flagged_on(fabric, rounds, kinds, seed, noise=QUIET):
    rng = np.random.default_rng(seed)
    faults = place_faults(fabric, kinds, 0.5, rng)
    return faults, fabric_faults.flag(observe(fabric, rounds, faults, noise, rng), fabric.places())


@pytest.mark.parametrize(
    ("size", "kind"), [(16, "sends"), (16, "receives"), (16, "both"), (9, "receives")]
)
def test_a_slow_node_is_named_and_nobody_else(kind, size):
    fabric = fat_tree(size, leaf=4 if size == 16 else 3)
    ways = ("sends", "receives") if kind == "both" else (kind,)
    for seed in range(3):
        faults, flagged = flagged_on(fabric, all_pairs(size) * (32 // size), (kind,), seed)
        wanted = [Suspect(NODE, (f"n{faults[0].at[0]:05}",), way) for way in ways]
        assert sorted(one for (one, *_) in flagged) == sorted(wanted)


def test_one_way_between_two_groups():
    fabric = simulated_map.dragonfly(512, leaf=8, group=16)
    rounds = matchings(512, 16, np.random.default_rng(5))
    faults, flagged = flagged_on(fabric, rounds, ("global link",), 5)
    ends = tuple(f"group{one}" for one in faults[0].at)
    assert [one for (one, *_) in flagged] == [Suspect(LINK, ends, "sends", 1)]


@pytest.mark.parametrize("noise", NOISES.values(), ids=lambda noise: noise.name)
def test_healthy_maps_flag_nothing(noise):
    """The rate is 0.05 per run: of 40 runs 2 are expected at most, and
    8 or more have a probability below 0.12 %.
    """
    fabric = fat_tree(16, leaf=4)
    runs = [flagged_on(fabric, all_pairs(16), (), seed, noise)[1] for seed in range(40)]
    assert sum(map(bool, runs)) < 8


@pytest.mark.parametrize(
    ("size", "kinds"),
    [
        (8, ("both", "both")),
        (8, ("sends", "receives", "both")),
        (8, ("uplink", "sends", "receives")),
        (16, ("uplink", "uplink")),
        (16, ("uplink", "sends", "receives")),
    ],
)
def test_faults_that_hide_one_another_are_found_and_flag_nothing_else(size, kinds):
    """At any places, a slow node below a slow uplink, at a site that says the rate of its
    uplinks: flagged was the switch of the slow nodes, or the uplinks of all others.
    """
    fabric = fat_tree(size, leaf=4)
    found = fabric_faults.Tally()
    for seed in range(8):
        rng = np.random.default_rng(seed)
        faults = place_faults(fabric, kinds, 0.4, rng, anywhere=True)
        seen = observe(fabric, all_pairs(size) * (32 // size), faults, QUIET, rng)
        found.add(faults, fabric_faults.flag(seen, fabric.places(), oversubscribed=False))
    assert found.wrong == 0 and found.found >= 0.9 * 8 * len(kinds)


def test_pairs_of_a_node_that_is_now_and_then_slow_flag_nothing_and_nobody_is_healthy():
    fabric = fat_tree(8, leaf=4)
    kept = 0
    for seed in range(8):
        rng = np.random.default_rng(seed)
        faults = place_faults(fabric, ("intermittent", "sends"), 0.4, rng, anywhere=True)
        seen = observe(fabric, all_pairs(8) * 4, faults, NOISES["t with 3 degrees, 3 %"], rng)
        answer = judgement.judge([seen], fabric.places(), {}, oversubscribed=False)
        slow = {(f"n{fault.at[0]:05}",) for fault in faults}
        assert {finding.names for finding in answer.findings} == slow
        assert all("more is wrong than this map can" in text for text in answer.inconclusive)
        kept += bool(answer.inconclusive)
    assert kept, "no map had such pairs: this test shows nothing"


def described_otherwise(fabric, kind):
    """A description that contradicts the cables: two nodes changed places,
    nodes dealt out in turn, one switch for all.
    """
    nodes = fabric.nodes
    known = dict(fabric.places().switches)
    if kind == "two changed places":
        known[nodes[0]], known[nodes[-1]] = known[nodes[-1]], known[nodes[0]]
    elif kind == "in turn":
        known = {node: (f"leaf{number % 4}", "pod0") for number, node in enumerate(nodes)}
    else:
        known = dict.fromkeys(nodes, ("leaf0",))
    return Places(known, "yaml")


@pytest.mark.parametrize("size", [8, 16])
@pytest.mark.parametrize("kind", ["two changed places", "in turn", "one switch"])
def test_a_description_that_lies_makes_nobody_healthy_and_no_node_guilty(kind, size):
    """A slow uplink that it does not have: of 8 nodes all were called
    healthy, of 16 those below it were flagged one by one.
    """
    fabric = fat_tree(size, leaf=4)
    places = described_otherwise(fabric, kind)
    rounds = all_pairs(size) * (32 // size)
    for seed in range(4):
        rng = np.random.default_rng(seed)
        faults = place_faults(fabric, ("uplink",), 0.4, rng)
        seen = observe(fabric, rounds, faults, QUIET, rng)
        answer = judgement.judge([seen], places, {}, oversubscribed=False)
        assert answer.flagged == ()
        # A leaf that is described as it is may be named.
        leaf = {(f"leaf{faults[0].at[0]}",)}
        assert answer.inconclusive or {one.names for one in answer.findings} == leaf
        healthy = observe(fabric, rounds, [], QUIET, rng)
        assert judgement.judge([healthy], places, {}, oversubscribed=False).status == 0

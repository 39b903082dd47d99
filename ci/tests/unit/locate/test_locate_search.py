"""Who is accused, on simulated maps: faults by name, innocents at a rate, and the right thing of those that look alike."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

from mpibench.locate import judgement, search
from mpibench.locate.maps import LINK, NODE, PAIR, UPLINK, Observations, Places, Suspect
from refusals import refused_as
from studies import fabric_faults, simulated_map
from studies.simulated_map import NOISES, all_pairs, fat_tree, matchings, observe, place_faults

QUIET = NOISES["slow tail"]


def accused_on(fabric: simulated_map.Fabric, rounds: list, kinds: tuple[str, ...], seed: int, noise=QUIET, fraction=0.5):
    rng = np.random.default_rng(seed)
    faults = place_faults(fabric, kinds, fraction, rng)
    return faults, fabric_faults.accuse(observe(fabric, rounds, faults, noise, rng), fabric.places())


@pytest.mark.parametrize("kind", ["sends", "receives", "both"])
@pytest.mark.parametrize("seed", range(3))
def test_a_slow_node_is_named_and_nobody_else(kind: str, seed: int) -> None:
    faults, accused = accused_on(fat_tree(16, leaf=4), all_pairs(16), (kind,), seed)
    name = f"n{faults[0].at[0]:05}"
    ways = ("sends", "receives") if kind == "both" else (kind,)
    assert sorted(one for (one, *_) in accused) == sorted(Suspect(NODE, (name,), way) for way in ways)


def test_a_slow_uplink_is_no_fault_of_the_nodes_below_it() -> None:
    faults, accused = accused_on(fat_tree(16, leaf=4), all_pairs(16), ("uplink",), 1)
    assert {(one.kind, one.names) for (one, *_) in accused} == {(UPLINK, (f"leaf{faults[0].at[0]}",))}


def test_one_way_between_two_groups() -> None:
    fabric = simulated_map.dragonfly(512, leaf=8, group=16)
    faults, accused = accused_on(fabric, matchings(512, 16, np.random.default_rng(5)), ("global link",), 5)
    ends = tuple(f"group{one}" for one in faults[0].at)
    assert [one for (one, *_) in accused] == [Suspect(LINK, ends, "sends", 1)]


def test_an_intermittent_node_is_named() -> None:
    faults, accused = accused_on(fat_tree(64, leaf=16), all_pairs(64), ("intermittent",), 2)
    assert {one.names for (one, *_) in accused} == {(f"n{faults[0].at[0]:05}",)}


def test_a_pair_is_named_where_it_is_measured_again() -> None:
    rounds = all_pairs(8) * 3
    seen = observe(fat_tree(8, leaf=4), rounds, [], QUIET, np.random.default_rng(3))
    slow = (seen.source == 2) & (seen.target == 5)
    changed = Observations(
        *(seen.quantity, seen.nodes, seen.source, seen.target, seen.slowness + 1.0 * slow),
        *(seen.moment, seen.together, seen.directed),
    )
    assert [one for (one, *_) in fabric_faults.accuse(changed, fat_tree(8, leaf=4).places())] == [
        Suspect(PAIR, ("n00002", "n00005"), "sends")
    ]


@pytest.mark.parametrize("noise", NOISES.values(), ids=lambda noise: noise.name)
def test_healthy_maps_accuse_nobody(noise: simulated_map.Noise) -> None:
    """The rate is 0.05 per run: of 40 runs 2 are expected at most, and 8 or more have a probability below 0.1 %."""
    wrong = sum(bool(accused_on(fat_tree(16, leaf=4), all_pairs(16), (), seed, noise)[1]) for seed in range(40))
    assert wrong < 8
    assert scipy.stats.poisson.sf(7, 2) < 0.0012


def test_two_faults_at_once() -> None:
    faults, accused = accused_on(fat_tree(16, leaf=4), all_pairs(16), ("sends", "uplink"), 4)
    assert {(one.kind, one.names) for (one, *_) in accused} == {
        (NODE, (f"n{faults[0].at[0]:05}",)),
        (UPLINK, (f"leaf{faults[1].at[0]}",)),
    }


#: Faults that hide one another, at any places: a slow node may be below a slow uplink.
HIDING = [
    (8, ("both", "both")),
    (8, ("uplink", "sends")),
    (8, ("uplink", "both")),
    (8, ("sends", "sends", "sends")),
    (8, ("sends", "receives", "both")),
    (8, ("uplink", "sends", "receives")),
    (16, ("uplink", "uplink")),
    (16, ("uplink", "sends", "receives")),
]


@pytest.mark.parametrize(("size", "kinds"), HIDING, ids=lambda value: "+".join(value) if isinstance(value, tuple) else value)
def test_faults_that_hide_one_another_are_found_and_accuse_nobody_else(size: int, kinds: tuple[str, ...]) -> None:
    """Uplinks of a site that says their rate. Accused was the switch of the slow nodes, or the uplinks of all others."""
    fabric = fat_tree(size, leaf=4)
    found = wrong = 0
    for seed in range(8):
        rng = np.random.default_rng(seed)
        faults = place_faults(fabric, kinds, 0.4, rng, anywhere=True)
        seen = observe(fabric, all_pairs(size) * (32 // size), faults, QUIET, rng)
        tally = fabric_faults.Tally()
        tally.add(faults, fabric_faults.accuse(seen, fabric.places(), oversubscribed=False))
        found, wrong = found + tally.found, wrong + tally.wrong
    assert wrong == 0
    assert found >= 0.9 * 8 * len(kinds)


def test_a_slow_node_shows_where_uplinks_are_no_narrower_than_it() -> None:
    """Two leaves, and nobody says what the uplink between them should carry: its nodes are judged by what stays below."""
    fabric = fat_tree(8, leaf=4)
    rng = np.random.default_rng(1)
    faults = place_faults(fabric, ("uplink", "sends", "receives"), 0.5, rng, anywhere=True)
    seen = observe(fabric, all_pairs(8) * 4, faults, QUIET, rng)
    accused = fabric_faults.accuse(seen, fabric.places())
    assert {(one.kind, one.names, one.way) for (one, *_) in accused} == {
        (NODE, (f"n{faults[1].at[0]:05}",), "sends"),
        (NODE, (f"n{faults[2].at[0]:05}",), "receives"),
    }


def test_pairs_of_a_node_that_is_now_and_then_slow_accuse_nobody_and_nobody_is_healthy() -> None:
    fabric, kept = fat_tree(8, leaf=4), 0
    for seed in range(8):
        rng = np.random.default_rng(seed)
        faults = place_faults(fabric, ("intermittent", "sends"), 0.4, rng, anywhere=True)
        seen = observe(fabric, all_pairs(8) * 4, faults, NOISES["t with 3 degrees, 3 %"], rng)
        answer = judgement.judge([seen], fabric.places(), {}, oversubscribed=False)
        assert {finding.names for finding in answer.findings} == {(f"n{fault.at[0]:05}",) for fault in faults}
        unexplained = [text for text in answer.inconclusive if "more is wrong than this map can tell apart" in text]
        kept += bool(unexplained)
        assert len(unexplained) == len(answer.inconclusive)
    assert kept, "no map had such pairs: this test shows nothing"


def test_rounds_that_mostly_cross_slow_uplinks_are_no_drift() -> None:
    """Of four leaves two have slow uplinks; rounds differ in how many of their pairs cross these."""
    fabric, rng = fat_tree(16, leaf=4), np.random.default_rng(3)
    faults = place_faults(fabric, ("uplink", "uplink"), 0.4, rng)
    seen = observe(fabric, all_pairs(16) * 2, faults, QUIET, rng)
    (part,) = judgement.judge([seen], fabric.places(), {}, oversubscribed=False).parts
    slow = np.isin(fabric.leaf[seen.source], [one.at[0] for one in faults])
    slow ^= np.isin(fabric.leaf[seen.target], [one.at[0] for one in faults])
    slow |= (fabric.leaf[seen.source] != fabric.leaf[seen.target]) & np.isin(
        fabric.leaf[seen.source], [one.at[0] for one in faults]
    )
    assert part.residuals.excess[slow].min() > 0.5
    assert np.median(part.residuals.excess[~slow]) < 0.05 and part.residuals.excess[~slow].max() < 0.5


def test_an_uplink_is_not_said_to_look_like_itself() -> None:
    """Where all of its pairs share it with as many others, that of any load has the same measurements."""
    fabric, rng = fat_tree(16, leaf=4), np.random.default_rng(1)
    seen = observe(fabric, all_pairs(16) * 2, place_faults(fabric, ("uplink", "uplink"), 0.4, rng), QUIET, rng)
    answer = judgement.judge([seen], fabric.places(), {}, oversubscribed=False)
    alike = [one for finding in answer.findings for direction in finding.directions for one in direction.alike]
    assert any(one.load for one in alike), "nothing here looks like itself"
    for finding in answer.findings:
        assert f"distinguished from the uplink of {finding.names[0]}" not in finding.text()


def test_measurements_are_not_called_partners() -> None:
    """A cable that loses packets is slow in most of 28 measurements with seven partners."""
    fabric, rng = fat_tree(8, leaf=4), np.random.default_rng(1)
    seen = observe(fabric, all_pairs(8) * 4, [], QUIET, rng)
    mine = np.flatnonzero(seen.source == 2)[:24]
    lossy = seen.slowness.copy()
    lossy[mine] += 0.7
    columns = (seen.quantity, seen.nodes, seen.source, seen.target, lossy, seen.moment, seen.together, seen.directed)
    (finding,) = judgement.judge([Observations(*columns)], fabric.places(), {}, oversubscribed=False).findings
    assert "to 7 partners in 24 of 28 measurements, receives normally" in finding.text()


def test_a_drift_is_taken_out_and_what_differs_within_a_moment_is_judged() -> None:
    fabric, drifting = fat_tree(16, leaf=4), NOISES["drift of 5 % a round"]
    wrong = found = 0
    for seed in range(8):
        rng = np.random.default_rng(seed)
        faults = place_faults(fabric, ("sends",), 0.5, rng)
        tally = fabric_faults.Tally()
        seen = observe(fabric, all_pairs(16) * 2, faults, drifting, rng)
        tally.add(faults, fabric_faults.accuse(seen, fabric.places(), oversubscribed=False))
        wrong, found = wrong + tally.wrong, found + tally.found
    assert (found, wrong) == (8, 0)


def described_otherwise(fabric: simulated_map.Fabric, kind: str) -> Places:
    """A description that contradicts the cables: two nodes changed places, nodes dealt out in turn, one switch for all."""
    nodes, known = fabric.nodes, dict(fabric.places().switches)
    if kind == "two changed places":
        known[nodes[0]], known[nodes[-1]] = known[nodes[-1]], known[nodes[0]]
    elif kind == "in turn":
        known = {node: (f"leaf{number % 4}", "pod0") for number, node in enumerate(nodes)}
    else:
        known = dict.fromkeys(nodes, ("leaf0",))
    return Places(known, "yaml")


@pytest.mark.parametrize("size", [8, 16])
@pytest.mark.parametrize("kind", ["two changed places", "in turn", "one switch"])
def test_a_description_that_lies_makes_nobody_healthy_and_no_node_guilty(kind: str, size: int) -> None:
    """A slow uplink that it does not have: of 8 nodes all were called healthy, of 16 those below it were accused one by one."""
    fabric = fat_tree(size, leaf=4)
    for seed in range(6):
        rng = np.random.default_rng(seed)
        faults = place_faults(fabric, ("uplink",), 0.4, rng)
        seen = observe(fabric, all_pairs(size) * (32 // size), faults, QUIET, rng)
        answer = judgement.judge([seen], described_otherwise(fabric, kind), {}, oversubscribed=False)
        assert answer.accused == ()
        # A leaf that is described as it is may be named.
        assert answer.inconclusive or {one.names for one in answer.findings} == {(f"leaf{faults[0].at[0]}",)}
        healthy = observe(fabric, all_pairs(size) * (32 // size), [], QUIET, rng)
        answer = judgement.judge([healthy], described_otherwise(fabric, kind), {}, oversubscribed=False)
        assert answer.status == 0


def test_nodes_that_are_slow_with_all_but_one_another_are_named_together() -> None:
    fabric, rng = fat_tree(16, leaf=4), np.random.default_rng(1)
    faults = place_faults(fabric, ("uplink",), 0.5, rng)
    seen = observe(fabric, all_pairs(16) * 2, faults, QUIET, rng)
    below = [node for node, leaf in zip(fabric.nodes, fabric.leaf.tolist(), strict=True) if leaf == faults[0].at[0]]
    said = judgement.judge([seen], described_otherwise(fabric, "one switch"), {}).inconclusive
    assert any(f"{', '.join(below)} send slowly to others and not to one another" in text for text in said)
    assert all("see whether the switches (yaml) are right" in text for text in said)


def test_two_slow_nodes_are_no_island() -> None:
    """They are slow to each other, too."""
    fabric, rng = fat_tree(16, leaf=4), np.random.default_rng(2)
    faults = place_faults(fabric, ("both", "both", "both"), 0.5, rng)
    seen = observe(fabric, all_pairs(16) * 2, faults, QUIET, rng)
    answer = judgement.judge([seen], Places({}), {})
    assert set(answer.accused) == {fabric.nodes[one.at[0]] for one in faults}


def test_an_odd_number_of_nodes() -> None:
    faults, accused = accused_on(fat_tree(9, leaf=3), all_pairs(9) * 2, ("receives",), 6)
    assert [one.names for (one, *_) in accused] == [(f"n{faults[0].at[0]:05}",)]


def test_of_two_nodes_the_ends_of_one_direction_are_alike() -> None:
    rng = np.random.default_rng(1)
    seen = observe(fat_tree(2, leaf=2), all_pairs(2) * 12, [], QUIET, rng)
    changed = Observations(
        *(seen.quantity, seen.nodes, seen.source, seen.target, seen.slowness + 0.7 * (seen.source == 0)),
        *(seen.moment, seen.together, seen.directed),
    )
    (names,) = fabric_faults.accuse(changed, Places({}))
    assert set(names) == {
        Suspect(NODE, ("n00000",), "sends"),
        Suspect(NODE, ("n00001",), "receives"),
        Suspect(PAIR, ("n00000", "n00001"), "sends"),
    }


def test_too_few_rounds_accuse_nobody_and_say_so() -> None:
    fabric = fat_tree(4, leaf=4)
    seen = observe(fabric, all_pairs(4), [], QUIET, np.random.default_rng(1))
    everybody = search.of_map(seen, fabric.places())
    found = search.residuals(seen, fabric.places(), {})
    margin = fabric_faults.MARGIN
    verdict = search.Search(everybody, found.excess, found.stratum, seen.moment, margin=margin).run()
    assert (verdict.accusations, verdict.floor) == ((), None)
    often = observe(fabric, all_pairs(4) * 4, [], QUIET, np.random.default_rng(1))
    found = search.residuals(often, fabric.places(), {})
    again = search.Search(search.of_map(often, fabric.places()), found.excess, found.stratum, often.moment, margin=margin).run()
    assert again.floor is not None


def test_busy_uplinks_make_classes_of_their_own() -> None:
    """Links between switches at half of what is below them: pairs are slow by how many are on them, and nobody is at fault."""
    fabric = fat_tree(16, leaf=4)
    seen = observe(fabric, all_pairs(16) * 2, [], QUIET, np.random.default_rng(2))
    load = search.loads(seen, fabric.leaf)
    shared = Observations(
        *(seen.quantity, seen.nodes, seen.source, seen.target, seen.slowness + np.log(np.maximum(load / 2, 1))),
        *(seen.moment, seen.together, seen.directed),
    )
    assert set(load) >= {0, 4}
    assert fabric_faults.accuse(shared, fabric.places()) == []
    classes = search.residuals(shared, fabric.places(), {}).levels
    assert {one.load for one in classes} == set(load.tolist())


def test_what_is_no_measurement_is_refused() -> None:
    ends = np.array([0]), np.array([0])
    moment = np.array([0])
    with refused_as("map-self-pair", match="c1 measured against itself"):
        Observations("latency_us", ("c1",), *ends, np.array([1.0]), moment, moment, False)
    with refused_as("map-value"):
        Observations("latency_us", ("c1", "c2"), np.array([0]), np.array([1]), np.array([np.nan]), moment, moment, False)

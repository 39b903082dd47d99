"""Bisection, growing collectives, latency under load: what is planned,
how tables are read, what they are held against.
"""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from programs import instrument
from reframe_tests.harness.cases.results import derived
from reframe_tests.harness.evidence import rank_records
from reframe_tests.harness.samples import Sample
from reframe_tests.harness.suites import catalogue, options, reader
from reframe_tests.harness.suites.instruments import AGGRESSORS, bisection_facts
from reframe_tests.harness.vocabulary import NotMeasured
from refusals import refused_as
from studies.output_damage import golden
from synthetic_evidence import make_rank
from synthetic_stack import launches

GROUP = "bisection"
PLAIN = "bisection-mpich-n2.txt"
CROSSING = "bisection-mpich-n4-switches.txt"


def test_pairs_are_held_against_the_ranks_own_records():
    ranks = [make_rank(0, "c1.site.org"), make_rank(1, "c2")]
    assert rank_records.check_hosts(ranks, bisection_facts(golden(PLAIN)).hosts) == []
    assert rank_records.check_hosts(ranks, {0: "c1", 1: "c3", 7: "c9"}) == [
        "rank 1 was on c2, but its output says c3; run it again."
    ]


# ---- Collectives on growing node counts: what is planned, how the table is
# read, and how growth is held against log2 ----

GROWTH = "growth"
RECORDED = ("growth-mpich-n4.txt", "growth-intelmpi-n4.txt")


def launch(nodes, ppn=1, level="smoke"):
    (planned,) = launches(GROWTH, nodes * ppn, level, nodes=nodes)
    return planned


def test_growth_by_rounds_is_one_and_more_is_more():
    times = {2: (10.0, 11.0, 12.0), 8: (33.0, 33.0, 500.0), 64: (132.0, None, 132.0)}
    row = ("growth", "Barrier", GROWTH, 64, 1)
    found = derived.compare_nodes(
        [
            Sample(*row, f"nodes={nodes}", None, 100, derived.QUANTITY, values)
            for nodes, values in times.items()
        ],
        ppn=1,
    )
    assert [(each.first, each.nodes, each.ratio, each.variant) for each in found] == [
        (2, 8, pytest.approx(1.0), "nodes=8"),
        (2, 64, pytest.approx(2.0), "nodes=64"),
    ]


# ---- Latency under load: what is planned, and how its table is read ----

LOADED = "loaded_latency"
NAME = "loaded_latency-mpich-n4.txt"
#: Recorded outputs of other placements: nodes and options of their launches.
PLACED = {
    "loaded_latency-mpich-n12-interleaved.txt": ("interleaved", 6, {}),
    "loaded_latency-mpich-n12-random-bursts.txt": (
        "random",
        6,
        {"bursts": "10ms_on_40ms_off", "seed": "7"},
    ),
}


# ---- Everything above as it is planned and read ----


@pytest.mark.parametrize(("name", "nodes", "across"), [(PLAIN, 2, 0.0), (CROSSING, 4, 1.0)])
def test_recorded_halves(name, nodes, across):
    (planned,) = launches(GROUP, nodes, level="smoke", nodes=nodes, limits=catalogue.Limits(1.0))
    text = golden(name)
    records = reader.complete(reader.parse(text), planned.expected, source=name)
    assert [record.benchmark for record in records] == ["Bisection", "Bisection_both_ways"]
    for record in records:
        assert record.values["across_switches"] == across
        slowest = record.values["bandwidth_slowest_mb_per_s"] * nodes / 2
        assert record.values["bandwidth_mb_per_s"] == pytest.approx(slowest, 1e-4)
    facts = bisection_facts(text)
    assert sorted(facts.hosts) == list(range(nodes))
    assert set(facts.hosts.values()) == {f"c{node + 1}" for node in range(nodes)}
    said = "plain halves, because" if nodes == 2 else "2 of 2 pairs of nodes on different ones"
    assert said in facts.notes[0]


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_growth(name):
    text = golden(name)
    records = reader.complete(reader.parse(text), launch(4).expected, source=name)
    assert len(records) == 8
    took_part = {(record.variant, record.ranks, record.repetitions) for record in records}
    assert took_part == {("nodes=2", 2, 100), ("nodes=4", 4, 100)}
    for other in (launch(4, level="nightly"), launch(2, ppn=2)):
        with refused_as("output-damaged"):
            reader.complete(reader.parse(text), other.expected)
    if name == RECORDED[0]:
        assert records[0].values == {
            "t_max_us": 43.53,
            "latency_p50_us": 16.731,
            "latency_p90_us": 19.527,
            "latency_p99_us": 1244.502,
        }


@given(
    nodes=st.integers(2, 300).map(lambda half: 2 * half),
    aggressors=st.sampled_from(AGGRESSORS[1:]),
    seed=st.integers(0, 10**9 - 1),
)
def test_every_node_is_a_victims_or_an_aggressors(nodes, aggressors, seed):
    share_out = instrument(LOADED).share_out
    victims, others = share_out(nodes, aggressors, seed)
    assert sorted([*victims, *others]) == list(range(nodes)), "each node once"
    assert len(victims) % 2 == len(others) % 2 == 0, "all have a partner"
    assert len(victims) == nodes // 4 * 2 and len(others) - len(victims) in (0, 2)
    assert victims == sorted(victims) and others == sorted(others), "in the job's order"
    assert share_out(nodes, aggressors, seed) == (victims, others), "the seed repeats it"
    gaps = {second - first for first, second in pairwise(victims)}
    if aggressors == "linear":
        assert gaps <= {1}
    if aggressors == "interleaved":
        assert gaps <= {2, 3}, "no two victims, and no three aggressors, beside each other"


def test_seeds_draw_different_nodes_and_others_ignore_them():
    share_out = instrument(LOADED).share_out
    drawn = {tuple(share_out(16, "random", seed)[0]) for seed in range(20)}
    assert len(drawn) > 10
    for aggressors in set(AGGRESSORS) - {"random"}:
        assert share_out(16, aggressors, 1) == share_out(16, aggressors, 2)
    assert share_out(4, "beside", 1) == ([0, 1, 2, 3], [0, 1, 2, 3])


def placements(ppn, nodes, **chosen):
    under = options.of_group(catalogue.OPTIONS, LOADED, chosen)
    return list(launches(LOADED, nodes * ppn, level="smoke", nodes=nodes, chosen=under))


def test_the_placements_that_nodes_and_ranks_allow():
    """One rank a node on two nodes leaves none for an aggressor."""
    for ppn, nodes, planned in (
        (2, 2, AGGRESSORS[:1]),
        (1, 4, AGGRESSORS[1:]),
        (2, 6, AGGRESSORS),
    ):
        assert tuple(launch.name for launch in placements(ppn, nodes)) == planned
    with pytest.raises(NotMeasured, match="no benchmark of group loaded_latency runs on 2 ranks"):
        placements(1, 2)


def test_bursts_are_another_variant_and_the_seed_one_of_the_random_placement():
    made = placements(2, 4, bursts="10ms_on_90ms_off", seed="7")
    for launch in made:
        random = launch.name == "random"
        assert launch.args[6:] == (
            *(("--burst-ms", "10", "--pause-ms", "90")),
            *(("--seed", "7") if random else ()),
        )
        variants = {item.stored_variant("loaded") for item in launch.expected}
        assert variants == {"loaded,bursts=10ms_on_90ms_off" + ",seed=7" * random}
    with refused_as("bad-option", match="steady, and times"):
        placements(2, 4, bursts="10ms")


@pytest.mark.parametrize("name", PLACED)
def test_recorded_placements_are_those_of_their_launch_alone(name):
    aggressors, nodes, chosen = PLACED[name]
    text = golden(name)
    [launch] = [each for each in placements(2, nodes, **chosen) if each.name == aggressors]
    reader.check_arguments(text, launch)
    records = reader.complete(reader.parse(text), launch.expected, source=name)
    assert {record.benchmark.removesuffix(f"_{aggressors}") for record in records} == {
        "Victim",
        "Load",
        "Victim_impact",
    }
    facts = catalogue.SUITES[LOADED].facts(text)
    assert aggressors in facts.notes[0] and len(facts.hosts) == 2
    for other in placements(2, nodes):
        if other != launch:
            with refused_as("output-mixed"):
                reader.check_arguments(text, other)


def test_a_recorded_latency_under_load():
    (planned,) = launches(LOADED, 4, level="smoke", nodes=2)
    records = reader.complete(reader.parse(golden(NAME)), planned.expected, source=NAME)
    alone, loaded, load, impact = records
    assert [record.variant for record in (alone, loaded)] == ["alone", "loaded"]
    assert [record.benchmark for record in (load, impact)] == ["Load", "Victim_impact"]
    assert (alone.repetitions, loaded.repetitions, load.message_bytes) == (200, 200, 131072)
    ways = (("impact", "latency_us"), ("impact_p99", "latency_p99_us"))
    assert impact.values == {
        name: pytest.approx(loaded.values[of] / alone.values[of]) for name, of in ways
    }


# ---- Halves ----


def test_who_knows_the_switches_above_a_node():
    """Slurm, or the site that describes them; otherwise nobody, or of another node."""
    program = instrument(GROUP)
    pattern = "switch.switch.node"
    for name, address, switches in (
        ("c1.site.org", "s0.s1.c1", ("s0", "s1")),
        ("c1", "s[0-1].s1.c1", ("s_0-1_", "s1")),
        ("c1", "s0.s1.c2", ()),
        ("c1", "s0.c1", ()),
        ("", "", ()),
    ):
        assert program.switches_of(name, address, pattern) == switches
    text = "spine.leaf1=cn0*, cn10; spine.leaf2=cn1?"
    described = [program.described_switches(host, text) for host in ("cn01.site.org", "cn10")]
    assert described == [("spine", "leaf1")] * 2
    assert program.described_switches("cn11", text) == ("spine", "leaf2")
    assert program.described_switches("gpu1", text) == program.described_switches("cn01", "") == ()


@pytest.mark.parametrize(
    ("switches", "pairs", "split"),
    [
        (["a", "b", "a", "b"], [(0, 1), (2, 3)], "2 of 2 pairs of nodes on different ones"),
        (["b", "a", "a", "a"], [(1, 3), (2, 0)], "1 of 2 pairs of nodes on different ones"),
        # the top of the tree is crossed
        (["t.a", "u.c", "t.b", "u.d"], [(0, 1), (2, 3)], "2 of 2"),
        (["a"] * 4, [(0, 2), (1, 3)], "plain halves, because Slurm has all nodes on one switch"),
        (["a", "b", "a", ""], [(0, 2), (1, 3)], "plain halves, because the switches are not known"),
    ],
)
def test_pairs_are_on_different_switches_where_that_can_be(switches, pairs, split):
    """Two levels of switches have a dot between them; none is not known."""
    paths = [tuple(switch.split(".")) if switch else () for switch in switches]
    found = instrument(GROUP).Halves(["n0", "n1", "n2", "n3"], paths, 1, "Slurm")
    assert found.pairs == pairs
    assert split in found.split

"""Bisection, growing collectives, latency under load: what is planned, how tables are read, what they are held against."""

from __future__ import annotations

import re
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from catalogue_launches import launches
from instrument_output import resealed
from reframe_tests.harness.cases.results import derived
from reframe_tests.harness.evidence import rank_records
from reframe_tests.harness.samples import Sample
from reframe_tests.harness.stacks import metadata
from reframe_tests.harness.suites import catalogue, reader
from reframe_tests.harness.suites.benchmark import growing_node_counts
from reframe_tests.harness.suites.instruments import bisection_facts
from reframe_tests.harness.vocabulary import NotMeasured
from refusals import refused_as
from studies.output_damage import golden
from synthetic_evidence import make_rank
from synthetic_stack import DOCUMENT

GROUP = "bisection"
PLAIN, CROSSING = "bisection-mpich-n2.txt", "bisection-mpich-n4-switches.txt"


@pytest.fixture(scope="module")
def program() -> Any:
    """The instrument without MPI."""
    stand_in = ModuleType("mpi4py")
    stand_in.MPI = SimpleNamespace(FLOAT=None)  # type: ignore[attr-defined]
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "mpi4py", stand_in)
        return SimpleNamespace(**runpy.run_path(str(catalogue.SUITES[GROUP].script.path)))


def paired(program: Any, switches: Sequence[str], ppn: int = 1) -> Any:
    """Halves of nodes n0, n1, ... on these switches (``.`` between two levels; empty: not known)."""
    hosts = [f"n{node}" for node in range(len(switches)) for _ in range(ppn)]
    paths = [tuple(switch.split(".")) if switch else () for switch in switches for _ in range(ppn)]
    return program.Halves(hosts, paths, ppn, "Slurm")


def test_slurm_says_which_switches_are_above_a_node(program: Any) -> None:
    assert program.switches_of("c1.site.org", "s0.s1.c1", "switch.switch.node") == ("s0", "s1")
    assert program.switches_of("c1", "s[0-1].s1.c1", "switch.switch.node") == ("s_0-1_", "s1")
    for address, pattern in (("c1", "node"), ("", ""), ("s0.s1.c2", "switch.switch.node"), ("s0.c1", "switch.switch.node")):
        assert program.switches_of("c1", address, pattern) == (), "nobody says, or of another node"


def test_a_site_describes_its_switches(program: Any) -> None:
    text = "spine.leaf1=cn0*, cn10; spine.leaf2=cn1?"
    hosts = ("cn01.site.org", "cn10", "cn11", "gpu1")
    assert [program.described_switches(host, text) for host in hosts] == [
        *(("spine", "leaf1"), ("spine", "leaf1"), ("spine", "leaf2"), ())
    ]
    assert program.described_switches("cn01", "") == ()


def test_pairs_are_on_different_switches_where_that_can_be(program: Any) -> None:
    found = paired(program, ["a", "b", "a", "b"])
    assert found.pairs == [(0, 1), (2, 3)]
    assert found.split == "by switches as Slurm has them, 2 of 2 pairs of nodes on different ones"
    found = paired(program, ["b", "a", "a", "a"])
    assert found.pairs == [(1, 3), (2, 0)]
    assert found.split == "by switches as Slurm has them, 1 of 2 pairs of nodes on different ones"
    found = paired(program, ["t.a", "u.c", "t.b", "u.d"])
    assert found.pairs == [(0, 1), (2, 3)], "the top of the tree is crossed"


def test_plain_halves_say_why(program: Any) -> None:
    assert paired(program, ["a"] * 4).split == "plain halves, because Slurm has all nodes on one switch (a)"
    found = paired(program, ["a", "b", "a", ""])
    assert found.split == "plain halves, because the switches are not known" and found.pairs == [(0, 2), (1, 3)]
    assert found.describe(3) == [3, "n3", None]


def test_ranks_of_a_node_have_partners_on_the_other(program: Any) -> None:
    found = paired(program, ["a", "b", "a", "b"], ppn=2)
    assert found.pairs == [(0, 2), (4, 6)]
    assert found.partner == {
        **{0: (2, True), 1: (3, True), 2: (0, False), 3: (1, False)},
        **{4: (6, True), 5: (7, True), 6: (4, False), 7: (5, False)},
    }


def test_what_is_planned() -> None:
    (planned,) = launches(GROUP, 8, level="smoke", nodes=4)
    assert planned.args[:4] == ("--ppn", "2", "--repetitions", "10")
    assert planned.args[4:] == ("Bisection:1048576", "Bisection_both_ways:1048576")
    with pytest.raises(NotMeasured, match="no benchmark of group bisection runs on 6 ranks of 3 nodes"):
        launches(GROUP, 6, nodes=3)


def test_its_sum_is_held_against_half_of_the_nodes() -> None:
    def ways(group: str, name: str, nodes: int) -> float:
        metrics = {metric.name: metric for metric in catalogue.metrics(launches(group, 2 * nodes, nodes=nodes))}
        return metrics[name].directions

    assert [ways(GROUP, "Bisection.bandwidth.0001048576", nodes) for nodes in (2, 4, 6)] == [1, 2, 3]
    assert [ways(GROUP, "Bisection_both_ways.bandwidth.0001048576", nodes) for nodes in (2, 4)] == [2, 4]
    assert [ways("transfer", "Uniband.bandwidth.0001048576", nodes) for nodes in (1, 2, 16)] == [1, 1, 8]
    assert [ways("p2p", "PingPong.bandwidth.0004194304", nodes) for nodes in (2, 16)] == [1, 1]


@pytest.mark.parametrize(("name", "nodes", "across"), [(PLAIN, 2, 0.0), (CROSSING, 4, 1.0)])
def test_recorded_outputs(name: str, nodes: int, across: float) -> None:
    (planned,) = launches(GROUP, nodes, level="smoke", nodes=nodes, limits=catalogue.Limits(1.0))
    text = golden(name)
    records = reader.complete(reader.parse(text), planned.expected, source=name)
    assert [record.benchmark for record in records] == ["Bisection", "Bisection_both_ways"]
    assert {record.values["across_switches"] for record in records} == {across}
    for record in records:
        assert record.values["bandwidth_mb_per_s"] == pytest.approx(
            record.values["bandwidth_slowest_mb_per_s"] * nodes / 2, 1e-4
        )
    hosts = bisection_facts(text).hosts
    assert sorted(hosts) == list(range(nodes)) and set(hosts.values()) == {f"c{node + 1}" for node in range(nodes)}


def test_the_evidence_says_how_it_was_split() -> None:
    plain = bisection_facts(golden(PLAIN)).notes[0]
    assert plain == "the nodes were split into plain halves, because the switches are not known"
    first, slowest = bisection_facts(golden(CROSSING)).notes
    assert first == "the nodes were split by switches as the site has them, 2 of 2 pairs of nodes on different ones"
    assert re.fullmatch(r"the slowest pair of Bisection_both_ways 1048576 B: ranks [0-3] and [0-3]", slowest)
    assert not any(bisection_facts(""))


def test_pairs_are_held_against_the_ranks_own_records() -> None:
    ranks = [make_rank(0, "c1.site.org"), make_rank(1, "c2")]
    assert rank_records.check_hosts(ranks, bisection_facts(golden(PLAIN)).hosts) == []
    assert rank_records.check_hosts(ranks, {0: "c1", 1: "c3", 7: "c9"}) == [
        "rank 1 was on c2 and not on c3, as its output says."
    ]


# ---- Collectives on growing node counts: what is planned, how the table is read, and how growth is held against log2 ----

GROWTH = "growth"
STACK = metadata.parse(DOCUMENT, Path("stack.json"))
RECORDED = ("growth-mpich-n4.txt", "growth-intelmpi-n4.txt")


def launch(nodes: int, ppn: int = 1, level: str = "smoke") -> catalogue.Launch:
    (planned,) = catalogue.launches(GROWTH, STACK, nodes * ppn, level, nodes)
    return planned


def test_node_counts_double_up_to_all() -> None:
    counts = {nodes: growing_node_counts(nodes) for nodes in (2, 3, 4, 6, 8, 1000)}
    assert counts[2] == (2,) and counts[3] == (2, 3) and counts[4] == (2, 4) and counts[6] == (2, 4, 6)
    assert counts[8] == (2, 4, 8) and counts[1000] == (2, 4, 8, 16, 32, 64, 128, 256, 512, 1000)


def test_the_program_is_asked_for_every_count_with_the_ranks_of_a_node() -> None:
    planned = launch(6, ppn=4, level="nightly")
    assert planned.args == (
        *("--nodes", "2,4,6", "--ppn", "4", "--repetitions", "1000", "Barrier", "Allreduce:8", "Alltoall:8,64"),
    )
    assert [(item.benchmark, item.ranks, item.sizes) for item in planned.expected] == [
        *(("Barrier", 24, (None,)), ("Allreduce", 24, (8,)), ("Alltoall", 24, (8, 64)))
    ]
    assert {item.variants for item in planned.expected} == {("nodes=2", "nodes=4", "nodes=6")}
    names = {metric.name for metric in catalogue.metrics([planned])}
    assert {"Barrier.nodes6.latency_p99", "Alltoall.nodes2.t_max.0000000064"} <= names
    assert set(catalogue.planned_metrics(GROWTH)) >= {
        "Barrier.nodes*.latency_p50",
        "Allreduce.nodes*.t_max",
    }


def test_one_node_is_no_growth() -> None:
    with pytest.raises(NotMeasured, match=r"no benchmark of group growth runs on 8 ranks of 1 node"):
        catalogue.launches(GROWTH, STACK, 8, "smoke", 1)


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_outputs_of_growth(name: str) -> None:
    text = golden(name)
    records = reader.complete(reader.parse(text), launch(4).expected, source=name)
    assert len(records) == 8 and {record.repetitions for record in records} == {100}
    assert {(record.variant, record.ranks) for record in records} == {("nodes=2", 2), ("nodes=4", 4)}, "those that took part"
    with refused_as("output-damaged", match="made 100 repetitions, asked for were 1000"):
        reader.complete(reader.parse(text), launch(4, level="nightly").expected)
    with refused_as("output-damaged", match="variants"):
        reader.complete(reader.parse(text), launch(2, ppn=2).expected)


def test_values_are_those_printed() -> None:
    records = reader.parse(golden(RECORDED[0]))
    assert (records[0].benchmark, records[0].message_bytes, records[0].variant) == ("Barrier", None, "nodes=2")
    assert records[0].values == {
        **{"t_max_us": 43.53, "latency_p50_us": 16.731, "latency_p90_us": 19.527, "latency_p99_us": 1244.502}
    }


def sample(nodes: int, *values: float | None, quantity: str = derived.QUANTITY) -> Sample:
    return Sample("growth", "Barrier", GROWTH, 64, 1, f"nodes={nodes}", None, 100, quantity, values)


def test_growth_by_rounds_is_one_and_more_is_more() -> None:
    found = derived.compare_nodes(
        [sample(2, 10.0, 11.0, 12.0), sample(8, 33.0, 33.0, 500.0), sample(64, 132.0, None, 132.0)], ppn=1
    )
    assert [(each.first, each.nodes, each.ratio, each.variant) for each in found] == [
        (2, 8, pytest.approx(1.0), "nodes=8"),
        (2, 64, pytest.approx(2.0), "nodes=64"),
    ]


def test_growth_counts_the_rounds_of_all_ranks() -> None:
    """Two nodes of 4 ranks take 3 rounds, six of them 5."""
    (found,) = derived.compare_nodes([sample(2, 30.0), sample(6, 50.0)], ppn=4)
    assert found.ratio == pytest.approx(1.0)


def test_growth_needs_two_counts_and_values() -> None:
    assert derived.compare_nodes([sample(2, 10.0)], ppn=1) == []
    assert derived.compare_nodes([sample(2, 10.0), sample(4, None)], ppn=1) == []
    assert derived.compare_nodes([sample(2, 10.0), sample(4, 20.0, quantity="t_max_us")], ppn=1) == []


# ---- Latency under load: what is planned, and how its table is read ----

LOADED = "loaded_latency"
NAME = "loaded_latency-mpich-n4.txt"


def test_what_is_planned_under_load() -> None:
    (planned,) = launches(LOADED, 8, level="smoke", nodes=4)
    assert planned.args == ("--ppn", "2", "--repetitions", "200")
    names = {metric.name for metric in catalogue.metrics([planned])}
    assert {"Victim.alone.latency_p99.0000000008", "Victim.loaded.latency.0000000008"} <= names
    assert {"Victim_impact.impact_p99.0000000008", "Load.bandwidth.0000131072"} <= names


def test_a_node_needs_a_rank_for_the_load() -> None:
    with pytest.raises(NotMeasured, match="needs two ranks a node or more"):
        launches(LOADED, 4, nodes=4)
    with pytest.raises(NotMeasured, match="no benchmark of group loaded_latency runs on 6 ranks of 3 nodes"):
        launches(LOADED, 6, nodes=3)


def test_a_recorded_output() -> None:
    (planned,) = launches(LOADED, 4, level="smoke", nodes=2)
    text = golden(NAME)
    alone, loaded, load, impact = reader.complete(reader.parse(text), planned.expected, source=NAME)
    assert (alone.variant, loaded.variant, load.benchmark, impact.benchmark) == ("alone", "loaded", "Load", "Victim_impact")
    assert (alone.repetitions, loaded.repetitions) == (200, 200)
    assert impact.values == {
        "impact": pytest.approx(loaded.values["latency_us"] / alone.values["latency_us"]),
        "impact_p99": pytest.approx(loaded.values["latency_p99_us"] / alone.values["latency_p99_us"]),
    }
    assert load.repetitions and load.message_bytes == 131072


def test_the_rows_are_those_of_one_run() -> None:
    with refused_as("output-damaged"):
        reader.parse(resealed(golden(NAME), 0, state="loaded"), source="job.out")

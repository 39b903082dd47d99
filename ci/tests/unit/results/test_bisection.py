"""Bisection: how nodes are paired, how the table is read, and which links its sum is held against."""

from __future__ import annotations

import re
import runpy
import sys
from collections.abc import Sequence
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from catalogue_launches import launches
from reframe_tests.harness.evidence import rank_records
from reframe_tests.harness.suites import catalogue, reader
from reframe_tests.harness.suites.instruments import bisection_said
from reframe_tests.harness.vocabulary import NotMeasured
from studies.output_damage import golden
from synthetic_evidence import make_rank

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
    hosts = bisection_said(text).hosts
    assert sorted(hosts) == list(range(nodes)) and set(hosts.values()) == {f"c{node + 1}" for node in range(nodes)}


def test_the_evidence_says_how_it_was_split() -> None:
    plain = bisection_said(golden(PLAIN)).notes[0]
    assert plain == "the nodes were split into plain halves, because the switches are not known"
    first, slowest = bisection_said(golden(CROSSING)).notes
    assert first == "the nodes were split by switches as the site has them, 2 of 2 pairs of nodes on different ones"
    assert re.fullmatch(r"the slowest pair of Bisection_both_ways 1048576 B: ranks [0-3] and [0-3]", slowest)
    assert bisection_said("") == ((), {})


def test_pairs_are_held_against_the_ranks_own_records() -> None:
    ranks = [make_rank(0, "c1.site.org"), make_rank(1, "c2")]
    assert rank_records.check_hosts(ranks, bisection_said(golden(PLAIN)).hosts) == []
    assert rank_records.check_hosts(ranks, {0: "c1", 1: "c3", 7: "c9"}) == [
        "rank 1 was on c2 and not on c3, as its output says."
    ]

"""Leaf switches and a spine in the mini-cluster's plan, and the configuration made of them, without a cluster."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from mpibench.cluster import faults, plan, slurm
from reframe_tests.harness.switches import slurm as slurm_switches
from reframe_tests.harness.vocabulary import BadInput


def planned(compute: int = 10, leaf_size: int = 4, oversubscription: float = 1.0) -> plan.Plan:
    return plan.Plan(compute, "spread", (0, 1), (), leaf_size, oversubscription)


def test_nodes_fill_leaves_one_after_the_other() -> None:
    made = planned()
    assert [(leaf.name, leaf.nodes[0].name, leaf.nodes[-1].name) for leaf in made.leaves] == [
        *(("leaf1", "c1", "c4"), ("leaf2", "c5", "c8"), ("leaf3", "c9", "c10")),
    ]
    assert [fabric.name for fabric in made.fabrics] == ["mgmt", "eth1g", "eth10g", "eth40g", "eth100m"]
    assert made.bridge_above(made.node("c8"), plan.LEAF_FABRIC) == "leaf2"
    assert made.bridge_above(made.nodes[0], plan.LEAF_FABRIC) == "br-eth100m", "the head is on the spine"


def test_without_leaves_nothing_changes() -> None:
    made = plan.Plan(4, "spread", (0, 1))
    assert made.leaves == ()
    assert made.fabrics == plan.FABRICS
    assert slurm.topology_conf(made) == ""
    assert "Topology" not in slurm.slurm_conf(made, Path("/log"))


@pytest.mark.parametrize(
    ("compute", "asked", "leaf_size"), [(2, None, 0), (4, None, 0), (5, None, 4), (16, None, 4), (4, 2, 2), (8, 0, 0)]
)
def test_clusters_of_more_than_four_have_leaves_unless_told_otherwise(compute: int, asked: int | None, leaf_size: int) -> None:
    assert plan.make(compute, "spread", leaf_size=asked).leaf_size == leaf_size


@pytest.mark.parametrize(("oversubscription", "rate"), [(1.0, 400), (2.0, 200), (4.0, 100), (0.5, 800)])
def test_uplinks_carry_what_oversubscription_leaves(oversubscription: float, rate: int) -> None:
    leaf = planned(oversubscription=oversubscription).leaves[2]
    assert leaf.uplink.line_rate_mbit_per_s == rate, "also above a leaf that is not full"
    lines = plan.uplink_lines(leaf)
    assert sum(f"htb rate {leaf.uplink.shaped_kbit_per_s}kbit" in line for line in lines) == 2
    assert {line.split()[3] for line in lines} == {"leaf3-up", "leaf3-down"}
    assert all("leaf3-up" in line for line in plan.uplink_lines(leaf, 0.5, [0]))


def test_slurm_is_told_the_same_tree(tmp_path: Path) -> None:
    made = planned()
    tree = slurm_switches.read(slurm.topology_conf(made), "topology.conf")
    assert {leaf.name: tuple(node.name for node in leaf.nodes) for leaf in made.leaves} == {
        name: switch.nodes for name, switch in tree.switches.items() if switch.parent == plan.SPINE
    }
    lines = slurm.slurm_conf(made, tmp_path).splitlines()
    assert "TopologyPlugin=topology/tree" in lines
    assert any(line.startswith("PartitionName=eth100m ") for line in lines)
    assert slurm.topology_conf(planned(4)) == "SwitchName=leaf1 Nodes=c1,c2,c3,c4\n"
    assert json.loads(slurm.node_json(made))["fabrics"] == ["eth1g", "eth10g", "eth40g", "eth100m"]


def test_cables_end_in_the_leaf() -> None:
    made = planned()
    lines = plan.cable_lines(made, made.node("c5"), 7)
    assert "link set c5.eth100m master leaf2 up" in lines
    assert "link set c5.eth1g master br-eth1g up" in lines
    assert "link set mc-head.eth100m master br-eth100m up" in plan.cable_lines(made, made.nodes[0], 7)
    switch = plan.switch_lines(made)
    assert "link set leaf2-up master leaf2 up" in switch
    assert "link set leaf2-down master br-eth100m up" in switch


def test_names_fit_an_interface_up_to_the_largest_cluster() -> None:
    made = planned(plan.MAX_NODES, 1)
    names = [node.port(fabric) for node in made.nodes for fabric in made.fabrics]
    names += [end for leaf in made.leaves for end in leaf.uplink_ends] + [leaf.name for leaf in made.leaves]
    names += [name for node in made.nodes for fabric in made.fabrics for name in faults.relay_names(node, fabric)]
    assert len(set(names)) == len(names)
    # IFNAMSIZ of linux/if.h, and TASK_COMM_LEN of linux/sched.h, less the closing zero.
    assert max(map(len, names)) <= 15


@pytest.mark.parametrize(
    ("more", "wanted"), [({"leaf_size": -1}, "leaf switch of -1"), ({"oversubscription": 0}, "oversubscription of 0")]
)
def test_impossible_leaves_are_refused(more: dict[str, float], wanted: str) -> None:
    with pytest.raises(BadInput, match=wanted):
        plan.make(4, "spread", **more)  # type: ignore[arg-type]


def test_unknown_leaves_are_refused_with_the_known_ones() -> None:
    with pytest.raises(BadInput, match="leaf1, leaf2, leaf3"):
        planned().leaf("leaf9")
    with pytest.raises(BadInput, match="--leaf-size"):
        plan.Plan(2, "spread", (0,)).leaf("leaf1")
    with pytest.raises(BadInput, match="eth100m"):
        planned().fabric("ib0")


def test_a_plan_with_leaves_survives_the_state_file() -> None:
    made = planned(oversubscription=2.5)
    assert plan.Plan.from_dict(json.loads(json.dumps(asdict(made)))) == made

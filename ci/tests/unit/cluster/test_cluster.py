"""The mini-cluster's plan, the configuration made of it, and what its
commands say and refuse, without a cluster.
"""

import json
import xml.etree.ElementTree as ElementTree

import pytest

from mpibench import cli
from mpibench_cluster import faults, lifecycle, plan, slurm
from mpibench_cluster.lifecycle import ClusterStatus
from reframe_tests.harness.machine import switches
from reframe_tests.harness.vocabulary import BadInput


def planned(compute=2, layout="spread", cpus=(0, 1)):
    return plan.ClusterPlan(compute, layout, cpus)


def leafy(compute=10, leaf_size=4, oversubscription=1.0):
    return plan.ClusterPlan(compute, "spread", (0, 1), (), leaf_size, oversubscription)


# ---- nodes, cores, names ----


def test_hwloc_file_numbers_cores_in_the_plans_order_and_orders_sets_ascending():
    made = planned(cpus=(0, 1, 40))
    for node in made.compute_nodes:
        shown = made.topology(node)
        units = ElementTree.fromstring(slurm.hwloc_xml(shown)).findall(".//object[@type='PU']")
        assert [int(row.attrib["os_index"]) for row in units] == list(shown.cpus)
        sets = [int(row.attrib["cpuset"].replace(",0x", ""), 16) for row in units]
        assert sets == [1 << 0, 1 << 1, 1 << 40]


# ---- network and Slurm ----


def test_a_switch_shapes_its_end_of_a_cable_where_several_senders_meet():
    usual = planned().fabric("eth1g")
    assert plan.port_lines(planned(2), planned(2).node("c1"), usual) == plan.clear_lines("c1.eth1g")
    many = planned(3)
    assert any("htb rate" in line for line in plan.port_lines(many, many.node("c1"), usual))
    cleared = plan.clear_lines("mc-head.eth1g")
    assert plan.port_lines(many, many.node("mc-head"), usual) == cleared


# ---- leaf switches and a spine ----


def test_nodes_fill_leaves_one_after_the_other_and_their_cables_end_there():
    made = leafy()
    assert [(leaf.name, leaf.nodes[0].name, leaf.nodes[-1].name) for leaf in made.leaves] == [
        ("leaf1", "c1", "c4"),
        ("leaf2", "c5", "c8"),
        ("leaf3", "c9", "c10"),
    ]
    lines = plan.cable_lines(made, made.node("c5"), 7)
    assert {"link set c5.eth100m master leaf2 up", "link set c5.eth1g master br-eth1g up"} <= set(
        lines
    )
    on_spine = plan.cable_lines(made, made.nodes[0], 7)
    assert "link set mc-head.eth100m master br-eth100m up" in on_spine, "the head is on the spine"
    tree = switches.read_slurm(slurm.topology_conf(made), "topology.conf")
    assert {leaf.name: tuple(node.name for node in leaf.nodes) for leaf in made.leaves} == {
        name: switch.nodes for name, switch in tree.switches.items() if switch.parent == plan.SPINE
    }


@pytest.mark.parametrize(
    ("oversubscription", "rate"), [(1.0, 400), (2.0, 200), (4.0, 100), (0.5, 800)]
)
def test_uplinks_carry_what_oversubscription_leaves(oversubscription, rate):
    leaf = leafy(oversubscription=oversubscription).leaves[2]
    assert leaf.uplink.line_rate_mbit_per_s == rate, "also above a leaf that is not full"
    lines = plan.uplink_lines(leaf)
    assert sum(f"htb rate {leaf.uplink.shaped_kbit_per_s}kbit" in line for line in lines) == 2
    assert {line.split()[3] for line in lines} == {"leaf3-up", "leaf3-down"}
    assert all("leaf3-up" in line for line in plan.uplink_lines(leaf, 0.5, [0]))


# ---- what is refused ----


@pytest.mark.parametrize(
    ("ask", "wanted"),
    [
        (lambda: plan.make(33, "spread"), "33"),
        (lambda: plan.make(2, "x"), "spread"),
        (lambda: plan.make(4, "spread", leaf_size=-1), "leaf switch of -1"),
        (lambda: plan.make(4, "spread", oversubscription=0), "oversubscription of 0"),
        (lambda: planned().node("c3"), "mc-head, c1, c2"),
        (lambda: planned().fabric("ib0"), "mgmt, eth1g, eth10g, eth40g"),
        (lambda: leafy().leaf("leaf9"), "leaf1, leaf2, leaf3"),
        # Faults, before a cluster is looked for.
        (lambda: faults.make("link-up", "c1", "eth1g"), "known are link-down, slow-link"),
        (lambda: faults.make("slow-port", "c1"), "slow-port NODE FABRIC"),
        (lambda: faults.make("slow-link", "eth1g", fraction=0.0), "above 0, at most 1"),
        (lambda: faults.make("slow-port", "c1", "eth1g", direction="up"), "send, receive, both"),
        (lambda: faults.make("lossy-cable", "c1", "eth1g", loss=1.0), "below 1"),
        (lambda: faults.make("mtu", "c1", "eth1g", mtu=9000), "576 to 1500"),
        (lambda: faults.make("full-disk", "/tmp", free_kib=3), "at least 4"),
    ],
)
def test_what_cannot_be_is_refused_with_what_can(ask, wanted):
    with pytest.raises(BadInput, match=wanted):
        ask()


# ---- what the commands say ----

ILL = ClusterStatus(
    1,
    "",
    ["layout spread; process 7, files in /run/mpibench-cluster"],
    [{"node": "c1", "alive": True, "slurm": "idle", "not_running": ["slurmd"]}],
    [{"node": "c1", "fabric": "eth40g", "state": "down", "rate": "unshaped"}],
    ["link-down c1 eth40g"],
)


@pytest.mark.parametrize(
    "found", [ILL, ClusterStatus(0, "", ["well"]), ClusterStatus(3, "the cluster is not up")]
)
def test_programs_get_the_same(found, monkeypatch, capsys):
    monkeypatch.setattr(lifecycle, "look", lambda: found)
    assert cli.main(["cluster", "status", "--json"]) == found.status
    said = json.loads(capsys.readouterr().out)
    assert (said["healthy"], said["why"]) == (found.status == 0, found.why)
    for name in ("nodes", "links", "faults"):
        assert said[name] == list(getattr(found, name))
    assert cli.main(["cluster", "status"]) == found.status
    assert capsys.readouterr().out.splitlines() == list(found.lines())


@pytest.mark.parametrize("kind", faults.FAULTS)
def test_every_fault_is_called_with_all_its_options(kind, monkeypatch):
    made = []
    monkeypatch.setattr(faults, "make", lambda *words, **options: made.append((words, options)))
    fault = faults.FAULTS[kind]
    options = [f"--{name.replace('_', '-')}={value}" for name, value in fault.options.items()]
    assert cli.main(["cluster", "fault", kind, *fault.where, *options]) == 0
    assert made == [((kind, *fault.where), fault.options)]

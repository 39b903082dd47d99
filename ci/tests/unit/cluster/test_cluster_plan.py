"""The mini-cluster's plan and the configuration made of it, without a cluster."""

from __future__ import annotations

import ipaddress
import json
import xml.etree.ElementTree as ElementTree
from dataclasses import asdict
from pathlib import Path

import pytest

from mpibench.cluster import plan, slurm
from reframe_tests.harness.machine.topology import Topology
from reframe_tests.harness.sites import site
from reframe_tests.harness.vocabulary import BadInput

#: Bytes of TCP payload in a frame at MTU 1500 with time stamps, bytes of that frame as htb counts it.
PAYLOAD, COUNTED = 1448, 1514


def planned(compute: int = 2, layout: str = "spread", cpus: tuple[int, ...] = (0, 1)) -> plan.Plan:
    return plan.Plan(compute, layout, cpus)


def test_payload_limit_of_1_gbit_ethernet_is_the_textbook_one() -> None:
    rate = planned().fabric("eth1g").shaped_kbit_per_s
    assert rate == 984_400
    assert rate * 1000 / 8 * PAYLOAD / COUNTED / 1e6 == pytest.approx(117.69, abs=0.01)


def test_two_nodes_on_two_cores_start_at_different_ones_and_show_both() -> None:
    nodes = planned().compute_nodes
    assert [planned().topology(node).cpus for node in nodes] == [(0, 1), (1, 0)]


@pytest.mark.parametrize("count", range(1, 9))
@pytest.mark.parametrize("compute", range(1, 6))
def test_every_node_shows_the_same_set_of_cores_and_first_ones_differ_while_there_are_enough(compute: int, count: int) -> None:
    made = planned(compute, cpus=tuple(range(10, 10 + count)))
    shown = [made.topology(node).cpus for node in made.compute_nodes]
    assert {tuple(sorted(cpus)) for cpus in shown} == {made.host_cpus}
    assert len({cpus[0] for cpus in shown}) == min(compute, count)


def test_westmere_counts_sockets_alternately_and_is_not_real() -> None:
    shown = planned(layout="westmere").topology(planned().node("c1"))
    assert not shown.real
    assert (shown.sockets, shown.cores_per_socket) == (2, 6)
    assert shown.cpus[:6] == (0, 2, 4, 6, 8, 10)


@pytest.mark.parametrize("layout", plan.LAYOUTS)
def test_the_harness_understands_the_topology(layout: str) -> None:
    made = planned(layout=layout)
    shown = json.loads(slurm.node_json(made))
    topology = Topology.from_processor(shown["processor"])
    assert shown["faked"] == (layout == "westmere")
    assert shown["cores"] == len(made.host_cpus)
    assert shown["node_counts"] == [2]
    assert {unit.cpu for unit in topology.units} == set(made.topology(made.node("c1")).cpus)
    assert len({unit.socket for unit in topology.units}) == made.topology(made.node("c1")).sockets


@pytest.mark.parametrize(("compute", "counts"), [(1, [2]), (2, [2]), (4, [2, 4]), (6, [2, 4, 6]), (8, [2, 4, 8])])
def test_a_larger_cluster_is_measured_on_doubling_node_counts(compute: int, counts: list[int]) -> None:
    assert json.loads(slurm.node_json(planned(compute=compute)))["node_counts"] == counts


def test_hwloc_file_numbers_cores_in_the_plans_order_and_orders_sets_ascending() -> None:
    made = planned(cpus=(0, 1, 40))
    for node in made.compute_nodes:
        shown = made.topology(node)
        units = [row for row in ElementTree.fromstring(slurm.hwloc_xml(shown)).iter("object") if row.get("type") == "PU"]
        assert [int(row.attrib["os_index"]) for row in units] == list(shown.cpus)
        sets = [int(row.attrib["cpuset"].replace(",0x", ""), 16) for row in units]
        assert sets == sorted(sets) == [1 << 0, 1 << 1, 1 << 40]


def test_siblings_of_a_core_count_once(tmp_path: Path) -> None:
    for cpu, siblings in enumerate(("0,2", "1,3", "0,2", "1,3")):
        folder = tmp_path / f"cpu{cpu}/topology"
        folder.mkdir(parents=True)
        (folder / "thread_siblings_list").write_text(siblings + "\n")
    assert plan.physical_cores([3, 2, 1, 0], tmp_path) == (0, 1)
    assert plan.physical_cores([2, 3], tmp_path) == (2, 3)
    assert plan.physical_cores([7, 8], tmp_path) == (7, 8)


def test_names_and_addresses_fit_and_differ_up_to_the_largest_cluster() -> None:
    made = planned(plan.MAX_NODES)
    addresses = [node.address(fabric) for node in made.nodes for fabric in plan.FABRICS]
    assert len(set(addresses)) == len(addresses)
    assert all(ipaddress.ip_address(address).is_private for address in addresses)
    # IFNAMSIZ of linux/if.h, less the closing zero.
    assert all(len(node.port(fabric)) <= 15 for node in made.nodes for fabric in plan.FABRICS)


@pytest.mark.parametrize(("compute", "layout", "wanted"), [(0, "spread", "0 nodes"), (33, "spread", "33"), (2, "x", "spread")])
def test_impossible_clusters_are_refused(compute: int, layout: str, wanted: str) -> None:
    with pytest.raises(BadInput, match=wanted):
        plan.make(compute, layout)


def test_unknown_names_are_refused_with_the_known_ones() -> None:
    with pytest.raises(BadInput, match="mc-head, c1, c2"):
        planned().node("c3")
    with pytest.raises(BadInput, match="mgmt, eth1g, eth10g, eth40g"):
        planned().fabric("ib0")


def test_a_plan_survives_the_state_file() -> None:
    made = plan.Plan(3, "westmere", (0, 5), ("/tmp/x",))
    assert plan.Plan.from_dict(json.loads(json.dumps(asdict(made)))) == made


def test_an_unshaped_fabric_gets_a_shaper_only_for_a_fraction() -> None:
    fast = planned().fabric("eth40g")
    assert plan.shape_lines("eth40g", fast) == plan.clear_lines("eth40g")
    assert any("rate 9843950kbit" in line for line in plan.shape_lines("eth40g", fast, 0.25))


def test_ports_are_shaped_only_where_several_senders_meet() -> None:
    fabric = planned().fabric("eth1g")
    assert plan.port_lines(planned(2), planned(2).node("c1"), fabric) == plan.clear_lines("c1.eth1g")
    assert any("htb rate" in line for line in plan.port_lines(planned(3), planned(3).node("c1"), fabric))
    assert plan.port_lines(planned(3), planned(3).node("mc-head"), fabric) == plan.clear_lines("mc-head.eth1g")


def test_slurm_knows_every_node_and_a_partition_per_data_fabric(tmp_path: Path) -> None:
    lines = slurm.slurm_conf(planned(3), tmp_path).splitlines()
    assert [line.split()[0] for line in lines if line.startswith("NodeName=")] == ["NodeName=c1", "NodeName=c2", "NodeName=c3"]
    partitions = [line.split()[0].partition("=")[2] for line in lines if line.startswith("PartitionName=")]
    assert tuple(partitions) == plan.DATA_FABRICS == ("eth1g", "eth10g", "eth40g")
    assert "TaskPlugin=task/affinity" in lines
    assert "TaskPlugin=task/none" in slurm.slurm_conf(planned(layout="westmere"), tmp_path).splitlines()


def test_the_site_describes_the_cluster_that_is_built() -> None:
    system = site.read_system(site.ROOT / "site_configs/minicluster/system.py")
    assert system["hostnames"] == [f"{plan.HEAD}$"]
    for row in system["partitions"]:
        queue = next(word.partition("=")[2] for word in row["access"] if word.startswith("--partition="))
        assert queue in plan.DATA_FABRICS
        for fabric in site.fabrics_of(row["extras"]).values():
            for rail in fabric.rails:
                built = planned().fabric(rail.device)
                nominal = built.line_rate_mbit_per_s
                assert rail.line_rate_gbit_per_s == (nominal / 1000 if nominal else None)
                assert fabric.mtu_bytes == 1500
                assert (fabric.efficiency("default") or 0) < PAYLOAD / 1538


def test_jobs_of_the_site_are_never_started_twice() -> None:
    system = site.read_system(site.ROOT / "site_configs/minicluster/system.py")
    assert all("--no-requeue" in row["access"] for row in system["partitions"])

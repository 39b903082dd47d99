"""A switch is flagged only where the fabric's own adapters are known to hang on it.

``ci/tests/data/switches``: two rails of a machine of 140 nodes, cut to eight, and four switches in
a ring, as ``ibnetdiscover`` printed them (public recordings; names and GUIDs neutral); two
interfaces a host, composed as ``opareport`` prints them; a ``topology.yaml`` from the documentation
of a Slurm operator.
"""

import random
from dataclasses import replace
from functools import partial
from itertools import pairwise, product

import pytest

import synthetic_fabric as cables
from folders import DATA
from mpibench.locate.answers import judge_map
from mpibench.locate.maps import LINK, SWITCH, UPLINK
from reframe_tests.harness.cases.pair_map.map_judgement import ports_of
from reframe_tests.harness.instruments import schedule
from reframe_tests.harness.machine import fabric as machine
from reframe_tests.harness.machine.cabling import FabricPort, spans
from reframe_tests.harness.machine.switches import Description, read
from reframe_tests.harness.samples import DeviceTraffic, Evidence
from reframe_tests.harness.vocabulary import SCOPE_CLUSTER

RECORDED = DATA / "switches"
TWO_RAILS = "ibnetdiscover-two-rails.txt"


def ranges(leaf_of):
    """Hosts of each leaf."""
    return {
        leaf: spans(host for host, own in leaf_of.items() if own == leaf)
        for leaf in sorted(set(leaf_of.values()))
    }


@pytest.mark.parametrize(
    ("file", "devices", "leaves", "noted"),
    [
        (TWO_RAILS, ["mlx5_0"], {"leaf03": "n011-014", "leaf04": "n001-004"}, False),
        (TWO_RAILS, ["mlx5_6"], {"leaf01": "n011-014", "leaf02": "n001-004"}, False),
        (TWO_RAILS, ["mlx5_3"], {}, True),
        # Of both rails each may be meant, and both part the hosts alike.
        (
            TWO_RAILS,
            ["mlx5_0", "mlx5_6"],
            {"the leaf of n001-004": "n001-004", "the leaf of n011-014": "n011-014"},
            True,
        ),
        ("opareport-two-hfis.txt", ["hfi1_1"], {"leafB1": "n01-02", "leafB2": "n03-04"}, False),
        (
            "ibnetdiscover-ring.txt",
            ["mlx5_0"],
            {
                f"MF0_IB_switch_{number}_MSB7800_U1": hosts
                for number, hosts in enumerate(("host08", "host01-03", "host04-06", "host07"), 1)
            },
            True,
        ),
        ("topology.yaml", ["mlx5_0"], {"s1": "node1-2", "s2": "node3-4"}, True),
    ],
)
def test_each_host_hangs_on_the_leaf_of_the_fabrics_own_adapter(file, devices, leaves, noted):
    tree = read(RECORDED / file).tree([FabricPort(device) for device in devices])
    assert ranges(tree.leaf_of) == leaves
    hosts = list(tree.leaf_of)
    assert all(tree.edges(one, other) for one in hosts for other in hosts if one != other)
    assert bool(tree.notes) is noted


def tree_of(fabric, device, guids=None, seed=0):
    found = Description(fabric.text(seed), "net.txt").tree(
        [FabricPort(device, guids=guids or {})], fabric.hosts
    )
    return found.only(fabric.hosts)


def drawn(kind, count, rails, seed):
    """A fabric of a kind."""
    chance = random.Random(f"{kind} {seed}")
    if kind == "ring":
        return cables.ring(count, rails, chance.choice((4, 5, 8)))
    fabric = cables.fat_trees(
        count,
        rails,
        leaf=chance.choice((8, 16)),
        spines=chance.choice((2, 4, 8)),
        pods=3 if kind == "pods" else 1,
        shared=kind == "shared",
    )
    if kind == "planes of different size":
        small = cables.fat_trees(count, rails, leaf=20, spines=3)
        last = f"mlx5_{rails - 1}"
        fabric.leaf_of[last] = small.leaf_of[last]
        mine = f"r{rails - 1}"
        kept = [link for link in fabric.links if not link[0].startswith(mine)]
        fabric.links = kept + [link for link in small.links if link[0].startswith(mine)]
        fabric.others = {f"store{number} mlx5_0": f"{mine}leaf1" for number in range(30)}
    elif kind == "management hosts on spines":
        fabric.others = {
            f"head{number} mlx5_0": f"r{number % rails}spine{number % 2}"
            for number in range(2 * rails)
        }
    elif kind == "unset":
        adapters = product(fabric.hosts, fabric.leaf_of)
        fabric.unset = {adapter for adapter in adapters if chance.random() < 0.05}
    elif kind == "numbered":
        fabric.numbered = set(fabric.hosts)
    elif kind == "some numbered":
        fabric.numbered = set(chance.sample(fabric.hosts, count // 2))
    return fabric


KINDS = (
    "planes",
    "shared",
    "pods",
    "planes of different size",
    "management hosts on spines",
    "ring",
    "unset",
    "numbered",
    "some numbered",
)


@pytest.mark.parametrize("kind", KINDS)
def test_no_healthy_switch_and_no_healthy_node_is_flagged_for_a_switch_of_one_rail(kind):
    """And a bad node is named, and no switch for it."""
    count = 96
    fabric = drawn(kind, count, 4, count)
    chance = random.Random(kind)
    device = chance.choice(sorted(fabric.leaf_of))
    tree = tree_of(fabric, device)
    truth = fabric.leaf_of[device]
    bad = chance.choice(sorted(set(truth.values())))
    above = [up for leaf, up in fabric.links if leaf == bad]
    unnamed = kind == "numbered"
    names = {bad, f"the leaf of {spans(host for host in truth if truth[host] == bad)}"}
    assert unnamed or all(truth[host] == leaf for host, leaf in tree.leaf_of.items())
    assert len(tree.leaf_of) == count - sum(own == device for _, own in fabric.unset)
    for what in ([bad], [f"{bad} {up}" for up in above], above[:1], []):
        answer = judge_map(fabric.measured(device, tree, what, rounds=12, seed=count))
        flagged = [finding for finding in answer.findings if finding.kind in (LINK, UPLINK, SWITCH)]
        assert all((names | set(what)) & set(finding.names) for finding in flagged), what
        assert not answer.flagged, what
        if kind != "ring" and bad in " ".join(what):
            assert flagged and (unnamed or bad in flagged[0].names)
    node = fabric.hosts[76]
    answer = judge_map(fabric.measured(device, tree, [node], rounds=12))
    assert answer.flagged == (node,)
    assert {finding.kind for finding in answer.findings} == {"node"}


def test_a_slow_spine_flags_nothing_and_is_no_healthy_map():
    fabric = cables.fat_trees(96, 1, leaf=16, spines=4)
    tree = tree_of(fabric, "mlx5_0")
    for times in (2.0, 4.0):
        slow = fabric.measured("mlx5_0", tree, ["r0spine1"], rounds=12, times=times)
        answer = judge_map(slow)
        assert not answer.flagged and answer.inconclusive
    chance = random.Random(1)
    leaf_of = fabric.leaf_of["mlx5_0"]
    healthy = fabric.measured("mlx5_0", tree, rounds=24)
    crowded = tuple(
        row._replace(value=row.value / 2)
        if leaf_of[row.source] != leaf_of[row.target] and chance.random() < 0.4
        else row
        for row in healthy.values
    )
    for values in (healthy.values, crowded):
        assert not judge_map(replace(healthy, values=values)).inconclusive


@pytest.mark.parametrize(
    ("count", "leaf", "spines", "rounds", "day"),
    [
        pytest.param(*shape, day, marks=[] if day == (-1, 0, 3, -1)[at] else pytest.mark.whole)
        for at, shape in enumerate(
            [(96, 8, 4, 8), (96, 8, 2, 8), (128, 16, 4, 24), (200, 20, 10, 8)]
        )
        for day in (-1, 0, 3)
    ],
)
def test_a_slow_cable_flags_no_node_below_it_and_a_slow_node_is_named(
    monkeypatch, count, leaf, spines, rounds, day
):
    """In samples drawn by chance, and on days that each take the next rounds of all pairs."""
    if day >= 0:
        make = partial(schedule.make, first=schedule.turn(count, rounds, day))
        monkeypatch.setattr(schedule, "make", make)
    fabric = cables.fat_trees(count, 1, leaf=leaf, spines=spines)
    tree = tree_of(fabric, "mlx5_0")
    for up in fabric.links[:: len(fabric.links) // 2]:
        answer = judge_map(fabric.measured("mlx5_0", tree, [" ".join(up)], rounds=rounds))
        assert not answer.flagged and answer.inconclusive
        assert all(up[0] in finding.names for finding in answer.findings)
    node = fabric.hosts[leaf + 1]
    assert judge_map(fabric.measured("mlx5_0", tree, [node], rounds=rounds)).flagged == (node,)


def of_switches(names, links):
    """48 hosts on switches that are joined in any way."""
    hosts = tuple(f"n{number:04d}" for number in range(1, 49))
    leaves = {host: names[at * len(names) // 48] for at, host in enumerate(hosts)}
    return cables.Fabric(hosts, {"mlx5_0": leaves}, links)


def without_a_tree(kind):
    """A fabric of a kind."""
    if kind == "ring":
        fabric = cables.ring(48, 1)
        fabric.links.append(("r0s0", "management"))
        fabric.others = {"head1 mlx5_0": "management"}
        return fabric
    if kind == "chain":
        names = [f"s{at}" for at in range(5)]
        return of_switches(names, list(pairwise(names)))
    grid = list(product(range(4), repeat=2))
    names = [f"s{one}{other}" for one, other in grid]
    if kind == "mesh":
        links = [(f"s{at}{one}", f"s{at}{one + 1}") for at, one in grid if one < 3]
        links += [(f"s{one}{at}", f"s{one + 1}{at}") for one, at in grid if one < 3]
    else:
        links = [(f"s{at}{a}", f"s{at}{b}") for at in range(4) for a, b in grid if a < b]
        links += [(f"s{a}{b}", f"s{b}{a}") for a, b in grid if a < b]
    return of_switches(names, links)


@pytest.mark.parametrize("kind", ["ring", "chain", "mesh", "dragonfly"])
def test_switches_that_are_no_tree_are_flagged_for_themselves_alone(kind):
    fabric = without_a_tree(kind)
    tree = tree_of(fabric, "mlx5_0")
    leaves = sorted(set(fabric.leaf_of["mlx5_0"].values()))
    assert len(tree.switches) == len(leaves) + 1 and "not a tree" in tree.notes[0]
    for bad in (*leaves[2:4], " ".join(fabric.links[2])):
        answer = judge_map(fabric.measured("mlx5_0", tree, [bad], rounds=0))
        assert not answer.flagged
        assert {(finding.kind, finding.names) for finding in answer.findings} <= {(SWITCH, (bad,))}
        assert answer.findings or answer.inconclusive


def test_a_file_without_the_fabrics_own_rail_names_no_switch():
    of_fabric = cables.fat_trees(96, 2, leaf=8).guids("mlx5_1")
    some = {host: guid for host, guid in of_fabric.items() if host < "n0050"}
    other = cables.fat_trees(96, 1, leaf=8)
    for title in ("{} HCA-1", "{}"):
        other.titles = {(host, "mlx5_0"): title.format(host) for host in other.hosts}
        for guids in (of_fabric, {}, some):
            tree = tree_of(other, "mlx5_1", guids)
            assert not tree.switches and tree.notes


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize(
    ("odd", "other", "usual"),
    [
        # The fabric's adapter of every seventh host, and the other one
        # of each; ``None``: as rdma-ndd has it.
        ("{} HCA-1", "{} HCA-2", None),
        ("localhost HCA-1", "{} HCA-2", "{} HCA-1"),
        ("HCA-1", "{} HCA-2", "{} HCA-1"),
        ("New NIC", "{} HCA-2", "{} HCA-1"),
        ("n0001 HCA-1", "{} HCA-2", "{} HCA-1"),
        (" mlx5_0", "{} HCA-2", None),
        ("{}", "{}", None),
        ("{} mlx5_0", "{} mlx5_0", None),
    ],
)
def test_what_an_adapter_is_called_puts_no_host_on_a_switch_of_another(odd, other, usual, shared):
    fabric = cables.fat_trees(80, 2, leaf=8, spines=2, shared=shared)
    order = random.Random(1).sample(fabric.hosts, 80)
    fabric.leaf_of["mlx5_1"] = dict(zip(order, fabric.leaf_of["mlx5_1"].values(), strict=True))
    for at, host in enumerate(fabric.hosts):
        title = usual if at % 7 else odd
        if title:
            fabric.titles[host, "mlx5_0"] = title.format(host)
        fabric.titles[host, "mlx5_1"] = other.format(host)
    some = {host: fabric.guids("mlx5_0")[host] for host in fabric.hosts[5:9]}
    for guids in ({}, some):
        tree = tree_of(fabric, "mlx5_0", guids)
        assert tree.leaf_of.items() <= fabric.leaf_of["mlx5_0"].items()
        assert tree.leaf_of or tree.notes


def test_guids_tell_adapters_that_nobody_described():
    fabric = cables.fat_trees(200, 8, shared=True)
    fabric.unset = {(host, device) for host in fabric.hosts for device in fabric.leaf_of}
    assert not tree_of(fabric, "mlx5_5").leaf_of and tree_of(fabric, "mlx5_5").notes
    guids = fabric.guids("mlx5_5")
    assert tree_of(fabric, "mlx5_5", guids).leaf_of == fabric.leaf_of["mlx5_5"]
    # An interface is sought by its GUID alone.
    found = Description(fabric.text(), "net.txt")
    assert not found.tree([FabricPort(None)], fabric.hosts).leaf_of
    known = found.tree([FabricPort(None, guids=guids)], fabric.hosts)
    assert known.leaf_of == fabric.leaf_of["mlx5_5"]


def evidence(links, carried):
    found = (
        {"node": "n1.example.org", "link": link, "port_guid": guid} for link, guid in links.items()
    )
    rows = (
        DeviceTraffic("map", 1, "n1", device, *[bytes_] * 2) for device, bytes_ in carried.items()
    )
    return Evidence("proven", links=tuple(found), devices=tuple(rows))


OF_A = evidence({"a/1": "0a"}, {"a/1": 99, "b/1": 1})


@pytest.mark.parametrize(
    ("transport", "striped", "seen", "ports"),
    [
        ("ucx", False, None, [FabricPort("a"), FabricPort("b")]),
        ("ucx", False, OF_A, [FabricPort("a", 1, {"n1": "0a"})]),
        ("ucx", True, evidence({}, {"a/1": 99}), [FabricPort("a"), FabricPort("b")]),
        # An interface is no name of an adapter.
        ("tcp", False, evidence({"a": "0a"}, {"a": 99}), [FabricPort(None, 1, {"n1": "0a"})]),
    ],
)
def test_the_rails_that_the_messages_took_are_sought(transport, striped, seen, ports):
    rails = (machine.Rail("a", 100.0), machine.Rail("b", 100.0))
    fabric = machine.Fabric("net", transport, SCOPE_CLUSTER, rails, striped=striped)
    assert ports_of(fabric, seen) == ports

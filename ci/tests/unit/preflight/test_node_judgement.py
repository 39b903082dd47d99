"""Which nodes are odd: by majority, by what is expected, and by
the site's own description of its rails.
"""

from dataclasses import replace

import pytest

from reframe_tests.harness.cases.preflight import node_judgement
from reframe_tests.harness.cases.preflight.rules import Rule
from reframe_tests.harness.machine.fabric import Fabric, Rail
from reframe_tests.harness.machine.gpu import Gpu

SAME = Rule("kernel", "kernels differ", "install the same image", same=True)
IB = Fabric("ndr", "verbs", "cluster", (Rail("mlx5_0", 400),))
ETH = Fabric("eth", "tcp", "cluster", (Rail("eth0", 25),), mtu_bytes=9000)


def nodes(fact, *values, instance=""):
    """Nodes n1, n2, ... with one fact each; ``None``: it is not shown."""
    return {
        f"n{at}": {} if value is None else {fact: {instance: value}}
        for at, value in enumerate(values, 1)
    }


def judge(facts, *rules, fabrics=()):
    return node_judgement.judge(facts, rules, "batch", fabrics)


def texts(facts, *rules, fabrics=()):
    return [odd.text() for odd in judge(facts, *rules, fabrics=fabrics)]


def rule(fact, *, same=True, **more):
    return Rule(fact, "w", "f", same=same, **more)


def test_what_is_required_of_some_cards_only_is_required():
    fact = "rate_gbit_per_s"
    optional = rule(fact, same=False, allowed=(400,), instances="mlx5_*")
    required = replace(optional, required=True)
    facts = nodes(fact, 25, 25, instance="eth0")
    (text,) = texts(facts, required)
    assert "of mlx5_* is unreadable on n1, n2; every node must show it" in text
    assert texts(nodes(fact, 400, 400, instance="mlx5_0:1"), required) == []
    rules = (optional, required, rule("smt", partitions=("other",)), rule("turbo"))
    said = ["no node shows rate_gbit_per_s of mlx5_*, turbo, so it was not checked"]
    assert node_judgement.find_unseen(facts, rules, "batch") == said
    assert node_judgement.find_unseen({}, rules, "batch") == []


def test_a_fact_can_be_held_to_another_one_of_the_same_card():
    equal = rule("pcie_width_of_card", same=False, equals="pcie_width")
    widths = {"eth0": "16", "eth1": "8"}
    card = {"pcie_width_of_card": widths, "pcie_width": {"eth0": "4", "eth1": "8"}}
    (text,) = texts({"n1": card, "n2": card}, equal)
    assert text.startswith("pcie_width_of_card of eth0 is 16 where pcie_width is 4 on n1, n2; must")
    (text,) = texts({"n1": {"pcie_width_of_card": {"eth0": "16"}}}, equal)
    assert "16 where pcie_width is unreadable on n1" in text


@pytest.mark.parametrize(
    ("expected", "value", "wanted"),
    [
        ({"allowed": ("a", "b")}, "c", "a or b"),
        ({"at_least": 1, "at_most": 3}, 4, "at least 1 and at most 3"),
        ({"at_least": 1}, "many", "at least 1"),
        ({"allowed": (3,)}, "3", "3"),
    ],
)
def test_what_is_expected_holds_for_each_node(expected, value, wanted):
    text = f"x is {value} on n1; must be {wanted}: w (to correct it: f)"
    assert texts(nodes("x", value), rule("x", same=False, **expected)) == [text]


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ((503.1, 503.0, 500.0), None),
        ((503.1, 503.0, 471.5), "471.5 on n3; the median is 503, and within "),
        ((100.0, 3700.0), "there is no majority"),
        ((None, None, 3700.0), "3700 on n3; 2 of 3 nodes do not show it"),
        (("unlimited", "unlimited", 64), "64 on n3; 2 of 3 nodes have unlimited"),
    ],
)
def test_numbers_may_be_near_each_other(values, said):
    for near in ({"within": 5}, {"within_percent": 1}):
        found = texts(nodes("x", *values), rule("x", **near))
        assert (said or "") in "".join(found) and bool(said) == len(found)


def rail(state, rate=400.0, **more):
    rows = {"state": state, "rate_gbit_per_s": rate, **more}
    return {fact: {"mlx5_0:1": value} for fact, value in rows.items()}


def test_a_rail_must_be_there_up_and_as_fast_as_described():
    good = rail("active", numa_node=1)
    near = replace(IB, rails=(Rail("mlx5_0", 400, numa_node=1),))
    up = {"state": {"eth0": "up"}, "rate_gbit_per_s": {"eth0": 25}, "mtu_bytes": {"eth0": 9000}}
    assert texts({"n1": up}, fabrics=(ETH,)) == []
    for fabric in (IB, near):
        assert texts({"n1": good, "n2": good}, fabrics=(fabric,)) == []
    for bad, said in (
        ({"n2": rail("down"), "n3": {}}, "state of mlx5_0 is down on n2; unreadable on n3; a rail"),
        (
            {"n2": rail("active", 100.0)},
            "rate_gbit_per_s of mlx5_0 is 100 on n2; the site says 400",
        ),
        (
            {"n2": rail("active", numa_node=0)},
            "numa_node of mlx5_0 is 0 on n2; the site says 1 for ndr",
        ),
    ):
        assert any(text.startswith(said) for text in texts({"n1": good, **bad}, fabrics=(near,)))


def test_many_odd_nodes_with_many_values_stay_readable():
    (text,) = texts(nodes("kernel", *(f"5.{at}" for at in range(300)), *["6"] * 400), SAME)
    assert "; 292 other values on 292 nodes; 400 of 700 nodes have 6" in text and len(text) < 500
    (text,) = texts(nodes("kernel", "a" * 4000, "b", "b"), SAME)
    assert "a... (4000 characters) on n1" in text and len(text) < 600


def test_a_card_that_is_not_there_is_said_once():
    """Not for driver, firmware, rate and whatever else it would have."""
    firmware = rule("firmware")
    rules = (firmware, rule("driver"), rule("rate_gbit_per_s", same=False, at_least=1))
    at = "mlx5_1:1"
    card = {"firmware": {at: "1"}, "driver": {at: "x"}, "rate_gbit_per_s": {at: 400}}
    facts = {"n1": card, "n2": card, "n3": {}, "n4": card}
    (text,) = texts(facts, *rules)
    assert text.startswith(f"{at} is missing on n3; 3 of 4 nodes have it: it is broken, missing or")
    (odd,) = judge({"n1": {}, "n2": card}, *rules)
    assert (odd.fact, odd.instance, odd.nodes) == ("presence", at, ("n2", "n1"))
    # What the others show of it is judged all the same, and a fact
    # that only one node's card shows is odd.
    older = {**card, "firmware": {at: "0"}}
    assert [odd.fact for odd in judge({**facts, "n5": older}, *rules)] == ["presence", "firmware"]
    (text,) = texts({"n1": card, "n2": {**card, "driver": {}}, "n3": card}, *rules)
    assert text.startswith(f"driver of {at} is unreadable on n2; 2 of 3 nodes have x")
    # Rules decide what is looked at, and the site's rails have a sentence of their own.
    assert texts(facts) == [] == texts(facts, rule("firmware", instances="hfi*"))
    assert [odd.note for odd in judge(facts, rule("driver", note=True))] == [True]
    rows = {"n1": {**rail("active"), "firmware": {"mlx5_0:1": "1"}}, "n2": {}}
    (text,) = texts(rows, firmware, fabrics=(IB,))
    assert text.startswith("state of mlx5_0 is unreadable on n2")


def test_an_address_belongs_to_one_node():
    def found(*addresses, name="eth0", fabric=ETH):
        rows = enumerate(addresses, 1)
        facts = {f"n{at}": {"addresses": {name: text}} for at, text in rows}
        odd = judge(facts, fabrics=(fabric,))
        return [one.text() for one in odd if one.fact == "addresses"]

    (text,) = found("10.0.0.1", "10.0.0.2", "10.0.0.2, 10.0.0.3")
    assert "10.0.0.2 on n2, n3; each node must have an address of its own" in text
    assert found("10.0.0.1", "10.0.0.2") == [] == found("127.0.0.1", "127.0.0.1")
    assert found("10.0.2.15", "10.0.2.15", name="eth9") == [], "no fabric's: behind a translation"
    over_ib = Fabric("ndr", "verbs", "cluster", (Rail("mlx5_0"),), tcp_interfaces=("ib0",))
    assert len(found("10.0.0.1", "10.0.0.1", name="ib0", fabric=over_ib)) == 1


GPUS = ("0000:41:00.0", "0000:81:00.0")


def with_gpus(*addresses, numa=(0, 1)):
    return {
        "gpu": dict.fromkeys(addresses, "10de:2330"),
        "numa_node": dict(zip(addresses, numa, strict=False)),
    }


def gpu_texts(facts, gpus, *rules):
    found = node_judgement.judge(facts, rules, "batch", (), gpus, "cuda" if gpus else "")
    return [odd.text() for odd in found]


def test_gpus_are_as_the_site_describes_them():
    described = tuple(Gpu(address, numa) for numa, address in enumerate(GPUS))
    well = with_gpus(*GPUS)
    assert gpu_texts({"n1": well, "n2": well}, described, rule("gpu")) == []
    swapped = with_gpus(*GPUS, numa=(1, 0))
    said = gpu_texts({"n1": with_gpus(GPUS[0]), "n2": well, "n3": swapped}, described)
    assert [text.partition(": ")[0] for text in said] == [
        "gpus is 1 on n1; the site says 2",
        "numa_node of 0000:41:00.0 is 1 on n3; the site says 0",
        "0000:81:00.0 is missing on n1; the site describes a GPU there",
        "numa_node of 0000:81:00.0 is 0 on n3; the site says 1",
    ]


@pytest.mark.parametrize("names", ["n1", "n1, n2, n3"])
def test_a_gpu_unlike_the_others_of_its_node_is_odd_wherever_it_is(names):
    other = "0000:e1:00.0"
    kinds = dict.fromkeys((*GPUS, "0000:c1:00.0"), "10de:2330") | {other: "10de:1eb8"}

    def linked(links, second=""):
        links_of = dict.fromkeys(kinds, links) | {other: "none"}
        return {"gpu": kinds, "nvlinks": links_of | {GPUS[1]: second or links}}

    good = linked("18 x 26.562 GB/s")
    bad = dict.fromkeys(names.split(", "), linked("18 x 26.562 GB/s", "all down"))
    among = rule("nvlinks", among="gpu")
    (text,) = gpu_texts(bad | {"n4": good}, (), among)
    of = f"nvlinks of {GPUS[1]} is"
    assert text.startswith(
        f"{of} all down on {names}; on a node it must be the same wherever gpu is"
    )
    rest = {"n4": linked("9 x 26.562 GB/s"), "n5": good, "n6": good}
    said = [text.split(";")[0] for text in gpu_texts(bad | rest, (), among) if GPUS[1] in text]
    assert said == [f"{of} all down on {names}", f"{of} 9 x 26.562 GB/s on n4"], (
        "an uneven node hides no other"
    )
    unread = {"n1": {"gpu": kinds}} | dict.fromkeys(("n5", "n6", "n7"), good)
    assert f"{GPUS[0]} is unreadable on n1; 3 of 4" in gpu_texts(unread, (), among)[0]

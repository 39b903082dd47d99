"""Which nodes are odd: by majority, by what is expected, and by the site's own description of its rails."""

from __future__ import annotations

from typing import Any

import pytest

from reframe_tests.harness.cases.preflight import node_judgement
from reframe_tests.harness.cases.preflight.rules import Rule
from reframe_tests.harness.machine.fabric import Fabric, Rail
from reframe_tests.harness.machine.gpu import Gpu

SAME = Rule("kernel", "kernels differ", "install the same image", same=True)
IB = Fabric("ndr", "verbs", "cluster", (Rail("mlx5_0", 400),))
ETH = Fabric("eth", "tcp", "cluster", (Rail("eth0", 25),), mtu_bytes=9000)


def nodes(fact: str, *values: Any, instance: str = "") -> dict[str, dict[str, dict[str, Any]]]:
    """Nodes n1, n2, ... with one fact each; ``None``: it is not shown."""
    return {f"n{at}": {} if value is None else {fact: {instance: value}} for at, value in enumerate(values, 1)}


def texts(facts: Any, *rules: Rule, fabrics: tuple[Fabric, ...] = (), partition: str = "batch") -> list[str]:
    return [odd.text() for odd in node_judgement.judge(facts, rules, partition, fabrics)]


def test_the_majority_decides_who_is_odd() -> None:
    assert texts(nodes("kernel", "5.15", "5.15", "5.14", "5.15"), SAME) == [
        "kernel is 5.14 on n3; 3 of 4 nodes have 5.15: kernels differ (to put it right: install the same image)"
    ]
    assert texts(nodes("kernel", "5.15", "5.15"), SAME) == []
    assert texts(nodes("kernel", "5.15"), SAME) == []


def test_without_a_majority_nobody_is_right() -> None:
    (text,) = texts(nodes("kernel", "a", "b"), SAME)
    assert text.startswith("kernel is a on n1; b on n2; it must be the same on all nodes, and no value is that of most")
    (odd,) = node_judgement.judge(nodes("kernel", "a", "b", "b", "a"), (SAME,), "batch", ())
    assert odd.nodes == ("n1", "n4", "n2", "n3")


def test_what_one_node_shows_all_must_show() -> None:
    (odd,) = node_judgement.judge(nodes("kernel", "a", None, "a"), (SAME,), "batch", ())
    assert odd.nodes == ("n2",) and "not to be read on n2" in odd.text()
    (lone,) = node_judgement.judge(nodes("kernel", None, None, "a"), (SAME,), "batch", ())
    assert lone.nodes == ("n3",), "a card that only one node has is odd, too"
    least = Rule("memory", "full", "empty it", at_least=80)
    assert node_judgement.judge(nodes("memory", 90, None), (least,), "batch", ())[0].nodes == ("n2",)
    assert texts(nodes("memory", None, None), least) == []
    required = Rule("memory", "full", "empty it", at_least=80, required=True)
    assert "not to be read on n1, n2; every node must show it" in texts(nodes("memory", None, None), required)[0]


def test_what_is_required_of_some_cards_only_is_required() -> None:
    rule = Rule("rate_gbit_per_s", "slow", "see it", allowed=(400,), instances="mlx5_*", required=True)
    (text,) = texts(nodes("rate_gbit_per_s", 25, 25, instance="eth0"), rule)
    assert text.startswith("rate_gbit_per_s of mlx5_* is not to be read on n1, n2; every node must show it")
    assert texts(nodes("rate_gbit_per_s", 400, 400, instance="mlx5_0:1"), rule) == []
    optional = Rule("rate_gbit_per_s", "slow", "see it", allowed=(400,), instances="mlx5_*")
    facts = nodes("rate_gbit_per_s", 25, instance="eth0")
    assert node_judgement.find_unseen(facts, (optional,), "batch") == [
        "no node shows rate_gbit_per_s of mlx5_*: nothing is known of that"
    ]


def test_a_fact_can_be_held_to_another_one_of_the_same_card() -> None:
    rule = Rule("pcie_width_of_card", "narrow", "reseat it", equals="pcie_width")
    card = {"pcie_width_of_card": {"eth0": "16", "eth1": "8"}, "pcie_width": {"eth0": "4", "eth1": "8"}}
    assert texts({"n1": card, "n2": card}, rule) == [
        "pcie_width_of_card of eth0 is 16 where pcie_width is 4 on n1, n2; must be its pcie_width: narrow "
        "(to put it right: reseat it)"
    ]
    (text,) = texts({"n1": {"pcie_width_of_card": {"eth0": "16"}}}, rule)
    assert "16 where pcie_width is not to be read on n1" in text


def test_what_the_site_states_of_a_rail_is_said_once() -> None:
    facts = {
        f"n{at}": {"mtu_bytes": {"eth0": mtu}, "state": {"eth0": "up"}, "rate_gbit_per_s": {"eth0": 25}}
        for at, mtu in enumerate((9000, 9000, 1500))
    }
    rule = Rule("mtu_bytes", "w", "f", same=True)
    (text,) = texts(facts, rule, fabrics=(ETH,))
    assert "the site says 9000" in text
    bare = {name: {"mtu_bytes": values["mtu_bytes"]} for name, values in facts.items()}
    (text,) = texts(bare, rule)
    assert text.startswith("mtu_bytes of eth0 is 1500 on n2; 2 of 3 nodes have 9000")


@pytest.mark.parametrize(
    ("rule", "value", "wanted"),
    [
        (Rule("x", "w", "f", allowed=("a", "b")), "c", "x is c on n1; must be a or b: w (to put it right: f)"),
        (Rule("x", "w", "f", at_most=0.5), 2.0, "x is 2 on n1; must be at most 0.5: w (to put it right: f)"),
        (
            Rule("x", "w", "f", at_least=1, at_most=3),
            4,
            "x is 4 on n1; must be at least 1 and at most 3: w (to put it right: f)",
        ),
        (Rule("x", "w", "f", at_least=1), "many", "x is many on n1; must be at least 1: w (to put it right: f)"),
        (Rule("x", "w", "f", allowed=(3,)), "3", "x is 3 on n1; must be 3: w (to put it right: f)"),
    ],
)
def test_what_is_expected_holds_for_each_node(rule: Rule, value: Any, wanted: str) -> None:
    assert texts(nodes("x", value), rule) == [wanted]


def test_numbers_may_be_near_each_other() -> None:
    near = Rule("memory_gib", "w", "f", same=True, within_percent=1)
    assert texts(nodes("memory_gib", 503.1, 503.0, 500.0), near) == []
    assert texts(nodes("memory_gib", 503.1, 503.0, 471.5), near) == [
        "memory_gib is 471.5 on n3; the middle one is 503, and within 1 % of it is equal: w (to put it right: f)"
    ]
    clock = Rule("unix_s", "w", "f", same=True, within=30)
    (odd,) = node_judgement.judge(nodes("unix_s", 100.0, 101.5, 3700.0), (clock,), "batch", ())
    assert odd.nodes == ("n3",)


def test_rules_of_instances_and_partitions() -> None:
    facts = {"n1": {"mtu_bytes": {"ib0": 4092, "eth0": 1500}}, "n2": {"mtu_bytes": {"ib0": 2044, "eth0": 9000}}}
    rule = Rule("mtu_bytes", "w", "f", same=True, instances="ib*", partitions=("ndr",))
    assert [odd.instance for odd in node_judgement.judge(facts, (rule,), "ndr", ())] == ["ib0"]
    assert node_judgement.judge(facts, (rule,), "eth", ()) == []


def test_notes_come_last_and_say_so() -> None:
    note = Rule("microcode", "w", "f", same=True, note=True)
    facts = {name: {**rows, "microcode": {"": name}} for name, rows in nodes("kernel", "a", "b").items()}
    assert [odd.note for odd in node_judgement.judge(facts, (note, SAME), "batch", ())] == [False, True]


def rail(state: Any, rate: float = 400.0, name: str = "mlx5_0:1", **more: Any) -> dict[str, dict[str, Any]]:
    rows = {"state": state, "rate_gbit_per_s": rate, **more}
    return {fact: {name: value} for fact, value in rows.items() if value is not None}


def test_a_rail_must_be_there_up_and_as_fast_as_described() -> None:
    assert texts({"n1": rail("active"), "n2": rail("active")}, fabrics=(IB,)) == []
    (text,) = texts({"n1": rail("active"), "n2": rail("down"), "n3": {}}, fabrics=(IB,))
    assert text.startswith("state of mlx5_0 is down on n2; not to be read on n3; a rail of ndr must be up")
    (text,) = texts({"n1": rail("active"), "n2": rail("active", 100.0)}, fabrics=(IB,))
    assert text.startswith("rate_gbit_per_s of mlx5_0 is 100 on n2; the site says 400 for ndr: the port came up slower")


def test_an_interface_must_have_the_mtu_that_is_described() -> None:
    good, bad = (rail("up", 25.0, "eth0", mtu_bytes=mtu) for mtu in (9000, 1500))
    (text,) = texts({"n1": good, "n2": bad}, fabrics=(ETH,))
    assert text.startswith("mtu_bytes of eth0 is 1500 on n2; the site says 9000 for eth")


def test_without_a_majority_of_near_numbers_nobody_is_right() -> None:
    clock = Rule("unix_s", "w", "f", same=True, within=30)
    (odd,) = node_judgement.judge(nodes("unix_s", 100.0, 3700.0), (clock,), "batch", ())
    assert odd.nodes == ("n1", "n2") and "no value is that of most" in odd.text()
    (lone,) = node_judgement.judge(nodes("unix_s", None, None, 3700.0), (clock,), "batch", ())
    assert lone.nodes == ("n3",) and "2 of 3 nodes do not show it" in lone.text()
    words = Rule("locked", "w", "f", same=True, within=30)
    (text,) = texts(nodes("locked", "unlimited", "unlimited", 64), words)
    assert text.startswith("locked is 64 on n3; 2 of 3 nodes have unlimited")


def test_many_odd_nodes_with_many_values_stay_readable() -> None:
    (text,) = texts(nodes("kernel", *(f"5.{at}" for at in range(300)), *["6"] * 400), SAME)
    assert "; 292 other values on 292 nodes; 400 of 700 nodes have 6" in text and len(text) < 500
    (text,) = texts(nodes("kernel", "a" * 4000, "b", "b"), SAME)
    assert "a... (4000 characters) on n1" in text and len(text) < 600


def test_a_card_that_is_not_there_is_said_once() -> None:
    """Not for driver, firmware, rate and whatever else it would have."""
    rules = (
        Rule("firmware", "w", "f", same=True),
        Rule("driver", "w", "f", same=True),
        Rule("rate_gbit_per_s", "w", "f", at_least=1),
    )
    card = {"firmware": {"mlx5_1:1": "1"}, "driver": {"mlx5_1:1": "x"}, "rate_gbit_per_s": {"mlx5_1:1": 400}}
    facts: dict[str, Any] = {"n1": card, "n2": card, "n3": {}, "n4": card}
    (text,) = texts(facts, *rules)
    assert text.startswith("mlx5_1:1 is missing on n3; 3 of 4 nodes have it: it is broken, missing or called otherwise")
    (text,) = texts({"n1": {}, "n2": card, "n3": {}}, *rules)
    assert text.startswith("mlx5_1:1 is there on n2; 2 of 3 nodes do not have it")
    (odd,) = node_judgement.judge({"n1": {}, "n2": card}, rules, "batch", ())
    assert (odd.fact, odd.instance, odd.nodes) == ("presence", "mlx5_1:1", ("n2", "n1"))
    # What the others show of it is judged all the same, and a fact that only one node's card shows is odd.
    older = {**card, "firmware": {"mlx5_1:1": "0"}}
    assert [odd.fact for odd in node_judgement.judge({**facts, "n5": older}, rules, "batch", ())] == ["presence", "firmware"]
    bare = {fact: values for fact, values in card.items() if fact != "driver"}
    (text,) = texts({"n1": card, "n2": bare, "n3": card}, *rules)
    assert text.startswith("driver of mlx5_1:1 is not to be read on n2; 2 of 3 nodes have x")
    # Rules decide what is looked at, and the site's rails have a sentence of their own.
    assert texts(facts) == [] and texts(facts, Rule("firmware", "w", "f", same=True, instances="hfi*")) == []
    assert [odd.note for odd in node_judgement.judge(facts, (Rule("board", "w", "f"), rules[0]), "batch", ())] == [False]
    assert [
        odd.note for odd in node_judgement.judge(facts, (Rule("driver", "w", "f", same=True, note=True),), "batch", ())
    ] == [True]
    rows = {"n1": {**rail("active"), "firmware": {"mlx5_0:1": "1"}}, "n2": {}}
    (text,) = texts(rows, rules[0], fabrics=(IB,))
    assert text.startswith("state of mlx5_0 is not to be read on n2")


def test_one_sentence_for_the_same_on_many_ports() -> None:
    ports = [f"mlx5_{number}:1" for number in range(10)]
    card = {"firmware": dict.fromkeys(ports, "2")}
    old = {"firmware": {**dict.fromkeys(ports[:9], "1"), ports[9]: "0"}}
    rule = Rule("firmware", "w", "f", same=True)
    found = node_judgement.judge({"n1": card, "n2": old, "n3": card}, (rule,), "batch", ())
    assert [odd.instance for odd in found] == ports, "programs have each"
    alike, other = node_judgement.texts(found)
    assert alike.startswith(f"firmware of {', '.join(ports[:8])} and 1 more is 1 on n2; 2 of 3 nodes have 2")
    assert other.startswith("firmware of mlx5_9:1 is 0 on n2")
    (gone,) = node_judgement.texts(node_judgement.judge({"n1": card, "n2": {}, "n3": card}, (rule,), "batch", ()))
    assert gone.startswith("mlx5_0:1, mlx5_1:1, ") and " and 2 more is missing on n2" in gone


def test_what_no_node_shows_is_said() -> None:
    rules = (SAME, Rule("turbo", "w", "f", same=True), Rule("lanes", "w", "f", same=True, instances="mlx5*"))
    elsewhere = Rule("smt", "w", "f", same=True, partitions=("other",))
    needed = Rule("board", "w", "f", same=True, required=True)
    facts = nodes("kernel", "a", None)
    found = node_judgement.find_unseen(facts, (*rules, elsewhere, needed), "batch")
    assert found == ["no node shows turbo, lanes of mlx5*: nothing is known of that"], "what is required fails by itself"
    assert node_judgement.find_unseen(facts, (SAME,), "batch") == node_judgement.find_unseen({}, rules, "batch") == []


@pytest.mark.parametrize(
    ("fabric", "facts", "note"),
    [
        (IB, rail("active"), False),
        (IB, {"state": {"mlx5_0:1": "active"}, "rate_gbit_per_s": {"mlx5_0:1": "fast"}}, False),
        (ETH, rail("up", name="eth0", mtu_bytes=9000), True),
    ],
)
def test_a_described_rate_that_cannot_be_read_is_said(fabric: Fabric, facts: dict[str, Any], note: bool) -> None:
    if "fast" not in facts.get("rate_gbit_per_s", {}).values():
        facts = {fact: values for fact, values in facts.items() if fact != "rate_gbit_per_s"}
    (odd,) = node_judgement.judge({"n1": facts, "n2": facts}, (), "batch", (fabric,))
    assert (odd.fact, odd.nodes, odd.note) == ("rate_gbit_per_s", ("n1", "n2"), note)
    assert "whether the port came up slower is not known" in odd.text()
    undescribed = Fabric("x", fabric.transport, "cluster", (Rail(fabric.rails[0].device),))
    assert node_judgement.judge({"n1": facts}, (), "batch", (undescribed,)) == []


def test_the_numa_node_of_a_rail_is_the_one_the_site_says() -> None:
    rail = Fabric("ndr", "verbs", "cluster", (Rail("mlx5_0", 400, numa_node=0),))
    up = {"state": {"mlx5_0:1": "active"}, "rate_gbit_per_s": {"mlx5_0:1": 400}}
    facts = {"n1": {**up, "numa_node": {"mlx5_0:1": 3}}, "n2": {**up, "numa_node": {"mlx5_0:1": 3}}}
    (text,) = texts(facts, fabrics=(rail,))
    assert text.startswith("numa_node of mlx5_0 is 3 on n1, n2; the site says 0 for ndr: nic_local and nic_remote would be")
    assert texts({"n1": {**up, "numa_node": {"mlx5_0:1": 0}}, "n2": up}, fabrics=(rail,)) == [], "the kernel may not know"
    assert texts(facts, fabrics=(IB,)) == [], "the site does not say"


def test_an_address_belongs_to_one_node() -> None:
    def facts(*addresses: str, name: str = "eth0") -> dict[str, Any]:
        more = {"state": {"eth0": "up"}, "rate_gbit_per_s": {"eth0": 25}, "mtu_bytes": {"eth0": 9000}}
        return {f"n{at}": {**more, "addresses": {name: text}} for at, text in enumerate(addresses, 1)}

    (text,) = texts(facts("10.0.0.1", "10.0.0.2", "10.0.0.2, 10.0.0.3"), fabrics=(ETH,))
    assert text.startswith("addresses of eth0 is 10.0.0.2 on n2, n3; each node must have an address of its own: what is sent")
    assert texts(facts("10.0.0.1", "10.0.0.2"), fabrics=(ETH,)) == []
    assert texts(facts("10.0.2.15", "10.0.2.15", name="eth9"), fabrics=(ETH,)) == [], "no fabric's: behind a translation"
    assert texts(facts("127.0.0.1", "127.0.0.1"), fabrics=(ETH,)) == []
    over_ib = Fabric("ndr", "verbs", "cluster", (Rail("mlx5_0"),), tcp_interfaces=("ib0",))
    found = node_judgement.judge(facts("10.0.0.1", "10.0.0.1", name="ib0"), (), "batch", (over_ib,))
    assert [odd.fact for odd in found if odd.instance == "ib0"] == ["addresses"]


GPUS = ("0000:41:00.0", "0000:81:00.0")


def with_gpus(*addresses: str, numa: tuple[int, ...] = (0, 1), device: str = "10de:2330") -> dict[str, dict[str, Any]]:
    return {"gpu": dict.fromkeys(addresses, device), "numa_node": dict(zip(addresses, numa, strict=False))}


def gpu_texts(facts: Any, gpus: tuple[Gpu, ...], *rules: Rule) -> list[str]:
    return [odd.text() for odd in node_judgement.judge(facts, rules, "batch", (), gpus, "cuda" if gpus else "")]


def test_gpus_are_as_the_site_describes_them() -> None:
    described = tuple(Gpu(address, numa) for numa, address in enumerate(GPUS))
    assert gpu_texts({"n1": with_gpus(*GPUS), "n2": with_gpus(*GPUS)}, described, Rule("gpu", "w", "f", same=True)) == []
    lost, swapped = with_gpus(GPUS[0]), with_gpus(*GPUS, numa=(1, 0))
    said = gpu_texts({"n1": lost, "n2": with_gpus(*GPUS), "n3": swapped}, described)
    assert [text.partition(":")[0] for text in said[:1]] == ["gpus is 1 on n1; the site says 2"]
    assert [text.partition(" (to put")[0] for text in said[1:]] == [
        "numa_node of 0000:41:00.0 is 1 on n3; the site says 0: gpu_local and gpu_remote would be the wrong way round",
        "0000:81:00.0 is missing on n1; the site says that a GPU is there: ranks would have another GPU than the one next to "
        "their cores and adapter",
        "numa_node of 0000:81:00.0 is 0 on n3; the site says 1: gpu_local and gpu_remote would be the wrong way round",
    ]


def test_gpus_without_addresses_are_in_the_order_of_these() -> None:
    described = (Gpu(numa_node=0), Gpu(numa_node=1))
    assert gpu_texts({"n1": with_gpus(*GPUS)}, described) == []
    (text,) = gpu_texts({"n1": with_gpus(*GPUS, numa=(0, 0))}, described)
    assert text.startswith("numa_node of 0000:81:00.0 is 0 on n1; the site says 1")
    for none in ({}, with_gpus(*GPUS, device="1002:738c")):
        (text,) = gpu_texts({"n1": none}, described)
        assert text.startswith("gpus is 0 on n1; the site says 2: ranks would lack a GPU, or share it"), "those of AMD are none"


def test_nothing_is_said_of_gpus_where_there_are_none() -> None:
    rules = (Rule("gpu", "w", "f", same=True), Rule("mig_mode", "w", "f", same=True), Rule("gdrdrv", "w", "f", same=True))
    assert gpu_texts({"n1": {}, "n2": {}}, (), *rules) == []
    assert node_judgement.find_unseen({"n1": {}}, rules, "batch") == []
    unseen = "no node shows {}mig_mode, gdrdrv: nothing is known of that".format
    assert node_judgement.find_unseen({"n1": {}}, rules, "batch", gpus=True) == [unseen("gpu, ")]
    assert node_judgement.find_unseen({"n1": with_gpus(*GPUS)}, rules, "batch") == [unseen("")]


@pytest.mark.parametrize("names", [("n1",), ("n1", "n2"), ("n1", "n2", "n3")])
def test_a_gpu_unlike_the_others_of_its_node_is_odd_wherever_it_is(names: tuple[str, ...]) -> None:
    other = ("0000:c1:00.0", "0000:e1:00.0")
    bad, good = ({"gpu": dict.fromkeys((*GPUS, other[0]), "10de:2330") | {other[1]: "10de:1eb8"}} for _ in range(2))
    good["nvlinks"] = dict.fromkeys((*GPUS, other[0]), "18 x 26.562 GB/s") | {other[1]: "none"}
    bad["nvlinks"] = good["nvlinks"] | {GPUS[1]: "all down"}
    rule = Rule("nvlinks", "w", "f", same=True, among="gpu")
    (text,) = gpu_texts(dict.fromkeys(names, bad) | {"n4": good}, (), rule)
    assert text.startswith(
        f"nvlinks of {GPUS[1]} is all down on {', '.join(names)}; on a node it must be the same where gpu is: w"
    )
    short = good | {"nvlinks": dict.fromkeys((*GPUS, other[0]), "9 x 26.562 GB/s") | {other[1]: "none"}}
    texts = gpu_texts(dict.fromkeys(names, bad) | dict.fromkeys(("n5", "n6"), good) | {"n4": short}, (), rule)
    assert [text.split(";")[0] for text in texts if GPUS[1] in text] == [
        f"nvlinks of {GPUS[1]} is all down on {', '.join(names)}",
        f"nvlinks of {GPUS[1]} is 9 x 26.562 GB/s on n4",
    ], "an uneven node hides no other"
    (text,) = gpu_texts(dict.fromkeys(("n5", "n6", "n7"), good) | {"n1": good | {"nvlinks": {}}}, (), rule)[:1]
    assert text.startswith(f"nvlinks of {GPUS[0]} is not to be read on n1; 3 of 4 nodes have 18 x")


def test_a_gpu_that_the_site_does_not_describe_is_held_against_the_other_nodes() -> None:
    facts = {"n1": with_gpus(*GPUS), "n2": with_gpus(*GPUS), "n3": with_gpus(GPUS[1], numa=(1,))}
    (text,) = gpu_texts(facts, (), Rule("gpu", "w", "f", same=True), Rule("numa_node", "w", "f", same=True))
    assert text.startswith("0000:41:00.0 is missing on n3; 2 of 3 nodes have it")

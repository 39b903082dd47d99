"""Which network carried a launch: no other interface, no more than the two can have exchanged, and the link of the site."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from reframe_tests.harness.cases.cascade import below_mpi
from reframe_tests.harness.cases.cascade import end as end_program
from reframe_tests.harness.evidence import link_state
from reframe_tests.harness.machine.fabric import Fabric, Rail
from reframe_tests.harness.suites import pair
from reframe_tests.harness.suites.pair import Exchanged
from synthetic_pair import QUIET, end

ETH = Fabric("eth1g", "tcp", "cluster", (Rail("eth1g", 1.0),), 1500)
MOVED = Exchanged(10_000_000, 0, 10)
WORDS = ("program", "-p", "{port}", "{address}")
#: What a healthy link counts: payload and headers one way, acknowledgements the other.
HEALTHY = {"server": {"rx": 10_460_000, "tx": 230_000}, "client": {"rx": 230_000, "tx": 10_460_000}}


def both(which: str = "", **changes: Any) -> pair.Pair:
    """A healthy launch, with something of one end changed."""
    rows = {name: {**HEALTHY[name], **(changes if name == which else {})} for name in pair.ENDS}
    return pair.read("".join(end(name, WORDS, "", **row) for name, row in rows.items()), "program", "it")


def judge(ends: pair.Pair, moved: Exchanged, fabric: Fabric) -> list[str]:
    return [*below_mpi.judge_links(ends, fabric), *below_mpi.judge_bytes(ends, moved, fabric)]


def test_a_healthy_launch_is_proven() -> None:
    pair.expect_carried(both(), replace(MOVED, messages=0), "program", "it")
    assert judge(both(), MOVED, ETH) == []


@pytest.mark.parametrize("which", pair.ENDS)
def test_another_interface_that_carried_a_part_is_named_with_its_node(which: str) -> None:
    [sentence] = judge(both(which, others={**QUIET, "eth10g": 5_000_000}), MOVED, ETH)
    host = {"server": "c1", "client": "c2"}[which]
    assert sentence == f"asked for eth1g (eth1g), but eth10g of {host} carried 5.0 MB meanwhile."


@pytest.mark.parametrize("name", ["lo", "ifb0", "ib0"])
def test_what_leaves_no_node_or_is_counted_twice_is_no_other_network(name: str) -> None:
    fabric = replace(ETH, tcp_interfaces=("ib0",))
    assert judge(both("client", others={**QUIET, name: 50_000_000}), MOVED, fabric) == []


def test_a_record_without_other_interfaces_proves_nothing() -> None:
    [sentence] = judge(both("server", others={}), MOVED, ETH)
    assert sentence.startswith("c1 recorded no interface but eth1g")


@pytest.mark.parametrize(
    ("which", "counter", "said"),
    [
        ("server", "rx", "eth1g of c1 received 20 MB"),
        ("client", "tx", "eth1g of c2 sent 20 MB"),
        ("client", "rx", "eth1g of c2 received 20 MB"),
    ],
)
def test_more_than_the_two_exchanged_is_somebody_elses(which: str, counter: str, said: str) -> None:
    [sentence] = judge(both(which, **{counter: 20_000_000}), MOVED, ETH)
    assert sentence.startswith(f"somebody else used the link: {said}, and the two can have exchanged ")


def test_small_messages_may_be_mostly_headers() -> None:
    moved = Exchanged(8 * 100_000, 8 * 100_000, 100_000)
    to, fro = below_mpi.most_bytes(moved, ETH, 1.0)
    # 8 bytes take 74 with IPv4 and time stamps, and each message is acknowledged by the next one, or by a packet of its own.
    assert 100_000 * (74 + 66) < to == fro < 100_000 * 8 * 50


def test_two_ends_on_one_node_prove_nothing() -> None:
    [sentence] = judge(both("client", host="c1"), MOVED, ETH)
    assert sentence == "server and client both ran on c1, so that nothing went over eth1g."


def test_a_link_that_is_not_up_or_came_up_slow_contradicts() -> None:
    """As the evidence of MPI has it: a state that carries nothing, and less than three quarters of the site's rate."""
    look = both().client.before
    for link, said in (
        ({"operstate": "dormant"}, "the link of eth1g of c2 is not up (state dormant)."),
        ({"speed": "100"}, "eth1g of c2 came up at 0.1 Gbit/s, the site says 1 for eth1g; see cable and switch port"),
    ):
        changed = replace(both().client, before=replace(look, link={**look.link, **link}))
        sentences = judge(replace(both(), client=changed), MOVED, ETH)
        assert any(sentence.startswith(said) for sentence in sentences), sentences
    unknown = replace(both().client, before=replace(look, link={**look.link, "speed": ""}))
    server = replace(both().server, before=replace(look, link={**look.link, "speed": ""}))
    assert judge(replace(both(), client=unknown, server=server), MOVED, ETH) == []


def test_ends_that_differ_contradict() -> None:
    look = both().client.before
    changed = replace(both().client, before=replace(look, link={**look.link, "mtu": "9000"}))
    assert judge(replace(both(), client=changed), MOVED, replace(ETH, mtu_bytes=None)) == [
        "the MTU of eth1g is 1500 on c1 and 9000 on c2; make them equal."
    ]


def test_both_lists_of_virtual_adapters_are_the_same() -> None:
    """One runs on a node's own Python and can import nothing."""
    assert set(end_program.VIRTUAL_DRIVERS) == link_state.VIRTUAL_DRIVERS


def test_another_mtu_than_the_sites_is_said() -> None:
    sentences = judge(both(), MOVED, replace(ETH, mtu_bytes=9000))
    assert sentences == [f"the MTU of eth1g of {host} is 1500, the site says 9000 for eth1g." for host in ("c1", "c2")]

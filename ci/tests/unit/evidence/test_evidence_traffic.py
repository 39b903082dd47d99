"""Which network carried the bytes: every sentence and note, on rank records made by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from reframe_tests.harness.evidence import traffic
from reframe_tests.harness.evidence.rank_records import RankEvidence
from reframe_tests.harness.machine.fabric import Fabric, Rail
from synthetic_evidence import INTERFACE, exchange, pair

GB = 1_000_000_000
MB = 1_000_000
KB = 1_000
LO = Fabric("lo", "tcp", "node", (Rail("lo"),))
SHM = Fabric("shm", "shm", "node")
ETH1G = Fabric("eth1g", "tcp", "cluster", (Rail("eth1", 1.0),))
EDR = Fabric("edr", "ucx", "cluster", (Rail("mlx5_0", 100.0),))
OPA = Fabric("opa100", "psm2", "cluster", (Rail("hfi1_0", 100.0), Rail("hfi1_1", 100.0)))
HOME = "127.0.0.1"


def sentences(ranks: Sequence[RankEvidence], fabric: Fabric, expected: float) -> list[str]:
    return traffic.check_traffic(ranks, fabric, expected).sentences


def notes(ranks: Sequence[RankEvidence], fabric: Fabric, expected: float) -> list[str]:
    finding = traffic.check_traffic(ranks, fabric, expected)
    assert finding.sentences == []
    return finding.notes


#: The first rank's sockets sent all of it from eth1's address.
OWN = (("10.0.0.1", "10.0.0.2", 10 * GB),)
ASIDE = "(I_MPI_FABRICS=shm:ofi)"


def on_two_nodes(
    first: Sequence[RankEvidence], second: Sequence[RankEvidence]
) -> list[RankEvidence]:
    return [first[0], second[1]]


@pytest.mark.parametrize(
    ("ranks", "fabric", "expected"),
    [
        # Also between two addresses of a card: the kernel keeps that on the loopback.
        (exchange({"lo": 2 * GB + 5 * MB}, ((HOME, HOME, 2 * GB),)), LO, 2 * GB),
        (exchange({"lo": 2 * GB + 5 * MB}, (("10.0.0.1", "10.0.0.1", 2 * GB),)), LO, 2 * GB),
        (exchange({"lo": 2 * GB, "ifb0": 2 * GB}), LO, 2 * GB),
        (exchange({"lo": 100 * KB, "eth1": 10.3 * GB, "eth2": 40 * MB}, OWN), ETH1G, 10 * GB),
        (exchange({"mlx5_0/1": 10 * GB, "eth1": 50 * KB}), EDR, 10 * GB),
        # The floor is one per node.
        (
            on_two_nodes(
                *(exchange({"eth1": 2 * MB, "eth2": 900 * KB}, host=host) for host in ("c1", "c2"))
            ),
            ETH1G,
            4 * MB,
        ),
        # Node c2 may hide what its ranks sent: the ranks' own count is not relied on.
        (
            on_two_nodes(
                exchange({"eth1": 5 * GB, "eth2": 0}, ()), exchange({"eth1": 5 * GB}, host="c2")
            ),
            ETH1G,
            10 * GB,
        ),
    ],
)
def test_what_proves_the_fabric(ranks: list[RankEvidence], fabric: Fabric, expected: float) -> None:
    assert notes(ranks, fabric, expected) == []


@pytest.mark.parametrize(
    ("ranks", "fabric", "expected", "sentence"),
    [
        # Asked for the loopback, shared memory used.
        (
            exchange({"lo": 12 * KB}),
            LO,
            2.2 * GB,
            f"asked for lo, 2.2 GB of at least 2.2 GB went elsewhere: lo carried 12 kB {ASIDE}.",
        ),
        # Somebody else's traffic does not prove ours.
        (
            exchange({"lo": 3 * GB}, ((HOME, HOME, 9 * KB),)),
            LO,
            2.2 * GB,
            "asked for lo, lo carried 3.0 GB, but the ranks themselves sent only 9.0 kB of at "
            f"least 2.2 GB there: the rest is other traffic of the node {ASIDE}.",
        ),
        # Asked for shared memory, the loopback used; small runs have the floor as their limit.
        (
            exchange({"lo": 2.1 * GB}, ((HOME, HOME, 2.1 * GB),)),
            SHM,
            2.2 * GB,
            f"asked for shm, but lo carried 2.1 GB of at least 2.2 GB {ASIDE}.",
        ),
        (
            exchange({"lo": 1100 * KB}, environment={}),
            SHM,
            0,
            "asked for shm, but lo carried 1.1 MB.",
        ),
        (
            exchange({"lo": 0, "eth1": 5.1 * GB, "eth2": 5.1 * GB}, environment={}),
            ETH1G,
            10 * GB,
            "asked for eth1g (eth1), but eth2 carried 5.1 GB of 10 GB: two networks were used "
            "at once.",
        ),
        # Striping is no traffic of others: what the ranks' sockets sent is not found again on eth1.
        (
            exchange({"eth1": 5 * GB, "eth2": 5 * GB}, OWN),
            ETH1G,
            10 * GB,
            f"... two networks were used at once {ASIDE}.",
        ),
        # Two cards in one subnet: bytes bear the address of eth1 and leave through eth2.
        (
            exchange({"eth1": 30 * KB, "eth2": 10 * GB}, OWN),
            ETH1G,
            10 * GB,
            f"... went elsewhere: eth1 carried 30 kB, eth2 carried 10 GB {ASIDE}.",
        ),
        # All of it would fit into the second that counters may lag, but eth2 shows where it went.
        (
            exchange(
                {"eth1": 9 * KB, "eth2": 100 * MB},
                (("10.0.0.1", "10.0.0.2", 100 * MB),),
                environment={},
            ),
            ETH1G,
            100 * MB,
            "... 100 MB of at least 100 MB went elsewhere: eth1 carried 9.0 kB, eth2 carried "
            "100 MB.",
        ),
        # Node c2 may hide what its ranks sent: nothing is excused.
        (
            on_two_nodes(
                exchange({"eth1": 5 * GB, "eth2": 7 * GB}, (), environment={}),
                exchange({"eth1": 5 * GB}, host="c2"),
            ),
            ETH1G,
            10 * GB,
            "asked for eth1g (eth1), but eth2 carried 7.0 GB of 17 GB: two networks were used "
            "at once.",
        ),
        # A port of others is never excused: no socket tells whose RDMA it is.
        (
            exchange({"mlx5_0/1": 10 * GB, "mlx5_1/1": 3 * GB}, environment={}),
            EDR,
            10 * GB,
            "... but mlx5_1/1 carried 3.0 GB of 13 GB: two networks were used at once.",
        ),
        (
            exchange({"eth0": GB}),
            ETH1G,
            GB,
            "fabric eth1g names eth1, which c1 does not have (it has eth0); correct the "
            "system's description.",
        ),
    ],
)
def test_what_contradicts_the_fabric(
    ranks: list[RankEvidence], fabric: Fabric, expected: float, sentence: str
) -> None:
    """Where a sentence begins with dots, its end is compared."""
    [said] = sentences(ranks, fabric, expected)
    assert (
        said.endswith(sentence.removeprefix("... "))
        if sentence.startswith("... ")
        else said == sentence
    )


@pytest.mark.parametrize(
    ("ranks", "fabric", "note"),
    [
        (
            exchange({"lo": 3 * GB}, ()),
            SHM,
            "lo carried 3.0 GB that are not the ranks' (other traffic of the node)",
        ),
        (
            exchange({"eth1": 10 * GB, "eth2": 7 * GB}, OWN),
            ETH1G,
            "eth2 carried 7.0 GB that are not the ranks' (other traffic of the node)",
        ),
        (
            exchange({"eth1": 10 * GB, "lo": 4 * GB}, (*OWN, (HOME, HOME, 4 * GB))),
            ETH1G,
            "ranks of one node exchanged 4.0 GB over lo, not in shared memory",
        ),
    ],
)
def test_what_is_noted(ranks: list[RankEvidence], fabric: Fabric, note: str) -> None:
    assert notes(ranks, fabric, 10 * GB if fabric is ETH1G else 2 * GB) == [note]


# ---- wires that are counted twice ----


def bonded(**changes: Any) -> dict[str, Any]:
    return {
        "lo": {**INTERFACE, "addresses": [HOME]},
        "bond0": {**INTERFACE, "lower": ["eth1", "eth2"], "addresses": ["10.0.0.1"]},
        "eth1": INTERFACE,
        "eth2": INTERFACE,
        "eth3": INTERFACE,
    } | changes


def test_bond_used_instead_is_one_network():
    fabric = Fabric("eth3", "tcp", "cluster", (Rail("eth3"),))
    sent = {"bond0": 10 * GB, "eth1": 5 * GB, "eth2": 5 * GB, "eth3": 2 * GB}
    (sentence,) = sentences(
        exchange(sent, node__interfaces=bonded(), environment={}), fabric, 10 * GB
    )
    assert (
        sentence
        == "asked for eth3, but bond0 carried 10 GB of 12 GB: two networks were used at once."
    )


# ---- ports ----


def test_every_rail_is_reported():
    used = exchange({"hfi1_0/1": 5 * GB, "hfi1_1/1": 5 * GB})
    assert notes(used, OPA, 10 * GB) == []
    assert notes(exchange({"hfi1_0/1": 10 * GB, "hfi1_1/1": 0}), OPA, 10 * GB) == [
        "rail hfi1_1/1 of opa100 carried nothing"
    ]


def test_port_whose_counter_came_up_late_proves_nothing():
    full = {"mlx5_0/1": {"rx_bytes": 10 * GB, "tx_bytes": 10 * GB}}
    ranks = pair(init__ports={"mlx5_0/1": {}}, finalize__ports=full)
    assert (
        sentences(ranks, EDR, GB)[0]
        == "mlx5_0/1 on c1 has no counter of sent bytes, so edr cannot be proven."
    )


# ---- counters that cannot be believed ----


# ---- how it is said ----


# ---- the ranks' own sockets: whose bytes were counted, and what
# a closed connection leaves known ----


@pytest.mark.parametrize("direction", ["rx_bytes", "tx_bytes"])
def test_counter_gone_backwards(direction: str):
    row = {"rx_bytes": 9, "tx_bytes": 9}
    before, after = {"eth1": row}, {"eth1": {**row, direction: 5}}
    (said,) = sentences(pair(init__interfaces=before, finalize__interfaces=after), SHM, 0)
    assert said.startswith("the byte counters of eth1 on c1 went backwards during the run")


@pytest.mark.parametrize(
    ("carried", "both", "proven"),
    [(8.3, False, True), (8.2, False, False), (7.1, True, True), (6.9, True, False)],
)
def test_counters_may_lag_behind_sockets_by_a_second_of_each_node(
    carried: float, both: bool, proven: bool
):
    """10 Gbit/s are 1.25 GB a second, on two nodes 2.5 GB."""
    ten = Fabric("eth10g", "tcp", "cluster", (Rail("eth1", 10.0),))
    ranks = exchange({"eth1": carried * GB}, OWN)
    if both:
        ranks[1] = exchange({"eth1": 0}, (), host="c2")[1]
    finding = traffic.check_traffic(ranks, ten, 10 * GB)
    assert (finding.sentences == []) == (["lag behind" in note for note in finding.notes] == [True])
    assert (finding.sentences == []) == proven
    assert sentences(exchange({"eth1": carried * GB}), ten, 10 * GB), "no socket tells"

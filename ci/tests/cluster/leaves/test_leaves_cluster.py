"""Maps of pairs on six nodes below two leaf switches: as they should be,
with one slow direction, and with a node that dies.
"""

import time
from itertools import permutations
from threading import Thread

import pytest

import live_cluster
from live_cluster import bandwidths
from mpibench.locate import answers
from mpibench.store import dataset
from mpibench.store.sessions import read_session
from mpibench.store.store import Store
from programs import wait_for
from reframe_tests.harness.machine.switches import SLURM

pytestmark = pytest.mark.usefixtures("mpich")
NODES = [f"c{number}" for number in range(1, 7)]
#: What TCP can carry at 100 Mbit/s, in MB/s (``test_cluster``).
PAYLOAD_LIMIT = 11.77


@pytest.fixture(scope="module")
def leaves(tmp_path_factory):
    """Six nodes, three below each leaf; what nodes share is below ``runtime.parent``."""
    tmp = tmp_path_factory.mktemp("leaves")
    (tmp / "shared").mkdir()
    with live_cluster.running(
        tmp, "--nodes", "6", "--leaf-size", "3", "--share", str(tmp / "shared")
    ) as cluster:
        yield cluster


@pytest.fixture
def folder(leaves, request):
    """A folder of the test's own that all nodes see; afterwards all faults are healed."""
    yield leaves.runtime.parent / "shared" / request.node.name
    leaves.good("fault", "clear")


def test_a_healthy_map_is_whole_and_proven(leaves, folder):
    case = live_cluster.measure(leaves, folder)
    found = case.pair_map
    assert found is not None and (case.result, case.evidence) == ("pass", "proven"), case.reason
    assert (found.design, found.rounds, found.silent, sorted(found.nodes)) == ("all", 10, {}, NODES)
    assert set(bandwidths(case)) == set(live_cluster.latencies(case)) == set(permutations(NODES, 2))
    assert all(value <= 1.05 * PAYLOAD_LIMIT for value in bandwidths(case).values())
    assert {one.counted for one in found.rows()} == {True}, (
        "each node's bytes are those of the schedule"
    )
    assert found.tree is not None and found.tree.origin == SLURM
    assert {name: switch.nodes for name, switch in found.tree.switches.items()} == {
        "spine": (),
        "leaf1": ("c1", "c2", "c3"),
        "leaf2": ("c4", "c5", "c6"),
    }
    dataset.export(folder / "results.db", folder / "dataset")
    (stored,) = Store(folder / "dataset").pair_maps()
    assert stored.pair_map == found
    assert stored.case["evidence"] == "proven"


def test_the_wire_alone_shows_the_same_slow_direction(leaves, folder):
    """Below MPI: iperf3 between all pairs, stored as a map like any other."""
    leaves.good("fault", "slow-port", "c2", "eth100m", "--fraction", "0.25", "--direction", "send")
    where = ("-n", "WireTcpMap%fabric=eth100m", "--system=minicluster:eth100m", "-S", "orders=1")
    (case,) = live_cluster.run(leaves, folder, *where, files=["cascade.py"]).measured
    assert case.evidence == "proven" and case.pair_map is not None and case.samples, case.reason
    found = bandwidths(case)
    assert set(found) == set(permutations(NODES, 2)) and {
        one.counted for one in case.pair_map.rows()
    } == {True}
    assert all(
        value <= (0.3 if source == "c2" else 1.05) * PAYLOAD_LIMIT
        for (source, _), value in found.items()
    )
    assert case.pair_map.tree is not None and case.pair_map.tree.origin == SLURM
    [located] = [answers.answer_of(read_session(folder / "results.db"), case)]
    assert any(each.names == ("c2",) for each in located.findings) and not located.wires


def test_an_uplink_slows_what_crosses_it_and_nothing_else(leaves, folder):
    leaves.good("fault", "slow-uplink", "leaf2", "--fraction", "0.1")
    found = bandwidths(live_cluster.measure(leaves, folder))
    across = {
        pair: value
        for pair, value in found.items()
        if (pair[0] in NODES[:3]) != (pair[1] in NODES[:3])
    }
    assert len(across) == 18
    assert all(value <= 0.35 * PAYLOAD_LIMIT for value in across.values()), across
    assert min(value for pair, value in found.items() if pair not in across) > max(across.values())


def test_a_node_that_dies_is_named_and_the_rest_is_kept(leaves, folder):
    def kill_when_measuring():
        wait_for(
            lambda: any("so_far" in path.read_text() for path in folder.glob("stage/**/map.1.out")),
            60,
        )
        time.sleep(1)
        leaves.good("fault", "kill-node", "c3")

    killer = Thread(target=kill_when_measuring)
    killer.start()
    case = live_cluster.measure(leaves, folder, "-S", "patience_s=4", "-S", "orders=4")
    killer.join()
    assert case.result == "fail" and case.evidence != "proven"
    assert "c3" in case.reason
    found = case.pair_map
    assert found is not None
    assert any(one.value for one in found.rows() if "c3" not in (one.source, one.target)), (
        "what was measured is kept"
    )

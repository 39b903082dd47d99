"""Links through Slurm and ReFrame: a neighbour on the link, a node with
another MTU, and links that are well, distinguished.
"""

import re
from contextlib import contextmanager

STACK = "mpich-wheels"
CASES = "ImbPointToPoint%fabric=eth.*%nodes=2%ppn=1%pinning=default"
#: Sends 300 Mbit/s over one connection until it is killed, or takes what comes.
NEIGHBOUR = """
import socket, sys, time
if len(sys.argv) == 1:
    with socket.create_server(("", 7100)) as server:
        print("ready", flush=True)
        link, _ = server.accept()
        while link.recv(1 << 20):
            pass
else:
    link, block, began, sent = socket.create_connection((sys.argv[1], 7100), timeout=60), bytes(1 << 16), time.monotonic(), 0
    while True:
        link.sendall(block)
        sent += len(block)
        print("sending", flush=True) if sent == len(block) else None
        time.sleep(max(0.0, sent / 37.5e6 - (time.monotonic() - began)))
"""


@contextmanager
def neighbour(cluster, fabric):
    """Somebody who sends from c1 to c2 all the time."""
    words = ("exec", "--node", "c2", "--", cluster.python, "-c", NEIGHBOUR)
    receiver = cluster.begin(*words)
    sender = None
    try:
        assert receiver.stdout is not None and receiver.stdout.readline() == "ready\n"
        sender = cluster.begin(*(words[:2]), "c1", *words[3:], f"c2-{fabric}")
        assert sender.stdout is not None and sender.stdout.readline() == "sending\n"
        yield
    finally:
        for process in (sender, receiver):
            if process is not None:
                process.kill()
                process.wait()


def test_a_busy_neighbour_contradicts_and_the_link_is_not_blamed(box):
    box.keep_partitions("eth1g", "eth10g")
    with neighbour(box.cluster, "eth1g"):
        status, output = box.run("-S", "repeats=1", "--exec-policy=serial", names=CASES)
    assert status == 1, output
    cases = box.cases()
    busy = cases[f"eth1g {STACK}"]
    proof = busy["proof"]
    assert (busy["result"], busy["fail_phase"], proof["verdict"]) == (
        "fail",
        "sanity",
        "contradicted",
    )
    assert all("somebody else used the link: " in sentence for sentence in proof["sentences"])
    (sentence,) = (one for one in proof["sentences"] if one.startswith("pair: "))
    assert re.search(r"eth1g of c1 sent ([0-9.]+) ([MG])B more than the .* its ranks", sentence)
    assert "eth1g of c2 received " in sentence and "this says nothing about eth1g" in sentence
    assert sentence in busy["fail_reason"]
    assert busy["samples"] and not busy["gates"], (
        "the numbers are kept, and nothing is held against the link"
    )
    quiet = cases[f"eth10g {STACK}"]
    assert quiet["proof"]["verdict"] == "proven", quiet["fail_reason"]


def test_a_node_with_another_mtu_is_reported_and_healthy_links_are_stored(box):
    box.keep_partitions("eth1g", "eth10g")
    box.cluster.good("fault", "mtu", "c2", "eth1g")
    status, output = box.run("-S", "repeats=1", names=CASES)
    assert status == 1, output
    odd, well = (box.cases()[f"{partition} {STACK}"] for partition in ("eth1g", "eth10g"))
    assert odd["proof"]["verdict"] == "contradicted"
    for sentence in odd["proof"]["sentences"]:
        assert "eth1g on c2 has an MTU of 1400, but the site says 1500 for eth1g" in sentence
    proof = well["proof"]
    assert proof["verdict"] == "proven", well["fail_reason"]
    # veth has no speed worth the name, so none is kept.
    assert proof["links"] == [
        {"node": node, "link": "eth10g", "mtu_bytes": 1500, "state": "up"} for node in ("c1", "c2")
    ]
    assert {use["node"] for use in proof["link_use"]} == {"c1", "c2"}
    for use in proof["link_use"]:
        # What the ranks sent is known, headers and all.
        sent, most = use["sent_bytes"], use["most_sent_bytes"]
        assert 0.9 * sent < most and sent < most + use["allowed_bytes"]

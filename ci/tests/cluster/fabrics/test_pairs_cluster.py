"""A server and a client on two nodes of one job: both are recorded, and what went over another fabric is no measurement."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from live_cluster import LiveCluster
from mpibench.cluster import plan
from reframe_tests.harness.cases.cascade import end
from reframe_tests.harness.suites import pair
from reframe_tests.harness.suites.benchmark import OutputError

#: Bytes that the client sends.
AMOUNT = 4 << 20
SERVER = """
import socket, sys
with socket.create_server(("", int(sys.argv[2]))) as asked:
    link = asked.accept()[0]
    while link.recv(1 << 20):
        pass
    link.sendall(b"!")
"""
CLIENT = f"""
import socket, sys
link = socket.create_connection((sys.argv[1], int(sys.argv[2])), 60)
link.sendall(bytes({AMOUNT}))
link.shutdown(socket.SHUT_WR)
assert link.recv(1) == b"!"
"""


def launch(cluster: LiveCluster, folder: Path, name: str, host: str = "{address}") -> pair.Pair:
    """Both ends of a launch on fabric eth1g, one task a node, the client sending to ``host``."""
    python, ends = cluster.python, {}
    for which, program in (("server", SERVER), ("client", CLIENT)):
        (folder / f"{name}.{which}.py").write_text(program)
        words = (python, str(end.PROGRAM), which, name, "eth1g", "60", python, f"{name}.{which}.py")
        ends[which] = " ".join([*words, host, "{port}", "{address}"])
    task = folder / f"{name}.sh"
    task.write_text(f'cd "{folder}"\ncase $SLURM_PROCID in\n0) exec {ends["server"]} ;;\n*) exec {ends["client"]} ;;\nesac\n')
    cluster.on(plan.HEAD, *("srun", "-p", "eth1g", "-N", "2", "-n", "2", "--mpi=none", "--cpu-bind=cores"), "sh", str(task))
    text = "".join((folder / f"{name}.{which}").read_text() for which in pair.ENDS)
    return pair.read(text, Path(python).name, name)


def test_both_ends_are_recorded_on_their_own_nodes(cluster: LiveCluster, visible: Path) -> None:
    found = launch(cluster, visible, "right")
    assert (found.server.host, found.client.host) == ("c1", "c2")
    assert found.server.address != found.client.address
    pair.expect_carried(found, pair.Exchanged(AMOUNT, 0), "it", "right")
    assert found.client.before.link["operstate"] == "up" and found.client.before.link["mtu"] == "1500"
    if len(os.sched_getaffinity(0)) > 1:
        assert found.server.cores != found.client.cores


def test_another_fabric_is_seen_by_the_counters(cluster: LiveCluster, visible: Path) -> None:
    found = launch(cluster, visible, "wrong", "c1-eth10g")
    with pytest.raises(
        OutputError, match=r"interface eth1g of c2 sent [0-9]+ bytes, and it exchanged 4194304: it went over another"
    ):
        pair.expect_carried(found, pair.Exchanged(AMOUNT, 0), "it", "wrong")

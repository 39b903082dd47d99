"""Where nodes are vetted, and with which command line."""

import re

from mpibench_vet import measuring, reasons
from mpibench_vet.reasons import FACTS, MEMORY, PAIRS
from mpibench_vet.slurm import SlurmNode
from reframe_tests.harness.sites import systems
from refusals import refused_as


def nodes_in(*partitions):
    return SlurmNode("c1", frozenset(["IDLE"]), "", partitions)


def place(*nodes, **asked):
    words = {"partition": None, "fabric": None, **asked}
    return measuring.find_place(nodes, "minicluster", **words)


def test_the_first_partition_that_has_all_nodes_is_taken():
    found = place(nodes_in("eth1g", "eth10g"), nodes_in("eth10g"))
    assert (found.partition, found.fabric.name, found.queue) == ("eth10g", "eth10g", "eth10g")
    with refused_as("not-comparable", "eth1g.*eth10g"):
        place(nodes_in("eth1g"), nodes_in("eth10g"))
    for asked in ("partition", "fabric"):
        with refused_as("unknown-name", "nowhere"):
            place(nodes_in("eth1g"), **{asked: "nowhere"})


def test_without_slurm_there_is_no_place(monkeypatch):
    local = {"name": "box", "partitions": [{"name": "all", "scheduler": "local", "extras": {}}]}
    monkeypatch.setattr(systems, "select", lambda name: local)
    with refused_as("scheduler-unusable", "box"):
        place(nodes_in("eth1g"))


def test_the_command_asks_for_just_these_nodes_and_for_what_is_looked_at():
    where = place(nodes_in("eth1g"))
    said = measuring.words(where, ["c1", "c2"], [FACTS, PAIRS], "mpich-wheels", ["account=ops"])
    assert said[said.index("-J") + 1] == "nodelist=c1,c2"
    assert "account=ops" in said
    pattern = said[said.index("-n") + 1]
    for name in ("NodePreflight", "PairMap%fabric=eth1g%nodes=2%ppn=1%pinning=default"):
        assert re.match(pattern, name)
    for name in ("PairMap%fabric=eth10g%nodes=2%ppn=1%pinning=default", "MemoryOfNodes"):
        assert not re.match(pattern, name)
    assert "run=vet,kind=vet" in said
    # A setting of a test that is not loaded is refused.
    assert not [word for word in said if word.startswith(("MemoryOfNodes", "Wire"))]
    alone = measuring.words(where, ["c1"], [FACTS, MEMORY], "", [])
    assert alone[alone.index("-p") + 1] == "^(?:builtin)$"
    assert set(reasons.CHECKS) >= {FACTS, PAIRS, MEMORY}

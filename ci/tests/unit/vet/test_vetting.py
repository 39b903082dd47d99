"""From nodes to the answer: where they are vetted and with which command line, and nothing is
green that was not measured.
"""

import json
import re
from dataclasses import replace
from types import SimpleNamespace

import polars as pl
import pytest

import synthetic_fabric as synthetic
from mpibench import exit_status
from mpibench.store.sessions import Case
from mpibench.store.store import Store
from mpibench_vet import commands, measuring, reasons, slurm, vetting
from mpibench_vet.reasons import FACTS, FAIL, MEMORY, PAIRS, PASS, UNDECIDED, WIRE
from mpibench_vet.slurm import OwnJob, SlurmNode
from mpibench_vet.vetting import VetRequest
from reframe_tests.harness.instruments.pairs.pair_values import BANDWIDTH
from reframe_tests.harness.machine.fabric import Fabric, Rail
from reframe_tests.harness.samples import read_evidence
from reframe_tests.harness.sites import systems
from reframe_tests.harness.vocabulary import BadInput
from refusals import refused_as

NODES = synthetic.names(4)


@pytest.mark.parametrize(("slower", "what"), [(1.0, "earlier maps"), (4.0, "line rate")])
def test_a_fabric_that_was_slow_at_first_is_no_level(slower, what):
    """All nodes at a quarter of the rate, twice: the second time is as little a pass."""
    rate = synthetic.PAIR_MB_PER_S * 0.008 / 0.95
    fabric = Fabric("f", "tcp", "cluster", (Rail("eth1", rate),), None, 0.9)
    place = measuring.VetPlace("s", "p", "", fabric, "slurm")
    where = {"stack": "mpich", "fabric": "f", "partition": "p"}
    before = synthetic.pair_map(slow=lambda quantity, *_: slower if quantity == BANDWIDTH else 1.0)
    rows = pl.DataFrame([{**where, "session": "a", "case": "old", "evidence": "proven"}])
    store = SimpleNamespace(
        pair_map_cases=lambda system: rows,
        pair_maps=lambda system, sessions: [SimpleNamespace(pair_map=before, case=where)],
    )
    level = vetting._level(store, place, SimpleNamespace(**where, uuid="new"))
    assert level and what in level.what


class Machine:
    """Slurm with four nodes, and a ReFrame that answers with sessions one after the other."""

    def __init__(self, folder, monkeypatch):
        self.folder = folder
        self.asked = []
        self.dying = ""
        self.own = []
        self.job = None
        self.job_ends = False
        self.sessions = []
        self.known = {name: SlurmNode(name, frozenset(["IDLE"]), "", ("eth40g",)) for name in NODES}
        monkeypatch.setattr(slurm, "read_nodes", lambda: dict(self.known))
        monkeypatch.setattr(measuring, "measure", self._measure)
        monkeypatch.setattr(slurm, "own_job", lambda environ: self.job)
        monkeypatch.setattr(slurm, "steps_of", lambda number: {})
        monkeypatch.setattr(OwnJob, "others", lambda job: {})
        monkeypatch.setattr(OwnJob, "is_over", lambda job: self.job_ends)

    def _measure(self, words, *given):
        self.asked.append(words)
        self.own.append(",".join(given[-1]))
        if self.dying:
            self.known[self.dying] = self.known[self.dying]._replace(states=frozenset(["DOWN"]))
        if not self.sessions:
            raise BadInput("nothing-measured", "nothing was measured.")
        return self.sessions.pop(0)

    def vet(self, *names, checks=(FACTS,), **more):
        asked = VetRequest(
            names=names,
            database=self.folder / "results.db",
            store=Store(self.folder / "dataset"),
            folder=self.folder / "vet",
            say=lambda text: None,
            system="minicluster",
            partition="eth40g",
            stack="mpich-wheels",
            checks=checks,
            **more,
        )
        return vetting.vet(asked)


@pytest.fixture
def machine(tmp_path, monkeypatch):
    return Machine(tmp_path, monkeypatch)


def session_with(*cases):
    return replace(synthetic.session_of(), cases=cases)


def words_of(answer):
    return [one.verdict for one in answer.nodes]


def of_pairs(session):
    return tuple(
        replace(case, condition={**case.condition, "group": "pair_map"}) for case in session.cases
    )


def facts_of(*nodes, odd=""):
    rows = [{"node": node, "mtu_bytes of eth1g": 1500, "kernel": "6"} for node in nodes]
    row = {**dict.fromkeys(("instance", "wanted", "why", "fix"), "x"), "fact": "kernel"}
    row["values"] = [{"value": "5", "nodes": [odd]}]
    entry = {"system": "minicluster", "odd_nodes": [row] if odd else []}
    evidence = read_evidence({"verdict": "proven", "ranks": [], "devices": [], "kernel": rows}, "")
    return Case("s:0:9", 0, entry, {"group": "preflight"}, (), evidence, ())


@pytest.mark.parametrize("checks", [(WIRE,), (PAIRS,), (WIRE, PAIRS)])
def test_of_one_node_alone_no_pair_is_measured_and_it_does_not_pass(machine, checks):
    answer = machine.vet("c1", checks=checks)
    assert (words_of(answer), answer.status, machine.asked) == ([UNDECIDED], 3, [])


@pytest.mark.parametrize("check", reasons.CHECKS)
def test_a_session_without_the_case_that_was_asked_for_passes_nobody(machine, check):
    machine.sessions = [session_with()]
    answer = machine.vet("c[1-4]", checks=(check,))
    assert (words_of(answer), answer.status) == ([UNDECIDED] * 4, 3)


def test_what_good_nodes_show_is_learned_and_what_was_left_out_is_said(machine):
    machine.sessions = [session_with(facts_of(*NODES, odd="c4"))]
    answer = machine.vet("c[1-4]")
    assert (words_of(answer), answer.status) == ([PASS, PASS, PASS, FAIL], 1)
    assert "wire, pairs, memory" in " ".join(answer.notes)
    [learned] = (machine.folder / "learned").iterdir()
    assert '"eth1g": 1500' in learned.read_text() and "c4" not in learned.read_text()


def test_nodes_beside_a_bad_one_are_measured_again_without_it(machine):
    measured = synthetic.pair_map(4, orders=9)
    unproven = of_pairs(synthetic.session_of(measured, status="missing", result="fail"))
    first = session_with(*unproven, facts_of(*NODES, odd="c4"))
    again = of_pairs(synthetic.session_of(synthetic.pair_map(3, orders=14)))
    machine.sessions = [first, session_with(*again)]
    answer = machine.vet("c[1-4]", checks=(FACTS, PAIRS))
    assert words_of(answer) == [PASS, PASS, PASS, FAIL], answer.nodes
    assert "nodelist=c1,c2,c3" in machine.asked[1]
    # Where that measures nothing, what is known of the bad one still counts.
    machine.sessions = [first]
    assert words_of(machine.vet("c[1-4]", checks=(FACTS, PAIRS))) == [UNDECIDED] * 3 + [FAIL]


def test_a_node_that_slurm_loses_meanwhile_takes_no_other_along(machine):
    machine.sessions = [session_with(), session_with(facts_of("c1", "c2", "c4"))]
    there = slurm.settled(["c[1-4]"])
    machine.dying = "c3"
    answer = machine.vet("c[1-4]")
    assert words_of(answer) == [PASS, PASS, UNDECIDED, PASS]
    assert answer.nodes[2].reasons[0].why is reasons.Why.NOT_THERE
    del machine.known["c3"]
    assert [(lost.node, lost.why) for lost in vetting._lost(there)] == [
        ("c3", reasons.Why.NOT_THERE)
    ]


def test_memory_is_read_from_what_the_case_left(machine):
    rates = {node: [9.0, 8.0, 9.0] for node in NODES[:3]} | {"c4": [3.0, 3.0, 2.0]}
    problems = {"c1": "cut off", "c2": "cut off"}
    entry = {"system": "minicluster", "memory_of_nodes": rates, "memory_problems": problems}
    machine.sessions = [session_with(Case("s:0:8", 0, entry, {"group": "memory"}, (), None, ()))]
    answer = machine.vet("c[1-4]", checks=(MEMORY,))
    assert words_of(answer) == [PASS, PASS, PASS, FAIL]
    [command] = answer.commands
    assert "nodename=c4 " in command
    assert "memory of c1, c2: cut off" in answer.notes


def test_inside_a_job_its_nodes_are_measured_in_it(machine, monkeypatch):
    machine.sessions = [session_with(facts_of("c1", "c2")), session_with(facts_of("c1"))]
    machine.job = OwnJob("7", ("c1", "c2"), {}, "7.")
    assert (words_of(machine.vet()), machine.own) == ([PASS, PASS], ["c1,c2"])
    with refused_as("unknown-name", "c3.*job 7"):
        machine.vet("c[2-3]")
    monkeypatch.setattr(slurm, "require_rights", lambda: None)
    for more in ({"reservation": "r"}, {"options": ["account=a"]}, {"apply": ["resume"]}):
        with refused_as("options-exclude", "job 7"):
            machine.vet("c1", **more)
    machine.job_ends = True
    answer = machine.vet()
    assert words_of(answer) == [PASS, UNDECIDED]
    assert answer.nodes[1].reasons[0].why is reasons.Why.JOB_ENDED


def test_a_page_that_cannot_be_written_takes_no_answer_away(machine, monkeypatch, capsys):
    answer = machine.vet("c1", checks=(PAIRS,))
    monkeypatch.setattr(vetting, "vet", lambda asked: answer)
    folder = str(machine.folder)
    words = ["c1", "--json", "--db", f"{folder}/results.db", "--out", folder]
    assert exit_status.run(commands.app, words) == exit_status.BAD_INPUT
    assert json.loads(capsys.readouterr().out)["nodes"][0]["verdict"] == UNDECIDED


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

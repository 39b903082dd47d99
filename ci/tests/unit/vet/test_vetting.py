"""From nodes to the answer: nothing is green that was not measured."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

import synthetic_fabric as synthetic
from mpibench import exit_status
from mpibench.store.sessions import Case, Session
from mpibench.store.store import Store
from mpibench_vet import commands, measuring, reasons, slurm, vetting
from mpibench_vet.reasons import FACTS, FAIL, MEMORY, PAIRS, PASS, UNDECIDED, WIRE
from mpibench_vet.slurm import OwnJob, SlurmNode
from mpibench_vet.vetting import VetAnswer, VetRequest
from reframe_tests.harness.instruments.pairs.pair_values import BANDWIDTH
from reframe_tests.harness.machine.fabric import Fabric, Rail
from reframe_tests.harness.samples import read_evidence
from reframe_tests.harness.vocabulary import BadInput
from refusals import refused_as

NODES = synthetic.names(4)


@pytest.mark.parametrize(("slower", "what"), [(1.0, "earlier maps"), (4.0, "line rate")])
def test_a_fabric_that_was_slow_at_first_is_no_level(slower: float, what: str) -> None:
    """All nodes at a quarter of the rate, twice: the second time is as little a pass."""
    rate = synthetic.PAIR_MB_PER_S * 0.008 / 0.95
    fabric = Fabric("f", "tcp", "cluster", (Rail("eth1", rate),), None, 0.9)
    place = measuring.VetPlace("s", "p", "", fabric, "slurm")
    where = {"stack": "mpich", "fabric": "f", "partition": "p"}
    case = SimpleNamespace(**where, uuid="new")
    before = synthetic.pair_map(slow=lambda quantity, *_: slower if quantity == BANDWIDTH else 1.0)
    rows = pl.DataFrame([{**where, "session": "a", "case": "old", "evidence": "proven"}])
    store = SimpleNamespace(
        pair_map_cases=lambda system: rows,
        pair_maps=lambda system, sessions: [SimpleNamespace(pair_map=before, case=where)],
    )
    level = vetting._level(store, place, case)
    assert level and what in level.what


class Machine:
    """Slurm with four nodes, and a ReFrame that answers with sessions one after the other."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, *sessions: Session) -> None:
        self.folder = folder
        self.asked: list[list[str]] = []
        self.dying: list[str] = []
        self.own: list[str] = []
        self.job: OwnJob | None = None
        self.job_ends = False
        self.sessions = list(sessions)
        known = {name: SlurmNode(name, frozenset(["IDLE"]), "", ("eth40g",)) for name in NODES}
        self.known = known
        monkeypatch.setattr(slurm, "read_nodes", lambda: dict(self.known))
        monkeypatch.setattr(measuring, "measure", self._measure)
        monkeypatch.setattr(slurm, "own_job", lambda environ: self.job)
        monkeypatch.setattr(slurm, "steps_of", lambda number: {})
        monkeypatch.setattr(OwnJob, "others", lambda job: {})
        monkeypatch.setattr(OwnJob, "is_over", lambda job: self.job_ends)

    def _measure(self, words: list[str], *given: object) -> Session:
        self.asked.append(words)
        self.own.append(",".join(given[-1]))  # type: ignore[arg-type]
        for name in self.dying:
            self.known[name] = self.known[name]._replace(states=frozenset(["DOWN"]))
        if not self.sessions:
            raise BadInput("nothing-measured", "nothing was measured.")
        return self.sessions.pop(0)

    def vet(self, *names: str, checks: tuple[str, ...] = (PAIRS,), **more: Any) -> VetAnswer:
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


def words_of(answer: VetAnswer) -> list[str]:
    return [one.verdict for one in answer.nodes]


def of_pairs(session: Session) -> Session:
    cases = []
    for case in session.cases:
        condition = {**case.condition, "group": "pair_map"}
        cases.append(replace(case, condition=condition))
    return replace(session, cases=tuple(cases))


def facts_of(*nodes: str, odd: str = "") -> Case:
    proof = {"verdict": "proven", "ranks": [], "devices": []}
    rows = [{"node": node, "mtu_bytes of eth1g": 1500, "kernel": "6"} for node in nodes]
    seen = [{"value": "5", "nodes": [odd]}]
    row = {"fact": "kernel", "instance": "", "values": seen, "wanted": "w", "why": "y", "fix": "f"}
    entry = {"system": "minicluster", "odd_nodes": [row] if odd else []}
    evidence = read_evidence({**proof, "kernel": rows}, "here")
    return Case("s:0:9", 0, entry, {"group": "preflight"}, (), evidence, ())


@pytest.mark.parametrize("checks", [(WIRE,), (PAIRS,), (WIRE, PAIRS)])
def test_of_one_node_alone_no_pair_is_measured_and_it_does_not_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, checks: tuple[str, ...]
) -> None:
    machine = Machine(tmp_path, monkeypatch)
    answer = machine.vet("c1", checks=checks)
    assert (words_of(answer), answer.status, machine.asked) == ([UNDECIDED], 3, [])


@pytest.mark.parametrize("check", reasons.CHECKS)
def test_a_session_without_the_case_that_was_asked_for_passes_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, check: str
) -> None:
    empty = replace(synthetic.session_of(), cases=())
    answer = Machine(tmp_path, monkeypatch, empty).vet("c[1-4]", checks=(check,))
    assert (words_of(answer), answer.status) == ([UNDECIDED] * 4, 3)


def test_what_good_nodes_show_is_learned_and_what_was_left_out_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = replace(synthetic.session_of(), cases=(facts_of(*NODES, odd="c4"),))
    answer = Machine(tmp_path, monkeypatch, session).vet("c[1-4]", checks=(FACTS,))
    assert (words_of(answer), answer.status) == ([PASS, PASS, PASS, FAIL], 1)
    assert "wire, pairs, memory" in " ".join(answer.notes)
    [learned] = (tmp_path / "learned").iterdir()
    assert '"eth1g": 1500' in learned.read_text()
    assert "c4" not in learned.read_text()


def test_nodes_beside_a_bad_one_are_measured_again_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = synthetic.pair_map(4, orders=9)
    unproven = of_pairs(synthetic.session_of(measured, status="missing", result="fail"))
    first = replace(unproven, cases=(*unproven.cases, facts_of(*NODES, odd="c4")))
    again = of_pairs(synthetic.session_of(synthetic.pair_map(3, orders=14)))
    machine = Machine(tmp_path, monkeypatch, first, again)
    answer = machine.vet("c[1-4]", checks=(FACTS, PAIRS))
    assert words_of(answer) == [PASS, PASS, PASS, FAIL], answer.nodes
    assert "nodelist=c1,c2,c3" in machine.asked[1]
    # Where that measures nothing, what is known of the bad one still counts.
    alone = Machine(tmp_path, monkeypatch, first)
    assert words_of(alone.vet("c[1-4]", checks=(FACTS, PAIRS))) == [UNDECIDED] * 3 + [FAIL]


def test_a_node_that_slurm_loses_meanwhile_takes_no_other_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing = replace(synthetic.session_of(), cases=())
    again = replace(synthetic.session_of(), cases=(facts_of("c1", "c2", "c4"),))
    machine = Machine(tmp_path, monkeypatch, nothing, again)
    machine.dying = ["c3"]
    answer = machine.vet("c[1-4]", checks=(FACTS,))
    assert words_of(answer) == [PASS, PASS, UNDECIDED, PASS]
    assert answer.nodes[2].reasons[0].why is reasons.Why.NOT_THERE


def test_memory_is_read_from_what_the_case_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rates = {
        "c1": [9.0, 8.0, 9.0],
        "c2": [9.0, 8.0, 8.0],
        "c3": [8.0, 9.0, 8.5],
        "c4": [3.0, 3.0, 2.0],
    }
    problems = {"c1": "cut off", "c2": "cut off"}
    entry = {"system": "minicluster", "memory_of_nodes": rates, "memory_problems": problems}
    case = Case("s:0:8", 0, entry, {"group": "memory"}, (), None, ())
    session = replace(synthetic.session_of(), cases=(case,))
    answer = Machine(tmp_path, monkeypatch, session).vet("c[1-4]", checks=(MEMORY,))
    assert words_of(answer) == [PASS, PASS, PASS, FAIL]
    assert len(answer.commands) == 1
    assert "nodename=c4 " in answer.commands[0]
    assert "memory of c1, c2: cut off" in answer.notes


def test_a_node_that_slurm_no_longer_has_does_not_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = replace(synthetic.session_of(), cases=(facts_of(*NODES),))
    machine = Machine(tmp_path, monkeypatch, good)
    there = slurm.settled(["c[1-4]"])
    del machine.known["c2"]
    [lost] = vetting._lost(there)
    assert (lost.node, lost.why) == ("c2", reasons.Why.NOT_THERE)


def test_inside_a_job_its_nodes_are_measured_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = replace(synthetic.session_of(), cases=(facts_of("c1", "c2"),))
    machine = Machine(tmp_path, monkeypatch, good)
    machine.job = OwnJob("7", ("c1", "c2"), {}, "7.")
    answer = machine.vet(checks=(FACTS,))
    assert (words_of(answer), machine.own) == ([PASS, PASS], ["c1,c2"])
    with refused_as("unknown-name", "c3.*job 7"):
        machine.vet("c[2-3]")
    for more in ({"reservation": "r"}, {"options": ["account=a"]}, {"apply": ["resume"]}):
        monkeypatch.setattr(slurm, "require_rights", lambda: None)
        with refused_as("options-exclude", "job 7"):
            machine.vet("c1", **more)


def test_a_job_that_ends_in_the_middle_leaves_its_nodes_undecided(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    some = replace(synthetic.session_of(), cases=(facts_of("c1"),))
    machine = Machine(tmp_path, monkeypatch, some)
    machine.job = OwnJob("7", ("c1", "c2"), {}, "7.")
    machine.job_ends = True
    answer = machine.vet(checks=(FACTS,))
    assert words_of(answer) == [PASS, UNDECIDED]
    assert answer.nodes[1].reasons[0].why is reasons.Why.JOB_ENDED


def test_a_page_that_cannot_be_written_takes_no_answer_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = Machine(tmp_path, monkeypatch).vet("c1")
    monkeypatch.setattr(vetting, "vet", lambda asked: answer)
    words = ["c1", "--json", "--db", str(tmp_path / "results.db"), "--out", str(tmp_path)]
    assert exit_status.run(commands.app, words) == exit_status.BAD_INPUT
    assert json.loads(capsys.readouterr().out)["nodes"][0]["verdict"] == UNDECIDED

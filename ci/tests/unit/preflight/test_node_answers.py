"""Which nodes answered, whatever they answered; which did not, why, and which of them a site misses."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from reframe.core.schedulers.slurm import _SlurmNode

from reframe_tests.harness.cases.preflight import node_answers, node_facts
from reframe_tests.harness.cases.preflight.node_answers import SchedulerNode


def answer(folder: Path, node: str, facts: Any) -> Path:
    path = folder / node_answers.FOLDER / f"{node}{node_facts.SUFFIX}"
    path.parent.mkdir(exist_ok=True)
    path.write_text(facts if isinstance(facts, str) else json.dumps(facts))
    return folder


def test_a_node_leaves_its_file_under_the_name_that_the_scheduler_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Slurm's NodeName need not be the host name; images that were copied may all have one host name."""
    monkeypatch.setattr(node_facts, "collect", lambda node, described: {"kernel": {"": "a"}, "state": dict.fromkeys(described)})
    monkeypatch.setattr("socket.gethostname", lambda: "c1.cluster.example")
    monkeypatch.setenv("SLURMD_NODENAME", "gpu-0017")
    node_facts.main(str(tmp_path), "eth0")
    assert json.loads((tmp_path / "gpu-0017.json").read_text()) == {"kernel": {"": "a"}, "state": {"eth0": None}}
    monkeypatch.delenv("SLURMD_NODENAME")
    node_facts.main(str(tmp_path))
    assert {path.name for path in tmp_path.iterdir()} == {"gpu-0017.json", "c1.cluster.example.json"}, "and nothing half done"
    with pytest.raises(FileNotFoundError):
        node_facts.main(str(tmp_path / "none"))


@pytest.mark.parametrize(
    "bad",
    [
        *("", '{"kernel": {"": "a"', "[[", "[" * 99999, "3", '{"a": 1}', "1" * 5001),
        *({"kernel": {"": ["a"]}}, {"kernel": [["a", "b"]]}, {"a": {"": None}}, {"a": {"": True}}),
        *({"a": {"": number}} for number in (float("nan"), float("inf"), 10**400, 2**63)),
    ],
)
def test_what_cannot_be_judged_is_reported(tmp_path: Path, bad: Any) -> None:
    answer(answer(tmp_path, "n1", bad), "n2", {"kernel": {"": "a"}})
    found, wrong = node_answers.read(tmp_path)
    assert found == {"n2": {"kernel": {"": "a"}}} and len(wrong) == 1 and wrong[0].startswith("n1's facts cannot be read: ")


def test_a_file_that_cannot_be_read_hides_no_other_node(tmp_path: Path) -> None:
    (answer(tmp_path, "n2", {"kernel": {"": "a"}}) / node_answers.FOLDER / f"n1{node_facts.SUFFIX}").mkdir()
    found, [wrong] = node_answers.read(tmp_path)
    assert found == {"n2": {"kernel": {"": "a"}}} and wrong.startswith("n1's facts cannot be read: ")


def test_no_text_of_a_node_moves_a_terminal(tmp_path: Path) -> None:
    """Users choose the names of their processes."""
    evil = "a\x1b[2J\x1b]0;owned\x07b\nc\udc80\x85"
    facts = {"processes_of_others": {"": evil}, "x\x1b[1m": {"eth\x07": "v"}}
    found, wrong = node_answers.read(answer(tmp_path, "n1", facts))
    assert wrong == [] and found == {"n1": {"processes_of_others": {"": "ab c"}, "x": {"eth": "v"}}}


@pytest.mark.parametrize(
    ("answered", "there", "expected", "said"),
    [
        (["n1", "n2"], ["n1", "n2"], 2, []),
        (["n1"], [], 1, []),
        ([], [], 1, ["0 of 1 nodes answered"]),
        (["n1"], ["n1", "n2"], 2, ["1 of 2 nodes answered; silent: n2"]),
        # The scheduler forgot the job's nodes: what was asked for counts.
        (["n1"], [], 2, ["1 of 2 nodes answered"]),
        # It gave fewer than were asked for.
        (["n1"], ["n1"], 2, ["1 of 2 nodes answered"]),
        (
            ["n1", "n3"],
            ["n1", "n2"],
            2,
            ["1 of 2 nodes answered; silent: n2", "n3 answered without being a node of the job (n1, n2)"],
        ),
        (["c.rack1", "c.rack2"], ["c.rack1", "c.rack2"], 2, []),
        (["c.rack1"], ["c.rack1", "c.rack2"], 2, ["1 of 2 nodes answered; silent: c.rack2"]),
        ([], [f"n{at}" for at in range(9)], 9, ["0 of 9 nodes answered; silent: n0, n1, n2, n3, n4, n5, n6, n7 and 1 more"]),
    ],
)
def test_each_node_of_the_job_must_answer(answered: list[str], there: list[str], expected: int, said: list[str]) -> None:
    assert node_answers.find_missing(dict.fromkeys(answered), there, expected) == said


def test_a_stranger_is_none_of_the_nodes_that_are_judged() -> None:
    """Its name would be given to the scheduler as one to leave out."""
    answered: dict[str, Any] = {"n1": {}, "n2.cluster": {}}
    assert list(node_answers.of_job(answered, ["n1", "n2"])) == ["n1"]
    assert list(node_answers.of_job(answered, [])) == ["n1", "n2.cluster"]


def test_the_nodes_of_a_job_are_those_it_names_itself(tmp_path: Path) -> None:
    assert node_answers.job_nodes(tmp_path) == ()
    (tmp_path / node_answers.NODES_FILE).write_text("c1\nc2\n")
    assert node_answers.job_nodes(tmp_path) == ("c1", "c2")


def test_nodes_that_were_not_looked_at_are_counted_by_state() -> None:
    states = [{"IDLE"}, {"ALLOCATED"}, {"ALLOCATED"}, {"IDLE", "DRAIN"}, set()]
    assert node_answers.count_states(states) == {"allocated": 2, "drain+idle": 1, "unknown": 1}


def node(name: str, *states: str, more: str = "") -> SchedulerNode:
    """As ReFrame reads a line of ``scontrol -a show -o nodes`` of Slurm 22.05 (shortened)."""
    line = f"NodeName={name} Arch=x86_64 State={'+'.join(states)} ThreadsPerCore=1 Partitions=batch {more}"
    return SimpleNamespace(name=name, states=set(states), descr=line)


DRAINED = node("n3", "IDLE", "DRAIN", more="Reason=bad DIMM in slot 4 [root@2026-11-01T10:00:00]")
SILENT = node("n1", "IDLE*")
DOWN = node("n2", "DOWN", "NOT_RESPONDING", more="Reason=Not responding [slurm@2026-11-02T03:00:00] Comment=rack 7")
NODES = [
    DRAINED,
    node("n4", "IDLE"),
    node("n5", "ALLOCATED"),
    node("n6", "MIXED", "PLANNED"),
    node("n7", "RESERVED"),
    DOWN,
    SILENT,
]


def test_each_is_named_with_its_states_and_the_reason_beside_them() -> None:
    found = node_answers.find_out_of_service(NODES, [])
    assert list(map(str, found)) == [
        "n1 (idle*)",
        "n2 (down+not_responding: Not responding)",
        "n3 (drain+idle: bad DIMM in slot 4)",
    ]
    assert node_answers.missed(found) == []
    assert node_answers.others(found) == [f"not looked at because they are out of service: {', '.join(map(str, found))}"]


@pytest.mark.parametrize("state", ["IDLE", "ALLOCATED", "MIXED", "COMPLETING", "PLANNED", "POWERED_DOWN", "IDLE~", "REBOOT"])
def test_a_node_that_comes_back_by_itself_is_none(state: str) -> None:
    assert node_answers.find_out_of_service([node("n1", state)], ["*"]) == []


@pytest.mark.parametrize(
    "states", [("DOWN",), ("DOWN*", "DRAIN"), ("DRAINING", "ALLOCATED"), ("FAIL",), ("IDLE", "INVALID_REG")]
)
def test_a_node_that_no_job_gets_is_one(states: tuple[str, ...]) -> None:
    assert [one.node for one in node_answers.find_out_of_service([node("n1", *states)], [])] == ["n1"]


def test_those_that_the_site_misses_are_apart() -> None:
    found = node_answers.find_out_of_service(NODES, ["n[23]", "n4"])
    assert node_answers.missed(found) == [
        "not looked at though they must be in service: n2 (down+not_responding: Not responding), "
        "n3 (drain+idle: bad DIMM in slot 4)"
    ]
    assert node_answers.others(found) == ["not looked at because they are out of service: n1 (idle*)"]


def test_a_reserved_node_that_must_be_in_service_is_missed() -> None:
    """Those of the job's own partition; ReFrame's own nodes, from lines of scontrol."""
    rows = {
        "n1": ("IDLE", "batch"),
        "n2": ("IDLE+MAINTENANCE+RESERVED", "batch"),
        "n3": ("RESERVED", "other"),
        "n4": ("RESERVED", "batch"),
    }
    line = "NodeName={} ActiveFeatures=(null) State={} ThreadsPerCore=1 Partitions={}"
    everything = {_SlurmNode(line.format(name, state, part)) for name, (state, part) in rows.items()}

    def choose(nodes: Iterable[Any]) -> set[Any]:
        return {node for node in nodes if not node.in_state("RESERVED") and node.partitions >= {"batch"}}

    found = node_answers.find_reserved(everything, choose, choose(everything), ["n[123]"])
    assert [(one.node, one.states, one.missed) for one in found] == [("n2", "idle+maintenance+reserved", True)]
    assert [one.node for one in node_answers.find_reserved(everything, choose, choose(everything), ["*"])] == ["n2", "n4"]


def test_a_node_that_the_scheduler_does_not_know_is_missed_by_its_pattern() -> None:
    names = [one.name for one in NODES]
    assert node_answers.find_absent(names, ["n*", "n4"]) == []
    assert node_answers.find_absent(names, ["n*", "n9", "gpu*"]) == [
        "nodes_in_service in the system's description has n9, gpu*, and the partition has no such node"
    ]


def test_many_are_counted_and_what_is_stored_is_read_again() -> None:
    found = node_answers.find_out_of_service([node(f"n{number:02}", "DOWN") for number in range(12)], ["*"])
    assert node_answers.missed(found)[0].endswith("n07 (down) and 4 more")
    assert node_answers.read_out_of_service([asdict(node) for node in found]) == found


def test_a_reason_cannot_speak_to_a_terminal() -> None:
    [found] = node_answers.find_out_of_service([node("n1", "DOWN", more="Reason=\x1b[31mred\x07 [root@x]")], [])
    assert "\x1b" not in str(found) and "\x07" not in str(found) and "red" in str(found)

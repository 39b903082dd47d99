"""Which nodes Slurm has taken out of service, why, and which of them a site misses."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest
from reframe.core.schedulers.slurm import _SlurmNode

from reframe_tests.harness.cases.preflight import out_of_service
from reframe_tests.harness.cases.preflight.out_of_service import SchedulerNode


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
    found = out_of_service.find(NODES, [])
    assert list(map(str, found)) == [
        "n1 (idle*)",
        "n2 (down+not_responding: Not responding)",
        "n3 (drain+idle: bad DIMM in slot 4)",
    ]
    assert out_of_service.missed(found) == []
    assert out_of_service.others(found) == [f"not looked at because they are out of service: {', '.join(map(str, found))}"]


@pytest.mark.parametrize("state", ["IDLE", "ALLOCATED", "MIXED", "COMPLETING", "PLANNED", "POWERED_DOWN", "IDLE~", "REBOOT"])
def test_a_node_that_comes_back_by_itself_is_none(state: str) -> None:
    assert out_of_service.find([node("n1", state)], ["*"]) == []


@pytest.mark.parametrize(
    "states", [("DOWN",), ("DOWN*", "DRAIN"), ("DRAINING", "ALLOCATED"), ("FAIL",), ("IDLE", "INVALID_REG")]
)
def test_a_node_that_no_job_gets_is_one(states: tuple[str, ...]) -> None:
    assert [one.node for one in out_of_service.find([node("n1", *states)], [])] == ["n1"]


def test_those_that_the_site_misses_are_apart() -> None:
    found = out_of_service.find(NODES, ["n[23]", "n4"])
    assert out_of_service.missed(found) == [
        "not looked at though they must be in service: n2 (down+not_responding: Not responding), "
        "n3 (drain+idle: bad DIMM in slot 4)"
    ]
    assert out_of_service.others(found) == ["not looked at because they are out of service: n1 (idle*)"]


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

    found = out_of_service.find_reserved(everything, choose, choose(everything), ["n[123]"])
    assert [(one.node, one.states, one.missed) for one in found] == [("n2", "idle+maintenance+reserved", True)]
    assert [one.node for one in out_of_service.find_reserved(everything, choose, choose(everything), ["*"])] == ["n2", "n4"]


def test_a_node_that_the_scheduler_does_not_know_is_missed_by_its_pattern() -> None:
    names = [one.name for one in NODES]
    assert out_of_service.find_absent(names, ["n*", "n4"]) == []
    assert out_of_service.find_absent(names, ["n*", "n9", "gpu*"]) == [
        "nodes_in_service in the system's description has n9, gpu*, and the partition has no such node"
    ]


def test_many_are_counted_and_what_is_stored_is_read_again() -> None:
    found = out_of_service.find([node(f"n{number:02}", "DOWN") for number in range(12)], ["*"])
    assert out_of_service.missed(found)[0].endswith("n07 (down) and 4 more")
    assert out_of_service.read(out_of_service.as_stored(found)) == found


def test_a_reason_cannot_speak_to_a_terminal() -> None:
    [found] = out_of_service.find([node("n1", "DOWN", more="Reason=\x1b[31mred\x07 [root@x]")], [])
    assert "\x1b" not in str(found) and "\x07" not in str(found) and "red" in str(found)

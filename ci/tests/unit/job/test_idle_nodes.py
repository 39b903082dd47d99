"""``nodes=all``: what the user may write, for which groups it means something, and how many nodes a job then has."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from reframe.core.exceptions import JobSchedulerError, ReframeError

from reframe_tests.harness.cases.job import batch, parameters
from reframe_tests.harness.vocabulary import ALL_NODES, NotMeasured

EXTRAS = {"node_counts": [2, 16]}


class Partition:
    """One of which ReFrame knows no processor."""

    def __init__(self, extras: dict[str, Any]) -> None:
        self.extras, self.processor = extras, SimpleNamespace(info={})


def job(answer: Any, scheduler: str = "slurm", *, there: int = 64, flex: Any = "idle") -> Any:
    """A job that ReFrame finds so many nodes for, or an error, on a partition that has so many."""

    def guess() -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    def filternodes(_: Any, nodes: set[int]) -> set[int]:
        return nodes - {-1}  # of another partition

    named = SimpleNamespace(registered_name=scheduler, allnodes=lambda: {-1, *range(there)}, filternodes=filternodes)
    return SimpleNamespace(guess_num_tasks=guess, scheduler=named, sched_flex_alloc_nodes=flex)


def count(answer: Any, nodes: int = ALL_NODES, *, dry_run: bool = False) -> int:
    return batch.count_nodes(nodes, "growth", job(answer), EXTRAS, dry_run=dry_run)


def test_all_is_a_number_for_reframe_and_a_word_for_readers() -> None:
    every = batch.node_count("all")
    assert (every, str(every), f"%nodes={every}") == (ALL_NODES, "all", "%nodes=all")
    assert batch.node_count("64") == 64 and str(batch.node_count("64")) == "64"
    with pytest.raises(ValueError, match="every"):
        batch.node_count("every")


def test_as_many_as_are_idle_and_a_number_asked_for_is_kept() -> None:
    assert count(62) == 62
    assert count(62, nodes=4) == 4
    assert count(RuntimeError("nobody is asked"), dry_run=True) == 16
    assert batch.nodes_as_stored(ALL_NODES) == {"nodes_symbol": "all"} and batch.nodes_as_stored(4) == {}


@pytest.mark.parametrize(("group", "known"), [("growth", True), ("startup_osu", True), ("collectives_osu", False)])
def test_only_groups_whose_metrics_say_on_how_many_nodes_take_all(group: str, known: bool) -> None:
    if known:
        assert batch.assume_nodes(ALL_NODES, group, EXTRAS) == 16
        return
    with pytest.raises(NotMeasured, match=f"the metrics of group {group} do not say how many nodes were idle"):
        batch.assume_nodes(ALL_NODES, group, EXTRAS)


@pytest.mark.parametrize(
    ("found", "there", "extras", "words"),
    [
        (1, 2, {}, "1 of 2 nodes is in state idle .*, and at least 2 are asked for"),
        (0, 1, {}, "0 of 1 node are in state idle .*, and at least 2 are asked for"),
        (2, 64, {}, "2 of 64 nodes are in state idle .*, and at least 32 are asked for"),
        (60, 64, {"least_idle_share": 0.95}, "60 of 64 nodes are in state idle .*, and at least 61 .*95% of all"),
    ],
)
def test_a_few_of_many_nodes_are_no_whole_machine(found: int, there: int, extras: dict[str, Any], words: str) -> None:
    """Where all others are drained it was green with a note, and where one was left it was skipped."""
    with pytest.raises(ReframeError, match=f"^nodes=all: {words}"):
        batch.count_nodes(ALL_NODES, "growth", job(found, there=there), {**EXTRAS, **extras}, dry_run=False)


def test_a_number_that_the_user_gives_is_no_share() -> None:
    assert batch.count_nodes(ALL_NODES, "growth", job(4, flex=4), EXTRAS, dry_run=False) == 4


def test_a_scheduler_that_does_not_say() -> None:
    with pytest.raises(NotMeasured, match="scheduler slurm does not say which nodes are idle: give a number of nodes"):
        count(NotImplementedError())
    with pytest.raises(ReframeError, match="which nodes are idle is not known: "):
        count(JobSchedulerError("sinfo failed"))


def test_only_groups_whose_metrics_say_the_number() -> None:
    assert batch.assume_nodes(ALL_NODES, "growth", EXTRAS) == 16
    assert batch.assume_nodes(8, "collectives", EXTRAS) == 8
    for group in ("collectives", "placement"):
        with pytest.raises(NotMeasured, match=f"metrics of group {group} do not say how many nodes were idle"):
            batch.assume_nodes(ALL_NODES, group, EXTRAS)


@pytest.mark.parametrize(
    ("group", "largest", "measured"),
    [("collectives", False, {2, 16}), ("collectives", True, {16}), ("p2p", False, {2}), ("atomics_osu", True, {2})],
)
def test_node_counts_that_a_group_is_measured_on(group: str, largest: bool, measured: set[int]) -> None:
    def choose(counts: Sequence[int]) -> Sequence[int]:
        return counts[-1:] if largest else counts

    extras = {"node_counts": [16, 2]}
    assert {nodes for nodes in (2, 4, 16) if not parameters.why_not_on(nodes, group, extras, choose)} == measured
    assert "-P nodes=4" in parameters.why_not_on(4, group, extras, choose)


def test_without_a_topology_what_no_topology_allows_is_left_out() -> None:
    """A partition whose processor nobody described adds no case of several nodes for what is inside one."""
    extras = {
        **EXTRAS,
        "fabrics": {"shm": {"transport": "shm", "scope": "node"}, "eth": {"transport": "tcp", "scope": "cluster"}},
    }
    partition = Partition(extras)
    orders = (("1",), ("bunch",))
    assert parameters.ranks_of(partition, "shm", 1, "1", "bunch", orders) == -1
    assert "works inside one node and 16 nodes are asked for" in parameters.ranks_of(partition, "shm", 16, "1", "bunch", orders)
    assert "works between nodes and 1 node is asked for" in parameters.ranks_of(partition, "eth", 1, "1", "bunch", orders)
    assert "pinning=nic_local is not among the policies" in parameters.ranks_of(partition, "shm", 1, "1", "nic_local", orders)

"""``nodes=all``: what the user may write, for which groups it means something, and how many nodes a job then has."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from reframe.core.exceptions import JobSchedulerError, ReframeError

from reframe_tests.harness.job import idle_nodes
from reframe_tests.harness.vocabulary import ALL_NODES, NotMeasured

EXTRAS = {"node_counts": [2, 16]}


def job(answer: Any, scheduler: str = "slurm") -> Any:
    """A job that ReFrame finds so many nodes for, or an error."""

    def guess() -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    named = SimpleNamespace(registered_name=scheduler)
    return SimpleNamespace(guess_num_tasks=guess, scheduler=named, sched_flex_alloc_nodes="idle")


def count(answer: Any, nodes: int = ALL_NODES, *, dry_run: bool = False) -> int:
    return idle_nodes.count(nodes, "growth", job(answer), EXTRAS, dry_run=dry_run)


def test_all_is_a_number_for_reframe_and_a_word_for_readers() -> None:
    every = idle_nodes.node_count("all")
    assert (every, str(every), f"%nodes={every}") == (ALL_NODES, "all", "%nodes=all")
    assert idle_nodes.node_count("64") == 64 and str(idle_nodes.node_count("64")) == "64"
    with pytest.raises(ValueError, match="every"):
        idle_nodes.node_count("every")


def test_as_many_as_are_idle_and_a_number_asked_for_is_kept() -> None:
    assert count(62) == 62
    assert count(62, nodes=4) == 4
    assert count(RuntimeError("nobody is asked"), dry_run=True) == 16
    assert idle_nodes.as_stored(ALL_NODES) == {"nodes_symbol": "all"} and idle_nodes.as_stored(4) == {}


@pytest.mark.parametrize(("found", "words"), [(1, "1 node of the partition is"), (0, "0 nodes of the partition are")])
def test_fewer_than_two_are_no_growth(found: int, words: str) -> None:
    with pytest.raises(NotMeasured, match=rf"^nodes=all: {words} in state idle .*, and growth needs 2"):
        count(found)


def test_a_scheduler_that_does_not_say() -> None:
    with pytest.raises(NotMeasured, match="scheduler slurm does not say which nodes are idle: give a number of nodes"):
        count(NotImplementedError())
    with pytest.raises(ReframeError, match="which nodes are idle is not known: "):
        count(JobSchedulerError("sinfo failed"))


def test_only_groups_whose_metrics_say_the_number() -> None:
    assert idle_nodes.assume(ALL_NODES, "growth", EXTRAS) == 16
    assert idle_nodes.assume(8, "collectives", EXTRAS) == 8
    for group in ("collectives", "placement"):
        with pytest.raises(NotMeasured, match=f"metrics of group {group} do not say how many nodes were idle"):
            idle_nodes.assume(ALL_NODES, group, EXTRAS)

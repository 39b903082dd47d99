"""More ranks than cores: what the site has to say for it, what such a case is called, and what the evidence then forgives."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from reframe_tests.harness.cases.job import condition
from reframe_tests.harness.evidence import checks
from reframe_tests.harness.machine import topology
from reframe_tests.harness.sites import site
from reframe_tests.harness.vocabulary import NotMeasured
from synthetic_evidence import DOCUMENT, STACK, make_rank

#: Eight nodes that pretend to have twelve cores each, on a machine with two.
FAKED = {"most_timed_ranks": 2, "oversubscribe": True}


def resolved(nodes: int = 8, ppn: str = "8", pinning: str = "none", **extras: Any) -> condition.Condition:
    row = {"transport": "tcp", "scope": "cluster", "rails": [{"device": "eth0"}]}
    whole = {"fabrics": {"eth": row}, **extras}
    asked = condition.Asked(site.fabrics_of(whole)["eth"], nodes, ppn, pinning)
    partition = condition.Partition(topology.describe(2, 6), whole, launcher="srun")
    return condition.resolve(replace(STACK, build={"lock_hash": "0123abcd"}), asked, partition)


def test_64_ranks_on_2_cores_are_called_that() -> None:
    where = resolved(**FAKED)
    assert (where.ranks, where.oversubscribed, where.may_share) == (64, "64 ranks on 2 cores", True)
    assert where.as_dict()["oversubscribed"] == "64 ranks on 2 cores"
    assert "--overcommit" in where.launcher_words(["srun"], [])


@pytest.mark.parametrize("extras", [{}, {"oversubscribe": True}, {"most_timed_ranks": 64}])
def test_a_site_with_cores_for_all_says_nothing(extras: dict[str, Any]) -> None:
    where = resolved(**extras)
    assert (where.oversubscribed, where.may_share) == ("", False)
    assert "oversubscribed" not in where.as_dict(), "as it was stored before anything was"


def test_it_is_said_also_where_the_launcher_is_not_asked_for_it() -> None:
    """Nodes that share the cores of one machine: each has its own for its ranks, and all together have not."""
    where = resolved(nodes=2, ppn="2", most_timed_ranks=2)
    assert (where.oversubscribed, where.may_share) == ("4 ranks on 2 cores", False)
    assert resolved(nodes=2, ppn="1", most_timed_ranks=2).oversubscribed == ""


def test_cores_that_are_named_are_not_shared() -> None:
    where = resolved(pinning="bunch", **FAKED)
    assert (where.oversubscribed, where.may_share) == ("64 ranks on 2 cores", False)


def test_more_ranks_than_a_node_shows_are_refused_all_the_same() -> None:
    with pytest.raises(NotMeasured, match="ppn=13 is 13 processes and the partition has 12 cores"):
        resolved(ppn="13", **FAKED)


def test_shared_cores_are_forgiven_where_that_is_known_and_nothing_else() -> None:
    load = {**DOCUMENT["load"], "cpuset": "0"}
    ranks = [make_rank(number, init__cpus="0", finalize__cpus="0", load=load) for number in range(2)]
    [sharing] = checks.check_placement(ranks, "none")
    assert "may both run on core 0 only: 2 ranks for 1 core" in sharing
    assert checks.check_placement(ranks, "none", may_share=True) == []
    moved = [make_rank(number, init__cpus="0", finalize__cpus="1", load=load) for number in range(2)]
    assert all("was moved during the run" in sentence for sentence in checks.check_placement(moved, "none", may_share=True))
    assert len(checks.check_placement(moved, "none", may_share=True)) == 2
    assert len(checks.check_placement(ranks, "bunch", [[1], [2]], may_share=True)) == 2

"""``nodes=all``: as many nodes as are idle when a job is made.

ReFrame counts them (``RegressionTest.num_tasks <= 0`` and ``--flex-alloc-nodes``), but only after a launcher's command line has
to be known, so it is asked before. How many there are changes from night to night: ``all`` is a node count of its own, for
groups alone whose metrics are named with node counts; the number is stored beside it. A few of many are no whole
machine: where less than a share of the partition's nodes is idle (``least_idle_share`` of its description), the case fails.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from reframe.core.exceptions import ReframeError

from ...sites import site
from ...suites import benchmark, catalogue
from ...vocabulary import ALL_NODES, ALL_NODES_WORD, SITE_FILES, NotMeasured

#: They were idle a moment ago; where others took them, waiting for all of them at once could take days.
PATIENCE = "5m"
#: For nodes that are asked for by name: the other jobs of a night may have them first, somebody's for days.
PATIENCE_BY_NAME = "1h"
#: Growth begins with two.
FEWEST = 2
#: Share of a partition's nodes that must be idle unless the site says otherwise: with less it is not the machine that is
#: measured. A convention; nights whose numbers differ less are kept apart by their node counts.
LEAST_SHARE = 0.5


class _AllNodes(int):
    """:data:`ALL_NODES`, shown as the user wrote it."""

    def __str__(self) -> str:
        return ALL_NODES_WORD


def node_count(text: str) -> int:
    """A value of ``nodes`` as the user gives it.

    :raises ValueError: it is neither a number nor ``all``.
    """
    return _AllNodes(ALL_NODES) if text == ALL_NODES_WORD else int(text)


def assume(nodes: int, group: str, extras: Mapping[str, Any]) -> int:
    """Nodes to plan with where nobody was asked which are idle: the most of the partition's ``node_counts``.

    :param nodes: as asked for.
    :param extras: of the partition.
    :raises NotMeasured: the group's metrics do not say on how many nodes they were measured.
    """
    if nodes != ALL_NODES:
        return nodes
    if not benchmark.grow(catalogue.rows(group)):
        raise NotMeasured(
            f"the metrics of group {group} do not say how many nodes were idle, and nights of different numbers would be one "
            "curve: give a number of nodes"
        )
    return max(site.node_counts_of(extras))


def count(nodes: int, group: str, job: Any, extras: Mapping[str, Any], *, dry_run: bool) -> int:
    """Nodes a job is made for: those asked for, or as many as ReFrame finds idle (``--flex-alloc-nodes``) at this moment.

    :param nodes: as asked for.
    :param job: ReFrame's, of the partition; its options (``--exclude``, ``--reservation``, ...) count.
    :param extras: of the partition.
    :raises NotMeasured: the scheduler does not say.
    :raises ReframeError: they are too few, or the scheduler was asked and gave no answer.
    """
    assumed = assume(nodes, group, extras)
    if nodes != ALL_NODES or dry_run:
        return assumed
    name = job.scheduler.registered_name
    try:
        found = int(job.guess_num_tasks())
        chosen = isinstance(job.sched_flex_alloc_nodes, int)  # by the user, as a number
        there = found if chosen else len(job.scheduler.filternodes(job, job.scheduler.allnodes()))
    except NotImplementedError:
        raise NotMeasured(f"scheduler {name} does not say which nodes are idle: give a number of nodes") from None
    except ReframeError as error:
        raise ReframeError(f"which nodes are idle is not known: {error}") from None
    share = float(extras.get("least_idle_share", LEAST_SHARE))
    least = max(FEWEST, math.ceil(share * there))
    if found < least:
        raise ReframeError(
            f"nodes=all: {found} of {there} node{'s'[: there != 1]} {'is' if found == 1 else 'are'} in state "
            f"{job.sched_flex_alloc_nodes} (--flex-alloc-nodes), and at least {least} are asked for ({FEWEST}, and "
            f"{share:.0%} of all: least_idle_share in {SITE_FILES}); see 'sinfo -R', and run it without other cases, which may "
            "hold the rest"
        )
    return found


def patience(test: Any, *, named: bool = False) -> Any:
    """How long a job may wait: as the user says, else :data:`PATIENCE` for nodes that were idle, else without end.

    :param named: it asks for nodes by name.
    """
    return test.max_pending_time or (PATIENCE if test.nodes == ALL_NODES else PATIENCE_BY_NAME if named else None)


def as_stored(nodes: int) -> dict[str, str]:
    """What is stored beside the number of nodes; nothing where that is what was asked for."""
    return {"nodes_symbol": ALL_NODES_WORD} if nodes == ALL_NODES else {}

"""The base class of tests of a node that several programs share: N launches side by side, after
each ran alone.

Under ``bunch`` and ``scatter`` each launch gets its own cores, and a core used by two programs
fails the case. Under ``default`` each launch is unaware of the others and the stack pins it as if
it were alone; the effect is the result.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from typing import Any

import reframe.core.runtime as rt
from reframe.core.builtins import parameter

from ...evidence import data_check
from ...machine import placement
from ...machine.fabric import Fabric
from ...mpis import registry as mpis
from ...printable import clause
from ...sites import site
from ...stacks.stack import Stack
from ...suites import catalogue, side_by_side
from ...vocabulary import QUANTITIES, BadInput, NotMeasured
from ..fabric_test import MaintenanceTest
from ..job import parameters
from ..job.condition import Condition, Partition
from ..measured_test import Value
from ..results import measurement
from . import proof, shared_node
from .shared_node import SHARED, SharedNode, launches_of, share

RATIO = QUANTITIES[side_by_side.RATIO]


def _cannot_share(fabric: Fabric) -> str:
    """Why programs cannot share a node over a fabric; empty if they can."""
    if not mpis.transport(fabric.transport).in_memory:
        return f"programs share a node over its memory, which {fabric.name} is not"
    # Each launcher counts its ranks from 0, so all programs would be left the same GPUs.
    return (
        f"programs share a node over host memory, not {fabric.memory.text}"
        if fabric.memory.on_gpu
        else ""
    )


def fabrics_in_memory() -> list[str]:
    """Names of the fabrics of the selected partitions that are a node's own memory.

    If there is none, all fabrics, which are then all left out: ReFrame 4.10 does not load a test
    with an empty parameter.
    """
    rows = [site.fabrics_of(partition.extras) for partition in rt.runtime().system.partitions]
    # Inside a node, one on which nothing is forced may have no rail either.
    names = dict.fromkeys(
        name for row in rows for name, fabric in row.items() if not _cannot_share(fabric)
    )
    return list(names) or parameters.fabrics_of_system()


class SharingTest(MaintenanceTest):
    """Measures several equal programs on one node, alone and at the
    same time, and proves who had which cores.

    ``ppn`` is all ranks of the node, those of all programs together.
    """

    #: Programs that share the node. Values: ``2``, ``3``, ``4``, ``6``, where the ranks of a node
    #: can be dealt to so many; another through ``-P programs=``.
    programs = parameter([2, 3, 4, 6], type=int, loggable=True)

    #: Fabric as the site names it. Values: those that are a node's own memory.
    fabric = parameter(fabrics_in_memory(), type=str, loggable=True)

    #: Nodes of the job. Values: ``1``.
    nodes = parameter([1], type=int, loggable=True)

    #: Ranks of the node, those of all programs. Values: all cores;
    #: any other number through ``-P ppn=``.
    ppn = parameter(
        inherit_params=True, filter_params=lambda symbols: symbols[-1:], type=str, loggable=True
    )

    #: Whether each launch is given its cores (``bunch``, ``scatter``) or knows nothing of the
    #: others (``default``, ``none``). Values: ``default``, ``none``, ``bunch``, ``scatter``.
    pinning = parameter(
        [policy for policy in parameters.policies_of_system() if policy in shared_node.POLICIES],
        type=str,
        loggable=True,
    )

    @classmethod
    def places(cls, point: Mapping[str, Any]) -> parameters.GroupPlaces:
        places = super().places(point)
        partitions = {partition.fullname: partition for partition in rt.runtime().system.partitions}
        return places.without(
            {name: cls._find_fault(partitions[name], point) for name in places.partitions}
        )

    @classmethod
    def _find_fault(cls, partition: Any, point: Mapping[str, Any]) -> str:
        """Why a partition's nodes cannot be shared so; empty if they
        can, or their topology is not known yet.
        """
        # a value of -P is asked about without one
        fabric = site.fabrics_of(partition.extras).get(point.get("fabric", ""))
        if fabric is not None and (reason := _cannot_share(fabric)):
            return reason
        if not parameters.knows_topology(partition):
            return ""
        topology = Partition.of(partition).topology
        policies = cls.param_space.params["pinning"].values
        try:
            ppn = placement.resolve_ppn(point["ppn"], topology)
            same = shared_node.first_equal(
                point["pinning"], policies, point["programs"], ppn, topology
            )
        except (BadInput, NotMeasured) as reason:
            return clause(reason)
        return (
            ""
            if same == point["pinning"]
            else f"each program has the same cores as under pinning={same}"
        )

    def _resolve(self, stack: Stack) -> SharedNode:
        if self.paired_stack:
            raise NotMeasured(
                "programs sharing a node cannot be interleaved with another stack (paired_stack)"
            )
        if fault := self._find_fault(
            self.current_partition,
            {name: getattr(self, name) for name in ("ppn", "pinning", "programs")},
        ):
            raise NotMeasured(fault)
        return share(super()._resolve(stack), self.programs)

    def _plan(self, limits: catalogue.Limits, where: Condition) -> tuple[catalogue.Launch, ...]:
        """The check of received data in the first program, each program
        alone, and all of them at the same time.
        """
        assert isinstance(where, SharedNode)
        ranks = where.programs[0].ranks
        [launch] = catalogue.launches(
            self.group, where.stack, ranks, self.level, 1, limits, self._options
        )
        numbers = range(1, self.programs + 1)
        pairs = {number: launches_of(launch, number, self.programs) for number in numbers}
        check = data_check.launch(self.group, where.stack, ranks)
        first = (check,) if check else ()
        self._launches_of = {
            number: (*(first if number == 1 else ()), *pairs[number]) for number in numbers
        }
        shared = replace(
            launch,
            name=SHARED,
            expected=tuple(row for _, shared in pairs.values() for row in shared.expected),
        )
        return (*first, *(alone for alone, _ in pairs.values()), shared)

    def commands(self) -> None:
        self.limit_s = self.limit_s or catalogue.LEVELS[self.level].limit_s
        assert isinstance(self._condition, SharedNode)
        words = (tuple(self.job.launcher.command(self.job)), tuple(self.job.launcher.options))
        self._condition = replace(self._condition, site_launcher=words, limit_s=self.limit_s)
        super().commands()

    def _evaluate(
        self, where: Condition, launches: tuple[catalogue.Launch, ...]
    ) -> measurement.JobOutcome:
        assert isinstance(where, SharedNode)
        return proof.evaluate(where, self._launches_of, self._executions, self._judge_launches)

    def metrics(self) -> dict[str, Value]:
        samples = (
            []
            if self.is_dry_run()
            else [sample for sample in self._samples if sample.quantity == RATIO.name]
        )
        medians = {
            measurement.metric_of(sample): float(statistics.median(sample.measured))
            for sample in samples
            if sample.measured
        }
        metrics = super().metrics()
        for row in next(launch for launch in self._launches if launch.name == SHARED).expected:
            for variant, size in product(row.variants, row.sizes):
                name = catalogue.metric_name(
                    row.benchmark,
                    RATIO.short,
                    size,
                    variant.removesuffix(f",{side_by_side.SHARED}"),
                )
                metrics[name] = Value(medians.get(name), RATIO.unit)
        return metrics

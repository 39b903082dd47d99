"""The base class of tests that measure without MPI: where they can, what they store, and the references they are held to.

Their cases are those of ReFrame's own environment ``builtin``, since they are the same whichever stack is measured beside them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import reframe as rfm
import reframe.utility.sanity as sn
from reframe.core.builtins import run_after, run_before, variable
from reframe.core.exceptions import ReframeError

from ... import batch_systems
from ...sites import references, selected_tests
from ...suites import catalogue
from . import cases

#: ReFrame's environment without anything in it.
ENVIRONMENT = "builtin"
#: Scheduler to the launcher that starts one program on each node of a job, whatever the stacks' own is.
LAUNCHERS = dict.fromkeys(batch_systems.SLURM.schedulers, "srun")

#: Full names of the partitions where something can be measured, and the others, each with why not.
Places = tuple[list[str], list[tuple[str, str]]]


class Value(NamedTuple):
    """One metric.

    :param value: median of the repeats; ``None`` where nothing was measured.
    :param gated: whether it may have a reference, and should.
    :param physics: what it must reach whatever was learned.
    """

    value: float | None
    unit: str
    gated: bool = False
    physics: references.Reference | None = None


class WithoutMpiTest(rfm.RunOnlyRegressionTest):
    """Measures one group of the catalogue without MPI."""

    #: Group of the catalogue.
    #:
    #: :type: :class:`str`
    #: :default: required; a leaf sets it
    group = variable(str, loggable=True)

    #: How thoroughly to measure.
    #:
    #: :type: :class:`str`
    #: :default: ``nightly``
    level = variable(str, value="nightly", loggable=True)

    #: Runs of each program inside the job.
    #:
    #: :type: :class:`int`
    #: :default: ``3``
    repeats = variable(int, value=3, loggable=True)

    #: What indexes the learned references besides partition, environment and fabric (``references.INDEX``).
    nodes = variable(int, value=0, loggable=True)
    pinning = variable(str, value="", loggable=True)
    ranks_per_node = variable(int, value=0, loggable=True)

    #: What was asked for, every raw repeat, the evidence, comparisons with references, commit and versions, and why a case was
    #: not measured, as stored with the session.
    condition = variable(dict, value={}, loggable=True)
    samples = variable(list, value=[], loggable=True)
    proof = variable(dict, value={}, loggable=True)
    gates = variable(list, value=[], loggable=True)
    measured_with = variable(dict, value={}, loggable=True)
    skip_reason = variable(str, value="", loggable=True)

    @classmethod
    def places(cls, point: Mapping[str, Any]) -> Places:
        """Where a point of the space of parameters can be measured; each test below says it."""
        raise ReframeError(f"{cls.__name__} does not say where it can be measured: define its class method 'places'")

    def values(self) -> Mapping[str, Value]:
        """Every metric of the case by name, in a dry run without values; each test below says it."""
        raise ReframeError(f"{type(self).__name__} does not say what it measured: define its method 'values'")

    @run_after("init")
    def select_cases(self) -> None:
        """All partitions where it can be measured; why others are left out is logged."""
        selected_tests.LOADED.append(self)
        self.descr = catalogue.GROUPS[self.group].description
        self.tags = {self.group, "maintenance"}
        self.valid_prog_environs = [ENVIRONMENT]
        self.valid_systems, left_out = self.places({name: getattr(self, name) for name in type(self).param_space.params})
        for place, why in left_out:
            selected_tests.leave_out(self, place, why)

    @classmethod
    def _map_variant_num(cls, variant_num: int | None = None) -> tuple[int | None, int | None]:
        """What can be measured nowhere is not made."""
        return cases.map_variant(cls, variant_num, cls.places)

    @classmethod
    def get_variant_info(cls, variant_num: int, **options: Any) -> Any:
        """Parameters of a variant, made or not."""
        return cases.describe_variant(cls, variant_num, **options)

    @run_before("performance")
    def set_metrics(self) -> None:
        """Declare each metric, with its reference where the site's references.yaml has one, or the link's rate is one."""
        learned, values = self._learned_references(), self.values()
        bounds: dict[str, references.Reference] = {}
        gates = []
        for name, (value, unit, gated, physics) in values.items():
            # What a link must reach holds whatever was learned, and is what the stored check says.
            if bound := physics or learned.get(name):
                bounds[name] = bound
            elif not gated:
                bounds[name] = (0.0, None, None, unit)
            if value is not None and physics:
                gates.append(references.judge(name, "physics", value, physics, unit))
            elif value is not None and (gated or name in learned):
                gates.append(references.judge(name, "learned", value, learned.get(name), unit))
        self.reference: dict[str, Any] = {self.current_partition.fullname: bounds}
        self.gates = [gate.as_dict() for gate in gates]
        self.perf_variables = {
            name: sn.make_performance_function(sn.defer(one.value), one.unit) for name, one in values.items()
        }

    def _learned_references(self) -> dict[str, references.Reference]:
        """References that the system's references.yaml has for this case."""
        return cases.find_references(self)

"""The pipeline of every test: where it is measured, under which conditions, with which commands,
what is read, and what is compared with references.

A base class of tests defines five things: ``places`` (of a point of its parameters), ``conditions``
(on one partition), ``commands`` (the job), ``read`` (what the job left) and ``metrics``. Everything
else is here.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import reframe as rfm
import reframe.utility.sanity as sn
from reframe.core.backends import getlauncher
from reframe.core.builtins import run_after, run_before, sanity_function, variable
from reframe.core.exceptions import ReframeError, SanityError, SkipTestError
from reframe.core.runtime import runtime
from reframe.utility import osext

from .. import batch_systems, upstream
from ..instruments.pairs.pair_values import MAPS, PairMapRecord
from ..samples import Evidence, ReferenceCheck, Sample
from ..sites import references, site
from ..sites.selected_tests import LOADING, is_selected
from ..sites.session import provenance
from ..suites import catalogue
from ..vocabulary import BadInput, NotMeasured
from .job import batch, parameters
from .job.condition import Partition
from .job.parameters import GroupPlaces
from .results.error_excerpt import excerpt

#: ReFrame's environment without anything in it: that of tests without MPI, whose cases are the same
#: whichever stack is measured beside them.
ENVIRONMENT = "builtin"
#: Scheduler to the launcher that starts one program on each node
#: of a job, whatever the stacks' own is.
LAUNCHERS = dict.fromkeys(batch_systems.SLURM.schedulers, "srun")


class Value(NamedTuple):
    """One metric.

    :param value: median of the repeats; ``None`` if nothing was measured.
    :param gated: whether it may have a reference, and should.
    :param physics: what it must reach whatever was learned.
    """

    value: float | None
    unit: str
    gated: bool = False
    physics: references.Reference | None = None


class Reading(NamedTuple):
    """What a job left.

    :param sentences: what is missing or was not as asked; any of them fails the case.
    """

    samples: list[Sample]
    evidence: Evidence | None
    sentences: list[str]


class ProvenTest(rfm.RunOnlyRegressionTest):
    """Runs one job and proves the condition it ran under."""

    #: Group of the catalogue to measure.
    group = variable(str, loggable=True)

    #: How thoroughly to measure: which sizes, how many repetitions (``catalogue.LEVELS``).
    level = variable(str, value="nightly", loggable=True)

    #: Seconds after which one launch counts as timed out and is
    #: ended. Default: ``0``: that of the level.
    limit_s = variable(int, value=0)

    #: What was requested and how it was translated, the evidence and its status, commit and
    #: versions of what judges it, and why a case was not measured; all as stored with the session.
    condition = variable(dict, value={}, loggable=True)
    proof = variable(dict, value={}, loggable=True)
    measured_with = variable(dict, value={}, loggable=True)
    skip_reason = variable(str, value="", loggable=True)

    @classmethod
    def places(cls, point: Mapping[str, Any]) -> GroupPlaces:
        raise NotImplementedError(f"{cls.__name__} does not define where it can be measured")

    @classmethod
    def tags_of(cls, point: Mapping[str, Any]) -> set[str]:
        """Tags of the variant with these parameters, made or not; ``maintenance``: everything."""
        return {str(cls.group), "maintenance"}

    def conditions(self) -> None:
        """Translate the parameters for this partition and environment, and ask for the nodes.

        :raises NotMeasured: the case is skipped, with the reason.
        """

    def commands(self) -> None:
        """Write the job, which a plain shell runs; and what is stored of its condition."""

    def read(self) -> Reading:
        """Read and judge what the job left."""
        raise NotImplementedError(f"{type(self).__name__} does not define what it measured")

    @run_after("init")
    def select_cases(self) -> None:
        """All partitions where it can be measured; why others are left out is logged."""
        LOADING.tests.append(self)
        if self.group in catalogue.GROUPS:
            self.descr = catalogue.GROUPS[self.group].description
        self.valid_prog_environs = [ENVIRONMENT]
        point = {name: getattr(self, name) for name in type(self).param_space.params}
        self.tags, self._where = self.tags_of(point), self.places(point)
        self.valid_systems = list(self._where.partitions)
        for left in self._where.left_out:
            LOADING.leave_out(self, left)

    @classmethod
    def _map_variant_num(cls, variant_num: int | None = None) -> tuple[int | None, int | None]:
        """Where a variant lies in the space of parameters; one that is not selected, or can be
        measured nowhere, is not made.

        ReFrame asks this first where it makes an instance (:func:`.upstream.variant_index`), and
        then gives the instance its fifty variables: most of the time of ``reframe -l``, and most
        instances would be of no use.
        """
        index, fixtures = upstream.variant_index(cls, variant_num)
        # Without a group ReFrame says what is wrong, where the instance is made.
        known = variant_num is not None and cls.raw_params and cls.var_space["group"].is_defined()
        if variant_num is None or not known or LOADING.is_wanted(cls, variant_num):
            return index, fixtures
        point = cls.param_space[index]
        name = cls.__name__ + "".join(
            f" %{key}={param.format(point[key])}" for key, param in cls.raw_params.items()
        )
        facts = SimpleNamespace(display_name=name, tags=cls.tags_of(point), **point)
        selected = is_selected(facts)
        where = cls.places(point) if selected else None
        if where is None or not where.partitions:
            LOADING.pass_over(cls, variant_num, facts, where.left_out if where else ())
            raise SkipTestError(f"{name} {upstream.NOWHERE}")
        return index, fixtures

    @classmethod
    def get_variant_info(cls, variant_num: int, **options: Any) -> Any:
        """Parameters of a variant, made or not: ``-P``, ``--repeat`` and ``--distribute`` ask where
        a skip is not caught.
        """
        metaclass: Any = type(cls)
        with LOADING.described(cls, variant_num):
            return metaclass.get_variant_info(cls, variant_num, **options)

    @run_after("setup")
    def resolve_condition(self) -> None:
        try:
            self.conditions()
        except NotMeasured as reason:
            self.leave(str(reason))
        except BadInput as error:
            raise ReframeError(str(error)) from None
        # Explicit core lists need all cores of a node, and who else computes
        # there slows down its memory and its links.
        self.exclusive_access = True

    def leave(self, reason: str) -> None:
        self.skip_reason = reason
        self.skip(reason)

    def expect_least(self, **least: int) -> None:
        """Refuse values of variables that would measure nothing.

        :raises BadInput: naming the variable.
        """
        for name, fewest in least.items():
            if getattr(self, name) < fewest:
                raise BadInput(
                    "bad-option",
                    f"-S {name}={getattr(self, name)} is not possible; give {fewest} or more.",
                )

    @property
    def scheduler(self) -> str:
        name: str = self.current_partition.scheduler.registered_name
        return name

    @run_before("run")
    def write_job(self) -> None:
        self.measured_with = provenance.describe()
        self.commands()
        self.job.options += batch.submit_options(self.scheduler, self.current_partition.access)
        if parameters.knows_topology(self.current_partition):
            batch.ask_for_cores(
                self, self.scheduler, len(Partition.of(self.current_partition).topology.cores)
            )
        self.job.launcher = getlauncher("local")()

    def job_end(self) -> batch.JobEnd:
        """How the scheduler says the job ended; the local one knows no number worth reporting."""
        job = self.job
        number = "" if self.scheduler == "local" else job.jobid or ""
        return batch.JobEnd(number, job.state or "", job.exitcode, job.nodelist or ())

    def error_sentences(self) -> list[str]:
        path = Path(self.stagedir) / str(self.stderr)
        text = excerpt(path.read_text(errors="replace")) if path.exists() else ""
        return [f"standard error: {text}"] if text else []

    @sanity_function
    def prove_conditions(self) -> bool:
        """Fail with a sentence for everything that is missing or was not as asked."""
        reading = self.read()
        self.keep(reading)
        self.proof = reading.evidence.as_dict() if reading.evidence else {}
        if reading.sentences:
            raise SanityError("; ".join(reading.sentences))
        return True

    def keep(self, reading: Reading) -> None:
        """Keep more of what was read than its evidence."""


upstream.forget_deprecated(ProvenTest)  # classes made of this one have it from here


class MeasuredTest(ProvenTest):
    """Measures one group of the catalogue."""

    #: Interleaved executions of each launch inside the job.
    repeats = variable(int, value=3, loggable=True)

    #: Every raw repeat of every metric, and comparisons with
    #: references, as stored with the session.
    samples = variable(list, value=[], loggable=True)
    gates = variable(list, value=[], loggable=True)

    def metrics(self) -> Mapping[str, Value]:
        """Every metric of the case by name, in a dry run without values."""
        raise NotImplementedError(f"{type(self).__name__} does not define what it measured")

    @run_after("setup")
    def resolve_condition(self) -> None:
        if self.repeats < 1:  # beside tests of others, options are not looked at before
            raise ReframeError(f"-S repeats={self.repeats} would measure nothing; give 1 or more.")
        super().resolve_condition()

    def keep(self, reading: Reading) -> None:
        self._samples = reading.samples
        self.samples = [sample.as_dict() for sample in reading.samples]

    @run_before("performance")
    def set_metrics(self) -> None:
        """Declare each metric, with its reference where the site's
        references.yaml has one, or the link's rate is one.
        """
        learned = self._learned_references()
        metrics = self.metrics()
        bounds: dict[str, references.Reference] = {}
        gates: list[ReferenceCheck] = []
        for name, (value, unit, gated, physics) in metrics.items():
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
            name: sn.make_performance_function(sn.defer(row.value), row.unit)
            for name, row in metrics.items()
        }

    def _learned_references(self) -> dict[str, references.Reference]:
        """References ReFrame finds for this case in the system's
        references.yaml; empty if it knows none.

        :raises ReframeError: for a file that cannot be read, or an entry for this case that could
            hold nothing. Other entries fail only the cases they are for; of what is for none,
            ``mpibench doctor`` and the night say so.
        """
        where = (type(self).__name__, self.current_partition.fullname, self.current_environ.name)
        try:
            faults = site.reference_faults(self.current_system.name)
            file = site.references_for_reframe(self.current_system.name)
        except references.ReferenceError as error:
            raise ReframeError(str(error)) from None
        for fault in faults:
            if fault.concerns((*where, self.fabric, self.nodes, self.ranks_per_node, self.pinning)):
                raise ReframeError(fault.sentence)
        if file is None:
            return {}
        self.reference = {"$ref": str(file)}
        try:
            return dict(self.reference[self])
        except KeyError:
            return {}


LOADING.common.append(MeasuredTest)
upstream.round_bounds(references.exact)


class WithoutMpiTest(MeasuredTest):
    """Measures one group of the catalogue without MPI."""

    #: What indexes the learned references besides partition,
    #: environment and fabric (``references.INDEX``).
    nodes = variable(int, value=0, loggable=True)
    pinning = variable(str, value="", loggable=True)
    ranks_per_node = variable(int, value=0, loggable=True)


class RoundsPlugin(rfm.RegressionTestPlugin):
    """The request for a map of pairs, and the map."""

    #: Rounds of one pass. Default: ``0``: all pairs.
    rounds = variable(int, value=0, loggable=True)

    #: Passes over all rounds, each in another order. Default: ``0``: two, and of a small map so
    #: many that each node takes part in :data:`schedule.LEAST_PARTS` rounds; of the wire ``2``.
    orders = variable(int, value=0, loggable=True)

    #: Of the random numbers that choose a sample and mix the rounds.
    seed = variable(int, value=1, loggable=True)

    #: File that describes the switches: of Slurm, ibnetdiscover, opareport, or YAML. Default: that
    #: of the partition's extras, else what Slurm says.
    switches = variable(str, value="")

    #: The map, as stored with the session (:mod:`..instruments.pairs.pair_values`).
    pair_map = variable(dict, value={}, loggable=True)

    def keep_map(self, measured: PairMapRecord) -> None:
        """Write its values beside the results database, and store the rest with the session.

        :raises SanityError: they cannot be written.
        """
        database = osext.expandvars(runtime().site_config.get("storage/0/sqlite_db_file"))
        try:
            self.pair_map = measured.keep(Path(database).parent / MAPS)
        except OSError as error:
            raise SanityError(
                f"cannot write the map of pairs to {Path(database).parent / MAPS}: "
                f"{error.strerror}; free space there and measure again"
            ) from None

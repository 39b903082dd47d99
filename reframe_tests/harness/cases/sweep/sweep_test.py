"""The base class of the test of collective algorithms: each is a separate launch, interleaved with
all others in one job.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import reframe.utility.typecheck as typ
from reframe.core.builtins import parameter, variable

from ...sites import tuned_settings
from ...suites import algorithms as algorithm_words
from ...suites import catalogue
from ...vocabulary import BadInput, NotMeasured
from ..fabric_test import MaintenanceTest
from ..job import condition, script
from ..job.condition import Condition
from ..measured_test import Value
from ..results import measurement
from . import outcomes, variants

#: Seconds that the start and the end of a launch take at most where
#: nothing is wrong, and launches that may hang.
USUAL_S = 10
MOST_HUNG = 5


class AlgorithmTest(MaintenanceTest):
    """Measures the algorithms of one collective under one
    condition, and what shows that each was taken.
    """

    #: Collective whose algorithms are measured. Values: those of ``suites.algorithms``.
    collective = parameter(algorithm_words.COLLECTIVES, type=str, loggable=True)

    #: Processes per node. Values: all cores; any other number through ``-P ppn=``.
    ppn = parameter(
        inherit_params=True, filter_params=lambda symbols: symbols[-1:], type=str, loggable=True
    )

    #: Collective to the algorithms to be measured, joined by ``+``; ``3@8/512`` is one at these
    #: sizes only. ``default`` is always among them; ``tuned`` is what :attr:`tuned_files` says.
    #: Default: all that are known.
    algorithms = variable(typ.Dict[str, str], value={}, loggable=True)

    #: Seconds that one launch may time its calls for. Default: ``0``: those of the level.
    seconds = variable(float, value=0.0, loggable=True)

    #: Whether a further launch of each algorithm shows that it is taken, where the library can.
    show = variable(bool, value=True)

    #: Whether a library that can is made to end rather than take
    #: another algorithm than the one set.
    strict = variable(bool, value=True)

    #: Whether the library also makes a file of its own of ``tuned``, where it can.
    compiles = variable(bool, value=False)

    #: Folder of the record of tuned settings that ``tuned`` stands for. Default: the one that is
    #: installed for the condition.
    tuned_files = variable(str, value="", loggable=True)

    def _plan(self, limits: catalogue.Limits, where: Condition) -> tuple[catalogue.Launch, ...]:
        """The check of received data, then one launch for each algorithm."""
        if self.paired_stack:
            raise NotMeasured("algorithms of two stacks cannot be interleaved (paired_stack)")
        tuning = tuned_settings.tuning_of(where.stack)
        wishes = variants.list_wishes(
            tuning, self.collective, self.algorithms.get(self.collective, "")
        )
        planned = super()._plan(limits, where)
        [launch] = [entry for entry in planned if entry.name == self.collective.lower()]
        self._check = tuple(entry for entry in planned if entry.checks_data)
        self._variants = []
        for wish in wishes:
            if wish.word == variants.TUNED:
                env = {**self._tuned_environment(where), **(tuning.strict if self.strict else {})}
            else:
                env = tuning.force(self.collective, wish.word, strict=self.strict)
            compiles = self.compiles and wish.word == variants.TUNED
            made = variants.make(
                where,
                launch,
                tuning,
                wish,
                env,
                seconds=self.seconds,
                show=self.show,
                compiles=compiles,
            )
            self._variants.append(made)
        return (*self._check, *(variant.launch for variant in self._variants))

    def plan_launches(
        self, limits: catalogue.Limits, where: Condition | None = None
    ) -> tuple[catalogue.Launch, ...]:
        planned = super().plan_launches(limits, where)
        return tuple(entry for entry in planned if entry.name == self.collective.lower())

    def _tuned_environment(self, where: Condition) -> dict[str, str]:
        place = condition.tuned_place(self.current_system.name, where)
        if not self.tuned_files:
            return tuned_settings.find(place, where.stack).environment(place.folder)
        settings = tuned_settings.read(Path(self.tuned_files))
        if settings.place != place:
            raise BadInput(
                "not-comparable",
                f"{self.tuned_files} is for {settings.place.text}, but the case is {place.text}.",
            )
        return settings.environment(Path(self.tuned_files))

    def _list_commands(self) -> list[script.Command]:
        """What the job starts: the check, and each algorithm under its own variables."""
        command = self.job.launcher.command(self.job)
        options = self.job.launcher.options
        rows = [row for row in super()._list_commands() if row.once]
        return rows + [
            row
            for variant in self._variants
            for row in variant.commands(self._condition, command, options)
        ]

    def _longest_s(self, commands: Sequence[script.Command]) -> float:
        """Seconds for the job: some algorithms may hang once each, and no
        partition has time for all launches to hang.
        """
        launches = sum(1 if command.once else self._executions for command in commands)
        return float(launches * (USUAL_S + 2 * self.seconds) + MOST_HUNG * self.limit_s + 60)

    def _evaluate(
        self, where: Condition, launches: tuple[catalogue.Launch, ...]
    ) -> measurement.JobOutcome:
        """What each algorithm gave; those that the library refused
        are named and leave no numbers.
        """
        tuning = tuned_settings.tuning_of(where.stack)
        directory = Path(self.stagedir)
        outcome, rows = outcomes.evaluate(
            where,
            self._check,
            self._variants,
            self._executions,
            directory,
            self._judge_launches,
            tuning,
            self.collective,
        )
        self.condition = {**self.condition, "collective": self.collective, "algorithms": rows}
        self._measured = [word for word, row in rows.items() if row["outcome"] == outcomes.MEASURED]
        return outcome

    def metrics(self) -> dict[str, Value]:
        if not self.is_dry_run():
            there = {f"{algorithm_words.VARIANT}{word}" for word in self._measured}
            kept = [
                launch
                for launch in self._launches
                if not launch.expected or set(launch.expected[0].variants) <= there
            ]
            self._launches = tuple(kept)
        return super().metrics()

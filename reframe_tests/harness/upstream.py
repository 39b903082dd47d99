"""What is replaced in ReFrame, and where else more of it is used than its manual promises; each with what would end it.

* What it says in its log is listened for by :mod:`.sites.selected_tests` and :mod:`.sites.whole_run`, and read by
  ``mpibench.commands.nightly`` (cases selected, tests not loaded, why a session is not stored) and
  ``mpibench.confirmation.measuring`` (why it ended): it has no hook between loading and selecting tests and none at its end,
  and its report says nothing of what was not loaded or selected. Ended by: a status of its own for a session without a case
  or with tests that were not loaded, and the number of selected cases in its report.
* :mod:`.sites.selected_tests` asks its filters (``frontend/filters.py``) which tests an option fits, and modules for the
  tests they register (``_rfm_test_registry``). Ended by: an error of its own for an option that fits none.
* :mod:`.sites.centre` reads configurations as ``core/config.py`` does. Ended by: a later file that completes systems of an
  earlier one.
* :mod:`.schedulers.slurm_shared` and :mod:`.schedulers.blocked_jobs` set and read what schedulers and jobs keep for
  themselves. Ended by: many cases in one job.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from pathlib import Path
from typing import Any

from reframe.core.builtins import variable
from reframe.core.schedulers.slurm import SlurmJobScheduler
from reframe.frontend.loader import RegressionCheckLoader

#: ReFrame's own: cancels those of a scheduler's jobs that are blocked for ever; reasons by job, where it has asked already.
Cancel = Callable[[Any, Iterable[Any], Mapping[str, list[str]] | None], None]


def search_not(folder: Path) -> None:
    """Keep ReFrame, where it searches below folders (``-R``, ``check_search_recursive``), out of one that holds no tests.

    It takes each file that imports ReFrame for one of tests. Ended by: a mark that leaves a folder out of the search.
    """
    search = RegressionCheckLoader.load_from_dir
    if hasattr(search, "__wrapped__"):
        return

    @wraps(search)
    def search_elsewhere(self: Any, dirname: str, *options: Any, **named: Any) -> Any:
        return [] if Path(dirname).resolve() == folder else search(self, dirname, *options, **named)

    RegressionCheckLoader.load_from_dir = search_elsewhere


def variant_index(test: Any, variant_num: int | None) -> tuple[int | None, int | None]:
    """Where a variant of a test's class lies in its space of parameters, and in that of its fixtures.

    A class that answers this itself (``_map_variant_num``) and raises ``SkipTestError`` keeps ReFrame from making an instance
    (``core/meta.py``, ``RegressionTestMeta.__call__``). Ended by: a hook before an instance is made, or a filter over several
    parameters.
    """
    metaclass: Any = type(test)
    index: tuple[int | None, int | None] = metaclass._map_variant_num(test, variant_num)
    return index


def forget_deprecated(test: Any) -> None:
    """Make ``variables``, which was the name of ``env_vars`` before 4.0, another name for it, as any alias is.

    ReFrame goes through its whole stack each time a deprecated variable is read, and each instance reads it: half of the time
    to make one. Ended by: the removal of ``variables``.
    """
    test.var_space.vars["variables"] = variable(alias=test.var_space.vars["env_vars"])


def around_cancel(replacement: Callable[[Cancel], Cancel]) -> None:
    """Have ReFrame's Slurm schedulers, and those made of them, ask a replacement which blocked jobs are to be cancelled; once.

    :param replacement: makes it of ReFrame's own.
    """
    cancel: Cancel = SlurmJobScheduler._cancel_if_blocked
    if not hasattr(cancel, "__wrapped__"):
        SlurmJobScheduler._cancel_if_blocked = wraps(cancel)(replacement(cancel))

"""What is replaced in ReFrame, and where undocumented parts of it are used; each with what would
end it.

* :mod:`.sites.selected_tests` asks its filters (``frontend/filters.py``) which tests an option
  fits. Ended by: an error of its own for an option that fits none.
* ``mpibench.night.remeasuring`` and ``mpibench.judge.plan.record``
  quote its last error: why it ended is in no
report. Ended by:
  the error in the report.
* :mod:`.sites.centre` reads configurations as ``core/config.py`` does. Ended by: a later file that
  completes systems of an earlier one.
* :mod:`.launchers.schedulers.slurm_shared` sets and reads what schedulers and jobs keep for
  themselves. Ended by: many cases in one job.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from reframe.core import decorators
from reframe.core.builtins import variable
from reframe.core.schedulers.slurm import SlurmJobScheduler
from reframe.frontend import filters, loader
from reframe.utility import sanity

#: Ends the reason of a variant that is not made (:func:`.variant_index`).
NOWHERE = "cannot be measured on this system"
#: ReFrame's own: cancels those of a scheduler's jobs that are blocked for ever; reasons by job,
#: where it has asked already.
Cancel = Callable[[Any, Iterable[Any], Mapping[str, list[str]] | None], None]
#: Makes a function of one of ReFrame's, around it.
Around = Callable[[Callable[..., Any]], Callable[..., Any]]


def _put_around(owner: Any, name: str, around: Around) -> None:
    """Put a function around one of ReFrame's, once."""
    own = getattr(owner, name)
    if not hasattr(own, "around"):
        replaced: Any = wraps(own)(around(own))
        replaced.around = own
        setattr(owner, name, replaced)


def watch(load: Around, run: Around, show: Around, keep: Around) -> None:
    """Put functions around what loads all tests, runs cases, lists them,
    and stores a session or writes a report of it.

    ReFrame has no hook between these steps, and none at its end. Ended by: a status of its own for
    a session without a case, with tests that were not loaded, with cases that did not run, or that
    is not stored.
    """
    from reframe.frontend import cli, executors, reporting

    _put_around(loader.RegressionCheckLoader, "load_all", load)
    _put_around(executors.Runner, "runall", run)
    _put_around(cli, "list_checks", show)
    for name in ("save", "store", "save_junit"):
        _put_around(reporting.RunReport, name, keep)


def round_bounds(exact: Callable[[float], float]) -> None:
    """Have bounds of references decide, and be printed, without rounding
    errors: ``l=0.34``, not ``l=0.33999999999999997``.

    Ended by: bounds that ReFrame rounds.
    """

    def around(own: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *given, **named: tuple(
            None if bound is None else exact(bound) for bound in own(*given, **named)
        )

    _put_around(sanity, "reference_bounds", around)


@contextmanager
def warnings_of_loading() -> Iterator[list[str]]:
    """What the loader, and what registers tests, warn of meanwhile: each is a
    test, or a file, that ReFrame goes on without.

    A line for each variant that is not made is not said: the
    reasons are, for many variants at once.
    """
    own = loader.getlogger
    messages = list[str]()

    class Logger:
        def __getattr__(self, name: str) -> Any:
            return getattr(own(), name)

        def warning(self, message: str) -> None:
            messages.append(message)
            own().warning(message)

        def verbose(self, message: str) -> None:
            if not message.endswith(NOWHERE):
                own().verbose(message)

    loader.getlogger = decorators.getlogger = Logger
    try:
        yield messages
    finally:
        loader.getlogger = decorators.getlogger = own


@contextmanager
def quiet_filters() -> Iterator[None]:
    """Ask the filters without a warning for each test that an expression does not fit."""
    own = filters.getlogger
    filters.getlogger = lambda: SimpleNamespace(warning=lambda message: None)
    try:
        yield
    finally:
        filters.getlogger = own


def search_not(folder: Path) -> None:
    """Keep ReFrame, where it searches below folders (``-R``,
    ``check_search_recursive``), out of one that holds no tests.

    It takes each file that imports ReFrame for one of tests. Ended by: a
    mark that leaves a folder out of the search.
    """

    def around(search: Callable[..., Any]) -> Callable[..., Any]:
        def search_elsewhere(self: Any, dirname: str, *options: Any, **named: Any) -> Any:
            return (
                []
                if Path(dirname).resolve() == folder
                else search(self, dirname, *options, **named)
            )

        return search_elsewhere

    _put_around(loader.RegressionCheckLoader, "load_from_dir", around)


def variant_index(test: Any, variant_num: int | None) -> tuple[int | None, int | None]:
    """Where a variant of a test's class lies in its space of
    parameters, and in that of its fixtures.

    A class that answers this itself (``_map_variant_num``) and raises ``SkipTestError`` keeps
    ReFrame from making an instance (``core/meta.py``, ``RegressionTestMeta.__call__``). Ended by: a
    hook before an instance is made, or a filter over several parameters.
    """
    metaclass: Any = type(test)
    index: tuple[int | None, int | None] = metaclass._map_variant_num(test, variant_num)
    return index


def forget_deprecated(test: Any) -> None:
    """Make ``variables``, which was the name of ``env_vars`` before
    4.0, another name for it, as any alias is.

    ReFrame goes through its whole stack each time a deprecated variable is read, and each instance
    reads it: half of the time to make one. Ended by: the removal of ``variables``.
    """
    test.var_space.vars["variables"] = variable(alias=test.var_space.vars["env_vars"])


def around_cancel(replacement: Callable[[Cancel], Cancel]) -> None:
    """Have ReFrame's Slurm schedulers, and those made of them, ask a
    replacement which blocked jobs are to be cancelled; once.

    :param replacement: makes it of ReFrame's own.
    """
    _put_around(SlurmJobScheduler, "_cancel_if_blocked", replacement)

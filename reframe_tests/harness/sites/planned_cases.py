"""The cases a plan names: where ``MPIBENCH_PLAN`` names a plan's file, the tests make these cases and no others.

ReFrame 4.10 selects the product of names, partitions and environments (``frontend/filters.py``, ``core/runtime.py``,
``valid_sysenv_comb``), and the cases of a plan are none. Thousands of ``-n /HASH`` would select whole tests, with all their
stacks, and be stored as the command line of each case. So the plan is a file (written by ``mpibench.judge.plan``), each test
that is loaded is narrowed to its planned partitions and stacks, and where these are not a product the rest is skipped.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from ..vocabulary import BadInput, NotMeasured

#: Variable that names the file of a plan.
VARIABLE = "MPIBENCH_PLAN"
#: Why such a case is skipped.
NOT_PLANNED = "not planned tonight"


class PlannedCases(NamedTuple):
    """What a plan's file says to ReFrame.

    :param places: name of a test as ReFrame shows it, to its partitions (without their system) and stacks.
    :param seconds: name, partition and stack of cases that were proven before, to how long their jobs take.
    :param nodes: the same of cases that are to be measured on certain nodes, to these.
    """

    file: Path
    system: str
    places: Mapping[str, frozenset[tuple[str, str]]]
    seconds: Mapping[tuple[str, str, str], float]
    nodes: Mapping[tuple[str, str, str], tuple[str, ...]]


def find(environ: Mapping[str, str] = os.environ) -> PlannedCases | None:
    """The plan that is in force; ``None`` without one.

    :raises BadInput: the file cannot be read, or is no plan.
    """
    name = environ.get(VARIABLE)
    if not name:
        return None
    path = Path(name)
    try:
        found = path.stat()
    except OSError as error:
        raise BadInput(f"{VARIABLE} names {path}, which cannot be read ({error.strerror}): write the plan again.") from None
    return _read(path, found.st_mtime_ns, found.st_size)


@lru_cache(maxsize=4)
def _read(path: Path, changed_ns: int, size: int) -> PlannedCases:
    """The last two say which writing of the file is meant."""
    places: dict[str, set[tuple[str, str]]] = {}
    seconds: dict[tuple[str, str, str], float] = {}
    nodes: dict[tuple[str, str, str], tuple[str, ...]] = {}
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        system = content["system"]
        for case in content["cases"]:
            if case["planned"] is True:
                name, partition, stack = (str(case[key]) for key in ("name", "partition", "stack"))
                places.setdefault(name, set()).add((partition, stack))
                if case.get("proven"):
                    seconds[name, partition, stack] = float(case["seconds"])
                if case.get("nodes"):
                    nodes[name, partition, stack] = tuple(map(str, case["nodes"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadInput(
            f"{path}, which {VARIABLE} names, is no plan ({type(error).__name__}: {error}): write it again."
        ) from None
    return PlannedCases(path, str(system), {name: frozenset(found) for name, found in places.items()}, seconds, nodes)


def narrow(tests: Iterable[Any], system: str) -> None:
    """Take from tests that were loaded, and not yet made cases of, every partition and stack that is not planned.

    :param system: name of the selected system.
    :raises BadInput: the plan cannot be read, or is of another system.
    """
    plan = find()
    if plan is None:
        return
    if plan.system != system:
        raise BadInput(f"{plan.file} is a plan for system {plan.system!r}, and {system!r} is selected: make one for it.")
    for test in tests:
        places = plan.places.get(test.display_name, frozenset())
        test.valid_systems = sorted({f"{system}:{partition}" for partition, _ in places})
        test.valid_prog_environs = sorted({stack for _, stack in places})


def check(name: str, partition: str, stack: str) -> None:
    """Make sure that a case which ReFrame made is one of the plan that is in force, if any is.

    :param name: of the test, as ReFrame shows it.
    :param partition: without its system.
    :raises NotMeasured: it is not; ReFrame had to make it beside planned ones of the same test.
    """
    plan = find()
    if plan is not None and (partition, stack) not in plan.places.get(name, frozenset()):
        raise NotMeasured(NOT_PLANNED)


def seconds_of(name: str, partition: str, stack: str) -> float | None:
    """How long the job of a case takes, as earlier nights measured it; ``None`` without a plan, or where it was never proven.

    :param name: of the test, as ReFrame shows it.
    :param partition: without its system.
    """
    plan = find()
    return plan.seconds.get((name, partition, stack)) if plan else None


def nodes_of(name: str, partition: str, stack: str) -> tuple[str, ...]:
    """The nodes that a case is to be measured on, where it was not right; none without a plan, and where any will do.

    :param name: of the test, as ReFrame shows it.
    :param partition: without its system.
    """
    plan = find()
    return plan.nodes.get((name, partition, stack), ()) if plan else ()

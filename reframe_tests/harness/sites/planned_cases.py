"""The cases of a plan: if ``MPIBENCH_PLAN`` names a plan's file, the tests make only these cases.

ReFrame 4.10 selects the product of names, partitions and environments (``frontend/filters.py``,
``core/runtime.py``, ``valid_sysenv_comb``), but the cases of a plan are not a product. Thousands of
``-n /HASH`` would select whole tests with all their stacks, and would be stored as the command line
of each case. So the plan is a file (written by ``mpibench.judge.plan``), each loaded test is
restricted to its planned partitions and stacks, and if these are not a product, the rest is
skipped.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from ..vocabulary import BadInput, NotMeasured

#: Variable that names the file of a plan.
VARIABLE = "MPIBENCH_PLAN"
#: What planned cases may take beyond what the plan says; and most minutes of an allocation that
#: they share.
TIMES = 1.5
MOST_MINUTES = 60
#: Why such a case is skipped.
NOT_PLANNED = "not planned tonight"


@dataclass(frozen=True)
class _PlannedCase:
    """What is read of a case here.

    :param name: of the test, as ReFrame shows it.
    :param partition: without its system.
    :param proven: day of its last proof; without one, ``seconds`` are only an estimate.
    :param nodes: where it is to be measured again; empty: anywhere.
    """

    name: str
    partition: str
    stack: str
    planned: bool
    seconds: float
    proven: str | None = None
    nodes: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Plan:
    """What a plan's file says to ReFrame."""

    system: str
    cases: tuple[_PlannedCase, ...]


@lru_cache(maxsize=4)
def _read(
    path: Path, changed_ns: int, size: int
) -> tuple[str, Mapping[tuple[str, str, str], _PlannedCase]]:
    """The last two say which writing of the file is meant."""
    plan = msgspec.json.decode(path.read_bytes(), type=_Plan)
    return plan.system, {
        (case.name, case.partition, case.stack): case for case in plan.cases if case.planned
    }


def find(
    environ: Mapping[str, str] = os.environ,
) -> tuple[str, Mapping[tuple[str, str, str], _PlannedCase]] | None:
    """System and planned cases (by test, partition and stack) of the
    plan that is in force; ``None`` without one.

    :raises BadInput: the file cannot be read, or is no plan.
    """
    if not environ.get(VARIABLE):
        return None
    path = Path(environ[VARIABLE])
    try:
        about = path.stat()
        return _read(path, about.st_mtime_ns, about.st_size)
    except (OSError, msgspec.DecodeError) as error:
        raise BadInput(
            "file-damaged",
            f"{VARIABLE} names {path}, which is not a plan ({error}): write it again.",
        ) from None


def narrow(tests: Iterable[Any], system: str) -> None:
    """Take from tests that were loaded, and not yet made cases of,
    every partition and stack that is not planned.

    :param system: name of the selected system.
    :raises BadInput: the plan cannot be read, or is of another system.
    """
    plan = find()
    if plan is None:
        return
    if plan[0] != system:
        raise BadInput(
            "not-comparable",
            f"{os.environ[VARIABLE]} is a plan for system {plan[0]!r}, but {system!r} is selected: "
            "make one for it.",
        )
    places: dict[str, list[tuple[str, str]]] = {}
    for name, partition, stack in plan[1]:
        places.setdefault(name, []).append((f"{system}:{partition}", stack))
    for test in tests:
        planned = places.get(test.display_name, [])
        test.valid_systems = sorted({partition for partition, _ in planned})
        test.valid_prog_environs = sorted({stack for _, stack in planned})


def _case(name: str, partition: str, stack: str) -> _PlannedCase | None:
    plan = find()
    return plan[1].get((name, partition, stack)) if plan else None


def check(name: str, partition: str, stack: str) -> None:
    """Make sure that a case which ReFrame made is one of the plan that is in force, if any is.

    :raises NotMeasured: it is not; ReFrame had to make it beside planned ones of the same test.
    """
    if find() and not _case(name, partition, stack):
        raise NotMeasured(NOT_PLANNED)


def seconds_of(name: str, partition: str, stack: str) -> float | None:
    """How long the job of a case takes, from earlier nights; ``None`` without a plan or a proven
    measurement.
    """
    case = _case(name, partition, stack)
    return case.seconds if case and case.proven else None


def minutes_of(system: str, partition: str) -> int:
    """For which an allocation is asked for that the planned cases of a
    partition share; 0: none are planned there.
    """
    plan = find()
    if plan is None or plan[0] != system:
        return 0
    held: dict[str, float] = {}
    for (name, where, _), case in plan[1].items():
        if where == partition:
            # Those of one number of nodes are one after the other.
            nodes = name.partition("%nodes=")[2].partition(" ")[0]
            held[nodes] = held.get(nodes, 0.0) + case.seconds
    return min(MOST_MINUTES, math.ceil(TIMES * max(held.values(), default=0.0) / 60))


def nodes_of(name: str, partition: str, stack: str) -> tuple[str, ...]:
    """The nodes on which a case must be measured again because it was not right; none without a
    plan, or if any will do.
    """
    case = _case(name, partition, stack)
    return case.nodes if case else ()

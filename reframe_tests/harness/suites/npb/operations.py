"""How many operations each NAS Parallel Benchmark counts, so that its time and its rate can be held against each other.

The programs make ``Mop/s`` from the time and these formulas (NPB 3.3 and 3.4: ``BT/bt.f``, ``CG/cg.f``, ``EP/ep.f``,
``FT/ft.f``, ``IS/is.c``, ``LU/lu.f``, ``MG/mg.f``, ``SP/sp.f``, each near its call of ``print_results``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from .volume import PROBLEMS

#: Nonzeros a row that CG's matrix is made from, and the logarithm of EP's pairs, by class (``sys/setparams.c``).
_NONZER: Mapping[str, int] = {"S": 7, "W": 8, "A": 11, "B": 13, "C": 15, "D": 21}
_PAIRS_LOG2: Mapping[str, int] = {"S": 24, "W": 25, "A": 28, "B": 30, "C": 32, "D": 36}
#: Iterations of CG's solver in one of the benchmark's (``cgitmax``).
_CG_ITERATIONS = 25


def _cg(order: int, iterations: int, problem: str) -> float:
    nonzer = _NONZER[problem]
    made = nonzer * (nonzer + 1)
    return 2.0 * iterations * order * (3 + made + _CG_ITERATIONS * (5 + made) + 3)


def _ft(points: int, iterations: int, _: str) -> float:
    log = math.log(points)
    return points * (14.8157 + 7.19641 * log + (5.23518 + 7.21113 * log) * iterations)


_FORMULAS: Mapping[str, Callable[[int, int, str], float]] = {
    "BT": lambda n, iterations, _: iterations * (3478.8 * n**3 - 17655.7 * n**2 + 28023.7 * n),
    "CG": _cg,
    "EP": lambda _, __, problem: 2.0 ** (_PAIRS_LOG2[problem] + 1),
    "FT": _ft,
    "IS": lambda keys, iterations, _: float(keys) * iterations,
    "LU": lambda n, iterations, _: iterations * (1984.77 * n**3 - 10923.3 * n**2 + 27770.9 * n - 144010.0),
    "MG": lambda n, iterations, _: 58.0 * iterations * n**3,
    "SP": lambda n, iterations, _: iterations * (881.174 * n**3 - 4683.91 * n**2 + 11484.5 * n - 19272.4),
}


def count(kernel: str, problem: str) -> float:
    """Operations of one run of a program in a class, as it counts them."""
    size = PROBLEMS[kernel][problem]
    return _FORMULAS[kernel](size.size, size.iterations, problem)

"""What the NAS Parallel Benchmarks must at least send, so that a run past its fabric is not taken for one on it.

All bounds are per iteration of the benchmark and of all parties (nodes, or the ranks of one node) together, payload only, and
hold however ranks are laid out. Problem sizes are those of ``sys/setparams.c`` of NPB 3.3 and 3.4 (and of NASA's page "Problem
Sizes and Parameters in NAS Parallel Benchmarks"). Two arguments are used:

*information*: FT, IS and CG. In FT each output depends on all inputs: of ``M`` complex numbers in equal parts each party lacks
the share ``1 - 1/n`` of its part. In IS the keys are random, and each party keeps those of its own range: the same share of all
keys moves (``MPI_Alltoallv`` of ``IS/is.c``). In CG each party's part of ``A p`` depends on the others' ``p``; as partial sums
or as entries, so many doubles as the part has come in for each of 25 products (``cgitmax``) and the residual.

*surface*: BT, SP, LU and MG. Neighbours on a grid of ``N^3`` points exchange what lies on both sides of their common faces, at
least once an iteration (``copy_faces.f``, ``exchange_3.f``, ``comm3`` of ``mg.f``). However a grid is cut, a part of ``V <=
N^3/2`` points has at least ``min(N^2, 2 sqrt(V N), 3 V^(2/3))`` faces to the rest (Bollobas and Leader, "Edge-isoperimetric
inequalities in the grid", Combinatorica 11, 1991, theorem 3). One layer of points is counted, of the two that most exchange.

Of both half is taken, since parts are not equal where a grid or an order cannot be divided. EP exchanges a dozen doubles in
all: nothing that could be seen beside a node's other traffic.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ..traffic import Bound, nothing

_DOUBLE, _COMPLEX, _KEY = 8, 16, 4
#: Products of matrix and vector in one iteration of CG (``CG/cg.f``: ``cgitmax``, and one for the residual).
_PRODUCTS = 26
#: BT, SP and LU: unknowns of a point (``u(5, ...)``).
_UNKNOWNS = 5


@dataclass(frozen=True)
class Problem:
    """One program in one class.

    :param size: points of a side of the grid (BT, SP, LU, MG), of the whole grid (FT), keys (IS), or order of the matrix (CG);
        0: it does not matter (EP).
    :param iterations: as the program prints them; 0 for EP.
    """

    size: int
    iterations: int


def _problems(*rows: tuple[int, int]) -> dict[str, Problem]:
    return {problem: Problem(*row) for problem, row in zip(("S", "W", "A", "B", "C", "D"), rows, strict=True)}


PROBLEMS: Mapping[str, Mapping[str, Problem]] = {
    "BT": _problems((12, 60), (24, 200), (64, 200), (102, 200), (162, 200), (408, 250)),
    "CG": _problems((1400, 15), (7000, 15), (14000, 15), (75000, 75), (150000, 75), (1500000, 100)),
    "EP": _problems(*[(0, 0)] * 6),
    "FT": _problems((1 << 18, 6), (1 << 19, 6), (1 << 23, 6), (1 << 25, 20), (1 << 27, 20), (1 << 31, 25)),
    "IS": _problems((1 << 16, 10), (1 << 20, 10), (1 << 23, 10), (1 << 25, 10), (1 << 27, 10), (1 << 31, 10)),
    "LU": _problems((12, 50), (33, 300), (64, 250), (102, 250), (162, 250), (408, 300)),
    "MG": _problems((32, 4), (128, 4), (256, 4), (256, 20), (512, 20), (1024, 50)),
    "SP": _problems((12, 100), (36, 400), (64, 400), (102, 400), (162, 400), (408, 500)),
}


def _transposed(width: int) -> Callable[[int, int], float]:
    """Elements of so many bytes, of which each party lacks all but its own share."""
    return lambda size, parties: width * size * (1 - 1 / parties)


def _products(size: int, parties: int) -> float:
    return _PRODUCTS * _DOUBLE * size


def surface(width: int) -> Callable[[int, int], float]:
    """Faces of all parties to the others, a point of so many bytes behind each."""

    def bound(size: int, parties: int) -> float:
        part = size**3 / parties
        return width * parties * min(float(size**2), 2 * math.sqrt(part * size), 3 * math.pow(part, 2 / 3))

    return bound


_BOUNDS: Mapping[str, Callable[[int, int], float]] = {
    "BT": surface(_UNKNOWNS * _DOUBLE),
    "CG": _products,
    "FT": _transposed(_COMPLEX),
    "IS": _transposed(_KEY),
    "LU": surface(_UNKNOWNS * _DOUBLE),
    "MG": surface(_DOUBLE),
    "SP": surface(_UNKNOWNS * _DOUBLE),
}


def bound_of(kernel: str, problem: str) -> Bound:
    """The bound of a program in a class, in bytes per iteration; the message size means nothing."""
    if kernel not in _BOUNDS:
        return nothing
    size, least = PROBLEMS[kernel][problem].size, _BOUNDS[kernel]
    return lambda message_bytes, parties: int(least(size, parties) / 2) if parties > 1 else 0

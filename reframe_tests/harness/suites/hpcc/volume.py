"""What HPCC must at least send, so that a run past its fabric is not taken for one on it.

Bytes of payload between nodes, which ranks fill in blocks, of the problem as ``hpccoutf.txt`` says it was solved; inside one
node each rank stands for a node. Sources are those of HPCC 1.5 (1.4 alike). What ranks do by themselves (``Star...``,
``Single...``) moves no data by design.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

_DOUBLE, _COMPLEX, _WORD = 8, 16, 8
#: Times the matrix is transposed, each time on another grid (PTRANS/pdtransdriver.c, ``grid_cnt``).
_TRANSPOSITIONS = 5
#: Transforms of MPIFFT: there, and back for the check (FFT/mpifft.c, ``MPIFFT0``).
_TRANSFORMS = 2


def solution(problem: Mapping[str, int], ranks: int, nodes: int) -> int:
    """HPL: half of the triangles L and U of an LU factorisation, for each further node that needs them.

    Every process of a row of the grid needs the row's part of each panel of L, to update its own columns (hpl/src/comm,
    ``HPL_bcast``); every process of a column the column's part of U (hpl/src/pgesv, ``HPL_pdlaswp01T``). Counted are panels
    behind which each process still has something to update: of B panels of NB columns, blocks below and beside the diagonal of
    all but the last max(P, Q). Rank r is in row ``r // Q`` and column ``r % Q`` (hpl/src/grid/HPL_grid_init.c, row-major). Half
    is taken, since the parts of rows and columns are not equal where blocks cannot be dealt evenly.
    """
    rows, columns, block, ppn = problem["rows"], problem["columns"], problem["block"], ranks // nodes
    panels, last = problem["order"] // block, max(rows, columns)
    triangle = block**2 * max(0, panels * (panels - 1) - last * (last - 1)) / 2
    of_rows = sum(len({(row * columns + column) // ppn for column in range(columns)}) - 1 for row in range(rows))
    of_columns = sum(len({(row * columns + column) // ppn for row in range(rows)}) - 1 for column in range(columns))
    return int(_DOUBLE * triangle * (of_rows / rows + of_columns / columns) / 2)


def transposition(problem: Mapping[str, int], ranks: int, nodes: int) -> int:
    """PTRANS: the blocks of a matrix whose transposed place is on another node, whichever ranks share one.

    Block (i, j) goes from process (i mod P, j mod Q) to (j mod P, i mod Q) (PTRANS/pdtrans.c), and processes are drawn by
    chance for each of five runs (pdtransdriver.c, ``grid_map``). A process sends its blocks to (P / g) (Q / g) others alike, g
    being the greatest common divisor of P and Q, at most ceil(B / lcm)^2 blocks each; so many of them as a node has ranks may
    be on its own. With one rank a node only those blocks stay whose i and j agree modulo lcm(P, Q). None is sure to leave on
    a square grid with several ranks a node.
    """
    rows, columns, block, ppn = problem["rows"], problem["columns"], problem["block"], ranks // nodes
    blocks, period = problem["order"] // block, math.lcm(rows, columns)
    if ppn == 1:
        kept = sum(len(range(first, blocks, period)) ** 2 for first in range(min(period, blocks)))
    else:
        partners = rows * columns // math.gcd(rows, columns) ** 2
        kept = ranks * min(ppn, partners) * math.ceil(blocks / period) ** 2
    return _TRANSPOSITIONS * _DOUBLE * block**2 * max(0, blocks**2 - kept)


def transform(problem: Mapping[str, int], ranks: int, nodes: int) -> int:
    """MPIFFT: each node lacks what the others have of the vector, on which all of its own results depend.

    A node with the share s of the vector needs at least the part s (1 - s) of it from others, in each of two transforms. The
    first ``processes`` ranks take part, with equal shares (FFT/mpifft.c: the largest power of two, or product of 2, 3 and 5).
    """
    ppn, processes = ranks // nodes, problem["processes"]
    shares = [len(range(first, min(first + ppn, processes))) / processes for first in range(0, processes, ppn)]
    return int(_TRANSFORMS * _COMPLEX * problem["elements"] * sum(share * (1 - share) for share in shares))


def updates(problem: Mapping[str, int], ranks: int, nodes: int) -> int:
    """MPIRandomAccess: half of the updates whose place is on another node, a word of 8 bytes each.

    Every rank makes as many, and their places are random, over all of the table (RandomAccess/MPIRandomAccess_vanilla.c): the
    share 1 - 1/n of them leaves its node. How many were made is printed, since they may be cut short after a time.
    """
    return int(_WORD * problem["updates"] * (1 - 1 / nodes) / 2)

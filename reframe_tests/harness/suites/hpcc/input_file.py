"""``hpccinf.txt``: the size of the problem, from ranks and their memory; all other lines as HPCC's example has them.

Without the file hpcc says a line on standard error, takes defaults and measures something else with exit status 0
(``HPCC_Defaults`` in src/io.c of HPCC 1.4 and 1.5): so the output is held against the size asked for (:mod:`output`).
"""

from __future__ import annotations

import math

#: Name of the file, and of the one with the results, to which hpcc appends (``HPCC_Init`` in src/io.c).
INPUT, RESULT = "hpccinf.txt", "hpccoutf.txt"
#: Block size, as in ``HPCC_Defaults`` and in the example file ``_hpccinf.txt``. Paper 4 (IBM, 2007) had 224 with ESSL.
BLOCK = 80
#: Share of the memory that the matrix of HPL takes (``HPCC_Defaults``; HPL's FAQ says the same of the whole memory).
MEMORY_SHARE = 0.8
#: Bytes of an element.
ELEMENT_BYTES = 8

_LINES = """HPLinpack benchmark input file
Innovative Computing Laboratory, University of Tennessee
HPL.out      output file name (if any)
8            device out (6=stdout,7=stderr,file)
1            # of problems sizes (N)
{size:<12} Ns
1            # of NBs
{block:<12} NBs
0            PMAP process mapping (0=Row-,1=Column-major)
1            # of process grids (P x Q)
{rows:<12} Ps
{columns:<12} Qs
16.0         threshold
1            # of panel fact
2            PFACTs (0=left, 1=Crout, 2=Right)
1            # of recursive stopping criterium
4            NBMINs (>= 1)
1            # of panels in recursion
2            NDIVs
1            # of recursive panel fact.
1            RFACTs (0=left, 1=Crout, 2=Right)
1            # of broadcast
1            BCASTs (0=1rg,1=1rM,2=2rg,3=2rM,4=Lng,5=LnM)
1            # of lookahead depth
1            DEPTHs (>=0)
2            SWAP (0=bin-exch,1=long,2=mix)
64           swapping threshold
0            L1 in (0=transposed,1=no-transposed) form
0            U  in (0=transposed,1=no-transposed) form
1            Equilibration (0=no,1=yes)
8            memory alignment in double (> 0)
##### This line (no. 32) is ignored (it serves as a separator). ######
0            Number of additional problem sizes for PTRANS
1200 10000 30000 values of N
0            number of additional blocking sizes for PTRANS
40 9 8 13 13 20 16 32 64 values of NB
"""


def find_grid(ranks: int) -> tuple[int, int]:
    """P x Q: the rectangle of all ranks that is nearest to a square, P not above Q.

    HPL's tuning notes ask for that. ``HPCC_ProcessGrid`` leaves a rank out where their number is a prime above 20; here all
    take part.
    """
    rows = next(side for side in range(math.isqrt(ranks), 0, -1) if ranks % side == 0)
    return rows, ranks // rows


def find_size(ranks: int, mib_per_rank: int) -> int:
    """N: the largest multiple of twice the block size whose matrix takes :data:`MEMORY_SHARE` of the memory; one at least.

    ``N = 2 NB floor(sqrt(0.8 p m / 8) / (2 NB))`` with p ranks of m bytes each (``HPCC_Defaults`` in src/io.c): the matrix of
    PTRANS has half the order, and is divided by the block size, too.
    """
    elements = MEMORY_SHARE * ranks * (mib_per_rank << 20) / ELEMENT_BYTES
    return max(1, int(math.sqrt(elements) / (2 * BLOCK))) * 2 * BLOCK


def write(ranks: int, mib_per_rank: int) -> str:
    """The file's content."""
    rows, columns = find_grid(ranks)
    return _LINES.format(size=find_size(ranks, mib_per_rank), block=BLOCK, rows=rows, columns=columns)

"""HPC Challenge (HPCC 1.4 and 1.5): one program that writes its results into its own file.

The least it must send, so that a run past its fabric is noticed: bytes of payload between nodes,
which ranks fill in blocks, for the problem solved according to ``hpccoutf.txt``; inside one node
each rank counts as a node. Sources are those of HPCC 1.5 (1.4 is alike). What ranks do by
themselves (``Star...``, ``Single...``) moves no data by design.

``hpccinf.txt``: the size of the problem, from ranks and their memory;
all other lines as HPCC's example has them.

Without the file, hpcc prints a line on standard error, uses defaults and measures something else
with exit status 0 (``HPCC_Defaults`` in src/io.c of HPCC 1.4 and 1.5); so the output is compared
with the requested size.

``hpccoutf.txt``: every section is there, every check passed, and the numbers of the summary.

Formats: ``HPCC_Init`` and ``HPCC_Finalize`` in src/io.c and the benchmarks' own files, 1.5.0 as
Debian builds it, 1.4.2 and the repository after 1.5.0 (a line ``FFT_API``). Names with ``_LCG``
appear in 1.4.2 and its repository's 1.4.0; outputs of 1.4 without them are read, too. A run on one
rank has no rings and is rejected. So is one of several sizes: the summary has the best HPL and the
best PTRANS, which may be of different sizes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import NamedTuple

from ..printable import one_line
from ..vocabulary import Refusal
from . import traffic
from .benchmark import NO_DATA, SIZELESS, Benchmark, OutputError, Plan, Record, SizeRange, at_levels
from .model import BenchmarkPackage, Group, Programs, Run, Suite, no_arguments
from .options import SuiteOption
from .traffic import Bound, RunBound

_DOUBLE = 8
_COMPLEX = 16
_WORD = 8
#: Times the matrix is transposed, each time on another grid (PTRANS/pdtransdriver.c, ``grid_cnt``).
_TRANSPOSITIONS = 5
#: Transforms of MPIFFT: there, and back for the check (FFT/mpifft.c, ``MPIFFT0``).
_TRANSFORMS = 2


def solution(problem: Mapping[str, int], ranks: int, nodes: int) -> int:
    """HPL: half of the triangles L and U of an LU factorisation,
    for each further node that needs them.

    Every process of a row of the grid needs the row's part of each panel of L, to update its own
    columns (hpl/src/comm, ``HPL_bcast``); every process of a column the column's part of U
    (hpl/src/pgesv, ``HPL_pdlaswp01T``). Counted are panels behind which each process still has
    something to update: of B panels of NB columns, blocks below and beside the diagonal of all but
    the last max(P, Q). Rank r is in row ``r // Q`` and column ``r % Q``
    (hpl/src/grid/HPL_grid_init.c, row-major). Half is taken, since the parts of rows and columns
    are not equal where blocks cannot be dealt evenly.
    """
    rows = problem["rows"]
    columns = problem["columns"]
    block = problem["block"]
    ppn = ranks // nodes
    panels = problem["order"] // block
    last = max(rows, columns)
    triangle = block**2 * max(0, panels * (panels - 1) - last * (last - 1)) / 2
    of_rows = sum(
        len({(row * columns + column) // ppn for column in range(columns)}) - 1
        for row in range(rows)
    )
    of_columns = sum(
        len({(row * columns + column) // ppn for row in range(rows)}) - 1
        for column in range(columns)
    )
    return int(_DOUBLE * triangle * (of_rows / rows + of_columns / columns) / 2)


def transposition(problem: Mapping[str, int], ranks: int, nodes: int) -> int:
    """PTRANS: the blocks of a matrix whose transposed place is on
    another node, whichever ranks share one.

    Block (i, j) goes from process (i mod P, j mod Q) to (j mod P, i mod Q) (PTRANS/pdtrans.c), and
    processes are drawn by chance for each of five runs (pdtransdriver.c, ``grid_map``). A process
    sends its blocks to (P / g) (Q / g) others alike, g being the greatest common divisor of P and
    Q, at most ceil(B / lcm)^2 blocks each; so many of them as a node has ranks may be on its own.
    With one rank a node only those blocks stay whose i and j agree modulo lcm(P, Q). None is sure
    to leave on a square grid with several ranks a node.
    """
    rows = problem["rows"]
    columns = problem["columns"]
    block = problem["block"]
    ppn = ranks // nodes
    blocks = problem["order"] // block
    period = math.lcm(rows, columns)
    if ppn == 1:
        kept = sum(len(range(first, blocks, period)) ** 2 for first in range(min(period, blocks)))
    else:
        partners = rows * columns // math.gcd(rows, columns) ** 2
        kept = ranks * min(ppn, partners) * math.ceil(blocks / period) ** 2
    return _TRANSPOSITIONS * _DOUBLE * block**2 * max(0, blocks**2 - kept)


def transform(problem: Mapping[str, int], ranks: int, nodes: int) -> int:
    """MPIFFT: each node lacks what the others have of the vector,
    on which all of its own results depend.

    A node with the share s of the vector needs at least the part s (1 - s) of it from others, in
    each of two transforms. The first ``processes`` ranks take part, with equal shares
    (FFT/mpifft.c: the largest power of two, or product of 2, 3 and 5).
    """
    ppn = ranks // nodes
    processes = problem["processes"]
    shares = [
        len(range(first, min(first + ppn, processes))) / processes
        for first in range(0, processes, ppn)
    ]
    return int(
        _TRANSFORMS * _COMPLEX * problem["elements"] * sum(share * (1 - share) for share in shares)
    )


def updates(problem: Mapping[str, int], ranks: int, nodes: int) -> int:
    """MPIRandomAccess: half of the updates whose place is on another node, a word of 8 bytes each.

    Every rank makes as many, and their places are random, over all of the table
    (RandomAccess/MPIRandomAccess_vanilla.c): the share 1 - 1/n of them leaves its node. How many
    were made is printed, since they may be cut short after a time.
    """
    return int(_WORD * problem["updates"] * (1 - 1 / nodes) / 2)


#: Name of the file, and of the one with the results, to which hpcc
#: appends (``HPCC_Init`` in src/io.c).
INPUT = "hpccinf.txt"
RESULT = "hpccoutf.txt"
#: Block size, as in ``HPCC_Defaults`` and in the example file
#: ``_hpccinf.txt``. Paper 4 (IBM, 2007) had 224 with ESSL.
BLOCK = 80
#: Share of the memory that the matrix of HPL takes (``HPCC_Defaults``;
#: HPL's FAQ says the same of the whole memory).
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

    HPL's tuning notes ask for that. ``HPCC_ProcessGrid`` leaves a rank out where their number is a
    prime above 20; here all take part.
    """
    rows = next(side for side in range(math.isqrt(ranks), 0, -1) if ranks % side == 0)
    return rows, ranks // rows


def find_size(ranks: int, mib_per_rank: int) -> int:
    """N: the largest multiple of twice the block size whose matrix takes
    :data:`MEMORY_SHARE` of the memory; one at least.

    ``N = 2 NB floor(sqrt(0.8 p m / 8) / (2 NB))`` with p ranks of m bytes each (``HPCC_Defaults``
    in src/io.c): the matrix of PTRANS has half the order, and is divided by the block size, too.
    """
    elements = MEMORY_SHARE * ranks * (mib_per_rank << 20) / ELEMENT_BYTES
    return max(1, int(math.sqrt(elements) / (2 * BLOCK))) * 2 * BLOCK


def write(ranks: int, mib_per_rank: int) -> str:
    rows, columns = find_grid(ranks)
    return _LINES.format(
        size=find_size(ranks, mib_per_rank), block=BLOCK, rows=rows, columns=columns
    )


#: Name of the suite, of its program and of its group.
NAME = "hpcc"
PROGRAM = "hpcc"
GROUP = "hpcc"
#: Bytes of a message of the rings' bandwidth
#: (``LatencyBandwidth``: "were done with 2000000 bytes").
RING_BYTES = 2_000_000
#: Bytes of one of their latency ("were done with 8 bytes").
PING_BYTES = 8
#: Variant of all numbers that depend on the order of the matrix, before it is known.
ANY_SIZE = "N=*"


def ring(message_bytes: int, ranks: int) -> int:
    """``2 n`` messages of 2 MB: each rank sends to both neighbours (src/bench_lat_bw_1.5.2.c).
    Between nodes each node does, in whichever order a ring goes through all ranks: it enters and
    leaves every node at least once.
    """
    return 2 * ranks * RING_BYTES


def ring_of_pings(message_bytes: int, ranks: int) -> int:
    return 2 * ranks * PING_BYTES


@dataclass(frozen=True)
class Result:
    """One number of a run.

    :param name: name of its row.
    :param abbreviation: what paper 4 (IBM on AIX and InfiniBand, 2007,
        tables 8 to 10) calls it; empty: it has it not.
    :param key: its key in the summary of ``hpccoutf.txt``.
    :param scale: what one printed unit is in the quantity's.
    :param sized: it depends on the order of the matrix; the rings do not.
    :param sends: what all ranks together send; without it and ``of_run`` each works by itself.
    :param of_run: what a run sends between nodes, of the sizes in
        ``problem``: each with its key in the summary.
    """

    name: str
    abbreviation: str
    quantity: str
    key: str
    scale: float = 1.0
    sized: bool = True
    sends: Bound = traffic.nothing
    of_run: RunBound | None = None
    problem: Mapping[str, str] = field(default_factory=dict)


_GFLOPS = "gflop_per_s"
_GUPS = "gup_per_s"
_BANDWIDTH = "bandwidth_mb_per_s"
_LATENCY = "latency_us"
#: Sizes of the problem of the bounds above, by their keys.
_SOLVED = {"order": "HPL_N", "block": "HPL_NB", "rows": "HPL_nprow", "columns": "HPL_npcol"}
_TRANSPOSED = {
    "order": "PTRANS_n",
    "block": "PTRANS_nb",
    "rows": "PTRANS_nprow",
    "columns": "PTRANS_npcol",
}
_TRANSFORMED = {"elements": "MPIFFT_N", "processes": "MPIFFT_Procs"}
_UPDATED = {"updates": "MPIRandomAccess_ExeUpdates"}
#: ``Star``: all ranks at the same time, the mean of them; ``Single``:
#: one rank, the others wait. A GB is 1e9 bytes.
RESULTS = (
    Result("HPL", "HPL", _GFLOPS, "HPL_Tflops", 1000, of_run=solution, problem=_SOLVED),
    Result(
        "PTRANS",
        "PTRANS",
        _BANDWIDTH,
        "PTRANS_GBs",
        1000,
        of_run=transposition,
        problem=_TRANSPOSED,
    ),
    Result("StarDGEMM", "*DGEMM", _GFLOPS, "StarDGEMM_Gflops"),
    Result("SingleDGEMM", "", _GFLOPS, "SingleDGEMM_Gflops"),
    Result("StarRandomAccess", "*GUPS", _GUPS, "StarRandomAccess_GUPs"),
    Result(
        "MPIRandomAccess", "GUPS", _GUPS, "MPIRandomAccess_GUPs", of_run=updates, problem=_UPDATED
    ),
    Result("StarSTREAM_Copy", "", _BANDWIDTH, "StarSTREAM_Copy", 1000),
    Result("StarSTREAM_Scale", "", _BANDWIDTH, "StarSTREAM_Scale", 1000),
    Result("StarSTREAM_Add", "", _BANDWIDTH, "StarSTREAM_Add", 1000),
    # The paper does not say which of the four; HPCC's own tables of results have the triad.
    Result("StarSTREAM_Triad", "*STREAM", _BANDWIDTH, "StarSTREAM_Triad", 1000),
    Result("StarFFT", "*FFT", _GFLOPS, "StarFFT_Gflops"),
    Result("MPIFFT", "FFT", _GFLOPS, "MPIFFT_Gflops", of_run=transform, problem=_TRANSFORMED),
    Result(
        "NaturallyOrderedRingLatency",
        "NRL",
        _LATENCY,
        "NaturallyOrderedRingLatency_usec",
        1,
        False,
        ring_of_pings,
    ),
    Result(
        "NaturallyOrderedRingBandwidth",
        "NRBW",
        _BANDWIDTH,
        "NaturallyOrderedRingBandwidth_GBytes",
        1000,
        False,
        ring,
    ),
    Result(
        "RandomlyOrderedRingLatency",
        "RRL",
        _LATENCY,
        "RandomlyOrderedRingLatency_usec",
        1,
        False,
        ring_of_pings,
    ),
    Result(
        "RandomlyOrderedRingBandwidth",
        "RRBW",
        _BANDWIDTH,
        "RandomlyOrderedRingBandwidth_GBytes",
        1000,
        False,
        ring,
    ),
)


def _why_nothing(result: Result) -> str:
    if result.of_run is transposition:
        return "its grid of ranks is random, so blocks may stay inside a node"
    return NO_DATA if result.of_run is None and result.sends is traffic.nothing else ""


ROWS: tuple[Benchmark, ...] = tuple(
    Benchmark(
        result.name,
        NAME,
        PROGRAM,
        GROUP,
        "all",
        (result.quantity,),
        result.sends,
        sizes=SIZELESS,
        gated_sizes={result.quantity: (None,)},
        variants=(ANY_SIZE if result.sized else "",),
        crossing=0,
        of_run=result.of_run,
        unbounded=_why_nothing(result),
    )
    for result in RESULTS
)

# The size is the memory of a rank: 2, 32 and 256 MiB, on every fabric alike. With the first a run
# takes some seconds; MPIRandomAccess alone may take twice 60 (its own bound).
_MEMORY = at_levels(*(SizeRange((log2, log2), 1, 1) for log2 in (21, 25, 28)))

GROUPS: Mapping[str, Group] = {
    GROUP: Group(
        "HPC Challenge: HPL, PTRANS, DGEMM, GUPS, STREAM, FFT, naturally and randomly ordered ring",
        (Plan(NAME, PROGRAM, tuple(row.name for row in ROWS), _MEMORY),),
        collective=True,
    ),
}

#: MiB of a rank that the problem is made for; the memory of a node over its
#: ranks for a run as the HPC Challenge asks for.
MEMORY = SuiteOption(
    "hpcc_mib_per_rank",
    "memory per rank in MiB that determines HPCC's problem size",
    "level",
    (GROUP,),
    pattern="[1-9][0-9]{0,6}",
    shape="level or a number of MiB",
    printed=True,
)


def _mib(run: Run) -> int:
    chosen = run.chosen.get(MEMORY.name)
    return int(chosen) if chosen else 1 << run.size_range.log2[1] >> 20


def files(run: Run) -> dict[str, str]:
    return {INPUT: write(run.ranks, _mib(run))}


def variants(row: Benchmark, run: Run) -> tuple[str, ...]:
    """The order of the matrix, for rows that depend on it."""
    return (
        (f"N={find_size(run.ranks, _mib(run))}",) if row.variants == (ANY_SIZE,) else row.variants
    )


_SECTION = re.compile(
    r"^[ \t]*Begin of (\w+) section\.[ \t\r]*\n(.*?)^[ \t]*End of \1 section\.[ \t\r]*\n",
    re.M | re.S,
)
_SUMMARY = "Summary"
#: Those before it, each once; those of ``_LCG`` (another generator of
#: random numbers) all or, before 1.5, none.
_SECTIONS = (
    *(f"{how}RandomAccess{which}" for which in ("", "_LCG") for how in ("MPI", "Star", "Single")),
    "PTRANS",
    "StarDGEMM",
    "SingleDGEMM",
    "StarSTREAM",
    "SingleSTREAM",
    "MPIFFT",
    "StarFFT",
    "SingleFFT",
    "LatencyBandwidth",
    "HPL",
)
_SOLVED_LINE = r"W\w+ +{HPL_N} +{HPL_NB} +{HPL_nprow} +{HPL_npcol} +"
_WALL_LINE = (
    r"WALL +{PTRANS_n} +{PTRANS_n} +{PTRANS_nb} +{PTRANS_nb} +{PTRANS_nprow} +{PTRANS_npcol}"
    r" +\S+ PASSED +"
)


class Twice(NamedTuple):
    """A number of the summary that its section says, too.

    :param before: regular expression of what stands before it in its line
        there, with numbers of the summary by their keys.
    :param scale: how many of the section's units one of the summary's is.
    :param reciprocal: bytes of a message whose time the summary says, and
        the section its bandwidth, with more digits.
    """

    key: str
    section: str
    before: str
    scale: float = 1
    reciprocal: float = 0


_RINGS = (
    ("Naturally", "naturally ordered", "Natural"),
    ("Randomly", "randomly  ordered", "Avg Random"),
)
_TWICE = (
    Twice("HPL_time", "HPL", _SOLVED_LINE),
    Twice("HPL_Tflops", "HPL", rf"{_SOLVED_LINE}\S+ +", 1000),
    Twice("PTRANS_GBs", "PTRANS", _WALL_LINE),
    Twice("StarDGEMM_Gflops", "StarDGEMM", "Average Gflop/s "),
    Twice("SingleDGEMM_Gflops", "SingleDGEMM", "Single DGEMM Gflop/s "),
    Twice("StarRandomAccess_GUPs", "StarRandomAccess", "Average GUP/s "),
    Twice("CommWorldProcs", "MPIRandomAccess", "Running on "),
    Twice(
        "MPIRandomAccess_ExeUpdates",
        "MPIRandomAccess",
        r"(?:Default n|N)umber of updates (?:\(RECOMMENDED\)|EXECUTED) = ",
    ),
    Twice("MPIRandomAccess_time", "MPIRandomAccess", "Real time used = "),
    *(
        Twice(f"StarSTREAM_{name}", "StarSTREAM", f"Average {name} GB/s ")
        for name in ("Copy", "Scale", "Add", "Triad")
    ),
    Twice("StarFFT_Gflops", "StarFFT", "Average Gflop/s "),
    Twice("MPIFFT_Procs", "MPIFFT", "Number of nodes: "),
    Twice("MPIFFT_N", "MPIFFT", "Vector size: +"),
    Twice("MPIFFT_Gflops", "MPIFFT", "Gflop/s: +"),
    *(
        twice
        for order, ring_, table in _RINGS
        for twice in (
            Twice(
                f"{order}OrderedRingLatency_usec",
                "LatencyBandwidth",
                f"On {ring_} ring: latency= +",
                1e-3,
            ),
            Twice(
                f"{order}OrderedRingLatency_usec",
                "LatencyBandwidth",
                f"{table} Order Bandwidth: +",
                1,
                PING_BYTES,
            ),
            Twice(
                f"{order}OrderedRingBandwidth_GBytes",
                "LatencyBandwidth",
                f"{table} Order Bandwidth: +",
                1000,
            ),
        )
    ),
)
#: What the head says: the version, then the orders of the matrix and how processes are mapped.
_HEAD = re.compile(
    r"HPC Challenge Benchmark version (?P<version>\S+) .*?^N +: +"
    r"(?P<orders>[0-9 ]+?)[ \t\r]*$.*?^PMAP +: +(?P<mapping>\S+)",
    re.M | re.S,
)
#: Lines that say that a check failed, or that something was left out.
_FAILED = re.compile(
    r"^.*(?:\bFAILED\b|\(failed\)|Failed |Node\(s\) with error +(?!0\b)|^Success=0"
    r"|problem size too large"
    r"|[1-9][0-9]* tests completed and failed|[1-9][0-9]* tests skipped|errors were found"
    r"|xerbla).*$",
    re.M,
)
_NUMBER = r"[-+]?[0-9]+(?:\.[0-9]+)?(?:e[-+][0-9]+)?"
_COUNT = "[1-9][0-9]{0,17}"
_LINE = re.compile(rf"([A-Za-z]\w*)=({_NUMBER}|[A-Za-z])|(FFT_API)=(FFTW[23]|FFTE\(built-in\))")
#: Of the summary: counts, and numbers beside the results.
_COUNTS = (
    "VersionMajor",
    "VersionMinor",
    "CommWorldProcs",
    "HPL_N",
    "HPL_nprow",
    "HPL_npcol",
    "PTRANS_nprow",
    "PTRANS_npcol",
    "MPIFFT_N",
    "MPIFFT_Procs",
    *(key for result in RESULTS for key in result.problem.values()),
)
_NUMBERS = (
    "VersionMicro",
    "Success",
    "MPIFFT_maxErr",
    "HPL_eps",
    "HPL_time",
    "MPIRandomAccess_time",
    *(result.key for result in RESULTS),
)
#: hpcc holds the error of a transform against this many eps
#: log(n) (FFT/mpifft.c, ``thrsh`` of HPL).
_THRESHOLD = 16.0
#: Versions read.
_VERSIONS = ((1, 4), (1, 5))
#: What not every 1.4 has, how many lines of the summary are of it
#: (``HPCC_Finalize``), and how many are there always.
_LCG = "_LCG"
_LCG_LINES = 12
_LINES_ALWAYS = 136


def parse(text: str, source: str) -> list[Record]:
    """Records of one run, in the order of the rows.

    :raises OutputError: if it is damaged, mixed up or truncated, a check failed,
        a part was not run, or hpcc had no input file.
    """

    def wrong(code: Refusal, sentence: str) -> OutputError:
        return OutputError(code, f"{source}: {sentence}.")

    if failed := _FAILED.search(text):
        number = text.count("\n", 0, failed.start()) + 1
        line = " ".join(failed[0].split())[:80]
        fault = (
            f"'{line}' shows that a check of hpcc failed, so its numbers are not used; run the "
            "benchmark again."
        )
        raise OutputError("output-damaged", f"{source}, line {number}: {fault}")
    sections = list(_SECTION.finditer(text))
    if not sections:
        raise wrong(
            "output-cut",
            "the output of hpcc has no complete section; it is truncated, run it again",
        )
    head = _HEAD.search(text)
    if not head or text.count("HPC Challenge Benchmark version") != 1:
        raise wrong(
            "output-damaged",
            "the head of hpcc's output is damaged or appears twice; run the benchmark again",
        )
    if len(orders := head["orders"].split()) > 1:
        fault = (
            f"hpcc solved {len(orders)} sizes (N = {', '.join(orders)}), and its summary mixes them"
        )
        raise wrong("output-mixed", f"{fault}; give one N in {INPUT}")
    if head["mapping"] != "Row-major":
        fault = (
            f"hpcc mapped its processes {head['mapping']} instead of Row-major, as without its "
            f"input file {INPUT}"
        )
        raise wrong("output-trouble", f"{fault}; put it into the folder in which hpcc starts")
    if sections[-1][1] != _SUMMARY:
        raise wrong(
            "output-cut", "hpcc ended without its summary; the output is truncated, run it again"
        )
    values: dict[str, str] = {}
    for line in filter(None, map(str.strip, sections[-1][2].split("\n"))):
        match = _LINE.fullmatch(line)
        key, value = filter(None, match.groups()) if match else ("", "")
        if not key or key in values:
            fault = (
                f"'{one_line(line)[:60]}' is not a line of hpcc's summary, appears twice, or is "
                "not a number"
            )
            raise wrong("output-damaged", f"{fault}; run the benchmark again")
        values[key] = value
    for key, shape in (
        *dict.fromkeys(_COUNTS, _COUNT).items(),
        *dict.fromkeys(_NUMBERS, _NUMBER).items(),
    ):
        if key not in values:
            raise wrong(
                "output-damaged",
                f"the summary of hpcc lacks {key}; the output is damaged or truncated, run it "
                "again",
            )
        if not re.fullmatch(shape, values[key]):
            fault = (
                f"{key}={values[key]} in hpcc's summary is not a "
                f"{'count' if shape == _COUNT else 'number'}"
            )
            raise wrong("output-trouble", f"{fault}; that part did not run, or it is damaged")
    count = {key: int(values[key]) for key in _COUNTS}
    number_of = {key: float(values[key]) for key in _NUMBERS}
    version = (count["VersionMajor"], count["VersionMinor"])
    ranks = count["CommWorldProcs"]
    if version not in _VERSIONS:
        shown, *known = (".".join(map(str, release)) for release in (version, *_VERSIONS))
        raise wrong(
            "other-release",
            f"this is hpcc {shown}; only {' and '.join(known)} are supported",
        )
    if number_of["Success"] != 1:
        raise wrong(
            "output-trouble",
            f"the summary says Success={values['Success']}; a check of hpcc failed, run it again",
        )
    if (f"{version[0]}.{version[1]}.{values['VersionMicro']}", values["HPL_N"]) != (
        head["version"],
        orders[0],
    ):
        raise wrong(
            "output-mixed",
            "head and summary belong to different runs; outputs are mixed up, run it again",
        )
    grid, transposing = (
        count[f"{name}_nprow"] * count[f"{name}_npcol"] for name in ("HPL", "PTRANS")
    )
    if ranks < 2 or grid != ranks:
        raise wrong(
            "output-damaged",
            f"HPL ran on {grid} of {ranks} ranks; all ranks, 2 or more, must take part",
        )
    if transposing != ranks or count["MPIFFT_Procs"] > ranks:
        fault = f"PTRANS ran on {transposing} ranks, MPIFFT on {count['MPIFFT_Procs']}, of {ranks}"
        raise wrong("output-damaged", f"{fault}; it is damaged, run it again")
    error = number_of["MPIFFT_maxErr"]
    bound = _THRESHOLD * number_of["HPL_eps"] * math.log(max(count["MPIFFT_N"], 2))
    if not 0 <= error < bound:
        raise wrong(
            "output-trouble",
            f"MPIFFT_maxErr={error:g} is not below {bound:.3g}; the transform is wrong",
        )
    names = [section[1] for section in sections[:-1]]
    with_lcg = version >= (1, 5) or any(_LCG in name for name in names)
    wanted = [name for name in _SECTIONS if with_lcg or _LCG not in name]
    if sorted(names) != sorted(wanted):
        odd = next(
            (name for name in [*wanted, *names] if names.count(name) != 1 or name not in wanted), ""
        )
        raise wrong(
            "output-damaged",
            f"section {odd} of hpcc is missing, unknown or duplicated; the output is damaged",
        )
    lines = _LINES_ALWAYS + with_lcg * _LCG_LINES + ("FFT_API" in values)
    if len(values) != lines:
        fault = f"the summary of hpcc has {len(values)} lines instead of {lines}"
        raise wrong("output-damaged", f"{fault}; the output is damaged or truncated, run it again")
    records = []
    for result in RESULTS:
        value = number_of[result.key]
        if not 0 < value < math.inf:
            raise wrong(
                "output-trouble",
                f"{result.key}={values[result.key]}: {result.name} did not run, or measured "
                "nothing",
            )
        # How often a ring is gone round is not printed; it is at least once.
        variant, repetitions = (f"N={values['HPL_N']}", None) if result.sized else ("", 1)
        quantities = {result.quantity: float(f"{value * result.scale:.12g}")}
        problem = {size: count[key] for size, key in result.problem.items()}
        records.append(
            Record(
                NAME, result.name, ranks, 1, None, repetitions, quantities, variant, problem=problem
            )
        )
    bodies = {section[1]: section[2] for section in sections}
    for twice in _TWICE:
        if not _said(twice, bodies[twice.section], values):
            fault = (
                f"{twice.key}={values[twice.key]} in hpcc's summary differs from its section "
                f"{twice.section}"
            )
            raise wrong(
                "output-damaged",
                f"{fault}; the output is damaged or mixed up, run the benchmark again",
            )
    work = {"HPL_Tflops": (2 / 3 * count["HPL_N"] + 3 / 2) * count["HPL_N"] ** 2 / 1e12}
    work["MPIRandomAccess_GUPs"] = count["MPIRandomAccess_ExeUpdates"] / 1e9
    for key, done in work.items():
        time = f"{key.partition('_')[0]}_time"
        rounded = (
            _rounding(number_of[key]) * number_of[time]
            + _rounding(number_of[time]) * number_of[key]
        )
        if abs(number_of[key] * number_of[time] - done) > 1.001 * rounded:
            fault = (
                f"{key}={values[key]} in hpcc's summary does not follow from {time}={values[time]}"
            )
            raise wrong(
                "output-damaged", f"{fault}; the output is damaged, run the benchmark again"
            )
    return records


def _rounding(number: float) -> float:
    """Most that ``%g`` takes from a number or adds to it: half of its sixth digit."""
    return 0.5 * 10.0 ** (math.floor(math.log10(number)) - 5) if number > 0 else 0.0


def _said(twice: Twice, section: str, values: Mapping[str, str]) -> bool:
    """Whether a section says a number of the summary. Of two that are one rounded to more and to
    fewer digits the difference is half of the last of the fewer; of a reciprocal both roundings
    count.
    """
    value = float(values[twice.key])
    wanted = twice.reciprocal / value if twice.reciprocal and value else value * twice.scale
    error = 0.0 if twice.key in _COUNTS or not value else _rounding(value) / value * wanted
    before = re.sub(r"\{([A-Za-z]\w*)\}", lambda key: values[key[1]], twice.before)
    printed = (
        Decimal(match[1])
        for match in re.finditer(rf"^(?:{before})({_NUMBER})(?![\w.])", section, re.M)
    )
    total = sum if twice.reciprocal else max
    return any(
        abs(wanted - float(number))
        <= 1.001 * total((0.5 * 10.0 ** int(number.as_tuple().exponent), error))
        for number in printed
    )


SUITE = Suite(
    name=NAME,
    title="HPCC",
    first_line=re.compile(
        r"^[ \t]*This is the DARPA/DOE HPC Challenge Benchmark version ", re.MULTILINE
    ),
    parse=parse,
    rows=ROWS,
    groups=GROUPS,
    arguments=no_arguments,
    options=(MEMORY,),
    files=files,
    result=RESULT,
    variants=variants,
    # It has no option: to say its version it solves the smallest
    # problem, which takes less than a second.
    programs=Programs(
        PROGRAM,
        PROGRAM,
        "",
        r"HPC Challenge Benchmark version ([0-9.]+)",
        files={INPUT: write(1, 1)},
        result=RESULT,
        beside_launcher=True,
    ),
    spack=(BenchmarkPackage(NAME, "bin", PROGRAM),),
)

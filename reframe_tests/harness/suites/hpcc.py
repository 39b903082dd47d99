"""HPC Challenge (HPCC 1.4 and 1.5): one program that writes what it measures into a file of its own.

What it must at least send, so that a run past its fabric is not taken for one on it: bytes of payload between nodes, which
ranks fill in blocks, of the problem as ``hpccoutf.txt`` says it was solved; inside one node each rank stands for a node.
Sources are those of HPCC 1.5 (1.4 alike). What ranks do by themselves (``Star...``, ``Single...``) moves no data by design.

``hpccinf.txt``: the size of the problem, from ranks and their memory; all other lines as HPCC's example has them.

Without the file hpcc says a line on standard error, takes defaults and measures something else with exit status 0
(``HPCC_Defaults`` in src/io.c of HPCC 1.4 and 1.5): so the output is held against the size asked for.

``hpccoutf.txt``: every section is there, every check passed, and the numbers of the summary.

Formats: ``HPCC_Init`` and ``HPCC_Finalize`` in src/io.c and the benchmarks' own files, 1.5.0 as Debian builds it and outputs
of others; 1.4 lacks all that ends in ``_LCG`` or holds it (src/io.c of 1.4). A run on one rank has no rings and is refused.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from ..printable import one_line
from . import traffic
from .benchmark import NO_DATA, SIZELESS, Benchmark, OutputError, Plan, Record, SizeRange, at_levels
from .model import BenchmarkPackage, Group, Programs, Run, Suite, no_arguments
from .options import PRINTED, SuiteOption
from .traffic import Bound, RunBound

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
    rows, columns = find_grid(ranks)
    return _LINES.format(size=find_size(ranks, mib_per_rank), block=BLOCK, rows=rows, columns=columns)


#: Name of the suite, of its program and of its group.
NAME, PROGRAM, GROUP = "hpcc", "hpcc", "hpcc"
#: Bytes of a message of the rings' bandwidth (``LatencyBandwidth``: "were done with 2000000 bytes").
RING_BYTES = 2_000_000
#: Bytes of one of their latency ("were done with 8 bytes").
PING_BYTES = 8
#: Variant of all numbers that depend on the order of the matrix, before it is known.
ANY_SIZE = "N=*"


def ring(message_bytes: int, ranks: int) -> int:
    """``2 n`` messages of 2 MB: each rank sends to both neighbours (src/bench_lat_bw_1.5.2.c). Between nodes each node does, in
    whichever order a ring goes through all ranks: it enters and leaves every node at least once."""
    return 2 * ranks * RING_BYTES


def ring_of_pings(message_bytes: int, ranks: int) -> int:
    return 2 * ranks * PING_BYTES


@dataclass(frozen=True)
class Result:
    """One number of a run.

    :param name: name of its row.
    :param abbreviation: what paper 4 (IBM on AIX and InfiniBand, 2007, tables 8 to 10) calls it; empty: it has it not.
    :param key: its key in the summary of ``hpccoutf.txt``.
    :param scale: what one printed unit is in the quantity's.
    :param sized: it depends on the order of the matrix; the rings do not.
    :param sends: what all ranks together send; without it and ``of_run`` each works by itself.
    :param of_run: what a run sends between nodes, of the sizes in ``problem``: each with its key in the summary.
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


_GFLOPS, _GUPS, _BANDWIDTH, _LATENCY = "gflop_per_s", "gup_per_s", "bandwidth_mb_per_s", "latency_us"
#: Sizes of the problem of the bounds above, by their keys.
_SOLVED = {"order": "HPL_N", "block": "HPL_NB", "rows": "HPL_nprow", "columns": "HPL_npcol"}
_TRANSPOSED = {"order": "PTRANS_n", "block": "PTRANS_nb", "rows": "PTRANS_nprow", "columns": "PTRANS_npcol"}
_TRANSFORMED = {"elements": "MPIFFT_N", "processes": "MPIFFT_Procs"}
_UPDATED = {"updates": "MPIRandomAccess_ExeUpdates"}
#: ``Star``: all ranks at the same time, the mean of them; ``Single``: one rank, the others wait. A GB is 1e9 bytes.
RESULTS = (
    Result("HPL", "HPL", _GFLOPS, "HPL_Tflops", 1000, of_run=solution, problem=_SOLVED),
    Result("PTRANS", "PTRANS", _BANDWIDTH, "PTRANS_GBs", 1000, of_run=transposition, problem=_TRANSPOSED),
    Result("StarDGEMM", "*DGEMM", _GFLOPS, "StarDGEMM_Gflops"),
    Result("SingleDGEMM", "", _GFLOPS, "SingleDGEMM_Gflops"),
    Result("StarRandomAccess", "*GUPS", _GUPS, "StarRandomAccess_GUPs"),
    Result("MPIRandomAccess", "GUPS", _GUPS, "MPIRandomAccess_GUPs", of_run=updates, problem=_UPDATED),
    Result("StarSTREAM_Copy", "", _BANDWIDTH, "StarSTREAM_Copy", 1000),
    Result("StarSTREAM_Scale", "", _BANDWIDTH, "StarSTREAM_Scale", 1000),
    Result("StarSTREAM_Add", "", _BANDWIDTH, "StarSTREAM_Add", 1000),
    # The paper does not say which of the four; HPCC's own tables of results have the triad.
    Result("StarSTREAM_Triad", "*STREAM", _BANDWIDTH, "StarSTREAM_Triad", 1000),
    Result("StarFFT", "*FFT", _GFLOPS, "StarFFT_Gflops"),
    Result("MPIFFT", "FFT", _GFLOPS, "MPIFFT_Gflops", of_run=transform, problem=_TRANSFORMED),
    Result("NaturallyOrderedRingLatency", "NRL", _LATENCY, "NaturallyOrderedRingLatency_usec", 1, False, ring_of_pings),
    Result("NaturallyOrderedRingBandwidth", "NRBW", _BANDWIDTH, "NaturallyOrderedRingBandwidth_GBytes", 1000, False, ring),
    Result("RandomlyOrderedRingLatency", "RRL", _LATENCY, "RandomlyOrderedRingLatency_usec", 1, False, ring_of_pings),
    Result("RandomlyOrderedRingBandwidth", "RRBW", _BANDWIDTH, "RandomlyOrderedRingBandwidth_GBytes", 1000, False, ring),
)


def _why_nothing(result: Result) -> str:
    if result.of_run is transposition:
        return "its grid of ranks is drawn by chance, so that no block is sure to leave its node"
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

# The size is the memory of a rank: 2, 32 and 256 MiB, on every fabric alike. With the first a run takes some seconds;
# MPIRandomAccess alone may take twice 60 (its own bound).
_MEMORY = at_levels(*(SizeRange((log2, log2), 1, 1) for log2 in (21, 25, 28)))

GROUPS: Mapping[str, Group] = {
    GROUP: Group(
        "HPC Challenge: HPL, PTRANS, DGEMM, GUPS, STREAM, FFT, naturally and randomly ordered ring",
        (Plan(NAME, PROGRAM, tuple(row.name for row in ROWS), _MEMORY),),
        collective=True,
    ),
}

#: MiB of a rank that the problem is made for; the memory of a node over its ranks for a run as the HPC Challenge asks for.
MEMORY = SuiteOption(
    "hpcc_mib_per_rank",
    "memory of a rank in MiB that HPCC's problem is made for",
    "level",
    (GROUP,),
    pattern="[1-9][0-9]{0,6}",
    shape="level or a number of MiB",
    apart=PRINTED,
)


def _mib(run: Run) -> int:
    chosen = run.chosen.get(MEMORY.name)
    return int(chosen) if chosen else 1 << run.size_range.log2[1] >> 20


def files(run: Run) -> dict[str, str]:
    return {INPUT: write(run.ranks, _mib(run))}


def variants(row: Benchmark, run: Run) -> tuple[str, ...]:
    """The order of the matrix, for rows that depend on it."""
    return (f"N={find_size(run.ranks, _mib(run))}",) if row.variants == (ANY_SIZE,) else row.variants


_SECTION = re.compile(r"^[ \t]*Begin of (\w+) section\.[ \t\r]*\n(.*?)^[ \t]*End of \1 section\.[ \t\r]*\n", re.M | re.S)
_SUMMARY = "Summary"
#: Those before it, each once; those of ``_LCG`` (another generator of random numbers) are new in 1.5.
_SECTIONS = (
    *(f"{how}RandomAccess{which}" for which in ("", "_LCG") for how in ("MPI", "Star", "Single")),
    *("PTRANS", "StarDGEMM", "SingleDGEMM", "StarSTREAM", "SingleSTREAM", "MPIFFT", "StarFFT", "SingleFFT"),
    *("LatencyBandwidth", "HPL"),
)
#: What the head says: the version, then the order of the matrix and how processes are mapped.
_HEAD = re.compile(
    r"HPC Challenge Benchmark version (?P<version>\S+) .*?^N +: +(?P<order>[0-9]+)[ \t\r]*$.*?^PMAP +: +(?P<mapping>\S+)",
    re.M | re.S,
)
#: Lines that say that a check failed, or that something was left out.
_FAILED = re.compile(
    r"^.*(?:\bFAILED\b|\(failed\)|Failed |Node\(s\) with error +(?!0\b)|^Success=0|problem size too large"
    r"|[1-9][0-9]* tests completed and failed|[1-9][0-9]* tests skipped|errors were found|xerbla).*$",
    re.M,
)
_NUMBER, _COUNT = r"[-+]?[0-9]+(?:\.[0-9]+)?(?:e[-+][0-9]+)?", "[1-9][0-9]{0,17}"
_LINE = re.compile(rf"([A-Za-z]\w*)=({_NUMBER}|[A-Za-z])")
#: Of the summary: counts, and numbers beside the results.
_COUNTS = (
    *("VersionMajor", "VersionMinor", "CommWorldProcs", "HPL_N", "HPL_nprow", "HPL_npcol", "PTRANS_nprow", "PTRANS_npcol"),
    *("MPIFFT_N", "MPIFFT_Procs", *(key for result in RESULTS for key in result.problem.values())),
)
_NUMBERS = ("VersionMicro", "Success", "MPIFFT_maxErr", "HPL_eps", *(result.key for result in RESULTS))
#: hpcc holds the error of a transform against this many eps log(n) (FFT/mpifft.c, ``thrsh`` of HPL).
_THRESHOLD = 16.0
#: Versions read, with the lines of their summaries (``HPCC_Finalize``), and what those before 1.5 have not.
_VERSIONS, _NEW_IN_1_5 = {(1, 4): 136, (1, 5): 148}, "_LCG"


def parse(text: str, source: str) -> list[Record]:
    """Records of one run, in the order of the rows.

    :raises OutputError: if it is damaged, mixed up or cut off, a check failed, a part was not run, or hpcc had no input file.
    """

    def wrong(code: str, sentence: str) -> OutputError:
        return OutputError(code, f"{source}: {sentence}.")

    if failed := _FAILED.search(text):
        number, line = text.count("\n", 0, failed.start()) + 1, " ".join(failed[0].split())[:80]
        fault = f"'{line}' says that a check of hpcc failed; its numbers are not used; run the benchmark again."
        raise OutputError("output-damaged", f"{source}, line {number}: {fault}")
    sections = list(_SECTION.finditer(text))
    if not sections:
        raise wrong("output-cut", "the output of hpcc has no whole section; it was cut off, run it again")
    head = _HEAD.search(text)
    if not head or text.count("HPC Challenge Benchmark version") != 1:
        raise wrong("output-damaged", "the head of hpcc's output is damaged or there twice; run the benchmark again")
    if head["mapping"] != "Row-major":
        fault = f"hpcc mapped its processes {head['mapping']} and not Row-major, as without its input file {INPUT}"
        raise wrong("output-mapping", f"{fault}; see that it is in the folder hpcc is started in")
    if sections[-1][1] != _SUMMARY:
        raise wrong("output-cut", "hpcc ended without its summary; the output was cut off, run it again")
    values: dict[str, str] = {}
    for line in filter(None, map(str.strip, sections[-1][2].split("\n"))):
        match = _LINE.fullmatch(line)
        if not match or match[1] in values:
            fault = f"'{one_line(line)[:60]}' is no line of hpcc's summary, or there twice, or no number"
            raise wrong("output-damaged", f"{fault}; run the benchmark again")
        values[match[1]] = match[2]
    for key, shape in (*dict.fromkeys(_COUNTS, _COUNT).items(), *dict.fromkeys(_NUMBERS, _NUMBER).items()):
        if key not in values:
            raise wrong("output-damaged", f"the summary of hpcc lacks {key}; the output is damaged or cut, run it again")
        if not re.fullmatch(shape, values[key]):
            fault = f"{key}={values[key]} in hpcc's summary is no {'count' if shape == _COUNT else 'number'}"
            raise wrong("output-not-measured", f"{fault}; that part was not run, or it is damaged")
    count, number_of = {key: int(values[key]) for key in _COUNTS}, {key: float(values[key]) for key in _NUMBERS}
    version, ranks = (count["VersionMajor"], count["VersionMinor"]), count["CommWorldProcs"]
    if version not in _VERSIONS:
        shown, *known = (".".join(map(str, release)) for release in (version, *_VERSIONS))
        raise wrong("output-release", f"this is hpcc {shown}, and {' and '.join(known)} are read; use one of these")
    if number_of["Success"] != 1:
        raise wrong(
            "output-failed-check", f"the summary says Success={values['Success']}; a check of hpcc failed, run it again"
        )
    if (f"{version[0]}.{version[1]}.{values['VersionMicro']}", values["HPL_N"]) != (head["version"], head["order"]):
        raise wrong("output-mixed", "head and summary are of different runs; outputs are mixed up, run it again")
    grid, transposing = (count[f"{name}_nprow"] * count[f"{name}_npcol"] for name in ("HPL", "PTRANS"))
    if ranks < 2 or grid != ranks:
        raise wrong("output-grid", f"HPL ran on {grid} of {ranks} ranks; hpcc is read where 2 or more all take part")
    if transposing != ranks or count["MPIFFT_Procs"] > ranks:
        fault = f"PTRANS ran on {transposing} ranks, MPIFFT on {count['MPIFFT_Procs']}, of {ranks}"
        raise wrong("output-damaged", f"{fault}; it is damaged, run it again")
    error, bound = number_of["MPIFFT_maxErr"], _THRESHOLD * number_of["HPL_eps"] * math.log(max(count["MPIFFT_N"], 2))
    if not 0 <= error < bound:
        raise wrong("output-wrong-result", f"MPIFFT_maxErr={error:g} is not below {bound:.3g}; the transform is wrong")
    names = [section[1] for section in sections[:-1]]
    wanted = [name for name in _SECTIONS if version >= (1, 5) or _NEW_IN_1_5 not in name]
    if sorted(names) != sorted(wanted):
        odd = next((name for name in [*wanted, *names] if names.count(name) != 1 or name not in wanted), "")
        raise wrong("output-damaged", f"section {odd} of hpcc is missing, unknown or there twice; the output is damaged")
    if len(values) != _VERSIONS[version]:
        fault = f"the summary of hpcc has {len(values)} lines and not {_VERSIONS[version]}"
        raise wrong("output-damaged", f"{fault}; the output is damaged or cut, run it again")
    records = []
    for result in RESULTS:
        value = number_of[result.key]
        if not 0 < value < math.inf:
            raise wrong(
                "output-not-measured", f"{result.key}={values[result.key]}: {result.name} was not run, or measured nothing"
            )
        # How often a ring is gone round is not printed; it is at least once.
        variant, repetitions = (f"N={values['HPL_N']}", None) if result.sized else ("", 1)
        quantities = {result.quantity: float(f"{value * result.scale:.12g}")}
        problem = {size: count[key] for size, key in result.problem.items()}
        records.append(Record(NAME, result.name, ranks, 1, None, repetitions, quantities, variant, problem=problem))
    return records


SUITE = Suite(
    name=NAME,
    title="HPCC",
    first_line=re.compile(r"^[ \t]*This is the DARPA/DOE HPC Challenge Benchmark version ", re.MULTILINE),
    parse=parse,
    rows=ROWS,
    groups=GROUPS,
    arguments=no_arguments,
    options=(MEMORY,),
    files=files,
    result=RESULT,
    variants=variants,
    # It has no option: to say its version it solves the smallest problem, which takes less than a second.
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

"""The HPC Challenge benchmarks: what is taken of a run, under which name, and how it is run at each level."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .. import traffic
from ..benchmark import NO_DATA, SIZELESS, Benchmark
from ..model import Group, Run
from ..options import PRINTED, SuiteOption
from ..plans import Plan, SizeRange, at_levels
from ..traffic import Bound, RunBound
from . import input_file, volume

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
    """``2 n`` messages of 8 bytes, as :func:`ring`."""
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
#: Sizes of the problem of :mod:`.volume`, by their keys.
_SOLVED = {"order": "HPL_N", "block": "HPL_NB", "rows": "HPL_nprow", "columns": "HPL_npcol"}
_TRANSPOSED = {"order": "PTRANS_n", "block": "PTRANS_nb", "rows": "PTRANS_nprow", "columns": "PTRANS_npcol"}
_TRANSFORMED = {"elements": "MPIFFT_N", "processes": "MPIFFT_Procs"}
_UPDATED = {"updates": "MPIRandomAccess_ExeUpdates"}
#: ``Star``: all ranks at the same time, the mean of them; ``Single``: one rank, the others wait. A GB is 1e9 bytes.
RESULTS = (
    Result("HPL", "HPL", _GFLOPS, "HPL_Tflops", 1000, of_run=volume.solution, problem=_SOLVED),
    Result("PTRANS", "PTRANS", _BANDWIDTH, "PTRANS_GBs", 1000, of_run=volume.transposition, problem=_TRANSPOSED),
    Result("StarDGEMM", "*DGEMM", _GFLOPS, "StarDGEMM_Gflops"),
    Result("SingleDGEMM", "", _GFLOPS, "SingleDGEMM_Gflops"),
    Result("StarRandomAccess", "*GUPS", _GUPS, "StarRandomAccess_GUPs"),
    Result("MPIRandomAccess", "GUPS", _GUPS, "MPIRandomAccess_GUPs", of_run=volume.updates, problem=_UPDATED),
    Result("StarSTREAM_Copy", "", _BANDWIDTH, "StarSTREAM_Copy", 1000),
    Result("StarSTREAM_Scale", "", _BANDWIDTH, "StarSTREAM_Scale", 1000),
    Result("StarSTREAM_Add", "", _BANDWIDTH, "StarSTREAM_Add", 1000),
    # The paper does not say which of the four; HPCC's own tables of results have the triad.
    Result("StarSTREAM_Triad", "*STREAM", _BANDWIDTH, "StarSTREAM_Triad", 1000),
    Result("StarFFT", "*FFT", _GFLOPS, "StarFFT_Gflops"),
    Result("MPIFFT", "FFT", _GFLOPS, "MPIFFT_Gflops", of_run=volume.transform, problem=_TRANSFORMED),
    Result("NaturallyOrderedRingLatency", "NRL", _LATENCY, "NaturallyOrderedRingLatency_usec", 1, False, ring_of_pings),
    Result("NaturallyOrderedRingBandwidth", "NRBW", _BANDWIDTH, "NaturallyOrderedRingBandwidth_GBytes", 1000, False, ring),
    Result("RandomlyOrderedRingLatency", "RRL", _LATENCY, "RandomlyOrderedRingLatency_usec", 1, False, ring_of_pings),
    Result("RandomlyOrderedRingBandwidth", "RRBW", _BANDWIDTH, "RandomlyOrderedRingBandwidth_GBytes", 1000, False, ring),
)


def _why_nothing(result: Result) -> str:
    if result.of_run is volume.transposition:
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
    """The input file."""
    return {input_file.INPUT: input_file.write(run.ranks, _mib(run))}


def variants(row: Benchmark, run: Run) -> tuple[str, ...]:
    """The order of the matrix, for rows that depend on it."""
    return (f"N={input_file.find_size(run.ranks, _mib(run))}",) if row.variants == (ANY_SIZE,) else row.variants


def arguments(run: Run) -> list[str]:
    """None: hpcc has no arguments."""
    return []


def sizes(row: Benchmark, plan: Plan, size_range: SizeRange) -> tuple[int | None, ...]:
    """None: no row has a message size."""
    return (None,)

"""Command lines of the Intel MPI Benchmarks, and the sizes each binary then prints."""

from __future__ import annotations

from ..benchmark import ELEMENT, SIZELESS, Benchmark, doubling_sizes
from ..model import Run
from ..plans import Plan, SizeRange
from . import header


def arguments(run: Run) -> list[str]:
    """Arguments of a run: sizes and repetitions, options, benchmarks."""
    return [*_MAKERS.get(run.plan.binary, _common)(run), *run.options, *run.names]


def sizes(row: Benchmark, plan: Plan, size_range: SizeRange) -> tuple[int | None, ...]:
    """Sizes a row prints for these arguments; reductions are of floats, 4 bytes each."""
    if row.sizes == SIZELESS:
        return (None,)
    if row.sizes == ELEMENT:
        return (4,)
    first, largest = 1 << size_range.log2[0], 1 << size_range.log2[1]
    if plan.binary == P2P:
        return doubling_sizes(first, largest, zero=not size_range.log2[0])
    if plan.binary == MT:
        # Printed is what all threads of a rank send together.
        return tuple(size * plan.threads for size in doubling_sizes(first, largest, zero=False))
    if plan.binary == header.ACTIVE:
        return doubling_sizes(4, largest, unit=4)
    return doubling_sizes(first, largest, unit=4 if row.reduction else 1)


def _common(run: Run) -> list[str]:
    """IMB-MPI1, IMB-NBC, IMB-RMA: sizes, repetitions, one number of ranks (IMB User Guide, "Command-line Control")."""
    size_range, ranks, nodes, chosen = run.size_range, run.ranks, run.nodes, run.chosen
    pairs = all(row.ranks == "pair" for row in run.rows)
    # Pairs take two ranks anyway, but IMB from 2019 on leaves Fetch_and_op and Compare_and_swap out, without a word, when
    # npmin is larger (helper_init_scope).
    # Lengths of a file are cut at the largest of -msglog (:meth:`header.Header.sizes`); its smallest says nothing then.
    smallest = 0 if "lengths" in chosen else size_range.log2[0]
    fewest = chosen.get("npmin") or str(min(ranks, 2) if pairs else ranks)
    args = ["-npmin", fewest, "-msglog", f"{smallest}:{size_range.log2[1]}"]
    # The third number is for the non-aggregate mode, which otherwise makes 100 repetitions.
    args += ["-iter", f"{size_range.count},{size_range.volume_mib},{size_range.count}", "-time", str(run.secs)]
    if "map" not in chosen and pairs and nodes > 1 and ranks > nodes:
        # Ranks fill the nodes in blocks: without a map, the pair would be two neighbours on the first node.
        args += ["-map", f"{ranks // nodes}x{nodes}"]
    return args


def _p2p(run: Run) -> list[str]:
    """IMB-P2P; its default pause of 0.1 s around every size is cut to 1 ms (imb_p2p.c, ``-pause``)."""
    size_range = run.size_range
    # `max` alone starts with 0 and 1 byte; `min:max` has no zero.
    logs = f"{size_range.log2[0]}:{size_range.log2[1]}" if size_range.log2[0] else str(size_range.log2[1])
    return ["-msglog", logs, "-iter", f"{size_range.count},{size_range.volume_mib}", "-pause", "1000"]


def _threaded(run: Run) -> list[str]:
    """IMB-MT: counts are of bytes, per thread (MT_suite.cpp)."""
    size_range, threads = run.size_range, run.plan.threads
    counts = ",".join(str(1 << log) for log in range(size_range.log2[0], size_range.log2[1] + 1))
    level = "multiple" if threads > 1 else "single"
    # The same repetitions at every size, so those the largest allows.
    repeat = min(size_range.count, max(1, (size_range.volume_mib << 20) // (threads << size_range.log2[1])))
    return ["-thread_level", level, "-datatype", "char", "-count", counts, "-repeat", str(repeat), "-warmup", "5"]


P2P, MT = "IMB-P2P", "IMB-MT"
_MAKERS = {P2P: _p2p, MT: _threaded}

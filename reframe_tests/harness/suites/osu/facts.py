"""Lines of an OMB output that are neither title, head nor row: how the benchmark ran.

One-sided: ``print_header_one_sided`` in util/osu_util_mpi.c. Pairs: osu_mbw_mr.c. Threads and processes: osu_latency_mt.c,
osu_latency_mp.c, which print them above or below their title, depending on the version. Neighbourhoods, above the title:
``omb_neighborhood_create``, and the programs themselves. Partitions: osu_partitioned_latency.c. Data types: since 7.1, by
programs between pairs of 7.1 and 7.2 below the head of columns. Memory: of builds for accelerators (``print_header``).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..benchmark import Benchmark
from .rows import OVERLAP

WINDOWS = {"MPI_Win_create": "create", "MPI_Win_allocate": "allocate", "MPI_Win_create_dynamic": "dynamic"}
SYNCS = {
    "MPI_Win_lock/unlock": "lock",
    "MPI_Win_post/start/complete/wait": "pscw",
    "MPI_Win_fence": "fence",
    "MPI_Win_flush": "flush",
    "MPI_Win_flush_local": "flush_local",
    "MPI_Win_lock_all/unlock_all": "lock_all",
}
_COUNT = r"(?P<value>[1-9][0-9]*)"


@dataclass(frozen=True)
class Line:
    """One line that says how a benchmark ran.

    :param key: of the fact it says.
    :param words: what is printed, to what it means; empty: as printed.
    """

    key: str
    pattern: re.Pattern[str]
    words: tuple[tuple[str, str], ...] = ()


_ONE_SIDED = (
    Line("window", re.compile(r"# Window creation: (?P<value>\S+)"), words=tuple(WINDOWS.items())),
    Line("sync", re.compile(r"# Synchronization: (?P<value>\S+)"), words=tuple(SYNCS.items())),
)
_PAIRS = (Line("pairs", re.compile(r"# \[ pairs: (?P<value>[1-9][0-9]*) \] \[ window size: (?P<size>[1-9][0-9]*) \]")),)
_THREADS = (
    Line("sender_threads", re.compile(f"# Number of Sender threads: {_COUNT}")),
    Line("receiver_threads", re.compile(f"# Number of Receiver threads: {_COUNT}")),
)
_PROCESSES = (
    Line("sender_processes", re.compile(f"# Number of forked processes in sender: {_COUNT}")),
    Line("receiver_processes", re.compile(f"# Number of forked processes in receiver: {_COUNT}")),
)
_RING = (
    Line("ring", re.compile(rf"Dimensions size = {_COUNT}")),
    Line("setup", re.compile(r"Time took to create topology graph:(?P<value>[0-9]+\.[0-9]{2}) us\.")),
)
_PARTITIONS = (Line("partitions", re.compile(f"# Partitions: {_COUNT}")),)
_OVERLAPPED = (Line("parts", re.compile(r"# Overall = (?P<value>Coll\. Init \+ Compute \+ MPI_Test \+ MPI_Wait)")),)
#: Lines that may stand anywhere above the rows, once. Memory of the host is the only one that is read.
_ANYWHERE = (
    Line("type", re.compile(r"# Datatype: (?P<value>MPI_[A-Z_]+)\.")),
    Line("memory", re.compile(r"# (?:Send Buffer|Rank 0 Memory) on (?P<value>HOST) \(H\) and .* on HOST \(H\)")),
)
#: What is reduced without a word before 7.1. Without ``-T`` it is MPI_CHAR in 7.1 to 7.4 and MPI_INT in 7.5, which print it.
REDUCED = "MPI_FLOAT"

#: On standard error, so anywhere in a file of both streams. osu_get_acc_latency 7.1 always says it: it looks at its types
#: before it has read them.
_ONLY_BYTES = "Benchmark supports only MPI_CHAR. Continuing with MPI_CHAR."

_BY_NAME = {
    "osu_mbw_mr": _PAIRS,
    "osu_latency_mt": _THREADS,
    "osu_latency_mp": _PROCESSES,
    "osu_partitioned_latency": _PARTITIONS,
}
#: Lines that may stand above a title.
_EARLY = (_THREADS, _PROCESSES, _RING)


def lines_of(row: Benchmark) -> tuple[Line, ...]:
    """Lines a benchmark must print before its columns, in order."""
    found = _BY_NAME.get(row.name, ())
    if row.options[:1] == ("-w",):
        found = _ONE_SIDED
    if row.group == "neighbourhood_osu":
        found = _RING
    if row.quantities == OVERLAP and row.name != "osu_partitioned_latency":
        found += _OVERLAPPED
    return found


def take_early(facts: dict[str, str], line: str) -> bool:
    """Put what a line above the title says into the facts; false if it is none that may follow those before it."""
    first = next(iter(facts), "")
    return any(_take_next(lines, facts, line) for lines in _EARLY if not first or lines[0].key == first)


def is_early(line: str) -> bool:
    """Whether a line may stand above a title."""
    return any(each.pattern.fullmatch(line) for lines in _EARLY for each in lines)


def is_of_accelerators(line: str) -> bool:
    """Whether a line says that a buffer is not in the host's memory."""
    return re.search(r"^# (?:Send Buffer|Rank 0 Memory) on .*(?:DEVICE|MANAGED)", line) is not None


def is_note(row: Benchmark, version: tuple[int, ...], line: str) -> bool:
    """Whether a line is what gets and puts since 7.1 say of their type, which is MPI_CHAR whatever is asked for."""
    return line == _ONLY_BYTES and row.name.startswith(("osu_get_", "osu_put_")) and version >= (7, 1)


def early_fits(row: Benchmark, facts: dict[str, str]) -> bool:
    """Whether the lines above a title are those of a benchmark; a neighbourhood always prints all of its own there."""
    keys = [each.key for each in lines_of(row)]
    return list(facts) == keys[: len(facts)] and ("ring" not in keys or "setup" in facts)


def take(lines: tuple[Line, ...], facts: dict[str, str], line: str) -> bool:
    """Put what a line says into the facts; false if it is none of these, comes twice or too early."""
    return _take_next(lines, facts, line) or any(_take_next((each,), facts, line) for each in _ANYWHERE)


def _take_next(lines: tuple[Line, ...], facts: dict[str, str], line: str) -> bool:
    wanted = next((each for each in lines if each.key not in facts), None)
    found = wanted.pattern.fullmatch(line) if wanted else None
    if not wanted or not found:
        return False
    value = dict(wanted.words).get(found["value"], "") if wanted.words else found["value"]
    if not value:
        return False
    facts[wanted.key] = value
    facts.update({key: word for key, word in found.groupdict().items() if key != "value"})
    return True


def variant_of(row: Benchmark, facts: dict[str, str]) -> str:
    """What makes it another measurement: window and synchronisation, window size, threads, parts, a type not the default."""
    words = [facts[key] for key in ("window", "sync") if key in facts]
    words += [f"window={facts['size']}"] if "size" in facts else []
    counted = ("sender_threads", "receiver_threads", "sender_processes", "receiver_processes", "partitions")
    words += [f"{key}={facts[key]}" for key in counted if key in facts]
    usual = REDUCED if row.reduction else "MPI_CHAR"
    words += [f"type={kind}"] if (kind := facts.get("type", usual)) != usual else []
    return ",".join(words)

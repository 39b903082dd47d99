"""Times Barrier and small collectives on the first 2, 4, 8, ... nodes of a job and prints percentiles of each.

A program for the Python of a stack, with mpi4py and nothing else, under its launcher:
``python instrument.py --nodes 2,4 --ppn 1 --repetitions 1000 Barrier Allreduce:8``.

One repetition is the call after an MPI_Barrier of the same ranks; its time is that of the slowest rank, from its own return of
the barrier on. Percentiles are over the repetitions, by the nearest rank (the smallest value that p percent are not above), so
that each is a time that was measured. Ranks that take no part sleep, and look every millisecond whether it is over. The
interpreter adds about 1 us to each call.
"""

from __future__ import annotations

import argparse
import gc
import math
import statistics
import sys
import time
import zlib
from array import array
from collections.abc import Callable
from typing import Any

from mpi4py import MPI

TITLE = "# MPI on growing node counts, format 1"
PERCENTILES = (50, 90, 99)
#: Repetitions that are not counted: connections are made and caches filled.
WARM_UP = 10
#: Seconds before the first message; why, says ``evidence/exchange.py``. Seconds between two looks of an idle rank.
PAUSE_S, LOOK_S = 0.3, 0.001
#: A call, and whether what this rank receives of one more, into an emptied buffer, is right.
Operation = tuple[Callable[[], Any], Callable[[], bool]]


def barrier(comm: Any, size: int) -> Operation:
    return comm.Barrier, lambda: True


def allreduce(comm: Any, size: int) -> Operation:
    """A vector of doubles, whole numbers so that every order of adding gives the same."""
    sent, got = array("d", [float(comm.rank + 1)] * (size // 8)), array("d", bytes(size))
    total = float(comm.size * (comm.size + 1) // 2)

    def run() -> None:
        comm.Allreduce([sent, MPI.DOUBLE], [got, MPI.DOUBLE], MPI.SUM)

    def is_right() -> bool:
        got[:] = array("d", bytes(size))
        run()
        return all(value == total for value in got)

    return run, is_right


def alltoall(comm: Any, size: int) -> Operation:
    """A block for each rank, filled with a byte that tells sender and receiver apart."""

    def known(sender: int, receiver: int) -> int:
        return (7 * sender + 3 * receiver) % 251 + 1

    sent = bytearray().join(bytes([known(comm.rank, other)]) * size for other in range(comm.size))
    wanted = bytearray().join(bytes([known(other, comm.rank)]) * size for other in range(comm.size))
    got = bytearray(len(sent))

    def run() -> None:
        comm.Alltoall([sent, MPI.BYTE], [got, MPI.BYTE])

    def is_right() -> bool:
        got[:] = bytes(len(got))
        run()
        return got == wanted

    return run, is_right


OPERATIONS = {"Barrier": barrier, "Allreduce": allreduce, "Alltoall": alltoall}


def percentile(ordered: list[float], percent: int) -> float:
    """The nearest-rank percentile of values in ascending order."""
    return ordered[max(0, math.ceil(percent / 100 * len(ordered)) - 1)]


def give_up(comm: Any, why: str) -> None:
    sys.stderr.write(f"{why}\n")
    sys.stderr.flush()
    comm.Abort(1)


def measure(comm: Any, operation: Operation, repetitions: int) -> list[float]:
    """Time of the slowest rank in each repetition, in seconds and ascending; on other ranks than the first, nothing."""
    run, is_right = operation
    own, slowest = array("d"), array("d", bytes(8 * repetitions))
    clock = time.perf_counter
    for repetition in range(WARM_UP + repetitions):
        comm.Barrier()
        begin = clock()
        run()
        if repetition >= WARM_UP:
            own.append(clock() - begin)
    if not is_right():
        give_up(MPI.COMM_WORLD, f"rank {comm.rank} of {comm.size} received wrong data")
    comm.Reduce([own, MPI.DOUBLE], [slowest, MPI.DOUBLE] if comm.rank == 0 else None, MPI.MAX, 0)
    return sorted(slowest) if comm.rank == 0 else []


def wait_for_all(comm: Any) -> None:
    """A barrier that costs those who come early nothing."""
    request = comm.Ibarrier()
    while not request.Test():
        time.sleep(LOOK_S)


def read_arguments(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Times small collectives on growing node counts.")
    parser.add_argument("--nodes", required=True, type=lambda text: [int(count) for count in text.split(",")])
    parser.add_argument("--ppn", required=True, type=int, help="ranks of each node, which they fill in blocks")
    parser.add_argument("--repetitions", required=True, type=int)
    parser.add_argument("rows", nargs="+", metavar="NAME[:SIZE,...]")
    return parser.parse_args(words)


def check_nodes(comm: Any, counts: list[int], ppn: int) -> None:
    """End the program unless the first ranks are on as many nodes as is said of them."""
    names = comm.allgather(MPI.Get_processor_name())
    for count in counts:
        there = len(set(names[: count * ppn]))
        if comm.rank == 0 and (there != count or count * ppn > comm.size):
            give_up(comm, f"the first {count * ppn} of {comm.size} ranks are on {there} nodes and not on {count}")
    comm.Barrier()


def main(words: list[str], comm: Any) -> None:
    """Measure on a communicator; the table goes to the standard output of its first rank."""
    asked = read_arguments(words)
    time.sleep(PAUSE_S)
    check_nodes(comm, asked.nodes, asked.ppn)
    checksum, count = 0, 0

    def say(line: str) -> None:
        nonlocal checksum
        if comm.rank == 0:
            checksum = zlib.crc32(f"{line}\n".encode(), checksum)
            sys.stdout.write(f"{line}\n")
            sys.stdout.flush()

    say(TITLE)
    say(f"# {comm.size} ranks, {asked.ppn} a node, MPI_Barrier before each call, time of the slowest rank")
    say(
        f"# {'benchmark':<12} {'nodes':>7} {'bytes':>7} {'repetitions':>12} {'mean[us]':>12} "
        + " ".join(f"{f'p{p}[us]':>12}" for p in PERCENTILES)
    )
    gc.disable()
    groups = [(nodes, comm.Split(0 if comm.rank < nodes * asked.ppn else MPI.UNDEFINED, comm.rank)) for nodes in asked.nodes]
    for row in asked.rows:
        name, _, listed = row.partition(":")
        for nodes, group in groups:
            for size in listed.split(",") if listed else ("-",):
                wait_for_all(comm)
                if group == MPI.COMM_NULL:
                    continue
                times = measure(group, OPERATIONS[name](group, int(size) if listed else 0), asked.repetitions)
                if times:
                    values = (statistics.fmean(times), *(percentile(times, each) for each in PERCENTILES))
                    numbers = " ".join(f"{1e6 * value:>12.3f}" for value in values)
                    say(f"{name:<14} {nodes:>7} {size:>7} {len(times):>12} {numbers}")
                    count += 1
    wait_for_all(comm)
    if comm.rank == 0:
        sys.stdout.write(f"# end: {count} rows, received data all right, CRC-32 {checksum:08x}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:], MPI.COMM_WORLD)

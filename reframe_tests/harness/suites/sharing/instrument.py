"""Copies memory and calls collectives for so many seconds each, at the same time as other programs on the node.

A program for the Python of a stack, with mpi4py and nothing else, under its launcher:
``python instrument.py --seconds 1 Copy:65536,16777216 Allreduce:8 --program 1 3 --meet FOLDER``. It is program 1 of 3 and,
before each row of its table, waits until the other two are there as well; without ``--meet`` it runs alone.

A row is measured for a time and not for a number of repetitions, so that a program that gets half a core runs as long as one
that gets a whole one. Its time is that of the slowest rank, and it says from when to when it was measured (CLOCK_MONOTONIC,
which all processes of a node share). Ranks go on together in batches of some milliseconds. The interpreter adds about 1 us to
each call.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
import zlib
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mpi4py import MPI

TITLE = "# MPI programs side by side, format 1"
#: Calls before those that are timed, and seconds of calls between two looks at the clock that all ranks share.
WARM_UP, BATCH_S = 5, 0.005
#: Seconds before the first message; why, says ``evidence/exchange.py``. Seconds between two looks of those who wait.
PAUSE_S, LOOK_S = 0.3, 0.001
#: Seconds after which a program no longer waits for the others: the start of a launcher takes a few.
PATIENCE_S = 45.0
#: A call, and whether what this rank has of one more, into an emptied buffer, is right.
Operation = tuple[Callable[[], Any], Callable[[], bool]]


def copy(comm: Any, size: int) -> Operation:
    """From one buffer of a rank to another."""
    sent, got = bytearray(bytes(range(1, 252)) * (size // 251 + 1))[:size], bytearray(size)
    there = memoryview(got)

    def run() -> None:
        there[:] = sent

    def is_right() -> bool:
        there[:] = bytes(size)
        run()
        return got == sent

    return run, is_right


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


OPERATIONS = {"Copy": copy, "Allreduce": allreduce, "Alltoall": alltoall}


def give_up(comm: Any, why: str) -> None:
    sys.stderr.write(f"error: {why}\n")
    sys.stderr.flush()
    comm.Abort(1)


def meet(comm: Any, folder: Path | None, program: int, programs: int, section: int) -> None:
    """Wait until all programs are at a section; ranks that wait sleep, so that they cost those who come late nothing."""
    if comm.rank == 0 and folder:
        (folder / f"{section}.{program}").touch()
        others = [folder / f"{section}.{other}" for other in range(1, programs + 1)]
        late = time.monotonic() + PATIENCE_S
        while missing := [path for path in others if not path.exists()]:
            if time.monotonic() > late:
                number = missing[0].suffix[1:]
                give_up(
                    comm, f"program {program} of {programs} timed out after waiting {PATIENCE_S:.0f} s for program {number}"
                )
            time.sleep(LOOK_S)
    request = comm.Ibarrier()
    while not request.Test():
        time.sleep(LOOK_S)


def measure(comm: Any, operation: Operation, seconds: float, wait: Callable[[], None]) -> tuple[int, int, int, float]:
    """Repetitions, the first rank's begin and the last one's end in ns, and the slowest rank's time of a repetition in seconds;
    of use on the first rank only.
    """
    run, is_right = operation
    if not is_right():
        give_up(comm, f"rank {comm.rank} of {comm.size} received wrong data")
    clock, now = time.perf_counter, time.monotonic_ns
    began = clock()
    for _ in range(WARM_UP):
        run()
    batch = comm.bcast(max(1, int(BATCH_S * WARM_UP / max(clock() - began, 1e-9))))
    wait()
    comm.Barrier()
    begin = end = now()
    own, count = 0.0, 0
    going = True
    while going:
        started = clock()
        for _ in range(batch):
            run()
        own += clock() - started
        count += batch
        end = now()
        # No rank goes on before the others: one that has a core for itself would be done long before one that has not.
        going = comm.allreduce(end - begin < seconds * 1e9, MPI.LAND)
    slowest, first, last = (comm.reduce(value, which) for value, which in ((own, MPI.MAX), (begin, MPI.MIN), (end, MPI.MAX)))
    return count, first or begin, last or end, (slowest or 0.0) / count


def read_arguments(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Copies and collectives, at the same time as other programs.")
    parser.add_argument("--seconds", required=True, type=float, help="of each benchmark and size")
    which: dict[str, Any] = {"nargs": 2, "type": int, "default": (1, 1), "metavar": ("NUMBER", "PROGRAMS")}
    parser.add_argument("--program", **which, help="which it is of how many; 1 of 1 by default")
    parser.add_argument("--meet", type=Path, metavar="FOLDER", help="where the programs meet; without, it runs alone")
    parser.add_argument("rows", nargs="+", metavar="NAME:SIZE,...")
    return parser.parse_args(words)


def main(words: list[str], comm: Any) -> None:
    """Measure on a communicator; the table goes to the standard output of its first rank."""
    asked = read_arguments(words)
    program, programs = asked.program
    how = "at the same time as the others" if asked.meet else "alone"
    time.sleep(PAUSE_S)
    checksum, section = 0, 0

    def say(line: str) -> None:
        nonlocal checksum
        if comm.rank == 0:
            checksum = zlib.crc32(f"{line}\n".encode(), checksum)
            sys.stdout.write(f"{line}\n")
            sys.stdout.flush()

    say(TITLE)
    say(f"# program {program} of {programs}, {how}, {comm.size} ranks, time of the slowest rank, CLOCK_MONOTONIC")
    say(
        f"# {'benchmark':<12} {'bytes':>9} {'repetitions':>12} {'from[ns]':>18} {'to[ns]':>18} "
        f"{'t_max[us]':>14} {'bandwidth[MB/s]':>16}"
    )
    gc.disable()
    for row in asked.rows:
        name, _, listed = row.partition(":")
        for size in map(int, listed.split(",")):
            section += 1

            def wait(section: int = section) -> None:
                meet(comm, asked.meet, program, programs, section)

            count, begin, end, seconds = measure(comm, OPERATIONS[name](comm, size), asked.seconds, wait)
            rate = f"{comm.size * size / seconds / 1e6:.3f}" if name == "Copy" and seconds else "-"
            say(f"{name:<14} {size:>9} {count:>12} {begin:>18} {end:>18} {1e6 * seconds:>14.3f} {rate:>16}")
    if comm.rank == 0:
        sys.stdout.write(f"# end: {section} rows, received data all right, CRC-32 {checksum:08x}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:], MPI.COMM_WORLD)

"""Times one MPI collective at several sizes, or counts the messages that one call of it sends, and prints a table.

A program for the Python of a stack, with mpi4py and nothing else, under its launcher:
``python instrument.py --algorithm 3 --sizes 8,1024 --repetitions 200 --volume-mib 64 --budget-s 2 Allreduce``.

One repetition is the call after an MPI_Barrier; its time is that of the slowest rank, from its own return of the barrier on.
Printed is the median over the repetitions, as many as fit the size's share of the budget. The label of the algorithm is only
printed: what sets it is the environment. The program asks for MPI_THREAD_SINGLE, because libraries choose other algorithms for
programs of several threads (MPICH's release-gather). The interpreter adds about 1 us to each call.

``--count`` times nothing: it reads, before and after one call, how many messages and bytes each rank has sent to each other,
from the MPI_T performance variables ``pml_monitoring_messages_count`` and ``_size`` of Open MPI (ompi/mca/common/monitoring,
``OMPI_MCA_pml_monitoring_enable=1``), and prints both sums and a checksum over who sent what to whom.

``--call`` calls the collective once at each size, compares the data, and calls nothing but MPI_Barrier beside it, for
libraries that are made to end if any call is not done as it was set.

Sizes: bytes of one rank's block; of reductions and Bcast, of the whole vector (of Reduce_scatter, that of all ranks together).
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import re
import statistics
import sys
import time
import zlib
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mpi4py

mpi4py.rc(thread_level="single")

from mpi4py import MPI  # noqa: E402  (MPI_Init happens in this line)

TITLE = "# MPI collective times, format 1"
COUNT_TITLE = "# MPI collective message counts, format 1"
CALL_TITLE = "# MPI collective calls, format 1"
ROOT, PAUSE_S = 0, 0.3
#: Repetitions that are not counted, those that are in any case, and those between two looks at the clock.
WARM_UP, FEWEST, AT_ONCE = 2, 3, 16
#: Position of MPI_T_PVAR_CLASS_SIZE in Open MPI's enumeration (ompi/include/mpi.h.in).
SIZE_CLASS = 2
#: A call, and whether what this rank receives of one more, into an emptied buffer, is right.
Operation = tuple[Callable[[], Any], Callable[[], bool]]


def known(sender: int, receiver: int) -> int:
    """A byte that tells sender and receiver apart."""
    return (7 * sender + 3 * receiver) % 251 + 1


class Collectives:
    """The collectives on one communicator; each method takes a size in bytes."""

    def __init__(self, comm: Any) -> None:
        self.comm, self.rank, self.size = comm, comm.rank, comm.size
        self.is_root = comm.rank == ROOT

    def _bytes(self, call: Callable[[], Any], got: bytearray, wanted: bytes) -> Operation:
        def is_right() -> bool:
            got[:] = bytes(len(got))
            call()
            return got == wanted

        return call, is_right

    def _sums(self, call: Callable[[], Any], got: array[float], wanted: float, receives: bool = True) -> Operation:
        def is_right() -> bool:
            got[:] = array("f", bytes(4 * len(got)))
            call()
            return not receives or got == array("f", [wanted]) * len(got)

        return call, is_right

    def _blocks(self, size: int, receiver: int) -> bytes:
        """What one rank receives of all."""
        return b"".join(bytes([known(sender, receiver)]) * size for sender in range(self.size))

    def _own_blocks(self, size: int) -> bytearray:
        """What this rank sends to all, one block each."""
        return bytearray().join(bytes([known(self.rank, other)]) * size for other in range(self.size))

    def _numbers(self, count: int) -> array[float]:
        """Whole numbers, so that every order of adding gives the same."""
        return array("f", [float(self.rank % 7 + 1)]) * count

    def _total(self, ranks: int) -> float:
        return float(sum(rank % 7 + 1 for rank in range(ranks)))

    def _uneven(self, size: int) -> tuple[list[int], list[int]]:
        """Counts and displacements of equal blocks, for calls that take lists."""
        return [size] * self.size, [size * rank for rank in range(self.size)]

    def bcast(self, size: int) -> Operation:
        wanted = bytes([known(ROOT, 1)]) * size
        got = bytearray(wanted)

        def is_right() -> bool:
            got[:] = wanted if self.is_root else bytes(size)
            self.comm.Bcast([got, MPI.BYTE], ROOT)
            return got == wanted

        return lambda: self.comm.Bcast([got, MPI.BYTE], ROOT), is_right

    def gather(self, size: int) -> Operation:
        sent, got = bytes([known(self.rank, ROOT)]) * size, bytearray(size * self.size if self.is_root else 0)
        there = [got, MPI.BYTE] if self.is_root else None
        wanted = self._blocks(size, ROOT) if self.is_root else b""
        return self._bytes(lambda: self.comm.Gather([sent, MPI.BYTE], there, ROOT), got, wanted)

    def gatherv(self, size: int) -> Operation:
        sent, got = bytes([known(self.rank, ROOT)]) * size, bytearray(size * self.size if self.is_root else 0)
        there = [got, self._uneven(size), MPI.BYTE] if self.is_root else None
        wanted = self._blocks(size, ROOT) if self.is_root else b""
        return self._bytes(lambda: self.comm.Gatherv([sent, MPI.BYTE], there, ROOT), got, wanted)

    def scatter(self, size: int) -> Operation:
        here = [self._own_blocks(size), MPI.BYTE] if self.is_root else None
        got = bytearray(size)
        wanted = bytes([known(ROOT, self.rank)]) * size
        return self._bytes(lambda: self.comm.Scatter(here, [got, MPI.BYTE], ROOT), got, wanted)

    def scatterv(self, size: int) -> Operation:
        here = [self._own_blocks(size), self._uneven(size), MPI.BYTE] if self.is_root else None
        got = bytearray(size)
        wanted = bytes([known(ROOT, self.rank)]) * size
        return self._bytes(lambda: self.comm.Scatterv(here, [got, MPI.BYTE], ROOT), got, wanted)

    def allgather(self, size: int) -> Operation:
        sent, got = bytes([known(self.rank, 0)]) * size, bytearray(size * self.size)
        return self._bytes(lambda: self.comm.Allgather([sent, MPI.BYTE], [got, MPI.BYTE]), got, self._blocks(size, 0))

    def allgatherv(self, size: int) -> Operation:
        sent, got, there = bytes([known(self.rank, 0)]) * size, bytearray(size * self.size), self._uneven(size)
        return self._bytes(lambda: self.comm.Allgatherv([sent, MPI.BYTE], [got, there, MPI.BYTE]), got, self._blocks(size, 0))

    def alltoall(self, size: int) -> Operation:
        sent, got = self._own_blocks(size), bytearray(size * self.size)
        wanted = self._blocks(size, self.rank)
        return self._bytes(lambda: self.comm.Alltoall([sent, MPI.BYTE], [got, MPI.BYTE]), got, wanted)

    def alltoallv(self, size: int) -> Operation:
        sent, got, there = self._own_blocks(size), bytearray(size * self.size), self._uneven(size)
        wanted = self._blocks(size, self.rank)
        return self._bytes(lambda: self.comm.Alltoallv([sent, there, MPI.BYTE], [got, there, MPI.BYTE]), got, wanted)

    def allreduce(self, size: int) -> Operation:
        sent, got = self._numbers(size // 4), array("f", bytes(size))
        call = lambda: self.comm.Allreduce([sent, MPI.FLOAT], [got, MPI.FLOAT], MPI.SUM)  # noqa: E731
        return self._sums(call, got, self._total(self.size))

    def reduce(self, size: int) -> Operation:
        sent, got = self._numbers(size // 4), array("f", bytes(size))
        there = [got, MPI.FLOAT] if self.is_root else None
        call = lambda: self.comm.Reduce([sent, MPI.FLOAT], there, MPI.SUM, ROOT)  # noqa: E731
        return self._sums(call, got, self._total(self.size), self.is_root)

    def reduce_scatter_block(self, size: int) -> Operation:
        count = max(1, size // 4 // self.size)
        sent, got = self._numbers(count * self.size), array("f", bytes(4 * count))
        call = lambda: self.comm.Reduce_scatter_block([sent, MPI.FLOAT], [got, MPI.FLOAT], MPI.SUM)  # noqa: E731
        return self._sums(call, got, self._total(self.size))

    def reduce_scatter(self, size: int) -> Operation:
        count = max(1, size // 4 // self.size)
        sent, got = self._numbers(count * self.size), array("f", bytes(4 * count))
        counts = [count] * self.size
        call = lambda: self.comm.Reduce_scatter([sent, MPI.FLOAT], [got, MPI.FLOAT], counts, MPI.SUM)  # noqa: E731
        return self._sums(call, got, self._total(self.size))

    def scan(self, size: int) -> Operation:
        sent, got = self._numbers(size // 4), array("f", bytes(size))
        call = lambda: self.comm.Scan([sent, MPI.FLOAT], [got, MPI.FLOAT], MPI.SUM)  # noqa: E731
        return self._sums(call, got, self._total(self.rank + 1))


def give_up(comm: Any, why: str) -> None:
    sys.stderr.write(f"{why}\n")
    sys.stderr.flush()
    comm.Abort(1)


def measure(comm: Any, operation: Operation, most: int, budget_s: float) -> list[float]:
    """Time of the slowest rank in each repetition, in seconds; on other ranks than the root, nothing."""
    run, _ = operation
    own, clock, more = array("d"), time.perf_counter, array("i", [WARM_UP + FEWEST])
    started = clock()
    while more[0]:
        for _each in range(more[0]):
            comm.Barrier()
            begin = clock()
            run()
            own.append(clock() - begin)
        # The root alone knows how many more there is time for.
        spent, done = clock() - started, len(own)
        fitting = int((budget_s - spent) / (spent / done)) if spent else AT_ONCE
        more[0] = max(min(fitting, most + WARM_UP - done, max(AT_ONCE, done)), 0)
        comm.Bcast([more, MPI.INT], ROOT)
    own = own[WARM_UP:]
    slowest = array("d", bytes(8 * len(own)))
    comm.Reduce([own, MPI.DOUBLE], [slowest, MPI.DOUBLE] if comm.rank == ROOT else None, MPI.MAX, ROOT)
    return list(slowest) if comm.rank == ROOT else []


class Counters:
    """What a rank has sent to each other one, as the library counts it."""

    NAMES = (b"pml_monitoring_messages_count", b"pml_monitoring_messages_size")

    def __init__(self, comm: Any) -> None:
        paths = re.findall(r"(/\S*/libmpi\.so\S*)$", Path("/proc/self/maps").read_text(), re.M)
        if not paths:
            raise OSError("no libmpi.so is loaded")
        self.library, self.comm = ctypes.CDLL(paths[0]), comm
        level = ctypes.c_int()
        self._do("MPI_T_init_thread", 0, ctypes.byref(level))
        self.session = ctypes.c_void_p()
        self._do("MPI_T_pvar_session_create", ctypes.byref(self.session))
        self.handles = [self._open(name) for name in self.NAMES]

    def _do(self, name: str, *arguments: Any) -> None:
        if status := getattr(self.library, name)(*arguments):
            raise OSError(f"{name} failed with {status}: the library does not count messages")

    def _open(self, name: bytes) -> Any:
        index, count, handle = ctypes.c_int(), ctypes.c_int(), ctypes.c_void_p()
        self._do("MPI_T_pvar_get_index", name, SIZE_CLASS, ctypes.byref(index))
        place = ctypes.c_void_p(MPI._addressof(self.comm))
        self._do("MPI_T_pvar_handle_alloc", self.session, index, place, ctypes.byref(handle), ctypes.byref(count))
        self._do("MPI_T_pvar_start", self.session, handle)
        return handle

    def read(self) -> list[int]:
        """Messages to each rank, then bytes to each rank."""
        found: list[int] = []
        for handle in self.handles:
            values = (ctypes.c_uint64 * self.comm.size)()
            self._do("MPI_T_pvar_read", self.session, handle, values)
            found += list(values)
        return found


def count(comm: Any, counters: Counters, operation: Operation) -> tuple[int, int, int]:
    """Messages and bytes that all ranks send in one call, and a checksum of who sends what to whom; zeros beside the root."""
    run, _ = operation
    run()
    comm.Barrier()
    before = counters.read()
    run()
    sent = array("q", [after - was for after, was in zip(counters.read(), before, strict=True)])
    everyone = array("q", bytes(8 * len(sent) * comm.size)) if comm.rank == ROOT else None
    comm.Gather([sent, MPI.LONG_LONG], [everyone, MPI.LONG_LONG] if everyone is not None else None, ROOT)
    if everyone is None:
        return 0, 0, 0
    rows = [everyone[at : at + len(sent)] for at in range(0, len(everyone), len(sent))]
    messages, volume = (sum(sum(row[part]) for row in rows) for part in (slice(comm.size), slice(comm.size, None)))
    return messages, volume, zlib.crc32(everyone.tobytes())


def read_arguments(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Times a collective, or counts its messages.")
    parser.add_argument("--algorithm", required=True, help="label of what the environment sets")
    parser.add_argument("--sizes", required=True, type=lambda text: [int(size) for size in text.split(",")])
    parser.add_argument("--repetitions", type=int, default=200, help="most repetitions of a size")
    parser.add_argument("--volume-mib", type=int, default=64, help="MiB of a size after which fewer repetitions are made")
    parser.add_argument("--budget-s", type=float, default=2.0, help="seconds for all sizes together")
    parser.add_argument("--count", action="store_true", help="count messages and time nothing")
    parser.add_argument("--call", action="store_true", help="call it once, and nothing else but MPI_Barrier")
    parser.add_argument("collective")
    return parser.parse_args(words)


def call_each(comm: Any, make: Callable[[int], Operation], asked: argparse.Namespace) -> None:
    """Call the collective at each size and compare the data; nothing else is called but MPI_Barrier."""
    for size in asked.sizes:
        if not make(size)[1]():
            give_up(comm, f"{asked.collective} of {size} bytes: rank {comm.rank} of {comm.size} received wrong data")
        comm.Barrier()
    if comm.rank == ROOT:
        sys.stdout.write(f"{CALL_TITLE}\n# {asked.collective}: {len(asked.sizes)} sizes, received data all right\n")
        sys.stdout.flush()


def main(words: list[str], comm: Any) -> None:
    """Measure on a communicator; the table goes to the standard output of its root."""
    asked = read_arguments(words)
    time.sleep(PAUSE_S)
    calls, checksum, rows = Collectives(comm), 0, 0

    def say(line: str) -> None:
        nonlocal checksum
        if comm.rank == ROOT:
            checksum = zlib.crc32(f"{line}\n".encode(), checksum)
            sys.stdout.write(f"{line}\n")
            sys.stdout.flush()

    make = getattr(calls, asked.collective.lower())
    if asked.call:
        call_each(comm, make, asked)
        return
    counters = Counters(comm) if asked.count else None
    if counters:
        titles = f"{'messages':>12} {'sent[bytes]':>14} {'pattern':>10}"
        say(COUNT_TITLE)
        say(f"# {comm.size} ranks, MPI_THREAD_SINGLE, one call")
    else:
        titles = f"{'repetitions':>12} {'p50[us]':>14}"
        say(TITLE)
        say(f"# {comm.size} ranks, MPI_THREAD_SINGLE, MPI_Barrier before each call, time of the slowest rank")
    say(f"# {'benchmark':<20} {'algorithm':<28} {'bytes':>10} {titles}")
    gc.disable()
    clock, ends = time.perf_counter, time.perf_counter() + asked.budget_s
    for size in asked.sizes:
        operation = make(size)
        if not operation[1]():
            give_up(comm, f"{asked.collective} of {size} bytes: rank {comm.rank} of {comm.size} received wrong data")
        if counters:
            messages, volume, pattern = count(comm, counters, operation)
            numbers = f"{messages:>12} {volume:>14} {pattern:>10x}"
        else:
            most = max(FEWEST, min(asked.repetitions, (asked.volume_mib << 20) // size))
            times = measure(comm, operation, most, max(0.0, ends - clock()) / (len(asked.sizes) - rows))
            numbers = f"{len(times):>12} {1e6 * statistics.median(times or [0.0]):>14.3f}"
        say(f"{asked.collective:<22} {asked.algorithm:<28} {size:>10} {numbers}")
        rows += 1
        del operation
        gc.collect()
    if comm.rank == ROOT:
        sys.stdout.write(f"# end: {rows} rows, received data all right, CRC-32 {checksum:08x}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:], MPI.COMM_WORLD)

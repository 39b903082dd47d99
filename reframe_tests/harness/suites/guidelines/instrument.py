"""Times each MPI call against what could replace it, one after the other in one program, and prints a table.

A program for the Python of a stack, with mpi4py and nothing else, under its launcher:
``python instrument.py --sizes 16,64 --repetitions 1000 --budget-s 20 GUIDELINE...``.

Guidelines are those of Träff, Gropp and Thakur ("Self-consistent MPI performance guidelines", IEEE TPDS 21:698, 2010) in the
selection of PGMPI (Hunold, Carpen-Amarie, Lübbe, Träff: "Automatic verification of self-consistent MPI performance
guidelines", Euro-Par 2016): a call should not take longer than a mock-up of it made of other calls, than itself with more
data, or than the same data in parts. The mock-up really runs, with the copies it needs.

One repetition is call and mock-up, each after an MPI_Barrier, in the order A B B A over the repetitions, so that what drifts
hits both alike. The time of each is that of the slowest rank, from its own return of the barrier on. Printed are medians over
the repetitions: of both times, and of their ratio within a repetition. Repetitions are added until the row's share of the
budget is used; what a row leaves over, later ones may use. The interpreter adds about 1 us to each call. Each row is
compared and timed :data:`FEWEST` times in any case, for which time is set aside once its size has shown how much.

Sizes: Gather, Allgather, Scatter, Alltoall: bytes of one rank's block; all others: bytes of the whole vector.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import sys
import time
import zlib
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from mpi4py import MPI

TITLE = "# MPI performance guidelines, format 1"
#: Times more data of a larger message, and parts of one that is split.
FACTOR = 4
#: Repetitions of a row in any case: one in each order.
FEWEST = 2
#: Repetitions between two looks at the clock, at most: a look costs a broadcast, and a busy machine is only seen then.
MOST_AT_ONCE = 16
#: Root of all calls, and seconds before the first message; why, says ``evidence/exchange.py``.
ROOT, PAUSE_S = 0, 0.3
#: Periods of the known data: coprime to the usual block sizes, so that a block in another's place shows.
BYTE_PERIOD, FLOAT_PERIOD, RANK_PERIOD = 251, 89, 7


@dataclass(frozen=True)
class Operation:
    """One call, or what replaces it, with its buffers; it gives what this rank received with what it should have."""

    run: Callable[[], Any]
    received: Callable[[], Iterator[tuple[Any, Any]]]


def block(rank: int, size: int) -> bytes:
    """Known bytes of a rank."""
    first = rank % BYTE_PERIOD
    return bytes((at + first) % BYTE_PERIOD for at in range(BYTE_PERIOD)) * (size // BYTE_PERIOD + 1)


def floats(factor: int, count: int) -> array[float]:
    """Known numbers, whole so that every order of adding gives the same."""
    period = [float(factor * (at + 1)) for at in range(FLOAT_PERIOD)]
    return array("f", period * (count // FLOAT_PERIOD + 1))[:count]


class Calls:
    """The calls and their mock-ups on one communicator; each method takes a size in bytes and gives an :class:`Operation`."""

    def __init__(self, comm: Any) -> None:
        self.comm = comm
        self.rank: int = comm.rank
        self.size: int = comm.size
        self.is_root = self.rank == ROOT
        self.factors = [rank % RANK_PERIOD + 1 for rank in range(self.size)]

    # Buffers and what they should hold.
    def own(self, size: int) -> bytes:
        return block(self.rank, size)[:size]

    def whole(self, size: int) -> bytearray:
        """Blocks of all ranks on the root, room for them on the others."""
        return bytearray().join(block(rank, size)[:size] for rank in range(self.size)) if self.is_root else self.room(size)

    def room(self, size: int) -> bytearray:
        return bytearray(size * self.size)

    def numbers(self, count: int) -> array[float]:
        return floats(self.factors[self.rank], count)

    def zeros(self, count: int) -> array[float]:
        return array("f", bytes(4 * count))

    def sums(self, count: int) -> array[float]:
        return floats(sum(self.factors), count)

    def blocks_of(self, got: Any, size: int) -> Iterator[tuple[Any, Any]]:
        for rank in range(self.size):
            yield memoryview(got)[rank * size : (rank + 1) * size], block(rank, size)[:size]

    def on_root(self, rows: Iterator[tuple[Any, Any]]) -> Iterator[tuple[Any, Any]]:
        return rows if self.is_root else iter(())

    def at_root(self, buffer: Any, kind: Any) -> Any:
        return [buffer, kind] if self.is_root else None

    # Blocks.
    def gather(self, size: int) -> Operation:
        own, got = self.own(size), self.room(size if self.is_root else 0)
        return Operation(
            lambda: self.comm.Gather([own, MPI.BYTE], self.at_root(got, MPI.BYTE), ROOT),
            lambda: self.on_root(self.blocks_of(got, size)),
        )

    def gather_by_allgather(self, size: int) -> Operation:
        found = self.allgather(size)
        return Operation(found.run, lambda: self.on_root(found.received()))

    def gather_by_reduce(self, size: int) -> Operation:
        own, padded, got = self.own(size), self.room(size), self.room(size if self.is_root else 0)

        def run() -> None:
            padded[self.rank * size : (self.rank + 1) * size] = own
            self.comm.Reduce([padded, MPI.BYTE], self.at_root(got, MPI.BYTE), MPI.BOR, ROOT)

        return Operation(run, lambda: self.on_root(self.blocks_of(got, size)))

    def allgather(self, size: int) -> Operation:
        own, got = self.own(size), self.room(size)
        return Operation(
            lambda: self.comm.Allgather([own, MPI.BYTE], [got, MPI.BYTE]),
            lambda: self.blocks_of(got, size),
        )

    def allgather_by_alltoall(self, size: int) -> Operation:
        own, copies, got = self.own(size), self.room(size), self.room(size)

        def run() -> None:
            for start in range(0, size * self.size, size):
                copies[start : start + size] = own
            self.comm.Alltoall([copies, MPI.BYTE], [got, MPI.BYTE])

        return Operation(run, lambda: self.blocks_of(got, size))

    def allgather_by_allreduce(self, size: int) -> Operation:
        own, padded, got = self.own(size), self.room(size), self.room(size)

        def run() -> None:
            padded[self.rank * size : (self.rank + 1) * size] = own
            self.comm.Allreduce([padded, MPI.BYTE], [got, MPI.BYTE], MPI.BOR)

        return Operation(run, lambda: self.blocks_of(got, size))

    def allgather_by_gather_bcast(self, size: int) -> Operation:
        own, got = self.own(size), self.room(size)

        def run() -> None:
            self.comm.Gather([own, MPI.BYTE], self.at_root(got, MPI.BYTE), ROOT)
            self.comm.Bcast([got, MPI.BYTE], ROOT)

        return Operation(run, lambda: self.blocks_of(got, size))

    def scatter(self, size: int) -> Operation:
        sent, got = self.whole(size) if self.is_root else b"", bytearray(size)
        return Operation(
            lambda: self.comm.Scatter(self.at_root(sent, MPI.BYTE), [got, MPI.BYTE], ROOT),
            lambda: iter([(got, self.own(size))]),
        )

    def scatter_by_bcast(self, size: int) -> Operation:
        everything, got = self.whole(size), bytearray(size)

        def run() -> None:
            self.comm.Bcast([everything, MPI.BYTE], ROOT)
            got[:] = memoryview(everything)[self.rank * size : (self.rank + 1) * size]

        return Operation(run, lambda: iter([(got, self.own(size))]))

    def alltoall(self, size: int) -> Operation:
        got = self.room(size)
        sent = bytearray().join(block(self.rank + 3 * to, size)[:size] for to in range(self.size))
        wanted = (block(rank + 3 * self.rank, size)[:size] for rank in range(self.size))
        return Operation(
            lambda: self.comm.Alltoall([sent, MPI.BYTE], [got, MPI.BYTE]),
            lambda: ((memoryview(got)[at * size : (at + 1) * size], each) for at, each in enumerate(wanted)),
        )

    def bcast(self, size: int) -> Operation:
        wanted = block(ROOT, size)[:size]
        got = bytearray(wanted if self.is_root else size)
        return Operation(lambda: self.comm.Bcast([got, MPI.BYTE], ROOT), lambda: iter([(got, wanted)]))

    def bcast_by_scatter_allgather(self, size: int) -> Operation:
        part, wanted = -(-size // self.size), block(ROOT, size)[:size]
        mine, padded = bytearray(part), self.room(part)
        if self.is_root:
            padded[:size] = wanted

        def run() -> None:
            self.comm.Scatter(self.at_root(padded, MPI.BYTE), [mine, MPI.BYTE], ROOT)
            self.comm.Allgather([mine, MPI.BYTE], [padded, MPI.BYTE])

        return Operation(run, lambda: iter([(memoryview(padded)[:size], wanted)]))

    # Vectors that are added up.
    def reduce(self, size: int) -> Operation:
        sent, got = self.numbers(size // 4), self.zeros(size // 4)
        return Operation(
            lambda: self.comm.Reduce([sent, MPI.FLOAT], self.at_root(got, MPI.FLOAT), MPI.SUM, ROOT),
            lambda: self.on_root(iter([(got, self.sums(size // 4))])),
        )

    def reduce_by_allreduce(self, size: int) -> Operation:
        found = self.allreduce(size)
        return Operation(found.run, lambda: self.on_root(found.received()))

    def _added_in_blocks(self, size: int, join: Callable[[Any, Any], None]) -> tuple[Callable[[], None], Any]:
        """Reduce_scatter_block of a padded vector, and what joins its blocks (part, whole)."""
        count = -(-size // 4 // self.size)
        sent, part, got = self.numbers(count * self.size), self.zeros(count), self.zeros(count * self.size)

        def run() -> None:
            self.comm.Reduce_scatter_block([sent, MPI.FLOAT], [part, MPI.FLOAT], MPI.SUM)
            join(part, got)

        return run, memoryview(got)[: size // 4]

    def reduce_by_reduce_scatter_block_gather(self, size: int) -> Operation:
        run, got = self._added_in_blocks(
            size, lambda part, all_: self.comm.Gather([part, MPI.FLOAT], self.at_root(all_, MPI.FLOAT), ROOT)
        )
        return Operation(run, lambda: self.on_root(iter([(got, self.sums(size // 4))])))

    def allreduce(self, size: int) -> Operation:
        sent, got = self.numbers(size // 4), self.zeros(size // 4)
        return Operation(
            lambda: self.comm.Allreduce([sent, MPI.FLOAT], [got, MPI.FLOAT], MPI.SUM),
            lambda: iter([(got, self.sums(size // 4))]),
        )

    def allreduce_by_reduce_bcast(self, size: int) -> Operation:
        sent, got = self.numbers(size // 4), self.zeros(size // 4)

        def run() -> None:
            self.comm.Reduce([sent, MPI.FLOAT], self.at_root(got, MPI.FLOAT), MPI.SUM, ROOT)
            self.comm.Bcast([got, MPI.FLOAT], ROOT)

        return Operation(run, lambda: iter([(got, self.sums(size // 4))]))

    def allreduce_by_reduce_scatter_block_allgather(self, size: int) -> Operation:
        run, got = self._added_in_blocks(size, lambda part, all_: self.comm.Allgather([part, MPI.FLOAT], [all_, MPI.FLOAT]))
        return Operation(run, lambda: iter([(got, self.sums(size // 4))]))

    def _own_block(self, count: int) -> Any:
        return memoryview(self.sums(count * self.size))[self.rank * count : (self.rank + 1) * count]

    def reduce_scatter_block(self, size: int) -> Operation:
        count = max(1, size // 4 // self.size)
        sent, got = self.numbers(count * self.size), self.zeros(count)
        return Operation(
            lambda: self.comm.Reduce_scatter_block([sent, MPI.FLOAT], [got, MPI.FLOAT], MPI.SUM),
            lambda: iter([(got, self._own_block(count))]),
        )

    def reduce_scatter_block_by_reduce_scatter(self, size: int) -> Operation:
        """MPI_Reduce, then MPI_Scatter."""
        count = max(1, size // 4 // self.size)
        sent, whole, got = self.numbers(count * self.size), self.zeros(count * self.size), self.zeros(count)

        def run() -> None:
            self.comm.Reduce([sent, MPI.FLOAT], self.at_root(whole, MPI.FLOAT), MPI.SUM, ROOT)
            self.comm.Scatter(self.at_root(whole, MPI.FLOAT), [got, MPI.FLOAT], ROOT)

        return Operation(run, lambda: iter([(got, self._own_block(count))]))

    def _uneven(self, size: int) -> tuple[list[int], list[int]]:
        """Numbers in each rank's share of a vector, and where each begins."""
        each, more = divmod(size // 4, self.size)
        counts = [each + (rank < more) for rank in range(self.size)]
        return counts, [sum(counts[:rank]) for rank in range(self.size)]

    def _own_share(self, size: int) -> slice:
        counts, begins = self._uneven(size)
        return slice(begins[self.rank], begins[self.rank] + counts[self.rank])

    def reduce_scatter(self, size: int) -> Operation:
        (counts, _), share = self._uneven(size), self._own_share(size)
        sent, got = self.numbers(size // 4), self.zeros(counts[self.rank])
        return Operation(
            lambda: self.comm.Reduce_scatter([sent, MPI.FLOAT], [got, MPI.FLOAT], counts, MPI.SUM),
            lambda: iter([(got, self.sums(size // 4)[share])]),
        )

    def reduce_scatter_by_allreduce(self, size: int) -> Operation:
        share = self._own_share(size)
        sent, whole, got = self.numbers(size // 4), self.zeros(size // 4), self.zeros(share.stop - share.start)

        def run() -> None:
            self.comm.Allreduce([sent, MPI.FLOAT], [whole, MPI.FLOAT], MPI.SUM)
            memoryview(got)[:] = memoryview(whole)[share]

        return Operation(run, lambda: iter([(got, self.sums(size // 4)[share])]))

    def reduce_scatter_by_reduce_scatterv(self, size: int) -> Operation:
        """MPI_Reduce, then MPI_Scatterv."""
        shares, share = self._uneven(size), self._own_share(size)
        sent, whole, got = self.numbers(size // 4), self.zeros(size // 4), self.zeros(share.stop - share.start)

        def run() -> None:
            self.comm.Reduce([sent, MPI.FLOAT], self.at_root(whole, MPI.FLOAT), MPI.SUM, ROOT)
            self.comm.Scatterv([whole, shares, MPI.FLOAT] if self.is_root else None, [got, MPI.FLOAT], ROOT)

        return Operation(run, lambda: iter([(got, self.sums(size // 4)[share])]))

    def scan(self, size: int) -> Operation:
        sent, got = self.numbers(size // 4), self.zeros(size // 4)
        return Operation(
            lambda: self.comm.Scan([sent, MPI.FLOAT], [got, MPI.FLOAT], MPI.SUM),
            lambda: iter([(got, floats(sum(self.factors[: self.rank + 1]), size // 4))]),
        )

    def scan_by_exscan_reduce_local(self, size: int) -> Operation:
        sent, got = self.numbers(size // 4), self.zeros(size // 4)

        def run() -> None:
            self.comm.Exscan([sent, MPI.FLOAT], [got, MPI.FLOAT], MPI.SUM)
            if self.rank:
                MPI.SUM.Reduce_local([sent, MPI.FLOAT], [got, MPI.FLOAT])
            else:
                memoryview(got)[:] = memoryview(sent)

        return Operation(run, lambda: iter([(got, floats(sum(self.factors[: self.rank + 1]), size // 4))]))

    # What replaces a call by itself.
    def in_parts(self, call: Callable[[int], Operation], size: int) -> Operation:
        parts = [call(size // FACTOR) for _ in range(FACTOR)]
        return Operation(
            lambda: [part.run() for part in parts],
            lambda: (pair for part in parts for pair in part.received()),
        )


def find(calls: Calls, name: str, size: int) -> tuple[Operation, Operation]:
    """Call and mock-up of a guideline: ``CALL-vs-CALL[-CALL]``, ``CALL-vs-larger`` or ``CALL-vs-parts``."""
    call, _, mockup = name.lower().partition("-vs-")
    make = getattr(calls, call)
    if mockup == "larger":
        return make(size), make(size * FACTOR)
    if mockup == "parts":
        return make(size), calls.in_parts(make, size)
    return make(size), getattr(calls, f"{call}_by_{mockup.replace('-', '_')}")(size)


def check(calls: Calls, name: str, size: int, pair: tuple[Operation, Operation]) -> None:
    """Run both once and compare all that arrives; a wrong byte ends the program."""
    for what, operation in zip(("the call", "the mock-up"), pair, strict=True):
        operation.run()
        wrong = sum(
            bytes(memoryview(got).cast("B")) != bytes(memoryview(wanted).cast("B")) for got, wanted in operation.received()
        )
        if wrong:
            sys.stderr.write(f"{name} of {size} bytes: rank {calls.rank} received wrong data from {what}\n")
            sys.stderr.flush()
            calls.comm.Abort(1)


def time_row(
    comm: Any, pair: tuple[Operation, Operation], most: int, budget_s: float
) -> tuple[int, float, float, float] | None:
    """Repetitions, median times of call and mock-up in seconds, median ratio; ``None`` on other ranks than the root."""
    times = array("d"), array("d")
    orders = (((pair[0].run, times[0]), (pair[1].run, times[1])), ((pair[1].run, times[1]), (pair[0].run, times[0])))
    clock, barrier, more = time.perf_counter, comm.Barrier, array("i", [FEWEST])
    started, longest = clock(), 0.0
    while more[0]:
        looked = clock()
        for number in range(len(times[0]), len(times[0]) + more[0]):
            for run, kept in orders[number % 2]:
                barrier()
                begin = clock()
                run()
                kept.append(clock() - begin)
        # The root alone knows how many more there is time for, even if each takes as long as the longest so far.
        done, now = len(times[0]), clock()
        longest = max(longest, (now - looked) / more[0])
        fitting = min((started + budget_s - now) / longest, MOST_AT_ONCE) if longest else MOST_AT_ONCE
        more[0] = max(min(int(fitting), most - done, done), 0) // FEWEST * FEWEST
        comm.Bcast([more, MPI.INT], ROOT)
    call, mockup = (kept[:] for kept in times)
    for kept, slowest in zip(times, (call, mockup), strict=True):
        comm.Reduce([kept, MPI.DOUBLE], [slowest, MPI.DOUBLE] if comm.rank == ROOT else None, MPI.MAX, ROOT)
    if comm.rank != ROOT:
        return None
    ratios = [one / other for one, other in zip(call, mockup, strict=True)]
    return len(call), statistics.median(call), statistics.median(mockup), statistics.median(ratios)


def read_arguments(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Times MPI calls against what could replace them.")
    parser.add_argument("--sizes", required=True, type=lambda text: [int(size) for size in text.split(",")])
    parser.add_argument("--repetitions", type=int, default=1000, help="most repetitions of a row")
    parser.add_argument("--volume-mib", type=int, default=256, help="MiB of a row after which fewer repetitions are made")
    parser.add_argument("--budget-s", type=float, default=20.0, help="seconds for all rows together")
    parser.add_argument("guidelines", nargs="+", metavar="GUIDELINE")
    return parser.parse_args(words)


def main(words: list[str], comm: Any) -> None:
    """Measure on a communicator; the table goes to the standard output of its root."""
    asked = read_arguments(words)
    time.sleep(PAUSE_S)
    calls, checksum, count = Calls(comm), 0, 0

    def say(line: str) -> None:
        nonlocal checksum
        if comm.rank == ROOT:
            checksum = zlib.crc32(f"{line}\n".encode(), checksum)
            sys.stdout.write(f"{line}\n")
            sys.stdout.flush()

    say(TITLE)
    say(f"# {comm.size} ranks, MPI_Barrier before each call, time of the slowest rank, order A B B A, medians")
    say("# reductions: MPI_SUM of MPI_FLOAT; before it is timed, each row's received data are compared")
    say(f"# {'guideline':<46} {'bytes':>10} {'repetitions':>12} {'call[us]':>14} {'mockup[us]':>14} {'ratio':>12}")
    gc.disable()
    rows, clock = [(name, size) for name in asked.guidelines for size in asked.sizes], time.perf_counter
    ends, needed = clock() + asked.budget_s, dict.fromkeys(asked.sizes, 0.0)
    for name, size in rows:
        started = clock()
        pair = find(calls, name, size)
        check(calls, name, size, pair)
        most = max(FEWEST, min(asked.repetitions, (asked.volume_mib << 20) // size) // FEWEST * FEWEST)
        before, beyond = clock(), 0.0
        share = (ends - before - sum(needed[each] for _, each in rows[count + 1 :])) / (len(rows) - count)
        if measured := time_row(comm, pair, most, share):
            repetitions, call, mockup, ratio = measured
            beyond = (clock() - before) * (1 - FEWEST / repetitions)
            say(f"{name:<48} {size:>10} {repetitions:>12} {1e6 * call:>14.3f} {1e6 * mockup:>14.3f} {ratio:>12.6f}")
        count += 1
        del pair
        gc.collect()
        needed[size] = max(needed[size], clock() - started - beyond)
    if comm.rank == ROOT:
        sys.stdout.write(f"# end: {count} rows, received data all right, CRC-32 {checksum:08x}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:], MPI.COMM_WORLD)

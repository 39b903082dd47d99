"""Times each MPI call against what could replace it, one after the other in one program.

``python guidelines.py --sizes 16,64 --repetitions 1000 --budget-s 20 GUIDELINE...``

Guidelines are those of Träff, Gropp and Thakur ("Self-consistent MPI performance guidelines", IEEE
TPDS 21:698, 2010) in the selection of PGMPI (Hunold, Carpen-Amarie, Lübbe, Träff: "Automatic
verification of self-consistent MPI performance guidelines", Euro-Par 2016): a call should not take
longer than a mock-up of it made of other calls, than itself with more data, or than the same data
in parts. The mock-up really runs, with the copies it needs.

One repetition is call and mock-up, each after an MPI_Barrier, in the order A B B A over the
repetitions, so that what drifts hits both alike. The time of each is that of the slowest rank, from
its own return of the barrier on. Printed are medians over the repetitions: of both times, and of
their ratio within a repetition. Repetitions are added until the row's share of the budget is used;
what a row leaves over, later ones may use. The interpreter adds about 1 us to each call. Each row
is compared and timed :data:`FEWEST` times in any case, for which time is set aside once its size
has shown how much.

Sizes: Gather, Allgather, Scatter, Alltoall: bytes of one rank's
block; all others: bytes of the whole vector.
"""

from __future__ import annotations

import gc
import statistics
import sys
import time
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mpi4py import MPI

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from reframe_tests.harness.instruments import common
from reframe_tests.harness.instruments.common import ROOT, Operation

#: Times more data of a larger message, and parts of one that is split.
FACTOR = 4
#: Repetitions of a row in any case: one in each order.
FEWEST = 2
#: Repetitions between two looks at the clock, at most: a look costs a
#: broadcast, and a busy machine is only seen then.
MOST_AT_ONCE = 16


class Calls(common.Collectives):
    def gather_by_allgather(self, size: int) -> Operation:
        mockup = self.allgather(size)
        return Operation(mockup.run, lambda: self.on_root(mockup.received()))

    def gather_by_reduce(self, size: int) -> Operation:
        own = self.own(size)
        padded = self.room(size)
        got = self.room(size if self.is_root else 0)

        def run() -> None:
            padded[self.rank * size : (self.rank + 1) * size] = own
            self.comm.Reduce([padded, MPI.BYTE], self.at_root(got, MPI.BYTE), MPI.BOR, ROOT)

        return Operation(run, lambda: self.on_root(self.blocks_of(got, size)))

    def allgather_by_alltoall(self, size: int) -> Operation:
        own = self.own(size)
        copies = self.room(size)
        got = self.room(size)

        def run() -> None:
            for start in range(0, size * self.size, size):
                copies[start : start + size] = own
            self.comm.Alltoall([copies, MPI.BYTE], [got, MPI.BYTE])

        return Operation(run, lambda: self.blocks_of(got, size))

    def allgather_by_allreduce(self, size: int) -> Operation:
        own = self.own(size)
        padded = self.room(size)
        got = self.room(size)

        def run() -> None:
            padded[self.rank * size : (self.rank + 1) * size] = own
            self.comm.Allreduce([padded, MPI.BYTE], [got, MPI.BYTE], MPI.BOR)

        return Operation(run, lambda: self.blocks_of(got, size))

    def allgather_by_gather_bcast(self, size: int) -> Operation:
        own = self.own(size)
        got = self.room(size)

        def run() -> None:
            self.comm.Gather([own, MPI.BYTE], self.at_root(got, MPI.BYTE), ROOT)
            self.comm.Bcast([got, MPI.BYTE], ROOT)

        return Operation(run, lambda: self.blocks_of(got, size))

    def scatter_by_bcast(self, size: int) -> Operation:
        everything = self.whole(size)
        got = bytearray(size)

        def run() -> None:
            self.comm.Bcast([everything, MPI.BYTE], ROOT)
            got[:] = memoryview(everything)[self.rank * size : (self.rank + 1) * size]

        return Operation(run, lambda: iter([(got, self.own(size))]))

    def bcast_by_scatter_allgather(self, size: int) -> Operation:
        part = -(-size // self.size)
        wanted = common.block(ROOT, size)
        mine = bytearray(part)
        padded = self.room(part)
        if self.is_root:
            padded[:size] = wanted

        def run() -> None:
            self.comm.Scatter(self.at_root(padded, MPI.BYTE), [mine, MPI.BYTE], ROOT)
            self.comm.Allgather([mine, MPI.BYTE], [padded, MPI.BYTE])

        return Operation(run, lambda: iter([(memoryview(padded)[:size], wanted)]))

    def reduce_by_allreduce(self, size: int) -> Operation:
        mockup = self.allreduce(size)
        return Operation(mockup.run, lambda: self.on_root(mockup.received()))

    def _added_in_blocks(
        self, size: int, join: Callable[[Any, Any], None]
    ) -> tuple[Callable[[], None], Any]:
        """Reduce_scatter_block of a padded vector, and what joins its blocks (part, whole)."""
        count = -(-size // 4 // self.size)
        sent = self.numbers(count * self.size)
        part = self.zeros(count)
        got = self.zeros(count * self.size)

        def run() -> None:
            self.comm.Reduce_scatter_block([sent, MPI.FLOAT], [part, MPI.FLOAT], MPI.SUM)
            join(part, got)

        return run, memoryview(got)[: size // 4]

    def reduce_by_reduce_scatter_block_gather(self, size: int) -> Operation:
        run, got = self._added_in_blocks(
            size,
            lambda part, all_: self.comm.Gather(
                [part, MPI.FLOAT], self.at_root(all_, MPI.FLOAT), ROOT
            ),
        )
        return Operation(run, lambda: self.on_root(iter([(got, self.sums(size // 4))])))

    def allreduce_by_reduce_bcast(self, size: int) -> Operation:
        sent = self.numbers(size // 4)
        got = self.zeros(size // 4)

        def run() -> None:
            self.comm.Reduce([sent, MPI.FLOAT], self.at_root(got, MPI.FLOAT), MPI.SUM, ROOT)
            self.comm.Bcast([got, MPI.FLOAT], ROOT)

        return Operation(run, lambda: iter([(got, self.sums(size // 4))]))

    def allreduce_by_reduce_scatter_block_allgather(self, size: int) -> Operation:
        run, got = self._added_in_blocks(
            size, lambda part, all_: self.comm.Allgather([part, MPI.FLOAT], [all_, MPI.FLOAT])
        )
        return Operation(run, lambda: iter([(got, self.sums(size // 4))]))

    def reduce_scatter_block_by_reduce_scatter(self, size: int) -> Operation:
        count = max(1, size // 4 // self.size)
        sent = self.numbers(count * self.size)
        whole = self.zeros(count * self.size)
        got = self.zeros(count)

        def run() -> None:
            self.comm.Reduce([sent, MPI.FLOAT], self.at_root(whole, MPI.FLOAT), MPI.SUM, ROOT)
            self.comm.Scatter(self.at_root(whole, MPI.FLOAT), [got, MPI.FLOAT], ROOT)

        return Operation(run, lambda: iter([(got, self.own_block(count))]))

    def _uneven(self, size: int) -> tuple[list[int], list[int]]:
        """Numbers in each rank's share of a vector, and where each begins."""
        least, more = divmod(size // 4, self.size)
        counts = [least + (rank < more) for rank in range(self.size)]
        return counts, [sum(counts[:rank]) for rank in range(self.size)]

    def _own_share(self, size: int) -> slice:
        counts, begins = self._uneven(size)
        return slice(begins[self.rank], begins[self.rank] + counts[self.rank])

    def reduce_scatter(self, size: int) -> Operation:
        (counts, _), share = self._uneven(size), self._own_share(size)
        call = self.comm.Reduce_scatter
        own = counts[self.rank]
        return self.added(
            size // 4, own, lambda: self.sums(size // 4)[share], call, counts, MPI.SUM
        )

    def reduce_scatter_by_allreduce(self, size: int) -> Operation:
        share = self._own_share(size)
        sent = self.numbers(size // 4)
        whole = self.zeros(size // 4)
        got = self.zeros(share.stop - share.start)

        def run() -> None:
            self.comm.Allreduce([sent, MPI.FLOAT], [whole, MPI.FLOAT], MPI.SUM)
            memoryview(got)[:] = memoryview(whole)[share]

        return Operation(run, lambda: iter([(got, self.sums(size // 4)[share])]))

    def reduce_scatter_by_reduce_scatterv(self, size: int) -> Operation:
        shares = self._uneven(size)
        share = self._own_share(size)
        sent = self.numbers(size // 4)
        whole = self.zeros(size // 4)
        got = self.zeros(share.stop - share.start)

        def run() -> None:
            self.comm.Reduce([sent, MPI.FLOAT], self.at_root(whole, MPI.FLOAT), MPI.SUM, ROOT)
            self.comm.Scatterv(
                [whole, shares, MPI.FLOAT] if self.is_root else None, [got, MPI.FLOAT], ROOT
            )

        return Operation(run, lambda: iter([(got, self.sums(size // 4)[share])]))

    def scan_by_exscan_reduce_local(self, size: int) -> Operation:
        sent = self.numbers(size // 4)
        got = self.zeros(size // 4)

        def run() -> None:
            self.comm.Exscan([sent, MPI.FLOAT], [got, MPI.FLOAT], MPI.SUM)
            if self.rank:
                MPI.SUM.Reduce_local([sent, MPI.FLOAT], [got, MPI.FLOAT])
            else:
                memoryview(got)[:] = memoryview(sent)

        return Operation(run, lambda: iter([(got, self.sums(size // 4, self.rank + 1))]))

    # What replaces a call by itself.
    def in_parts(self, call: Callable[[int], Operation], size: int) -> Operation:
        operations = [call(size // FACTOR) for _ in range(FACTOR)]
        return Operation(
            lambda: [part.run() for part in operations],
            lambda: (pair for part in operations for pair in part.received()),
        )


def find(calls: Calls, name: str, size: int) -> tuple[Operation, Operation]:
    """Call and mock-up of a guideline: ``CALL-vs-CALL[-CALL]``,
    ``CALL-vs-larger`` or ``CALL-vs-parts``.
    """
    call, _, mockup = name.lower().partition("-vs-")
    make = getattr(calls, call)
    if mockup == "larger":
        return make(size), make(size * FACTOR)
    if mockup == "parts":
        return make(size), calls.in_parts(make, size)
    return make(size), getattr(calls, f"{call}_by_{mockup.replace('-', '_')}")(size)


def time_row(
    comm: Any, pair: tuple[Operation, Operation], most: int, budget_s: float
) -> tuple[int, float, float, float] | None:
    """Repetitions, median times of call and mock-up in seconds, median
    ratio; ``None`` on other ranks than the root.
    """
    times = array("d"), array("d")
    orders = (
        ((pair[0].run, times[0]), (pair[1].run, times[1])),
        ((pair[1].run, times[1]), (pair[0].run, times[0])),
    )
    clock = time.perf_counter
    barrier = comm.Barrier
    more = array("i", [FEWEST])
    started = clock()
    longest = 0.0
    while more[0]:
        looked = clock()
        for number in range(len(times[0]), len(times[0]) + more[0]):
            for run, kept in orders[number % 2]:
                barrier()
                begin = clock()
                run()
                kept.append(clock() - begin)
        # The root alone knows how many more there is time for, even if
        # each takes as long as the longest so far.
        done = len(times[0])
        now = clock()
        longest = max(longest, (now - looked) / more[0])
        fitting = (
            min((started + budget_s - now) / longest, MOST_AT_ONCE) if longest else MOST_AT_ONCE
        )
        more[0] = max(min(int(fitting), most - done, done), 0) // FEWEST * FEWEST
        comm.Bcast([more, MPI.INT], ROOT)
    call, mockup = (common.slowest(comm, kept) for kept in times)
    if comm.rank != ROOT:
        return None
    ratios = [
        time_of_call / time_of_mockup
        for time_of_call, time_of_mockup in zip(call, mockup, strict=True)
    ]
    return len(call), statistics.median(call), statistics.median(mockup), statistics.median(ratios)


def main(words: list[str], comm: Any) -> None:
    parser = common.options(
        "Times MPI calls against what could replace them.",
        sizes={"required": True, "type": common.whole_numbers},
        repetitions={"type": int, "default": 1000, "help": "most repetitions of a row"},
        volume_mib={
            "type": int,
            "default": 256,
            "help": "MiB of a row after which fewer repetitions are made",
        },
        budget_s={"type": float, "default": 20.0, "help": "seconds for all rows together"},
    )
    parser.add_argument("guidelines", nargs="+", metavar="GUIDELINE")
    asked = parser.parse_args(words)
    time.sleep(common.PAUSE_S)
    calls = Calls(comm)
    lines = common.Lines(comm, "guidelines")
    gc.disable()
    rows = [(name, size) for name in asked.guidelines for size in asked.sizes]
    clock = time.perf_counter
    ends = clock() + asked.budget_s
    needed = dict.fromkeys(asked.sizes, 0.0)
    for done, (name, size) in enumerate(rows):
        started = clock()
        pair = find(calls, name, size)
        for noun, operation in zip(("the call", "the mock-up"), pair, strict=True):
            operation.check(f"{name} of {size} bytes, {noun}")
        most = max(
            FEWEST, min(asked.repetitions, (asked.volume_mib << 20) // size) // FEWEST * FEWEST
        )
        before = clock()
        beyond = 0.0
        share = (ends - before - sum(needed[later] for _, later in rows[done + 1 :])) / (
            len(rows) - done
        )
        if measured := time_row(comm, pair, most, share):
            repetitions, call, mockup, ratio = measured
            beyond = (clock() - before) * (1 - FEWEST / repetitions)
            times = {"call_us": common.microseconds(call), "mockup_us": common.microseconds(mockup)}
            lines.row(
                benchmark=name,
                bytes=size,
                repetitions=repetitions,
                **times,
                call_over_mockup=round(ratio, 6),
            )
        del pair, operation
        gc.collect()
        needed[size] = max(needed[size], clock() - started - beyond)
    lines.end()


if __name__ == "__main__":
    main(sys.argv[1:], MPI.COMM_WORLD)

"""What the MPI programs of this folder have in common. Pure Python
with mpi4py: a stack's own Python runs it.

Rank 0 prints JSON Lines: a first one ``{"instrument": NAME, "format": 3, ...}`` with what holds for
all rows, one a row, and a last one ``{"end": NAME, "rows": 8, "crc32": 123}`` with the number of
rows and the CRC-32 of all lines above it, each with its end. The last line also says that all data
received were right: a program that received wrong data aborts.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import time
import zlib
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from mpi4py import MPI

FORMAT = 3
#: Root of all calls. Seconds before the first message (why:
#: ``evidence/exchange.py``), and between two looks of an idle rank.
ROOT = 0
PAUSE_S = 0.3
LOOK_S = 0.001
PERCENTILES = (50, 90, 99)
#: Periods of the known data: coprime to the usual block sizes, so
#: that a block in another's place shows.
BYTE_PERIOD = 251
FLOAT_PERIOD = 89
RANK_PERIOD = 7


def give_up(why: str) -> None:
    """End the program on all ranks; a launcher may drop what it has not passed on by then."""
    sys.stderr.write(f"error: {why}\n")
    sys.stdout.flush()
    sys.stderr.flush()
    time.sleep(1)
    MPI.COMM_WORLD.Abort(1)


def options(description: str, **more: dict[str, Any]) -> argparse.ArgumentParser:
    """A parser of the command line.

    :param more: option (``ppn`` for ``--ppn``) to what ``add_argument`` takes.
    """
    parser = argparse.ArgumentParser(description=description)
    for name, settings in more.items():
        parser.add_argument(f"--{name.replace('_', '-')}", **settings)
    return parser


def whole_numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


class Lines:
    """What the first rank prints; on the others nothing is printed.

    :param facts: what holds for all rows.
    """

    def __init__(self, comm: Any, instrument: str, **facts: Any) -> None:
        self.speaks = comm.rank == ROOT
        self.instrument = instrument
        self.rows = self._sum = 0
        self._say({"instrument": instrument, "format": FORMAT, "ranks": comm.size, **facts})

    def row(self, **values: Any) -> None:
        self.rows += 1
        self._say(values)

    def note(self, **values: Any) -> None:
        self._say(values)

    def so_far(self) -> None:
        """What is above can be used even if nothing follows."""
        self._say({"so_far": self.instrument, "rows": self.rows, "crc32": self._sum})

    def end(self) -> None:
        self._say({"end": self.instrument, "rows": self.rows, "crc32": self._sum})

    def _say(self, content: dict[str, Any]) -> None:
        if self.speaks:
            line = f"{json.dumps(content)}\n"
            self._sum = zlib.crc32(line.encode(), self._sum)
            sys.stdout.write(line)
            sys.stdout.flush()


def microseconds(seconds: float) -> float:
    return round(1e6 * seconds, 3)


def percentile(ordered: Sequence[float], percent: int) -> float:
    """The nearest-rank percentile of values in ascending order: the
    smallest that so many percent are not above.
    """
    return ordered[max(0, math.ceil(percent / 100 * len(ordered)) - 1)]


def summary_us(times: Sequence[float]) -> dict[str, float]:
    """Mean and percentiles of seconds, in microseconds."""
    ordered = sorted(times)
    percentiles = {
        f"p{percent}_us": microseconds(percentile(ordered, percent)) for percent in PERCENTILES
    }
    return {"mean_us": microseconds(statistics.fmean(ordered)), **percentiles}


def wait(request: Any) -> None:
    while not request.Test():
        time.sleep(LOOK_S)


def check_blocks(comm: Any, ppn: int, even: bool = True) -> list[str]:
    """Hosts of all ranks, which must be ``ppn`` after the other on
    each node, and the nodes an even number.
    """
    hosts = comm.allgather(MPI.Get_processor_name())
    blocks = [set(hosts[at : at + ppn]) for at in range(0, comm.size, ppn)]
    nodes = len(set(hosts))
    if (
        len(blocks) != nodes
        or any(len(block) != 1 for block in blocks)
        or comm.size != nodes * ppn
        or (even and nodes % 2)
    ):
        give_up(
            f"{comm.size} ranks on {nodes} nodes are not {ppn} after the other on each of an "
            "even number of nodes"
        )
    return hosts  # type: ignore[no-any-return]


def known(rank: int, size: int) -> bytes:
    """What a rank sends to a partner: a byte that tells it from its neighbours."""
    return bytes([rank % BYTE_PERIOD + 1]) * size


def block(rank: int, size: int) -> bytes:
    """Known bytes of a rank, which say where in the block they are."""
    first = rank % BYTE_PERIOD
    return (
        bytes((at + first) % BYTE_PERIOD for at in range(BYTE_PERIOD)) * (size // BYTE_PERIOD + 1)
    )[:size]


@dataclass(frozen=True)
class Operation:
    """One call, or what replaces it, with its buffers; ``received`` gives
    what this rank received with what it should have.
    """

    run: Callable[[], Any]
    received: Callable[[], Iterator[tuple[Any, Any]]]

    def check(self, description: str) -> None:
        """Call it once, into buffers that are empty, and give up if a byte is wrong."""
        self.run()
        for got, wanted in self.received():
            if bytes(memoryview(got).cast("B")) != bytes(memoryview(wanted).cast("B")):
                give_up(
                    f"{description}: a rank of {MPI.COMM_WORLD.size}, {MPI.COMM_WORLD.rank}, "
                    "received wrong data"
                )


class Collectives:
    """The collectives on one communicator; each method takes a size
    in bytes and gives an :class:`Operation`.

    The size is that of one rank's block; of reductions and Bcast, of the whole vector.

    :param number: type code and MPI type of the numbers that are added up:
        whole, so that every order gives the same.
    """

    def __init__(self, comm: Any, number: tuple[str, Any] = ("f", MPI.FLOAT)) -> None:
        self.comm = comm
        self.rank = int(comm.rank)
        self.size = int(comm.size)
        self.is_root = self.rank == ROOT
        self.code, self.kind = number
        self.width = array(self.code).itemsize
        self.factors = [rank % RANK_PERIOD + 1 for rank in range(self.size)]

    # Buffers and what they should hold.
    def own(self, size: int) -> bytes:
        return block(self.rank, size)

    def whole(self, size: int) -> bytearray:
        """Blocks of all ranks on the root, room for them on the others."""
        return (
            bytearray().join(block(rank, size) for rank in range(self.size))
            if self.is_root
            else self.room(size)
        )

    def room(self, size: int) -> bytearray:
        return bytearray(size * self.size)

    def pattern(self, factor: int, count: int) -> array[Any]:
        period = [float(factor * (at + 1)) for at in range(FLOAT_PERIOD)]
        return array(self.code, period * (count // FLOAT_PERIOD + 1))[:count]

    def numbers(self, count: int) -> array[Any]:
        return self.pattern(self.factors[self.rank], count)

    def zeros(self, count: int) -> array[Any]:
        return array(self.code, bytes(self.width * count))

    def sums(self, count: int, ranks: int | None = None) -> array[Any]:
        return self.pattern(sum(self.factors[:ranks]), count)

    def blocks_of(self, got: Any, size: int) -> Iterator[tuple[Any, Any]]:
        for rank in range(self.size):
            yield memoryview(got)[rank * size : (rank + 1) * size], block(rank, size)

    def on_root(self, rows: Iterator[tuple[Any, Any]]) -> Iterator[tuple[Any, Any]]:
        return rows if self.is_root else iter(())

    def at_root(self, *message: Any) -> Any:
        return list(message) if self.is_root else None

    def equal(self, size: int) -> tuple[list[int], list[int]]:
        """Counts and displacements of equal blocks, for calls that take lists."""
        return [size] * self.size, [size * rank for rank in range(self.size)]

    # Calls.
    def barrier(self, size: int) -> Operation:
        return Operation(self.comm.Barrier, lambda: iter(()))

    def bcast(self, size: int) -> Operation:
        wanted = block(ROOT, size)
        got = bytearray(wanted if self.is_root else size)
        return Operation(
            lambda: self.comm.Bcast([got, MPI.BYTE], ROOT), lambda: iter([(got, wanted)])
        )

    def gather(self, size: int, *lists: Any) -> Operation:
        own = self.own(size)
        got = self.room(size if self.is_root else 0)
        call = self.comm.Gatherv if lists else self.comm.Gather
        there = self.at_root(got, *lists, MPI.BYTE)
        return Operation(
            lambda: call([own, MPI.BYTE], there, ROOT),
            lambda: self.on_root(self.blocks_of(got, size)),
        )

    def gatherv(self, size: int) -> Operation:
        return self.gather(size, self.equal(size))

    def scatter(self, size: int, *lists: Any) -> Operation:
        sent = self.whole(size) if self.is_root else b""
        got = bytearray(size)
        call = self.comm.Scatterv if lists else self.comm.Scatter
        here = self.at_root(sent, *lists, MPI.BYTE)
        return Operation(
            lambda: call(here, [got, MPI.BYTE], ROOT), lambda: iter([(got, self.own(size))])
        )

    def scatterv(self, size: int) -> Operation:
        return self.scatter(size, self.equal(size))

    def allgather(self, size: int, *lists: Any) -> Operation:
        own = self.own(size)
        got = self.room(size)
        call = self.comm.Allgatherv if lists else self.comm.Allgather
        return Operation(
            lambda: call([own, MPI.BYTE], [got, *lists, MPI.BYTE]),
            lambda: self.blocks_of(got, size),
        )

    def allgatherv(self, size: int) -> Operation:
        return self.allgather(size, self.equal(size))

    def alltoall(self, size: int, *lists: Any) -> Operation:
        got = self.room(size)
        sent = bytearray().join(block(self.rank + 3 * to, size) for to in range(self.size))
        call = self.comm.Alltoallv if lists else self.comm.Alltoall

        def received() -> Iterator[tuple[Any, Any]]:
            for rank in range(self.size):
                yield (
                    memoryview(got)[rank * size : (rank + 1) * size],
                    block(rank + 3 * self.rank, size),
                )

        return Operation(lambda: call([sent, *lists, MPI.BYTE], [got, *lists, MPI.BYTE]), received)

    def alltoallv(self, size: int) -> Operation:
        return self.alltoall(size, self.equal(size))

    def reduce(self, size: int) -> Operation:
        count = size // self.width
        sent = self.numbers(count)
        got = self.zeros(count)
        there = self.at_root(got, self.kind)
        return Operation(
            lambda: self.comm.Reduce([sent, self.kind], there, MPI.SUM, ROOT),
            lambda: self.on_root(iter([(got, self.sums(count))])),
        )

    def added(
        self,
        count: int,
        received: int,
        wanted: Callable[[], Any],
        call: Callable[..., Any],
        *more: Any,
    ) -> Operation:
        """A call that adds up ``count`` numbers of all ranks, of which this one receives some."""
        sent = self.numbers(count)
        got = self.zeros(received)
        kind = self.kind
        return Operation(
            lambda: call([sent, kind], [got, kind], *more), lambda: iter([(got, wanted())])
        )

    def allreduce(self, size: int) -> Operation:
        count = size // self.width
        return self.added(count, count, lambda: self.sums(count), self.comm.Allreduce, MPI.SUM)

    def own_block(self, count: int) -> Any:
        return self.sums(count * self.size)[self.rank * count : (self.rank + 1) * count]

    def reduce_scatter_block(self, size: int) -> Operation:
        count = max(1, size // self.width // self.size)
        call = self.comm.Reduce_scatter_block
        return self.added(count * self.size, count, lambda: self.own_block(count), call, MPI.SUM)

    def reduce_scatter(self, size: int) -> Operation:
        count = max(1, size // self.width // self.size)
        call = self.comm.Reduce_scatter
        counts = [count] * self.size
        return self.added(
            count * self.size, count, lambda: self.own_block(count), call, counts, MPI.SUM
        )

    def scan(self, size: int) -> Operation:
        count = size // self.width
        return self.added(
            count, count, lambda: self.sums(count, self.rank + 1), self.comm.Scan, MPI.SUM
        )


def slowest(comm: Any, own: array[float]) -> list[float]:
    """Time of the slowest rank in each repetition; on other ranks than the root, nothing."""
    slowest_values = array("d", bytes(8 * len(own)))
    comm.Reduce(
        [own, MPI.DOUBLE],
        [slowest_values, MPI.DOUBLE] if comm.rank == ROOT else None,
        MPI.MAX,
        ROOT,
    )
    return list(slowest_values) if comm.rank == ROOT else []

"""Exchanges known patterns between all ranks and compares what
arrives, byte by byte; nothing is timed.

A program for the Python of a stack, with mpi4py and nothing else: ``python exchange.py
[one_sided]``, under its launcher. Each rank prints a line per wrong exchange, at most
:data:`MOST_REPORTED`, and one at its end (read by ``data_check``). Sizes lie on both sides of the
usual eager limits (8 to 64 KiB) and beyond them, where data go by rendezvous, pipelines or RDMA.
"""

from __future__ import annotations

import random
import sys
import time
from array import array
from typing import Any

from mpi4py import MPI

#: Bytes of a message between two ranks; not powers of two, so that a last piece is shorter.
SIZES = (1, 1021, 16411, 131101, (1 << 20) + 3)
#: The largest message, sent one way at a time: as large as the largest that are timed.
LARGEST = (4 << 20) + 1
#: Bytes one rank sends or receives in a collective, over all its partners.
COLLECTIVE_BYTES = (1 << 10, 128 << 10, 1 << 20)
#: Seconds before the first message. Open MPI 5.0 over TCP crashes in MPI_Init where a message of a
#: rank that is through already arrives (mca_pml_ob1_recv_frag_callback_match, on a communicator
#: that does not exist yet); seen in one of five runs.
PAUSE_S = 0.3
#: Wrong exchanges each rank reports.
MOST_REPORTED = 3


def pattern(*key: Any) -> bytes:
    """Bytes that a rank, an exchange and a place in it determine;
    the last part of the key is their number.
    """
    size: int = key[-1]
    return random.Random(repr(key)).getrandbits(8 * size).to_bytes(size, "little") if size else b""


class Checker:
    """What one rank has compared."""

    def __init__(self, comm: Any) -> None:
        self.comm = comm
        self.rank: int = comm.rank
        self.size: int = comm.size
        self.exchanges = self.bytes = self.wrong = 0

    def compare(self, noun: str, got: Any, wanted: Any) -> None:
        got = bytes(memoryview(got).cast("B"))
        wanted = bytes(memoryview(wanted).cast("B"))
        self.exchanges += 1
        self.bytes += len(wanted)
        if got == wanted:
            return
        self.wrong += 1
        if self.wrong <= MOST_REPORTED:
            bad = [at for at in range(len(wanted)) if got[at] != wanted[at]]
            say(
                f"data check: wrong: rank {self.rank}, {noun}: {len(bad)} of {len(wanted)} bytes "
                f"differ, the first is byte {bad[0]}: 0x{got[bad[0]]:02x} instead of "
                f"0x{wanted[bad[0]]:02x}"
            )

    def pairs(self) -> None:
        """To a neighbour, and to the rank half of all ranks away, which is
        on another node where there are several.
        """
        for shift in sorted({1, max(1, self.size // 2)}):
            to = (self.rank + shift) % self.size
            source = (self.rank - shift) % self.size
            for size in (*SIZES, LARGEST):
                got = bytearray(size)
                sent, wanted = (pattern("pair", shift, rank, size) for rank in (self.rank, source))
                self.comm.Sendrecv([sent, MPI.BYTE], to, 0, [got, MPI.BYTE], source, 0)
                self.compare(f"{size} bytes from rank {source} (MPI_Sendrecv)", got, wanted)
                if size == LARGEST:
                    continue
                window = [bytearray(size) for _ in range(2)]
                requests = [
                    self.comm.Irecv([buffer, MPI.BYTE], source, tag)
                    for tag, buffer in enumerate(window)
                ]
                requests += [self.comm.Isend([sent, MPI.BYTE], to, tag) for tag in range(2)]
                MPI.Request.Waitall(requests)
                for buffer in window:
                    self.compare(f"{size} bytes from rank {source} (MPI_Irecv)", buffer, wanted)

    def collectives(self) -> None:
        for total in COLLECTIVE_BYTES:
            self._collectives(max(1, total // self.size))

    def _collectives(self, size: int) -> None:
        comm = self.comm
        rank = self.rank
        everyone = range(self.size)
        for root in sorted({0, self.size - 1}):
            got = bytearray(pattern("bcast", root, size) if rank == root else size)
            comm.Bcast([got, MPI.BYTE], root)
            self.compare(
                f"{size} bytes from rank {root} (MPI_Bcast)", got, pattern("bcast", root, size)
            )
        mine = pattern("all", rank, size)
        all_of = b"".join(pattern("all", other, size) for other in everyone)
        got = bytearray(size * self.size)
        comm.Allgather([mine, MPI.BYTE], [got, MPI.BYTE])
        self.compare(f"{size} bytes from each rank (MPI_Allgather)", got, all_of)
        got = bytearray(size * self.size if rank == 0 else 0)
        comm.Gather([mine, MPI.BYTE], [got, MPI.BYTE] if rank == 0 else None, 0)
        if rank == 0:
            self.compare(f"{size} bytes from each rank (MPI_Gather)", got, all_of)
        got = bytearray(size)
        comm.Scatter([all_of, MPI.BYTE] if rank == 0 else None, [got, MPI.BYTE], 0)
        self.compare(f"{size} bytes from rank 0 (MPI_Scatter)", got, mine)
        sent = b"".join(pattern("from", rank, "to", other, size) for other in everyone)
        got = bytearray(size * self.size)
        comm.Alltoall([sent, MPI.BYTE], [got, MPI.BYTE])
        wanted = b"".join(pattern("from", other, "to", rank, size) for other in everyone)
        self.compare(f"{size} bytes from each rank (MPI_Alltoall)", got, wanted)
        self._reductions(max(1, size // 8))

    def _reductions(self, count: int) -> None:
        """Sums of whole numbers as doubles, which every order of adding gives exactly."""

        def numbers(factor: int) -> array[float]:
            return array(
                "d", [float(factor * (at % 997 + 1)) for at in range(997)] * (count // 997 + 1)
            )[:count]

        comm = self.comm
        total = self.size * (self.size + 1) // 2
        got = array("d", bytes(8 * count))
        comm.Allreduce([numbers(self.rank + 1), MPI.DOUBLE], [got, MPI.DOUBLE], MPI.SUM)
        self.compare(f"sums of {8 * count} bytes (MPI_Allreduce)", got, numbers(total))
        got = array("d", bytes(8 * count))
        comm.Reduce(
            [numbers(self.rank + 1), MPI.DOUBLE],
            [got, MPI.DOUBLE] if self.rank == 0 else None,
            MPI.SUM,
            0,
        )
        if self.rank == 0:
            self.compare(f"sums of {8 * count} bytes (MPI_Reduce)", got, numbers(total))
        got = array("d", bytes(8 * count))
        comm.Reduce_scatter_block(
            [numbers(self.rank + 1) * self.size, MPI.DOUBLE], [got, MPI.DOUBLE], MPI.SUM
        )
        self.compare(f"sums of {8 * count} bytes (MPI_Reduce_scatter_block)", got, numbers(total))

    def translated(self) -> None:
        """What a library must translate for programs of another ABI: a reduction, an attribute and
        an error handler that it calls back, handles of data types, a status.
        """
        comm = self.comm
        rank = self.rank
        everyone = range(self.size)
        called: list[int] = []

        def add(sent: Any, kept: Any, kind: Any) -> None:
            called.append(kind == MPI.BYTE)
            into = memoryview(kept).cast("B")
            for at, byte in enumerate(memoryview(sent).cast("B")):
                into[at] = into[at] + byte & 0xFF

        got = bytearray(SIZES[1])
        operation = MPI.Op.Create(add, commute=True)
        comm.Allreduce([pattern("op", rank, len(got)), MPI.BYTE], [got, MPI.BYTE], operation)
        operation.Free()
        rows = zip(*(pattern("op", other, len(got)) for other in everyone), strict=True)
        wanted = bytes(sum(row) & 0xFF for row in rows)
        self.compare(f"{len(got)} bytes (MPI_Allreduce with MPI_Op_create)", got, wanted)
        self.compare("types that its function was given", bytes(called), b"\1" * len(called))

        to = (rank + 1) % self.size
        source = (rank - 1) % self.size
        count = 1000
        columns = MPI.BYTE.Create_vector(count, 3, 7).Commit()
        kept = bytearray(7 * count)
        status = MPI.Status()
        sent = pattern("type", rank, 7 * count)
        comm.Sendrecv([sent, 1, columns], to, rank, [kept, 1, columns], source, source, status)
        arrived = pattern("type", source, 7 * count)
        blocks = (byte if at % 7 < 3 else 0 for at, byte in enumerate(arrived))
        self.compare(f"{3 * count} bytes (MPI_Type_vector)", kept, bytes(blocks))
        said = (status.Get_source(), status.Get_tag(), status.Get_count(columns))
        self.compare("MPI_Status", array("q", said), array("q", (source, source, 1)))
        combiner = columns.combiner
        columns.Free()
        self.compare(
            "MPI_Type_get_envelope", array("q", [combiner]), array("q", [MPI.COMBINER_VECTOR])
        )

        events: list[int] = []
        key = MPI.Comm.Create_keyval(
            copy_fn=lambda old, keyval, value: value + 1,
            delete_fn=lambda old, keyval, value: events.append(value),
        )
        comm.Set_attr(key, 40)
        twin = comm.Dup()
        events.append(twin.Get_attr(key) or 0)
        handler = MPI.Comm.Create_errhandler(lambda failed, code: events.append(code))
        twin.Set_errhandler(handler)
        twin.Call_errhandler(MPI.ERR_OTHER)
        handler.Free()
        twin.Free()
        comm.Delete_attr(key)
        MPI.Comm.Free_keyval(key)
        self.compare(
            "attributes and error handler of a communicator",
            array("q", [*events, 0, 0, 0, 0][:4]),
            array("q", [41, MPI.ERR_OTHER, 41, 40]),
        )

    def one_sided(self) -> None:
        to = (self.rank + 1) % self.size
        source = (self.rank - 1) % self.size
        for size in SIZES:
            window = MPI.Win.Allocate(size, comm=self.comm)
            memory = window.tomemory()
            sent = pattern("put", self.rank, size)
            window.Fence()
            window.Put([sent, MPI.BYTE], to)
            window.Fence()
            self.compare(
                f"{size} bytes from rank {source} (MPI_Put)",
                bytes(memory),
                pattern("put", source, size),
            )
            got = bytearray(size)
            window.Fence()
            window.Get([got, MPI.BYTE], to)
            window.Fence()
            self.compare(f"{size} bytes from rank {to} (MPI_Get)", got, sent)
            window.Free()


def say(line: str) -> None:
    """One whole line at once, so that those of several ranks are not mixed."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> None:
    time.sleep(PAUSE_S)
    checker = Checker(MPI.COMM_WORLD)
    checker.pairs()
    checker.collectives()
    checker.translated()
    if "one_sided" in sys.argv[1:]:
        checker.one_sided()
    say(
        f"data check: rank {checker.rank} of {checker.size}: {checker.exchanges} exchanges, "
        f"{checker.bytes} bytes, {checker.wrong} wrong"
    )


main()

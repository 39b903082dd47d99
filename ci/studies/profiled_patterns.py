"""Programs of known communication patterns that profile themselves:
``python profiled_patterns.py PATTERN ITERATIONS FILE``.

For the Python of a stack, with mpi4py and nothing else, under its launcher. Every MPI call of a
pattern goes through a wrapper that counts and times it: an accounting in mpi4py, not below it
(PMPI), so that the interpreter's microsecond is in each time. Written is the CSV of
:mod:`mpibench_tune.profiles`; a first tenth of the iterations is not counted.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

from mpi4py import MPI

KIB = 1 << 10


class Profiler:
    """Counts and times calls on one communicator; each method is a call
    with the bytes that benchmarks of it have.
    """

    def __init__(self, comm: Any) -> None:
        self.comm = comm
        self.rank = comm.rank
        self.size = comm.size
        self.rows: dict[tuple[str, int | None, int | None], list[float]] = {}
        self.buffers: dict[tuple[str, int], bytearray] = {}

    def buffer(self, name: str, size: int) -> bytearray:
        return self.buffers.setdefault((name, size), bytearray(max(size, 1)))

    def timed(
        self, call: str, size: int | None, comm_size: int | None, run: Callable[[], Any]
    ) -> Any:
        begin = time.perf_counter()
        result = run()
        spent = time.perf_counter() - begin
        row = self.rows.setdefault((call, size, comm_size), [0, 0.0])
        row[0] += 1
        row[1] += spent
        return result

    def both(self, name: str, size: int) -> tuple[Any, Any]:
        return self.buffer(f"{name} out", size), self.buffer(f"{name} in", size * self.size)

    def allreduce(self, size: int) -> None:
        out = self.buffer("sum out", size)
        into = self.buffer("sum in", size)
        sides = [out, size // 4, MPI.FLOAT], [into, size // 4, MPI.FLOAT]
        self.timed("Allreduce", size, self.size, lambda: self.comm.Allreduce(*sides, MPI.SUM))

    def reduce(self, size: int) -> None:
        out = self.buffer("sum out", size)
        into = self.buffer("sum in", size)
        sides = [out, size // 4, MPI.FLOAT], [into, size // 4, MPI.FLOAT]
        self.timed("Reduce", size, self.size, lambda: self.comm.Reduce(*sides, MPI.SUM, 0))

    def bcast(self, size: int) -> None:
        buffer = self.buffer("bcast", size)
        self.timed("Bcast", size, self.size, lambda: self.comm.Bcast([buffer, size, MPI.BYTE], 0))

    def alltoall(self, size: int) -> None:
        out = self.buffer("all out", size * self.size)
        into = self.buffer("all in", size * self.size)
        sides = [out, size, MPI.BYTE], [into, size, MPI.BYTE]
        self.timed("Alltoall", size, self.size, lambda: self.comm.Alltoall(*sides))

    def allgather(self, size: int) -> None:
        out, into = self.both("allgather", size)
        sides = [out, size, MPI.BYTE], [into, size, MPI.BYTE]
        self.timed("Allgather", size, self.size, lambda: self.comm.Allgather(*sides))

    def gather(self, size: int) -> None:
        out, into = self.both("gather", size)
        got = [into, size, MPI.BYTE] if self.rank == 0 else None
        self.timed(
            "Gather", size, self.size, lambda: self.comm.Gather([out, size, MPI.BYTE], got, 0)
        )

    def scatter(self, size: int) -> None:
        into, out = self.both("scatter", size)
        sent = [out, size, MPI.BYTE] if self.rank == 0 else None
        self.timed(
            "Scatter", size, self.size, lambda: self.comm.Scatter(sent, [into, size, MPI.BYTE], 0)
        )

    def exchange(self, size: int) -> None:
        """Nonblocking, with the next rank of each pair."""
        peer, (out, into) = self.rank ^ 1, self.both("exchange", size)
        requests = [
            self.timed("Irecv", size, None, lambda: self.comm.Irecv([into, size, MPI.BYTE], peer)),
            self.timed("Isend", size, None, lambda: self.comm.Isend([out, size, MPI.BYTE], peer)),
        ]
        self.timed("Waitall", None, None, lambda: MPI.Request.Waitall(requests))

    def bounce(self, size: int) -> None:
        """A message to the other rank of a pair and back."""
        peer, (out, into) = self.rank ^ 1, self.both("bounce", size)
        steps = [
            lambda: self.timed(
                "Send", size, None, lambda: self.comm.Send([out, size, MPI.BYTE], peer)
            ),
            lambda: self.timed(
                "Recv", size, None, lambda: self.comm.Recv([into, size, MPI.BYTE], peer)
            ),
        ]
        for step in steps if self.rank % 2 == 0 else reversed(steps):
            step()


def solver(profiler: Profiler, at: int) -> None:
    """Conjugate gradients: halos and dot products."""
    profiler.exchange(8 * KIB)
    profiler.allreduce(8)
    profiler.allreduce(8)


def transpose(profiler: Profiler, at: int) -> None:
    """A distributed FFT: transposes, and a sum now and then."""
    profiler.alltoall(64 * KIB)
    if at % 8 == 0:
        profiler.allreduce(64)


def spectral(profiler: Profiler, at: int) -> None:
    """Many small transposes, as a strong-scaled spectral code has."""
    profiler.alltoall(256)
    profiler.alltoall(1 * KIB)
    profiler.allreduce(256)


def particles(profiler: Profiler, at: int) -> None:
    """Molecular dynamics: large halos, energies each tenth step."""
    profiler.exchange(128 * KIB)
    profiler.exchange(32 * KIB)
    if at % 10 == 0:
        profiler.reduce(1 * KIB)


def training(profiler: Profiler, at: int) -> None:
    """Gradients of a neural network: large sums, and parameters from rank 0."""
    profiler.allreduce(256 * KIB)
    if at % 4 == 0:
        profiler.bcast(64 * KIB)


def workers(profiler: Profiler, at: int) -> None:
    """Rank 0 hands out work and gathers results."""
    profiler.scatter(4 * KIB)
    profiler.gather(16 * KIB)
    profiler.bcast(64)


def ping(profiler: Profiler, at: int) -> None:
    """Short messages back and forth."""
    profiler.bounce(64)


def steps(profiler: Profiler, at: int) -> None:
    """A time step of a mixed code: halo, sums, a table for all."""
    profiler.bounce(2 * KIB)
    profiler.allgather(2 * KIB)
    profiler.allreduce(4 * KIB)
    profiler.bcast(1 * KIB)


PATTERNS = {
    each.__name__: each
    for each in (solver, transpose, spectral, particles, training, workers, ping, steps)
}


def write(profiler: Profiler, wall_s: float, path: str) -> None:
    """The sums over all ranks, by rank 0."""
    wall_s = profiler.comm.allreduce(wall_s, op=MPI.MAX)
    every = profiler.comm.gather(profiler.rows, root=0)
    if profiler.rank:
        return
    rows: dict[tuple[str, int | None, int | None], list[float]] = {}
    for one in every:
        for key, (count, seconds) in one.items():
            row = rows.setdefault(key, [0, 0.0])
            row[0] += count
            row[1] += seconds
    lines = [
        f"# ranks: {profiler.size}",
        f"# wall_s: {wall_s:.6f}",
        "call,bytes,count,time_s,comm_size",
    ]
    for (call, size, comm_size), (count, seconds) in rows.items():
        shown = ["" if value is None else str(value) for value in (size, comm_size)]
        lines.append(f"MPI_{call},{shown[0]},{count},{seconds:.9f},{shown[1]}")
    with open(path, "w") as file:  # noqa: PTH123 (nothing of the project, in whatever Python the stack has)
        file.write("\n".join([*lines, f"# rows: {len(rows)}", ""]))


def main(pattern: str, iterations: str, path: str) -> None:
    profiler = Profiler(MPI.COMM_WORLD)
    count = int(iterations)
    step = PATTERNS[pattern]
    for at in range(max(count // 10, 1)):
        step(profiler, at)
    profiler.rows.clear()
    profiler.comm.Barrier()
    begin = time.perf_counter()
    for at in range(count):
        step(profiler, at)
    write(profiler, time.perf_counter() - begin, path)


if __name__ == "__main__":
    main(*sys.argv[1:])

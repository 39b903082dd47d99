"""Copies memory and calls collectives for so many seconds each, at
the same time as other programs on the node.

``python sharing.py --seconds 1 Copy:65536,16777216 Allreduce:8 --program 1 3 --meet FOLDER``: it is
program 1 of 3 and, before each row, waits until the other two are there as well; without ``--meet``
it runs alone.

A row is measured for a time and not for a number of repetitions, so that a program that gets half a
core runs as long as one that gets a whole one. Its time is that of the slowest rank, and it says
from when to when it was measured (CLOCK_MONOTONIC, which all processes of a node share). Ranks go
on together in batches of some milliseconds. The interpreter adds about 1 us to each call.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mpi4py import MPI

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from reframe_tests.harness.instruments import common

#: Calls before those that are timed, and seconds of calls between two
#: looks at the clock that all ranks share.
WARM_UP = 5
BATCH_S = 0.005
#: Seconds after which a program no longer waits for the others:
#: the start of a launcher takes a few.
PATIENCE_S = 45.0


class WithCopy(common.Collectives):
    """The collectives, and a copy from one buffer of a rank to another."""

    def copy(self, size: int) -> common.Operation:
        sent = bytearray(self.own(size))
        got = bytearray(size)
        there = memoryview(got)

        def run() -> None:
            there[:] = sent

        return common.Operation(run, lambda: iter([(got, sent)]))


def meet(comm: Any, folder: Path | None, program: int, programs: int, section: int) -> None:
    """Wait until all programs are at a section; ranks that wait sleep, so
    that they cost those who come late nothing.
    """
    if comm.rank == 0 and folder:
        (folder / f"{section}.{program}").touch()
        others = [folder / f"{section}.{other}" for other in range(1, programs + 1)]
        late = time.monotonic() + PATIENCE_S
        while missing := [path for path in others if not path.exists()]:
            if time.monotonic() > late:
                number = missing[0].suffix[1:]
                common.give_up(
                    f"program {program} of {programs} timed out after waiting {PATIENCE_S:.0f} s "
                    f"for program {number}"
                )
            time.sleep(common.LOOK_S)
    common.wait(comm.Ibarrier())


def measure(
    comm: Any, run: Callable[[], Any], seconds: float, ready: Callable[[], None]
) -> tuple[int, int, int, float]:
    """Repetitions, the earliest start and the latest end of a rank in ns, and the slowest rank's
    time per repetition in seconds; valid only on the first rank.
    """
    clock = time.perf_counter
    now = time.monotonic_ns
    began = clock()
    for _ in range(WARM_UP):
        run()
    batch = comm.bcast(max(1, int(BATCH_S * WARM_UP / max(clock() - began, 1e-9))))
    ready()
    comm.Barrier()
    begin = end = now()
    own = 0.0
    count = 0
    going = True
    while going:
        started = clock()
        for _ in range(batch):
            run()
        own += clock() - started
        count += batch
        end = now()
        # No rank goes on before the others: one that has a core for itself
        # would be done long before one that has not.
        going = comm.allreduce(end - begin < seconds * 1e9, MPI.LAND)
    most, first, last = (
        comm.reduce(value, which)
        for value, which in ((own, MPI.MAX), (begin, MPI.MIN), (end, MPI.MAX))
    )
    return count, first or begin, last or end, (most or 0.0) / count


def main(words: list[str], comm: Any) -> None:
    parser = common.options(
        "Copies and collectives, at the same time as other programs.",
        seconds={"required": True, "type": float, "help": "of each benchmark and size"},
        program={
            "nargs": 2,
            "type": int,
            "default": (1, 1),
            "metavar": ("NUMBER", "PROGRAMS"),
            "help": "which it is of how many; 1 of 1 by default",
        },
        meet={
            "type": Path,
            "metavar": "FOLDER",
            "help": "where the programs meet; without, it runs alone",
        },
    )
    parser.add_argument("rows", nargs="+", metavar="NAME:SIZE,...")
    asked = parser.parse_args(words)
    program, programs = asked.program
    time.sleep(common.PAUSE_S)
    lines = common.Lines(
        comm, "sharing", program=program, programs=programs, shared=bool(asked.meet)
    )
    calls = WithCopy(comm, ("d", MPI.DOUBLE))
    section = 0
    gc.disable()
    for row in asked.rows:
        name, _, listed = row.partition(":")
        for size in common.whole_numbers(listed):
            section += 1
            operation = getattr(calls, name.lower())(size)
            operation.check(f"{name} of {size} bytes")

            def ready(section: int = section) -> None:
                meet(comm, asked.meet, program, programs, section)

            count, begin, end, seconds = measure(comm, operation.run, asked.seconds, ready)
            rate = (
                round(comm.size * size / seconds / 1e6, 3) if name == "Copy" and seconds else None
            )
            times = {
                "from_ns": begin,
                "to_ns": end,
                "t_max_us": common.microseconds(seconds),
                "mb_per_s": rate,
            }
            lines.row(benchmark=name, bytes=size, repetitions=count, **times)
    lines.end()


if __name__ == "__main__":
    main(sys.argv[1:], MPI.COMM_WORLD)

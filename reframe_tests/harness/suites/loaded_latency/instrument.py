"""Times small messages between pairs of nodes, first alone and then while the nodes' other ranks stream to each other.

A program for the Python of a stack, with mpi4py and nothing else, under its launcher:
``python instrument.py --ppn 2 --repetitions 1000``.

The first rank of each node is a victim, its partner that of the node half of the nodes further on; all other ranks stream both
ways to the same place of the partner's node. The latency is half of a round trip, each repetition timed by itself; percentiles
are over the repetitions of all victims, by the nearest rank. Streams begin before the victims do and end after them. Ranks that
have nothing to do sleep, and look every millisecond whether it is over.
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
from typing import Any

from mpi4py import MPI

TITLE = "# MPI latency under load, format 1"
PERCENTILES = (50, 90, 99)
#: Bytes of a victim's message; of a stream's messages, and how many are on their way each way.
PING, STREAM, WINDOW = 8, 131072, 16
#: Repetitions that are not counted.
WARM_UP = 10
#: Seconds before the first message (``evidence/exchange.py`` says why); from the beginning of the streams to the first
#: repetition; between two looks of a rank that waits.
PAUSE_S, LEAD_S, LOOK_S = 0.3, 0.2, 0.001


def percentile(ordered: list[float], percent: int) -> float:
    """The nearest-rank percentile of values in ascending order."""
    return ordered[max(0, math.ceil(percent / 100 * len(ordered)) - 1)]


def give_up(why: str) -> None:
    sys.stderr.write(f"{why}\n")
    sys.stderr.flush()
    MPI.COMM_WORLD.Abort(1)


def wait(request: Any) -> None:
    """Until a request is done, at no cost for others."""
    while not request.Test():
        time.sleep(LOOK_S)


def ping(comm: Any, partner: int, first: bool, repetitions: int) -> Any:
    """Half of each round trip in seconds; of the second rank nothing."""
    sent, got = bytearray([comm.rank % 251 + 1]) * PING, bytearray(PING)
    times = array("d")
    clock = time.perf_counter
    for repetition in range(WARM_UP + repetitions):
        if first:
            begin = clock()
            comm.Send([sent, MPI.BYTE], partner, 1)
            comm.Recv([got, MPI.BYTE], partner, 1)
            if repetition >= WARM_UP:
                times.append((clock() - begin) / 2)
        else:
            comm.Recv([got, MPI.BYTE], partner, 1)
            comm.Send([sent, MPI.BYTE], partner, 1)
    if got != bytearray([partner % 251 + 1]) * PING:
        give_up(f"rank {comm.rank} received wrong data")
    return times


def stream(comm: Any, partner: int, first: bool, over: Any) -> tuple[int, float]:
    """Windows both ways until ``over`` is done, of which the first rank tells the second: their number, and seconds."""
    sent, got = bytearray([comm.rank % 251 + 1]) * STREAM, bytearray(STREAM)
    window = [comm.Recv_init([got, MPI.BYTE], partner, 2) for _ in range(WINDOW)]
    window += [comm.Send_init([sent, MPI.BYTE], partner, 2) for _ in range(WINDOW)]
    go_on = bytearray(1)
    windows, begin = 0, time.perf_counter()
    while True:
        MPI.Prequest.Startall(window)
        MPI.Request.Waitall(window)
        windows += 1
        if first:
            go_on[0] = not over.Test()
            comm.Send([go_on, MPI.BYTE], partner, 3)
        else:
            comm.Recv([go_on, MPI.BYTE], partner, 3)
        if not go_on[0]:
            break
    seconds = time.perf_counter() - begin
    if got != bytearray([partner % 251 + 1]) * STREAM:
        give_up(f"rank {comm.rank} received wrong data")
    for request in window:
        request.Free()
    return windows, seconds


def read_arguments(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Times small messages alone and beside streams.")
    parser.add_argument("--ppn", required=True, type=int, help="ranks of each node, which they fill in blocks; two or more")
    parser.add_argument("--repetitions", required=True, type=int)
    return parser.parse_args(words)


def main(words: list[str], comm: Any) -> None:
    """Measure on a communicator; the table goes to the standard output of its first rank."""
    asked = read_arguments(words)
    time.sleep(PAUSE_S)
    hosts = comm.allgather(MPI.Get_processor_name())
    nodes = comm.size // asked.ppn
    blocks = [set(hosts[at : at + asked.ppn]) for at in range(0, comm.size, asked.ppn)]
    if asked.ppn < 2 or nodes % 2 or comm.size % asked.ppn or len(set(hosts)) != nodes or any(len(one) != 1 for one in blocks):
        give_up(f"{comm.size} ranks are not {asked.ppn} after the other on each of an even number of nodes, two or more each")
    half = comm.size // 2
    first, victim = comm.rank < half, comm.rank % asked.ppn == 0
    partner = comm.rank + half if first else comm.rank - half
    checksum, count = 0, 0

    def say(line: str) -> None:
        nonlocal checksum
        if comm.rank == 0:
            checksum = zlib.crc32(f"{line}\n".encode(), checksum)
            sys.stdout.write(f"{line}\n")
            sys.stdout.flush()

    say(TITLE)
    say(f"# {comm.size} ranks, {asked.ppn} a node, the first of each a victim, windows of {WINDOW} messages both ways")
    titles = " ".join(f"{f'p{percent}[us]':>12}" for percent in PERCENTILES)
    say(f"# {'benchmark':<8} {'state':>8} {'bytes':>8} {'repetitions':>12} {'mean[us]':>12} {titles}")
    gc.disable()
    for state in ("alone", "loaded"):
        wait(comm.Ibarrier())
        # Who streams is there at once, who is a victim when it is done.
        over = None if victim else comm.Ibarrier()
        times, windows, seconds = array("d"), 0, 0.0
        if victim:
            time.sleep(LEAD_S)
            times = ping(comm, partner, first, asked.repetitions)
            over = comm.Ibarrier()
        elif state == "loaded":
            windows, seconds = stream(comm, partner, first, over)
        wait(over)
        found = comm.gather((times.tolist(), windows, seconds), 0)
        if comm.rank == 0:
            ordered = sorted(value for each, _, _ in found for value in each)
            values = (statistics.fmean(ordered), *(percentile(ordered, each) for each in PERCENTILES))
            numbers = " ".join(f"{1e6 * value:>12.3f}" for value in values)
            say(f"{'Victim':<10} {state:>8} {PING:>8} {len(ordered):>12} {numbers}")
            count += 1
            if state == "loaded":
                rates = [2 * WINDOW * STREAM * each / took for _, each, took in found[:half] if each]
                total = sum(each for _, each, _ in found[:half])
                say(f"{'Load':<10} {state:>8} {STREAM:>8} {total:>12} {sum(rates) / 1e6:>12.3f} MB/s")
                count += 1
    wait(comm.Ibarrier())
    if comm.rank == 0:
        sys.stdout.write(f"# end: {count} rows, received data all right, CRC-32 {checksum:08x}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:], MPI.COMM_WORLD)

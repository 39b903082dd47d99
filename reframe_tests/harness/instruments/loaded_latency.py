"""Times small messages between pairs of nodes, first alone and then
while the nodes' other ranks stream to each other.

``python loaded_latency.py --ppn 2 --repetitions 1000``

The first rank of each node is a victim, its partner that of the node half of the nodes further on;
all other ranks stream both ways to the same place of the partner's node. The latency is half of a
round trip, each repetition timed by itself; percentiles are over the repetitions of all victims, by
the nearest rank. Streams begin before the victims do and end after them. Ranks that have nothing to
do sleep, and look every millisecond whether it is over.
"""

from __future__ import annotations

import gc
import sys
import time
from array import array
from pathlib import Path
from typing import Any

from mpi4py import MPI

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from reframe_tests.harness.instruments import common

#: Bytes of a victim's message; of a stream's messages, and how many are on their way each way.
PING = 8
STREAM = 131072
WINDOW = 16
#: Repetitions that are not counted, and seconds from the beginning
#: of the streams to the first repetition.
WARM_UP = 10
LEAD_S = 0.2


def ping(comm: Any, partner: int, first: bool, repetitions: int) -> Any:
    """Half of each round trip in seconds; of the second rank nothing."""
    sent = bytearray(common.known(comm.rank, PING))
    got = bytearray(PING)
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
    if got != common.known(partner, PING):
        common.give_up(f"rank {comm.rank} received wrong data")
    return times


def stream(comm: Any, partner: int, first: bool, over: Any) -> tuple[int, float]:
    """Windows both ways until ``over`` is done, of which the first rank
    tells the second: their number, and seconds.
    """
    sent = bytearray(common.known(comm.rank, STREAM))
    got = bytearray(STREAM)
    window = [comm.Recv_init([got, MPI.BYTE], partner, 2) for _ in range(WINDOW)]
    window += [comm.Send_init([sent, MPI.BYTE], partner, 2) for _ in range(WINDOW)]
    go_on = bytearray(1)
    windows = 0
    begin = time.perf_counter()
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
    if got != common.known(partner, STREAM):
        common.give_up(f"rank {comm.rank} received wrong data")
    for request in window:
        request.Free()
    return windows, seconds


def main(words: list[str], comm: Any) -> None:
    asked = common.options(
        "Times small messages alone and beside streams.",
        ppn={
            "required": True,
            "type": int,
            "help": "ranks of each node, which they fill in blocks; two or more",
        },
        repetitions={"required": True, "type": int},
    ).parse_args(words)
    time.sleep(common.PAUSE_S)
    if asked.ppn < 2:
        common.give_up(
            f"{asked.ppn} rank a node: two or more are needed, one that waits and others that "
            "stream"
        )
    common.check_blocks(comm, asked.ppn)
    half = comm.size // 2
    first = comm.rank < half
    victim = comm.rank % asked.ppn == 0
    partner = comm.rank + half if first else comm.rank - half
    lines = common.Lines(comm, "loaded_latency", ppn=asked.ppn, window=WINDOW)
    gc.disable()
    for state in ("alone", "loaded"):
        common.wait(comm.Ibarrier())
        # Who streams is there at once, who is a victim when it is done.
        over = None if victim else comm.Ibarrier()
        times = array("d")
        windows = 0
        seconds = 0.0
        if victim:
            time.sleep(LEAD_S)
            times = ping(comm, partner, first, asked.repetitions)
            over = comm.Ibarrier()
        elif state == "loaded":
            windows, seconds = stream(comm, partner, first, over)
        common.wait(over)
        gathered = comm.gather((times.tolist(), windows, seconds), 0)
        if comm.rank == 0:
            values = [value for latencies, _, _ in gathered for value in latencies]
            lines.row(
                **{
                    "benchmark": "Victim",
                    "state": state,
                    "bytes": PING,
                    "repetitions": len(values),
                },
                **common.summary_us(values),
            )
        if comm.rank == 0 and state == "loaded":
            total = sum(number for _, number, _ in gathered[:half])
            rate = sum(
                2 * WINDOW * STREAM * number / took for _, number, took in gathered[:half] if number
            )
            lines.row(
                benchmark="Load",
                state=state,
                bytes=STREAM,
                repetitions=total,
                mb_per_s=round(rate / 1e6, 3),
            )
    common.wait(comm.Ibarrier())
    lines.end()


if __name__ == "__main__":
    main(sys.argv[1:], MPI.COMM_WORLD)

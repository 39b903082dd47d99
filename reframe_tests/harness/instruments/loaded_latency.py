"""Times small messages between pairs of nodes, the victims, first alone
and then while other ranks, the aggressors, stream to each other.

``python loaded_latency.py --ppn 2 --repetitions 1000 --aggressors interleaved``

A victim is the first rank of a node, its partner that of the node half of the victims' nodes
further on. Aggressors are ``beside`` the victims: all other ranks of their nodes. Or they are all
ranks of nodes of their own, as many as the victims have or two more, and the placement decides
which links both share (De Sensi et al., "An In-Depth Analysis of the Slingshot Interconnect", SC
2020): the victims' nodes come first (``linear``), evenly among the others (``interleaved``), or are
drawn (``random``, by ``--seed``). Each aggressor streams both ways with the same place of its
partner's node: all the time, or for ``--burst-ms`` (at least one window), after which it rests for
``--pause-ms``.

The latency is half of a round trip, each repetition timed by itself; percentiles are over the
repetitions of all victims, by the nearest rank. Streams begin before the victims do and end after
them. Under bursts the victims pause between repetitions, alone as well, so that these meet several
bursts. Ranks that have nothing to do sleep, and look every millisecond whether it is over.
"""

from __future__ import annotations

import gc
import random
import sys
import time
from array import array
from pathlib import Path
from typing import Any

from mpi4py import MPI

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from reframe_tests.harness.instruments import common
from reframe_tests.harness.machine.switch_paths import name_of

#: Bytes of a victim's message; of a stream's messages, and how many are on their way each way.
PING = 8
STREAM = 131072
WINDOW = 16
#: Repetitions that are not counted, and seconds from the beginning
#: of the streams to the first repetition.
WARM_UP = 10
LEAD_S = 0.2
#: Bursts and pauses that the repetitions of a victim are spread over.
PERIODS = 10
PLACEMENTS = ("beside", "linear", "interleaved", "random")
#: What the first rank of a pair of aggressors tells the second.
STOP, GO_ON, REST = range(3)


def share_out(nodes: int, aggressors: str, seed: int) -> tuple[list[int], list[int]]:
    """Nodes of the victims, and those of the aggressors; each an even number, in the job's order.

    :param nodes: an even number of them, four or more where aggressors have their own.
    :param aggressors: one of :data:`PLACEMENTS`.
    """
    everyone = list(range(nodes))
    if aggressors == "beside":
        return everyone, everyone
    count = nodes // 4 * 2
    victims = {
        "linear": everyone[:count],
        "interleaved": [
            node for node in everyone if (node + 1) * count // nodes > node * count // nodes
        ],
        "random": sorted(random.Random(seed).sample(everyone, count)),
    }[aggressors]
    return victims, sorted({*everyone} - {*victims})


def ping(comm: Any, partner: int, first: bool, repetitions: int, rest_s: float) -> Any:
    """Half of each round trip in seconds; of the second rank nothing.

    :param rest_s: seconds before each repetition.
    """
    sent = bytearray(common.known(comm.rank, PING))
    got = bytearray(PING)
    times = array("d")
    clock = time.perf_counter
    for repetition in range(WARM_UP + repetitions):
        if first:
            if rest_s:
                time.sleep(rest_s)
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


def stream(
    comm: Any, partner: int, first: bool, over: Any, burst_s: float, pause_s: float
) -> tuple[int, float]:
    """Windows both ways until ``over`` is done, of which the first rank
    tells the second: their number, and seconds, pauses among them.

    :param burst_s: seconds after which both rest for ``pause_s``; 0: never.
    """
    sent = bytearray(common.known(comm.rank, STREAM))
    got = bytearray(STREAM)
    window = [comm.Recv_init([got, MPI.BYTE], partner, 2) for _ in range(WINDOW)]
    window += [comm.Send_init([sent, MPI.BYTE], partner, 2) for _ in range(WINDOW)]
    go_on = bytearray(1)
    windows = 0
    begin = burst = time.perf_counter()
    while True:
        MPI.Prequest.Startall(window)
        MPI.Request.Waitall(window)
        windows += 1
        if first:
            go_on[0] = REST if 0 < burst_s <= time.perf_counter() - burst else GO_ON
            if over.Test():
                go_on[0] = STOP
            comm.Send([go_on, MPI.BYTE], partner, 3)
        else:
            comm.Recv([go_on, MPI.BYTE], partner, 3)
        if go_on[0] == STOP:
            break
        if go_on[0] == REST:
            time.sleep(pause_s)
            burst = time.perf_counter()
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
            "help": "ranks of each node, which they fill in blocks",
        },
        repetitions={"required": True, "type": int},
        aggressors={"choices": PLACEMENTS, "default": "beside"},
        seed={"type": int, "default": 1},
        burst_ms={"type": int, "default": 0},
        pause_ms={"type": int, "default": 0},
    ).parse_args(words)
    time.sleep(common.PAUSE_S)
    hosts = common.check_blocks(comm, asked.ppn)
    nodes = comm.size // asked.ppn
    if (asked.ppn < 2) if asked.aggressors == "beside" else (nodes < 4):
        common.give_up(
            f"{asked.ppn} rank a node on {nodes} nodes: aggressors beside the victims need a "
            "second rank, those with nodes of their own four nodes"
        )
    victims, aggressors = share_out(nodes, asked.aggressors, asked.seed)
    node, place = divmod(comm.rank, asked.ppn)
    victim = place == 0 and node in victims
    streams = node in aggressors and not victim
    alike = victims if victim else aggressors
    half = len(alike) // 2
    at = alike.index(node) if victim or streams else 0
    first = at < half
    partner = alike[(at + half) % len(alike)] * asked.ppn + place
    burst_s = asked.burst_ms / 1e3
    pause_s = asked.pause_ms / 1e3
    rest_s = PERIODS * (burst_s + pause_s) / asked.repetitions
    lines = common.Lines(
        comm,
        "loaded_latency",
        ppn=asked.ppn,
        window=WINDOW,
        arguments=words,
        aggressors=asked.aggressors,
        victims=[[node * asked.ppn, name_of(hosts[node * asked.ppn])] for node in victims],
    )
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
            times = ping(comm, partner, first, asked.repetitions, rest_s)
            over = comm.Ibarrier()
        elif streams and state == "loaded":
            windows, seconds = stream(comm, partner, first, over, burst_s, pause_s)
        common.wait(over)
        # Both ranks of a pair count its windows.
        gathered = comm.gather((times.tolist(), windows if first else 0, seconds), 0)
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
            total = sum(number for _, number, _ in gathered)
            rate = sum(
                2 * WINDOW * STREAM * number / took for _, number, took in gathered if number
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

"""Streams between two halves of the nodes at the same time, each pair of
nodes on different switches where that is known.

``python bisection.py --ppn 1 --repetitions 10 Bisection:1048576``

Nodes are sorted by their switches and the first half is paired with the second, so that no pair
shares a switch unless one switch has more than half of the nodes. Slurm tells each rank the
switches above its node (``SLURM_TOPOLOGY_ADDR``, srun(1)); where it does not, or a launcher hands
on the value of another node, the site may have (``MPIBENCH_SWITCHES``, switches with patterns of
their hosts: ``leaf1=cn0*,cn10;leaf2=cn1?``; with those above, ``spine.leaf1=...``). Otherwise the
halves are those of the ranks' order, and the output says so. A repetition is a window of messages
into one buffer and their acknowledgement, as in Uniband and Biband of IMB; the bandwidth of all is
what they sent over the time of the slowest pair.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from pathlib import Path
from typing import Any

from mpi4py import MPI

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from reframe_tests.harness.instruments import common
from reframe_tests.harness.machine.switch_paths import described_switches, name_of, switches_of

WINDOW = 64
#: Benchmark to whether both halves send.
OPERATIONS = {"Bisection": False, "Bisection_both_ways": True}


class Halves:
    """How the nodes are paired.

    :param hosts: of each rank, which fill the nodes in blocks.
    :param paths: switches above each rank's node, as ``source`` has them.
    :param ppn: ranks of each node.
    """

    def __init__(
        self, hosts: list[str], paths: list[tuple[str, ...]], ppn: int, source: str
    ) -> None:
        self.hosts = hosts
        self.paths = paths
        nodes = list(range(0, len(hosts), ppn))
        known = all(paths)
        several = known and len({paths[node] for node in nodes}) > 1
        if several:
            nodes.sort(key=lambda node: (paths[node], node))
        half = len(nodes) // 2
        #: First rank of both nodes of each pair.
        self.pairs = [(nodes[at], nodes[at + half]) for at in range(half)]
        apart = sum(paths[left] != paths[right] for left, right in self.pairs)
        if several:
            self.split = (
                f"by switches as {source} has them, {apart} of {half} pairs of nodes on "
                "different ones"
            )
        elif known:
            self.split = (
                f"plain halves, because {source} has all nodes on one switch ({paths[0][-1]})"
            )
        else:
            self.split = "plain halves, because the switches are not known"
        self.partner = {}
        for left, right in self.pairs:
            for place in range(ppn):
                self.partner[left + place] = (right + place, True)
                self.partner[right + place] = (left + place, False)

    def describe(self, node: int) -> list[Any]:
        return [node, name_of(self.hosts[node]), self.paths[node][-1] if self.paths[node] else None]


def measure(comm: Any, halves: Halves, both: bool, size: int, repetitions: int) -> float:
    partner, first = halves.partner[comm.rank]
    sent = bytearray(common.known(comm.rank, size))
    got = bytearray(size)
    mark = bytearray(1)
    sends = (
        [comm.Send_init([sent, MPI.BYTE], partner, 1) for _ in range(WINDOW)]
        if both or first
        else []
    )
    receives = (
        [comm.Recv_init([got, MPI.BYTE], partner, 1) for _ in range(WINDOW)]
        if both or not first
        else []
    )
    # In turn: with all receives in front, MPICH over TCP sometimes sent
    # 4 MiB messages one way after the other.
    window = (
        [request for pair in zip(receives, sends, strict=True) for request in pair]
        if both
        else [*receives, *sends]
    )

    def once() -> None:
        MPI.Prequest.Startall(window)
        MPI.Request.Waitall(window)
        if first:
            comm.Recv([mark, MPI.BYTE], partner, 2)
        else:
            comm.Send([mark, MPI.BYTE], partner, 2)

    comm.Sendrecv([mark, MPI.BYTE], partner, 3, [bytearray(1), MPI.BYTE], partner, 3)
    comm.Barrier()
    begin = time.perf_counter()
    for _ in range(repetitions):
        once()
    seconds = time.perf_counter() - begin
    if receives and got != common.known(partner, size):
        common.give_up(f"rank {comm.rank} received wrong data")
    for request in window:
        request.Free()
    return seconds


def main(words: list[str], comm: Any) -> None:
    parser = common.options(
        "Streams between two halves of the nodes.",
        ppn={
            "required": True,
            "type": int,
            "help": "ranks of each node, which they fill in blocks",
        },
        repetitions={"required": True, "type": int},
    )
    parser.add_argument("rows", nargs="+", metavar="NAME:SIZE,...")
    asked = parser.parse_args(words)
    time.sleep(common.PAUSE_S)
    hosts = common.check_blocks(comm, asked.ppn)
    environ = (
        os.environ.get("SLURM_TOPOLOGY_ADDR", ""),
        os.environ.get("SLURM_TOPOLOGY_ADDR_PATTERN", ""),
    )
    paths = comm.allgather(switches_of(hosts[comm.rank], *environ))
    source = "Slurm"
    if not all(paths):
        paths = [
            described_switches(host, os.environ.get("MPIBENCH_SWITCHES", "")) for host in hosts
        ]
        source = "the site"
        paths = comm.bcast(paths, 0)
    halves = Halves(hosts, paths, asked.ppn, source)
    pairs = [[halves.describe(left), halves.describe(right)] for left, right in halves.pairs]
    lines = common.Lines(
        comm, "bisection", ppn=asked.ppn, window=WINDOW, split=halves.split, pairs=pairs
    )
    gc.disable()
    for row in asked.rows:
        name, _, listed = row.partition(":")
        for size in common.whole_numbers(listed):
            own = measure(comm, halves, OPERATIONS[name], size, asked.repetitions)
            seconds = comm.gather(own, 0)
            if comm.rank != 0:
                continue
            sent = WINDOW * size * asked.repetitions * (1 + OPERATIONS[name])
            times = {
                rank: max(seconds[rank], seconds[partner])
                for rank, (partner, first) in halves.partner.items()
                if first
            }
            slowest = max(times, key=lambda rank: times[rank])
            rates = {
                "all": sent * len(times) / times[slowest],
                "slowest": sent / times[slowest],
                "fastest": sent / min(times.values()),
            }
            lines.row(
                **{"benchmark": name, "bytes": size, "repetitions": asked.repetitions},
                **{f"{which}_mb_per_s": round(rate / 1e6, 3) for which, rate in rates.items()},
                slowest_pair=[slowest, halves.partner[slowest][0]],
            )
    comm.Barrier()
    lines.end()


if __name__ == "__main__":
    main(sys.argv[1:], MPI.COMM_WORLD)

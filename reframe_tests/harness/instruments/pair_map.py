"""Latency and bandwidth of pairs of nodes, in rounds of disjoint pairs,
after one start of MPI with one rank a node, or a GPU.

``python pair_map.py --rounds 0 --orders 2 --seed 1 --latency 8x100 --bandwidth 1048576x3``

Rank 0 starts each step of a round when all that took part in the one before have reported it: a
pair's latency both ways, then the bandwidth of all pairs in one direction, then in the other.
Latency is half of a round trip of blocking calls, repeated for some ms at least: the median and, as
a node that is stopped now and then shows in it only, the mean. Bandwidth is that of windows of
messages into one buffer with an acknowledgement each, as Uniband of IMB has it, in which nobody
waits longer than ``--patience``: a node that stops answering is named and left out, and the others
go on, if the MPI lets them. Ranks that take no part in a step sleep, and look now and then for the
next. With ``--memory cuda`` or ``rocm`` what is timed lies in memory of each rank's GPU; the ranks'
own words stay in the host's. Each step's rows end with a checksum of all lines so far, so that what
was measured before an untimely end can be used.
"""

from __future__ import annotations

import argparse
import gc
import os
import statistics
import sys
import time
from array import array
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from reframe_tests.harness.instruments import device_memory

DEVICE = device_memory.choose(sys.argv[1:])  # before MPI starts

from mpi4py import MPI  # noqa: E402

from reframe_tests.harness.instruments import common, schedule  # noqa: E402
from reframe_tests.harness.instruments.common import give_up, known  # noqa: E402
from reframe_tests.harness.machine import switch_paths as paths  # noqa: E402

WINDOW = 64
#: Seconds between two looks of an idle rank, at first and at most: the longer it has waited, the
#: fewer it needs. All wait for rank 0, which looks more often.
FIRST_LOOK_S = 0.0001
LAST_LOOK_S = 0.003
FIRST_RANK_LOOK_S = 0.001
LONGER = 1.3
#: The same of a rank that waits for large messages where others need its core.
SHARED_LOOK_S = 0.0002
#: Looks of a rank that works before it lets others have its core; bytes
#: that make a connection before it is timed.
SPINS = 200
WARM_UP_BYTES = 1 << 16
#: Repetitions of a latency that are not counted.
WARM_UP = 5
#: Most repetitions of a latency on GPUs, whatever the warm-up took.
MOST_PINGS = 100_000
#: Silent ranks after which nothing more is worth measuring.
MOST_SILENT = 32
#: Seconds for which others may report after one has said that its partner is silent.
LATE_S = 1.0
#: Seconds after which a rank gives up that hears nothing more: rank 0 is gone.
HOUR_S = 3600
GO, REPORT, GREET, PING, DATA, ACK = range(1, 7)
FINE, ALONE, WRONG = range(3)
LATENCY = "latency_us"
MEAN = "latency_mean_us"
BANDWIDTH = "bandwidth_mb_per_s"


class Size(NamedTuple):
    bytes: int
    number: int

    @classmethod
    def read(cls, text: str) -> Size:
        size, _, count = text.partition("x")
        return cls(int(size), int(count))


class Step(NamedTuple):
    """What some pairs do at the same time; of a bandwidth the first of each pair sends."""

    order: int
    round: int
    quantity: str
    phase: int
    pairs: list[tuple[int, int]]


class SilentError(Exception):
    """The partner did not answer in time, or its connection broke."""


def steps_of(
    rounds: Sequence[schedule.Round], orders: int, seed: int, together: int
) -> Iterator[Step]:
    """All steps in their order, each made when it is asked for.

    :param together: pairs whose latency is measured at the same time; 0: all of a round.
    """
    number = 0
    for order in range(1, orders + 1):
        for pairs in schedule.in_order(rounds, order, seed):
            number += 1
            part = together or len(pairs)
            for at in range(0, len(pairs), part):
                yield Step(order, number, LATENCY, 1, pairs[at : at + part])
            yield Step(order, number, BANDWIDTH, 1, pairs)
            yield Step(order, number, BANDWIDTH, 2, [pair[::-1] for pair in pairs])


def wait(requests: list[Any], deadline: float, *, shared: bool) -> None:
    """Until all requests are complete.

    :param shared: others need the core.
    :raises SilentError: they are not by the deadline.
    """
    spins = 0
    while not MPI.Request.Testall(requests):
        spins += 1
        if spins > SPINS:
            time.sleep(SHARED_LOOK_S) if shared else os.sched_yield()
            if (shared or spins % SPINS == 0) and time.monotonic() > deadline:
                raise SilentError


def wait_idly(requests: list[Any], deadline: float, longest_look_s: float = LAST_LOOK_S) -> bool:
    """As :func:`wait`, for a rank that has nothing else to do; whether they are complete."""
    look_s = FIRST_LOOK_S
    while not MPI.Request.Testall(requests):
        if time.monotonic() > deadline:
            return False
        time.sleep(look_s)
        look_s = min(longest_look_s, LONGER * look_s)
    return True


class Rank:
    def __init__(self, comm: Any, asked: argparse.Namespace) -> None:
        self.comm = comm
        self.latency = asked.latency
        self.bandwidth = asked.bandwidth
        self.repeats = asked.repeats
        self.patience_s = asked.patience
        self.shared = bool(asked.shared)
        most = max(self.bandwidth.bytes, self.latency.bytes, WARM_UP_BYTES)
        content = known(comm.rank, most)
        self.sent: Any = device_memory.Buffer(DEVICE, content) if DEVICE else bytearray(content)
        self.got: Any = device_memory.Buffer(DEVICE, bytes(most)) if DEVICE else bytearray(most)
        #: Requests of a partner that fell silent: they may still
        #: complete, so that their buffers must stay.
        self.left: list[Any] = []
        #: Partners that large messages went to and came from.
        self.warm: set[int] = set()

    @staticmethod
    def message(buffer: Any, size: int) -> list[Any]:
        return [buffer.part(size) if DEVICE else memoryview(buffer)[:size], MPI.BYTE]

    def take_part(self, step: Step) -> tuple[int, list[float]]:
        """Status and values of this rank in a step: those of a latency in its
        second phase are behind those of the first.
        """
        pair = next((pair for pair in step.pairs if self.comm.rank in pair), None)
        if pair is None:
            return FINE, []
        first = pair[0] == self.comm.rank
        partner = pair[1] if first else pair[0]
        try:
            self.greet(partner, large=step.quantity == BANDWIDTH)
            if step.quantity == LATENCY:
                return FINE, self.ping(partner, first=first)
            return self.stream(partner, sends=first)
        except (SilentError, MPI.Exception):
            return ALONE, []

    def begin(self, requests: list[Any], deadline: float) -> None:
        try:
            wait(requests, deadline, shared=self.shared)
        except SilentError:
            self.left += requests
            raise

    def greet(self, partner: int, *, large: bool) -> None:
        """Meet; the first time connections are made, before bandwidths
        also for messages that go by rendezvous.
        """
        size = WARM_UP_BYTES if large and partner not in self.warm else 1
        # The partner sends much once as well; but if it came no further
        # than this the last time, not the same time.
        part = self.message(self.sent, size), self.message(self.got, WARM_UP_BYTES)
        requests = [
            self.comm.Irecv(part[1], partner, GREET),
            self.comm.Isend(part[0], partner, GREET),
        ]
        self.begin(requests, time.monotonic() + self.patience_s)
        if large:
            self.warm.add(partner)

    def ping(self, partner: int, *, first: bool) -> list[float]:
        """Half round trips in us that this rank started: medians, one a
        repeat, then means; the other then starts its own.
        """
        middle = list[float]()
        means = list[float]()
        for starts in (first, not first):
            for _ in range(self.repeats):
                if not starts:
                    self.answer_on_gpu(partner) if DEVICE else self.answer(partner)
                    continue
                times = self.call_on_gpu(partner) if DEVICE else self.call(partner)
                middle.append(statistics.median(times) / 2 * 1e6)
                means.append(statistics.fmean(times) / 2 * 1e6)
        return middle + means

    def call(self, partner: int) -> array[float]:
        """Round trips in seconds, for as long as :data:`schedule.LATENCY_S`
        says; the last message is marked as such.
        """
        comm = self.comm
        clock = time.perf_counter
        times = array("d")
        sent = bytearray(self.latency.bytes)
        got = bytearray(self.latency.bytes)
        repetition = 0
        until = float("inf")
        while not sent[0]:
            begin = clock()
            if repetition == WARM_UP:
                until = begin + schedule.LATENCY_S
            sent[0] = repetition >= WARM_UP + self.latency.number - 1 and begin >= until
            comm.Send([sent, MPI.BYTE], partner, PING)
            comm.Recv([got, MPI.BYTE], partner, PING)
            if repetition >= WARM_UP:
                times.append(clock() - begin)
            repetition += 1
        return times

    def answer(self, partner: int) -> None:
        sent = bytearray(self.latency.bytes)
        got = bytearray(self.latency.bytes)
        while not got[0]:
            self.comm.Recv([got, MPI.BYTE], partner, PING)
            self.comm.Send([sent, MPI.BYTE], partner, PING)

    def call_on_gpu(self, partner: int) -> array[float]:
        """As :meth:`call`; to mark the last message would be a copy to the
        GPU each time: their number is said before.
        """
        comm = self.comm
        clock = time.perf_counter
        times = array("d")
        sent = self.message(self.sent, self.latency.bytes)
        got = self.message(self.got, self.latency.bytes)
        count = WARM_UP
        for part in ("warm-up", "timed"):
            for _ in range(count):
                begin = clock()
                comm.Send(sent, partner, PING)
                comm.Recv(got, partner, PING)
                times.append(clock() - begin)
            if part == "warm-up":
                count = max(
                    self.latency.number,
                    min(MOST_PINGS, int(schedule.LATENCY_S / max(min(times), 1e-9))),
                )
                comm.Send([array("i", [count]), MPI.INT], partner, PING)
        return times[WARM_UP:]

    def answer_on_gpu(self, partner: int) -> None:
        sent = self.message(self.sent, self.latency.bytes)
        got = self.message(self.got, self.latency.bytes)
        count = array("i", [WARM_UP])
        for part in ("warm-up", "timed"):
            for _ in range(count[0]):
                self.comm.Recv(got, partner, PING)
                self.comm.Send(sent, partner, PING)
            if part == "warm-up":
                self.comm.Recv([count, MPI.INT], partner, PING)

    def stream(self, partner: int, *, sends: bool) -> tuple[int, list[float]]:
        """Bandwidths in MB/s, of the rank that sends."""
        comm = self.comm
        size = self.bandwidth
        values = list[float]()
        mark = bytearray(1)
        sent, got = (self.message(buffer, size.bytes) for buffer in (self.sent, self.got))
        if DEVICE:
            self.got.fill(bytes(size.bytes))
        else:
            self.got[:] = bytes(len(self.got))
        for _ in range(self.repeats):
            begin = time.perf_counter()
            for first in range(0, size.number, WINDOW):
                count = min(WINDOW, size.number - first)
                deadline = time.monotonic() + self.patience_s
                if sends:
                    answer = comm.Irecv([mark, MPI.BYTE], partner, ACK)
                    self.begin(
                        [*(comm.Isend(sent, partner, DATA) for _ in range(count)), answer], deadline
                    )
                else:
                    self.begin([comm.Irecv(got, partner, DATA) for _ in range(count)], deadline)
                    self.begin([comm.Isend([mark, MPI.BYTE], partner, ACK)], deadline)
            if sends:
                values.append(size.bytes * size.number / (time.perf_counter() - begin) / 1e6)
        received = (
            b""
            if sends
            else self.got.read(size.bytes)
            if DEVICE
            else memoryview(self.got)[: size.bytes]
        )
        right = sends or received == known(partner, size.bytes)
        return (FINE if right else WRONG), values


class PairTable:
    def __init__(
        self, lines: common.Lines, hosts: list[str], sizes: dict[str, int], repeats: int
    ) -> None:
        self.lines = lines
        self.hosts = hosts
        self.sizes = sizes
        self.repeats = repeats

    def add(self, step: Step, values: dict[int, list[float]]) -> None:
        """A row for each repeat of a step: its pairs once, and of each phase and quantity a value
        a pair, or none; in phase 2 what is the target sends.
        """
        forth = (pair[:: 3 - 2 * step.phase] for pair in step.pairs)
        ends = [list(ends) for ends in zip(*forth, strict=True)]
        parts = (
            [(step.phase, BANDWIDTH, 0)]
            if step.quantity == BANDWIDTH
            else [
                (phase, quantity, first)
                for phase in (1, 2)
                for quantity, first in ((LATENCY, 0), (MEAN, self.repeats))
            ]
        )
        for repeat in range(self.repeats):
            self.lines.row(
                order=step.order,
                round=step.round,
                repeat=repeat + 1,
                bytes=self.sizes[step.quantity],
                source=ends[0],
                target=ends[1],
                values=[
                    [
                        phase,
                        quantity,
                        [_nth(values.get(rank, ()), first + repeat) for rank in ends[phase - 1]],
                    ]
                    for phase, quantity, first in parts
                ],
            )
        self.lines.so_far()


def _nth(measured: Sequence[float], place: int) -> float | None:
    return round(measured[place], 3) if len(measured) > place else None


class Conductor:
    """Rank 0: lets all ranks take each step, and finds out who is silent."""

    def __init__(self, rank: Rank, table: PairTable) -> None:
        self.rank = rank
        self.comm = rank.comm
        self.table = table
        self.silent: dict[int, str] = {}
        self.words = 2 + 2 * rank.repeats

    def run(self, steps: Iterable[Step]) -> None:
        for number, step in enumerate(steps):
            if len(self.silent) > MOST_SILENT or len(self.silent) >= self.comm.size - 1:
                break
            there = [pair for pair in step.pairs if not set(pair) & set(self.silent)]
            values = self.conduct(number, step, there)
            self.table.add(step, values)
        self.tell(-1, self.listening())

    def tell(self, number: int, ranks: list[int]) -> None:
        """Name a step, or the end, to ranks, and who is silent."""
        gone = sorted(self.silent)[:MOST_SILENT]
        words = array("i", [number, len(gone), *gone, *([0] * (MOST_SILENT - len(gone)))])
        requests = [self.comm.Isend([words, MPI.INT], rank, GO) for rank in ranks]
        if not wait_idly(requests, time.monotonic() + self.rank.patience_s):
            self.rank.left += [requests, words]

    def listening(self) -> list[int]:
        return [rank for rank in range(1, self.comm.size) if rank not in self.silent]

    def conduct(
        self, number: int, step: Step, pairs: list[tuple[int, int]]
    ) -> dict[int, list[float]]:
        ranks = [rank for rank in self.listening() if any(rank in pair for pair in pairs)]
        reports = {rank: array("d", bytes(8 * self.words)) for rank in ranks}
        requests = {
            rank: self.comm.Irecv([reports[rank], MPI.DOUBLE], rank, REPORT) for rank in ranks
        }
        self.tell(number, ranks)
        status, own = self.rank.take_part(step._replace(pairs=pairs))
        if not self.await_reports(requests, reports):
            for rank, request in requests.items():
                if not request.Test():
                    partner = next(sum(pair) - rank for pair in pairs if rank in pair)
                    self.silent[rank] = (
                        f"did not answer in round {step.round}, paired with "
                        f"{self.table.hosts[partner]}"
                    )
                    self.rank.left += [request, reports[rank]]
        values = {0: own}
        for rank in set(ranks) - set(self.silent):
            values[rank] = list(reports[rank])[2 : 2 + int(reports[rank][1])]
            status = max(status, int(reports[rank][0]) if reports[rank][0] == WRONG else 0)
        if status == WRONG:
            give_up(f"wrong data were received in round {step.round}")
        return {rank: row for rank, row in values.items() if not self.is_alone(rank, pairs)}

    def await_reports(self, requests: dict[int, Any], reports: dict[int, array[float]]) -> bool:
        """Whether all report. Who waits for a silent partner does so after
        its own patience; the partner is late then.
        """
        deadline = time.monotonic() + 2 * self.rank.patience_s
        while not wait_idly(
            list(requests.values()), min(deadline, time.monotonic() + LATE_S), FIRST_RANK_LOOK_S
        ):
            alone = any(
                request.Test() and reports[rank][0] == ALONE for rank, request in requests.items()
            )
            if time.monotonic() > deadline:
                return False
            deadline = min(deadline, time.monotonic() + LATE_S) if alone else deadline
        return True

    def is_alone(self, rank: int, pairs: list[tuple[int, int]]) -> bool:
        return any(rank in pair and set(pair) & set(self.silent) for pair in pairs)


def follow(rank: Rank, steps: Iterable[Step]) -> bool:
    """Every other rank: takes each step that rank 0 says; whether it came to an end."""
    comm = rank.comm
    words = array("i", bytes(4 * (2 + MOST_SILENT)))
    coming = enumerate(steps)
    while True:
        order = comm.Irecv([words, MPI.INT], 0, GO)
        # Of a step that it takes no part in, a rank hears nothing.
        if not wait_idly([order], time.monotonic() + 20 * rank.patience_s + HOUR_S):
            return False
        number = words[0]
        gone = set(words[2 : 2 + words[1]])
        if number < 0:
            return not gone
        step = next(step for at, step in coming if at == number)
        status, values = rank.take_part(
            step._replace(pairs=[pair for pair in step.pairs if not gone & set(pair)])
        )
        report = array(
            "d", [status, len(values), *values, *([0.0] * (2 * rank.repeats - len(values)))]
        )
        rank.begin(
            [comm.Isend([report, MPI.DOUBLE], 0, REPORT)], time.monotonic() + rank.patience_s
        )


def read_arguments(words: list[str]) -> argparse.Namespace:
    return common.options(
        "Latency and bandwidth of pairs of nodes.",
        rounds={"type": int, "default": 0, "help": "rounds of a sample; 0: all pairs"},
        first={
            "type": int,
            "default": -1,
            "help": "where the sample begins in the rounds of all pairs; -1: by chance",
        },
        orders={"type": int, "default": 2, "help": "passes over all rounds, each in another order"},
        seed={"type": int, "default": 1},
        repeats={"type": int, "default": 1, "help": "values of each pair and pass"},
        shared={
            "type": int,
            "default": 0,
            "help": "1: ranks share cores; latency is measured one pair at a time",
        },
        latency={"type": Size.read, "default": Size(8, 100), "metavar": "BYTESxREPETITIONS"},
        bandwidth={"type": Size.read, "default": Size(1 << 20, 3), "metavar": "BYTESxMESSAGES"},
        switches={
            "default": "",
            "metavar": "FILE",
            "help": "lines 'NODE SWITCH.SWITCH', the top one first",
        },
        memory={
            "choices": list(device_memory.LIBRARIES),
            "help": "messages are in memory of each rank's GPU; default: the host's",
        },
        patience={"type": float, "default": 20, "help": "seconds to wait for a partner"},
    ).parse_args(words)


def find_switches(comm: Any, hosts: list[str], file: str) -> tuple[str, list[tuple[str, ...]]]:
    """Who says it, and the switches above each node, as rank 0 has them:
    of a file, of Slurm, of the site's variable.
    """
    environ = (
        os.environ.get("SLURM_TOPOLOGY_ADDR", ""),
        os.environ.get("SLURM_TOPOLOGY_ADDR_PATTERN", ""),
    )
    source = "Slurm"
    above = comm.allgather(paths.switches_of(hosts[comm.rank], *environ))
    if file:
        known = paths.read_rows(Path(file).read_text().splitlines() if comm.rank == 0 else ())
        source = "the site"
        above = [known.get(host, ()) for host in hosts]
    elif not all(above):
        source = "the site"
        above = [
            paths.described_switches(host, os.environ.get("MPIBENCH_SWITCHES", ""))
            for host in hosts
        ]
    return source, comm.bcast(above, 0)


def main(words: list[str], comm: Any) -> None:
    asked = read_arguments(words)
    if asked.latency.bytes < 1:
        give_up(
            "--latency: a message of one byte or more is needed, whose first byte says which is "
            "the last"
        )
    time.sleep(common.PAUSE_S)
    hosts = [paths.name_of(host) for host in comm.allgather(MPI.Get_processor_name())]
    # GPUs of one node, with no switches that anybody describes
    inside = bool(DEVICE) and len(set(hosts)) == 1
    if inside:
        hosts = [paths.gpu_of(hosts[0], rank) for rank in range(comm.size)]
    if len(set(hosts)) < comm.size or comm.size < 2:
        nodes = len(set(map(paths.node_of, hosts)))
        give_up(
            f"{comm.size} ranks on {nodes} nodes: one rank on each of two nodes, or GPUs of one "
            "node, are needed"
        )
    source, above = ("", [()] * comm.size) if inside else find_switches(comm, hosts, asked.switches)
    # A node of which it is not known is on none of the others' switches.
    leaves = (
        [path or (host,) for host, path in zip(hosts, above, strict=True)] if any(above) else above
    )
    design, rounds = schedule.make(leaves, asked.rounds, asked.seed, asked.first)
    steps = steps_of(rounds, asked.orders, asked.seed, together=1 if asked.shared else 0)
    rank = Rank(comm, asked)
    gc.disable()
    if comm.rank:
        if not follow(rank, steps):
            time.sleep(60)  # rank 0 ends all
        return
    lines = common.Lines(
        comm,
        "pair_map",
        **{
            "design": design,
            "seed": asked.seed,
            "rounds": len(rounds),
            "orders": asked.orders,
            "repeats": asked.repeats,
        },
        **{"latency_count": asked.latency.number, "message_count": asked.bandwidth.number},
        **({"memory": asked.memory} if asked.memory else {}),
        switches=source if all(above) else None,
        nodes=[[host, list(path)] for host, path in zip(hosts, above, strict=True)],
    )
    begin = time.monotonic()
    conductor = Conductor(
        rank,
        PairTable(
            lines,
            hosts,
            {LATENCY: asked.latency.bytes, BANDWIDTH: asked.bandwidth.bytes},
            asked.repeats,
        ),
    )
    conductor.run(steps)
    for number, why in sorted(conductor.silent.items()):
        lines.note(silent=hosts[number], why=why)
    lines.note(seconds=round(time.monotonic() - begin, 1))
    lines.end()
    if conductor.silent:
        give_up(
            "nodes stopped answering: "
            + ", ".join(f"{hosts[rank]} ({why})" for rank, why in conductor.silent.items())
        )


if __name__ == "__main__":
    try:
        main(sys.argv[1:], MPI.COMM_WORLD)
    except device_memory.DeviceError as failure:
        give_up(f"memory of the GPU: {failure}")

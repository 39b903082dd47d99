"""ucx_perftest: what UCX reaches between two nodes below MPI: messages with tag matching, as an MPI on UCX sends them, one
after the other and without pause.

Format: UCX, ``src/tools/perf/perftest.c`` (``print_progress``, ``print_header``) as release 1.13 prints it. The client's table
names neither test nor size, the server's head names both; rate and bandwidth are made from the same time, so that the numbers
of a row prove the size. ``MB/s`` is divided by 1024 x 1024 there, so it is MiB/s; it becomes MB/s (1e6 bytes) here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ..printable import one_line
from . import pair, traffic
from .benchmark import SINGLE, SMALL, STREAM, Benchmark, Record
from .model import Suite
from .pair import SIZES, TRANSPORT, Exchanged, Pair, PairGroup, PairPlan, Start, Words

NAME = "ucx_perftest"
#: Test to what the server calls it, and the word over the times of the client's table.
TESTS: Mapping[str, tuple[str, str]] = {
    "tag_lat": ("tag match latency", "latency"),
    "tag_bw": ("tag match bandwidth", "overhead"),
}
_RULE, _WIDE = re.compile(r"\+-{14}\+-{14}\+(-{30}\+-{21}|(-+\+){6}-+)\+-{0,23}\+?"), re.compile(r"\+-{106}\+")
_TIME, _RATE = r"([0-9]{1,15}\.[0-9]{3})", r"([0-9]{1,15}\.[0-9]{2})"
_ROW = re.compile(
    rf" +([0-9]{{1,12}}) +{_TIME} +({_TIME[1:-1]}|inf) +{_TIME} +{_RATE} +{_RATE} +([0-9]{{1,15}}) +([0-9]{{1,15}})"
)
_COLUMNS = "| Test | # iterations | 50.0%ile | average | overall | average | overall | average | overall |"
_WINDOW = re.compile(r"\| Window size: [1-9][0-9]{0,6} \|")
_ACCEPTED = re.compile(r"Accepted connection from ([0-9.]+):[0-9]+")
_MIB = 1 << 20


def measured(ends: Pair) -> tuple[Record, Exchanged]:
    """Mean and median latency in us of one way, or bandwidth in MB/s and messages per second; messages that are timed."""
    test, size, repetitions = map(ends.client.option, ("-t", "-s", "-n"))
    known = test in TESTS and re.fullmatch("[1-9][0-9]{0,12}", size) and repetitions.isdecimal()
    if not known or "-f" not in ends.client.words:
        raise ValueError(f"it is read with -f, -s, -n and one of -t {', '.join(TESTS)}")
    _read_server(ends, test, size)
    lines = ends.client.output.splitlines()
    times = f"| | | {TESTS[test][1]} (usec) | bandwidth (MB/s) | message rate (msg/s) |"
    row = _ROW.fullmatch(lines[5]) if len(lines) == 6 else None
    head = [" ".join(line.split()) for line in lines[:5]]
    if not row or [head[1], head[3]] != [times, _COLUMNS] or not all(_RULE.fullmatch(head[at]) for at in (0, 2, 4)):
        shown = one_line(ends.client.output.strip())[-80:]
        raise ValueError(f"'{shown}' is not the end of a table of {test}; it was cut off or mixed up")
    if row[1] != repetitions:
        raise ValueError(f"it made {row[1]} iterations, asked for were {repetitions}")
    # Columns since the last report, once a second: all may have been reported (perftest.c, ucx_perf_calc_result).
    recent = [] if (row[3], row[5], row[7]) == ("inf", "0.00", "0") else [(3, 5, 7)]
    for columns in (*recent, (4, 6, 8)):
        if not _fit(int(size), *(float(row[at]) for at in columns)):
            raise ValueError(f"time, bandwidth and message rate do not fit messages of {size} bytes")
    carried, count = int(size) * int(repetitions), int(repetitions)
    if test == "tag_lat":
        values, moved = {"latency_us": float(row[4]), "latency_p50_us": float(row[2])}, Exchanged(carried, carried, count)
    else:
        values, moved = (
            {"bandwidth_mb_per_s": float(row[6]) * _MIB / 1e6, "message_rate_per_s": float(row[8])},
            Exchanged(carried, 0),
        )
    return Record(NAME, test, 2, 1, int(size), count, values), moved


def _fit(size: int, time_us: float, mib_per_s: float, messages: float) -> bool:
    """Whether rates of messages of a size are those of the time that each took, as far as the digits go."""
    if time_us <= 0:
        return False
    slack, exact = 0.0006 / time_us, 1e6 / time_us
    carried = exact * size / _MIB
    return abs(messages - exact) <= 0.51 + exact * slack and abs(mib_per_s - carried) <= 0.0051 + carried * slack


def _read_server(ends: Pair, test: str, size: str) -> None:
    """The server's head: whose connection it took, and for which test and size."""
    lines = ends.server.output.splitlines()
    # Releases that print how many sends are outstanding do so behind the size; earlier ones have no such line.
    if len(lines) == 11 and _WINDOW.fullmatch(" ".join(lines[9].split())):
        del lines[9]
    peer = _ACCEPTED.fullmatch(lines[1]) if len(lines) == 10 else None
    if not peer or lines[0] != "Waiting for connection..." or not (_WIDE.fullmatch(lines[2]) and _WIDE.fullmatch(lines[9])):
        raise ValueError("the head of ucx_perftest's server is cut off or mixed up")
    if peer[1] != ends.client.address:
        raise ValueError(f"its server was asked by {peer[1]} and not by {ends.client.address}")
    places = ("Data layout: (automatic)", "Send memory: host", "Recv memory: host")
    wanted = ("API: protocol layer", f"Test: {TESTS[test][0]}", *places, f"Message size: {size}")
    for line, known in zip(lines[3:9], wanted, strict=True):
        if " ".join(line.split()) != f"| {known} |":
            raise ValueError(f"its server says '{one_line(line).strip('| ')[:60]}' where '{known}' belongs")


GROUP = "transport_ucx"
#: Transport of a fabric to what UCX calls its own (UCX documentation, "Environment Parameters", ``UCX_TLS``).
TRANSPORTS = {"tcp": "tcp,self", "verbs": "ib,self", "ucx": "ib,self"}
#: Messages before those that are timed (``-w``).
WARM_UP = 10

ROWS: tuple[Benchmark, ...] = (
    Benchmark(
        "tag_lat",
        NAME,
        NAME,
        GROUP,
        "pair",
        ("latency_us", "latency_p50_us"),
        traffic.both_ways,
        gated_sizes={"latency_us": (8,)},
        cascade=(SINGLE, SMALL),
    ),
    Benchmark(
        "tag_bw",
        NAME,
        NAME,
        GROUP,
        "pair",
        ("bandwidth_mb_per_s", "message_rate_per_s"),
        traffic.one_way,
        gated_sizes={"bandwidth_mb_per_s": (1 << 20, 1 << 22)},
        directions=1,
        cascade=(STREAM,),
    ),
)


def _words(test: str, start: Start) -> Words:
    device = start.device if start.interface else f"{start.device}:{start.port}"
    chosen = (f"UCX_NET_DEVICES={device}", f"UCX_TLS={TRANSPORTS[start.transport]}", NAME)
    counts = ("-s", str(start.size), "-n", str(start.repetitions), "-w", str(WARM_UP))
    return (*chosen, "-p", "{port}"), (*chosen, "{address}", "-p", "{port}", "-t", test, *counts, "-f")


def _exchanged(ends: Pair) -> Exchanged:
    size, timed, before = (int(ends.client.option(name)) for name in ("-s", "-n", "-w"))
    sent = size * (timed + before)
    return Exchanged(sent, sent if ends.client.option("-t") == "tag_lat" else 0, timed + before)


PAIRS = (
    PairGroup(
        GROUP,
        "Latency and bandwidth of UCX between two nodes, without MPI (ucx_perftest)",
        TRANSPORT,
        "ucx-utils",
        "ucx",
        tuple(TRANSPORTS),
        (
            PairPlan("tag_lat", lambda start: _words("tag_lat", start), SIZES, 10_000),
            PairPlan("tag_bw", lambda start: _words("tag_bw", start), SIZES, 10_000),
        ),
        _exchanged,
    ),
)


SUITE = Suite(
    name=NAME,
    title=NAME,
    first_line=pair.title(NAME),
    parse=pair.parser(NAME, measured),
    rows=ROWS,
    pairs=PAIRS,
)

"""ucx_perftest: what UCX reaches between two nodes below MPI: messages with tag matching, as an MPI
on UCX sends them, singly and without pause.

Format: UCX, ``src/tools/perf/perftest.c`` (``print_progress``, ``print_header``) as release 1.13
prints it. The client's table names neither test nor size; its command does. ``MB/s`` is divided by
1024 x 1024 there, so it is MiB/s; it becomes MB/s (1e6 bytes) here.
"""

from __future__ import annotations

import re

from ..printable import one_line
from . import pair, traffic
from .benchmark import SINGLE, SMALL, STREAM, Benchmark, Record
from .model import Suite
from .pair import SIZES, TRANSPORT, Exchanged, Pair, PairGroup, PairPlan, Start, Words

NAME = "ucx_perftest"
#: Test to the word over the times of the client's table.
TESTS = {"tag_lat": "latency", "tag_bw": "overhead"}
_TIME = r"([0-9]{1,15}\.[0-9]{3})"
_RATE = r"([0-9]{1,15}\.[0-9]{2})"
_ROW = re.compile(
    rf" +([0-9]{{1,12}}) +{_TIME} +({_TIME[1:-1]}"
    rf"|inf) +{_TIME} +{_RATE} +{_RATE} +([0-9]{{1,15}}) +([0-9]{{1,15}})"
)
_MIB = 1 << 20


def measured(ends: Pair) -> tuple[Record, Exchanged]:
    """Mean and median latency in us of one way, or bandwidth in MB/s and
    messages per second; messages that are timed.
    """
    test, size, repetitions = map(ends.client.option, ("-t", "-s", "-n"))
    known = test in TESTS and re.fullmatch("[1-9][0-9]{0,12}", size) and repetitions.isdecimal()
    if not known or "-f" not in ends.client.words:
        raise ValueError(f"it must run with -f, -s, -n and one of -t {', '.join(TESTS)}")
    lines = ends.client.output.splitlines()
    row = (
        _ROW.fullmatch(lines[5])
        if len(lines) == 6 and f" {TESTS[test]} (usec) " in lines[1]
        else None
    )
    if not row:
        shown = one_line(ends.client.output.strip())[-80:]
        raise ValueError(
            f"'{shown}' is not the end of a table of {test}; it is truncated or mixed up"
        )
    if row[1] != repetitions:
        raise ValueError(f"it made {row[1]} iterations instead of {repetitions}")
    carried = int(size) * int(repetitions)
    count = int(repetitions)
    if test == "tag_lat":
        values = {"latency_us": float(row[4]), "latency_p50_us": float(row[2])}
        back = Exchanged(carried, carried, count)
    else:
        values = {
            "bandwidth_mb_per_s": float(row[6]) * _MIB / 1e6,
            "message_rate_per_s": float(row[8]),
        }
        back = Exchanged(carried, 0)
    return Record(NAME, test, 2, 1, int(size), count, values), back


GROUP = "transport_ucx"
#: Transport of a fabric to what UCX calls its own (UCX documentation,
#: "Environment Parameters", ``UCX_TLS``).
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
    return (*chosen, "-p", "{port}"), (
        *chosen,
        "{address}",
        "-p",
        "{port}",
        "-t",
        test,
        *counts,
        "-f",
    )


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
    by_itself=re.compile(
        r"^\| API: +\S|^\| .*(?:latency"
        r"|overhead) \(usec\) .*bandwidth \(MB/s\) .*message rate \(msg/s\)",
        re.MULTILINE,
    ),
    rows=ROWS,
    pairs=PAIRS,
)

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
from .benchmark import SINGLE, SMALL, STREAM, Benchmark
from .model import Suite
from .pair import SIZES, TRANSPORT, Exchanged, Pair, PairGroup, PairPlan, Start, Words
from .records import OutputError, Record

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


def parse(text: str, source: str) -> list[Record]:
    """The one record of a launch: mean and median latency in us of one way, or bandwidth in MB/s and messages per second.

    :raises OutputError: it is damaged or mixed up, or the two ends are not those of the command.
    """
    ends = pair.read(text, NAME, source)
    test, size, repetitions = (ends.client.option(name) for name in ("-t", "-s", "-n"))
    if (
        test not in TESTS
        or not re.fullmatch("[1-9][0-9]{0,12}", size)
        or not repetitions.isdecimal()
        or "-f" not in ends.client.words
    ):
        raise OutputError(
            f"{source}: ucx_perftest is read with -f, -s, -n and one of -t {', '.join(TESTS)}; start it with them."
        )
    _read_server(ends, test, size, source)
    lines = ends.client.output.splitlines()
    times = f"| | | {TESTS[test][1]} (usec) | bandwidth (MB/s) | message rate (msg/s) |"
    found = _ROW.fullmatch(lines[5]) if len(lines) == 6 else None
    head = [" ".join(line.split()) for line in lines[:5]]
    if not found or [head[1], head[3]] != [times, _COLUMNS] or not all(_RULE.fullmatch(head[at]) for at in (0, 2, 4)):
        shown = one_line(ends.client.output.strip())[-80:]
        raise OutputError(f"{source}: '{shown}' is not the end of a table of {test}; it was cut off or mixed up, run it again.")
    if found[1] != repetitions:
        raise OutputError(f"{source}: ucx_perftest made {found[1]} iterations, asked for were {repetitions}; run it again.")
    median, average, overall, average_rate, rate = (float(found[at]) for at in range(2, 7))
    # The first is since the last report, once a second: all may have been reported (perftest.c, ucx_perf_calc_result).
    since = [] if (found[3], found[5], found[7]) == ("inf", "0.00", "0") else [(average, average_rate, found[7])]
    for time_us, mib_per_s, messages in (*since, (overall, rate, found[8])):
        _expect_fit(time_us, mib_per_s, int(messages), int(size), source)
    carried = int(size) * int(repetitions)
    latency = test == "tag_lat"
    pair.expect_carried(ends, carried, carried if latency else 0, NAME, source, int(repetitions) if latency else 0)
    values = (
        {"latency_us": overall, "latency_p50_us": median}
        if test == "tag_lat"
        else {"bandwidth_mb_per_s": rate * _MIB / 1e6, "message_rate_per_s": float(found[8])}
    )
    return [Record(NAME, test, 2, 1, int(size), int(repetitions), values)]


def _expect_fit(time_us: float, mib_per_s: float, messages: int, size: int, source: str) -> None:
    """Rates of messages of a size are those of the time that each took, as far as the digits go."""
    if time_us > 0:
        slack = 1 + 0.0006 / time_us
        exact = 1e6 / time_us
        if abs(messages - exact) <= 0.51 + exact * (slack - 1):
            carried = exact * size / _MIB
            if abs(mib_per_s - carried) <= 0.0051 + carried * (slack - 1):
                return
    raise OutputError(
        f"{source}: time, bandwidth and message rate of ucx_perftest do not fit messages of {size} bytes; run it again."
    )


def _read_server(ends: pair.Pair, test: str, size: str, source: str) -> None:
    """The server's head: whose connection it took, and for which test and size."""
    lines = ends.server.output.splitlines()
    wanted = (
        "| API: protocol layer |",
        f"| Test: {TESTS[test][0]} |",
        "| Data layout: (automatic) |",
        "| Send memory: host |",
        "| Recv memory: host |",
        f"| Message size: {size} |",
    )
    # Releases that print how many sends are outstanding do so behind the size; earlier ones have no such line.
    if len(lines) == 11 and _WINDOW.fullmatch(" ".join(lines[9].split())):
        del lines[9]
    peer = _ACCEPTED.fullmatch(lines[1]) if len(lines) == 10 else None
    if not peer or lines[0] != "Waiting for connection..." or not (_WIDE.fullmatch(lines[2]) and _WIDE.fullmatch(lines[9])):
        raise OutputError(f"{source}: the head of ucx_perftest's server is cut off or mixed up; run it again.")
    if peer[1] != ends.client.address:
        raise OutputError(
            f"{source}: ucx_perftest's server was asked by {peer[1]} and not by {ends.client.address}; run it again."
        )
    for line, known in zip(lines[3:9], wanted, strict=True):
        if " ".join(line.split()) != known:
            shown = one_line(line).strip("| ")[:60]
            raise OutputError(
                f"{source}: ucx_perftest's server says '{shown}' where '{known.strip('| ')}' belongs; run it again."
            )


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
    parse=parse,
    rows=ROWS,
    pairs=PAIRS,
)

"""iperf3 below MPI: one TCP connection and four, from client to server."""

from __future__ import annotations

import json

from .. import traffic
from ..benchmark import STREAM, Benchmark
from ..pair import WIRE, Exchanged, MapPlan, Pair, PairGroup, PairPlan, Start, Words
from .output import NAME

GROUP = "wire_tcp"
#: Bytes of each write to a socket: iperf3's own default for TCP (iperf3(1), ``-l``).
WRITE_BYTES = 131072
#: Bytes of the largest usual MTU, that of jumbo frames, where the kernel does not say the interface's.
LARGEST_MTU = 9000
#: Connections at once.
STREAMS = (1, 4)

ROWS: tuple[Benchmark, ...] = (
    Benchmark(
        "TCP",
        NAME,
        NAME,
        GROUP,
        "pair",
        ("bandwidth_mb_per_s",),
        traffic.one_way,
        gated_sizes={"bandwidth_mb_per_s": (WRITE_BYTES,)},
        variants=tuple(f"streams={count}" for count in STREAMS),
        directions=1,
        # Writes follow each other without pause, so that each is as good as a larger one.
        line_rate_from_bytes=WRITE_BYTES,
        cascade=(STREAM,),
    ),
)


def _words(streams: int, start: Start) -> Words:
    """``-1``: the server ends after one client (iperf3(1))."""
    server = (NAME, "-s", "-1", "-B", "{address}", "-p", "{port}", "--json")
    test = ("-t", str(start.seconds), "-P", str(streams), "-l", str(start.size))
    return server, (NAME, "-c", "{address}", "-B", "{own}", "-p", "{port}", *test, "--json")


def _exchanged(ends: Pair) -> Exchanged:
    """Segments that were sent again are on the wire, too, each at most as large as the interface lets it be."""
    total, mtu = json.loads(ends.client.output)["end"]["sum_sent"], ends.client.before.link["mtu"]
    sent = int(total["bytes"]) + (int(mtu) if mtu.isdecimal() else LARGEST_MTU) * int(total.get("retransmits", 0))
    return Exchanged(sent, 0, -(-sent // WRITE_BYTES))


def _plan(streams: int) -> PairPlan:
    sizes = dict.fromkeys(("smoke", "nightly", "acceptance"), (WRITE_BYTES,))
    return PairPlan("TCP", lambda start: _words(streams, start), sizes, 1, f"streams={streams}")


PAIRS = (
    PairGroup(
        GROUP,
        "What TCP carries between two nodes, without MPI (iperf3)",
        WIRE,
        "iperf3",
        "iperf3",
        ("tcp",),
        tuple(_plan(streams) for streams in STREAMS),
        _exchanged,
        MapPlan(_plan(1), WRITE_BYTES),
    ),
)

"""ucx_perftest below MPI: messages with tag matching, as an MPI on UCX sends them, one after the other and without pause."""

from __future__ import annotations

from .. import traffic
from ..benchmark import SINGLE, SMALL, STREAM, Benchmark
from ..pair import SIZES, TRANSPORT, Exchanged, Pair, PairGroup, PairPlan, Start, Words
from .output import NAME

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

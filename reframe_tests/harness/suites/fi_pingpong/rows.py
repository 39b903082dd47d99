"""fi_pingpong below MPI: one message after the other, to and fro, over a reliable datagram endpoint as MPIs open one."""

from __future__ import annotations

from .. import traffic
from ..benchmark import SINGLE, SMALL, Benchmark
from ..pair import SIZES, TRANSPORT, Exchanged, Pair, PairGroup, PairPlan, Start, Words
from .output import NAME

GROUP = "transport_libfabric"
#: Transport of a fabric to its provider, with the utility provider that makes datagrams of its connections (fi_provider(7)).
#: Not ``efa`` and ``cxi``: their bytes are in no counter that ``cascade/end.py`` reads, and nothing would prove the network.
PROVIDERS = {
    "tcp": "tcp;ofi_rxm",
    "verbs": "verbs;ofi_rxm",
    "psm2": "psm2",
    "opx": "opx",
}
#: Kind of endpoint (fi_endpoint(3)).
ENDPOINT = "rdm"

ROWS: tuple[Benchmark, ...] = (
    Benchmark(
        "pingpong",
        NAME,
        NAME,
        GROUP,
        "pair",
        ("latency_us",),
        traffic.both_ways,
        gated_sizes={"latency_us": (8,)},
        variants=(f"endpoint={ENDPOINT}",),
        cascade=(SINGLE, SMALL),
    ),
)


def _words(start: Start) -> Words:
    """The provider tcp takes its interface from ``FI_TCP_IFACE`` (fi_tcp(7)); ``-d`` alone leaves it another one."""
    chosen = (f"FI_TCP_IFACE={start.device}",) if start.interface else ()
    words = (*chosen, NAME, "-p", PROVIDERS[start.transport], "-e", ENDPOINT, "-d", start.device)
    counts = ("-I", str(start.repetitions), "-S", str(start.size))
    return (*words, "-B", "{port}", *counts), (*words, "-P", "{port}", *counts, "{address}")


def _exchanged(ends: Pair) -> Exchanged:
    count = int(ends.client.option("-I"))
    sent = int(ends.client.option("-S")) * count
    return Exchanged(sent, sent, count)


PAIRS = (
    PairGroup(
        GROUP,
        "Latency of libfabric between two nodes, without MPI (fi_pingpong)",
        TRANSPORT,
        "libfabric-bin",
        "libfabric",
        tuple(PROVIDERS),
        (PairPlan("pingpong", _words, SIZES, 10_000, f"endpoint={ENDPOINT}"),),
        _exchanged,
    ),
)

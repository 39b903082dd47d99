"""fi_pingpong: what libfabric reaches between two nodes below MPI: single messages back and forth
over a reliable datagram endpoint, as MPIs open it.

Format: libfabric, ``util/pingpong.c`` (``show_perf``, ``size_str``, ``cnt_str``), release 1.17.
Sizes and counts are printed rounded down (``1.5k``, ``64k``), so the exact ones come from the
command, and must be printed like that.
"""

from __future__ import annotations

import re

from ..printable import one_line
from . import pair, traffic
from .benchmark import SINGLE, SMALL, Benchmark, Record
from .model import Suite
from .pair import SIZES, TRANSPORT, Exchanged, Pair, PairGroup, PairPlan, Start, Words

NAME = "fi_pingpong"
#: Types of endpoints (fi_endpoint(3)); the program's default is the last.
ENDPOINTS = ("msg", "rdm", "dgram")
_HEAD = "bytes #sent #ack total time MB/sec usec/xfer Mxfers/sec"
_NUMBER = r"[0-9]+\.[0-9]{2}"
_ROW = re.compile(rf"(\S+) +(\S+) +=\S+ +\S+ +{_NUMBER}s +{_NUMBER} +({_NUMBER}) +{_NUMBER}")


def measured(ends: Pair) -> tuple[Record, Exchanged]:
    """Time of one way in us as the client has it; the endpoint as variant."""
    asked, server = (
        tuple(map(end.option, ("-S", "-I", "-e", "-p"))) for end in (ends.client, ends.server)
    )
    if asked != server:
        raise ValueError("its two ends were started with different options")
    size, repetitions, endpoint, _ = asked
    if not (
        re.fullmatch("[1-9][0-9]{0,9}", size)
        and re.fullmatch("[1-9][0-9]{0,8}", repetitions)
        and endpoint in ENDPOINTS
    ):
        raise ValueError(f"it must run with -S, -I and one of -e {', '.join(ENDPOINTS)}")
    bytes_ = int(size)
    count = int(repetitions)
    lines = ends.client.output.splitlines()
    row = (
        _ROW.fullmatch(lines[1])
        if len(lines) == 2 and " ".join(lines[0].split()) == _HEAD
        else None
    )
    if not row:
        shown = one_line(ends.client.output.strip())[-80:]
        raise ValueError(f"'{shown}' is not the end of its table; it is truncated or mixed up")
    if row.groups()[:2] != (rounded(bytes_, 1024), rounded(count, 1000)):
        raise ValueError(
            f"it printed '{one_line(row[0])[:40]}' where {size} bytes, {repetitions} times, were "
            "requested"
        )
    # MB/sec is the size over this time, with fewer digits.
    time_us = float(row[3])
    record = Record(
        NAME, "pingpong", 2, 1, bytes_, count, {"latency_us": time_us}, f"endpoint={endpoint}"
    )
    return record, Exchanged(bytes_ * count, bytes_ * count, count)


def rounded(number: int, base: int) -> str:
    """A size (base 1024) or count (base 1000) as the program prints it:
    rounded down, with one decimal below 10.
    """
    power = next((power for power in (3, 2, 1) if number >= base**power), 0)
    whole, rest = divmod(number, base**power)
    tenth = rest * 10 // base**power if whole < 10 else 0
    return f"{whole}{f'.{tenth}' if tenth else ''}{('', 'k', 'm', 'g')[power]}"


GROUP = "transport_libfabric"
#: Transport of a fabric to its provider, with the utility provider that makes datagrams of its
#: connections (fi_provider(7)). Not ``efa`` and ``cxi``: their bytes are in no counter that
#: ``cascade/end.py`` reads, and nothing would prove the network.
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
    """The provider tcp takes its interface from ``FI_TCP_IFACE``
    (fi_tcp(7)); ``-d`` alone leaves it another one.
    """
    chosen = (f"FI_TCP_IFACE={start.device}",) if start.interface else ()
    words = (*chosen, NAME, "-p", PROVIDERS[start.transport], "-e", ENDPOINT, "-d", start.device)
    counts = ("-I", str(start.repetitions), "-S", str(start.size))
    return (*words, "-B", "{port}", *counts), (*words, "-P", "{port}", *counts, "{address}")


PAIRS = (
    PairGroup(
        GROUP,
        "Latency of libfabric between two nodes, without MPI (fi_pingpong)",
        TRANSPORT,
        "libfabric-bin",
        "libfabric",
        tuple(PROVIDERS),
        (PairPlan("pingpong", _words, SIZES, 10_000, f"endpoint={ENDPOINT}"),),
        lambda ends: measured(ends)[1],
    ),
)


SUITE = Suite(
    name=NAME,
    title=NAME,
    first_line=pair.title(NAME),
    parse=pair.parser(NAME, measured),
    by_itself=re.compile(
        r"^bytes +#sent +#ack +total +time +MB/sec +usec/xfer +Mxfers/sec", re.MULTILINE
    ),
    rows=ROWS,
    pairs=PAIRS,
)

"""perftest below MPI: RDMA reads, writes and sends between two adapters, latency and bandwidth (``ib_write_bw``, ...)."""

from __future__ import annotations

from pathlib import PurePosixPath

from .. import traffic
from ..benchmark import SINGLE, SMALL, STREAM, Benchmark
from ..pair import SIZES, WIRE, Exchanged, MapPlan, Pair, PairGroup, PairPlan, Start, Words

#: Name of the suite.
NAME, GROUP = "perftest", "wire_rdma"
#: Verb in the programs' names to the verb in their titles (``testsStr`` of perftest_parameters.c).
VERBS = {"write": "RDMA_Write", "read": "RDMA_Read", "send": "Send"}


def _bandwidth(verb: str) -> Benchmark:
    return Benchmark(
        f"ib_{verb}_bw",
        NAME,
        f"ib_{verb}_bw",
        GROUP,
        "pair",
        ("bandwidth_mb_per_s", "message_rate_per_s"),
        traffic.one_way,
        gated_sizes={"bandwidth_mb_per_s": (1 << 20, 1 << 22)},
        directions=1,
        # Messages follow each other without pause, so that perftest's default size of 64 KiB fills a link.
        line_rate_from_bytes=65536,
        title=f"{VERBS[verb]} BW Test",
        cascade=() if verb == "read" else (STREAM,),
    )


def _latency(verb: str) -> Benchmark:
    return Benchmark(
        f"ib_{verb}_lat",
        NAME,
        f"ib_{verb}_lat",
        GROUP,
        "pair",
        ("latency_us", "latency_p50_us", "latency_p99_us"),
        # A read is answered by the adapter alone: its data comes back, and nothing goes there but the request.
        traffic.one_way if verb == "read" else traffic.both_ways,
        gated_sizes={"latency_us": (8,)},
        title=f"{VERBS[verb]} Latency Test",
        cascade=() if verb == "read" else (SINGLE, SMALL),
    )


ROWS: tuple[Benchmark, ...] = tuple(make(verb) for make in (_bandwidth, _latency) for verb in VERBS)


def _words(program: str, start: Start) -> Words:
    """``-F``: a processor whose clock changes is no failure (perftest(1))."""
    counts = ("-s", str(start.size), "-n", str(start.repetitions))
    words = (program, "-d", start.device, "-i", str(start.port), "-p", "{port}", *counts, "-F")
    return words, (*words, "{address}")


def exchanged(ends: Pair) -> Exchanged:
    """Bytes each way: what is written or sent goes to the server, what is read comes from it, and a latency is to and fro."""
    program, count = PurePosixPath(ends.client.words[0]).name, int(ends.client.option("-n"))
    data = int(ends.client.option("-s")) * count
    verb, kind = program.split("_")[1:]
    to, fro = (0, data) if verb == "read" else (data, data if kind == "lat" else 0)
    return Exchanged(to, fro, count)


def _plan(program: str) -> PairPlan:
    return PairPlan(program, lambda start: _words(program, start), SIZES, 5000)


PAIRS = (
    PairGroup(
        GROUP,
        "What two adapters write, read and send between two nodes, without MPI (perftest)",
        WIRE,
        "perftest",
        "perftest",
        ("verbs", "ucx"),
        tuple(_plan(row.name) for row in ROWS),
        exchanged,
        # As of the instrument between MPI's ranks; perftest's own 64 KiB fill a link as well.
        MapPlan(_plan("ib_write_bw"), 1 << 20),
    ),
)

"""iperf3: what TCP reaches between two nodes below MPI, from client to server, over one and four
connections.

Format: iperf 3.12, ``src/iperf_api.c`` (``iperf_json_start``, ``iperf_print_intermediate``,
``iperf_print_results``). With ``--json`` a client that fails may end with status 0; the key
``error`` shows it. Rates are bits of payload in 1e6. The receiver's rate is used: what a sender's
buffers took says nothing about a network.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from typing import Any

from . import pair, traffic
from .benchmark import STREAM, Benchmark, Record
from .model import Suite
from .pair import WIRE, Exchanged, MapPlan, Pair, PairGroup, PairPlan, Start, Words

NAME = "iperf3"
#: Relative error of a printed rate: cJSON prints 15 to 17 digits.
_RELATIVE = 1e-5
#: What both ends must say of the test.
_TEST = ("protocol", "num_streams", "blksize", "omit", "duration", "reverse")
#: A test that ended earlier than this share of its time was cut short.
_SHORTEST = 0.95


def measured(ends: Pair) -> tuple[Record, Exchanged]:
    """What the receiver got in MB/s, the size being that of each write
    to the socket; both ends must say the same.
    """
    client, server = (_load(end.output) for end in (ends.client, ends.server))
    test = _expect_same_test(client, server)
    _expect_connection(ends, client["start"]["connected"], server["start"]["connected"])
    received = client["end"]["sum_received"]
    sent = client["end"]["sum_sent"]
    got = server["end"]["sum_received"]
    # Each end makes the rate itself, so that it may differ in the last digit.
    rates = (received["bits_per_second"], got["bits_per_second"])
    if received["bytes"] != got["bytes"] or not math.isclose(*rates, rel_tol=_RELATIVE):
        raise ValueError("the two ends disagree on what was received")
    if not 0 < received["bytes"] <= sent["bytes"]:
        raise ValueError("more was received than sent, or nothing")
    if min(sent["seconds"], received["seconds"]) < _SHORTEST * test["duration"]:
        raise ValueError("it ended too early")
    for option, name in {
        "-t": "duration",
        "-P": "num_streams",
        "-l": "blksize",
        "-O": "omit",
    }.items():
        if (asked := ends.client.option(option)) and asked != str(test[name]):
            raise ValueError(f"{option} {asked} was requested, but {name} was {test[name]}")
    values = {"bandwidth_mb_per_s": received["bits_per_second"] / 8e6}
    record = Record(
        NAME, "TCP", 2, 1, test["blksize"], None, values, f"streams={test['num_streams']}"
    )
    return record, Exchanged(received["bytes"], 0)


def _load(text: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(text)
    if "error" in content:
        raise ValueError(str(content["error"]))
    return content


def _expect_same_test(client: dict[str, Any], server: dict[str, Any]) -> dict[str, Any]:
    """The test. A cookie is made for each test by its client, so
    that a foreign server knows another.
    """
    cookies = [content["start"]["cookie"] for content in (client, server)]
    if cookies[0] != cookies[1] or not re.fullmatch("[a-z2-7]{36}", cookies[0]):
        raise ValueError(
            "client and server have different cookies, so they took part in different tests"
        )
    tests = [
        {name: content["start"]["test_start"][name] for name in _TEST}
        for content in (client, server)
    ]
    if tests[0] != tests[1]:
        raise ValueError("client and server disagree on the test")
    test = tests[0]
    if (test["protocol"], test["reverse"]) != ("TCP", 0) or min(
        test["num_streams"], test["blksize"], test["duration"]
    ) < 1:
        raise ValueError("it is not a TCP test from client to server")
    return test


def _expect_connection(
    ends: pair.Pair, client: Sequence[dict[str, Any]], server: Sequence[dict[str, Any]]
) -> None:
    """Both ends see the same connections, between the addresses of their interfaces."""
    for own, there in zip(client, server, strict=True):
        seen = (own["local_host"], own["local_port"], own["remote_host"], own["remote_port"])
        if seen != (
            there["remote_host"],
            there["remote_port"],
            there["local_host"],
            there["local_port"],
        ):
            raise ValueError("client and server have different connections")
        if seen[0] != ends.client.address or seen[2:] != (ends.server.address, ends.server.port):
            raise ValueError(
                f"it went from {seen[0]} to {seen[2]}:{seen[3]} instead of between the interfaces"
            )
    if not client:
        raise ValueError("there was no connection")


GROUP = "wire_tcp"
#: Bytes of each write to a socket: iperf3's own default for TCP (iperf3(1), ``-l``).
WRITE_BYTES = 131072
#: Bytes of the largest usual MTU, that of jumbo frames, where the
#: kernel does not say the interface's.
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
    """Segments that were sent again are on the wire, too, each at
    most as large as the interface lets it be.
    """
    total = json.loads(ends.client.output)["end"]["sum_sent"]
    mtu = ends.client.before.link["mtu"]
    sent = int(total["bytes"]) + (int(mtu) if mtu.isdecimal() else LARGEST_MTU) * int(
        total.get("retransmits", 0)
    )
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


SUITE = Suite(
    name=NAME,
    title=NAME,
    first_line=pair.title(NAME),
    parse=pair.parser(NAME, measured),
    by_itself=re.compile(
        r"^Connecting to host \S+, port \d+$|^Server listening on \d+"
        r"|^\[ *ID\] Interval +Transfer +Bitrate|^\s*\"cookie\":",
        re.MULTILINE,
    ),
    rows=ROWS,
    pairs=PAIRS,
)

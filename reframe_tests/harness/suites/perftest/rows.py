"""perftest: bandwidth of two adapters without an MPI (``ib_send_bw``). Read; no test starts it.

Its two processes are no MPI ranks: neither a launcher nor the evidence library reaches them, so nothing would be proven.
"""

from __future__ import annotations

from .. import traffic
from ..benchmark import Benchmark

#: Name of the suite.
NAME = "perftest"

ROWS: tuple[Benchmark, ...] = (
    Benchmark(
        "ib_send_bw",
        NAME,
        "ib_send_bw",
        "verbs",
        "pair",
        ("bandwidth_mb_per_s", "message_rate_per_s"),
        traffic.one_way,
        directions=1,
        # Messages follow each other without pause, so that perftest's default size of 64 KiB fills a link.
        line_rate_from_bytes=65536,
        title="Send BW Test",
    ),
)

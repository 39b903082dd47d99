"""The words of the project, with their units, so that every module and column uses the same.

Nothing here computes. A new quantity, transport or policy starts as a row in this file.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Literal

#: Top of the checkout.
ROOT = Path(__file__).resolve().parents[2]
#: What describes a system: a file below ``site_configs``, or the
#: centre's own ReFrame configuration.
SITE_FILES = "the system's description"
LOWER = "lower"
HIGHER = "higher"
NONE = "none"
#: MB/s (1e6 bytes per second) that 1 Gbit/s is.
MB_PER_GBIT = 125.0


@dataclass(frozen=True)
class Quantity:
    """One measured quantity.

    :param name: field and column name; carries the unit.
    :param unit: unit as printed (``us``, ``MB/s`` = 1e6 bytes per second, ``msg/s``, ``%``, ``1``).
    :param direction: which way is better: ``lower``, ``higher`` or
        ``none`` (recorded, never judged).
    :param short: name without the unit, used in performance variable names.
    :param title: what it is, in words: title of an axis and of a column.
    """

    name: str
    unit: str
    direction: str
    short: str
    title: str


QUANTITIES: dict[str, Quantity] = {
    q.name: q
    for q in (
        Quantity("latency_us", "us", LOWER, "latency", "latency"),
        Quantity("latency_mean_us", "us", LOWER, "latency_mean", "mean latency"),
        Quantity("t_min_us", "us", LOWER, "t_min", "fastest rank's time"),
        Quantity("t_max_us", "us", LOWER, "t_max", "slowest rank's time"),
        Quantity("t_avg_us", "us", LOWER, "t_avg", "mean time of ranks"),
        Quantity("t_pure_us", "us", LOWER, "t_pure", "pure communication time"),
        Quantity("t_ovrl_us", "us", LOWER, "t_ovrl", "time with overlapped computation"),
        Quantity("t_cpu_us", "us", LOWER, "t_cpu", "computation time"),
        Quantity("t_init_us", "us", LOWER, "t_init", "time of the nonblocking call"),
        Quantity("t_test_us", "us", NONE, "t_test", "time in MPI_Test"),
        Quantity("t_wait_us", "us", LOWER, "t_wait", "time in MPI_Wait"),
        Quantity("overlap_percent", "%", HIGHER, "overlap", "overlap"),
        Quantity("bandwidth_mb_per_s", "MB/s", HIGHER, "bandwidth", "bandwidth"),
        Quantity("algbw_mb_per_s", "MB/s", HIGHER, "algbw", "algorithm bandwidth"),
        Quantity("busbw_mb_per_s", "MB/s", HIGHER, "busbw", "bus bandwidth"),
        Quantity("message_rate_per_s", "msg/s", HIGHER, "message_rate", "message rate"),
        Quantity(
            "latency_stddev_us", "us", NONE, "latency_stddev", "standard deviation of latency"
        ),
        Quantity("time_s", "s", LOWER, "time", "run time"),
        Quantity("mop_per_s", "Mop/s", HIGHER, "mops", "rate of operations"),
        Quantity("gflop_per_s", "Gflop/s", HIGHER, "gflops", "floating-point rate"),
        Quantity("gup_per_s", "GUP/s", HIGHER, "gups", "rate of random updates"),
        # Held against each other, never against the past.
        Quantity("call_us", "us", NONE, "call", "time of the call"),
        Quantity("mockup_us", "us", NONE, "mockup", "time of the mock-up"),
        Quantity(
            "call_over_mockup",
            "1",
            NONE,
            "call_over_mockup",
            "time of the call over that of its mock-up",
        ),
        Quantity("latency_p50_us", "us", LOWER, "latency_p50", "latency, median of repetitions"),
        Quantity(
            "latency_p90_us", "us", LOWER, "latency_p90", "latency, 90th percentile of repetitions"
        ),
        Quantity(
            "latency_p99_us", "us", LOWER, "latency_p99", "latency, 99th percentile of repetitions"
        ),
        Quantity(
            "bandwidth_p50_mb_per_s",
            "MB/s",
            HIGHER,
            "bandwidth_p50",
            "bandwidth, median of repetitions",
        ),
        Quantity(
            "bandwidth_p90_mb_per_s",
            "MB/s",
            HIGHER,
            "bandwidth_p90",
            "bandwidth, 90th percentile of repetitions",
        ),
        Quantity(
            "bandwidth_p99_mb_per_s",
            "MB/s",
            HIGHER,
            "bandwidth_p99",
            "bandwidth, 99th percentile of repetitions",
        ),
        Quantity(
            "bandwidth_tail_mb_per_s",
            "MB/s",
            HIGHER,
            "bandwidth_tail",
            "bandwidth that 99 % of samples reach",
        ),
        Quantity(
            "bandwidth_slowest_mb_per_s",
            "MB/s",
            HIGHER,
            "bandwidth_slowest",
            "bandwidth of the slowest pair",
        ),
        Quantity(
            "across_switches", "1", NONE, "across_switches", "share of pairs on different switches"
        ),
        Quantity("impact", "1", LOWER, "impact", "mean under load over that alone"),
        Quantity(
            "impact_p99", "1", LOWER, "impact_p99", "99th percentile under load over that alone"
        ),
        Quantity(
            "shared_over_alone",
            "1",
            HIGHER,
            "shared_over_alone",
            "throughput beside others over that alone",
        ),
        Quantity("line_rate_fraction", "1", HIGHER, "line_rate_fraction", "fraction of line rate"),
    )
}

#: Times that no call takes none of: at the two decimals that suites print, the fastest call is 0.01
#: us. Others may be 0 (``t_min_us`` of a rank that only posts, ``t_ovrl_us`` of IMB's
#: Truly_passive_put).
POSITIVE_TIMES = ("latency_us", "t_avg_us", "t_max_us")

#: Bandwidths that say what a link carries.
LINK_BANDWIDTHS = ("bandwidth_mb_per_s", "busbw_mb_per_s")

#: Quantities that are the same number in other words (bandwidth is size / time); only the first
#: that a benchmark prints at a size is judged, so that one change does not count twice.
JUDGED = (
    "latency_us",
    "t_avg_us",
    "t_ovrl_us",
    "t_max_us",
    "bandwidth_mb_per_s",
    "algbw_mb_per_s",
    "busbw_mb_per_s",
    "message_rate_per_s",
    "mop_per_s",
    "time_s",
    "gflop_per_s",
    "gup_per_s",
)

#: Pinning policies. The first two are the stack's own behaviour and no binding at all; the others
#: are resolved to an explicit core list per rank and handed to every launcher in its own words.
PINNING_POLICIES = (
    "default",
    "none",
    "bunch",
    "scatter",
    "nic_local",
    "nic_remote",
    "gpu_local",
    "gpu_remote",
)

#: Symbolic processes per node, resolved on the partition's topology.
SYMBOLIC_PPN = ("1", "2", "gpu", "numa", "socket", "half", "full")

#: Nodes of a job: as many as are idle when it is made. As a
#: number, in ReFrame's way, and as a word.
ALL_NODES = 0
ALL_NODES_WORD = "all"

#: A fabric of this scope works inside one node only (``shm``, TCP
#: over loopback); its tests use one node.
SCOPE_NODE = "node"
#: A fabric of this scope joins nodes; its tests use two nodes or more.
SCOPE_CLUSTER = "cluster"


#: Kinds of refusal, by what their reader does next (docs/reference/commands.md says what).
Refusal = Literal[
    "bad-option",
    "options-exclude",
    "unknown-name",
    "ambiguous-name",
    "name-taken",
    "file-missing",
    "file-unreadable",
    "file-damaged",
    "cannot-write",
    "not-ours",
    "too-large",
    "configuration-unusable",
    "system-description",
    "busy",
    "tool-missing",
    "tool-failed",
    "build-failed",
    "checksum-differs",
    "module-unusable",
    "stack-unusable",
    "changed-since",
    "scheduler-unusable",
    "not-reached",
    "cluster-not-ready",
    "session-missing",
    "nothing-measured",
    "not-comparable",
    "other-release",
    "evidence-damaged",
    "output-empty",
    "output-cut",
    "output-mixed",
    "output-unknown",
    "output-trouble",
    "output-damaged",
]


class BadInput(Exception):
    """Bad input, in one sentence: what is wrong, where, and what to do.

    Commands print the sentence with its code and exit 2; a test
    fails with it. Never shown as a traceback.

    :param code: for scripts and tests; sentences may be reworded, codes stay.
    """

    def __init__(self, code: Refusal, sentence: str) -> None:
        super().__init__(code, sentence)
        self.code = code

    def __str__(self) -> str:
        return str(self.args[1])


def meant(word: str, known: Iterable[str]) -> str:
    """The known name most like a mistyped one, as the end of a
    sentence; empty if none is like it.
    """
    close = get_close_matches(word, list(known), n=1)
    return f" (did you mean '{close[0]}'?)" if close else ""


class NotMeasured(Exception):
    """A combination that cannot be measured here; the case is skipped with this reason."""

"""Options of the OSU Micro-Benchmarks that may be set (util/osu_util_options.h and CHANGES of 7.5)."""

from __future__ import annotations

from dataclasses import replace

from ..benchmark import SIZELESS, Benchmark
from ..options import ALIKE, NAMED, PRINTED, SuiteOption
from . import facts
from .columns import FULL_OVERLAP
from .rows import FULL, OVERLAP

#: Synchronisations of osu_put_bibw, which knows no passive target (its help text, 7.5).
ACTIVE_TARGET = ("pscw", "fence")
#: Percentiles asked for, and so the quantities: their default in 7.3 was another one.
PERCENTILES = (50, 90, 99)
_ONE_SIDED = ("one_sided_osu", "atomics_osu")
_COLLECTIVES = ("collectives_osu", "nonblocking_osu", "neighbourhood_osu", "persistent_osu")
#: With ``-z`` osu_multi_lat of 7.5 prints the titles of percentiles and no values under them, osu_latency_mp neither.
_NO_PERCENTILES = ("osu_multi_lat", "osu_latency_mp", "osu_latency_mt", "osu_partitioned_latency")


def _window(row: Benchmark, value: str, ranks: int) -> Benchmark:
    _, _, flag, sync = row.options
    return replace(row, options=("-w", value, flag, sync), variants=(f"{value},{sync}",))


def _sync(row: Benchmark, value: str, ranks: int) -> Benchmark | None:
    flag, window, _, own = row.options
    if value == own or (row.name == "osu_put_bibw" and value not in ACTIVE_TARGET):
        return None
    return replace(row, options=(flag, window, "-s", value), variants=(f"{window},{value}",))


def _percentiles(row: Benchmark, value: str, ranks: int) -> Benchmark | None:
    if row.name in _NO_PERCENTILES:
        return None
    # Fan-in and fan-out print a bandwidth under the title of a latency (:mod:`columns`).
    kind = "bandwidth_p{}_mb_per_s" if "bandwidth_mb_per_s" in row.quantities else "latency_p{}_us"
    return replace(row, quantities=(*row.quantities, *(kind.format(percent) for percent in PERCENTILES)))


def _full(row: Benchmark, value: str, ranks: int) -> Benchmark | None:
    return replace(row, quantities=FULL_OVERLAP) if row.quantities == OVERLAP else None


def _validation(row: Benchmark, value: str, ranks: int) -> Benchmark | None:
    return None if row.sizes == SIZELESS else row


OPTIONS = (
    SuiteOption(
        "window",
        "how the window of one-sided communication is made (-w)",
        "create",
        _ONE_SIDED,
        tuple(facts.WINDOWS.values()),
        apart=PRINTED,
        change=_window,
    ),
    SuiteOption(
        "sync",
        "how an access to a window is completed (-s)",
        "flush",
        _ONE_SIDED,
        tuple(facts.SYNCS.values()),
        apart=PRINTED,
        change=_sync,
    ),
    SuiteOption(
        "percentiles",
        "percentiles 50, 90 and 99 of the repetitions of a size (-z)",
        "off",
        ("p2p_osu", "transfer_osu", "p2p_persistent_osu", "congestion_osu", *_COLLECTIVES),
        ("off", "on"),
        since=(7, 4),
        apart=ALIKE,
        words=lambda value: (f"-z{','.join(map(str, PERCENTILES))}",),
        change=_percentiles,
    ),
    SuiteOption(
        "full",
        "all columns of nonblocking collectives: initialisation, test, wait, minimum, maximum (-f)",
        "off",
        ("nonblocking_osu", "neighbourhood_osu"),
        ("off", "on"),
        since=(5, 8),
        apart=ALIKE,
        words=lambda value: FULL,
        change=_full,
    ),
    # Filling and comparing buffers between repetitions leaves other data in the caches.
    SuiteOption(
        "validation",
        "received data is compared with what was sent, in another column (-c)",
        "off",
        ("p2p_osu", "transfer_osu", "p2p_persistent_osu", *_COLLECTIVES),
        ("off", "on"),
        since=(7, 0),
        apart=NAMED,
        words=lambda value: ("-c",),
        change=_validation,
        validates=True,
    ),
)

"""Options of the OSU Micro-Benchmarks that may be set (util/osu_util_options.h and CHANGES of 7.5)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ...vocabulary import NotMeasured
from .. import traffic
from ..benchmark import SIZELESS, Benchmark
from ..options import ALIKE, PRINTED, SuiteOption
from .rows import FULL, FULL_OVERLAP, OVERLAP, RIGHT_RANGE_SINCE, SYNCS, WINDOW, WINDOWS

#: Synchronisations of osu_put_bibw, which knows no passive target (its help text, 7.5).
ACTIVE_TARGET = ("pscw", "fence")
#: Percentiles asked for, and so the quantities: their default in 7.3 was another one.
PERCENTILES = (50, 90, 99)
_ONE_SIDED = ("one_sided_osu", "atomics_osu")
_WINDOWED = (traffic.window_one_way, traffic.window_both_ways, traffic.window_fan)
_COLLECTIVES = ("collectives_osu", "nonblocking_osu", "neighbourhood_osu", "persistent_osu")
#: With ``-z`` osu_multi_lat of 7.5 prints the titles of percentiles and no values under them, osu_latency_mp neither.
_NO_PERCENTILES = ("osu_multi_lat", "osu_latency_mp", "osu_latency_mt", "osu_partitioned_latency")

#: It reduces one pair of buffers, ``recvbuf_warmup``, and compares another (osu_allreduce_persistent.c of 7.4 and 7.5), so that
#: ``-c`` finds wrong data always.
_NO_VALIDATION = "osu_allreduce_persistent"


def _window(row: Benchmark, value: str, ranks: int) -> Benchmark:
    _, _, flag, sync, *rest = row.options
    return replace(row, options=("-w", value, flag, sync, *rest), variants=(f"{value},{sync}",))


def _sync(row: Benchmark, value: str, ranks: int) -> Benchmark | None:
    flag, window, _, own, *rest = row.options
    if value == own or (row.name == "osu_put_bibw" and value not in ACTIVE_TARGET):
        return None
    return replace(row, options=(flag, window, "-s", value, *rest), variants=(f"{window},{value}",))


def _percentiles(row: Benchmark, value: str, ranks: int) -> Benchmark | None:
    if row.name in _NO_PERCENTILES:
        return None
    # Fan-in and fan-out print a bandwidth under the title of a latency (:mod:`output`).
    kind = "bandwidth_p{}_mb_per_s" if "bandwidth_mb_per_s" in row.quantities else "latency_p{}_us"
    return replace(row, quantities=(*row.quantities, *(kind.format(percent) for percent in PERCENTILES)))


def _full(row: Benchmark, value: str, ranks: int) -> Benchmark | None:
    return replace(row, quantities=FULL_OVERLAP) if row.quantities == OVERLAP else None


def _validation(row: Benchmark, value: str, ranks: int) -> Benchmark | None:
    return None if row.sizes == SIZELESS or row.name == _NO_VALIDATION else row


def _window_size(row: Benchmark, value: str, ranks: int) -> Benchmark | None:
    if row.traffic not in _WINDOWED:
        return None
    kept = row.options[: -len(WINDOW)] if row.options[-len(WINDOW) :] == WINDOW else row.options
    variants = tuple(name.replace(f"window={traffic.WINDOW}", f"window={value}") for name in row.variants)
    bound = traffic.with_window(row.traffic, int(value))
    return replace(row, options=(*kept, WINDOW[0], value), variants=variants, traffic=bound)


def _pairs(row: Benchmark, value: str, ranks: int) -> Benchmark | None:
    """So many pairs; what they get together is not what all links carry. osu_multi_lat knows no number of pairs."""
    if row.name != "osu_mbw_mr":
        return None
    if 2 * int(value) >= ranks:
        raise NotMeasured(f"pairs={value} takes {2 * int(value)} ranks of {ranks}; ask for fewer than half of them")
    return replace(row, first_ranks=2 * int(value), directions=0, options=(*row.options, "-p", value))


_PAIRS = ("p2p_osu", "transfer_osu", "p2p_persistent_osu")
_OFF_ON = ("off", "on")


def _option(name: str, groups: tuple[str, ...], values: tuple[str, ...] = (), **more: Any) -> SuiteOption:
    """An option; without it, it is the first of its values."""
    return SuiteOption(name, groups=groups, values=values, **{"default": (values or ("",))[0], **more})


OPTIONS = (
    # -w and -s: how the window of one-sided communication is made, and how an access to it is completed.
    _option("window", _ONE_SIDED, tuple(WINDOWS.values()), default="create", apart=PRINTED, change=_window),
    _option("sync", _ONE_SIDED, tuple(SYNCS.values()), default="flush", apart=PRINTED, change=_sync),
    _option(
        "percentiles",
        (*_PAIRS, "congestion_osu", *_COLLECTIVES),
        _OFF_ON,
        since=(7, 4),
        apart=ALIKE,
        words=lambda value: (f"-z{','.join(map(str, PERCENTILES))}",),
        change=_percentiles,
    ),
    # All columns of nonblocking collectives: initialisation, test, wait, minimum, maximum.
    _option(
        "full",
        ("nonblocking_osu", "neighbourhood_osu"),
        _OFF_ON,
        since=RIGHT_RANGE_SINCE,
        apart=ALIKE,
        words=lambda value: FULL,
        change=_full,
    ),
    # Filling and comparing buffers between repetitions leaves other data in the caches.
    _option(
        "validation",
        (*_PAIRS, *_COLLECTIVES),
        _OFF_ON,
        since=(7, 0),
        words=lambda value: ("-c",),
        change=_validation,
        validates=True,
    ),
    # Messages that are on their way before the receiver answers (-W).
    _option(
        "window_size",
        (*_PAIRS, *_ONE_SIDED, "congestion_osu"),
        tuple(str(size) for size in (traffic.WINDOW, *(1 << log for log in range(11) if 1 << log != traffic.WINDOW))),
        change=_window_size,
    ),
    # osu_mbw_mr of 7.5 takes -p and then sets the pairs to half of the ranks; that of 7.0 does not.
    _option(
        "pairs",
        ("transfer_osu",),
        default="all",
        pattern=r"[1-9][0-9]{0,5}",
        shape="all or a number of pairs",
        until=(7, 1),
        change=_pairs,
    ),
    # MPI_Session_init in place of MPI_Init, where a program needs no MPI_COMM_WORLD. Over TCP the end of a session may close
    # connections before their bytes were counted (recorder.c); the case then fails.
    _option(
        "session", (*_PAIRS, *_ONE_SIDED, "congestion_osu", *_COLLECTIVES), _OFF_ON, since=(7, 5), words=lambda value: ("-I",)
    ),
)

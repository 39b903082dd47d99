"""Repetitions follow what a link can carry: whole curves everywhere, in seconds on any fabric."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from catalogue_launches import memory_of, stack_of
from reframe_tests.harness.suites import catalogue
from reframe_tests.harness.suites.catalogue import LEVELS, Launch, Limits

PLANS = {name: group.plans for name, group in catalogue.GROUPS.items() if group.plans}
STACK = stack_of(binaries=[plan.binary for plans in PLANS.values() for plan in plans], osu="7.5.1")
SLOW, FAST = Limits(line_rate_gbit_per_s=1.0), Limits(line_rate_gbit_per_s=100.0)
#: IMB's smallest volume; below, a repetition more or less is decided by rounding.
MIB = 1 << 20


def iterations(launch: Launch) -> tuple[int, int]:
    """Count and volume in MiB of an IMB launch that has both."""
    count, volume = launch.args[launch.args.index("-iter") + 1].split(",")[:2]
    return int(count), int(volume)


def launches(group: str, limits: Limits, ranks: int = 2, level: str = "nightly", nodes: int = 0) -> dict[str, Launch]:
    made = catalogue.launches(group, STACK, ranks, level, nodes or nodes_of(group), limits, memory=memory_of(group))
    return {row.name: row for row in made}


def nodes_of(group: str) -> int:
    """Two nodes, or as many as a group needs."""
    return max(2, *(row.min_nodes for row in catalogue.rows(group)))


def fewest(group: str) -> int:
    """Fewest ranks that these nodes share evenly and something of a group runs on: a ring of neighbours has four."""
    return next(ranks for ranks in (2, 4, 10) if any(row.active(ranks, nodes_of(group)) for row in catalogue.rows(group)))


@pytest.mark.parametrize("group", PLANS)
@pytest.mark.parametrize("level", LEVELS)
def test_sizes_never_depend_on_the_line_rate(group: str, level: str) -> None:
    slow, unbounded = (launches(group, limits, fewest(group), level) for limits in (SLOW, Limits()))

    def sizes(made: dict[str, Launch]) -> dict[str, list[tuple]]:
        return {
            name: [(item.benchmark, item.ranks, item.sizes, item.variants) for item in row.expected]
            for name, row in made.items()
        }

    assert sizes(slow) == sizes(unbounded)


@pytest.mark.parametrize("group", PLANS)
def test_without_a_line_rate_and_on_a_fast_link_the_table_holds(group: str) -> None:
    unbounded, fast, slow = (
        launches(group, limits, fewest(group)) for limits in (Limits(), FAST, Limits(line_rate_gbit_per_s=0.01))
    )
    assert unbounded == fast
    # What a file system or the start of the ranks carries is no message on the link.
    over_the_link = any(row.link_bytes(row.active(fewest(group)), 2) for launch in unbounded.values() for row in launch.rows())
    assert (unbounded != slow) == over_the_link, group


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("ranks", "nodes"), [(2, 2), (4, 2), (24, 2), (96, 8)])
@pytest.mark.parametrize("rate", [0.1, 1.0, 10.0])
def test_a_link_is_busy_no_longer_than_declared(level: str, ranks: int, nodes: int, rate: float) -> None:
    """Recomputed from the arguments of the launch: the busiest link's bytes of one size, over its rate."""
    for group in ("p2p", "transfer", "collectives", "nonblocking"):
        for launch in launches(group, Limits(line_rate_gbit_per_s=rate), ranks, level, nodes).values():
            count, volume = iterations(launch)
            for item, row in zip(launch.expected, launch.rows(), strict=True):
                for size in item.sizes:
                    repetitions = min(count, max(1, volume * MIB // size)) if size else count
                    busy_s = row.link_bytes(item.ranks, nodes) * (size or 0) * repetitions / (rate * 1e9 / 8)
                    # One repetition, and the 1 MiB that IMB does not go below, are always made.
                    least_s = row.link_bytes(item.ranks, nodes) * max(size or 0, MIB) / (rate * 1e9 / 8)
                    assert busy_s <= max(LEVELS[level].link_s, least_s) * 1.001, (launch.name, item.benchmark, size)


def test_bytes_on_a_link_are_those_of_the_benchmark() -> None:
    def carried(name: str, ranks: int, nodes: int) -> float:
        return catalogue.find("IMB-MPI1", name).link_bytes(ranks, nodes)

    assert carried("PingPong", 2, 2) == carried("Sendrecv", 2, 2) == 2
    assert carried("Exchange", 2, 2) == 4
    assert (carried("Uniband", 2, 2), carried("Biband", 2, 2)) == (64, 128)
    assert carried("Uniband", 4, 2) == 128, "every rank of a node has a window of its own"
    assert carried("Alltoall", 4, 2) == 8
    assert carried("Sendrecv", 8, 8) == 2, "links of other nodes work at the same time"
    assert carried("Barrier", 4, 2) == 0


def test_repetitions_shrink_with_the_rate() -> None:
    (pair,) = launches("p2p", SLOW).values()
    assert iterations(pair) == (1000, math.floor(1e9 / 8 * LEVELS["nightly"].link_s / 2 / MIB))
    assert iterations(launches("transfer", SLOW)["ring"])[1] < iterations(pair)[1]
    assert iterations(launches("transfer", SLOW)["window"])[1] == 1


@pytest.mark.parametrize(("limits", "large", "huge"), [(Limits(), 200, 20), (FAST, 200, 20), (SLOW, 29, 7)])
def test_mpi4py_has_counts_in_steps(limits: Limits, large: int, huge: int) -> None:
    (launch,) = launches("p2p_mpi4py", limits).values()
    words = dict(zip(launch.args[1::2], launch.args[2::2], strict=True))
    assert (words["--loop"], words["--loop-large"], words["--loop-huge"]) == ("1000", str(large), str(huge))


def test_threads_make_the_repetitions_their_largest_size_allows() -> None:
    def repeats(limits: Limits) -> int:
        args = launches("threads", limits)["threads2"].args
        return int(args[args.index("-repeat") + 1])

    assert repeats(Limits()) == repeats(FAST) == PLANS["threads"][0].size_ranges["nightly"].count
    assert repeats(SLOW) == 8


def test_a_site_bounds_repetitions_of_all_sizes() -> None:
    few = replace(SLOW, most_repetitions=30)
    assert iterations(launches("p2p", few)["pair"])[0] == 30
    assert iterations(launches("p2p", SLOW)["pair"])[0] == 1000
    assert launches("p2p", replace(SLOW, most_repetitions=10**6)) == launches("p2p", SLOW)


@pytest.mark.parametrize("level", LEVELS)
def test_imb_never_drops_sizes_before_the_launch_is_ended_anyway(level: str) -> None:
    """IMB ends a benchmark after -time x (sizes - 1); a launch that slow is to be reported as timed out, not as incomplete."""
    for group in ("p2p", "transfer", "collectives"):
        for launch in launches(group, SLOW, level=level).values():
            low, high = map(int, launch.args[launch.args.index("-msglog") + 1].split(":"))
            secs = int(launch.args[launch.args.index("-time") + 1])
            assert max(high - low - 1, 1) * secs >= LEVELS[level].limit_s

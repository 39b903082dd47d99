"""Repetitions follow what a link can carry: whole curves everywhere, in seconds on any fabric."""

from __future__ import annotations

from dataclasses import replace

import pytest

import catalogue_launches
from catalogue_launches import stack_of
from reframe_tests.harness.suites import catalogue
from reframe_tests.harness.suites.catalogue import LEVELS, Launch, Limits

PLANS = {name: group.plans for name, group in catalogue.GROUPS.items() if group.plans}
STACK = stack_of(binaries=[plan.binary for plans in PLANS.values() for plan in plans], osu="7.5.1")
SLOW = Limits(line_rate_gbit_per_s=1.0)
FAST = Limits(line_rate_gbit_per_s=100.0)
#: IMB's smallest volume; below, a repetition more or less is decided by rounding.
MIB = 1 << 20


def option(launch: Launch, name: str) -> str:
    return launch.args[launch.args.index(name) + 1]


def launches(
    group: str, limits: Limits, ranks: int = 2, level: str = "nightly", nodes: int = 0
) -> dict[str, Launch]:
    nodes = nodes or nodes_of(group)
    more = {"nodes": nodes, "limits": limits, "stack": STACK}
    return {row.name: row for row in catalogue_launches.launches(group, ranks, level, **more)}


def nodes_of(group: str) -> int:
    """Two nodes, or as many as a group needs."""
    return max(2, *(row.min_nodes for row in catalogue.rows(group)))


@pytest.mark.parametrize("group", PLANS)
def test_the_line_rate_bounds_repetitions_and_no_sizes(group: str) -> None:
    """On the fewest ranks that something of a group runs on: a ring of neighbours has four."""
    rows = catalogue.rows(group)
    nodes = nodes_of(group)
    ranks = next(n for n in (2, 4, 10) if any(row.active(n, nodes) for row in rows))
    for level in LEVELS:
        unbounded, fast, slow = (
            launches(group, limits, ranks, level)
            for limits in (Limits(), FAST, Limits(line_rate_gbit_per_s=0.01))
        )
        assert [
            [item._replace(repetitions=0) for item in row.expected] for row in slow.values()
        ] == [[item._replace(repetitions=0) for item in row.expected] for row in unbounded.values()]
        if level != "nightly":
            continue
        assert unbounded == fast
        # What a file system or the start of the ranks carries is no message on the link.
        assert (unbounded != slow) == any(
            row.link_bytes(row.active(ranks), 2)
            for launch in unbounded.values()
            for row in launch.rows()
        )


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("ranks", "nodes"), [(2, 2), (24, 2), (96, 8)])
def test_a_link_is_busy_no_longer_than_declared(level: str, ranks: int, nodes: int) -> None:
    """Recomputed from the arguments of the launch: the busiest
    link's bytes of one size, over its rate.
    """
    for group, rate in (("p2p", 0.1), ("transfer", 1.0), ("collectives", 1.0), ("nonblocking", 10)):
        limits = Limits(line_rate_gbit_per_s=rate)
        for launch in launches(group, limits, ranks, level, nodes).values():
            count, volume = map(int, option(launch, "-iter").split(",")[:2])
            for item, row in zip(launch.expected, launch.rows(), strict=True):
                byte_s = row.link_bytes(item.ranks, nodes) / (rate * 1e9 / 8)
                for size in filter(None, item.sizes):
                    repetitions = min(count, max(1, volume * MIB // size))
                    # One repetition, and the 1 MiB that IMB does not go below, are always made.
                    most = max(LEVELS[level].link_s, byte_s * max(size, MIB))
                    assert byte_s * size * repetitions <= most * 1.001, (launch.name, size)


@pytest.mark.parametrize(
    ("name", "ranks", "nodes", "carried"),
    [
        ("PingPong", 2, 2, 2),
        ("Exchange", 2, 2, 4),
        ("Biband", 2, 2, 128),
        ("Uniband", 4, 2, 128),  # every rank of a node has a window of its own
        ("Alltoall", 4, 2, 8),
        ("Sendrecv", 8, 8, 2),  # links of other nodes work at the same time
        ("Barrier", 4, 2, 0),
    ],
)
def test_bytes_on_a_link_are_those_of_the_benchmark(name, ranks, nodes, carried) -> None:
    assert catalogue.find("IMB-MPI1", name).link_bytes(ranks, nodes) == carried


def test_counts_of_each_program_on_a_slow_link() -> None:
    of_link = int(1e9 / 8 * LEVELS["nightly"].link_s / 2 / MIB)
    (pair,) = launches("p2p", SLOW).values()
    assert option(pair, "-iter").startswith(f"1000,{of_link},")
    for limits, large, huge in ((FAST, "200", "20"), (SLOW, "29", "7")):
        (steps,) = launches("p2p_mpi4py", limits).values()
        assert option(steps, "--loop") == "1000"
        assert (option(steps, "--loop-large"), option(steps, "--loop-huge")) == (large, huge)
    repeats = [
        option(launches("threads", limits)["threads2"], "-repeat") for limits in (FAST, SLOW)
    ]
    assert repeats == [str(PLANS["threads"][0].size_ranges["nightly"].count), "8"]


def test_a_site_bounds_repetitions_of_all_sizes() -> None:
    few = replace(SLOW, most_repetitions=30)
    assert option(launches("p2p", few)["pair"], "-iter").startswith("30,")
    assert launches("p2p", replace(SLOW, most_repetitions=10**6)) == launches("p2p", SLOW)


@pytest.mark.parametrize("level", LEVELS)
def test_imb_never_drops_sizes_before_the_launch_is_ended_anyway(level: str) -> None:
    """IMB ends a benchmark after -time x (sizes - 1); a launch that slow is
    to be reported as timed out, not as incomplete.
    """
    for group in ("p2p", "transfer", "collectives"):
        for launch in launches(group, SLOW, level=level).values():
            low, high = map(int, option(launch, "-msglog").split(":"))
            assert max(high - low - 1, 1) * int(option(launch, "-time")) >= LEVELS[level].limit_s

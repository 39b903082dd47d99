"""What GPCNeT 1.3 measures, and how it is started: without arguments, for as long as it takes.

Its tests end after 10 s each (``TEST_TIMEOUT_SECS`` of network_test.h) or so many repetitions, which it does not print.
``network_load_test`` splits the nodes at random: 80 % of them, rounded down (``CONGESTOR_NODE_FRAC``), run four congestors of
two nodes or more, the others the tests, on two or more (``build_subcomms`` of network_load_test.c): 10 nodes at least.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from .. import traffic
from ..benchmark import Benchmark
from ..model import Group, Run
from ..plans import Plan, SizeRange, at_levels
from . import volume

NAME = "gpcnet"
ISOLATED, LOADED = "network_test", "network_load_test"
#: Groups: what the programs measure of a network alone, and under congestion.
GROUP, LOADED_GROUP = "gpcnet", "gpcnet_congestion"
FEWEST_NODES = {ISOLATED: 2, LOADED: 10}
#: Variants of the second program's tests, in printed order.
ALONE, CONGESTED = "isolated", "congested"
LATENCY = ("latency_us", "latency_p99_us")
#: Mean of all ranks, and what 99 % of them reach.
BANDWIDTH = ("bandwidth_mb_per_s", "bandwidth_tail_mb_per_s")
IMPACT = ("impact", "impact_p99")


class RingTest(NamedTuple):
    """One test, as both programs print it.

    :param title: without the size.
    :param unit: ``usec`` or ``MiB/s/rank``.
    :param message_bytes: size in bytes, which is not to be changed for results that are compared (its README).
    """

    title: str
    unit: str
    message_bytes: int

    @property
    def printed(self) -> str:
        """Title and size in the table."""
        return f"{self.title} ({self.message_bytes} B)"

    @property
    def name(self) -> str:
        """As part of a metric's name."""
        return self.title.replace(" ", "_").replace("+", "_")

    @property
    def impact(self) -> str:
        """Name of its congestion impact factors."""
        return f"{self.name}_impact"

    @property
    def quantities(self) -> tuple[str, ...]:
        return LATENCY if self.unit == "usec" else BANDWIDTH


_TIME, _RATE = "usec", "MiB/s/rank"
#: In printed order (``main`` of network_test.c; ``network_tests_list`` of network_load_test.c).
TESTS: Mapping[str, tuple[RingTest, ...]] = {
    ISOLATED: (
        RingTest("RR Two-sided Lat", _TIME, 8),
        RingTest("RR Get Lat", _TIME, 8),
        RingTest("RR Two-sided BW", _RATE, 131072),
        RingTest("RR Put BW", _RATE, 131072),
        RingTest("RR Two-sided BW+Sync", _RATE, 131072),
        RingTest("Nat Two-sided BW", _RATE, 131072),
        RingTest("Multiple Allreduce", _TIME, 8),
        RingTest("Multiple Alltoall", _RATE, 4096),
    ),
    LOADED: (
        RingTest("RR Two-sided Lat", _TIME, 8),
        RingTest("RR Two-sided BW+Sync", _RATE, 131072),
        RingTest("Multiple Allreduce", _TIME, 8),
    ),
}


def _row(program: str, name: str, test: RingTest, quantities: tuple[str, ...], **more: object) -> Benchmark:
    return Benchmark(
        name,
        NAME,
        program,
        GROUP if program == ISOLATED else LOADED_GROUP,
        "all",
        quantities,
        traffic.nothing,
        min_nodes=FEWEST_NODES[program],
        gated_sizes={quantities[0]: (test.message_bytes,)},
        **more,  # type: ignore[arg-type]
    )


def _test(program: str, test: RingTest, **more: object) -> Benchmark:
    loaded, timed = program == LOADED, test.unit == _TIME
    least = volume.bound_of(test.title, test.message_bytes, timed=timed, loaded=loaded)
    return _row(program, test.name, test, test.quantities, of_run=least, **more)


#: Why nothing is sent for a quotient.
_QUOTIENT = "the quotient of two others"
ROWS: tuple[Benchmark, ...] = (
    *(_test(ISOLATED, test) for test in TESTS[ISOLATED]),
    *(_test(LOADED, test, variants=(ALONE, CONGESTED)) for test in TESTS[LOADED]),
    *(_row(LOADED, test.impact, test, IMPACT, unbounded=_QUOTIENT) for test in TESTS[LOADED]),
)
_SIZES = {row.name: row.gated_sizes[row.quantities[0]] for row in ROWS}
# It takes no sizes and no repetitions.
_AS_IT_IS = at_levels(SizeRange((3, 17), 1, 1), SizeRange((3, 17), 1, 1), SizeRange((3, 17), 1, 1))


def _group(program: str, description: str) -> Group:
    names = tuple(row.name for row in ROWS if row.binary == program)
    return Group(description, (Plan(program, program, names, _AS_IT_IS),), collective=True, one_sided=True)


#: Group to what it measures and its invocations.
GROUPS: Mapping[str, Group] = {
    GROUP: _group(ISOLATED, "Random rings, Allreduce and Alltoall over all nodes, mean and tail (GPCNeT network_test)"),
    LOADED_GROUP: _group(
        LOADED, "Random rings and Allreduce, alone and while 80 % of the nodes cause congestion (GPCNeT network_load_test)"
    ),
}


def sizes(row: Benchmark, plan: Plan, size_range: SizeRange) -> tuple[int | None, ...]:
    """The one size of a row."""
    return _SIZES[row.name]


def arguments(run: Run) -> list[str]:
    """There are none ("Each application has no arguments", its README)."""
    return []

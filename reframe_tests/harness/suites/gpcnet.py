"""GPCNeT 1.3: latency and bandwidth of random rings on all nodes, alone and while most nodes cause congestion.

S. Chunduri et al.: "GPCNeT: designing a benchmark suite for inducing and measuring contention in HPC networks", SC 2019;
https://github.com/netbench/GPCNET.

What it must at least send, so that a run past its fabric is not taken for one on it: how often a message was sent is printed
nowhere: tests end after 10 s or so many measurements. The first measurement is always made whole, since the time is looked
at between two (``random_ring`` of random_ring.c, ``a2a_test`` and ``allreduce_test`` of collectives.c), and that is what is
counted. Each communicator has one rank of every node (``node_slice_subcomms`` of subcomms.c), so that every message of a
ring, whatever its order, leaves its node. Warm-up is not counted.

It takes no arguments. Its tests end after 10 s each (``TEST_TIMEOUT_SECS`` of network_test.h) or so many repetitions, which
it does not print. ``network_load_test`` splits the nodes at random: 80 % of them, rounded down (``CONGESTOR_NODE_FRAC``),
run four congestors of two nodes or more, the others the tests, on two or more (``build_subcomms`` of network_load_test.c):
10 nodes at least.

All lines but those with numbers are always the same, so that the whole output is held against what the program prints
(``print_header``, ``print_results`` and ``print_comparison_results`` of utils.c): nothing can be lost, twice or elsewhere.
Bandwidth is printed in MiB/s per rank and becomes MB/s per rank. A build with ``-DVERBOSE`` prints other columns, and more.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import NamedTuple

from ..printable import one_line
from . import traffic
from .benchmark import Benchmark, OutputError, Plan, Record, SizeRange, at_levels
from .model import BenchmarkPackage, Group, Programs, Suite, gated_sizes, no_arguments
from .traffic import RunBound

#: Constants of network_test.c and network_load_test.c, alike: orders of a ring in a measurement (``NUM_LAT_RANDS``,
#: ``NUM_BW_RANDS``), iterations of each (``NUM_LAT_ITERS``, ``NUM_BW_ITERS``), and messages on their way (``BW_OUTSTANDING``).
_ORDERS, _PINGS, _WINDOWS, _WINDOW = 30, 200, 8, 8
#: Iterations of a collective (``NUM_ALLREDUCE_ITERS``, ``NUM_A2A_ITERS``), the latter on up to so many nodes, fewer on more
#: (``A2A_BASE_NODES`` of collectives.c).
_ALLREDUCES, _ALLTOALLS, _ALLTOALL_NODES = 200, 64, 64
#: A rank sends to both its neighbours.
_NEIGHBOURS = 2


def nodes_tested(nodes: int, *, loaded: bool) -> int:
    """Nodes that run the tests: all, or those that cause no congestion (``build_subcomms`` of network_load_test.c)."""
    return nodes - nodes * 8 // 10 if loaded else nodes


def bound_of(title: str, message_bytes: int, *, timed: bool, loaded: bool) -> RunBound:
    """The bound of a test.

    :param title: as printed, without the size.
    :param timed: it prints a time, and so sends one message at a time.
    :param loaded: it runs on the nodes that are left of those which cause congestion.
    """

    def least(problem: Mapping[str, int], ranks: int, nodes: int) -> int:
        tested = nodes_tested(nodes, loaded=loaded)
        if title == "Multiple Allreduce":
            # Each rank's result depends on the others' sum (traffic.every_rank_receives).
            messages = _ALLREDUCES
        elif title == "Multiple Alltoall":
            messages = max(1, _ALLTOALLS * _ALLTOALL_NODES // max(tested, _ALLTOALL_NODES)) * (tested - 1)
        else:
            messages = _NEIGHBOURS * _ORDERS * (_PINGS if timed else _WINDOWS * _WINDOW)
        return messages * message_bytes * tested * (ranks // nodes)

    return least


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
    least = bound_of(test.title, test.message_bytes, timed=timed, loaded=loaded)
    return _row(program, test.name, test, test.quantities, of_run=least, **more)


#: Why nothing is sent for a quotient.
_QUOTIENT = "the quotient of two others"
ROWS: tuple[Benchmark, ...] = (
    *(_test(ISOLATED, test) for test in TESTS[ISOLATED]),
    *(_test(LOADED, test, variants=(ALONE, CONGESTED)) for test in TESTS[LOADED]),
    *(_row(LOADED, test.impact, test, IMPACT, unbounded=_QUOTIENT) for test in TESTS[LOADED]),
)
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


#: Bytes of a MiB in one MB.
_MB_PER_MIB = (1 << 20) / 1e6
_TITLES = {ISOLATED: "Network Tests v1.3", LOADED: "NetworkLoad Tests v1.3"}
_VERSION = re.compile(r"Network(?:Load)? Tests v(.*)")
_COUNT = "([1-9][0-9]{0,8})"
_LEGEND = (
    *("", "  Legend", "   RR = random ring communication pattern", "   Nat = natural ring communication pattern"),
    *("   Lat = latency", "   BW = bandwidth", "   BW+Sync = bandwidth with barrier"),
)
_OUTER, _INNER = f"+{'-' * 78}+", f"+{'-' * 33}+{'-' * 14}+{'-' * 14}+{'-' * 14}+"
_FACTORS, _FACTORS_INNER = f"+{'-' * 33}+{'-' * 44}+", f"+{'-' * 33}+{'-' * 22}+{'-' * 21}+"
_VERBOSE = f"+{'-' * 138}+"


def _expected(program: str) -> Iterator[str]:
    """Every line that a program prints, in order, as regular expressions whose groups are its numbers."""
    tests = TESTS[program]
    yield re.escape(_TITLES[program])
    yield rf"  Test with {_COUNT} MPI ranks \({_COUNT} nodes\)"
    if program == LOADED:
        yield f"  {_COUNT} nodes running Network Tests"
        yield rf"  {_COUNT} nodes running Congestion Tests \(min {_COUNT} nodes per congestor\)"
    yield from (re.escape(line) for line in _LEGEND if program == ISOLATED or "Nat =" not in line)
    tables = ["Isolated Network Tests".rjust(49)]
    tables += ["Network Tests running with Congestion Tests".rjust(59)] if program == LOADED else []
    for title in tables:
        yield from [""] if title != tables[0] else []
        head = f"| {'Name':>31} | {'Avg':>12} | {'99%':>12} | {'Units':>12} |"
        yield from map(re.escape, (_OUTER, f"| {title:<76} |", _INNER, head, _INNER))
        for test in tests:
            yield re.escape(f"| {test.printed:>31} |") + _cells(12, 12) + re.escape(f" {test.unit:>12} |")
            yield re.escape(_INNER)
    if program == LOADED:
        title = "Network Tests running with Congestion Tests - Key Results".rjust(66)
        yield from map(re.escape, ("", _OUTER, f"| {title:<76} |", _FACTORS))
        yield from map(re.escape, (f"| {'Name':>31} | {'Congestion Impact Factor':>42} |", _FACTORS_INNER))
        yield from map(re.escape, (f"| {'':>31} | {'Avg':>20} | {'99%':>19} |", _FACTORS_INNER))
        for test in tests:
            yield re.escape(f"| {test.printed:>31} |") + _cells(19, 18, "X")
            yield re.escape(_FACTORS_INNER)


def _cells(first: int, second: int, unit: str = "") -> str:
    """Two numbers, right in so many columns."""
    return "".join(rf"(?= .{{{width}}}{unit} \|) *([0-9]+\.[0-9]){unit} \|" for width in (first, second))


def parse(text: str, source: str) -> list[Record]:
    """Records of one output, in printed order; of ``network_load_test`` the tests alone, those under load, their factors.

    :raises OutputError: if it is damaged, mixed up, cut off, of another version or build, or its numbers contradict.
    """
    lines = text.replace("\r\n", "\n").split("\n")
    if lines[-1]:
        raise OutputError("output-cut", f"{source}: the last line has no end; the output was cut off, run the benchmark again.")
    # What was set aside before the title left blank lines.
    skipped = next((at for at, line in enumerate(lines) if line), 0)
    lines = "\n".join(lines).strip("\n").split("\n")
    program = LOADED if lines[0].startswith("NetworkLoad") else ISOLATED
    if (version := _VERSION.fullmatch(lines[0])) and lines[0] != _TITLES[program]:
        raise OutputError("output-release", f"{source}, line {skipped + 1}: GPCNeT {version[1][:20]} is not known; build 1.3.")
    numbers: list[tuple[str, ...]] = []
    for number, (line, pattern) in enumerate(zip_longest(lines, _expected(program)), skipped + 1):
        if line is None:
            raise OutputError(
                "output-cut", f"{source}: it ends before its last table does; the output was cut off, run it again."
            )
        found = re.fullmatch(pattern, line) if pattern is not None else None
        if not found:
            if "Avg(Worst)" in line or line == _VERBOSE:
                raise OutputError(
                    "output-verbose", f"{source}, line {number}: it was built with -DVERBOSE; build it without (its README)."
                )
            said = f"'{one_line(line)[:60]}' does not stand here in an output of GPCNeT 1.3"
            raise OutputError(
                "output-damaged", f"{source}, line {number}: {said}; the output is damaged, cut or mixed up, run it again."
            )
        numbers += [found.groups()] if found.groups() else []
    ranks, nodes = map(int, numbers.pop(0))
    if ranks < nodes or nodes < FEWEST_NODES[program]:
        raise OutputError(
            "output-damaged", f"{source}: it says that {ranks} ranks ran on {nodes} nodes; the output is damaged, run it again."
        )
    if program == ISOLATED:
        return _table(source, program, ranks, numbers, "")
    # Nodes are split as ``build_subcomms`` of network_load_test.c does.
    tested, congesting, each = (int(cell) for row in numbers[:2] for cell in row)
    if (tested + congesting, congesting, each) != (nodes, nodes * 8 // 10, congesting // 4):
        raise OutputError(
            "output-damaged", f"{source}: {nodes} nodes are not split so by GPCNeT 1.3; the output is damaged, run it again."
        )
    count = len(TESTS[LOADED])
    alone, congested = (
        _table(source, program, ranks, numbers[at : at + count], how) for at, how in ((2, ALONE), (2 + count, CONGESTED))
    )
    # The key results follow from the numbers of the two tables as printed, to one decimal. Kept is the quotient itself: 1.04
    # and 0.96 are both printed as 1.0X.
    factors = []
    for test, before, after, printed in zip(TESTS[LOADED], alone, congested, numbers[2 + 2 * count :], strict=True):
        quotients = [_quotient(test, *pair) for pair in zip(before.values.values(), after.values.values(), strict=True)]
        if [f"{quotient:.1f}" for quotient in quotients] != list(printed):
            raise OutputError(
                "output-damaged",
                f"{source}: the factors of {test.printed} do not follow from its times or bandwidths; the output is damaged or "
                "mixed up, run it again.",
            )
        values = dict(zip(IMPACT, quotients, strict=True))
        factors.append(Record(NAME, test.impact, ranks, 1, test.message_bytes, None, values))
    return [*alone, *congested, *factors]


def _table(source: str, program: str, ranks: int, rows: Sequence[Sequence[str]], variant: str) -> list[Record]:
    """Mean and 99 % of each test."""
    records = []
    for test, row in zip(TESTS[program], rows, strict=True):
        if not all(map(float, row)):
            raise OutputError(
                "output-zero", f"{source}: {test.printed} is printed as nothing; the benchmark did not measure, run it again."
            )
        scale = 1.0 if test.unit == _TIME else _MB_PER_MIB
        values = {name: float(cell) * scale for name, cell in zip(test.quantities, row, strict=True)}
        records.append(Record(NAME, test.name, ranks, 1, test.message_bytes, None, values, variant))
    return records


def _quotient(test: RingTest, alone: float, congested: float) -> float:
    """How many times worse; of bandwidths, as they were printed."""
    if test.unit == _TIME:
        return congested / alone
    return round(alone / _MB_PER_MIB, 1) / round(congested / _MB_PER_MIB, 1)


SUITE = Suite(
    name=NAME,
    title="GPCNeT",
    first_line=re.compile(r"^Network(?:Load)? Tests v", re.MULTILINE),
    parse=parse,
    rows=ROWS,
    groups=GROUPS,
    arguments=no_arguments,
    sizes=gated_sizes,
    # It takes no argument, not even for its version, which only its tables say; on one node it refuses to run.
    programs=Programs(
        "network_*test",
        r"network_(?:load_)?test",
        "--version",
        r"(?m)^Network(?:Load)? Tests v([0-9][0-9.]*)",
        refusal=r"(?m)^ERROR: this application must be run on at least [0-9]+ nodes",
        unsaid="unknown",
    ),
    spack=BenchmarkPackage("gpcnet", "bin", "network_*test"),
)

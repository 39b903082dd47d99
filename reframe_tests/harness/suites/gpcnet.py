"""GPCNeT 1.3: latency and bandwidth of random rings on all nodes,
alone and while most nodes cause congestion.

S. Chunduri et al.: "GPCNeT: designing a benchmark suite for inducing and measuring contention in
HPC networks", SC 2019; https://github.com/netbench/GPCNET.

The least it must send, so that a run past its fabric is noticed: it does not print how often a
message was sent, because tests end after 10 s or a number of measurements. The first measurement is
always complete, since the time is checked between two (``random_ring`` of random_ring.c,
``a2a_test`` and ``allreduce_test`` of collectives.c); only that one is counted. Each communicator
has one rank of every node (``node_slice_subcomms`` of subcomms.c), so every message of a ring,
whatever its order, leaves its node. Warm-up is not counted.

It takes no arguments. Its tests end after 10 s each (``TEST_TIMEOUT_SECS`` of network_test.h) or a
number of repetitions, which it does not print. ``network_load_test`` splits the nodes at random: 80
% of them, rounded down (``CONGESTOR_NODE_FRAC``), run four congestors of two nodes or more, the
others the tests, on two or more (``build_subcomms`` of network_load_test.c): 10 nodes at least.

The rows of its tables are those of its tests, in order, and each as wide as the table
(``print_results`` and ``print_comparison_results`` of utils.c), so a lost, repeated or moved row is
noticed. Bandwidth is printed in MiB/s per rank and becomes MB/s per rank. A build with
``-DVERBOSE`` prints other columns, and more.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from ..printable import plural
from ..vocabulary import Refusal
from . import traffic
from .benchmark import Benchmark, OutputError, Plan, Record, SizeRange, at_levels
from .model import BenchmarkPackage, Facts, Group, Programs, Suite, gated_sizes, no_arguments
from .traffic import RunBound

#: Constants of network_test.c and network_load_test.c, alike: orders of a ring in a measurement
#: (``NUM_LAT_RANDS``, ``NUM_BW_RANDS``), iterations of each (``NUM_LAT_ITERS``, ``NUM_BW_ITERS``),
#: and messages on their way (``BW_OUTSTANDING``).
_ORDERS = 30
_PINGS = 200
_WINDOWS = 8
_WINDOW = 8
#: Iterations of a collective (``NUM_ALLREDUCE_ITERS``, ``NUM_A2A_ITERS``), the latter on up to so
#: many nodes, fewer on more (``A2A_BASE_NODES`` of collectives.c).
_ALLREDUCES = 200
_ALLTOALLS = 64
_ALLTOALL_NODES = 64
#: A rank sends to both its neighbours.
_NEIGHBOURS = 2


def nodes_tested(nodes: int, *, loaded: bool) -> int:
    """Nodes that run the tests: all, or those that cause no congestion
    (``build_subcomms`` of network_load_test.c).
    """
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
            messages = max(1, _ALLTOALLS * _ALLTOALL_NODES // max(tested, _ALLTOALL_NODES)) * (
                tested - 1
            )
        else:
            messages = _NEIGHBOURS * _ORDERS * (_PINGS if timed else _WINDOWS * _WINDOW)
        return messages * message_bytes * tested * (ranks // nodes)

    return least


NAME = "gpcnet"
ISOLATED = "network_test"
LOADED = "network_load_test"
#: Groups: what the programs measure of a network alone, and under congestion.
GROUP = "gpcnet"
LOADED_GROUP = "gpcnet_congestion"
FEWEST_NODES = {ISOLATED: 2, LOADED: 10}
#: Variants of the second program's tests, in printed order.
ALONE = "isolated"
CONGESTED = "congested"
LATENCY = ("latency_us", "latency_p99_us")
#: Mean of all ranks, and what 99 % of them reach.
BANDWIDTH = ("bandwidth_mb_per_s", "bandwidth_tail_mb_per_s")
IMPACT = ("impact", "impact_p99")


class RingTest(NamedTuple):
    """One test, as both programs print it.

    :param title: without the size.
    :param unit: ``usec`` or ``MiB/s/rank``.
    :param message_bytes: size in bytes, which is not to be changed for
        results that are compared (its README).
    """

    title: str
    unit: str
    message_bytes: int

    @property
    def printed(self) -> str:
        return f"{self.title} ({self.message_bytes} B)"

    @property
    def name(self) -> str:
        return self.title.replace(" ", "_").replace("+", "_")

    @property
    def impact(self) -> str:
        return f"{self.name}_impact"

    @property
    def quantities(self) -> tuple[str, ...]:
        return LATENCY if self.unit == "usec" else BANDWIDTH


_TIME = "usec"
_RATE = "MiB/s/rank"
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


def _row(
    program: str, name: str, test: RingTest, quantities: tuple[str, ...], **more: object
) -> Benchmark:
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
    loaded = program == LOADED
    timed = test.unit == _TIME
    least = bound_of(test.title, test.message_bytes, timed=timed, loaded=loaded)
    return _row(program, test.name, test, test.quantities, of_run=least, **more)


#: Why nothing is sent for a quotient.
_QUOTIENT = "the ratio of two others"
ROWS: tuple[Benchmark, ...] = (
    *(_test(ISOLATED, test) for test in TESTS[ISOLATED]),
    *(_test(LOADED, test, variants=(ALONE, CONGESTED)) for test in TESTS[LOADED]),
    *(_row(LOADED, test.impact, test, IMPACT, unbounded=_QUOTIENT) for test in TESTS[LOADED]),
)
# It takes no sizes and no repetitions.
_AS_IT_IS = at_levels(SizeRange((3, 17), 1, 1), SizeRange((3, 17), 1, 1), SizeRange((3, 17), 1, 1))


def _group(program: str, description: str) -> Group:
    names = tuple(row.name for row in ROWS if row.binary == program)
    return Group(
        description, (Plan(program, program, names, _AS_IT_IS),), collective=True, one_sided=True
    )


#: Group to what it measures and its invocations.
GROUPS: Mapping[str, Group] = {
    GROUP: _group(
        ISOLATED,
        "Random rings, Allreduce and Alltoall over all nodes, mean and tail (GPCNeT network_test)",
    ),
    LOADED_GROUP: _group(
        LOADED,
        "Random rings and Allreduce, alone and while 80 % of the nodes cause congestion (GPCNeT "
        "network_load_test)",
    ),
}


#: Bytes of a MiB in one MB.
_MB_PER_MIB = (1 << 20) / 1e6
_COUNT = "([1-9][0-9]{0,8})"
_HEAD = re.compile(
    rf"^Network(Load)? Tests v(.*)\n  Test with {_COUNT} MPI ranks \({_COUNT} nodes\)\n", re.M
)
_SPLIT = re.compile(
    rf"\n  {_COUNT} nodes running Network Tests\n  {_COUNT} nodes running Congestion Tests \(min"
    rf" {_COUNT} nodes per congestor"
)
#: Name, mean, 99 % and unit; a table is 80 characters wide, so that a digit lost is seen.
_ROW = re.compile(
    r"^(?=.{80}$)\| +(\S.*\)) \| +([0-9]+\.[0-9])X? \| +([0-9]+\.[0-9])(?:(X)| \| +(\S+)) \|$", re.M
)
_TITLE = re.compile(r"^Network(?:Load)? Tests v", re.MULTILINE)
#: A line of a table, whole or not.
_ROW_LIKE = re.compile(r"\+-{5}|\|.*\|")


def facts_of_output(text: str) -> Facts:
    """Number of lines of the starting script above its title."""
    title = _TITLE.search(text)
    above = sum(bool(line.strip()) for line in text[: title.start() if title else 0].splitlines())
    return Facts(
        (f"{plural(above, 'line')} above its title ignored: from another program",) if above else ()
    )


def parse(text: str, source: str) -> list[Record]:
    """Records of one output, in printed order; of ``network_load_test`` the
    tests alone, those under load, their factors.

    :raises OutputError: if it is damaged, mixed up, truncated, of another
        version or build, or its numbers contradict.
    """

    def wrong(code: Refusal, sentence: str) -> OutputError:
        return OutputError(code, f"{source}: {sentence}.")

    text = text.replace("\r\n", "\n")
    if not text.endswith("\n"):
        raise wrong(
            "output-cut",
            "the last line is incomplete; the output is truncated, run the benchmark again",
        )
    head = _HEAD.search(text)
    if not head or len(_TITLE.findall(text)) > 1 or _ROW_LIKE.search(text, 0, head.start()):
        fault = (
            "the lines after its title are not one output of GPCNeT 1.3, or part of a table "
            "precedes it"
        )
        raise wrong("output-damaged", f"{fault}; the output is damaged or truncated, run it again")
    text = text[head.start() :]
    if head[2] != "1.3":
        raise wrong("other-release", f"GPCNeT {head[2][:20]} is not supported; build 1.3")
    if "Avg(Worst)" in text or f"+{'-' * 138}+" in text:
        raise wrong("output-unknown", "it was built with -DVERBOSE; build it without (its README)")
    program = LOADED if head[1] else ISOLATED
    ranks = int(head[3])
    nodes = int(head[4])
    tests = TESTS[program]
    rows = [(row[1], row[4] or row[5], row[2], row[3]) for row in _ROW.finditer(text)]
    expected = [(test.printed, test.unit) for test in tests] * (2 if head[1] else 1)
    expected += [(test.printed, "X") for test in tests if head[1]]
    if (printed := [row[:2] for row in rows]) != expected:
        if printed == expected[: len(printed)]:
            raise wrong(
                "output-cut",
                "it ends within its last table; the output is truncated, run it again",
            )
        fault = "the rows of its tables are not those of GPCNeT 1.3"
        raise wrong(
            "output-damaged", f"{fault}; the output is damaged, truncated or mixed up, run it again"
        )
    if ranks < nodes or nodes < FEWEST_NODES[program]:
        raise wrong(
            "output-damaged",
            f"it reports {ranks} ranks on {nodes} nodes; the output is damaged, run it again",
        )
    if program == LOADED:
        # Nodes are split as ``build_subcomms`` of network_load_test.c does.
        split = _SPLIT.search(text)
        tested, congesting, per_pattern = map(int, split.groups()) if split else (0, 0, 0)
        if (tested + congesting, congesting, per_pattern) != (
            nodes,
            nodes * 8 // 10,
            congesting // 4,
        ):
            raise wrong(
                "output-damaged",
                f"GPCNeT 1.3 does not split {nodes} nodes like this; the output is damaged, run it "
                "again",
            )
    records = []
    count = len(tests)
    for at, (_, unit, *cells) in enumerate(rows[: 2 * count]):
        test = tests[at % count]
        if not all(map(float, cells)):
            raise wrong(
                "output-trouble",
                f"{test.printed} has no value; the benchmark did not measure, run it again",
            )
        scale = 1.0 if unit == _TIME else _MB_PER_MIB
        variant = (ALONE, CONGESTED)[at // count] if head[1] else ""
        values = {
            name: float(cell) * scale for name, cell in zip(test.quantities, cells, strict=True)
        }
        records.append(Record(NAME, test.name, ranks, 1, test.message_bytes, None, values, variant))
    # The key results follow from the numbers of the two tables as printed, to one decimal. Kept is
    # the quotient itself: 1.04 and 0.96 are both printed as 1.0X.
    for test, alone, congested, factors in zip(
        tests, rows, rows[count:], rows[2 * count :], strict=False
    ):
        pairs = [
            (float(before), float(after))
            for before, after in zip(alone[2:], congested[2:], strict=True)
        ]
        quotients = [
            after / before if test.unit == _TIME else before / after for before, after in pairs
        ]
        if [f"{quotient:.1f}" for quotient in quotients] != list(factors[2:]):
            fault = f"the factors of {test.printed} do not follow from its times or bandwidths"
            raise wrong(
                "output-damaged", f"{fault}; the output is damaged or mixed up, run it again"
            )
        values = dict(zip(IMPACT, quotients, strict=True))
        records.append(Record(NAME, test.impact, ranks, 1, test.message_bytes, None, values))
    return records


SUITE = Suite(
    name=NAME,
    title="GPCNeT",
    first_line=_TITLE,
    parse=parse,
    facts=facts_of_output,
    rows=ROWS,
    groups=GROUPS,
    arguments=no_arguments,
    sizes=gated_sizes,
    # It takes no argument, not even for its version, which only its
    # tables say; on one node it refuses to run.
    programs=Programs(
        "network_*test",
        r"network_(?:load_)?test",
        "--version",
        r"(?m)^Network(?:Load)? Tests v([0-9][0-9.]*)",
        refusal=r"(?m)^ERROR: this application must be run on at least [0-9]+ nodes",
        unsaid="unknown",
    ),
    spack=(BenchmarkPackage("gpcnet", "bin", "network_*test"),),
)

"""The catalogue: every benchmark the tests know, in groups, and how a group runs on a stack.

It is made of the suites' records (:mod:`model`): to add a benchmark, add a row to its suite
(``suites/imb.py``) and, to run it, its name to a plan there. The parsers read the same rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import product
from typing import NamedTuple

from .. import records as found_records
from ..machine.gpu import KINDS, MEMORIES, OF_HOST, Memory
from ..mpis.transport import Library
from ..printable import plural
from ..stacks.stack import Stack
from ..vocabulary import QUANTITIES, BadInput, NotMeasured, Quantity
from . import benchmark, node_memory, options, side_by_side
from .benchmark import (
    FAN_BUFFER_BYTES,
    LEVELS,
    RANK_RULES,
    SIZE_DIGITS,
    UNBOUNDED,
    Benchmark,
    Limits,
    Plan,
    SizeRange,
    at_levels,
    in_bands,
    metric_name,
)
from .model import Group, Parser, Run, Suite, options_of
from .pair import PairGroup

__all__ = [
    "GROUPS",
    "LEVELS",
    "RANK_RULES",
    "SUITES",
    "Benchmark",
    "Expected",
    "Launch",
    "Limits",
    "Metric",
    "NotMeasured",
]
__all__ += ["SIZE_DIGITS", "metric_name"]


def _find_fault(suite: Suite) -> str:
    if suite.groups and suite.arguments is None:
        return "it has groups but no 'arguments' to start them; add them"
    for name, group in suite.groups.items():
        known = {(row.binary, row.name) for row in suite.rows if row.group == name}
        missing = [
            benchmark
            for plan in group.plans
            for benchmark in plan.benchmarks
            if (plan.binary, benchmark) not in known
        ]
        if missing:
            return f"group {name} plans '{missing[0]}'without a row for it; add one"
    return ""


def _check_names(suites: Mapping[str, Suite]) -> Mapping[str, Suite]:
    """The suites."""
    owners: dict[tuple[str, ...], str] = {}
    for suite in suites.values():
        groups = (("group", name) for name in (*suite.groups, *(pair.name for pair in suite.pairs)))
        named = (("option", option.name) for option in suite.options)
        for subject in (
            *groups,
            *named,
            *(("benchmark", row.binary, row.name) for row in suite.rows),
        ):
            if subject in owners:
                raise BadInput(
                    "name-taken",
                    f"{' '.join(subject)} is defined by suite {owners[subject]} and again by "
                    f"{suite.name}; rename one.",
                )
            owners[subject] = suite.name
    return suites


#: Suites by name: the files of this room, and those of ``MPIBENCH_EXTENSIONS`` (:mod:`records`).
SUITES = _check_names(
    dict(
        sorted(found_records.load(__name__.rpartition(".")[0], "SUITE", Suite, _find_fault).items())
    )
)

# Rows of two suites: what one says of a link over what the other says
# (``cases/results/agreement.py``). The same sizes in both suites.
_CHECKED_PAIR = at_levels(
    SizeRange((3, 20), 200, 20), SizeRange((3, 20), 500, 40), SizeRange((3, 20), 1000, 80)
)
_CHECKED_WINDOW = at_levels(
    SizeRange((3, 20), 20, 2), SizeRange((3, 20), 40, 4), SizeRange((3, 20), 100, 8)
)
_OSU_PAIR = (
    at_levels(
        SizeRange((3, 13), 200, 20), SizeRange((3, 13), 500, 40), SizeRange((3, 13), 1000, 80)
    ),
    at_levels(
        SizeRange((14, 20), 20, 20), SizeRange((14, 20), 40, 40), SizeRange((14, 20), 80, 80)
    ),
)
_OSU_WINDOW = (
    at_levels(SizeRange((3, 13), 20, 2), SizeRange((3, 13), 40, 4), SizeRange((3, 13), 100, 8)),
    at_levels(SizeRange((14, 20), 2, 2), SizeRange((14, 20), 4, 4), SizeRange((14, 20), 8, 8)),
)

_CROSS_CHECK = Group(
    "Latency and bandwidth of one pair in two suites, interleaved (OSU over IMB-MPI1)",
    (
        Plan("imb_pair", "IMB-MPI1", ("PingPong",), _CHECKED_PAIR),
        *in_bands("osu_latency", *_OSU_PAIR),
        Plan("imb_window", "IMB-MPI1", ("Uniband", "Biband"), _CHECKED_WINDOW),
        *in_bands("osu_bw", *_OSU_WINDOW),
        *in_bands("osu_bibw", *_OSU_WINDOW),
    ),
)

# What a night has time for on each number of nodes: few repetitions, and blocks of no more than 1
# KiB, as thousands of ranks each send one to all others.
_REDUCTION = at_levels(
    SizeRange((10, 12), 50, 1), SizeRange((3, 20), 100, 4), SizeRange((3, 20), 200, 8)
)
_BLOCKS = at_levels(
    SizeRange((10, 12), 20, 1), SizeRange((3, 10), 50, 1), SizeRange((3, 10), 100, 1)
)
_ALLREDUCE_ALLTOALL = {
    "allreduce_alltoall": Group(
        "Allreduce and Alltoall, the collectives that fit into every night (IMB-MPI1)",
        (
            Plan("allreduce", "IMB-MPI1", ("Allreduce",), _REDUCTION),
            Plan("alltoall", "IMB-MPI1", ("Alltoall",), _BLOCKS, fan=True),
        ),
        collective=True,
    ),
    "allreduce_alltoall_osu": Group(
        "Allreduce and Alltoall, the collectives that fit into every night (OSU)",
        (*in_bands("osu_allreduce", _REDUCTION), *in_bands("osu_alltoall", _BLOCKS, fan=True)),
        collective=True,
    ),
}

#: Group without rows: its evidence is its result.
PLACEMENT = "placement"
#: Group made of rows of others, to compare suites.
CROSS_CHECK = "cross_check"
#: Group without rows, since no stack has its program: a base class of its own runs it on a node.
MEMORY = node_memory.GROUP_NAME
#: Groups that a server and a client on two nodes measure, without MPI.
PAIRS: Mapping[str, PairGroup] = {
    group.name: group for suite in SUITES.values() for group in suite.pairs
}
#: Of these the ones that measure a link, each to its test (``reframe_tests/cascade.py``).
WIRES: Mapping[str, str] = {"wire_tcp": "WireTcp", "wire_rdma": "WireRdma"}
#: How suites start and end ranks without timing anything, and whose
#: each is; the first one a stack has is used.
_PROBES = tuple(
    (suite.name, suite.probe)
    for suite in sorted(SUITES.values(), key=lambda suite: suite.probe.order if suite.probe else 0)
    if suite.probe
)
#: Groups: the rows one job runs together.
GROUPS: Mapping[str, Group] = {
    **{name: group for suite in SUITES.values() for name, group in suite.groups.items()},
    CROSS_CHECK: _CROSS_CHECK,
    **_ALLREDUCE_ALLTOALL,
    MEMORY: node_memory.GROUP,
    **{name: Group(group.description) for name, group in PAIRS.items()},
    PLACEMENT: Group(
        "Where the ranks are; nothing is timed "
        f"({' or '.join(' '.join((probe.binary, probe.args[-1])) for _, probe in _PROBES)})"
    ),
}

#: Every row, in the order groups run them.
ROWS: tuple[Benchmark, ...] = tuple(
    row for suite in SUITES.values() if suite.groups for row in suite.rows
)
#: Those no stack runs: their outputs are read, and some are measured without MPI.
READ_ONLY: tuple[Benchmark, ...] = tuple(
    row for suite in SUITES.values() if not suite.groups for row in suite.rows
)
_BY_NAME = benchmark.by_name((*ROWS, *READ_ONLY))

#: Options of all suites, by name.
OPTIONS: Mapping[str, options.SuiteOption] = {
    option.name: option for suite in SUITES.values() for option in suite.options
}
#: No option is set.
_NO_OPTIONS: Mapping[str, str] = {}

#: Variants that only the condition says, by the rule of ranks.
_OPEN_VARIANTS: Mapping[str, tuple[str, ...]] = {
    "grid2d": ("grid=*",),
    "grid3d": ("grid=*",),
    "growing": ("nodes=*",),
    benchmark.BY_NODES: ("nodes=*",),
    "program": tuple(
        side_by_side.variant("*", "*", how) for how in (side_by_side.ALONE, side_by_side.SHARED)
    ),
}


class Expected(NamedTuple):
    """What a launch must print for one benchmark.

    :param ranks: active ranks.
    :param sizes: message sizes in bytes, in order; ``(None,)`` for a benchmark without sizes.
    :param variants: variants, in order.
    :param repetitions: repetitions of every size, where they do not depend
        on it; ``None`` if only the output says.
    :param quantities: what each row must hold; empty: whatever it does.
    :param variant: what options and the nodes add to each variant,
        because the output does not say it there.
    :param validated: whether each row must say that the data received was right.
    :param growing: active ranks of each variant, where they are not the same.
    :param links: :meth:`Benchmark.links`.
    :param most: how many times the line rate of these its bandwidth
        may be (:meth:`Benchmark.carried`).
    """

    benchmark: str
    ranks: int
    sizes: tuple[int | None, ...]
    variants: tuple[str, ...] = ("",)
    repetitions: int | None = None
    quantities: tuple[str, ...] = ()
    variant: str = ""
    validated: bool = False
    growing: tuple[int, ...] = ()
    links: float = 1.0
    most: float = 1.0

    def active(self, printed: str) -> int:
        return dict(zip(self.variants, self.growing, strict=False)).get(printed, self.ranks)

    def stored_variant(self, printed: str) -> str:
        """A printed variant with what is added to it, as records and metrics have it."""
        return ",".join(filter(None, (printed, self.variant)))


@dataclass(frozen=True)
class Launch:
    """One invocation of one binary on a given number of ranks.

    :param name: unique within its group; made of letters, digits and ``_``.
    :param args: arguments after the binary.
    :param expected: what a complete output holds, for ``reader.check_complete``.
    :param env: variables the binary needs.
    :param checks_data: it times nothing and is run once: ``data_check`` reads what it prints.
    :param options: options of the suite that it is started with, by name.
    :param changed: its rows where options change them.
    :param files: files it is to find in the folder it is started in;
        ``result``: the one it writes its output to, if it does.
    :param more_bytes: that it prints beyond what any launch may.
    :param parse: reads its output in place of its suite's reader.
    """

    name: str
    suite: str
    binary: str
    args: tuple[str, ...]
    expected: tuple[Expected, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    checks_data: bool = False
    options: Mapping[str, str] = field(default_factory=dict)
    changed: tuple[Benchmark, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    result: str = ""
    more_bytes: int = 0
    parse: Parser | None = None

    def program(self, stack: Stack) -> tuple[str, ...]:
        """The program, or an interpreter and what it runs, as words."""
        ranks = self.expected[0].ranks if self.expected else 0
        return SUITES[self.suite].find_program(stack, self.binary, ranks) or (self.binary,)

    def words(self, stack: Stack) -> list[str]:
        """Program and arguments, as words; variables are set through
        ``env`` so that every launcher hands them on.
        """
        assignments = [f"{key}={value}" for key, value in self.env.items()]
        return [*(["env", *assignments] if assignments else []), *self.program(stack), *self.args]

    def rows(self) -> list[Benchmark]:
        """Catalogue rows of the benchmarks it runs, as its options make them."""
        return list(self.changed) or [find(self.binary, item.benchmark) for item in self.expected]

    @property
    def uses_files(self) -> bool:
        return any(GROUPS[row.group].files for row in self.rows())

    @property
    def compares_data(self) -> bool:
        """Whether timed data are checked, by its program or in each row."""
        return SUITES[self.suite].compares_data or all(item.validated for item in self.expected)

    @property
    def balanced(self) -> bool:
        """Whether all data go from one rank to another, so that no reduction or multiplication
        changes the byte count.
        """
        return not self.checks_data and not any(GROUPS[row.group].collective for row in self.rows())


@dataclass(frozen=True)
class Metric:
    """One number a launch gives: quantity x benchmark x variant x message size.

    :param gated: whether the size is one of those that may carry a reference.
    :param directions: for bandwidths that say something about a link at this size,
        :attr:`Benchmark.directions` times the links that carry it; 0 otherwise.
    :param most: :attr:`Expected.most`; ``link_share``: :attr:`Benchmark.link_share`.
    """

    name: str
    unit: str
    direction: str
    benchmark: str
    quantity: str
    message_bytes: int | None
    variant: str
    ranks: int
    gated: bool
    directions: float
    most: float
    link_share: float

    @property
    def share_name(self) -> str:
        """Name of its share of the line rate."""
        return metric_name(
            self.benchmark, QUANTITIES["line_rate_fraction"].short, self.message_bytes, self.variant
        )


@cache
def rows(group: str) -> tuple[Benchmark, ...]:
    """Rows of a group: its own, else those of others that its plans have."""
    planned = {(row.binary, row.name): row for row in _planned(group)}
    return tuple(row for row in (*ROWS, *READ_ONLY) if row.group == group) or tuple(
        planned.values()
    )


def suites(group: str) -> tuple[str, ...]:
    """Suites a stack must have to run a group: all of them, or for the placement group any."""
    planned = _planned(group)
    if group == PLACEMENT:
        return tuple(name for name, _ in _PROBES)
    return tuple(dict.fromkeys(SUITES[row.suite].feature for row in planned))


def stack_selection(group: str) -> list[str]:
    """Stacks that can run a group, as ReFrame's ``valid_prog_environs`` selects them by feature."""
    features = [f"+{suite}" for suite in suites(group)]
    return features if group == PLACEMENT else [" ".join(features)]


def find(binary: str, name: str) -> Benchmark:
    """The row of a benchmark."""
    return benchmark.find(_BY_NAME, binary, name)


def launches(
    group: str,
    stack: Stack,
    ranks: int,
    level: str,
    nodes: int = 1,
    limits: Limits = UNBOUNDED,
    chosen: Mapping[str, str] = _NO_OPTIONS,
    memory: Memory = OF_HOST,
    without: Collection[str] = (),
) -> tuple[Launch, ...]:
    """How a group is run on ``ranks`` ranks of a stack.

    :param level: key of :data:`LEVELS`.
    :param nodes: nodes the ranks are spread over in blocks; a benchmark of
        one pair then takes ranks of two nodes.
    :param limits: of the repetitions there; the same for every
        stack, so that all run the same work.
    :param chosen: options of the suites, as :func:`options.of_group` gives them.
    :param memory: where messages are; benchmarks that cannot have them there are left out.
    :param without: kinds of operations that the stack's MPI does not do there, left out as well.
    :raises NotMeasured: if the stack lacks a binary or is too old for an option, or no benchmark of
        the group runs on that many ranks.
    :raises BadInput: if there is no such group or level.
    """
    _planned(group)
    if level not in LEVELS:
        raise BadInput(
            "unknown-name", f"there is no level '{level}'; choose one of {', '.join(LEVELS)}."
        )
    check_memory(group, memory, without)
    if group == PLACEMENT:
        return (_probe(stack),)
    check_stack(group, stack, ranks, nodes, memory, without)
    made = [
        _launch(plan, stack, ranks, level, nodes, limits, chosen, memory, without)
        for plan in GROUPS[group].plans
    ]
    planned = tuple(launch for launch in made if launch)
    if not planned:
        raise _idle(group, ranks, nodes)
    if unknown := [
        name for name in chosen if not any(name in launch.options for launch in planned)
    ]:
        raise NotMeasured(f"no benchmark of group {group} has {unknown[0]}={chosen[unknown[0]]}")
    return planned


def check_stack(
    group: str,
    stack: Stack,
    ranks: int,
    nodes: int,
    memory: Memory = OF_HOST,
    without: Collection[str] = (),
) -> None:
    """Make sure that a stack's versions have benchmarks of a group for that many ranks (for two
    suites: both).

    :raises NotMeasured: if they do not.
    """
    plans = GROUPS[group].plans
    able = [_rows_on(plan, stack, ranks, nodes, memory, without) for plan in plans]
    if plans and not any(able):
        if memory.on_gpu and any(_rows_on(plan, stack, ranks, nodes) for plan in plans):
            raise NotMeasured(
                f"no benchmark of group {group} in this stack measures {memory.text} and reports it"
            )
        if old := next((row for row in _planned(group) if row.active(ranks, nodes)), None):
            release = stack.suites.get(old.suite, {}).get("version", "")
            raise NotMeasured(
                f"{SUITES[old.suite].title} {release} has none of the benchmarks of group {group}"
            )
        raise _idle(group, ranks, nodes)
    if group == CROSS_CHECK and not all(able):
        raise NotMeasured(
            "two suites are compared on one pair of ranks; with two nodes, give ppn=1"
        )


def check_ranks(group: str, ranks: int, nodes: int | None = None) -> None:
    """Make sure that something of a group runs on that many ranks,
    whatever the stack and its versions.

    :param nodes: the nodes they are on; ``None``: any.
    :raises NotMeasured: if nothing does.
    :raises BadInput: if there is no such group.
    """
    planned = _planned(group)
    if planned and not any(row.active(ranks, nodes) for row in planned):
        raise _idle(group, ranks, nodes)


def check_memory(group: str, memory: Memory, without: Collection[str] = ()) -> None:
    """Make sure that something of a group can be measured in a memory.

    :param without: kinds of operations that an MPI does not do there.
    :raises NotMeasured: if nothing can.
    :raises BadInput: if there is no such group.
    """
    rows = _planned(group)
    if not memory.on_gpu and (library := library_of(group)):
        raise NotMeasured(f"{library.title} moves memory of GPUs only")
    able = [
        row
        for row in rows
        if not memory.on_gpu or SUITES[row.suite].on_gpu(row, memory, ()) is not None
    ]
    if memory.on_gpu and not able:
        raise NotMeasured(f"no benchmark of group {group} measures {memory.text}")
    if group == CROSS_CHECK and (
        unable := [SUITES[row.suite].title for row in rows if row not in able]
    ):
        raise NotMeasured(
            f"two suites are compared, but {unable[0]} does not measure {memory.text}"
        )
    undone = [next((kind for kind in without if kind in row.operations), "") for row in able]
    if able and all(undone):
        raise NotMeasured(
            f"its MPI supports no {' and no '.join(dict.fromkeys(undone))} in {memory.text}"
        )


def library_of(group: str) -> Library | None:
    """What the programs of a group communicate with instead of MPI."""
    return next((SUITES[row.suite].library for row in _planned(group)), None)


def why_unbuilt(group: str, stack: Stack, memory: Memory = OF_HOST) -> str:
    """Why a stack can run nothing of a group: it has none of its
    programs; empty if it has one, or none is needed.

    :raises BadInput: if there is no such group.
    """
    owners = {row.binary: SUITES[row.suite] for row in _planned(group)}
    programs = list(owners)
    if not programs:
        return ""
    there = [owner for name, owner in owners.items() if owner.script or owner.is_built(stack, name)]
    if not there:
        more = f" nor any of {len(programs) - 1} more for group {group}" if programs[1:] else ""
        return f"stack {stack.name} has no {programs[0]}{more}"
    if memory.on_gpu and not any(_knows(stack, owner, memory) for owner in there):
        return f"stack {stack.name} has {there[0].title} not built for {KINDS[memory.kind].title}"
    return ""


def _knows(stack: Stack, suite: Suite, memory: Memory) -> bool:
    """Whether a stack's programs of a suite were built for a
    GPU memory; our own are for any.
    """
    return bool(suite.script) or stack.suites.get(suite.name, {}).get("gpu") == memory.kind


@cache
def _planned(group: str) -> tuple[Benchmark, ...]:
    """Rows of a group's plans."""
    if group not in GROUPS:
        raise BadInput(
            "unknown-name",
            f"there is no group '{group}' in the catalogue; choose one of {', '.join(GROUPS)}.",
        )
    return tuple(
        find(plan.binary, name) for plan in GROUPS[group].plans for name in plan.benchmarks
    )


def _idle(group: str, ranks: int, nodes: int | None) -> NotMeasured:
    planned = _planned(group)
    where = plural(ranks, "rank")
    if nodes is not None and any(row.active(ranks) for row in planned):
        where += f" of {plural(nodes, 'node')}"
    if nodes is not None and nodes < (least := min(row.min_nodes for row in planned)):
        where += f": it takes {least} nodes or more"
    return NotMeasured(f"no benchmark of group {group} runs on {where}")


def metrics(launched: Iterable[Launch]) -> Iterator[Metric]:
    """Every metric that launches give when they are complete."""
    for launch in launched:
        for item, row in zip(launch.expected, launch.rows(), strict=True):
            for variant, ranks in (
                (item.stored_variant(printed), item.active(printed)) for printed in item.variants
            ):
                for quantity in (QUANTITIES[name] for name in row.quantities):
                    for size in item.sizes:
                        yield Metric(
                            metric_name(item.benchmark, quantity.short, size, variant),
                            quantity.unit,
                            quantity.direction,
                            item.benchmark,
                            quantity.name,
                            size,
                            variant,
                            ranks,
                            size in row.gated_sizes.get(quantity.name, ()),
                            row.directions * item.links
                            if row.shows_line_rate(quantity.name, size)
                            else 0,
                            item.most,
                            row.link_share,
                        )


def planned_metrics(group: str) -> dict[str, tuple[Quantity, frozenset[int | None]]]:
    """All metrics of a group at any level, on any stack, with any option: metric name without its
    size, to quantity and sizes.

    A stencil's grid and growing node counts follow from the condition: ``*`` stands for them, as
    for free values of options.

    :raises BadInput: if there is no such group.
    """
    _planned(group)
    planned: dict[str, tuple[Quantity, frozenset[int | None]]] = {}
    for pair in PAIRS[group].plans if group in PAIRS else ():
        lengths: frozenset[int | None] = frozenset(
            size for sizes in pair.sizes.values() for size in sizes
        )
        for row in (row for row in rows(group) if row.name == pair.benchmark):
            for quantity, place in product(
                (QUANTITIES[name] for name in row.quantities), _memories(row)
            ):
                planned[
                    metric_name(pair.benchmark, quantity.short, None, pair.variant or place)
                ] = (quantity, lengths)
    if group == MEMORY:
        bandwidth = QUANTITIES[node_memory.QUANTITY]
        names = (
            (kernel, variant) for kernel in node_memory.KERNELS for variant in node_memory.VARIANTS
        )
        return {
            metric_name(name, bandwidth.short, None, variant): (bandwidth, frozenset({None}))
            for name, variant in names
        }
    for plan in GROUPS[group].plans:
        for row in (find(plan.binary, name) for name in plan.benchmarks):
            sizes = frozenset(
                size
                for size_range in plan.size_ranges.values()
                for size in SUITES[row.suite].sizes(row, plan, size_range)
            )
            if row.ranks == "program":
                name = metric_name(
                    row.name,
                    QUANTITIES[side_by_side.RATIO].short,
                    None,
                    side_by_side.variant("*", "*"),
                )
                planned[name] = (QUANTITIES[side_by_side.RATIO], sizes)
            for under, named in options.possible(OPTIONS, group, row):
                variants = _OPEN_VARIANTS.get(row.ranks) or _variants(
                    under, plan, row.min_ranks, row.min_nodes
                )
                for variant, place in product(variants, _memories(row)):
                    for quantity in (QUANTITIES[name] for name in under.quantities):
                        name = metric_name(
                            row.name,
                            quantity.short,
                            None,
                            ",".join(filter(None, (variant, place, named))),
                        )
                        planned[name] = (
                            quantity,
                            sizes | planned.get(name, (quantity, frozenset()))[1],
                        )
    return planned


def _memories(row: Benchmark) -> list[str]:
    """What memories add to the variants of a row, those first
    that it is measured in on any platform.
    """
    able = (Memory(word, kind) for word in MEMORIES for kind in KINDS)
    on_gpu = [
        memory.variant
        for memory in able
        if memory.on_gpu and SUITES[row.suite].on_gpu(row, memory, ()) is not None
    ]
    return ["", *dict.fromkeys(on_gpu)]


def _launch(
    plan: Plan,
    stack: Stack,
    ranks: int,
    level: str,
    nodes: int,
    limits: Limits,
    asked: Mapping[str, str] = _NO_OPTIONS,
    memory: Memory = OF_HOST,
    without: Collection[str] = (),
) -> Launch | None:
    """One plan on a stack, with the rows its version has and that many
    ranks allow; ``None`` if there are none.
    """
    if level not in plan.size_ranges:
        return None
    chosen = _rows_on(plan, stack, ranks, nodes, memory, without)
    if not chosen:
        return None
    suite = SUITES[chosen[0].suite]
    version = _version_of(suite, stack)
    if not suite.find_program(stack, plan.binary, ranks):
        raise NotMeasured(
            f"stack {stack.name} has no {suite.script.module if suite.script else plan.binary}"
        )
    planned_range = plan.size_ranges[level]
    smallest, largest = planned_range.log2
    if plan.fan:
        largest = min(largest, (FAN_BUFFER_BYTES // ranks).bit_length() - 1)
        if largest < smallest and plan.banded:
            return None  # the band below has what fits
        smallest = min(smallest, largest)
    under = options.apply(OPTIONS, chosen, ranks, asked, version)
    link_bytes = max(row.link_bytes(row.active(ranks), nodes) for row in under.rows)
    size_range = replace(planned_range, log2=(smallest, largest)).limited(
        limits, LEVELS[level], link_bytes
    )
    assert suite.arguments is not None  # a suite with plans has them
    run = Run(
        plan,
        under.rows,
        size_range,
        ranks,
        nodes,
        LEVELS[level].secs_per_sample,
        (*options_of(under.rows, version), *under.words),
        under.options,
    )
    behind = suite.on_gpu(under.rows[0], memory, version) if memory.on_gpu else ()
    if behind is None:
        said = ", ".join(f"{name}={value}" for name, value in under.options.items())
        release = ".".join(map(str, version))
        raise NotMeasured(
            f"{under.rows[0].name} of {suite.title} {release} gets {said} in {memory.text} wrong"
        )
    repetitions = size_range.repetitions if suite.same_repetitions else None
    return Launch(
        plan.name,
        suite.name,
        plan.binary,
        (*suite.arguments(run), *behind),
        tuple(
            Expected(
                row.name,
                row.active(ranks),
                _sizes(row, plan, size_range, ranks),
                tuple(
                    ",".join(filter(None, (variant, memory.variant)))
                    for variant in (
                        suite.variants(row, run)
                        if suite.variants
                        else _variants(row, plan, ranks, nodes)
                    )
                ),
                repetitions,
                row.quantities if under.options else (),
                ",".join(filter(None, (row.variant_of_nodes(nodes), under.variant))),
                under.validated or suite.validates,
                row.growing_ranks(ranks, nodes),
                row.links(row.active(ranks), nodes),
                row.carried(row.active(ranks), nodes) / row.links(row.active(ranks), nodes),
            )
            for row in under.rows
        ),
        plan.env,
        options=under.options,
        changed=under.rows if under.options else (),
        files=suite.files(run),
        result=suite.result,
    )


def _version_of(suite: Suite, stack: Stack) -> tuple[int, ...]:
    return benchmark.version_tuple(stack.suites.get(suite.name, {}).get("version", ""))


def _rows_on(
    plan: Plan,
    stack: Stack,
    ranks: int,
    nodes: int,
    memory: Memory = OF_HOST,
    without: Collection[str] = (),
) -> tuple[Benchmark, ...]:
    """Rows of a plan that the stack's version has, and that many ranks and a memory allow."""
    planned = [find(plan.binary, name) for name in plan.benchmarks]
    suite = SUITES[planned[0].suite]
    version = _version_of(suite, stack)
    chosen = tuple(row for row in planned if row.active(ranks, nodes) and row.known_to(version))
    if memory.on_gpu:
        able = _knows(stack, suite, memory)
        chosen = tuple(
            row for row in chosen if able and suite.on_gpu(row, memory, version) is not None
        )
        chosen = tuple(row for row in chosen if not set(without) & set(row.operations))
    return chosen


def _sizes(row: Benchmark, plan: Plan, size_range: SizeRange, ranks: int) -> tuple[int | None, ...]:
    suite = SUITES[row.suite]
    return (
        suite.printed_sizes(row, size_range, ranks)
        if suite.printed_sizes
        else suite.sizes(row, plan, size_range)
    )


def _probe(stack: Stack) -> Launch:
    for suite, probe in _PROBES:
        if probe.binary in stack.binaries or probe.binary in stack.commands:
            return Launch("probe", suite, probe.binary, probe.args, ())
    raise NotMeasured(
        f"stack {stack.name} has neither {' nor '.join(probe.binary for _, probe in _PROBES)} to "
        "start"
    )


def _variants(row: Benchmark, plan: Plan, ranks: int, nodes: int) -> tuple[str, ...]:
    if row.ranks == "growing":
        return tuple(f"nodes={count}" for count in benchmark.growing_node_counts(nodes))
    if sides := row.grid(ranks):
        return ("grid=" + "x".join(map(str, sides)),)
    return (f"threads={plan.threads}",) if plan.threads else row.variants

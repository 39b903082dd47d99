"""The catalogue: every benchmark the tests know, in groups, and how a group is run on a stack.

Adding a benchmark is adding a row (``suites/imb/rows.py``, ``suites/osu/rows.py``) and, if it is to be run, its name to a plan
(``plans.py``). The parsers read the same rows to know what a complete output is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ..stacks.stack import Stack
from ..vocabulary import QUANTITIES, BadInput, NotMeasured, Quantity
from . import traffic
from .benchmark import ELEMENT, RANK_RULES, SIZELESS, Benchmark, doubling_sizes
from .imb import rows as imb_rows
from .osu import rows as osu_rows
from .perftest import rows as perftest_rows
from .plans import DEPTHS, FAN_BUFFER_BYTES, PLANS, PROBES, UNBOUNDED, Amount, Pace, Plan

__all__ = ["DEPTHS", "GROUPS", "RANK_RULES", "Benchmark", "Expected", "Launch", "Metric", "NotMeasured", "Pace"]

#: Groups: the rows one job runs together.
GROUPS: Mapping[str, str] = {
    "p2p": "Latency and bandwidth between one pair of ranks (IMB-MPI1 PingPong, PingPing)",
    "p2p_mpi4py": "Latency and bandwidth between one pair of ranks, the same instrument on every stack (mpi4py.bench pingpong)",
    "transfer": "All ranks transfer at the same time (IMB-MPI1 Sendrecv, Exchange, Uniband, Biband)",
    "collectives": "Blocking collectives (IMB-MPI1)",
    "p2p_pairs": "Pairs, random partners and stencils over all ranks (IMB-P2P)",
    "nonblocking": "Nonblocking collectives and their overlap with computation (IMB-NBC)",
    "one_sided": "One-sided communication with passive targets (IMB-RMA)",
    "p2p_osu": "Latency and bandwidth between one pair of ranks (OSU latency, bw, bibw)",
    "transfer_osu": "All ranks transfer at the same time (OSU multi_lat, mbw_mr)",
    "one_sided_osu": "One-sided communication between one pair of ranks (OSU put and get)",
    "collectives_osu": "Blocking collectives (OSU)",
    "cross_check": "Latency and bandwidth of one pair in two suites, in turns (OSU over IMB-MPI1)",
    "threads": "Several threads of a rank communicating at the same time (IMB-MT)",
    "placement": "Where the ranks are; nothing is timed (mpi4py.bench helloworld or IMB-MPI1 Barrier)",
}
#: Groups with collectives, whose packets a switch may add up or multiply.
WITH_COLLECTIVES = ("collectives", "collectives_osu", "nonblocking", "threads")
#: Group without rows: its evidence is its result.
PLACEMENT = "placement"
#: Group made of rows of others, to compare suites.
CROSS_CHECK = "cross_check"

MPI4PY_PINGPONG = Benchmark(
    "pingpong",
    "mpi4py",
    "mpi4py.bench",
    "p2p_mpi4py",
    "pair",
    ("bandwidth_mb_per_s", "latency_us", "latency_stddev_us"),
    traffic.both_ways,
    gates={"latency_us": (1, 8, 1024), "bandwidth_mb_per_s": (65536, 1 << 20, 4 << 20)},
    directions=1,
    line_rate_from_bytes=4 << 20,
)

#: Every row, in the order groups run them.
ROWS: tuple[Benchmark, ...] = (*imb_rows.ROWS, *osu_rows.ROWS, MPI4PY_PINGPONG)
#: Those no test starts: their outputs are read.
READ_ONLY: tuple[Benchmark, ...] = perftest_rows.ROWS
_BY_NAME = {(row.binary, row.name): row for row in (*ROWS, *READ_ONLY)}

#: Messages a pair of OSU exchanges before each small size is timed: Intel MPI 2021.18 takes some 700 round trips over shared
#: memory to get to its pace, and until then 2 us instead of 0.2. IMB times a size without data first, OSU has none.
WARM_UP_MESSAGES = 2000
#: Up to this message size in bytes, and never more than five times what is timed: 33 MB at most for the small sizes of one
#: pair's run together, 0.3 s at 1 Gbit/s.
WARM_UP_BYTES = 8192

#: Width of message sizes in metric names: text order is size order up to 10 GB - 1.
SIZE_DIGITS = 10


class Expected(NamedTuple):
    """What a launch must print for one benchmark.

    :param ranks: active ranks.
    :param sizes: message sizes in bytes, in order; ``(None,)`` for a benchmark without sizes.
    :param variants: variants, in order.
    :param repetitions: repetitions of every size, where they do not depend on it; ``None`` where only the output tells.
    """

    benchmark: str
    ranks: int
    sizes: tuple[int | None, ...]
    variants: tuple[str, ...] = ("",)
    repetitions: int | None = None


@dataclass(frozen=True)
class Launch:
    """One invocation of one binary on a given number of ranks.

    :param name: unique within its group; made of letters, digits and ``_``.
    :param args: arguments after the binary.
    :param expected: what a complete output holds, for ``reader.check_complete``.
    :param env: variables the binary needs.
    :param checks_data: it times nothing and is run once: ``data_check`` reads what it prints.
    """

    name: str
    suite: str
    binary: str
    args: tuple[str, ...]
    expected: tuple[Expected, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    checks_data: bool = False

    def words(self, stack: Stack) -> list[str]:
        """Program and arguments, as words; variables are set through ``env`` so that every launcher hands them on."""
        program = stack.commands.get(self.binary) or (stack.binaries.get(self.binary, self.binary),)
        assignments = [f"{key}={value}" for key, value in self.env.items()]
        return [*(["env", *assignments] if assignments else []), *program, *self.args]

    def rows(self) -> list[Benchmark]:
        """Catalogue rows of the benchmarks it runs."""
        return [find(self.binary, item.benchmark) for item in self.expected]

    @property
    def balanced(self) -> bool:
        """Whether all it sends goes from one rank to another, so that nothing on the way adds up or multiplies it."""
        return not self.checks_data and not any(row.group in WITH_COLLECTIVES for row in self.rows())


@dataclass(frozen=True)
class Metric:
    """One number a launch gives: quantity x benchmark x variant x message size.

    :param gated: whether the size is one of those that may carry a reference.
    :param directions: for bandwidths that say something about a link at this size, see :attr:`Benchmark.directions`; 0
        otherwise.
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
    directions: int


def rows(group: str) -> tuple[Benchmark, ...]:
    """Rows of a group.

    :raises BadInput: if there is no such group.
    """
    _known(group)
    if group == CROSS_CHECK:
        planned = dict.fromkeys((plan.binary, name) for plan in PLANS[group] for name in plan.benchmarks)
        return tuple(find(*key) for key in planned)
    return tuple(row for row in ROWS if row.group == group)


def suites(group: str) -> tuple[str, ...]:
    """Suites a stack must have to run a group: all of them, or for the placement group any."""
    _known(group)
    if group == PLACEMENT:
        return tuple(suite for suite, _ in PROBES.values())
    return tuple(dict.fromkeys(find(plan.binary, name).suite for plan in PLANS[group] for name in plan.benchmarks))


def stack_selection(group: str) -> list[str]:
    """Stacks that can run a group, as ReFrame's ``valid_prog_environs`` selects them by feature."""
    features = [f"+{suite}" for suite in suites(group)]
    return features if group == PLACEMENT else [" ".join(features)]


def find(binary: str, name: str) -> Benchmark:
    """The row of a benchmark.

    :raises BadInput: if the catalogue has none.
    """
    try:
        return _BY_NAME[binary, name]
    except KeyError:
        raise BadInput(f"{binary} has no benchmark called '{name}' in the catalogue; 'mpibench catalogue' lists all.") from None


def metric_name(benchmark: str, quantity: str, message_bytes: int | None, variant: str = "") -> str:
    """Name of a performance variable, e.g. ``PingPong.latency.0000000008``, ``Barrier.t_max``.

    :param quantity: short name (:attr:`vocabulary.Quantity.short`).
    :param variant: part of the name where a benchmark has several, e.g. ``Unidir_put.aggregate.latency.0000000008``.
    """
    words = [benchmark]
    if variant:
        words.append(variant.replace("=", "").replace(",", "_"))
    words.append(quantity)
    if message_bytes is not None:
        words.append(f"{message_bytes:0{SIZE_DIGITS}d}")
    return ".".join(words)


def launches(group: str, stack: Stack, ranks: int, depth: str, nodes: int = 1, pace: Pace = UNBOUNDED) -> tuple[Launch, ...]:
    """How a group is run on ``ranks`` ranks of a stack.

    :param depth: key of :data:`DEPTHS`.
    :param nodes: nodes the ranks are spread over in blocks; a benchmark of one pair then takes ranks of two nodes.
    :param pace: what bounds repetitions there; the same for every stack, so that all run the same work.
    :raises NotMeasured: if the stack lacks a binary, or no benchmark of the group runs on that many ranks.
    :raises BadInput: if there is no such group or depth.
    """
    _known(group)
    if depth not in DEPTHS:
        raise BadInput(f"there is no depth '{depth}'; choose one of {', '.join(DEPTHS)}.")
    if group == PLACEMENT:
        return (_probe(stack),)
    made = [_launch(plan, stack, ranks, depth, nodes, pace) for plan in PLANS[group]]
    found = tuple(launch for launch in made if launch)
    if not found:
        raise NotMeasured(f"no benchmark of group {group} runs on {ranks} rank{'s'[: ranks != 1]}")
    if group == CROSS_CHECK and len(found) < len(made):
        raise NotMeasured("two suites are compared on one pair of ranks, one per node where there are two nodes")
    return found


def metrics(launched: Iterable[Launch]) -> Iterator[Metric]:
    """Every metric that launches give when they are complete."""
    for launch in launched:
        for item in launch.expected:
            row = find(launch.binary, item.benchmark)
            for variant in item.variants:
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
                            item.ranks,
                            size in row.gates.get(quantity.name, ()),
                            row.directions if _shows_line_rate(row, quantity.name, size) else 0,
                        )


def planned_metrics(group: str) -> dict[str, tuple[Quantity, frozenset[int | None]]]:
    """What a group can give at any depth on any stack: metric name without its size, to quantity and message sizes.

    The sides of a stencil's grid follow from the number of ranks, so ``*`` stands for them.

    :raises BadInput: if there is no such group.
    """
    _known(group)
    found: dict[str, tuple[Quantity, frozenset[int | None]]] = {}
    for plan in PLANS.get(group, ()):
        for row in (find(plan.binary, name) for name in plan.benchmarks):
            sizes = frozenset(size for amount in plan.amounts.values() for size in _sizes(row, plan, amount))
            for variant in ("grid=*",) if row.ranks in ("grid2d", "grid3d") else _variants(row, plan, row.min_ranks):
                for quantity in (QUANTITIES[name] for name in row.quantities):
                    name = metric_name(row.name, quantity.short, None, variant)
                    found[name] = (quantity, sizes | found.get(name, (quantity, frozenset()))[1])
    return found


def _shows_line_rate(row: Benchmark, quantity: str, size: int | None) -> bool:
    return quantity == "bandwidth_mb_per_s" and size is not None and size >= row.line_rate_from_bytes


def _known(group: str) -> None:
    if group not in GROUPS:
        raise BadInput(f"there is no group '{group}' in the catalogue; choose one of {', '.join(GROUPS)}.")


def version_tuple(version: str) -> tuple[int, ...]:
    """Numbers of a suite's version: ``2021.11`` is ``(2021, 11)``, ``2019 Update 6`` is ``(2019, 6)``."""
    return tuple(int(number) for number in re.findall(r"[0-9]+", version))


def _launch(plan: Plan, stack: Stack, ranks: int, depth: str, nodes: int, pace: Pace) -> Launch | None:
    """One plan on a stack, with the rows its version has and that many ranks allow; ``None`` if there are none."""
    if depth not in plan.amounts:
        return None
    if plan.binary == "mpi4py.bench" and nodes > 1 and ranks > nodes:
        raise NotMeasured("mpi4py.bench always uses ranks 0 and 1, which are on one node where a node has several ranks")
    planned = [find(plan.binary, name) for name in plan.benchmarks]
    version = version_tuple(stack.suites.get(planned[0].suite, {}).get("version", ""))
    chosen = [row for row in planned if row.active(ranks) and (not version or row.since <= version)]
    if not chosen:
        return None
    if plan.binary not in stack.binaries and plan.binary not in stack.commands:
        raise NotMeasured(f"stack {stack.name} has no {plan.binary}")
    amount = plan.amounts[depth]
    smallest, largest = amount.sizes
    if plan.fan:
        largest = min(largest, (FAN_BUFFER_BYTES // ranks).bit_length() - 1)
        if largest < smallest and chosen[0].suite == "osu":
            return None  # the band below has what fits
        smallest = min(smallest, largest)
    link_bytes = max(row.link_bytes(row.active(ranks), nodes) for row in chosen)
    amount = Amount((smallest, largest), amount.count, amount.volume_mib).at(pace, DEPTHS[depth], link_bytes)
    make = _osu_args if chosen[0].suite == "osu" else _MAKERS.get(plan.binary, _imb_args)
    args = [*make(plan, amount, ranks, nodes, DEPTHS[depth].secs_per_sample), *_options(chosen, version)]
    names = [row.name for row in chosen if row.name != plan.binary]
    repetitions = amount.repetitions if chosen[0].suite == "osu" else None
    return Launch(
        plan.name,
        chosen[0].suite,
        plan.binary,
        tuple([*names, *args] if plan.binary == "mpi4py.bench" else [*args, *names]),
        tuple(
            Expected(row.name, row.active(ranks), _sizes(row, plan, amount), _variants(row, plan, ranks), repetitions)
            for row in chosen
        ),
        {"OMP_NUM_THREADS": str(plan.threads)} if plan.binary == "IMB-MT" else {},
    )


def _probe(stack: Stack) -> Launch:
    """The launch that only starts and ends the ranks."""
    for binary, (suite, args) in PROBES.items():
        if binary in stack.binaries or binary in stack.commands:
            return Launch("probe", suite, binary, args, ())
    raise NotMeasured(f"stack {stack.name} has neither {' nor '.join(PROBES)} to start")


def _options(chosen: Iterable[Benchmark], version: tuple[int, ...]) -> list[str]:
    """Options of the rows themselves, each once, where the suite's version knows them."""
    wanted = dict.fromkeys(row.options for row in chosen if row.options and (not version or row.options_since <= version))
    return [word for options in wanted for word in options]


def _imb_args(plan: Plan, amount: Amount, ranks: int, nodes: int, secs: int) -> list[str]:
    """IMB-MPI1, IMB-NBC, IMB-RMA: sizes, repetitions, one number of ranks (IMB User Guide, "Command-line Control")."""
    pairs = all(find(plan.binary, name).ranks == "pair" for name in plan.benchmarks)
    # Pairs take two ranks anyway, but IMB from 2019 on leaves Fetch_and_op and Compare_and_swap out, without a word, when
    # npmin is larger (helper_init_scope).
    args = ["-npmin", str(min(ranks, 2) if pairs else ranks), "-msglog", f"{amount.sizes[0]}:{amount.sizes[1]}"]
    # The third number is for the non-aggregate mode, which otherwise makes 100 repetitions.
    args += ["-iter", f"{amount.count},{amount.volume_mib},{amount.count}", "-time", str(secs)]
    if pairs and nodes > 1 and ranks > nodes:
        # Ranks fill the nodes in blocks: without a map, the pair would be two neighbours on the first node.
        args += ["-map", f"{ranks // nodes}x{nodes}"]
    return args


def _p2p_args(plan: Plan, amount: Amount, ranks: int, nodes: int, secs: int) -> list[str]:
    """IMB-P2P; its default pause of 0.1 s around every size is cut to 1 ms (imb_p2p.c, ``-pause``)."""
    # `max` alone starts with 0 and 1 byte; `min:max` has no zero.
    sizes = f"{amount.sizes[0]}:{amount.sizes[1]}" if amount.sizes[0] else str(amount.sizes[1])
    return ["-msglog", sizes, "-iter", f"{amount.count},{amount.volume_mib}", "-pause", "1000"]


def _mt_args(plan: Plan, amount: Amount, ranks: int, nodes: int, secs: int) -> list[str]:
    """IMB-MT: counts are of bytes, per thread (MT_suite.cpp)."""
    counts = ",".join(str(1 << log) for log in range(amount.sizes[0], amount.sizes[1] + 1))
    level = "multiple" if plan.threads > 1 else "single"
    # The same repetitions at every size, so those the largest allows.
    repeat = min(amount.count, max(1, (amount.volume_mib << 20) // (plan.threads << amount.sizes[1])))
    return ["-thread_level", level, "-datatype", "char", "-count", counts, "-repeat", str(repeat), "-warmup", "5"]


def _mpi4py_args(plan: Plan, amount: Amount, ranks: int, nodes: int, secs: int) -> list[str]:
    """mpi4py.bench pingpong: repetitions in three steps, above 16 KiB and above 1 MiB fewer (its own defaults' limits).

    Plain byte buffers on purpose: with the default, the buffer depends on whether NumPy happens to be there.
    """
    largest_mib = max(1 << amount.sizes[1] >> 20, 1)
    large = min(max(amount.count // 5, 10), amount.volume_mib)
    huge = min(max(amount.count // 50, 5), max(amount.volume_mib // largest_mib, 1))
    return [
        *("--min-size", str(1 << amount.sizes[0]), "--max-size", str(1 << amount.sizes[1]), "--array", "none"),
        *("--loop", str(amount.count), "--skip", str(amount.count // 10)),
        *("--loop-large", str(large), "--skip-large", str(large // 10)),
        *("--loop-huge", str(huge), "--skip-huge", "1"),
    ]


def _osu_args(plan: Plan, amount: Amount, ranks: int, nodes: int, secs: int) -> list[str]:
    """OSU: one benchmark, the same repetitions at every size, so those the largest allows (README of OMB).

    Repetitions before each size (``-x``): a tenth, and for small messages of pairs :data:`WARM_UP_MESSAGES`.
    """
    sizes = ["-m", f"{1 << amount.sizes[0]}:{1 << amount.sizes[1]}"]
    row = find(plan.binary, plan.binary)
    repetitions = amount.repetitions
    warm_up = max(repetitions // 10, 2)
    if row.group != "collectives_osu" and 1 << amount.sizes[1] <= WARM_UP_BYTES:
        warm_up = max(warm_up, min(WARM_UP_MESSAGES // row.traffic(1, 2), 5 * repetitions))
    return [*([] if row.sizes == SIZELESS else sizes), "-i", str(repetitions), "-x", str(warm_up)]


_MAKERS = {"IMB-P2P": _p2p_args, "IMB-MT": _mt_args, "mpi4py.bench": _mpi4py_args}


def _sizes(row: Benchmark, plan: Plan, amount: Amount) -> tuple[int | None, ...]:
    """Sizes a row prints for the arguments made above; reductions are of floats, 4 bytes each."""
    if row.sizes == SIZELESS:
        return (None,)
    if row.sizes == ELEMENT:
        return (4,)
    first, largest = 1 << amount.sizes[0], 1 << amount.sizes[1]
    if plan.binary in _MAKERS or row.suite == "osu":
        zero = plan.binary == "IMB-P2P" and not amount.sizes[0]
        return tuple(size * plan.threads for size in doubling_sizes(first, largest, zero=zero))
    return doubling_sizes(first, largest, unit=4 if row.reduction else 1)


def _variants(row: Benchmark, plan: Plan, ranks: int) -> tuple[str, ...]:
    if sides := row.grid(ranks):
        return ("grid=" + "x".join(map(str, sides)),)
    return (f"threads={plan.threads}",) if plan.binary == "IMB-MT" else row.variants

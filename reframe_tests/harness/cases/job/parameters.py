"""Values of the tests' parameters on the selected system, and the combinations that can be measured
there.

Evaluated when the tests are loaded. A value that makes no sense on the system creates no instance
of a test, and is reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import reframe.core.runtime as rt
from reframe.core.logging import getlogger

from ...machine import placement
from ...machine.fabric import Fabric
from ...machine.gpu import Memory
from ...printable import few
from ...sites import site, systems
from ...sites.selected_tests import LeftOutPlace
from ...stacks import metadata
from ...stacks.stack import Stack
from ...suites import benchmark, catalogue, options
from ...vocabulary import PINNING_POLICIES, SITE_FILES, SYMBOLIC_PPN, BadInput, NotMeasured
from . import batch, transports
from .condition import Asked, Partition, check_asked, place_ranks


def measured_partitions() -> list[Any]:
    """Partitions of the selected system on which something is measured;
    others are those of a centre's own configuration.
    """
    return list(_measured(tuple(rt.runtime().system.partitions)))


@cache
def _measured(partitions: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(partition for partition in partitions if _fabrics_on(partition))


def _partition_extras() -> list[dict[str, Any]]:
    return [partition.extras for partition in measured_partitions()]


def knows_topology(partition: Any) -> bool:
    """Whether the topology of a partition's nodes is known: ReFrame detected
    it, or the description of its processor has it.
    """
    return bool(((partition.processor.info or {}).get("topology") or {}).get("cores"))


def require_topology(partition: Any) -> None:
    if not knows_topology(partition):
        raise BadInput(
            "unknown-name",
            f"the topology of partition {partition.fullname} is unknown: describe it as "
            f"'processor' in {SITE_FILES}, or let ReFrame detect it (general.remote_detect, or "
            "'reframe --detect-host-topology' on one of its nodes)",
        )


def fabrics_of_system() -> list[str]:
    return list(
        dict.fromkeys(name for extras in _partition_extras() for name in site.fabrics_of(extras))
    )


def node_counts_of_system() -> list[int]:
    counts: set[int] = set()
    for extras in _partition_extras():
        for fabric in site.fabrics_of(extras).values():
            counts.update((1,) if fabric.within_node else site.node_counts_of(extras))
    return sorted(counts)


#: Of a partition's node counts, in ascending order, those that a test is measured on.
ChooseCounts = Callable[[Sequence[int]], Sequence[int]]


def are_asked(nodes: Any) -> bool:
    """Whether node counts are given for a test (``-P nodes=``, a list in
    its class) and are not those of the partitions.

    :param nodes: the test's parameter; what it inherits is the
        partitions', whichever of them it keeps.
    """
    return nodes.owner != "FabricTest" and not nodes.filter_params(nodes.values)


def why_not_on(nodes: int, group: str, extras: Mapping[str, Any], choose: ChooseCounts) -> str:
    """Why a group is not measured on this many nodes of a partition by default; empty if it is."""
    listed = sorted(set(site.node_counts_of(extras)))
    few = benchmark.need_few_nodes(catalogue.rows(group))
    if nodes in (listed[:1] if few else choose(listed)):
        return ""
    if nodes not in listed:
        return (
            f"node_counts of this partition has {', '.join(map(str, listed))}, not {nodes}; for "
            f"that count give -P nodes={nodes}"
        )
    why = (
        "at most two ranks take part; other nodes would wait"
        if few
        else "one count shows what others would"
    )
    return (
        f"{why}: measured on {listed[0] if few else ', '.join(map(str, choose(listed)))}; "
        "for others give -P nodes="
    )


def policies_of_system() -> list[str]:
    return list(_policies(tuple(measured_partitions())))


@cache
def _policies(partitions: tuple[Any, ...]) -> tuple[str, ...]:
    known = {policy for partition in partitions for policy in site.policies_of(partition.extras)}
    return tuple(policy for policy in PINNING_POLICIES if policy in known)


def usual_policy_of_system(*wanted: str) -> list[str]:
    """The one pinning policy of tests that are not measured under all:
    the first wanted that means something there.
    """
    there = policies_of_system()
    return [policy for policy in (*wanted, "bunch", *there) if policy in there][:1]


@cache
def is_core(row: site.CoreRow, fabric: str, nodes: int, ppn: str) -> bool:
    """Whether a placement is one of those of a row of the core
    list, on a partition with the fabric.
    """
    for partition in measured_partitions():
        found = _fabrics_on(partition).get(fabric)
        if not found or (
            row.fewest
            and not found.within_node
            and nodes != min(site.node_counts_of(partition.extras))
        ):
            continue
        instead = {
            **({"1": "2"} if found.within_node else {}),
            **({"full": "gpu"} if found.memory.on_gpu else {}),
        }
        words = {instead.get(word, word) for word in row.ppn}
        if ppn in words or _ranks_on(partition, ppn) in {
            _ranks_on(partition, word) for word in words
        } - {None}:
            return True
    return False


@cache
def _ranks_on(partition: Any, symbol: str) -> int | None:
    """Processes per node; ``None`` if the topology is unknown, or has no such number."""
    try:
        return (
            placement.resolve_ppn(symbol, Partition.of(partition).topology)
            if knows_topology(partition)
            else None
        )
    except BadInput:
        return None


def suite_options(partition: Any, group: str, asked: Mapping[str, str]) -> dict[str, str]:
    """Options of the suites that a group is measured with on a partition:
    the site's, and over them those requested.

    :raises BadInput: for an option or a value that does not exist.
    :raises NotMeasured: if the group has no such option.
    """
    own = partition.extras.get("suite_options", {}).get(group, {})
    return options.of_group(catalogue.OPTIONS, group, {**own, **asked})


def ppn_of_system() -> list[str]:
    """Symbols of processes per node that are a number of their own on
    some partition of the selected system.

    Instances are what ``reframe -l`` takes its time for, so those of a symbol that is everywhere
    another one's number, or no number at all, are not made in the first place. A partition whose
    topology is not known yet keeps all.
    """
    useful: set[str] = set()
    reasons: dict[str, str] = {}
    for partition in measured_partitions():
        if not knows_topology(partition):
            return list(SYMBOLIC_PPN)
        try:
            topology = Partition.of(partition).topology
        except BadInput as error:  # a traceback of ReFrame otherwise
            getlogger().error(f"{partition.fullname}: {error}")
            raise SystemExit(1) from None
        first: dict[int, str] = {}
        for symbol in SYMBOLIC_PPN:
            try:
                number = placement.resolve_ppn(symbol, topology)
            except BadInput as error:
                reasons[symbol] = str(error)
                continue
            if first.setdefault(number, symbol) == symbol or (symbol == "gpu" and number > 1):
                useful.add(symbol)  # maps of a node's GPUs know no other symbol for them
            else:
                reasons[symbol] = f"the same as ppn={first[number]} ({number})"
    for symbol in SYMBOLIC_PPN:
        if symbol not in useful and symbol in reasons:
            getlogger().verbose(f"left out: ppn={symbol}: {reasons[symbol]}")
    return [symbol for symbol in SYMBOLIC_PPN if symbol in useful] or list(SYMBOLIC_PPN)


def warn_of_unmatched_stacks() -> None:
    """Say which stacks the selected system asks for in vain, and what it lacks.

    :raises SystemExit: nothing is measured on any of its partitions;
        ReFrame would go on without the tests, and pass.
    """
    root = [site.ROOT, *site.LOADED][-1]
    system = rt.runtime().system.name
    registered = [stack.name for stack in metadata.discover(root)[0]]
    # ReFrame's built-in system, for one, says nothing of stacks
    for partition in measured_partitions():
        if sentence := site.unmatched_stacks(partition.extras, registered):
            getlogger().warning(f"{partition.fullname}: {sentence}")
    lacking = [
        f"{shortcoming.place}: {shortcoming.sentence}"
        for shortcoming in systems.shortcomings(system, root)
    ]
    if not measured_partitions():
        none = (
            f"{system}: no partition has fabrics in its extras, so nothing is measured: "
            f"{systems.EXAMPLE}."
        )
        getlogger().error([*lacking, none][0])
        raise SystemExit(1)
    for sentence in lacking:
        getlogger().warning(sentence)


#: The same once, however many files of tests are loaded.
warn_once = cache(warn_of_unmatched_stacks)


@cache
def _fabrics_on(partition: Any) -> dict[str, Fabric]:
    return site.fabrics_of(partition.extras)


@cache
def _read_stack(file: str) -> Stack:
    return metadata.read(Path(file))


@cache
def _resolve(stack: str, partition: Any, fabric: str, group: str) -> transports.Setting | str:
    """How a stack uses a fabric of a partition, or why it cannot;
    empty where its case must say what is wrong.

    :param group: one whose programs communicate with something else than MPI; empty for all others.
    """
    library = catalogue.library_of(group) if group else None
    try:
        return transports.resolve_transport(
            _read_stack(stack), _fabrics_on(partition)[fabric], library
        )
    except NotMeasured as reason:
        return str(reason).removesuffix(".")
    except BadInput:
        return ""


def why_unusable(
    stack: str, partition: Any, fabric: str, group: str, ranks: int, nodes: int
) -> str:
    """Why a stack cannot measure a group on a fabric; empty if it can, or if its case must report
    the fault.

    :param ranks: -1 where they are unknown.
    """
    setting = _resolve(stack, partition, fabric, group if catalogue.library_of(group) else "")
    if isinstance(setting, str):
        return setting
    return _why_idle(
        stack,
        group,
        ranks,
        nodes,
        _fabrics_on(partition)[fabric].memory,
        tuple(setting.memory.without),
    )


@cache
def _why_idle(
    stack: str, group: str, ranks: int, nodes: int, memory: Memory, without: tuple[str, ...]
) -> str:
    try:
        catalogue.check_memory(group, memory, without)
        if ranks >= 0:
            catalogue.check_stack(group, _read_stack(stack), ranks, nodes, memory, without)
    except NotMeasured as reason:
        return f"stack {Path(stack).parent.name}: {reason}"
    return ""


@cache
def why_unbuilt(stack: str, group: str, memory: Memory) -> str:
    """Why a stack cannot run anything of a group; empty if it can, or if its case must report the
    fault.
    """
    try:
        return catalogue.why_unbuilt(group, _read_stack(stack), memory)
    except BadInput:
        return ""


class GroupPlaces(NamedTuple):
    """Where a group can be measured under a condition.

    :param partitions: full names of those with a stack that can.
    :param stacks: names of the stacks there, where only some that have the
        group's benchmarks can; otherwise ``None``.
    :param left_out: partitions (or a partition's stacks,
        ``PARTITION+STACK``) where it cannot be measured.
    """

    partitions: tuple[str, ...]
    stacks: tuple[str, ...] | None = None
    left_out: tuple[LeftOutPlace, ...] = ()

    def without(self, reasons: Mapping[str, str]) -> GroupPlaces:
        """Less the partitions that there is a reason to leave out; an empty one is none."""
        gone = {name: why for name, why in reasons.items() if why and name in self.partitions}
        kept = tuple(name for name in self.partitions if name not in gone)
        left_out = (*self.left_out, *(LeftOutPlace(name, why) for name, why in gone.items()))
        return self._replace(partitions=kept, left_out=left_out)


def places_without(reasons: Mapping[str, str]) -> GroupPlaces:
    return GroupPlaces(tuple(reasons)).without(reasons)


@cache
def places_of(
    partitions: tuple[Any, ...],
    group: str,
    fabric: str,
    nodes: int,
    ppn: str,
    pinning: str,
    orders: tuple[tuple[str, ...], tuple[str, ...]],
    choose: ChooseCounts | None = None,
) -> GroupPlaces:
    """Partitions with a fabric, and the stacks that may measure a group of the catalogue there.

    :param partitions: of the selected system.
    :param orders: values of ``ppn`` and of ``pinning``: of equal placements the first is measured.
    :param choose: of each partition's node counts those to measure on;
        ``None``: the number of nodes is requested.
    """
    there = [partition for partition in partitions if fabric in _fabrics_on(partition)]
    wanted = [
        {word.removeprefix("+") for word in words.split()}
        for words in catalogue.stack_selection(group)
    ]
    useful = []
    stacks = []
    unfit = []
    left_out = []
    for partition in there:
        try:
            count = batch.assume_nodes(nodes, group, partition.extras)
            between = nodes != 1 and not _fabrics_on(partition)[fabric].within_node
            if choose and between and (why := why_not_on(nodes, group, partition.extras, choose)):
                raise NotMeasured(why)
            ranks = ranks_of(partition, fabric, count, ppn, pinning, orders)
            if isinstance(ranks, str):
                raise NotMeasured(ranks)
            if ranks >= 0:
                catalogue.check_ranks(group, ranks, count)
            memory = _fabrics_on(partition)[fabric].memory
            catalogue.check_memory(group, memory)
            able = [
                environ
                for environ in partition.environs
                if any(words <= set(environ.features) for words in wanted)
            ]
            if not able:
                lacking = " or ".join(" and ".join(sorted(words)) for words in wanted)
                why = f"no stack of this partition has {lacking}"
                if others := _stacks_with(wanted):
                    why += f": extras.stacks admits none of those that have ({few(others)})"
                else:
                    why += " ('mpibench doctor' lists the suites that no stack has)"
                left_out.append(LeftOutPlace(partition.fullname, why, everywhere=True))
                continue
            files = {environ.name: environ.extras.get("stack", "") for environ in able}
            reasons = {
                name: why_unbuilt(file, group, memory)
                or why_unusable(file, partition, fabric, group, ranks, count)
                for name, file in files.items()
            }
            if all(reasons.values()):
                raise NotMeasured("; ".join(dict.fromkeys(reasons.values())))
            useful.append(partition.fullname)
            stacks += [name for name, reason in reasons.items() if not reason]
            unfit += [
                (f"{partition.fullname}+{name}", name, reason)
                for name, reason in reasons.items()
                if reason
            ]
        except NotMeasured as reason:
            left_out.append(LeftOutPlace(partition.fullname, str(reason)))
    # By name only where that says more: a stack may be usable on
    # one partition and skipped on another.
    left_out += [LeftOutPlace(place, why) for place, name, why in unfit if name not in stacks]
    return GroupPlaces(
        tuple(useful), tuple(dict.fromkeys(stacks)) if unfit else None, tuple(left_out)
    )


@cache
def _registered() -> list[Stack]:
    return metadata.discover([site.ROOT, *site.LOADED][-1])[0]


def _stacks_with(wanted: Iterable[Set[str]]) -> list[str]:
    """Registered stacks with the suites of any of some sets."""
    return [
        stack.name
        for stack in _registered()
        if any(words <= stack.suites.keys() for words in wanted)
    ]


@cache
def ranks_of(
    partition: Any,
    fabric: str,
    nodes: int,
    ppn: str,
    pinning: str,
    orders: tuple[tuple[str, ...], tuple[str, ...]],
) -> int | str:
    """Ranks of a job on a partition, or why there is none; -1
    where the topology is not known yet.
    """
    asked = Asked(_fabrics_on(partition)[fabric], nodes, ppn, pinning, orders)
    try:
        if not knows_topology(partition):
            check_asked(asked, partition.extras)
            return -1
        return nodes * place_ranks(asked, Partition.of(partition)).ppn
    except NotMeasured as reason:
        return str(reason)

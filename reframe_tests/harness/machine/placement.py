"""Where the ranks of a node run: processes per node and pinning policies, resolved on a topology to
CPUs per rank.

The policies are implemented here, so that every stack gets the same CPUs; the names are the
field's:

- ``bunch``: as few sockets as possible, neighbours on neighbouring cores ("aggregating the
  processes on as few sockets as possible", Cambridge white paper on Westmere and QDR InfiniBand,
  section 3.2; MVAPICH2 user guide, MV2_CPU_BINDING_POLICY= bunch). Intel MPI's ``map=bunch`` means
  something else: #processes / #sockets per socket (Developer Reference, I_MPI_PIN_PROCESSOR_LIST).
- ``scatter``: equally over the sockets ("spreading the processes equally between sockets", same
  section; MVAPICH2 MV2_CPU_BINDING_POLICY=scatter, Intel MPI I_MPI_PIN_ORDER=scatter: neighbouring
  ranks share as little as possible).
- ``nic_local``: the NUMA node of the network adapter, then the nearest. With several rails
  ranks are dealt over them in turn, each local to its own: one rank per NUMA-local adapter, as in
  Intel's dual-rail Omni-Path article (2020).
- ``nic_remote``: the farthest cores first, to show what a wrong placement costs.
- ``gpu_local``: rank ``r`` has GPU ``r`` of its node, and a core of that GPU's NUMA node, then the
nearest (NVIDIA's "GPU affinity" of ``nvidia-smi topo -m``; ``--gpu-bind=closest`` of
  srun(1)). ``gpu_remote``: the core farthest from its GPU.
- ``default``: whatever the stack does by itself. ``none``: the
  ranks may run anywhere. Neither names a CPU.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from ..vocabulary import PINNING_POLICIES, SITE_FILES, SYMBOLIC_PPN, BadInput, NotMeasured
from .topology import ProcessingUnit, Topology

#: Policies that leave the choice to the stack or the kernel; two of them
#: are only the same if they are the same policy.
UNLISTED = ("default", "none")
#: Policies that place each rank by its GPU.
GPU_POLICIES = ("gpu_local", "gpu_remote")


@dataclass(frozen=True)
class RankPlacement:
    """Where the ranks of every node go.

    :param policy: one of :data:`vocabulary.PINNING_POLICIES`.
    :param ppn: processes per node.
    :param ranks: CPUs per rank of a node, in rank order; ``None`` for ``default`` and ``none``.
    :param topology: what it was resolved on; launchers that count CPUs their own way need it.
    """

    policy: str
    ppn: int
    ranks: tuple[tuple[int, ...], ...] | None = None
    topology: Topology | None = field(default=None, repr=False, compare=False)


#: A core: its hardware threads, of which a rank gets the first.
_Core = tuple[ProcessingUnit, ...]


def resolve_ppn(symbol: str | int, topology: Topology) -> int:
    """Processes per node as a number: ``numa``, ``socket`` and ``gpu`` are one per NUMA node, per
    socket with CPUs and per GPU, ``half`` is half the cores (rounded down, at least one), ``full``
    all of them. Hardware threads do not count.

    :raises BadInput: for another word, a number below 1, more ranks than cores, ``numa`` where NUMA
        nodes are unknown, or ``gpu`` if there is none.
    """
    cores = len(topology.cores)
    known = {
        "1": 1,
        "2": 2,
        "numa": len(topology.numa_nodes),
        "socket": len(topology.sockets),
        "gpu": len(topology.gpu_numa),
        "half": max(1, cores // 2),
        "full": cores,
    }
    text = str(symbol).strip()
    if text in known:
        number = known[text]
    elif text.isdecimal():
        number = int(text)
    else:
        raise BadInput(
            "bad-option", f"ppn={text} is neither a number nor one of {', '.join(SYMBOLIC_PPN)}."
        )
    if text == "numa" and not number:
        raise BadInput(
            "bad-option", "ppn=numa needs NUMA nodes, but the partition's topology names none."
        )
    if text == "gpu" and not number:
        raise BadInput("bad-option", "ppn=gpu needs GPUs, but the partition describes none.")
    if number < 1:
        raise BadInput("bad-option", f"ppn={text} starts no process: give at least 1.")
    if number > cores:
        raise BadInput(
            "bad-option",
            f"ppn={text} is {number} processes, but the partition has {cores} "
            f"core{'s' * (cores != 1)}.",
        )
    return number


def place(
    policy: str, ppn: int, topology: Topology, nic_numa: int | Sequence[int] | None = None
) -> RankPlacement:
    """CPUs of each rank of a node.

    A rank gets the first hardware thread of a core of its own.

    - ``bunch`` fills the cores of a NUMA node in order (those that share a cache side by side),
      then the next of the same socket, then the next socket. Sockets and NUMA nodes go by number.
    - ``scatter`` deals the ranks over the sockets in turn, those of a socket over its NUMA nodes,
      those of a NUMA node over its caches; within a cache, ``k`` ranks on ``m`` cores get every
      ``m/k``-th one.
    - ``nic_local`` orders NUMA nodes by distance from the adapter (same, same socket, other socket;
      then by number) and fills them in order. With several rails rank ``r`` belongs to rail ``r``
      modulo the number of rails.
    - ``nic_remote`` fills NUMA nodes by distance from the nearest rail, the farthest first.
    - ``gpu_local`` and ``gpu_remote`` give rank ``r`` the free core
      nearest to, and farthest from, GPU ``r``.

    :param ppn: from :func:`resolve_ppn`.
    :param nic_numa: NUMA node of each rail of the fabric, in rail order.
    :raises BadInput: for an unknown policy or a rail on a NUMA node that the machine does not have.
    :raises NotMeasured: for a policy that means nothing on this topology, with the reason.
    """
    if policy not in PINNING_POLICIES:
        raise BadInput(
            "unknown-name", f"pinning={policy} is not one of {', '.join(PINNING_POLICIES)}."
        )
    if policy in UNLISTED:
        return RankPlacement(policy, ppn, None, topology)
    cores = topology.cores
    if ppn > len(cores):
        raise NotMeasured(
            f"{ppn} ranks with a core each are requested, but the partition has room for "
            f"{len(cores)}"
        )
    if policy == "bunch":
        chosen: Sequence[_Core] = cores[:ppn]
    elif policy == "scatter":
        dealt = _deal(list(range(ppn)), cores, _LEVELS)
        chosen = [dealt[rank] for rank in range(ppn)]
    elif policy in GPU_POLICIES:
        chosen = _order_by_gpu(policy, ppn, cores, topology)
    else:
        chosen = _order_by_nic(policy, ppn, cores, topology, nic_numa)
    return RankPlacement(policy, ppn, tuple((core[0].cpu,) for core in chosen), topology)


def equivalent(first: RankPlacement, second: RankPlacement) -> bool:
    """True if running both would measure the same: the same CPUs rank
    by rank, or the same policy without CPUs.
    """
    if first.ranks is None or second.ranks is None:
        return (first.policy, first.ppn, first.ranks) == (second.policy, second.ppn, second.ranks)
    return first.ranks == second.ranks


def first_equal(
    wanted: tuple[str, str],
    combinations: Iterable[tuple[str, str]],
    topology: Topology,
    nic_numa: int | Sequence[int] | None = None,
) -> tuple[str, str]:
    """The first of these (ppn, policy) combinations that places the ranks as ``wanted`` does;
    ``wanted`` itself if none does.

    A case whose first equal is another one is skipped, so that nothing is run twice. Combinations
    that cannot be resolved or placed here are passed over.

    :raises BadInput: if ``wanted`` itself cannot be resolved.
    """

    def resolve(symbol: str, policy: str) -> RankPlacement:
        return place(policy, resolve_ppn(symbol, topology), topology, nic_numa)

    try:
        mine = resolve(*wanted)
    except NotMeasured:
        return wanted
    for combination in combinations:
        with contextlib.suppress(BadInput, NotMeasured):
            if equivalent(mine, resolve(*combination)):
                return combination
    return wanted


#: What ``scatter`` deals over, outermost first.
_LEVELS: tuple[Callable[[ProcessingUnit], int | None], ...] = (
    lambda unit: unit.socket,
    lambda unit: unit.numa,
    lambda unit: unit.cache,
)


def _deal(
    ranks: Sequence[int],
    cores: Sequence[_Core],
    levels: Sequence[Callable[[ProcessingUnit], int | None]],
) -> dict[int, _Core]:
    """Rank to core, round-robin over the groups of the outermost
    level; a full group is passed over.
    """
    if not levels:
        return {rank: cores[index * len(cores) // len(ranks)] for index, rank in enumerate(ranks)}
    groups: dict[int | None, list[_Core]] = {}
    for core in cores:
        groups.setdefault(levels[0](core[0]), []).append(core)
    shares: dict[int | None, list[int]] = {key: [] for key in groups}
    waiting = list(ranks)
    while waiting:
        for key, members in groups.items():
            if waiting and len(shares[key]) < len(members):
                shares[key].append(waiting.pop(0))
    dealt: dict[int, _Core] = {}
    for key, share in shares.items():
        if share:
            dealt.update(_deal(share, groups[key], levels[1:]))
    return dealt


def _order_by_nic(
    policy: str,
    ppn: int,
    cores: Sequence[_Core],
    topology: Topology,
    nic_numa: int | Sequence[int] | None,
) -> list[_Core]:
    """Cores of the ranks under ``nic_local`` and ``nic_remote``."""
    rails = (nic_numa,) if isinstance(nic_numa, int) else tuple(nic_numa or ())
    if not rails:
        raise NotMeasured(f"{policy} needs the NUMA node of the adapter, but the fabric names none")
    if not topology.numa_nodes:
        raise NotMeasured(f"{policy} needs NUMA nodes, but the partition's topology names none")
    for rail in rails:
        if rail not in topology.numa_ids:
            known = ", ".join(map(str, topology.numa_ids))
            raise BadInput(
                "system-description",
                f"a rail of the fabric is on NUMA node {rail}, but the partition has {known}: "
                f"correct {SITE_FILES}.",
            )
    if len(topology.numa_nodes) == 1:
        raise NotMeasured(
            f"{policy} does not apply to one NUMA node: every core is local to the adapter"
        )
    distances = {rail: _distances(rail, topology) for rail in rails}
    if policy == "nic_remote":
        if set(topology.numa_nodes) <= set(rails):
            raise NotMeasured("nic_remote does not apply where every NUMA node has its own rail")
        nearest = {
            numa: min(distances[rail][numa] for rail in rails) for numa in topology.numa_nodes
        }
        return sorted(cores, key=lambda core: nearest[_numa(core)], reverse=True)[:ppn]
    missing = sorted(set(rails) - set(topology.numa_nodes))
    if missing:
        raise NotMeasured(
            f"nic_local needs a core on NUMA node {missing[0]}, next to the adapter, but none is "
            "usable there"
        )
    taken: set[int] = set()
    queues = {
        rail: iter(
            sorted(range(len(cores)), key=lambda index: distances[rail][_numa(cores[index])])
        )
        for rail in distances
    }
    chosen = []
    for rank in range(ppn):
        index = next(index for index in queues[rails[rank % len(rails)]] if index not in taken)
        taken.add(index)
        chosen.append(cores[index])
    return chosen


def _order_by_gpu(policy: str, ppn: int, cores: Sequence[_Core], topology: Topology) -> list[_Core]:
    """Cores of the ranks under ``gpu_local`` and ``gpu_remote``."""
    homes = topology.gpu_numa[:ppn]
    if len(homes) < ppn:
        raise NotMeasured(
            f"{policy} gives each rank a GPU, but the partition has {len(homes)} for {ppn} ranks "
            "per node"
        )
    known = [home for home in homes if home is not None]
    if len(known) < len(homes):
        raise NotMeasured(
            f"{policy} needs the NUMA node of each GPU, but the partition does not name all"
        )
    if len(topology.numa_nodes) < 2:
        raise NotMeasured(f"{policy} does not apply to one NUMA node, or to a topology without any")
    for home in known:
        if home not in topology.numa_ids:
            there = ", ".join(map(str, topology.numa_ids))
            raise BadInput(
                "system-description",
                f"a GPU is on NUMA node {home}, but the partition has {there}: correct 'gpus' in "
                f"{SITE_FILES}.",
            )
    chosen: list[_Core] = []
    for gpu, home in enumerate(known):
        away = _distances(home, topology)
        near = topology.gpu_cpus[gpu : gpu + 1]
        order = sorted(
            (core for core in cores if core not in chosen),
            key=lambda core: (not any(core[0].cpu in cpus for cpus in near), away[_numa(core)]),
            reverse=policy == "gpu_remote",
        )
        chosen.append(order[0])
    return chosen


def _numa(core: _Core) -> int:
    numa = core[0].numa
    assert numa is not None  # _order_by_nic has left before where the topology names none
    return numa


def _distances(rail: int, topology: Topology) -> dict[int, tuple[int, int, int]]:
    """How far each NUMA node is from a rail: the same, same socket, other
    socket; then by difference of the numbers.
    """
    sockets: dict[int | None, set[int]] = {}
    for unit in topology.units:
        sockets.setdefault(unit.numa, set()).add(unit.socket)
    near = sockets.get(rail, set())
    return {
        numa: (0 if numa == rail else 1 if sockets[numa] & near else 2, abs(numa - rail), numa)
        for numa in topology.numa_nodes
    }

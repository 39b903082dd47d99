"""The processors of one node: which CPU is on which core, NUMA node and socket, whatever the
numbering.

CPU numbers are the operating system's everywhere. How they map to cores differs between servers
with the same processors: the Cambridge white paper on Westmere and QDR InfiniBand (2011), section
3.3, shows a server with the even CPUs on socket 1 and names others with CPUs 0-5 on socket 0. So
nothing here is derived from a number; it is read or described.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from ..vocabulary import BadInput

#: Numbering schemes of :func:`describe`. ``alternating``: neighbouring CPUs are on different
#: sockets (section 3.3 of the Cambridge paper); ``consecutive``: all of socket 0, then all of
#: socket 1; ``smt_last``: likewise, second hardware threads after all first ones (siblings 0 and 64
#: on 64 cores); ``smt_adjacent``: hardware threads of a core side by side (0 and 1).
NUMBERINGS = ("consecutive", "alternating", "smt_last", "smt_adjacent")


@dataclass(frozen=True)
class ProcessingUnit:
    """One CPU as the operating system counts them: a core, or one hardware thread of it.

    :param cpu: number of the operating system.
    :param core: core it belongs to, counted from 0 over the node.
    :param socket: socket, as numbered by the source.
    :param numa: NUMA node; ``None`` if the source does not say.
    :param cache: last level cache it shares, counted from 0;
        ``None`` if the source does not say.
    """

    cpu: int
    core: int
    socket: int
    numa: int | None = None
    cache: int | None = None


@dataclass(frozen=True)
class Topology:
    """The CPUs of one node.

    :param units: CPUs in the operating system's order.
    :param numa_ids: NUMA nodes of the machine, also those without a CPU
        (memory only, or all CPUs excluded).
    :param online: CPUs the machine has online, before :meth:`usable` took some away.
    :param counted: CPUs that hwloc counts: also those that only affinity forbids.
    :param gpu_numa: NUMA node of each GPU, in the site's order; ``None`` if it does not say.
    :param gpu_cpus: CPUs nearest to each GPU, as far as the site says more than its NUMA node.
    """

    units: tuple[ProcessingUnit, ...]
    numa_ids: tuple[int, ...] = ()
    online: int = 0
    counted: tuple[ProcessingUnit, ...] = ()
    gpu_numa: tuple[int | None, ...] = ()
    gpu_cpus: tuple[frozenset[int], ...] = ()

    @classmethod
    def from_processor(cls, info: Any) -> Topology:
        """From ReFrame's processor information (``partition.processor`` or its dictionary).

        The position of a mask in ``topology.numa_nodes`` counts as the NUMA node's number.
        ReFrame's detection sorts these masks as text, so a machine whose node 0 has the higher CPU
        numbers, or with gaps in its node numbers, must be described by the site in the kernel's
        order for ``nic_*`` to mean the right node. Masks without a CPU (memory only) keep their
        position. ``num_cpus`` may exceed the CPUs in the masks: detection counts offline ones.

        :raises BadInput: without ``topology.cores``, or where masks
            contradict each other or the counts.
        """
        row: Mapping[str, Any] = (
            info if isinstance(info, Mapping) else getattr(info, "info", None) or {}
        )
        topology = row.get("topology") or {}
        if not topology.get("cores"):
            raise BadInput(
                "file-damaged",
                "the processor description has no topology.cores: use topology.describe() in "
                "system.py, or what 'reframe --detect-host-topology' prints in a job of the "
                "partition.",
            )
        cores = _disjoint("cores", topology["cores"])
        cpus = set(cores)
        sockets = _disjoint(
            "sockets", topology.get("sockets") or [hex(sum(1 << cpu for cpu in cpus))]
        )
        numa_masks = topology.get("numa_nodes") or ()
        numa = _disjoint("numa_nodes", numa_masks)
        for key, positions in (("sockets", sockets), ("numa_nodes", numa)):
            if numa_masks or key == "sockets":
                _check_same_cpus(key, cpus, positions)
        for key, present in (("num_cpus", len(cpus)), ("num_sockets", len(set(sockets.values())))):
            described = row.get(key)
            if described and (
                described < present or (key == "num_sockets" and described != present)
            ):
                raise BadInput(
                    "file-damaged",
                    f"the processor description says {key}={described} but its masks show "
                    f"{present}: correct one of them.",
                )
        caches = _last_level_caches(topology.get("caches") or ())
        return cls._build(
            [
                ProcessingUnit(cpu, cores[cpu], sockets[cpu], numa.get(cpu), caches.get(cpu))
                for cpu in cpus
            ],
            range(len(numa_masks)),
        )

    @classmethod
    def _build(cls, units: Iterable[ProcessingUnit], numa_ids: Iterable[int]) -> Topology:
        ordered = tuple(sorted(units, key=lambda unit: unit.cpu))
        if not ordered:
            raise BadInput(
                "file-damaged",
                "the processor description has no CPU in topology.cores: give the masks of the "
                "cores.",
            )
        for noun, part in (("sockets", "socket"), ("NUMA nodes", "numa")):
            seen: dict[int, set[int | None]] = {}
            for unit in ordered:
                seen.setdefault(unit.core, set()).add(getattr(unit, part))
            for core, places in seen.items():
                if len(places) > 1:
                    cpus = ",".join(str(unit.cpu) for unit in ordered if unit.core == core)
                    raise BadInput(
                        "file-damaged",
                        f"the processor description puts the core of CPUs {cpus} on two {noun}: "
                        "correct the description.",
                    )
        return cls(ordered, tuple(numa_ids), len(ordered), ordered)

    def usable(self, cpus: Iterable[int], cpuset: Iterable[int] | None = None) -> Topology:
        """The part of this topology on these CPUs (a job's share of a node,
        a node without Slurm's ``CpuSpecList``).

        CPUs it does not have are ignored: a cpuset may name offline ones.

        :param cpuset: CPUs of the control group, where the launcher may use fewer of them; by
            default the same. hwloc leaves out what is outside the control group, and counts what
            mere affinity (taskset, task/affinity) forbids.
        :raises BadInput: if nothing is left.
        """
        allowed = set(cpus)
        units = tuple(unit for unit in self.units if unit.cpu in allowed)
        if not units:
            mine = f"{self.units[0].cpu} to {self.units[-1].cpu}"
            raise BadInput(
                "system-description",
                f"none of the allowed CPUs {sorted(allowed)} is on this node, which has {mine}: "
                "correct one of them.",
            )
        seen = allowed if cpuset is None else allowed | set(cpuset)
        return replace(
            self, units=units, counted=tuple(unit for unit in self.counted if unit.cpu in seen)
        )

    @property
    def cpus(self) -> tuple[int, ...]:
        """Numbers of all CPUs, ascending."""
        return tuple(unit.cpu for unit in self.units)

    @property
    def sockets(self) -> tuple[int, ...]:
        """Numbers of the sockets with CPUs, ascending."""
        return tuple(sorted({unit.socket for unit in self.units}))

    @property
    def numa_nodes(self) -> tuple[int, ...]:
        """Numbers of the NUMA nodes with CPUs, ascending; empty where the source does not say."""
        return tuple(sorted({unit.numa for unit in self.units if unit.numa is not None}))

    @cached_property
    def cores(self) -> tuple[tuple[ProcessingUnit, ...], ...]:
        """Cores, each with its CPUs: by socket, NUMA node and cache, so
        that neighbours share what can be shared.
        """
        members: dict[int, list[ProcessingUnit]] = {}
        for unit in self.units:
            members.setdefault(unit.core, []).append(unit)
        first: dict[int | None, int] = {}
        for unit in self.units:
            first.setdefault(unit.cache, unit.cpu)

        def place(core: list[ProcessingUnit]) -> tuple[int, int, int, int]:
            head = core[0]
            return head.socket, -1 if head.numa is None else head.numa, first[head.cache], head.cpu

        return tuple(tuple(core) for core in sorted(members.values(), key=place))

    @cached_property
    def _core_of(self) -> dict[int, int]:
        return {unit.cpu: unit.core for unit in self.units}

    def core_of(self, cpu: int) -> int:
        """Core of a CPU; CPUs with the same core are hardware threads of it.
        A CPU not in the topology is its own core.
        """
        return self._core_of.get(cpu, -1 - cpu)

    @cached_property
    def logical(self) -> dict[int, int]:
        """CPU number to the logical index hwloc gives the same CPU,
        for launchers that know no other.

        hwloc sorts the objects of each level by the lowest CPU in them and counts depth first
        (hwloc manual, "Logical and Physical/OS indexes"). Levels: socket, NUMA node, last level
        cache, core, the largest outermost. Right for CPUs hwloc sees, so for a job's cpuset take
        the topology of :meth:`usable`.
        """
        levels: list[Callable[[ProcessingUnit], Hashable]] = [
            lambda unit: unit.socket,
            lambda unit: unit.numa,
            lambda unit: unit.cache,
            lambda unit: unit.core,
        ]
        lowest: list[tuple[int, Callable[[ProcessingUnit], Hashable], dict[Hashable, int]]] = []
        for level in levels:
            first: dict[Hashable, int] = {}
            for unit in self.counted:
                first.setdefault(level(unit), unit.cpu)
            lowest.append((len(first), level, first))
        lowest.sort(key=lambda row: row[0])
        order = sorted(
            self.counted,
            key=lambda unit: ([first[level(unit)] for _, level, first in lowest], unit.cpu),
        )
        return {unit.cpu: index for index, unit in enumerate(order)}

    def of_this_process(self) -> Topology:
        """The part this process and what it starts may use: its affinity,
        and its control group for what hwloc counts.

        ReFrame detects from ``/sys``, which shows a container all CPUs of its host.

        :raises BadInput: if the topology is of another machine.
        """
        affinity = os.sched_getaffinity(0)
        widened = set(affinity)

        def widen() -> None:
            # The kernel cuts a request for everything down to the control
            # group's CPUs; it holds for this thread only.
            with contextlib.suppress(OSError):
                os.sched_setaffinity(0, self.cpus)
                widened.update(os.sched_getaffinity(0))

        thread = threading.Thread(target=widen)
        thread.start()
        thread.join()
        return self.usable(affinity, widened)


def describe(
    sockets: int,
    cores_per_socket: int,
    *,
    numa_per_socket: int = 1,
    caches_per_socket: int = 1,
    smt: int = 1,
    numbering: str = "consecutive",
    **labels: str,
) -> dict[str, Any]:
    """The ``processor`` entry of a partition in ``system.py``, from what a data sheet says.

    :param numa_per_socket: NUMA nodes per socket (4 for AMD's NPS4, 2 for Intel's SNC2).
    :param caches_per_socket: last level caches per socket (8 for an EPYC with 8 core complexes).
    :param smt: hardware threads per core that are switched on.
    :param numbering: one of :data:`NUMBERINGS`.
    :param labels: ``arch``, ``vendor``, ``model`` or ``platform``, passed on to ReFrame.
    :raises BadInput: for counts below 1 or that do not divide, or a
        numbering that leaves the hardware threads open.
    """
    # Written by hand in system.py, so what the annotations say is checked.
    counts: dict[str, Any] = {"sockets": sockets, "cores_per_socket": cores_per_socket, "smt": smt}
    for name, value in {
        **counts,
        "numa_per_socket": numa_per_socket,
        "caches_per_socket": caches_per_socket,
    }.items():
        if not isinstance(value, int) or value < 1:
            raise BadInput(
                "system-description",
                f"describe(): {name}={value!r} must be a whole number of at least 1.",
            )
        if name not in counts and cores_per_socket % value:
            raise BadInput(
                "system-description",
                f"describe(): {name}={value} does not divide {cores_per_socket} cores per socket.",
            )
    if numbering not in NUMBERINGS:
        raise BadInput(
            "system-description",
            f"describe(): numbering={numbering!r} is not one of {', '.join(NUMBERINGS)}.",
        )
    if numbering == "consecutive" and smt > 1:
        raise BadInput(
            "system-description",
            f"describe(): with smt={smt} say numbering='smt_last' or 'smt_adjacent' (lscpu -e "
            "shows which).",
        )
    total = sockets * cores_per_socket

    def cpus(socket: int, core: int) -> tuple[int, ...]:
        index = (
            core * sockets + socket
            if numbering == "alternating"
            else socket * cores_per_socket + core
        )
        return tuple(
            index * smt + thread if numbering == "smt_adjacent" else thread * total + index
            for thread in range(smt)
        )

    def masks(number: int) -> list[str]:
        size = cores_per_socket // number
        spans = [(socket, part * size) for socket in range(sockets) for part in range(number)]
        return [
            _mask(cpu for core in range(first, first + size) for cpu in cpus(socket, core))
            for socket, first in spans
        ]

    per_cache = cores_per_socket // caches_per_socket * smt
    return {
        **labels,
        "num_cpus": total * smt,
        "num_cpus_per_core": smt,
        "num_cpus_per_socket": cores_per_socket * smt,
        "num_sockets": sockets,
        "topology": {
            "numa_nodes": masks(numa_per_socket),
            "sockets": masks(1),
            "cores": masks(cores_per_socket),
            "caches": [{"type": "L3", "num_cpus": per_cache, "cpusets": masks(caches_per_socket)}],
        },
    }


def _mask(cpus: Iterable[int]) -> str:
    return hex(sum(1 << cpu for cpu in cpus))


def _bits(key: str, mask: Any) -> list[int]:
    try:
        value = int(str(mask), 16)
    except ValueError:
        value = -1
    if value < 0:
        raise BadInput(
            "file-damaged",
            f"topology.{key} of the processor description: {mask!r} is not a hexadecimal CPU "
            "mask such as 0xff.",
        )
    return [cpu for cpu in range(value.bit_length()) if value >> cpu & 1]


def _disjoint(key: str, masks: Sequence[Any]) -> dict[int, int]:
    """CPU to the position of its mask in the list."""
    positions: dict[int, int] = {}
    for index, mask in enumerate(masks):
        for cpu in _bits(key, mask):
            if cpu in positions:
                raise BadInput(
                    "file-damaged",
                    f"topology.{key} of the processor description: CPU {cpu} is in two masks; "
                    "correct one.",
                )
            positions[cpu] = index
    return positions


def _check_same_cpus(key: str, cpus: set[int], positions: Mapping[int, int]) -> None:
    odd = sorted(cpus ^ set(positions))
    if odd:
        where = (
            f"topology.cores but not in topology.{key}"
            if odd[0] in cpus
            else f"topology.{key} but not in topology.cores"
        )
        raise BadInput(
            "file-damaged",
            f"the processor description has CPU {odd[0]} in {where}: correct one of them.",
        )


def _last_level_caches(caches: Iterable[Mapping[str, Any]]) -> dict[int, int]:
    """CPU to its L3 cache; only a hint for neighbourhood, so a
    list that overlaps counts as none.
    """
    masks = [
        mask for cache in caches if cache.get("type") == "L3" for mask in cache.get("cpusets") or ()
    ]
    try:
        return _disjoint("caches", masks)
    except BadInput:
        return {}

"""A condition: stack x fabric x nodes x ppn x pinning, resolved on one partition and translated for
one launcher.

Resolution is pure: from metadata, the site's description and the topology to environment variables
and launcher options. What cannot be measured raises its reason (:class:`NotMeasured`) and becomes a
skipped case.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

from ...evidence import recorder
from ...evidence.checks import format_cpus
from ...evidence.rank_records import parse_cpus
from ...launchers import registry as launchers
from ...launchers.model import Binding, Bootstrap, Exports, Launcher
from ...machine import placement
from ...machine.fabric import Fabric
from ...machine.gpu import KINDS
from ...machine.topology import Topology
from ...mpis import registry as mpis
from ...mpis.transport import Library
from ...printable import open_environment, plural
from ...sites import site, systems, tuned_settings
from ...stacks.stack import Stack
from ...vocabulary import SITE_FILES, BadInput, NotMeasured
from . import transports
from .script import DEBUG_FILE, quote


@dataclass(frozen=True)
class Asked:
    """What a test's parameters ask for.

    :param library: what moves the data instead of MPI.
    """

    fabric: Fabric
    nodes: int
    ppn: str
    pinning: str
    orders: tuple[Sequence[str], Sequence[str]] = ((), ())
    library: Library | None = None


@dataclass(frozen=True)
class Partition:
    """Where it is requested.

    :param here: jobs run on this machine, inside what this process may use.
    """

    processor: Mapping[str, Any]
    extras: Mapping[str, Any]
    launcher: str = "local"
    scheduler: str = "local"
    here: bool = False

    @classmethod
    def of(cls, partition: Any) -> Partition:
        scheduler = partition.scheduler.registered_name
        extras = partition.extras
        here = scheduler == "local" and not extras.get("remote", False)
        return cls(
            partition.processor.info,
            extras,
            partition.launcher_type.registered_name,
            scheduler,
            here,
        )

    @property
    def oversubscribes(self) -> bool:
        return bool(self.extras.get("oversubscribe", False))

    @property
    def topology(self) -> Topology:
        """What jobs may use of the nodes.

        ReFrame reads /sys, which shows a container all CPUs of its host; only those of this process
        may be named. Of a core with a reserved CPU nothing is used (Slurm reserves whole cores;
        slurm.conf(5), CpuSpecList).

        :raises BadInput: no core is left.
        """
        topology = Topology.from_processor(self.processor)
        gpus = systems.gpus_of(self.extras)
        near = tuple(parse_cpus(gpu.cpus) for gpu in gpus)
        if unknown := frozenset().union(*near) - {unit.cpu for unit in topology.units}:
            raise BadInput(
                "system-description",
                f"no node has CPUs {format_cpus(unknown)}: correct cpus of 'gpus' in {SITE_FILES}.",
            )
        topology = replace(topology, gpu_numa=tuple(gpu.numa_node for gpu in gpus), gpu_cpus=near)
        if reserved := parse_cpus(self.extras.get("reserved_cpus", "")):
            cores = {topology.core_of(cpu) for cpu in reserved}
            left = {unit.cpu for unit in topology.units if unit.core not in cores}
            if not left:
                raise BadInput(
                    "nothing-measured",
                    f"reserved_cpus={self.extras['reserved_cpus']} leaves no core: correct "
                    f"{SITE_FILES}.",
                )
            topology = topology.usable(left, left)
        return topology.of_this_process() if self.here else topology


@dataclass(frozen=True)
class Condition:
    """A resolved condition.

    :param ppn: processes per node as a number; ``ppn_symbol`` is what was requested.
    :param placement: core list per rank of a node, or none for the
        policies ``default`` and ``none``.
    :param pmi: process management interface the launcher is given
        (``srun --mpi``); empty if it needs none.
    :param bootstrap: how the stack's own launcher reaches the other nodes.
    :param chosen: variables the user sets; they win over everything,
        and the evidence says what came of it.
    :param oversubscribed: of :func:`oversubscription`.
    :param tuned: which tuned settings ``chosen`` holds
        (``tuned_settings.TunedSettings.id``); empty: none.
    :param may_share: ranks of a node may share cores: the site lets launchers
        start more of them, and nothing is pinned.
    """

    stack: Stack
    fabric: Fabric
    nodes: int
    ppn: int
    ppn_symbol: str
    pinning: str
    partition: Partition
    topology: Topology
    placement: placement.RankPlacement
    setting: transports.Setting
    binding: Binding
    launcher: Launcher
    pmi: str = ""
    bootstrap: Bootstrap = field(default_factory=Bootstrap)
    recommended: Mapping[str, str] = field(default_factory=dict)
    chosen: Mapping[str, str] = field(default_factory=dict)
    oversubscribed: str = ""
    may_share: bool = False
    tuned: str = ""

    def __post_init__(self) -> None:
        """Most MPIs do not show the class of their packets, only that the variable was there.

        :raises BadInput: the user, or tuned settings, set another one than the fabric's.
        """
        classes = self.setting.row.classes
        for name in (name for word in self.fabric.classes for name in classes[word].env):
            if (other := self.chosen.get(name)) not in (None, self.setting.env[name]):
                raise BadInput(
                    "options-exclude",
                    f"{name}={other} is not the {self.fabric.quality_of_service} of fabric "
                    f"{self.fabric.name}: leave it out, or describe a fabric with that class.",
                )

    @property
    def ranks(self) -> int:
        return self.nodes * self.ppn

    @property
    def forced(self) -> bool:
        """Whether the MPI is made to use the fabric; else what it took is found afterwards."""
        return mpis.transport(self.fabric.transport).forced

    @property
    def core_list(self) -> tuple[tuple[int, ...], ...] | None:
        """CPUs (numbers of the operating system) per rank of a node;
        ``None`` if the policy names none.
        """
        return self.placement.ranks

    @property
    def rank_numa(self) -> tuple[int | None, ...]:
        """NUMA node of each rank of a node; ``None`` if the policy names
        no core, or a rank has cores of several.
        """
        if self.core_list is None:
            return (None,) * self.ppn
        of_cpu = {unit.cpu: unit.numa for unit in self.topology.units}
        homes = [{of_cpu.get(cpu) for cpu in cpus} for cpus in self.core_list]
        return tuple(next(iter(home)) if len(home) == 1 else None for home in homes)

    def core_of(self, cpu: int) -> int:
        """Core of a CPU, so that two SMT siblings count as one core."""
        return self.topology.core_of(cpu)

    @property
    def job_env(self) -> dict[str, str]:
        order = KINDS[self.fabric.memory.kind].env if self.fabric.memory.on_gpu else {}
        everything = {
            **self.recommended,
            **self.setting.env,
            **self.binding.env,
            **self.bootstrap.env,
            **order,
            **self.chosen,
        }
        return {name: value for name, value in everything.items() if name not in self.debug_env}

    @property
    def assignments(self) -> dict[str, str]:
        """:attr:`job_env` as shell words. Nothing in them is expanded,
        except a file of the job that bootstrap names.
        """
        own = self.bootstrap.env
        return {
            name: quote(value, of_job=own.get(name) == value)
            for name, value in self.job_env.items()
        }

    @property
    def asked_env(self) -> dict[str, str]:
        """Variables every rank must have been given."""
        # How to reach other nodes concerns the launcher alone.
        apart = (set(self.bootstrap.env) - set(self.chosen)) | set(self.launcher_env)
        apart |= self.stack.kept_out - self.job_env.keys()
        return {
            name: value
            for name, value in {**self.stack.variables, **self.job_env}.items()
            if name not in apart
        }

    @property
    def launcher_env(self) -> dict[str, str]:
        """Variables that say where ranks go; some launchers keep them to
        themselves, and the CPU masks show what came of it.
        """
        return {name: value for name, value in self.binding.env.items() if name not in self.chosen}

    @property
    def recorded(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.asked_env, *self.launcher_env)))

    @property
    def known(self) -> dict[str, str]:
        return recorder.variables(self.stack, self.launcher)

    @property
    def gpu_choice(self) -> tuple[str, ...]:
        """Arguments of ``select_gpu``, by which rank ``r`` of a node sees GPU
        ``r`` alone; none where the user says which.
        """
        kind = KINDS.get(self.fabric.memory.kind)
        if kind is None or {kind.visible, *kind.narrowing} & self.chosen.keys():
            return ()
        addresses = [gpu.bus_id.lower() for gpu in self.fabric.gpus]
        order = (
            sorted(range(len(addresses)), key=addresses.__getitem__)
            if all(addresses)
            else range(len(addresses))
        )
        places = {gpu: place for place, gpu in enumerate(order)}
        return (
            kind.visible,
            " ".join(str(places[gpu]) for gpu in range(self.ppn)),
            *kind.narrowing,
        )

    @property
    def debug_env(self) -> dict[str, str]:
        return {
            name: value
            for name, value in self.setting.env.items()
            if DEBUG_FILE in value and name not in self.chosen
        }

    @property
    def prepare(self) -> list[str]:
        """Shell lines that write the files binding and bootstrap need
        (rankfiles) into the job's directory.
        """
        files = {**self.binding.files, **self.bootstrap.scripts}
        lines = [
            line
            for name, text in files.items()
            for line in (f"cat >{name} <<'END_OF_FILE'", *text.splitlines(), "END_OF_FILE")
        ]
        return [
            *lines,
            *(f"chmod +x {name}" for name in self.bootstrap.scripts),
            *self.bootstrap.prepare,
        ]

    def launcher_words(self, command: Sequence[str], options: Sequence[str]) -> list[str]:
        """The launcher's command line up to the program, or into its container.

        :param command: what ReFrame's launcher would start, e.g.
            ``srun``; not used where the stack's own is.
        :param options: options the user gave the launcher.
        """
        # The stack's own by its absolute path: another MPI's mpirun may come first on PATH.
        program = (self.launcher.program or command) if self.launcher.site else self.stack.mpirun
        words = self.launcher.words(
            program, [*options, *self.binding.options], self.nodes, self.ranks, self.pmi
        )
        names = dict.fromkeys(
            [*self.job_env, *self.debug_env, *self.stack.variables, *self.stack.search_paths]
        )
        values = {**self.stack.variables, **self.job_env}
        exports = self.launcher.exports(Exports(self.nodes, words, values, tuple(names)))
        return [*words, *exports, *self.stack.enter]

    def as_dict(self) -> dict[str, Any]:
        """As stored with the session. What need not be there is written
        only where it is so, as in older sessions.
        """
        stack = self.stack
        fabric = self.fabric
        optional = {
            "modules": [row.name for row in stack.loaded.loaded] if stack.modules else None,
            "stack_environment": open_environment(
                stack.variables
                | {name: ":".join(folders) for name, folders in stack.search_paths.items()}
            ),
            "built": dict(stack.build.get("facts") or {}),
            "compiled": dict(stack.build.get("compiled") or {}),
            "striped": fabric.striped,
            "quality_of_service": fabric.quality_of_service,
            "oversubscribed": self.oversubscribed,
            "tuned": self.tuned,
            **(
                {"memory": fabric.memory.word, "gpu_kind": fabric.memory.kind}
                if fabric.memory.on_gpu
                else {}
            ),
            "gpus": [gpu.bus_id or number for number, gpu in enumerate(fabric.gpus[: self.ppn])],
        }
        return {
            "stack": stack.name,
            "mpi": stack.mpi,
            "mpi_version": stack.mpi_version,
            "origin": stack.origin,
            "lock_hash": stack.lock_hash,
            "abi": stack.abi,
            "device": stack.device,
            "suites": {name: dict(row) for name, row in stack.suites.items()},
            "fabric": fabric.name,
            "transport": fabric.transport,
            "scope": fabric.scope,
            "devices": list(fabric.devices),
            "line_rate_gbit_per_s": fabric.line_rate_gbit_per_s,
            "nodes": self.nodes,
            "ppn": self.ppn,
            "ppn_symbol": self.ppn_symbol,
            "pinning": self.pinning,
            "placement": None
            if self.core_list is None
            else [list(cpus) for cpus in self.core_list],
            "ranks": self.ranks,
            "environment": open_environment(self.job_env),
            **{name: value for name, value in optional.items() if value},
        }


def oversubscription(ranks: int, extras: Mapping[str, Any]) -> str:
    """``64 ranks on 2 cores``, of a job with more ranks than the site
    says have a core each; empty for others.
    """
    cores = extras.get("most_timed_ranks")
    return (
        f"{ranks} ranks on {plural(cores, 'core')}" if cores is not None and ranks > cores else ""
    )


def check_asked(asked: Asked, extras: Mapping[str, Any]) -> None:
    """Check what can be checked of a combination before the topology of its nodes is known.

    :raises NotMeasured: with the reason why it is not measured here.
    """
    fabric = asked.fabric
    nodes = asked.nodes
    if fabric.within_node != (nodes == 1):
        where = "inside one node" if fabric.within_node else "between nodes"
        raise NotMeasured(
            f"fabric {fabric.name} works {where}, but {nodes} "
            f"{'node is' if nodes == 1 else 'nodes are'} requested"
        )
    policies = site.policies_of(extras)
    if asked.pinning not in policies:
        raise NotMeasured(
            f"pinning={asked.pinning} is not among the policies of this partition "
            f"({', '.join(policies)})"
        )
    if asked.pinning in placement.GPU_POLICIES and not fabric.memory.on_gpu:
        raise NotMeasured(
            f"pinning={asked.pinning} places ranks by their GPUs, but fabric {fabric.name} uses "
            "host memory"
        )


def place_ranks(asked: Asked, partition: Partition) -> placement.RankPlacement:
    """The part of :func:`resolve` that no stack has a say in:
    processes per node, and where they go.

    :raises NotMeasured: with the reason why this combination is not measured here.
    """
    check_asked(asked, partition.extras)
    topology = partition.topology
    nic_numa = (
        tuple(rail.numa_node for rail in asked.fabric.rails if rail.numa_node is not None) or None
    )
    try:
        number = placement.resolve_ppn(asked.ppn, topology)
    except BadInput as error:
        raise NotMeasured(str(error)) from error
    if asked.fabric.memory.on_gpu and number > len(asked.fabric.gpus):
        has = f"{number} ranks per node are requested, but a node has {len(asked.fabric.gpus)}"
        raise NotMeasured(f"with {asked.fabric.memory.text} each rank needs its own GPU: {has}")
    placed = placement.place(asked.pinning, number, topology, nic_numa)
    same = placement.first_equal(
        (asked.ppn, asked.pinning), list(product(*asked.orders)), topology, nic_numa
    )
    if same != (asked.ppn, asked.pinning):
        raise NotMeasured(f"same placement as ppn={same[0]}, pinning={same[1]}")
    return placed


def resolve(
    stack: Stack, asked: Asked, partition: Partition, chosen: Mapping[str, str] | None = None
) -> Condition:
    """Resolve one combination of parameters on one partition.

    :raises NotMeasured: with the reason why this combination is not measured here.
    """
    placed = place_ranks(asked, partition)
    setting = transports.resolve_transport(stack, asked.fabric, asked.library)
    launcher = launchers.find(partition.launcher, stack.launcher_family)
    extras = partition.extras
    nodes = asked.nodes
    if launcher is None:
        raise NotMeasured(launchers.unknown(partition.launcher))
    bootstrap = launcher.bootstrap(stack.version_tuple, partition.scheduler, nodes)
    bound = bind_ranks(placed, launcher, stack, nodes, partition, bootstrap)
    given = extras.get(launcher.pmi_extra, {})
    pmi = (
        (given.get(stack.name) or given.get(stack.mpi) or mpis.find(stack.mpi).pmi)
        if launcher.needs_pmi
        else ""
    )
    if launcher.needs_pmi and not launcher.offers(pmi):
        why = (
            f" (they need {pmi}, it offers {', '.join(launcher.pmi_words)}; see "
            f"extras.{launcher.pmi_extra})"
            if pmi
            else ""
        )
        raise NotMeasured(
            f"{launcher.name} cannot start ranks of {stack.mpi}{why}: use the stack's own launcher"
        )
    shared = oversubscription(nodes * placed.ppn, extras)
    return Condition(
        stack=stack,
        fabric=asked.fabric,
        nodes=nodes,
        ppn=placed.ppn,
        ppn_symbol=asked.ppn,
        pinning=asked.pinning,
        partition=partition,
        topology=partition.topology,
        placement=placed,
        setting=setting,
        binding=bound,
        launcher=launcher,
        pmi=pmi,
        bootstrap=bootstrap,
        recommended=recommended_for(stack, extras),
        chosen=dict(chosen or {}),
        oversubscribed=shared,
        may_share=partition.oversubscribes and bool(shared) and placed.ranks is None,
    )


def bind_ranks(
    placed: placement.RankPlacement,
    launcher: Launcher,
    stack: Stack,
    nodes: int,
    partition: Partition,
    bootstrap: Bootstrap,
) -> Binding:
    return launchers.bind(
        placed,
        launcher,
        nodes,
        placed.ppn,
        mpi=stack.mpi,
        version=stack.version_tuple,
        oversubscribe=partition.oversubscribes,
        hostfile=bootstrap.hostfile,
    )


def recommended_for(stack: Stack, extras: Mapping[str, Any]) -> dict[str, str]:
    """Variables the partition's ``extras.recommended`` has for a
    stack, later entries over earlier ones.
    """
    return {
        name: value
        for entry in extras.get("recommended", ())
        if any(fnmatch.fnmatchcase(stack.name, pattern) for pattern in entry["stacks"])
        for name, value in entry["env_vars"].items()
    }


def tuned_place(system: str, where: Condition) -> tuned_settings.TunedPlace:
    return tuned_settings.TunedPlace(
        system, where.stack.name, where.fabric.name, where.nodes, where.ppn, where.pinning
    )


def apply_tuned(system: str, where: Condition) -> Condition:
    """The condition under the tuned settings that are installed for
    it; what the user sets wins over them.

    :raises NotMeasured: there are none, or a file of theirs is in a
        folder that no variable can name.
    :raises BadInput: they are of another release, or damaged.
    """
    place = tuned_place(system, where)
    tuned = tuned_settings.find(place, where.stack)
    if any(sign in str(place.folder) for sign in "\n,"):
        raise NotMeasured(f"the folder {place.folder} has a character that no variable can contain")
    return replace(
        where, chosen={**tuned.environment(place.folder), **where.chosen}, tuned=tuned.id
    )

"""A row of the transport table: how to make one MPI use a transport, and what it prints to prove
it.

Values are templates. Placeholders, filled from the fabric's rails:

=================== ==========================================================================
``{device}``        the one rail's device (``eth1``); a fabric of several rails has no single one
``{devices}``       all devices, comma-separated (``eth1,eth2``)
``{device_port}``   the one rail's device and port (``mlx5_0:1``); in proofs, each rail's
``{device_ports}``  all devices with their ports, comma-separated (``mlx5_0:1,mlx5_1:1``)
``{hcas}``          all devices, colon-separated (``mlx5_0:mlx5_1``), MVAPICH2's form
``{port}``          the one rail's port
``{unit}``          number of the one rail's adapter (``0`` of ``hfi1_0``)
``{rails}``         number of rails
``{tcp_interfaces}`` interfaces on the same link; if there are none, a variable that needs them
                    is left out
``{service_level}`` the fabric's, in what a row has for it (:attr:`TransportRow.classes`);
                    ``{traffic_class}`` likewise
=================== ==========================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from ..machine.fabric import CLASSES
from ..machine.transport import TRANSPORTS
from ..vocabulary import SCOPE_CLUSTER, SCOPE_NODE

Version = tuple[int, ...]
#: The placeholders above, and the file of a launch's own debug lines.
PLACEHOLDERS = frozenset(
    "device devices device_port device_ports hcas port unit rails tcp_interfaces debug_file".split()  # noqa: SIM905
).union(CLASSES)

#: Where a proof is looked for: what the ranks printed, or the shared objects they had mapped.
DEBUG = "stdout+stderr"
LIBRARIES = "libraries"
#: Kinds of operations that not every MPI does in GPU memory, in the words of sentences.
ONE_SIDED = "one-sided operations"
ACCUMULATE = "accumulating and atomic operations"
NONBLOCKING = "nonblocking and persistent collectives"
NONBLOCKING_REDUCTION = "nonblocking and persistent reductions"
#: Keys of :attr:`TransportRow.by_rails`.
ONE_RAIL = "one"
MANY_RAILS = "many"
STRIPED = "striped"


@dataclass(frozen=True)
class Proof:
    """One thing the run must show (or must not show).

    :param subject: what the value is, for sentences (``libfabric provider``).
    :param pattern: regular expression with one group, the value; searched for throughout each line.
    :param expect: regular expressions (templates); at least one
        value must match one of them in full.
    :param allow: further values (regular expressions, templates) that may stand beside.
    :param line: regular expression a line must contain to be read at all; empty: every line.
    :param source: :data:`DEBUG` or :data:`LIBRARIES`.
    :param absent: no value may be found.
    :param required: a missing value is missing evidence; else only a wrong one counts.
    :param since: first version known to print it; before that the proof is not ``required``.
    """

    subject: str
    pattern: str
    expect: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    line: str = ""
    source: str = DEBUG
    absent: bool = False
    required: bool = True
    since: Version = ()


@dataclass(frozen=True)
class Range:
    """Half-open range of versions: ``since <= version < until``; ``until=None`` is open."""

    since: Version
    until: Version | None = None

    def __contains__(self, version: Version) -> bool:
        return self.since <= version and (self.until is None or version < self.until)

    def overlaps(self, other: Range) -> bool:
        return (other.until is None or self.since < other.until) and (
            self.until is None or other.since < self.until
        )


def rows_as_of(
    rows: Iterable[TransportRow], release: Version, versions: Range
) -> tuple[TransportRow, ...]:
    """The rows that hold for one release of an MPI, for a fork of it with versions of its own: what
    that release prints is required of each version of the fork, and what it has is there.

    :param versions: of the fork.
    """

    def prints(proofs: Iterable[Proof]) -> tuple[Proof, ...]:
        return tuple(
            replace(proof, since=(), required=proof.required and proof.since <= release)
            for proof in proofs
        )

    def shows(row: _Shown) -> _Shown:
        scopes = {scope: prints(proofs) for scope, proofs in row.proofs_by_scope.items()}
        return replace(row, proofs=prints(row.proofs), proofs_by_scope=scopes)

    return tuple(
        replace(
            shows(row),
            versions=versions,
            memory={
                kind: replace(shows(memory), since=())
                for kind, memory in row.memory.items()
                if memory.since <= release
            },
            classes={
                word: replace(needed, proofs=prints(needed.proofs))
                for word, needed in row.classes.items()
            },
        )
        for row in rows
        if release in row.versions
    )


def no_notes(debug: str) -> tuple[str, ...]:
    return ()


@dataclass(frozen=True)
class DeviceMemory:
    """What a row needs besides where messages are in memory of
    GPUs; its variables win over the row's.

    :param manual: manual and section the variables are described in.
    :param env: variables that let device memory through, and turn on what host memory does without.
    :param debug_env: variables that only make the MPI say what it does with it.
    :param by_scope: further variables per scope.
    :param by_rails: further variables for one rail or several, as
        :attr:`TransportRow.by_rails` has them.
    :param proofs: what the run must show besides.
    :param proofs_by_scope: what it must show besides, per scope.
    :param replaces: subjects of the row's proofs that do not hold then.
    :param since: first version of the MPI that has the variables.
    :param without: kinds of operations (:data:`ONE_SIDED`, ...) that the MPI does not do there;
        their benchmarks are left out.
    :param note: what the run cannot show, one sentence for its evidence.
    :param notes: what the debug lines say for the evidence.
    """

    manual: str
    env: Mapping[str, str] = field(default_factory=dict)
    debug_env: Mapping[str, str] = field(default_factory=dict)
    by_scope: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    by_rails: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    proofs: tuple[Proof, ...] = ()
    proofs_by_scope: Mapping[str, tuple[Proof, ...]] = field(default_factory=dict)
    replaces: tuple[str, ...] = ()
    since: Version = ()
    without: tuple[str, ...] = ()
    note: str = ""
    notes: Callable[[str], tuple[str, ...]] = no_notes

    def adding(self, **more: Any) -> DeviceMemory:
        """As :meth:`TransportRow.adding`."""
        return replace(
            self, **{name: _added(getattr(self, name), value) for name, value in more.items()}
        )


@dataclass(frozen=True)
class PacketClass:
    """What a row needs besides where a fabric names its service level or
    traffic class.

    :param env: variables that set it, with the placeholder of its name.
    :param debug_env: variables that only make the MPI say which is in effect.
    :param proofs: what the run must show besides.
    """

    env: Mapping[str, str]
    debug_env: Mapping[str, str] = field(default_factory=dict)
    proofs: tuple[Proof, ...] = ()


@dataclass(frozen=True)
class TransportRow:
    """How one MPI, in a range of versions, uses one transport.

    :param transport: name of one of :data:`machine.transport.TRANSPORTS`, or of the MPI's own
        further ones.
    :param versions: versions of the MPI the row holds for.
    :param manual: manual and section the variables are described in.
    :param device: communication device the build must have (``ch4:ofi``); empty: any build.
    :param env: variables that choose transport and device.
    :param debug_env: variables that only make the MPI say what it chose.
    :param by_scope: further variables per scope: inside one node every byte must take the
        transport, so the intra-node shortcut is off; between nodes it stays on.
    :param by_rails: further variables for a fabric of one rail (``one``), or of several: each
        message on one of them (``many``), or large messages split over all (``striped``; a row
        without the key cannot do that).
    :param proofs: what the run must show, whatever the scope.
    :param proofs_by_scope: what it must show besides, per scope.
    :param memory: platform of GPUs (:data:`machine.gpu.KINDS`) to what device
        memory needs; without, it is not measured.
    :param classes: ``service_level`` or ``traffic_class`` to what one needs; without, a fabric that
        names it is not measured.
    :param context: regular expression with one group: the setting in effect
        as the debug text has it, for sentences.
    :param last_resort_for: devices another row of the same MPI is
        preferred for, where the build allows it.
    :param note: limit worth knowing, one sentence.
    """

    transport: str
    versions: Range
    manual: str
    device: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    debug_env: Mapping[str, str] = field(default_factory=dict)
    by_scope: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    by_rails: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    proofs: tuple[Proof, ...] = ()
    proofs_by_scope: Mapping[str, tuple[Proof, ...]] = field(default_factory=dict)
    memory: Mapping[str, DeviceMemory] = field(default_factory=dict)
    classes: Mapping[str, PacketClass] = field(default_factory=dict)
    context: str = ""
    last_resort_for: tuple[str, ...] = ()
    note: str = ""

    def of_class(self, word: str) -> TransportRow:
        """The row with what one of :attr:`classes` needs."""
        needed = self.classes[word]
        return self.adding(env=needed.env, debug_env=needed.debug_env, proofs=needed.proofs)

    def adding(self, **more: Any) -> TransportRow:
        """The row with more in its mappings and tuples, and other values instead of its own."""
        return replace(
            self, **{name: _added(getattr(self, name), value) for name, value in more.items()}
        )


def _added(own: Any, more: Any) -> Any:
    if isinstance(own, Mapping):
        return {**own, **{key: _added(own.get(key), value) for key, value in more.items()}}
    return (*own, *more) if isinstance(own, tuple) else more


def set_by_variable(
    proven: Callable[[str, str], Proof] | None = None, **variables: str
) -> dict[str, PacketClass]:
    """For :attr:`TransportRow.classes`: a variable each.

    :param proven: the proof of a variable and a template of its value.
    """
    return {
        word: PacketClass(
            {name: f"{{{word}}}"}, proofs=(proven(name, f"{{{word}}}"),) if proven else ()
        )
        for word, name in variables.items()
    }


_Shown = TypeVar("_Shown", TransportRow, DeviceMemory)


@dataclass(frozen=True)
class Gap:
    """A pair that has no row, and why; ``reason`` is one sentence
    that ends with what to do instead.

    :param kinds: platforms of GPUs whose memory the pair's row does
        not send; empty: there is no row.
    """

    transport: str
    versions: Range
    reason: str
    kinds: tuple[str, ...] = ()


@dataclass(frozen=True)
class Library:
    """A communication library beside MPI that a suite's programs
    measure, started as an MPI program (NCCL).

    :param title: its name in sentences.
    :param notes: what its debug lines say for the evidence.
    """

    title: str
    rows: tuple[TransportRow, ...]
    notes: Callable[[str], tuple[str, ...]]
    gaps: tuple[Gap, ...] = ()


def gaps(
    rows: Iterable[TransportRow], first: Version, before: str, without: str
) -> tuple[Gap, ...]:
    """Why older versions, and transports without a row, have none.

    :param first: first version with rows.
    :param without: ``{transport}`` stands for one that no row is for.
    """
    there = sorted({row.transport for row in rows})
    others = [name for name in TRANSPORTS if name not in there]
    return (
        *(Gap(name, Range((0,), first), before) for name in there),
        *(Gap(name, Range((0,)), without.format(transport=name)) for name in others),
    )


def scoped(
    *, node: Mapping[str, str], cluster: Mapping[str, str] | None = None
) -> dict[str, Mapping[str, str]]:
    """Variables per scope, for :attr:`TransportRow.by_scope`."""
    return {SCOPE_NODE: node, SCOPE_CLUSTER: cluster or {}}


def scoped_proofs(
    *, node: tuple[Proof, ...], cluster: tuple[Proof, ...] = ()
) -> dict[str, tuple[Proof, ...]]:
    """Proofs per scope, for :attr:`TransportRow.proofs_by_scope`."""
    return {SCOPE_NODE: node, SCOPE_CLUSTER: cluster}

"""Transports: from (MPI, version, transport, device, scope) to environment variables, and the proof
at run time that they worked.

The record of each MPI (:mod:`mpis`) defines what it needs; this module looks a condition up
(:func:`resolve_transport`) and judges what the run showed (:func:`check_proofs`). Nothing here
looks at the machine.

Settings choose, but do not prove: libfabric's tcp provider uses another interface if the requested
one is missing, and with ``I_MPI_FABRICS=shm:ofi`` on one node the right provider is opened but
carries nothing. So each row names the lines in which the MPI says what it did. How many bytes a
device carried is separate evidence.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace

from ...machine import gpu
from ...machine.fabric import Fabric
from ...mpis import registry
from ...mpis.model import Mpi
from ...mpis.transport import (
    DEBUG,
    LIBRARIES,
    MANY_RAILS,
    ONE_RAIL,
    STRIPED,
    DeviceMemory,
    Library,
    Proof,
    Range,
    TransportRow,
)
from ...stacks.stack import Stack
from ...vocabulary import BadInput, NotMeasured
from .script import DEBUG_FILE

#: Of host memory.
_NO_DEVICE = DeviceMemory("")
_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")
_UNIT = re.compile(r"_(\d+)$")


@dataclass(frozen=True)
class Setting:
    """A transport resolved for one stack on one fabric.

    :param env: every variable to set, those that only make the MPI speak (``debug_env``) included.
    :param proofs: what the run must show, templates filled.
    :param row: the row it came from.
    :param mpi: name of the MPI in sentences; ``stack``: with its version.
    :param asked: what was requested, in sentences.
    :param memory: what GPU memory needed besides.
    """

    env: Mapping[str, str]
    proofs: tuple[Proof, ...]
    row: TransportRow
    mpi: str
    stack: str
    asked: str
    debug_env: Mapping[str, str] = field(default_factory=dict)
    memory: DeviceMemory = _NO_DEVICE

    def notes(self, debug: str) -> tuple[str, ...]:
        """For the evidence: what the debug lines show about GPU memory, what nothing shows, and
        what is not measured.
        """
        undone = (
            f"left out, because {self.mpi} does not support GPU memory for these: "
            f"{', '.join(self.memory.without)}"
        )
        return (
            *self.memory.notes(debug),
            *filter(None, [self.memory.note, undone if self.memory.without else ""]),
        )

    @property
    def choice(self) -> str:
        """The variables that choose, as a shell would have them:
        ``I_MPI_FABRICS=ofi FI_PROVIDER=tcp``.
        """
        return " ".join(
            f"{name}={value}" for name, value in self.env.items() if name not in self.debug_env
        )

    @property
    def summary(self) -> str:
        if not registry.transport(self.row.transport).forced:
            return f"{self.stack}: as shipped, nothing forced"
        shown = ", ".join(dict.fromkeys(proof.subject for proof in self.proofs if proof.required))
        return f"{self.stack}: {self.asked} ({self.choice or 'as built'}), shown by {shown}"


def resolve_transport(stack: Stack, fabric: Fabric, library: Library | None = None) -> Setting:
    """Look up how ``stack`` uses ``fabric``: each message takes one
    of its rails, or is striped over all.

    :param library: what moves the data instead of the stack's MPI,
        which then only starts the ranks.
    :raises NotMeasured: this stack cannot use it, with the reason and what to do instead.
    :raises BadInput: the fabric cannot be used by any MPI as described
        (unknown transport, no rail, wrong scope).
    """
    mpi: Mpi | Library = library or registry.find(stack.mpi)
    named = mpi.title if library else f"{mpi.title} {stack.mpi_version}"
    memory = fabric.memory
    if memory.on_gpu and stack.gpu != memory.kind and not library:
        built = (
            f"it was built for {gpu.KINDS[stack.gpu].title}"
            if stack.gpu
            else "its metadata name no GPU platform"
        )
        raise NotMeasured(
            f"stack {stack.name} cannot send {memory.text}: {built} ('gpu' of stack.json)."
        )
    if not registry.transport(fabric.transport).forced:
        # Variables that make an MPI speak are none of a user's plain start either.
        row = TransportRow(fabric.transport, Range(()), manual="none: nothing is set")
        taken = replace(_NO_DEVICE, without=_without(stack, fabric.choices, library))
        return Setting({}, (), row, mpi.title, named, _asked(fabric), memory=taken)
    version = (0,) if library else stack.version_tuple
    rows = [
        row for row in mpi.rows if row.transport == fabric.transport and version in row.versions
    ]
    fitting = _fit_device(rows, stack.device)
    if not fitting:
        raise NotMeasured(_reason(stack, mpi, named, fabric, rows))
    row = next(
        (row for row in fitting if not set(fabric.devices) & set(row.last_resort_for)), fitting[0]
    )
    for word, value in fabric.classes.items():
        if word not in row.classes:
            title = word.replace("_", " ")
            raise NotMeasured(
                f"{named} has no variable for the {title} over {fabric.transport}, and fabric "
                f"{fabric.name} is of {title} {value}: use another MPI, or a fabric without."
            )
        row = row.of_class(word)
    device = row.memory.get(memory.kind, _NO_DEVICE)
    if memory.on_gpu and not library and (device is _NO_DEVICE or version < device.since):
        raise NotMeasured(_reason_of_memory(stack, mpi, named, fabric, device.since))
    rails = STRIPED if fabric.striped else ONE_RAIL if len(fabric.rails) <= 1 else MANY_RAILS
    templates = {**row.env, **row.by_scope.get(fabric.scope, {}), **row.by_rails.get(rails, {})}
    debug_env = {**row.debug_env, **device.debug_env}
    templates |= {
        **device.env,
        **device.by_scope.get(fabric.scope, {}),
        **device.by_rails.get(rails, {}),
        **debug_env,
    }
    single = [
        name
        for name, value in templates.items()
        if re.search(r"\{(?:device|device_port|port|unit)\}", value)
    ]
    if single and len(fabric.rails) > 1:
        raise NotMeasured(
            f"{named} uses one rail of {fabric.transport} ({single[0]}), but fabric {fabric.name} "
            f"has {len(fabric.rails)} rails: describe a fabric with one."
        )
    if rails == STRIPED and rails not in row.by_rails:
        raise NotMeasured(
            f"{named} over {fabric.transport} cannot stripe a rank's messages, as fabric "
            f"{fabric.name} requires: use a fabric that is not striped, with a rank for each rail."
        )
    values = _values(fabric)
    # A variable whose placeholder stands for nothing here (no ``tcp_interfaces``) is left unset.
    set_here = {
        name: value
        for name, value in templates.items()
        if all(map(values.get, _PLACEHOLDER.findall(value)))
    }
    env = {name: _fill(value, values) for name, value in set_here.items()}
    own = (*row.proofs, *row.proofs_by_scope.get(fabric.scope, ()))
    proofs = [proof for proof in own if proof.subject not in device.replaces]
    proofs += [*device.proofs, *device.proofs_by_scope.get(fabric.scope, ())]
    return Setting(
        env=env,
        proofs=tuple(_fill_proof(proof, fabric, version) for proof in proofs),
        row=row,
        mpi=mpi.title,
        stack=named,
        asked=_asked(fabric),
        debug_env={name: env[name] for name in debug_env},
        memory=device,
    )


def _without(stack: Stack, fabrics: Iterable[Fabric], library: Library | None) -> tuple[str, ...]:
    """Kinds of operations that a stack does not do in GPU memory over
    one or another of the fabrics it may take.
    """
    kinds: dict[str, None] = {}
    for fabric in fabrics:
        with suppress(NotMeasured, BadInput):
            kinds |= dict.fromkeys(resolve_transport(stack, fabric, library).memory.without)
    return tuple(kinds)


def check_proofs(setting: Setting, debug_text: str, libraries: Iterable[str] = ()) -> list[str]:
    """Judge a run by what it printed and what it had mapped.

    :param debug_text: everything the ranks printed, stdout (at least what
        :func:`strip_debug` takes from it) and stderr.
    :param libraries: paths of the shared objects mapped by any rank.
    :returns: one sentence per contradiction or missing line; empty when the setting is proven.
    """
    sources = {DEBUG: debug_text.splitlines(), LIBRARIES: sorted(set(libraries))}
    return [sentence for proof in setting.proofs if (sentence := _judge(setting, proof, sources))]


def strip_debug(stack: Stack, stdout: str) -> tuple[str, str]:
    """Part the lines an MPI can print on stdout only from the benchmark's.

    :returns: ``(clean, debug)``; line ends are kept, and no other line is touched.
    """
    known = registry.find(stack.mpi).stdout_lines
    if known is None:
        return stdout, ""
    clean: list[str] = []
    debug: list[str] = []
    for line in stdout.splitlines(keepends=True):
        (debug if known.fullmatch(line.rstrip("\r\n")) else clean).append(line)
    return "".join(clean), "".join(debug)


def _fit_device(rows: list[TransportRow], device: str) -> list[TransportRow]:
    """Rows the build can follow, in the order of its devices:
    ``ch4:ucx,ofi`` has ``ch4:ucx`` and ``ch4:ofi``.
    """
    family, _, names = device.partition(":")
    built = [f"{family}:{name.split(':')[0]}" for name in re.split(r"[ ,]+", names) if name]
    bound = [row for row in rows if row.device in built]
    return [row for row in rows if not row.device] + sorted(
        bound, key=lambda row: built.index(row.device)
    )


def _asked(fabric: Fabric) -> str:
    """``lo over tcp``; ``eth1g (eth1) over tcp``; ``shm``."""
    devices = ",".join(fabric.devices)
    name = fabric.name if devices in ("", fabric.name) else f"{fabric.name} ({devices})"
    over = name if name == fabric.transport else f"{name} over {fabric.transport}"
    words = (
        fabric.memory.text if fabric.memory.on_gpu else "",
        "striped" if fabric.striped else "",
        fabric.quality_of_service,
    )
    return ", ".join(filter(None, (over, *words)))


def _reason(
    stack: Stack, mpi: Mpi | Library, named: str, fabric: Fabric, rows: list[TransportRow]
) -> str:
    if rows:
        needed = " or ".join(sorted({row.device for row in rows}))
        built = f"built with {stack.device}" if stack.device else "whose metadata name no device"
        return f"{named}, {built}, cannot use {fabric.transport}: it needs a build with {needed}."
    version = (0,) if isinstance(mpi, Library) else stack.version_tuple
    for gap in mpi.gaps:
        if gap.transport == fabric.transport and version in gap.versions and not gap.kinds:
            return gap.reason
    return (
        f"{named} over {fabric.transport} is not supported: add a row to the file of {stack.mpi}."
    )


def _reason_of_memory(
    stack: Stack, mpi: Mpi | Library, named: str, fabric: Fabric, since: tuple[int, ...]
) -> str:
    """Why a row does not send a fabric's GPU memory.

    :param since: first version that does; empty: none.
    """
    transport = registry.transport(fabric.transport)
    memory = fabric.memory
    if since:
        first = ".".join(map(str, since))
        return (
            f"{named} cannot send {memory.text} over {transport.name}: use {mpi.title} {first} "
            "or newer."
        )
    if transport.in_memory and not transport.gpus_only:
        return f"{memory.text} is not in the host's shared memory: use transport gpu_ipc."
    for gap in mpi.gaps:
        if (
            gap.transport == transport.name
            and stack.version_tuple in gap.versions
            and memory.kind in gap.kinds
        ):
            return gap.reason
    return (
        f"{memory.text} with {named} over {transport.name} is not supported: add it to the file of "
        f"{stack.mpi}."
    )


def _values(fabric: Fabric) -> dict[str, str]:
    """Value of each placeholder; those that have none on this fabric are left out."""
    rails = fabric.rails
    units = [match[1] for match in (_UNIT.search(rail.device) for rail in rails) if match]
    values = {
        "rails": str(len(rails)),
        "devices": ",".join(fabric.devices),
        "device_ports": ",".join(f"{rail.device}:{rail.port}" for rail in rails),
        "hcas": ":".join(fabric.devices),
        "tcp_interfaces": ",".join(fabric.tcp_interfaces),
        "debug_file": DEBUG_FILE,
        **fabric.classes,
    }
    if rails:
        values |= {"device": rails[0].device, "port": str(rails[0].port)}
        values["device_port"] = f"{rails[0].device}:{rails[0].port}"
    if units and len(units) == len(rails):
        values["unit"] = units[0]
    elif registry.transport(fabric.transport).numbered:
        raise BadInput(
            "system-description",
            f"fabric {fabric.name}: {fabric.transport} needs adapter names ending in a number, "
            "such as hfi1_0.",
        )
    return values


def _fill(template: str, values: Mapping[str, str]) -> str:
    return _PLACEHOLDER.sub(lambda match: values[match[1]], template)


def _fill_proof(proof: Proof, fabric: Fabric, version: tuple[int, ...]) -> Proof:
    """The proof with its templates filled, once per rail, and its due decided by the version."""
    rails = [
        {
            "device": rail.device,
            "device_port": f"{rail.device}:{rail.port}",
            "port": str(rail.port),
            **fabric.classes,
        }
        for rail in fabric.rails
    ]
    escaped: list[dict[str, str]] = [
        {name: re.escape(value) for name, value in rail.items()} for rail in rails
    ] or [{}]

    def fill(templates: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(
            dict.fromkeys(_fill(template, rail) for template in templates for rail in escaped)
        )

    required = proof.required and version >= proof.since
    return replace(proof, expect=fill(proof.expect), allow=fill(proof.allow), required=required)


def _judge(setting: Setting, proof: Proof, sources: Mapping[str, list[str]]) -> str | None:
    if proof.source == LIBRARIES and not sources[LIBRARIES]:
        missing = (
            f"no mapped libraries were recorded, so {setting.mpi}'s {proof.subject} is unknown; "
            "evidence missing."
        )
        return missing if proof.required else None
    lines = [line for line in sources[proof.source] if re.search(proof.line, line)]
    values = list(
        dict.fromkeys(match[1] for line in lines for match in re.finditer(proof.pattern, line))
    )
    if not values:
        asked = " ".join(f"{name}={value}" for name, value in setting.debug_env.items())
        absence = (
            f"{setting.mpi} printed no line naming its {proof.subject} (asked for by {asked}); "
            "evidence missing."
        )
        if proof.source == LIBRARIES:
            absence = f"{setting.mpi} mapped no library of its {proof.subject}; evidence missing."
        return absence if proof.required and not proof.absent else None
    if not proof.absent:
        wrong = [
            value
            for value in values
            if not any(re.fullmatch(regex, value) for regex in (*proof.expect, *proof.allow))
        ]
        if not wrong and (
            not proof.required
            or any(re.fullmatch(regex, value) for regex in proof.expect for value in values)
        ):
            return None
        values = wrong or values
    context = (
        re.search(setting.row.context, "\n".join(sources[DEBUG])) if setting.row.context else None
    )
    in_effect = context[1].strip() if context else setting.choice or "no setting"
    verb = "has mapped" if proof.source == LIBRARIES else "reports"
    named = ", ".join(map(repr, values))
    return (
        f"asked for {setting.asked}, but {setting.mpi} {verb} {proof.subject} {named} "
        f"({in_effect})."
    )

"""Where a server and a client below MPI can be measured, and what they left: numbers, and the
network that carried them.

The readers check that the interfaces carried at least the payload (:func:`pair.expect_carried`).
This module checks that no other interface or port of a node carried a part of it, that nobody else
used the link, and that the link is as the site describes it.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

from ...batch_systems import SLURM
from ...evidence.link_state import NOT_UP, RATE, SLOW_SHARE
from ...evidence.traffic import (
    BACKGROUND_FRACTION,
    COUNTING_FRACTION,
    HEADER_BYTES,
    LOOPBACK,
    MIRRORS,
    OTHER_FLOOR_BYTES,
    OTHER_FRACTION,
)
from ...instruments.pairs.pair_values import BANDWIDTH, PairValue
from ...machine.fabric import Fabric
from ...machine.switch_paths import name_of
from ...mpis import registry as mpis
from ...printable import few, format_bytes
from ...samples import CONTRADICTED, MISSING
from ...sites import references
from ...suites import catalogue, pair, perftest, reader
from ...suites.benchmark import Limits, OutputError, Record
from ...suites.pair import End, Exchanged, Pair, PairGroup
from ...vocabulary import SITE_FILES

#: Seconds that a program which measures for a time takes, by level.
SECONDS: Mapping[str, int] = {"smoke": 1, "nightly": 3, "acceptance": 10}
#: Packets of RDMA carry at least this much (InfiniBand Architecture Specification, volume 1, 5.2.8:
#: the smallest MTU in use), and those of a network whose MTU the site does not say.
LEAST_MTU_BYTES = 1024
#: Folder of a map's records in the job's directory, and pairs that a sentence on a map names.
FOLDER = "map"
NAMED = 5
#: In an end's record: why it could not measure (``end.py``), and where it ran.
_ABSENT = re.compile(r'"failed": "there is no program (\S+) on PATH"')
#: A server's program that does not know its options (perftest_parameters.c; of a memory it was not
#: built for newer ones say why on the other stream).
_UNABLE = re.compile(
    r'"failed": "the server did not listen: (Invalid Command or flag'
    r"|Parser function exited with Error)"
)
_HOST = re.compile(r'"host": "([^"]+)"')


def find_obstacle(fabric: Fabric, group: PairGroup, scheduler: str) -> str:
    """Why a group cannot be measured on a fabric; empty if it can.

    :param scheduler: ReFrame's name of it.
    """
    if not any(group.measures(plan, fabric.memory) for plan in group.plans):
        return (
            f"it measures memory of {'one GPU' if group.on_gpu else 'the host'}, and "
            f"{fabric.name} is of {fabric.memory.text}"
        )
    if fabric.within_node:
        return f"{fabric.name} is inside a node, but server and client run on two"
    if fabric.transport not in group.transports:
        known = ", ".join(group.transports)
        lacks = ", without an RDMA adapter" if mpis.transport(fabric.transport).interfaces else ""
        return f"{fabric.name} has transport {fabric.transport}{lacks}; needed is one of {known}"
    if fabric.classes:
        return f"{fabric.name} has {fabric.quality_of_service}, which can be set for MPIs only"
    if scheduler not in SLURM.schedulers:
        known = ", ".join(SLURM.schedulers)
        return (
            f"under scheduler {scheduler}, nothing starts one task on each of two nodes "
            f"(supported: {known})"
        )
    return ""


def choose_gpu(fabric: Fabric) -> int:
    """Number of the GPU next to the first rail, as the site describes it; the first of equally near
    ones.
    """
    rail = fabric.rails[0]
    near = [number for number, gpu in enumerate(fabric.gpus) if gpu.nic == rail.device]
    same = [
        number
        for number, gpu in enumerate(fabric.gpus)
        if gpu.numa_node is not None and gpu.numa_node == rail.numa_node
    ]
    return (near or same or [0])[0]


def find_unable(directory: Path) -> str:
    """Words of a server's program that knows no memory of such GPUs; empty: none said so."""
    texts = (path.read_text(errors="replace") for path in sorted(directory.rglob("*.server")))
    return next((match[1].strip() for text in texts if (match := _UNABLE.search(text))), "")


def find_lacking(directory: Path) -> dict[str, str]:
    """Host of each end that left its record and lacks its program, to that."""
    lacking = {}
    for path in sorted(path for which in pair.ENDS for path in directory.rglob(f"*.{which}")):
        text = path.read_text(errors="replace")
        host = _HOST.search(text)
        absent = _ABSENT.search(text)
        if host and absent:
            lacking[host[1]] = absent[1]
    return lacking


def describe_remedy(group: PairGroup) -> str:
    return (
        f"install Debian's {group.debian} or Spack's {group.spack}, or load its module (-S "
        "modules=...)"
    )


@dataclass(frozen=True)
class PairLaunch:
    """One benchmark at one size.

    :param name: of its files, with the number of the repeat.
    """

    name: str
    plan: pair.PairPlan
    row: catalogue.Benchmark
    size: int
    repetitions: int
    words: pair.Words

    @property
    def program(self) -> str:
        return PurePosixPath(self.row.binary).name


def make_launch(
    plan: pair.PairPlan,
    group: str,
    fabric: Fabric,
    size: int,
    level: str,
    limits: Limits,
    gpu: int = 0,
) -> PairLaunch:
    """A benchmark on a fabric; where that has GPU memory with the GPU of this number."""
    row = next(row for row in catalogue.rows(group) if row.name == plan.benchmark)
    rail = fabric.rails[0]
    count = plan.repetitions(size, catalogue.LEVELS[level], limits)
    interface = mpis.transport(fabric.transport).interfaces
    start = pair.Start(
        fabric.transport,
        rail.device,
        rail.port,
        interface,
        size,
        count,
        SECONDS[level],
        fabric.memory,
        gpu,
    )
    plan = replace(plan, variant=plan.variant or fabric.memory.variant)
    words = filter(None, (plan.benchmark, plan.variant.replace("=", ""), str(size)))
    return PairLaunch("_".join(words), plan, row, size, count, plan.words(start))


@dataclass(frozen=True)
class Measured:
    """What both ends of a launch left.

    :param ends: ``None`` if they left nothing whole; ``record``: where the program failed.
    :param findings: status and sentence of everything that is wrong.
    :param counted: whether the fabric's interfaces, and nothing
        else, carried it; ``None``: not known.
    """

    ends: Pair | None = None
    record: Record | None = None
    findings: Sequence[tuple[str, str]] = ()
    counted: bool | None = None

    @property
    def both(self) -> tuple[End, ...]:
        return (self.ends.server, self.ends.client) if self.ends else ()


def read_launch(
    directory: Path, name: str, launch: PairLaunch, group: PairGroup, fabric: Fabric
) -> Measured | None:
    """Read and judge both ends of a launch; ``None`` if neither left a record.

    :param name: of its files without their ends.
    :param fabric: as the site describes it, with the one rail that was measured.
    """
    paths = [directory / f"{name}.{which}" for which in pair.ENDS]
    there = [path.read_text(errors="replace") for path in paths if path.exists()]
    if not there:
        return None
    text = "".join(there)
    try:
        ends = pair.read(text, launch.program, name)
    except OutputError as error:
        return Measured(findings=[(MISSING, str(error))])
    links = [(CONTRADICTED, sentence) for sentence in judge_links(ends, fabric)]
    try:
        [record] = reader.parse(text, source=name)
        wrong = judge_bytes(ends, group.exchanged(ends), fabric)
    except OutputError as error:
        # What it says of its peer, or lacks, may be the consequence.
        others = [
            sentence for end in (ends.server, ends.client) for sentence in name_others(end, fabric)
        ]
        elsewhere = bool(others) or isinstance(error, pair.OtherNetwork)
        status = CONTRADICTED if elsewhere else MISSING
        findings = [*links, *((status, sentence) for sentence in (str(error), *others))]
        return Measured(ends, None, findings, False if elsewhere else None)
    wrong += [*_impossible(launch, record, fabric), *_other_gpu(ends, fabric)]
    return Measured(
        ends, record, [*links, *((CONTRADICTED, sentence) for sentence in wrong)], not wrong
    )


def _impossible(launch: PairLaunch, record: Record, fabric: Fabric) -> list[str]:
    """A record of something else, and bandwidths that the link cannot carry."""
    row = launch.row
    if (record.benchmark, record.message_bytes, record.variant) != (
        row.name,
        launch.size,
        launch.plan.variant,
    ):
        return [
            f"it measured {record.benchmark} {record.variant} at {record.message_bytes} bytes, "
            "which was not requested; run it again."
        ]
    return [
        sentence
        for quantity, value in record.values.items()
        if row.directions and row.shows_line_rate(quantity, launch.size)
        if (sentence := references.above_line_rate(launch.name, value, fabric, row.directions))
    ]


def _other_gpu(ends: Pair, fabric: Fabric) -> list[str]:
    """Sentences on ends that took another GPU than the site's, where it says which that is.

    :param fabric: with the one GPU that was requested.
    """
    address = fabric.gpus[0].bus_id if fabric.memory.on_gpu else ""
    said = {
        end.host: perftest.picked_bus(end.output) for end in (ends.server, ends.client) if address
    }
    return [
        f"{host} used the GPU on PCI bus {bus or '(not said)'} instead of {address}; check "
        f"CUDA_VISIBLE_DEVICES there, or correct gpus in {SITE_FILES}."
        for host, bus in said.items()
        if bus != address.split(":")[1]
    ]


def judge_links(ends: Pair, fabric: Fabric) -> list[str]:
    """Sentences unless both links are up, alike, and as the site describes
    them: what such a link carries it does carry.

    Of an interface's speed the kernel says something only where it is real.
    """
    server, client = (end.before.link for end in (ends.server, ends.client))
    sentences = [
        f"{noun} of {fabric.name} is {server[key]} on {ends.server.host} and {client[key]} on "
        f"{ends.client.host}; make them equal."
        for key, noun in (("mtu", "the MTU"), ("speed", "the rate"))
        if server[key] != client[key]
    ]
    interfaces = mpis.transport(fabric.transport).interfaces
    described = fabric.line_rate_gbit_per_s
    for end in (ends.server, ends.client):
        state, mtu, speed = (end.before.link[key] for key in ("operstate", "mtu", "speed"))
        where = f"{end.interface} of {end.host}"
        if NOT_UP.fullmatch(state):
            sentences.append(
                f"the link of {where} is not up (state {state}); check cable and port."
            )
        if interfaces and fabric.mtu_bytes is not None and mtu != str(fabric.mtu_bytes):
            sentences.append(
                f"the MTU of {where} is {mtu}, but the site says {fabric.mtu_bytes} for "
                f"{fabric.name}; correct one."
            )
        # An interface's Mbit/s, or a port's ``100 Gb/sec (4X EDR)``.
        match = RATE.match(speed)
        rate = (
            int(speed) / 1000
            if speed.isdecimal()
            else float(match[1] or match[2])
            if match
            else 0.0
        )
        if rate and described is not None and rate < SLOW_SHARE * described:
            sentences.append(
                f"{where} came up at {rate:g} Gbit/s, but the site says {described:g} for "
                f"{fabric.name}; check cable and switch port, or correct {SITE_FILES}."
            )
    return sentences


def judge_bytes(ends: Pair, moved: Exchanged, fabric: Fabric) -> list[str]:
    """Sentences unless the fabric, and nothing else, carried it between
    two nodes: else something else was timed.
    """
    if ends.server.host == ends.client.host:
        return [
            f"server and client both ran on {ends.server.host}, so nothing went over {fabric.name}."
        ]
    sentences = []
    for end in (ends.server, ends.client):
        if end.after.others:
            most = max(OTHER_FLOOR_BYTES, OTHER_FRACTION * (moved.sent + moved.returned))
            sentences += name_others(end, fabric, most)
        else:
            only = (
                f"{end.host} recorded only interface {end.interface}, so others may have been used."
            )
            sentences.append(only)
        to, fro = most_bytes(moved, fabric, end.seconds)
        sent, received = (fro, to) if end.end == "server" else (to, fro)
        sentences += [
            f"somebody else used the link: {end.interface} of {end.host} {verb} "
            f"{format_bytes(end.bytes_of(counter))}, and the two can have exchanged "
            f"{format_bytes(round(most))} that way, or the link loses packets; measure again when "
            "it is idle."
            for counter, most, verb in (
                ("tx_bytes", sent, "sent"),
                ("rx_bytes", received, "received"),
            )
            if end.bytes_of(counter) > most
        ]
    return sentences


def name_others(end: End, fabric: Fabric, most: float = OTHER_FLOOR_BYTES) -> list[str]:
    excused = {LOOPBACK, *fabric.tcp_interfaces}
    return [
        f"asked for {fabric.name} ({end.interface}), but {name} of {end.host} also carried "
        f"{format_bytes(carried)}."
        for name, carried in end.others_carried().items()
        if carried > most and name not in excused and not MIRRORS.fullmatch(name)
    ]


def most_bytes(moved: Exchanged, fabric: Fabric, seconds: float) -> tuple[float, float]:
    """The most bytes that an exchange puts on the link from client to server,
    and back, headers and acknowledgements included.

    Each packet has the largest headers there are and is acknowledged by one of its own; added is
    what the counters of two nodes may differ by, what a segment sent again takes, and what others
    may use of a link before that changes a number.
    """
    payload = max((fabric.mtu_bytes or LEAST_MTU_BYTES) - HEADER_BYTES, 1)
    packets = sum(
        math.ceil(data / payload) + moved.messages for data in (moved.sent, moved.returned) if data
    )
    rate = fabric.line_rate_gbit_per_s
    allowed = max(
        OTHER_FLOOR_BYTES, 0.0 if rate is None else BACKGROUND_FRACTION * rate * 1e9 / 8 * seconds
    )
    to, fro = (
        (data + HEADER_BYTES * packets) * (1 + COUNTING_FRACTION) + allowed
        for data in (moved.sent, moved.returned)
    )
    return to, fro


@dataclass(frozen=True)
class MapStep:
    """All pairs of a round of a map in one direction.

    :param pairs: numbers of the receiving node, which is the server, and of the sending one.
    """

    order: int
    round: int
    phase: int
    pairs: tuple[tuple[int, int], ...]

    @property
    def folder(self) -> str:
        """Where its ends leave their records, each step apart: some file
        systems are slow with many files in one folder.
        """
        return f"{FOLDER}/{self.round}.{self.phase}"

    @property
    def words(self) -> str:
        """Its pairs as ``end.py`` is given them."""
        return ",".join(f"{server}-{client}" for server, client in self.pairs)


@dataclass(frozen=True)
class MapPair:
    """One pair in one direction.

    :param numbers: of its nodes, the server's first.
    """

    step: MapStep
    numbers: tuple[int, int]
    measured: Measured

    @property
    def mb_per_s(self) -> float | None:
        """What arrived; ``None`` if the program failed."""
        return self.measured.record.values.get(BANDWIDTH) if self.measured.record else None


@dataclass
class MeasuredMap:
    """A map of the wire.

    :param hosts: of the nodes by their numbers; :attr:`silent`: those of them
        that left no record, and why that is known.
    :param findings: status and sentence of everything that is wrong,
        each once, with the pairs it is of.
    """

    pairs: list[MapPair]
    hosts: tuple[str, ...]
    silent: dict[str, str] = field(default_factory=dict)
    findings: list[tuple[str, str]] = field(default_factory=list)

    @property
    def seen(self) -> list[str]:
        return [host for host in self.hosts if host not in self.silent]

    @property
    def ends(self) -> list[End]:
        return [end for row in self.pairs for end in row.measured.both]

    def values(self, message_bytes: int) -> tuple[PairValue, ...]:
        return tuple(
            PairValue(
                row.step.order,
                row.step.round,
                row.step.phase,
                self.hosts[row.numbers[1]],
                self.hosts[row.numbers[0]],
                BANDWIDTH,
                message_bytes,
                1,
                row.mb_per_s,
                row.measured.counted,
            )
            for row in self.pairs
        )


def read_map(
    directory: Path,
    steps: Sequence[MapStep],
    nodes: int,
    launch: PairLaunch,
    group: PairGroup,
    fabric: Fabric,
    job: Iterable[str],
) -> MeasuredMap:
    """Read and judge the records of all ends.

    :param directory: of the job; ``job``: the names of its nodes, as the scheduler has them.
    """
    pairs: list[MapPair] = []
    pairs_of: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for step in steps:
        begun = (directory / step.folder).is_dir()
        nothing = Measured(
            findings=[(MISSING, "neither server nor client left a record.")] if begun else []
        )
        for numbers in step.pairs:
            source = f"{step.folder}/{numbers[0]}-{numbers[1]}"
            measured = read_launch(directory, source, launch, group, fabric) or nothing
            pairs.append(MapPair(step, numbers, measured))
            for status, sentence in measured.findings:
                pairs_of.setdefault((status, sentence.removeprefix(f"{source}: ")), []).append(
                    numbers
                )
    hosts, silent, strange = _name_nodes(pairs, nodes, [name_of(host) for host in job])
    findings = [(CONTRADICTED, sentence) for sentence in strange]
    for (status, sentence), where in pairs_of.items():
        named = [f"{hosts[client]} to {hosts[server]}" for server, client in dict.fromkeys(where)]
        findings.append((status, f"{few(named, NAMED)}: {sentence}"))
    folders = {step.folder for step in steps if any((directory / step.folder).glob("*.*"))}
    if len(folders) < len(steps):
        findings.insert(
            0,
            (
                MISSING,
                f"{len(folders)} of {len(steps)} steps started: the job ended early, or gave up.",
            ),
        )
    return MeasuredMap(pairs, hosts, silent, findings)


def _name_nodes(
    pairs: Iterable[MapPair], nodes: int, job: Sequence[str]
) -> tuple[tuple[str, ...], dict[str, str], list[str]]:
    """The nodes by their numbers, those without a record with why, and sentences on what cannot be.

    Slurm numbers tasks in the order of the job's nodes, so that those of
    which nothing is known are the rest, in that order.
    """
    there: dict[int, set[str]] = {number: set() for number in range(nodes)}
    for row in pairs:
        for number, end in zip(row.numbers, row.measured.both, strict=False):
            there[number].add(name_of(end.host))
    strange = [
        f"task {number} of the job ran on {' and on '.join(sorted(hosts))}; run it again."
        for number, hosts in there.items()
        if len(hosts) > 1
    ][:1]
    names = {number: min(hosts) for number, hosts in there.items() if hosts}
    if len(set(names.values())) < len(names):
        strange.append("two tasks of the job ran on one node instead of one on each.")
        count = Counter(names.values())
        names = {
            number: f"{name} ({number})" if count[name] > 1 else name
            for number, name in names.items()
        }
    unseen = [number for number in range(nodes) if number not in names]
    left = [host for host in job if host not in names.values()]
    for at, number in enumerate(unseen):
        names[number] = left[at] if len(left) == len(unseen) else f"node {number + 1} of the job"
    silent = {names[number]: "left no record" for number in unseen}
    return tuple(names[number] for number in range(nodes)), silent, strange

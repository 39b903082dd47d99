"""What records say of a run: numbers first, and what cannot be known.

Bytes of a network are those that the kernel counted on the nodes' interfaces and ports between the
first MPI_Init and the last MPI_Finalize, whoever sent them; what the ranks' own TCP sockets sent is
said beside it (:mod:`reframe_tests.harness.evidence.traffic`). Memory that ranks of one node share
is not counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from mpibench.stacks import probe
from reframe_tests.harness.evidence import checks, gpu_use, link_state, traffic
from reframe_tests.harness.evidence.checks import by_host, format_cpus, name_ranks
from reframe_tests.harness.evidence.rank_records import RankEvidence
from reframe_tests.harness.mpis import registry as mpis
from reframe_tests.harness.printable import first_line, format_bytes, plural
from reframe_tests.harness.vocabulary import BadInput

from . import BYTES_FROM, FORMS
from .launch import RecordedRun, why_none

#: Networks, nodes and libraries that a line names.
FEW = 4
NOTHING_COUNTS = "no interface or port here counts bytes"
#: Exit status of a run that is not what was expected.
CONTRADICTED = 3


class NetworkUse(msgspec.Struct, frozen=True):
    """Bytes that left the nodes by a network, by the kernel's counters.

    :param by_ranks_bytes: of these, what the ranks' own TCP sockets sent.
    :param counted_by: another one that counts these bytes, too, as bonds and RDMA ports do; or
        empty.
    :param rate_gbit_per_s: of its links; null where they say none, or one that is nobody's
        (:func:`link_state.is_physical`).
    :param kernel: it is an interface of the kernel's network stack, and no RDMA port.
    """

    name: str
    sent_bytes: int
    by_ranks_bytes: int
    counted_by: str
    rate_gbit_per_s: float | None
    kernel: bool


class NodeCores(msgspec.Struct, frozen=True):
    """Where the kernel lets the ranks of a node run.

    :param bound: not all may run on every CPU that the node leaves to the job.
    :param own: no two may run on one core, including ranks of other launches at the same time; null
    where
        that is unknown, because the node's CPUs are threads of cores (SMT) and the kernel does
        not say of which.
    :param least: CPUs of the rank with the fewest; ``most``: of that with the most.
    """

    host: str
    ranks: int
    cpus: str
    bound: bool
    own: bool | None
    least: int
    most: int

    @property
    def text(self) -> str:
        ranks = plural(self.ranks, "rank")
        if not self.bound:
            return f"{self.host}: not bound: {ranks} on CPUs {self.cpus}"
        each = str(self.least) if self.least == self.most else f"{self.least} to {self.most}"
        whose = {
            True: "of its own",
            False: "whose cores others use, too",
            None: "of its own, maybe threads of one core,",
        }
        return (
            f"{self.host}: {'each of ' * (self.ranks > 1)}{ranks} on {each} "
            f"CPU{'s'[: self.most != 1]} {whose[self.own]} ({self.cpus})"
        )


class LaunchProof(msgspec.Struct, frozen=True):
    """One MPI program of a run.

    :param ranks: those that left a record; ``size`` is what the launcher or MPI says.
    :param libraries: first line and file of each MPI library, with the number of ranks.
    :param networks: the most used first.
    :param uncounted: RDMA ports of the nodes that count nothing here.
    :param inside_tcp_bytes: what ranks of one node sent each other over TCP; a lower bound without
        ``tcp_known``.
    :param placement: ranks that cannot each have a core, and those that were moved meanwhile.
    :param problems: why not everything is known of it.
    """

    program: str
    ranks: int
    size: int | None
    nodes: list[str]
    libraries: list[tuple[str, str, int]]
    mpis: list[str]
    networks: list[NetworkUse]
    uncounted: list[str]
    inside_tcp_bytes: int
    tcp_known: bool
    seconds: float | None
    settings: str
    cores: list[NodeCores]
    placement: list[str]
    memory: list[str]
    gpus: list[str]
    problems: list[str]
    notes: list[str]

    @property
    def wires(self) -> list[NetworkUse]:
        """Networks, none of which counts what another counts."""
        return [one for one in self.networks if not one.counted_by]

    def of_ranks(self, one: NetworkUse) -> int:
        """The most that ranks sent by it; where others sent as well, their sockets say it."""
        known = one.kernel and self.tcp_known
        return min(one.by_ranks_bytes, one.sent_bytes) if known else one.sent_bytes


class Expectation(msgspec.Struct, frozen=True):
    """Something expected of a run; ``holds`` is null where it cannot be known.

    :param launch: number of the one that ``why`` is of, from 1; null where there is only one, or
        none.
    """

    asked: str
    holds: bool | None
    why: str
    launch: int | None = None


class RunProof(msgspec.Struct, frozen=True):
    """The answer of ``mpibench prove``, as ``--json`` writes it."""

    command: list[str]
    exit_status: int
    launches: list[LaunchProof]
    problems: list[str]
    expectations: list[Expectation]

    @property
    def status(self) -> int:
        """The command's exit status; :data:`CONTRADICTED` where only an expectation failed."""
        failed = any(one.holds is not True for one in self.expectations)
        return self.exit_status or (CONTRADICTED if failed else 0)

    def lines(self) -> Iterator[str]:
        """What a reader wants to know, a few lines a launch."""
        for number, launch in enumerate(self.launches, 1):
            first, *more = _lines(launch)
            yield f"launch {number}: {first}" if len(self.launches) > 1 else first
            yield from more
        yield from self.problems[:FEW]
        if (others := len(self.problems) - FEW) > 0:
            yield f"and {others} more of these: --json has all"
        for one in self.expectations:
            word = {True: "as expected", False: "NOT AS EXPECTED", None: "NOT KNOWN"}[one.holds]
            where = f"launch {one.launch}: " if one.launch else ""
            yield f"{word}: {one.asked}: {where}{one.why}"


def prove(run: RecordedRun, expected: Sequence[str], bytes_from: int = BYTES_FROM) -> RunProof:
    """What the records of a run say.

    :param expected: words of ``--expect``, checked by :func:`check_words`.
    :param bytes_from: fewer bytes between nodes are no traffic of the program.
    """
    launches = [
        _launch(ranks, _beside(ranks, run.launches), _twins(ranks, run.launches))
        for ranks in run.launches
    ]
    problems = list(run.damaged)
    if not launches:
        problems.insert(0, f"No rank left a record: {why_none(run.words, run.status)}.")
    expectations = [_expectation(word, launches, bytes_from) for word in expected]
    return RunProof(list(run.words), run.status, launches, problems, expectations)


def _beside(
    ranks: Sequence[RankEvidence], launches: Sequence[Sequence[RankEvidence]]
) -> dict[str, list[RankEvidence]]:
    """Ranks of other launches that ran at the same time, by node."""
    return {
        host: [
            one
            for other in launches
            if other is not ranks
            for one in other
            if one.host == host
            and one.init.monotonic_ns <= max(rank.last.monotonic_ns for rank in there)
            and one.last.monotonic_ns >= min(rank.init.monotonic_ns for rank in there)
        ]
        for host, there in by_host(ranks).items()
    }


def _twins(ranks: Sequence[RankEvidence], launches: Sequence[Sequence[RankEvidence]]) -> int:
    """How many other processes of a program were a world of one rank each at the same time, as they
    are where launcher and MPI do not know each other, and no number of the launcher's is read.
    """
    one = ranks[0]
    return sum(
        len(other) == 1 == other[0].size
        and (other[0].host, other[0].executable) == (one.host, one.executable)
        and one.loaded_ns <= other[0].last.monotonic_ns
        and other[0].loaded_ns <= one.last.monotonic_ns
        for other in launches
        if other is not ranks and len(ranks) == 1 == one.size
    )


def _launch(
    ranks: Sequence[RankEvidence], beside: Mapping[str, Sequence[RankEvidence]], twins: int
) -> LaunchProof:
    size = ranks[0].size
    hosts = by_host(ranks)
    nodes = traffic.node_traffic(ranks)
    libraries: dict[tuple[str, str], int] = {}
    for rank in ranks:
        key = (_banner(rank), rank.library or "an unknown file")
        libraries[key] = libraries.get(key, 0) + 1
    problems = [problem for node in nodes for problem in node.problems]
    if twins:
        problems.append(
            f"{twins + 1} processes of this program ran side by side, each an MPI world of one "
            "rank. If they should be one world, launcher and MPI library do not speak the same "
            f"PMI{_spoken(ranks[0])}."
        )
    elif size == 1 < len(ranks):
        problems.append(
            f"{len(ranks)} processes are MPI worlds of one rank each: launcher and MPI library do "
            f"not speak the same PMI{_spoken(ranks[0])}."
        )
    elif size is None or any(rank.rank is None for rank in ranks):
        problems.append(
            "no launcher told the ranks their rank and number, so missing ranks go unnoticed: use "
            "a supported launcher (docs/reference/mpis-and-launchers.md)."
        )
    elif len(ranks) < size:
        problems.append(
            f"{len(ranks)} of {size} ranks left a record: the others were killed, ran without the "
            "library, or could not write to the folder (name a shared one with --dir)."
        )
    if lost := [rank for rank in ranks if not rank.finalize]:
        problems.append(
            f"{name_ranks(lost)} never called MPI_Finalize, or could not record it, so what they "
            "sent is unknown."
        )
    several = ["the ranks do not all run the same MPI library."] * (len(libraries) > 1)
    inside = sum(node.sent_by_ranks.get(traffic.LOOPBACK, 0) for node in nodes)
    return LaunchProof(
        program=ranks[0].executable,
        ranks=len(ranks),
        size=size,
        nodes=list(hosts),
        libraries=[(*key, count) for key, count in libraries.items()],
        mpis=sorted({_family(rank) for rank in ranks} - {""}),
        networks=_networks(ranks, nodes),
        uncounted=_uncounted(nodes),
        inside_tcp_bytes=inside,
        tcp_known=bool(nodes) and all(node.ranks_known for node in nodes),
        seconds=max((rank.seconds for rank in ranks if rank.seconds), default=None),
        settings=traffic.chosen_by(ranks).strip(" ()"),
        cores=[_cores(host, there, beside[host]) for host, there in hosts.items()],
        placement=checks.check_placement(ranks, "default"),
        memory=list(_memory(ranks)),
        gpus=[text for rank in gpu_use.rows_of(ranks) for text in _gpu(rank)],
        problems=problems,
        notes=[*several, *checks.check_clocks(ranks), *checks.disturbances(ranks)],
    )


def _banner(rank: RankEvidence) -> str:
    """First words of what the library says of itself: its name and version."""
    line = first_line(rank.library_version or "")
    return " ".join(line.split(",")[0].split()) or "an MPI that does not say its version"


def _family(rank: RankEvidence) -> str:
    """Name of the MPI, as in ``stack.json``; empty where the library is of none that is known."""
    try:
        return probe.identify(rank.library_version or "", rank.library or "").mpi
    except BadInput:
        return ""


def _spoken(rank: RankEvidence) -> str:
    """What Slurm has to be told for a library, in brackets; empty if that is unknown."""
    pmi = mpis.find(_family(rank)).pmi if _family(rank) else ""
    return f" (Slurm: srun --mpi={pmi})" * bool(pmi)


def _networks(
    ranks: Sequence[RankEvidence], nodes: Sequence[traffic.NodeTraffic]
) -> list[NetworkUse]:
    sent = traffic.total_sent(nodes)
    once = traffic.each_wire_once(sent, nodes)
    same = {
        name: {name, *(other for node in nodes for other in node.same_wire.get(name, ()))}
        for name in sent
    }
    by = {name: next((one for one in once if name in same[one]), None) for name in sent}
    own: dict[str, int] = {}
    for node in nodes:
        for name, count in node.sent_by_ranks.items():
            own[name] = own.get(name, 0) + count
    rates: dict[str, float] = {}
    for rank in ranks:
        for name, link in (rank.last.links or {}).items():
            if link_state.is_physical(rank, name) and (rate := _rate(link)):
                rates[name] = rate
    networks = [
        NetworkUse(
            name,
            count,
            sum(own.get(other, 0) for other in same[name]),
            "" if name in once else kept,
            rates.get(name),
            "/" not in name,
        )
        for name, count in sent.items()
        if name != traffic.LOOPBACK and (kept := by[name])
    ]
    return sorted(networks, key=lambda one: -one.sent_bytes)


def _rate(link: Mapping[str, int | str]) -> float | None:
    """Line rate in Gbit/s of what a link says of itself."""
    speed = link.get("speed_mbit_per_s")
    if isinstance(speed, int) and speed > 0:
        return speed / 1000
    rate = link_state.RATE.match(str(link.get("rate", link.get("speed", ""))))
    return float(rate[1] or rate[2]) if rate else None


def _uncounted(nodes: Sequence[traffic.NodeTraffic]) -> list[str]:
    return sorted(
        {
            name
            for node in nodes
            for name in node.present
            if "/" in name and (name not in node.counted or node.counted[name].tx is None)
        }
    )


def _cores(host: str, ranks: Sequence[RankEvidence], beside: Sequence[RankEvidence]) -> NodeCores:
    first = ranks[0]
    sets = [rank.init.cpus for rank in ranks]
    every = frozenset[int]().union(*sets)
    left = (first.cpuset or first.online) & first.online
    cores = [rank.init.siblings or rank.init.cpus for rank in ranks]
    used = frozenset[int]().union(*cores)
    apart = sum(map(len, cores)) == len(used) and not any(used & rank.init.cpus for rank in beside)
    unknown = any(rank.init.siblings is None for rank in ranks)
    threads = unknown and len(ranks) + len(beside) > 1 and first.kernel.get("smt_active") != "0"
    return NodeCores(
        host=host,
        ranks=len(ranks),
        cpus=format_cpus(every),
        bound=any(cpus != left for cpus in sets),
        own=None if apart and threads else apart,
        least=min(map(len, sets)),
        most=max(map(len, sets)),
    )


def _memory(ranks: Sequence[RankEvidence]) -> Iterator[str]:
    """NUMA nodes of the ranks, and those of the node's adapters, where there are several."""
    for host, there in by_host(ranks).items():
        nodes: dict[int, list[RankEvidence]] = {}
        for rank in there:
            if rank.init.numa_node is not None:
                nodes.setdefault(rank.init.numa_node, []).append(rank)
        adapters = next((rank.adapters for rank in there if rank.adapters), {})
        near = [
            f"{name} on NUMA node {adapter.numa_node}"
            for name, adapter in sorted(adapters.items())
            if adapter.numa_node is not None
        ]
        if len(nodes) > 1 or near:
            where = ", ".join(
                f"{plural(len(same), 'rank')} on NUMA node {node}"
                for node, same in sorted(nodes.items())
            )
            yield f"{host}: {', '.join([where, *near[:FEW]])}"


def _gpu(row: Mapping[str, Any]) -> Iterator[str]:
    if row:
        near = row.get("nearest_adapters") or ()
        yield f"GPU {row['gpu']} {row['gpu_name']}" + f", nearest {', '.join(near)}" * bool(near)


def _network(one: NetworkUse) -> str:
    rate = f" ({one.rate_gbit_per_s:g} Gbit/s)" if one.rate_gbit_per_s else ""
    own = f", {format_bytes(one.by_ranks_bytes)} of it the ranks' TCP" if one.by_ranks_bytes else ""
    return f"{format_bytes(one.sent_bytes)} by {one.name}{rate}{own}"


def _lines(launch: LaunchProof) -> Iterator[str]:
    """A launch as text."""
    many = f" and {len(launch.nodes) - FEW} more" if len(launch.nodes) > FEW else ""
    where = f"{plural(len(launch.nodes), 'node')} ({', '.join(launch.nodes[:FEW])}{many})"
    time = f", {launch.seconds:.3g} s in MPI" if launch.seconds else ""
    yield f"{plural(launch.ranks, 'rank')} of {launch.program} on {where}{time}"
    for banner, path, count in launch.libraries[:FEW]:
        who = "all ranks" if count == launch.ranks else plural(count, "rank")
        yield f"library: {banner}, {path}, in {who}"
    if len(launch.nodes) > 1:
        used = [one for one in launch.wires if one.sent_bytes] or launch.wires
        sent = "; ".join(map(_network, used[:FEW]))
        yield f"between nodes: {sent or NOTHING_COUNTS}"
    if launch.uncounted:
        yield f"not countable here: {', '.join(launch.uncounted[:FEW])}"
    if len(launch.nodes) < launch.ranks:
        tcp = launch.inside_tcp_bytes
        over = f"{format_bytes(tcp)} over TCP; " if tcp else ""
        yield f"inside nodes: {over}nothing counts shared memory"
    if launch.settings:
        yield f"settings: {launch.settings}"
    yield from (f"cores: {node.text}" for node in launch.cores[:FEW])
    yield from (f"cores: {text}" for text in launch.placement)
    yield from (f"memory: {text}" for text in launch.memory[:FEW])
    yield from (f"gpu: {text}" for text in launch.gpus[:FEW])
    yield from launch.problems
    yield from launch.notes


# ---- expectations ----


def check_words(words: Sequence[str]) -> None:
    """:raises BadInput: an expectation is not one of :data:`EXPECTED`."""
    for word in words:
        name, equals, value = word.partition("=")
        form = FORMS.get(name)
        if not form or bool(equals) != ("=" in form) or (equals and not value):
            raise BadInput(
                "bad-option", f"--expect {word}: give one of {', '.join(FORMS.values())}."
            )
        if name == "mpi" and value not in mpis.known():
            raise BadInput(
                "unknown-name",
                f"--expect {word}: MPIs are {', '.join(sorted(mpis.known()))}.",
            )
        if name == "cores" and value != "own":
            raise BadInput("bad-option", f"--expect {word}: expected {form}.")


def _fabric(name: str, launch: LaunchProof, bytes_from: int) -> tuple[bool | None, str]:
    """``shm``: one node and no TCP; ``tcp``: the ranks' sockets sent most, of what is counted where
    that is one node; else a device.
    """
    sent = sum(map(launch.of_ranks, launch.wires))
    own = sum(one.by_ranks_bytes for one in launch.wires)
    if name == "shm" and len(launch.nodes) > 1:
        return False, f"the ranks are on {len(launch.nodes)} nodes"
    if launch.uncounted:
        return None, f"{', '.join(launch.uncounted[:FEW])}: nothing counts what it sends"
    blind = None, "not all sockets of the ranks could be counted"
    if name == "shm":
        tcp = launch.inside_tcp_bytes
        rdma = sum(one.sent_bytes for one in launch.wires if not one.kernel)
        text = f"{format_bytes(tcp)} went over TCP and {format_bytes(rdma)} by RDMA ports"
        little = tcp < bytes_from and rdma < bytes_from
        return blind if little and not launch.tcp_known else (little, f"{text} inside the node")
    if name == "tcp" and len(launch.nodes) == 1 < launch.ranks:
        sent += launch.inside_tcp_bytes
        own += launch.inside_tcp_bytes
    elif len(launch.nodes) == 1:
        return None, "all ranks are on one node, so nothing needs to leave it"
    if sent < bytes_from or not sent:
        where = "left the nodes" if len(launch.nodes) > 1 else "went over TCP"
        text = f"only {format_bytes(sent)} of the ranks {where}"
        return None, f"{text}; set the least that counts with --bytes-from"
    if name == "tcp":
        most = own > sent / 2
        text = f"{format_bytes(own)} of {format_bytes(sent)} was the ranks' TCP"
        return blind if not most and not launch.tcp_known else (most, text)
    asked = [one for one in launch.networks if name in (one.name, _device(one.name))]
    mine = sum(map(launch.of_ranks, asked))
    first = max(launch.wires, key=launch.of_ranks)
    why = f"{format_bytes(mine)} of {format_bytes(sent)} went by {name}"
    why += ", which no node has" * (not asked)
    if mine < sent / 2 and first not in asked:
        why += f", {format_bytes(launch.of_ranks(first))} by {first.name}"
    return mine >= sent * (1 - 2 * traffic.OTHER_FRACTION), why


def _device(name: str) -> str:
    return name.partition("/")[0]


def _no_ethernet(_: str, launch: LaunchProof, bytes_from: int) -> tuple[bool | None, str]:
    if len(launch.nodes) == 1:
        return True, "all ranks are on one node"
    if not launch.networks:
        return None, NOTHING_COUNTS
    kernel = [
        one
        for one in launch.networks
        if one.kernel and one.sent_bytes and (not one.counted_by or "/" in one.counted_by)
    ]
    count = sum(one.sent_bytes for one in kernel)
    names = ", ".join(one.name for one in kernel[:FEW]) or "the kernel's interfaces"
    return count < bytes_from, f"{format_bytes(count)} left the nodes by {names}"


def _own_cores(_: str, launch: LaunchProof, bytes_from: int) -> tuple[bool | None, str]:
    if launch.placement:
        return False, launch.placement[0]
    worst = min(launch.cores, key=lambda node: (False, None, True).index(node.own))
    return worst.own, worst.text


def _mpi(name: str, launch: LaunchProof, bytes_from: int) -> tuple[bool | None, str]:
    banner, path, _ = launch.libraries[0]
    alone = len(launch.libraries) == 1
    return (alone and launch.mpis == [name]) if launch.mpis else None, f"{banner}, {path}"


#: Words of ``--expect``, and whether one launch is so: with the word's value and the fewest bytes
#: that count; ``None``: it cannot be known.
EXPECTED: Mapping[str, Callable[[str, LaunchProof, int], tuple[bool | None, str]]] = {
    "fabric": _fabric,
    "no-ethernet": _no_ethernet,
    "cores": _own_cores,
    "mpi": _mpi,
}


def _expectation(word: str, launches: Sequence[LaunchProof], bytes_from: int) -> Expectation:
    """Of every launch: the first that does not hold decides."""
    name, _, value = word.partition("=")
    found = []
    for number, launch in enumerate(launches, 1):
        holds, why = EXPECTED[name](value, launch, bytes_from)
        if holds and launch.problems:
            holds = None
            why = launch.problems[0]
        found.append(Expectation(word, holds, why, number if len(launches) > 1 else None))
    unknown = Expectation(word, None, "no rank left a record")
    return min(found, key=lambda one: (False, None, True).index(one.holds), default=unknown)

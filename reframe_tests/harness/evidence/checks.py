"""The checks on what the ranks recorded: each returns sentences, and none means proven.

Were all ranks there (:func:`check_presence`), was it the MPI asked for (:func:`check_library`), where did the ranks run
(:func:`check_placement`), did all clocks go alike (:func:`check_clocks`), had each rank what was set
(:func:`check_settings`)? Which network carried the bytes is asked in :mod:`.counters`. Everything here is pure.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from ..launchers import registry as launchers
from ..mpis import registry as mpis
from ..stacks.stack import Stack
from .rank_records import RankEvidence

#: Words of a note on ranks that shared their core with other programs; reports count the cases that have one.
LOST_CORE = "lost the core to others often"
#: Involuntary context switches per second of one rank worth a note. A rank that loses its core waits up to a
#: scheduler slice, about 3 ms (Linux, kernel/sched/fair.c, sysctl_sched_base_slice, 8 and more CPUs): 10/s are 3 %.
CONTENTION_PER_S = 10.0
#: File name of the recorder (``recorder.path_in``).
RECORDER = re.compile(r"recorder-\w+-[0-9a-f]{12}\.so")
#: A core, by its number or with its node.
Core = TypeVar("Core", int, tuple[str, int])
Fact = TypeVar("Fact")
#: Difference in s from which clocks are called wrong: far more than ranks of one world may be apart when MPI_Init returns to
#: them and when they call MPI_Finalize, and a tenth of what munge and Kerberos bear.
TOLERANCE_S = 30.0
#: Characters of a value that are shown in a sentence.
_SHOWN = 160
#: Search paths, in front of which a launcher may put its own folders (Open MPI's mpirun(1), ``--prefix``).
SEARCH_PATHS = ("PATH", "LD_LIBRARY_PATH")
#: Ranks on several nodes that are named one by one in a sentence.
MOST_NAMED = 4


def format_cpus(cpus: Iterable[int]) -> str:
    """CPUs as the kernel writes them: ``0-3,8``; ``none`` for no CPU."""
    runs: list[list[int]] = []
    for cpu in sorted(cpus):
        if runs and cpu == runs[-1][1] + 1:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs) or "none"


def _cores(cpus: Iterable[int]) -> str:
    listed = sorted(cpus)
    return f"core{'s' if len(listed) != 1 else ''} {format_cpus(listed)}"


def name_ranks(ranks: Sequence[RankEvidence]) -> str:
    """``rank 3 on c2``, ``ranks 0 and 1 on c1``, ``rank 0 on c1 and rank 1 on c2``, ``ranks 0-63 on 4 nodes``."""
    if len(ranks) == 1:
        return ranks[0].name
    hosts = sorted({rank.host for rank in ranks})
    if len(hosts) > 1 and len(ranks) <= MOST_NAMED:
        return f"{', '.join(rank.name for rank in ranks[:-1])} and {ranks[-1].name}"
    numbers = [rank.rank for rank in ranks if rank.rank is not None]
    where = hosts[0] if len(hosts) == 1 else f"{len(hosts)} nodes"
    listed = " and ".join(map(str, sorted(numbers))) if len(numbers) == 2 else format_cpus(numbers)
    return f"ranks {listed} on {where}"


def by_host(ranks: Iterable[RankEvidence]) -> dict[str, list[RankEvidence]]:
    """Ranks of each node in rank order, nodes by name."""
    hosts: dict[str, list[RankEvidence]] = {}
    for rank in sorted(ranks, key=lambda rank: (rank.host, rank.rank is None, rank.rank)):
        hosts.setdefault(rank.host, []).append(rank)
    return hosts


# ---- presence ----


def check_presence(ranks: Sequence[RankEvidence], nodes: int, ppn: int) -> list[str]:
    """Sentences unless each of ``nodes * ppn`` ranks left one record, to its end, in one job, ``ppn`` on each node."""
    expected = nodes * ppn
    if not ranks:
        return [
            f"none of the {expected} ranks left evidence: the program did not start, it never called MPI_Init, or "
            "LD_PRELOAD and MPIBENCH_EVIDENCE did not reach it."
        ]
    alone = [rank for rank in ranks if rank.size == 1]
    if expected > 1 and len(alone) == len(ranks):
        return [
            f"{_count(len(ranks), 'process', 'processes')} started as MPI worlds of one rank each, {expected} ranks in "
            "one world were asked for: launcher and MPI library do not speak the same process management interface (PMI)."
        ]
    return [
        *_check_sizes(ranks, expected),
        *_check_numbers(ranks, expected),
        *_check_ends(ranks),
        *_check_nodes(ranks, nodes, ppn),
        *_check_job(ranks),
    ]


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"


def _check_sizes(ranks: Sequence[RankEvidence], expected: int) -> list[str]:
    wrong = Counter(rank.size for rank in ranks if rank.size is not None and rank.size != expected)
    return [
        f"{_count(number, 'rank is', 'ranks are')} in a world of {size}, {expected} ranks in one world were asked for."
        for size, number in sorted(wrong.items())
    ]


def _check_numbers(ranks: Sequence[RankEvidence], expected: int) -> list[str]:
    found: dict[int, list[RankEvidence]] = {}
    for rank in ranks:
        if rank.rank is not None:
            found.setdefault(rank.rank, []).append(rank)
    sentences = [
        f"rank {number} left evidence {len(same)} times ({', '.join(f'{r.host} pid {r.pid}' for r in same)}); "
        "each rank is one process."
        for number, same in sorted(found.items())
        if len(same) > 1
    ]
    unknown = [rank for rank in ranks if rank.rank is None]
    sentences += [
        f"process {rank.pid} on {rank.host} does not know its rank; "
        + (f"{rank.rank_source} of its launcher is no number." if rank.rank_source else "no launcher announced it.")
        for rank in unknown
    ]
    strange = sorted(number for number in found if number >= expected)
    if strange:
        sentences.append(f"ranks {format_cpus(strange)} left evidence, {expected} ranks were asked for.")
    missing = sorted(set(range(expected)) - set(found))
    if missing and not unknown:
        who = f"rank {missing[0]}" if len(missing) == 1 else f"ranks {format_cpus(missing)}"
        sentences.append(
            f"{who} of {expected} left no evidence: not started, killed before MPI_Init returned, or no room to write."
        )
    return sentences


def _check_ends(ranks: Sequence[RankEvidence]) -> list[str]:
    lost = [rank for rank in ranks if not rank.finalize]
    return [f"{name_ranks(lost)} never called MPI_Finalize: killed, hung or ended early."] if lost else []


def _check_nodes(ranks: Sequence[RankEvidence], nodes: int, ppn: int) -> list[str]:
    counts = {host: len(there) for host, there in by_host(ranks).items()}
    if len(ranks) != nodes * ppn or (len(counts) == nodes and set(counts.values()) == {ppn}):
        return []  # a wrong number of ranks is said elsewhere
    listed = ", ".join(f"{host} ({number})" for host, number in counts.items())
    return [f"asked for {ppn} per node on {_count(nodes, 'node', 'nodes')}, the ranks ran on {listed}."]


def _check_job(ranks: Sequence[RankEvidence]) -> list[str]:
    jobs = sorted({rank.job for rank in ranks})
    return [f"evidence of several jobs is mixed up ({', '.join(job or 'none' for job in jobs)})."] if len(jobs) > 1 else []


# ---- library ----


def same_library(path: str, expected: str) -> bool:
    """True when two resolved paths are one MPI installation's library.

    Wheels hold ``libmpi.so`` and ``libmpi.so.12`` as copies, because they cannot hold links, and ``libmpi_abi.so`` is the
    same MPI behind the standard ABI; all of them sit in one folder.
    """
    real = os.path.realpath(expected)
    if path == real:
        return True
    stem, wanted = (os.path.basename(each).split(".so")[0] for each in (path, real))  # noqa: PTH119 (plain text)
    return os.path.dirname(path) == os.path.dirname(real) and stem in (wanted, "libmpi_abi")  # noqa: PTH120


def check_library(ranks: Sequence[RankEvidence], stack: Stack) -> list[str]:
    """Sentences unless every rank ran the stack's own MPI library, in the version the stack says it is."""
    wrong: dict[tuple[str, str], list[RankEvidence]] = {}
    sentences = []
    libraries = mpis.libraries()
    for rank in ranks:
        version, path = rank.library_version or "", rank.library or ""
        known = re.search(stack.library_version_pattern, version) and _has_version(version, stack.mpi_version)
        if not known or not same_library(path, stack.library):
            wrong.setdefault((version, path), []).append(rank)
        others = sorted(mapped for mapped in rank.mapped if _is_mpi(mapped, libraries) and not same_library(mapped, path))
        if others:
            sentences.append(f"{rank.name} has a second MPI library mapped beside {path}: {', '.join(others)}.")
    asked = f"{mpis.find(stack.mpi).title} {stack.mpi_version}{stack.of_modules} at {os.path.realpath(stack.library)}"
    for (version, path), same in wrong.items():
        ran = next((line.strip() for line in version.splitlines() if line.strip()), "an MPI that does not say its version")
        sentences.append(f"asked for {asked}, {name_ranks(same)} ran {ran} from {path or 'an unknown file'}.")
    return sentences


def _has_version(banner: str, wanted: str) -> bool:
    """Whether a library's banner has the version its metadata claim, to as many places as both have.

    Intel MPI 2021.18.1 may call itself 2021.18, MVAPICH2 2.3.7-1 calls itself 2.3.7. A banner without any version proves none.
    """
    claimed = re.split(r"[.-]", wanted)
    named = [re.split(r"[.-]", each) for each in re.findall(r"\d+(?:\.\w+)+(?:-\w+)?", banner)]
    return any(all(a == b for a, b in zip(claimed, each, strict=False)) for each in named)


def _is_mpi(path: str, libraries: Sequence[str]) -> bool:
    """Whether a file is an MPI library; two of them from different folders are two MPIs."""
    name, dot, _ = Path(path).name.partition(".so")
    return bool(dot) and name in libraries


# ---- placement ----


def check_placement(
    ranks: Sequence[RankEvidence],
    pinning: str,
    placement: Sequence[Sequence[int]] | None = None,
    *,
    core_of: Callable[[int], int] | None = None,
    may_share: bool = False,
) -> list[str]:
    """Sentences unless the kernel let each rank run where the policy says, and no two ranks had to share a core.

    :param pinning: policy asked for; with a ``placement`` it only names it.
    :param placement: CPUs (numbers of the operating system) per rank of a node, in rank order; none for the policies
        ``default`` and ``none``.
    :param core_of: core of a CPU where several CPUs are one core (SMT); by default each CPU is one.
    :param may_share: it is known, and stored with the case, that ranks share cores.
    """
    sentences = []
    for host, there in by_host(ranks).items():
        if placement is not None:
            sentences += _check_explicit(host, there, placement, pinning)
        elif pinning == "none":
            sentences += _check_unpinned(there)
        sentences += [] if may_share else _check_shared_cores(host, there, core_of or (lambda cpu: cpu))
    for rank in ranks:
        if rank.finalize and rank.finalize.cpus != rank.init.cpus:
            sentences.append(
                f"{rank.name} was moved during the run: {_cores(rank.init.cpus)} after MPI_Init, "
                f"{_cores(rank.finalize.cpus)} at the end."
            )
    return sentences


def _check_explicit(host: str, ranks: Sequence[RankEvidence], placement: Sequence[Sequence[int]], pinning: str) -> list[str]:
    if len(ranks) != len(placement):
        return [f"the placement is for {_count(len(placement), 'rank', 'ranks')} per node, {host} ran {len(ranks)}."]
    return [
        f"asked for {rank.name} on {_cores(wanted)} ({pinning}), the kernel lets it run on {_cores(rank.init.cpus)}."
        for rank, wanted in zip(ranks, placement, strict=True)
        if rank.init.cpus != frozenset(wanted)
    ]


def _check_unpinned(ranks: Sequence[RankEvidence]) -> list[str]:
    sentences = []
    for rank in ranks:
        # The launcher's own mask counts too: a batch system may confine a job by affinity without a cgroup.
        choices = [cpus for cpus in (rank.cpuset, rank.parent_cpus) if cpus] or [rank.online]
        if not any(rank.init.cpus == choice & rank.online for choice in choices):
            sentences.append(
                f"asked for no pinning, but {rank.name} may only run on {_cores(rank.init.cpus)} of {format_cpus(choices[0])}."
            )
    return sentences


def _check_shared_cores(host: str, ranks: Sequence[RankEvidence], core_of: Callable[[int], int]) -> list[str]:
    """Sentences for ranks that cannot all have a core of their own, whatever the scheduler does."""
    may = [sorted({core_of(cpu) for cpu in rank.init.cpus}) for rank in ranks]
    crowds: dict[frozenset[int], set[int]] = {}
    holder: dict[int, int] = {}
    for start in range(len(ranks)):
        crowd = find_crowd(start, may, holder)
        if crowd:
            cores = frozenset(core for index in crowd for core in may[index])
            crowds.setdefault(cores, set()).update(crowd)
    return [
        f"{name_ranks([ranks[index] for index in sorted(crowd)])} may {'both' if len(crowd) == 2 else 'all'} run on "
        f"{_cores(cores)} only: {_count(len(crowd), 'rank', 'ranks')} for {_count(len(cores), 'core', 'cores')}."
        for cores, crowd in crowds.items()
    ]


def find_crowd(start: int, may: Sequence[Sequence[Core]], holder: dict[Core, int]) -> set[int]:
    """Give rank ``start`` a core, moving others for it; else the ranks that stand in each other's way.

    Breadth-first augmenting path of bipartite matching (Kuhn 1955); the ranks reached when there is none have fewer
    cores between them than they are (Hall 1935).
    """
    came: dict[int, tuple[int, Core] | None] = {start: None}
    queue = [start]
    for rank in queue:
        for core in may[rank]:
            if core not in holder:
                step: tuple[int, Core] | None = (rank, core)
                while step:
                    rank, core = step
                    holder[core] = rank
                    step = came[rank]
                return set()
            if holder[core] not in came:
                came[holder[core]] = (rank, core)
                queue.append(holder[core])
    return set(came)


# ---- clocks ----
# Benchmarks time with CLOCK_MONOTONIC, so a wrong calendar clock does not change a number; but munge and Kerberos refuse
# credentials that are 300 s off (munge(7), time-to-live; RFC 4120, section 1.6), and then the node is lost to its cluster.


def check_clocks(ranks: Sequence[RankEvidence]) -> list[str]:
    """Sentences for nodes whose clock jumped during the run, and unless all nodes' clocks agree.

    Two nodes disagree when the ranks were apart in the same sense both after MPI_Init and before MPI_Finalize, by the
    smaller of the two differences.
    """
    first: dict[str, RankEvidence] = {}
    for rank in ranks:
        if rank.finalize:
            first.setdefault(rank.host, rank)
    there = [first[host] for host in sorted(first)]
    sentences = [
        f"the clock of {rank.host} jumped by {jump:+.0f} s during the run; see its time service (NTP, chrony)."
        for rank in there
        if abs(jump := _jump_s(rank)) > TOLERANCE_S
    ]
    if len(there) < 2 or sentences:
        return sentences
    ahead, behind = max(there, key=_at_init_s), min(there, key=_at_init_s)
    apart = min(_at_init_s(ahead) - _at_init_s(behind), _at_end_s(ahead) - _at_end_s(behind))
    if apart <= TOLERANCE_S:
        return []
    return [
        f"the clocks of {ahead.host} and {behind.host} disagree by {apart:.0f} s ({ahead.host} is ahead); see their time "
        "service (NTP, chrony)."
    ]


def _at_init_s(rank: RankEvidence) -> float:
    return rank.init.realtime_ns / 1e9


def _at_end_s(rank: RankEvidence) -> float:
    return rank.finalize.realtime_ns / 1e9 if rank.finalize else _at_init_s(rank)


def _jump_s(rank: RankEvidence) -> float:
    """Calendar time that passed between the snapshots beyond the time that passed."""
    return _at_end_s(rank) - _at_init_s(rank) - (rank.seconds or 0.0)


# ---- variables ----
# A launcher may drop a variable on the way to another node, a shell may cut its value, a user's profile may set it again. The
# number would then stand for another setting than the one stored beside it.


def check_settings(
    ranks: Sequence[RankEvidence], asked: Mapping[str, str], by_launcher: Mapping[str, str] | None = None
) -> list[str]:
    """Sentences unless every rank had each variable with the value that was asked for.

    What a launcher sets again (``SLURM_CPU_BIND``) is not compared: the ranks' CPU masks show what came of it.

    :param asked: name to value, taken literally.
    :param by_launcher: likewise, for variables the launcher reads; a rank may be without, but not have another value.
    """
    known = launchers.known().values()
    private = tuple(prefix for row in known for prefix in row.private)
    rewritten = tuple(prefix for row in known for prefix in row.rewritten)
    optional = {**(by_launcher or {}), **{name: value for name, value in asked.items() if name.startswith(private)}}
    sentences = []
    for name, value in {**asked, **optional}.items():
        if name.startswith(rewritten):
            continue
        wrong: dict[str | None, list[RankEvidence]] = {}
        for rank in ranks:
            had = _had(rank, name)
            if not _is(name, had, value) and not (had is None and name in optional):
                wrong.setdefault(had, []).append(rank)
        sentences += [
            f"asked for {name}={_show(value)}, but {name_ranks(there)} had {'none' if had is None else _show(had)}."
            for had, there in wrong.items()
        ]
    return sentences


def _had(rank: RankEvidence, name: str) -> str | None:
    """What a rank had of a variable; of ``LD_PRELOAD`` what stands behind the evidence library, which comes first."""
    value = rank.environment.get(name)
    if name != "LD_PRELOAD" or value is None:
        return value
    first, _, rest = value.partition(":")
    return (rest or None) if RECORDER.fullmatch(Path(first).name) else value


def _is(name: str, had: str | None, value: str) -> bool:
    """Whether a rank had the value that was asked for, behind folders of the launcher's own where these may stand."""
    return had == value or (name in SEARCH_PATHS and had is not None and had.endswith(f":{value}"))


def _show(value: str) -> str:
    """A value in quotes, cut where it is long: around the place that differs it would not fit a sentence anyway."""
    return repr(value) if len(value) <= _SHOWN else f"{value[:_SHOWN]!r}... ({len(value)} characters)"


# ---- notes ----


def contention_per_s(rank: RankEvidence) -> float | None:
    """Involuntary context switches per second between the snapshots; ``None`` if the rank never finalised."""
    if rank.finalize is None or not rank.seconds:
        return None
    return (rank.finalize.involuntary_switches - rank.init.involuntary_switches) / rank.seconds


def preloaded(rank: RankEvidence) -> tuple[str, ...]:
    """Libraries a rank was asked to preload beside the recorder: ``LD_PRELOAD``, colons or blanks between (ld.so(8))."""
    named = re.split(r"[:\s]+", rank.environment.get("LD_PRELOAD", ""))
    return tuple(name for name in named if name and not RECORDER.fullmatch(Path(name).name))


def notes(ranks: Sequence[RankEvidence]) -> list[str]:
    """Notes on ranks that MPI was not asked for, on libraries somebody else preloaded, and on ranks that often lost their core
    to others; they disprove nothing.
    """
    return [*_world_notes(ranks), *_preload_notes(ranks), *_contention_notes(ranks)]


def _world_notes(ranks: Sequence[RankEvidence]) -> list[str]:
    return [
        f"rank and size of {who} are the launcher's, not MPI's: {why}"
        for why, who in _named(ranks, lambda rank: rank.world_unknown)
    ]


def _preload_notes(ranks: Sequence[RankEvidence]) -> list[str]:
    return [
        f"{who} preloaded {', '.join(names)} beside the evidence library (LD_PRELOAD of the job or its nodes)"
        for names, who in _named(ranks, preloaded)
    ]


def _named(ranks: Sequence[RankEvidence], fact: Callable[[RankEvidence], Fact]) -> list[tuple[Fact, str]]:
    """Each fact that ranks have, with the names of those that have it."""
    groups: dict[Fact, list[RankEvidence]] = {}
    for rank in ranks:
        groups.setdefault(fact(rank), []).append(rank)
    return [(key, "all ranks" if len(same) == len(ranks) else name_ranks(same)) for key, same in groups.items() if key]


def _contention_notes(ranks: Sequence[RankEvidence]) -> list[str]:
    rates = [(rate, rank) for rank in ranks if (rate := contention_per_s(rank)) is not None]
    busy = [(rate, rank) for rate, rank in rates if rate >= CONTENTION_PER_S]
    if not busy:
        return []
    rate, worst = max(busy, key=lambda pair: pair[0])
    return [
        f"{_count(len(busy), 'rank', 'ranks')} {LOST_CORE}, {worst.name} {rate:.0f} times a second "
        f"(noted from {CONTENTION_PER_S:.0f} on)"
    ]

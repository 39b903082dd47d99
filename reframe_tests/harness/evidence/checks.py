"""The checks on what the ranks recorded: each returns sentences; no sentence means proven.

Are the records from this launch (:func:`check_launch`), were all ranks there
(:func:`check_presence`), was it the requested MPI (:func:`check_library`), where did the ranks run
(:func:`check_placement`), do all clocks agree (:func:`check_clocks`), did each rank have the
settings (:func:`check_settings`)? :mod:`.traffic` checks which network carried the bytes.
Everything here is pure.
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
from ..mpis.model import FORUM_ABI, FORUM_LIBRARY, FORUM_MAJOR
from ..printable import without_secrets
from ..stacks.stack import Stack
from .rank_records import RankEvidence

#: Words of a note on ranks that shared their core with other
#: programs; reports count the cases that have one.
#: Involuntary context switches per second of one rank worth a note. A rank that loses its core
#: waits up to a scheduler slice, about 3 ms (Linux, kernel/sched/fair.c, sysctl_sched_base_slice, 8
#: and more CPUs): 10/s are 3 %.
CONTENTION_PER_S = 10.0
#: File name of the recorder (``recorder.path_in``).
RECORDER = re.compile(r"recorder-\w+-[0-9a-f]{12}\.so")
#: Where the system has the time, by the file's name: the C library, musl's, the kernel's own page.
_CLOCKS = re.compile(r"lib(?:c|rt|pthread)[-.\d]*\.so|ld-musl-|linux-vdso")
#: A core, by its number or with its node.
Core = TypeVar("Core", int, tuple[str, int])
#: Difference in s from which clocks are called wrong: far more than ranks of one world may be apart
#: when MPI_Init returns to them and when they call MPI_Finalize, and a tenth of what munge and
#: Kerberos bear.
TOLERANCE_S = 30.0
#: Difference in s that may lie between two readings of one uptime: it is
#: said in hundredths (proc(5), /proc/uptime).
UPTIME_STEP_S = 0.01
#: Characters of a value that are shown in a sentence.
_SHOWN = 160
#: Search paths, in front of which a launcher may put its own
#: folders (Open MPI's mpirun(1), ``--prefix``).
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
    return (
        ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
        or "none"
    )


def _cores(cpus: Iterable[int]) -> str:
    listed = sorted(cpus)
    return f"core{'s' if len(listed) != 1 else ''} {format_cpus(listed)}"


def name_ranks(ranks: Sequence[RankEvidence]) -> str:
    """``rank 3 on c2``, ``ranks 0 and 1 on c1``, ``rank 0 on c1 and
    rank 1 on c2``, ``ranks 0-63 on 4 nodes``.
    """
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
    """Sentences unless each of ``nodes * ppn`` ranks left one record, to
    its end, in one job, ``ppn`` on each node.
    """
    expected = nodes * ppn
    if not ranks:
        return [
            f"none of the {expected} ranks left evidence: the program did not start, it never "
            "called MPI_Init, or it did not get LD_PRELOAD and MPIBENCH_EVIDENCE."
        ]
    if expected > 1 and all(rank.size == 1 for rank in ranks):
        return [
            f"{_count(len(ranks), 'process', 'processes')} started as MPI worlds of one rank each "
            f"instead of {expected} ranks in one world: launcher and MPI library do not share a "
            "process management interface (PMI)."
        ]
    sizes = Counter(rank.size for rank in ranks if rank.size is not None and rank.size != expected)
    sentences = [
        f"{_count(number, 'rank is', 'ranks are')} in a world of {size} instead of {expected} "
        "ranks in one world."
        for size, number in sorted(sizes.items())
    ]
    numbers: dict[int, list[RankEvidence]] = {}
    for rank in ranks:
        if rank.rank is not None:
            numbers.setdefault(rank.rank, []).append(rank)
    sentences += [
        f"rank {number} left evidence {len(same)} times "
        f"({', '.join(f'{r.host} pid {r.pid}' for r in same)}), but must be one process."
        for number, same in sorted(numbers.items())
        if len(same) > 1
    ]
    unknown = [rank for rank in ranks if rank.rank is None]
    for rank in unknown:
        why = (
            f"{rank.rank_source} of its launcher is not a number"
            if rank.rank_source
            else "no launcher announced it"
        )
        sentences.append(f"process {rank.pid} on {rank.host} does not know its rank; {why}.")
    if strange := [number for number in numbers if number >= expected]:
        sentences.append(
            f"ranks {format_cpus(strange)} left evidence, but {expected} ranks were requested."
        )
    missing = sorted(set(range(expected)) - set(numbers))
    if missing and not unknown:
        who = f"rank {missing[0]}" if len(missing) == 1 else f"ranks {format_cpus(missing)}"
        sentences.append(
            f"{who} of {expected} left no evidence: not started, killed before MPI_Init returned, "
            "or unable to write."
        )
    if lost := [rank for rank in ranks if not rank.finalize]:
        sentences.append(
            f"{name_ranks(lost)} never called MPI_Finalize: killed, hanging or ended early."
        )
    counts = {host: len(there) for host, there in by_host(ranks).items()}
    if len(ranks) == expected and (len(counts) != nodes or set(counts.values()) != {ppn}):
        listed = ", ".join(f"{host} ({number})" for host, number in counts.items())
        sentences.append(
            f"asked for {ppn} per node on {_count(nodes, 'node', 'nodes')}, but the ranks ran on "
            f"{listed}."
        )
    if len(jobs := sorted({rank.job for rank in ranks})) > 1:
        sentences.append(
            f"evidence of several jobs is mixed up ({', '.join(job or 'none' for job in jobs)})."
        )
    return sentences


def _count(number: int, singular: str, plural: str) -> str:
    return f"{number} {singular if number == 1 else plural}"


# ---- one launch ----
# Nonces alone tell launches apart: wall clocks of nodes may differ. The times of the launch are
# compared with those ranks only that ran under the same kernel as the job's script, whose uptime
# both read.


def check_launch(
    ranks: Sequence[RankEvidence],
    nonce: str,
    boot_id: str = "",
    between: tuple[float, float] = (0.0, 0.0),
    others: Mapping[str, Sequence[RankEvidence]] = {},
) -> list[str]:
    """Sentences unless each record was written in this launch, and in no other.

    :param nonce: what the launch was given, by the job's log; empty: that is not of this job.
    :param boot_id: of the job's script; empty: when the launch ran is unknown.
    :param between: begin and end of the launch, in s of that node's uptime.
    :param others: ranks of other launches of the job, by what sentences call them.
    """
    if ranks and not nonce:
        return ["the job's log has no nonce for this launch, so its evidence may be another's."]
    stray: dict[str | None, list[RankEvidence]] = {}
    late = list[RankEvidence]()
    twice = dict[str, list[RankEvidence]]()
    known = {_process(rank): name for name, there in others.items() for rank in there}
    begun = between[0] - UPTIME_STEP_S
    ended = between[1] + UPTIME_STEP_S
    for rank in ranks:
        if rank.nonce != nonce:
            stray.setdefault(rank.nonce, []).append(rank)
        elif (
            boot_id
            and rank.boot_id == boot_id
            and not begun <= rank.init.uptime_s <= rank.last.uptime_s <= ended
        ):
            late.append(rank)
        if name := known.get(_process(rank)):
            twice.setdefault(name, []).append(rank)
    sentences = [
        f"the evidence of {name_ranks(same)} is not of this launch: its nonce is "
        f"{other or 'none'}, the launch's {nonce}."
        for other, same in stray.items()
    ]
    if late:
        sentences.append(
            f"the evidence of {name_ranks(late)} is not of this launch: it is from "
            f"{late[0].init.uptime_s:.2f} to {late[0].last.uptime_s:.2f} s after boot, but the "
            f"launch ran from {between[0]:.2f} to {between[1]:.2f} s."
        )
    return sentences + [
        f"the evidence of {name_ranks(same)} is that of the same process in {name}: it was copied."
        for name, same in twice.items()
    ]


def _process(rank: RankEvidence) -> tuple[str, int, int]:
    return rank.host, rank.pid, rank.init.monotonic_ns


# ---- library ----


def same_library(path: str, real: str, *beside: str) -> bool:
    """True when two resolved paths are one MPI installation's library.

    Wheels hold ``libmpi.so`` and ``libmpi.so.12`` as copies in one folder, because they cannot hold
    links.

    :param beside: libraries in the same folder that may be mapped with it.
    """
    if path == real:
        return True
    stem, wanted = (os.path.basename(library).split(".so")[0] for library in (path, real))  # noqa: PTH119 (plain text)
    return os.path.dirname(path) == os.path.dirname(real) and stem in (wanted, *beside)  # noqa: PTH120


def check_library(ranks: Sequence[RankEvidence], stack: Stack) -> list[str]:
    """Sentences unless every rank ran the stack's own MPI library,
    in the version the stack says it is.
    """
    wrong: dict[tuple[str, str], list[RankEvidence]] = {}
    timed = dict[str, list[RankEvidence]]()
    sentences = []
    libraries = mpis.libraries()
    library = stack.resolve(stack.library)
    abis = (FORUM_LIBRARY, *mpis.find(stack.mpi).libraries)
    for rank in ranks:
        version = rank.library_version or ""
        path = rank.library or ""
        known = re.search(stack.library_version_pattern, version) and _has_version(
            version, stack.mpi_version
        )
        if not known or not same_library(path, library):
            wrong.setdefault((version, path), []).append(rank)
        for clock, asked_of in rank.clocks.items() if path else ():
            if not (
                asked_of == rank.executable
                or _CLOCKS.match(Path(asked_of).name)
                or same_library(asked_of, path, *abis)
            ):
                timed.setdefault(f"{clock} of {asked_of}", []).append(rank)
        others = sorted(
            mapped
            for mapped in rank.mapped
            # An MPI may have one of its ABIs in a library on top of the other's.
            if _is_mpi(mapped, libraries) and not same_library(mapped, path, *abis)
        )
        if others:
            sentences.append(
                f"{rank.name} has a second MPI library mapped beside {path}: {', '.join(others)}."
            )
    sentences += [
        f"{name_ranks(same)} took the time from {clock}, which is neither the MPI nor the C "
        "library: something was preloaded (LD_PRELOAD, /etc/ld.so.preload)."
        for clock, same in timed.items()
    ]
    if stack.abi == FORUM_ABI and (
        without := [rank for rank in ranks if rank.forum_abi != FORUM_MAJOR]
    ):
        sentences.append(
            f"{name_ranks(without)} ran a library whose MPI_Abi_get_version says "
            f"{without[0].forum_abi} instead of {FORUM_MAJOR}, the MPI Forum's ABI."
        )
    of_modules = f" of {stack.modules_text}" if stack.modules else ""
    asked = f"{mpis.find(stack.mpi).title} {stack.mpi_version}{of_modules} at {library}"
    for (version, path), same in wrong.items():
        ran = next(
            (line.strip() for line in version.splitlines() if line.strip()),
            "an MPI of unknown version",
        )
        sentences.append(
            f"asked for {asked}, but {name_ranks(same)} ran {ran} from {path or 'an unknown file'}."
        )
    return sentences


def check_program(ranks: Sequence[RankEvidence], stack: Stack, program: str) -> list[str]:
    """Sentences unless every rank, on whichever node, ran the
    program and the library that were registered.

    :param program: path the launch named; one that the stack has no digest of (an interpreter) may
        be anything, and a script runs as its interpreter.
    """
    wrong: dict[str, list[RankEvidence]] = {}
    a_file = program in stack.inside or not _is_script(program)
    for rank in ranks if program in stack.files and a_file else ():
        if rank.executable != stack.resolve(program):
            wrong.setdefault(f"ran {rank.executable} instead of {program}", []).append(rank)
    for rank in ranks:
        files = [
            (program, rank.executable, rank.executable_bytes),
            (stack.library, rank.library or "", rank.library_bytes),
        ]
        for path, ran, size in files:
            known = stack.files.get(path)
            if known and ran == stack.resolve(path) and size != known["size_bytes"]:
                had = (
                    f"ran {path} with {size} bytes, but it had {known['size_bytes']} when "
                    "registered"
                )
                wrong.setdefault(had, []).append(rank)
    return [f"{name_ranks(there)} {what}." for what, there in wrong.items()]


def _is_script(path: str) -> bool:
    try:
        with Path(path).open("rb") as file:
            return file.read(2) == b"#!"
    except OSError:
        return False


def _has_version(banner: str, wanted: str) -> bool:
    """Whether a library's banner has the version its metadata
    claim, to as many places as both have.

    Intel MPI 2021.18.1 may call itself 2021.18, MVAPICH2 2.3.7-1 calls itself 2.3.7. A banner
    without any version proves none.
    """
    claimed = re.split(r"[.-]", wanted)
    named = [
        re.split(r"[.-]", version) for version in re.findall(r"\d+(?:\.\w+)+(?:-\w+)?", banner)
    ]
    return any(all(a == b for a, b in zip(claimed, version, strict=False)) for version in named)


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
    """Sentences unless the kernel let each rank run where the policy
    says, and no two ranks had to share a core.

    :param pinning: policy requested; with a ``placement`` it only names it.
    :param placement: CPUs (numbers of the operating system) per rank of a node, in rank order; none
        for the policies ``default`` and ``none``.
    :param core_of: core of a CPU where several CPUs are one core (SMT); by default each CPU is one.
    :param may_share: it is known, and stored with the case, that ranks share cores.
    """
    sentences = []
    for host, there in by_host(ranks).items():
        if placement is not None and len(there) != len(placement):
            asked = _count(len(placement), "rank", "ranks")
            sentences.append(f"the placement is for {asked} per node, but {host} ran {len(there)}.")
        elif placement is not None:
            sentences += [
                f"asked for {rank.name} on {_cores(wanted)} ({pinning}), but the kernel lets it "
                f"run on {_cores(rank.init.cpus)}."
                for rank, wanted in zip(there, placement, strict=True)
                if rank.init.cpus != frozenset(wanted)
            ]
        for rank in there if pinning == "none" and placement is None else ():
            # The launcher's own mask counts too: a batch system may confine
            # a job by affinity without a cgroup.
            choices = [cpus for cpus in (rank.cpuset, rank.parent_cpus) if cpus] or [rank.online]
            if not any(rank.init.cpus == choice & rank.online for choice in choices):
                where = _cores(rank.init.cpus)
                all_cpus = format_cpus(choices[0])
                sentences.append(
                    f"asked for no pinning, but {rank.name} may only run on {where} of {all_cpus}."
                )
        sentences += [] if may_share else _check_shared_cores(there, core_of or (lambda cpu: cpu))
    for rank in ranks:
        if rank.finalize and rank.finalize.cpus != rank.init.cpus:
            sentences.append(
                f"{rank.name} was moved during the run: {_cores(rank.init.cpus)} after MPI_Init, "
                f"{_cores(rank.finalize.cpus)} at the end."
            )
    return sentences


def _check_shared_cores(ranks: Sequence[RankEvidence], core_of: Callable[[int], int]) -> list[str]:
    """Sentences for ranks of a node that cannot all have a core of
    their own, whatever the scheduler does.
    """
    may = [sorted({core_of(cpu) for cpu in rank.init.cpus}) for rank in ranks]
    crowds: dict[frozenset[int], set[int]] = {}
    holder: dict[int, int] = {}
    for start in range(len(ranks)):
        if crowd := find_crowd(start, may, holder):
            crowds.setdefault(
                frozenset(core for index in crowd for core in may[index]), set()
            ).update(crowd)
    return [
        f"{name_ranks([ranks[index] for index in sorted(crowd)])} may "
        f"{'both' if len(crowd) == 2 else 'all'} run on {_cores(cores)} only: "
        f"{_count(len(crowd), 'rank', 'ranks')} for {_count(len(cores), 'core', 'cores')}."
        for cores, crowd in crowds.items()
    ]


def find_crowd(start: int, may: Sequence[Sequence[Core]], holder: dict[Core, int]) -> set[int]:
    """Give rank ``start`` a core, moving others for it; else the
    ranks that stand in each other's way.

    Breadth-first augmenting path of bipartite matching (Kuhn 1955); the ranks reached when there is
    none have fewer cores between them than they are (Hall 1935).
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
# Benchmarks time with CLOCK_MONOTONIC, so a wrong calendar clock does not change a number; but
# munge and Kerberos refuse credentials that are 300 s off (munge(7), time-to-live; RFC 4120,
# section 1.6), and then the node is lost to its cluster.


def check_clocks(ranks: Sequence[RankEvidence]) -> list[str]:
    """Sentences for nodes whose clock jumped during the run, and unless all nodes' clocks agree.

    Two nodes disagree when the ranks were apart in the same sense both after MPI_Init and before
    MPI_Finalize, by the smaller of the two differences.
    """
    first = {rank.host: rank for rank in reversed(ranks) if rank.finalize}
    #: Host, calendar time in s of both snapshots, and time that passed between them.
    rows = [
        (host, row.init.realtime_ns / 1e9, row.finalize.realtime_ns / 1e9, row.seconds or 0.0)
        for host, row in sorted(first.items())
        if row.finalize
    ]
    sentences = [
        f"the clock of {host} jumped by {end - start - seconds:+.0f} s during the run; check its "
        "time service (NTP, chrony)."
        for host, start, end, seconds in rows
        if abs(end - start - seconds) > TOLERANCE_S
    ]
    if len(rows) < 2 or sentences:
        return sentences
    ahead = max(rows, key=lambda row: row[1])
    behind = min(rows, key=lambda row: row[1])
    apart = min(ahead[1] - behind[1], ahead[2] - behind[2])
    if apart <= TOLERANCE_S:
        return []
    return [
        f"the clocks of {ahead[0]} and {behind[0]} disagree by {apart:.0f} s ({ahead[0]} is "
        "ahead); check their time service (NTP, chrony)."
    ]


# ---- variables ----
# A launcher may drop a variable on the way to another node, a shell may cut its value, a user's
# profile may set it again. The number would then stand for another setting than the one stored
# beside it.


def check_settings(
    ranks: Sequence[RankEvidence],
    asked: Mapping[str, str],
    by_launcher: Mapping[str, str] | None = None,
) -> list[str]:
    """Sentences unless every rank had each variable with the value that was requested.

    What a launcher sets again (``SLURM_CPU_BIND``) is not compared:
    the ranks' CPU masks show what came of it.

    :param asked: name to value, taken literally.
    :param by_launcher: likewise, for variables the launcher reads; a rank
        may be without, but not have another value.
    """
    known = launchers.known().values()
    private = tuple(prefix for row in known for prefix in row.private)
    rewritten = tuple(prefix for row in known for prefix in row.rewritten)
    optional = {
        **(by_launcher or {}),
        **{name: value for name, value in asked.items() if name.startswith(private)},
    }
    sentences = []
    for name, value in {**asked, **optional}.items():
        if name.startswith(rewritten):
            continue
        wrong: dict[str | None, list[RankEvidence]] = {}
        for rank in ranks:
            had = rank.environment.get(name)
            if name == "LD_PRELOAD" and had is not None:  # the recorder comes first
                first, _, rest = had.partition(":")
                had = (rest or None) if RECORDER.fullmatch(Path(first).name) else had
            behind = name in SEARCH_PATHS and had is not None and had.endswith(f":{value}")
            if had != value and not behind and not (had is None and name in optional):
                wrong.setdefault(had, []).append(rank)
        sentences += [
            f"asked for {name}={_show(name, value)}, but {name_ranks(there)} had "
            f"{'none' if had is None else _show(name, had)}."
            for had, there in wrong.items()
        ]
    return sentences


def _show(name: str, value: str) -> str:
    """A value in quotes, shortened if it is long."""
    value = without_secrets(name, value)
    return (
        repr(value) if len(value) <= _SHOWN else f"{value[:_SHOWN]!r}... ({len(value)} characters)"
    )


# ---- notes ----


def contention_per_s(rank: RankEvidence) -> float:
    """Involuntary context switches per second between the
    snapshots; 0 if the rank never finalised.
    """
    if rank.finalize is None or not rank.seconds:
        return 0.0
    return (rank.finalize.involuntary_switches - rank.init.involuntary_switches) / rank.seconds


def core_losses_per_s(launches: Iterable[Sequence[RankEvidence]]) -> float:
    """Involuntary context switches per second over all launches, for the rank with most in each;
    the few in a launch of some milliseconds do not show a load.
    """
    lost = taken_s = 0.0
    for ranks in launches:
        worst = max(ranks, key=contention_per_s, default=None)
        if worst and worst.seconds:
            lost += contention_per_s(worst) * worst.seconds
            taken_s += worst.seconds
    return lost / taken_s if taken_s else 0.0


def longest_wait(launches: Iterable[Sequence[RankEvidence]]) -> float | None:
    """Share of the time between the snapshots of all launches, 0 to 1, during which the
    longest-waiting rank of each was ready to run but had no core; ``None`` if no kernel counts it.
    """
    waited_s = taken_s = 0.0
    for ranks in launches:
        worst = max(
            (
                ((end.waited_ns - rank.init.waited_ns) / 1e9, rank.seconds)
                for rank in ranks
                if (end := rank.finalize)
                and rank.seconds
                and end.waited_ns is not None
                and rank.init.waited_ns is not None
            ),
            default=(0.0, 0.0),
        )
        waited_s, taken_s = waited_s + worst[0], taken_s + worst[1]
    return min(1.0, waited_s / taken_s) if taken_s else None


def notes(ranks: Sequence[RankEvidence]) -> list[str]:
    """Notes on ranks whose rank and size are not MPI's own, and those of :func:`disturbances`; they
    disprove nothing.
    """
    unknown: dict[str, list[RankEvidence]] = {}
    for rank in ranks:
        unknown.setdefault(rank.world_unknown, []).append(rank)
    return [
        f"rank and size of {_who(same, ranks)} are the launcher's, not MPI's: {why}"
        for why, same in unknown.items()
        if why
    ] + disturbances(ranks)


def _who(same: Sequence[RankEvidence], ranks: Sequence[RankEvidence]) -> str:
    return "all ranks" if len(same) == len(ranks) else name_ranks(same)


def disturbances(ranks: Sequence[RankEvidence]) -> list[str]:
    """Notes on other preloaded libraries, and on ranks that often lost their core."""
    preloaded: dict[tuple[str, ...], list[RankEvidence]] = {}
    for rank in ranks:
        # colons or blanks between (ld.so(8))
        named = re.split(r"[:\s]+", rank.environment.get("LD_PRELOAD", ""))
        libraries = tuple(
            name for name in named if name and not RECORDER.fullmatch(Path(name).name)
        )
        preloaded.setdefault(libraries, []).append(rank)
    sentences = [
        f"{_who(same, ranks)} preloaded {', '.join(names)} beside the evidence library "
        "(LD_PRELOAD of the job or its nodes)"
        for names, same in preloaded.items()
        if names
    ]
    if busy := [rank for rank in ranks if contention_per_s(rank) >= CONTENTION_PER_S]:
        worst = max(busy, key=contention_per_s)
        sentences.append(
            f"{_count(len(busy), 'rank', 'ranks')} often lost the core to others, {worst.name} "
            f"{contention_per_s(worst):.0f} times a second (noted from {CONTENTION_PER_S:.0f})"
        )
    return sentences

"""From what a job of several programs left to one outcome: each program judged by itself (:mod:`results.measurement`), then
what all of them say together: who shared a core with whom, and for how long all ran at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...evidence.checks import find_crowd, format_cpus, name_ranks
from ...evidence.rank_records import RankEvidence
from ...machine.placement import UNLISTED
from ...samples import CONTRADICTED, Evidence, Sample
from ...suites import side_by_side
from ...suites.benchmark import Record
from ...suites.catalogue import Launch
from ...vocabulary import QUANTITIES
from ..job import ending
from ..results import measurement
from ..results.measurement import Outcome
from .shared_node import SHARED, SharedNode, name_of

#: How the note on a job's check of received data begins, and that on a job without one; here one program has it for all.
_CHECKED, _UNCHECKED = "received data compared", "received data are not checked"
#: Share of its measured time that a program must have had all others beside it. Programs meet before each section and go on
#: within milliseconds of each other; below this share, a ratio of shared to alone is too much that of a program alone.
LEAST_OVERLAP = 0.8
#: Shared cores that are named one by one.
MOST_NAMED = 4

#: Records of the ranks of each program, by its number.
Programs = Mapping[int, Sequence[RankEvidence]]
CoreOf = Callable[[int], int]


@dataclass(frozen=True)
class SharedCore:
    """A core that ranks of several programs may run on.

    :param cpus: CPUs of it that they may use, as the operating system counts them.
    :param users: those ranks, by the number of their program.
    """

    host: str
    cpus: tuple[int, ...]
    users: Mapping[int, tuple[RankEvidence, ...]]

    @property
    def sentence(self) -> str:
        """Names core, programs and ranks."""
        core = f"core {self.cpus[0]}" if len(self.cpus) == 1 else f"the core of CPUs {format_cpus(self.cpus)}"
        who = [
            f"program {number} ({name_ranks(ranks).removesuffix(f' on {self.host}')})" for number, ranks in self.users.items()
        ]
        return f"{core} of {self.host} is used by {', '.join(who[:-1])} and {who[-1]}"


def find_shared_cores(programs: Programs, core_of: CoreOf) -> list[SharedCore]:
    """Cores that the kernel lets ranks of more than one program use, by node and CPU.

    :param core_of: core of a CPU where several CPUs are one core (SMT).
    """
    users: dict[tuple[str, int], dict[int, list[RankEvidence]]] = {}
    cpus: dict[tuple[str, int], set[int]] = {}
    for number, ranks in sorted(programs.items()):
        for rank in ranks:
            allowed = rank.init.cpus | (rank.finalize.cpus if rank.finalize else frozenset())
            for core in sorted({core_of(cpu) for cpu in allowed}):
                users.setdefault((rank.host, core), {}).setdefault(number, []).append(rank)
                cpus.setdefault((rank.host, core), set()).update(cpu for cpu in allowed if core_of(cpu) == core)
    found = [
        SharedCore(host, tuple(sorted(cpus[host, core])), {number: tuple(ranks) for number, ranks in there.items()})
        for (host, core), there in users.items()
        if len(there) > 1
    ]
    return sorted(found, key=lambda core: (core.host, core.cpus))


def check_node(programs: Programs) -> list[str]:
    """Sentences unless all programs were on one node: on another they share nothing, and their times cannot be compared."""
    homes = {number: sorted({rank.host for rank in ranks}) for number, ranks in sorted(programs.items())}
    if len({host for hosts in homes.values() for host in hosts}) <= 1:
        return []
    listed = ", ".join(f"program {number} on {' and '.join(hosts)}" for number, hosts in homes.items())
    return [f"the programs did not share a node: {listed}."]


def check_apart(programs: Programs, core_of: CoreOf) -> list[str]:
    """Sentences unless no core is used by two programs."""
    found = find_shared_cores(programs, core_of)
    more = len(found) - MOST_NAMED
    sentences = [f"{core.sentence}: the programs are not pinned apart." for core in found[:MOST_NAMED]]
    return [*sentences, *([f"{more} more cores are used by several programs."] if more > 0 else [])]


def describe_unaware(programs: Programs, core_of: CoreOf) -> str:
    """What came of launches that did not know of each other: a note, and no contradiction."""
    found = find_shared_cores(programs, core_of)
    every = [rank for ranks in programs.values() for rank in ranks]
    if not found:
        return f"the {len(programs)} programs were unaware of each other and still had no core in common"
    seated = seat(every, core_of)
    if seated == len(every):
        return (
            f"nothing keeps the {len(programs)} programs apart: {len(found)} cores are open to several of them, enough for "
            "each of their ranks to have one if the kernel sees to it"
        )
    named = "; ".join(core.sentence for core in found[:MOST_NAMED])
    more = f"; {len(found) - MOST_NAMED} more cores likewise" if len(found) > MOST_NAMED else ""
    return (
        f"the {len(programs)} programs were unaware of each other and got in each other's way: of {len(every)} ranks at most "
        f"{seated} can have a core of their own ({named}{more})"
    )


def seat(ranks: Iterable[RankEvidence], core_of: CoreOf) -> int:
    """How many ranks at most can have a core of their own."""
    holder: dict[tuple[str, int], int] = {}
    may = [sorted({(rank.host, core_of(cpu)) for cpu in rank.init.cpus}) for rank in ranks]
    return sum(not find_crowd(rank, may, holder) for rank in range(len(may)))


def check_overlap(measured: Mapping[int, Sequence[Record]]) -> list[str]:
    """Sentences unless all programs were measured at the same time, row by row.

    :param measured: what each program measured beside the others, by its number, with the time of each row.
    """
    sentences = []
    for rows in zip(*measured.values(), strict=True):
        spans = dict(zip(measured, (row.measured_ns or (0, 0) for row in rows), strict=True))
        begin, end = max(first for first, _ in spans.values()), min(last for _, last in spans.values())
        # Of all programs the one measured longest had the others beside it for the smallest share of its time.
        longest = max(spans, key=lambda number: spans[number][1] - spans[number][0])
        share = max(0, end - begin) / max(1, spans[longest][1] - spans[longest][0])
        if share < LEAST_OVERLAP:
            zero = min(first for first, _ in spans.values())
            when = ", ".join(
                f"program {number} from {(first - zero) / 1e9:.3f} to {(last - zero) / 1e9:.3f} s"
                for number, (first, last) in spans.items()
            )
            sentences.append(
                f"{rows[0].benchmark} of {rows[0].message_bytes} bytes: all programs ran at the same time for {share:.0%} of "
                f"what program {longest} was measured for, and {LEAST_OVERLAP:.0%} are asked for ({when})."
            )
    return sentences


def evaluate(
    node: SharedNode,
    launches: Mapping[int, Sequence[Launch]],
    repeats: int,
    limit_s: int,
    directory: Path,
    end: ending.JobEnd,
) -> Outcome:
    """Read and judge everything that a job of several programs wrote into its directory.

    :param launches: what each program was started for, by its number.
    :param limit_s: seconds each launch was given.
    """
    whole = Outcome(repeats)
    parts: list[Outcome] = []
    for number, program in enumerate(node.programs, 1):
        part = measurement.evaluate(program, launches[number], repeats, limit_s, directory, end)
        parts.append(part)
        whole.take(part)
    notes: dict[str, None] = {}
    rows: list[dict[str, Any]] = []
    for repeat in range(1, repeats + 1):
        beside = {
            number: one
            for number, part in enumerate(parts, 1)
            for one in part.heard
            if (one.launch, one.repeat) == (name_of(SHARED, number), repeat)
        }
        # A program without records is missing, which its own part has said.
        ranks = {number: one.ranks for number, one in beside.items() if one.ranks}
        whole.add(SHARED, repeat, CONTRADICTED, check_node(ranks))
        if node.pinning in UNLISTED:
            if len(ranks) > 1:
                notes[describe_unaware(ranks, node.core_of)] = None
        else:
            whole.add(SHARED, repeat, CONTRADICTED, check_apart(ranks, node.core_of))
        measured = {number: one.records for number, one in beside.items()}
        # What is missing or mixed up, each part has said.
        if len({tuple((row.benchmark, row.message_bytes) for row in each) for each in measured.values()}) == 1:
            whole.add(SHARED, repeat, CONTRADICTED, check_overlap(measured))
        rows = rows or [{"program": number, **measurement.rank_row(rank)} for number, there in ranks.items() for rank in there]
    whole.samples += ratios(whole.samples)
    whole.evidence = _evidence(whole, [part.evidence for part in parts if part.evidence], rows, list(notes))
    return whole


def ratios(samples: Sequence[Sample]) -> list[Sample]:
    """Throughput of each program beside the others over that alone, repeat by repeat; a time is the inverse of a throughput."""
    found = []
    ends = tuple(f",{how}" for how in (side_by_side.ALONE, side_by_side.SHARED))
    by_key = {(one.benchmark, one.message_bytes, one.quantity, one.variant): one for one in samples}
    for (name, size, quantity, variant), alone in by_key.items():
        beside = by_key.get((name, size, quantity, variant.removesuffix(ends[0]) + ends[1]))
        if not variant.endswith(ends[0]) or beside is None:
            continue
        pairs = [
            (two, one) if QUANTITIES[quantity].direction == "higher" else (one, two)
            for one, two in zip(alone.values, beside.values, strict=True)
        ]
        values = tuple(above / below if above is not None and below else None for above, below in pairs)
        found.append(
            replace(alone, variant=variant.removesuffix(ends[0]), quantity=side_by_side.RATIO, repetitions=None, values=values)
        )
    return found


def _evidence(
    whole: Outcome, parts: Sequence[Evidence], rows: Sequence[Mapping[str, Any]], found: Sequence[str]
) -> Evidence | None:
    """The first program's facts of node and library, the ranks of all programs, and what was found of them together."""
    if not parts:
        return None
    everywhere = set.intersection(*(set(part.notes) for part in parts))
    notes = [
        note if note in everywhere or note.startswith(_CHECKED) else f"program {number}: {note}"
        for number, part in enumerate(parts, 1)
        for note in part.notes
        if not note.startswith(_UNCHECKED)
    ]
    return replace(
        parts[0],
        status=whole.status,
        sentences=tuple(whole.sentences),
        ranks=tuple(rows),
        seconds=tuple(seconds for part in parts for seconds in part.seconds),
        notes=tuple(dict.fromkeys([*found, *notes])),
    )

"""From the files of a job of several programs to one outcome: each program is judged by itself
(:mod:`results.measurement`), then all together: which programs shared a core, and for how long all
ran at the same time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...evidence.checks import find_crowd, format_cpus, name_ranks
from ...evidence.rank_records import RankEvidence
from ...machine.placement import UNLISTED
from ...samples import CONTRADICTED, Sample
from ...suites import side_by_side
from ...suites.benchmark import Record
from ...suites.catalogue import Launch
from ...vocabulary import QUANTITIES
from ..job.condition import Condition
from ..results import measurement
from ..results.measurement import JobOutcome
from .shared_node import SHARED, SharedNode, name_of

#: Share of its measured time that a program must have had all others beside it. Programs meet
#: before each section and go on within milliseconds of each other; below this share, a ratio of
#: shared to alone is too much that of a program alone.
LEAST_OVERLAP = 0.8
#: Shared cores that are named one by one.
MOST_NAMED = 4

#: Records of the ranks of each program, by its number.
Programs = Mapping[int, Sequence[RankEvidence]]
#: Core of a CPU, where several CPUs are one core (SMT).
CoreOf = Callable[[int], int]


def find_shared_cores(programs: Programs, core_of: CoreOf) -> list[str]:
    """Cores that the kernel lets ranks of more than one program use,
    each with programs and ranks, by node and CPU.
    """
    users: dict[tuple[str, int], dict[int, list[RankEvidence]]] = {}
    cpus: dict[tuple[str, int], set[int]] = {}
    for number, ranks in sorted(programs.items()):
        for rank in ranks:
            allowed = rank.init.cpus | (rank.finalize.cpus if rank.finalize else frozenset())
            for cpu in allowed:
                cpus.setdefault((rank.host, core_of(cpu)), set()).add(cpu)
            for core in {core_of(cpu) for cpu in allowed}:
                users.setdefault((rank.host, core), {}).setdefault(number, []).append(rank)
    shared = []
    for place, there in users.items():
        if len(there) > 1:
            host = place[0]
            numbers = sorted(cpus[place])
            named = (
                f"core {numbers[0]}"
                if len(numbers) == 1
                else f"the core of CPUs {format_cpus(numbers)}"
            )
            who = [
                f"program {at} ({name_ranks(ranks).removesuffix(f' on {host}')})"
                for at, ranks in there.items()
            ]
            shared.append(
                (host, numbers, f"{named} of {host} is used by {', '.join(who[:-1])} and {who[-1]}")
            )
    return [sentence for *_, sentence in sorted(shared)]


def check_node(programs: Programs) -> list[str]:
    """Sentences unless all programs were on one node: on another they share
    nothing, and their times cannot be compared.
    """
    homes = {
        number: sorted({rank.host for rank in ranks}) for number, ranks in sorted(programs.items())
    }
    if len({host for hosts in homes.values() for host in hosts}) <= 1:
        return []
    listed = ", ".join(
        f"program {number} on {' and '.join(hosts)}" for number, hosts in homes.items()
    )
    return [f"the programs did not share a node: {listed}."]


def check_apart(programs: Programs, core_of: CoreOf) -> list[str]:
    """Sentences unless no core is used by two programs."""
    shared = find_shared_cores(programs, core_of)
    more = len(shared) - MOST_NAMED
    sentences = [f"{core}: the programs share cores." for core in shared[:MOST_NAMED]]
    return [
        *sentences,
        *([f"{more} more cores are shared by several programs."] if more > 0 else []),
    ]


def describe_unaware(programs: Programs, core_of: CoreOf) -> str:
    """What came of launches that did not know of each other: a note, and no contradiction."""
    shared = find_shared_cores(programs, core_of)
    ranks = [rank for number in programs for rank in programs[number]]
    if not shared:
        return f"the {len(programs)} programs were unaware of each other, but had no core in common"
    seated = seat(ranks, core_of)
    if seated == len(ranks):
        return (
            f"nothing keeps the {len(programs)} programs apart: {len(shared)} cores are open to "
            "several of them, enough for one per rank if the kernel spreads them"
        )
    named = "; ".join(shared[:MOST_NAMED])
    more = f"; {len(shared) - MOST_NAMED} more cores likewise" if len(shared) > MOST_NAMED else ""
    return (
        f"the {len(programs)} programs were unaware of each other and collided: "
        f"of {len(ranks)} ranks, at most {seated} can have their own core ({named}{more})"
    )


def seat(ranks: Iterable[RankEvidence], core_of: CoreOf) -> int:
    holder: dict[tuple[str, int], int] = {}
    may = [sorted({(rank.host, core_of(cpu)) for cpu in rank.init.cpus}) for rank in ranks]
    return sum(not find_crowd(rank, may, holder) for rank in range(len(may)))


def check_overlap(measured: Mapping[int, Sequence[Record]]) -> list[str]:
    """Sentences unless all programs were measured at the same time, row by row.

    :param measured: what each program measured beside the others, by
        its number, with the time of each row.
    """
    sentences = []
    for rows in zip(*measured.values(), strict=True):
        spans = dict(zip(measured, (row.measured_ns or (0, 0) for row in rows), strict=True))
        begin = max(first for first, _ in spans.values())
        end = min(last for _, last in spans.values())
        # Of all programs the one measured longest had the others beside
        # it for the smallest share of its time.
        longest = max(spans, key=lambda number: spans[number][1] - spans[number][0])
        share = max(0, end - begin) / max(1, spans[longest][1] - spans[longest][0])
        if share < LEAST_OVERLAP:
            zero = min(first for first, _ in spans.values())
            when = ", ".join(
                f"program {number} from {(first - zero) / 1e9:.3f} to {(last - zero) / 1e9:.3f} s"
                for number, (first, last) in spans.items()
            )
            sentences.append(
                f"{rows[0].benchmark} of {rows[0].message_bytes} bytes: all programs ran at the "
                f"same time for {share:.0%} of what program {longest} was measured for, and "
                f"{LEAST_OVERLAP:.0%} are asked for ({when})."
            )
    return sentences


def evaluate(
    node: SharedNode,
    launches: Mapping[int, Sequence[Launch]],
    repeats: int,
    judge: Callable[[Condition, Sequence[Launch], int], JobOutcome],
) -> JobOutcome:
    """Read and judge everything that a job of several programs wrote into its directory.

    :param launches: what each program was started for, by its number.
    :param judge: some launches under a condition, started so many times each.
    """
    whole = JobOutcome(repeats)
    outcomes = [
        judge(program, launches[number], repeats) for number, program in enumerate(node.programs, 1)
    ]
    for part in outcomes:
        whole.take(part)
    unaware: dict[str, None] = {}
    rows: list[dict[str, Any]] = []
    for repeat in range(1, repeats + 1):
        shared = {
            number: heard
            for number, part in enumerate(outcomes, 1)
            for heard in part.heard
            if (heard.launch, heard.repeat) == (name_of(SHARED, number), repeat)
        }
        # A program without records is missing, which its own part has said.
        ranks = {number: heard.ranks for number, heard in shared.items() if heard.ranks}
        whole.add(SHARED, repeat, CONTRADICTED, check_node(ranks))
        if node.pinning not in UNLISTED:
            whole.add(SHARED, repeat, CONTRADICTED, check_apart(ranks, node.core_of))
        elif len(ranks) > 1:
            unaware[describe_unaware(ranks, node.core_of)] = None
        measured = {number: heard.records for number, heard in shared.items()}
        # What is missing or mixed up, each part has said.
        if (
            len(
                {
                    tuple((row.benchmark, row.message_bytes) for row in records)
                    for records in measured.values()
                }
            )
            == 1
        ):
            whole.add(SHARED, repeat, CONTRADICTED, check_overlap(measured))
        rows = rows or [
            {"program": number, **measurement.rank_row(rank)}
            for number, there in ranks.items()
            for rank in there
        ]
    whole.samples += ratios(whole.samples)
    # The first program's facts of node and library, the ranks of all
    # programs, and what was found of them together.
    heard = [(part, part.evidence) for part in outcomes if part.evidence]
    if evidence := [own for _, own in heard]:
        everywhere = set.intersection(*(set(own.notes) for own in evidence))
        notes = [
            note if note in everywhere or note == part.checked else f"program {number}: {note}"
            for number, (part, own) in enumerate(heard, 1)
            for note in own.notes
            if note != part.unchecked  # one program checks the data for all
        ]
        whole.join(evidence[0], evidence, [*unaware, *notes], ranks=tuple(rows))
    return whole


def ratios(samples: Sequence[Sample]) -> list[Sample]:
    """Throughput of each program beside the others over that alone, repeat by
    repeat; a time is the inverse of a throughput.
    """
    samples_of_ratios = []
    ends = tuple(f",{how}" for how in (side_by_side.ALONE, side_by_side.SHARED))
    by_key = {
        (sample.benchmark, sample.message_bytes, sample.quantity, sample.variant): sample
        for sample in samples
    }
    for (name, size, quantity, variant), alone in by_key.items():
        shared = by_key.get((name, size, quantity, variant.removesuffix(ends[0]) + ends[1]))
        if not variant.endswith(ends[0]) or shared is None:
            continue
        pairs = [
            (with_others, value)
            if QUANTITIES[quantity].direction == "higher"
            else (value, with_others)
            for value, with_others in zip(alone.values, shared.values, strict=True)
        ]
        values = tuple(
            above / below if above is not None and below else None for above, below in pairs
        )
        samples_of_ratios.append(
            replace(
                alone,
                variant=variant.removesuffix(ends[0]),
                quantity=side_by_side.RATIO,
                repetitions=None,
                values=values,
            )
        )
    return samples_of_ratios

"""What a map of the wire left behind: both ends of each pair and direction, what they reached, and what is wrong with them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ...instruments.pairs.pair_values import BANDWIDTH, PairValue
from ...machine.fabric import Fabric
from ...machine.switch_paths import name_of
from ...samples import CONTRADICTED, MISSING
from ...suites import pair, reader
from ...suites.benchmark import OutputError
from . import traffic

#: Folder of the ends' records in the job's directory.
FOLDER = "map"
#: Pairs that a sentence names.
NAMED = 5


@dataclass(frozen=True)
class MapStep:
    """All pairs of a round in one direction.

    :param pairs: numbers of the receiving node, which is the server, and of the sending one.
    """

    order: int
    round: int
    phase: int
    pairs: tuple[tuple[int, int], ...]

    @property
    def folder(self) -> str:
        """Where its ends leave their records, each step apart: some file systems are slow with many files in one folder."""
        return f"{FOLDER}/{self.round}.{self.phase}"

    @property
    def words(self) -> str:
        """Its pairs as ``end.py`` is given them."""
        return ",".join(f"{server}-{client}" for server, client in self.pairs)


@dataclass(frozen=True)
class MeasuredPair:
    """One pair in one direction.

    :param numbers: of its nodes, the server's first.
    :param ends: ``None`` where they left nothing whole.
    :param mb_per_s: what arrived; ``None`` where the program failed.
    :param counted: whether the fabric's interfaces, and nothing else, carried it; ``None``: not known.
    """

    step: MapStep
    numbers: tuple[int, int]
    ends: pair.Pair | None = None
    mb_per_s: float | None = None
    counted: bool | None = None

    @property
    def usable(self) -> float | None:
        """What it reached, if the fabric carried that."""
        return self.mb_per_s if self.counted else None


@dataclass
class MeasuredMap:
    """All of them.

    :param hosts: of the nodes by their numbers; :attr:`silent`: those of them that left no record, and why that is known.
    :param findings: status and sentence of everything that is wrong, each once, with the pairs it is of.
    """

    pairs: list[MeasuredPair]
    hosts: tuple[str, ...]
    silent: dict[str, str] = field(default_factory=dict)
    findings: list[tuple[str, str]] = field(default_factory=list)

    @property
    def seen(self) -> list[str]:
        return [host for host in self.hosts if host not in self.silent]

    @property
    def ends(self) -> list[pair.End]:
        return [end for one in self.pairs if one.ends for end in (one.ends.server, one.ends.client)]

    def values(self, message_bytes: int) -> tuple[PairValue, ...]:
        """As a map of pairs has them."""
        return tuple(
            PairValue(
                one.step.order,
                one.step.round,
                one.step.phase,
                self.hosts[one.numbers[1]],
                self.hosts[one.numbers[0]],
                BANDWIDTH,
                message_bytes,
                1,
                one.mb_per_s,
                one.counted,
            )
            for one in self.pairs
        )


def read(
    directory: Path,
    steps: Sequence[MapStep],
    nodes: int,
    group: pair.PairGroup,
    program: str,
    fabric: Fabric,
    job: Iterable[str],
) -> MeasuredMap:
    """Read and judge the records of all ends.

    :param directory: of the job; ``job``: the names of its nodes, as the scheduler has them.
    """
    said: dict[tuple[str, str], list[tuple[int, int]]] = {}
    pairs = [_read_pair(directory, step, numbers, group, program, fabric, said) for step in steps for numbers in step.pairs]
    hosts, silent, strange = _name_nodes(pairs, nodes, [name_of(host) for host in job])
    findings = [(CONTRADICTED, sentence) for sentence in strange]
    for (status, sentence), where in said.items():
        named = [f"{hosts[client]} to {hosts[server]}" for server, client in dict.fromkeys(where)]
        more = f" and {len(named) - NAMED} more" if len(named) > NAMED else ""
        findings.append((status, f"{', '.join(named[:NAMED])}{more}: {sentence}"))
    begun = {step.folder for step in steps if any((directory / step.folder).glob("*.*"))}
    if len(begun) < len(steps):
        findings.insert(0, (MISSING, f"{len(begun)} of {len(steps)} steps were begun: the job ended early, or gave up."))
    return MeasuredMap(pairs, hosts, silent, findings)


def _read_pair(
    directory: Path,
    step: MapStep,
    numbers: tuple[int, int],
    group: pair.PairGroup,
    program: str,
    fabric: Fabric,
    said: dict[tuple[str, str], list[tuple[int, int]]],
) -> MeasuredPair:
    """One pair; what is wrong with it is added to ``said``."""

    def say(status: str, sentence: str) -> None:
        said.setdefault((status, sentence.removeprefix(f"{source}: ")), []).append(numbers)

    source = f"{step.folder}/{numbers[0]}-{numbers[1]}"
    files = [directory / f"{source}.{which}" for which in pair.ENDS]
    text = "".join(path.read_text(errors="replace") for path in files if path.exists())
    if not text:
        if (directory / step.folder).is_dir():
            say(MISSING, "neither server nor client left a record.")
        return MeasuredPair(step, numbers)
    try:
        ends = pair.read(text, program, source)
    except OutputError as error:
        say(MISSING, str(error))
        return MeasuredPair(step, numbers)
    for sentence in traffic.judge_links(ends, fabric):
        say(CONTRADICTED, sentence)
    try:
        [record] = reader.parse(text, source=source)
        wrong = traffic.judge_bytes(ends, group.exchanged(ends), fabric)
    except OutputError as error:
        elsewhere = isinstance(error, pair.OtherNetwork)
        say(CONTRADICTED if elsewhere else MISSING, str(error))
        return MeasuredPair(step, numbers, ends, None, False if elsewhere else None)
    for sentence in wrong:
        say(CONTRADICTED, sentence)
    return MeasuredPair(step, numbers, ends, record.values[BANDWIDTH], not wrong)


def _name_nodes(
    pairs: Iterable[MeasuredPair], nodes: int, job: Sequence[str]
) -> tuple[tuple[str, ...], dict[str, str], list[str]]:
    """The nodes by their numbers, those without a record with why, and sentences on what cannot be.

    Slurm numbers tasks in the order of the job's nodes, so that those of which nothing is known are the rest, in that order.
    """
    there: dict[int, set[str]] = {number: set() for number in range(nodes)}
    for one in pairs:
        for number, end in zip(one.numbers, (one.ends.server, one.ends.client) if one.ends else (), strict=False):
            there[number].add(name_of(end.host))
    strange = [
        f"task {number} of the job was on {' and on '.join(sorted(each))}; run it again."
        for number, each in there.items()
        if len(each) > 1
    ][:1]
    names = {number: min(each) for number, each in there.items() if each}
    if len(set(names.values())) < len(names):
        strange.append("two tasks of the job were on one node: one on each is asked for.")
        count = Counter(names.values())
        names = {number: f"{name} ({number})" if count[name] > 1 else name for number, name in names.items()}
    unseen = [number for number in range(nodes) if number not in names]
    left = [host for host in job if host not in names.values()]
    for at, number in enumerate(unseen):
        names[number] = left[at] if len(left) == len(unseen) else f"node {number + 1} of the job"
    silent = {names[number]: "left no record" for number in unseen}
    return tuple(names[number] for number in range(nodes)), silent, strange

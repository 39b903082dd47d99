"""What a session measured of each fabric on each level: wire, transport library, MPI; the numbers that can be compared.

Messages without pause are compared with messages without pause, and one message at a time with one at a time. TCP has no
messages: what writes into a stream stands beside large ones.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import dataclass

from reframe_tests.harness.samples import PROVEN, Sample
from reframe_tests.harness.sites import references
from reframe_tests.harness.suites import catalogue
from reframe_tests.harness.suites.benchmark import SINGLE, SMALL, STREAM, Benchmark
from reframe_tests.harness.suites.pair import TRANSPORT, WIRE

from ...store.quantity_text import size_text
from ...store.sessions import Case, Session

#: Levels, the lowest first.
MPI = "MPI"
LEVELS = (WIRE, TRANSPORT, MPI)
#: Sizes in bytes that stand for small and for large messages.
SMALL_BYTES, LARGE_BYTES = 8, 1 << 20


@dataclass(frozen=True)
class CascadeQuestion:
    """What is compared over the levels: rows that say so (:attr:`Benchmark.cascade`) answer it.

    :param quantity: what they measure.
    :param size: bytes of its messages.
    :param as_bandwidth: times of large messages stand for the bandwidth that one message at a time has.
    """

    name: str
    title: str
    quantity: str
    size: int
    as_bandwidth: bool = False

    @property
    def more_is_better(self) -> bool:
        """Whether it asks for a bandwidth."""
        return self.as_bandwidth or self.quantity == "bandwidth_mb_per_s"

    def rows(self, level: str) -> list[Benchmark]:
        """What answers it on a level."""
        there = (*catalogue.ROWS, *catalogue.READ_ONLY)
        return [row for row in there if self.name in row.cascade and _level_of(row) == level]

    def size_of(self, row: Benchmark) -> int:
        """Bytes of a row's messages: of a stream without messages those that it writes at once."""
        plans = catalogue.PAIRS[row.group].plans if row.group in catalogue.PAIRS else ()
        sizes = {size for plan in plans if plan.benchmark == row.name for each in plan.sizes.values() for size in each}
        return self.size if not sizes or self.size in sizes else max(sizes)


def _level_of(row: Benchmark) -> str:
    return catalogue.PAIRS[row.group].layer if row.group in catalogue.PAIRS else MPI


QUESTIONS = (
    CascadeQuestion(STREAM, "bandwidth at 1 MiB, messages without pause", "bandwidth_mb_per_s", LARGE_BYTES),
    CascadeQuestion(SINGLE, "bandwidth at 1 MiB, one message at a time", "latency_us", LARGE_BYTES, as_bandwidth=True),
    CascadeQuestion(SMALL, "latency at 8 B", "latency_us", SMALL_BYTES),
)


@dataclass(frozen=True)
class Reached:
    """What one program, or one stack, reached on a level.

    :param name: the program, and of an MPI the stack.
    :param value: median of the repeats, in MB/s or us; ``low`` and ``high``: their range.
    :param share: of the line rate; ``None`` for a latency, and where the fabric has none.
    """

    level: str
    name: str
    value: float
    low: float
    high: float
    share: float | None


@dataclass(frozen=True)
class CascadeAnswer:
    """What a session says of one question on one fabric of a partition.

    :param reached: by level, on each the best first.
    :param absent: levels without a number, with the reason.
    :param limit: share of the line rate that can be payload; ``None`` where it is not known.
    """

    question: CascadeQuestion
    reached: dict[str, tuple[Reached, ...]]
    absent: dict[str, str]
    limit: float | None


@dataclass(frozen=True)
class Cascade:
    """One fabric of one partition.

    :param line_rate_gbit_per_s: of what was measured below MPI.
    """

    partition: str
    fabric: str
    line_rate_gbit_per_s: float | None
    answers: tuple[CascadeAnswer, ...]


def find(session: Session) -> list[Cascade]:
    """The fabrics of which something was measured below MPI, and not left out, with the levels above from the same session."""
    below = [case for case in session.cases if case.group in catalogue.PAIRS]
    places = dict.fromkeys((case.partition, case.fabric) for case in below)
    return [_cascade(session, *place) for place in places]


def _cascade(session: Session, partition: str, fabric: str) -> Cascade:
    there = [case for case in session.cases if (case.partition, case.fabric) == (partition, fabric) and case.nodes in (2, None)]
    below = [case.condition for case in there if case.group in catalogue.PAIRS and case.condition]
    rate = next((one["line_rate_gbit_per_s"] for one in below if one.get("line_rate_gbit_per_s")), None)
    limit = next((one["payload_limit"] for one in below if one.get("payload_limit")), None)
    answers = tuple(_answer(session, there, question, limit if rate else None) for question in QUESTIONS)
    return Cascade(partition, fabric, rate, answers)


def _answer(session: Session, cases: list[Case], question: CascadeQuestion, limit: float | None) -> CascadeAnswer:
    reached: dict[str, tuple[Reached, ...]] = {}
    absent: dict[str, str] = {}
    for level in LEVELS:
        rows, best = question.rows(level), dict[str, Reached]()
        for one in (one for row in rows for one in _measured(session, cases, question, row)):
            before = best.get(one.name)
            if before is None or _better(one, before, question):
                best[one.name] = one
        if best:
            reached[level] = tuple(sorted(best.values(), key=lambda one: one.value, reverse=question.more_is_better))
        else:
            absent[level] = _why_absent(cases, question, rows)
    return CascadeAnswer(question, reached, absent, limit)


def _better(one: Reached, other: Reached, question: CascadeQuestion) -> bool:
    return one.value > other.value if question.more_is_better else one.value < other.value


def _measured(session: Session, cases: list[Case], question: CascadeQuestion, row: Benchmark) -> Iterator[Reached]:
    """What proven cases measured of a row; of an MPI, with one rank on each node."""
    level, size = _level_of(row), question.size_of(row)
    for case in (case for case in cases if case.group in (row.group, catalogue.CROSS_CHECK)):
        if case.evidence != PROVEN or case.uuid in session.superseded or (level == MPI and case.ppn != 1):
            continue
        for sample in case.samples:
            found = (sample.suite, sample.benchmark, sample.message_bytes, sample.quantity)
            if found == (row.suite, row.name, size, question.quantity) and sample.measured:
                yield _reached(case, sample, question, row)


def _reached(case: Case, sample: Sample, question: CascadeQuestion, row: Benchmark) -> Reached:
    values = list(sample.measured)
    if question.as_bandwidth:
        values = [question.size / value for value in values]  # bytes per us are MB/s
    level = _level_of(row)
    program = row.name if row.binary == row.name else f"{row.binary} {row.name}"
    middle, rate = statistics.median(values), _rate_of_one_rank(case)
    share = middle * references.GBIT_PER_MB / rate if rate and question.more_is_better else None
    name = f"{row.name}, {case.stack}" if level == MPI else program
    return Reached(level, name, middle, min(values), max(values), share)


def _rate_of_one_rank(case: Case) -> float | None:
    """Line rate in Gbit/s of what one rank on a node can use: one of several rails, unless its messages are striped."""
    rate, devices = case.condition.get("line_rate_gbit_per_s"), case.condition.get("devices")
    if not rate or case.condition.get("striped") or not isinstance(devices, list) or len(devices) < 2:
        return rate or None
    return float(rate) / len(devices)


def _why_absent(cases: list[Case], question: CascadeQuestion, rows: list[Benchmark]) -> str:
    """Why a level has no number: nothing measures it so, a case was skipped or failed, or none was in the session."""
    groups = {row.group for row in rows}
    transport = next((str(case.condition["transport"]) for case in cases if case.condition.get("transport")), "")
    pairs = [catalogue.PAIRS[group] for group in groups if group in catalogue.PAIRS]
    if transport and pairs and not any(transport in pair.transports for pair in pairs):
        return f"no program measures it over {transport}"
    for case in (case for case in cases if case.group in groups):
        if case.result == "skip":
            return f"skipped: {case.reason}"
        if case.evidence != PROVEN:
            return f"not proven: {case.reason}"
    if any(case.group in groups and case.ppn == 1 for case in cases):
        return f"not at {size_text(question.size)} in this session"
    return "not measured in this session"

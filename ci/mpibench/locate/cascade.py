"""Where bandwidth or latency is lost between wire, transport library and MPI: a session's results
by fabric and level, and one sentence for each question.

Messages without pause are compared with messages without pause, single messages with single
messages. TCP has no messages: writing into a stream is compared with large ones.

A step between two levels loses something if the repeats of both do not overlap and the difference
exceeds :data:`LEAST_SHARE` of the line rate (for a latency: of the highest level). The step with
the largest loss is named first. On each level the best program or stack counts. What a higher level
reaches, the lower ones can carry: if an MPI is faster than the transport's own program, that
program does not show where anything is lost.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterator
from dataclasses import dataclass

from reframe_tests.harness.samples import PROVEN
from reframe_tests.harness.sites import references
from reframe_tests.harness.suites.benchmark import SINGLE, SMALL, STREAM, Benchmark
from reframe_tests.harness.suites.catalogue import CROSS_CHECK, PAIRS, READ_ONLY, ROWS
from reframe_tests.harness.suites.pair import TRANSPORT, WIRE

from ..store.quantity_text import size_text
from ..store.sessions import Case, Session

#: Levels, the lowest first.
MPI = "MPI"
LEVELS = (WIRE, TRANSPORT, MPI)
#: Sizes in bytes that stand for small and for large messages.
SMALL_BYTES = 8
LARGE_BYTES = 1 << 20
#: Smallest part of the line rate, or of the latency, that a step is said to lose: what IMB's
#: PingPong at 1 MiB still waits on a link of 1 Gbit/s (2 %).
LEAST_SHARE = 0.02


@dataclass(frozen=True)
class CascadeQuestion:
    """What is compared between levels; rows that declare it (:attr:`Benchmark.cascade`) answer it.

    :param quantity: what they measure.
    :param size: bytes of its messages.
    :param as_bandwidth: times of large messages stand for the
        bandwidth that one message at a time has.
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

    @property
    def unit(self) -> str:
        return "MB/s" if self.more_is_better else "\N{MICRO SIGN}s"

    def rows(self, level: str) -> list[Benchmark]:
        """What answers it on a level."""
        rows = [row for row in (*ROWS, *READ_ONLY) if self.name in row.cascade]
        return [
            row for row in rows if level == (PAIRS[row.group].layer if row.group in PAIRS else MPI)
        ]

    def size_of(self, row: Benchmark) -> int:
        """Bytes of a row's messages: of a stream without messages those that it writes at once."""
        plans = PAIRS[row.group].plans if row.group in PAIRS else ()
        sizes = {
            size
            for plan in plans
            if plan.benchmark == row.name
            for each in plan.sizes.values()
            for size in each
        }
        return self.size if not sizes or self.size in sizes else max(sizes)


QUESTIONS = (
    CascadeQuestion(
        STREAM, "bandwidth at 1 MiB, messages without pause", "bandwidth_mb_per_s", LARGE_BYTES
    ),
    CascadeQuestion(
        SINGLE,
        "bandwidth at 1 MiB, one message at a time",
        "latency_us",
        LARGE_BYTES,
        as_bandwidth=True,
    ),
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
    """A session's answer to one question on one fabric of a partition.

    :param reached: by level, on each the best first.
    :param absent: levels without a number, with the reason.
    :param limit: share of the line rate that can be payload; ``None`` if it is unknown.
    """

    fabric: str
    question: CascadeQuestion
    reached: dict[str, tuple[Reached, ...]]
    absent: dict[str, str]
    limit: float | None

    def value_text(self, one: Reached) -> str:
        """A number with its share and program: ``94.1 % of line rate (iperf3, 117.6 MB/s)``."""
        if one.share is not None:
            return f"{100 * one.share:.1f} % of line rate ({one.name}, {one.value:.4g} MB/s)"
        return f"{one.value:.4g} {self.question.unit} ({one.name})"

    def _is_worse(self, one: Reached, other: Reached) -> bool:
        """Whether all repeats of one are worse than all of the other, and by more than counts."""
        apart = one.high < other.low if self.question.more_is_better else one.low > other.high
        return apart and abs(one.value - other.value) > LEAST_SHARE * max(one.value, other.value)

    @property
    def sentence(self) -> str:
        """What each level reached, where the most is lost, and which levels are absent."""
        best = [self.reached[level][0] for level in LEVELS if level in self.reached]
        # Without those that a level above surpasses.
        carried: list[Reached] = []
        for one in reversed(best):
            if not carried or not self._is_worse(one, carried[0]):
                carried.insert(0, one)
        notes = []
        for slow in (level for level in best if level not in carried):
            above = next(
                level.level
                for level in carried
                if LEVELS.index(level.level) > LEVELS.index(slow.level)
            )
            notes.append(f"{above} is better than {slow.name}")
        notes += [f"{level}: {why}" for level, why in self.absent.items()]
        reached = ", ".join(f"{level.level} {self.value_text(level)}" for level in best)
        what = f"{reached}; {self._loss_text(carried)}" if best else "no level has proven numbers"
        rest = f" ({'; '.join(notes)})" if notes else ""
        return f"{self.fabric}, {self.question.title}: {what}{rest}."

    def _loss_text(self, carried: list[Reached]) -> str:
        """The step that loses most, the first of equal ones; the lowest
        level against what the packets' headers leave.
        """
        losses: list[tuple[float, str]] = []
        lowest = carried[0]
        if lowest.share is not None and self.limit is not None:
            gap = self.limit - lowest.share
            if gap > LEAST_SHARE and lowest.share * lowest.high / lowest.value < self.limit:
                amount = f"{100 * gap:.1f} % of the line rate less than packets leave for payload"
                losses.append((gap, f"below the {lowest.level}: {amount}"))
        for lower, upper in itertools.pairwise(carried):
            lost = abs(lower.value - upper.value)
            whole = max(lower.value, upper.value)
            amount = f"{lost:.3g} {self.question.unit}"
            if lower.share is not None and upper.share is not None:
                lost = lower.share - upper.share
                whole = 1.0
                amount = f"{100 * lost:.1f} % of the line rate"
            if self._is_worse(upper, lower) and lost > LEAST_SHARE * whole:
                losses.append((lost, f"from {lower.level} to {upper.level}: {amount}"))
        if losses:
            what = "is lost" if self.question.more_is_better else "time is added"
            return f"the most {what} {max(losses, key=lambda loss: loss[0])[1]}"
        few = len(self.reached) < 2
        return "nothing to compare it with" if few else "no step loses more than repeats differ"


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
    """The fabrics with measurements below MPI that were not left out, and the levels above them
    from the same session.
    """
    found = []
    for partition, fabric in dict.fromkeys(
        (case.partition, case.fabric) for case in session.cases if case.group in PAIRS
    ):
        cases = [
            case
            for case in session.cases
            if (case.partition, case.fabric) == (partition, fabric) and case.nodes in (2, None)
        ]
        below = [case.condition for case in cases if case.group in PAIRS and case.condition]
        rate = next(
            (row["line_rate_gbit_per_s"] for row in below if row.get("line_rate_gbit_per_s")), None
        )
        limit = next((row["payload_limit"] for row in below if row.get("payload_limit")), None)
        answers = []
        for question in QUESTIONS:
            reached = dict[str, tuple[Reached, ...]]()
            absent = dict[str, str]()
            for level in LEVELS:
                rows = question.rows(level)
                best = dict[str, Reached]()
                measured = [
                    reached
                    for row in rows
                    for reached in _measured(session, cases, question, row, level)
                ]
                # Stable: of equal ones the first.
                for one in sorted(
                    measured, key=lambda one: one.value, reverse=question.more_is_better
                ):
                    best.setdefault(one.name, one)
                if best:
                    reached[level] = tuple(best.values())
                else:
                    absent[level] = _why_absent(cases, question, rows)
            answers.append(
                CascadeAnswer(fabric, question, reached, absent, limit if rate else None)
            )
        found.append(Cascade(partition, fabric, rate, tuple(answers)))
    return found


def _measured(
    session: Session, cases: list[Case], question: CascadeQuestion, row: Benchmark, level: str
) -> Iterator[Reached]:
    """What proven cases measured of a row; of an MPI, with one rank on each node."""
    wanted = (row.suite, row.name, question.size_of(row), question.quantity)
    program = row.name if row.binary == row.name else f"{row.binary} {row.name}"
    for case in (case for case in cases if case.group in (row.group, CROSS_CHECK)):
        if (
            case.evidence != PROVEN
            or case.uuid in session.superseded
            or (level == MPI and case.ppn != 1)
        ):
            continue
        # A rank on a node can use one of several rails, unless its messages are striped.
        rate = case.condition.get("line_rate_gbit_per_s")
        devices = case.condition.get("devices")
        if rate and not case.condition.get("striped") and isinstance(devices, list):
            rate = float(rate) / max(len(devices), 1)
        for sample in case.samples:
            if (
                sample.suite,
                sample.benchmark,
                sample.message_bytes,
                sample.quantity,
            ) != wanted or not sample.measured:
                continue
            # Bytes per us are MB/s.
            values = [
                question.size / value if question.as_bandwidth else value
                for value in sample.measured
            ]
            middle = statistics.median(values)
            share = (
                middle * references.GBIT_PER_MB / rate if rate and question.more_is_better else None
            )
            name = f"{row.name}, {case.stack}" if level == MPI else program
            yield Reached(level, name, middle, min(values), max(values), share)


def _why_absent(cases: list[Case], question: CascadeQuestion, rows: list[Benchmark]) -> str:
    """Why a level has no number: nothing measures it so, a case was
    skipped or failed, or none was in the session.
    """
    groups = {row.group for row in rows}
    transport = next(
        (str(case.condition["transport"]) for case in cases if case.condition.get("transport")), ""
    )
    pairs = [PAIRS[group] for group in groups if group in PAIRS]
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

"""What a session measured of each fabric on each level: wire, transport library, MPI; the numbers that can be compared.

Messages without pause are compared with messages without pause, and one message at a time with one at a time. iperf3 writes
into a stream, which has no messages: its number stands beside large ones.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import dataclass

from reframe_tests.harness.samples import PROVEN, Sample
from reframe_tests.harness.sites import references
from reframe_tests.harness.suites import catalogue

from ..results.sessions import Case, Session

#: Levels, the lowest first.
WIRE, TRANSPORT, MPI = "wire", "transport", "MPI"
LEVELS = (WIRE, TRANSPORT, MPI)
#: Sizes in bytes that stand for small and for large messages.
SMALL, LARGE = 8, 1 << 20
#: Bytes that iperf3 writes at once.
_WRITES = 131072


@dataclass(frozen=True)
class Source:
    """A number that answers a question on one level.

    :param size: bytes of its messages, where they are not those of the question.
    """

    level: str
    suite: str
    benchmark: str
    size: int | None = None


@dataclass(frozen=True)
class Question:
    """What is compared over the levels.

    :param quantity: what its sources measure.
    :param as_bandwidth: times of large messages stand for the bandwidth that one message at a time has.
    """

    name: str
    title: str
    quantity: str
    size: int
    sources: tuple[Source, ...]
    as_bandwidth: bool = False

    @property
    def more_is_better(self) -> bool:
        """Whether it asks for a bandwidth."""
        return self.as_bandwidth or self.quantity == "bandwidth_mb_per_s"


#: The questions; IMB's PingPong and OSU's osu_latency both send one message at a time.
QUESTIONS = (
    Question(
        "stream",
        "bandwidth at 1 MiB, messages without pause",
        "bandwidth_mb_per_s",
        LARGE,
        (
            Source(WIRE, "iperf3", "TCP", _WRITES),
            Source(WIRE, "perftest", "ib_write_bw"),
            Source(WIRE, "perftest", "ib_send_bw"),
            Source(TRANSPORT, "ucx_perftest", "tag_bw"),
            Source(MPI, "imb", "Uniband"),
            Source(MPI, "osu", "osu_bw"),
        ),
    ),
    Question(
        "single",
        "bandwidth at 1 MiB, one message at a time",
        "latency_us",
        LARGE,
        (
            Source(WIRE, "perftest", "ib_write_lat"),
            Source(WIRE, "perftest", "ib_send_lat"),
            Source(TRANSPORT, "ucx_perftest", "tag_lat"),
            Source(TRANSPORT, "fi_pingpong", "pingpong"),
            Source(MPI, "imb", "PingPong"),
            Source(MPI, "osu", "osu_latency"),
        ),
        as_bandwidth=True,
    ),
    Question(
        "small",
        "latency at 8 B",
        "latency_us",
        SMALL,
        (
            Source(WIRE, "perftest", "ib_write_lat"),
            Source(WIRE, "perftest", "ib_send_lat"),
            Source(TRANSPORT, "ucx_perftest", "tag_lat"),
            Source(TRANSPORT, "fi_pingpong", "pingpong"),
            Source(MPI, "imb", "PingPong"),
            Source(MPI, "osu", "osu_latency"),
        ),
    ),
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
class Answer:
    """What a session says of one question on one fabric of a partition.

    :param reached: by level, on each the best first.
    :param absent: levels without a number, with the reason.
    :param limit: share of the line rate that can be payload; ``None`` where it is not known.
    """

    question: Question
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
    answers: tuple[Answer, ...]


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


def _answer(session: Session, cases: list[Case], question: Question, limit: float | None) -> Answer:
    reached, absent = {}, {}
    for level in LEVELS:
        sources = [source for source in question.sources if source.level == level]
        found: dict[str, Reached] = {}
        for one in (one for source in sources for one in _measured(session, cases, question, source)):
            before = found.get(one.name)
            if before is None or _better(one, before, question):
                found[one.name] = one
        ordered = sorted(found.values(), key=lambda one: one.value, reverse=question.more_is_better)
        if ordered:
            reached[level] = tuple(ordered)
        else:
            absent[level] = _why_absent(cases, sources)
    return Answer(question, reached, absent, limit)


def _better(one: Reached, other: Reached, question: Question) -> bool:
    return one.value > other.value if question.more_is_better else one.value < other.value


def _measured(session: Session, cases: list[Case], question: Question, source: Source) -> Iterator[Reached]:
    """What proven cases measured of a source; of an MPI, with one rank on each node."""
    for case in cases:
        if case.evidence != PROVEN or case.uuid in session.superseded or (source.level == MPI and case.ppn != 1):
            continue
        for sample in case.samples:
            wanted = (source.suite, source.benchmark, source.size or question.size, question.quantity)
            if (sample.suite, sample.benchmark, sample.message_bytes, sample.quantity) == wanted and sample.measured:
                yield _reached(case, sample, question, source)


def _reached(case: Case, sample: Sample, question: Question, source: Source) -> Reached:
    values = list(sample.measured)
    if question.as_bandwidth:
        values = [question.size / value for value in values]  # bytes per us are MB/s
    name = f"{source.benchmark}, {case.stack}" if source.level == MPI else f"{source.suite} {source.benchmark}"
    name = "iperf3" if source.suite == "iperf3" else "fi_pingpong" if source.suite == "fi_pingpong" else name
    middle, rate = statistics.median(values), case.condition.get("line_rate_gbit_per_s")
    share = middle * references.GBIT_PER_MB / rate if rate and question.more_is_better else None
    return Reached(source.level, name.removeprefix("perftest "), middle, min(values), max(values), share)


def _why_absent(cases: list[Case], sources: list[Source]) -> str:
    """Why a level has no number: nothing measures it so, a case was skipped or failed, or none was in the session."""
    if not sources:
        return "no program measures it"
    suites = {source.suite for source in sources}
    groups = {row.group for row in (*catalogue.ROWS, *catalogue.READ_ONLY) if row.suite in suites}
    for case in (case for case in cases if case.group in groups):
        if case.result == "skip":
            return f"skipped: {case.reason}"
        if case.evidence != PROVEN:
            return f"not proven: {case.reason}"
    return "not measured in this session"

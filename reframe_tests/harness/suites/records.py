"""What a benchmark printed, as data: one record per benchmark x ranks x message size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..vocabulary import BadInput

_NUMBER_LIKE = r"(?=\S*\d)[\d.+-]*(?:[A-Za-z?,][\d.+-]*)?"
#: A line of numbers in columns, one of them with a point; each may have a sign wrong, and so may be of a damaged table.
ROW_LIKE = (
    rf"[ \t]*(?=.*\.)(?:{_NUMBER_LIKE}|nan|inf)"
    rf"(?:[ \t]+(?:{_NUMBER_LIKE}|-?nan|-?inf|Pass|Fail|passed|failed|skipped))+[ \t\r]*"
)


@dataclass(frozen=True)
class Record:
    """One row of a benchmark's table.

    :param suite: name of the suite (:attr:`model.Suite.name`).
    :param benchmark: name as the suite prints it (``PingPong``, ``Allreduce``).
    :param ranks: processes active in the benchmark (per group, where there are several); ``None`` where the suite prints
        no number (collectives of OSU).
    :param groups: number of groups running at the same time (1 unless ``-multi``).
    :param message_bytes: message size in bytes; ``None`` where the benchmark has none (``Barrier``).
    :param repetitions: repetitions the row averages over; ``None`` where the suite prints none.
    :param values: quantity name (a key of :data:`vocabulary.QUANTITIES`) to value in that quantity's unit.
    :param variant: what else the section head says that makes it another measurement (``aggregate`` or
        ``non-aggregate`` mode of IMB-RMA, the threads of IMB-MT, the group of a ``-multi`` run, the window and
        synchronisation of OSU's one-sided benchmarks); empty otherwise.
    :param validated: whether the row itself says that the data received was right (``-c`` of OSU).
    :param problem: sizes of the problem, as printed, by which bytes are counted (:data:`traffic.RunBound`).
    :param measured_ns: from when to when it was measured, in ns of CLOCK_MONOTONIC, where the suite says so.
    """

    suite: str
    benchmark: str
    ranks: int | None
    groups: int
    message_bytes: int | None
    repetitions: int | None
    values: Mapping[str, float]
    variant: str = ""
    validated: bool = False
    measured_ns: tuple[int, int] | None = None
    problem: Mapping[str, int] = field(default_factory=dict)


class OutputError(BadInput):
    """An output that is truncated, mixed up, empty or not understood; nothing of it is used."""

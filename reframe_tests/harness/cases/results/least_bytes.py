"""How many bytes a launch must at least have put on its fabric, and of which benchmarks no number is known, with the reason."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...suites import catalogue
from ...suites.records import Record
from ..job.condition import Condition

#: Reason where a row names none, and the whole launch is without a number.
_UNKNOWN = "it sends no data, or how much is not known"


def ranks_of(record: Record) -> int:
    """Ranks of a record that ``reader.complete`` gave the number its launch has."""
    assert record.ranks is not None
    return record.ranks


def groups_of(record: Record) -> int:
    """Groups whose work a record stands for: all that ran at the same time, or the one it names."""
    return 1 if "group=" in record.variant else record.groups


def of_launch(condition: Condition, launch: catalogue.Launch, records: Iterable[Record]) -> float:
    """Bytes the launch must at least have put on the fabric, by its own table.

    Inside one node a network fabric carries everything; between nodes, ranks of one node may use shared memory.
    """
    if condition.forced and not condition.fabric.rails:
        return 0.0
    return float(sum(_of_record(condition, launch, record) for record in records))


def _of_record(condition: Condition, launch: catalogue.Launch, record: Record) -> int:
    row = next(row for row in launch.rows() if row.name == record.benchmark)
    size, ranks, within = record.message_bytes or 0, ranks_of(record), condition.fabric.within_node
    if row.of_run is not None:
        return groups_of(record) * row.of_run(record.problem, ranks, ranks if within else condition.nodes)
    least = row.traffic(size, ranks) if within else row.traffic_between(size, ranks, condition.nodes, condition.ranks)
    return groups_of(record) * least * (record.repetitions or 0)


def name_uncounted(condition: Condition, launch: catalogue.Launch, records: Sequence[Record]) -> list[str]:
    """Notes on benchmarks of which nothing could be held against the counters of the fabric: one for each reason.

    Those whose row names a reason; of a launch that is without any number all.
    """
    if (condition.forced and not condition.fabric.rails) or not records:
        return []
    counted = {record.benchmark for record in records if _of_record(condition, launch, record)}
    names: dict[str, list[str]] = {}
    for row in launch.rows():
        reason = row.unbounded or ("" if counted else _UNKNOWN)
        if reason and row.name not in counted:
            names.setdefault(reason, []).append(row.name)
    return [
        f"not held against the bytes that {condition.fabric.name} carried: {', '.join(rows)} ({reason})"
        for reason, rows in names.items()
    ]

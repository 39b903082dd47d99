"""The time of a whole launch as a measured value, of programs that print none and are started to see how long that takes.

It is what ``time mpirun ...`` shows: from the start of the launcher to its end, with the ranks' way in and out of MPI, and with
the recorder that each rank is started through.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...suites import catalogue
from ...suites.records import OutputError, Record


def fill(launch: catalogue.Launch, records: Sequence[Record], seconds: float | None) -> list[Record]:
    """The records of one launch, each with the time of the launch where its benchmark has that (``Benchmark.launch_time``).

    :param seconds: of :func:`script.read_launch_times`; ``None`` where the job left none.
    :raises OutputError: if a benchmark has that time and the job left none, or nothing.
    """
    names = {row.name: row.launch_time for row in launch.rows() if row.launch_time}
    if not names:
        return list(records)
    if not seconds:
        raise OutputError(f"the job left no time of launch {launch.name}, which is what is measured; run it again.")
    own = {name: {quantity: seconds} for name, quantity in names.items()}
    return [replace(record, values={**record.values, **own.get(record.benchmark, {})}) for record in records]

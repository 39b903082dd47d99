"""The guidelines' instrument on an MPI some of whose calls are
slow: what a bad algorithm does, without one.

Run as the instrument is, with the first two arguments ``CALL,CALL SECONDS``: ``python slow_calls.py
Allreduce 0.002 ...``. A mock-up that uses such a call is slow, too, as it would be with a bad
algorithm.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from mpi4py import MPI

from reframe_tests.harness.instruments import guidelines


class SlowCommunicator:
    """A communicator that waits before some of its calls."""

    def __init__(self, comm: Any, slow: set[str], seconds: float) -> None:
        self._comm = comm
        self._slow = slow
        self._seconds = seconds

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._comm, name)
        if name not in self._slow:
            return attribute

        def call(*arguments: Any) -> Any:
            time.sleep(self._seconds)
            return attribute(*arguments)

        return call


if __name__ == "__main__":
    names, seconds = sys.argv[1:3]
    guidelines.main(
        sys.argv[3:], SlowCommunicator(MPI.COMM_WORLD, set(names.split(",")), float(seconds))
    )

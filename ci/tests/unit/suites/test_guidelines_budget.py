"""The budget of the guidelines' instrument holds on a busy machine, too:
its clock is a counter here, and its MPI one rank.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from reframe_tests.harness.suites import catalogue

BUDGET_S = 8.0
#: Of a call, by bytes.
SECONDS: Mapping[int, float] = {16: 0.0005, 4096: 0.002, 1 << 18: 0.05}


class Clock:
    """Seconds that pass only where a call takes some."""

    def __init__(self, seconds: Callable[[float], float]) -> None:
        """:param seconds: what a call takes that would take so long on an idle machine."""
        self.now = 0.0
        self._seconds = seconds

    def perf_counter(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def take(self, seconds: float) -> None:
        self.now += self._seconds(seconds)


class OneRank:
    """A communicator of one rank."""

    rank = 0
    size = 1

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def Barrier(self) -> None:  # noqa: N802 (MPI)
        self._clock.take(0.00001)

    def Bcast(self, *_: Any) -> None:  # noqa: N802 (MPI)
        self._clock.take(0.00001)

    def Reduce(self, sent: Any, received: Any, *_: Any) -> None:  # noqa: N802 (MPI)
        received[0][:] = sent[0]


class Instrument:
    """The instrument with calls that only take time, and what it printed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        kinds = types.SimpleNamespace(INT=None, DOUBLE=None, FLOAT=None, MAX=None)
        monkeypatch.setitem(sys.modules, "mpi4py", types.SimpleNamespace(MPI=kinds))
        spec = importlib.util.spec_from_file_location(
            "instrument", catalogue.SUITES["guidelines"].script.path
        )
        assert spec and spec.loader
        self._program = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, "instrument", self._program)
        spec.loader.exec_module(self._program)
        # it may be loaded with another test's stand-in
        monkeypatch.setattr(self._program.common, "MPI", kinds)
        self._capsys, self.fewest, self.at_once = (
            capsys,
            self._program.FEWEST,
            self._program.MOST_AT_ONCE,
        )

    def run(
        self,
        clock: Clock,
        guidelines: int = 6,
        budget_s: float = BUDGET_S,
        seconds: Mapping[int, float] = SECONDS,
    ) -> tuple[float, list[int]]:
        """Seconds from the first row on, and repetitions of each row."""
        program: Any = self._program

        def find(_: Any, __: str, size: int) -> tuple[Any, Any]:
            clock.take(seconds[size])  # buffers are made
            return tuple(
                program.Operation(lambda: clock.take(seconds[size]), lambda: iter(()))
                for _ in range(2)
            )

        program.time = clock
        program.find = find
        pause_s = program.common.PAUSE_S
        names = [f"Call{number}-vs-larger" for number in range(guidelines)]
        sizes = ",".join(map(str, seconds))
        program.main(
            ["--sizes", sizes, "--repetitions", "4000", "--budget-s", str(budget_s), *names],
            OneRank(clock),
        )
        rows = [json.loads(line) for line in self._capsys.readouterr().out.splitlines()[1:-1]]
        return clock.now - pause_s, [row["repetitions"] for row in rows]


@pytest.fixture
def instrument(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Instrument]:
    import gc

    was = gc.isenabled()
    yield Instrument(monkeypatch, capsys)
    if was:
        gc.enable()


def idle(usual: float) -> float:
    return usual


def test_without_time_each_row_is_timed_as_often_as_it_must_be(instrument: Instrument) -> None:
    seconds, repetitions = instrument.run(Clock(idle), budget_s=0.01)
    assert set(repetitions) == {instrument.fewest}
    needed = sum(6 * 7 * each for each in SECONDS.values())  # made, compared, and two of two
    assert needed < seconds < 1.05 * needed

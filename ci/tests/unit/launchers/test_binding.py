"""Pinning by each launcher: every one is given the same lists, in the syntax of its manual."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from listed_topologies import from_lscpu
from reframe_tests.harness.launchers import registry as launchers
from reframe_tests.harness.launchers.model import HOSTFILE, Binding
from reframe_tests.harness.launchers.open_mpi import RANKFILE
from reframe_tests.harness.launchers.registry import bind
from reframe_tests.harness.machine.placement import RankPlacement, place
from reframe_tests.harness.machine.topology import NUMBERINGS, Topology, describe
from reframe_tests.harness.mpis import registry as mpis
from reframe_tests.harness.vocabulary import BadInput, NotMeasured
from wide_placements import with_whole_cores

WESTMERE = Topology.from_processor(describe(2, 6, numbering="alternating"))
Ranks = tuple[tuple[int, ...], ...]


def placed(policy: str, ppn: int, topology: Topology = WESTMERE) -> RankPlacement:
    return place(policy, ppn, topology, 1)


def bound(placement: RankPlacement, launcher: str, nodes: int = 1, **words: object) -> Binding:
    result = bind(placement, launcher, nodes, placement.ppn, **words)  # type: ignore[arg-type]
    assert isinstance(result, Binding), result
    return result


def refusal(*words: object, **more: object) -> str:
    """Why a placement cannot be said to a launcher; the parameters are those of :func:`bind`."""
    with pytest.raises(NotMeasured) as caught:
        bind(*words, **more)  # type: ignore[arg-type]
    return str(caught.value)


def after(binding: Binding, option: str) -> str:
    """The word after an option."""
    return binding.options[binding.options.index(option) + 1]


# ---- words back to lists ----


def bits(mask: str) -> tuple[int, ...]:
    assert mask.startswith("0x")
    return tuple(cpu for cpu in range(int(mask, 16).bit_length()) if int(mask, 16) >> cpu & 1)


def numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(",")))


def read_srun(binding: Binding, topology: Topology) -> Ranks:
    (words,) = [word.split("=", 1)[1] for word in binding.options if word.startswith("--cpu-bind=")]
    kind, _, entries = words.partition(":")
    return tuple(
        bits(entry) if kind == "mask_cpu" else numbers(entry) for entry in entries.split(",")
    )


def read_intel(binding: Binding, topology: Topology) -> Ranks:
    assert binding.env["I_MPI_PIN"] == "on"
    return tuple(map(bits, binding.env["I_MPI_PIN_DOMAIN"].strip("[]").split(",")))


def read_hydra(binding: Binding, topology: Topology) -> Ranks:
    kind, _, entries = after(binding, "-bind-to").partition(":")
    assert kind == "user"
    return tuple(numbers(entry.replace("+", ",")) for entry in entries.split(","))


def read_rankfile(text: str, nodes: int) -> Ranks:
    lines = [re.fullmatch(r"rank (\d+)=(\S+) slot=([\d,]+)", line) for line in text.splitlines()]
    assert all(lines)
    found = [(int(line[1]), line[2], numbers(line[3])) for line in lines if line]
    assert [rank for rank, _, _ in found] == list(range(len(found)))
    hosts = list(dict.fromkeys(host for _, host, _ in found))
    assert hosts == (["localhost"] if nodes == 1 else [f"+n{node}" for node in range(nodes)])
    per_host = [tuple(cpus for _, host, cpus in found if host == name) for name in hosts]
    assert len(set(per_host)) == 1, "every node has the same lists"
    return per_host[0]


def read_prrte(binding: Binding, topology: Topology, nodes: int = 1) -> Ranks:
    physical = {logical: cpu for cpu, logical in topology.logical.items()}
    kind, *qualifiers = after(binding, "--map-by").split(":")
    if kind == "rankfile":
        assert qualifiers == [f"file={RANKFILE}", "hwtcpus"]
        slots = read_rankfile(binding.files[RANKFILE], nodes)
    else:
        assert qualifiers == ["ordered", "hwtcpus"]
        slots = tuple((number,) for number in numbers(kind.removeprefix("pe-list=")))
    return tuple(tuple(sorted(physical[number] for number in slot)) for slot in slots)


def read_orterun(binding: Binding, topology: Topology, nodes: int = 1) -> Ranks:
    assert after(binding, "--mca") == "rmaps_rank_file_physical"
    assert "--use-hwthread-cpus" in binding.options
    return read_rankfile(binding.files[after(binding, "--rankfile")], nodes)


def read_rsh(binding: Binding, topology: Topology) -> Ranks:
    assert binding.env["MV2_ENABLE_AFFINITY"] == "1", "the mapping is not read without it"
    return tuple(numbers(entry) for entry in binding.env["MV2_CPU_MAPPING"].split(":"))


def read_flux(binding: Binding, topology: Topology) -> Ranks:
    (words,) = [word for word in binding.options if word.startswith("--setopt=cpu-affinity=")]
    return tuple(map(bits, words.removeprefix("--setopt=cpu-affinity=map:").split(";")))


def read_pals(binding: Binding, topology: Topology) -> Ranks:
    kind, _, entries = after(binding, "--cpu-bind").partition(":")
    assert kind == "list"
    return tuple(map(numbers, entries.split(":")))


def read_psid(binding: Binding, topology: Topology) -> Ranks:
    cpus = numbers(binding.env["__PSI_CPUMAP"])
    width = int(after(binding, "-tpp"))
    return tuple(cpus[first : first + width] for first in range(0, len(cpus), width))


READERS: Mapping[str, Callable[[Binding, Topology], Ranks]] = {
    "srun": read_srun,
    "hydra-intel": read_intel,
    "hydra": read_hydra,
    "prrte": read_prrte,
    "orterun": read_orterun,
    "mpirun_rsh": read_rsh,
    "flux": read_flux,
    "pals": read_pals,
    "psmgmt": read_psid,
}
UNBINDING = [row for mpi in mpis.known().values() for row in mpi.unbinding]
#: They place ranks by themselves, so that core lists are refused: tested by themselves.
WITHOUT_CORE_LISTS = ("poe",)
WITH_CORE_LISTS = [launcher for launcher in launchers.known() if launcher not in WITHOUT_CORE_LISTS]


def test_every_launcher_family_has_a_row_and_a_reader() -> None:
    assert set(WITH_CORE_LISTS) == set(READERS)
    assert all(row.manual for row in launchers.known().values())
    assert {name for row in UNBINDING for name in row.launchers} <= set(launchers.families())
    assert {name for mpi in mpis.known().values() for name in mpi.launchers} == set(
        launchers.families()
    )
    assert all(row.site or name in launchers.families() for name, row in launchers.known().items())


@pytest.mark.parametrize("launcher", WITH_CORE_LISTS)
@given(data=st.data())
def test_words_are_read_back_to_the_same_lists(launcher: str, data: st.DataObject) -> None:
    numbering = data.draw(st.sampled_from(NUMBERINGS))
    smt = 1 if numbering == "consecutive" else data.draw(st.integers(1, 2))
    topology = Topology.from_processor(
        describe(2, 6, numa_per_socket=2, smt=smt, numbering=numbering)
    )
    if data.draw(st.booleans()):
        topology = topology.usable(data.draw(st.sets(st.sampled_from(topology.cpus), min_size=1)))
    policy = data.draw(st.sampled_from(["bunch", "scatter", "nic_local", "nic_remote"]))
    try:
        placement = place(policy, data.draw(st.integers(1, len(topology.cores))), topology, 0)
    except NotMeasured:
        reject()
    if data.draw(st.booleans()):
        placement = with_whole_cores(placement)
    if launcher == "psmgmt" and len({len(cpus) for cpus in placement.ranks or ()}) > 1:
        assert "these have different numbers" in refusal(placement, launcher, 1, placement.ppn)
    else:
        assert READERS[launcher](bound(placement, launcher), topology) == placement.ranks


@pytest.mark.parametrize(
    "reader", [("prrte", read_prrte), ("orterun", read_orterun)], ids=lambda pair: pair[0]
)
def test_rank_files_for_several_nodes(
    reader: tuple[str, Callable[[Binding, Topology, int], Ranks]],
) -> None:
    launcher, read = reader
    placement = RankPlacement("scatter", 3, ((0, 2), (1, 3), (6, 8)), WESTMERE)
    assert read(bound(placement, launcher, nodes=3), WESTMERE, 3) == placement.ranks


# ---- the words themselves ----

SCATTER = placed("scatter", 4)
WIDE = RankPlacement("scatter", 2, ((0, 2), (1, 3)), WESTMERE)


@pytest.mark.parametrize(
    ("launcher", "placement", "env", "options"),
    [
        (
            "srun",
            placed("none", 2),
            {"I_MPI_PIN": "off"},
            "--ntasks-per-node=2 --distribution=block --cpu-bind=none",
        ),
        ("srunalloc", placed("default", 2), {}, "--ntasks-per-node=2 --distribution=block"),
        ("hydra-intel", placed("none", 2), {"I_MPI_PIN": "off"}, "-ppn 2"),
        ("hydra", placed("none", 2), {}, "-ppn 2 -bind-to none"),
        ("prrte", SCATTER, {}, "--map-by pe-list=0,6,3,9:ordered:hwtcpus"),
        ("prrte", placed("none", 2), {}, "--map-by ppr:2:node --bind-to none"),
        ("orterun", placed("none", 2), {}, "-npernode 2 --bind-to none"),
        ("orterun", placed("default", 2), {}, ""),
    ],
)
def test_words(launcher: str, placement: RankPlacement, env: dict[str, str], options: str) -> None:
    mpi = {
        "srun": "intelmpi",
        "srunalloc": "intelmpi",
        "hydra-intel": "intelmpi",
        "hydra": "mpich",
    }.get(launcher, "openmpi")
    binding = bound(placement, launcher, mpi=mpi)
    assert binding.env == env
    assert " ".join(binding.options) == options


def test_words_of_mpirun_rsh() -> None:
    explicit = bound(WIDE, "mpirun_rsh", mpi="mvapich2")
    assert explicit.env == {"MV2_ENABLE_AFFINITY": "1", "MV2_CPU_MAPPING": "0,2:1,3"}
    assert explicit.options == ("-export", "-hostfile", HOSTFILE)
    assert explicit.files == {HOSTFILE: "localhost:2\n"}
    assert bound(placed("none", 2), "mpirun_rsh", mpi="mvapich2").env == {
        "MV2_ENABLE_AFFINITY": "0"
    }
    assert bound(SCATTER, "mpirun_rsh", nodes=2).options == ("-export", "-ppn", "4")


def test_versions_of_the_cambridge_paper() -> None:
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
    assert bound(placed("none", 2), "orterun", version=(1, 4, 2)).options == (
        "-npernode",
        "2",
        "--bind-to-none",
    )
    assert "hwloc's numbers only" in refusal(SCATTER, "orterun", 1, 4, version=(1, 7, 5))


@pytest.mark.parametrize(
    ("mpi", "version", "env"),
    [
        ("intelmpi", (2021, 18), {"I_MPI_PIN": "off"}),
        ("openmpi", (4, 1, 4), {"OMPI_MCA_hwloc_base_binding_policy": "none"}),
        ("openmpi", (5, 0, 11), {}),
    ],
)
def test_libraries_do_not_bind_again_under_srun(
    mpi: str, version: tuple[int, ...], env: dict[str, str]
) -> None:
    assert bound(SCATTER, "srun", mpi=mpi, version=version).env == env
    assert bound(placed("none", 1), "srun", mpi=mpi, version=version).env == env


@pytest.mark.parametrize("policy", ["default", "none", "scatter"])
@pytest.mark.parametrize("launcher", WITH_CORE_LISTS)
def test_oversubscription_only_when_asked(launcher: str, policy: str) -> None:
    def words(binding: Binding) -> list[str]:
        return [
            word
            for word in binding.options
            if re.search(r"overs|overc|overb|overload", word, re.IGNORECASE)
        ]

    assert words(bound(placed(policy, 2), launcher)) == []
    asked = words(bound(placed(policy, 2), launcher, oversubscribe=True))
    assert bool(asked) == bool(launchers.known()[launcher].oversubscribe), "the others never refuse"


def test_a_launcher_without_words() -> None:
    said = refusal(SCATTER, "ibrun", 1, 4)
    assert (
        said == "nothing is known about pinning under launcher ibrun; known are "
        f"{', '.join(launchers.known())}"
    )


def test_cpu_numbers_that_mvapich2_refuses() -> None:
    """MVAPICH2 compares CPU numbers with the count of CPUs
    online (hwloc_bind.c, smpi_setaffinity).
    """
    gaps = from_lscpu("0,0,0,0\n1,1,0,0\n3,2,0,0\n")
    assert isinstance(bind(placed("bunch", 2, gaps), "mpirun_rsh", 1, 2), Binding)
    assert refusal(placed("bunch", 3, gaps), "mpirun_rsh", 1, 3).startswith(
        "MVAPICH2 refuses CPU 3 on a node with 3 CPUs online"
    )
    # A cpuset takes CPUs from the job, not from the machine.
    assert isinstance(bind(placed("bunch", 1, WESTMERE.usable([11])), "mpirun_rsh", 1, 1), Binding)


def test_open_mpi_5_needs_the_topology() -> None:
    assert "hwloc's order" in refusal(RankPlacement("bunch", 1, ((0,),)), "prrte", 1, 1)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ({"ppn": 3}, "the placement is for 4 ranks per node and 3 are to be started"),
        ({"nodes": 0}, "0 nodes are asked for: ask for at least 1"),
    ],
)
def test_requests_that_do_not_agree(words: dict[str, object], sentence: str) -> None:
    with pytest.raises(BadInput, match=re.escape(sentence)):
        bind(**{"placement": SCATTER, "launcher": "srun", "nodes": 1, "ppn": 4, **words})  # type: ignore[arg-type]


def test_old_mvapich2_has_a_host_file_and_no_export() -> None:
    """MVAPICH2 1.5: neither -export nor -ppn; the batch system's
    list of nodes becomes the host file.
    """
    old = bound(SCATTER, "mpirun_rsh", nodes=2, mpi="mvapich2", version=(1, 5), hostfile=True)
    assert old.options == ("-hostfile", HOSTFILE)
    assert old.files == {}, "the job writes it"
    assert "one core only" in refusal(
        WIDE, "mpirun_rsh", 1, WIDE.ppn, mpi="mvapich2", version=(1, 5)
    )


def test_poe_counts_by_variables_and_binds_to_modules_only() -> None:
    """IBM p5-575: eight modules of two cores. A list of cores cannot
    be said; a list of whole modules can.
    """
    power5 = Topology.from_processor(describe(8, 2))
    plain = bound(placed("default", 8, power5), "poe", nodes=2)
    assert plain == Binding(
        {"MP_PROCS": "16", "MP_NODES": "2", "MP_TASKS_PER_NODE": "8", "MP_RESD": "yes"}
    )
    assert "names MCMs" in refusal(placed("scatter", 8, power5), "poe", 2, 8)
    modules = RankPlacement("scatter", 4, ((0, 1), (4, 5), (8, 9), (12, 13)), power5)
    assert modules.ranks
    listed = [int(number) for number in bound(modules, "poe").env["MP_TASK_AFFINITY"].split(",")]
    assert [(2 * number, 2 * number + 1) for number in listed] == list(modules.ranks)

"""Pinning by each launcher: every one is given the same lists, in the syntax of its manual."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from reframe_tests.harness.launchers import registry as launchers
from reframe_tests.harness.launchers.model import Binding
from reframe_tests.harness.launchers.open_mpi import RANKFILE
from reframe_tests.harness.launchers.registry import bind
from reframe_tests.harness.machine.placement import RankPlacement, place
from reframe_tests.harness.machine.topology import Topology, describe
from reframe_tests.harness.vocabulary import NotMeasured

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


def numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(",")))


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


#: They place ranks by themselves, so that core lists are refused: tested by themselves.
WITHOUT_CORE_LISTS = ("poe",)
WITH_CORE_LISTS = [launcher for launcher in launchers.known() if launcher not in WITHOUT_CORE_LISTS]


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
    assert "only hwloc's numbers" in refusal(SCATTER, "orterun", 1, 4, version=(1, 7, 5))


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

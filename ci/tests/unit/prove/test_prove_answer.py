"""What ``mpibench prove`` says of records: the network, the cores, the library, and what is missing."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mpibench_prove import answer, launch
from mpibench_prove.launch import RecordedRun
from reframe_tests.harness.evidence.rank_records import Bytes, RankEvidence, parse_cpus
from synthetic_evidence import exchange, make_rank

GB = 1e9


def run_of(*launches: list[RankEvidence], status: int = 0) -> RecordedRun:
    return RecordedRun(("mpirun",), status, tuple(map(tuple, launches)), (), Path("records"))


def on_two_nodes(sent: dict[str, float], own: float = 0.0, **changes: Any) -> list[RankEvidence]:
    """A rank on each of two nodes that sent so many bytes, some of them by the first's sockets."""
    sockets = [("10.0.0.1", "10.0.0.2", own)] if own else []
    first = exchange(sent, sockets, **changes)[0]
    last = exchange(sent, [], host="c2", **changes)[1]
    return [first, last]


def said(ranks: list[RankEvidence], *expected: str, status: int = 0) -> tuple[int, str]:
    found = answer.prove(run_of(ranks, status=status), expected)
    return found.status, "\n".join(found.lines())


@pytest.mark.parametrize(
    ("sent", "own", "word", "holds"),
    [
        ({"mlx5_0/1": GB, "eth1": 2e4}, 0, "fabric=mlx5_0", True),
        ({"mlx5_0/1": GB, "eth1": 2e4}, 0, "fabric=mlx5_0/1", True),
        ({"mlx5_0/1": GB, "eth1": 2e4}, 0, "no-ethernet", True),
        ({"mlx5_0/1": 2e4, "eth1": GB}, GB, "fabric=mlx5_0", False),
        ({"mlx5_0/1": 2e4, "eth1": GB}, GB, "no-ethernet", False),
        ({"mlx5_0/1": 2e4, "eth1": GB}, 2 * GB, "fabric=tcp", True),
        ({"mlx5_0/1": GB, "eth1": 2e4}, 2e4, "fabric=tcp", False),
        ({"mlx5_0/1": GB, "mlx5_1/1": GB}, 0, "fabric=mlx5_0", False),
        ({"mlx5_0/1": 0, "eth1": 2e4}, 0, "fabric=mlx5_0", None),
        ({}, 0, "no-ethernet", None),
        ({"mlx5_0/1": GB}, 0, "fabric=shm", False),
    ],
)
def test_the_network_is_the_one_that_carried_the_bytes(sent, own, word, holds) -> None:
    ranks = on_two_nodes(sent, own)
    [found] = answer.prove(run_of(ranks), [word]).expectations
    assert found.holds is holds, found
    assert said(ranks, word)[0] == (0 if holds else answer.CONTRADICTED)


def placed(*cpus: str, smt: str = "0") -> list[RankEvidence]:
    """Ranks of one node on these CPUs."""
    ranks = [
        make_rank(number, size={"value": str(len(cpus)), "source": "PMI_SIZE"}, world=None)
        for number in range(len(cpus))
    ]
    return [
        replace(
            rank,
            rank=number,
            size=len(cpus),
            kernel={**rank.kernel, "smt_active": smt},
            init=replace(rank.init, cpus=parse_cpus(where)),
            finalize=replace(rank.last, cpus=parse_cpus(where)),
        )
        for number, (rank, where) in enumerate(zip(ranks, cpus, strict=True))
    ]


@pytest.mark.parametrize(
    ("cpus", "smt", "own", "words"),
    [
        (("0", "1"), "0", True, "each of 2 ranks on 1 CPU of its own (0-1)"),
        (("0", "1"), "1", None, "maybe threads of one core"),
        (("0", "0"), "0", False, "may both run on core 0 only"),
        (("0-1", "1-2"), "0", False, "that others use, too"),
        (("0-3", "0-3"), "0", False, "not bound: 2 ranks on CPUs 0-3"),
        (("0-3",), "1", True, "not bound: 1 rank on CPUs 0-3"),
        (("0-11",) * 11, "0", False, "each of 11 ranks on 12 CPUs that others use, too"),
    ],
)
def test_cores(cpus, smt, own, words) -> None:
    [found] = answer.prove(run_of(placed(*cpus, smt=smt)), ["cores=own"]).expectations
    status, lines = said(placed(*cpus, smt=smt), "cores=own")
    assert words in lines
    assert found.holds is own and status == (0 if own else answer.CONTRADICTED)


def test_what_cannot_be_counted_is_not_known() -> None:
    """Green when blind: RDMA without counters, sockets that nobody could ask."""
    hidden = on_two_nodes({"eth1": GB}, GB)
    port = {"mlx5_0/1": Bytes(None, None)}
    hidden = [
        replace(rank, init=replace(rank.init, ports=port), finalize=replace(rank.last, ports=port))
        for rank in hidden
    ]
    blind = exchange({"lo": 100}, None)
    for ranks, words in ((hidden, ("fabric=eth1", "fabric=tcp")), (blind, ("fabric=shm",))):
        for word in words:
            [found] = answer.prove(run_of(ranks), [word]).expectations
            assert found.holds is None, (word, found)
    assert "not countable here: mlx5_0/1" in said(hidden)[1]
    over_port = exchange({"lo": 0, "mlx5_0/1": GB}, [])
    assert said(over_port, "fabric=shm")[0] == answer.CONTRADICTED


def test_the_library_and_two_of_them() -> None:
    ranks = exchange({"lo": 0}, [], library__version="Open MPI v5.0.11, package: Open MPI")
    assert said(ranks, "mpi=openmpi")[0] == 0
    assert said(ranks, "mpi=mpich")[0] == answer.CONTRADICTED
    other = make_rank(
        1, library__version="MPICH Version:      4.3.2", library__path="/opt/libmpi.so.12"
    )
    status, lines = said([ranks[0], other], "mpi=openmpi")
    assert status == answer.CONTRADICTED
    assert "do not all run the same MPI library" in lines
    unknown = make_rank(0, library__version="Some MPI 1.0")
    assert said([unknown], "mpi=openmpi")[0] == answer.CONTRADICTED


def test_nothing_holds_of_ranks_that_are_missing() -> None:
    """Green when blind: half of the records never came, or a rank was killed."""
    ranks = on_two_nodes({"mlx5_0/1": GB})
    dead = replace(ranks[1], finalize=None)
    for left, words in ((ranks[:1], "1 of 2 ranks"), ([ranks[0], dead], "never called")):
        status, lines = said(left, "cores=own")
        assert status == answer.CONTRADICTED
        assert "NOT KNOWN" in lines and words in lines


def test_without_a_record_everything_expected_is_unknown(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    run = RecordedRun((str(program),), 0, (), (), tmp_path)
    found = answer.prove(run, ["cores=own"])
    assert found.status == answer.CONTRADICTED
    assert "No rank left a record" in "\n".join(found.lines())


def test_a_command_of_several_programs_has_a_launch_of_each() -> None:
    """A script that starts MPI twice: equal numbers are of different launches."""
    first, second = exchange({"lo": 0}, [])
    later = [
        make_rank(
            number,
            init__realtime_ns=1_795_000_100_000_000_000,
            init__monotonic_ns=100_000_000_000,
            finalize__monotonic_ns=101_000_000_000,
            pid=300 + number,
        )
        for number in (0, 1)
    ]
    # One of the first was killed: another one's rank does not stand in for it.
    assert [len(one) for one in launch.split([first, *later])] == [1, 2]
    # Another program or library in one world is no other launch.
    other = replace(second, executable="/opt/other", library="/opt/other/libmpi.so")
    assert [len(one) for one in launch.split([first, other])] == [2]
    shuffled = [first, second, *later]
    assert [len(one) for one in launch.split(shuffled)] == [2, 2]
    for order in itertools.permutations(shuffled):
        assert [one[0].pid for one in launch.split(order)] == [100, 300]


def test_variables_of_the_batch_system_come_last(tmp_path: Path) -> None:
    """In a job, ranks that mpirun started have SLURM_PROCID of the script around them."""
    environ = {"LD_PRELOAD": "other.so", "OMPI_MCA_mca_base_env_list": "MINE"}
    given = launch.variables(tmp_path / "recorder.so", tmp_path, "nonce", environ)
    names = given["MPIBENCH_RANK_VARIABLES"].split(":")
    assert names.index("PMI_RANK") < names.index("SLURM_PROCID")
    assert given["LD_PRELOAD"] == f"{tmp_path / 'recorder.so'}:other.so"
    listed = given["OMPI_MCA_mca_base_env_list"].split(";")
    assert listed[0] == "MINE" and {"LD_PRELOAD", "MPIBENCH_NONCE"} <= set(listed)


def test_a_static_program_is_told_from_a_dynamic_one(tmp_path: Path) -> None:
    head = bytearray(64 + 56)
    head[:5] = b"\x7fELF\x02"
    head[32:40] = (64).to_bytes(8, "little")
    head[54:58] = (56).to_bytes(2, "little") + (1).to_bytes(2, "little")
    for kind, static in ((1, True), (3, False)):
        head[64:68] = kind.to_bytes(4, "little")
        (tmp_path / "program").write_bytes(head)
        assert launch.is_static(tmp_path / "program") is static
    (tmp_path / "script").write_text("#!/bin/sh\n")
    assert not launch.is_static(tmp_path / "script")
    assert not launch.is_static(tmp_path / "none")

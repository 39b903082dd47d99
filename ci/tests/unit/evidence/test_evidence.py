"""Every sentence of the evidence checks, on rank records made by hand; nothing is run here."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reframe_tests.harness.evidence import checks, rank_records
from reframe_tests.harness.stacks.modules import Module
from synthetic_evidence import DOCUMENT, STACK, make_rank, pair

# ---- reading ----


def test_reads_every_rank_by_number(tmp_path: Path):
    for number, pid in ((1, 5), (0, 6)):
        document = {**DOCUMENT, "pid": pid, "world": {"rank": number, "size": 2}}
        (tmp_path / f"c1.{pid}.json").write_text(json.dumps(document))
    (tmp_path / ".c1.7.part").write_text("{")
    assert [(rank.rank, rank.pid) for rank in rank_records.read(tmp_path)] == [(0, 6), (1, 5)]


def test_no_folder_is_no_evidence(tmp_path: Path):
    assert rank_records.read(tmp_path / "none") == []


def test_launcher_variables_serve_where_mpi_was_not_asked():
    rank = make_rank(world=None)
    assert (rank.rank, rank.size, rank.world_known) == (0, 2, False)
    assert (lost := make_rank(world=None, rank=None, size=None)).rank is None and lost.size is None


@given(st.integers(0, len(json.dumps(DOCUMENT)) - 1))
def test_file_cut_short_is_an_error(length: int):
    with pytest.raises(
        rank_records.EvidenceError, match=r"^The evidence x\.json is cut short or damaged .*run the case again\.$"
    ):
        rank_records.parse_rank(json.dumps(DOCUMENT)[:length], "x.json")


def paths(value: Any, at: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    return [at, *(p for key in value for p in paths(value[key], (*at, key)))] if isinstance(value, dict) else [at]


#: What a file may lack: values the kernel or the launcher does not always have, free-form maps, and facts for the reader.
OPTIONAL = {"cpu", "numa_node", "rx_bytes", "tx_bytes", "dev_port", "slot"}
FREE = {"environment", "interfaces", "ports", "release", "value", "source", "received_bytes"}


@pytest.mark.parametrize(
    "path", [p for p in paths(DOCUMENT) if p and not {p[-1]} & OPTIONAL and not set(p[:-1]) & FREE and p[-1] not in FREE]
)
@pytest.mark.parametrize("damage", ["missing", "replaced"])
def test_damaged_part_is_an_error(path: tuple[str, ...], damage: str):
    document = copy.deepcopy(DOCUMENT)
    at = document
    for key in path[:-1]:
        at = at[key]
    if damage == "missing":
        del at[path[-1]]
    else:
        at[path[-1]] = 5 if isinstance(at[path[-1]], str) else [{}]
    with pytest.raises(rank_records.EvidenceError, match=r"^The evidence x\.json (is damaged|has layout)"):
        rank_records.parse_rank(json.dumps(document), "x.json")


def test_bytes_of_names_come_back():
    assert make_rank(environment={"UCX_X": "caf\u00c3\u00a9"}).environment["UCX_X"] == "café"


def test_nameless_ranks_come_last(tmp_path: Path):
    for name, rank in (("a", None), ("b", None), ("c", {"value": "1", "source": "PMI_RANK"})):
        (tmp_path / f"{name}.json").write_text(json.dumps({**DOCUMENT, "world": None, "rank": rank}))
    assert [rank.rank for rank in rank_records.read(tmp_path)] == [1, None, None]


def test_thread_that_ended_while_looked_at_is_left_out():
    threads = [{"name": None, "cpus": None}, {"name": "a", "cpus": None}, {"name": "b", "cpus": "1"}]
    assert make_rank(init__threads=threads).init.threads == (("b", frozenset({1})),)


@given(st.frozensets(st.integers(0, 300)))
def test_cpu_lists_round_trip(cpus: frozenset[int]):
    assert rank_records.parse_cpus("" if not cpus else checks.format_cpus(cpus)) == cpus


# ---- presence ----


def test_all_there():
    assert checks.check_presence(pair(), nodes=1, ppn=2) == []


def test_nothing_at_all():
    (sentence,) = checks.check_presence([], nodes=2, ppn=4)
    assert sentence.startswith("none of the 8 ranks left evidence: ") and "LD_PRELOAD" in sentence


def test_missing_rank():
    (sentence,) = checks.check_presence([make_rank(0)], nodes=1, ppn=2)
    assert sentence.startswith("rank 1 of 2 left no evidence:")
    many = [make_rank(0, world={"rank": 0, "size": 6})]
    assert checks.check_presence(many, nodes=1, ppn=6)[0].startswith("ranks 1-5 of 6 left no evidence:")


def test_rank_that_never_finalised():
    killed = {**DOCUMENT, "finalized": False, "world": {"rank": 1, "size": 2}, "pid": 8}
    del killed["finalize"]
    ranks = [make_rank(0), rank_records.parse_rank(json.dumps(killed), "x")]
    (sentence,) = checks.check_presence(ranks, nodes=1, ppn=2)
    assert sentence == "rank 1 on c1 never called MPI_Finalize: killed, hung or ended early."


def test_singletons_are_named_as_such():
    """What srun --mpi=none gives: exit status 0, SLURM_PROCID of 0 and 1, and two worlds of one rank each."""
    ranks = pair(world={"rank": 0, "size": 1}, rank={"value": "0", "source": "SLURM_PROCID"})
    (sentence,) = checks.check_presence(ranks, nodes=1, ppn=2)
    assert sentence == (
        "2 processes started as MPI worlds of one rank each, 2 ranks in one world were asked for: launcher and MPI "
        "library do not speak the same process management interface (PMI)."
    )


def test_single_rank_is_no_singleton():
    assert checks.check_presence([make_rank(world={"rank": 0, "size": 1})], nodes=1, ppn=1) == []


def test_duplicated_rank():
    sentences = checks.check_presence([make_rank(0), make_rank(0, pid=101)], nodes=1, ppn=2)
    assert sentences[0] == "rank 0 left evidence 2 times (c1 pid 100, c1 pid 101); each rank is one process."
    assert sentences[1].startswith("rank 1 of 2 left no evidence:")


def test_world_of_another_size():
    sentences = checks.check_presence([make_rank(n, world={"rank": n, "size": 3}) for n in range(3)], nodes=1, ppn=2)
    assert sentences == [
        "3 ranks are in a world of 3, 2 ranks in one world were asked for.",
        "ranks 2 left evidence, 2 ranks were asked for.",
    ]


def test_ranks_without_a_number():
    nameless = [make_rank(world=None, rank=None, pid=pid) for pid in (9, 8)]
    assert checks.check_presence([*nameless, make_rank(0)], nodes=1, ppn=3)[-2:] == [
        "process 9 on c1 does not know its rank; no launcher announced it.",
        "process 8 on c1 does not know its rank; no launcher announced it.",
    ]


def test_a_number_that_is_none_is_named():
    odd = make_rank(world=None, rank={"value": "two", "source": "TORUS_RANK"})
    sentences = checks.check_presence([odd], nodes=1, ppn=1)
    assert "process 100 on c1 does not know its rank; TORUS_RANK of its launcher is no number." in sentences


def test_why_mpi_was_not_asked_is_a_note():
    lost = make_rank(0, world=None, world_unknown="no handle")
    assert lost.world_unknown == "no handle" and make_rank(1).world_unknown == ""
    [note] = checks.notes([lost, make_rank(1)])
    assert note == "rank and size of rank 0 on c1 are the launcher's, not MPI's: no handle"


def test_ranks_unevenly_spread():
    ranks = [make_rank(n, host, world={"rank": n, "size": 4}) for n, host in enumerate(("c1", "c1", "c1", "c2"))]
    (sentence,) = checks.check_presence(ranks, nodes=2, ppn=2)
    assert sentence == "asked for 2 per node on 2 nodes, the ranks ran on c1 (3), c2 (1)."


def test_all_ranks_on_one_of_two_nodes():
    (sentence,) = checks.check_presence(pair(), nodes=2, ppn=1)
    assert sentence == "asked for 1 per node on 2 nodes, the ranks ran on c1 (2)."


def test_evidence_of_two_jobs():
    ranks = [make_rank(0), make_rank(1, job={"value": "8", "source": "SLURM_JOB_ID"})]
    assert checks.check_presence(ranks, nodes=1, ppn=2) == ["evidence of several jobs is mixed up (7, 8)."]


# ---- library ----


def test_library_asked_for():
    assert checks.check_library(pair(), STACK) == []


@pytest.mark.parametrize("name", ["libmpi.so", "libmpi.so.40.40.7", "libmpi_abi.so.1"])
def test_copies_in_the_same_folder_are_the_same_library(name: str):
    path = f"/opt/ompi/lib/{name}"
    assert checks.check_library(pair(library__path=path, library__mapped=[path]), STACK) == []


def test_other_library():
    other = {"version": "MPICH Version:      5.0.2\nMPICH ABI: 18:2:6", "path": "/opt/mpich/lib/libmpi.so.12"}
    ranks = [make_rank(0), make_rank(1, "c2", library={**other, "mapped": [other["path"]]})]
    assert checks.check_library(ranks, STACK) == [
        "asked for Open MPI 5.0.11 at /opt/ompi/lib/libmpi.so.40, rank 1 on c2 ran MPICH Version:      5.0.2 from "
        "/opt/mpich/lib/libmpi.so.12."
    ]


def test_of_a_stack_of_modules_the_library_is_the_modules_own():
    stack = replace(STACK, modules=(Module("gcc/12"), Module("openmpi/5.0.11")))
    path = "/usr/lib/libmpi.so.40"
    (sentence,) = checks.check_library(pair(library__path=path, library__mapped=[path]), stack)
    assert sentence.startswith("asked for Open MPI 5.0.11 of modules gcc/12 and openmpi/5.0.11 at /opt/ompi/lib/libmpi.so.40, ")


def test_other_version_at_the_right_place():
    (sentence,) = checks.check_library(pair(library__version="Open MPI v5.0.3"), STACK)
    assert sentence.endswith("ranks 0 and 1 on c1 ran Open MPI v5.0.3 from /opt/ompi/lib/libmpi.so.40.")


def test_right_version_from_another_place():
    path = "/usr/lib/libmpi.so.40"
    (sentence,) = checks.check_library(pair(library__path=path, library__mapped=[path]), STACK)
    assert sentence.endswith(f"ran Open MPI v5.0.11 from {path}.")


@pytest.mark.parametrize(
    ("claimed", "banner", "good"),
    [
        ("5.0.2", "Open MPI v5.0.2, package: Open MPI, ident: 5.0.2", True),
        ("5.0.1", "Open MPI v5.0.2, package: Open MPI, ident: 5.0.2", False),
        ("5.0.20", "Open MPI v5.0.2, package: Open MPI, ident: 5.0.2", False),
        ("2021.18.1", "Intel(R) MPI Library 2021.18 for Linux* OS", True),
        ("2021.17.1", "Intel(R) MPI Library 2021.18 for Linux* OS", False),
        ("2.3.7-1", "MVAPICH2 Version      :\t2.3.7", True),
        ("4.1", "MPICH Version:      4.1.2", True),
        ("4.1.2", "MPICH, of no version", False),
    ],
)
def test_the_version_a_stack_claims_is_the_one_the_library_tells(claimed: str, banner: str, good: bool):
    """A metadata file edited by hand may claim anything, and a number is stored under that claim."""
    stack = replace(STACK, mpi_version=claimed, library_version_pattern=".")
    sentences = checks.check_library(pair(library__version=banner), stack)
    assert [claimed in sentence and "asked for" in sentence for sentence in sentences] == ([] if good else [True])


def test_library_that_tells_nothing():
    (sentence,) = checks.check_library(pair(library__version=None, library__path=None, library__mapped=[]), STACK)
    assert sentence.endswith("ran an MPI that does not say its version from an unknown file.")


def test_second_library_in_the_process():
    mapped = ["/opt/ompi/lib/libmpi.so.40", "/opt/ompi/lib/libmpi_mpifh.so.40", "/usr/lib/libmpi.so.12"]
    (first, _) = checks.check_library(pair(library__mapped=mapped), STACK)
    assert first == ("rank 0 on c1 has a second MPI library mapped beside /opt/ompi/lib/libmpi.so.40: /usr/lib/libmpi.so.12.")


# ---- placement ----


def test_explicit_placement_kept():
    assert checks.check_placement(pair(), "bunch", [[0], [1]]) == []


def test_mask_differs_from_the_placement():
    ranks = [make_rank(0), make_rank(1, init__cpus="0-3", finalize__cpus="0-3")]
    assert checks.check_placement(ranks, "scatter", [[0], [2]]) == [
        "asked for rank 1 on c1 on core 2 (scatter), the kernel lets it run on cores 0-3."
    ]


def test_placement_goes_by_rank_order_within_each_node():
    ranks = [make_rank(n, host, world={"rank": n, "size": 4}) for n, host in ((3, "c2"), (0, "c1"), (1, "c2"), (2, "c1"))]
    masks = {0: "0", 2: "1", 1: "0", 3: "1"}
    ranks = [replace(r, init=replace(r.init, cpus=rank_records.parse_cpus(masks[r.rank])), finalize=None) for r in ranks]
    assert checks.check_placement(ranks, "bunch", [[0], [1]]) == []
    assert len(checks.check_placement(ranks, "bunch", [[1], [0]])) == 4


def test_placement_for_another_number_of_ranks():
    assert checks.check_placement(pair(), "bunch", [[0], [1], [2]]) == ["the placement is for 3 ranks per node, c1 ran 2."]


@pytest.mark.parametrize("policy", ["default", "none"])
def test_no_pinning_at_all(policy: str):
    assert checks.check_placement(pair(init__cpus="0-3", finalize__cpus="0-3"), policy) == []


def test_pinned_although_none_was_asked_for():
    assert checks.check_placement([make_rank(0)], "none") == [
        "asked for no pinning, but rank 0 on c1 may only run on core 0 of 0-3."
    ]
    assert checks.check_placement([make_rank(0)], "default") == []


def test_none_is_what_cgroup_or_launcher_left():
    confined = make_rank(0, load={**DOCUMENT["load"], "parent_cpus": "0", "cpuset": "0-3"})
    assert checks.check_placement([confined], "none") == []
    offline = make_rank(0, load={**DOCUMENT["load"], "parent_cpus": None, "cpuset": "0,9"})
    assert checks.check_placement([offline], "none") == []
    nothing_known = make_rank(0, load={**DOCUMENT["load"], "parent_cpus": None, "cpuset": None, "online": "0"})
    assert checks.check_placement([nothing_known], "none") == []


@pytest.mark.parametrize("policy", ["default", "none"])
def test_two_ranks_on_one_core(policy: str):
    ranks = pair(init__cpus="0", finalize__cpus="0", load={**DOCUMENT["load"], "cpuset": "0"})
    assert checks.check_placement(ranks, policy) == ["ranks 0 and 1 on c1 may both run on core 0 only: 2 ranks for 1 core."]


def test_crowd_is_found_behind_wider_masks():
    """Ranks 0-2 share cores 0 and 1; rank 3 could run anywhere and is not to blame."""
    masks = ["0-1", "0-1", "0-1", "0-3"]
    ranks = [make_rank(n, world={"rank": n, "size": 4}, init__cpus=mask, finalize__cpus=mask) for n, mask in enumerate(masks)]
    assert checks.check_placement(ranks, "default") == ["ranks 0-2 on c1 may all run on cores 0-1 only: 3 ranks for 2 cores."]


def test_matching_moves_earlier_ranks_aside():
    masks = ["0-1", "0", "0-2", "1-2,3"]
    ranks = [make_rank(n, world={"rank": n, "size": 4}, init__cpus=mask, finalize__cpus=mask) for n, mask in enumerate(masks)]
    assert checks.check_placement(ranks, "default") == []


@given(st.lists(st.frozensets(st.integers(0, 4), min_size=1), min_size=1, max_size=6))
def test_sharing_is_found_exactly_when_no_seating_exists(masks: list[frozenset[int]]):
    def seatable(left: Sequence[frozenset[int]], taken: frozenset[int] = frozenset()) -> bool:
        return not left or any(seatable(left[1:], taken | {core}) for core in left[0] - taken)

    blank = make_rank(0)
    ranks = [replace(blank, rank=n, init=replace(blank.init, cpus=mask), finalize=None) for n, mask in enumerate(masks)]
    assert (checks.check_placement(ranks, "default") == []) == seatable(masks)


def test_same_core_on_two_nodes_is_no_sharing():
    ranks = [make_rank(0, "c1"), make_rank(1, "c2", init__cpus="0", finalize__cpus="0")]
    assert checks.check_placement(ranks, "default") == []


def test_two_threads_of_one_core_are_one_core():
    assert checks.check_placement(pair(), "default", core_of=lambda cpu: cpu // 2) == [
        "ranks 0 and 1 on c1 may both run on core 0 only: 2 ranks for 1 core."
    ]


def test_rank_moved_during_the_run():
    assert checks.check_placement([make_rank(0, finalize__cpus="0-3")], "bunch", [[0]]) == [
        "rank 0 on c1 was moved during the run: core 0 after MPI_Init, cores 0-3 at the end."
    ]

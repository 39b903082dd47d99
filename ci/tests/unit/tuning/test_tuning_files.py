"""What is written for each library says what was chosen, for
communicators of that size only, and bad input is refused.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from reframe_tests.harness.mpis import registry
from reframe_tests.harness.mpis.tuning import rules_file, selection_file
from reframe_tests.harness.mpis.tuning.model import (
    DEFAULT,
    FOLDER,
    AlgorithmRule,
    Tuning,
    Wanted,
    write,
)
from refusals import refused_as

RULES = (
    AlgorithmRule("Allreduce", 0, 122, "2"),
    AlgorithmRule("Allreduce", 123, 4194304, "3"),
    AlgorithmRule("Alltoall", 8, 1023, "1"),
)
WORDS = {"2": "ring", "3": "recursive_doubling", "1": "brucks"}
#: A tree like MPICH's, cut to what the rules are about.
TREE = {
    "collective=allreduce": {
        "comm_type=intra": {
            "avg_msg_size<=8": {"algorithm=MPIR_Allreduce_intra_recursive_doubling": {}}
        },
        "comm_type=inter": {"algorithm=MPIR_Allreduce_inter_reduce_exchange_bcast": {}},
    },
    "collective=alltoall": {"comm_type=intra": {"algorithm=MPIR_Alltoall_intra_pairwise": {}}},
    "collective=gatherv": {"algorithm=MPIR_Gatherv_allcomm_linear": {}},
}


def tuning_of(name: str) -> Tuning:
    found = registry.find(name).tuning
    assert found is not None
    return found


def test_intel_conditions_name_the_ranks_they_are_for() -> None:
    made = write(tuning_of("intelmpi"), Wanted(RULES, 24, name="opa"))
    allreduce = "2:0-122@24-24;3:123-4194304@24-24"
    env = {"I_MPI_ADJUST_ALLREDUCE": allreduce, "I_MPI_ADJUST_ALLTOALL": "1:8-1023@24-24"}
    assert made.env == env
    [first, *_] = made.further["mpiexec_opa.conf"].splitlines()
    assert first == f"-genv I_MPI_ADJUST_ALLREDUCE '{allreduce}'"


def test_a_call_with_one_choice_gets_it_for_all_sizes() -> None:
    made = write(tuning_of("intelmpi"), Wanted((AlgorithmRule("Alltoallv", 0, 0, "2"),), 24))
    assert made.env == {"I_MPI_ADJUST_ALLTOALLV": f"2:0-{2**31 - 1}@24-24"}


def test_open_mpi_rules_end_where_they_were_measured() -> None:
    tuning = tuning_of("openmpi")
    made = write(tuning, Wanted(RULES, 24, version=(5, 0, 11)))
    name = "OMPI_MCA_coll_tuned_dynamic_rules_filename"
    assert made.env[name] == f"{FOLDER}/{rules_file.NAME}"
    lines = made.files[rules_file.NAME].splitlines()
    allreduce = "3 1 1|0 0 0 0 24 3|0 2 0 0 123 3 0 0 4194305 0 0 0 25 1|0 0 0 0"
    alltoall = "3 3 1 1|0 0 0 0 24 3|0 0 0 0 192 1 0 0 24576 0 0 0 25 1|0 0 0 0"
    assert " ".join(line.partition("#")[0].strip() for line in lines) == (
        f"2 2 {allreduce} {alltoall}".replace("|", " ")
    )
    assert write(tuning, Wanted(RULES, 24, version=(6, 0))).env[name].endswith(".json")


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """A library with a tree compiled into it, between those of other layers."""
    other = b'\x00{"collective=bcast":{"composition=MPIDI_Bcast_intra_composition_alpha":{}}}\x00'
    path = tmp_path / "libmpi.so"
    path.write_bytes(b"\x7fELF" + other + json.dumps(TREE).encode() + b"\x00rest")
    return path


def mpich_rules() -> tuple[AlgorithmRule, ...]:
    return tuple(replace(rule, word=WORDS[rule.word]) for rule in RULES)


def test_mpich_keeps_the_librarys_own_tree_for_other_communicators_and_sizes(library: Path) -> None:
    made = write(tuning_of("mpich"), Wanted(mpich_rules(), 24, library=str(library)))
    tree = json.loads(made.files[selection_file.NAME])
    own = TREE["collective=alltoall"]["comm_type=intra"]
    brucks = {"algorithm=MPIR_Alltoall_intra_brucks": {}}
    chosen = {"is_sendbuf_inplace=yes": own, "is_sendbuf_inplace=no": brucks}
    sizes = {"avg_msg_size<=7": own, "avg_msg_size<=1023": chosen, "avg_msg_size=any": own}
    assert tree["collective=alltoall"]["comm_type=intra"] == {
        "comm_size<24": own,
        "comm_size<=24": sizes,
        "comm_size=any": own,
    }
    inter = TREE["collective=allreduce"]["comm_type=inter"]
    assert tree["collective=allreduce"]["comm_type=inter"] == inter
    assert tree["collective=gatherv"] == TREE["collective=gatherv"], "untouched"
    assert made.env["MPIR_CVAR_ALLTOALL_DEVICE_COLLECTIVE"] == "0"


def test_mpich_without_its_tree_is_refused(tmp_path: Path) -> None:
    empty = tmp_path / "libmpi.so"
    empty.write_bytes(b"nothing")
    with refused_as("session-missing"):
        write(tuning_of("mpich"), Wanted(mpich_rules(), 24, library=str(empty)))


@pytest.mark.parametrize(
    ("rules", "code"),
    [
        ([("Bcast", 0, 8, "1"), ("Bcast", 8, 9, "2")], "configuration-unusable"),
        ([("Bcast", 9, 8, "1")], "configuration-unusable"),
        ([("Alltoallv", 0, 8, "2"), ("Alltoallv", 9, 99, "1")], "configuration-unusable"),
        ([("Barrier", 0, 8, "1")], "unknown-name"),
    ],
)
def test_rules_that_overlap_or_are_of_nothing_are_refused(rules: list, code: str) -> None:
    wanted = Wanted(tuple(AlgorithmRule(*rule) for rule in rules), 4)
    with refused_as(code):
        write(tuning_of("intelmpi"), wanted)


@pytest.mark.parametrize("name", ["intelmpi", "openmpi", "mpich", "mvapich2"])
def test_every_control_can_be_forced_and_written(name: str, library: Path) -> None:
    tuning = tuning_of(name)
    for control in tuning.controls:
        call = control.collective
        first = control.algorithms[0].word
        assert tuning.force(call, DEFAULT) == {}
        assert tuning.force(call, first)[control.variable] == first
        sizes = (8, 64) if control.by_size else (0, 0)
        if name != "mpich":
            assert write(tuning, Wanted((AlgorithmRule(call, *sizes, first),), 4)).env


HAN_RULES = (
    AlgorithmRule("Allreduce", 0, 122, "han-simple"),
    AlgorithmRule("Allreduce", 123, 4096, "4"),
    AlgorithmRule("Alltoall", 8, 1023, "1"),
    AlgorithmRule("Bcast", 512, 4096, "han-intra"),
)


def test_open_mpi_keeps_its_component_of_two_levels_for_what_has_no_rule() -> None:
    """Its own file says which calls go to coll/tuned, whose
    rules stay; nothing is put before it.
    """
    tuning = tuning_of("openmpi")
    two = {"version": (5, 0, 11), "nodes": 2}
    made = write(tuning, Wanted(HAN_RULES, 24, **two))
    assert rules_file.PRIORITY not in made.env
    assert made.env[rules_file.HAN_VARIABLE] == f"{FOLDER}/{rules_file.HAN_NAME}"
    assert set(made.files) == {rules_file.NAME, rules_file.HAN_NAME}
    words = made.files[rules_file.HAN_NAME].split("bcast")[0].splitlines()
    start = words.index("24 # ranks")
    assert words[start + 2 : start + 5] == ["0 han @simple", "123 tuned", "4097 han"]
    assert words[words.index("1 # rank and more: as without this file") + 2] == "0 han"
    only = write(tuning, Wanted(HAN_RULES[:1], 24, **two))
    assert set(only.files) == {rules_file.HAN_NAME}
    assert set(only.env) == {*rules_file.HAN_ENV, rules_file.HAN_VARIABLE}
    forced = {"OMPI_MCA_coll_han_use_allreduce_algorithm": "simple"}
    assert tuning.force("Allreduce", "han-simple") == forced


@pytest.mark.parametrize(
    ("nodes", "ranks", "version"), [(1, 24, (5, 0, 11)), (24, 24, (5, 0, 11)), (2, 24, (4, 1, 6))]
)
def test_open_mpi_has_two_levels_only_where_there_are_two(
    nodes: int, ranks: int, version: tuple[int, ...]
) -> None:
    tuning = tuning_of("openmpi")
    with refused_as("configuration-unusable"):
        write(tuning, Wanted(HAN_RULES, ranks, version=version, nodes=nodes))
    made = write(tuning, Wanted(HAN_RULES[2:3], ranks, version=version, nodes=nodes))
    assert set(made.files) == {rules_file.NAME} and rules_file.PRIORITY in made.env


def test_mpich_choices_stand_behind_the_tests_they_need(library: Path) -> None:
    """Else a file's algorithm would be taken for operations of users
    and for fewer elements than ranks.
    """
    rules = (AlgorithmRule("Allreduce", 8, 1023, "reduce_scatter_allgather"),)
    made = write(tuning_of("mpich"), Wanted(rules, 24, library=str(library)))
    tree = json.loads(made.files[selection_file.NAME])["collective=allreduce"]["comm_type=intra"]
    own = TREE["collective=allreduce"]["comm_type=intra"]
    chosen = {"algorithm=MPIR_Allreduce_intra_reduce_scatter_allgather": {}}
    assert tree["comm_size<=24"]["avg_msg_size<=1023"] == {
        "is_op_built_in=no": own,
        "is_op_built_in=yes": {"count<pow2": own, "count=any": chosen},
    }

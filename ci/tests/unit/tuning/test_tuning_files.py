"""What is written for each library says what was chosen, for
communicators of that size only, and bad input is refused.
"""

import json

import pytest

from reframe_tests.harness.mpis import registry
from reframe_tests.harness.mpis.tuning import rules_file, selection_file
from reframe_tests.harness.mpis.tuning.model import DEFAULT, FOLDER, AlgorithmRule, Wanted, write

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


def tuning_of(name):
    return registry.find(name).tuning


@pytest.fixture
def library(tmp_path):
    """A library with a tree compiled into it, between those of other layers."""
    other = b'\x00{"collective=bcast":{"composition=MPIDI_Bcast_intra_composition_alpha":{}}}\x00'
    path = tmp_path / "libmpi.so"
    path.write_bytes(b"\x7fELF" + other + json.dumps(TREE).encode() + b"\x00rest")
    return path


@pytest.mark.parametrize("name", ["intelmpi", "openmpi", "mpich", "mvapich2"])
def test_every_control_can_be_forced_and_written(name, library):
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


def test_open_mpi_keeps_its_component_of_two_levels_for_what_has_no_rule():
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
    forced = {"OMPI_MCA_coll_han_use_allreduce_algorithm": "simple"}
    assert tuning.force("Allreduce", "han-simple") == forced


def test_mpich_choices_stand_behind_the_tests_they_need(library):
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

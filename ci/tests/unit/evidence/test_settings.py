"""Variables reach every rank as they were written, and evidence compares what was asked with what each rank had."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reframe_tests.harness.evidence.checks import check_settings
from reframe_tests.harness.launchers import open_mpi, registry
from synthetic_conditions import ODD, resolved
from synthetic_evidence import STACK, make_rank, pair

# ---- what a rank had ----


def test_equal_values_are_proven() -> None:
    assert check_settings(pair(), {"I_MPI_FABRICS": "shm:ofi"}) == []


def test_another_value_names_variable_asked_had_and_rank() -> None:
    ranks = [make_rank(0), make_rank(1, environment={"I_MPI_FABRICS": "shm"})]
    [sentence] = check_settings(ranks, {"I_MPI_FABRICS": "shm:ofi"})
    assert sentence == "asked for I_MPI_FABRICS='shm:ofi', but rank 1 on c1 had 'shm'."


def test_a_variable_that_did_not_arrive_is_named() -> None:
    ranks = [make_rank(0), make_rank(1, host="c2", environment={})]
    assert check_settings(ranks, {"I_MPI_FABRICS": "shm:ofi"}) == [
        "asked for I_MPI_FABRICS='shm:ofi', but rank 1 on c2 had none."
    ]


def test_ranks_that_had_the_same_are_named_together() -> None:
    [sentence] = check_settings(pair(), {"X": "1"})
    assert sentence == "asked for X='1', but ranks 0 and 1 on c1 had none."


def test_what_a_launcher_keeps_may_be_absent_but_not_other() -> None:
    asked = {"HYDRA_TOPO_DEBUG": "1", "OMPI_ALLOW_RUN_AS_ROOT": "1"}
    assert check_settings(pair(environment={}), asked, {"I_MPI_PIN": "on"}) == []
    [sentence] = check_settings(pair(environment={"I_MPI_PIN": "off"}), asked, {"I_MPI_PIN": "on"})
    assert sentence == "asked for I_MPI_PIN='on', but ranks 0 and 1 on c1 had 'off'."


def test_what_srun_sets_again_is_no_contradiction() -> None:
    had = {"SLURM_CPU_BIND": "quiet,mask_cpu:0x1"}
    assert check_settings(pair(environment=had), {"SLURM_CPU_BIND": "cores"}) == []
    assert check_settings(pair(environment=had), {}, {"SLURM_CPU_BIND": "cores"}) == []


@pytest.mark.parametrize("name", ("PATH", "LD_LIBRARY_PATH"))
def test_a_launcher_may_put_its_folders_before_a_search_path(name: str) -> None:
    asked = {name: "/site/a:/site/b"}
    assert check_settings(pair(environment={name: "/opt/mpi/lib:/site/a:/site/b"}), asked) == []
    for other in ("/opt/mpi/lib", "/site/a:/site/b:/opt/mpi/lib", "/opt/site/a:/site/b"):
        assert len(check_settings(pair(environment={name: other}), asked)) == 1, other
    assert len(check_settings(pair(environment={"X": "a:b"}), {"X": "b"})) == 1, "no search path"


def test_a_long_value_is_cut_in_the_sentence_only() -> None:
    value = "x" * 5000
    assert check_settings(pair(environment={"A": value}), {"A": value}) == []
    [sentence] = check_settings(pair(environment={"A": value + "y"}), {"A": value})
    assert len(sentence) < 500 and "(5001 characters)" in sentence


def test_the_evidence_library_in_front_is_no_other_preload() -> None:
    ours = "/site/results/recorder/recorder-x86_64-0123456789ab.so"
    asked = {"LD_PRELOAD": "libxalt.so:libm.so.6"}
    assert check_settings(pair(environment={"LD_PRELOAD": f"{ours}:libxalt.so:libm.so.6"}), asked) == []
    [sentence] = check_settings(pair(environment={"LD_PRELOAD": ours}), asked)
    assert sentence == "asked for LD_PRELOAD='libxalt.so:libm.so.6', but ranks 0 and 1 on c1 had none."
    [sentence] = check_settings(pair(environment={"LD_PRELOAD": f"{ours}:libm.so.6"}), asked)
    assert sentence == "asked for LD_PRELOAD='libxalt.so:libm.so.6', but ranks 0 and 1 on c1 had 'libm.so.6'."


# ---- what a condition asks for ----


def test_all_that_is_set_is_asked_of_the_ranks() -> None:
    where = resolved(replace(STACK, env_vars={"STACKS_OWN": "1"}))
    asked = where.asked_env
    assert {"STACKS_OWN", "SITES_OWN", "USERS_OWN", "OMPI_MCA_coll_tuned_x", "OMPI_MCA_btl_tcp_if_include"} <= asked.keys()
    assert asked["OMPI_MCA_pml"] == "cm", "the user wins"
    assert set(where.recorded) >= set(asked)
    assert where.job_env["SITES_OWN"] == ODD


@pytest.mark.parametrize("family", ["prrte", "orterun"])
def test_mpirun_of_open_mpi_is_reported_to_take_all_variables_along(family: str) -> None:
    version = {"prrte": "5.0.11", "orterun": "4.1.4"}[family]
    where = resolved(replace(STACK, launcher_family=family, mpi_version=version, env_vars={"STACKS_OWN": "1"}), nodes=2)
    words = where.launcher_words([], [])
    taken = {words[at + 1] for at, word in enumerate(words) if word == "-x"}
    assert {"SITES_OWN", "USERS_OWN", "STACKS_OWN"} <= taken
    assert not any(name.startswith(open_mpi.OWN_VARIABLES) for name in taken), "those go by themselves"


def test_mpirun_rsh_without_export_names_all_variables() -> None:
    old = replace(
        STACK, mpi="mvapich2", mpi_version="1.5", launcher_family="mpirun_rsh", device="ch3:mrail", env_vars={"STACKS_OWN": "1"}
    )
    words = replace(resolved(), stack=old, launcher=registry.families()["mpirun_rsh"]).launcher_words([], [])
    assert {f"SITES_OWN={ODD}", f"USERS_OWN={ODD}", "STACKS_OWN=1"} <= set(words)


# ---- on real ranks ----

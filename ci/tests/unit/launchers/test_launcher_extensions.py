"""Launchers that nobody has, from files in a folder: conditions are
resolved with them, and no file of the project changes.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import reframe.core.schedulers as reframe_schedulers

from galley import GALLEY, SYSTEM, write_launchers
from mpibench.commands.listings import doctor
from mpibench.stacks import probe
from reframe_tests.harness import batch_systems
from reframe_tests.harness.cases.job import batch, condition
from reframe_tests.harness.launchers import registry
from reframe_tests.harness.launchers.schedulers.spool import SHARED
from reframe_tests.harness.machine.topology import describe
from reframe_tests.harness.sites import site
from reframe_tests.harness.suites import preamble
from reframe_tests.harness.vocabulary import BadInput, NotMeasured
from refusals import refused_as
from synthetic_evidence import STACK

[PARTITION] = SYSTEM["partitions"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of a site's own files, with both launchers in it."""
    return write_launchers(tmp_path / "own", monkeypatch)


def resolved(
    pinning: str, ppn: str = "2", launcher: str = "galley", stack: Any = STACK, **extras: Any
) -> condition.Condition:
    """A condition on two nodes of the made-up site."""
    given = {**PARTITION["extras"], **extras}
    asked = condition.Asked(site.fabrics_of(given)["eth"], 2, ppn, pinning)
    partition = condition.Partition(describe(1, 4), given, launcher=launcher, scheduler="pbs")
    return condition.resolve(stack, asked, partition, {"USERS_OWN": "a b"})


def test_a_sites_launcher_gets_the_list_the_counts_and_the_variables() -> None:
    where = resolved(
        "scatter", stack=replace(STACK, mpi_version="4.1.4", env_vars={"STACKS_OWN": "1"})
    )
    words = where.launcher_words(["galley", "ReFrame's words"], ["--users"])
    assert " ".join(words[:7]) == ("galley row --oars=4 --ships=2 --pmi=pmix --users --per-node=2")
    assert words[7] == "--seats=" + "/".join(
        ",".join(map(str, cpus)) for cpus in where.core_list or ()
    )
    assert where.core_list and len(where.core_list) == 2
    assert {"--env=USERS_OWN", "--env=STACKS_OWN", "--env=OMPI_MCA_btl_tcp_if_include"} <= set(
        words[8:]
    )
    assert where.job_env["GALLEY_SEATS"] == "strict"
    # As under every launcher that is not its own, Open MPI 4 is kept from binding its ranks again.
    assert where.job_env["OMPI_MCA_hwloc_base_binding_policy"] == "none"


def test_no_binding_and_its_own_default() -> None:
    assert "--free" in resolved("none").launcher_words([], [])
    plain = resolved("default", oversubscribe=True).launcher_words([], [])
    assert "--crowd" in plain and "--free" not in plain
    assert not any(word.startswith("--seats") for word in plain)


def test_the_recorder_is_given_its_variables_and_those_of_the_batch_system() -> None:
    known = resolved("none").known
    for key in ("RANK", "SIZE", "LOCAL_RANK"):
        assert known[f"MPIBENCH_{key}_VARIABLES"] == f"GALLEY_{key}"
    assert known["MPIBENCH_JOB_VARIABLES"].startswith("GALLEY_VOYAGE:SLURM_JOB_ID:PBS_JOBID")
    assert (known["MPIBENCH_LIBRARY"], known["MPIBENCH_WORLD"]) == (
        STACK.library,
        "ompi_mpi_comm_world",
    )


def test_its_lines_before_a_title_are_set_aside() -> None:
    said = "galley: pulls\nbireme: pulls\n"
    text, counts = preamble.part(f"{said}# title\n", len(said))
    assert preamble.say(counts) == "1 line of the galley"
    assert "bireme" in text


def test_an_mpi_without_a_process_management_interface_is_skipped() -> None:
    with pytest.raises(
        NotMeasured, match=r"^galley does not start ranks of pempi: use the stack's own launcher$"
    ):
        resolved("none", stack=replace(STACK, mpi="pempi", mpi_version="4.3"))


def test_an_mpis_own_launcher_counts_by_a_variable_and_is_started_through_the_batch_system() -> (
    None
):
    where = resolved("none", launcher="mpirun", stack=replace(STACK, launcher_family="trireme"))
    assert where.launcher_words(["mpirun", "-np", "4"], ["--users"]) == [
        "/opt/ompi/bin/mpirun",
        "--users",
        "-n",
        "4",
    ]
    assert (where.job_env["TRIREME_DECK"], where.job_env["TRIREME_SHELL"]) == ("2", "tm")
    with pytest.raises(NotMeasured, match=r"^trireme seats nobody$"):
        resolved("bunch", launcher="mpirun", stack=replace(STACK, launcher_family="trireme"))
    assert probe.oversubscribe(where.stack) == ()


def test_reframe_is_given_the_launchers_it_does_not_have() -> None:
    from reframe.core.backends import getlauncher

    srun = getlauncher("srun")
    registry.register()
    assert getlauncher("srun") is srun
    assert getlauncher("galley")().command(SimpleNamespace()) == ["galley", "row"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ROWS = ()\n", r"launchers/galley\.py defines no LAUNCHER = Launcher\(\.\.\.\)"),
        (
            GALLEY.replace('name="galley"', 'name="srun"'),
            r"srun\.py and \S+galley\.py both describe 'srun'; rename",
        ),
        (
            GALLEY.replace('site=("galley",)', 'site=("srun",)'),
            r"^launchers \w+ and \w+ both are what a partition calls 'srun'; take it out of"
            r" 'site' of one\.$",
        ),
        (
            GALLEY.replace("{ranks}", "{rank}"),
            r"galley\.py: 'total' has a placeholder that is none of {ranks}, {nodes}",
        ),
        (
            GALLEY.replace('manual="galley(1)",', ""),
            r"galley\.py cannot be read \(TypeError: .*manual",
        ),
    ],
)
def test_a_bad_file_is_named_with_what_to_do(folder: Path, text: str, words: str) -> None:
    (folder / "launchers" / "galley.py").write_text(text)
    with pytest.raises(BadInput, match=words) as caught:
        registry.known()
    assert "\n" not in str(caught.value)


def test_a_launcher_that_neither_reframe_nor_the_record_can_start_is_named(folder: Path) -> None:
    text = GALLEY.replace("galley", "bireme").replace('    program=("bireme", "row"),\n', "")
    (folder / "launchers" / "galley.py").write_text(text)
    with refused_as(
        "unknown-name",
        match=r"^launcher bireme: ReFrame has no launcher 'bireme'; give the record its 'program'",
    ):
        registry.register()


# ---- batch systems: one record each, and every scheduler of ReFrame's is in one ----


def test_every_scheduler_of_reframe_is_in_one_record() -> None:
    sources = Path(reframe_schedulers.__file__).parent.glob("*.py")
    theirs = {
        name
        for path in sources
        for name in re.findall(r"^@register_scheduler\('(\w+)'", path.read_text(), re.M)
    }
    assert len(theirs) > 8
    ours = Counter(name for row in batch_systems.BATCH_SYSTEMS for name in row.schedulers)
    assert set(ours) == {*theirs, *SHARED.values()} - {"local", "ssh"} and set(ours.values()) == {1}
    assert batch_systems.find("local") is batch_systems.find("ssh") is None


def test_what_a_record_says_is_known_wherever_it_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch system that is added is one record: its jobs' variables,
    its program, its options, its launchers' way.
    """
    monkeypatch.setattr(doctor.shutil, "which", lambda program: None)
    for row in batch_systems.BATCH_SYSTEMS:
        assert all(name.startswith(probe.JOB_VARIABLES) for name in row.variables)
        for scheduler in row.schedulers:
            found = [
                finding.detail for finding in doctor.check_submission("s:p", scheduler, here=True)
            ]
            assert [row.submit in detail for detail in found] == [True] * bool(row.submit)
            assert set(row.no_requeue) <= set(batch.submit_options(scheduler))


def test_launchers_reach_other_nodes_under_each_name_of_pbs() -> None:
    hydra = registry.families()["hydra"]
    assert all(
        hydra.bootstrap((4,), name, 2).env["HYDRA_LAUNCHER"] == "rsh"
        for name in batch_systems.PBS.schedulers
    )

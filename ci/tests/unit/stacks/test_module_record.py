"""Stacks of environment modules: their metadata, what of them is compared, and what of a job's log."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from reframe_tests.harness.cases.job import modules as job_modules
from reframe_tests.harness.samples import CONTRADICTED, MISSING
from reframe_tests.harness.stacks import metadata
from reframe_tests.harness.stacks.modules import LoadedModules, ModuleState, find_changes
from reframe_tests.harness.stacks.stack import Stack, judge_modules, parse_log
from refusals import refused_as
from synthetic_stack import change, write_stack
from test_stacks import environment_schema

SUM, OTHER_SUM = "a" * 64, "b" * 64
RECORD = {
    "system": "lmod",
    "version": "8.6.19",
    "init": "/usr/share/lmod/lmod/init/bash",
    "loaded": [
        {"name": "gcc/12.2", "file": "/modules/gcc/12.2.lua", "sha256": OTHER_SUM},
        {"name": "openmpi/5.0.10", "file": "/modules/openmpi/5.0.10.lua", "sha256": SUM},
    ],
    "sets": {"MPI_HOME": "/opt/ompi", "OMPI_MCA_pml": "ucx"},
    "prepends": {"PATH": ["/opt/ompi/bin", "/opt/gcc/bin"], "LD_LIBRARY_PATH": ["/opt/ompi/lib"]},
    "appends": {"MANPATH": ["/opt/ompi/man"]},
}


def document(**changes: Any) -> dict[str, Any]:
    """Valid metadata of a stack of two modules."""
    return {
        **change("build", {"lock_hash": "0123abcd", "modules": RECORD}),
        "modules": ["gcc", {"name": "openmpi/5.0.10", "collection": False, "path": "/modules"}],
        **changes,
    }


def stack(**changes: Any) -> Stack:
    return metadata.parse(document(**changes), "/opt/mpich/stack.json")


STATE = ModuleState(
    {"gcc/12.2": "/modules/gcc/12.2.lua", "openmpi/5.0.10": "/modules/openmpi/5.0.10.lua"},
    {"/modules/gcc/12.2.lua": OTHER_SUM, "/modules/openmpi/5.0.10.lua": SUM},
    {
        "MPI_HOME": "/opt/ompi",
        "OMPI_MCA_pml": "ucx",
        "PATH": "/mine/bin:/opt/ompi/bin:/venv/bin:/opt/gcc/bin:/usr/bin",
        "LD_LIBRARY_PATH": "/opt/ompi/lib",
        "MANPATH": ":/opt/ompi/man",
    },
)


# ---- metadata ----


def test_the_record_comes_back_as_it_was_written() -> None:
    assert LoadedModules.of(RECORD).as_dict() == RECORD
    assert [each.written() for each in stack().modules] == document()["modules"]
    assert LoadedModules.of(None) == LoadedModules() == metadata.parse(change("name", "x"), "/x").loaded


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"modules": []}, "key 'modules'"),
        ({"modules": ["open mpi"]}, "key 'modules.0'"),
        ({"modules": ["openmpi;reboot"]}, "key 'modules.0'"),
        ({"modules": ["-openmpi"]}, "key 'modules.0'"),
        ({"modules": [{"name": "openmpi", "path": "$(reboot)"}]}, "key 'modules.0.path'"),
        ({"modules": [{"collection": True}]}, "key 'modules.0'"),
        ({"modules": ["openmpi"], "build": {"lock_hash": "0123abcd"}}, "'modules' is a required property"),
        ({"build": {"lock_hash": "0123abcd", "modules": {**RECORD, "loaded": []}}}, "key 'build.modules.loaded'"),
        ({"build": {"lock_hash": "0123abcd", "modules": {**RECORD, "x": 1}}}, "('x' was unexpected)"),
    ],
)
def test_modules_that_cannot_be_are_refused_with_the_key(words: dict[str, Any], said: str) -> None:
    with refused_as("stack-schema") as refusal:
        stack(**words)
    assert said in str(refusal.value) and "\n" not in str(refusal.value)


def test_reframe_loads_them_before_the_stacks_own_variables() -> None:
    environment = metadata.environment_of(stack())
    jsonschema.Draft7Validator(environment_schema()).validate([environment])
    assert environment["modules"] == ["gcc", {"name": "openmpi/5.0.10", "collection": False, "path": "/modules"}]
    [line] = environment["prepare_cmds"]
    assert line.startswith("type module ") and line.endswith(". /usr/share/lmod/lmod/init/bash")
    assert [name for name, _ in environment["env_vars"]] == ["ROOT", "PATH", "LD_LIBRARY_PATH"]
    assert "modules" not in metadata.environment_of(metadata.parse(change("name", "x"), "/x"))


def test_entering_is_what_the_modules_did_and_the_stacks_own_in_front() -> None:
    entered = metadata.enter(stack(), {"PATH": "/usr/bin", "MANPATH": "/man"})
    assert entered["PATH"] == "/opt/mpich/bin:/opt/ompi/bin:/opt/gcc/bin:/usr/bin"
    assert entered["LD_LIBRARY_PATH"] == "/opt/mpich/lib:/opt/mpich/python:/opt/ompi/lib"
    assert entered["MANPATH"] == "/man:/opt/ompi/man"
    assert (entered["MPI_HOME"], entered["ROOT"]) == ("/opt/ompi", "/opt/mpich")
    assert stack(env_vars={"MPI_HOME": "/mine"}).variables["MPI_HOME"] == "/mine"
    assert stack().search_paths["PATH"] == ("/opt/mpich/bin", "/opt/ompi/bin", "/opt/gcc/bin")


def test_a_module_whose_file_is_gone_takes_its_stack_along_by_name(tmp_path: Path) -> None:
    file = tmp_path / "modules/openmpi/5.0.10"
    file.parent.mkdir(parents=True)
    file.write_text("#%Module\n")
    record = {**RECORD, "loaded": [{"name": "openmpi/5.0.10", "file": str(file), "sha256": SUM}]}
    folder = tmp_path / "environments/mine"
    write_stack(folder, modules=["openmpi/5.0.10"], build={"lock_hash": "0123abcd", "modules": record})
    assert len(metadata.discover(tmp_path, {})[0]) == 1
    file.unlink()
    stacks, [problem] = metadata.discover(tmp_path, {})
    assert stacks == []
    assert problem.startswith(f"stack 'mpich-system' is left out: module openmpi/5.0.10 is gone, its file {file} is not there")


# ---- what is compared ----


def test_what_is_as_it_was_says_nothing() -> None:
    assert find_changes(LoadedModules.of(RECORD), STATE) == []


def altered(**changes: Any) -> ModuleState:
    """The state with entries of its three tables replaced; ``None`` removes one."""
    tables = {name: {**getattr(STATE, name), **changes.get(name, {})} for name in ("loaded", "sha256", "values")}
    return ModuleState(**{name: {k: v for k, v in table.items() if v is not None} for name, table in tables.items()})


@pytest.mark.parametrize(
    ("now", "said"),
    [
        (altered(sha256={"/modules/openmpi/5.0.10.lua": "c" * 64}), "openmpi/5.0.10 has changed .* not aaaaaaaaaaaa"),
        (
            altered(loaded={"openmpi/5.0.10": None, "openmpi/5.0.11": "/modules/openmpi/5.0.11.lua"}),
            "openmpi/5.0.10 is not loaded, .* openmpi/5.0.11 is, as if a default had moved",
        ),
        (altered(loaded={"openmpi/5.0.10": None}), "openmpi/5.0.10 is not loaded, .* loaded are gcc/12.2"),
        (
            altered(loaded={"gcc/12.2": None, "openmpi/5.0.10": None}, sha256={"/modules/gcc/12.2.lua": ""}),
            "gcc/12.2 is gone: /modules/gcc/12.2.lua",
        ),
        (altered(loaded={"gcc/12.2": "/home/me/gcc/12.2"}), "gcc/12.2 is loaded from /home/me/gcc/12.2, and was from"),
        (altered(values={"OMPI_MCA_pml": "ob1"}), "OMPI_MCA_pml is 'ob1' after loading, and was 'ucx'"),
        (altered(values={"PATH": "/opt/gcc/bin:/usr/bin"}), "/opt/ompi/bin is not where it was in PATH"),
        (altered(values={"PATH": "/opt/gcc/bin:/opt/ompi/bin"}), "/opt/ompi/bin is not where it was in PATH"),
    ],
)
def test_what_is_not_as_it_was_is_a_sentence_that_names_the_module(now: ModuleState, said: str) -> None:
    assert re.search(said, find_changes(LoadedModules.of(RECORD), now)[0])


def test_what_the_stack_sets_itself_is_not_the_modules_business() -> None:
    now = altered(values={"MPI_HOME": "/mine"})
    assert find_changes(LoadedModules.of(RECORD), now, own=("MPI_HOME",)) == []


# ---- what a job says ----

LOG = [
    "loaded=gcc/12.2:openmpi/5.0.10",
    "files=/modules/gcc/12.2.lua:/modules/openmpi/5.0.10.lua",
    *(f"value={name}={value}" for name, value in STATE.values.items()),
    *(f"sha256={digest}={file}" for file, digest in STATE.sha256.items()),
    "end",
]


def write_log(folder: Path, lines: list[str]) -> None:
    (folder / "modules-mpich-system.txt").write_text("".join(f"{line}\0" for line in lines))


def test_a_jobs_log_is_read_and_judged(tmp_path: Path) -> None:
    write_log(tmp_path, LOG)
    assert parse_log((tmp_path / "modules-mpich-system.txt").read_text(), stack().loaded) == STATE
    assert judge_modules(stack(), tmp_path) == (CONTRADICTED, [])
    write_log(tmp_path, [line.replace(SUM, "c" * 64) for line in LOG])
    status, [said] = judge_modules(stack(), tmp_path)
    assert status == CONTRADICTED and said.startswith("module openmpi/5.0.10 has changed")
    assert said.endswith("; if that is meant, 'mpibench stacks remove mpich-system' and add it again.")
    write_log(tmp_path, [line.replace(SUM, "") for line in LOG])
    assert "(it cannot be read)" in judge_modules(stack(), tmp_path)[1][0]


def test_a_job_without_a_log_or_half_of_one_proves_nothing(tmp_path: Path) -> None:
    status, [said] = judge_modules(stack(), tmp_path)
    assert said.startswith("the job left no whole modules-mpich-system.txt, so nothing shows that it loaded modules gcc and ")
    assert status == MISSING
    for end in range(len(LOG)):
        write_log(tmp_path, LOG[:end])
        assert judge_modules(stack(), tmp_path) == (MISSING, [said])
    write_log(tmp_path, [LOG[0], "end"])
    status, sentences = judge_modules(stack(), tmp_path)
    assert status == CONTRADICTED and len(sentences) == 2 and "is not loaded" in sentences[0]


def test_a_stack_without_modules_needs_no_log(tmp_path: Path) -> None:
    assert judge_modules(metadata.parse(change("name", "x"), "/x"), tmp_path) == (MISSING, [])


def test_of_a_paired_stack_the_files_alone_are_compared(tmp_path: Path) -> None:
    write_log(tmp_path, [line for line in LOG if line.startswith(("sha256=", "end"))])
    assert judge_modules(stack(), tmp_path) == (CONTRADICTED, [])
    write_log(tmp_path, [line.replace(SUM, "c" * 64) for line in LOG if line.startswith(("sha256=", "end"))])
    assert "module openmpi/5.0.10 has changed" in judge_modules(stack(), tmp_path)[1][0]


def test_a_system_without_modules_is_refused() -> None:
    job_modules.require_system(stack(), "lmod")
    job_modules.require_system(metadata.parse(change("name", "x"), "/x"), "nomod")
    with refused_as(
        "module-system-differs", match=r"is entered through modules gcc and openmpi/5\.0\.10, and .*'modules_system': 'lmod'"
    ):
        job_modules.require_system(stack(), "nomod")

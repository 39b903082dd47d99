"""Stacks of environment modules: their metadata, what of them
is compared, and what of a job's log.
"""

import re
from types import SimpleNamespace

import pytest

from mpibench.stacks import modules
from reframe_tests.harness.samples import CONTRADICTED, MISSING
from reframe_tests.harness.stacks import metadata
from reframe_tests.harness.stacks.modules import LoadedModules, ModuleState, find_changes
from reframe_tests.harness.stacks.stack import judge_modules, parse_log
from reframe_tests.harness.vocabulary import BadInput
from synthetic_stack import change, write_stack

SUM = "a" * 64
OTHER_SUM = "b" * 64
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


def stack(**changes):
    """A stack of two modules."""
    document = {
        **change("build", {"lock_hash": "0123abcd", "modules": RECORD}),
        "modules": ["gcc", {"name": "openmpi/5.0.10", "collection": False, "path": "/modules"}],
        **changes,
    }
    return metadata.parse(document, "/opt/mpich/stack.json")


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


def test_entering_is_what_the_modules_did_and_the_stacks_own_in_front():
    entered = metadata.enter(stack(), {"PATH": "/usr/bin", "MANPATH": "/man"})
    assert entered["PATH"] == "/opt/mpich/bin:/opt/ompi/bin:/opt/gcc/bin:/usr/bin"
    assert entered["LD_LIBRARY_PATH"] == "/opt/mpich/lib:/opt/mpich/python:/opt/ompi/lib"
    assert entered["MANPATH"] == "/man:/opt/ompi/man"
    assert (entered["MPI_HOME"], entered["ROOT"]) == ("/opt/ompi", "/opt/mpich")
    assert stack(env_vars={"MPI_HOME": "/mine"}).variables["MPI_HOME"] == "/mine"
    assert stack().search_paths["PATH"] == ("/opt/mpich/bin", "/opt/ompi/bin", "/opt/gcc/bin")


def test_a_module_whose_file_is_gone_takes_its_stack_along_by_name(tmp_path):
    file = tmp_path / "openmpi"
    file.touch()
    record = {**RECORD, "loaded": [{"name": "openmpi/5.0.10", "file": str(file), "sha256": SUM}]}
    build = {"lock_hash": "0123abcd", "modules": record}
    write_stack(tmp_path / "environments/mine", modules=["openmpi/5.0.10"], build=build)
    assert len(metadata.discover(tmp_path, {})[0]) == 1
    file.unlink()
    stacks, [problem] = metadata.discover(tmp_path, {})
    assert stacks == [] and "module openmpi/5.0.10 is gone" in problem


# ---- what is compared ----


@pytest.mark.parametrize(
    ("now", "said"),
    [
        ({"sha256": {"/modules/openmpi/5.0.10.lua": "c" * 64}}, "openmpi/5.0.10 changed after"),
        (
            {"loaded": {"openmpi/5.0.10": None, "openmpi/5.0.11": "/modules/openmpi/5.0.11.lua"}},
            "openmpi/5.0.10, .* is not loaded; openmpi/5.0.11 is",
        ),
        ({"loaded": {"openmpi/5.0.10": None}}, "openmpi/5.0.10, .* is not loaded; .* gcc/12.2"),
        (
            {"loaded": {"gcc/12.2": None}, "sha256": {"/modules/gcc/12.2.lua": ""}},
            "gcc/12.2 is gone",
        ),
        ({"loaded": {"gcc/12.2": "/home/me/gcc/12.2"}}, "gcc/12.2 is loaded from /home/me"),
        ({"values": {"OMPI_MCA_pml": "ob1"}}, "OMPI_MCA_pml is 'ob1'"),
        ({"values": {"PATH": "/opt/gcc/bin:/usr/bin"}}, "/opt/ompi/bin .* in PATH"),
        ({"values": {"PATH": "/opt/gcc/bin:/opt/ompi/bin"}}, "/opt/ompi/bin .* in PATH"),
    ],
)
def test_what_is_not_as_it_was_is_a_sentence_that_names_the_module(now, said):
    """Of the three tables some entries are replaced; ``None`` removes one."""
    tables = {name: {**table, **now.get(name, {})} for name, table in vars(STATE).items()}
    for table in tables.values():
        for gone in [name for name, value in table.items() if value is None]:
            del table[gone]
    assert re.search(said, find_changes(LoadedModules.of(RECORD), ModuleState(**tables))[0])


# ---- what a job says ----

LOG = [
    "loaded=gcc/12.2:openmpi/5.0.10",
    "files=/modules/gcc/12.2.lua:/modules/openmpi/5.0.10.lua",
    *(f"value={name}={value}" for name, value in STATE.values.items()),
    *(f"sha256={digest}={file}" for file, digest in STATE.sha256.items()),
    "end",
]


def write_log(folder, lines):
    (folder / "modules-mpich-system.txt").write_text("".join(f"{line}\0" for line in lines))


def test_a_jobs_log_is_read_and_judged(tmp_path):
    """Of a paired stack the files alone are there and compared."""
    assert parse_log("".join(f"{line}\0" for line in LOG), stack().loaded) == STATE
    for lines in (LOG, [line for line in LOG if line.startswith(("sha256=", "end"))]):
        write_log(tmp_path, lines)
        assert judge_modules(stack(), tmp_path) == (CONTRADICTED, [])
        for digest in ("c" * 64, ""):
            write_log(tmp_path, [line.replace(SUM, digest) for line in lines])
            status, [said] = judge_modules(stack(), tmp_path)
            assert status == CONTRADICTED and said.startswith("module openmpi/5.0.10 changed after")


def test_a_job_without_a_log_or_half_of_one_proves_nothing(tmp_path):
    without = judge_modules(stack(), tmp_path)
    assert without[0] == MISSING and len(without[1]) == 1
    for end in range(len(LOG)):
        write_log(tmp_path, LOG[:end])
        assert judge_modules(stack(), tmp_path) == without
    write_log(tmp_path, [LOG[0], "end"])
    status, sentences = judge_modules(stack(), tmp_path)
    assert status == CONTRADICTED and len(sentences) == 2
    assert judge_modules(metadata.parse(change("name", "x"), "/x"), tmp_path) == (MISSING, [])


def test_what_the_sites_configuration_lacks_is_not_blamed_on_modules(monkeypatch):
    said = "ERROR: failed to load configuration: '/nosuch/settings.py'"

    def run(words, *, env, **_):
        assert env.get("RFM_CONFIG_FILES")
        return SimpleNamespace(returncode=1, stdout="", stderr=said)

    monkeypatch.setattr(modules.subprocess, "run", run)
    for environ in ({}, {"RFM_CONFIG_FILES": "/nosuch/settings.py"}):
        with pytest.raises(BadInput, match=r"/nosuch/settings.py") as refused:
            modules.find_system("here", environ)
        assert "cannot use the site's module" not in str(refused.value)

"""Registering an MPI of environment modules, with Lmod and with Environment Modules: found, refused, compared afterwards."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import module_systems
import synthetic_installation as synthetic
from module_systems import ModuleSystem
from mpibench.cli import main
from mpibench.commands import stacks as stacks_command
from mpibench.commands.listings import doctor
from mpibench.commands.listings import stacks as listing
from mpibench.stacks import modules, system
from reframe_tests.harness.cases.job import modules as job_modules
from reframe_tests.harness.stacks import metadata
from reframe_tests.harness.stacks.modules import Module
from reframe_tests.harness.stacks.stack import Stack, judge_modules
from reframe_tests.harness.vocabulary import BadInput

Add = Callable[..., Stack]


@pytest.fixture(params=module_systems.KINDS)
def there(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleSystem:
    """A module system that the caller's shell has set up, with nothing loaded."""
    found = module_systems.set_up(request.param, tmp_path / "site")
    module_systems.enter(found, monkeypatch)
    monkeypatch.delenv(metadata.EXTRA_STACKS, raising=False)
    return found


@pytest.fixture
def add(there: ModuleSystem, tmp_path: Path) -> Add:
    """Registers modules into a project that has no stack yet; what is said is kept in ``add.said``."""

    def call(*names: str, **words: object) -> Stack:
        words.setdefault("entered", [Module(name) for name in names])
        options = {"root": tmp_path / "project", "modules_system": there.kind, "say": call.said.append, **words}
        return system.add(**options)  # type: ignore[arg-type]

    call.said = []  # type: ignore[attr-defined]
    return call


@pytest.fixture
def prefix(there: ModuleSystem, tmp_path: Path) -> Path:
    """An Open MPI with its module ``openmpi/4.1.4``."""
    prefix = tmp_path / "opt/openmpi"
    synthetic.make_open_mpi(prefix)
    there.write_mpi("openmpi/4.1.4", prefix)
    return prefix


def refused(add: Add, *names: str, **words: object) -> str:
    with pytest.raises(BadInput) as refusal:
        add(*names, **words)
    sentence = str(refusal.value)
    assert sentence.endswith(".") and "\n" not in sentence
    return sentence


def nothing_left(tmp_path: Path) -> bool:
    return not list((tmp_path / "project").rglob("stack.json"))


# ---- what is found ----


def test_the_mpi_and_the_benchmarks_of_modules_are_registered(
    add: Add, there: ModuleSystem, prefix: Path, tmp_path: Path
) -> None:
    program = synthetic.make_program(tmp_path / "opt/osu/libexec/mpi/osu_latency", "libmpi.so.40", synthetic.OSU)
    file = there.write("osu/7.4", f"prepend-path PATH {tmp_path}/opt/osu/libexec", "append-path MANPATH /opt/osu/man")
    stack = add("openmpi/4.1.4", "osu/7.4")
    assert metadata.read(Path(stack.source)) == stack
    assert [each.name for each in stack.modules] == ["openmpi/4.1.4", "osu/7.4"]
    assert (stack.mpi, stack.mpi_version, stack.prefix) == ("openmpi", "4.1.4", str(prefix))
    assert stack.library == f"{prefix}/lib/libmpi.so.40" and stack.mpirun == (f"{prefix}/bin/mpirun",)
    assert stack.binaries == {"osu_latency": str(program)}
    # What the modules bring is the modules' own business: a job that did not load them must not find it.
    assert "PATH" not in stack.prepend_path and "LD_LIBRARY_PATH" not in stack.prepend_path
    record = stack.loaded
    assert record.system == there.kind and record.version
    assert record.init == f"{there.environ['MODULESHOME']}/init/bash"
    assert [(each.name, len(each.sha256)) for each in record.loaded] == [("openmpi/4.1.4", 64), ("osu/7.4", 64)]
    assert record.loaded[1].file == str(file)
    assert record.sets == {"MPI_HOME": str(prefix)}
    assert record.prepends["PATH"] == (f"{tmp_path}/opt/osu/libexec", f"{prefix}/bin")
    assert record.prepends["LD_LIBRARY_PATH"] == (f"{prefix}/lib",)
    assert record.appends == {"MANPATH": ("/opt/osu/man",)}
    described = dict(listing.describe(stack))
    assert described["modules"] == f"openmpi/4.1.4, osu/7.4 ({there.kind} {record.version})"


def test_what_modules_need_and_bring_along_is_recorded(add: Add, there: ModuleSystem, prefix: Path) -> None:
    there.write("gcc/12.2", "setenv CC gcc-12")
    there.write_mpi("openmpi/4.1.5", prefix, "if {![is-loaded gcc]} { module load gcc/12.2 }")
    stack = add("openmpi/4.1.5")
    assert {each.name for each in stack.loaded.loaded} == {"gcc/12.2", "openmpi/4.1.5"}
    assert stack.loaded.sets["CC"] == "gcc-12"


def test_the_hash_changes_with_a_module(add: Add, there: ModuleSystem, prefix: Path, tmp_path: Path) -> None:
    before = add("openmpi/4.1.4")
    system.remove(before.name, tmp_path / "project")
    assert add("openmpi/4.1.4").lock_hash == before.lock_hash
    system.remove(before.name, tmp_path / "project")
    there.write_mpi("openmpi/4.1.4", prefix, "# another word")
    assert add("openmpi/4.1.4").lock_hash != before.lock_hash


def test_what_the_caller_has_loaded_does_not_count(add: Add, there: ModuleSystem, prefix: Path, tmp_path: Path) -> None:
    there.write("hidden/1", f"prepend-path PATH {tmp_path}/hidden", "setenv HIDDEN yes", "conflict openmpi")
    script = "module load hidden/1 && env -0"
    done = subprocess.run(
        ["/bin/bash", "-c", f". {there.environ['MODULESHOME']}/init/bash\n{script}"], capture_output=True, check=True
    )
    inside = dict(part.split("=", 1) for part in done.stdout.decode().split("\0") if "=" in part)
    assert inside["HIDDEN"] == "yes"
    brought = modules.load([Module("openmpi/4.1.4")], there.kind, inside)
    assert [each.name for each in brought.record.loaded] == ["openmpi/4.1.4"]
    assert "HIDDEN" not in brought.record.sets


def test_a_folder_of_modulefiles_can_be_named(add: Add, there: ModuleSystem, prefix: Path, tmp_path: Path) -> None:
    elsewhere = replace(there, tree=tmp_path / "elsewhere")
    elsewhere.write_mpi("mine/1", prefix)
    assert "mine/1 cannot be loaded" in refused(add, "mine/1")
    stack = add(entered=[Module("mine/1", path=str(elsewhere.tree))])
    environment = metadata.environment_of(stack)
    assert environment["modules"] == [{"name": "mine/1", "collection": False, "path": str(elsewhere.tree)}]
    assert modules.compare(stack, there.kind) == []


def test_a_collection_is_restored(add: Add, there: ModuleSystem, prefix: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    done = there.shell("module load openmpi/4.1.4 && module save bench && module purge")
    assert done.returncode == 0, done.stderr
    stack = add(entered=[Module("bench", collection=True)])
    assert [each.name for each in stack.loaded.loaded] == ["openmpi/4.1.4"]
    assert stack.modules == (Module("bench", collection=True),)


def test_a_value_that_is_the_users_own_is_not_held_against_others(
    add: Add, there: ModuleSystem, prefix: Path, monkeypatch
) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    there.write_mpi("openmpi/4.1.5", prefix, "setenv SCRATCH $env(HOME)/scratch", "setenv STAMP [clock microseconds]")
    stack = add("openmpi/4.1.5")
    assert set(stack.loaded.sets) == {"MPI_HOME"}
    said = [line for line in add.said if "is not compared later" in line]  # type: ignore[attr-defined]
    assert [line.split()[0] for line in said] == ["SCRATCH", "STAMP"]


# ---- what is refused ----


def test_a_module_that_does_not_exist_is_refused(add: Add, there: ModuleSystem, prefix: Path, tmp_path: Path) -> None:
    said = refused(add, "openmpi/9.9")
    assert said.startswith(f"module openmpi/9.9 cannot be loaded by {there.kind} (")
    assert "openmpi/9.9" in said.partition("(")[2] and "'module avail' lists what there is" in said
    assert nothing_left(tmp_path)


def test_a_module_that_cannot_be_evaluated_is_refused(add: Add, there: ModuleSystem, prefix: Path, tmp_path: Path) -> None:
    there.write("broken/1", "setenv ONE")
    assert "module broken/1 cannot be loaded by" in refused(add, "openmpi/4.1.4", "broken/1")
    assert nothing_left(tmp_path)


def test_modules_that_conflict_are_refused(add: Add, there: ModuleSystem, prefix: Path, tmp_path: Path) -> None:
    there.write_mpi("mpich/4.0", tmp_path / "opt/mpich", "conflict openmpi")
    said = refused(add, "openmpi/4.1.4", "mpich/4.0")
    assert said.startswith(f"module mpich/4.0 cannot be loaded by {there.kind} (")
    assert re.search("conflict|are loaded", said) and "openmpi" in said
    assert nothing_left(tmp_path)


def test_a_module_that_takes_another_ones_place_is_refused(add: Add, there: ModuleSystem, prefix: Path, tmp_path: Path) -> None:
    """Lmod replaces a module of the same name or family and says nothing that fails; Environment Modules refuses it or not."""
    if there.kind == "lmod":
        for name in ("one/1", "two/2"):
            path = there.tree / f"{name}.lua"
            path.parent.mkdir(parents=True)
            path.write_text('family("MPI")\n')
    else:
        there.write("one/1", "conflict two")
        there.write("two/2", "module unload one")
    said = refused(add, "openmpi/4.1.4", "one/1", "two/2")
    assert said.startswith("module two/2 conflicts with one/1, which is loaded before it")


@pytest.mark.parametrize(("text", "shown"), [("hello there", "hello"), ("echo welcome", "welcome")])
def test_a_module_that_prints_to_stdout_is_refused(
    add: Add, there: ModuleSystem, prefix: Path, tmp_path: Path, text: str, shown: str
) -> None:
    """Environment Modules hands it to Python, too; Lmod to bash only, which runs it."""
    there.write_mpi("talk/1", prefix, f'puts stdout "{text}"')
    said = refused(add, "talk/1")
    assert re.match(rf"module talk/1 prints '.*{shown}.*' on standard output, which the module system hands to the shell", said)
    assert nothing_left(tmp_path)


def test_lmods_own_print_is_seen_as_well(add: Add, there: ModuleSystem, tmp_path: Path) -> None:
    if there.kind != "lmod":
        there.write("talk/2", "puts stderr {a greeting}", "setenv X 1")
        assert "bring" in refused(add, "talk/2")  # on standard error anybody may say anything
        return
    path = there.tree / "talk/2.lua"
    path.parent.mkdir(parents=True)
    path.write_text('print("welcome to the cluster")\n')
    assert refused(add, "talk/2").startswith("module talk/2 prints 'welcome ...' on standard output")


def test_modules_without_an_mpi_are_refused(add: Add, there: ModuleSystem, prefix: Path, tmp_path: Path) -> None:
    (tmp_path / "opt/gcc/bin").mkdir(parents=True)
    there.write("gcc/12.2", f"prepend-path PATH {tmp_path}/opt/gcc/bin")
    said = refused(add, "gcc/12.2")
    assert said.startswith(f"module gcc/12.2 brings no mpirun (on PATH: {tmp_path}/opt/gcc/bin); name the module of an MPI")
    there.write("empty/1", "setenv X 1")
    assert refused(add, "gcc/12.2", "empty/1").startswith("modules gcc/12.2 and empty/1 bring no mpirun")
    assert add("gcc/12.2", mpirun=f"{prefix}/bin/mpirun", name="by-path").prefix == str(prefix)
    assert add("openmpi/4.1.4", mpirun="mpirun", name="by-name").prefix == str(prefix)


def test_two_mpis_are_refused(add: Add, there: ModuleSystem, prefix: Path, tmp_path: Path) -> None:
    other = synthetic.make_mpich(tmp_path / "opt/mpich")
    there.write_mpi("mpich/4.0", tmp_path / "opt/mpich")
    said = refused(add, "openmpi/4.1.4", "mpich/4.0")
    assert said.startswith(f"modules openmpi/4.1.4 and mpich/4.0 bring two MPIs ({other} and {prefix}/bin/mpirun); name one")
    # A second one without a launcher is found by what programs load.
    synthetic.make_library(
        tmp_path / "opt/libs/lib/libmpi.so.40", synthetic.OPEN_MPI, "libmpi.so.40", "char ompi_mpi_comm_world[8];"
    )
    there.write("libs/1", f"prepend-path LD_LIBRARY_PATH {tmp_path}/opt/libs/lib")
    said = refused(add, "openmpi/4.1.4", "libs/1")
    assert f"programs load {tmp_path}/opt/libs/lib/libmpi.so.40 and not {prefix}/lib/libmpi.so.40" in said
    assert "two MPIs are loaded" in said
    assert nothing_left(tmp_path)


def test_a_benchmark_module_of_another_abi_is_refused(add: Add, there: ModuleSystem, prefix: Path, tmp_path: Path) -> None:
    synthetic.make_program(tmp_path / "opt/imb/bin/IMB-MPI1", "libmpi.so.12")
    there.write("imb/2021", f"prepend-path PATH {tmp_path}/opt/imb/bin")
    assert "needs libmpi.so.12, the mpich ABI, and" in refused(add, "openmpi/4.1.4", "imb/2021")
    assert nothing_left(tmp_path)


def test_a_library_that_only_the_launcher_finds_is_put_on_the_search_path(add: Add, there: ModuleSystem, prefix: Path) -> None:
    there.write("openmpi/4.1.6", f"prepend-path PATH {prefix}/bin")
    assert add("openmpi/4.1.6").prepend_path["LD_LIBRARY_PATH"] == (f"{prefix}/lib",)


def test_the_command_takes_the_sites_own_module_system(
    there: ModuleSystem, prefix: Path, sandbox: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    monkeypatch.setenv("RFM_CONFIG_FILES", str(sandbox / "site_configs/settings.py"))
    words = ["add", "--module", "openmpi/4.1.4", "--system", "generic", "--into", str(sandbox / "mine"), "--name", "of-modules"]
    assert main(words, run=stacks_command.app) == 2
    assert "the site's configuration names no module system" in (said := capsys.readouterr().err) and "'lmod'" in said
    text = (described := sandbox / "site_configs/generic/system.py").read_text()
    described.write_text(text.replace('"hostnames"', f'"modules_system": "{there.kind}", "hostnames"'))
    assert main(words, run=stacks_command.app) == 0
    assert json.loads((sandbox / "mine/stack.json").read_text())["modules"] == ["openmpi/4.1.4"]
    unknown = text.replace('"hostnames"', '"modules_system": "nosuch", "hostnames"')
    for broken, remedy in ((unknown, True), ("system = {", False)):
        described.write_text(broken)
        assert main([*words, "--name", "other"], run=stacks_command.app) == 2
        assert ("correct 'modules_system'" in capsys.readouterr().err) is remedy
    assert main(["add", "--name", "x"], run=stacks_command.app) == 2
    assert "name an MPI: its launcher with --mpirun, or its environment module with --module." in capsys.readouterr().err


def test_a_module_system_that_is_not_set_up_here_is_refused(add: Add, there: ModuleSystem, monkeypatch) -> None:
    monkeypatch.delenv("LMOD_CMD", raising=False)
    monkeypatch.delenv("MODULESHOME")
    assert refused(add, "openmpi/4.1.4").startswith(f"the module system {there.kind} cannot be used: ")


# ---- what is compared afterwards ----


def test_doctor_names_the_module_that_changed_or_vanished(add: Add, there: ModuleSystem, prefix: Path, monkeypatch) -> None:
    monkeypatch.setattr(modules, "find_system", lambda name=None: there.kind)
    there.write("base/1", "setenv BASE yes")
    stack = add("base", "openmpi/4.1.4")
    subject = "modules of openmpi-system"
    [fine] = doctor.check_modules([stack], None)
    assert (fine.subject, fine.state) == (subject, doctor.OK)
    assert fine.detail == f"base/1, openmpi/4.1.4, as registered ({there.kind} {stack.loaded.version})"
    there.write_mpi("openmpi/4.1.4", prefix, "setenv OMPI_MCA_btl tcp,self")
    [changed] = doctor.check_modules([stack], None)
    assert (changed.subject, changed.state) == (subject, doctor.MISSING)
    assert changed.detail.startswith("module openmpi/4.1.4 has changed since the stack was registered: ")
    there.write_mpi("openmpi/4.1.4", prefix)
    there.write("base/2", "setenv BASE yes")
    [moved] = doctor.check_modules([stack], None)
    assert "module base/1 is not loaded" in moved.detail and "base/2 is, as if a default had moved" in moved.detail
    (there.tree / "base/2").unlink()
    (there.tree / "openmpi/4.1.4").unlink()
    [vanished] = doctor.check_modules([stack], None)
    assert vanished.detail.startswith(f"module openmpi/4.1.4 cannot be loaded by {there.kind}")


def test_what_a_module_reads_elsewhere_is_compared_as_well(add: Add, there: ModuleSystem, prefix: Path, tmp_path: Path) -> None:
    chosen = tmp_path / "chosen"
    chosen.write_text("ucx")
    read = f"set channel [open {chosen}]\nsetenv OMPI_MCA_pml [string trim [read $channel]]\nclose $channel"
    there.write_mpi("openmpi/4.1.7", prefix, read)
    stack = add("openmpi/4.1.7")
    chosen.write_text("ob1")
    [said] = modules.compare(stack, there.kind)
    assert said == ("module openmpi/4.1.7: OMPI_MCA_pml is 'ob1' after loading, and was 'ucx' when the stack was registered.")


def test_doctor_says_what_keeps_it_from_looking(add: Add, there: ModuleSystem, prefix: Path, monkeypatch) -> None:
    def none(name: str | None = None) -> str:
        raise BadInput("module-system-missing", "the site's configuration names no module system.")

    monkeypatch.setattr(modules, "find_system", none)
    stack = add("openmpi/4.1.4")
    [finding] = doctor.check_modules([stack], None)
    assert finding.state == doctor.MISSING
    assert finding.detail == "openmpi-system need them: the site's configuration names no module system."
    assert list(doctor.check_modules([replace(stack, modules=())], None)) == []


# ---- what jobs do ----

#: Prints the lines that ReFrame writes into a job script to enter the one environment of a configuration.
EMIT = """
import sys
from reframe.core import config, runtime
site = config.load_config(sys.argv[1])
site.validate()
site.select_subconfig("s")
runtime.init_runtime(site)
[environment] = runtime.runtime().system.partitions[0].environs
print("\\n".join(runtime.emit_loadenv_commands(environment)))
"""


def write_job(there: ModuleSystem, stack: Stack, stage: Path) -> Path:
    """A job script on a stack as ReFrame and the harness write it; instead of measuring it says which mpirun it finds."""
    stage.mkdir(exist_ok=True)
    partition = {"name": "p", "scheduler": "local", "launcher": "local", "environs": [stack.name]}
    configuration = {
        "systems": [{"name": "s", "hostnames": [".*"], "partitions": [partition], "modules_system": there.kind}],
        "environments": [metadata.environment_of(stack)],
        "general": [{"remote_detect": False}],
    }
    settings = stage / "settings.json"
    settings.write_text(json.dumps(configuration))
    written = subprocess.run([sys.executable, "-c", EMIT, str(settings)], text=True, capture_output=True)
    assert written.returncode == 0, written.stderr
    assert f"module load {stack.modules[0].name}" in written.stdout
    lines = [written.stdout, *job_modules.write_check(stack), 'echo "mpirun is $(command -v mpirun)"']
    (stage / "job.sh").write_text("\n".join(["#!/bin/bash", *lines]))
    return stage / "job.sh"


def run_job(job: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/bash", job.name], cwd=job.parent, env={**os.environ, **environ}, text=True, capture_output=True
    )


def test_a_job_loads_the_modules_and_its_log_shows_it(add: Add, there: ModuleSystem, prefix: Path, tmp_path: Path) -> None:
    there.write("base/1", "setenv BASE yes", "append-path MANPATH /base/man")
    stack = add("base/1", "openmpi/4.1.4", env={"BASE": "no"})
    done = run_job(write_job(there, stack, tmp_path / "stage"))
    assert (done.returncode, done.stdout) == (0, f"mpirun is {prefix}/bin/mpirun\n"), done.stderr
    assert judge_modules(stack, tmp_path / "stage")[1] == []


def test_a_job_in_a_shell_that_has_loaded_other_things_is_no_different(
    add: Add, there: ModuleSystem, prefix: Path, tmp_path: Path
) -> None:
    there.write("other/1", "setenv OTHER yes", "prepend-path PATH /other/bin")
    stack = add("openmpi/4.1.4")
    job = write_job(there, stack, tmp_path / "stage")
    done = there.shell(f"cd {job.parent} && module load other/1 openmpi/4.1.4 && export PATH=/venv/bin:$PATH && bash job.sh")
    assert (done.returncode, done.stdout) == (0, f"mpirun is {prefix}/bin/mpirun\n"), done.stderr
    assert judge_modules(stack, job.parent)[1] == []


def test_a_job_ends_where_a_module_does_not_load(add: Add, there: ModuleSystem, prefix: Path, tmp_path: Path) -> None:
    stack = add("openmpi/4.1.4")
    job = write_job(there, stack, tmp_path / "stage")
    (there.tree / "openmpi/4.1.4").unlink()
    done = run_job(job)
    assert (done.returncode, done.stdout) == (1, "")
    assert "mpibench: not loaded: openmpi/4.1.4; loaded are: none" in done.stderr
    [said] = judge_modules(stack, job.parent)[1]
    assert said.startswith(f"module openmpi/4.1.4 is gone: {there.tree}/openmpi/4.1.4 is not there any more")


def test_a_job_without_any_module_command_ends(add: Add, there: ModuleSystem, prefix: Path, tmp_path: Path) -> None:
    stack = add("openmpi/4.1.4")
    job = write_job(there, stack, tmp_path / "stage")
    Path(stack.loaded.init).unlink()
    done = run_job(job, BASH_ENV="")
    assert done.returncode == 1 and "module: command not found" in done.stderr
    assert "mpibench: not loaded: openmpi/4.1.4" in done.stderr
    assert "module openmpi/4.1.4 is not loaded" in judge_modules(stack, job.parent)[1][0]


def test_a_default_that_moved_ends_the_job(add: Add, there: ModuleSystem, prefix: Path, tmp_path: Path) -> None:
    stack = add("openmpi")
    job = write_job(there, stack, tmp_path / "stage")
    there.write_mpi("openmpi/4.1.5", prefix)
    done = run_job(job)
    assert done.returncode == 1 and "mpibench: not loaded: openmpi/4.1.4; loaded are: openmpi/4.1.5" in done.stderr
    assert "openmpi/4.1.5 is, as if a default had moved" in judge_modules(stack, job.parent)[1][0]


def test_of_a_paired_stack_the_job_looks_at_the_files(add: Add, there: ModuleSystem, prefix: Path, tmp_path: Path) -> None:
    stack = add("openmpi/4.1.4")
    lines = job_modules.write_check(stack, paired=True)
    for change, said in ((lambda: None, []), (lambda: there.write("openmpi/4.1.4", "setenv X 1"), ["has changed"])):
        change()
        (tmp_path / "job.sh").write_text("\n".join(lines))
        assert run_job(tmp_path / "job.sh").returncode == 0
        sentences = judge_modules(stack, tmp_path)[1]
        assert len(sentences) == len(said) and all(word in text for word, text in zip(said, sentences, strict=True))


# ---- Modules that would hold up or mislead whoever registers them: one sentence each, and nothing waits ----


@pytest.fixture
def with_envmod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleSystem:
    found = module_systems.set_up("envmod", tmp_path / "site")
    module_systems.enter(found, monkeypatch)
    return found


@pytest.mark.parametrize("line", ["after 60000", "exec sleep 60 &"], ids=["waits", "leaves a process"])
def test_a_module_that_holds_a_shell_up_is_refused(
    with_envmod: ModuleSystem, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    """Python is not shown what is done for shells only, and the shell is the second that loads it."""
    monkeypatch.setattr(modules, "LIMIT_S", 15.0)
    with_envmod.write("slow/1", f"if {{[module-info shell bash]}} {{ {line} }}", "setenv SLOW yes")
    with pytest.raises(BadInput, match=r"^module slow/1: envmod does not load within 15 s; try it in a shell\.$"):
        modules.load([Module("slow/1")], with_envmod.kind)


def test_a_module_that_asks_gets_no_answer(with_envmod: ModuleSystem) -> None:
    with_envmod.write("asks/1", "setenv ANSWER [gets stdin]")
    assert modules.load([Module("asks/1")], with_envmod.kind).record.sets["ANSWER"] == ""


@pytest.mark.parametrize("name", ["", "a b", "a\nb", 'a"b', "a;b", "$(touch x)", "--version"])
def test_what_is_no_name_of_a_module_is_not_tried(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(modules, "_shell", None)
    with pytest.raises(BadInput) as refusal:
        modules.load([Module(name)], "lmod")
    assert str(refusal.value) == f"{name!r} is no name of a module: give one as 'module avail' lists it."


def test_nor_is_a_folder_that_a_script_cannot_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(modules, "_shell", None)
    with pytest.raises(BadInput, match=r"^the folder of modulefiles '/opt/my modules' has characters "):
        modules.load([Module("a/1", path="/opt/my modules")], "lmod")

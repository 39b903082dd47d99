"""Registering an MPI of environment modules, with Lmod and with
Environment Modules: found, refused, compared afterwards.
"""

import json
import sys
from pathlib import Path

import pytest

import module_systems
import synthetic_stack as synthetic
from folders import write
from mpibench.cli import main
from mpibench.commands import stacks as stacks_command
from mpibench.commands.listings import doctor
from mpibench.stacks import modules, system
from programs import finished
from reframe_tests.harness.cases.job import modules as job_modules
from reframe_tests.harness.stacks import metadata
from reframe_tests.harness.stacks.modules import Module
from reframe_tests.harness.stacks.stack import judge_modules
from reframe_tests.harness.vocabulary import BadInput
from refusals import refusal


@pytest.fixture(params=module_systems.KINDS)
def there(request, tmp_path, monkeypatch):
    """A module system that the caller's shell has set up, with nothing loaded."""
    found = module_systems.set_up(request.param, tmp_path / "site")
    module_systems.enter(found, monkeypatch)
    monkeypatch.delenv(metadata.EXTRA_STACKS, raising=False)
    return found


@pytest.fixture
def add(there, tmp_path):
    """Registers modules into a project that has no stack yet;
    what is said is kept in ``add.said``.
    """

    def call(*names, **words):
        words.setdefault("entered", [Module(name) for name in names])
        options = {
            "root": tmp_path / "project",
            "modules_system": there.kind,
            "say": call.said.append,
            **words,
        }
        return system.add(**options)

    call.said = []
    return call


@pytest.fixture
def prefix(there, tmp_path):
    """An Open MPI with its module ``openmpi/4.1.4``."""
    prefix = tmp_path / "opt/openmpi"
    synthetic.make_open_mpi(prefix)
    there.write_mpi("openmpi/4.1.4", prefix)
    return prefix


# ---- what is found ----


def test_the_mpi_and_the_benchmarks_of_modules_are_registered(add, there, prefix, tmp_path):
    folder = f"{tmp_path}/opt/osu/libexec"
    program = synthetic.make_program(
        Path(folder, "mpi/osu_latency"), "libmpi.so.40", synthetic.OSU_SOURCE
    )
    file = there.write("osu/7.4", f"prepend-path PATH {folder}", "append-path MANPATH /osu/man")
    stack = add("openmpi/4.1.4", "osu/7.4")
    assert metadata.read(Path(stack.source)) == stack
    assert [each.name for each in stack.modules] == ["openmpi/4.1.4", "osu/7.4"]
    assert stack.library == f"{prefix}/lib/libmpi.so.40"
    assert stack.binaries == {"osu_latency": str(program)}
    # What the modules bring is the modules' own business: a job that
    # did not load them must not find it.
    assert "PATH" not in stack.prepend_path and "LD_LIBRARY_PATH" not in stack.prepend_path
    record = stack.loaded
    assert record.system == there.kind and record.version
    assert record.init == f"{there.environ['MODULESHOME']}/init/bash"
    assert [each.name for each in record.loaded] == ["openmpi/4.1.4", "osu/7.4"]
    assert record.loaded[1].file == str(file) and len(record.loaded[1].sha256) == 64
    assert record.sets == {"MPI_HOME": str(prefix)}
    assert record.prepends["PATH"] == (folder, f"{prefix}/bin")
    assert record.appends == {"MANPATH": ("/osu/man",)}


def test_what_the_caller_has_loaded_does_not_count(there, prefix, tmp_path):
    there.write(
        "hidden/1", f"prepend-path PATH {tmp_path}/hidden", "setenv HIDDEN yes", "conflict openmpi"
    )
    done = there.shell("module load hidden/1 && env -0")
    inside = dict(part.split("=", 1) for part in done.stdout.split("\0") if "=" in part)
    assert inside["HIDDEN"] == "yes"
    brought = modules.load([Module("openmpi/4.1.4")], there.kind, inside)
    assert [each.name for each in brought.record.loaded] == ["openmpi/4.1.4"]
    assert "HIDDEN" not in brought.record.sets


# ---- what is refused ----


def test_a_module_that_cannot_be_loaded_is_refused(add, there, prefix, tmp_path):
    """None of that name, one that cannot be evaluated, one that conflicts."""
    there.write("broken/1", "setenv ONE")
    there.write_mpi("mpich/4.0", tmp_path / "opt/mpich", "conflict openmpi")
    for name in ("openmpi/9.9", "broken/1", "mpich/4.0"):
        said = refusal(add, "openmpi/4.1.4", name)
        assert said.startswith(f"module {name} cannot be loaded by {there.kind} (")
    assert not list((tmp_path / "project").rglob("stack.json"))


def test_a_module_that_takes_another_ones_place_is_refused(add, there, prefix, tmp_path):
    """Lmod replaces a module of the same name or family and says nothing
    that fails; Environment Modules refuses it or not.
    """
    if there.kind == "lmod":
        for name in ("one/1", "two/2"):
            write(there.tree / f"{name}.lua", 'family("MPI")\n')
    else:
        there.write("one/1", "conflict two")
        there.write("two/2", "module unload one")
    said = refusal(add, "openmpi/4.1.4", "one/1", "two/2")
    assert said.startswith("module two/2 conflicts with one/1, which it unloads")


@pytest.mark.parametrize("text", ["hello there", "echo welcome"])
def test_a_module_that_prints_to_stdout_is_refused(add, there, prefix, text):
    """Environment Modules hands it to Python, too; Lmod to bash only, which
    runs it. On standard error anybody may say anything.
    """
    there.write_mpi("talk/1", prefix, "puts stderr {a greeting}")
    add("talk/1")
    there.write_mpi("talk/2", prefix, f'puts stdout "{text}"')
    if there.kind == "lmod" and text == "hello there":
        (there.tree / "talk/2").unlink()
        (there.tree / "talk/2.lua").write_text(f'print("{text}")\n')
    assert "on standard output" in refusal(add, "talk/2")


@pytest.mark.parametrize("there", ["lmod"], indirect=True)
def test_the_command_takes_the_sites_own_module_system(there, prefix, sandbox, monkeypatch, capsys):
    monkeypatch.setenv("RFM_CONFIG_FILES", str(sandbox / "site_configs/settings.py"))
    words = ["add", "--module", "openmpi/4.1.4", "--system", "generic", "--name", "x", "--into"]
    described = sandbox / "site_configs/generic/system.py"
    text = described.read_text()
    for kind, status, said in (
        (None, 2, "names no module system"),
        (there.kind, 0, ""),
        ("nosuch", 2, "correct 'modules_system'"),
    ):
        if kind:
            own = text.replace('"hostnames"', f'"modules_system": "{kind}", "hostnames"')
            described.write_text(own)
        assert main([*words, str(sandbox / str(kind))], run=stacks_command.app) == status
        assert said in capsys.readouterr().err
    stack = json.loads((sandbox / there.kind / "stack.json").read_text())
    assert stack["modules"] == ["openmpi/4.1.4"]


# ---- what is compared afterwards ----


def test_doctor_names_the_module_that_changed_or_vanished(add, there, prefix, monkeypatch):
    monkeypatch.setattr(modules, "find_system", lambda name=None: there.kind)
    there.write("base/1", "setenv BASE yes")
    stack = add("base", "openmpi/4.1.4")

    def look():
        [finding] = doctor.check_modules([stack], None)
        return finding

    fine = look()
    assert (fine.subject, fine.state) == ("modules of openmpi-system", doctor.OK)
    there.write_mpi("openmpi/4.1.4", prefix, "setenv OMPI_MCA_btl tcp,self")
    changed = look()
    assert changed.state == doctor.MISSING
    assert changed.detail.startswith("module openmpi/4.1.4 changed after")
    there.write_mpi("openmpi/4.1.4", prefix)
    there.write("base/2", "setenv BASE yes")
    assert "base/2 is; perhaps a default changed" in look().detail
    (there.tree / "base/2").unlink()
    (there.tree / "openmpi/4.1.4").unlink()
    assert look().detail.startswith(f"module openmpi/4.1.4 cannot be loaded by {there.kind}")


# ---- what jobs do ----

#: Prints the lines that ReFrame writes into a job script to enter
#: the one environment of a configuration.
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


def write_job(there, stack, stage):
    """A job script on a stack as ReFrame and the harness write it; instead
    of measuring it says which mpirun it finds.
    """
    configuration = synthetic.configuration_of(stack, modules_system=there.kind)
    settings = write(stage / "settings.json", json.dumps(configuration))
    written = finished(sys.executable, "-c", EMIT, settings)
    assert f"module load {stack.modules[0].name}" in written.stdout, written.stderr
    check = "\n".join(job_modules.write_check(stack))
    (stage / "job.sh").write_text(f'{written.stdout}{check}\necho "$(command -v mpirun)"\n')
    return stage / "job.sh"


def run_job(job, **environ):
    return finished("/bin/bash", job.name, cwd=job.parent, environ=environ)


def test_a_job_loads_the_modules_and_its_log_shows_it(add, there, prefix, tmp_path):
    """Also in a shell that has loaded other things; and it ends where a default moved, or a module
    or the module command is gone.
    """
    there.write("base/1", "setenv BASE yes", "append-path MANPATH /base/man")
    there.write("other/1", "setenv OTHER yes", "prepend-path PATH /other/bin")
    stack = add("base/1", "openmpi", env={"BASE": "no"})
    job = write_job(there, stack, tmp_path / "stage")

    def said():
        return judge_modules(stack, job.parent)[1]

    other = f"cd {job.parent} && module load other/1 && export PATH=/venv/bin:$PATH && bash job.sh"
    for run in (lambda: run_job(job), lambda: there.shell(other)):
        done = run()
        assert (done.returncode, done.stdout) == (0, f"{prefix}/bin/mpirun\n"), done.stderr
        assert said() == []
    there.write_mpi("openmpi/4.1.5", prefix)
    done = run_job(job)
    assert done.returncode == 1 and "loaded are: base/1:openmpi/4.1.5" in done.stderr
    assert "perhaps a default changed" in said()[0]
    for version in ("4.1.4", "4.1.5"):
        (there.tree / "openmpi" / version).unlink()
    done = run_job(job)
    assert (done.returncode, done.stdout) == (1, "")
    assert "mpibench: not loaded: openmpi" in done.stderr
    assert said()[0].startswith("module openmpi/4.1.4 is gone")
    Path(stack.loaded.init).unlink()
    assert run_job(job, BASH_ENV="").returncode == 1
    assert "is not loaded" in said()[0]


# ---- Modules that would hold up or mislead whoever registers them:
# one sentence each, and nothing waits ----


@pytest.mark.parametrize("there", ["envmod"], indirect=True)
def test_a_module_that_holds_a_shell_up_is_refused(there, monkeypatch):
    """One that waits, and one that leaves a process. Python is not shown what is done for
    shells only, and the shell is the second that loads it.
    """
    monkeypatch.setattr(modules, "LIMIT_S", 4.0)
    for line in ("after 60000", "exec sleep 60 &"):
        shell_only = f"if {{[module-info shell bash]}} {{ {line} }}"
        there.write("slow/1", shell_only, "setenv SLOW yes")
        with pytest.raises(BadInput, match="does not load within 4 s"):
            modules.load([Module("slow/1")], there.kind)

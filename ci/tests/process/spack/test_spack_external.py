"""An MPI of the site's own is what its entry in packages.yaml says, or
is refused before anything is compiled for it.
"""

import json
import re
import shlex
from pathlib import Path

import pytest

import synthetic_stack
from folders import DATA, write
from mpibench.stacks import probe
from mpibench.stacks.spack import description, lock, scope
from programs import finished
from reframe_tests.harness.evidence import recorder
from reframe_tests.harness.stacks import metadata
from reframe_tests.harness.vocabulary import BadInput

RECORDED = DATA / "golden" / "spack" / "mpich.lock.json"
#: Its head has the commands that make a prefix for each of the two.
EXAMPLE = metadata.ROOT / "site_configs" / "template" / "spack" / "debian12" / "packages.yaml"
HEADER = "int MPI_Finalize(void);\n"

pytestmark = pytest.mark.skipif(
    bool(synthetic_stack.missing()), reason=f"[host-mpi] {synthetic_stack.missing()}"
)


@pytest.fixture(scope="module")
def compilers(tmp_path_factory):
    """What compiles for each MPI, by MPI: Debian's own have no
    headers without the development packages.
    """
    folder = tmp_path_factory.mktemp("compilers")
    made = {}
    (folder / "mpi.h").write_text(HEADER)
    for mpi, launcher in synthetic_stack.DEBIAN_LAUNCHERS.items():
        words = shlex.join([*recorder.compilers()[0], f"-I{folder}"])
        library = shlex.quote(str(probe.examine(launcher).library))
        text = f'#!/bin/sh\nexec {words} "$@" {library}\n'
        made[f"mpicc.{mpi}"] = str(write(folder / f"mpicc.{mpi}", text, executable=True))
    return made


@pytest.fixture(scope="module")
def locked():
    """A lock file whose MPI is the MPICH that is installed here."""
    document = json.loads(RECORDED.read_text())
    version = probe.examine(synthetic_stack.DEBIAN_LAUNCHERS["mpich"]).identity.version
    for node in document["concrete_specs"].values():
        if node["name"] == "mpich":
            node["version"] = version
    return lock.parse(document, Path("/site/environments/mpich/spack.lock"))


def links(folder, **names):
    """A prefix of links: name in its bin/ to the program."""
    (folder / "bin").mkdir(parents=True)
    for name, program in names.items():
        (folder / "bin" / name).symlink_to(program)
    return folder


def test_a_prefix_of_links_is_the_mpi_it_says(locked, tmp_path, compilers, monkeypatch):
    looked_at = []
    check = description.check_mpi
    monkeypatch.setattr(
        description, "check_mpi", lambda *words: looked_at.append(words) or check(*words)
    )
    prefix = links(
        tmp_path / "mpich", mpicc=compilers["mpicc.mpich"], mpirun="/usr/bin/mpirun.mpich"
    )
    description.check_external(locked, prefix)
    assert looked_at, "its compiler compiles, so that what it made was looked at"


@pytest.mark.parametrize(
    ("mpicc", "mpirun", "said"),
    [
        # As Debian's /usr is where Open MPI owns the plain names.
        ("mpicc.openmpi", "/usr/bin/mpirun.openmpi", " is openmpi "),
        ("mpicc.openmpi", "/usr/bin/mpirun.mpich", "whose launcher is"),
        ("", "/usr/bin/mpirun.mpich", "cannot be run"),
        ("mpicc.mpich", "", "has no bin/mpirun below"),
    ],
)
def test_another_mpi_below_the_prefix_is_refused(locked, tmp_path, compilers, mpicc, mpirun, said):
    names = {"mpicc": compilers.get(mpicc, ""), "mpirun": mpirun}
    prefix = links(tmp_path / "shared", **{name: to for name, to in names.items() if to})
    with pytest.raises(BadInput, match=said):
        description.check_external(locked, prefix)


def test_what_spack_finds_is_asked_who_it_is_before_it_is_written(tmp_path, compilers):
    """An MPICH where mpicc is Open MPI's, as Debian's /usr is: also
    where its compiler does not work here.
    """
    rows = {}
    for name, mpicc, mpirun in (
        ("right", compilers["mpicc.mpich"], "/usr/bin/mpirun.mpich"),
        ("wrong", compilers["mpicc.openmpi"], "/usr/bin/mpirun.mpich"),
        ("other", "/bin/false", "/usr/bin/mpirun.openmpi"),
    ):
        prefix = links(tmp_path / name, mpicc=mpicc, mpirun=mpirun)
        rows[name] = {"spec": "mpich@4.0.2+hydra device=ch4 netmod=ucx", "prefix": str(prefix)}
    found = {"mpich": {"externals": [*rows.values()]}}
    kept, dropped = scope.curate(found, Path("/nowhere"), ["mpich"], scope._contradict)
    assert kept["mpich"]["externals"] == [rows["right"]]
    assert [row.entry for row, _ in dropped] == [rows["wrong"], rows["other"]]
    assert all("is openmpi 4." in reason or "whose launcher is" in reason for _, reason in dropped)


@pytest.mark.parametrize("name", synthetic_stack.DEBIAN_LAUNCHERS)
def test_the_links_of_the_debian_example_are_enough_to_start_ranks(tmp_path, name):
    """A launcher looks for its own helpers where it lies, and a link to it lies elsewhere."""
    head = EXAMPLE.read_text().split("packages:")[0]
    script = "\n".join(re.findall(r"(?m)^#   (.*)$", head)).replace("/opt/mpi/", f"{tmp_path}/")
    assert finished("bash", "-eu", "-c", script).returncode == 0
    variables = "ALLOW_RUN_AS_ROOT ALLOW_RUN_AS_ROOT_CONFIRM MCA_rmaps_base_oversubscribe"
    environ = {"HYDRA_LAUNCHER": "fork"}
    environ |= {f"OMPI_{variable}": "1" for variable in variables.split()}
    for launcher in ("mpirun", "mpiexec"):
        # Of ranks that end at once Debian's mpirun may lose what they
        # said, seen once beside other tests.
        ranks = ("sh", "-c", "echo started; sleep 1")
        done = finished(tmp_path / name / "bin" / launcher, "-n", 2, *ranks, environ=environ)
        assert done.stdout.split() == ["started"] * 2, done

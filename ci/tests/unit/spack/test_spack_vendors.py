"""MPIs that vendors bring and Spack does not build (HPC-X, Cray MPICH, ParaStation MPI), by the layout of their files."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from folders import DATA
from mpibench.stacks import probe
from mpibench.stacks.spack import build, description, lock, project
from reframe_tests.harness.mpis import registry
from reframe_tests.harness.stacks import metadata
from reframe_tests.harness.vocabulary import BadInput

#: Package -> version of its entry, MPI that it is, version that the library says.
VENDORS = {
    "hpcx-mpi": ("2.24.1", "openmpi", "4.1.9"),
    "cray-mpich": ("8.1.30", "craympich", "8.1.30.1"),
    "parastationmpi": ("5.13.1", "parastation", "5.13.1-1"),
}


def of_vendor(package: str) -> lock.Lock:
    found = json.loads((DATA / "golden" / "spack" / "openmpi.lock.json").read_text())
    row = next(row for row in found["concrete_specs"].values() if row["name"] == "openmpi")
    row |= {"name": package, "version": VENDORS[package][0]}
    return lock.parse(found, Path(f"/site/environments/{package}/spack.lock"))


def program(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(0o755)
    return path


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Root of a machine: launchers that lie nowhere below their MPI are looked for below it."""
    known = description.providers()

    def here(name: str) -> str:
        return f"{tmp_path}{name}" if name.startswith("/") else name

    moved = {package: (mpi, replace(row, launchers=tuple(map(here, row.launchers)))) for package, (mpi, row) in known.items()}
    monkeypatch.setattr(description, "providers", lambda: moved)
    return tmp_path


@pytest.mark.parametrize("package", VENDORS)
def test_each_has_an_environment_that_is_not_built_by_default(package: str) -> None:
    assert package in build.list_environments() and package not in build.list_by_default()
    assert project.list_of_site(metadata.ROOT, package) == [package]
    mpi, _ = description.providers()[package]
    assert mpi is registry.find(VENDORS[package][1])
    assert description.name_of(of_vendor(package)) == f"{package}-spack"


@pytest.mark.parametrize(
    ("package", "prefix", "files", "launcher"),
    [
        ("hpcx-mpi", "opt/hpcx/ompi", ("bin/mpicc", "bin/mpirun"), "opt/hpcx/ompi/bin/mpirun"),
        ("cray-mpich", "opt/cray/pe/mpich/8.1.30/ofi/gnu/12.3", ("bin/mpicc",), "opt/cray/pe/pals/default/bin/mpiexec"),
        ("parastationmpi", "opt/psmpi", ("bin/mpicc", "bin/mpirun"), "opt/psmpi/bin/mpirun"),
        ("parastationmpi", "opt/parastation/mpi", ("bin/mpicc",), "opt/parastation/bin/mpiexec"),
    ],
)
def test_its_launcher_is_its_own_or_the_machines(
    machine: Path, package: str, prefix: str, files: tuple[str, ...], launcher: str
) -> None:
    for name in (*(f"{prefix}/{name}" for name in files), launcher):
        program(machine / name)
    found = of_vendor(package)
    home = description.find_home(found, machine / prefix)
    assert home == machine / prefix
    assert description.find_launcher(found, home) == machine / launcher


@pytest.mark.parametrize("package", ["cray-mpich", "parastationmpi"])
def test_without_a_launcher_it_is_refused_before_anything_is_built(machine: Path, package: str) -> None:
    program(machine / "mpi" / "bin" / "mpicc")
    with pytest.raises(BadInput, match=r"has nothing here that starts its ranks \(.*\); .*'mpibench stacks add --mpirun'\.$"):
        description.check_external(of_vendor(package), machine / "mpi")


@pytest.mark.parametrize("package", VENDORS)
def test_a_wrong_prefix_is_said(machine: Path, package: str) -> None:
    program(machine / "opt/cray/pe/pals/default/bin/mpiexec")
    with pytest.raises(BadInput, match=r"has no bin/mpi(run|cc) below .*; correct its prefix in the site's packages\.yaml\.$"):
        description.find_home(of_vendor(package), machine / "nowhere")


def answering(monkeypatch: pytest.MonkeyPatch, mpi: str, version: str) -> Callable[[str], probe.Installation]:
    """Let an installation say it is this MPI; what then comes of a package's entry."""

    def check(package: str) -> probe.Installation:
        identity = probe.Identity(mpi, version, "", "mpich", "x", ())
        path = Path("/opt/mpi")
        found = probe.Installation(path / "bin" / "mpirun", "x", path, path / "lib" / "libmpi.so", identity, "", True)
        monkeypatch.setattr(description, "find_library", lambda program, environ: found.library)
        monkeypatch.setattr(description, "find_launcher", lambda lock, home: found.mpirun)
        monkeypatch.setattr(probe, "examine", lambda *words: found)
        return description.check_mpi(of_vendor(package), path, "probe")

    return check


@pytest.mark.parametrize("package", VENDORS)
def test_it_is_known_by_what_its_library_says(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    _, mpi, version = VENDORS[package]
    assert answering(monkeypatch, mpi, version)(package).identity.version == version


def test_another_mpi_below_its_prefix_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadInput, match=r"is mpich 4\.3\.0 and the lock file says hpcx-mpi@2\.24\.1; correct its spec"):
        answering(monkeypatch, "mpich", "4.3.0")("hpcx-mpi")
    with pytest.raises(BadInput, match=r"is craympich 9\.0\.1 and the lock file says cray-mpich@8\.1\.30; correct its spec"):
        answering(monkeypatch, "craympich", "9.0.1")("cray-mpich")


@pytest.mark.parametrize(
    ("device", "said"), [("ch4:ofi", ""), ("ch4:ucx,ofi", ""), ("", ""), ("ch4:ucx", "netmod"), ("ch3:nemesis", "device")]
)
def test_an_external_that_the_lock_takes_for_another_netmod_is_refused(device: str, said: str) -> None:
    """Spack's recipe prefers one where the entry says none."""
    recorded = lock.read(DATA / "golden" / "spack" / "mpich.lock.json")
    mpi = recorded.mpi
    taken = replace(mpi, external="/opt/mpi", variants={**mpi.variants, "device": "device=ch4", "netmod": "netmod=ofi"})
    solved = replace(recorded, nodes={**recorded.nodes, mpi.hash: taken})
    path = Path("/opt/mpi")
    identity = probe.Identity("mpich", mpi.version, device, "mpich", "x", ())
    found = probe.Installation(path / "bin" / "mpirun", "x", path, path / "lib" / "libmpi.so", identity, "", True)
    if not said:
        description._agree(solved, found)
        return
    with pytest.raises(BadInput, match=rf"is built with {said}=\w+ and the lock file says {said}=\w+; write {said}="):
        description._agree(solved, found)


def test_the_netmod_of_an_external_is_part_of_which_mpi_it_is() -> None:
    recorded = lock.read(DATA / "golden" / "spack" / "mpich.lock.json")
    taken = replace(recorded.mpi, external="/opt/mpi", variants={**recorded.mpi.variants, "netmod": "netmod=ofi"})
    other = replace(recorded, nodes={**recorded.nodes, recorded.mpi.hash: taken})
    assert "netmod" in lock.things(lock.described(recorded), lock.described(other))

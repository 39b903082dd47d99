"""The Spack files of environments/: they share everything but the MPI; MPIs that vendors bring and Spack does not build."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from folders import DATA
from mpibench.stacks import probe
from mpibench.stacks.spack import build, description, lock, project
from reframe_tests.harness.mpis import registry
from reframe_tests.harness.stacks import metadata
from refusals import refused_as

ENVIRONMENTS = metadata.ROOT / "environments"
SCHEMA = jsonschema.Draft202012Validator(json.loads((ENVIRONMENTS / "spack.schema.json").read_text()))
STACKS = ("intel-oneapi-mpi", "mpich", "mvapich", "mvapich2", "openmpi")
#: Environments for device memory -> the MPI, and the folder with what they need beyond the others.
DEVICES = {"openmpi-cuda": ("openmpi", "common-cuda"), "openmpi-rocm": ("openmpi", "common-rocm")}
#: MPIs that Spack does not build.
VENDORS = ("cray-mpich", "hpcx-mpi", "mvapich-plus", "parastationmpi")
FILES = sorted([*ENVIRONMENTS.glob("*/spack.yaml"), *ENVIRONMENTS.glob("common*/*.yaml")])


def load(name: str) -> dict[str, Any]:
    return yaml.safe_load((ENVIRONMENTS / name).read_text())


def test_there_is_an_environment_for_each_mpi() -> None:
    assert tuple(build.list_by_default()) == STACKS
    assert set(build.list_environments()) == {*STACKS, *DEVICES, *VENDORS}
    assert {description.providers()[name][0].name for name in STACKS} <= set(registry.names())
    assert set(description.providers()) == {*STACKS, *VENDORS}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ENVIRONMENTS)))
def test_every_file_fits_the_schema_and_no_absolute_path_stands_in_it(path: Path) -> None:
    SCHEMA.validate(yaml.safe_load(path.read_text()))
    for number, line in enumerate(path.read_text().splitlines(), 1):
        words = [word.strip("\"',:()") for word in line.split("#")[0].split()]
        assert not [word for word in words if word.startswith(("/", "~/"))], f"{path.name}:{number}"


@pytest.mark.parametrize("name", [*STACKS, *VENDORS])
def test_stacks_differ_in_their_mpi_and_in_nothing_else(name: str) -> None:
    document, other = load(f"{name}/spack.yaml")["spack"], load("openmpi/spack.yaml")["spack"]
    assert document.pop("specs") == [f"mpibench-suite ^[virtuals=mpi] {name}"]
    deprecated = document.pop("config", None)
    assert deprecated is None or name == "mvapich2"
    assert document.pop("packages", None) == ({name: {"buildable": False}} if name in VENDORS else None)
    other.pop("specs")
    assert document == other


@pytest.mark.parametrize("name", DEVICES)
def test_a_stack_for_devices_is_that_of_its_mpi_with_a_variant(name: str) -> None:
    mpi, folder = DEVICES[name]
    document, other = load(f"{name}/spack.yaml")["spack"], load(f"{mpi}/spack.yaml")["spack"]
    assert document["include"][1:] == [f"../{folder}", "../common"]
    document["include"].remove(f"../{folder}")
    assert document == other
    device = name.split("-")[1]
    packages = load(f"{folder}/packages.yaml")["packages"]
    [suite] = packages["mpibench-suite"]["require"]
    assert suite.split()[0] == f"+{device}" and packages["ucx"]["require"] == [f"+{device}"]
    assert {"cuda": "cuda", "rocm": "rccl"}[device] in project.list_of_site(metadata.ROOT, name)


def change(document: dict[str, Any], keys: tuple[str, ...], value: Any) -> dict[str, Any]:
    changed = copy.deepcopy(document)
    place = changed
    for key in keys[:-1]:
        place = place[key]
    place[keys[-1]] = value
    return changed


STACK, COMMON = "openmpi/spack.yaml", "common/packages.yaml"


@pytest.mark.parametrize(
    ("file", "keys", "value"),
    [
        (STACK, ("spack", "packages"), {"ucx": {"require": ["@1.18"]}}),
        (STACK, ("spack", "include"), ["/opt/site", "../common"]),
        (STACK, ("spack", "include"), ["../common"]),
        (STACK, ("spack", "specs"), ["openmpi", "osu-micro-benchmarks"]),
        (STACK, ("spack", "specs"), ["mpibench-suite ^[virtuals=mpi] openmpi cflags=-O3"]),
        (STACK, ("spack", "view"), "/opt/view"),
        (STACK, ("spack", "config"), {"install_tree": {"root": "/opt/spack"}}),
        (COMMON, ("packages", "openmpi", "externals"), [{"spec": "openmpi@4.1.4", "prefix": "/usr"}]),
        (COMMON, ("packages", "ucx", "require"), "@1.20.0"),
        (COMMON, ("packages", "ucx", "require"), ["cflags=-I/opt/include"]),
        ("common/concretizer.yaml", ("concretizer", "reuse"), True),
        ("common/concretizer.yaml", ("concretizer", "unify"), False),
        ("common/concretizer.yaml", ("concretizer", "targets"), {"granularity": "microarchitectures", "host_compatible": True}),
        (
            "common/repos.yaml",
            ("repos", "builtin"),
            {"git": "https://github.com/spack/spack-packages.git", "branch": "develop"},
        ),
        ("common/repos.yaml", ("repos", "mpibench"), "/opt/mpibench/repo"),
    ],
)
def test_what_belongs_to_a_site_or_would_make_stacks_differ_is_refused(file: str, keys: tuple[str, ...], value: Any) -> None:
    assert not SCHEMA.is_valid(change(load(file), keys, value))


def test_common_settings_pin_what_stacks_must_agree_in() -> None:
    packages = load(COMMON)["packages"]
    for name in ("all", "c", "cxx", "fortran", "intel-mpi-benchmarks", "osu-micro-benchmarks"):
        assert packages[name]["require"], name
    for name in ("ucx", "libfabric", "hwloc", "pmix", "prrte"):
        assert packages[name]["require"][0].startswith("@="), f"the version of {name} is pinned"
    assert packages["gcc"] == {"buildable": False}


def test_a_package_has_one_version_wherever_it_is_pinned() -> None:
    versions: dict[str, set[str]] = {}
    for path in ENVIRONMENTS.glob("common*/packages.yaml"):
        for name, settings in load(f"{path.parent.name}/packages.yaml")["packages"].items():
            for spec in (*settings.get("require", ()), *settings.get("require:", ())):
                versions.setdefault(name, set()).update(re.findall(r"@=\S+", spec))
    assert versions["ucx"] and {name for name, found in versions.items() if len(found) > 1} == set()


def test_a_pin_is_one_version() -> None:
    """In Spack ``@7.5`` is every 7.5.x; only ``@=7.5`` is one release."""
    for name, settings in load(COMMON)["packages"].items():
        for spec in (*settings.get("require", ()), *settings.get("prefer", ())):
            assert not re.search(r"@(?!=)", spec), f"{name}: {spec}"


def test_what_no_mpi_uses_is_not_built() -> None:
    packages = load(COMMON)["packages"]
    assert packages["libevent"]["require"] == ["~openssl"] and "~libxml2" in packages["hwloc"]["require"][0].split()
    # Neither required nor preferred: an external is what it is, and Spack would build another beside it.
    assert packages["rdma-core"] == {"variants": "~man_pages ~pyverbs"}


def test_an_mpi_brings_no_batch_system_of_its_own() -> None:
    # Each a preference of its own, so that none goes with another that cannot be had.
    assert {"schedulers=none", "~rsh"} <= set(load(COMMON)["packages"]["openmpi"]["prefer"])


def test_infiniband_is_switched_on_where_upstream_leaves_it_out() -> None:
    packages = load(COMMON)["packages"]
    assert {"+verbs", "+rc", "+ud", "+dc", "+cma", "+mlx5_dv"} <= set(packages["ucx"]["require"][0].split())
    fabrics = packages["libfabric"]["require"][0].split("fabrics=")[1].split()[0]
    assert {"verbs", "rxm", "tcp", "shm"} <= set(fabrics.split(","))


def test_the_remedies_name_what_is_pinned() -> None:
    assert f"--branch={project.TAG} " in project.GET[0] and project.TAG.startswith("v1.")
    assert re.fullmatch("[0-9a-f]{40}", load("common/repos.yaml")["repos"]["builtin"]["commit"])


def test_several_changes_make_one_environment_of_another(tmp_path: Path) -> None:
    for folder in ("mpich", "common", "common-clang", "common-ucx", "openmpi-cuda", "common-cuda"):
        (tmp_path / "environments" / folder).mkdir(parents=True)
    for name in ("mpich", "openmpi-cuda"):
        (tmp_path / "environments" / name / "spack.yaml").write_text("spack: {include: [../common]}")
    for name, parts in {
        "mpich": ("mpich", ()),
        "mpich-ucx": ("mpich", ("common-ucx",)),
        "mpich-ucx-clang": ("mpich", ("common-clang", "common-ucx")),
        "openmpi-cuda-ucx": ("openmpi-cuda", ("common-ucx",)),
        "mpich-opa": ("mpich-opa", ()),
        "ucx-clang": ("ucx-clang", ()),
    }.items():
        assert project.split(tmp_path, name) == parts
    assert project.list_shared(tmp_path, "mpich-ucx-clang") == ["common-clang", "common-ucx", "common"]


# ---- MPIs that vendors bring and Spack does not build (HPC-X, Cray MPICH, ParaStation MPI), by the layout of their files ----

#: Package -> version of its entry, MPI that it is, version that the library says.
VENDORS_MPIS = {
    "hpcx-mpi": ("2.24.1", "openmpi", "4.1.9"),
    "cray-mpich": ("8.1.30", "craympich", "8.1.30.1"),
    "parastationmpi": ("5.13.1", "parastation", "5.13.1-1"),
}


def of_vendor(package: str) -> lock.Lock:
    found = json.loads((DATA / "golden" / "spack" / "openmpi.lock.json").read_text())
    row = next(row for row in found["concrete_specs"].values() if row["name"] == "openmpi")
    row |= {"name": package, "version": VENDORS_MPIS[package][0]}
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


@pytest.mark.parametrize("package", VENDORS_MPIS)
def test_each_has_an_environment_that_is_not_built_by_default(package: str) -> None:
    assert package in build.list_environments() and package not in build.list_by_default()
    assert project.list_of_site(metadata.ROOT, package) == [package]
    mpi, _ = description.providers()[package]
    assert mpi is registry.find(VENDORS_MPIS[package][1])
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
    with refused_as("no-launcher"):
        description.check_external(of_vendor(package), machine / "mpi")


@pytest.mark.parametrize("package", VENDORS_MPIS)
def test_a_wrong_prefix_is_said(machine: Path, package: str) -> None:
    program(machine / "opt/cray/pe/pals/default/bin/mpiexec")
    with refused_as("mpi-prefix", match=r"has no bin/mpi(run|cc) below .*; correct its prefix in the site's packages\.yaml\.$"):
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


@pytest.mark.parametrize("package", VENDORS_MPIS)
def test_it_is_known_by_what_its_library_says(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    _, mpi, version = VENDORS_MPIS[package]
    assert answering(monkeypatch, mpi, version)(package).identity.version == version


def test_another_mpi_below_its_prefix_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with refused_as(
        "library-other-than-locked", match=r"is mpich 4\.3\.0 and the lock file says hpcx-mpi@2\.24\.1; correct its spec"
    ):
        answering(monkeypatch, "mpich", "4.3.0")("hpcx-mpi")
    with refused_as(
        "library-other-than-locked", match=r"is craympich 9\.0\.1 and the lock file says cray-mpich@8\.1\.30; correct its spec"
    ):
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
    with refused_as(
        "library-other-than-locked", match=rf"is built with {said}=\w+ and the lock file says {said}=\w+; write {said}="
    ):
        description._agree(solved, found)


def test_the_netmod_of_an_external_is_part_of_which_mpi_it_is() -> None:
    recorded = lock.read(DATA / "golden" / "spack" / "mpich.lock.json")
    taken = replace(recorded.mpi, external="/opt/mpi", variants={**recorded.mpi.variants, "netmod": "netmod=ofi"})
    other = replace(recorded, nodes={**recorded.nodes, recorded.mpi.hash: taken})
    assert "netmod" in lock.things(lock.described(recorded), lock.described(other))


# ---- memory of GPUs ----


def of_gpus(kind: str = "cuda", **external: Any) -> lock.Lock:
    """The recorded solution of Open MPI, its MPI and OSU built for GPUs, with nccl-tests beside it."""
    found = json.loads((DATA / "golden" / "spack" / "openmpi.lock.json").read_text())
    rows = {row["name"]: row for row in found["concrete_specs"].values()}
    for name in ("openmpi", "osu-micro-benchmarks"):
        rows[name]["parameters"][kind] = True
    rows["openmpi"]["external"] = external
    library = {"cuda": "nccl", "rocm": "rccl"}[kind]
    tests = copy.deepcopy(rows["osu-micro-benchmarks"]) | {"name": f"{library}-tests", "version": "2.17.6"}
    if kind == "rocm":
        del tests["parameters"][kind]
    found["concrete_specs"]["tests"] = tests
    edge = {"name": tests["name"], "hash": "tests", "parameters": {"deptypes": ["build", "run"], "virtuals": []}}
    rows["mpibench-suite"]["dependencies"].append(edge)
    return lock.parse(found, Path("/site/environments/openmpi-cuda/spack.lock"))


def open_mpi() -> probe.Installation:
    identity = probe.Identity("openmpi", "5.0.10", "", "openmpi", "x", ("prte",))
    path = Path("/site/openmpi")
    return probe.Installation(path / "bin" / "mpirun", "prte", path, path / "lib" / "libmpi.so.40", identity, "", True)


@pytest.mark.parametrize("kind", ["cuda", "rocm"])
def test_a_stack_says_for_which_gpus_its_suites_were_built(kind: str) -> None:
    found = of_gpus(kind)
    suites = {lock.BENCHMARKS[node.name]: description._suite(found, node) for node in found.benchmarks}
    assert {name: suite.get("gpu") for name, suite in suites.items()} == {"osu": kind, "nccl_tests": kind, "imb": None}
    assert found.device == kind and suites["nccl_tests"]["version"] == "2.17.6"


@pytest.mark.parametrize(("says", "external", "gpu"), [("cuda", "", "cuda"), ("cuda", "/usr", "cuda"), ("", "/usr", "")])
def test_an_mpi_of_the_site_takes_the_memory_that_it_says_itself(says: str, external: str, gpu: str) -> None:
    found = of_gpus(**({"path": external} if external else {}))
    assert description._gpu(found, open_mpi(), says) == gpu


def test_an_mpi_that_was_built_without_what_its_lock_says_is_refused() -> None:
    found = of_gpus()
    with refused_as("library-other-than-locked", "takes memory of no GPUs, and the lock file builds it for cuda"):
        description._gpu(found, open_mpi(), "")

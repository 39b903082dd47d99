"""The Spack files of environments/: they share everything but the MPI;
MPIs that vendors bring and Spack does not build.
"""

import copy
import json
import re
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from folders import DATA
from mpibench.stacks import probe
from mpibench.stacks.spack import build, description, lock, project, scope
from reframe_tests.harness.mpis import registry
from reframe_tests.harness.stacks import metadata
from reframe_tests.harness.vocabulary import BadInput
from refusals import refused_as

ENVIRONMENTS = metadata.ROOT / "environments"
STACKS = ("intel-oneapi-mpi", "mpich", "mvapich", "mvapich2", "openmpi")
#: Environments for device memory -> the MPI, and the folder with what they need beyond the others.
DEVICES = {"openmpi-cuda": ("openmpi", "common-cuda"), "openmpi-rocm": ("openmpi", "common-rocm")}
#: MPIs that Spack does not build.
VENDORS = ("cray-mpich", "hpcx-mpi", "mvapich-plus", "parastationmpi")


def load(name):
    return yaml.safe_load((ENVIRONMENTS / name).read_text())


def test_there_is_an_environment_for_each_mpi():
    assert tuple(build.list_by_default()) == STACKS
    assert set(build.list_environments()) == {*STACKS, *DEVICES, *VENDORS}
    assert {description.providers()[name][0].name for name in STACKS} <= set(registry.names())
    assert set(description.providers()) == {*STACKS, *VENDORS}


@pytest.mark.parametrize("name", [*STACKS, *VENDORS])
def test_stacks_differ_in_their_mpi_and_in_nothing_else(name):
    document = load(f"{name}/spack.yaml")["spack"]
    other = load("openmpi/spack.yaml")["spack"]
    assert document.pop("specs") == [f"mpibench-suite ^[virtuals=mpi] {name}"]
    deprecated = document.pop("config", None)
    assert deprecated is None or name == "mvapich2"
    assert document.pop("packages", None) == (
        {name: {"buildable": False}} if name in VENDORS else None
    )
    other.pop("specs")
    assert document == other


def test_common_settings_pin_what_stacks_must_agree_in():
    """In Spack ``@7.5`` is every 7.5.x; only ``@=7.5`` is one release."""
    packages = load("common/packages.yaml")["packages"]
    for name in ("all", "c", "cxx", "fortran", "intel-mpi-benchmarks", "osu-micro-benchmarks"):
        assert packages[name]["require"], name
    for name in ("ucx", "libfabric", "hwloc", "pmix", "prrte"):
        assert packages[name]["require"][0].startswith("@="), f"the version of {name} is pinned"
    assert packages["gcc"] == {"buildable": False}
    versions = {}
    for path in ENVIRONMENTS.glob("common*/packages.yaml"):
        for name, settings in load(f"{path.parent.name}/packages.yaml")["packages"].items():
            for spec in (*settings.get("require", ()), *settings.get("require:", ())):
                versions.setdefault(name, set()).update(re.findall(r"@(?:=\S+|.)", spec))
    for found in versions.values():
        assert len(found) < 2 and all(one.startswith("@=") for one in found)


# ---- MPIs that vendors bring and Spack does not build (HPC-X, Cray MPICH,
# ParaStation MPI), by the layout of their files ----

#: Package -> version of its entry, MPI that it is, version that the library says.
VENDORS_MPIS = {
    "hpcx-mpi": ("2.24.1", "openmpi", "4.1.9"),
    "cray-mpich": ("8.1.30", "craympich", "8.1.30.1"),
    "parastationmpi": ("5.13.1", "parastation", "5.13.1-1"),
}


def recorded():
    """The lock file of Open MPI."""
    return json.loads((DATA / "golden" / "spack" / "openmpi.lock.json").read_text())


def of_vendor(package):
    found = recorded()
    row = next(row for row in found["concrete_specs"].values() if row["name"] == "openmpi")
    row |= {"name": package, "version": VENDORS_MPIS[package][0]}
    return lock.parse(found, Path(f"/site/environments/{package}/spack.lock"))


@pytest.mark.parametrize(
    ("package", "prefix", "launcher"),
    [
        ("hpcx-mpi", "opt/hpcx/ompi", "opt/hpcx/ompi/bin/mpirun"),
        ("cray-mpich", "opt/cray/pe/mpich/8.1.30", "opt/cray/pe/pals/default/bin/mpiexec"),
        ("parastationmpi", "opt/psmpi", "opt/psmpi/bin/mpirun"),
        ("parastationmpi", "opt/parastation/mpi", "opt/parastation/bin/mpiexec"),
    ],
)
def test_its_launcher_is_its_own_or_the_machines(tmp_path, monkeypatch, package, prefix, launcher):
    """Those that lie nowhere below their MPI are looked for below this root."""
    moved = {
        name: (
            mpi,
            replace(row, launchers=tuple(re.sub("^/", f"{tmp_path}/", at) for at in row.launchers)),
        )
        for name, (mpi, row) in description.providers().items()
    }
    monkeypatch.setattr(description, "providers", lambda: moved)
    found = of_vendor(package)
    for program in ("", launcher):
        path = tmp_path / (program or f"{prefix}/bin/mpicc")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(0o755)
        if not program:
            with pytest.raises(BadInput):
                description.check_external(found, tmp_path / prefix)
    home = description.find_home(found, tmp_path / prefix)
    assert description.find_launcher(found, home) == tmp_path / launcher
    with refused_as("stack-unusable"):
        description.find_home(found, tmp_path / "nowhere")


@pytest.mark.parametrize("package", VENDORS_MPIS)
def test_it_is_known_by_what_its_library_says(monkeypatch, package):
    """What comes of its entry if the installation says that it is this MPI, and another one."""
    path = Path("/opt/mpi")
    _, *own = VENDORS_MPIS[package]
    for mpi, version in (own, ("mpich", "4.3.0"), ("craympich", "9.0.1")):
        identity = probe.MpiIdentity(mpi, version, "", "mpich", "x", ())
        library = path / "lib" / "libmpi.so"
        found = probe.Installation(path, "x", path, library, identity, "", True)
        monkeypatch.setattr(description, "find_library", lambda *_, at=library: at)
        monkeypatch.setattr(description, "find_launcher", lambda *_: path)
        monkeypatch.setattr(probe, "examine", lambda *_, one=found: one)
        with nullcontext() if mpi == own[0] and version == own[1] else refused_as("changed-since"):
            checked = description.check_mpi(of_vendor(package), path, "probe")
            assert checked.identity.version == version


# ---- memory of GPUs ----


def of_gpus(kind):
    """The recorded solution of Open MPI, its MPI and OSU built
    for GPUs, with nccl-tests beside it.
    """
    found = recorded()
    rows = {row["name"]: row for row in found["concrete_specs"].values()}
    for name in ("openmpi", "osu-micro-benchmarks"):
        rows[name]["parameters"][kind] = True
    tests = copy.deepcopy(rows["osu-micro-benchmarks"])
    tests["name"] = {"cuda": "nccl-tests", "rocm": "rccl-tests"}[kind]
    if kind == "rocm":
        del tests["parameters"][kind]
    found["concrete_specs"]["tests"] = tests
    how = {"deptypes": ["build", "run"], "virtuals": []}
    edge = {"name": tests["name"], "hash": "tests", "parameters": how}
    rows["mpibench-suite"]["dependencies"].append(edge)
    return lock.parse(found, Path("/site/environments/openmpi-cuda/spack.lock"))


@pytest.mark.parametrize("kind", ["cuda", "rocm"])
def test_a_stack_says_for_which_gpus_its_suites_were_built(kind):
    found = of_gpus(kind)
    suites = [description._suite(found, node) for node in found.benchmarks]
    assert [suite.get("gpu") for suite in suites].count(kind) == 2 < len(suites)
    assert found.device == kind


def test_the_longest_end_of_a_name_is_meant(tmp_path):
    """``common-x-v5`` beside ``common-v5``; and an end of an end
    that makes no environment is none.
    """
    for folder in ("openmpi", "openmpi-cuda", "common", "common-v5", "common-x-v5", "common-ucx"):
        (tmp_path / "environments" / folder).mkdir(parents=True)
    for name in ("openmpi", "openmpi-cuda"):
        (tmp_path / "environments" / name / project.ENVIRONMENT).write_text(
            "spack: {include: [../common]}"
        )
    names = {
        "openmpi": ("openmpi", ()),
        "openmpi-cuda-ucx": ("openmpi-cuda", ("common-ucx",)),
        "openmpi-ucx-x-v5": ("openmpi", ("common-x-v5", "common-ucx")),
        "openmpi-x-v5-v5": ("openmpi", ("common-v5", "common-x-v5")),
        "openmpi-v5-v5": ("openmpi-v5-v5", ()),
        "openmpi-x": ("openmpi-x", ()),
    }
    assert {name: project.split(tmp_path, name) for name in names} == names
    assert project.list_shared(tmp_path, "openmpi-ucx") == ["common-ucx", "common"]


@pytest.mark.parametrize(
    ("require", "unmet"),
    [
        (["+cuda"], "+cuda"),
        (["@=2.4.0 fabrics=psm2,opx"], ""),
        (["fabrics=psm2,verbs"], "fabrics=psm2,verbs"),
        ("fabrics:=shm", ""),
        ([{"any_of": ["+cuda", "~cuda"]}], ""),
        ([{"any_of": ["+cuda", "+rocm"]}], "+cuda"),
    ],
)
def test_a_requirement_that_another_folder_has_replaced_is_found(require, unmet):
    node = lock.LockedSpec(
        "libfabric", "2.4.0", "x", variants={"cuda": "~cuda", "fabrics": "fabrics=opx,psm2,shm,tcp"}
    )
    assert scope.find_unmet({"require": require}, node) == unmet
    assert scope.find_unmet({"require": require}, replace(node, external="/usr")) == ""

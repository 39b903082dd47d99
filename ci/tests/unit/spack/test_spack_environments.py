"""The Spack files of environments/: they fit their schema, share everything but the MPI, and name nothing of a machine."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from mpibench.stacks.spack import build, description, project
from reframe_tests.harness.mpis import registry
from reframe_tests.harness.stacks import metadata

ENVIRONMENTS = metadata.ROOT / "environments"
SCHEMA = jsonschema.Draft202012Validator(json.loads((ENVIRONMENTS / "spack.schema.json").read_text()))
STACKS = ("intel-oneapi-mpi", "mpich", "mvapich", "mvapich2", "openmpi")
#: Environments for device memory -> the MPI, and the folder with what they need beyond the others.
DEVICES = {"openmpi-cuda": ("openmpi", "common-cuda"), "openmpi-rocm": ("openmpi", "common-rocm")}
#: MPIs that Spack does not build.
VENDORS = ("cray-mpich", "hpcx-mpi", "parastationmpi")
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
    variants = {package: settings["require"] for package, settings in packages.items() if "require" in settings}
    assert set(variants) >= {mpi, "ucx", "osu-micro-benchmarks"} and all(
        spec.split()[0] == f"+{device}" for [spec] in variants.values()
    )
    assert all(settings == {"buildable": False} for package, settings in packages.items() if package not in variants)


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

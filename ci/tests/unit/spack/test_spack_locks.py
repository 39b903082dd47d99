"""Lock files of Spack: what is read from them, what is refused, and what differs between stacks apart from their MPI."""

from __future__ import annotations

import copy
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from folders import DATA
from mpibench.listings import stacks as listing
from mpibench.spack import consistency, lock
from mpibench.spack.lock import LockError
from reframe_tests.harness.stacks import metadata as stack_metadata
from reframe_tests.harness.vocabulary import BadInput
from synthetic_stack import write_stack

RECORDED = DATA / "golden" / "spack"
NAMES = ("openmpi", "mpich", "intel-oneapi-mpi")


def document(name: str = "openmpi") -> dict[str, Any]:
    """A lock file Spack 1.1.0 wrote for an environment of this project, MPI and compiler being the site's."""
    return json.loads((RECORDED / f"{name}.lock.json").read_text())


def node(found: dict[str, Any], name: str) -> dict[str, Any]:
    return next(row for row in found["concrete_specs"].values() if row["name"] == name)


def parsed(found: dict[str, Any], name: str = "openmpi") -> lock.Lock:
    return lock.parse(found, Path(f"/site/environments/{name}/spack.lock"))


@pytest.mark.parametrize(
    ("name", "mpi"),
    [("openmpi", "openmpi@4.1.4"), ("mpich", "mpich@4.0.2"), ("intel-oneapi-mpi", "intel-oneapi-mpi@2021.18.1")],
)
def test_a_recorded_lock_tells_the_stack(name: str, mpi: str) -> None:
    found = parsed(document(name), name)
    assert str(found.mpi) == mpi and found.mpi.external == f"/site/mpi/{name}"
    imb, osu = found.find("intel-mpi-benchmarks"), found.find("osu-micro-benchmarks")
    assert imb and osu and (imb.version, osu.version) == ("2021.11", "7.5")
    assert found.compilers(imb) == {"c": "gcc@12.2.0", "cxx": "gcc@12.2.0"}
    assert imb.flags == {"cflags": "-O2", "cxxflags": "-O2"} and imb.target == "x86_64_v3"
    assert "+p2p" in imb.options.split() and "~check" in imb.options.split()
    assert found.find("gmake") is None, "a tool of the build is not a part of the stack"
    assert found.suite.hash in found.roots


def test_a_recorded_lock_of_an_mpi_that_spack_builds() -> None:
    found = parsed(document("mvapich2"), "mvapich2").mpi
    assert (str(found), found.external, found.namespace) == ("mvapich2@2.3.7-1", "", "mpibench")
    assert parsed(document("openmpi")).mpi.namespace == "builtin"


def test_the_order_of_the_roots_does_not_matter() -> None:
    found = document()
    other = copy.deepcopy(found)
    other["concrete_specs"] = dict(reversed(other["concrete_specs"].items()))
    assert parsed(found).roots == parsed(other).roots
    assert consistency.facts(parsed(found)) == consistency.facts(parsed(other))


def change_version(found: dict[str, Any]) -> None:
    found["_meta"]["lockfile-version"] = 4


def remove_nodes(found: dict[str, Any]) -> None:
    del found["concrete_specs"]


def remove_a_dependency(found: dict[str, Any]) -> None:
    key = next(key for key, row in found["concrete_specs"].items() if row["name"] == "glibc")
    del found["concrete_specs"][key]


def damage_a_node(found: dict[str, Any]) -> None:
    del node(found, "gcc")["arch"]


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (change_version, "is a lock file of format 4"),
        (remove_nodes, "is not a lock file of Spack (no 'concrete_specs')"),
        (damage_a_node, "is not a lock file of Spack (no 'arch')"),
        (remove_a_dependency, "it does not describe"),
        (lambda found: found.update(roots=[]) or found.update(roots="x"), "is not a lock file of Spack"),
    ],
)
def test_a_damaged_lock_is_one_sentence(damage: Callable[[dict[str, Any]], object], said: str) -> None:
    found = document()
    damage(found)
    with pytest.raises(LockError) as refused:
        parsed(found)
    assert said in str(refused.value) and "mpibench build openmpi" in str(refused.value)
    assert "\n" not in str(refused.value) and str(refused.value).endswith(".")


def test_a_missing_or_cut_lock_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "mpich" / "spack.lock"
    with pytest.raises(LockError, match="has not been concretized; concretize it with 'mpibench build mpich'"):
        lock.read(path)
    path.parent.mkdir()
    path.write_text('{"roots": [')
    with pytest.raises(LockError, match=r"is not JSON .* remove it and concretize it with 'mpibench build mpich'"):
        lock.read(path)


def test_an_environment_of_another_making_is_refused() -> None:
    found = document()
    found["roots"].append({"hash": node(found, "osu-micro-benchmarks")["hash"], "spec": "osu-micro-benchmarks"})
    with pytest.raises(LockError, match="has 2 roots and not the one mpibench-suite"):
        _ = parsed(found).suite
    found = document()
    for edge in node(found, "mpibench-suite")["dependencies"]:
        edge["parameters"]["virtuals"] = []
    with pytest.raises(LockError, match="nothing in it provides MPI"):
        _ = parsed(found).mpi


# ---- what differs ----


def test_the_recorded_stacks_differ_in_their_mpi_only() -> None:
    facts = {name: consistency.facts(parsed(document(name), name)) for name in NAMES}
    assert consistency.table(facts) == {}
    assert all(facts[name]["imb compiler"] == "gcc@12.2.0" for name in NAMES)


def with_compiler(found: dict[str, Any]) -> None:
    node(found, "gcc")["version"] = "13.2.0"


def with_flags(found: dict[str, Any]) -> None:
    node(found, "osu-micro-benchmarks")["parameters"]["cflags"] = ["-O3", "-g"]


def with_target(found: dict[str, Any]) -> None:
    node(found, "intel-mpi-benchmarks")["arch"]["target"] = {"name": "zen4", "vendor": "AuthenticAMD"}


def with_version(found: dict[str, Any]) -> None:
    node(found, "intel-mpi-benchmarks")["version"] = "2021.10"


def with_variant(found: dict[str, Any]) -> None:
    node(found, "osu-micro-benchmarks")["parameters"]["papi"] = True


def with_recipe(found: dict[str, Any]) -> None:
    node(found, "intel-mpi-benchmarks")["package_hash"] = "abcdefghijkl===="


def with_c_library(found: dict[str, Any]) -> None:
    node(found, "glibc")["version"] = "2.39"


def without_osu(found: dict[str, Any]) -> None:
    edges = node(found, "mpibench-suite")["dependencies"]
    edges[:] = [edge for edge in edges if edge["name"] != "osu-micro-benchmarks"]


CHANGES = [
    (with_compiler, "imb compiler", "gcc@12.2.0", "gcc@13.2.0"),
    (with_flags, "osu flags", "cflags=-O2 cxxflags=-O2", "cflags=-O3 -g cxxflags=-O2"),
    (with_target, "imb target", "x86_64_v3", "zen4"),
    (with_version, "imb version", "2021.11", "2021.10"),
    (with_variant, "osu variants", "~papi", "+papi"),
    (with_recipe, "imb recipe", "ryuxmpub", "abcdefgh"),
    (with_c_library, "glibc", "2.36", "2.39"),
    (without_osu, "osu version", "7.5", "none"),
]


@pytest.mark.parametrize(("edit", "aspect", "left", "right"), CHANGES, ids=[row[0].__name__ for row in CHANGES])
def test_every_difference_is_listed(edit: Callable[[dict[str, Any]], object], aspect: str, left: str, right: str) -> None:
    changed = document("mpich")
    edit(changed)
    facts = {"openmpi": consistency.facts(parsed(document())), "mpich": consistency.facts(parsed(changed, "mpich"))}
    rows = consistency.compare_facts(facts["openmpi"], facts["mpich"])
    [row] = [row for row in rows if row.aspect == aspect]
    assert left in row.left and right in row.right
    assert aspect in consistency.table(facts)


def test_a_recipe_is_a_row_of_its_own_only_where_nothing_else_tells_it() -> None:
    """Another version has another recipe, as Spack counts it; a recipe changed between two builds shows nowhere else."""
    left, right = document(), document("mpich")
    for edit in (with_version, with_recipe):
        edit(right)
    facts = {"o": consistency.facts(parsed(left)), "m": consistency.facts(parsed(right))}
    assert set(consistency.table(facts)) == {"imb version"}
    assert [row.aspect for row in consistency.compare_facts(facts["o"], facts["m"])] == ["imb version"]


def add_library(found: dict[str, Any], version: str, **variants: bool) -> None:
    """Let the MPI of a lock be built by Spack on a libfabric."""
    mpi = next(row for row in found["concrete_specs"].values() if "external" in row and row["name"] in NAMES)
    del mpi["external"]
    library = copy.deepcopy(node(found, "glibc"))
    library.pop("external")
    library |= {"name": "libfabric", "version": version, "hash": "f" * 32}
    library["parameters"] |= variants
    found["concrete_specs"]["f" * 32] = library
    edge = {"name": "libfabric", "hash": "f" * 32, "parameters": {"deptypes": ["build", "link"], "virtuals": []}}
    mpi["dependencies"] = [edge]


def test_libraries_under_two_mpis_are_compared_and_those_under_one_are_not() -> None:
    plain, left, right = document(), document("mpich"), document("intel-oneapi-mpi")
    add_library(left, "2.4.0", verbs=True)
    add_library(right, "2.4.0", verbs=False)
    facts = {"o": consistency.facts(parsed(plain)), "m": consistency.facts(parsed(left)), "i": consistency.facts(parsed(right))}
    rows = consistency.table(facts)
    assert set(rows) == {"libfabric"}
    assert sorted(name for names in rows["libfabric"].values() for name in names) == ["i", "m"]
    assert consistency.notes(parsed(plain)) and not consistency.notes(parsed(left))


# ---- of stacks as built ----


def built(root: Path, name: str, edit: Callable[[dict[str, Any]], object] = lambda found: None) -> Path:
    """An environment's folder as a build leaves it: lock file and metadata."""
    folder = root / "environments" / name
    found = document(name)
    edit(found)
    suite = parsed(found).suite
    path = write_stack(folder, name=f"{name}-spack", origin="spack", build={"lock_hash": suite.hash})
    (folder / "spack.lock").write_text(json.dumps(found))
    return path


def check(root: Path) -> tuple[int, str]:
    stream = io.StringIO()
    return listing.check(root, Console(file=stream, width=200, highlight=False)), stream.getvalue()


def test_check_says_what_is_the_same(tmp_path: Path) -> None:
    built(tmp_path, "openmpi")
    built(tmp_path, "mpich")
    write_stack(tmp_path / "environments" / "wheels" / "x", name="x-wheels", origin="wheels")
    status, text = check(tmp_path)
    assert status == 0
    assert "mpich-spack, openmpi-spack differ in their MPI and in nothing else" in text
    assert "gcc@12.2.0" in text and "x86_64_v3" in text
    assert "openmpi@4.1.4 is the site's own" in text
    assert "x-wheels has no lock file (wheels) and is not compared." in text


def test_check_fails_on_a_difference_and_names_it(tmp_path: Path) -> None:
    built(tmp_path, "openmpi")
    built(tmp_path, "mpich", with_flags)
    status, text = check(tmp_path)
    assert status == 1
    assert "osu flags" in text and "cflags=-O3 -g" in text and "imb flags" not in text


def test_check_fails_when_a_lock_was_solved_again(tmp_path: Path) -> None:
    built(tmp_path, "openmpi")
    path = built(tmp_path, "mpich")
    metadata = json.loads(path.read_text())
    metadata["build"]["lock_hash"] = "0" * 32
    path.write_text(json.dumps(metadata))
    status, text = check(tmp_path)
    assert status == 1
    assert "has been concretized again since stack 'mpich-spack' was built" in text and "'mpibench build mpich'" in text
    path.with_name("spack.lock").unlink()
    status, text = check(tmp_path)
    assert status == 1 and "has not been concretized" in text


def with_cuda(found: dict[str, Any]) -> None:
    node(found, "osu-micro-benchmarks")["parameters"]["cuda"] = True


def test_stacks_for_devices_are_held_against_each_other_only(tmp_path: Path) -> None:
    built(tmp_path, "openmpi")
    built(tmp_path, "mpich")
    built(tmp_path, "intel-oneapi-mpi", with_cuda)
    status, text = check(tmp_path)
    assert status == 0, "the variant for device memory is no difference between those without it"
    assert "mpich-spack, openmpi-spack differ in their MPI and in nothing else" in text
    assert "intel-oneapi-mpi-spack is the only stack for cuda device memory and is not compared." in text
    built(tmp_path, "mpich", with_cuda)
    status, text = check(tmp_path)
    assert status == 0 and "intel-oneapi-mpi-spack, mpich-spack differ in their MPI and in nothing else" in text
    assert "openmpi-spack is the only stack for host memory alone and is not compared." in text


def test_check_of_a_single_stack_proves_nothing(tmp_path: Path) -> None:
    built(tmp_path, "openmpi")
    with pytest.raises(BadInput, match="1 of 1 stacks were built by Spack, and two are needed"):
        check(tmp_path)


def test_differences_between_two_stacks_for_whoever_compares(tmp_path: Path) -> None:
    built(tmp_path, "openmpi")
    built(tmp_path, "mpich", with_compiler)
    write_stack(tmp_path / "environments" / "wheels" / "x", name="x-wheels", origin="wheels")
    stacks = {stack.name: stack for stack in stack_metadata.discover(tmp_path, {})[0]}
    found = consistency.differences(stacks["openmpi-spack"], stacks["mpich-spack"])
    assert {"imb compiler", "osu compiler"} <= {row.aspect for row in found}
    assert str(found[0]) == f"{found[0].aspect}: {found[0].left} against {found[0].right}"
    assert consistency.differences(stacks["openmpi-spack"], stacks["openmpi-spack"]) == []
    against_wheels = consistency.differences(stacks["openmpi-spack"], stacks["x-wheels"])
    assert [row.aspect for row in against_wheels] == ["imb compiler"], "who built a wheel with what is not known"
    assert "not known" in against_wheels[0].right


def test_a_stack_deleted_under_its_metadata_names_the_command_that_builds_it(tmp_path: Path) -> None:
    path = built(tmp_path, "openmpi")
    (path.parent / "bin" / "IMB-MPI1").unlink()
    stacks, [sentence] = stack_metadata.discover(tmp_path, {})
    assert stacks == []
    assert "build the stack again ('mpibench build openmpi')" in sentence

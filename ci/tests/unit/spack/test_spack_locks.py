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
from mpibench.commands.listings import stacks as listing
from mpibench.stacks.spack import lock
from reframe_tests.harness.stacks import metadata as stack_metadata
from reframe_tests.harness.vocabulary import BadInput
from refusals import refused_as
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
    assert lock.facts(parsed(found)) == lock.facts(parsed(other))


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
    with pytest.raises(BadInput) as refused:
        parsed(found)
    assert said in str(refused.value) and "mpibench stacks build openmpi" in str(refused.value)
    assert "\n" not in str(refused.value) and str(refused.value).endswith(".")


def test_a_missing_or_cut_lock_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "mpich" / "spack.lock"
    with refused_as("lock-missing", match="has not been concretized; concretize it with 'mpibench stacks build mpich'"):
        lock.read(path)
    path.parent.mkdir()
    path.write_text('{"roots": [')
    with refused_as("lock-not-json", match=r"is not JSON .* remove it and concretize it with 'mpibench stacks build mpich'"):
        lock.read(path)


def test_an_environment_of_another_making_is_refused() -> None:
    found = document()
    found["roots"].append({"hash": node(found, "osu-micro-benchmarks")["hash"], "spec": "osu-micro-benchmarks"})
    with refused_as("lock-roots", match="has 2 roots and not the one mpibench-suite"):
        _ = parsed(found).suite
    found = document()
    for edge in node(found, "mpibench-suite")["dependencies"]:
        edge["parameters"]["virtuals"] = []
    with refused_as("lock-without-mpi"):
        _ = parsed(found).mpi


# ---- what differs ----


def test_the_recorded_stacks_differ_in_their_mpi_only() -> None:
    facts = {name: lock.facts(parsed(document(name), name)) for name in NAMES}
    assert lock.table(facts) == {}
    assert all(facts[name]["imb compiler"] == "gcc@12.2.0" for name in NAMES)


def setting(name: str, *keys: str, to: Any) -> Callable[[dict[str, Any]], None]:
    """Change one value of a node."""

    def edit(found: dict[str, Any]) -> None:
        place = node(found, name)
        for key in keys[:-1]:
            place = place.setdefault(key, {})
        place[keys[-1]] = to

    return edit


def adding(name: str, under: str, **further: Any) -> Callable[[dict[str, Any]], None]:
    """Let a node link a library more."""

    def edit(found: dict[str, Any]) -> None:
        library = copy.deepcopy(node(found, "gcc-runtime"))
        library |= {"name": name, "hash": name.ljust(32, "x"), **further}
        found["concrete_specs"][library["hash"]] = library
        edge = {"name": name, "hash": library["hash"], "parameters": {"deptypes": ["build", "link"], "virtuals": []}}
        node(found, under).setdefault("dependencies", []).append(edge)

    return edit


def build_the_mpi(found: dict[str, Any]) -> None:
    """Let Spack build the MPI, with a compiler, on libraries such as both MPIs of a pair have."""
    mpi = next(row for row in found["concrete_specs"].values() if row["name"] in NAMES)
    del mpi["external"]
    mpi["dependencies"] = copy.deepcopy(node(found, "osu-micro-benchmarks")["dependencies"])
    mpi["dependencies"] = [edge for edge in mpi["dependencies"] if edge["name"] != mpi["name"]]
    for name in UNDER_BOTH:
        adding(name, mpi["name"], version="1.0", parameters={"shared": True})(found)
    own = copy.deepcopy(node(found, "glibc")) | {"name": "rdma-core", "version": "57.0", "hash": "r" * 32}
    found["concrete_specs"]["r" * 32] = own
    edge = {"name": "rdma-core", "hash": "r" * 32, "parameters": {"deptypes": ["build", "link"], "virtuals": []}}
    node(found, "ucx")["dependencies"].append(edge)


UNDER_BOTH = ("ucx", "libfabric", "prrte", "libevent", "numactl", "hwloc", "pmix")


def without_osu(found: dict[str, Any]) -> None:
    edges = node(found, "mpibench-suite")["dependencies"]
    edges[:] = [edge for edge in edges if edge["name"] != "osu-micro-benchmarks"]


def with_clang(found: dict[str, Any]) -> None:
    node(found, "gcc").update(name="llvm", version="14.0.6")


MPI, OSU, IMB = "mpich", "osu-micro-benchmarks", "intel-mpi-benchmarks"
TARGET = {"name": "zen4", "vendor": "AuthenticAMD"}
GCC = {"compilers": {"c": "/opt/gcc/bin/gcc"}, "flags": {"cflags": "-O0"}}
#: Ways to make the second of two stacks another than it seems, and the aspect that tells.
WAYS: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "another release of gcc": (setting("gcc", "version", to="13.2.0"), "imb compiler"),
    "clang": (with_clang, "osu compiler"),
    "gcc of another prefix": (setting("gcc", "external", "path", to="/opt/gcc"), "gcc prefix"),
    "flags in the compiler's entry": (setting("gcc", "external", "extra_attributes", to=GCC), "gcc prefix"),
    "gcc with other variants": (setting("gcc", "parameters", "profiled", to=True), "gcc variants"),
    "another compiler-wrapper": (setting("compiler-wrapper", "version", to="1.1.0"), "compiler-wrapper version"),
    "a changed compiler-wrapper": (setting("compiler-wrapper", "package_hash", to="x" * 9), "compiler-wrapper recipe"),
    "flags of OSU": (setting(OSU, "parameters", "cflags", to=["-O3", "-g"]), "osu flags"),
    "linker flags of OSU": (setting(OSU, "parameters", "ldflags", to=["-static-libgcc"]), "osu flags"),
    "flags of IMB": (setting(IMB, "parameters", "cxxflags", to=["-O0"]), "imb flags"),
    "another IMB": (setting(IMB, "version", to="2021.10"), "imb version"),
    "a variant of OSU": (setting(OSU, "parameters", "papi", to=True), "osu variants"),
    "a changed recipe of IMB": (setting(IMB, "package_hash", to="abcdefghijkl===="), "imb recipe"),
    "a recipe of somebody else's": (setting(IMB, "namespace", to="mine"), "imb recipe"),
    "a patch in OSU": (setting(OSU, "parameters", "patches", to=["0" * 64]), "osu variants"),
    "OSU from a folder": (setting(OSU, "parameters", "dev_path", to="/home/me/osu"), "osu variants"),
    "IMB for another processor": (setting(IMB, "arch", "target", to=TARGET), "imb target"),
    "no OSU": (without_osu, "osu version"),
    "a library more under OSU": (adding("papi", OSU), "libraries under the benchmarks"),
    "another glibc": (setting("glibc", "version", to="2.39"), "glibc version"),
    "glibc of another prefix": (setting("glibc", "external", "path", to="/opt/glibc"), "glibc prefix"),
    "another run-time library": (setting("gcc-runtime", "version", to="13.2.0"), "gcc-runtime version"),
    "another operating system": (setting("mpibench-suite", "arch", "platform_os", to="rocky9"), "operating system"),
    "MPI without optimisation": (setting(MPI, "parameters", "cflags", to=["-O0", "-g"]), "mpi flags"),
    "MPI for another processor": (setting(MPI, "arch", "target", to=TARGET), "mpi target"),
    "MPI with debugging": (setting(MPI, "parameters", "debug", to=True), "mpi debug"),
    "MPI with memory checks": (setting(MPI, "parameters", "memchecker", to=True), "mpi memchecker"),
    "another UCX": (setting("ucx", "version", to="1.13.1"), "ucx version"),
    "UCX without optimisation": (setting("ucx", "parameters", "cflags", to=["-O0"]), "ucx flags"),
    "a patched UCX": (setting("ucx", "parameters", "patches", to=["1" * 64]), "ucx variants"),
    "a changed recipe of UCX": (setting("ucx", "package_hash", to="y" * 9), "ucx recipe"),
    "UCX of the site's": (setting("ucx", "external", to={"path": "/usr", "module": None}), "ucx prefix"),
    "UCX of a module": (setting("ucx", "external", to={"path": "/usr", "module": ["ucx/1.20"]}), "ucx prefix"),
    "another rdma-core": (setting("rdma-core", "version", to="44.0"), "rdma-core version"),
    "rdma-core of another prefix": (setting("rdma-core", "external", "path", to="/opt/ofed"), "rdma-core prefix"),
    "a variant of libfabric": (setting("libfabric", "parameters", "verbs", to=False), "libfabric variants"),
    "another prrte": (setting("prrte", "version", to="3.0.2"), "prrte version"),
    "another libevent": (setting("libevent", "version", to="2.1.8"), "libevent version"),
    "another numactl": (setting("numactl", "version", to="2.0.14"), "numactl version"),
    "another hwloc": (setting("hwloc", "version", to="2.9.1"), "hwloc version"),
    "another pmix": (setting("pmix", "version", to="4.2.9"), "pmix version"),
}


@pytest.mark.parametrize(("edit", "aspect"), WAYS.values(), ids=WAYS)
def test_every_way_to_differ_is_seen(edit: Callable[[dict[str, Any]], object], aspect: str) -> None:
    left, right = document(), document(MPI)
    for found in (left, right):
        build_the_mpi(found)
    facts = {"openmpi": lock.facts(parsed(left)), MPI: lock.facts(parsed(right, MPI))}
    assert lock.table(facts) == {}
    edit(right)
    facts[MPI] = lock.facts(parsed(right, MPI))
    assert len(lock.table(facts)[aspect]) == 2


def test_a_library_under_one_mpi_is_a_difference_to_the_same_mpi_only() -> None:
    facts = {}
    for name, edits in {"o": (), "p": (adding("xpmem", "openmpi"),), "m": ()}.items():
        found = document(MPI if name == "m" else "openmpi")
        for edit in (build_the_mpi, *edits):
            edit(found)
        facts[name] = lock.facts(parsed(found))
    assert lock.table({"m": facts["m"], "p": facts["p"]}) == {}
    assert set(lock.table({"o": facts["o"], "p": facts["p"]})) == {"libraries under openmpi@4.1.4"}


#: Ways to let a lock file say something else than was built.
LIES: dict[str, Callable[[dict[str, Any]], object]] = {
    "a version": setting(IMB, "version", to="2021.10"),
    "flags": setting(OSU, "parameters", "cflags", to=["-O3"]),
    "flags of an MPI": setting(MPI, "parameters", "cflags", to=["-O0"]),
    "a prefix": setting("gcc", "external", "path", to="/opt/gcc"),
    "a compiler": with_clang,
    "an unknown key": setting(IMB, "annotations", "x", to=1),
}


@pytest.mark.parametrize("edit", LIES.values(), ids=LIES)
def test_an_edited_lock_is_seen_though_its_hashes_were_left(tmp_path: Path, edit: Callable[[dict[str, Any]], object]) -> None:
    path = built(tmp_path, MPI)
    built(tmp_path, "openmpi")
    assert check(tmp_path)[0] == 0
    found = document(MPI)
    edit(found)
    path.with_name("spack.lock").write_text(json.dumps(found))
    status, text = check(tmp_path)
    assert (
        status == 1 and "has been changed since, and its hashes were left; build it with 'mpibench stacks build mpich'." in text
    )


def test_what_is_not_as_released_is_noted() -> None:
    found = document()
    assert [note for note in lock.notes(parsed(found)) if "site's own" not in note] == []
    setting(OSU, "parameters", "dev_path", to="/home/me/osu")(found)
    setting(IMB, "parameters", "patches", to=["0" * 64])(found)
    said = " ".join(lock.notes(parsed(found)))
    assert "osu-micro-benchmarks@7.5 is built from a folder of somebody's (dev_path=/home/me/osu)" in said
    assert "intel-mpi-benchmarks@2021.11 is patched (00000000), by the recipe of mpibench" in said


def test_a_recipe_is_a_row_of_its_own_only_where_nothing_else_tells_it() -> None:
    """Another version has another recipe, as Spack counts it; a recipe changed between two builds shows nowhere else."""
    left, right = document(), document("mpich")
    for edit in (WAYS["another IMB"][0], WAYS["a changed recipe of IMB"][0]):
        edit(right)
    facts = {"o": lock.facts(parsed(left)), "m": lock.facts(parsed(right))}
    assert set(lock.table(facts)) == {"imb version"}


# ---- of stacks as built ----


def built(root: Path, name: str, edit: Callable[[dict[str, Any]], object] = lambda found: None) -> Path:
    """An environment's folder as a build leaves it: lock file and metadata."""
    folder = root / "environments" / name
    found = document(name)
    edit(found)
    suite = parsed(found).suite
    build = {"lock_hash": suite.hash, "lock_digest": parsed(found).digest}
    path = write_stack(folder, name=f"{name}-spack", origin="spack", build=build)
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
    built(tmp_path, "mpich", WAYS["flags of OSU"][0])
    status, text = check(tmp_path)
    assert status == 1
    assert "osu flags" in text and "cflags=-O3 -g" in text and "imb flags" not in text


def test_two_netmods_of_one_mpi_differ_in_that_and_are_no_fault(tmp_path: Path) -> None:
    for name, netmod in {"mpich": "ofi", "mpich-ucx": "ucx"}.items():
        found = document("mpich")
        build_the_mpi(found)
        node(found, "mpich")["parameters"]["netmod"] = netmod
        if netmod == "ucx":
            adding("xpmem", "mpich")(found)
        suite = parsed(found).suite
        folder = tmp_path / "environments" / name
        build = {"lock_hash": suite.hash, "lock_digest": parsed(found).digest}
        write_stack(folder, name=f"{name}-spack", origin="spack", build=build)
        (folder / "spack.lock").write_text(json.dumps(found))
    status, text = check(tmp_path)
    said = " ".join(text.split())
    assert status == 0, text
    assert "mpich-spack, mpich-ucx-spack differ in their MPI and in nothing else" in said
    assert (
        "mpich-spack and mpich-ucx-spack have the same MPI and differ in mpich netmod: netmod=ofi against netmod=ucx." in said
    )


def test_check_fails_when_a_lock_was_solved_again(tmp_path: Path) -> None:
    built(tmp_path, "openmpi")
    path = built(tmp_path, "mpich")
    metadata = json.loads(path.read_text())
    metadata["build"]["lock_hash"] = "0" * 32
    path.write_text(json.dumps(metadata))
    status, text = check(tmp_path)
    assert status == 1
    assert "has been concretized again since stack 'mpich-spack' was built" in text and "'mpibench stacks build mpich'" in text
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
    assert "intel-oneapi-mpi-spack is the only stack for cuda device memory built with gcc@12.2.0 and is not compared." in text
    built(tmp_path, "mpich", with_cuda)
    status, text = check(tmp_path)
    assert status == 0 and "intel-oneapi-mpi-spack, mpich-spack differ in their MPI and in nothing else" in text
    assert "openmpi-spack is the only stack for host memory alone built with gcc@12.2.0 and is not compared." in text


def test_check_of_a_single_stack_proves_nothing(tmp_path: Path) -> None:
    built(tmp_path, "openmpi")
    with refused_as("too-few-spack-stacks", match="1 of 1 stacks were built by Spack and two are needed"):
        check(tmp_path)


def test_what_two_stacks_differ_in_for_whoever_compares(tmp_path: Path) -> None:
    built(tmp_path, "openmpi")
    built(tmp_path, "mpich", WAYS["another release of gcc"][0])
    first, second = (lock.described(lock.read(tmp_path / "environments" / name / lock.LOCK)) for name in ("openmpi", "mpich"))
    found = lock.things(first, second)
    assert set(found) >= {"MPI", "compiler"} and "(imb, osu" in found["compiler"]
    assert lock.things(first, {**first, "hpcc version": "1.5.0"}) == {} == lock.things(first, first)


def test_a_stack_deleted_under_its_metadata_names_the_command_that_builds_it(tmp_path: Path) -> None:
    path = built(tmp_path, "openmpi")
    (path.parent / "bin" / "IMB-MPI1").unlink()
    stacks, [sentence] = stack_metadata.discover(tmp_path, {})
    assert stacks == []
    assert "build the stack again ('mpibench stacks build openmpi')" in sentence

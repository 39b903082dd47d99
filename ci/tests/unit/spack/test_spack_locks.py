"""Lock files of Spack: what is read from them, what is refused, and
what differs between stacks apart from their MPI.
"""

import copy
import io
import json
import os
from functools import partial
from pathlib import Path

import pytest
from rich.console import Console

from folders import DATA
from mpibench.commands.listings import stacks as listing
from mpibench.stacks.spack import lock, modulefiles
from reframe_tests.harness.stacks import metadata as stack_metadata
from reframe_tests.harness.vocabulary import BadInput
from synthetic_stack import sealed, write_stack

RECORDED = DATA / "golden" / "spack"
NAMES = ("openmpi", "mpich", "intel-oneapi-mpi")


def document(name="openmpi"):
    """A lock file Spack 1.1.0 wrote for an environment of this
    project, MPI and compiler being the site's.
    """
    return json.loads((RECORDED / f"{name}.lock.json").read_text())


def node(found, name):
    return next(row for row in found["concrete_specs"].values() if row["name"] == name)


def parsed(found, name="openmpi"):
    return lock.parse(found, Path(f"/site/environments/{name}/spack.lock"))


@pytest.mark.parametrize(
    ("name", "mpi"),
    [
        ("openmpi", "openmpi@4.1.4"),
        ("mpich", "mpich@4.0.2"),
        ("intel-oneapi-mpi", "intel-oneapi-mpi@2021.18.1"),
        ("mvapich2", "mvapich2@2.3.7-1"),
    ],
)
def test_a_recorded_lock_tells_the_stack(name, mpi):
    found = parsed(document(name))
    assert str(found.mpi) == mpi
    assert found.find("gmake") is None, "a tool of the build is not a part of the stack"
    if name != "mvapich2":  # which Spack builds
        assert found.mpi.external == f"/site/mpi/{name}"
        imb = found.find(IMB)
        assert imb and (imb.version, imb.target) == ("2021.11", "x86_64_v3")
        assert found.compilers(imb) == {"c": "gcc@12.2.0", "cxx": "gcc@12.2.0"}
        assert imb.flags == {"cflags": "-O2", "cxxflags": "-O2"}
        assert {"+p2p", "~check"} <= set(imb.options.split())


def test_modules_of_two_stacks_of_one_mpi_have_names_of_their_own():
    one, two = (
        modulefiles.configure_modules(Path("/site"), parsed(document(), name))["modules"]["default"]
        for name in ("openmpi", "openmpi-clang")
    )
    for kind in ("tcl:", "lmod:"):
        assert not {*one[kind]["projections"].values()} & {*two[kind]["projections"].values()}


@pytest.mark.parametrize(
    "damage",
    [
        lambda found: found["_meta"].update({"lockfile-version": 4}),
        lambda found: found.pop("concrete_specs"),
        lambda found: found["concrete_specs"].pop(node(found, "glibc")["hash"]),
        lambda found: found.update(roots="x"),
    ],
)
def test_a_damaged_lock_is_one_sentence(damage):
    found = document()
    damage(found)
    with pytest.raises(BadInput, match="mpibench stacks build openmpi"):
        parsed(found)


# ---- what differs ----


def setting(name, *keys, to):
    """Change one value of a node."""

    def edit(found):
        place = node(found, name)
        for key in keys[:-1]:
            place = place.setdefault(key, {})
        place[keys[-1]] = to

    return edit


def edge(name, key, *kinds, virtuals=()):
    """What a node has of another one."""
    return {"name": name, "hash": key, "parameters": {"deptypes": kinds, "virtuals": virtuals}}


def adding(name, under, **further):
    """Let a node link a library more."""

    def edit(found):
        key = name.ljust(32, "x")
        library = copy.deepcopy(node(found, further.pop("like", "gcc-runtime")))
        found["concrete_specs"][key] = library | {"name": name, "hash": key, **further}
        node(found, under).setdefault("dependencies", []).append(edge(name, key, "build", "link"))

    return edit


def build_the_mpi(found):
    """Let Spack build the MPI, with a compiler, on libraries such as both MPIs of a pair have."""
    mpi = next(row for row in found["concrete_specs"].values() if row["name"] in NAMES)
    del mpi["external"]
    own = copy.deepcopy(node(found, OSU)["dependencies"])
    mpi["dependencies"] = [edge for edge in own if edge["name"] != mpi["name"]]
    for name in UNDER_BOTH:
        adding(name, mpi["name"], version="1.0", parameters={"shared": True})(found)
    adding("rdma-core", "ucx", like="glibc", version="57.0")(found)


UNDER_BOTH = ("ucx", "libfabric", "prrte", "libevent", "numactl", "hwloc", "pmix")


def without_osu(found):
    edges = node(found, "mpibench-suite")["dependencies"]
    edges[:] = [edge for edge in edges if edge["name"] != "osu-micro-benchmarks"]


def with_clang(found):
    node(found, "gcc").update(name="llvm", version="14.0.6")


MPI = "mpich"
OSU = "osu-micro-benchmarks"
IMB = "intel-mpi-benchmarks"


def with_two_compilers(found):
    """Compile IMB's C and C++ with a compiler each."""
    gcc = node(found, "gcc")
    clang = copy.deepcopy(gcc) | {"name": "llvm", "version": "14.0.6", "hash": "l" * 32}
    found["concrete_specs"][clang["hash"]] = clang
    imb = node(found, IMB)
    imb["dependencies"] = [row for row in imb["dependencies"] if row["name"] != "gcc"]
    for compiler, language in ((gcc, "c"), (clang, "cxx")):
        row = edge(compiler["name"], compiler["hash"], "build", virtuals=(language,))
        imb["dependencies"].append(row)


def nothing(found):
    """As it is."""


#: Ways to change the packages of a stack and how they hang together, and the aspect that tells.
WAYS = {
    "clang": (with_clang, "osu compiler"),
    "no OSU": (without_osu, "osu version"),
    "a library more under OSU": (adding("papi", OSU), "libraries below the benchmarks"),
    "UCX linked to something more": (adding("gdrcopy", "ucx"), "libraries under mpich@4.0.2"),
    "IMB by two compilers": (with_two_compilers, "imb compiler"),
    "MPI with debugging": (setting(MPI, "parameters", "debug", to=True), "mpi debug"),
    "MPI from a folder": (setting(MPI, "parameters", "dev_path", to="/home/me"), "mpi dev_path"),
    "UCX of a module": (
        setting("ucx", "external", to={"path": "/usr", "module": ["ucx/1.20"]}),
        "ucx prefix",
    ),
}
#: What may be another of any package that runs; the second half of what Spack builds.
FIELDS = (
    (("version",), "0.1"),
    (("namespace",), "mine"),
    (("package_hash",), "x" * 9),
    (("build_spec",), {"name": "x", "hash": "q" * 32}),
    (("parameters", "more"), True),
    (("parameters", "patches"), ["0" * 64]),
    (("parameters", "dev_path"), "/home/me"),
    (("arch", "platform_os"), "rocky9"),
    (("external",), {"path": "/opt/mine", "module": None}),
    (("parameters", "cppflags"), ["-DX"]),
    (("arch", "target"), {"name": "zen4", "vendor": "AuthenticAMD"}),
)


def of_built_mpi(name, *edits):
    """What a recorded lock says whose MPI Spack builds, after some edits."""
    found = document(name)
    for edit in (build_the_mpi, *edits):
        edit(found)
    return lock.described(parsed(found))


@pytest.mark.parametrize(("edit", "aspect"), WAYS.values(), ids=WAYS)
def test_every_way_to_differ_is_seen(edit, aspect):
    """Beside another MPI, and between two builds of one; and what ``compare`` says of both."""
    changed = of_built_mpi(MPI, edit)
    for first in (MPI,) if aspect.startswith("libraries under mpich") else ("openmpi", MPI):
        left = of_built_mpi(first)
        assert len(lock.table({"a": left, "b": changed})[aspect]) == 2
        assert set(lock.things(left, changed)) - {"MPI"} or aspect == "osu version"


def test_every_field_of_every_package_is_seen():
    """Of an MPI beside another one its flags, processor, system and splice."""
    alike = {"openmpi": {"MPI"}, MPI: set()}
    lefts = {first: of_built_mpi(first) for first in alike}
    for first, left in lefts.items():
        assert set(lock.things(left, of_built_mpi(MPI))) == alike[first]
    found = document(MPI)
    build_the_mpi(found)
    packages = [node.name for node in parsed(found).at_run_time()][1:]
    assert {*UNDER_BOTH, MPI, OSU, IMB, "glibc", "gcc-runtime", "rdma-core"} <= set(packages)
    for name in (*packages, "gcc", "compiler-wrapper"):
        left_out = {"platform_os"} if name not in packages else set()
        if node(found, name).get("external"):
            left_out |= {"cppflags", "target"}
        if name == "glibc":  # the system's, by nobody's recipe
            left_out |= {"namespace", "package_hash", "build_spec"}
        for keys, to in FIELDS:
            if keys[-1] in left_out:
                continue
            changed = of_built_mpi(MPI, setting(name, *keys, to=to))
            for first, left in lefts.items():
                if (name, first) != (MPI, "openmpi") or keys[-1] not in OF_AN_MPI:
                    assert set(lock.things(left, changed)) - alike[first], f"{name} {keys}"


#: Ways to let a lock file say something else than was built.
#: What two MPIs may differ in.
OF_AN_MPI = {"version", "namespace", "package_hash", "more", "patches", "external"}


def test_an_edited_lock_is_seen_though_its_hashes_were_left(tmp_path):
    path = built(tmp_path, MPI)
    assert check(tmp_path)[0] == 0
    found = document(MPI)
    setting(IMB, "annotations", "x", to=1)(found)
    path.with_name("spack.lock").write_text(json.dumps(found))
    status, text = check(tmp_path)
    assert status == 1 and "although its hashes are the same" in text


@pytest.mark.parametrize(
    "edit",
    [
        lambda build: build["facts"].update({"osu flags": "cflags=-O2 -g"}),
        lambda build: build["facts"].pop("imb target", ""),
        lambda build: build["compiled"].update(optimisation="-O3"),
    ],
)
def test_an_edited_description_of_a_stack_is_seen(tmp_path, edit):
    path = built(tmp_path, MPI)
    document = json.loads(path.read_text())
    document["build"]["compiled"] = {"optimisation": "-O2"}
    for status in (0, 1):
        path.write_text(json.dumps(stack_metadata.seal(document, path)))
        assert check(tmp_path, lambda stack, injected: {"optimisation": "-O2"})[0] == status
        edit(document["build"])


def test_a_library_without_optimisation_is_a_fault_whoever_built_it(tmp_path):
    built(tmp_path, MPI)
    write_stack(tmp_path / "environments" / "wheels" / "x", name="x-wheels", origin="wheels")
    flags = {"x-wheels": "no -O"}
    ask = lambda stack, _: {"optimisation": flags.get(stack.name, "-O2")}  # noqa: E731
    status, text = check(tmp_path, ask)
    assert status == 1 and "x-wheels: its MPI library is compiled without optimisation" in text


def test_what_is_not_as_released_is_noted():
    found = document()
    [inside] = lock.notes(parsed(found))
    setting(OSU, "parameters", "dev_path", to="/home/me/osu")(found)
    setting(IMB, "parameters", "patches", to=["0" * 64])(found)
    notes = lock.notes(parsed(found))
    assert len(notes) == 3 and inside in notes
    assert any(OSU in note and "/home/me/osu" in note for note in notes)
    assert any(IMB in note and "00000000" in note for note in notes)


# ---- of stacks as built ----


def built(
    root,
    name,
    edit=nothing,
    folder="",
):
    """An environment's folder as a build leaves it: lock file and metadata."""
    place = root / "environments" / (folder or name)
    found = document(name)
    edit(found)
    build = {
        "lock_hash": parsed(found).suite.hash,
        "lock_digest": parsed(found).digest,
        "facts": lock.described(parsed(found)),
    }
    path = write_stack(place, name=f"{place.name}-spack", origin="spack", build=build)
    (place / "spack.lock").write_text(json.dumps(found))
    return path


def check(root, ask=None):
    stream = io.StringIO()
    console = Console(file=stream, width=200, highlight=False)
    return listing.check(root, console, ask=ask), stream.getvalue()


def test_two_netmods_of_one_mpi_differ_in_that_and_are_no_fault(tmp_path):
    def with_netmod(netmod, found):
        build_the_mpi(found)
        setting(MPI, "parameters", "netmod", to=netmod)(found)
        if netmod == "ucx":
            adding("xpmem", MPI)(found)

    for name, netmod in {"mpich": "ofi", "mpich-ucx": "ucx"}.items():
        built(tmp_path, MPI, partial(with_netmod, netmod), folder=name)
    status, text = check(tmp_path)
    assert status == 0 and "differ in mpich netmod" in " ".join(text.split()), text


def test_check_fails_on_a_difference_and_on_a_lock_that_was_solved_again_or_is_gone(tmp_path):
    built(tmp_path, "openmpi")
    built(tmp_path, "mpich", setting(OSU, "parameters", "cflags", to=["-O3", "-g"]))
    status, text = check(tmp_path)
    assert status == 1
    assert "osu flags" in text and "cflags=-O3 -g" in text and "imb flags" not in text
    path = built(tmp_path, "mpich")
    metadata = json.loads(path.read_text())
    metadata["build"]["lock_hash"] = "0" * 32
    path.write_text(json.dumps(sealed(metadata)))
    status, text = check(tmp_path)
    assert status == 1 and "concretized again" in text
    path.with_name("spack.lock").unlink()
    assert check(tmp_path)[0] == 1


def test_stacks_for_devices_are_held_against_each_other_only(tmp_path):
    built(tmp_path, "openmpi")
    built(tmp_path, "mpich")
    built(tmp_path, "intel-oneapi-mpi", setting(OSU, "parameters", "cuda", to=True))
    status, text = check(tmp_path)
    assert status == 0, "the variant for device memory is no difference between those without it"
    assert "mpich-spack, openmpi-spack differ only in their MPI" in text
    assert "intel-oneapi-mpi-spack is the only stack for cuda device memory" in text


def leaves(node):
    """Every place of a document that holds a text."""
    for key, inner in node.items() if isinstance(node, dict) else enumerate(node):
        if isinstance(inner, (dict, list)):
            yield from leaves(inner)
        elif isinstance(inner, str):
            yield node, key


def test_no_value_of_a_registered_stack_can_be_edited(tmp_path):
    """Its seal is one of the values."""
    path = built(tmp_path, MPI)
    whole = json.loads(path.read_text())
    places = list(leaves(whole))
    assert len(places) > 40
    for place, key in places:
        before = place[key]
        place[key] = "x"
        path.write_text(json.dumps(whole))
        assert stack_metadata.discover(tmp_path, {})[0] == [], key
        place[key] = before
    for seal, usable in ((whole["build"]["seal"], 1), ("", 0)):
        whole["build"]["seal"] = seal
        path.write_text(json.dumps(whole))
        assert len(stack_metadata.discover(tmp_path, {})[0]) == usable


def replace_keeping_size_and_times(folder):
    path = folder / "bin" / "IMB-MPI1"
    before = path.stat()
    path.write_text("#!/bin/sx\n")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def replace_by_a_link(folder):
    path = folder / "bin" / "IMB-MPI1"
    path.unlink()
    path.symlink_to("/bin/true")


LIBRARY = "lib/libmpi.so.12"
#: Ways to let a registered stack run something else than was registered.
FAKES = {
    "another program of its size and times": replace_keeping_size_and_times,
    "a program of another's": replace_by_a_link,
    "a program that may not run": lambda folder: (folder / "bin" / "IMB-MPI1").chmod(0o644),
    "no program": lambda folder: (folder / "bin" / "IMB-MPI1").unlink(),
    "another library": lambda folder: (folder / LIBRARY).write_bytes(b"x"),
    "no library": lambda folder: (folder / LIBRARY).unlink(),
    "no folder of modules": lambda folder: (folder / "python").rmdir(),
}


@pytest.mark.parametrize("fake", FAKES.values(), ids=FAKES)
def test_no_fake_of_a_registered_stack_is_measured_or_checked_as_what_it_was(tmp_path, fake):
    folder = built(tmp_path, MPI).parent
    built(tmp_path, "openmpi")
    assert check(tmp_path)[0] == 0
    stack_metadata._digest.cache_clear()
    fake(folder)
    assert [stack.name for stack in stack_metadata.discover(tmp_path, {})[0]] == ["openmpi-spack"]
    assert check(tmp_path)[0] == 1

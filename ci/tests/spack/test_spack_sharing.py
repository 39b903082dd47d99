"""With Spack: a built stack is signed, pushed, taken from the cache into
another store, and entered again by its modules.

Skipped, by name, where there is no Spack, no GnuPG, or no Open MPI of the site's own. The stack
that is pushed is that of ``test_spack_stacks.py`` where the machine's store has room in its paths
(``ci/setup-spack``), so that it is built once.
"""

import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

import module_systems
from mpibench.stacks import probe, system
from mpibench.stacks.spack import build, lock, modulefiles
from reframe_tests.harness.stacks import metadata
from reframe_tests.harness.stacks.modules import Module
from synthetic_spack import ask, build_in, copy_lean_project, externals_of, find_scope

NAME = "openmpi"
#: Variable that names the keyring Spack uses.
KEYRING = "SPACK_GNUPGHOME"
#: Long enough for the path of any other store to fit in its place.
PADDED = 160


@pytest.fixture(scope="module")
def make(spack, root, tmp_path_factory):
    """A copy of the project with a Spack store of its own, unless the machine's will do."""

    def call(name, *, own=True):
        top = tmp_path_factory.mktemp(name)
        store = {"config": {"install_tree": {"root": str(top / "store"), "padded_length": PADDED}}}
        return copy_lean_project(
            spack, root, top, {"config.yaml": yaml.safe_dump(store)} if own else {}
        )

    return call


def run(place, environ=None, **options):
    """``mpibench stacks build openmpi``; the sentences with which it failed."""
    return build_in(place, NAME, environ=environ, skip_tests=True, **options)


@pytest.fixture(scope="module")
def built(spack, make):
    """A project with its stack of the site's own Open MPI."""
    code = "import spack.config; print(spack.config.get('config:install_tree:padded_length'))"
    padded = ask(spack, "python", "-c", code).split()
    place = make("built", own=padded[-1:] != [str(PADDED)])
    if not externals_of(place, spack, NAME):
        pytest.skip(f"[spack] {NAME} is none of the site's own, and this test builds no MPI")
    sentences = run(place)
    if any("no network" in sentence for sentence in sentences):
        pytest.skip(f"[spack] {sentences[0]}")
    assert sentences == []
    return place


# ---- build cache ----


@pytest.fixture(scope="module")
def keys(spack, tmp_path_factory):
    """Two signing keys by their e-mail: each with its keyring's
    folder, which has its public half.
    """
    if not shutil.which("gpg"):
        pytest.skip("[spack] no gpg (Debian's gnupg) to sign with")
    found = {}
    for name in ("site", "other"):
        ring = tmp_path_factory.mktemp(name)
        ring.chmod(0o700)
        environ = {KEYRING: str(ring)}
        address = f"{name}@example.org"
        ask(spack, "gpg", "create", name, address, environ=environ)
        ask(spack, "gpg", "export", ring / "key.pub", address, environ=environ)
        found[name] = ring
    yield found
    for ring in found.values():
        subprocess.run(
            ["gpgconf", "--homedir", str(ring), "--kill", "all"], check=False, timeout=60
        )


def spack_in(place, spack, *words, ring=None):
    """What Spack prints of a command of the docs in the solved environment of a project."""
    inside = {build.SCOPE: str(find_scope(place)), **({KEYRING: str(ring)} if ring else {})}
    solved = place / "results" / "spack" / "environments" / NAME
    return ask(spack, "-e", solved, *words, environ=inside)


def take_from(place, url, **further):
    """Name a mirror in the site's scope, as the docs say."""
    rows = {"mirrors": {"site": {"url": url, **further}}}
    (find_scope(place) / "mirrors.yaml").write_text(yaml.safe_dump(rows))


@pytest.fixture(scope="module")
def pushed(built, spack, keys, tmp_path_factory):
    folder = tmp_path_factory.mktemp("cache") / "stacks"
    words = ("buildcache", "push", "--key", "site@example.org", "--update-index", folder)
    spack_in(built, spack, *words, ring=keys["site"])
    return folder


@pytest.fixture
def trusting(keys, spack, tmp_path):
    """A keyring that trusts the key of one of the two."""

    def call(name):
        (ring := tmp_path / "ring").mkdir(mode=0o700)
        ask(spack, "gpg", "trust", keys[name] / "key.pub", environ={KEYRING: str(ring)})
        return ring

    return call


ONLY_CACHED = ("install", "--only-concrete", "--use-buildcache", "only")


def test_a_signed_stack_is_taken_into_another_store_and_runs(
    built,
    pushed,
    trusting,
    spack,
    make,
):
    place = make("taken")
    ring = trusting("site")
    take_from(place, pushed.as_uri(), signed=True)
    assert run(place, concretize_only=True) == []
    spack_in(place, spack, *ONLY_CACHED, ring=ring)
    assert run(place, {KEYRING: str(ring)}) == []
    path = place / "environments" / NAME / "stack.json"
    taken = metadata.read(path)
    first = metadata.read(built / "environments" / NAME / "stack.json")
    assert any(
        "osu-micro-benchmarks@7.5.2" in note and "another store's build cache" in note
        for note in taken.build["notes"]
    )
    assert taken.lock_hash == first.lock_hash and set(taken.binaries) == set(first.binaries)
    program = taken.binaries["osu_latency"]
    assert Path(program).is_relative_to(place / "store"), (
        "relocated, and not the one it was made from"
    )
    words = f"-np 2 {' '.join(probe.oversubscribe(taken))} {program} -m 8:8 -i 10 -x 1"
    command = [*taken.mpirun, *words.split()]
    status, output = probe.run_inside(taken, command, limit_s=120)
    assert status == 0 and "# OSU MPI Latency Test" in output, output[-2000:]
    log = (place / "results" / "spack" / f"{NAME}.log").read_text()
    assert "Executing phase" not in log, "nothing was compiled"
    assert json_of(built) == json_of(place), "the lock file lies beside each"


def json_of(place):
    return set(lock.read(place / "environments" / NAME / lock.LOCK).nodes)


@pytest.mark.whole
def test_what_another_key_has_signed_is_not_taken(pushed, trusting, spack, make):
    place = make("refused")
    ring = trusting("other")
    take_from(place, pushed.as_uri(), signed=True)
    assert run(place, concretize_only=True) == []
    with pytest.raises(AssertionError, match=r"No binary found|ignature"):
        spack_in(place, spack, *ONLY_CACHED, ring=ring)
    assert not (place / "environments" / NAME / "stack.json").exists()


# ---- modules ----


@pytest.mark.whole
@pytest.mark.parametrize("kind", module_systems.KINDS)
def test_a_built_stack_is_entered_again_by_its_modules(built, kind, tmp_path, monkeypatch):
    there = module_systems.set_up(kind, tmp_path / "site")
    folder = built / "modules"
    if not folder.exists():
        assert run(built, modules=folder) == []
    module_systems.enter(there, monkeypatch)
    path = modulefiles.module_path(folder, "lmod" if kind == "lmod" else "tcl")
    found = lock.read(built / "environments" / NAME / lock.LOCK)
    name = modulefiles.module_of(found)
    # Spack's own notes
    files = [
        file for file in path.rglob("*") if file.is_file() and file.name != "module-index.yaml"
    ]
    listed = {str(file.relative_to(path)).removesuffix(".lua") for file in files}
    assert name in listed and len(listed) == len(modulefiles.list_packages(found)), (
        "nothing else of the store"
    )
    stack = system.add(
        "",
        entered=[Module(name, path=str(path))],
        modules_system=there.kind,
        root=tmp_path / "project",
        say=print,
    )
    first = metadata.read(built / "environments" / NAME / "stack.json")
    assert (stack.mpi, stack.mpi_version) == (first.mpi, first.mpi_version)
    assert Path(stack.library).samefile(first.library)
    assert set(stack.binaries) == set(first.binaries)
    for program, path_there in stack.binaries.items():
        assert Path(path_there).resolve() == Path(first.binaries[program]).resolve()
    assert {each.name for each in stack.loaded.loaded} == listed

"""With Spack: environments are concretized for real, twice alike; their
stacks are built, checked, entered and measured with.

Skipped, by name, where there is no Spack or it knows no such MPI of the
site's own: to build an MPI takes too long for a test.
"""

import json
import os
import re
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from folders import write
from mpibench.commands.listings.stacks import check
from mpibench.stacks import forum_abi, probe
from mpibench.stacks.spack import build, lock
from mpibench.stacks.spack.project import list_by_default
from reframe_tests.harness.stacks import metadata
from reframe_tests.harness.suites.mpi4py import PROGRAM as INSTRUMENT
from reframe_tests.harness.vocabulary import BadInput
from synthetic_project import outcome
from synthetic_spack import (
    ask,
    build_in,
    copy_lean_project,
    externals_of,
    find_scope,
    overriding,
)

MPIS = {name: f"{name}-spack" for name in ("openmpi", "mpich", "intel-oneapi-mpi", "mvapich2")}


def project_in(spack, place, top=None):
    """A project in ``top`` or the copy itself, with the scope of the copy."""
    inside = replace(spack, environ={**spack.environ, build.SCOPE: str(find_scope(place))})
    return build.Project(top or place, inside, None, print)


@pytest.fixture(scope="module")
def place(spack, root, tmp_path_factory):
    """A copy of the project, whose environments are built apart from the
    user's own; Spack's store is the machine's.
    """
    yield copy_lean_project(spack, root, tmp_path_factory.mktemp("spack"), {})


@pytest.fixture(scope="module")
def known(spack, place, request):
    """Why a stack cannot be had without building its MPI for long,
    by package; empty for what can be had.
    """
    reasons = dict.fromkeys(MPIS, "")
    inside = project_in(spack, place)
    for name in MPIS:
        if externals_of(place, spack, name):
            continue
        if not request.config.getoption("--all"):
            reasons[name] = (
                "it is none of the site's own; with --all one is taken that is installed or in "
                "a build cache"
            )
            continue
        try:
            inside.run(name, "concretizing", "concretize", "--force", "--fresh")
            inside.run(
                name, "asking build caches", "install", "--only-concrete", "--cache-only", name
            )
        except BadInput as error:
            reasons[name] = f"it is none of the site's own, and this test builds no MPI: {error}"
    return reasons


@pytest.fixture(scope="module")
def building(place, known):
    """Build a stack with ``mpibench stacks build``, once; its metadata file."""
    outcomes = {}

    def get(name):
        if known[name]:
            pytest.skip(f"[spack-mpi] {name}: {known[name]}")
        path = place / "environments" / name / "stack.json"
        if name not in outcomes:
            outcomes[name] = build_in(place, name)
        for sentence in outcomes[name]:
            if "no network" in sentence or "No binary found" in sentence:
                pytest.skip(f"[spack] {sentence}")
        assert outcomes[name] == []
        return path

    return get


def test_two_solutions_have_equal_hashes(building, spack, place):
    folder = building("openmpi").parent
    before = lock.read(folder / lock.LOCK)
    project = project_in(spack, place)
    project.run("openmpi", "concretizing again", "concretize", "--force", "--fresh")
    after = lock.read(project.lock("openmpi"))
    assert after.roots == before.roots and set(after.nodes) == set(before.nodes)


@pytest.mark.whole
def test_a_changed_recipe_is_built_again(spack, place, root, tmp_path):
    """Also where only its patches or its methods changed: Spack's cache of
    concretizations would answer with the old build.
    """
    name = "intel-oneapi-mpi"
    shutil.copytree(root / "repo", tmp_path / "repo", ignore=shutil.ignore_patterns("__pycache__"))
    for folder in (name, "common"):
        shutil.copytree(place / "environments" / folder, tmp_path / "environments" / folder)
    project = project_in(spack, place, tmp_path)
    hashes = []
    for change in ("", "\n    def changed(self):\n        return 1\n"):
        recipe = next(tmp_path.glob("repo/*/*/packages/intel_mpi_benchmarks/package.py"))
        recipe.write_text(recipe.read_text() + change)
        project.run(name, "concretizing", "concretize", "--force", "--fresh")
        locked = lock.read(project.lock(name))
        hashes.append(
            {key for key, node in locked.nodes.items() if node.name == "intel-mpi-benchmarks"}
        )
    assert len(hashes[0]) == len(hashes[1]) == 1 and hashes[0] != hashes[1]


@pytest.mark.whole
def test_plain_spack_installs_the_same_and_runs_the_recipes_tests(
    building, spack, place, root, tmp_path
):
    """``spack -e environments/openmpi install`` and ``test run``: nothing
    but Spack, and the hash is that of the stack.
    """
    built = lock.read(building("openmpi").with_name(lock.LOCK))
    shutil.copytree(root / "repo", tmp_path / "repo", ignore=shutil.ignore_patterns("__pycache__"))
    for folder in ("openmpi", "common"):
        kept = shutil.ignore_patterns("spack.lock", "stack.json", ".spack-env")
        shutil.copytree(
            place / "environments" / folder, tmp_path / "environments" / folder, ignore=kept
        )
    environ = {build.SCOPE: str(find_scope(place))}
    inside = ("-e", "environments/openmpi")
    ask(spack, *inside, "install", environ=environ, cwd=tmp_path)
    said = ask(spack, *inside, "test", "run", environ=environ, cwd=tmp_path)
    assert re.search(r"=.* [2-9] passed.* of \d+ specs =", said) and "failed" not in said, said
    assert (
        lock.read(tmp_path / "environments" / "openmpi" / lock.LOCK).suite.hash == built.suite.hash
    )


@pytest.mark.parametrize("name", MPIS)
def test_a_stack_is_built_registered_and_its_programs_are_its_own(building, name):
    path = building(name)
    stack = metadata.read(path)
    assert stack.name == MPIS[name] and not metadata.find_damage(stack)
    found = lock.read(path.with_name(lock.LOCK))
    assert stack.lock_hash == found.suite.hash
    assert set(stack.suites) >= {"imb", "osu"} and stack.suites["imb"]["version"] == "2021.11"
    assert {"IMB-MPI1", "IMB-NBC", "IMB-RMA", "IMB-MT", "IMB-P2P"} <= set(stack.binaries)
    osu = ("latency", "bw", "bibw", "mbw_mr", "put_bw", "allreduce")
    assert {f"osu_{name}" for name in osu} <= set(stack.binaries)
    assert stack.build["compiler"].startswith("gcc@")
    assert INSTRUMENT in stack.commands, (
        "data and pinning are checked with mpi4py, which asks for libmpi by another name"
    )
    assert probe.find_mpi4py_fault(stack) == ""
    store = {Path(program).parts[1] for program in stack.binaries.values()}
    assert len(store) == 1, (
        "the benchmarks come from Spack's store, also where the MPI brings its own IMB"
    )


@pytest.mark.parametrize("name", MPIS)
def test_osu_and_imb_run_inside_the_stack(building, name):
    stack = metadata.read(building(name))
    for program, words, said in (
        ("osu_latency", ("-m", "8:8", "-i", "10", "-x", "1"), "# OSU MPI Latency Test v7.5"),
        ("IMB-MPI1", ("PingPong", "-msglog", "3:3", "-iter", "10"), "# Benchmarking PingPong"),
    ):
        command = [*stack.mpirun, "-np", "2", *probe.oversubscribe(stack)]
        status, output = probe.run_inside(
            stack, [*command, stack.binaries[program], *words], limit_s=120
        )
        assert status == 0 and said in output, output[-2000:]


def test_the_stacks_differ_in_their_mpi_only(building, known, place):
    built = [building(name) for name in MPIS if not known[name]]
    if len(built) < 2:
        pytest.skip("[spack-mpi] fewer than two stacks can be built here")
    facts = [metadata.read(path).build["facts"] for path in built]
    for other in facts[1:]:
        assert lock.things(facts[0], other).keys() == {"MPI"}
    assert check(place) == 0


def test_a_byte_in_a_program_is_seen(building, place, capsys):
    stack = metadata.read(building("openmpi"))
    program = Path(stack.binaries["osu_bw"])
    whole = program.read_bytes()
    mode = program.stat().st_mode
    times = (program.stat().st_atime_ns, program.stat().st_mtime_ns)
    outside = {key: value for key, value in os.environ.items() if key != build.SCOPE}
    verify = partial(build.verify, root=place, environ=outside)
    assert verify(stack).faults == ()
    program.chmod(0o755)
    try:
        program.write_bytes(whole + b"x")
        assert any("osu_bw of osu-micro-benchmarks@" in fault for fault in verify(stack).faults)
        check(place, verify=verify)
        assert "osu_bw changed after registration" in " ".join(capsys.readouterr().out.split())
    finally:
        program.write_bytes(whole)
        program.chmod(mode)
        os.utime(program, ns=times)


def test_programs_of_the_forums_abi_run_on_two_mpis(
    spack,
    place,
    stacks,
    require_stack,
    tmp_path,
    monkeypatch,
):
    """mpi-abi builds them with the compilers of an MPICH 5, and they name neither it nor another."""
    if "mpich5-wheels" not in stacks:
        pytest.skip("[sources] no mpicc_abi: python -m mpibench.stacks.wheels mpich5")
    mpis = [stacks["mpich5-wheels"], require_stack("intelmpi-wheels")]
    entry = {"spec": f"mpich@{mpis[0].mpi_version}", "prefix": mpis[0].prefix}
    mpich = {"externals:": [entry], "buildable": False}
    write(tmp_path / "packages.yaml", overriding({"packages": {"mpich": mpich}}))
    scopes = (place / "environments" / "common", find_scope(place), tmp_path)
    there = partial(ask, spack, *(word for scope in scopes for word in ("-C", scope)))
    names = ("osu-micro-benchmarks", "intel-mpi-benchmarks~ext~io~nbc~rma~mt~p2p")
    suites = [f"{name} ^[virtuals=mpi] mpi-abi" for name in names]
    try:
        installed = there("install", *suites)
    except AssertionError as error:
        if "All fetchers failed" in str(error):
            pytest.skip("[spack] the sources cannot be had")
        raise
    # One that an older recipe installed is tested, too.
    assert re.search(r"= \d+ passed of \d+ spec", there("test", "run", "mpi-abi"))
    made = re.findall(r"^\[\+\] .*-benchmarks-[\d.]+-(\w{32})$", installed, re.M)
    folders = [Path(there("location", "-i", f"/{name}").strip()) for name in made]
    wanted = {"osu_latency", "osu_put_latency", "osu_allreduce", "IMB-MPI1"}
    for path in probe.search(folders).values():
        if path.name in wanted:
            (tmp_path / path.name).symlink_to(path)
    monkeypatch.setenv(metadata.EXTRA_STACKS, ":".join(stack.source for stack in mpis))
    made = forum_abi.add(
        [stack.name for stack in mpis], [], binaries=[tmp_path], root=tmp_path / "project"
    )
    assert made[0].binaries == made[1].binaries and set(made[0].binaries) == wanted
    programs = [Path(path) for path in made[0].binaries.values()]
    assert probe.find_built_in_path(programs, os.environ) == ""
    for stack in made:
        words = [*probe.starting(stack, 2), *probe.oversubscribe(stack)]
        words += [stack.binaries["osu_latency"], "-m", "8:8", "-i", "10", "-x", "1"]
        status, output = probe.run_inside(stack, words)
        assert status == 0 and re.search(r"^8 +[0-9.]+$", output, re.M), output


def test_two_compilers_of_one_mpi_stand_side_by_side(building, place, spack):
    """Not built here: a second solution beside the first, with
    its own name, lock file and modules.
    """
    if not shutil.which("clang"):
        pytest.skip("[spack-mpi] no clang here")
    if not list(Path("/usr").glob("lib/llvm-*/lib/clang/*/include/omp.h")):
        pytest.skip("[spack-mpi] clang has no OpenMP here (Debian: libomp-dev)")
    first = lock.read(building("openmpi").with_name(lock.LOCK))
    assert build_in(place, "openmpi-clang", concretize_only=True) == []
    second = lock.read(build.Project(place, spack, None, print).lock("openmpi-clang"))
    rows = lock.table({"gcc": lock.facts(first), "llvm": lock.facts(second)})
    assert rows and all(aspect.endswith(" compiler") for aspect in rows), rows
    assert all(list(values)[1].startswith("llvm@") for values in rows.values())


def test_every_environment_has_a_solution_and_shares_all_but_its_mpi(spack, place, known):
    """Also of those whose MPI would have to be built first."""
    names = list_by_default(place)  # those for devices: test_spack_solutions.py
    kept = {path: path.read_text() for path in place.glob("environments/*/spack.*")}
    assert build_in(place, *names, concretize_only=True) == []
    assert {path: path.read_text() for path in place.glob("environments/*/spack.*")} == kept, (
        "a dry run writes none of these"
    )
    project = build.Project(place, spack, None, print)
    concretized = {name: lock.read(project.lock(name)) for name in names}
    assert {found.mpi.name for found in concretized.values()} == set(names)
    assert lock.table({name: lock.facts(found) for name, found in concretized.items()}) == {}


def test_a_second_build_does_nothing_whatever_the_user_has_in_his_home(
    building,
    place,
    tmp_path,
    capsys,
):
    path = building("openmpi")
    before = path.stat().st_mtime_ns
    own = write(tmp_path / ".spack" / "packages.yaml", "packages: 7\n")
    # The test of two solutions may have concretized again: the
    # hashes are equal, so nothing else is done.
    assert build_in(place, "openmpi", environ={"HOME": str(tmp_path)}) == []
    assert "openmpi-spack: up to date" in capsys.readouterr().out
    assert path.stat().st_mtime_ns == before
    assert own.read_text() == "packages: 7\n" and not list(own.parent.glob("*/*.yaml"))


def expect_two(run_reframe, place, name, wanted):
    """Two tests are measured on a stack and pass."""
    words = f"-r -S level=smoke -S repeats=1 -n {wanted} -p {MPIS[name]}"
    result = run_reframe(words=words, top=place)
    assert result.returncode == 0, result.stdout[-4000:]
    assert outcome(result) == {"ran": 2, "failed": 0, "aborted": 0}, result.stdout[-4000:]


@pytest.mark.parametrize("name", MPIS)
def test_reframe_measures_with_the_stack_and_proves_it(
    building,
    place,
    run_reframe,
    name,
):
    building(name)
    wanted = "^(Osu|Imb)PointToPoint%fabric=shm%nodes=1%ppn=2%pinning=bunch"
    expect_two(run_reframe, place, name, wanted)


@pytest.mark.whole
def test_a_vendors_mpi_is_built_on_where_the_site_names_it(spack, root, tmp_path, place):
    """HPC-X, for which the Open MPI of this machine stands in."""
    [sentence] = build_in(place, "hpcx-mpi", skip_tests=True)
    assert (
        "hpcx-mpi is built on hpcx-mpi of the site, which its configuration scope does not name"
        in sentence
    )
    own = externals_of(place, spack, "openmpi")
    if not own:
        pytest.skip("[spack-mpi] no Open MPI of the site's own")
    top = copy_lean_project(spack, root, tmp_path / "site", {})
    scope = find_scope(top) / "packages.yaml"
    # As HPC-X it lies where nothing of it was built for, so that it needs OPAL_PREFIX.
    prefix = tmp_path / "hpcx" / "ompi"
    prefix.mkdir(parents=True)
    for name, target in {
        "bin": f"{own[0]['prefix']}/bin",
        "lib": "/usr/lib",
        "share": "/usr/share",
        "etc": "/etc",
    }.items():
        (prefix / name).symlink_to(target)
    entry = {"externals": [{"spec": "hpcx-mpi@2.24.1", "prefix": str(prefix)}], "buildable": False}
    scope.write_text(scope.read_text().rstrip("\n") + f"\n  hpcx-mpi: {json.dumps(entry)}\n")
    assert build_in(top, "hpcx-mpi", skip_tests=True) == []
    stack = metadata.read(top / "environments" / "hpcx-mpi" / "stack.json")
    assert (stack.name, stack.mpi) == ("hpcx-mpi-spack", "openmpi") and {"osu", "imb"} <= set(
        stack.suites
    )
    assert stack.env_vars["OPAL_PREFIX"] == str(prefix)


def test_an_mpi_4_has_the_programs_of_mpi_4_and_they_run(building, place, run_reframe):
    # 4.0.2 and 4.1.4 of Debian
    has, lacks = (set(metadata.read(building(name)).binaries) for name in ("mpich", "openmpi"))
    # Not osu_partitioned_latency: configure of OSU 7.5 looks for
    # MPI_Psend_init and then asks another variable.
    assert {"IMB-MPI4", "osu_bw_persistent", "osu_allreduce_persistent"} <= has
    assert not {"IMB-MPI4", "osu_allreduce_persistent"} & lacks
    wanted = "^(OsuPersistentPairs|ImbPersistentCollectives)%fabric=shm%nodes=1%ppn=2%pinning=bunch"
    expect_two(run_reframe, place, "mpich", wanted)


@pytest.mark.parametrize(
    ("scope", "said"),
    [
        ({"packages": {"openmpi": {"require": ["@9.9"]}}}, "cannot match any known version"),
        ({"packages": {"openmpi": {"externals": 7}}}, "7 is not of type"),
        ({"packages": {"gcc": {"externals:": []}}}, "Spack knows no gcc"),
    ],
    ids=("unsatisfiable", "wrong", "tool-missing"),
)
def test_a_bad_scope_is_one_sentence_from_the_real_spack(spack, place, tmp_path, scope, said):
    text = overriding(scope)
    write(tmp_path / "packages.yaml", text)
    name = "mpich" if "gcc" in text else "openmpi"
    before = (place / "environments" / name / "spack.yaml").read_text()
    try:
        options = build.BuildOptions(fresh=True, concretize_only=True)
        environ = {**os.environ, build.SCOPE: str(tmp_path)}
        sentences = build.build([name], options, root=place, environ=environ, echo=print)
    except BadInput as error:
        sentences = [str(error)]
    assert len(sentences) == 1 and said in sentences[0] and "\n" not in sentences[0], sentences
    assert (place / "environments" / name / "spack.yaml").read_text() == before


def test_recorded_locks_are_of_the_format_this_spack_writes(building):
    document = json.loads(building("openmpi").with_name(lock.LOCK).read_text())
    assert document["_meta"]["lockfile-version"] in lock.VERSIONS

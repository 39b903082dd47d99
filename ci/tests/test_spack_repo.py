"""The Spack repository: its recipes read without Spack, and, where there is a Spack, audited and solved by it."""

from __future__ import annotations

import ast
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

import spack_recorder
from mpibench.spack import tool
from reframe_tests.harness.stacks import metadata
from reframe_tests.harness.vocabulary import BadInput

REPO = metadata.ROOT / "repo" / "spack_repo" / "mpibench"
FOLDERS = sorted(path.parent for path in REPO.glob("packages/*/package.py"))
RECIPES = {recipe.name: recipe for recipe in map(spack_recorder.read, FOLDERS)}
#: Where sources may come from: the projects themselves.
UPSTREAM = re.compile(r"https://(github\.com/(intel/mpi-benchmarks|linux-rdma/perftest)|mvapich\.cse\.ohio-state\.edu)([/.]|$)")

each_recipe = pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)


def test_the_repository_has_what_the_project_needs() -> None:
    assert yaml.safe_load((REPO / "repo.yaml").read_text()) == {"repo": {"namespace": "mpibench", "api": "v2.2"}}
    assert set(RECIPES) == {
        "intel-mpi-benchmarks",
        "mpibench-suite",
        "mvapich",
        "mvapich2",
        "osu-micro-benchmarks",
        "perftest",
    }


@each_recipe
def test_imports_are_named_and_spacks_own(recipe: spack_recorder.Recipe) -> None:
    """A star import hides what a recipe uses; other modules than these may be absent from the Python Spack runs on."""
    tree = ast.parse((recipe.folder / "package.py").read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            assert [alias.name for alias in node.names] != ["*"]
            assert re.match(r"(spack\.package|spack_repo\.(builtin|mpibench)\..+|pathlib|typing)$", node.module or "")
        assert not isinstance(node, ast.Import)


@each_recipe
def test_nobody_is_named_who_is_no_account(recipe: spack_recorder.Recipe) -> None:
    """Spack takes maintainers for accounts on GitHub and writes to them; a recipe derived from builtin's keeps its own."""
    assert "mpibench" not in [name for words, _ in recipe.of("maintainers") for name in words]


@each_recipe
def test_versions_are_verifiable(recipe: spack_recorder.Recipe) -> None:
    rows = recipe.of("version")
    sums = [named.get("sha256", named.get("commit", "")) for _, named in rows]
    if recipe.name == "mpibench-suite":
        assert rows and sums == [""]  # a bundle has no sources
        return
    assert all(re.fullmatch(r"[0-9a-f]{64}|[0-9a-f]{40}", digest) for digest in sums)
    assert len(set(sums)) == len(sums)
    numbers = [[int(part) for part in re.split(r"[.-]", words[0])] for words, _ in rows]
    assert numbers == sorted(numbers, reverse=True), "newest first"


@each_recipe
def test_sources_are_upstreams(recipe: spack_recorder.Recipe) -> None:
    text = (recipe.folder / "package.py").read_text()
    urls = re.findall(r"[a-z+]+://[^\s\"'{]+", text)
    assert all(UPSTREAM.match(url) for url in urls), urls
    assert "file:" not in text and "/opt/" not in text


@each_recipe
def test_every_conflict_says_why(recipe: spack_recorder.Recipe) -> None:
    for words, named in recipe.of("conflicts"):
        assert named.get("msg", "").startswith(recipe.name), words


@each_recipe
def test_built_packages_have_tests_of_their_own(recipe: spack_recorder.Recipe) -> None:
    tests = [value for name, value in vars(recipe.package).items() if name.startswith("test_")]
    assert bool(tests) == (recipe.name != "mpibench-suite")
    assert all(test.__doc__ for test in tests), "Spack prints the first line of a test"


@each_recipe
def test_patches_are_whole(recipe: spack_recorder.Recipe) -> None:
    """Each patch file is used, and each hunk has as many lines as its head says."""
    named = {words[0] for words, _ in recipe.of("patch")}
    assert named == {path.name for path in recipe.folder.glob("*.patch")}
    for name in named:
        lines = (recipe.folder / name).read_text().splitlines()
        heads = [index for index, line in enumerate(lines) if line.startswith("@@")]
        assert heads
        for head in heads:
            old, new = map(int, re.findall(r"[-+]\d+,(\d+)", lines[head]))
            end = next((n for n in range(head + 1, len(lines)) if lines[n].startswith(("@@", "--- "))), len(lines))
            body = [line[:1] for line in lines[head + 1 : end]]
            counted = (body.count(" ") + body.count("-"), body.count(" ") + body.count("+"))
            assert counted == (old, new), f"{name}: {lines[head]}"


def variants(recipe: spack_recorder.Recipe) -> dict[str, dict[str, Any]]:
    return {words[0]: named for words, named in recipe.of("variant")}


#: Suites of IMB -> (program, releases that have it, built unless told otherwise); upstream's top-level Makefiles.
IMB = {
    "mpi1": ("IMB-MPI1", "@2019.0:", True),
    "ext": ("IMB-EXT", "@2019.0:", True),
    "io": ("IMB-IO", "@2019.0:", True),
    "nbc": ("IMB-NBC", "@2019.0:", True),
    "rma": ("IMB-RMA", "@2019.0:", True),
    "mt": ("IMB-MT", "@2019.0:", True),
    "p2p": ("IMB-P2P", "@2019.2:", True),
    "mpi4": ("IMB-MPI4", "@2021.9:", False),
}


def test_each_imb_suite_is_a_variant_and_a_program() -> None:
    recipe = RECIPES["intel-mpi-benchmarks"]
    declared = {name: named for name, named in variants(recipe).items() if name not in ("check", "cuda", "level_zero")}
    assert {name: (named["when"], named["default"]) for name, named in declared.items()} == {
        name: (since, default) for name, (_, since, default) in IMB.items()
    }
    suites = recipe.module.SUITES
    assert {suite.name: suite.binary for suite in suites} == {name: program for name, (program, _, _) in IMB.items()}
    assert [suite.name for suite in suites if suite.openmp] == ["mt"]
    assert all(suite.check for suite in suites)


def test_a_build_without_suites_is_refused_for_every_release() -> None:
    """The conflict of each range of releases names exactly the suites those releases have."""
    recipe = RECIPES["intel-mpi-benchmarks"]
    firsts = {":2019.1": "2019.0", "2019.2:2021.8": "2019.2", "2021.9:": "2021.9"}
    assert set(recipe.module.NO_SUITE) == set(firsts)
    for releases, none in recipe.module.NO_SUITE.items():
        there = {name for name, (_, since, _) in IMB.items() if since[1:-1] <= firsts[releases]}
        assert set(none.strip("~").split("~")) == there, releases


def test_the_suite_builds_every_program_the_tests_run() -> None:
    """What the catalogue names is what the bundle asks for."""
    from reframe_tests.harness.suites import catalogue

    used = set(re.findall(r"\bIMB-[A-Z0-9]+\b", Path(catalogue.__file__).read_text()))
    asked = next(words[0] for words, _ in RECIPES["mpibench-suite"].of("depends_on") if words[0].startswith("intel-mpi"))
    built = {program for name, (program, _, _) in IMB.items() if f"+{name}" in asked}
    assert used and used <= built


# --- with Spack -------------------------------------------------------------------------------------------------------

#: Stand-ins for what a GPU or a Slurm needs: solving asks only whether there is something to depend on.
STAND_INS = {
    "cuda": "12.4.0",
    "hip": "6.2.0",
    "hsa-rocr-dev": "6.2.0",
    "llvm-amdgpu": "6.2.0",
    "nccl": "2.22.3",
    "rccl": "6.2.0",
    "slurm": "23-11-1-1",
    "papi": "7.1.0",
    "gnuplot": "6.0.0",
    "imagemagick": "7.1.1",
    "pciutils": "3.10.0",
    "rdma-core": "44.0",
    "opa-psm2": "11.2.230",
    "oneapi-level-zero": "1.17.6",
    "libfabric": "1.17.0",
    "ucx": "1.13.1",
    "libxml2": "2.9.14",
    "libpciaccess": "0.17",
    "mpich": "4.0.2",
    "openmpi": "4.1.4",
    "bison": "3.8.2",
    "autoconf": "2.71",
    "automake": "1.16.5",
    "libtool": "2.4.7",
    "m4": "1.4.19",
    "pkgconf": "1.8.1",
    "gmake": "4.3",
    "zlib": "1.2.13",
    "findutils": "4.9.0",
}

#: Specs that must have a solution -> (package, version) that must be in it, from our repository.
SOLVED = {
    "intel-mpi-benchmarks ^openmpi": ("intel-mpi-benchmarks", "2021.11"),
    "intel-mpi-benchmarks@2019.0 ^mpich": ("intel-mpi-benchmarks", "2019.0"),
    "intel-mpi-benchmarks@2021.11+mpi4 ^mpich": ("intel-mpi-benchmarks", "2021.11"),
    "osu-micro-benchmarks@=7.5+mpi4 ^mpich": ("osu-micro-benchmarks", "7.5"),
    "mpibench-suite+perftest ^mpich": ("perftest", "25.10.0-0.128"),
    "mpibench-suite ^mvapich2 fabrics=nemesis": ("mvapich2", "2.3.7-1"),
    "mvapich2 fabrics=mrail": ("mvapich2", "2.3.7-1"),
    "mvapich@4.0 netmod=ucx": ("mvapich", "4.0"),
}

#: Specs that must have none -> words of the reason.
REFUSED = {
    "intel-mpi-benchmarks@2019.0 ^openmpi": "2019.0 uses MPI-1 calls",
    "intel-mpi-benchmarks@2021.11~mpi1~ext~io~nbc~rma~mt~p2p~mpi4 ^mpich": "without a single suite",
    "intel-mpi-benchmarks@2021.11~mpi1~rma+cuda ^mpich": "intel-mpi-benchmarks +cuda builds mpi1 and rma",
    "intel-mpi-benchmarks@2021.11~mpi1~rma+level_zero ^mpich": "intel-mpi-benchmarks +level_zero builds mpi1 and rma",
    "osu-micro-benchmarks@7.5+cuda+rocm ^mpich": "choose cuda or rocm",
    "osu-micro-benchmarks@7.5+cuda+sycl ^mpich": "choose cuda or sycl",
    "osu-micro-benchmarks@7.5+rocm+sycl ^mpich": "choose rocm or sycl",
    "osu-micro-benchmarks@7.5+sycl %gcc ^mpich": "needs the compilers of oneAPI",
    "osu-micro-benchmarks@5.9+papi ^mpich": "reads PAPI counters since 7.0",
    "osu-micro-benchmarks@6.1+graphing ^mpich": "draws graphs since 6.2",
    "mvapich2 fabrics=nemesis process_managers=slurm": "starts its ranks with Hydra",
    "perftest+cuda+rocm": "perftest takes one kind",
    "mpibench-suite~imb~osu ^mpich": "measures nothing",
}


@pytest.fixture(scope="module")
def spack(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Command line of a Spack that has our repository and stand-ins for everything its packages depend on."""
    try:
        found = tool.find()
    except BadInput as error:
        pytest.skip(f"recipes are not tried in a Spack: {error}")
    scope = tmp_path_factory.mktemp("scope")
    packages: dict[str, Any] = {
        name: {"externals": [{"spec": f"{name}@{version}", "prefix": f"/stand-in/{name}"}], "buildable": False}
        for name, version in STAND_INS.items()
    }
    written = {
        "repos": {"mpibench": str(REPO)},
        "config": {"deprecated": True},
        "concretizer": {"reuse": False, "static_analysis": True, "concretization_cache": {"enable": False}},
        "packages": packages,
    }
    for section, content in written.items():
        (scope / f"{section}.yaml").write_text(yaml.safe_dump({section: content}))
    return [found.program, "--color=never", "-C", str(scope)]


def test_audit_has_no_objection(spack: list[str]) -> None:
    done = subprocess.run([*spack, "audit", "packages", *RECIPES], capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def outcomes(spack: list[str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("solved")
    (folder / "specs.json").write_text(json.dumps([*SOLVED, *REFUSED]))
    script = Path(__file__).with_name("spack_solver.py")
    command = [*spack, "python", str(script), str(folder / "specs.json"), str(folder / "answer.json")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=3600)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads((folder / "answer.json").read_text())


@pytest.mark.parametrize(("spec", "wanted"), SOLVED.items(), ids=SOLVED)
def test_solved(outcomes: dict[str, Any], spec: str, wanted: tuple[str, str]) -> None:
    package, version = wanted
    assert outcomes[spec].get("packages", {}).get(package) == ["mpibench", version], outcomes[spec]


@pytest.mark.parametrize(("spec", "reason"), REFUSED.items(), ids=REFUSED)
def test_refused_with_its_reason(outcomes: dict[str, Any], spec: str, reason: str) -> None:
    assert reason in outcomes[spec].get("error", ""), outcomes[spec]


def test_every_conflict_has_been_seen(outcomes: dict[str, Any]) -> None:
    """Also those that a derived recipe inherits are listed; only our own start with the package's name."""
    own = [message for message in outcomes["conflicts"] if message.startswith(tuple(RECIPES))]
    assert len(own) >= 13
    assert [message for message in own if not any(reason in message for reason in REFUSED.values())] == []

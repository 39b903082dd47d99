"""The Spack repository: its recipes read without Spack."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import yaml

import spack_recorder
from reframe_tests.harness.stacks import metadata
from spack_recorder import RECIPES, REPO

#: Where sources may come from: the projects themselves.
UPSTREAM = re.compile(
    r"https://(github\.com/(intel/mpi-benchmarks|ParaStation/psmpi|linux-rdma/perftest|netbench/GPCNET|plotly/plotly\.py|jcrist/msgspec)|mvapich\.cse\.ohio-state\.edu|"
    r"pola\.rs|reframe-hpc\.readthedocs\.io)([/.]|$)"
)
#: Packages without sources: a bundle, and what is installed from the checkout its recipe lies in.
SOURCELESS = ("mpibench", "mpibench-suite", "parastationmpi")

each_recipe = pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)


def test_the_repository_has_what_the_project_needs() -> None:
    assert yaml.safe_load((REPO / "repo.yaml").read_text()) == {"repo": {"namespace": "mpibench", "api": "v2.2"}}


@each_recipe
def test_versions_are_verifiable(recipe: spack_recorder.Recipe) -> None:
    rows = recipe.of("version")
    sums = [named.get("sha256", named.get("commit", "")) for _, named in rows]
    if recipe.name in SOURCELESS:
        assert rows and sums == [""]
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


#: Suites of IMB -> (program, releases that have it, built by default); upstream's top-level Makefiles.
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
    """What the catalogue names is what the bundle asks for, but for what needs an MPI 4, which a stack may not have."""
    from reframe_tests.harness.suites import catalogue

    used = {plan.binary for group in catalogue.SUITES["imb"].groups.values() for plan in group.plans}
    asked = next(words[0] for words, _ in RECIPES["mpibench-suite"].of("depends_on") if words[0].startswith("intel-mpi"))
    built = {program for name, (program, _, _) in IMB.items() if f"+{name}" in asked}
    needs_more = {program for program, _, by_default in IMB.values() if not by_default}
    assert used and used - needs_more <= built and not needs_more & built


def requirements(text: str) -> dict[str, str]:
    """Names and lower bounds of Python requirements, as pyproject.toml has them."""
    found = (re.match(r"([A-Za-z0-9._-]+?)(?:-hpc)?>=([0-9.]+)", row) for row in re.findall(r'(?m)^ +"([^"]+)",', text))
    return {row[1].lower().replace("_", "-"): row[2] for row in found if row}


def test_the_projects_recipe_asks_for_what_the_project_declares() -> None:
    """And in no older version; ReFrame is a package of its own name there, the others begin with py-."""
    recipe = RECIPES["mpibench"]
    document = (metadata.ROOT / "pyproject.toml").read_text()
    declared = requirements(document[document.index("dependencies = [") : document.index("[project.optional")])
    asked = {words[0] for words, _ in recipe.of("depends_on")}
    bounds = {spec.split("@")[0].removeprefix("py-"): re.split("[: ]", spec.split("@")[1])[0] for spec in asked if "@" in spec}
    assert len(declared) == 11
    assert {name: bounds.get(name) for name in declared} == declared
    assert recipe.of("version")[0][0] == (re.search(r'(?m)^fallback_version = "([0-9.]+)\.dev0"', document)[1],)  # type: ignore[index]
    built_with = requirements(re.sub(r'"(.+?)"[],]', r'\n    "\1",', document[: document.index("build-backend")]))
    assert {name: bounds.get(name) for name in built_with} == built_with and len(built_with) == 2


def test_the_projects_settings_stand_behind_a_centres_own() -> None:
    """Whoever enters the environment keeps the configuration of ReFrame that he has."""
    asked: list[tuple[str, ...]] = []

    class Environment:
        def __getattr__(self, name: str) -> Callable[..., None]:
            return lambda *words: asked.append((name, *words))

    package: Any = RECIPES["mpibench"].package
    package.setup_run_environment(object(), Environment())
    settings = str(metadata.ROOT / "site_configs" / "settings.py")
    assert asked == [("append_path", "RFM_CONFIG_FILES", settings), ("set", "MPIBENCH_SET_UP", "spack")]


def test_what_is_pinned_by_pip_is_the_same_file_in_a_recipe() -> None:
    """One checksum for one file, whoever fetches it."""
    locked = (metadata.ROOT / "requirements.lock").read_text()
    for name in ("py-msgspec", "py-plotly", "py-polars", "py-polars-runtime-32", "py-tabulate", "reframe"):
        pinned = {"reframe": "reframe-hpc"}.get(name, name.removeprefix("py-"))
        for (version,), named in RECIPES[name].of("version"):
            entry = re.search(rf"(?m)^{pinned}=={re.escape(version)}(?s:.*?)^    # via", locked)
            assert entry and named["sha256"] in entry[0], f"{name} {version}"

"""The Spack repository: its recipes read without Spack."""

from __future__ import annotations

import re

import pytest

import synthetic_spack
from synthetic_spack import RECIPES

#: Packages without sources: a bundle, wrappers of another's compilers, and what a site has installed.
SOURCELESS = ("mpibench-suite", "mpi-abi", "parastationmpi")

each_recipe = pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)


@each_recipe
def test_versions_are_verifiable(recipe: synthetic_spack.Recipe) -> None:
    rows = recipe.of("version")
    sums = [named.get("sha256", named.get("commit", "")) for _, named in rows]
    if recipe.name in SOURCELESS:
        assert rows and sums == [""]
        return
    assert all(re.fullmatch(r"[0-9a-f]{64}|[0-9a-f]{40}", digest) for digest in sums)
    assert len(set(sums)) == len(sums)
    numbers = [[int(part) for part in re.split(r"[.-]", words[0])] for words, _ in rows]
    assert numbers == sorted(numbers, reverse=True), "newest first"


#: Suites of IMB -> (program, releases that have it, built by
#: default); upstream's top-level Makefiles.
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


def test_the_suite_builds_every_program_the_tests_run() -> None:
    """What the catalogue names is what the bundle asks for, but for what
    needs an MPI 4, which a stack may not have.
    """
    from reframe_tests.harness.suites import catalogue

    used = {
        plan.binary for group in catalogue.SUITES["imb"].groups.values() for plan in group.plans
    }
    asked = next(
        words[0]
        for words, _ in RECIPES["mpibench-suite"].of("depends_on")
        if words[0].startswith("intel-mpi")
    )
    built = {program for name, (program, _, _) in IMB.items() if f"+{name}" in asked}
    needs_more = {program for program, _, by_default in IMB.values() if not by_default}
    assert used and used - needs_more <= built and not needs_more & built

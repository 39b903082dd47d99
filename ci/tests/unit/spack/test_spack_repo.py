"""The Spack repository: its recipes read without Spack."""

import re

import pytest

from reframe_tests.harness.suites import catalogue
from synthetic_spack import RECIPES

#: Packages without sources: a bundle, wrappers of another's compilers, and what a site has installed.
SOURCELESS = ("mpibench-suite", "mpi-abi", "parastationmpi")

each_recipe = pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)


@each_recipe
def test_versions_are_verifiable(recipe):
    rows = recipe.of("version")
    sums = [named.get("sha256", named.get("commit", "")) for _, named in rows]
    if recipe.name in SOURCELESS:
        assert rows and sums == [""]
        return
    assert all(re.fullmatch(r"[0-9a-f]{64}|[0-9a-f]{40}", digest) for digest in sums)
    assert len(set(sums)) == len(sums)
    numbers = [[int(part) for part in re.split(r"[.-]", words[0])] for words, _ in rows]
    assert numbers == sorted(numbers, reverse=True), "newest first"


def test_the_suite_builds_every_program_the_tests_run():
    """What the catalogue names is what the bundle asks for, but for what
    needs an MPI 4, which a stack may not have.
    """
    plans = [plan for group in catalogue.SUITES["imb"].groups.values() for plan in group.plans]
    asked, *_ = [
        words[0]
        for words, _ in RECIPES["mpibench-suite"].of("depends_on")
        if words[0].startswith("intel-mpi")
    ]
    built = {f"IMB-{name.upper()}" for name in re.findall(r"\+(\w+)", asked)}
    used = {plan.binary for plan in plans}
    assert "IMB-MPI1" in used and used - {"IMB-MPI4"} <= built and "IMB-MPI4" not in built

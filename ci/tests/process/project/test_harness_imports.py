"""What loading the harness and the commands costs: ReFrame lists tests with the one, a night starts several of the others."""

from __future__ import annotations

import subprocess
import sys

import pytest

from reframe_tests.harness.sites.site import ROOT


def loaded_by(code: str) -> set[str]:
    """Modules that a new Python has loaded after this code."""
    words = [sys.executable, "-c", f"import sys; {code}; print(*sys.modules)"]
    return set(subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split())


def test_the_harness_starts_without_heavy_libraries() -> None:
    """`reframe -l` imports this; its time is measured."""
    loaded = loaded_by("from reframe_tests.harness.suites import catalogue, reader")
    assert not {"numpy", "polars", "yaml", "jsonschema", "plotly"} & loaded


@pytest.mark.parametrize("module", ["commands.nightly", "night.confirmation.night", "judge.accept", "judge.gate"])
def test_distributions_are_loaded_where_one_is_asked_for(module: str) -> None:
    """They take longer to load than all else; a night without nights before it asks for none."""
    loaded = loaded_by(f"import mpibench.{module}")
    assert f"mpibench.{module}" in loaded and "polars" in loaded
    assert not {"scipy.stats", "scipy.special", "scipy.sparse", "scipy.optimize", "plotly", "reframe"} & loaded

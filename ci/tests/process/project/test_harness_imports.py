"""What loading the harness costs: ReFrame lists the tests with it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from reframe_tests.harness.suites import catalogue


def test_the_harness_starts_without_heavy_libraries():
    """`reframe -l` imports this; its time is measured."""
    code = "import sys; from reframe_tests.harness.suites import catalogue, reader; print(*sys.modules)"
    root = Path(catalogue.__file__).parents[2]
    loaded = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True).stdout.split()
    assert not {"numpy", "polars", "yaml", "jsonschema", "plotly"} & set(loaded)

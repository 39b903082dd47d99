"""Launchers that nobody has, from files in a folder: conditions are
resolved with them, and no file of the project changes.
"""

from types import SimpleNamespace

import pytest

from mpibench.commands.listings import doctor
from mpibench.stacks import probe
from reframe_tests.harness import batch_systems
from reframe_tests.harness.cases.job import batch
from reframe_tests.harness.launchers import registry
from synthetic_extensions import write_launchers


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A folder of a site's own files, with both launchers in it."""
    return write_launchers(tmp_path / "own", monkeypatch)


def test_reframe_is_given_the_launchers_it_does_not_have():
    from reframe.core.backends import getlauncher

    srun = getlauncher("srun")
    registry.register()
    assert getlauncher("srun") is srun
    assert getlauncher("galley")().command(SimpleNamespace()) == ["galley", "row"]


# ---- batch systems: one record each, and every scheduler of ReFrame's is in one ----


def test_what_a_record_says_is_known_wherever_it_counts(monkeypatch):
    """A batch system that is added is one record: its jobs' variables,
    its program, its options, its launchers' way.
    """
    monkeypatch.setattr(doctor.shutil, "which", lambda program: None)
    for row in batch_systems.BATCH_SYSTEMS:
        assert all(name.startswith(probe.JOB_VARIABLES) for name in row.variables)
        for scheduler in row.schedulers:
            found = [
                finding.detail for finding in doctor.check_submission("s:p", scheduler, here=True)
            ]
            assert [row.submit in detail for detail in found] == [True] * bool(row.submit)
            assert set(row.no_requeue) <= set(batch.submit_options(scheduler))

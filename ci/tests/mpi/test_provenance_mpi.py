"""A session knows what it was measured with."""

from __future__ import annotations

from pathlib import Path

from mpibench.store import sessions
from reframe_tests.harness.sites.session import provenance


def test_a_session_knows_what_it_was_measured_with(tmp_path: Path, run_reframe, require_stack) -> None:
    """Also a case that failed: the stack's library is not the one that answers."""
    require_stack("mpich-wheels")
    one = "Placement%fabric=shm%nodes=1%ppn=1%pinning=default"
    run_reframe(
        *("-r", "-n", one, "-p", "mpich-wheels", "-S", "level=smoke", "--system=generic"),
        only="startup.py",
        environ={"RFM_SQLITE_DB_FILE": str(tmp_path / "results.db"), "RFM_PREFIX": str(tmp_path)},
    )
    session = sessions.read_session(tmp_path / "results.db")
    expected = provenance.describe()
    assert session.measured_with == expected
    assert not (provenance.ROOT / ".git").exists() or len(expected["commit"]) >= 40
    assert set(expected["packages"]) == set(provenance.DECISIVE)

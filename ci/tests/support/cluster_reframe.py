"""ReFrame on the mini-cluster's head as a user runs it there,
and its session as the database has it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from live_cluster import LiveCluster
from mpibench.store import sessions
from reframe_tests.harness.sites.site import ROOT

#: ReFrame on a shared, busy machine: seconds after which something hangs.
LIMIT_S = 900


@dataclass(frozen=True)
class Done:
    """One ReFrame run.

    :param status: exit status of ``reframe``.
    :param output: what it printed.
    :param folder: its prefix, with ``stage`` and ``output``.
    """

    status: int
    output: str
    folder: Path

    @property
    def session(self) -> sessions.Session:
        """The session as stored."""
        return sessions.read_session(self.folder / "results.db")

    @property
    def measured(self) -> list[sessions.Case]:
        """Cases that were not skipped."""
        return [case for case in self.session.cases if case.result != "skip"]


def run(
    cluster: LiveCluster,
    folder: Path,
    *options: str,
    files: Sequence[str] = ("point_to_point.py",),
    environ: dict[str, str] | None = None,
) -> Done:
    """Run the project's tests on the cluster.

    :param files: the test files to load; the others would cost time for nothing.
    :param folder: empty folder that all nodes see; stage, output and database go there.
    """
    folder.mkdir()
    settings = {
        "RFM_CONFIG_FILES": str(ROOT / "site_configs" / "settings.py"),
        "RFM_COLORIZE": "no",
        "RFM_PREFIX": str(folder),
        "RFM_SQLITE_DB_FILE": str(folder / "results.db"),
        "RFM_SAVE_LOG_FILES": "no",
        **(environ or {}),
    }
    reframe = str(Path(sys.executable).parent / "reframe")
    tests = [word for name in files for word in ("-c", str(ROOT / "reframe_tests" / name))]
    words = ("env", *(f"{key}={value}" for key, value in settings.items()), reframe, *tests)
    done = cluster("exec", "--", *words, "--run", "-S", "level=smoke", *options, timeout_s=LIMIT_S)
    return Done(done.returncode, done.stdout + done.stderr, folder)

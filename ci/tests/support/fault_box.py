"""ReFrame on the head of a mini-cluster, with a checkout of its own:
bundled systems, chosen stacks, results thrown away.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from folders import UNFINISHED
from live_cluster import LiveCluster
from reframe_tests.harness.sites.site import ROOT
from reframe_tests.harness.stacks.stack import Stack
from synthetic_stack import sealed

#: Name of the timestamped folder below stage and output, fixed so that a test knows it beforehand.
STAMP = "now"


class Box:
    """A checkout below ``top``, which the cluster shows on all its nodes,
    and ReFrame in it with the tests of two ranks.
    """

    def __init__(self, cluster: LiveCluster, top: Path, stacks: Iterable[Stack]) -> None:
        self.cluster = cluster
        self.top = top
        for name in ("site_configs", "reframe_tests"):
            shutil.copytree(ROOT / name, top / name, ignore=UNFINISHED)
        shutil.copytree(ROOT / "results" / "recorder", top / "results" / "recorder")
        (top / "environments").mkdir()
        shutil.copy(ROOT / "environments" / "stack.schema.json", top / "environments")
        for stack in stacks:
            self.add_stack(json.loads(Path(stack.source).read_text()))

    def add_stack(self, document: dict[str, Any]) -> None:
        """Register a stack by its metadata."""
        target = self.top / "environments" / document["name"] / "stack.json"
        target.parent.mkdir()
        target.write_text(json.dumps(sealed(document)))

    def amend(self, text: str) -> None:
        """Append Python to the cluster's system.py; it may change ``system``
        and use ``by_name`` (partitions by name).
        """
        path = self.top / "site_configs" / "minicluster" / "system.py"
        lines = [
            path.read_text(),
            'by_name = {row["name"]: row for row in system["partitions"]}',
            text,
            "",
        ]
        path.write_text("\n".join(lines))

    def keep_partitions(self, *names: str) -> None:
        """Leave only these partitions, in this order: cases run in it
        when they run one after the other.
        """
        self.amend(f'system["partitions"] = [by_name[name] for name in {names!r}]')

    @property
    def database(self) -> Path:
        """ReFrame's results database."""
        return self.top / "results" / "results.db"

    @property
    def stage(self) -> Path:
        """Stage directory of a session."""
        return self.top / "results" / "stage" / STAMP

    def begin(
        self, *options: str, names: str, system: str = "minicluster", level: str = "smoke"
    ) -> subprocess.Popen[str]:
        """Start a session on the cluster's head."""
        settings = {
            "RFM_CONFIG_FILES": str(self.top / "site_configs" / "settings.py"),
            "RFM_COLORIZE": "no",
            "RFM_PREFIX": str(self.top / "results"),
        }
        words = [
            "exec",
            "--",
            "env",
            *(f"{key}={value}" for key, value in settings.items()),
            str(Path(sys.executable).parent / "reframe"),
            "-c",
            str(self.top / "reframe_tests" / "point_to_point.py"),
            "-r",
            "-S",
            f"level={level}",
            f"--system={system}",
            "-n",
            names,
            f"--timestamp={STAMP}",
            *options,
        ]
        return self.cluster.begin(*words)

    def run(
        self, *options: str, names: str, system: str = "minicluster", timeout_s: float = 400
    ) -> tuple[int, str]:
        """A whole session: exit status and output."""
        session = self.begin(*options, names=names, system=system)
        return end_of(session, timeout_s)

    def cases(self) -> dict[str, dict[str, Any]]:
        """Test cases of the last stored session, by partition and
        stack (``eth1g mpich-wheels``).
        """
        with sqlite3.connect(f"{self.database.as_uri()}?mode=ro", uri=True) as db:
            [(text,)] = db.execute(
                "select json_blob from sessions order by session_start_unix desc limit 1"
            ).fetchall()
        rows = [case for run in json.loads(text)["runs"] for case in run["testcases"]]
        return {f"{case['partition']} {case['environ']}": case for case in rows}

    def sessions(self) -> int:
        """Number of stored sessions."""
        if not self.database.exists():
            return 0
        with sqlite3.connect(f"{self.database.as_uri()}?mode=ro", uri=True) as db:
            [(number,)] = db.execute("select count(*) from sessions").fetchall()
        return int(number)

    def files(self, partition: str, pattern: str) -> list[Path]:
        """Files below the stage directory of a partition's cases."""
        return sorted((self.stage / "minicluster" / partition).glob(f"*/*/{pattern}"))

    @staticmethod
    def command(*words: str) -> list[str]:
        """Command line of ``mpibench``."""
        return [
            sys.executable,
            "-c",
            "import sys; from mpibench.cli import main; sys.exit(main(sys.argv[1:]))",
            *words,
        ]

    def mpibench(self, *words: str) -> subprocess.CompletedProcess[str]:
        """The command, on this machine."""
        return subprocess.run(
            self.command(*words),
            capture_output=True,
            text=True,
            timeout=180,
            env={**os.environ, "NO_COLOR": "1"},
        )


def end_of(session: subprocess.Popen[str], timeout_s: float = 400) -> tuple[int, str]:
    """Exit status and output of a session that was begun."""
    try:
        output, _ = session.communicate(timeout=timeout_s)
    finally:
        session.kill()
    return session.returncode, output

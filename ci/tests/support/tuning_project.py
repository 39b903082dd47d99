"""A project of its own to tune in: what is installed and measured there stays there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from folders import UNFINISHED
from reframe_tests.harness.sites.site import ROOT
from reframe_tests.harness.stacks import metadata

#: What the command ``mpibench`` does.
ENTRY = "import sys; from mpibench.cli import main; sys.exit(main())"
#: The code and the sites; of the tests that of algorithms, and those
#: that compare calls, which need no suite.
PARTS = (
    "ci/mpibench",
    "ci/mpibench_tune",
    "reframe_tests/harness",
    "site_configs",
    "results/recorder",
)
FILES = (
    "reframe_tests/__init__.py",
    "reframe_tests/collectives.py",
    "reframe_tests/consistency.py",
    "environments/stack.schema.json",
)


class TuningProject:
    """A copy of the project in a folder, with the stacks that are built here."""

    def __init__(self, top: Path) -> None:
        self.top = top
        for part in PARTS:
            shutil.copytree(ROOT / part, top / part, ignore=UNFINISHED)
        shutil.rmtree(top / "site_configs" / "minicluster" / "tuning", ignore_errors=True)
        shutil.rmtree(top / "site_configs" / "generic" / "tuning", ignore_errors=True)
        for stack in metadata.discover(environ={})[0]:
            self._copy(stack.source, top / "environments" / stack.name / "stack.json")
        for name in FILES:
            self._copy(ROOT / name, top / name)
        self.own = {
            "PYTHONPATH": f"{top / 'ci'}:{top}",
            "RFM_CONFIG_FILES": str(top / "site_configs" / "settings.py"),
            "RFM_PREFIX": str(top / "results"),
            "RFM_SQLITE_DB_FILE": str(top / "results" / "results.db"),
            "RFM_SAVE_LOG_FILES": "no",
            "RFM_COLORIZE": "no",
        }
        self.python = sys.executable
        self.reframe = [
            str(Path(sys.executable).with_name("reframe")),
            "-c",
            str(top / "reframe_tests" / "consistency.py"),
        ]

    @staticmethod
    def _copy(source: Path, target: Path) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)

    def folder(self, system: str, stack: str) -> Path:
        """Where rounds, reports and logs of a stack are, below it a folder for each condition."""
        return self.top / "results" / "tuning" / system / stack

    def words(self, *words: str) -> list[str]:
        """A command of ``mpibench`` in the project, for any node that sees the folder."""
        return [
            "env",
            *(f"{name}={value}" for name, value in self.own.items()),
            self.python,
            "-c",
            ENTRY,
            *words,
        ]

    def begin(self, *words: str, environ: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
        """Start a command on this machine."""
        return subprocess.Popen(
            self.words(*words),
            cwd=self.top,
            env={**os.environ, **(environ or {})},
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def run(self, *words: str, environ: Mapping[str, str] | None = None) -> tuple[int, str]:
        """Exit status and output of a command on this machine."""
        started = self.begin(*words, environ=environ)
        output, _ = started.communicate(timeout=900)
        return started.returncode, output

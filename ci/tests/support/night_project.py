"""A project in which a whole ``ci/nightly`` takes seconds: the real
scripts, ReFrame and commands, tests that replay a plan.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from folders import SUPPORT, UNFINISHED
from reframe_tests.harness.sites.site import ROOT
from synthetic_session import STACKS, case
from synthetic_stack import write_stack
from tiny_site import SYSTEM

#: What happens in each job before the "benchmark".
DURING = "eval $NIGHT_DURING; echo"


class NightProject:
    """The project in a folder of its own, with two stacks and one case on each."""

    def __init__(self, top: Path, stacks: Sequence[str] = tuple(STACKS)[:2]) -> None:
        self.top = top
        self.results = top / "results"
        for package in ROOT.glob("ci/mpibench*"):
            shutil.copytree(package, top / "ci" / package.name, ignore=UNFINISHED)
        shutil.copytree(ROOT / "ci" / "pipelines", top / "ci" / "pipelines")
        shutil.copytree(
            ROOT / "reframe_tests" / "harness", top / "reframe_tests" / "harness", ignore=UNFINISHED
        )
        for pattern in (
            "ci/nightly",
            "site_configs/*.py",
            "site_configs/*.json",
            "site_configs/*.yaml",
            "environments/*.json",
            "reframe_tests/__init__.py",
        ):
            for path in ROOT.glob(pattern):
                target = top / path.relative_to(ROOT)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, target)
        check = (SUPPORT / "synthetic_check.py").read_text()
        changed = check.replace('executable = "echo"', f'executable = "{DURING}"')
        assert changed != check
        self.write("reframe_tests/replay_plan.py", changed)
        self.write("site_configs/tiny/system.py", SYSTEM)
        self.register(*stacks)
        self.plan(map(case, stacks))
        self.write("ci/setup", f"#!/bin/bash\ntouch {top}/set-up\n", executable=True)
        path = f"{top}/bin:{Path(sys.executable).parent}:$PATH"
        self.write(".venv/bin/activate", f"export PATH={path} PYTHONPATH={top}/ci:{top}\n")
        (top / "tmp").mkdir()

    def write(self, name: str, text: str, executable: bool = False) -> Path:
        """Write a file of the project."""
        path = self.top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755 if executable else 0o644)
        return path

    def register(self, *names: str) -> None:
        """Stacks that are there."""
        for name in names:
            write_stack(self.top / "environments" / "wheels" / name, name=name, origin="wheels")

    def plan(self, cases: Iterable[dict[str, Any]]) -> None:
        """What the tests are to measure from now on."""
        self.write("plan.json", json.dumps(list(cases)))

    def begin(
        self, *options: str, script: str = "ci/nightly", folder: str = "", **environ: str | None
    ) -> subprocess.Popen[str]:
        """Start a night, in a folder of the project; a variable that is ``None`` is not set."""
        settings = {
            "SYNTHETIC_PLAN": str(self.top / "plan.json"),
            "RFM_CONFIG_FILES": str(self.top / "site_configs" / "settings.py"),
            "TMPDIR": str(self.top / "tmp"),
        }
        # Looking at the nodes first, which takes a ReFrame of its own, is for who asks for it.
        settings.setdefault("PREFLIGHT", "no")
        inherited = {
            key: value
            for key, value in os.environ.items()
            if key not in ("LABEL", "MODE", "MAILTO")
        }
        wanted = {**inherited, **settings, **environ}
        return subprocess.Popen(
            [str(self.top / script), *options],
            cwd=self.top / folder,
            env={name: value for name, value in wanted.items() if value is not None},
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def run(
        self, *options: str, script: str = "ci/nightly", folder: str = "", **environ: str | None
    ) -> tuple[int, str]:
        """Exit status and output of a night."""
        night = self.begin(*options, script=script, folder=folder, **environ)
        output, _ = night.communicate(timeout=300)
        return night.returncode, output

    @property
    def session(self) -> str:
        """Tonight's session id; empty if there is none."""
        path = self.results / "session-id"
        return path.read_text().strip() if path.exists() else ""

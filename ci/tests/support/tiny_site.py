"""A project with one system, one test that writes a file, and the real
configuration code: ReFrame runs it in two seconds.
"""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from reframe_tests.harness.sites.site import ROOT

SYSTEM = """
system = {
    "name": "tiny",
    "descr": "one node for tests",
    "hostnames": [".*"],
    "partitions": [
        {
            "name": "node", "scheduler": "local", "launcher": "local", "max_jobs": 1, "processor": {"num_cpus": 2},
            "extras": {"fabrics": {"shm": {"transport": "shm", "scope": "node"}}},
        },
    ],
}
"""
SETTINGS = f"""
import sys
from pathlib import Path
sys.path.append({str(ROOT)!r})
from reframe_tests.harness.sites import site
site_configuration = site.load(Path(__file__).resolve().parent.parent)
"""
TEST = """
import reframe as rfm
import reframe.utility.sanity as sn
from reframe.core.builtins import performance_function, sanity_function, variable


@rfm.simple_test
class Writer(rfm.RunOnlyRegressionTest):
    level = variable(str, value="none")
    repeats = variable(int, value=1)
    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    executable = "echo $PPID $RANDOM $RANDOM $RANDOM > evidence.txt; sleep ${WRITER_SLEEPS:-0}"
    keep_files = ["evidence.txt"]
    tags = {"smoke", "production"}

    @sanity_function
    def believe(self):
        return sn.assert_found("[0-9]", "evidence.txt")

    @performance_function("us")
    def latency(self):
        return 1.5
"""


def write_site(top: Path, system: Mapping[str, Any]) -> Path:
    """A project's ``site_configs`` with one system and the real
    configuration code; its settings file, for ReFrame.
    """
    folder = top / "site_configs"
    (folder / system["name"]).mkdir(parents=True)
    (folder / system["name"] / "system.py").write_text(f"system = {system!r}\n")
    (folder / "settings.py").write_text(SETTINGS)
    return folder / "settings.py"


class TinySite:
    """The project in a folder of its own, and a temporary folder of
    its own for what ReFrame puts there.
    """

    def __init__(self, top: Path) -> None:
        self.top = top
        self.results = top / "results"
        self.temporary = top / "tmp"
        for name, text in (
            ("site_configs/tiny/system.py", SYSTEM),
            ("site_configs/settings.py", SETTINGS),
            ("reframe_tests/writer.py", TEST),
        ):
            (top / name).parent.mkdir(parents=True, exist_ok=True)
            (top / name).write_text(text)
        self.temporary.mkdir()

    def begin(self, *options: str, **environ: str) -> subprocess.Popen[str]:
        """Start ReFrame on the project's tests."""
        settings = {
            "RFM_CONFIG_FILES": str(self.top / "site_configs" / "settings.py"),
            "RFM_COLORIZE": "no",
            "TMPDIR": str(self.temporary),
        }
        return subprocess.Popen(
            [
                str(Path(sys.executable).parent / "reframe"),
                "-c",
                str(self.top / "reframe_tests"),
                *options,
            ],
            cwd=self.top,
            env={**os.environ, **settings, **environ},
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def reframe(self, *options: str, **environ: str) -> tuple[int, str]:
        """Exit status and output of one ReFrame."""
        process = self.begin(*options, **environ)
        output, _ = process.communicate(timeout=300)
        return process.returncode, output

    def evidence(self) -> dict[str, str]:
        """What the test of each session left in its output folder, by the name of that folder."""
        files = (self.results / "output").glob("*/tiny/node/builtin/*/evidence.txt")
        return {
            path.relative_to(self.results / "output").parts[0]: path.read_text() for path in files
        }

    def stored(self) -> list[str]:
        """Ids of the stored sessions, oldest first."""
        with closing(sqlite3.connect(self.results / "results.db")) as db:
            return [
                row[0]
                for row in db.execute("select uuid from sessions order by session_start_unix")
            ]

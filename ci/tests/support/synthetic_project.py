"""A project that ci/setup and ci/test can set up in a second, without
network: the real scripts, everything else tiny.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pip

PYPROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
"""
#: A build backend (PEP 660) that needs nothing: its editable wheel
#: puts the project's folders on the path.
BACKEND = """
import os, zipfile

NAME = "mpibench-0.1.0"
METADATA = open("METADATA").read()


def prepare_metadata_for_build_editable(folder, config_settings=None):
    os.mkdir(f"{folder}/{NAME}.dist-info")
    open(f"{folder}/{NAME}.dist-info/METADATA", "w").write(METADATA)
    return f"{NAME}.dist-info"


def build_editable(folder, config_settings=None, metadata_directory=None):
    here = os.getcwd()
    with zipfile.ZipFile(f"{folder}/{NAME}-py3-none-any.whl", "w") as wheel:
        wheel.writestr("mpibench_project.pth", f"{here}/ci\\n{here}\\n")
        wheel.writestr(f"{NAME}.dist-info/METADATA", METADATA)
        wheel.writestr(f"{NAME}.dist-info/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr(f"{NAME}.dist-info/RECORD", "")
    return f"{NAME}-py3-none-any.whl"
"""
METADATA = (
    "Metadata-Version: 2.1\nName: mpibench\nVersion: 0.1.0\nProvides-Extra: "
    "test\nProvides-Extra: compiler\n"
)
FILES = {
    "pyproject.toml": PYPROJECT,
    "backend.py": BACKEND,
    "METADATA": METADATA,
    "requirements.lock": "",
    "requirements-test.lock": "",
    "requirements-compiler.lock": "",
    "ci/bare-machine": '#!/bin/bash\necho "bare machine: CI=$CI"\nexit ${BARE:-0}\n',
    "ci/mpibench/__init__.py": "",
    "ci/mpibench/stacks/wheels.py": 'print("wheels ran")\n',
    "ci/pytest.py": "import os, sys\n"
    'print("pytest ran with", sys.argv[1:])\nsys.exit("-x" in sys.argv or '
    'int(os.environ.get("SUITE", "0")))\n',
    "reframe_tests/harness/evidence/recorder/__init__.py": 'def locate():\n    print("recorder '
    'ran")\n',
}
#: Programs beside bash that ci/setup may count on; anything else
#: would be missing on a bare machine.
TOOLS = (
    "env",
    "cat",
    "dirname",
    "find",
    "flock",
    "grep",
    "mkdir",
    "readlink",
    "rm",
    "sed",
    "sha256sum",
    "tail",
)


class Project:
    """The scripts in a scratch folder, and a PATH with nothing on it but what a bare machine has.

    The interpreter borrows this one's pip for the environments it makes, which is many times faster
    than unpacking its own; :attr:`interpreter` is the real one.
    """

    def __init__(self, folder: Path, scripts: Path) -> None:
        self.root = folder / "project"
        self.tools = folder / "tools"
        for name, text in FILES.items():
            self.write(name, text)
        (self.root / "ci/bare-machine").chmod(0o755)
        for name in ("ci/setup", "ci/test", ".ci/run"):
            (self.root / name).parent.mkdir(exist_ok=True)
            shutil.copy(scripts / name, self.root / name)
        self.tools.mkdir()
        for name in ("bash", *TOOLS):
            (self.tools / name).symlink_to(shutil.which(name) or "/nonexistent")
        version = f"python3.{sys.version_info.minor}"
        self.interpreter = str(Path(sys.base_prefix) / "bin" / version)
        lend = f'/bin/ln -s "{Path(pip.__file__).parent}" "$4/lib/{version}/site-packages/pip"'
        make = f'{self.interpreter} -m venv --clear --without-pip "$4" && {lend}; exit'
        self.environ = {
            "PATH": str(self.tools),
            "HOME": str(folder),
            "MPIBENCH_PYTHON": self.stand_in(
                "python-quick", self.interpreter, {"'-m venv --clear /'*": make}
            ),
            "PIP_NO_INDEX": "1",
            "PIP_CONFIG_FILE": os.devnull,
        }

    def write(self, name: str, text: str) -> Path:
        """Write a file of the project."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def add_tool(self, name: str, script: str) -> Path:
        """Put a shell script on the PATH."""
        path = self.tools / name
        path.write_text(script)
        path.chmod(0o755)
        return path

    def stand_in(self, name: str, python: str, cases: dict[str, str]) -> str:
        """An interpreter that runs a shell script instead where its
        arguments match a shell pattern.
        """
        arms = "".join(f"{pattern})\n{script}\n;;\n" for pattern, script in cases.items())
        return str(
            self.add_tool(name, f'#!/bin/bash\ncase "$*" in\n{arms}esac\nexec {python} "$@"\n')
        )

    def run(
        self, script: str, *arguments: str, cwd: Path | None = None, **environ: str
    ) -> tuple[int, str]:
        """Run one of the scripts; exit status and both streams in the order they were written."""
        done = subprocess.run(
            [str(self.root / script), *arguments],
            env={**self.environ, **environ},
            cwd=cwd or self.root,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=300,
        )
        return done.returncode, done.stdout

    def python(self, code: str) -> str:
        """What a line of Python prints in the project's environment."""
        command = [str(self.root / ".venv" / "bin" / "python"), "-E", "-c", code]
        return subprocess.run(
            command, env=self.environ, capture_output=True, text=True, check=True
        ).stdout.strip()

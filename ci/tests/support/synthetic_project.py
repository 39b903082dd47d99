"""Projects: one that is set up in a second, one whose whole night takes seconds, and copies."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import shutil
import sqlite3
import subprocess
import sys
import zipfile
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pip

import folders
from folders import SUPPORT, UNFINISHED
from mpibench.store import sessions
from programs import begin, end_of
from reframe_tests.harness.sites.site import ROOT
from reframe_tests.harness.stacks.stack import Stack
from synthetic_session import STACKS, case
from synthetic_site import SYSTEM
from synthetic_stack import write_stack

# ---- A project that ci/setup and ci/test can set up in a second, without network: the real
# scripts, everything else tiny.

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
TOOLS = shlex.split("env cat dirname find flock grep mkdir readlink rm sed sha256sum tail")


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
        return folders.write(self.root / name, text)

    def add_tool(self, name: str, script: str) -> Path:
        """Put a shell script on the PATH."""
        return folders.write(self.tools / name, script, executable=True)

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

    def ends(self, status: int, script: str = "ci/setup", *arguments: str, **options: Any) -> str:
        """What one of the scripts says that ends with this exit status."""
        ended, said = self.run(script, *arguments, **options)
        assert ended == status, said
        return said

    def python(self, code: str) -> str:
        """What a line of Python prints in the project's environment."""
        command = [str(self.root / ".venv" / "bin" / "python"), "-E", "-c", code]
        return subprocess.run(
            command, env=self.environ, capture_output=True, text=True, check=True
        ).stdout.strip()


# ---- A project in which a whole ``ci/nightly`` takes seconds: the real scripts, ReFrame and
# commands, tests that replay a plan.


def copy(top: Path, *patterns: str) -> Path:
    """What the patterns name in the project, files and whole folders, in another place."""
    for path in (path for pattern in patterns for path in ROOT.glob(pattern)):
        target = top / path.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            shutil.copytree(path, target, ignore=UNFINISHED)
        else:
            shutil.copy(path, target)
    return top


def copy_checkout(top: Path, stacks: Iterable[Stack]) -> Path:
    """The bundled systems and the tests, with these stacks; results stay in the copy."""
    copy(
        top,
        "site_configs",
        "reframe_tests",
        "results/recorder",
        "environments/stack.schema.json",
    )
    for stack in stacks:
        text = Path(stack.source).read_text()
        folders.write(top / "environments" / stack.name / "stack.json", text)
    return top


#: What happens in each job before the "benchmark".
DURING = "eval $NIGHT_DURING; echo"


class NightProject:
    """The project in a folder of its own, with two stacks and one case on each."""

    def __init__(self, top: Path, stacks: Sequence[str] = tuple(STACKS)[:2]) -> None:
        self.top = top
        self.results = top / "results"
        copy(
            top,
            "ci/mpibench*",
            "ci/pipelines",
            "reframe_tests/harness",
            "ci/nightly",
            "site_configs/*.*",
            "environments/*.json",
            "reframe_tests/__init__.py",
        )
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
        return folders.write(self.top / name, text, executable=executable)

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
            # Looking at the nodes first, which takes a ReFrame of its own, is for who asks for it.
            "PREFLIGHT": "no",
        }
        not_set = dict.fromkeys(("LABEL", "MODE", "MAILTO"))
        words = [str(self.top / script), *options]
        return begin(words, self.top / folder, {**not_set, **settings, **environ})

    def run(
        self, *options: str, script: str = "ci/nightly", folder: str = "", **environ: str | None
    ) -> tuple[int, str]:
        """Exit status and output of a night."""
        return end_of(self.begin(*options, script=script, folder=folder, **environ))

    def ends(self, status: int, *options: str, **environ: str | None) -> str:
        """What a night says that ends with this exit status."""
        ended, said = self.run(*options, **environ)  # type: ignore[arg-type]
        assert ended == status, said
        return said

    @property
    def stored(self) -> list[str]:
        """Ids of the stored sessions."""
        return sessions.list_sessions(self.results / "results.db")

    @property
    def measured(self) -> sessions.Session:
        """Tonight's session."""
        return sessions.read_session(self.results / "results.db", self.session)

    @property
    def session(self) -> str:
        """Tonight's session id; empty if there is none."""
        path = self.results / "session-id"
        return path.read_text().strip() if path.exists() else ""


# ---- A table of stacks with tiny wheels of its own, so that installing can be tested without
# network and MPI. The MPI in them is two files: an ``mpirun`` that runs its command, and a
# ``libmpi`` that a matching ``mpi4py`` maps and whose version it reports from ``lib/version``.

MPIRUN = '#!/bin/sh\nshift 2\nexec "$@"\n'
IMB = '#!/bin/sh\necho "#    Intel(R) MPI Benchmarks 2021.11"\n'
MPI4PY = """
import mmap, os, pathlib

library = pathlib.Path(os.environ["MPI4PY_LIBMPI"])
stream = library.open("rb")
mapped = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)


class MPI:
    def Get_library_version():
        return library.with_name("version").read_text()
"""


def make_wheel(folder: Path, name: str, version: str, files: dict[str, str]) -> Path:
    """Write a wheel; paths below ``bin/`` and ``lib/`` are data files
    of the prefix, the others Python modules.
    """
    info = f"{name}-{version}.dist-info"
    data = f"{name}-{version}.data/data"
    content = {
        f"{data}/{path}" if path.split("/")[0] in ("bin", "lib") else path: text
        for path, text in files.items()
    }
    content[f"{info}/METADATA"] = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    content[f"{info}/WHEEL"] = (
        "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    )
    # Checksums and sizes may be left out (packaging.python.org, "Recording installed projects").
    record = f"{info}/RECORD"
    content[record] = "".join(f"{path},,\n" for path in (*content, record))
    wheel = folder / f"{name}-{version}-py3-none-any.whl"
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, text in content.items():
            entry = zipfile.ZipInfo(path)
            entry.external_attr = (0o100755 if "/bin/" in path else 0o100644) << 16
            archive.writestr(entry, text)
    return wheel


def make_mpi_wheel(folder: Path, name: str, version: str, imb: bool = False) -> Path:
    """A wheel with an MPI that reports ``<name> <version>``, with ``IMB-MPI1`` on request."""
    files = {"bin/mpirun": MPIRUN, "lib/libmpi.so.12": name, "lib/version": f"{name} {version}\0"}
    return make_wheel(folder, name, version, files | ({"bin/IMB-MPI1": IMB} if imb else {}))


def pin(wheel: Path) -> str:
    """The line of a requirement file for a wheel, with its checksum."""
    name, version = wheel.name.split("-")[:2]
    return f"{name}=={version} --hash=sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}\n"


def row(folder: str, wheel: str, **changes: Any) -> dict[str, Any]:
    """One row of the table, for the wheel pinned in ``<folder>.txt``."""
    return {
        "mpi": "mpich",
        "wheel": wheel,
        "requirements": [f"{folder}.txt", "mpi4py.txt"],
        "download_mb": 1,
        "machines": ["x86_64"],
        "glibc": "2.28",
        "device": "",
        "abi": "mpich",
        "launcher_family": "hydra",
        "library": "lib/libmpi.so.12",
        "library_version_pattern": f"^{wheel} {{version}}$",
        "env_vars": {"ROOT": "{prefix}"},
        **changes,
    }


def write_table(wheels: Path, index: Path, schema: Path) -> None:
    """Two stacks in ``wheels``: ``donor``, which ships IMB, and
    ``guest``, which runs it; their wheels in ``index``.
    """
    imb = {"version": "2021.11", "from": "donor", "binaries": ["IMB-MPI1"]}
    table = {
        "stacks": {
            "donor": row("donor", "donormpi", programs=imb),
            "guest": row("guest", "guestmpi", programs=imb),
        }
    }
    for name, text in {
        "stacks.yaml": json.dumps(table),  # JSON is YAML
        "stacks.schema.json": schema.read_text(),
        "donor.txt": pin(make_mpi_wheel(index, "donormpi", "1.2", imb=True)),
        "guest.txt": pin(make_mpi_wheel(index, "guestmpi", "3.4")),
        "mpi4py.txt": pin(make_wheel(index, "mpi4py", "4.1.2", {"mpi4py/__init__.py": MPI4PY})),
    }.items():
        folders.write(wheels / name, text)


# ---- One case of the project's tests as ReFrame is asked for it, and what tests change in a copy
# of the project.

NAME = "ImbPointToPoint%fabric=lo%nodes=1%ppn=2%pinning=bunch"
# ReFrame 4.10 forgets -p when --mode is given, so the level is set as the mode would.
ONE_CASE = ("-S", "level=smoke", "-n", NAME, "-p", "mpich-wheels")


def recommend(top: Path, variables: dict[str, str]) -> None:
    """The generic system's partition recommends variables for every stack."""
    path = top / "site_configs" / "generic" / "system.py"
    entry = {"section": "test", "stacks": ["*"], "env_vars": variables}
    path.write_text(
        f"{path.read_text()}\nfor row in system['partitions']:\n    row['extras']['recommended'] "
        f"= [{entry!r}]\n"
    )


# ---- What ReFrame says at the end of a run, and what it stores.


def last_session(database: Path) -> dict[str, Any]:
    """The last session of a database, as ReFrame wrote it."""
    with closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)) as db:
        [(text,)] = db.execute(
            "select json_blob from sessions order by session_start_unix desc limit 1"
        ).fetchall()
    session: dict[str, Any] = json.loads(text)
    return session


def last_cases(database: Path) -> list[dict[str, Any]]:
    """Test cases of the last session."""
    return [case for run in last_session(database)["runs"] for case in run["testcases"]]


def outcome(done: subprocess.CompletedProcess[str]) -> dict[str, int]:
    """Cases that ran, failed and were aborted."""
    match = re.search(r"Ran (\d+)/\d+ .*\((\d+) failure\(s\), .*?(\d+) aborted\)", done.stdout)
    assert match, done.stdout + done.stderr
    return dict(zip(("ran", "failed", "aborted"), map(int, match.groups()), strict=True))

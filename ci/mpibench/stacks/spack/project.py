"""Spack, and the folders in which it builds stacks.

Spack's output goes to a log file while the caller sees lines; if it fails, the error message starts
with Spack's own. It works in copies of the environments, ``results/spack/environments/<name>/``,
and so changes neither committed files nor those that a registered stack was built from: the lock
file beside ``stack.json`` is written when a stack is registered.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from packaging.version import InvalidVersion, Version

from reframe_tests.harness import yaml_file
from reframe_tests.harness.stacks import metadata
from reframe_tests.harness.vocabulary import BadInput

from .. import logged
from ..logged import Echo
from . import lock as lock_file
from .lock import Lock

#: Oldest Spack in which a folder of settings named on the command line counts more than the
#: environment: before, it counted less, so that ``openmpi-clang`` had to be built by gcc and
#: ``openmpi-ethernet`` kept its verbs.
MINIMUM = "1.1"
#: Release the stacks are built and tested with.
TAG = "v1.1.0"
#: How to get it; the recipes' own commit is pinned in
#: environments/common/repos.yaml, and Spack fetches them by itself.
GET = (
    f"git clone --depth=1 --branch={TAG} https://github.com/spack/spack.git",
    "export SPACK_ROOT=$PWD/spack",
)
#: Keeps out ~/.spack and /etc/spack: what is built follows from the
#: project, the site's scope and that Spack alone.
ISOLATED = {"SPACK_DISABLE_LOCAL_CONFIG": "1"}
#: Lines of Spack, git and its solver that say why they fetch nothing. What
#: Spack says then is that something else is missing.
_OFFLINE = re.compile(
    r"^.*(?:Could not resolve host|unable to access 'https?:|Failed to (?:clone|fetch"
    r"|update) package|All fetchers failed"
    r"|(?i:cannot|failed to) bootstrap).*$",
    re.M,
)
#: Characters of an error that are shown.
_SHOWN = 300
ENVIRONMENT = "spack.yaml"
#: File of a folder of settings that says how the stacks it makes differ.
PACKAGES = "packages.yaml"
#: Folder of settings that all environments share.
COMMON = "common"
#: Lines of Spack 1.x's installer worth showing.
PROGRESS = re.compile(
    r"==> (?:Installing (?P<new>\S+?)(?:-\w{32})?(?:\s|$)"
    r"|Extracting (?P<cached>\S+?)(?:-\w{32})? from binary cache)"
)


@dataclass(frozen=True)
class Spack:
    """A Spack that can be used, and the environment it is run in."""

    program: str
    version: str
    environ: Mapping[str, str]

    def run(
        self,
        words: Sequence[str],
        *,
        log: Path,
        what: str,
        echo: Echo,
        shown: Callable[[str], str] = lambda line: "",
        remedy: str = "",
    ) -> str:
        """Run it to its end; returns what it wrote to both streams.

        :param what: what it is doing, for lines and sentences (``openmpi: concretizing``).
        """
        status, output = logged.run(
            [self.program, "--color=never", *words], log, what, echo, self.environ, shown=shown
        )
        if not status:
            return output
        if found := _OFFLINE.search(output):
            line = found[0].strip()[:_SHOWN]
            reason = f"no network? ({line})" + (
                "" if "Error: " in line else f", and then: {first_error(output)}"
            )
            remedy = "add a mirror or build cache to the site's scope, as docs/how-to/spack.md says"
        else:
            reason = first_error(output) or f"Spack ended with status {status}"
        raise BadInput(
            "tool-failed", f"{what}: {reason.rstrip('.')}; {remedy or 'see the log'} (log: {log})."
        )


def first_error(output: str) -> str:
    """Spack's first error with its continuation lines; without one, the last line that is not
    empty.
    """
    found = re.search(r"Error: (.*\S(?:\n[ \t]+\S.*)*)", output)
    text = found[1] if found else next(iter(output.strip().splitlines()[-1:]), "")
    return " ".join(text.split())[:_SHOWN]


def locate_spack(environ: Mapping[str, str] = os.environ) -> Spack:
    """The Spack of ``SPACK_ROOT``, else of PATH."""
    get = f"get it with '{GET[0]}' and '{GET[1]}'"
    root = environ.get("SPACK_ROOT", "")
    program = f"{root}/bin/spack" if root else shutil.which("spack", path=environ.get("PATH", ""))
    if not program:
        raise BadInput("tool-missing", f"Spack is neither in SPACK_ROOT nor on PATH; {get}.")
    if not os.access(program, os.X_OK):
        raise BadInput(
            "tool-missing", f"SPACK_ROOT is {root}, but there is no {program}; unset it, or {get}."
        )
    inside = {**ISOLATED, **environ}
    try:
        done = logged.ask([program, "--version"], inside, 120)
        word = next(iter(done.stdout.split()), "")
        if done.returncode or Version(word) < Version(MINIMUM):
            said = first_error(done.stderr + done.stdout) if done.returncode else f"it is {word}"
            raise BadInput(
                "configuration-unusable",
                f"{program} cannot be used ({said}); Spack {MINIMUM} or newer is needed: {get}.",
            )
    except (OSError, subprocess.TimeoutExpired, InvalidVersion) as error:
        raise BadInput(
            "configuration-unusable", f"{program} gives no version ({error}); {get}."
        ) from error
    return Spack(program, word, inside)


@dataclass
class Project:
    """Where things are, and what everything is reported through.

    :param configured: all package settings in effect, as text, by environment.
    """

    root: Path
    spack: Spack
    scope: Path | None
    echo: Echo
    system: str | None = None
    configured: dict[str, str] = field(default_factory=dict)
    concretized: dict[str, Lock] = field(default_factory=dict)

    @property
    def place(self) -> Path:
        """Folder for everything that building leaves and that can be thrown away."""
        return self.root / "results" / "spack"

    def folder(self, name: str) -> Path:
        """Folder of an environment as committed, and of its stack's metadata."""
        return self.root / "environments" / name

    def work(self, name: str) -> Path:
        """Folder Spack works in for an environment."""
        return self.place / "environments" / name

    def lock(self, name: str) -> Path:
        """The solution that is worked with."""
        return self.work(name) / lock_file.LOCK

    def log(self, name: str) -> Path:
        return self.place / f"{name}.log"

    def source(self, name: str) -> Path:
        """The ``spack.yaml`` of an environment: its own, or of the one it is derived from."""
        return self.folder(split(self.root, name)[0]) / ENVIRONMENT

    def files(self, name: str) -> list[Path]:
        """Every Spack file a concretization follows from, the one that counts most first."""
        scope = sorted(self.scope.glob("*.yaml")) if self.scope else []
        shared = [
            path
            for shared_name in list_shared(self.root, name)
            for path in sorted(self.folder(shared_name).glob("*.yaml"))
        ]
        return [*scope, self.source(name), *shared]

    def check_files(self, name: str) -> None:
        """Refuse a file that is not YAML; Spack names its first line, whatever line is wrong.

        :raises BadInput: naming file and line, or a folder of settings that
            says nothing: its stack would be another's.
        """
        for path in self.files(name):
            yaml_file.read(path)
        for change in split(self.root, name)[1]:
            path = self.folder(change) / PACKAGES
            if not (path.exists() and (yaml_file.read(path) or {}).get("packages")):
                raise BadInput(
                    "file-missing",
                    f"{name} needs {path}, which is missing or has no packages; write it.",
                )

    def prepare(self, name: str) -> Path:
        """The folder Spack works in, with the environment as it is
        now and the way to what it refers to.
        """
        folder = self.work(name)
        folder.mkdir(parents=True, exist_ok=True)
        links = {
            folder.parent / shared: f"../../../environments/{shared}"
            for shared in list_shared(self.root, name)
        }
        for link, target in {**links, self.place / "repo": "../../repo"}.items():
            if not link.is_symlink():
                link.symlink_to(target)
        text = self.source(name).read_text()
        copy = folder / ENVIRONMENT
        if not copy.exists() or copy.read_text() != text:
            copy.write_text(text)
        return folder

    def run(
        self,
        name: str,
        what: str,
        *words: str,
        remedy: str = "",
        show: bool = False,
        scopes: tuple[str, ...] = (),
    ) -> str:
        """Run Spack in an environment; see :meth:`Spack.run`.

        :param scopes: folders of further configuration, which count more than all others.
        """
        folder = self.prepare(name)
        # Of several scopes on Spack's command line the last one counts most.
        scopes = (
            *scopes,
            *(str(self.folder(change)) for change in reversed(split(self.root, name)[1])),
        )

        def progress(line: str) -> str:
            found = PROGRESS.match(line) if show else None
            if not found:
                return ""
            return (
                f"{name}: installing {found['new']}"
                if found["new"]
                else f"{name}: {found['cached']} from the build cache"
            )

        command = [*(word for scope in scopes for word in ("-C", scope)), "-e", str(folder), *words]
        about = {"log": self.log(name), "what": f"{name}: {what}", "remedy": remedy}
        try:
            return self.spack.run(command, echo=self.echo, shown=progress, **about)  # type: ignore[arg-type]
        except BadInput as error:  # about a copy, where the file it is of has to be corrected
            raise BadInput(
                "configuration-unusable",
                str(error).replace(
                    str(self.place / "environments"), str(self.root / "environments")
                ),
            ) from None


def list_environments(root: Path = metadata.ROOT) -> list[str]:
    """Names of the environments Spack can build, in alphabetical order."""
    return [path.parent.name for path in sorted((root / "environments").glob(f"*/{ENVIRONMENT}"))]


def list_changes(root: Path = metadata.ROOT) -> list[str]:
    """Ends of names, of the folders of settings that make another
    stack of each environment: ``-clang``.
    """
    return [
        path.name.removeprefix(COMMON)
        for path in sorted((root / "environments").glob(f"{COMMON}-*"))
    ]


def list_readings(root: Path, name: str) -> list[tuple[str, tuple[str, ...]]]:
    """What a name can mean: an environment with a ``spack.yaml``, and the
    folders of settings it is built with beyond that.

    ``mpich-ucx-clang`` is ``mpich`` with ``common-clang/`` and ``common-ucx/``, the one that counts
    most first, unless it has a ``spack.yaml`` itself. With ``common-x/``, ``common-v5/`` and
    ``common-x-v5/`` the name ``mpich-x-v5`` means two stacks.
    """
    if (root / "environments" / name / ENVIRONMENT).is_file():
        return [(name, ())]
    return [
        (base, (COMMON + end, *changes))
        for end in list_changes(root)
        if name.endswith(end) and name != end
        for base, changes in list_readings(root, name.removesuffix(end))
        if COMMON + end not in changes
    ]


def split(root: Path, name: str) -> tuple[str, tuple[str, ...]]:
    """What a name means (:func:`list_readings`); of a name that means nothing, itself."""
    return next(iter(list_readings(root, name)), (name, ()))


def _spack_file(root: Path, folder: str, name: str) -> dict[str, Any]:
    """A file's settings; empty if it is missing or damaged, as checks or Spack report."""
    path = root / "environments" / folder / name
    try:
        document = yaml_file.read(path) if path.exists() else None
    except BadInput:
        document = None
    settings = document.get("spack", document) if isinstance(document, dict) else None
    return settings if isinstance(settings, dict) else {}


def specs_of(root: Path, name: str) -> list[str]:
    """What an environment asks for."""
    rows = _spack_file(root, split(root, name)[0], ENVIRONMENT).get("specs")
    return list(map(str, rows)) if isinstance(rows, list) else []


def list_shared(root: Path, name: str) -> list[str]:
    """Names of the shared folders of settings that an environment includes, without its own and the
    site's.
    """
    base, changes = split(root, name)
    rows = _spack_file(root, base, ENVIRONMENT).get("include")
    found = (
        [Path(row).name for row in rows if isinstance(row, str)] if isinstance(rows, list) else []
    )
    return [*changes, *(found or [COMMON])]


def list_of_site(root: Path, name: str) -> list[str]:
    """Packages that an environment takes from the site and Spack does not
    build: a toolkit, a compiler, a vendor's MPI.

    Those that its own ``spack.yaml`` and its folders of settings say nothing else of.
    """
    shared = [folder for folder in list_shared(root, name) if folder != COMMON]
    said = [
        _spack_file(root, split(root, name)[0], ENVIRONMENT),
        *(_spack_file(root, shared_name, PACKAGES) for shared_name in shared),
    ]
    packages = [content.get("packages") for content in said]
    rows = [row for settings in packages if isinstance(settings, dict) for row in settings.items()]
    return sorted({package for package, settings in rows if settings == {"buildable": False}})


def list_by_default(root: Path = metadata.ROOT) -> list[str]:
    """Names of the environments that are built when none is named:
    those that need no device and no vendor's MPI.
    """
    names = [name for name in list_environments(root) if list_shared(root, name) == [COMMON]]
    return [name for name in names if not list_of_site(root, name)]

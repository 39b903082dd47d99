"""Where a build happens: Spack works in copies of the environments, so that it changes neither what is committed nor what a
registered stack was built from.

``results/spack/environments/<name>/`` has the environment's ``spack.yaml`` and its concretization as worked with. The lock file
beside ``stack.json`` in ``environments/<name>/`` is written when the stack is registered, and by nothing else.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from reframe_tests.harness import yaml_file
from reframe_tests.harness.stacks import metadata
from reframe_tests.harness.vocabulary import BadInput

from . import lock as lock_file
from .lock import Lock
from .tool import Echo, Spack

ENVIRONMENT = "spack.yaml"
#: File of a folder of settings that says how the stacks it makes differ.
PACKAGES = "packages.yaml"
#: Folder of settings that all environments share.
COMMON = "common"
#: Lines of Spack 1.x's installer worth showing.
PROGRESS = re.compile(
    r"==> (?:Installing (?P<new>\S+?)(?:-\w{32})?(?:\s|$)|Extracting (?P<cached>\S+?)(?:-\w{32})? from binary cache)"
)


@dataclass
class Project:
    """Where things are, and what everything is reported through.

    :param scope: the site's configuration scope, or none.
    :param system: name of the system, where the user gave one.
    :param extra: words before every Spack command (the mirrors' own scope).
    :param configured: all package settings in effect, as text, by environment.
    """

    root: Path
    spack: Spack
    scope: Path | None
    echo: Echo
    system: str | None = None
    extra: tuple[str, ...] = ()
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
        """Log file of an environment's build."""
        return self.place / f"{name}.log"

    def files(self, name: str) -> list[Path]:
        """Every Spack file a concretization follows from, the one that counts most first."""
        scope = sorted(self.scope.glob("*.yaml")) if self.scope else []
        shared = [path for folder in self.shared(name) for path in sorted(folder.glob("*.yaml"))]
        return [*scope, self.base(name) / ENVIRONMENT, *shared]

    def base(self, name: str) -> Path:
        """Folder whose ``spack.yaml`` an environment has: its own, or of the one it is derived from."""
        return self.root / "environments" / split(self.root, name)[0]

    def shared(self, name: str) -> list[Path]:
        """Folders of settings that an environment shares with others, the one that counts most first."""
        return [self.folder(name).parent / folder for folder in list_shared(self.root, name)]

    def check_files(self, name: str) -> None:
        """Refuse a file that is not YAML; Spack names its first line, whatever line is wrong.

        :raises BadInput: naming file and line, or a folder of settings that says nothing: its stack would be another's.
        """
        for path in self.files(name):
            yaml_file.read(path)
        for change in split(self.root, name)[1]:
            path = self.folder(change) / PACKAGES
            if not (path.exists() and (yaml_file.read(path) or {}).get("packages")):
                raise BadInput(
                    "spack-yaml-missing", f"{name} is to be built as {path} says, which is not there or says nothing; write it."
                )

    def prepare(self, name: str) -> Path:
        """The folder Spack works in, with the environment as it is now and the way to what it refers to."""
        folder = self.work(name)
        folder.mkdir(parents=True, exist_ok=True)
        links = {folder.parent / shared.name: f"../../../environments/{shared.name}" for shared in self.shared(name)}
        for link, target in {**links, self.place / "repo": "../../repo"}.items():
            if not link.is_symlink():
                link.symlink_to(target)
        text, copy = (self.base(name) / ENVIRONMENT).read_text(), folder / ENVIRONMENT
        if not copy.exists() or copy.read_text() != text:
            copy.write_text(text)
        return folder

    def run(self, name: str, what: str, *words: str, remedy: str = "", show: bool = False, scopes: tuple[str, ...] = ()) -> str:
        """Run Spack in an environment; see :meth:`tool.Spack.run`.

        :param scopes: folders of further configuration, which count more than all others.
        """
        folder = self.prepare(name)
        # Of several scopes on Spack's command line the last one counts most.
        scopes = (*scopes, *(str(self.root / "environments" / change) for change in reversed(split(self.root, name)[1])))

        def progress(line: str) -> str:
            found = PROGRESS.match(line) if show else None
            if not found:
                return ""
            return f"{name}: installing {found['new']}" if found["new"] else f"{name}: {found['cached']} from the build cache"

        try:
            return self.spack.run(
                [*self.extra, *(word for scope in scopes for word in ("-C", scope)), "-e", str(folder), *words],
                log=self.log(name),
                what=f"{name}: {what}",
                echo=self.echo,
                shown=progress,
                remedy=remedy,
            )
        except BadInput as error:  # about a copy, where the file it is of has to be corrected
            raise BadInput(
                "spack-yaml-unusable", str(error).replace(str(self.place / "environments"), str(self.root / "environments"))
            ) from None


def list_environments(root: Path = metadata.ROOT) -> list[str]:
    """Names of the environments Spack can build, in alphabetical order."""
    return [path.parent.name for path in sorted((root / "environments").glob(f"*/{ENVIRONMENT}"))]


def split(root: Path, name: str) -> tuple[str, tuple[str, ...]]:
    """The environment with a ``spack.yaml`` that one is, and the folders of settings it is built with beyond that.

    ``mpich-ucx-clang`` is ``mpich`` with ``common-clang/`` and ``common-ucx/``, the one that counts most first, unless it has a
    ``spack.yaml`` itself.
    """
    base, changes = name, []
    while not (root / "environments" / base / ENVIRONMENT).is_file():
        end = next((end for end in list_changes(root) if base.endswith(end) and base != end), "")
        if not end or COMMON + end in changes:
            return name, ()
        base = base.removesuffix(end)
        changes.append(COMMON + end)
    return base, tuple(changes)


def list_changes(root: Path = metadata.ROOT) -> list[str]:
    """Ends of names, of the folders of settings that make another stack of each environment: ``-clang``."""
    return [path.name.removeprefix(COMMON) for path in sorted((root / "environments").glob(f"{COMMON}-*"))]


def list_shared(root: Path, name: str) -> list[str]:
    """Names of the folders of settings that an environment includes, all beside its own; what the site has is none of them."""
    base, changes = split(root, name)
    try:
        rows = yaml_file.read(root / "environments" / base / ENVIRONMENT)["spack"]["include"]
    except (BadInput, KeyError, TypeError):
        rows = ()  # said when the files are checked, or by Spack
    found = [Path(row).name for row in rows if isinstance(row, str)]
    return [*changes, *(found or [COMMON])]


def list_of_site(root: Path, name: str) -> list[str]:
    """Packages that an environment takes from the site and Spack does not build: a toolkit, a compiler, a vendor's MPI.

    Those that its own ``spack.yaml`` and its folders of settings say nothing else of.
    """
    files = [root / "environments" / split(root, name)[0] / ENVIRONMENT]
    files += [root / "environments" / folder / PACKAGES for folder in list_shared(root, name) if folder != COMMON]
    try:
        documents = [yaml_file.read(path) or {} for path in files if path.exists()]
        rows = [row for each in documents for row in ((each.get("spack") or each).get("packages") or {}).items()]
    except (BadInput, AttributeError):
        return []  # said when the files are checked, or by Spack
    return sorted({package for package, settings in rows if settings == {"buildable": False}})


def list_by_default(root: Path = metadata.ROOT) -> list[str]:
    """Names of the environments that are built when none is named: those that need no device and no vendor's MPI."""
    names = [name for name in list_environments(root) if list_shared(root, name) == [COMMON]]
    return [name for name in names if not list_of_site(root, name)]

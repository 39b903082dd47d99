"""Imports the project's Spack recipes without Spack: directives are
recorded, nothing else of Spack is there.
"""

from __future__ import annotations

import importlib.util
import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reframe_tests.harness.stacks import metadata

#: What a class body declares with.
DIRECTIVES = (
    "conflicts",
    "depends_on",
    "extends",
    "license",
    "maintainers",
    "patch",
    "provides",
    "requires",
    "variant",
    "version",
)


#: What mixins for GPUs list.
GPUS = {"cuda_arch_values": ("80", "90"), "amdgpu_targets": ("gfx90a",)}


@dataclass
class Recipe:
    """A recipe as its directives tell it."""

    folder: Path
    module: types.ModuleType
    directives: dict[str, list[tuple[tuple[Any, ...], dict[str, Any]]]] = field(
        default_factory=dict
    )

    @property
    def name(self) -> str:
        """As users write it."""
        return self.folder.name.replace("_", "-")

    @property
    def package(self) -> type:
        """The class Spack looks for: the name in camel case."""
        return getattr(
            self.module, "".join(part.capitalize() for part in self.folder.name.split("_"))
        )

    def of(self, directive: str) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
        """Arguments of each use of a directive, in order."""
        return self.directives.get(directive, [])


class Anything:
    """Stands for every function and value of Spack that is not a
    directive; using it while importing gives it again.
    """

    def __call__(self, *words: Any, **named: Any) -> Any:
        # Used as a decorator, `run_after("install")` must leave the method as it is.
        return (
            words[0]
            if len(words) == 1 and not named and isinstance(words[0], types.FunctionType)
            else self
        )

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self


def _spack_package(recorded: dict[str, list[Any]]) -> types.ModuleType:
    module = types.ModuleType("spack.package")

    def recorder(name: str) -> Any:
        return lambda *words, **named: recorded.setdefault(name, []).append((words, named))

    for name in DIRECTIVES:
        setattr(module, name, recorder(name))
    module.__getattr__ = lambda name: Anything()  # type: ignore[method-assign]
    return module


def _builtin(name: str) -> types.ModuleType:
    """A module of the builtin repository: each name in it is a class
    that knows some GPUs and nothing else.
    """
    module = types.ModuleType(name)
    module.__getattr__ = lambda wanted: type(wanted, (), dict(GPUS))  # type: ignore[method-assign]
    return module


@contextmanager
def _without_spack(repo: Path, recorded: dict[str, list[Any]]) -> Iterator[None]:
    """``spack.package``, ``spack_repo.builtin...`` and
    ``spack_repo.mpibench...`` can be imported inside.
    """

    class Finder:
        def find_spec(self, name: str, path: object = None, target: object = None) -> Any:
            if name == "spack.package":
                return importlib.util.spec_from_loader(name, Loader(_spack_package(recorded)))
            if name.startswith("spack_repo.mpibench."):
                return importlib.util.spec_from_file_location(
                    name, repo / f"{name.rsplit('.', 1)[1]}.py"
                )
            if name == "spack" or name.split(".")[0] == "spack_repo":
                return importlib.util.spec_from_loader(
                    name, Loader(_builtin(name)), is_package=True
                )
            return None

    class Loader:
        def __init__(self, module: types.ModuleType) -> None:
            self.module = module

        def create_module(self, spec: Any) -> types.ModuleType:
            return self.module

        def exec_module(self, module: types.ModuleType) -> None:
            return None

    finder = Finder()
    sys.meta_path.insert(0, finder)  # type: ignore[arg-type]
    try:
        yield
    finally:
        sys.meta_path.remove(finder)  # type: ignore[arg-type]
        for name in [name for name in sys.modules if name.split(".")[0] in ("spack", "spack_repo")]:
            del sys.modules[name]


def read(folder: Path) -> Recipe:
    """Import ``folder/package.py`` of the repository two levels up."""
    recorded: dict[str, list[Any]] = {}
    with _without_spack(folder.parents[1], recorded):
        spec = importlib.util.spec_from_file_location(
            f"recipe_{folder.name}", folder / "package.py"
        )
        assert spec and spec.loader
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return Recipe(folder, module, recorded)


REPO = metadata.ROOT / "repo" / "spack_repo" / "mpibench"
FOLDERS = sorted(path.parent for path in REPO.glob("packages/*/package.py"))
#: The project's recipes by name.
RECIPES = {recipe.name: recipe for recipe in map(read, FOLDERS)}

"""Records of a room: one per file (or folder), found by themselves, and a site's own beside them.

A room such as ``mpis`` is a package in which each module that holds one record says so with one name (``MPI = Mpi(...)``).
``MPIBENCH_EXTENSIONS`` names further folders, separated by colons; ``<folder>/mpis/*.py`` is read like the room's own files, so
that a site adds a record without a change of the checkout.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import pkgutil
import sys
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol, TypeVar

from .vocabulary import BadInput

#: Colon-separated folders, each with a subfolder per room.
EXTENSIONS = "MPIBENCH_EXTENSIONS"
#: Rooms that can be extended: the subfolders such a folder may have.
ROOMS = ("mpis", "launchers", "suites")


class Named(Protocol):
    """What a room holds."""

    @property
    def name(self) -> str:
        """Its name, unique in the room."""
        ...


Record = TypeVar("Record", bound=Named)


def load(
    package: str, attribute: str, kind: type[Record], check: Callable[[Record], str] = lambda record: ""
) -> dict[str, Record]:
    """The records of a room by name: its own in the order of their files, then those of :data:`EXTENSIONS`.

    :param package: the room; its ``SHARED`` names the modules that hold no record. Whatever else is there must hold one: a
        misspelt ``attribute`` would otherwise leave it out in silence.
    :param attribute: name of the record in its module.
    :param check: what is wrong with a record, as the end of a sentence; empty where nothing is.
    :raises BadInput: for an extension that cannot be read, a module without a record, or a name that is taken.
    """
    return dict(_load(package, attribute, kind, check, os.environ.get(EXTENSIONS, "")))


@lru_cache(maxsize=16)
def _load(package: str, attribute: str, kind: type[Any], check: Callable[[Any], str], extensions: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for module in (*_own(package), *_further(package, extensions)):
        record, source = getattr(module, attribute, None), str(module.__file__)
        if not isinstance(record, kind):
            within = module.__name__.startswith(f"{package}.")
            remedy = f"name it in SHARED of {package}" if within else "move the file elsewhere"
            raise BadInput(f"{source} defines no {attribute} = {kind.__name__}(...); add it, or {remedy}.")
        if record.name in found:
            raise BadInput(f"{sources[record.name]} and {source} both describe {record.name!r}; rename or remove one.")
        if wrong := check(record):
            raise BadInput(f"{source}: {wrong}.")
        found[record.name], sources[record.name] = record, source
    return found


def extension_files() -> list[Path]:
    """Every Python file of :data:`EXTENSIONS`, whatever its room."""
    folders = [Path(entry).expanduser().absolute() for entry in filter(None, os.environ.get(EXTENSIONS, "").split(":"))]
    return [path for folder in folders for room in ROOMS for path in sorted((folder / room).rglob("*.py"))]


def _own(package: str) -> Iterator[ModuleType]:
    """Modules of the room itself that must hold a record."""
    room = importlib.import_module(package)
    names = [row.name for row in pkgutil.iter_modules(room.__path__)]
    yield from (importlib.import_module(f"{package}.{name}") for name in names if name not in room.SHARED)


def _further(package: str, extensions: str) -> Iterator[ModuleType]:
    """Every module of the room's extensions."""
    room = package.rpartition(".")[2]
    for entry in filter(None, extensions.split(":")):
        folder = Path(entry).expanduser().absolute()
        if not folder.is_dir():
            raise BadInput(f"{EXTENSIONS} names {entry}, which is not a folder; correct it or unset the variable.")
        if not any((folder / name).is_dir() for name in ROOMS):
            raise BadInput(f"{EXTENSIONS} names {entry}, which has no folder {' or '.join(ROOMS)}; put the files there.")
        paths = sorted((*(folder / room).glob("*.py"), *(folder / room).glob("*/__init__.py")))
        yield from (_execute(room, path) for path in paths)


def _execute(room: str, path: Path) -> ModuleType:
    """The module of a file that no package holds, under a name of its own."""
    inside = path.name == "__init__.py"
    stem = path.parent.name if inside else path.stem
    name = f"mpibench_{room}_{stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
    spec = importlib.util.spec_from_file_location(name, path, submodule_search_locations=[str(path.parent)] if inside else None)
    if spec is None or spec.loader is None:
        raise BadInput(f"{path} is not a Python file; correct it, or take it out of the folder.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    try:
        spec.loader.exec_module(module)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # sys.exit() among them, which would end whatever loads it, perhaps with status 0
        del sys.modules[name]
        reason = " ".join(str(error).split())
        raise BadInput(f"{path} cannot be read ({type(error).__name__}: {reason}); correct the Python in it.") from error
    return module

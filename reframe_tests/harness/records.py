"""Records of a folder ("room"): one per file or sub-folder, found automatically, with a site's own
beside them.

A room such as ``mpis`` is a package in which each module with a record exports it under one name
(``MPI = Mpi(...)``). ``MPIBENCH_EXTENSIONS`` names further folders, separated by colons;
``<folder>/mpis/*.py`` is read like the room's own files, so a site adds a record without changing
the checkout.
"""

from __future__ import annotations

import dataclasses
import difflib
import hashlib
import importlib
import importlib.util
import os
import pkgutil
import re
import stat
import sys
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol, TypeVar

import msgspec

from . import optional_file
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
    package: str,
    attribute: str,
    kind: type[Record],
    check: Callable[[Record], str] = lambda record: "",
) -> dict[str, Record]:
    """The records of a room by name: its own in the order of their
    files, then those of :data:`EXTENSIONS`.

    :param package: the room; its ``SHARED`` names the modules that hold no record. Whatever else is
        there must hold one: a misspelt ``attribute`` would otherwise leave it out in silence.
    :param attribute: name of the record in its module.
    :param check: what is wrong with a record, as the end of a sentence; empty if nothing is.
    :raises BadInput: for an extension that cannot be read, a module
        without a record, or a name that is taken.
    """
    return dict(_load(package, attribute, kind, check, os.environ.get(EXTENSIONS, "")))


@lru_cache(maxsize=16)
def _load(
    package: str, attribute: str, kind: type[Any], check: Callable[[Any], str], extensions: str
) -> dict[str, Any]:
    room = importlib.import_module(package)
    names = [row.name for row in pkgutil.iter_modules(room.__path__) if row.name not in room.SHARED]
    own = [importlib.import_module(f"{package}.{name}") for name in names]
    loaded: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for module in (*own, *_further(package, extensions)):
        source = str(module.__file__)
        given = getattr(module, attribute, None)
        for record in given if isinstance(given, tuple) and given else (given,):
            if not isinstance(record, kind):
                remedy = (
                    f"name it in SHARED of {package}"
                    if module in own
                    else "move the file elsewhere"
                )
                raise BadInput(
                    "file-missing",
                    f"{source} defines no {attribute} = {kind.__name__}(...); add it, or {remedy}.",
                )
            # Of the project's own a type checker says so, and it takes 0.1 s.
            mistyped = "" if module in own else _find_mistyped(record)
            if record.name in loaded:
                raise BadInput(
                    "name-taken",
                    f"{sources[record.name]} and {source} both describe {record.name!r}; rename "
                    "or remove one.",
                )
            try:
                wrong = check(record)
            except Exception:
                if not mistyped:
                    raise
                wrong = ""
            if wrong or mistyped:
                raise BadInput(
                    "configuration-unusable",
                    f"{source}: {wrong or f'{attribute}: {mistyped}; correct it'}.",
                )
            loaded[record.name] = record
            sources[record.name] = source
    return loaded


def extension_folders() -> list[Path]:
    """Folders that :data:`EXTENSIONS` names."""
    return [
        optional_file.named(entry).absolute()
        for entry in filter(None, os.environ.get(EXTENSIONS, "").split(":"))
    ]


def extension_files() -> list[Path]:
    """Every Python file of :data:`EXTENSIONS`, whatever its room."""
    return [
        path
        for folder in extension_folders()
        for room in ROOMS
        for path in sorted((folder / room).rglob("*.py"))
    ]


def _further(package: str, extensions: str) -> Iterator[ModuleType]:
    room = package.rpartition(".")[2]
    for entry in filter(None, extensions.split(":")):
        folder = optional_file.named(entry).absolute()
        if room not in _rooms_of(entry, folder):
            continue
        inside = [
            path / "__init__.py"
            for path in (folder / room).glob("*")
            if optional_file.is_there(path / "__init__.py")
        ]
        for path in sorted((*(folder / room).glob("*.py"), *inside)):
            for below in (path.parent, *(path.parent.rglob("*.py") if path in inside else [path])):
                _expect_owners(below, folder)
            yield _execute(room, path)


def _rooms_of(entry: str, folder: Path) -> list[str]:
    """Rooms a folder of :data:`EXTENSIONS` extends; all can be read, and none is misspelt.

    :raises BadInput: otherwise.
    """
    path = folder
    try:
        if not path.is_dir():
            raise BadInput(
                "configuration-unusable",
                f"{EXTENSIONS} names {entry}, which is not a folder; correct or unset it.",
            )
        names = [below.name for below in path.iterdir()]
        rooms = [name for name in ROOMS if name in names]
        for path in (folder / name for name in rooms):
            list(path.iterdir())
    except OSError as error:
        raise BadInput(
            "configuration-unusable",
            f"{EXTENSIONS} names {entry}: {path} cannot be read ({error.strerror}); correct its "
            "permissions.",
        ) from None
    for name in set(names) - set(rooms):
        if meant := difflib.get_close_matches(name.lower(), ROOMS, 1, 0.75):
            raise BadInput(
                "configuration-unusable",
                f"{EXTENSIONS} names {entry}, whose folder {name} is not read; rename it to "
                f"{meant[0]}, or move it elsewhere.",
            )
    if not rooms:
        raise BadInput(
            "configuration-unusable",
            f"{EXTENSIONS} names {entry}, which has no folder {' or '.join(ROOMS)}; put the "
            "files there.",
        )
    for path in (folder, *(folder / name for name in rooms)):
        _expect_owners(path, folder)
    return rooms


def _expect_owners(path: Path, folder: Path) -> None:
    """Nobody but the caller, root, the owner of the named folder and
    their group can change what will be executed.

    A team's shared folder is writable by its group on purpose; one
    that everybody can write is a mistake.

    :raises BadInput: somebody else can.
    """
    try:
        about, top = path.stat(), folder.stat()
    except OSError:
        return  # whoever reads it says so
    # Whoever owns "/" can change everything anyway; that is root, by
    # another number in a user namespace.
    owned = about.st_uid in (os.getuid(), Path("/").stat().st_uid, top.st_uid)
    if not owned or about.st_mode & stat.S_IWOTH:
        raise BadInput(
            "configuration-unusable",
            f"{path} is writable for others, but its Python code is executed; 'chmod o-w {path}' "
            f"if it is yours, otherwise remove it from {EXTENSIONS}.",
        )


def _execute(room: str, path: Path) -> ModuleType:
    inside = path.name == "__init__.py"
    stem = path.parent.name if inside else path.stem
    name = f"mpibench_{room}_{stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
    spec = importlib.util.spec_from_file_location(
        name, path, submodule_search_locations=[str(path.parent)] if inside else None
    )
    if spec is None or spec.loader is None:
        raise BadInput(
            "file-unreadable",
            f"{path} is not a Python file; correct it, or remove it from the folder.",
        )
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    try:
        spec.loader.exec_module(module)
    except KeyboardInterrupt:
        raise
    except (
        BaseException
    ) as error:  # sys.exit() among them, which would end whatever loads it, perhaps with status 0
        del sys.modules[name]
        reason = " ".join(str(error).split()) + _nearest(error, module)
        raise BadInput(
            "file-unreadable",
            f"{path} cannot be read ({type(error).__name__}: {reason}); correct its Python code.",
        ) from error
    return module


def _find_mistyped(record: Any) -> str:
    """What a type checker would say first of a record's fields; empty
    where their values are of their types.
    """
    try:
        typed = msgspec.convert(dataclasses.asdict(record), type(record))
    except msgspec.ValidationError as error:
        message, _, where = str(error).removesuffix("`").partition(" - at `$.")
        words = re.fullmatch(r"Expected `(.*)`, got `(.*)`", message)
        wanted = (
            words[1].replace("array", "a tuple (one of a single element ends with a comma)")
            if words
            else ""
        )
        return (
            f"{where!r} is of type {words[2]}, not {wanted}" if words else f"{where!r}: {message}"
        )
    # What msgspec takes for a tuple although it is none.
    changed = [
        field.name
        for field in dataclasses.fields(record)
        if getattr(typed, field.name) != getattr(record, field.name)
    ]
    return f"{changed[0]!r} has a list or set instead of a tuple" if changed else ""


def _nearest(error: BaseException, module: ModuleType) -> str:
    """The field that was meant by one that its class has not, as the end
    of a sentence; empty if nothing is near.
    """
    asked = re.search(r"(\w+)\.__init__\(\) got an unexpected keyword argument '(\w+)'", str(error))
    kind = getattr(module, asked[1], None) if asked else None
    if asked is None or not dataclasses.is_dataclass(kind):
        return ""
    meant = difflib.get_close_matches(
        asked[2], [field.name for field in dataclasses.fields(kind)], 1
    )
    return f"; the nearest field is {meant[0]!r}" if meant else ""

"""Environment modules of a stack: as ReFrame names them, and what they were when it was registered.

A site may replace its modules without notice. So the record has each module's file with its
checksum and what loading it changed; the job's log and ``mpibench doctor`` are compared with it,
and a module that changed or vanished is named.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

#: Beginnings of the names of variables in which Lmod and Environment Modules keep their own books
#: (Lmod's documentation, "Lmod and the environment"; module(1), section ENVIRONMENT), and the end
#: of those of Environment Modules 4.
BOOKS = ("LMOD_", "__LMOD_", "_ModuleTable", "MODULE", "__MODULES_", "LOADEDMODULES", "_LMFILES_")
_SHARED = "_modshare"
#: Characters of a value, and of a checksum, that are shown in a sentence.
_SHOWN = 120
_DIGITS = 12


@dataclass(frozen=True)
class Module:
    """A module as ReFrame's configuration names it (``environments.modules``).

    :param collection: ``name`` is a collection, which is restored.
    :param path: folder of modulefiles to be searched first; empty: ``MODULEPATH`` as it is.
    """

    name: str
    collection: bool = False
    path: str = ""

    @classmethod
    def of(cls, written: str | Mapping[str, Any]) -> Module:
        """A module as ``stack.json`` has it: a name, or name, collection and path."""
        if isinstance(written, str):
            return cls(written)
        return cls(written["name"], written.get("collection", False), written.get("path") or "")

    def written(self) -> str | dict[str, Any]:
        """As ``stack.json`` and ReFrame's configuration have it, as short as possible."""
        if not self.collection and not self.path:
            return self.name
        return {"name": self.name, "collection": self.collection, "path": self.path or None}

    def names(self, loaded: str) -> bool:
        """Whether a module that is loaded is this one, named with or without its version."""
        return loaded == self.name or loaded.startswith(f"{self.name}/")


@dataclass(frozen=True)
class ModuleFile:
    """A module that was loaded, requested or brought along by another.

    :param file: its modulefile; empty where the module system names none.
    :param sha256: of the content; empty if it could not be read.
    """

    name: str
    file: str
    sha256: str


@dataclass(frozen=True)
class LoadedModules:
    """What loading a stack's modules did when the stack was
    registered: ``build.modules`` of its metadata.

    :param system: the module system as ReFrame calls it (``lmod``, ``envmod``), and its version.
    :param init: file that defines ``module`` in a bash that has none; empty if none is known.
    :param sets: variables and their values.
    :param prepends: search path variable to folders put in front; ``appends``: behind.
    """

    system: str = ""
    version: str = ""
    init: str = ""
    loaded: tuple[ModuleFile, ...] = ()
    sets: Mapping[str, str] = field(default_factory=dict)
    prepends: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    appends: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, document: Mapping[str, Any] | None) -> LoadedModules:
        """From ``build.modules``, already checked by the schema; empty if nothing was loaded."""
        return msgspec.convert(document or {}, cls)

    def as_dict(self) -> dict[str, Any]:
        """As ``build.modules`` keeps it."""
        return msgspec.json.decode(msgspec.json.encode(self))  # type: ignore[no-any-return]

    def change(self, environ: Mapping[str, str]) -> dict[str, str]:
        """An environment after the modules were loaded."""
        changed = {**environ, **self.sets}
        for name in dict.fromkeys([*self.prepends, *self.appends]):
            values = [
                *self.prepends.get(name, ()),
                changed.get(name, ""),
                *self.appends.get(name, ()),
            ]
            changed[name] = ":".join(filter(None, values))
        return changed


@dataclass(frozen=True)
class ModuleState:
    """Modules as they are somewhere now: in a job, or on this machine.

    :param loaded: those that are loaded, by name.
    :param sha256: checksums of modulefiles; empty: it is not there, or cannot be read.
    :param values: variables and what they hold; a name that is absent was not looked at.
    """

    loaded: Mapping[str, str]
    sha256: Mapping[str, str]
    values: Mapping[str, str]


def is_bookkeeping(name: str) -> bool:
    """Whether a variable is the module system's own business."""
    return name.startswith(BOOKS) or name.endswith(_SHARED)


def list_names(modules: Iterable[Module | ModuleFile]) -> str:
    """``module openmpi/5.0.10``, ``modules gcc/12.2 and openmpi/5.0.10``."""
    names = [module.name for module in modules]
    listed = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
    return f"module{'s' if len(names) > 1 else ''} {listed}"


def define_module(record: LoadedModules) -> list[str]:
    """Shell lines that define ``module`` where the shell of a job
    has not: without, nothing is loaded.
    """
    init = shlex.quote(record.init)
    return [f"type module >/dev/null 2>&1 || [ ! -r {init} ] || . {init}"] if record.init else []


def find_changes(record: LoadedModules, now: ModuleState, *, own: Sequence[str] = ()) -> list[str]:
    """Sentences on what is not as it was when the stack was registered, each naming its module.

    :param own: variables that the stack sets over its modules; they are not compared.
    """
    sentences = [
        _describe_loss(module, now) for module in record.loaded if module.name not in now.loaded
    ]
    for module in record.loaded:
        file = now.loaded.get(module.name, "")
        digest = now.sha256.get(module.file, module.sha256)
        if file and file != module.file:
            sentences.append(
                f"module {module.name} is loaded from {file}, but the stack was registered with "
                f"{module.file}."
            )
        elif module.name in now.loaded and digest != module.sha256:
            how = (
                f"SHA-256 {digest[:_DIGITS]} and not {module.sha256[:_DIGITS]}"
                if digest
                else "it cannot be read"
            )
            sentences.append(
                f"module {module.name} changed after the stack was registered: {module.file} "
                f"({how})."
            )
    if sentences:
        return sentences  # they explain what else differs
    for name, value in record.sets.items():
        if name not in own and (held := now.values.get(name, value)) != value:
            was = f"{_show(value)} when the stack was registered"
            sentences.append(
                f"{list_names(record.loaded)}: {name} is {_show(held)} after loading, but was "
                f"{was}."
            )
    for name in dict.fromkeys([*record.prepends, *record.appends]):
        folders = [*record.prepends.get(name, ()), *record.appends.get(name, ())]
        if name in now.values and not _in_order(folders, now.values[name].split(":")):
            lost = next(
                (folder for folder in folders if folder not in now.values[name].split(":")),
                folders[0],
            )
            loss = f"{lost} moved or vanished in {name}"
            sentences.append(
                f"{list_names(record.loaded)}: {loss} when the stack was registered "
                f"({_show(now.values[name])})."
            )
    return sentences


def _describe_loss(lost: ModuleFile, now: ModuleState) -> str:
    if lost.file and now.sha256.get(lost.file) == "":
        return f"module {lost.name} is gone: {lost.file} is missing or unreadable."
    stem = lost.name.partition("/")[0]
    other = [name for name in now.loaded if name.partition("/")[0] == stem]
    instead = (
        f"{other[0]} is; perhaps a default changed"
        if other
        else f"loaded are {', '.join(now.loaded) or 'none'}"
    )
    return f"module {lost.name}, with which the stack was registered, is not loaded; {instead}."


def _in_order(wanted: Sequence[str], there: Sequence[str]) -> bool:
    """Whether folders are in a search path, in their order; others may stand between them."""
    rest = iter(there)
    return all(folder in rest for folder in wanted)


def _show(value: str) -> str:
    return (
        repr(value) if len(value) <= _SHOWN else f"{value[:_SHOWN]!r}... ({len(value)} characters)"
    )

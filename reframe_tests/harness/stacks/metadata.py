"""Stack metadata: finds the ``stack.json`` files, checks them and makes stacks and ReFrame environments of them.

Every file goes through the whole schema each time: half a millisecond a file with a validator that ReFrame has
loaded anyway, so that there is no lighter check to disagree with it.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec

from .. import optional_file
from .. import schema as schemas
from ..records import EXTENSIONS
from ..vocabulary import ROOT as ROOT
from ..vocabulary import BadInput
from . import modules
from .stack import Stack

SCHEMA = ROOT / "environments" / "stack.schema.json"
#: Colon-separated ``stack.json`` files, or folders that hold one, registered beside those under ``environments/``.
EXTRA_STACKS = "MPIBENCH_STACKS"
REMEDY = "correct it, or build the stack again ('ci/setup' does so for the wheels stacks)"

#: Keys of what a site may describe itself, beside the checkout.
_DESCRIBED = ("mpi.name", "abi", "launcher_family")


class StackError(BadInput):
    """Stack metadata that cannot be used."""


def check_against(schema: Path, document: Any, source: Path | str, remedy: str) -> None:
    """Check a document against a schema file.

    :raises StackError: naming file and key.
    """
    if fault := schemas.find_fault(schema, document):
        raise StackError("stack-schema", f"{source}: key '{fault.key}': {fault.message}; {remedy}.")


def parse(document: Any, source: Path | str) -> Stack:
    """The stack a decoded ``stack.json`` describes; ``source`` is the file, for messages and for the stack."""
    if fault := schemas.find_fault(SCHEMA, document):
        name = document.get("name") if isinstance(document, dict) else None
        head = f"stack '{name}' is left out; " if isinstance(name, str) else ""
        own = f"what a site describes itself is known in shells where {EXTENSIONS} names its folder: export it; or "
        remedy = f"{head}{own if fault.key in _DESCRIBED else ''}{REMEDY}"
        raise StackError("stack-schema", f"{source}: key '{fault.key}': {fault.message}; {remedy}.")
    try:
        re.compile(document["library_version_pattern"])
    except re.error as error:
        message = f"{source}: key 'library_version_pattern' is not a regular expression ({error}); {REMEDY}."
        raise StackError("stack-schema", message) from error
    mpi = document["mpi"]
    further = {
        **{"mpi": mpi["name"], "mpi_version": mpi["version"], "device": mpi["device"], "source": str(source)},
        "modules": [asdict(modules.Module.of(module)) for module in document.get("modules", ())],
        "loaded": document["build"].get("modules") or {},
    }
    return msgspec.convert({**document, **further}, Stack)


def read(path: Path) -> Stack:
    """The stack of one metadata file.

    :raises StackError: when the file cannot be read or is not valid metadata.
    """
    try:
        return parse(json.loads(path.read_text()), path)
    except OSError as error:
        raise StackError("stack-unreadable", f"{path} cannot be read ({error.strerror}); {REMEDY}.") from error
    except (ValueError, RecursionError) as error:
        raise StackError("stack-unreadable", f"{path} is not JSON ({error}); {REMEDY}.") from error


def find_damage(stack: Stack) -> str:
    """What of a stack is no longer on disk, as one sentence; empty when all of it is there."""
    claims: list[tuple[str, str, Callable[[Path], bool]]] = [("prefix", stack.prefix, Path.is_dir)]
    claims += [("library", stack.library, Path.is_file)]
    claims += [(f"binaries.{name}", path, _is_program) for name, path in stack.binaries.items()]
    claims += [(f"commands.{name}", words[0], _is_program) for name, words in stack.commands.items() if "/" in words[0]]
    claims += [(f"prepend_path.{name}", f, Path.is_dir) for name, fs in stack.prepend_path.items() for f in fs]
    for key, path, is_there in claims:
        if not is_there(Path(path)):
            return (
                f"stack '{stack.name}' is left out: {path} (key '{key}' of {stack.source}) is gone or cannot be used; "
                f"build the stack again ({_builder(stack)}) or remove its metadata file."
            )
    for module in (row for row in stack.loaded.loaded if row.file and not Path(row.file).is_file()):
        return (
            f"stack '{stack.name}' is left out: module {module.name} is gone, its file {module.file} is not there any more; "
            f"bring it back, or register the stack again ({_builder(stack)})."
        )
    return ""


def _builder(stack: Stack) -> str:
    """The command that builds a stack of its origin."""
    folder = Path(stack.source).parent.name
    return {"wheels": "'ci/setup'", "spack": f"'mpibench stacks build {folder}'"}.get(
        stack.origin, "'mpibench stacks remove' and 'add'"
    )


def _is_program(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def files(root: Path = ROOT, environ: Mapping[str, str] = os.environ) -> list[Path]:
    """Metadata files under ``environments/`` and those named in ``MPIBENCH_STACKS``, each once.

    A folder named there stands for the ``stack.json`` in it, whether or not it exists yet.
    """
    environments = root / "environments"
    named = [folder / "stack.json" for level in ("*", "*/*") for folder in sorted(environments.glob(level))]
    paths = [path for path in named if path.parent.name != path.name and optional_file.is_there(path)]
    for entry in filter(None, environ.get(EXTRA_STACKS, "").split(":")):
        path = optional_file.named(entry).absolute()
        paths.append(path / "stack.json" if path.is_dir() else path)
    return list({os.path.realpath(path): path for path in paths}.values())  # a ring of links is no error here


def discover(root: Path = ROOT, environ: Mapping[str, str] = os.environ) -> tuple[list[Stack], list[str]]:
    """All usable stacks, and one sentence for each metadata file that gives none.

    A stack is usable when its file is valid and everything it names is on disk; nothing is half registered.

    :raises StackError: when two files describe a stack of the same name, because results could not be distinguished.
    """
    stacks: dict[str, Stack] = {}
    problems: list[str] = []
    for path in files(root, environ):
        try:
            stack = read(path)
        except StackError as error:
            problems.append(str(error))
            continue
        if stack.name in stacks:
            raise StackError(
                "stack-twice",
                f"{stacks[stack.name].source} and {path} both describe a stack '{stack.name}'; rename or remove one.",
            )
        damage = find_damage(stack)
        if damage:
            problems.append(damage)
        else:
            stacks[stack.name] = stack
    return list(stacks.values()), problems


def environment_of(stack: Stack) -> dict[str, Any]:
    """The ReFrame environment of a stack.

    Features: the MPI's name, ``abi_<abi>``, the suites.
    Extras: ``mpi``, ``mpi_version``, ``origin`` and ``stack``,
    the path of the metadata file. Modules come first in a job script, behind what defines ``module``.

    ReFrame writes ``export NAME=VALUE`` into a bash script as it stands
    (reframe/core/runtime.py, ``loadenv``), so values are quoted here; bash splits no words after ``export NAME=``.
    """
    return {
        "name": stack.name,
        "features": sorted({stack.mpi, f"abi_{stack.abi}", *stack.suites}),
        "extras": {"mpi": stack.mpi, "mpi_version": stack.mpi_version, "origin": stack.origin, "stack": stack.source},
        "env_vars": [
            *([name, shlex.quote(value)] for name, value in stack.env_vars.items()),
            *([name, _prepended(name, folders)] for name, folders in stack.prepend_path.items()),
        ],
        **({"modules": [module.written() for module in stack.modules]} if stack.modules else {}),
        **({"prepare_cmds": modules.define_module(stack.loaded)} if stack.modules else {}),
    }


def _prepended(name: str, folders: tuple[str, ...]) -> str:
    """Shell text that puts folders before what ``name`` holds, without an empty entry (which means ``.``).

    ReFrame also expands the value for a moment in its own process with Python's rules, which know ``$NAME`` only;
    for PATH, without which it could start nothing, that form is used, since PATH is never empty.
    """
    rest = f":${name}" if name == "PATH" else f"${{{name}:+:${name}}}"
    return ":".join(shlex.quote(folder) for folder in folders) + rest


def enter(stack: Stack, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The environment of a process inside the stack: ``environ`` with what its modules did, its variables and search paths."""
    entered = {**stack.loaded.change(environ), **stack.env_vars}
    for name, folders in stack.prepend_path.items():
        entered[name] = ":".join([*folders, *filter(None, [entered.get(name, "")])])
    return entered

"""Stack metadata: finds the ``stack.json`` files, checks them, and makes stacks and ReFrame
environments of them.

Every file is checked against the whole schema each time: half a millisecond per file with a
validator that ReFrame has loaded anyway, so there is no lighter check that could disagree.
"""

from __future__ import annotations

import functools
import hashlib
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
from ..mpis.model import FORUM_ABI
from ..records import EXTENSIONS
from ..vocabulary import ROOT as ROOT
from ..vocabulary import BadInput
from . import modules
from .stack import Stack

SCHEMA = ROOT / "environments" / "stack.schema.json"
#: Colon-separated ``stack.json`` files, or folders that hold one,
#: registered beside those under ``environments/``.
EXTRA_STACKS = "MPIBENCH_STACKS"
REMEDY = "correct it, or rebuild the stack (ci/setup for the wheels stacks)"

#: Keys of what a site may describe itself, beside the checkout.
_DESCRIBED = ("mpi.name", "abi", "launcher_family")


class StackError(BadInput):
    """Stack metadata that cannot be used."""


def check_against(schema: Path, document: Any, source: Path | str, remedy: str) -> None:
    """Check a document against a schema file.

    :raises StackError: naming file and key.
    """
    if fault := schemas.find_fault(schema, document):
        raise StackError(
            "configuration-unusable", f"{source}: key '{fault.key}': {fault.message}; {remedy}."
        )


def parse(document: Any, source: Path | str) -> Stack:
    """The stack a decoded ``stack.json`` describes; ``source`` is
    the file, for messages and for the stack.
    """
    if fault := schemas.find_fault(SCHEMA, document):
        name = document.get("name") if isinstance(document, dict) else None
        head = f"stack '{name}' is left out; " if isinstance(name, str) else ""
        own = f"for a site's own descriptions, export {EXTENSIONS} with their folder; or "
        remedy = f"{head}{own if fault.key in _DESCRIBED else ''}{REMEDY}"
        raise StackError(
            "configuration-unusable", f"{source}: key '{fault.key}': {fault.message}; {remedy}."
        )
    mpi = document["mpi"]
    further = {
        "mpi": mpi["name"],
        "mpi_version": mpi["version"],
        "device": mpi["device"],
        "source": str(source),
        "modules": [asdict(modules.Module.of(module)) for module in document.get("modules", ())],
        "loaded": document["build"].get("modules") or {},
    }
    stack = msgspec.convert({**document, **further}, Stack)
    if (sealed := document["build"].get("seal")) and sealed != _seal_of(document):
        edited = (
            f"{source} was edited after registration: register the stack again with "
            f"{_builder(stack)}"
        )
        raise StackError("changed-since", f"stack '{stack.name}' is left out: {edited}.")
    try:
        re.compile(stack.library_version_pattern)
    except re.error as error:
        message = (
            f"{source}: key 'library_version_pattern' is not a regular expression ({error}); "
            f"{REMEDY}."
        )
        raise StackError("configuration-unusable", message) from error
    return stack


def read(path: Path) -> Stack:
    """The stack of one metadata file.

    :raises StackError: when the file cannot be read or is not valid metadata.
    """
    try:
        return parse(json.loads(path.read_text()), path)
    except OSError as error:
        raise StackError(
            "file-unreadable", f"{path} cannot be read ({error.strerror}); {REMEDY}."
        ) from error
    except (ValueError, RecursionError) as error:
        raise StackError("file-unreadable", f"{path} is not JSON ({error}); {REMEDY}.") from error


def digest_of(path: Path) -> str:
    """SHA-256 of a file; of a folder, over names and digests of its Python files and libraries.

    :raises StackError: it cannot be read.
    """
    if path.is_dir():
        parts = [
            file
            for file in sorted(path.rglob("*"))
            if file.suffix in (".py", ".so") and file.is_file()
        ]
        return compute_hash([[str(file.relative_to(path)), digest_of(file)] for file in parts])
    try:
        state = path.stat()
        return _digest(
            path, state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns
        )
    except OSError as error:
        raise StackError(
            "file-unreadable", f"{path} cannot be read ({error.strerror}); make it readable."
        ) from error


@functools.cache  # one process asks for all stacks several times
def _digest(path: Path, *_state: int) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def compute_hash(inputs: Any) -> str:
    """SHA-256 over plain data: equal inputs give equal hashes."""
    return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()


def _seal_of(document: Mapping[str, Any]) -> str:
    return compute_hash(
        {
            **document,
            "build": {name: value for name, value in document["build"].items() if name != "seal"},
        }
    )


def seal(document: Mapping[str, Any], source: Path | str) -> dict[str, Any]:
    """The document with digests of all it runs that is there, and of itself.

    The interpreter of Python is not among them: the system's updates are not the stack's.
    """
    given = document.get("build", {})
    build = {name: value for name, value in given.items() if name not in ("files", "seal")}
    document = {**document, "build": build}
    stack = parse(document, source)
    # Whoever registers an image has looked at its files from inside.
    looked_at = given.get("files", {}) if stack.enter else {}
    programs = [stack.library, *stack.binaries.values(), stack.mpirun[0]]
    programs += build.get("linked", ())
    programs += [words[0] for words in stack.commands.values() if "-m" not in words]
    programs += [f"{folder}/mpi4py" for folder in stack.prepend_path.get("PYTHONPATH", ())]
    there = [
        Path(path)
        for path in dict.fromkeys(programs)
        if path.startswith("/") and path not in looked_at and Path(path).exists()
    ]
    files = {
        str(path): {
            "sha256": digest_of(path),
            "size_bytes": 0 if path.is_dir() else path.stat().st_size,
        }
        for path in there
    } | looked_at
    sealed: dict[str, Any] = {**document, "build": {**build, "files": files}}
    sealed["build"]["seal"] = _seal_of(sealed)
    return sealed


def find_damage(stack: Stack) -> str:
    """What changed in a stack after registration, as one sentence; empty if nothing did."""
    claims: list[tuple[str, str, Callable[[Path], bool]]] = [("prefix", stack.prefix, Path.is_dir)]
    claims += [("library", stack.library, Path.is_file)]
    claims += [(f"binaries.{name}", path, _is_program) for name, path in stack.binaries.items()]
    claims += [
        (f"commands.{name}", words[0], _is_program)
        for name, words in stack.commands.items()
        if "/" in words[0]
    ]
    claims += [
        (f"prepend_path.{name}", f, Path.is_dir)
        for name, fs in stack.prepend_path.items()
        for f in fs
    ]
    for key, path, is_there in claims:
        if path not in stack.inside and not is_there(Path(path)):
            return (
                f"stack '{stack.name}' is left out: {path} (key '{key}' of {stack.source}) is "
                f"missing or unusable; rebuild the stack ({_builder(stack)}) or remove its "
                "metadata file."
            )
    if "seal" not in stack.build:
        return (
            f"stack '{stack.name}' is left out: {stack.source} has no digests of its programs "
            f"(written by an older release or by hand); register it again with {_builder(stack)}."
        )
    try:
        for path, known in stack.files.items():
            if path not in stack.inside and digest_of(Path(path)) != known["sha256"]:
                return f"stack '{stack.name}' is left out: {sentence_of_change(stack, path)}."
    except StackError as error:
        return f"stack '{stack.name}' is left out: {error}"
    for module in (row for row in stack.loaded.loaded if row.file and not Path(row.file).is_file()):
        return (
            f"stack '{stack.name}' is left out: module {module.name} is gone with its file "
            f"{module.file}; restore it, or register the stack again ({_builder(stack)})."
        )
    return ""


def sentence_of_change(stack: Stack, path: str) -> str:
    """That a file is not what was registered, and what to do; without a full stop."""
    return f"{path} changed after registration: register again with {_builder(stack)}"


def _builder(stack: Stack) -> str:
    """The command that builds a stack."""
    if stack.abi == FORUM_ABI:
        options = {
            "--build " + shlex.quote(f"{suite}={facts['source']}")
            if "source" in facts
            else "--binaries FOLDER"
            for suite, facts in stack.suites.items()
        }
        return f"'mpibench stacks abi {' '.join(sorted(options))}'"
    folder = Path(stack.source).parent.name
    return {"wheels": "'ci/setup'", "spack": f"'mpibench stacks build {folder}'"}.get(
        stack.origin, "'mpibench stacks remove' and 'add'"
    )


def _is_program(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def files(root: Path = ROOT, environ: Mapping[str, str] = os.environ) -> list[Path]:
    """Metadata files under ``environments/`` and those named in ``MPIBENCH_STACKS``, each once.

    A folder named there stands for the ``stack.json`` in it and in the
    folders in it, or for one that does not exist yet.
    """
    environments = root / "environments"
    named = [
        folder / "stack.json"
        for level in ("*", "*/*")
        for folder in sorted(environments.glob(level))
    ]
    paths = [
        path for path in named if path.parent.name != path.name and optional_file.is_there(path)
    ]
    for entry in filter(None, environ.get(EXTRA_STACKS, "").split(":")):
        path = optional_file.named(entry).absolute()
        inside = (
            [path / "stack.json", *sorted(path.glob("*/stack.json"))] if path.is_dir() else [path]
        )
        paths += [file for file in inside if optional_file.is_there(file)] or inside[:1]
    # a ring of links is no error here
    return list({os.path.realpath(path): path for path in paths}.values())


def discover(
    root: Path = ROOT, environ: Mapping[str, str] = os.environ
) -> tuple[list[Stack], list[str]]:
    """All usable stacks, and one sentence for each metadata file that gives none.

    A stack is usable when its file is valid and everything it names
    is on disk; nothing is half registered.

    :raises StackError: when two files describe a stack of the same name,
        because results could not be distinguished.
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
                "name-taken",
                f"{stacks[stack.name].source} and {path} both describe a stack '{stack.name}'; "
                "rename or remove one.",
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
    the path of the metadata file. Modules come first in a job
    script, behind what defines ``module``.

    ReFrame writes ``export NAME=VALUE`` into a bash script as it stands
    (reframe/core/runtime.py, ``loadenv``), so values are quoted here;
    bash splits no words after ``export NAME=``.
    """
    return {
        "name": stack.name,
        "features": sorted({stack.mpi, f"abi_{stack.abi}", *stack.suites}),
        "extras": {
            "mpi": stack.mpi,
            "mpi_version": stack.mpi_version,
            "origin": stack.origin,
            "stack": stack.source,
        },
        "env_vars": [
            *([name, shlex.quote(value)] for name, value in stack.env_vars.items()),
            *([name, _prepended(name, folders)] for name, folders in stack.prepend_path.items()),
        ],
        **({"modules": [module.written() for module in stack.modules]} if stack.modules else {}),
        **({"prepare_cmds": modules.define_module(stack.loaded)} if stack.modules else {}),
    }


def _prepended(name: str, folders: tuple[str, ...]) -> str:
    """Shell text that puts folders before what ``name`` holds,
    without an empty entry (which means ``.``).

    ReFrame also expands the value for a moment in its own process with Python's rules, which know
    ``$NAME`` only; for PATH, without which it could start nothing, that form is used, since PATH is
    never empty.
    """
    rest = f":${name}" if name == "PATH" else f"${{{name}:+:${name}}}"
    return ":".join(shlex.quote(folder) for folder in folders) + rest


def enter(stack: Stack, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The environment of a process inside the stack: ``environ`` with what
    its modules did, its variables and search paths.
    """
    entered = {**stack.loaded.change(environ), **stack.env_vars}
    for name, folders in stack.prepend_path.items():
        entered[name] = ":".join([*folders, *filter(None, [entered.get(name, "")])])
    return entered

"""Loads modules through ReFrame's module system and prints, as JSON, what each did to the environment.

``python -I module_loader.py REQUEST``: a program of its own, because loading changes the environment of the process. It knows
nothing of the project, so that it starts from any folder and on any node with this Python.
"""

from __future__ import annotations

import ast
import json
import os
import sys
from typing import Any

from reframe.core.exceptions import ReframeError
from reframe.core.modules import ModulesSystem

#: Beginnings of the names of variables that a module system is set up with, and of those that hold its state.
SET_UP = ("LMOD_", "MODULE")
STATE = ("LMOD_FAMILY_",)
#: End of the names of variables in which Environment Modules 4 count.
SHARED = "_modshare"
#: Variables that say where ``init/bash`` lies: Environment Modules' and Lmod's own names of the folder above.
HOMES = ("MODULESHOME", "LMOD_PKG")


class PrintedError(Exception):
    """A module printed where the module system's own code belongs, which a shell or Python would have run."""


def belongs(statement: ast.stmt) -> bool:
    """Whether a statement is one that module systems write: imports, assignments, and calls of ``os`` and ``subprocess``.

    Sources: Lmod's shells/Python.lua, Environment Modules' modulecmd.tcl (``renderSettings``, ``renderTrue``).
    """
    if isinstance(statement, (ast.Import, ast.Delete)):
        return True
    if isinstance(statement, ast.Assign):
        return ast.unparse(statement.targets[0]).startswith(("os.environ[", "_mlstatus", "_mlre"))
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call) and _is_of_os(statement.value)


def _is_of_os(call: ast.Call) -> bool:
    return ast.unparse(call.func).startswith(("os.", "subprocess."))


def guard(backend: Any) -> None:
    """Make a backend look at what it is about to execute.

    ReFrame 4.10 executes the module system's standard output as it stands (``core/modules.py``, ``EnvModulesImpl._execute``).
    """
    process = backend.process

    def look(source: str) -> str:
        text: str = process(source)
        try:
            strange = [ast.unparse(each) for each in ast.parse(text).body if not belongs(each)]
        except SyntaxError as error:
            strange = [(error.text or text).strip()]
        if strange:
            raise PrintedError(strange[0])
        return text

    backend.process = look


def find_init(environ: dict[str, str]) -> str:
    """The file that defines ``module`` for bash, beside the module system that is set up; empty where there is none."""
    files = [os.path.join(environ[name], "init", "bash") for name in HOMES if environ.get(name)]  # noqa: PTH118 (plain text)
    return next((file for file in files if os.access(file, os.R_OK)), "")


def start_over(system: Any, environment: dict[str, str]) -> None:
    """Leave what the caller has loaded; then nothing but ``environment`` and the module system's own variables is there."""
    if system.loaded_modules():
        system.unload_all()
    own = {name: value for name, value in os.environ.items() if name.startswith(SET_UP) and not name.startswith(STATE)}
    os.environ.clear()
    os.environ.update({**environment, **own})


def load(system: Any, module: dict[str, Any]) -> dict[str, Any]:
    """Load one module; what went wrong: ``kind``, what the module system ``said``, and the ``others`` it concerns."""
    held, name = system.loaded_modules(), module["name"]
    try:
        if module["path"]:
            # As the job does: ReFrame 4.10 takes the folder away again here, upon which Lmod unloads what lies in it.
            system.searchpath_add(module["path"])
        system.load_module(name, collection=module["collection"])
    except PrintedError as error:
        return {"kind": "printed", "said": str(error), "others": []}
    except (ReframeError, OSError) as error:
        clashes = find_clashes(system, name, held)
        cause = error.__cause__ or error
        said = getattr(cause, "stderr", None) or str(cause)
        return {"kind": "conflict" if clashes else "load", "said": said, "others": clashes}
    lost = [each for each in held if each not in system.loaded_modules()]
    if lost and not module["collection"]:
        return {"kind": "conflict", "said": "", "others": lost}
    if not module["collection"] and not any(f"{each}/".startswith(f"{name}/") for each in system.loaded_modules()):
        return {"kind": "load", "said": "", "others": []}
    return {}


def find_clashes(system: Any, name: str, held: list[str]) -> list[str]:
    """Modules that are loaded and that a module says it conflicts with."""
    try:
        named = system.conflicted_modules(name)
    except (ReframeError, OSError, PrintedError):
        return []
    return [each for each in held if any(f"{each}/".startswith(f"{other}/") for other in named)]


def load_all(system: Any, modules: list[dict[str, Any]], environment: dict[str, str]) -> dict[str, Any]:
    """Load modules in an environment: what there was ``before``, the environments after each (``steps``), and a ``fault``."""
    start_over(system, environment)
    answer: dict[str, Any] = {"before": dict(os.environ), "steps": [], "fault": None}
    for module in modules:
        if fault := load(system, module):
            return {**answer, "fault": {**fault, "module": module["name"]}}
        answer["steps"].append(dict(os.environ))
    return answer


def mark(answer: dict[str, Any], text: str, apart: list[str]) -> dict[str, str]:
    """The variables that modules changed, with ``text`` in front of what each held before.

    :param apart: beginnings of the names of variables that are left alone.
    """
    before, after = answer["before"], answer["steps"][-1]
    changed = [name for name in after if after[name] != before.get(name)]
    changed = [name for name in changed if not name.startswith(tuple(apart)) and not name.endswith(SHARED)]
    return {name: ":".join(filter(None, [text, before.get(name, "")])) for name in changed}


def main(text: str) -> dict[str, Any]:
    """Answer a request: ``system``, ``modules`` in their order, the ``environment`` to load them in, ``mark``, and ``apart``.

    They are loaded twice; ``again`` are the variables after the second time, when what they change was marked.
    """
    request = json.loads(text)
    modules, environment = request["modules"], request["environment"]
    try:
        system = ModulesSystem.create(request["system"])
        guard(system.backend)
        first = load_all(system, modules, environment)
        if first["fault"]:
            return first
        marked = mark(first, request["mark"], request["apart"])
        second = load_all(system, modules, {**environment, **marked})
    except (ReframeError, OSError, PrintedError) as error:
        return {"fault": {"kind": "system", "said": str(error), "others": [], "module": ""}}
    known = {"version": system.version or "", "init": find_init(first["before"])}
    return {**first, **known, "fault": second["fault"], "changed": list(marked), "again": (second["steps"] or [{}])[-1]}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1])))

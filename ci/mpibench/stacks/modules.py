"""Environment modules of a site: loads them in a separate shell, as jobs do, and reports what they
bring and change.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from reframe_tests.harness.printable import clause, printable
from reframe_tests.harness.stacks.modules import (
    LoadedModules,
    Module,
    ModuleFile,
    ModuleState,
    find_changes,
    is_bookkeeping,
    list_names,
)
from reframe_tests.harness.stacks.stack import Stack
from reframe_tests.harness.vocabulary import ROOT, BadInput

from .. import own_reframe
from . import probe

#: Variables that say where ``init/bash`` lies: Environment Modules'
#: and Lmod's own names of the folder above.
HOMES = ("MODULESHOME", "LMOD_PKG")
#: Beginnings of the names of variables that a module system is set up
#: with, and of those that hold its state.
SET_UP = ("LMOD_", "MODULE")
STATE = ("LMOD_FAMILY_",)
#: What a search path holds before the modules are loaded once more:
#: what stands before it was put in front.
MARK = "/mpibench/stands/here"
#: Names of launchers that a module may put on PATH, the first that is there counts.
LAUNCHERS = ("mpirun", "mpiexec")
#: ReFrame's name of no module system.
NONE = "nomod"
#: Names and folders that ``stack.json`` may have (``$defs`` of its schema).
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+/@=,~-]*")
_FOLDER = re.compile(r"/[A-Za-z0-9_.+/@=,~-]*")
LIMIT_S = 300.0


@dataclass(frozen=True)
class Brought:
    """What modules bring.

    :param folders: folders on PATH, in its order.
    :param left_out: variables that are not recorded, because they are
        different for each user or each time.
    """

    record: LoadedModules = field(default_factory=LoadedModules)
    folders: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()

    @property
    def path(self) -> list[Path]:
        """Folders on PATH that every process does not look in anyway."""
        return [Path(folder) for folder in self.folders if folder not in probe.SYSTEM_BIN]


def find_system(name: str | None = None, environ: Mapping[str, str] = os.environ) -> str:
    """The module system that the site has configured, as ReFrame itself reads its configuration."""
    words = [own_reframe.locate(), "--nocolor", "--show-config=systems/0/modules_system"]
    words += [f"--system={name}"] if name else []
    # Without a configuration ReFrame knows no module system of any site.
    configured = {"RFM_CONFIG_FILES": str(ROOT / "site_configs" / "settings.py"), **environ}
    try:
        done = subprocess.run(
            words, env=configured, text=True, capture_output=True, timeout=LIMIT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BadInput(
            "module-unusable",
            f"cannot ask ReFrame which module system is configured ({error}); see 'mpibench "
            "doctor'.",
        ) from error
    kind = next(
        (
            word
            for line in done.stdout.splitlines()
            if (word := line.strip().strip("\"'")) and " " not in word
        ),
        "",
    )
    if done.returncode or not kind:
        said = [
            line.strip()
            for line in printable(done.stdout + done.stderr).splitlines()
            if line.strip()
        ]
        reason = next((line for line in said if "ERROR" in line), (said or ["it says nothing"])[-1])
        reason = clause(reason.rpartition("ERROR: ")[2])
        # A configuration that cannot be read says itself what to correct: its
        # module system is not what is wrong with it.
        about_modules = re.search("modul|nomod", reason.lower())
        what = (
            "cannot use the site's module system"
            if about_modules
            else "does not say which module system is configured"
        )
        remedy = "; correct 'modules_system' of the system" if about_modules else ""
        raise BadInput("module-unusable", f"ReFrame {what}: {reason}{remedy}.")
    if kind == NONE:
        raise BadInput(
            "tool-missing",
            "the site's configuration names no module system, so no modules can be loaded: add "
            "'modules_system': 'lmod' ('envmod' for Environment Modules) to the system, or name "
            "the MPI with --mpirun.",
        )
    return kind


def load(modules: Sequence[Module], kind: str, environ: Mapping[str, str] = os.environ) -> Brought:
    """Load modules in order, in a bash as jobs do, in the environment of a fresh login, and find
    out what they change.

    They are loaded twice. The second time each changed variable starts as :data:`MARK`, which shows
    what is prepended and what is replaced; values that differ between both times are not recorded.

    :param environ: the caller's environment, for how the module system is
        set up; modules loaded in it do not count.
    """
    # what would be several words, or none, where ReFrame writes it into a job's script as it stands
    for module in modules:
        if not _NAME.fullmatch(module.name):
            raise BadInput(
                "module-unusable",
                f"{module.name!r} is not a module name: give one that 'module avail' lists.",
            )
        if module.path and not _FOLDER.fullmatch(module.path):
            raise BadInput(
                "module-unusable",
                f"the folder of modulefiles {module.path!r} has characters that a job script "
                "cannot contain; use another folder.",
            )
    homes = [Path(environ[name], "init", "bash") for name in HOMES if environ.get(name)]
    init = next((str(file) for file in homes if os.access(file, os.R_OK)), "")
    if not init:
        raise BadInput(
            "module-unusable",
            f"the module system {kind} cannot be used: no init/bash below {' or '.join(HOMES)} "
            "defines 'module'; start from a shell in which 'module' works.",
        )
    if environ.get("LOADEDMODULES"):
        environ = _shell(init, ["module purge"], environ, modules, kind)[-1].environ
    own = {
        name: value
        for name, value in environ.items()
        if name.startswith(SET_UP) and not name.startswith(STATE)
    }
    clean = {**probe.clean_environment(environ), **own}
    before, *_, after = _load(init, modules, clean, kind)
    changed = sorted(
        name for name in after if after[name] != before.get(name) and not is_bookkeeping(name)
    )
    marked = {name: ":".join(filter(None, [MARK, before.get(name, "")])) for name in changed}
    second = _load(init, modules, {**clean, **marked}, kind)[-1]
    sets = {}
    prepends = {}
    appends = {}
    left_out = []
    for name in changed:
        there = second.get(name, "").split(":")
        if MARK in there:
            at = there.index(MARK)
            rest = ["", *before.get(name, "").split(":")]
            if front := tuple(filter(None, there[:at])):
                prepends[name] = front
            if behind := tuple(folder for folder in there[at + 1 :] if folder not in rest):
                appends[name] = behind
        elif second.get(name) == after[name] and not _is_personal(after[name], environ):
            sets[name] = after[name]
        else:
            left_out.append(name)
    files = [(name, file if file.startswith("/") else "") for name, file in _loaded(after)]
    loaded = tuple(ModuleFile(name, file, _digest(file) if file else "") for name, file in files)
    if not loaded:
        raise BadInput(
            "module-unusable",
            f"{list_names(modules)}: {kind} shows no loaded module afterwards; name others.",
        )
    said = _shell(init, ["module --version 2>&1"], clean, modules, kind)[-1].printed
    version = re.search(r"\d+(?:\.\d+)+", said)
    record = LoadedModules(
        kind, version[0] if version else "", init, loaded, sets, prepends, appends
    )
    return Brought(record, prepends.get("PATH", ()), tuple(left_out))


class ShellStep(NamedTuple):
    """What one line of shell left: both streams, its exit
    status, and the environment afterwards.
    """

    printed: str
    error: str
    status: int
    environ: Mapping[str, str]


def _shell(
    init: str,
    lines: Sequence[str],
    environ: Mapping[str, str],
    modules: Sequence[Module],
    kind: str,
) -> list[ShellStep]:
    """Run lines in a bash that has sourced ``init``; a step for that and for
    each. Nobody is there to answer what they ask.
    """
    script = "\n".join(
        f"{line}\nstatus=$?; printf '\\1%s\\1' $status; /usr/bin/env -0; printf '\\1'; printf "
        "'\\1' >&2"
        for line in (f". {shlex.quote(init)}", *lines)
    )
    try:
        done = subprocess.run(
            ["/bin/bash", "-c", script],
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="surrogateescape",
            timeout=LIMIT_S,
        )
    except subprocess.TimeoutExpired:
        raise BadInput(
            "module-unusable",
            f"{list_names(modules)}: {kind} does not load within {LIMIT_S:.0f} s; try it in a "
            "shell.",
        ) from None
    printed = done.stdout.split("\1")[:-1]
    errors = done.stderr.split("\1")[:-1]
    if len(printed) != 3 * (len(lines) + 1) or len(errors) != len(lines) + 1:
        last = (done.stderr.replace("\1", "").strip().splitlines() or ["it printed nothing"])[-1]
        raise BadInput(
            "module-unusable",
            f"{list_names(modules)}: {kind} failed ({last}); try 'module load' in a shell.",
        )
    return [
        ShellStep(
            text,
            error,
            int(status),
            dict(part.split("=", 1) for part in variables.split("\0") if "=" in part),
        )
        for text, status, variables, error in zip(
            printed[::3], printed[1::3], printed[2::3], errors, strict=True
        )
    ]


def _load(
    init: str, modules: Sequence[Module], environ: Mapping[str, str], kind: str
) -> list[Mapping[str, str]]:
    """The environment before, and after each module."""
    lines = []
    for module in modules:
        use = f"module use {shlex.quote(module.path)}; " if module.path else ""
        lines.append(
            f"{use}module {'restore' if module.collection else 'load'} {shlex.quote(module.name)}"
        )
    first, *steps = _shell(init, lines, environ, modules, kind)
    held = [name for name, _ in _loaded(first.environ)]
    for module, step in zip(modules, steps, strict=True):
        name, loaded = module.name, [name for name, _ in _loaded(step.environ)]
        # What a modulefile in Tcl prints (puts stdout), the module
        # system hands to the shell, which runs it.
        unknown = re.search(r": ([^:\n]*): command not found", step.error)
        if text := " ".join(step.printed.split()) or (f"{unknown[1]} ..." if unknown else ""):
            raise BadInput(
                "module-unusable",
                f"module {name} prints {text!r} on standard output, which the shell would execute; "
                "print on standard error instead (puts stderr, LmodMessage).",
            )
        if step.status or not (
            module.collection or any(module.names(module_name) for module_name in loaded)
        ):
            # Advice of Lmod's follows behind a blank line.
            said = re.split(r"\n\s*\n", printable(step.error).strip())[0]
            reason = clause(" ".join(said.split()))
            raise BadInput(
                "module-unusable",
                f"module {name} cannot be loaded by {kind} ({reason or 'without a word'}); see "
                "'module avail'; name the modules it needs first, and folders outside MODULEPATH "
                "with --module-path.",
            )
        lost = [module_name for module_name in held if module_name not in loaded]
        if lost and not module.collection:
            raise BadInput(
                "module-unusable",
                f"module {name} conflicts with {' and '.join(lost)}, which it unloads; name only "
                "one of them.",
            )
        held = loaded
    return [step.environ for step in (first, *steps)]


def _loaded(environ: Mapping[str, str]) -> list[tuple[str, str]]:
    """Modules that are loaded and their files, as both module systems list them."""
    names, files = (
        [entry for entry in environ.get(name, "").split(":") if entry]
        for name in ("LOADEDMODULES", "_LMFILES_")
    )
    return list(zip(names, files if len(files) == len(names) else [""] * len(names), strict=True))


def _digest(file: str) -> str:
    try:
        return hashlib.sha256(Path(file).read_bytes()).hexdigest()
    except OSError:
        return ""


def _is_personal(value: str, environ: Mapping[str, str]) -> bool:
    """Whether a value names the user or a folder of the user's."""
    words = re.split(r"[/:,;=\s]", value)
    home = environ.get("HOME", "")
    names = {environ.get("USER"), environ.get("LOGNAME")} - {None, ""}
    return (len(home) > 1 and home in value) or not names.isdisjoint(words)


def find_launcher(brought: Brought, modules: Sequence[Module]) -> str:
    """The launcher of the one MPI that modules bring."""
    by_file: dict[Path, str] = {}
    for folder in brought.path:
        if launcher := next(
            filter(None, (shutil.which(name, path=str(folder)) for name in LAUNCHERS)), None
        ):
            by_file.setdefault(Path(launcher).resolve(), launcher)
    found = list(by_file.values())
    bring = f"{list_names(modules)} bring{'s' if len(modules) == 1 else ''}"
    if not found:
        listed = ", ".join(map(str, brought.path)) or "nothing"
        raise BadInput(
            "module-unusable",
            f"{bring} no mpirun (on PATH: {listed}); add the module of an MPI, or name its "
            "launcher with --mpirun.",
        )
    if len(found) > 1:
        raise BadInput(
            "module-unusable",
            f"{bring} two MPIs ({found[0]} and {found[1]}); name only one of them, or choose with "
            "--mpirun.",
        )
    return found[0]


def expect_one_mpi(library: Path, modules: Sequence[Module], environ: Mapping[str, str]) -> bool:
    """Whether programs find the launcher's library by themselves where the modules are loaded.

    Finding the distribution's library, which needs no module, is not an error: the stack then names
    its own.
    """
    found = probe.find_by_loader(library, environ)
    if not found or found.resolve() == library.resolve():
        return found is not None
    bare = {name: value for name, value in environ.items() if name != "LD_LIBRARY_PATH"}
    if found == probe.find_by_loader(library, bare):
        return False
    raise BadInput(
        "changed-since",
        f"with {list_names(modules)} programs load {found} and not {library}, the launcher's "
        "library: two MPIs are loaded; name the modules of one.",
    )


def compare(stack: Stack, kind: str, environ: Mapping[str, str] = os.environ) -> list[str]:
    """Sentences on what of a stack's modules is not as it was when the
    stack was registered, on this machine and now.
    """
    try:
        now = load(stack.modules, kind, environ).record
    except BadInput as error:
        return [str(error)]
    values = now.change({})
    gone = dict.fromkeys((*stack.loaded.sets, *stack.loaded.prepends, *stack.loaded.appends), "")
    personal = {name for name, value in stack.loaded.sets.items() if _is_personal(value, environ)}
    sums = {module.file: _digest(module.file) for module in stack.loaded.loaded if module.file}
    state = ModuleState(
        {module.name: module.file for module in now.loaded}, sums, {**gone, **values}
    )
    return find_changes(stack.loaded, state, own=(*stack.env_vars, *personal))

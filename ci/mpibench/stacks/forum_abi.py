"""Stacks with the MPI Forum's ABI (MPI 5.0, chapter 20): a registered MPI once more, with programs
that ask for ``libmpi_abi`` and for no MPI in particular.

A set of programs is built once, in ``environments/programs/<key>/<suite>``, and every stack names
the same files: what two of them measure differs in the MPI alone.
"""

from __future__ import annotations

import importlib.metadata
import json
import re
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec

from reframe_tests.harness.mpis.model import FORUM_ABI, FORUM_SONAME
from reframe_tests.harness.printable import clause
from reframe_tests.harness.stacks import metadata
from reframe_tests.harness.stacks.stack import Stack
from reframe_tests.harness.suites.mpi4py import NAME as INSTRUMENT_SUITE
from reframe_tests.harness.suites.mpi4py import PROGRAM as INSTRUMENT
from reframe_tests.harness.vocabulary import BadInput, meant

from .. import whole_file
from ..only_one import only_one
from . import compilation, logged, probe, suite_builds, system, writer
from .logged import Echo

#: Folder of the sets of programs.
SETS = Path("environments", "programs")
#: File in the folder of a suite: how it was built, and SHA-256 of its programs by name.
SET = "set.json"
#: Compares what a library has to translate for programs of this ABI, and the end of each rank.
CHECK = Path(__file__).with_suffix(".c")
_COMPARED = re.compile(r"^forum abi: rank ([01]) of 2: [1-9]\d* compared, 0 wrong$", re.M)
_WRONG = re.compile(r"^forum abi: wrong: (.*)$", re.M)
#: Wrappers of the compilers that an MPI has for this ABI, and what they are for its own.
_WRAPPERS = {"mpicc": "mpicc_abi", "mpicxx": "mpicxx_abi"}
#: What the wrappers of MPICH and Intel MPI have the linker write into a program, a word a line.
_PATHS = re.compile(
    r"^(-Wl,|-Xlinker\n)(?:--?rpath(?:\n\1|[=,])[^,\n]*|--enable-new-dtags)$\n?", re.M
)
#: Prints the version of the ABI, which is -1 where a library has another one. By the name that the
#: evidence asks for in each rank: a library without those of profilers could not be proven.
_ABI_ANSWER = """
sys.stdout.flush()
major, minor = ctypes.c_int(), ctypes.c_int()
library.PMPI_Abi_get_version(ctypes.byref(major), ctypes.byref(minor))
print("\\nABI %d" % major.value)
"""


class _Set(msgspec.Struct):
    """What :data:`SET` holds."""

    facts: dict[str, str]
    built_with: str
    files: Annotated[dict[str, str], msgspec.Meta(min_length=1)]


def find_fault(stack: Stack, environ: Mapping[str, str]) -> str:
    """Why a stack's MPI has no such ABI, as the end of a sentence; empty where it has."""
    library = Path(stack.library).with_name(FORUM_SONAME)
    if not library.is_file():
        return (
            f"there is no {FORUM_SONAME} beside {stack.library}; MPICH 5.0, Intel MPI 2021.18 and "
            "Open MPI 6 have it, where it was not switched off when they were built"
        )
    words = [sys.executable, "-I", "-c", probe.LIBRARY_ANSWER + _ABI_ANSWER, str(library)]
    status, said = probe.run_inside(stack, words, environ, probe.ANSWER_S)
    if status:
        return f"{library} does not say its ABI ({clause(probe.last_line(said))})"
    if not said.endswith("\nABI 1\n"):
        return f"{library} is no library of that ABI: MPI_Abi_get_version says {said.split()[-1]}"
    if not re.search(stack.library_version_pattern, said):
        return f"{library} is another MPI than {stack.library}: {clause(said.splitlines()[0])}"
    return ""


def find_wrong(stack: Stack, check: Path, environ: Mapping[str, str]) -> str:
    """What a stack's library translates wrongly for a program of :data:`CHECK` on two ranks, as one
    sentence; empty where nothing is wrong.
    """
    words = [*probe.starting(stack, 2), *probe.oversubscribe(stack), str(check)]
    status, said = probe.run_inside(stack, words, environ)
    if status == 0 and sorted(_COMPARED.findall(said)) == ["0", "1"]:
        return ""
    wrong = _WRONG.search(said)
    return (
        f"{stack.library} is not right for programs of the MPI Forum's ABI (exit status {status}): "
        f"{clause(wrong[1]) if wrong else probe.first_error(said)}."
    )


def add(
    names: Sequence[str],
    builds: Sequence[str],
    *,
    binaries: Sequence[Path] = (),
    mpi4py: Path | None = None,
    root: Path = metadata.ROOT,
    say: Echo = print,
) -> list[Stack]:
    """Register ``<name>-abi`` for stacks, all with the same programs; one that is there is renewed.

    :param names: registered stacks; empty: all whose MPI has the ABI.
    :param builds: suites to build, unless they are there (:func:`suite_builds.find`).
    :param binaries: folders with programs that were built elsewhere.
    :param mpi4py: folder with an mpi4py that was built for the ABI.
    """
    clean = probe.clean_environment()
    known = {row.name: row for row in metadata.discover(root)[0] if row.abi != FORUM_ABI}
    if unknown := [name for name in names if name not in known]:
        raise BadInput(
            "unknown-name",
            f"no stack '{unknown[0]}'{meant(unknown[0], known)} can be used that has an ABI of "
            "its own; 'mpibench stacks' lists what there is.",
        )
    if not builds and not binaries:
        raise BadInput("nothing-measured", "name what is to be measured, e.g. --build osu=7.5.")
    able = []
    for stack in [known[name] for name in names] or known.values():
        if not (fault := find_fault(stack, clean)):
            able.append(stack)
        elif names:
            raise BadInput("stack-unusable", f"{stack.name} has no ABI of the MPI Forum: {fault}.")
        else:
            say(f"{stack.name} is left out: {fault}.")
    if not able:
        raise BadInput(
            "stack-unusable",
            "no stack has the ABI of the MPI Forum: install one that has it, e.g. 'python -m "
            "mpibench.stacks.wheels mpich5'.",
        )
    if mpi4py:
        _version_of(mpi4py)
    tarballs = [suite_builds.find(word, say=say) for word in builds]
    with only_one(root / system.BUILDS, "mpibench stacks abi", ".abi.lock", "on sets") as lock:
        # Whoever of all stacks, asked for or not, brings the compilers: a set has one maker.
        makers = [row for row in known.values() if probe.find_program(*_wrapper(row, "mpicc"))]
        made = {
            tarball.suite: _build(tarball, makers, root, say, lock, clean) for tarball in tarballs
        }
        programs = probe.search(binaries)
        for path in programs.values():
            if (suite := probe.suite_of(path.name)) in made:
                raise BadInput(
                    "options-exclude",
                    f"{path} is of {suite}, which --build brings, too; leave out one of them.",
                )
        for built, _, _ in made.values():
            programs |= built
        facts = {suite: row for suite, (_, row, _) in made.items()}
        checks = [check for _, _, check in made.values() if check]
        if not checks:
            say("callbacks, data types and handles are not compared: no check of them was built.")
        return [
            _register(stack, programs, facts, root, say, clean, checks[:1], mpi4py)
            for stack in able
        ]


def _wrapper(stack: Stack, name: str) -> tuple[Path, str]:
    return Path(stack.mpirun[0]), _WRAPPERS[name]


def _build(
    tarball: suite_builds.Tarball,
    makers: Sequence[Stack],
    root: Path,
    say: Echo,
    lock: int,
    clean: Mapping[str, str],
) -> tuple[dict[str, Path], dict[str, str], Path | None]:
    """A suite's programs, built unless they are there, how they were built, and the check that was.

    The wrappers put the path of their MPI into each program (RUNPATH), where an MPI that the loader
    knows by itself would not be found; so their compilers are started without it.
    """
    if not makers:
        raise BadInput(
            "tool-missing",
            f"no stack brings {' and '.join(_WRAPPERS.values())}, with which programs for the MPI "
            "Forum's ABI are compiled; install one that does, e.g. 'python -m "
            "mpibench.stacks.wheels mpich5'.",
        )
    maker = makers[0]
    environ = metadata.enter(maker, clean)
    lines = {}
    for name in _WRAPPERS:
        path = probe.find_program(*_wrapper(maker, name))
        shown = logged.ask([str(path), "-show"], environ, probe.ANSWER_S)
        if shown.returncode or not shown.stdout.strip():
            raise BadInput(
                "build-failed",
                f"{path} -show does not say which compiler it starts ({clause(shown.stderr)}).",
            )
        compiler, *words = _PATHS.sub("", "\n".join(shlex.split(shown.stdout))).splitlines()
        lines[name] = f'#!/bin/sh\nexec {compiler} "$@" {shlex.join(words)}\n'
    library = writer.digest_of(Path(maker.library).with_name(FORUM_SONAME))
    folder = root / SETS / writer.compute_hash([tarball.sha256, library, lines])[:12]
    record = folder / tarball.suite / SET
    is_new = not record.is_file()
    if is_new:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    for name, text in lines.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    if is_new:
        compilers = suite_builds.find_compilers(folder / "mpirun", folder, environ)
        work = root / system.BUILDS / f"abi-{folder.name}"
        built = suite_builds.build(tarball, compilers, folder, work, say, lock)
        programs = probe.search([built.prefix])
        if fault := probe.find_built_in_path(programs.values(), environ):
            raise BadInput(
                "stack-unusable",
                f"programs that {_WRAPPERS['mpicc']} of {maker.name} builds name one MPI: {fault}; "
                "build them without, and name their folder with --binaries.",
            )
        made = _Set(
            dict(built.facts),
            f"{_WRAPPERS['mpicc']} of {maker.mpi} {maker.mpi_version}, for the MPI Forum's ABI",
            {name: writer.digest_of(path) for name, path in programs.items()},
        )
        whole_file.write_text(record, json.dumps(msgspec.to_builtins(made), indent=2))
    again = f"remove {folder}, and it is built again for all stacks that have it."
    try:
        kept = msgspec.json.decode(record.read_bytes(), type=_Set)
    except (OSError, ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise BadInput(
            "file-unreadable", f"{record} is damaged ({clause(error)}); {again}"
        ) from error
    programs = probe.search([record.parent], needed=False)
    there = {name: writer.digest_of(path) for name, path in programs.items()}
    if changed := [name for name, _ in there.items() ^ kept.files.items()]:
        raise BadInput(
            "changed-since",
            f"{min(changed)} of the set {record.parent} is not what was built; {again}",
        )
    digest = writer.compute_hash(kept.files)
    say(f"{tarball.suite}: {len(there)} programs in {record.parent}, digest {digest[:12]}")
    # Each time: whoever changed the one that was there would have a wrong MPI called right.
    check = folder / CHECK.stem
    check.unlink(missing_ok=True)
    done = logged.ask([folder / "mpicc", "-o", check, CHECK], environ, probe.ANSWER_S)
    if done.returncode:
        say(f"{CHECK} does not compile ({probe.first_error(done.stderr)}).")
    facts = {**kept.facts, "built_with": kept.built_with, "digest": digest}
    return programs, facts, None if done.returncode else check


def _version_of(mpi4py: Path) -> str:
    there = importlib.metadata.distributions(path=[str(mpi4py)])
    versions = {row.name: row.version for row in there}
    if "mpi4py" not in versions:
        raise BadInput(
            "file-missing",
            f"{mpi4py} has no mpi4py: name the folder that 'pip install --target' made.",
        )
    return versions["mpi4py"]


def _register(
    stack: Stack,
    programs: Mapping[str, Path],
    facts: Mapping[str, Mapping[str, str]],
    root: Path,
    say: Echo,
    clean: Mapping[str, str],
    checks: Sequence[Path],
    mpi4py: Path | None,
) -> Stack:
    """The stack of a registered one's MPI that runs a set."""
    own: dict[str, Any] = json.loads(Path(stack.source).read_text())
    name = f"{stack.name}-abi"
    path = root / "environments" / system.ORIGIN / name / writer.METADATA
    library = Path(stack.library).with_name(FORUM_SONAME)
    folders = {
        variable: [folder for folder in listed if Path(folder) != path.parent / system.LINKS]
        for variable, listed in stack.prepend_path.items()
        if variable != "PYTHONPATH"
    }
    before = folders.get("LD_LIBRARY_PATH", [])
    folders["LD_LIBRARY_PATH"] = list(dict.fromkeys([str(library.parent), *before]))
    document = {
        **own,
        "name": name,
        "origin": system.ORIGIN,
        "abi": FORUM_ABI,
        "library": str(library),
        "binaries": {},
        "commands": {"mpirun": list(stack.mpirun)},
        "suites": {},
        # of the mpi4py for the MPI's own ABI
        "env_vars": {
            key: value for key, value in stack.env_vars.items() if not key.startswith("MPI4PY_")
        },
        "prepend_path": folders,
        "build": {
            key: value
            for key, value in stack.build.items()
            if key in ("lock_hash", "machine", "modules")
        },
    }
    python = {}
    if mpi4py and INSTRUMENT not in stack.commands:
        say(f"{name}: mpi4py is left out: {stack.name} has no Python that would start it.")
    elif mpi4py:
        document["commands"][INSTRUMENT] = list(stack.commands[INSTRUMENT])
        folders["PYTHONPATH"] = [str(mpi4py)]
        if fault := probe.find_mpi4py_fault(metadata.parse(document, path), environ=clean):
            raise BadInput("stack-unusable", f"mpi4py in {mpi4py}: {clause(fault)}.")
        python[INSTRUMENT_SUITE] = {
            "version": _version_of(mpi4py),
            "built_with": f"found in {mpi4py}, for the MPI Forum's ABI",
        }
    # Its modules are there as the stack has them, and nothing else of the shell.
    found = probe.prove(programs, metadata.parse(document, path), clean)
    for program, reason in found.left_out.items():
        say(f"{name}: {program} is left out: {reason}.")
    document["binaries"] = dict(found.binaries)
    document["suites"] = python | {
        suite: {"built_with": "found, for the MPI Forum's ABI", "version": version}
        | dict(facts.get(suite, {}))
        for suite, version in found.suites.items()
    }
    files = [library, *map(Path, found.binaries.values())]
    document["build"]["lock_hash"] = writer.compute_hash(
        [stack.lock_hash, document["suites"], [writer.digest_of(file) for file in files]]
    )
    made = writer.register(
        document,
        path,
        root=root,
        contradict=lambda each, _: (
            probe.find_launch_fault(each, environ=clean)
            or "".join(find_wrong(each, check, clean) for check in checks)
        ),
    )
    say(f"{name}: {compilation.sentence(made)}")
    say(f"{name}: registered in {path}; it runs {len(made.binaries)} programs")
    return made

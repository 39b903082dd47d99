"""Benchmark binaries somebody else built: which of a folder's run on an MPI, shown by its loader and by a real start."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from reframe_tests.harness.mpis import registry
from reframe_tests.harness.stacks.stack import Stack
from reframe_tests.harness.suites import catalogue
from reframe_tests.harness.suites.model import Programs
from reframe_tests.harness.vocabulary import BadInput

from . import logged, probe

#: Suites whose programs a stack may bring.
SUITES: Mapping[str, Programs] = {suite.name: suite.programs for suite in catalogue.SUITES.values() if suite.programs}
#: Parts of MPI installations that a private folder must not bring in from another one.
_MPI_PART = re.compile(r"lib(?:mpi|open-pal|open-rte|fabric|ucp|pmi)")


@dataclass(frozen=True)
class Found:
    """What can be run.

    :param binaries: program name to absolute path.
    :param suites: suite name to its programs' version.
    :param left_out: program to the reason why it is not run.
    """

    binaries: Mapping[str, str] = field(default_factory=dict)
    suites: Mapping[str, str] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)


def suite_of(program: str) -> str:
    """Name of the suite a program's name belongs to; empty for none."""
    return next((name for name, programs in SUITES.items() if re.fullmatch(programs.pattern, program)), "")


def list_samples(stack: Stack) -> dict[str, Path]:
    """Programs of a stack that are started to see that a build runs: those its suites name, or all of a suite."""
    suites = {name: SUITES[suite] for name in stack.binaries if (suite := suite_of(name))}
    return {name: Path(stack.binaries[name]) for name, row in suites.items() if row.sample is None or name in row.sample}


def list_globs() -> str:
    """Names of all suites' programs: ``hpcc or IMB-* or osu_*``."""
    return " or ".join(programs.glob for programs in SUITES.values())


def search(folders: Iterable[Path], *, needed: bool = True) -> dict[str, Path]:
    """Benchmark programs below folders by name; the first of a name counts.

    :param needed: each must be a folder and have some.
    """
    found: dict[str, Path] = {}
    for folder in folders:
        if needed and not folder.is_dir():
            raise BadInput(
                "file-is-no-folder", f"{folder} is not a folder; name one that holds {list_globs()} programs with --binaries."
            )
        here = {
            path.name: path.absolute()
            for path in sorted(folder.rglob("*"), reverse=True)
            if suite_of(path.name) and path.is_file() and os.access(path, os.X_OK)
        }
        if needed and not here:
            raise BadInput("no-programs", f"{folder} holds no {list_globs()} program; name a folder that does with --binaries.")
        found = {**here, **found}
    return dict(sorted(found.items()))


def find_beside(launcher: Path, abi: str, environ: Mapping[str, str]) -> dict[str, Path]:
    """Programs that a distribution puts beside an MPI's launcher, and that were built for its ABI, by name.

    :param environ: environment they would be started in.
    """
    globs = [programs.glob for programs in SUITES.values() if programs.beside_launcher]
    there = [path for glob in globs for path in sorted(launcher.parent.glob(glob)) if suite_of(path.name)]
    found = [path for path in there if path.is_file() and os.access(path, os.X_OK)]
    return {path.name: path for path in found if abi in {registry.abi_of(name) for name in list_needs(path, environ)[0]}}


def list_needs(program: Path, environ: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """What the loader makes of a program: file per library it asks for (empty: none), and symbols nobody has (ldd -r)."""
    done = logged.ask(["ldd", "-r", program], environ, 60)
    text = done.stdout + done.stderr
    libraries: list[tuple[str, str]] = re.findall(r"^\s+(\S+) => (/\S+|not found)", text, re.M)
    missing = sorted(set(re.findall(r"^undefined symbol: ([\w.]+)", text, re.M)))
    return {name: path if path.startswith("/") else "" for name, path in libraries}, missing


def plan_links(programs: Mapping[str, Path], library: Path, abi: str, environ: Mapping[str, str]) -> dict[str, Path]:
    """Libraries that programs ask for by names the stack does not have: the stack's own libmpi under another name
    (Debian's MPICH calls its ``libmpich.so.12``), and run-time libraries that lie beside the programs.

    :raises BadInput: when a program was built for another binary interface.
    """
    links: dict[str, Path] = {}
    for path in programs.values():
        for soname, resolved in list_needs(path, environ)[0].items():
            built_for = registry.abi_of(soname)
            if built_for and built_for != abi:
                raise BadInput(
                    "abi-differs",
                    f"{path} needs {soname}, the {built_for} ABI, and {library} has the {abi} ABI: name binaries built for it.",
                )
            if built_for and (not resolved or Path(resolved).resolve() != library.resolve()):
                links[soname] = library
            elif not resolved and not _MPI_PART.match(soname):
                folders = (path.parent, path.parent.parent / "lib", path.parent.parent / "lib64")
                beside = [folder / soname for folder in folders if (folder / soname).is_file()]
                if beside:
                    links[soname] = beside[0].resolve()
    return links


def prove(
    programs: Mapping[str, Path],
    stack: Stack,
    environ: Mapping[str, str],
    record: Callable[[str], object] = lambda text: None,
    *,
    needed: bool = True,
) -> Found:
    """Start each program once on a stack and keep those that run on its library.

    :param stack: the stack as it will be registered, its search paths included.
    :param needed: one of them at least has to run.
    :raises BadInput: when there were programs, none runs, and one is needed.
    """
    from reframe_tests.harness.stacks import metadata

    binaries: dict[str, str] = {}
    suites: dict[str, str] = {}
    left_out: dict[str, str] = {}
    inside = metadata.enter(stack, environ)
    for name, path in programs.items():
        reason, version = _try(name, path, stack, environ, inside, record)
        suite = suite_of(name)
        if version and suites.setdefault(suite, version) != version:
            reason = f"it is version {version}, the others are {suites[suite]}"
        if reason:
            left_out[name] = reason
        else:
            binaries[name] = str(path)
    silent = {suite_of(name) for name in binaries} - set(suites)
    suites.update({suite: SUITES[suite].unsaid for suite in silent if SUITES[suite].unsaid})
    for name in [name for name in binaries if suite_of(name) not in suites]:
        left_out[name] = f"it does not say its version on one node, and no other program of {suite_of(name)} does"
        del binaries[name]
    if needed and programs and not binaries:
        name, reason = next(iter(left_out.items()))
        raise BadInput(
            "no-program-runs", f"none of the {len(programs)} binaries runs on {stack.library}; {programs[name]}: {reason}."
        )
    return Found(binaries, suites, left_out)


def _try(
    name: str,
    path: Path,
    stack: Stack,
    environ: Mapping[str, str],
    inside: Mapping[str, str],
    record: Callable[[str], object],
) -> tuple[str, str]:
    """Why a program does not run on the stack (empty if it does), and the version it says (empty if it runs and says none)."""
    libraries, missing = list_needs(path, inside)
    absent = [soname for soname, resolved in libraries.items() if not resolved]
    if absent:
        return f"it needs {_listed(absent)}, which is not found", ""
    if missing:
        return f"it needs {_listed(missing)}, which {stack.library} does not have", ""
    asked = [resolved for soname, resolved in libraries.items() if registry.abi_of(soname)]
    if not asked:
        return "it is linked with no MPI library known here", ""
    if any(Path(resolved).resolve() != Path(stack.library).resolve() for resolved in asked):
        return f"it loads {asked[0]} and not {stack.library} (a path built into it)", ""
    suite = suite_of(name)
    programs = SUITES[suite]
    # Bound at once: a function that is missing ends the start here and not a measurement later.
    more = probe.oversubscribe(stack) if programs.ranks > 1 else ()
    status, output = probe.ask_program(stack, programs, str(path), {**environ, "LD_BIND_NOW": "1"}, more)
    record("" if programs.in_file else output)
    version = probe.version_of(programs, str(path), output)
    if not version and programs.refusal and re.search(programs.refusal, output):
        return "", ""
    if not version:
        # What a launcher says afterwards is longer and says less.
        errors = [line.strip() for line in output.splitlines() if re.search(r"\berror\b", line, re.I)]
        reason = (errors[0] if errors else probe.last_line(output)).rstrip(".")
        return f"it does not start as a program of {suite} (exit status {status}): {reason}", ""
    return "", version


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")

"""Asks an MPI on this machine what it is, and whether programs run on it.

Names of files or packages prove nothing here: launcher and library identify themselves, the loader
says which library a program gets, the kernel says which file is mapped, and every accepted program
was started.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from reframe_tests.harness.batch_systems import BATCH_SYSTEMS
from reframe_tests.harness.launchers import registry as launchers
from reframe_tests.harness.mpis import registry as mpis
from reframe_tests.harness.printable import clause, few
from reframe_tests.harness.stacks import metadata
from reframe_tests.harness.stacks.stack import Stack
from reframe_tests.harness.suites import catalogue
from reframe_tests.harness.suites.model import Programs
from reframe_tests.harness.suites.mpi4py import PROGRAM as INSTRUMENT
from reframe_tests.harness.vocabulary import BadInput

from . import logged

#: A rank's view of its MPI: version string and the libmpi files the kernel has mapped into it.
RANK_REPORT = """
import json, re
from mpi4py import MPI
maps = open("/proc/self/maps").read()
print("RANK", json.dumps({
    "version": MPI.Get_library_version().rstrip("\\0"),
    "libraries": sorted(set(re.findall(r"(/\\S.*/libmpi[^/\\n]*\\.so[^/\\n]*)$", maps, re.M))),
}), flush=True)
"""
#: What the library of a file says of itself; before MPI_Init, which MPI-3.1 allows (section 8.1.1).
LIBRARY_ANSWER = """
import ctypes, sys
library = ctypes.CDLL(sys.argv[1], ctypes.RTLD_GLOBAL)
text = ctypes.create_string_buffer(1 << 16)
library.MPI_Get_library_version(text, ctypes.byref(ctypes.c_int()))
sys.stdout.write(text.value.decode(errors="replace"))
"""
#: One rank of a world, without any binding of Python to MPI: number of ranks as the library has it.
#: The second argument is ``Mpi.world``: the name of an object, whose address is the handle, or a
#: number.
WORLD_REPORT = """
import ctypes, os, sys
library = ctypes.CDLL(sys.argv[1], ctypes.RTLD_GLOBAL)
word = sys.argv[2]
if word[0].isdigit():
    world = ctypes.c_int(int(word, 0))
else:
    world = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(library, word)))
size = ctypes.c_int()
status = library.MPI_Init(None, None)
status = status or library.MPI_Comm_size(world, ctypes.byref(size)) or library.MPI_Finalize()
if status:
    sys.exit("MPI error code %d" % status)
os.write(1, b"WORLD %d\\n" % size.value)
"""
#: Loads argv[1] by the name alone and prints the files mapped for it.
_LOADED = """
import ctypes, re, sys
ctypes.CDLL(sys.argv[1])
for path in sorted(set(re.findall(r"(/\\S.*)$", open("/proc/self/maps").read(), re.M))):
    print(path)
"""
#: Where the system's own libraries are: its updates are not the stack's.
_OF_SYSTEM = re.compile(r"/(?:usr/)?lib(?:32|64|x32)?/")
#: Variables of a surrounding job; with them mpirun would start its ranks through the scheduler.
JOB_VARIABLES = (*(name for row in BATCH_SYSTEMS for name in row.variables), "PMI_", "PMIX_")
#: Folders every process looks in for programs and needs no variable for.
SYSTEM_BIN = ("/usr/local/bin", "/usr/bin", "/bin")
#: Variables that a probe keeps from the caller: what else a stack needs
#: must be in its metadata, not in this shell.
KEPT_VARIABLES = ("HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TMPDIR", "TERM", "XDG_RUNTIME_DIR")
#: Where a prefix has its libraries: GNU directory variables, Debian's
#: multiarch folders, Intel MPI's build kinds.
LIBRARY_FOLDERS = ("lib", "lib64", "lib/*-linux-gnu*", "lib/release")
#: Parts of MPI installations that a private folder must not bring in from another one.
MPI_PART = re.compile(r"lib(?:mpi|open-pal|open-rte|fabric|ucp|pmi)")
#: Suites whose programs a stack may bring.
SUITES: Mapping[str, Programs] = {
    suite.name: suite.programs for suite in catalogue.SUITES.values() if suite.programs
}
#: Seconds for a program of a stack, and for what only says who it is.
LIMIT_S = 120.0
ANSWER_S = 60.0

Record = Callable[[str], object]


# ---- an MPI as it is installed ----


@dataclass(frozen=True)
class MpiIdentity:
    """An MPI library, in the words of ``stack.json``.

    :param device: ``ch4:ucx``, ``ch4:ucx,ofi``; empty where the implementation names none.
    :param families: process managers that come with it.
    """

    mpi: str
    version: str
    device: str
    abi: str
    pattern: str
    families: tuple[str, ...]


@dataclass(frozen=True)
class Installation:
    """An MPI as it is installed.

    :param library: its libmpi under the name programs ask for.
    :param found_by_loader: true when processes find the library without ``LD_LIBRARY_PATH``.
    """

    mpirun: Path
    family: str
    prefix: Path
    library: Path
    identity: MpiIdentity
    answer: str
    found_by_loader: bool


def clean_environment(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The environment of a fresh login: nothing that a module has set."""
    kept = {name: value for name, value in environ.items() if name in KEPT_VARIABLES}
    return {**kept, "PATH": ":".join(SYSTEM_BIN)}


def identify(answer: str, who: str) -> MpiIdentity:
    """The identity behind an answer of ``MPI_Get_library_version``.

    A derived MPI may also name its origin further down: the first name counts.

    :param who: file that gave the answer, for the sentence, and for the
        device where only its folder says it.
    """
    banners = [(mpi, mpi.banner) for mpi in mpis.known().values() if mpi.banner]
    fitting = [
        (match, mpi, banner)
        for mpi, banner in banners
        if (match := re.search(banner.version, answer, re.M))
    ]
    if not fitting:
        first = next((line.strip() for line in answer.splitlines() if line.strip()), "nothing")
        known = ", ".join(mpi.name for mpi, _ in banners)
        raise BadInput(
            "unknown-name",
            f"{who} says it is {first!r}, an unknown MPI ({known}); {mpis.remedy()}.",
        )
    match, mpi, banner = min(fitting, key=lambda row: row[0].start())
    device = re.search(banner.device, answer, re.M) if banner.device else None
    place = os.path.realpath(who)
    by_path = next(
        (name for pattern, name in banner.device_by_path.items() if re.search(pattern, place)), ""
    )
    # "ch4:ucx ofi" is a build with --with-device=ch4:ucx,ofi.
    words = re.split(r"[ ,]+", device[1].strip()) if device else [by_path] * bool(by_path)
    pattern = banner.pattern.replace("{version}", re.escape(match[1]))
    return MpiIdentity(mpi.name, match[1], ",".join(words), mpi.abi, pattern, mpi.launchers)


def examine(
    mpirun: str, library: Path | None = None, environ: Mapping[str, str] | None = None
) -> Installation:
    """What is installed where a launcher lies.

    :param library: its libmpi, where it cannot be found from the launcher's prefix.
    :param environ: what to start it in; :func:`clean_environment` by default.
    """
    launcher = _find_launcher(mpirun)
    clean = dict(clean_environment() if environ is None else environ)
    clean["PATH"] = f"{launcher.parent}:{clean['PATH']}"
    family = _ask_family(launcher, clean)
    prefix = launcher.resolve().parent.parent
    candidates = [library] if library else find_libraries(prefix)
    if not candidates:
        raise BadInput(
            "tool-missing",
            f"no libmpi below {prefix}/lib, the prefix of {launcher}; name the library with "
            "--library.",
        )
    fitting: list[tuple[Path, MpiIdentity, str]] = []
    refusals = []
    for candidate in candidates:
        # to find its neighbours
        paths = ":".join(filter(None, [str(candidate.parent), clean.get("LD_LIBRARY_PATH", "")]))
        try:
            answer = _ask_library(candidate, {**clean, "LD_LIBRARY_PATH": paths})
            identity = identify(answer, str(candidate))
        except BadInput as error:
            refusals.append(clause(error))
            continue
        if family in identity.families:
            fitting.append((candidate, identity, answer))
        else:
            launched = " or ".join(identity.families)
            refusals.append(
                f"{candidate} is {identity.mpi} {identity.version}, whose launcher is {launched}"
            )
    if not fitting:
        raise BadInput(
            "stack-unusable",
            f"{launcher} is {family}, but no library of that MPI responds: {'; '.join(refusals)}; "
            "name the right library with --library, or what it needs with --env and "
            "--prepend-path.",
        )
    if len(fitting) > 1:
        listed = ", ".join(str(candidate) for candidate, _, _ in fitting)
        raise BadInput(
            "ambiguous-name",
            f"{launcher} may belong to any of {listed}; choose one with --library.",
        )
    chosen, identity, answer = fitting[0]
    bare = {name: value for name, value in clean.items() if name != "LD_LIBRARY_PATH"}
    return Installation(
        launcher,
        family,
        prefix,
        chosen,
        identity,
        answer,
        find_by_loader(chosen, bare) == chosen.resolve(),
    )


def _find_launcher(word: str) -> Path:
    """The launcher as an absolute path that no later change of the
    system's alternatives turns into another MPI's.
    """
    found = shutil.which(word)
    if not found:
        exists = "is not a program" if Path(word).exists() else "does not exist"
        where = exists if "/" in word else "is not on PATH"
        raise BadInput(
            "tool-missing",
            f"launcher {word} {where}; name the mpirun of an MPI that is installed, e.g. "
            "--mpirun $(which mpirun).",
        )
    path = Path(found).absolute()
    while path.is_symlink():
        target = path.parent / path.readlink()
        if "alternatives" not in target.parts and "alternatives" not in path.parts:
            break
        path = target
    return path


def find_program(launcher: Path, name: str) -> Path | None:
    """A program that lies beside a launcher, or beside the one that
    it is a link to (a prefix of links).
    """
    places = (launcher.with_name(name), launcher.resolve().with_name(name))
    return next((path for path in places if os.access(path, os.X_OK)), None)


def _ask_family(launcher: Path, environ: Mapping[str, str]) -> str:
    """The process manager a launcher is."""
    rows = {
        name: row.introduction for name, row in launchers.families().items() if row.introduction
    }
    printed: dict[str, str] = {}
    for family, row in rows.items():
        if row.program and not re.search(row.program, launcher.name):
            continue
        if row.option not in printed:
            try:
                done = logged.ask([launcher, row.option], environ, ANSWER_S)
            except (OSError, subprocess.TimeoutExpired) as error:
                raise BadInput(
                    "stack-unusable",
                    f"{launcher} {row.option} cannot run ({error}); name the mpirun of an MPI.",
                ) from error
            printed[row.option] = done.stdout + done.stderr
        if re.search(row.pattern, printed[row.option]):
            return family
    said = next(
        (line.strip() for text in printed.values() for line in text.splitlines() if line.strip()),
        "nothing",
    )
    raise BadInput(
        "unknown-name",
        f"{launcher} says {said!r}, so it is not the mpirun of a known MPI ({', '.join(rows)}); "
        "name the mpirun of the MPI itself, not a script or a batch system's launcher.",
    )


def _ask_library(library: Path, environ: Mapping[str, str]) -> str:
    """What a libmpi says in ``MPI_Get_library_version``."""
    try:
        done = logged.ask([sys.executable, "-I", "-c", LIBRARY_ANSWER, library], environ, ANSWER_S)
        if done.returncode == 0 and done.stdout.strip():
            return done.stdout
        why = clause(last_line(done.stderr).removeprefix("OSError: "))
    except subprocess.TimeoutExpired:
        why = f"no answer in {ANSWER_S:.0f} s"
    raise BadInput("stack-unusable", f"{library} does not respond ({why})")


def is_library_name(name: str) -> bool:
    """Whether this can be the SONAME of an MPI's C library: at most one number after ``.so``."""
    stem, dot, number = name.partition(".so")
    known = any(stem in mpi.libraries for mpi in mpis.known().values())
    return bool(dot) and known and re.fullmatch(r"(\.\d+)?", number) is not None


def find_libraries(prefix: Path) -> list[Path]:
    """The libmpi files below a prefix, each installation's once, by the name programs ask for."""
    folders = [folder for pattern in LIBRARY_FOLDERS for folder in sorted(prefix.glob(pattern))]
    found: dict[Path, Path] = {}
    # one without a number is that of linkers, unless the library has no other
    for names in ("lib*.so.*", "lib*.so"):
        paths = (
            [path for folder in folders for path in sorted(folder.glob(names))] if not found else []
        )
        for path in paths:
            if is_library_name(path.name) and path.is_file():
                found.setdefault(path.resolve(), path)
    return list(found.values())


def find_by_loader(library: Path, environ: Mapping[str, str]) -> Path | None:
    """The file that processes get when they ask for a library by
    its name; ``None`` if they find none.
    """
    done = logged.ask([sys.executable, "-I", "-c", _LOADED, library.name], environ, ANSWER_S)
    stem = library.name.partition(".so")[0]
    mapped = [Path(line) for line in done.stdout.splitlines()] if done.returncode == 0 else []
    return next(
        (
            path
            for path in mapped
            if path == library.resolve() or path.name.partition(".so")[0] == stem
        ),
        None,
    )


def find_linked(stack: Stack, environ: Mapping[str, str] = os.environ) -> list[str] | None:
    """Libraries that belong to the stack's MPI: what a process that loads it maps besides it and
    the system's. With another libopen-pal or libfabric it would be another MPI.

    :returns: ``None`` for a library that does not load here, but only where jobs run.
    """
    script = _LOADED.replace("sys.argv[1]", repr(stack.library))
    words = [sys.executable, "-I", "-c", script]
    status, text = run_inside(stack, words, clean_environment(environ), ANSWER_S)
    if status:
        return None
    own = sys.base_prefix, sys.prefix
    return [
        line
        for line in text.splitlines()
        if ".so" in Path(line).name
        and not _OF_SYSTEM.match(line)
        and not line.startswith(own)
        and line != os.path.realpath(stack.library)
    ]


# ---- a stack, started ----


def run_inside(
    stack: Stack,
    words: Sequence[str],
    environ: Mapping[str, str] = os.environ,
    limit_s: float = LIMIT_S,
    folder: Path | None = None,
) -> tuple[int, str]:
    """Run a command inside a stack, outside any surrounding job;
    exit status and both streams as one text.

    The status is 124 when the command and all it started had to
    be killed after ``limit_s`` seconds.
    """
    inside = metadata.enter(
        stack,
        {name: value for name, value in environ.items() if not name.startswith(JOB_VARIABLES)},
    )
    process = subprocess.Popen(
        list(words), env=inside, cwd=folder, start_new_session=True, text=True, errors="replace",
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    try:
        output, _ = process.communicate(timeout=limit_s)
        return process.returncode, output
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return 124, process.communicate()[0]
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        raise


def starting(stack: Stack, ranks: int) -> list[str]:
    """The stack's own launcher with the words that its record has
    for a number of ranks on this machine.
    """
    total = launchers.families()[stack.launcher_family].total
    return [*stack.mpirun, *(word.format(ranks=ranks, nodes=1, pmi="") for word in total)]


def oversubscribe(stack: Stack) -> tuple[str, ...]:
    """Options its launcher needs to start more ranks than there are cores."""
    return launchers.families()[stack.launcher_family].oversubscribe


def ask_version(
    stack: Stack,
    programs: Programs,
    path: str,
    record: Record,
    environ: Mapping[str, str],
    more: Sequence[str] = (),
) -> tuple[str, int, str]:
    """Which version a benchmark program says it is (empty: none), the
    exit status of its start, and what it printed.
    """
    if programs.in_file:
        status = 0
        output = Path(path).read_bytes().decode("latin-1")
    else:
        words = [*starting(stack, programs.ranks), *more, *stack.enter, path]
        words += filter(None, [programs.option])
        with tempfile.TemporaryDirectory(prefix="mpibench-") as name:
            folder = Path(name) if programs.files else None
            for file, content in programs.files.items():
                Path(name, file).write_text(content)
            status, output = run_inside(stack, words, environ, folder=folder)
            result = Path(name, programs.result)
            output += result.read_text(errors="replace") if folder and result.is_file() else ""
        record(output)
    version = re.search(programs.version, output)
    if not version and programs.version_in_file and re.search(programs.refusal, output):
        version = re.search(programs.version_in_file, Path(path).read_bytes().decode("latin-1"))
    return version[1] if version else "", status, output


def find_launch_fault(
    stack: Stack, record: Record = lambda text: None, environ: Mapping[str, str] = os.environ
) -> str:
    """One sentence unless the stack's launcher starts two ranks that are
    one world of the stack's library, else empty.
    """
    world = mpis.world_of(stack.mpi, stack.abi)
    if not world:
        return (
            f"cannot test {stack.mpi}, because its MPI_COMM_WORLD is unknown: add 'world' to its "
            "record."
        )
    report = [sys.executable, "-c", WORLD_REPORT, stack.library, world]
    status, output = run_inside(
        stack, [*stack.mpirun, "-np", "2", *oversubscribe(stack), *report], environ
    )
    record(output)
    worlds = [int(size) for size in re.findall(r"^WORLD (\d+)$", output, re.M)]
    if worlds == [2, 2] and status == 0:
        return ""
    if worlds == [1, 1]:
        return (
            f"{stack.mpirun[0]} starts two worlds of one rank with {stack.library}: launcher and "
            "library do not match; name the library's launcher, or the launcher's library with "
            "--library."
        )
    reason = clause(last_line(output))
    return (
        f"{stack.mpirun[0]} cannot start two ranks of {stack.library} (exit status {status}): "
        f"{reason}."
    )


def find_mpi4py_fault(
    stack: Stack, record: Record = lambda text: None, environ: Mapping[str, str] = os.environ
) -> str:
    """One sentence unless the stack's mpi4py starts and runs on the
    stack's library; empty also where it has none.
    """
    command = stack.commands.get(INSTRUMENT)
    if not command:
        return ""
    status, output = run_inside(
        stack, [*starting(stack, 1), command[0], "-c", RANK_REPORT], environ
    )
    record(output)
    report = re.search(r"^RANK (.*)$", output, re.M)
    if not report:
        return f"mpi4py does not start on {stack.name} (exit status {status}): {last_line(output)}"
    rank = json.loads(report[1])
    if not re.search(stack.library_version_pattern, rank["version"]):
        return (
            f"{stack.name} says it is {rank['version']!r}, which does not match "
            f"{stack.library_version_pattern!r}."
        )
    expected = os.path.realpath(stack.library)
    if expected not in map(os.path.realpath, rank["libraries"]):
        return (
            f"mpi4py on {stack.name} loads {', '.join(rank['libraries']) or 'no libmpi'} and not "
            f"{expected}."
        )
    return ""


def find_contradiction(
    stack: Stack, record: Record = lambda text: None, environ: Mapping[str, str] = os.environ
) -> str:
    """Start every program of the stack once; one sentence on the first
    that contradicts the metadata, else empty.

    :param record: gets the whole output of each program.
    """
    if fault := find_mpi4py_fault(stack, record, environ):
        return fault
    for name, path in stack.binaries.items():
        programs = SUITES.get(suite := suite_of(name))
        # Others need more ranks than one to say their version; they are tried
        # when a stack of their own is registered.
        if not programs or programs.ranks > 1:
            continue
        wanted = stack.suites.get(suite, {}).get("version", "")
        version, status, output = ask_version(stack, programs, path, record, environ)
        if version != wanted or not wanted:
            what = (
                f"{name} on {stack.name} does not start as {catalogue.SUITES[suite].title} {wanted}"
            )
            return f"{what} (exit status {status}): {last_line(output)}"
    return ""


def last_line(output: str) -> str:
    """The last line that says something: Open MPI frames its messages with rulers."""
    lines = [line.strip() for line in output.splitlines() if any(sign.isalnum() for sign in line)]
    return lines[-1] if lines else "it printed nothing."


# ---- benchmark programs that somebody else built ----


@dataclass(frozen=True)
class Proven:
    """What can be run.

    :param suites: suite name to its programs' version.
    :param left_out: program to the reason why it is not run.
    :param gpus: suite name to the platform of GPUs whose memory its programs measure.
    """

    binaries: Mapping[str, str] = field(default_factory=dict)
    suites: Mapping[str, str] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)
    gpus: Mapping[str, str] = field(default_factory=dict)


def suite_of(program: str) -> str:
    """Name of the suite a program's name belongs to; empty for none."""
    return next(
        (name for name, programs in SUITES.items() if re.fullmatch(programs.pattern, program)), ""
    )


def list_globs() -> str:
    """Names of all suites' programs: ``hpcc or IMB-* or osu_*``."""
    return " or ".join(programs.glob for programs in SUITES.values())


def _is_program(path: Path) -> bool:
    return bool(suite_of(path.name)) and path.is_file() and os.access(path, os.X_OK)


def search(folders: Iterable[Path], *, needed: bool = True) -> dict[str, Path]:
    """Benchmark programs below folders by name; the first of a name counts.

    :param needed: each must be a folder and have some.
    """
    found: dict[str, Path] = {}
    for folder in folders:
        if needed and not folder.is_dir():
            raise BadInput(
                "file-unreadable",
                f"{folder} is not a folder; name one that holds {list_globs()} programs with "
                "--binaries.",
            )
        here = {
            path.name: path.absolute()
            for path in sorted(folder.rglob("*"), reverse=True)
            if _is_program(path)
        }
        if needed and not here:
            raise BadInput(
                "file-missing",
                f"{folder} has no {list_globs()} program; name a folder that has with --binaries.",
            )
        found = {**here, **found}
    return dict(sorted(found.items()))


def find_beside(launcher: Path, abi: str, environ: Mapping[str, str]) -> dict[str, Path]:
    """Programs that a distribution puts beside an MPI's launcher,
    and that were built for its ABI, by name.
    """
    globs = [programs.glob for programs in SUITES.values() if programs.beside_launcher]
    found = [
        path for glob in globs for path in sorted(launcher.parent.glob(glob)) if _is_program(path)
    ]
    return {
        path.name: path
        for path in found
        if abi in {mpis.abi_of(name) for name in list_needs(path, environ)[0]}
    }


def list_needs(program: Path, environ: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """How the loader resolves a program: the file of each needed library (empty: none), and
    undefined symbols (ldd -r).
    """
    done = logged.ask(["ldd", "-r", program], environ, ANSWER_S)
    text = done.stdout + done.stderr
    libraries: list[tuple[str, str]] = re.findall(r"^\s+(\S+) => (/\S+|not found)", text, re.M)
    missing = sorted(set(re.findall(r"^undefined symbol: ([\w.]+)", text, re.M)))
    return {name: path if path.startswith("/") else "" for name, path in libraries}, missing


def find_built_in_path(programs: Iterable[Path], environ: Mapping[str, str]) -> str:
    """A folder with parts of an MPI that is built into one of the programs (RPATH, RUNPATH), as the
    end of a sentence; empty if there is none. A compiler's own folder does not count.
    """
    try:
        done = logged.ask(["readelf", "-dW", *programs], environ, ANSWER_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BadInput(
            "tool-missing", f"readelf cannot be run ({error}); install binutils."
        ) from error
    if done.returncode:
        return f"readelf does not say ({clause(last_line(done.stderr))})"
    for kind, folders in re.findall(r"\((RPATH|RUNPATH)\).*\[(.*)\]$", done.stdout, re.M):
        for folder in folders.split(":"):
            if any(MPI_PART.match(path.name) for path in Path(folder).glob("lib*")):
                return f"{kind} has {folder}"
    return ""


def plan_links(
    programs: Mapping[str, Path], library: Path, abi: str, environ: Mapping[str, str]
) -> dict[str, Path]:
    """Libraries that programs need under names that the stack lacks: the stack's own libmpi under
    another name (Debian's MPICH calls it ``libmpich.so.12``), and run-time libraries beside the
    programs.
    """
    links: dict[str, Path] = {}
    for path in programs.values():
        for soname, resolved in list_needs(path, environ)[0].items():
            built_for = mpis.abi_of(soname)
            if built_for and built_for != abi:
                raise BadInput(
                    "not-comparable",
                    f"{path} needs {soname}, the {built_for} ABI, and {library} has the {abi} "
                    "ABI: name binaries built for it.",
                )
            if built_for and (not resolved or Path(resolved).resolve() != library.resolve()):
                links[soname] = library
            elif not resolved and not MPI_PART.match(soname):
                folders = (path.parent, path.parent.parent / "lib", path.parent.parent / "lib64")
                if neighbour := next(
                    (folder / soname for folder in folders if (folder / soname).is_file()), None
                ):
                    links[soname] = neighbour.resolve()
    return links


def prove(
    programs: Mapping[str, Path],
    stack: Stack,
    environ: Mapping[str, str],
    record: Record = lambda text: None,
    *,
    needed: bool = True,
) -> Proven:
    """Start each program once on a stack and keep those that run on its library.

    :param stack: the stack as it will be registered, its search paths included.
    :param needed: one of them at least has to run.
    """
    binaries: dict[str, str] = {}
    suites: dict[str, str] = {}
    left_out: dict[str, str] = {}
    for name, path in programs.items():
        reason, version = _try(name, path, stack, environ, record)
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
        left_out[name] = (
            f"it prints no version on one node, nor does any other program of {suite_of(name)}"
        )
        del binaries[name]
    if needed and programs and not binaries:
        name, reason = next(iter(left_out.items()))
        raise BadInput(
            "stack-unusable",
            f"none of the {len(programs)} binaries runs on {stack.library}; {programs[name]}: "
            f"{reason}.",
        )
    gpus = {suite: _find_suite_gpu(suite, binaries, stack, environ, record) for suite in suites}
    return Proven(binaries, suites, left_out, {suite: kind for suite, kind in gpus.items() if kind})


def _find_suite_gpu(
    suite: str,
    binaries: Mapping[str, str],
    stack: Stack,
    environ: Mapping[str, str],
    record: Record,
) -> str:
    """Platform of GPUs that a suite's programs were built for, as one of them says; empty: none."""
    programs = SUITES[suite]
    own = [
        name
        for name in (*(programs.sample or ()), *binaries)
        if name in binaries and suite_of(name) == suite
    ]
    if not programs.gpu:
        return ""
    for kind, pattern in programs.gpu.items():
        if programs.gpu_words:
            asked = [word.format(kind=kind) for word in programs.gpu_words]
            words = [
                *starting(stack, programs.ranks),
                *oversubscribe(stack),
                binaries[own[0]],
                *asked,
            ]
            said = run_inside(stack, words, environ)[1]
            record(said)
        else:
            said = "\n".join(list_needs(Path(binaries[own[0]]), metadata.enter(stack, environ))[0])
        if re.search(pattern, said, re.M):
            return kind
    return ""


def find_gpu(mpi: Installation, environ: Mapping[str, str], programs: Iterable[str] = ()) -> str:
    """Platform of GPUs whose memory an MPI was built to send, as it says
    itself; empty if it names none, or several.

    :param programs: paths of programs that are linked with it.
    """
    banner = mpis.find(mpi.identity.mpi).banner
    if not banner or not banner.gpu:
        return ""
    said = [mpi.answer, *(name for path in programs for name in list_needs(Path(path), environ)[0])]
    if banner.gpu_words:
        program = find_program(mpi.mpirun, banner.gpu_words[0])
        if not program:
            return ""
        said.append(logged.ask([program, *banner.gpu_words[1:]], environ, ANSWER_S).stdout)
    named = [
        kind for kind, pattern in banner.gpu.items() if re.search(pattern, "\n".join(said), re.M)
    ]
    return named[0] if len(named) == 1 else ""


def _try(
    name: str, path: Path, stack: Stack, environ: Mapping[str, str], record: Record
) -> tuple[str, str]:
    """Why a program does not run on the stack (empty if it does), and the
    version it says (empty if it runs and says none).
    """
    libraries, missing = list_needs(path, metadata.enter(stack, environ))
    absent = [soname for soname, resolved in libraries.items() if not resolved]
    if absent:
        return f"it needs {few(absent)}, which is not found", ""
    if missing:
        return f"it needs {few(missing)}, which {stack.library} lacks", ""
    loaded = [resolved for soname, resolved in libraries.items() if mpis.abi_of(soname)]
    other = [soname for soname in libraries if mpis.abi_of(soname) not in ("", stack.abi)]
    if other:
        return f"it was built for {other[0]}, and {stack.name} has the {stack.abi} ABI", ""
    if not loaded:
        return "it is linked with no known MPI library", ""
    if any(Path(resolved).resolve() != Path(stack.library).resolve() for resolved in loaded):
        return f"it loads {loaded[0]} and not {stack.library} (a path built into it)", ""
    suite = suite_of(name)
    programs = SUITES[suite]
    # Bound at once: a function that is missing ends the start here and not a measurement later.
    more = oversubscribe(stack) if programs.ranks > 1 else ()
    version, status, output = ask_version(
        stack, programs, str(path), record, {**environ, "LD_BIND_NOW": "1"}, more
    )
    if version or (programs.refusal and re.search(programs.refusal, output)):
        return "", version
    return (
        f"it does not start as a program of {suite} (exit status {status}): {first_error(output)}",
        "",
    )


def first_error(output: str) -> str:
    """Why a program did not start, as the end of a sentence: the launcher's later output is longer
    and less useful.
    """
    errors = [line.strip() for line in output.splitlines() if re.search(r"\berror\b", line, re.I)]
    return clause(errors[0] if errors else last_line(output))

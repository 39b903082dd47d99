"""Asks a stack on this machine who it is: starts its programs under its own mpirun and compares with its metadata.

Nothing is concluded from names of files or packages: the library says its version, the kernel says which file is mapped.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from reframe_tests.harness.batch_systems import BATCH_SYSTEMS
from reframe_tests.harness.launchers import registry
from reframe_tests.harness.mpis import registry as mpis
from reframe_tests.harness.stacks import metadata
from reframe_tests.harness.stacks.stack import Stack
from reframe_tests.harness.suites import catalogue
from reframe_tests.harness.suites.model import Programs
from reframe_tests.harness.suites.mpi4py import PROGRAM as INSTRUMENT

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
#: One rank of a world, without any binding of Python to MPI: number of ranks as the library has it. The second argument is
#: ``Mpi.world``: the name of an object, whose address is the handle, or a number.
WORLD_REPORT = """
import ctypes, os, sys
library = ctypes.CDLL(sys.argv[1], ctypes.RTLD_GLOBAL)
word = sys.argv[2]
if word[0].isdigit():
    world = ctypes.c_int(int(word, 0))
else:
    world = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(library, word)))
size = ctypes.c_int()
status = library.MPI_Init(None, None) or library.MPI_Comm_size(world, ctypes.byref(size)) or library.MPI_Finalize()
if status:
    sys.exit("MPI error code %d" % status)
os.write(1, b"WORLD %d\\n" % size.value)
"""
#: Variables of a surrounding job; with them mpirun would start its ranks through the scheduler.
JOB_VARIABLES = (*(name for row in BATCH_SYSTEMS for name in row.variables), "PMI_", "PMIX_")
LIMIT_S = 120.0


def run_inside(
    stack: Stack,
    words: Sequence[str],
    environ: Mapping[str, str] = os.environ,
    limit_s: float = LIMIT_S,
    folder: Path | None = None,
) -> tuple[int, str]:
    """Run a command inside a stack, outside any surrounding job; exit status and both streams as one text.

    The status is 124 when the command and all it started had to be killed after ``limit_s`` seconds.
    """
    clean = {name: value for name, value in environ.items() if not name.startswith(JOB_VARIABLES)}
    process = subprocess.Popen(
        list(words),
        env=metadata.enter(stack, clean),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
        cwd=folder,
    )
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
    """The stack's own launcher with the words that its record has for a number of ranks on this machine."""
    total = registry.families()[stack.launcher_family].total
    return [*stack.mpirun, *(word.format(ranks=ranks, nodes=1, pmi="") for word in total)]


def ask_program(
    stack: Stack, programs: Programs, path: str, environ: Mapping[str, str] = os.environ, more: Sequence[str] = ()
) -> tuple[int, str]:
    """What a benchmark program says when it is to say its version, and its exit status.

    :param more: options of the launcher.
    """
    if programs.in_file:
        return 0, Path(path).read_bytes().decode("latin-1")
    words = [*starting(stack, programs.ranks), *more, path, *filter(None, [programs.option])]
    if not programs.files:
        return run_inside(stack, words, environ)
    with tempfile.TemporaryDirectory(prefix="mpibench-") as name:
        folder = Path(name)
        for file, content in programs.files.items():
            (folder / file).write_text(content)
        status, output = run_inside(stack, words, environ, folder=folder)
        result = folder / programs.result
        return status, output + (result.read_text(errors="replace") if result.is_file() else "")


def version_of(programs: Programs, path: str, output: str) -> str:
    """The version a program said (:func:`ask_program`), or has in its file where it does not say it; empty without."""
    said = re.search(programs.version, output)
    if not said and programs.version_in_file and re.search(programs.refusal, output):
        said = re.search(programs.version_in_file, Path(path).read_bytes().decode("latin-1"))
    return said[1] if said else ""


def ask_library(library: str, environ: Mapping[str, str], limit_s: float = LIMIT_S) -> tuple[str, str]:
    """What a libmpi says in ``MPI_Get_library_version``, and why it does not (one of them is empty).

    :param environ: the whole environment of the process that loads it.
    """
    command = [sys.executable, "-I", "-c", LIBRARY_ANSWER, library]
    try:
        done = logged.ask(command, environ, limit_s)
    except subprocess.TimeoutExpired:
        return "", f"no answer in {limit_s:.0f} s"
    if done.returncode == 0 and done.stdout.strip():
        return done.stdout, ""
    return "", last_line(done.stderr).removeprefix("OSError: ")


def oversubscribe(stack: Stack) -> tuple[str, ...]:
    """Options its launcher needs to start more ranks than there are cores."""
    return registry.families()[stack.launcher_family].oversubscribe


def find_launch_fault(
    stack: Stack, record: Callable[[str], object] = lambda text: None, environ: Mapping[str, str] = os.environ
) -> str:
    """One sentence unless the stack's launcher starts two ranks that are one world of the stack's library, else empty."""
    world = mpis.find(stack.mpi).world
    if not world:
        return f"nothing is known about MPI_COMM_WORLD of {stack.mpi}, so it cannot be tried: add 'world' to its record."
    report = [sys.executable, "-c", WORLD_REPORT, stack.library, world]
    words = [*stack.mpirun, "-np", "2", *oversubscribe(stack), *report]
    status, output = run_inside(stack, words, environ)
    record(output)
    worlds = [int(size) for size in re.findall(r"^WORLD (\d+)$", output, re.M)]
    if worlds == [2, 2] and status == 0:
        return ""
    if worlds == [1, 1]:
        return (
            f"{stack.mpirun[0]} starts two worlds of one rank with {stack.library}: launcher and library do not belong "
            "together; name the launcher of that library, or the library of that launcher with --library."
        )
    reason = last_line(output).rstrip(".")
    return f"{stack.mpirun[0]} starts no two ranks of {stack.library} (exit status {status}): {reason}."


def find_mpi4py_fault(
    stack: Stack, record: Callable[[str], object] = lambda text: None, environ: Mapping[str, str] = os.environ
) -> str:
    """One sentence unless the stack's mpi4py starts and runs on the stack's library; empty also where it has none."""
    command = stack.commands.get(INSTRUMENT)
    if not command:
        return ""
    status, output = run_inside(stack, [*starting(stack, 1), command[0], "-c", RANK_REPORT], environ)
    record(output)
    report = re.search(r"^RANK (.*)$", output, re.M)
    if not report:
        return f"mpi4py does not start on {stack.name} (exit status {status}): {last_line(output)}"
    rank = json.loads(report[1])
    if not re.search(stack.library_version_pattern, rank["version"]):
        return f"{stack.name} says it is {rank['version']!r}, which {stack.library_version_pattern!r} does not fit."
    expected = os.path.realpath(stack.library)
    if expected not in map(os.path.realpath, rank["libraries"]):
        return f"mpi4py on {stack.name} loads {', '.join(rank['libraries']) or 'no libmpi'} and not {expected}."
    return ""


def find_contradiction(
    stack: Stack, record: Callable[[str], object] = lambda text: None, environ: Mapping[str, str] = os.environ
) -> str:
    """Start every program of the stack once; one sentence on the first that contradicts the metadata, else empty.

    :param record: gets the whole output of each program.
    """
    if fault := find_mpi4py_fault(stack, record, environ):
        return fault
    # Others need more ranks than one to say their version; they are tried when a stack of their own is registered.
    suites = [(suite, suite.programs) for suite in catalogue.SUITES.values() if suite.programs and suite.programs.ranks == 1]
    for suite, programs in suites:
        wanted = stack.suites.get(suite.name, {}).get("version", "")
        for name, path in stack.binaries.items():
            if not re.fullmatch(programs.pattern, name):
                continue
            status, output = ask_program(stack, programs, path, environ)
            record("" if programs.in_file else output)
            if version_of(programs, path, output) != wanted or not wanted:
                what = f"{name} on {stack.name} does not start as {suite.title} {wanted}"
                return f"{what} (exit status {status}): {last_line(output)}"
    return ""


def last_line(output: str) -> str:
    """The last line that says something: Open MPI frames its messages with rulers."""
    lines = [line.strip() for line in output.splitlines() if any(sign.isalnum() for sign in line)]
    return lines[-1] if lines else "it printed nothing."

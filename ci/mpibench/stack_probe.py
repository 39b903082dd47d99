"""Asks a stack on this machine who it is: starts its programs under its own mpirun and compares with its metadata."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence

from reframe_tests.harness import stack_metadata
from reframe_tests.harness.stack import Stack

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
#: Variables of a surrounding job; with them mpirun would start its ranks through the scheduler.
JOB_VARIABLES = ("SLURM_", "PBS_", "FLUX_", "PMI_", "PMIX_", "LSB_", "LOADL")
LIMIT_S = 120.0


def run_inside(
    stack: Stack, words: Sequence[str], environ: Mapping[str, str] = os.environ, limit_s: float = LIMIT_S
) -> tuple[int, str]:
    """Run a command inside a stack, outside any surrounding job; exit status and both streams as one text.

    The status is 124 when the command and all it started had to be killed after ``limit_s`` seconds.
    """
    clean = {name: value for name, value in environ.items() if not name.startswith(JOB_VARIABLES)}
    process = subprocess.Popen(
        list(words),
        env=stack_metadata.enter(stack, clean),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
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


def find_contradiction(stack: Stack, record: Callable[[str], object] = lambda text: None) -> str:
    """Start every program of the stack once; one sentence on the first that contradicts the metadata, else empty.

    :param record: gets the whole output of each program.
    """
    mpirun = [f"{stack.prefix}/bin/mpirun", "-n", "1"]
    command = stack.commands.get("mpi4py.bench")
    if command:
        status, output = run_inside(stack, [*mpirun, command[0], "-c", RANK_REPORT])
        record(output)
        report = re.search(r"^RANK (.*)$", output, re.M)
        if not report:
            return f"mpi4py does not start on {stack.name} (exit status {status}): {_last_line(output)}"
        rank = json.loads(report[1])
        if not re.search(stack.library_version_pattern, rank["version"]):
            return f"{stack.name} says it is {rank['version']!r}, which {stack.library_version_pattern!r} does not fit."
        expected = os.path.realpath(stack.library)
        if expected not in map(os.path.realpath, rank["libraries"]):
            return f"mpi4py on {stack.name} loads {', '.join(rank['libraries']) or 'no libmpi'} and not {expected}."
    imb = stack.suites.get("imb", {}).get("version", "")
    for name, path in stack.binaries.items():
        if not name.startswith("IMB-"):
            continue
        status, output = run_inside(stack, [*mpirun, path, "-help"])
        record(output)
        if f"Benchmarks {imb}" not in output:
            return f"{name} on {stack.name} does not start as IMB {imb} (exit status {status}): {_last_line(output)}"
    return ""


def _last_line(output: str) -> str:
    """The last line that says something: Open MPI frames its messages with rulers."""
    lines = [line.strip() for line in output.splitlines() if any(sign.isalnum() for sign in line)]
    return lines[-1] if lines else "it printed nothing."

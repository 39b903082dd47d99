"""What the MPI Forum's ABI costs: one C program, compiled for an MPI's own ABI and for the Forum's,
started in turn.

Run as ``python -m studies.abi_cost STACK... [--minutes M]``, with stacks that have both ABIs and of
which one brings ``mpicc`` and ``mpicc_abi``. Prints a row of Markdown for each call: medians of
both, and how many times longer the Forum's takes, with the 95 % interval of paired launches.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import tempfile
import time
from collections import defaultdict
from pathlib import Path

import numpy as np

from mpibench.judge import engine
from mpibench.stacks import probe
from reframe_tests.harness.mpis.model import FORUM_SONAME
from reframe_tests.harness.stacks import metadata
from reframe_tests.harness.stacks.stack import Stack

SOURCE = Path(__file__).with_suffix(".c")
CONFIDENCE = 0.95
#: Fewest pairs of launches that are worth an interval.
LEAST_PAIRS = 5


def time_calls(stack: Stack, program: Path, library: Path) -> dict[str, float]:
    """Microseconds by call, of a launch that ran this library."""
    words = [*probe.starting(stack, 2), str(program), library.name]
    status, said = probe.run_inside(stack, words, probe.clean_environment())
    ran = re.findall(r"^abi cost: ran (.+)$", said, re.M)
    if status or str(library.resolve()) not in map(str.strip, ran):
        raise SystemExit(f"{program.name} on {stack.name} ran {ran}, exit status {status}: {said}")
    return {
        name: float(value) for name, value in re.findall(r"^abi cost: (.+): ([0-9.]+)$", said, re.M)
    }


def study(stack: Stack, programs: dict[str, Path], seconds: float) -> list[str]:
    """Rows of Markdown for a stack."""
    libraries = {
        "own": Path(stack.library),
        "forum": Path(stack.library).with_name(FORUM_SONAME),
    }
    times: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    end = time.monotonic() + seconds
    pairs = 0
    while time.monotonic() < end or pairs < LEAST_PAIRS:
        for side in sorted(programs, reverse=bool(pairs % 2)):
            for call, value in time_calls(stack, programs[side], libraries[side]).items():
                times[call][side].append(value)
        pairs += 1
    logs = np.array([np.log(row["forum"]) - np.log(row["own"]) for row in times.values()])
    effects = engine.compare_pairs(logs)
    spans = zip(effects.effect, *effects.interval(CONFIDENCE), strict=True)
    rows = []
    for (call, row), span in zip(times.items(), spans, strict=True):
        own, forum = (float(np.median(row[side])) for side in ("own", "forum"))
        middle, low, high = (float(np.exp(value)) for value in span)
        rows.append(
            f"| {stack.name} {stack.mpi_version} | {call} | {own:.3f} us | {forum:.3f} us | "
            f"{middle:.3f} [{low:.3f}, {high:.3f}] | {pairs} |"
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("stacks", nargs="+")
    parser.add_argument("--minutes", type=float, default=8.0, help="for all stacks together")
    options = parser.parse_args()
    known = {stack.name: stack for stack in metadata.discover()[0]}
    stacks = [known[name] for name in options.stacks]
    makers = [row for row in known.values() if probe.find_program(Path(row.mpirun[0]), "mpicc_abi")]
    with tempfile.TemporaryDirectory() as folder:
        programs = {side: Path(folder, side) for side in ("own", "forum")}
        for side, wrapper in (("own", "mpicc"), ("forum", "mpicc_abi")):
            compiler = probe.find_program(Path(makers[0].mpirun[0]), wrapper)
            subprocess.run([str(compiler), "-O2", "-o", programs[side], SOURCE], check=True)
        for stack in stacks:
            for row in study(stack, programs, 60 * options.minutes / len(stacks)):
                print(row, flush=True)


if __name__ == "__main__":
    main()

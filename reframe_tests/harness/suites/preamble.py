"""Lines that stand before a benchmark's title, because the MPI library, the launcher or the batch system share its output.

Only lines of this table are set aside, only before the title, and they are counted: anything else there, and anything at all
inside a table, is an error of the reader. What a library or a launcher can print on stdout is kept with each
(:attr:`Mpi.stdout_lines`, :attr:`Launcher.stdout_lines`). Lines that say that something failed, or that ranks did not find each
other, belong to none of these: an output that begins with one is not a result.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from ..launchers import registry as launchers
from ..mpis import registry as mpis

#: Who else prints what, as a whole line:
#:
#: - Slurm: ``info()`` of src/salloc/salloc.c, src/sbatch/sbatch.c (22.05); without ``error:`` and ``warning:``.
#: - Shells under PBS and Torque without a terminal (tcsh and bash say so before a job's first command).
#: - LSF: ``bsub -I`` (IBM Spectrum LSF 10.1, "Submit interactive jobs"); of its job report see :data:`_REPORTS`.
#: - Intel oneAPI's ``setvars.sh`` (2021 to 2026), sourced in the job.
_LINES: Mapping[str, re.Pattern[str]] = {
    "Slurm": re.compile(
        r"salloc: (?:[Jj]ob \d+ (?:queued and waiting for resources|has been allocated resources)|Pending job allocation \d+"
        r"|Granted job allocation \d+|Waiting for resource configuration|Nodes \S+ are ready for job)"
        r"|Submitted batch job \d+(?: on cluster \S+)?"
    ),
    "the batch shell": re.compile(
        r"Warning: no access to tty \(.*\)\.|Thus no job control in this shell\."
        r"|-?bash: cannot set terminal process group \(-?\d+\): .*|-?bash: no job control in this shell"
    ),
    "LSF": re.compile(
        r"Job <\d+> is submitted to (?:default )?queue <\S+>\.|<<Waiting for dispatch \.\.\.>>|<<Starting on \S+>>"
    ),
    "setvars.sh": re.compile(
        r" *:: initializing oneAPI environment \.\.\. *| *\S+: BASH_VERSION = \S+ *"
        r"| *args: Using \"\$@\" for setvars\.sh arguments:.*"
        r"| *:: [\w.-]+ -- [\w.-]+ *| *:: oneAPI environment initialized :: *"
    ),
}

#: The report that LSF writes in front of a job's output (``bsub -o``; IBM Spectrum LSF 10.1, "The output file"), with the job's
#: script in it: at the beginning of the file, from its first line to its last. Only that of a job that LSF calls successful
#: is none of a failure.
_REPORTS: Mapping[str, re.Pattern[str]] = {
    "LSF": re.compile(
        r"Sender: LSF System <.*>\r?\nSubject: Job \d+: <.*> in cluster <.*> Done\r?\n(?:.*\n)*?# LSBATCH: User input\r?\n"
        r"(?:.*\n)*?-{20,}\r?\n\r?\nSuccessfully completed\.\r?\n(?:.*\n)*?The output \(if any\) follows:\r?\n"
    )
}


@dataclass(frozen=True)
class Preamble:
    """An output without its preamble.

    :param text: the output; a line that was set aside is left blank, so that line numbers stay.
    :param counts: who printed how many of the lines that were set aside.
    """

    text: str
    counts: Mapping[str, int]


def say(counts: Mapping[str, int]) -> str:
    """``3 lines of Slurm, 1 line of Intel MPI``; empty if there were none."""
    return ", ".join(f"{count} line{'s' if count > 1 else ''} of {name}" for name, count in counts.items())


def part(text: str, title: int) -> Preamble:
    """Set known lines aside.

    :param title: where the benchmark's title begins; from its line on nothing is touched.
    """
    end = text.rfind("\n", 0, title) + 1
    counts: Counter[str] = Counter()
    kept = []
    before = text[:end]
    for name, report in _REPORTS.items():
        if found := report.match(before):
            counts[name] += found[0].count("\n")
            before = "\n" * counts[name] + before[found.end() :]
    speakers = _speakers()
    for line in before.splitlines(keepends=True):
        whole = line.rstrip("\r\n")
        name = next((name for name, lines in speakers if lines.fullmatch(whole)), "")
        if name:
            counts[name] += 1
        kept.append("\n" if name else line)
    return Preamble("".join(kept) + text[end:], counts)


def _speakers() -> list[tuple[str, re.Pattern[str]]]:
    """Who prints which lines, MPI libraries first; where two print the same, the first counts."""
    printed = [(mpi.title, mpi.stdout_lines) for mpi in mpis.known().values()]
    printed += [(launcher.title, launcher.stdout_lines) for launcher in launchers.known().values()]
    return [*((title, lines) for title, lines in printed if lines is not None), *_LINES.items()]

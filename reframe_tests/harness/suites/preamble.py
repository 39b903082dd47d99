"""Lines around a benchmark's output: the MPI library, the launcher, the batch system and the job's
script write to the same file.

They are set aside and counted by origin, as far as it is known: what a library or a launcher can
print on stdout is defined with each (:attr:`Mpi.stdout_lines`, :attr:`Launcher.stdout_lines`).
Lines that report a failure, or that ranks did not find each other (:data:`TROUBLE`), are never set
aside: an output among them is not a result. Suites that do not define where their outputs begin and
end (:attr:`model.Suite.extent`) have only known lines set aside, and only before the title.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping

from ..launchers import registry as launchers
from ..mpis import registry as mpis

#: Slurm's lines, whole: ``info()`` of src/salloc/salloc.c, src/sbatch/sbatch.c (22.05); without
#: ``error:`` and ``warning:``.
_SLURM = re.compile(
    r"salloc: (?:[Jj]ob \d+ (?:queued and waiting for resources"
    r"|has been allocated resources)|Pending job allocation \d+"
    r"|Granted job allocation \d+|Waiting for resource configuration"
    r"|Nodes \S+ are ready for job)"
    r"|Submitted batch job \d+(?: on cluster \S+)?"
)

#: Whose lines are that no table here knows.
OTHERS = "other programs"

#: What says that a run went wrong, whoever says it, and what that is: UCX 1.8 to 1.17, Open MPI and
#: PRRTE (show_help texts), MPICH and Hydra, Slurm, LSF, PBS and Flux, the C library and the shell,
#: GNU time.
TROUBLE: tuple[tuple[str, re.Pattern[str]], ...] = (
    (
        "the ranks did not find each other: each was started as a world of its own "
        "(singletons); start them with a launcher that this MPI supports",
        re.compile(
            r"singletons? will be started|PMI server not found|No PMIx server was reachable"
        ),
    ),
    (
        "a requested device or transport is missing",
        re.compile(
            r"(?:devices?|transports?|interfaces?|providers?|UCX|libfabric|PML|BTL"
            r"|MTL)\b.* (?:is|are) not (?:available|usable)"
            r"|[Nn]o (?:hfi|HFI) units are available|A requested component was not found"
        ),
    ),
    (
        "validation failed: received data was wrong",
        re.compile(r"DATA VALIDATION ERROR|FAILED: .*data validation"),
    ),
    ("IMB received wrong data", re.compile(r"^\d+: Error \w+,? *size = ?\d|CHECK FAILURES")),
    # NCCLCHECK, CUDACHECK and TESTCHECK of nccl-tests (src/common.h).
    (
        "NCCL or the GPU's runtime failed",
        re.compile(r"\bTest (?:NCCL|CUDA|HIP) failure|\.\. \S+ pid \d+: Test failure"),
    ),
    (
        "the launcher rejected an option; check which it accepts",
        re.compile(
            r"\b(?:srun|mpirun|mpirun_rsh|mpiexec(?:\.hydra)?|prterun|prun|orterun|jsrun|aprun"
            r"|flux(?:-\w+)?)(?:\[\d+\])?: "
            r"(?i:(?:error: )?(?:unrecogni[sz]ed|unknown|invalid|illegal|ambiguous) (?:option"
            r"|argument)"
            r"|option .*(?:requires an argument|is ambiguous|doesn't allow an argument"
            r"|unrecogni[sz]ed))"
        ),
    ),
    ("UCX reports a failure", re.compile(r"\bUCX +(?:ERROR|FATAL)\b")),
    (
        "a process crashed or was ended by a signal",
        re.compile(
            r"Segmentation fault|(?:Caught|received) signal|core dumped|Bus error"
            r"|Floating point exception|Illegal instruction"
            r"|\bSIG(?:SEGV|ABRT|BUS|KILL|TERM|FPE|ILL|INT|PIPE)\b|\bSignal: |on signal \d"
            r"|signal \d+ \(|terminated by signal"
            r"|^(?:.*: )?(?:line \d+: +\d+ )?(?:Killed|Aborted|Terminated)\b|\boom.?kill"
            r"|[Oo]ut [Oo]f [Mm]emory|bad_alloc"
            r'|"signaled":[1-9]|"(?:wait_)?status":[1-9]|"exitcode":[1-9]|"name":"exception"'
        ),
    ),
    (
        "a process was aborted",
        re.compile(
            r"MPI_A(?:BORT|bort)\b|\bAbort\(\d+\)|BAD TERMINATION|[Ff]atal error in"
            r"|[Ii]nternal error|[Aa]ssert(?:ion)?\b.*fail"
            r"|MPI_ERRORS_ARE_FATAL|\*\*\* (?:STEP|JOB) \S+ .*CANCELLED|CANCELLED AT"
            r"|[Jj]ob (?:step )?aborted|aborting job|now aborting"
            r"|[Tt]ransport retry (?:count )?exceeded|errors? occurred (?:in|while)"
            r"|unable to reach each other"
        ),
    ),
    (
        "a command, the launcher or the batch system reports a failure",
        re.compile(
            r"\b(?:srun|slurmstepd|salloc|sbatch|slurmd|mpirun|mpiexec|prterun|prun|orterun"
            r"|jsrun|aprun|flux-\w+|flux|psid?)"
            r"(?:\[\d+\])?(?:@\S+)?: (?:fatal|error|Error|Warning: can't run)"
            r"|^\[(?:mpiexec|proxy:[\d:]+)@\S+\] .*(?:error|fail|exit|match)|non-?zero (?:status"
            r"|exit|return)"
            r"|[Ee]xit(?:ed|ing)? (?:with )?(?:status|(?:exit )?code):? *\(?[1-9]"
            r"|in cluster <.*> Exited"
            r"|\bTERM_[A-Z]+: |[Jj]ob killed|DUE TO (?:TIME LIMIT|NODE FAILURE|PREEMPTION)"
            r"|[Ii]nvalid benchmark\b|error while loading shared libraries"
            r"|[Ee]xecutable .*not found|execve?p?\b.*failed"
        ),
    ),
)


#: Words of a line that something went wrong, whoever says it. They are no proof (``0 errors``), so
#: they decide only below a table that nothing ends, where they are the one sign that it was cut.
_COMPLAINT = re.compile(
    r"\b(?:err(?:or)?|errors|fail(?:ed|ure)?|fatal|severe|lost|refused|reset by|denied"
    r"|terminat(?:ed|ing)|died|unreachable"
    r"|unable|cannot|can't|couldn't|corruption|smashing|free\(\)|invalid (?:pointer|size)"
    r"|traceback|exception|abnormal(?:ly)?"
    r"|time[d ]?-?out|timeout|expired|exceeded|cancel(?:l?ed)?|abort(?:ed|ing)?|killed"
    r"|out_of_memory|node_fail|preempted"
    r"|hang-?up|alarm clock|sending signal|not enough|UNDELIVERABLE|End-Of-File)\b"
    r"|(?<![^\W_])PMIX_ERR|_ERR(?:OR)?_"
    r"|\b(?:exit(?:[ _](?:status|code))?|rc|status)\"? *[ =:]+ *-?[1-9]",
    re.IGNORECASE,
)
#: What has such words and means none of it: Open MPI's and PRRTE's closing notes, counts of
#: nothing, warnings of UCX, of libibverbs and of libnuma.
_NO_COMPLAINT = re.compile(
    r"help / error messages|sent help message|\b(?:no|0|without) (?:err|fail)"
    r"|\b(?:err\w*|fail\w*|exit[ _]\w+|cancel\w*) *[=:] *0\b"
    r"|\bUCX +(?:WARN|INFO|DEBUG)\b|(?:libibverbs|libnuma): Warning",
    re.IGNORECASE,
)


def find_complaint(lines: Iterable[tuple[int, str]]) -> tuple[int, str] | None:
    """The first line that may say that a run was truncated.

    :param lines: those below a table that nothing ends, each with its number.
    """
    speakers = [known for _, known in _speakers()]
    return next(
        (
            (number, line)
            for number, line in lines
            if _COMPLAINT.search(line)
            and not _NO_COMPLAINT.search(line)
            and not any(known.fullmatch(line.rstrip("\r")) for known in speakers)
        ),
        None,
    )


def find_trouble(lines: Iterable[tuple[int, str]]) -> tuple[int, str, str] | None:
    """The first line that says that a run went wrong.

    :param lines: each with its number.
    :returns: its number, what it means, and the line.
    """
    for number, line in lines:
        for meaning, pattern in TROUBLE:
            if pattern.search(line):
                return number, meaning, line
    return None


_DATE = r"\w{3} \w{3} [ \d]\d [\d:]{8} \d{4}"
#: In front of every line that a rank wrote: ``srun --label``, ``flux run --label-io``, POE's
#: ``MP_LABELIO``; PALS's with the host; ``mpirun --tag-output``, ``--timestamp-output`` (Open MPI
#: 1.4 to 4.1), ``--output tag,timestamp`` (5.0); ``mpiexec -prepend-rank`` (Hydra).
_PREFIXES = (
    re.compile(r"(?:[A-Za-z][\w.-]* )? *(?P<rank>\d+):(?= |#|\r?$)"),
    re.compile(rf"(?:{_DATE}|\[{_DATE}\])?(?P<rank>(?:\[[^]\s]*\])*<std(?:out|err|diag)>):"),
    re.compile(r"\[(?P<rank>\d+)\](?= |\r?$)"),
)


def plain(text: str, first_lines: Iterable[re.Pattern[str]]) -> str:
    """The text without a byte order mark and without launchers' prefixes on lines of the rank that
    wrote the title, if all lines from the first to the last prefixed one have a prefix. Lines of
    other ranks keep theirs.

    :param first_lines: which lines are an output's first ones; the text is
        left as it is unless one follows a prefix.
    """
    text = text.removeprefix("\ufeff")
    wanted = list(first_lines)
    lines = text.split("\n")
    for prefix in _PREFIXES:
        marks = [prefix.match(line) for line in lines]
        rests = [
            line[mark.end() :] if mark else None for line, mark in zip(lines, marks, strict=True)
        ]
        there = [at for at, rest in enumerate(rests) if rest is not None]
        first = next(
            (at for at in there if any(known.match(rests[at] or "") for known in wanted)), None
        )
        if first is None or any(
            lines[at].strip() for at in range(there[0], there[-1]) if rests[at] is None
        ):
            continue
        writer = marks[first]
        title = rests[first] or ""
        rests = [
            rest if mark and writer and mark["rank"] == writer["rank"] else None
            for rest, mark in zip(rests, marks, strict=True)
        ]
        gap = " " * title.startswith(" ")
        return "\n".join(
            line if rest is None else rest.removeprefix(gap)
            for line, rest in zip(lines, rests, strict=True)
        )
    return text


def say(counts: Mapping[str, int]) -> str:
    """``3 lines of Slurm, 1 line of Intel MPI``; empty if there were none."""
    return ", ".join(
        f"{count} line{'s' if count > 1 else ''} of {name}" for name, count in counts.items()
    )


def count(lines: Iterable[str]) -> Counter[str]:
    """Number of lines that are not blank by origin; unknown ones are under :data:`OTHERS`."""
    speakers = _speakers()
    stripped = (line.rstrip("\r\n") for line in lines)
    return Counter(
        next((name for name, known in speakers if known.fullmatch(line)), OTHERS)
        for line in stripped
        if line.strip()
    )


def part(text: str, title: int) -> tuple[str, Counter[str]]:
    """The text with known lines left blank, so that line numbers
    stay, and who printed how many of them.

    :param title: where the benchmark's title begins; from its line on nothing is touched.
    """
    end = text.rfind("\n", 0, title) + 1
    kept = []
    counts = Counter[str]()
    speakers = _speakers()
    for line in text[:end].splitlines(keepends=True):
        whole = line.rstrip("\r\n")
        name = next((name for name, lines in speakers if lines.fullmatch(whole)), "")
        if name:
            counts[name] += 1
        kept.append("\n" if name else line)
    return "".join(kept) + text[end:], counts


def _speakers() -> list[tuple[str, re.Pattern[str]]]:
    """Who prints which lines, MPI libraries first; where two print the same, the first counts."""
    printed = [(mpi.title, mpi.stdout_lines) for mpi in mpis.known().values()]
    printed += [(launcher.title, launcher.stdout_lines) for launcher in launchers.known().values()]
    return [*((title, lines) for title, lines in printed if lines is not None), ("Slurm", _SLURM)]

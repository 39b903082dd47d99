"""The check of received data: before anything is timed, a job's ranks exchange known patterns and
compare what arrives.

A network or an MPI library that delivers wrong bytes is timed as readily as a correct one. So each
job that times something starts ``exchange.py`` once, under the same launcher, settings and evidence
as its benchmarks; a wrong byte contradicts everything the job measured. It needs the stack's
mpi4py; a case of a stack without it says so. (IMB compares data only if built with -DCHECK, which
no build for timing is: IMB User Guide, "Checking Results".)
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from ..machine.gpu import OF_HOST, Memory
from ..printable import plural
from ..stacks.stack import Stack
from ..suites import catalogue, mpi4py

#: Name of the launch.
NAME = "data_check"
PROGRAM = Path(__file__).with_name("exchange.py")
#: The instrument whose Python is used.
INSTRUMENT = mpi4py.PROGRAM

_END = re.compile(
    r"^data check: rank (\d+) of (\d+): (\d+) exchanges, (\d+) bytes, (\d+) wrong$", re.MULTILINE
)
_WRONG = re.compile(r"^data check: wrong: (.+)$", re.MULTILINE)
#: Wrong exchanges quoted in sentences; one fault shows in many of them.
_MOST_QUOTED = 3


def launch(group: str, stack: Stack, ranks: int) -> catalogue.Launch | None:
    """The launch that checks data for a group's job on a stack; ``None``
    where nothing is exchanged or the stack cannot.
    """
    python = stack.python_with(INSTRUMENT)
    if ranks < 2 or not python:
        return None
    words = (*python, str(PROGRAM), *(("one_sided",) if catalogue.GROUPS[group].one_sided else ()))
    return catalogue.Launch(NAME, mpi4py.NAME, words[0], words[1:], (), checks_data=True)


def judge(text: str, ranks: int) -> tuple[list[str], list[str]]:
    """What the output of the check says: sentences on wrong
    data, and on a check that is not whole.
    """
    reported: dict[int, tuple[int, ...]] = {}
    strange = 0
    for match in _END.finditer(text):
        rank, *rest = (int(number) for number in match.groups())
        strange += rank in reported or rest[0] != ranks or rank >= ranks or rest[1] == 0
        reported[rank] = tuple(rest)
    wrong = sum(rest[3] for rest in reported.values())
    quoted = _WRONG.findall(text)
    contradicted = []
    if wrong or quoted:
        listed = "; ".join(quoted[:_MOST_QUOTED]) or "the ranks did not say which"
        count = max(wrong, len(quoted))
        contradicted = [f"received data are wrong in {plural(count, 'exchange')} ({listed})."]
    missing = sorted(set(range(ranks)) - set(reported))
    if missing:
        return contradicted, [
            f"{len(missing)} of {ranks} ranks did not report correct data; the check is incomplete."
        ]
    if strange:
        return contradicted, [
            "the ranks' reports contradict each other (printed twice, or by another run); run it "
            "again."
        ]
    return contradicted, []


def summarise(
    text: str, memory: Memory = OF_HOST, launches: Sequence[catalogue.Launch] = ()
) -> str:
    """A note on what was compared here, in the host's memory, and whether
    that of GPUs, which the launches time, is.
    """
    rows = [[int(number) for number in match.groups()] for match in _END.finditer(text)]
    exchanges = sum(row[2] for row in rows)
    count = sum(row[3] for row in rows)
    no = "" if all(launch.compares_data for launch in launches if launch.expected) else "not "
    where = (
        f", in host memory; {memory.text} was {no}compared while it was timed"
        if memory.on_gpu
        else ""
    )
    return (
        f"received data compared byte by byte before timing: {exchanges} exchanges, {count} "
        f"bytes over all ranks{where}"
    )

"""Slurm jobs whose ReFrame is gone: killed with SIGKILL, or with its machine, it could not cancel them."""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from mpibench.cluster.state import Process
from reframe_tests.harness.job_end import OWNER
from reframe_tests.harness.vocabulary import BadInput

#: Number, state, comment and working directory of this user's jobs (``squeue(1)``); a directory may hold any character.
_LIST = ("squeue", "--noheader", "--me", "--format=%i|%T|%k|%Z")
#: Longest time for the controller to answer, in seconds.
_PATIENCE_S = 60


@dataclass(frozen=True)
class Job:
    """A job in the queue that one of our tests submitted.

    :param owner: the ReFrame process that waits for it, on ``host``.
    """

    number: str
    state: str
    host: str
    owner: Process
    directory: str


def read_queue(text: str) -> list[Job]:
    """Our jobs in what ``squeue`` printed; jobs of others, and of other programs, carry no such comment."""
    jobs = []
    for line in text.splitlines():
        number, state, comment, directory = [*line.split("|", 3), "", "", ""][:4]
        words = comment.split(":")
        if len(words) == 4 and words[0] == OWNER and words[2].isdigit() and words[3].isdigit():
            jobs.append(Job(number, state, words[1], Process(int(words[2]), int(words[3])), directory))
    return jobs


def orphaned(jobs: Iterable[Job], host: str) -> list[Job]:
    """Jobs submitted on this host by a process that has ended."""
    return [job for job in jobs if job.host == host and not job.owner.alive]


def _call(words: Iterable[str]) -> str:
    try:
        done = subprocess.run(list(words), capture_output=True, text=True, timeout=_PATIENCE_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BadInput(f"Slurm does not answer ({error}); see 'sinfo'.") from error
    if done.returncode:
        raise BadInput(f"Slurm does not answer ({' '.join(done.stderr.split())}); see 'sinfo'.")
    return done.stdout


def report(cancel: bool, say: Callable[[str], None]) -> int:
    """List orphans, or cancel them; 1 if some are left.

    :raises BadInput: if Slurm does not answer.
    """
    if not shutil.which(_LIST[0]):
        say("no Slurm here, so no jobs in a queue")
        return 0
    found = orphaned(read_queue(_call(_LIST)), socket.gethostname())
    for job in found:
        say(f"job {job.number} ({job.state}): its ReFrame, process {job.owner.pid}, is gone; files in {job.directory}")
    if found and cancel:
        _call(["scancel", *(job.number for job in found)])
        say(f"cancelled: {', '.join(job.number for job in found)}")
    if not found:
        say("no job in the queue is an orphan")
    return 1 if found and not cancel else 0

"""Slurm jobs and local launches whose ReFrame was killed with SIGKILL and so could not cancel them.

A local job ends by itself when its ReFrame does (``jobscript``). What remains are launches whose
job script was killed, too; a variable in their environment names their ReFrame.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reframe_tests.harness.cases.job.batch import OWNER
from reframe_tests.harness.cases.job.script import OWNER_VARIABLE
from reframe_tests.harness.process_stat import Process
from reframe_tests.harness.vocabulary import BadInput

#: Number, state, comment and working directory of this user's jobs
#: (``squeue(1)``); a directory may hold any character.
_LIST = ("squeue", "--noheader", "--me", "--format=%i|%T|%k|%Z")
#: Longest time for the controller to answer, in seconds.
_PATIENCE_S = 60
#: Seconds between the request to end and the kill of a process on this
#: machine; a launcher needs some to end its ranks.
_GRACE_S = 10
#: How often what is left is looked for and ended.
_ROUNDS = 5


@dataclass(frozen=True)
class OrphanJob:
    """A job in the queue that one of our tests submitted.

    :param owner: the ReFrame process that waits for it, on ``host``.
    """

    number: str
    state: str
    host: str
    owner: Process
    directory: str


@dataclass(frozen=True)
class OrphanProcess:
    """A process on this machine that a job script started, or a descendant of it.

    :param directory: where it runs, which is the job's stage directory.
    """

    process: Process
    owner: Process
    name: str
    directory: str


def read_queue(text: str) -> list[OrphanJob]:
    """Our jobs in what ``squeue`` printed; jobs of others, and of
    other programs, carry no such comment.
    """
    jobs = []
    for line in text.splitlines():
        number, state, comment, directory = [*line.split("|", 3), "", "", ""][:4]
        words = comment.rpartition(" ")[2].split(":")  # behind the site's own
        if len(words) == 4 and words[0] == OWNER and words[2].isdigit() and words[3].isdigit():
            jobs.append(
                OrphanJob(number, state, words[1], Process(int(words[2]), int(words[3])), directory)
            )
    return jobs


def orphaned(jobs: Iterable[OrphanJob], host: str) -> list[OrphanJob]:
    return [job for job in jobs if job.host == host and not job.owner.alive]


def read_processes(host: str, proc: Path = Path("/proc")) -> list[OrphanProcess]:
    """This user's processes on this machine that name a ReFrame of this host, alive or not.

    :param proc: where the kernel shows processes (``proc(5)``).
    """
    launches = []
    for folder in proc.glob("[0-9]*"):
        # A process may end while it is looked at, and those of others cannot be looked into.
        with contextlib.suppress(OSError, ValueError):
            # Numbers mean something in one PID namespace only
            # (pid_namespaces(7)); a container may have its host's name.
            if (
                folder.stat().st_uid != os.getuid()
                or (folder / "ns/pid").readlink() != (proc / "self/ns/pid").readlink()
            ):
                continue
            process = Process.observe(int(folder.name))
            variables = dict(
                row.split(b"=", 1)
                for row in (folder / "environ").read_bytes().split(b"\0")
                if b"=" in row
            )
            words = os.fsdecode(variables.get(OWNER_VARIABLE.encode(), b"")).rsplit(":", 2)
            if process and len(words) == 3 and words[0] == host:
                owner = Process(int(words[1]), int(words[2]))
                launches.append(
                    OrphanProcess(
                        process,
                        owner,
                        (folder / "comm").read_text().strip(),
                        str((folder / "cwd").readlink()),
                    )
                )
    return launches


def end(processes: Sequence[Process]) -> None:
    """End processes: ask first, kill after the grace period. A process that is no longer the same
    is left alone.
    """
    for number in (signal.SIGTERM, signal.SIGKILL):
        for process in processes:
            # What the descriptor stands for cannot be replaced by another
            # process between the look and the signal.
            with contextlib.suppress(ProcessLookupError):
                try:
                    descriptor = os.pidfd_open(process.pid)
                except ProcessLookupError:
                    continue
                except OSError:  # Linux before 5.3 (pidfd_open(2)), or not allowed
                    if process.alive:
                        os.kill(process.pid, number)
                    continue
                try:
                    if process.alive:
                        signal.pidfd_send_signal(descriptor, number)
                finally:
                    os.close(descriptor)
        until = time.monotonic() + _GRACE_S
        while any(process.alive for process in processes) and time.monotonic() < until:
            time.sleep(0.05)


def _launches() -> list[OrphanProcess]:
    return [launch for launch in read_processes(socket.gethostname()) if not launch.owner.alive]


def _jobs() -> list[OrphanJob]:
    """None if there is no Slurm."""
    return (
        orphaned(read_queue(_call(_LIST)), socket.gethostname()) if shutil.which(_LIST[0]) else []
    )


def _call(words: Iterable[str]) -> str:
    try:
        done = subprocess.run(
            list(words), capture_output=True, text=True, timeout=_PATIENCE_S, check=True
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BadInput(
            "scheduler-unusable", f"Slurm does not answer ({error}); see 'sinfo'."
        ) from error
    except subprocess.CalledProcessError as error:
        raise BadInput(
            "scheduler-unusable",
            f"Slurm does not answer ({' '.join(error.stderr.split())}); see 'sinfo'.",
        ) from None
    return done.stdout


def as_data() -> dict[str, list[dict[str, Any]]]:
    """The orphans: processes of this machine, and jobs of Slurm, each
    with the number of the ReFrame that is gone.
    """

    def origin(orphan: OrphanProcess | OrphanJob) -> dict[str, Any]:
        return {"reframe": orphan.owner.pid, "directory": orphan.directory}

    launches = [
        {"process": launch.process.pid, "name": launch.name, **origin(launch)}
        for launch in _launches()
    ]
    return {
        "processes": launches,
        "jobs": [{"job": job.number, "state": job.state, **origin(job)} for job in _jobs()],
    }


def report(cancel: bool, say: Callable[[str], None]) -> int:
    """List orphans of Slurm and of this machine, or cancel them; 1 if some are left."""
    launches = left = _launches()
    for directory in dict.fromkeys(launch.directory for launch in launches):
        there = [launch for launch in launches if launch.directory == directory]
        listed = ", ".join(f"{launch.process.pid} ({launch.name})" for launch in there)
        say(
            f"local processes {listed}: their ReFrame (process {there[0].owner.pid}) has ended; "
            f"files in {directory}"
        )
    if launches and cancel:
        # what a process started after it was looked for is found the next time
        for _ in range(_ROUNDS):
            end([launch.process for launch in left])
            if not (left := _launches()):
                break
        still = ", ".join(str(launch.process.pid) for launch in left)
        say(f"still there after SIGKILL: {still}" if left else "all of them are ended")
    jobs = _jobs()
    for job in jobs:
        say(
            f"job {job.number} ({job.state}): its ReFrame (process {job.owner.pid}) has ended; "
            f"files in {job.directory}"
        )
    if jobs and cancel:
        _call(["scancel", *(job.number for job in jobs)])
        say(f"cancelled: {', '.join(job.number for job in jobs)}")
    if not jobs and not launches and shutil.which(_LIST[0]):
        say("no orphaned jobs in the queue, no orphaned processes on this machine")
    elif not jobs and not launches:
        say("no orphaned processes on this machine; there is no Slurm here, so no queue to look at")
    return int(bool(left) or (bool(jobs) and not cancel))

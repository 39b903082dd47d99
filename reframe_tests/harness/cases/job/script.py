"""The body of a job: interleaved repeats of a group's launches, each with its own output and
evidence.

One job measures one group under one condition. Repeats are interleaved (all launches once, then all
again), so a disturbance of some seconds hits one repeat of everything instead of all repeats of one
benchmark. After a launch that had to be ended, because of its time limit or endless output, nothing
more is started: the case has failed, and the nodes are free for the next one. A job that is asked
to end, or whose ReFrame is gone, ends its launch first.
"""

from __future__ import annotations

import os
import re
import shlex
import socket
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from ... import process_stat
from ...launchers.schedulers.spool import START_LOG as START_LOG
from ...samples import CONTRADICTED, MISSING
from ...stacks import metadata
from ...stacks.stack import Stack
from ...suites.catalogue import Launch

#: The shell functions that run the launches.
DRIVER = Path(__file__).with_name("measure.sh")
#: The shell function that leaves a rank one GPU.
GPU_CHOICE = Path(__file__).with_name("select_gpu.sh")
#: Log with one line per finished launch: name, repeat, exit status, seconds from the start of the
#: launcher to its end, nonce, the node's boot_id, and both ends by the node's uptime; programs that
#: share a node have no ends of their own.
LAUNCH_LOG = "launches.txt"
_FINISHED = re.compile(
    r"(\S+) ([0-9]+) ([0-9]+) ([0-9]+)(\.[0-9]{2})?"
    r"(?: (?P<nonce>\S+)(?: (?P<boot>\S+) (?P<begun>[0-9.]+) (?P<ended>[0-9.]+))?)?"
)
#: Digests of programs before the first launch and after the last one, as sha256sum(1) prints them.
DIGEST_LOGS = ("digests.begin.txt", "digests.end.txt")
#: File of the job with the digest of each output when its launch had ended.
OUTPUT_LOG = "outputs.txt"
_STARTED = re.compile(r"^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ) \S+$", re.ASCII | re.MULTILINE)
#: Seconds between the request to end and the kill of a launch over its limit.
GRACE_S = 10
#: Exit status of coreutils' ``timeout`` when it had to end the command (timeout(1)).
TIMED_OUT = 124
#: Script that each rank is started through: it preloads the evidence library and says where
#: evidence belongs. Launches whose library or launcher differ have one each (``record2.sh``).
RECORD_SCRIPT = "record.sh"
#: Exit status noted for a launch that was ended for printing too much: that of a process that
#: exceeded ``ulimit -f`` (128 + SIGXFSZ, signal(7)).
TOO_MUCH_OUTPUT = 153
#: Bytes of each of a launch's two streams that are kept; with one byte more the launch is ended.
#: Whole nightly outputs take up to 100 kB, and an MPI that prints a line of 100 bytes for each of
#: 10,000 ranks takes 1 MB. A real ``ulimit -f`` would also bind what ranks write to shared memory
#: files.
MOST_OUTPUT_BYTES = 16 << 20
#: Bytes that are looked at, at either end, of an output without end.
ENDLESS_BYTES = 64 << 10
#: Placeholder for the file one launch's MPI writes its debug lines to.
DEBUG_FILE = "{debug_file}"
#: Begins a value, among those the harness itself sets, that names a file in the job's directory.
JOB_DIRECTORY = "$PWD/"
#: Variable that names, to the evidence library, further variables to record: ``:A:B:``.
ASKED_VARIABLE = "MPIBENCH_ASKED"
#: Variable in every process of a job on this machine: host, number
#: and start of the ReFrame that waits for it.
OWNER_VARIABLE = "MPIBENCH_OWNER"
#: Seconds between two looks at whether that ReFrame is still there.
OWNER_CHECK_S = 2


class LaunchFiles(NamedTuple):
    """Names, relative to the job's directory, of what one repeat of one launch leaves behind."""

    output: str
    error: str
    debug: str
    evidence: str
    result: str


def files_of(name: str, repeat: int) -> LaunchFiles:
    stem = f"{name}.{repeat}"
    return LaunchFiles(
        f"{stem}.out", f"{stem}.err", f"{stem}.debug", f"evidence/{stem}", f"{stem}.result.out"
    )


@dataclass(frozen=True)
class Command:
    """One launch, ready to be written into the script.

    :param name: name of the launch; part of its file names.
    :param launcher: launcher and its options, as words.
    :param program: benchmark and its arguments, as words.
    :param enter: shell text before the launcher, for a launch that
        needs another environment than the job's.
    :param asked: names of the variables whose values each rank reports.
    :param once: run it once, before the repeats of the others.
    :param known: variables that say to the evidence library what is
        known of the MPI and the launcher.
    :param files: files it is to find in the job's directory, name to content; ``result``: the one
        it writes its output to, which is kept beside its standard output.
    :param group: launches that may fail without harm to others: once one of the group has ended
        badly or timed out, no more of it are started, and the job goes on with what is not of it.
        Empty: what times out ends the job.
    :param gpu: arguments of ``select_gpu``, by which each rank sees one
        GPU; empty: the job leaves that alone.
    :param more_bytes: as :attr:`Launch.more_bytes`; the job's limit is that of the longest.
    """

    name: str
    launcher: Sequence[str]
    program: Sequence[str]
    enter: str = ""
    asked: Sequence[str] = ()
    once: bool = False
    known: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    result: str = ""
    group: str = ""
    gpu: tuple[str, ...] = ()
    more_bytes: int = 0


@dataclass(frozen=True)
class LaunchMark:
    """What tells a launch from any other.

    :param boot_id: of the node that the job's script ran on; empty: its ends were not noted.
    :param begun: its ends, in s of that node's uptime.
    """

    nonce: str = ""
    boot_id: str = ""
    begun: float = 0.0
    ended: float = 0.0


@dataclass(frozen=True)
class Owner:
    """The ReFrame process that waits for a job on the same machine.

    :param start_ticks: start of the process in clock ticks after boot
        (``proc(5)``, field 22 of ``/proc/<pid>/stat``).
    """

    host: str
    pid: int
    start_ticks: int

    @classmethod
    def this_process(cls) -> Owner:
        return cls(socket.gethostname(), os.getpid(), process_stat.read().start_ticks)

    @property
    def text(self) -> str:
        return f"{self.host}:{self.pid}:{self.start_ticks}"


def quote(value: str, *, of_job: bool = False) -> str:
    """Shell word of a value that nothing expands.

    :param of_job: the value is the harness's own, so that :data:`JOB_DIRECTORY`
        at its front stands for the job's directory.
    """
    if of_job and value.startswith(JOB_DIRECTORY):
        return f'"$PWD"/{shlex.quote(value.removeprefix(JOB_DIRECTORY))}'
    return shlex.quote(value)


def write_body(
    commands: Sequence[Command],
    *,
    repeats: int,
    limit_s: int,
    recorder: str,
    debug_env: Mapping[str, str],
    owner: Owner | None = None,
    job_key: str = "",
    digested: Sequence[str] = (),
    digested_inside: Sequence[Sequence[str]] = (),
) -> list[str]:
    """Shell lines that define ``measure``, which runs everything
    by the functions of ``measure.sh``.

    :param debug_env: variables whose value names the launch's own debug file (:data:`DEBUG_FILE`).
    :param owner: the process on the same machine without which the job must not go on.
    :param job_key: begins the nonces of all launches.
    :param digested: files of which the job logs digests (:func:`digested_files`).
    :param digested_inside: commands that print those of files in containers.
    """
    once, again = (
        [command for command in commands if command.once is first] for first in (True, False)
    )
    # Launches whose evidence library is told the same share a script.
    scripts: dict[tuple[tuple[tuple[str, str], ...], tuple[str, ...]], str] = {}
    for command in commands:
        name = RECORD_SCRIPT.replace(".", f"{len(scripts) + 1}.") if scripts else RECORD_SCRIPT
        scripts.setdefault((tuple(command.known.items()), command.gpu), name)

    def start(command: Command) -> list[str]:
        # Never an empty word: launchers that join a command's words lose it.
        asked = "".join(f":{name}" for name in command.asked) + ":"
        record = scripts[tuple(command.known.items()), command.gpu]
        result = shlex.quote(command.result)
        lines = []
        if command.result:  # what another launch wrote would be mistaken for this one's
            lines.append(f"        rm -f {result}")
        for name, content in command.files.items():  # another launch may have changed its input
            lines += [
                f"        cat >{shlex.quote(name)} <<'END_OF_FILE'",
                *content.splitlines(),
                "END_OF_FILE",
            ]
        lines += [f"        group={shlex.quote(command.group)}"] if command.group else []
        words = [command.enter] if command.enter else []
        words += [
            shlex.join(command.launcher),
            f'sh "$PWD/{record}" "$PWD/evidence/{command.name}.$repeat" {asked} "$nonce"',
        ]
        lines += [
            "        draw_nonce",
            f'        launch {command.name} "$repeat" \\',
            *(f"            {word} \\" for word in words),
        ]
        lines += [f"            {shlex.join(command.program)}"]
        lines += ["        group="] if command.group else []
        lines += (
            [f'        keep_result {command.name} "$repeat" {result}'] if command.result else []
        )
        return lines

    most_bytes = MOST_OUTPUT_BYTES + max((command.more_bytes for command in commands), default=0)
    lines = [
        f". {shlex.quote(str(DRIVER))} || exit",
        f"launch_log={LAUNCH_LOG} start_log={START_LOG} limit_s={limit_s} grace_s={GRACE_S} group=",
        f"job_key={shlex.quote(job_key)} digested=({shlex.join(digested)})",
        *(
            ["digest_inside() {", *(f"    {shlex.join(words)}" for words in digested_inside), "}"]
            if digested_inside
            else ()
        ),
        f"most_kib={most_bytes // 1024} owner={shlex.quote(owner.text if owner else '')} "
        f"look_s={OWNER_CHECK_S}",
        "set_debug() {",
        *(f'    export {key}="{_quoted(value)}"' for key, value in debug_env.items()),
        "    :",
        "}",
        "measure() {",
        "    local repeat",
        f"    begin_launches {shlex.join(command.name for command in commands)} || return",
    ]
    # A script with arguments folder, variables requested, nonce, command. It runs on the rank's own
    # node, so that what a user, a module or a launcher preloads there is kept, behind ours. Not
    # ``sh -c``: some launchers join words and part them again.
    preload = f"LD_PRELOAD={shlex.quote(recorder)}${{LD_PRELOAD:+:$LD_PRELOAD}}"
    for (known, gpu), name in scripts.items():
        lines += [
            f"    cat >{name} <<'END_OF_RECORD'",
            f"export MPIBENCH_EVIDENCE=$1 {ASKED_VARIABLE}=$2 MPIBENCH_NONCE=$3 {preload}",
            *(f"export {variable}={shlex.quote(value)}" for variable, value in known),
            *(
                [f". {shlex.quote(str(GPU_CHOICE))} && select_gpu {shlex.join(gpu)} || exit"]
                if gpu
                else []
            ),
            "shift 3",
            'exec "$@"',
            "END_OF_RECORD",
        ]
    if once:
        lines += ["    repeat=1", *(line for command in once for line in start(command))]
    lines += [f"    for repeat in {' '.join(str(number) for number in range(1, repeats + 1))}; do"]
    return [
        *lines,
        *(line for command in again for line in start(command)),
        "    done",
        "    end_launches",
        "}",
    ]


def _quoted(value: str) -> str:
    """Value for double quotes, the placeholder replaced by the launch's debug file."""
    escaped = (
        value.replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$").replace("`", "\\`")
    )
    return escaped.replace(DEBUG_FILE, "$MPIBENCH_DEBUG")


def digested_files(stack: Stack, launches: Iterable[Launch]) -> list[str]:
    """Files that a job digests before its first launch and after its last one: programs, MPI
    library with its companions, launcher, and image.
    """
    named = [stack.library, *stack.build.get("linked", ()), stack.mpirun[0], *stack.enter]
    named += [launch.program(stack)[0] for launch in launches]
    return [path for path in dict.fromkeys(named) if path in stack.files]


def judge_digests(
    stack: Stack, launches: Iterable[Launch], directory: Path
) -> tuple[str, list[str]]:
    """Status and sentences unless the job found the files as they were
    registered; one that was ended leaves no second log.
    """
    sums = [_read_digests(directory / name) for name in DIGEST_LOGS]
    files = digested_files(stack, launches)
    changed = [
        path
        for path in files
        if any(there.get(path, known := stack.files[path]["sha256"]) != known for there in sums)
    ]
    if changed:
        return CONTRADICTED, [f"{metadata.sentence_of_change(stack, path)}." for path in changed]
    silent = [path for path in files if path not in sums[0]][:1]
    return MISSING, [
        f"the job recorded no digest of {path}, so it may have changed since it was registered."
        for path in silent
    ]


def judge_outputs(outputs: Iterable[str], directory: Path) -> tuple[str, list[str]]:
    """Status and sentences unless each output is what its launch had left when it ended.

    :param outputs: files of the launches that ended.
    """
    logged = _read_digests(directory / OUTPUT_LOG)
    if changed := [
        name
        for name, digest in logged.items()
        if (path := directory / name).is_file() and metadata.digest_of(path) != digest
    ]:
        return CONTRADICTED, [
            f"{name} was changed or replaced after its launch wrote it." for name in changed
        ]
    silent = [name for name in outputs if name not in logged][:1]
    return MISSING, [
        f"the job recorded no digest of {name}, so it may not be from its launch."
        for name in silent
    ]


def _read_digests(path: Path) -> dict[str, str]:
    """Digest of each file in the output of ``sha256sum``."""
    return {line[66:]: line[:64] for line in beginning_of(path).splitlines()}


def beginning_of(path: Path, most: int = MOST_OUTPUT_BYTES) -> str:
    """Content of a file that a job left, at most its first ``most`` characters; empty if there is
    none.
    """
    if not path.exists():
        return ""
    with path.open(errors="replace") as file:
        # Python asks for as much memory as it may read.
        return file.read(min(most, path.stat().st_size))


def end_of(path: Path) -> str:
    if not path.exists():
        return ""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - ENDLESS_BYTES))
        return file.read(ENDLESS_BYTES).decode(errors="replace")


def read_launch_log(text: str) -> dict[tuple[str, int], int]:
    """Exit status per (launch, repeat) of :data:`LAUNCH_LOG`; a line cut
    short is left out and so counts as missing.
    """
    return {
        (line[1], int(line[2])): int(line[3])
        for line in map(_FINISHED.fullmatch, text.splitlines())
        if line
    }


def read_start(text: str) -> str:
    """When the last run of a job began (UTC, to a second), from its
    :data:`START_LOG`; empty if that does not say.
    """
    starts = _STARTED.findall(text)
    return starts[-1] if starts else ""


def read_launch_times(text: str) -> dict[tuple[str, int], float]:
    """Seconds per (launch, repeat) of :data:`LAUNCH_LOG`, to a
    hundredth; lines of whole seconds are left out.
    """
    matches = (line for line in map(_FINISHED.fullmatch, text.splitlines()) if line and line[5])
    return {(line[1], int(line[2])): float(line[4] + line[5]) for line in matches}


def read_launch_marks(text: str) -> dict[tuple[str, int], LaunchMark]:
    """What tells each (launch, repeat) of :data:`LAUNCH_LOG` from others."""
    lines = filter(None, map(_FINISHED.fullmatch, text.splitlines()))
    return {
        (line[1], int(line[2])): LaunchMark(
            line["nonce"] or "",
            line["boot"] or "",
            float(line["begun"] or 0),
            float(line["ended"] or 0),
        )
        for line in lines
    }

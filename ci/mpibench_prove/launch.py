"""A command under the recorder: what it is given, how it ends, and the records its ranks left.

The command is any that starts MPI ranks: a launcher, or a script around some. It keeps the
terminal, its output and its exit status; all it gets is variables of the environment, which
launchers pass on to the ranks. Records and library lie in one folder, which has to be on a file
system of all nodes.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from reframe_tests.harness.batch_systems import BATCH_SYSTEMS
from reframe_tests.harness.evidence import checks, rank_records, recorder
from reframe_tests.harness.evidence.rank_records import RankEvidence
from reframe_tests.harness.launchers import registry
from reframe_tests.harness.mpis import registry as mpis
from reframe_tests.harness.vocabulary import BadInput

#: Where the library is kept when it was built once; a folder of the user's own (XDG Base Directory
#: Specification).
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mpibench" / "recorder"
#: Signals that end or tell a launcher something; a terminal sends its own (Ctrl-C) to it as well.
FORWARDED = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
OF_TERMINAL = (signal.SIGINT, signal.SIGQUIT)
#: Variable of a batch system, whose ranks are those of the job step and no launch's inside it.
_OF_JOB = ("SLURM_", "PBS_", "LSB_", "PJM_", "FLUX_")
#: What ends a path in ``LD_PRELOAD``, or stands for another (``ld.so(8)``).
UNLOADABLE = frozenset(" :$")
#: Words of programs that run others inside a container.
CONTAINERS = ("apptainer", "singularity", "podman", "docker", "enroot", "podman-hpc", "shifter")


@dataclass(frozen=True)
class RecordedRun:
    """What a command did.

    :param status: its exit status, 128 + N after signal N, as a shell has it.
    :param launches: the ranks of each MPI program it ran, in the order they began.
    :param damaged: sentences on records that cannot be read.
    :param folder: where the records were, or still are.
    """

    words: tuple[str, ...]
    status: int
    launches: tuple[tuple[RankEvidence, ...], ...]
    damaged: tuple[str, ...]
    folder: Path


def variables(
    library: Path, folder: Path, nonce: str, environ: Mapping[str, str]
) -> dict[str, str]:
    """What a command is given so that its ranks leave records, whatever launcher it starts.

    A rank asks for itself in the variables of all launchers; those of a batch system come last,
    because ranks that another launcher started in a job have them, too. Open MPI's launcher hands
    on to other nodes only what it is told (``mca_base_env_list``, mpirun(1)); the others pass on
    all.
    """
    preloaded = [str(library), *filter(None, [environ.get("LD_PRELOAD", "")])]
    known = [launcher.identity for launcher in registry.known().values()]

    def of_all(*lists: Sequence[str]) -> str:
        names = dict.fromkeys(name for one in lists for name in one)
        return ":".join(sorted(names, key=lambda name: name.startswith(_OF_JOB)))

    given = {
        "LD_PRELOAD": ":".join(preloaded),
        "MPIBENCH_EVIDENCE": str(folder),
        "MPIBENCH_NONCE": nonce,
        "MPIBENCH_RANK_VARIABLES": of_all(*(one.rank for one in known)),
        "MPIBENCH_SIZE_VARIABLES": of_all(*(one.size for one in known)),
        "MPIBENCH_LOCAL_RANK_VARIABLES": of_all(*(one.local_rank for one in known)),
        "MPIBENCH_JOB_VARIABLES": ":".join(row.job for row in BATCH_SYSTEMS if row.job),
        "MPIBENCH_WORLDS": ":".join(f"{key}={world}" for key, world in mpis.worlds().items()),
    }
    listed = [*filter(None, [environ.get("OMPI_MCA_mca_base_env_list", "")]), *given]
    return {**given, "OMPI_MCA_mca_base_env_list": ";".join(listed)}


def run(words: Sequence[str], place: Path, *, keep: bool = False) -> RecordedRun:
    """Run a command and read what its ranks recorded.

    :param place: existing folder below which library and records lie meanwhile.
    :param keep: leave them there.
    :raises BadInput: the command is not found, there is no compiler for the library, or the folder
        cannot be written.
    """
    if not (shutil.which(words[0]) or Path(words[0]).is_file()):
        raise BadInput("tool-missing", f"{words[0]}: no such command; correct its name.")
    place = place.resolve()
    if UNLOADABLE & set(str(place)):
        raise BadInput(
            "bad-option",
            f"{place}: the loader (LD_PRELOAD) takes no path with a space, colon or dollar sign; "
            "name another shared folder with --dir.",
        )
    nonce = secrets.token_hex(8)
    built = recorder.build(CACHE)
    folder: Path | None = None
    try:
        try:
            folder = Path(tempfile.mkdtemp(prefix=".mpibench-prove-", dir=place))
            library = Path(shutil.copy(built, folder))
        except OSError as error:
            raise BadInput(
                "cannot-write",
                f"{place}: {error.strerror}; name a writable, shared folder with --dir.",
            ) from None
        given = variables(library, folder, nonce, os.environ)
        process = subprocess.Popen(words, env={**os.environ, **given}, close_fds=False)
        with _forwarding(process):
            status = process.wait()
        return RecordedRun(
            tuple(words),
            status if status >= 0 else 128 - status,
            *_read(folder, nonce),
            folder,
        )
    except OSError as error:
        raise BadInput("tool-failed", f"{words[0]}: {error.strerror or error}.") from None
    finally:
        if folder and not keep:
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _forwarding(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """While a command runs, signals are its own: it ends, and then what it left is read."""

    def forward(number: int, _: object) -> None:
        with suppress(ProcessLookupError):
            process.send_signal(number)

    before = {number: signal.signal(number, forward) for number in FORWARDED}
    of_terminal = signal.SIG_IGN if _at_terminal() else forward
    before |= {number: signal.signal(number, of_terminal) for number in OF_TERMINAL}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _at_terminal() -> bool:
    """Whether this process and the command are what a terminal sends its signals to."""
    with suppress(OSError), Path("/dev/tty").open("rb") as terminal:
        return os.tcgetpgrp(terminal.fileno()) == os.getpgrp()
    return False


def _read(folder: Path, nonce: str) -> tuple[tuple[tuple[RankEvidence, ...], ...], tuple[str, ...]]:
    """The ranks of each launch, and what cannot be read; records of another run are left out."""
    ranks, damaged = rank_records.read_all(folder)
    return split([rank for rank in ranks if rank.nonce == nonce]), tuple(map(str, damaged))


def split(ranks: Sequence[RankEvidence]) -> tuple[tuple[RankEvidence, ...], ...]:
    """Ranks by launch, the first to begin first; worlds of one rank that a launcher meant to be
    one world are one launch.

    A number comes once in a launch, a world has one size, and on one node a process of a larger one
    was loaded before those of its launch had all ended. Of several launches that it may be of, the
    first of its step of Slurm's and its program. Those of a node are put together first: clocks of
    nodes may differ.
    """
    parts = [
        part
        for there in checks.by_host(ranks).values()
        for part in _joined([one] for one in sorted(there, key=lambda one: one.init.monotonic_ns))
    ]
    launches = _joined(sorted(parts, key=lambda part: part[0].init.realtime_ns))
    return tuple(
        tuple(sorted(launch, key=lambda one: (_number(one) is None, _number(one) or 0)))
        for launch in launches
    )


def _joined(parts: Iterable[list[RankEvidence]]) -> list[list[RankEvidence]]:
    launches: list[list[RankEvidence]] = []
    for part in parts:
        fitting = [launch for launch in launches if _may_join(part, launch)]
        if fitting:
            min(fitting, key=lambda launch: _unlike(part[0], launch[0])).extend(part)
        else:
            launches.append([*part])
    return launches


def _unlike(one: RankEvidence, other: RankEvidence) -> tuple[bool, bool]:
    """How little two ranks look like one launch: another step of Slurm's, another program."""
    steps = {rank.environment.get("SLURM_STEP_ID") for rank in (one, other)}
    return len(steps) > 1, one.executable != other.executable


def _number(rank: RankEvidence) -> int | None:
    """Ranks that are alone in their worlds are told apart as their launcher meant them."""
    return rank.announced[0] if rank.size == 1 and rank.announced[0] is not None else rank.rank


def _may_join(part: Sequence[RankEvidence], launch: Sequence[RankEvidence]) -> bool:
    one = part[0]
    other = launch[0]
    beside = [rank.finalize for rank in launch if rank.host == one.host]
    ended = max((end.monotonic_ns for end in beside if end), default=0)
    there = {_number(rank) for rank in launch} - {None}
    return (
        one.size == other.size
        and (one.size != 1 or one.announced[1] == other.announced[1] != 1)
        and all(_number(rank) not in there for rank in part)
        and (one.size == 1 or not beside or None in beside or one.loaded_ns <= ended)
    )


def is_static(path: Path) -> bool:
    """Whether a program is linked statically, so that nothing can be preloaded into it: an ELF file
    without an interpreter (System V ABI, "Program Header", PT_INTERP).
    """
    with suppress(OSError), path.open("rb") as file:
        head = file.read(64)
        if len(head) < 64 or head[:5] != b"\x7fELF\x02":
            return False
        start = int.from_bytes(head[32:40], "little")
        width = int.from_bytes(head[54:56], "little")
        count = int.from_bytes(head[56:58], "little")
        file.seek(start)
        table = file.read(width * count)
        kinds = {int.from_bytes(table[at : at + 4], "little") for at in range(0, len(table), width)}
        return 3 not in kinds
    return False


def why_none(words: Sequence[str], status: int) -> str:
    """The most likely reason why no rank left a record, and what to do."""
    programs = [Path(found) for word in words if (found := shutil.which(word))]
    for path in programs:
        if path.name in CONTAINERS:
            return (
                f"{path.name} starts the ranks: bind the folder into the container (--dir names "
                "it) and pass LD_PRELOAD and MPIBENCH_... on to it"
            )
    for path in programs[1:] or programs:
        if is_static(path):
            return f"{path} is statically linked, so nothing can be preloaded: link it dynamically"
        if path.stat().st_mode & 0o6000:
            return f"{path} is setuid or setgid, so the loader takes no LD_PRELOAD"
    ended = f" (the command ended with status {status}; see what it printed)" if status else ""
    return (
        f"no program completed MPI_Init{ended}, the launcher did not pass LD_PRELOAD to the ranks "
        "(Slurm: use --export=ALL), or the ranks could not write to the folder (name a shared one "
        "with --dir)"
    )

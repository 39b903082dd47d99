"""What is known of an application's MPI calls, whichever profiler wrote it down.

Counts and seconds are sums over the profiled ranks. A size is that which benchmarks of the call have (IMB User Guide): the
bytes of one rank's block for gathers, scatters and allgathers, of one pair for all-to-alls, of the whole vector for all
others. What a profiler does not say is ``None`` and never a guess.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from reframe_tests.harness.vocabulary import BadInput

#: Calls that begin and end a program, of which no benchmark of communication says anything.
START_AND_END = frozenset({"Init", "Init_thread", "Finalize"})


@dataclass(frozen=True)
class Calls:
    """Calls of one function that are alike.

    :param call: without ``MPI_``, as the standard writes it: ``Allreduce``, ``Sendrecv_replace``.
    :param message_bytes: size of each, in bytes; of several that differ their mean. ``None``: not known.
    :param count: how many, all ranks together.
    :param seconds: time in them, all ranks together; ``None``: not known.
    :param comm_size: ranks of the communicator; ``None``: not known.
    :param smallest: smallest size behind a mean, in bytes, ``largest``: the largest; ``None``: not known.
    """

    call: str
    message_bytes: float | None
    count: int
    seconds: float | None = None
    comm_size: int | None = None
    smallest: float | None = None
    largest: float | None = None

    @property
    def name(self) -> str:
        """As the standard has it: ``MPI_Allreduce``; what is no call of its own, as it is."""
        return self.call if self.call.startswith("(") else f"MPI_{self.call}"


@dataclass(frozen=True)
class Profile:
    """One run of an application.

    :param form: the profiler, in words.
    :param ranks: ranks of the application.
    :param calls: all that it recorded.
    :param wall_s: time from start to end, all ranks together; ``None``: not known.
    :param mpi_s: time in MPI, all ranks together; ``None``: not known.
    :param rank_mpi_s: time in MPI of each rank; empty: not known.
    :param notes: what a reader must know of how the profiler counts, a sentence each.
    """

    form: str
    ranks: int
    calls: tuple[Calls, ...]
    wall_s: float | None = None
    mpi_s: float | None = None
    rank_mpi_s: tuple[float, ...] = ()
    notes: tuple[str, ...] = field(default=())

    @property
    def share_in_mpi(self) -> float | None:
        """Part of the run that was spent in MPI; ``None``: not known."""
        return self.mpi_s / self.wall_s if self.mpi_s is not None and self.wall_s else None

    @property
    def imbalance(self) -> float | None:
        """Time in MPI of the rank that has most, over the mean; ``None``: not known."""
        mean = sum(self.rank_mpi_s) / len(self.rank_mpi_s) if self.rank_mpi_s else 0.0
        return max(self.rank_mpi_s) / mean if mean else None


@dataclass(frozen=True)
class Given:
    """What the user says where a profile does not.

    :param ranks: ranks of the application.
    :param wall_s: its run time in seconds.
    """

    ranks: int | None = None
    wall_s: float | None = None


def call_of(name: str) -> str:
    """The function's name without ``MPI_`` in the standard's spelling, whatever case a profiler writes it in.

    ``MPI_ALLREDUCE``, ``Allreduce`` and ``mpi_allreduce_`` are one; of those that have a noun first (``MPI_File_read``) the
    first letter alone is upper case, too.
    """
    bare = re.sub(r"^p?mpi_", "", name.strip().rstrip("_").lower())
    return bare[:1].upper() + bare[1:]


def number(text: str, what: str, where: str, *, whole: bool = False) -> float:
    """A number that counts something: finite and not negative.

    :param where: file and line, for the sentence.
    :raises BadInput: it is none.
    """
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or value < 0 or (whole and value != int(value)):
        raise BadInput(f"{where}: {what} is {text!r}, expected a{' whole' if whole else ''} number from 0 on.")
    return value


def gathered(calls: Iterable[Calls]) -> tuple[Calls, ...]:
    """Equal calls of several ranks as one row, in the order in which they come first; none is lost."""
    rows: dict[tuple[object, ...], Calls] = {}
    for one in calls:
        key = (one.call, one.message_bytes, one.comm_size, one.smallest, one.largest, one.seconds is None)
        if (before := rows.get(key)) is not None:
            seconds = None if one.seconds is None or before.seconds is None else one.seconds + before.seconds
            one = replace(one, count=one.count + before.count, seconds=seconds)
        rows[key] = one
    return tuple(rows.values())


def check(profile: Profile, source: str) -> Profile:
    """Refuse what no run can have recorded.

    :raises BadInput: no calls, no ranks, or communicators larger than the application.
    """
    if not any(one.count for one in profile.calls):
        raise BadInput(f"{source} ({profile.form}) holds no MPI call: profile the application again.")
    if profile.ranks < 1:
        raise BadInput(f"{source} ({profile.form}) says {profile.ranks} ranks: an application has at least 1.")
    largest = max((one.comm_size or 0 for one in profile.calls), default=0)
    if largest > profile.ranks:
        raise BadInput(
            f"{source} ({profile.form}) mixes ranks: it has a communicator of {largest} and an application of "
            f"{profile.ranks} ranks; profile one run at a time."
        )
    return profile


def agree(found: Mapping[str, float | None], source: str, tolerance: float = 0.0) -> None:
    """Two sums of the same calls must be the same, or calls were lost.

    :param found: what each sum is called, and its value; one that is ``None`` is not compared.
    :param tolerance: relative difference that rounding may make.
    :raises BadInput: they differ.
    """
    known = {name: value for name, value in found.items() if value is not None}
    for name, value in known.items():
        for other, against in known.items():
            if abs(value - against) > tolerance * max(value, against):
                raise BadInput(
                    f"{source} is damaged or cut: {name} is {value:.6g}, {other} is {against:.6g}; get the profile again."
                )

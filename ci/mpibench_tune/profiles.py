"""MPI profiles of applications: each profiler's file as one record, with nothing lost on the way.

Counts and seconds are sums over the profiled ranks. A size is that which benchmarks of the call
have (IMB User Guide): the bytes of one rank's block for gathers, scatters and allgathers, of one
pair for all-to-alls, of the whole vector for all others. What a profiler does not say is ``None``
and never a guess. A format is a reader and a row of :data:`FORMS`.
"""

from __future__ import annotations

import csv
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from xml.etree import ElementTree

from reframe_tests.harness.suites.algorithms import COLLECTIVES
from reframe_tests.harness.vocabulary import BadInput

#: Calls that begin and end a program, of which no benchmark of communication says anything.
START_AND_END = frozenset({"Init", "Init_thread", "Finalize"})
#: Calls that begin a message.
SENDS = ("Send", "Bsend", "Rsend", "Ssend", "Isend", "Ibsend", "Irsend", "Issend")
#: Time in MPI over that of the run, at most: clocks and printed digits differ a little.
MOST_IN_MPI = 1.02
#: Largest file that is read, in bytes: profiles of thousands of ranks are a few MB.
LARGEST = 512 << 20


@dataclass(frozen=True)
class ProfiledCalls:
    """Calls of one function that are alike.

    :param call: without ``MPI_``, as the standard writes it: ``Allreduce``, ``Sendrecv_replace``.
    :param message_bytes: size of each, in bytes; of several that differ their mean.
    :param count: how many, all ranks together; ``seconds``: time in them.
    :param comm_size: ranks of the communicator.
    :param smallest: smallest size behind a mean, in bytes, ``largest``: the largest.
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

    :param form: the profiler, as text.
    :param wall_s: time from start to end, ``mpi_s``: time in MPI, all
        ranks together; ``rank_mpi_s``: of each rank.
    :param notes: what a reader must know of how the profiler counts, a sentence each.
    """

    form: str
    ranks: int
    calls: tuple[ProfiledCalls, ...]
    wall_s: float | None = None
    mpi_s: float | None = None
    rank_mpi_s: tuple[float, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def share_in_mpi(self) -> float | None:
        """Part of the run that was spent in MPI."""
        return self.mpi_s / self.wall_s if self.mpi_s is not None and self.wall_s else None

    @property
    def imbalance(self) -> float | None:
        """Time in MPI of the rank that has most, over the mean."""
        mean = sum(self.rank_mpi_s) / len(self.rank_mpi_s) if self.rank_mpi_s else 0.0
        return max(self.rank_mpi_s) / mean if mean else None


@dataclass(frozen=True)
class Usage:
    """What an application calls in communicators of the ranks that are tuned for.

    :param source: its profile, for a reader.
    :param shares: collective to its part of the time (or, where no times
        are known, of the calls), most first.
    :param calls: collective to message size to calls, where the profile has sizes.
    """

    source: str
    shares: Mapping[str, float]
    calls: Mapping[str, Mapping[float, float]]

    @classmethod
    def of(cls, profile: Profile, source: str, ranks: int) -> Usage:
        """That of a profile; calls without a communicator count where
        the application has as many ranks.
        """
        mine = [
            call
            for call in profile.calls
            if (call.comm_size or profile.ranks) == ranks
            and call.call in COLLECTIVES
            and call.count
        ]
        if not mine:
            raise BadInput(
                "nothing-measured",
                f"{source} ({profile.form}) has no collective in a communicator of {ranks} ranks, "
                "the size to tune for.",
            )
        timed = all(call.seconds is not None for call in mine)
        sums: dict[str, float] = {}
        calls: dict[str, dict[float, float]] = {}
        for one in mine:
            sums[one.call] = sums.get(one.call, 0.0) + (one.seconds or 0.0 if timed else one.count)
            if one.message_bytes is not None:
                sizes = calls.setdefault(one.call, {})
                sizes[one.message_bytes] = sizes.get(one.message_bytes, 0.0) + one.count
        if not calls:
            raise BadInput(
                "nothing-measured",
                f"{source} ({profile.form}) has no sizes of its collectives, so nothing can be "
                "weighted.",
            )
        total = sum(sums.values()) or 1.0
        ordered = sorted(sums, key=lambda name: -sums[name])
        return cls(source, {name: sums[name] / total for name in ordered}, calls)

    def weights(self, collective: str, sizes: Sequence[int]) -> dict[int, float]:
        """Measured sizes to calls: those between two count for both, by
        their distance; those beyond, for none.
        """
        found: dict[int, float] = {}
        for size, calls in self.calls.get(collective, {}).items():
            if not sizes or not sizes[0] <= size <= sizes[-1]:
                continue
            above = next(at for at, there in enumerate(sizes) if there >= size)
            part = (
                1.0
                if sizes[above] == size
                else (size - sizes[above - 1]) / (sizes[above] - sizes[above - 1])
            )
            for at, share in ((above, part), (above - 1, 1 - part)):
                if share:
                    found[sizes[at]] = found.get(sizes[at], 0.0) + share * calls
        return found

    def covered(self, collective: str, sizes: Sequence[int]) -> float:
        """Part of the calls whose sizes lie within those measured."""
        calls = self.calls.get(collective, {})
        total = sum(calls.values())
        return sum(self.weights(collective, sizes).values()) / total if total else 0.0


def read(
    path: Path, ranks: int | None = None, wall_s: float | None = None, *, exact: bool = True
) -> Profile:
    """Read a profile of any known form.

    :param ranks: of the application, ``wall_s``: its run time in seconds, as the user says them.
    :param exact: a profile that says other ranks than the ones given is refused.
    """
    try:
        if path.stat().st_size > LARGEST:
            raise BadInput(
                "output-damaged",
                f"{path} has more than {LARGEST >> 20} MiB: a profile of calls is smaller; is it "
                "a trace?",
            )
        text = path.read_bytes().decode("utf-8", errors="replace").replace("\r\n", "\n")
    except OSError as error:
        raise BadInput(
            "output-damaged", f"cannot read the profile {path}: {error.strerror}."
        ) from None
    form = next((name for name, (pattern, _) in FORMS.items() if re.search(pattern, text)), None)
    if form is None:
        raise BadInput(
            "other-release", f"{path} has an unknown format; known are {', '.join(FORMS)}."
        )
    source = f"{path} ({form})"
    if "\0" in text or "\ufffd" in text:
        raise _damaged(source, "it has bytes that are not text")
    found = FORMS[form][1](text, str(path), ranks)
    wall = wall_s * found.ranks if found.wall_s is None and wall_s is not None else found.wall_s
    found = replace(found, form=form, calls=gathered(found.calls), wall_s=wall)
    if not any(calls.count for calls in found.calls):
        raise BadInput(
            "nothing-measured", f"{source} has no MPI call: profile the application again."
        )
    if found.ranks < 1:
        raise BadInput(
            "output-damaged", f"{source} says {found.ranks} ranks: an application has at least 1."
        )
    largest = max(calls.comm_size or 0 for calls in found.calls)
    if largest > found.ranks:
        raise _mixed(
            source, f"it has a communicator of {largest} and an application of {found.ranks} ranks"
        )
    if exact and ranks is not None and ranks != found.ranks:
        raise BadInput(
            "output-damaged",
            f"{path} is a profile of {found.ranks} ranks, and --ranks says {ranks}.",
        )
    if found.mpi_s is not None and wall is not None and found.mpi_s > MOST_IN_MPI * wall:
        raise BadInput(
            "output-mixed",
            f"{source} has {found.mpi_s:.4g} s in MPI but a run of {wall:.4g} s, all ranks "
            "together: one of them belongs to another run.",
        )
    return found


def call_of(name: str) -> str:
    """The function's name without ``MPI_`` in the standard's
    spelling, whatever case a profiler writes it in.

    ``MPI_ALLREDUCE``, ``Allreduce`` and ``mpi_allreduce_`` are one; of those that have a noun first
    (``MPI_File_read``) the first letter alone is upper case, too.
    """
    bare = re.sub(r"^p?mpi_", "", name.strip().rstrip("_").lower())
    return bare[:1].upper() + bare[1:]


def gathered(rows: Iterable[ProfiledCalls]) -> tuple[ProfiledCalls, ...]:
    """Equal calls of several ranks as one row, in the order in
    which they come first; none is lost.
    """
    sums: dict[tuple[object, ...], ProfiledCalls] = {}
    for row in rows:
        key = (
            row.call,
            row.message_bytes,
            row.comm_size,
            row.smallest,
            row.largest,
            row.seconds is None,
        )
        if before := sums.get(key):
            seconds = None if row.seconds is None else row.seconds + (before.seconds or 0.0)
            row = replace(row, count=row.count + before.count, seconds=seconds)
        sums[key] = row
    return tuple(sums.values())


# What all readers refuse, and the tables they read.


def _damaged(where: str, what: str) -> BadInput:
    return BadInput(
        "output-damaged", f"{where}: {what}: the file is damaged or truncated; profile again."
    )


def _cut(where: str, what: str) -> BadInput:
    return BadInput("output-cut", f"{where} is truncated: {what}; profile again.")


def _mixed(where: str, what: str) -> BadInput:
    return BadInput("output-mixed", f"{where} mixes ranks: {what}; profile one run at a time.")


def _without_sizes(where: str, what: str, remedy: str, lacks: str = "sizes") -> BadInput:
    return BadInput(
        "nothing-measured",
        f"{where}: {what}, and without {lacks} nothing can be predicted: {remedy}.",
    )


def _number(text: str, what: str, where: str, *, whole: bool = False) -> float:
    """What counts something: finite and not negative."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or value < 0 or (whole and value != int(value)):
        raise _damaged(
            where, f"{what} is {text!r}, expected a{' whole' if whole else ''} number from 0 on"
        )
    return value


def _agree(
    where: str, what: str, value: float, other: str, against: float, tolerance: float = 0.0
) -> None:
    """Two sums of the same calls must be the same, but for a relative
    difference by rounding, or calls were lost.
    """
    if abs(value - against) > tolerance * max(value, against):
        raise _damaged(where, f"{what} is {value:.6g}, {other} is {against:.6g}")


class _Row:
    """One line of a table, by its columns."""

    def __init__(self, where: str, cells: Sequence[str], columns: Sequence[str]) -> None:
        if len(cells) != len(columns):
            raise _damaged(
                where, f"{len(cells)} fields, expected {len(columns)} ({', '.join(columns)})"
            )
        self.where = where
        self.cells = dict(zip(columns, cells, strict=True))

    def __getitem__(self, name: str) -> str:
        if name not in self.cells:
            raise _damaged(self.where, f"no {name} among {', '.join(self.cells)}")
        return self.cells[name]

    def number(self, name: str) -> float:
        return _number(self[name], name, self.where)

    def count(self, name: str) -> int:
        return int(_number(self[name], name, self.where, whole=True))


def _lines(text: str, source: str) -> list[tuple[str, str]]:
    """Where each line stands, and the line."""
    return [(f"{source}, line {at}", line) for at, line in enumerate(text.splitlines(), start=1)]


def _heads(line: str) -> list[str]:
    """Heads of columns that are two or more blanks apart and may hold
    single ones, as Intel's tools print them.
    """
    return re.split(r"\s{2,}", line.strip(" |"))


def _csv(text: str, source: str) -> tuple[list[str], list[_Row]]:
    """Columns and rows of a table whose last line ends; comments are left out."""
    _check_end(text, source)
    lines = [
        (where, line)
        for where, line in _lines(text, source)
        if line.strip() and not line.startswith("#")
    ]
    cells = [[cell.strip() for cell in next(csv.reader([line]))] for _, line in lines]
    heads = cells[0] if cells else []
    return heads, [
        _Row(where, row, heads) for (where, _), row in zip(lines[1:], cells[1:], strict=True)
    ]


def _check_end(text: str, source: str) -> None:
    if not text.endswith("\n"):
        raise _cut(source, "its last line is incomplete")


#: Counters by rank.
_Counters = dict[int, dict[str, float]]


def _add(found: _Counters, rank: int, name: str, value: float, where: str) -> None:
    if name in found.setdefault(rank, {}):
        raise _mixed(where, f"{name} of rank {rank} is there twice")
    found[rank][name] = value


def _counters_of_csv(text: str, source: str, pattern: str) -> _Counters:
    """Counters (``rank,counter,value``) whose name the pattern fits in full;
    a module or a file may stand beside the three.
    """
    heads, rows = _csv(text, source)
    if not {"rank", "counter", "value"} <= set(heads):
        there = ", ".join(heads)
        raise BadInput(
            "output-unknown",
            f"{source}: columns are {there}, expected rank, counter, value among them.",
        )
    found: _Counters = {}
    for row in rows:
        if re.fullmatch(pattern, row["counter"]):
            _add(found, row.count("rank"), row["counter"], row.number("value"), row.where)
    return found


def _check_ranks(found: _Counters, ranks: int, source: str) -> None:
    lacking = sorted(set(range(ranks)) - set(found))
    if lacking or len(found) > ranks:
        none = f" (rank {lacking[0]} has none)" if lacking else ""
        raise _damaged(
            source, f"it has counters of {len(found)} ranks and the application has {ranks}{none}"
        )


# mpiP's text report, verbose or concise (mpiP 3.5, User Guide, "mpiP
# Output"; ``report.c`` for the columns).
#
# Verbose reports have a row per callsite and rank and one for all ranks (``*``), for times and for
# bytes sent. mpiP gives the mean of a callsite's sizes with their bounds, no receive sizes, no
# communicator sizes, and none at all for calls of vectors (``MPI_Alltoallv``). Concise reports
# (``MPIP=-c``) list the twenty callsites of most time and most bytes; the others are counted as one
# whose call is unknown. Numbers are printed with three or four digits.
#
# What makes lost rows visible: the number of rows in the title of the times, which holds unless
# rows below a threshold were left out (``-t``), ``*`` rows against those of ranks, callsites
# against the total, and the report's last title.

#: Beginnings of titles, and the columns below them.
_MPIP = {
    "MPI Time (seconds)": "Task AppTime MPITime MPI%",
    "Callsite Time statistics (all, milliseconds)": "Name Site Rank Count Max Mean Min App% MPI%",
    "Callsite Message Sent statistics (all, sent bytes)": "Name Site Rank Count Max Mean Min Sum",
    "Aggregate Time": "Call Site Time App% MPI% Count COV",
    "Aggregate Sent Message Size": "Call Site Count Total Avrg Sent%",
}
_TOTALS, _TIMES, _SENT, _TOP_TIMES, _TOP_SENT = _MPIP
#: Three printed digits differ from the number by 0.5 % at most, and
#: so does the sum they are compared with.
_ROUNDING = 0.011
#: Callsites that the sections of a concise report have.
_MOST_LISTED = 20


def _mpip(text: str, source: str, _: int | None) -> Profile:
    sections: dict[str, list[tuple[str, list[str]]]] = {}
    lines: list[tuple[str, list[str]]] = []
    for where, line in _lines(text, source):
        if title := re.fullmatch(r"@--- (.+?) -*\s*", line):
            lines = sections[title[1].strip()] = []
        elif line.strip() and not line.startswith(("---", "@")):
            lines.append((where, line.split()))
    if "End of Report" not in sections:
        raise _cut(source, "it lacks the title 'End of Report'")
    full = {
        title: next((name for name in sections if name.startswith(title)), "") for title in _MPIP
    }

    def table(title: str) -> list[_Row]:
        there = [
            line
            for line in sections.get(full[title], ())
            if line[1][0] not in ("Name", "Call", "Task")
        ]
        if title == _TOP_TIMES and (
            old := next((where for where, cells in there if len(cells) == 6), "")
        ):
            sentence = (
                f"{old}: a report without counts is that of an mpiP before 3.5: use its verbose "
                "report."
            )
            raise BadInput("other-release", sentence)
        return [_Row(where, cells, _MPIP[title].split()) for where, cells in there]

    totals = table(_TOTALS)
    if not totals or totals[-1]["Task"] != "*":
        raise _cut(
            source,
            f"the section {_TOTALS!r} or its last line, which mpiP's default report has, is not "
            "there",
        )
    per_rank = tuple(row.number("MPITime") for row in totals[:-1])
    if tasks := set(re.findall(r"^@ MPI Task Assignment\s*: (\d+) ", text, re.MULTILINE)):
        _agree(source, "number of tasks", len(per_rank), "task assignments", len(tasks))
    wall_s = totals[-1].number("AppTime")
    mpi_s = totals[-1].number("MPITime")
    _agree(source, "time in MPI of all tasks", mpi_s, "the sum of theirs", sum(per_rank), _ROUNDING)
    if verbose := full[_TIMES]:
        times = table(_TIMES)
        sent = table(_SENT)
        whole = not re.search(r"^@ MPIP env var\s*:.*-t", text, re.MULTILINE)
        if whole and (announced := re.search(r": (\d+)$", verbose)):
            of_ranks = sum(row["Rank"] != "*" for row in times)
            _agree(
                source,
                "rows of callsites and ranks",
                of_ranks,
                "rows that its title announces",
                int(announced[1]),
            )
        calls = list(
            _mpip_callsites(
                _mpip_sites(times, source, whole), _mpip_sites(sent, source, whole), source
            )
        )
    else:
        listed = re.search(r"^@--- Callsites: (\d+) ", text, re.MULTILINE)
        calls = list(
            _mpip_concise(
                table(_TOP_TIMES), table(_TOP_SENT), source, listed and int(listed[1]), mpi_s
            )
        )
    seconds = sum(row.seconds or 0.0 for row in calls)
    _agree(
        source, "time in MPI of all tasks", mpi_s, "the sum over callsites", seconds, 2 * _ROUNDING
    )
    notes = (
        "sizes are means by callsite (mpiP)",
        "mpiP records no sizes of receives and vectors",
    )
    return Profile("", len(per_rank), tuple(calls), wall_s, mpi_s, per_rank, notes)


def _mpip_sites(rows: list[_Row], source: str, whole: bool) -> dict[tuple[str, str], _Row]:
    """The rows of all ranks together (``*``) by call and site; unless rows
    were left out they count what those of ranks do.
    """
    sites: dict[tuple[str, str], _Row] = {}
    of_ranks: Counter[tuple[str, str]] = Counter()
    for row in rows:
        site = (row["Name"], row["Site"])
        if row["Rank"] != "*":
            of_ranks[site] += row.count("Count")
        elif site in sites:
            raise _damaged(row.where, f"callsite {site[1]} is there twice")
        else:
            sites[site] = row
    for site in {**sites, **of_ranks} if whole else ():
        count = sites[site].count("Count") if site in sites else 0
        _agree(
            source,
            f"count of callsite {site[1]} ({site[0]})",
            count,
            "the sum over its ranks",
            of_ranks[site],
        )
    return sites


def _mpip_callsites(
    times: Mapping[tuple[str, str], _Row], sent: Mapping[tuple[str, str], _Row], source: str
) -> Iterator[ProfiledCalls]:
    for name, site in sent.keys() - times.keys():
        raise _damaged(source, f"callsite {site} ({name}) sent messages and has no times")
    for (name, site), row in times.items():
        call = call_of(name)
        count = row.count("Count")
        seconds = count * row.number("Mean") / 1000
        sizes = sent.get((name, site))
        sized = sizes.count("Count") if sizes else 0
        if sized > count:
            raise _damaged(source, f"callsite {site} sent {sized} messages in {count} calls")
        if sizes and sized:
            largest, mean, smallest = (sizes.number(column) for column in ("Max", "Mean", "Min"))
            yield ProfiledCalls(call, mean, sized, seconds * sized / count, None, smallest, largest)
        if count > sized:
            yield ProfiledCalls(call, None, count - sized, seconds * (count - sized) / count)


def _mpip_concise(
    times: list[_Row], sent: list[_Row], source: str, listed: int | None, mpi_s: float
) -> Iterator[ProfiledCalls]:
    if not times:
        raise _without_sizes(
            source, "it has no times of callsites", "run without options that shorten mpiP's report"
        )
    if listed is None:
        raise _cut(source, "it does not say how many callsites there are")
    if not sent and not any(call_of(row["Call"]) == "Barrier" for row in times):
        raise _without_sizes(
            source, "the section of message sizes is missing", "use mpiP's whole report"
        )
    most = "callsites, or the twenty with most time"
    _agree(source, "rows of callsites", len(times), most, min(listed, _MOST_LISTED))
    total = sum(row.number("Sent%") for row in sent)
    if sent and len(sent) < _MOST_LISTED and abs(total - 100) > 0.01 * len(sent):
        raise _damaged(source, f"bytes of its callsites add up to {total:.2f} % of all")
    sizes = {(row["Call"], row["Site"]): row.number("Avrg") for row in sent}
    for row in times:
        yield ProfiledCalls(
            call_of(row["Call"]),
            sizes.get((row["Call"], row["Site"])),
            row.count("Count"),
            row.number("Time") / 1000,
        )
    rest = mpi_s - sum(row.number("Time") for row in times) / 1000
    if len(times) >= _MOST_LISTED and rest > 0:
        yield ProfiledCalls("(callsites that a concise report leaves out)", None, 1, rest)


# IPM's XML (IPM 2, ``src/report_xml.c`` and ``doc/ipm_xml.dtd``): a hash
# entry per call, size and partner of every task.
#
# An entry is ``<hent call= bytes= orank= region= count= ...>total shortest longest</hent>``,
# seconds. Bytes are those of ``include/mod_mpi.h``: for MPI_Alltoallv what a rank sends to itself,
# taken for each pair; for MPI_Reduce_scatter a rank's share, from which the whole vector is made.
# IPM records no communicator sizes.
#
# What makes lost entries visible: the number of tasks (``ntasks`` of ``job``) and, in ``hash``, of
# entries (``nkey``) and of calls (``nlog``).
_IPM_NOTES = {
    "Alltoallv": "IPM's size of MPI_Alltoallv is what a rank sends to itself, assumed for each "
    "pair",
    "Reduce_scatter": "IPM's size of MPI_Reduce_scatter is a rank's share; the vector is that "
    "times all ranks",
}


def _ipm(text: str, source: str, _: int | None) -> Profile:
    if "<!ENTITY" in text:
        raise BadInput(
            "output-damaged", f"{source} defines entities, which IPM never does: not read."
        )
    # IPM never closes these (xml_env): what they hold is of no use here.
    text = re.sub(r"<env>.*?</env>", "", text, flags=re.DOTALL)
    try:
        top = ElementTree.fromstring(re.sub(r"<\?xml[^>]*\?>", "", text, count=1).strip())
    except ElementTree.ParseError as error:
        raise _damaged(source, str(error)) from None
    tasks = top.findall("task")
    if not tasks:
        sentence = f"{source} has no task: IPM writes its XML with IPM_REPORT or IPM_LOG=full."
        raise BadInput("nothing-measured", sentence)
    sizes = {task.get("mpi_size") for task in tasks} | {
        job.get("ntasks") for job in top.iter("job")
    }
    known = sorted(size for size in sizes if size)
    if len(known) != 1:
        raise _mixed(source, f"its tasks say {', '.join(known) or 'no'} ranks")
    ranks = int(_number(known[0], "mpi_size", source, whole=True))
    for count in (len({task.get("mpi_rank") for task in tasks}), len(tasks)):
        _agree(source, "tasks", count, "ranks of the job", ranks)
    by_task = [
        list(_ipm_calls(task, ranks, f"{source}, task {task.get('mpi_rank')}")) for task in tasks
    ]
    calls = tuple(row for rows in by_task for row in rows)
    per_rank = tuple(sum(row.seconds or 0.0 for row in rows) for rows in by_task)
    walls = [
        perf.get("wtime", "")
        for task in tasks
        for perf in task.findall("perf")[:1]
        if "wtime" in perf.attrib
    ]
    wall = (
        sum(_number(text, "wtime", source) for text in walls) if len(walls) == len(tasks) else None
    )
    noted = (note for call, note in _IPM_NOTES.items() if any(row.call == call for row in calls))
    return Profile(
        "",
        ranks,
        calls,
        wall,
        sum(per_rank),
        per_rank,
        ("IPM records no communicator sizes", *noted),
    )


def _ipm_calls(task: ElementTree.Element, ranks: int, where: str) -> Iterator[ProfiledCalls]:
    table = task.find("hash")
    if table is None:
        raise _without_sizes(where, "there is no 'hash'", "run with IPM_LOG=full")
    rows = []
    for entry in table.findall("hent"):
        cells = {**entry.attrib, "times": entry.text or ""}
        rows.append(_Row(where, [*cells.values()], [*cells]))
    nkey, nlog = (
        _number(table.get(name, ""), name, where, whole=True) for name in ("nkey", "nlog")
    )
    _agree(where, "entries", len(rows), "nkey", nkey)
    _agree(where, "calls", sum(row.count("count") for row in rows), "nlog", nlog)
    for row in rows:
        call = call_of(row["call"])
        size = row.number("bytes")
        if row["call"].startswith("MPI_"):
            times = _Row(where, row["times"].split(), ("total", "shortest", "longest"))
            yield ProfiledCalls(
                call,
                size * ranks if call == "Reduce_scatter" else size,
                row.count("count"),
                times.number("total"),
            )


# Intel MPI's native statistics, ``I_MPI_STATS`` (5.1 Reference Manual,
# 'Native Statistics Format'; gone since 2019).
#
# Per process: 'Communication Activity' counts the calls of each operation (level 2), 'Communication
# Activity by actual args' those of each size (level 3 or 4, without which there are no sizes).
# Csend is what collectives send inside and is left out: the collective itself is there. Times of
# single operations are not taken from this format (``Cost(%)`` is of a lifetime whose unit the
# manual does not give), so that what is covered is a share of calls and not of time.
#
# What makes lost rows visible: 'Process I of N', both tables against each other, the line at the
# end of a process and of the file.
_ALL = "Communication Activity"
_BY_SIZE = "Communication Activity by actual args"
#: Point-to-point traffic inside collectives.
_INSIDE = frozenset({"Csend", "Csendrecv"})


def _intel_stats(text: str, source: str, _: int | None) -> Profile:
    if not re.search(r"^_{2,} End of .*_{2,}\s*\Z", text, re.MULTILINE):
        raise _cut(source, "it lacks the last line '____ End of ... file ____'")
    processes: list[tuple[str, list[tuple[str, str]]]] = []
    sizes = set()
    for where, line in _lines(text, source):
        if title := re.fullmatch(r"~~~~ Process (\d+) of (\d+)\b.*", line):
            processes.append((title[1], []))
            sizes.add(int(title[2]))
        elif processes:
            processes[-1][1].append((where, line))
    if len(sizes) != 1:
        raise _mixed(source, f"it has processes of {', '.join(map(str, sorted(sizes)))}")
    (ranks,) = sizes
    _agree(
        source, "processes", len({process for process, _ in processes}), "ranks of the run", ranks
    )
    calls = [
        row
        for process, lines in processes
        for row in _intel_process(lines, f"{source}, process {process}")
    ]
    notes = ("Intel's statistics have no times of calls: coverage is by number of calls",)
    return Profile("", ranks, tuple(calls), notes=notes)


def _intel_process(lines: list[tuple[str, str]], where: str) -> list[ProfiledCalls]:
    if not any(re.fullmatch(r"={10,}\s*", line) for _, line in lines[-8:]):
        raise _cut(where, "no line of '=' ends it")
    # The first of a title; titles that come again are lines of no table.
    titles = {
        line.strip(): at for at, (_, line) in enumerate(lines) if line.strip() in (_ALL, _BY_SIZE)
    }
    if _BY_SIZE not in titles:
        raise _without_sizes(where, "it has no message sizes", "run with I_MPI_STATS=4")
    sized: list[ProfiledCalls] = []
    heads = list[str]()
    call = ""
    for place, line in lines[titles[_BY_SIZE] + 1 :]:
        bare = line.strip()
        if bare.startswith("Operation"):
            heads = _heads(line)[1:]
            call = ""
        elif not heads or re.fullmatch(r"|[-=]+|P2P|Collectives|____.*", bare):
            continue
        elif re.fullmatch(r"[A-Za-z]\w*", bare):
            call = call_of(bare)
        elif not call:
            raise _damaged(place, "a row of no operation")
        else:
            row = _Row(place, line.split(), ["", *heads])  # rows are numbered in front
            comm = row.count("Comm size") if "Comm size" in heads else None
            sized.append(
                ProfiledCalls(call, row.number("Message size"), row.count("Calls"), None, comm)
            )
    if _ALL in titles:
        counted = dict[str, int]()
        heads = []
        for place, line in lines[titles[_ALL] + 1 : titles[_BY_SIZE]]:
            if line.strip().startswith("Operation"):
                heads = _heads(line)
            elif heads and len(line.split()) > 1:
                row = _Row(place, line.split(), heads)
                counted[call_of(row[heads[0]])] = row.count("Calls")
        for name in {*counted, *(row.call for row in sized)} - _INSIDE:
            by_size = sum(row.count for row in sized if row.call == name)
            _agree(where, f"calls of {name} by size", by_size, "calls of it", counted.get(name, 0))
    return [row for row in sized if row.call not in _INSIDE]


# Intel Application Performance Snapshot's function summary, ``aps-report -f`` (User Guide,
# 'Function Summary for All Ranks').
#
# A row per function with seconds, volume in MB (2^20 bytes, printed with two decimals) and calls of
# all ranks; sizes are the mean, volume over calls. The chart does not say how many ranks there are,
# nor sizes of communicators. A function whose volume rounds to nothing has no size. The line TOTAL
# shows whether rows were lost.
_APS_TITLE = r"(?im)^\|?\s*Function summary for all ranks"
#: Volume in MB below which the two printed decimals are no size; seconds
#: and megabytes of a row are rounded to the other.
_LEAST_VOLUME_MB = 0.1
_ROUNDED = 0.005


def _aps(text: str, source: str, ranks: int | None) -> Profile:
    if ranks is None:
        sentence = f"{source} (Intel APS) does not say how many ranks were profiled: give --ranks."
        raise BadInput("nothing-measured", sentence)
    heads: list[str] = []
    rows: list[_Row] = []
    lines = iter(_lines(text, source))
    next(line for _, line in lines if re.match(_APS_TITLE, line))
    for where, line in lines:
        bare = line.strip(" |")
        if re.match(r"Function\s{2,}", bare):
            heads = _heads(line)
        elif heads and not re.match(r"([-=]*$|\[|Disclaimer)", bare):
            rows.append(_Row(where, bare.split(), heads))
            if bare.startswith("TOTAL"):
                break
    # The list of transfers (``aps-report -u``) has volumes, and neither times nor calls.
    for name, lacks in (
        ("Time(sec)", "times"),
        ("Volume(MB)", "sizes"),
        ("Calls", "numbers of calls"),
    ):
        if name not in heads:
            raise _without_sizes(source, f"it lacks the column {name}", "use aps-report -f", lacks)
    if not rows or not rows[-1]["Function"].startswith("TOTAL"):
        raise _cut(source, "the function summary ends with a line TOTAL")
    total = rows.pop()
    calls = []
    for row in rows:
        count = row.count("Calls")
        volume = row.number("Volume(MB)")
        size = volume * (1 << 20) / count if count and volume >= _LEAST_VOLUME_MB else None
        calls.append(ProfiledCalls(call_of(row["Function"]), size, count, row.number("Time(sec)")))
    seconds = sum(row.seconds or 0.0 for row in calls)
    whole = total.number("Time(sec)")
    if abs(seconds - whole) > _ROUNDED * (len(rows) + 1) + 1e-4 * whole:
        _agree(source, "total time", whole, "the sum over functions", seconds)
    _agree(
        source,
        "total calls",
        total.number("Calls"),
        "the sum over functions",
        sum(row.count for row in calls),
        1e-5,
    )
    notes = ("sizes are the mean of each function (APS)", "APS's summary has no communicator sizes")
    return Profile("", ranks, tuple(calls), None, seconds, notes=notes)


# Open MPI's software performance counters (``ompi_spc.c``): the dump of
# ``mpi_spc_dump_enabled``, or CSV of counters by rank.
#
# The dump has a line ``MPI_COMM_WORLD Rank N:`` for each rank and lines ``OMPI_SPC_SEND -> 12``;
# counters of nothing are left out, so that a rank without any is one that called nothing. As MPI_T
# variables the names begin with ``runtime_spc_``. There are counts of calls, and one sum of the
# bytes of all point-to-point messages: their mean is the size of each. Collectives have no sizes
# and nothing has a time.
_SPC_RANK = r"(?:\[[^\]]*\]\s*)?MPI_COMM_WORLD Rank (\d+):\s*"
_SPC_LINE = r"(?:\[[^\]]*\]\s*)?(OMPI_SPC_\w+) -> (\S*)\s*"
_SPC_END = "NOTE: Any counters not shown here"
#: Counters of bytes, times and what the library does inside, which count no calls of a function.
_SPC_NO_CALLS = (
    r"(BYTES|UNEXPECTED|OUT_OF_SEQUENCE|OOS|MATCH|MAX_|QUEUE|P2P_MESSAGE|EAGER|BASE_|TIME"
    r"|.*_(ALGORITHM|LINEAR|BRUCKS|PAIRWISE))\w*"
)


def _open_mpi_spc(text: str, source: str, ranks: int | None) -> Profile:
    table: _Counters = {}
    if not re.search(_SPC_LINE, text):
        table = _counters_of_csv(text, source, r"(?:runtime_spc_)?OMPI_SPC_\w+")
    elif _SPC_END not in text:
        raise _cut(source, f"Open MPI's dump ends with {_SPC_END!r}")
    else:
        rank: int | None = None
        for where, line in _lines(text, source):
            if header := re.fullmatch(_SPC_RANK, line):
                rank = int(header[1])
                if rank in table:
                    raise _mixed(where, f"rank {rank} is there twice")
                table[rank] = {}
            elif counter := re.fullmatch(_SPC_LINE, line):
                if rank is None:
                    raise _damaged(where, "a counter without a rank")
                _add(
                    table,
                    rank,
                    counter[1],
                    _number(counter[2], counter[1], where, whole=True),
                    where,
                )
            elif "OMPI_SPC_" in line:
                raise _damaged(where, f"{line.strip()[:60]!r} is not a counter and its value")
    ranks = ranks or len(table)
    _check_ranks(table, ranks, source)
    calls: list[ProfiledCalls] = []
    for rank, row in table.items():
        named = {
            name.removeprefix("runtime_spc_").removeprefix("OMPI_SPC_"): value
            for name, value in row.items()
        }
        counts = {
            call_of(name): int(value)
            for name, value in named.items()
            if value and not re.fullmatch(_SPC_NO_CALLS, name)
        }
        sizeable = {*SENDS, "Sendrecv", "Sendrecv_replace"} & set(counts)
        sends = sum(counts[call] for call in sizeable)
        volume = named.get("BYTES_SENT_USER")
        if sends and volume is None:
            what = f"rank {rank} sent {sends} messages and has no counter OMPI_SPC_BYTES_SENT_USER"
            raise _without_sizes(source, what, "run with mpi_spc_attach=all")
        calls += [
            ProfiledCalls(call, (volume or 0.0) / sends if call in sizeable else None, count)
            for call, count in counts.items()
        ]
    notes = (
        "sizes are the mean of all messages of a rank (Open MPI's SPC); its collectives have none",
        "SPC have no times of calls: coverage is by number of calls",
        "SPC omit counters of zero, so a lost line goes unnoticed",
    )
    return Profile("", ranks, tuple(calls), notes=notes)


# Darshan's AutoPerf MPI module (APMPI): text of ``darshan-parser``, or
# CSV with the columns rank, counter and value.
#
# ``darshan-parser`` prints ``<module> <rank> <record id> <counter> <value> ...`` with tabs, after a
# head with ``# nprocs:`` and ``# run time:``. Of each function there are ``MPI_X_CALL_COUNT``,
# ``_TOTAL_BYTES``, ``_TOTAL_TIME`` (seconds) and counts in six ranges of sizes
# (``_MSG_SIZE_AGG_0_256`` ... ``_1M_PLUS``); the size of each call is the mean, and the ranges are
# its bounds. What makes lost rows visible: every rank has the same counters, every function all of
# its own, and the ranges of sizes have as many calls as the function.
_DARSHAN_NAME = r"(MPI_\w+?_)(CALL_COUNT|TOTAL_BYTES|TOTAL_TIME|MSG_SIZE_AGG_\w+)"
#: Ranges of sizes, each with its bounds in bytes.
_RANGES: dict[str, tuple[float, float | None]] = {
    "MSG_SIZE_AGG_0_256": (0, 256),
    "MSG_SIZE_AGG_256_1K": (256, 1 << 10),
    "MSG_SIZE_AGG_1K_8K": (1 << 10, 8 << 10),
    "MSG_SIZE_AGG_8K_256K": (8 << 10, 256 << 10),
    "MSG_SIZE_AGG_256K_1M": (256 << 10, 1 << 20),
    "MSG_SIZE_AGG_1M_PLUS": (1 << 20, None),
}


def _darshan(text: str, source: str, ranks: int | None) -> Profile:
    _check_end(text, source)
    table: _Counters = {}
    if "\t" not in text:
        table = _counters_of_csv(text, source, _DARSHAN_NAME)
    for where, line in _lines(text, source) if "\t" in text else ():
        fields = line.split("\t")
        if "MPI_" in line and not line.startswith("#") and len(fields) < 5:
            raise _damaged(where, f"{len(fields)} fields, expected 5 or more")
        if not line.startswith("#") and len(fields) >= 5 and re.fullmatch(_DARSHAN_NAME, fields[3]):
            rank = int(_number(fields[1], "rank", where, whole=True))
            _add(table, rank, fields[3], _number(fields[4], fields[3], where), where)
    facts = {
        name: _number(value, name, source)
        for name, value in re.findall(r"#\s*(nprocs|run time)\s*:\s*(\S+)", text)
    }
    ranks = int(facts.get("nprocs") or ranks or len(table))
    _check_ranks(table, ranks, source)
    functions: dict[str, set[str]] = {}
    for name in dict.fromkeys(name for counters in table.values() for name in counters):
        stem, part = re.fullmatch(_DARSHAN_NAME, name).groups()  # type: ignore[union-attr]
        functions.setdefault(stem, {"CALL_COUNT", "TOTAL_TIME"}).add(part)
    for parts in functions.values():
        parts |= {"TOTAL_BYTES", *_RANGES} if parts - {"CALL_COUNT", "TOTAL_TIME"} else set()
    by_rank: list[list[ProfiledCalls]] = []
    for rank, counters in table.items():
        by_rank.append([])
        for stem, parts in functions.items():
            if lacking := sorted(stem + part for part in parts if stem + part not in counters):
                raise _damaged(source, f"rank {rank} lacks the counter {lacking[0]}")
            row = {part: counters[stem + part] for part in parts}
            if not (count := row["CALL_COUNT"]):
                continue
            size = None
            smallest = None
            largest = None
            if "TOTAL_BYTES" in row:
                in_ranges = sum(row[name] for name in _RANGES)
                _agree(
                    f"{source}, rank {rank}",
                    f"calls of {stem}",
                    count,
                    "those in ranges of sizes",
                    in_ranges,
                )
                used = [bounds for name, bounds in _RANGES.items() if row[name]]
                size = row["TOTAL_BYTES"] / count
                smallest = used[0][0]
                largest = used[-1][1]
            by_rank[-1].append(
                ProfiledCalls(
                    call_of(stem), size, int(count), row["TOTAL_TIME"], None, smallest, largest
                )
            )
    calls = tuple(row for rows in by_rank for row in rows)
    per_rank = tuple(sum(row.seconds or 0.0 for row in rows) for rows in by_rank)
    wall = facts["run time"] * ranks if "run time" in facts else None
    notes = (
        "sizes are the mean of each function and rank (Darshan)",
        "Darshan records no communicator sizes",
    )
    return Profile("", ranks, calls, wall, sum(per_rank), per_rank, notes)


# A plain table: call, bytes, count, seconds and communicator size as
# CSV, for whatever has no reader of its own.
#
#     # ranks: 4
#     # wall_s: 12.5
#     call,bytes,count,time_s,comm_size
#     MPI_Allreduce,8,4000,0.31,4
#     MPI_Waitall,,2000,0.1,
#     # rows: 2
#
# Counts and seconds are sums over all ranks, sizes those of this module. ``ranks`` and ``wall_s``
# (seconds of the run, not summed) may be given on the command line instead. Without ``# rows`` at
# the end nobody knows whether rows were lost; a last line that does not end is refused in any case.
_REQUIRED = ("call", "bytes", "count")
_OPTIONAL = ("time_s", "comm_size")


def _plain_csv(text: str, source: str, ranks: int | None) -> Profile:
    facts: dict[str, float] = {}
    for where, line in _lines(text, source):
        if fact := re.fullmatch(r"#\s*(ranks|wall_s|rows)\s*:\s*(.*)", line.strip()):
            name = fact[1]
            value = _number(fact[2], fact[1], where, whole=fact[1] != "wall_s")
            if facts.setdefault(name, value) != value:
                raise _mixed(where, f"{name} is {value:g} and was {facts[name]:g}")
    heads, rows = _csv(text, source)
    lacking = [name for name in _REQUIRED if name not in heads]
    if lacking == ["bytes"]:
        raise _without_sizes(source, "it lacks the column 'bytes'", "add it")
    if lacking or len(set(heads)) != len(heads) or not set(heads) <= {*_REQUIRED, *_OPTIONAL}:
        known = ", ".join((*_REQUIRED, *_OPTIONAL))
        raise BadInput(
            "output-unknown",
            f"{source}: columns are {', '.join(heads)}, expected some of {known}, the first "
            "three and each once.",
        )
    calls = []
    for row in rows:
        if not re.fullmatch(r"(?:MPI_)?[A-Za-z]\w*", row["call"]):
            raise BadInput(
                "output-damaged", f"{row.where}: {row['call']!r} is not the name of an MPI call."
            )
        size, seconds = (
            row.number(name) if row.cells.get(name) else None for name in ("bytes", "time_s")
        )
        comm_size = row.count("comm_size") if row.cells.get("comm_size") else None
        calls.append(
            ProfiledCalls(call_of(row["call"]), size, row.count("count"), seconds, comm_size)
        )
    _agree(source, "number of rows", len(rows), "that of '# rows'", facts.get("rows", len(rows)))
    if (own := facts.get("ranks", ranks)) is None:
        sentence = (
            f"{source} does not say how many ranks were profiled: add '# ranks: N', or give "
            "--ranks."
        )
        raise BadInput("nothing-measured", sentence)
    known_s = [row.seconds for row in calls if row.seconds is not None]
    unsure = (
        ()
        if "rows" in facts
        else (f"{source} does not say how many rows it had, so lost rows go unnoticed",)
    )
    wall = facts["wall_s"] * own if "wall_s" in facts else None
    return Profile(
        "",
        int(own),
        tuple(calls),
        wall,
        sum(known_s) if len(known_s) == len(calls) else None,
        notes=unsure,
    )


#: Profiler, in words, to what its file is recognised by, and its reader; the first that fits.
FORMS: Mapping[str, tuple[str, Callable[[str, str, int | None], Profile]]] = {
    "mpiP report": (r"(?m)^@ mpiP\b", _mpip),
    "IPM XML": (r"\A[\s\S]{,4000}?<ipm(?:_job_profile)?\b", _ipm),
    "Intel MPI statistics (I_MPI_STATS)": (r"(?m)^~~~~ Process \d+ of \d+", _intel_stats),
    "Intel APS function summary": (_APS_TITLE, _aps),
    "Open MPI SPC": (r"OMPI_SPC_", _open_mpi_spc),
    "Darshan (APMPI)": (r"\bMPI_[A-Z_]+_CALL_COUNT\b", _darshan),
    # The first line that is no comment names the columns.
    "CSV table": (r"\A(?:\s*\n|#.*\n)*(?:[^#\n][^\n]*,)?\s*call\s*(?:,|\n|\Z)", _plain_csv),
}

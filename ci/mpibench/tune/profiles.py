"""MPI profiles of applications: each profiler's file as one record, with nothing lost on the way.

Counts and seconds are sums over the profiled ranks. A size is that which benchmarks of the call have (IMB User Guide): the
bytes of one rank's block for gathers, scatters and allgathers, of one pair for all-to-alls, of the whole vector for all
others. What a profiler does not say is ``None`` and never a guess. A format is a reader and a row of :data:`FORMS`.
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
class Calls:
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

    :param form: the profiler, in words.
    :param wall_s: time from start to end, ``mpi_s``: time in MPI, all ranks together; ``rank_mpi_s``: of each rank.
    :param notes: what a reader must know of how the profiler counts, a sentence each.
    """

    form: str
    ranks: int
    calls: tuple[Calls, ...]
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


def read(path: Path, ranks: int | None = None, wall_s: float | None = None, *, exact: bool = True) -> Profile:
    """Read a profile of any known form.

    :param ranks: of the application, ``wall_s``: its run time in seconds, as the user says them.
    :param exact: a profile that says other ranks than the ones given is refused.
    """
    try:
        if path.stat().st_size > LARGEST:
            raise BadInput(
                "profile-too-large", f"{path} has more than {LARGEST >> 20} MiB: a profile of calls is smaller; is it a trace?"
            )
        text = path.read_bytes().decode("utf-8", errors="replace").replace("\r\n", "\n")
    except OSError as error:
        raise BadInput("profile-unreadable", f"cannot read the profile {path}: {error.strerror}.") from None
    form = next((name for name, (pattern, _) in FORMS.items() if re.search(pattern, text)), None)
    if form is None:
        raise BadInput("profile-unknown", f"{path} is a profile of no known form; known are {', '.join(FORMS)}.")
    source = f"{path} ({form})"
    if "\0" in text or "\ufffd" in text:
        raise BadInput("profile-damaged", f"{source} holds bytes that are no text: it is damaged; get the profile again.")
    found = FORMS[form][1](text, str(path), ranks)
    wall = wall_s * found.ranks if found.wall_s is None and wall_s is not None else found.wall_s
    found = replace(found, form=form, calls=gathered(found.calls), wall_s=wall)
    if not any(one.count for one in found.calls):
        raise BadInput("profile-without-mpi", f"{source} holds no MPI call: profile the application again.")
    if found.ranks < 1:
        raise BadInput("profile-ranks", f"{source} says {found.ranks} ranks: an application has at least 1.")
    largest = max(one.comm_size or 0 for one in found.calls)
    if largest > found.ranks:
        raise BadInput(
            "profile-mixed",
            f"{source} mixes ranks: it has a communicator of {largest} and an application of {found.ranks} ranks; profile one "
            "run at a time.",
        )
    if exact and ranks is not None and ranks != found.ranks:
        raise BadInput("profile-ranks", f"{path} is a profile of {found.ranks} ranks, and --ranks says {ranks}.")
    if found.mpi_s is not None and wall is not None and found.mpi_s > MOST_IN_MPI * wall:
        raise BadInput(
            "profile-mixed",
            f"{source} has {found.mpi_s:.4g} s in MPI and a run of {wall:.4g} s, all ranks together: one of them is not of "
            "this run.",
        )
    return found


def call_of(name: str) -> str:
    """The function's name without ``MPI_`` in the standard's spelling, whatever case a profiler writes it in.

    ``MPI_ALLREDUCE``, ``Allreduce`` and ``mpi_allreduce_`` are one; of those that have a noun first (``MPI_File_read``) the
    first letter alone is upper case, too.
    """
    bare = re.sub(r"^p?mpi_", "", name.strip().rstrip("_").lower())
    return bare[:1].upper() + bare[1:]


def gathered(calls: Iterable[Calls]) -> tuple[Calls, ...]:
    """Equal calls of several ranks as one row, in the order in which they come first; none is lost."""
    rows: dict[tuple[object, ...], Calls] = {}
    for one in calls:
        key = (one.call, one.message_bytes, one.comm_size, one.smallest, one.largest, one.seconds is None)
        if before := rows.get(key):
            seconds = None if one.seconds is None else one.seconds + (before.seconds or 0.0)
            one = replace(one, count=one.count + before.count, seconds=seconds)
        rows[key] = one
    return tuple(rows.values())


def _number(text: str, what: str, where: str, *, whole: bool = False) -> float:
    """What counts something: finite and not negative."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or value < 0 or (whole and value != int(value)):
        raise BadInput(
            "profile-damaged", f"{where}: {what} is {text!r}, expected a{' whole' if whole else ''} number from 0 on."
        )
    return value


def _agree(where: str, one: str, value: float, other: str, against: float, tolerance: float = 0.0) -> None:
    """Two sums of the same calls must be the same, but for a relative difference by rounding, or calls were lost."""
    if abs(value - against) > tolerance * max(value, against):
        raise BadInput(
            "profile-damaged",
            f"{where} is damaged or cut: {one} is {value:.6g}, {other} is {against:.6g}; get the profile again.",
        )


@dataclass(frozen=True)
class _Row:
    """One line of a table, by its columns."""

    where: str
    cells: Mapping[str, str]

    @classmethod
    def of(cls, where: str, cells: Sequence[str], columns: Sequence[str]) -> _Row:
        if len(cells) != len(columns):
            raise BadInput(
                "profile-damaged",
                f"{where}: {len(cells)} fields, expected {len(columns)} ({', '.join(columns)}): the file is damaged.",
            )
        return cls(where, dict(zip(columns, cells, strict=True)))

    def __getitem__(self, name: str) -> str:
        return self.cells[name]

    def number(self, name: str) -> float:
        return _number(self.cells[name], name, self.where)

    def count(self, name: str) -> int:
        return int(_number(self.cells[name], name, self.where, whole=True))


def _lines(text: str, source: str) -> list[tuple[str, str]]:
    """Where each line stands, and the line."""
    return [(f"{source}, line {at}", line) for at, line in enumerate(text.splitlines(), start=1)]


def _heads(line: str) -> list[str]:
    """Heads of columns that are two or more blanks apart and may hold single ones, as Intel's tools print them."""
    return re.split(r"\s{2,}", line.strip(" |"))


def _csv(text: str, source: str) -> tuple[list[str], list[_Row]]:
    """Columns and rows of a table whose last line ends; comments are left out."""
    _check_end(text, source)
    heads: list[str] = []
    rows = []
    for where, line in _lines(text, source):
        if line.strip() and not line.startswith("#"):
            cells = [cell.strip() for cell in next(csv.reader([line]))]
            if heads:
                rows.append(_Row.of(where, cells, heads))
            else:
                heads = cells
    return heads, rows


def _check_end(text: str, source: str) -> None:
    if not text.endswith("\n"):
        raise BadInput("profile-cut", f"{source}: its last line does not end: the file was cut off; get the profile again.")


# Counters by rank, as CSV (``rank,counter,value``) or in the text of the tool that prints them.
_Counters = dict[int, dict[str, float]]


def _add(found: _Counters, rank: int, name: str, value: float, where: str) -> None:
    if name in found.setdefault(rank, {}):
        raise BadInput("profile-mixed", f"{where}: {name} of rank {rank} is there twice: profile one run at a time.")
    found[rank][name] = value


def _counters_of_csv(text: str, source: str, pattern: str) -> _Counters:
    """Counters whose name the pattern fits in full; other columns (a module, a file) may stand beside the three."""
    heads, rows = _csv(text, source)
    if not {"rank", "counter", "value"} <= set(heads):
        raise BadInput(
            "profile-columns", f"{source}: columns are {', '.join(heads)}, expected rank, counter, value among them."
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
        raise BadInput(
            "profile-damaged",
            f"{source} has counters of {len(found)} ranks and the application has {ranks}{none}: get the profile again.",
        )


# mpiP's text report, verbose or concise (mpiP 3.5, User Guide, "mpiP Output"; ``report.c`` for the columns).
#
# Verbose reports have a row per callsite and rank and one for all ranks (``*``), for times and for bytes sent. mpiP gives the
# mean of a callsite's sizes with their bounds, no receive sizes, no communicator sizes, and none at all for calls of vectors
# (``MPI_Alltoallv``). Concise reports (``MPIP=-c``) list the twenty callsites of most time and most bytes; the others are
# counted as one whose call is not known. Numbers are printed with three or four digits.
#
# What makes lost rows visible: the number of rows in the title of the times, which holds unless rows below a threshold were
# left out (``-t``), ``*`` rows against those of ranks, callsites against the total, and the report's last title.

#: Beginnings of titles, and the columns below them.
_MPIP = {
    "MPI Time (seconds)": "Task AppTime MPITime MPI%",
    "Callsite Time statistics (all, milliseconds)": "Name Site Rank Count Max Mean Min App% MPI%",
    "Callsite Message Sent statistics (all, sent bytes)": "Name Site Rank Count Max Mean Min Sum",
    "Aggregate Time": "Call Site Time App% MPI% Count COV",
    "Aggregate Sent Message Size": "Call Site Count Total Avrg Sent%",
}
_TOTALS, _TIMES, _SENT, _TOP_TIMES, _TOP_SENT = _MPIP
#: Three printed digits differ from the number by 0.5 % at most, and so does the sum they are compared with.
_ROUNDING = 0.011
#: Callsites that the sections of a concise report have.
_MOST_LISTED = 20


def _mpip(text: str, source: str, _: int | None) -> Profile:
    sections: dict[str, list[tuple[str, list[str]]]] = {}
    rows: list[tuple[str, list[str]]] = []
    for where, line in _lines(text, source):
        if title := re.fullmatch(r"@--- (.+?) -*\s*", line):
            rows = sections[title[1].strip()] = []
        elif line.strip() and not line.startswith(("---", "@")):
            rows.append((where, line.split()))
    if "End of Report" not in sections:
        raise BadInput(
            "profile-cut", f"{source} is cut off: an mpiP report ends with the title 'End of Report'; get the report again."
        )

    def table(title: str) -> list[_Row]:
        name = next((name for name in sections if name.startswith(title)), "")
        there = [row for row in sections.get(name, ()) if row[1][0] not in ("Name", "Call", "Task")]
        if title == _TOP_TIMES and (old := next((where for where, cells in there if len(cells) == 6), "")):
            raise BadInput(
                "profile-too-old", f"{old}: a report without counts is that of an mpiP before 3.5: use its verbose report."
            )
        return [_Row.of(where, cells, _MPIP[title].split()) for where, cells in there]

    totals = table(_TOTALS)
    if not totals or totals[-1]["Task"] != "*":
        raise BadInput(
            "profile-cut", f"{source} lacks the section {_TOTALS!r} or its last line: run with mpiP's default report."
        )
    per_rank = tuple(row.number("MPITime") for row in totals[:-1])
    if tasks := set(re.findall(r"^@ MPI Task Assignment\s*: (\d+) ", text, re.MULTILINE)):
        _agree(source, "number of tasks", len(per_rank), "task assignments", len(tasks))
    wall_s, mpi_s = totals[-1].number("AppTime"), totals[-1].number("MPITime")
    _agree(source, "time in MPI of all tasks", mpi_s, "the sum of theirs", sum(per_rank), _ROUNDING)
    if verbose := next((title for title in sections if title.startswith(_TIMES)), ""):
        threshold = re.search(r"^@ MPIP env var\s*:.*-t", text, re.MULTILINE)
        announced = None if threshold else re.search(r": (\d+)$", verbose)
        calls = list(_mpip_verbose(table(_TIMES), table(_SENT), source, announced and int(announced[1]), not threshold))
    else:
        listed = re.search(r"^@--- Callsites: (\d+) ", text, re.MULTILINE)
        calls = list(_mpip_concise(table(_TOP_TIMES), table(_TOP_SENT), source, listed and int(listed[1]), mpi_s))
    seconds = sum(one.seconds or 0.0 for one in calls)
    _agree(source, "time in MPI of all tasks", mpi_s, "the sum over callsites", seconds, 2 * _ROUNDING)
    notes = ("sizes are the mean of each callsite (mpiP)", "mpiP records no sizes of receives and vectors")
    return Profile("", len(per_rank), tuple(calls), wall_s, mpi_s, per_rank, notes)


def _mpip_verbose(times: list[_Row], sent: list[_Row], source: str, announced: int | None, complete: bool) -> Iterator[Calls]:
    """:param complete: no threshold left rows out."""
    if announced is not None:
        of_ranks = sum(row["Rank"] != "*" for row in times)
        _agree(source, "rows of callsites and ranks", of_ranks, "rows that its title announces", announced)
    sites, messages = _mpip_sites(times, source, "calls", complete), _mpip_sites(sent, source, "messages", complete)
    for (name, site), row in sites.items():
        count, seconds = row.count("Count"), row.count("Count") * row.number("Mean") / 1000
        known = messages.pop((name, site), None)
        sized = known.count("Count") if known else 0
        if sized > count:
            raise BadInput(
                "profile-damaged", f"{source}: callsite {site} sent {sized} messages in {count} calls: the report is damaged."
            )
        if known and sized:
            largest, mean, smallest = (known.number(column) for column in ("Max", "Mean", "Min"))
            yield Calls(call_of(name), mean, sized, seconds * sized / count, None, smallest, largest)
        if count > sized:
            yield Calls(call_of(name), None, count - sized, seconds * (count - sized) / count)
    for name, site in messages:
        raise BadInput("profile-damaged", f"{source} is damaged: callsite {site} ({name}) sent messages and has no times.")


def _mpip_sites(rows: list[_Row], source: str, what: str, complete: bool) -> dict[tuple[str, str], _Row]:
    """The rows of all ranks together (``*``) by callsite; they count what those of the ranks do."""
    whole: dict[tuple[str, str], _Row] = {}
    parts: Counter[tuple[str, str]] = Counter()
    for row in rows:
        site = (row["Name"], row["Site"])
        if row["Rank"] != "*":
            parts[site] += row.count("Count")
        elif site in whole:
            raise BadInput("profile-damaged", f"{row.where}: callsite {site[1]} is there twice: the report is damaged.")
        else:
            whole[site] = row
    for site in {**whole, **parts} if complete else ():
        count = whole[site].count("Count") if site in whole else 0
        _agree(source, f"{what} of callsite {site[1]} ({site[0]})", count, "the sum over its ranks", parts[site])
    return whole


def _mpip_concise(times: list[_Row], sent: list[_Row], source: str, listed: int | None, mpi_s: float) -> Iterator[Calls]:
    if not times:
        raise BadInput(
            "profile-without-sizes", f"{source} has no times of callsites: run without options that shorten mpiP's report."
        )
    if not sent and not any(call_of(row["Call"]) == "Barrier" for row in times):
        raise BadInput(
            "profile-without-sizes",
            f"{source} has no message sizes, without which nothing can be predicted: use mpiP's whole report.",
        )
    if listed is None:
        raise BadInput("profile-damaged", f"{source} does not say how many callsites there are: get the report again.")
    most = "callsites, or the twenty of most time"
    _agree(source, "rows of callsites", len(times), most, min(listed, _MOST_LISTED))
    total = sum(row.number("Sent%") for row in sent)
    if sent and len(sent) < _MOST_LISTED and abs(total - 100) > 0.01 * len(sent):
        raise BadInput(
            "profile-damaged",
            f"{source} is damaged: bytes of its callsites add up to {total:.2f} % of all; get the report again.",
        )
    sizes = {(row["Call"], row["Site"]): row.number("Avrg") for row in sent}
    for row in times:
        yield Calls(call_of(row["Call"]), sizes.get((row["Call"], row["Site"])), row.count("Count"), row.number("Time") / 1000)
    rest = mpi_s - sum(row.number("Time") for row in times) / 1000
    if len(times) >= _MOST_LISTED and rest > 0:
        yield Calls("(callsites that a concise report leaves out)", None, 1, rest)


# IPM's XML (IPM 2, ``src/report_xml.c`` and ``doc/ipm_xml.dtd``): a hash entry per call, size and partner of every task.
#
# An entry is ``<hent call= bytes= orank= region= count= ...>total shortest longest</hent>``, seconds. Bytes are those of
# ``include/mod_mpi.h``: for MPI_Alltoallv what a rank sends to itself, taken for each pair; for MPI_Reduce_scatter a rank's
# share, from which the whole vector is made. IPM records no communicator sizes.
#
# What makes lost entries visible: the number of tasks (``ntasks`` of ``job``) and, in ``hash``, of entries (``nkey``) and of
# calls (``nlog``).


def _ipm(text: str, source: str, _: int | None) -> Profile:
    if "<!ENTITY" in text:
        raise BadInput("profile-entities", f"{source} defines entities, which IPM never does: it is not read.")
    # IPM never closes these (xml_env): what they hold is of no use here.
    text = re.sub(r"<env>.*?</env>", "", text, flags=re.DOTALL)
    try:
        top = ElementTree.fromstring(re.sub(r"<\?xml[^>]*\?>", "", text, count=1).strip())
    except ElementTree.ParseError as error:
        raise BadInput("profile-damaged", f"{source} is damaged or cut off ({error}): get the profile again.") from None
    tasks = top.findall("task")
    if not tasks:
        raise BadInput("profile-without-mpi", f"{source} holds no task: IPM writes its XML with IPM_REPORT or IPM_LOG=full.")
    sizes = {task.get("mpi_size") for task in tasks} | {job.get("ntasks") for job in top.iter("job")}
    known = sorted(size for size in sizes if size)
    if len(known) != 1:
        raise BadInput(
            "profile-mixed", f"{source} mixes ranks: its tasks say {', '.join(known) or 'no'} ranks; profile one run at a time."
        )
    ranks = int(_number(known[0], "mpi_size", source, whole=True))
    _agree(source, "tasks", len({task.get("mpi_rank") for task in tasks}), "ranks of the job", ranks)
    _agree(source, "tasks", len(tasks), "ranks of the job", ranks)
    by_task = [list(_ipm_calls(task, ranks, f"{source}, task {task.get('mpi_rank')}")) for task in tasks]
    calls = tuple(one for rows in by_task for one in rows)
    per_rank = tuple(sum(one.seconds or 0.0 for one in rows) for rows in by_task)
    perfs = [task.find("perf") for task in tasks]
    walls = [perf.get("wtime", "") for perf in perfs if perf is not None and "wtime" in perf.attrib]
    wall = sum(_number(each, "wtime", source) for each in walls) if len(walls) == len(tasks) else None
    notes = ["IPM records no communicator sizes"]
    if any(one.call == "Alltoallv" for one in calls):
        notes.append("IPM's size of MPI_Alltoallv is what a rank sends to itself, taken for each pair")
    if any(one.call == "Reduce_scatter" for one in calls):
        notes.append("IPM's size of MPI_Reduce_scatter is a rank's share; the vector is that times all ranks")
    return Profile("", ranks, calls, wall, sum(per_rank), per_rank, tuple(notes))


def _ipm_calls(task: ElementTree.Element, ranks: int, where: str) -> Iterator[Calls]:
    table = task.find("hash")
    if table is None:
        raise BadInput("profile-without-sizes", f"{where} has no sizes (no 'hash'): run with IPM_LOG=full.")
    entries = [_Row(where, entry.attrib | {"times": entry.text or ""}) for entry in table.findall("hent")]
    if any(not {"call", "count", "bytes"} <= set(entry.cells) for entry in entries):
        raise BadInput("profile-damaged", f"{where}: an entry lacks its call, count or bytes: get the profile again.")
    nkey, nlog = (_number(table.get(name, ""), name, where, whole=True) for name in ("nkey", "nlog"))
    _agree(where, "entries", len(entries), "nkey", nkey)
    _agree(where, "calls", sum(entry.count("count") for entry in entries), "nlog", nlog)
    for entry in entries:
        if entry["call"].startswith("MPI_"):
            call, size = call_of(entry["call"]), entry.number("bytes")
            times = _Row.of(where, entry["times"].split(), ("total", "shortest", "longest"))
            yield Calls(call, size * ranks if call == "Reduce_scatter" else size, entry.count("count"), times.number("total"))


# Intel MPI's native statistics, ``I_MPI_STATS`` (5.1 Reference Manual, 'Native Statistics Format'; gone since 2019).
#
# Per process: 'Communication Activity' counts the calls of each operation (level 2), 'Communication Activity by actual args'
# those of each size (level 3 or 4, without which there are no sizes). Csend is what collectives send inside and is left out:
# the collective itself is there. Times of single operations are not taken from this format (``Cost(%)`` is of a lifetime whose
# unit the manual does not give), so that what is covered is a share of calls and not of time.
#
# What makes lost rows visible: 'Process I of N', both tables against each other, the line at the end of a process and of the
# file.
_ALL, _BY_SIZE = "Communication Activity", "Communication Activity by actual args"
#: Point-to-point traffic inside collectives.
_INSIDE = frozenset({"Csend", "Csendrecv"})


def _intel_stats(text: str, source: str, _: int | None) -> Profile:
    if not re.search(r"^_{2,} End of .*_{2,}\s*\Z", text, re.MULTILINE):
        raise BadInput(
            "profile-cut", f"{source} is cut off: such a file ends with '____ End of ... file ____'; get the profile again."
        )
    parts: list[tuple[str, list[tuple[str, str]]]] = []
    sizes = set()
    for where, line in _lines(text, source):
        if found := re.fullmatch(r"~~~~ Process (\d+) of (\d+)\b.*", line):
            parts.append((found[1], []))
            sizes.add(int(found[2]))
        elif parts:
            parts[-1][1].append((where, line))
    if len(sizes) != 1:
        raise BadInput(
            "profile-mixed",
            f"{source} mixes ranks: processes of {', '.join(map(str, sorted(sizes)))}; profile one run at a time.",
        )
    (ranks,) = sizes
    _agree(source, "processes", len({process for process, _ in parts}), "ranks of the run", ranks)
    calls = [one for process, lines in parts for one in _intel_process(lines, f"{source}, process {process}")]
    notes = ("Intel's statistics give no times of calls: what is covered is a share of calls",)
    return Profile("", ranks, tuple(calls), notes=notes)


def _intel_process(lines: list[tuple[str, str]], where: str) -> list[Calls]:
    if not any(re.fullmatch(r"={10,}\s*", line) for _, line in lines[-8:]):
        raise BadInput("profile-cut", f"{where} is cut off: no line of '=' ends it; get the profile again.")
    titles = {line.strip(): at for at, (_, line) in enumerate(lines) if line.strip() in (_ALL, _BY_SIZE)}
    if _BY_SIZE not in titles:
        raise BadInput(
            "profile-without-sizes",
            f"{where} has no message sizes, without which nothing can be predicted: run with I_MPI_STATS=4.",
        )
    sized = list(_intel_sizes(lines[titles[_BY_SIZE] + 1 :]))
    if _ALL in titles:
        counted = _intel_counts(lines[titles[_ALL] + 1 : titles[_BY_SIZE]])
        for call in {*counted, *(one.call for one in sized)} - _INSIDE:
            found = sum(one.count for one in sized if one.call == call)
            _agree(where, f"calls of {call} by size", found, "calls of it", counted.get(call, 0))
    return [one for one in sized if one.call not in _INSIDE]


def _intel_counts(lines: list[tuple[str, str]]) -> dict[str, int]:
    heads: list[str] = []
    found = {}
    for where, line in lines:
        if line.strip().startswith("Operation"):
            heads = _heads(line)
        elif heads and len(line.split()) > 1:
            row = _Row.of(where, line.split(), heads)
            found[call_of(row[heads[0]])] = row.count("Calls")
    return found


def _intel_sizes(lines: list[tuple[str, str]]) -> Iterator[Calls]:
    heads, call = list[str](), ""
    for where, line in lines:
        text = line.strip()
        if text.startswith("Operation"):
            heads, call = _heads(line)[1:], ""
        elif not heads or re.fullmatch(r"|[-=]+|P2P|Collectives|____.*", text):
            continue
        elif re.fullmatch(r"[A-Za-z]\w*", text):
            call = call_of(text)
        elif not call:
            raise BadInput("profile-damaged", f"{where}: a row of no operation: the file is damaged.")
        else:
            # Rows are numbered in front.
            row = _Row.of(where, line.split(), ["", *heads])
            comm = row.count("Comm size") if "Comm size" in heads else None
            yield Calls(call, row.number("Message size"), row.count("Calls"), None, comm)


# Intel Application Performance Snapshot's function summary, ``aps-report -f`` (User Guide, 'Function Summary for All Ranks').
#
# A row per function with seconds, volume in MB (2^20 bytes, printed with two decimals) and calls of all ranks; sizes are the
# mean, volume over calls. The chart does not say how many ranks there are, nor sizes of communicators. A function whose volume
# rounds to nothing has no size. The line TOTAL shows whether rows were lost.
_APS_TITLE = r"(?im)^\|?\s*Function summary for all ranks"
#: Volume in MB below which the two printed decimals are no size; seconds and megabytes of a row are rounded to the other.
_LEAST_VOLUME_MB, _ROUNDED = 0.1, 0.005


def _aps(text: str, source: str, ranks: int | None) -> Profile:
    if ranks is None:
        raise BadInput(
            "profile-without-ranks", f"{source} (Intel APS) does not say how many ranks were profiled: give --ranks."
        )
    heads: list[str] = []
    rows: list[_Row] = []
    lines = iter(_lines(text, source))
    next(line for _, line in lines if re.match(_APS_TITLE, line))
    for where, line in lines:
        bare = line.strip(" |")
        if re.match(r"Function\s{2,}", bare):
            heads = _heads(line)
        elif heads and not re.match(r"([-=]*$|\[|Disclaimer)", bare):
            rows.append(_Row.of(where, bare.split(), heads))
            if bare.startswith("TOTAL"):
                break
    for name in ("Time(sec)", "Volume(MB)", "Calls"):
        if name not in heads:
            raise BadInput(
                "profile-without-sizes",
                f"{source} has no column {name}, without which nothing can be predicted: use aps-report -f.",
            )
    if not rows or not rows[-1]["Function"].startswith("TOTAL"):
        raise BadInput(
            "profile-cut", f"{source} is cut off: the function summary ends with a line TOTAL; get the report again."
        )
    total, calls = rows.pop(), []
    for row in rows:
        count, volume = row.count("Calls"), row.number("Volume(MB)")
        size = volume * (1 << 20) / count if count and volume >= _LEAST_VOLUME_MB else None
        calls.append(Calls(call_of(row["Function"]), size, count, row.number("Time(sec)")))
    seconds, whole = sum(one.seconds or 0.0 for one in calls), total.number("Time(sec)")
    if abs(seconds - whole) > _ROUNDED * (len(rows) + 1) + 1e-4 * whole:
        _agree(source, "total time", whole, "the sum over functions", seconds)
    count = sum(one.count for one in calls)
    _agree(source, "total calls", total.number("Calls"), "the sum over functions", count, 1e-5)
    notes = ("sizes are the mean of each function (APS)", "APS's summary has no communicator sizes")
    return Profile("", ranks, tuple(calls), None, seconds, notes=notes)


# Open MPI's software performance counters (``ompi_spc.c``): the dump of ``mpi_spc_dump_enabled``, or CSV of counters by rank.
#
# The dump has a line ``MPI_COMM_WORLD Rank N:`` for each rank and lines ``OMPI_SPC_SEND -> 12``; counters of nothing are left
# out, so that a rank without any is one that called nothing. As MPI_T variables the names begin with ``runtime_spc_``. There
# are counts of calls, and one sum of the bytes of all point-to-point messages: their mean is the size of each. Collectives
# have no sizes and nothing has a time.
_SPC_LINE = r"(?:\[[^\]]*\]\s*)?(OMPI_SPC_\w+) -> (\S*)\s*"
_SPC_END = "NOTE: Any counters not shown here"
#: Counters of bytes, times and what the library does inside, which count no calls of a function.
_SPC_NO_CALLS = (
    r"(BYTES|UNEXPECTED|OUT_OF_SEQUENCE|OOS|MATCH|MAX_|QUEUE|P2P_MESSAGE|EAGER|BASE_|TIME"
    r"|.*_(ALGORITHM|LINEAR|BRUCKS|PAIRWISE))\w*"
)


def _open_mpi_spc(text: str, source: str, ranks: int | None) -> Profile:
    if re.search(_SPC_LINE, text):
        table = _spc_dump(text, source)
    else:
        table = _counters_of_csv(text, source, r"(?:runtime_spc_)?OMPI_SPC_\w+")
    ranks = ranks or len(table)
    _check_ranks(table, ranks, source)
    calls: list[Calls] = []
    for rank, row in table.items():
        named = {name.removeprefix("runtime_spc_").removeprefix("OMPI_SPC_"): value for name, value in row.items()}
        counts = {call_of(name): int(value) for name, value in named.items() if value and not re.fullmatch(_SPC_NO_CALLS, name)}
        sizeable = {*SENDS, "Sendrecv", "Sendrecv_replace"} & set(counts)
        sends, volume = sum(counts[call] for call in sizeable), named.get("BYTES_SENT_USER")
        if sends and volume is None:
            raise BadInput(
                "profile-without-sizes",
                f"{source}: rank {rank} sent {sends} messages and has no counter OMPI_SPC_BYTES_SENT_USER: without sizes "
                "nothing can be predicted; run with mpi_spc_attach=all.",
            )
        calls += [Calls(call, (volume or 0.0) / sends if call in sizeable else None, count) for call, count in counts.items()]
    notes = (
        "sizes are the mean of all messages of a rank (Open MPI's SPC); its collectives have none",
        "SPC give no times of calls: what is covered is a share of calls",
        "SPC leave out counters of nothing, so that nobody knows whether a line was lost",
    )
    return Profile("", ranks, tuple(calls), notes=notes)


def _spc_dump(text: str, source: str) -> _Counters:
    if _SPC_END not in text:
        raise BadInput("profile-cut", f"{source} is cut off: Open MPI's dump ends with {_SPC_END!r}; get the output again.")
    found: _Counters = {}
    rank: int | None = None
    for where, line in _lines(text, source):
        if header := re.fullmatch(r"(?:\[[^\]]*\]\s*)?MPI_COMM_WORLD Rank (\d+):\s*", line):
            rank = int(header[1])
            if rank in found:
                raise BadInput("profile-mixed", f"{where}: rank {rank} is there twice: profile one run at a time.")
            found[rank] = {}
        elif row := re.fullmatch(_SPC_LINE, line):
            if rank is None:
                raise BadInput("profile-damaged", f"{where}: a counter of no rank: the output is damaged.")
            _add(found, rank, row[1], _number(row[2], row[1], where, whole=True), where)
        elif "OMPI_SPC_" in line:
            raise BadInput(
                "profile-damaged", f"{where}: {line.strip()[:60]!r} is not a counter and its value: the output is damaged."
            )
    return found


# Darshan's AutoPerf MPI module (APMPI): text of ``darshan-parser``, or CSV with the columns rank, counter and value.
#
# ``darshan-parser`` prints ``<module> <rank> <record id> <counter> <value> ...`` with tabs, after a head with ``# nprocs:`` and
# ``# run time:``. Of each function there are ``MPI_X_CALL_COUNT``, ``_TOTAL_BYTES``, ``_TOTAL_TIME`` (seconds) and counts in
# six ranges of sizes (``_MSG_SIZE_AGG_0_256`` ... ``_1M_PLUS``); the size of each call is the mean, and the ranges are its
# bounds. What makes lost rows visible: every rank has the same counters, every function all of its own, and the ranges of
# sizes have as many calls as the function.
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
    table = _darshan_parsed(text, source) if "\t" in text else _counters_of_csv(text, source, _DARSHAN_NAME)
    facts = {name: _number(value, name, source) for name, value in re.findall(r"#\s*(nprocs|run time)\s*:\s*(\S+)", text)}
    ranks = int(facts.get("nprocs") or ranks or len(table))
    _check_ranks(table, ranks, source)
    names = {name for row in table.values() for name in row}
    functions: dict[str, set[str]] = {}
    for stem, part in (re.fullmatch(_DARSHAN_NAME, name).groups() for name in names):  # type: ignore[union-attr]
        functions.setdefault(stem, set()).add(part)
    for stem, parts in functions.items():
        sized = ("TOTAL_BYTES", *_RANGES) if parts - {"CALL_COUNT", "TOTAL_TIME"} else ()
        names |= {stem + part for part in ("CALL_COUNT", "TOTAL_TIME", *sized)}
    by_rank = {}
    for rank, row in table.items():
        if lacking := sorted(names - set(row)):
            raise BadInput(
                "profile-damaged",
                f"{source} is damaged or cut: rank {rank} lacks the counter {lacking[0]}; get the profile again.",
            )
        by_rank[rank] = [
            _darshan_calls({name.removeprefix(stem): row[name] for name in row if name.startswith(stem)}, stem, source, rank)
            for stem in functions
            if row[f"{stem}CALL_COUNT"]
        ]
    calls = tuple(one for rows in by_rank.values() for one in rows)
    per_rank = tuple(sum(one.seconds or 0.0 for one in rows) for rows in by_rank.values())
    wall = facts["run time"] * ranks if "run time" in facts else None
    notes = ("sizes are the mean of each function and rank (Darshan)", "Darshan records no communicator sizes")
    return Profile("", ranks, calls, wall, sum(per_rank), per_rank, notes)


def _darshan_parsed(text: str, source: str) -> _Counters:
    found: _Counters = {}
    for where, line in _lines(text, source):
        fields = line.split("\t")
        if "MPI_" in line and not line.startswith("#") and len(fields) < 5:
            raise BadInput("profile-damaged", f"{where}: {len(fields)} fields, expected 5 or more: the file is damaged.")
        if not line.startswith("#") and len(fields) >= 5 and re.fullmatch(_DARSHAN_NAME, fields[3]):
            rank = int(_number(fields[1], "rank", where, whole=True))
            _add(found, rank, fields[3], _number(fields[4], fields[3], where), where)
    return found


def _darshan_calls(parts: Mapping[str, float], stem: str, source: str, rank: int) -> Calls:
    count = parts["CALL_COUNT"]
    if "TOTAL_BYTES" not in parts:
        return Calls(call_of(stem), None, int(count), parts["TOTAL_TIME"])
    in_ranges = sum(parts[name] for name in _RANGES)
    _agree(f"{source}, rank {rank}", f"calls of {stem}", count, "those in ranges of sizes", in_ranges)
    used = [bounds for name, bounds in _RANGES.items() if parts[name]]
    size = parts["TOTAL_BYTES"] / count
    return Calls(call_of(stem), size, int(count), parts["TOTAL_TIME"], None, used[0][0], used[-1][1])


# A plain table: call, bytes, count, seconds and communicator size as CSV, for whatever has no reader of its own.
#
#     # ranks: 4
#     # wall_s: 12.5
#     call,bytes,count,time_s,comm_size
#     MPI_Allreduce,8,4000,0.31,4
#     MPI_Waitall,,2000,0.1,
#     # rows: 2
#
# Counts and seconds are sums over all ranks, sizes those of this module. ``ranks`` and ``wall_s`` (seconds of the run, not
# summed) may be given on the command line instead. Without ``# rows`` at the end nobody knows whether rows were lost; a last
# line that does not end is refused in any case.
_REQUIRED, _OPTIONAL = ("call", "bytes", "count"), ("time_s", "comm_size")


def _plain_csv(text: str, source: str, ranks: int | None) -> Profile:
    facts: dict[str, float] = {}
    for where, line in _lines(text, source):
        if found := re.fullmatch(r"#\s*(ranks|wall_s|rows)\s*:\s*(.*)", line.strip()):
            name, value = found[1], _number(found[2], found[1], where, whole=found[1] != "wall_s")
            if facts.setdefault(name, value) != value:
                mixed = "mixes ranks: " if name == "ranks" else ""
                raise BadInput(
                    "profile-mixed", f"{where}: {mixed}{name} is {value:g} and was {facts[name]:g}; profile one run at a time."
                )
    heads, rows = _csv(text, source)
    lacking = [name for name in _REQUIRED if name not in heads]
    if lacking == ["bytes"]:
        raise BadInput(
            "profile-without-sizes", f"{source}: there is no column 'bytes': without sizes nothing can be predicted."
        )
    if lacking or len(set(heads)) != len(heads) or not set(heads) <= {*_REQUIRED, *_OPTIONAL}:
        known = ", ".join((*_REQUIRED, *_OPTIONAL))
        raise BadInput(
            "profile-columns",
            f"{source}: columns are {', '.join(heads)}, expected some of {known}, the first three and each once.",
        )
    calls = []
    for row in rows:
        if not re.fullmatch(r"(?:MPI_)?[A-Za-z]\w*", row["call"]):
            raise BadInput("profile-call", f"{row.where}: {row['call']!r} is not the name of an MPI call.")
        size, seconds = (row.number(name) if row.cells.get(name) else None for name in ("bytes", "time_s"))
        comm_size = row.count("comm_size") if row.cells.get("comm_size") else None
        calls.append(Calls(call_of(row["call"]), size, row.count("count"), seconds, comm_size))
    if "rows" in facts and facts["rows"] != len(rows):
        raise BadInput("profile-damaged", f"{source} is damaged or cut: it says {int(facts['rows'])} rows and has {len(rows)}.")
    if (own := facts.get("ranks", ranks)) is None:
        raise BadInput(
            "profile-without-ranks", f"{source} does not say how many ranks were profiled: add '# ranks: N', or give --ranks."
        )
    known_s = [one.seconds for one in calls if one.seconds is not None]
    unsure = () if "rows" in facts else (f"{source} does not say how many rows it had: nobody knows whether some are lost",)
    wall = facts["wall_s"] * own if "wall_s" in facts else None
    return Profile("", int(own), tuple(calls), wall, sum(known_s) if len(known_s) == len(calls) else None, notes=unsure)


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

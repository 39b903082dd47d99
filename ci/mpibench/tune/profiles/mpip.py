"""mpiP's text report, verbose or concise (mpiP 3.5, User Guide, "mpiP Output"; ``report.c`` for the columns).

Verbose reports have a row per callsite and rank and one for all ranks (``*``), for times and for bytes sent. mpiP gives the
mean of a callsite's sizes with their bounds, no receive sizes, no communicator sizes, and none at all for calls of vectors
(``MPI_Alltoallv``). Concise reports (``MPIP=-c``) list the twenty callsites of most time and most bytes; the others are
counted as one whose call is not known. Numbers are printed with three or four digits.

What makes lost rows visible: the number of rows in the title of the times, which holds unless rows below a threshold were left
out (``-t``), ``*`` rows against those of ranks, callsites against the total, and the report's last title.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from reframe_tests.harness.vocabulary import BadInput

from .record import Calls, Given, Profile, agree, call_of, gathered, number

FORM = "mpiP report"
_TITLE = re.compile(r"@--- (.+?) -*\s*")
_TIMES, _SENT = "Callsite Time statistics (all, milliseconds)", "Callsite Message Sent statistics (all, sent bytes)"
_TOP_TIMES, _TOP_SENT = "Aggregate Time", "Aggregate Sent Message Size"
_TOTALS, _END = "MPI Time (seconds)", "End of Report"
#: Three printed digits differ from the number by 0.5 % at most, and so does the sum they are compared with.
ROUNDING = 0.011
#: Callsites that the sections of a concise report have.
MOST_LISTED = 20
#: The name that calls get which a concise report has no room for.
UNLISTED = "(callsites that a concise report leaves out)"


@dataclass(frozen=True)
class _Row:
    where: str
    fields: tuple[str, ...]

    @property
    def site(self) -> tuple[str, str]:
        return self.fields[0], self.fields[1]


def recognise(text: str) -> bool:
    """Whether the report introduces itself."""
    return re.search(r"^@ mpiP\b", text, re.MULTILINE) is not None


def read(text: str, source: str, given: Given) -> Profile:
    """:raises BadInput: a damaged report, or one without times or sizes."""
    sections = dict(_sections(text, source))
    if _END not in sections:
        raise BadInput(f"{source} is cut off: an mpiP report ends with the title {_END!r}; get the report again.")
    tasks = re.findall(r"^@ MPI Task Assignment\s*: (\d+) ", text, re.MULTILINE)
    totals = [row for row in sections.get(_TOTALS, []) if row.fields[0] != "Task"]
    if not totals or totals[-1].fields[0] != "*":
        raise BadInput(f"{source} lacks the section {_TOTALS!r} or its last line: run with mpiP's default report.")
    per_rank = tuple(_value(row, 2, 4, "MPITime") for row in totals[:-1])
    ranks = len(per_rank)
    agree({"number of tasks": ranks, "task assignments": len(set(tasks)) or None}, source)
    wall_s, mpi_s = _value(totals[-1], 1, 4, "AppTime"), _value(totals[-1], 2, 4, "MPITime")
    agree({"time in MPI of all tasks": mpi_s, "the sum of theirs": sum(per_rank)}, source, ROUNDING)
    threshold = re.search(r"^@ MPIP env var\s*:.*-t", text, re.MULTILINE) is not None
    verbose = any(title.startswith(_TIMES) for title in sections)
    calls = list(_verbose(sections, source, threshold) if verbose else _concise(sections, source, mpi_s))
    seconds = sum(one.seconds or 0.0 for one in calls)
    agree({"time in MPI of all tasks": mpi_s, "the sum over callsites": seconds}, source, 2 * ROUNDING)
    notes = ("sizes are the mean of each callsite (mpiP)", "mpiP records no sizes of receives and vectors")
    return Profile(FORM, ranks, gathered(calls), wall_s, mpi_s, per_rank, notes)


def _sections(text: str, source: str) -> Iterator[tuple[str, list[_Row]]]:
    """Titles with their rows, the heads of columns among them."""
    title, rows = "", list[_Row]()
    for at, line in enumerate(text.splitlines(), start=1):
        if found := _TITLE.fullmatch(line):
            if title:
                yield title, rows
            title, rows = found[1].strip(), []
        elif line.strip() and not line.startswith(("---", "@")):
            rows.append(_Row(f"{source}, line {at}", tuple(line.split())))
    if title:
        yield title, rows


def _value(row: _Row, at: int, fields: int, what: str, *, whole: bool = False) -> float:
    if len(row.fields) != fields:
        raise BadInput(f"{row.where}: {len(row.fields)} fields, expected {fields}: the report is damaged.")
    return number(row.fields[at], what, row.where, whole=whole)


def _found(sections: dict[str, list[_Row]], title: str) -> tuple[str, list[_Row]]:
    """A section by the beginning of its title, without the head of its columns."""
    name = next((name for name in sections if name.startswith(title)), "")
    return name, [row for row in sections.get(name, []) if row.fields[0] not in ("Name", "Call")]


def _verbose(sections: dict[str, list[_Row]], source: str, threshold: bool) -> Iterator[Calls]:
    title, times = _found(sections, _TIMES)
    announced = re.search(r": (\d+)$", title)
    of_ranks = [row for row in times if row.fields[2:3] != ("*",)]
    sites: dict[tuple[str, str], tuple[int, float]] = {}
    for row in times:
        count, mean = _value(row, 3, 9, "Count", whole=True), _value(row, 5, 9, "Mean")
        if row.fields[2] == "*":
            if row.site in sites:
                raise BadInput(f"{row.where}: callsite {row.site[1]} is there twice: the report is damaged.")
            sites[row.site] = (int(count), count * mean / 1000)
    if not threshold:
        rows = float(announced[1]) if announced else None
        agree({"rows of callsites and ranks": len(of_ranks), "rows that its title announces": rows}, source)
        by_site: dict[tuple[str, str], int] = {}
        for row in of_ranks:
            by_site[row.site] = by_site.get(row.site, 0) + int(row.fields[3])
        for site, count in by_site.items():
            whole = sites.get(site, (0, 0.0))[0]
            agree({f"calls of callsite {site[1]} ({site[0]})": whole, "the sum over its ranks": count}, source)
    sent = {row.site: row for row in _found(sections, _SENT)[1] if row.fields[2:3] == ("*",)}
    _check_sent(sections, source, threshold)
    for site, (count, seconds) in sites.items():
        known = sent.pop(site) if site in sent else None
        sized = int(_value(known, 3, 8, "Count", whole=True)) if known is not None else 0
        if sized > count:
            raise BadInput(f"{source}: callsite {site[1]} sent {sized} messages in {count} calls: the report is damaged.")
        if known is not None:
            largest, mean, smallest = (_value(known, at, 8, "size") for at in (4, 5, 6))
            yield Calls(call_of(site[0]), mean, sized, seconds * sized / count, None, smallest, largest)
        if count > sized:
            yield Calls(call_of(site[0]), None, count - sized, seconds * (count - sized) / count)
    if sent:
        name, number_ = next(iter(sent))
        raise BadInput(f"{source} is damaged: callsite {number_} ({name}) sent messages and has no times.")


def _check_sent(sections: dict[str, list[_Row]], source: str, threshold: bool) -> None:
    """Messages of ranks add up to those of all, at every callsite."""
    counts: dict[tuple[str, str], list[int]] = {}
    for row in _found(sections, _SENT)[1]:
        both = counts.setdefault(row.site, [0, 0])
        both[row.fields[2] == "*"] += int(_value(row, 3, 8, "Count", whole=True))
    for site, (ranks, whole) in counts.items():
        if not threshold:
            agree({f"messages of callsite {site[1]} ({site[0]})": whole, "the sum over its ranks": ranks}, source)


def _concise(sections: dict[str, list[_Row]], source: str, mpi_s: float) -> Iterator[Calls]:
    """From the twenty callsites of most time and most bytes, and the rest."""
    _, times = _found(sections, _TOP_TIMES)
    _, sent = _found(sections, _TOP_SENT)
    if not times:
        raise BadInput(f"{source} has no times of callsites: run without options that shorten mpiP's report.")
    if not sent and not any(call_of(row.fields[0]) == "Barrier" for row in times):
        raise BadInput(f"{source} has no message sizes, without which nothing can be predicted: use mpiP's whole report.")
    listed = next((re.fullmatch(r"Callsites: (\d+)", title) for title in sections if title.startswith("Callsites: ")), None)
    if listed is None:
        raise BadInput(f"{source} does not say how many callsites there are: get the report again.")
    agree({"rows of callsites": len(times), "callsites, or the twenty of most time": min(int(listed[1]), MOST_LISTED)}, source)
    parts = [_value(row, 5, 6, "Sent%") for row in sent]
    if sent and len(sent) < MOST_LISTED and abs(sum(parts) - 100) > 0.01 * len(sent):
        raise BadInput(
            f"{source} is damaged: bytes of its callsites add up to {sum(parts):.2f} % of all; get the report again."
        )
    sizes = {row.site: row for row in sent}
    shown = 0.0
    for row in times:
        if len(row.fields) not in (6, 7):
            raise BadInput(f"{row.where}: {len(row.fields)} fields, expected 7: the report is damaged.")
        if len(row.fields) == 6:
            raise BadInput(f"{row.where}: a report without counts is that of an mpiP before 3.5: use its verbose report.")
        count = int(number(row.fields[5], "Count", row.where, whole=True))
        seconds = number(row.fields[2], "Time", row.where) / 1000
        shown += seconds
        of_site = sizes.get(row.site)
        mean = _value(of_site, 4, 6, "Avrg") if of_site else None
        yield Calls(call_of(row.fields[0]), mean, count, seconds)
    if len(times) >= MOST_LISTED and mpi_s > shown:
        yield Calls(UNLISTED, None, 1, mpi_s - shown)

"""A plain table: call, bytes, count, seconds and communicator size as CSV, for whatever has no reader of its own.

    # ranks: 4
    # wall_s: 12.5
    call,bytes,count,time_s,comm_size
    MPI_Allreduce,8,4000,0.31,4
    MPI_Waitall,,2000,0.1,
    # rows: 2

Counts and seconds are sums over all ranks, sizes those of :mod:`.record`. ``ranks`` and ``wall_s`` (seconds of the run, not
summed) may be given on the command line instead. Without ``# rows`` at the end nobody knows whether rows were lost; a last
line that does not end is refused in any case.
"""

from __future__ import annotations

import csv
import re

from reframe_tests.harness.vocabulary import BadInput

from .record import Calls, Given, Profile, call_of, gathered, number

FORM = "CSV table"
REQUIRED, OPTIONAL = ("call", "bytes", "count"), ("time_s", "comm_size")
_FACT = re.compile(r"#\s*(ranks|wall_s|rows)\s*:\s*(.*)")


def recognise(text: str) -> bool:
    """Whether the first line that is no comment names the columns."""
    first = next((line for line in text.splitlines() if line.strip() and not line.startswith("#")), "")
    return "call" in [name.strip() for name in first.split(",")]


def read(text: str, source: str, given: Given) -> Profile:
    """:raises BadInput: a line that is not such a row, or fewer rows than the table says."""
    if not text.endswith("\n"):
        raise BadInput(f"{source}: its last line does not end: the file was cut off; get the profile again.")
    facts: dict[str, float] = {}
    columns: list[str] = []
    rows: list[Calls] = []
    for at, line in enumerate(text.splitlines(), start=1):
        where = f"{source}, line {at}"
        if line.startswith("#"):
            if found := _FACT.fullmatch(line.strip()):
                _add_fact(facts, found[1], number(found[2], found[1], where, whole=found[1] != "wall_s"), where)
        elif line.strip() and not columns:
            columns = _columns(line, where)
        elif line.strip():
            rows.append(_row(next(csv.reader([line])), columns, where))
    if "rows" in facts and facts["rows"] != len(rows):
        raise BadInput(f"{source} is damaged or cut: it says {int(facts['rows'])} rows and has {len(rows)}.")
    ranks = facts.get("ranks", given.ranks)
    if ranks is None:
        raise BadInput(f"{source} does not say how many ranks were profiled: add '# ranks: N', or give --ranks.")
    wall = facts.get("wall_s", given.wall_s)
    known = [one.seconds for one in rows if one.seconds is not None]
    return Profile(
        FORM,
        int(ranks),
        gathered(rows),
        wall_s=None if wall is None else wall * ranks,
        mpi_s=sum(known) if len(known) == len(rows) else None,
        notes=() if "rows" in facts else (f"{source} does not say how many rows it had: nobody knows whether some are lost",),
    )


def _add_fact(facts: dict[str, float], name: str, value: float, where: str) -> None:
    if facts.setdefault(name, value) != value:
        mixed = "mixes ranks: " if name == "ranks" else ""
        raise BadInput(f"{where}: {mixed}{name} is {value:g} and was {facts[name]:g}; profile one run at a time.")


def _columns(line: str, where: str) -> list[str]:
    names = [name.strip() for name in line.split(",")]
    unknown = [name for name in names if name not in (*REQUIRED, *OPTIONAL)]
    lacking = [name for name in REQUIRED if name not in names]
    if lacking == ["bytes"]:
        raise BadInput(f"{where}: there is no column 'bytes': without sizes nothing can be predicted.")
    if unknown or lacking or len(set(names)) != len(names):
        wrong = (
            f"there is no column {lacking[0]!r}" if lacking else f"column {(unknown or names)[0]!r} is unknown or twice there"
        )
        raise BadInput(f"{where}: {wrong}; columns are {', '.join((*REQUIRED, *OPTIONAL))}.")
    return names


def _row(fields: list[str], columns: list[str], where: str) -> Calls:
    if len(fields) != len(columns):
        raise BadInput(f"{where}: {len(fields)} fields, expected {len(columns)} ({', '.join(columns)}).")
    row = {name: field.strip() for name, field in zip(columns, fields, strict=True)}
    if not re.fullmatch(r"(?:MPI_)?[A-Za-z]\w*", row["call"]):
        raise BadInput(f"{where}: {row['call']!r} is not the name of an MPI call.")

    def value(name: str, whole: bool) -> float | None:
        return number(row[name], name, where, whole=whole) if row.get(name) else None

    comm_size = value("comm_size", True)
    return Calls(
        call_of(row["call"]),
        value("bytes", False),
        int(number(row["count"], "count", where, whole=True)),
        value("time_s", False),
        None if comm_size is None else int(comm_size),
    )

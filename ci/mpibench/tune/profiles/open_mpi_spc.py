"""Open MPI's software performance counters (``ompi_spc.c``): the dump of ``mpi_spc_dump_enabled``, or CSV of counters by rank.

The dump has a line ``MPI_COMM_WORLD Rank N:`` for each rank and lines ``OMPI_SPC_SEND -> 12``; counters of nothing are left
out, so that a rank without any is one that called nothing. As MPI_T variables the names begin with ``runtime_spc_``. There are
counts of calls, and one sum of the bytes of all point-to-point messages: their mean is the size of each. Collectives have no
sizes and nothing has a time.
"""

from __future__ import annotations

import re

from reframe_tests.harness.vocabulary import BadInput

from . import counters
from .record import Calls, Given, Profile, call_of, gathered, number

FORM = "Open MPI SPC"
_NAME = re.compile(r"(?:runtime_spc_)?OMPI_SPC_\w+")
_LINE = re.compile(r"(?:\[[^\]]*\]\s*)?(OMPI_SPC_\w+) -> (\S*)\s*")
_RANK = re.compile(r"(?:\[[^\]]*\]\s*)?MPI_COMM_WORLD Rank (\d+):\s*")
_END = "NOTE: Any counters not shown here"
SENDS = ("Send", "Bsend", "Rsend", "Ssend", "Isend", "Ibsend", "Irsend", "Issend", "Sendrecv", "Sendrecv_replace")
#: Counters that count calls of a function: all but those of bytes, times and what the library does inside.
_NO_CALLS = re.compile(
    r"(BYTES|UNEXPECTED|OUT_OF_SEQUENCE|OOS|MATCH|MAX_|QUEUE|P2P_MESSAGE|EAGER|BASE_|TIME|.*_(ALGORITHM|LINEAR|BRUCKS|PAIRWISE))\w*"
)


def recognise(text: str) -> bool:
    """Whether any such counter is named."""
    return "OMPI_SPC_" in text


def read(text: str, source: str, given: Given) -> Profile:
    """:raises BadInput: a damaged dump, or ranks that are missing."""
    dumped = _LINE.search(text) is not None
    table = _dump(text, source) if dumped else counters.read_csv(text, source, _NAME)
    ranks = given.ranks or len(table)
    counters.check_ranks(table, ranks, source)
    calls: list[Calls] = []
    for rank, row in table.items():
        named = {name.removeprefix("runtime_spc_").removeprefix("OMPI_SPC_"): value for name, value in row.items()}
        counts = {call_of(name): int(value) for name, value in named.items() if value and not _NO_CALLS.fullmatch(name)}
        sends = sum(count for call, count in counts.items() if call in SENDS)
        volume = named.get("BYTES_SENT_USER")
        if sends and volume is None:
            raise BadInput(
                f"{source}: rank {rank} sent {sends} messages and has no counter OMPI_SPC_BYTES_SENT_USER: without sizes "
                "nothing can be predicted; run with mpi_spc_attach=all."
            )
        for call, count in counts.items():
            calls.append(Calls(call, volume / sends if volume is not None and call in SENDS else None, count))
    notes = (
        "sizes are the mean of all messages of a rank (Open MPI's SPC); its collectives have none",
        "SPC give no times of calls: what is covered is a share of calls",
        "SPC leave out counters of nothing, so that nobody knows whether a line was lost",
    )
    return Profile(FORM, ranks, gathered(calls), None if given.wall_s is None else given.wall_s * ranks, notes=notes)


def _dump(text: str, source: str) -> counters.Table:
    if _END not in text:
        raise BadInput(f"{source} is cut off: Open MPI's dump ends with {_END!r}; get the output again.")
    found: dict[int, dict[str, float]] = {}
    rank: int | None = None
    for at, line in enumerate(text.splitlines(), start=1):
        where = f"{source}, line {at}"
        if header := _RANK.fullmatch(line):
            rank = int(header[1])
            if rank in found:
                raise BadInput(f"{where}: rank {rank} is there twice: profile one run at a time.")
            found[rank] = {}
        elif row := _LINE.fullmatch(line):
            if rank is None:
                raise BadInput(f"{where}: a counter of no rank: the output is damaged.")
            counters.add(found, rank, row[1], number(row[2], row[1], where, whole=True), where)
        elif "OMPI_SPC_" in line:
            raise BadInput(f"{where}: {line.strip()[:60]!r} is not a counter and its value: the output is damaged.")
    return found

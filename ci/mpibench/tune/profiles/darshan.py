"""Darshan's AutoPerf MPI module (APMPI): text of ``darshan-parser``, or CSV with the columns rank, counter and value.

``darshan-parser`` prints ``<module> <rank> <record id> <counter> <value> ...`` with tabs, after a head with ``# nprocs:`` and
``# run time:``. Of each function there are ``MPI_X_CALL_COUNT``, ``_TOTAL_BYTES``, ``_TOTAL_TIME`` (seconds) and counts in six
ranges of sizes (``_MSG_SIZE_AGG_0_256`` ... ``_1M_PLUS``); the size of each call is the mean, and the ranges are its bounds.
What makes lost rows visible: every rank has the same counters, every function all of its own, and the ranges of sizes have as
many calls as the function.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from reframe_tests.harness.vocabulary import BadInput

from . import counters
from .record import Calls, Given, Profile, agree, call_of, gathered, number

FORM = "Darshan (APMPI)"
_NAME = re.compile(r"MPI_\w+_(?:CALL_COUNT|TOTAL_BYTES|TOTAL_TIME|MSG_SIZE_AGG_\w+)")
_FACT = re.compile(r"#\s*(nprocs|run time)\s*:\s*(\S+)")
#: Ranges of sizes, each with its bounds in bytes.
RANGES = {
    "0_256": (0, 256),
    "256_1K": (256, 1 << 10),
    "1K_8K": (1 << 10, 8 << 10),
    "8K_256K": (8 << 10, 256 << 10),
    "256K_1M": (256 << 10, 1 << 20),
    "1M_PLUS": (1 << 20, None),
}


def recognise(text: str) -> bool:
    """Whether any counter of calls is named."""
    return re.search(r"\bMPI_[A-Z_]+_CALL_COUNT\b", text) is not None


def read(text: str, source: str, given: Given) -> Profile:
    """:raises BadInput: a damaged table, or ranks that are missing."""
    table = _parsed(text, source) if "\t" in text else counters.read_csv(text, source, _NAME)
    facts = {found[1]: number(found[2], found[1], source) for found in _FACT.finditer(text)}
    ranks = int(facts.get("nprocs") or given.ranks or len(table))
    counters.check_ranks(table, ranks, source)
    _check_whole(table, source)
    wall = facts.get("run time", given.wall_s)
    calls = {rank: list(_calls(row, f"{source}, rank {rank}")) for rank, row in table.items()}
    per_rank = tuple(sum(one.seconds or 0.0 for one in rows) for rows in calls.values())
    every = [one for rows in calls.values() for one in rows]
    known = all(one.seconds is not None for one in every)
    notes = ("sizes are the mean of each function and rank (Darshan)", "Darshan records no communicator sizes")
    total = sum(per_rank) if known else None
    return Profile(
        FORM, ranks, gathered(every), None if wall is None else wall * ranks, total, per_rank if known else (), notes
    )


def _parsed(text: str, source: str) -> counters.Table:
    if not text.endswith("\n"):
        raise BadInput(f"{source}: its last line does not end: the file was cut off; get the profile again.")
    found: dict[int, dict[str, float]] = {}
    for at, line in enumerate(text.splitlines(), start=1):
        fields = line.split("\t")
        if line.startswith("#") or len(fields) < 5 or not _NAME.fullmatch(fields[3]):
            if "MPI_" in line and not line.startswith("#") and len(fields) < 5:
                raise BadInput(f"{source}, line {at}: {len(fields)} fields, expected 5 or more: the file is damaged.")
            continue
        where = f"{source}, line {at}"
        counters.add(
            found, int(number(fields[1], "rank", where, whole=True)), fields[3], number(fields[4], fields[3], where), where
        )
    return found


def _check_whole(table: counters.Table, source: str) -> None:
    """:raises BadInput: a counter that other ranks have, or that its function has beside the others, is missing."""
    every = {name for row in table.values() for name in row}
    stems = {re.sub(r"(CALL_COUNT|TOTAL_BYTES|TOTAL_TIME|MSG_SIZE_AGG_\w+)$", "", name) for name in every}
    wanted = {f"{stem}{end}" for stem in stems for end in ("CALL_COUNT", "TOTAL_TIME")}
    sized = {stem for stem in stems if any(name.startswith((f"{stem}TOTAL_BYTES", f"{stem}MSG_SIZE_AGG_")) for name in every)}
    wanted |= {f"{stem}{end}" for stem in sized for end in ("TOTAL_BYTES", *(f"MSG_SIZE_AGG_{text}" for text in RANGES))}
    for rank, row in table.items():
        if lacking := sorted((every | wanted) - set(row)):
            raise BadInput(f"{source} is damaged or cut: rank {rank} lacks the counter {lacking[0]}; get the profile again.")


def _calls(row: Mapping[str, float], where: str) -> Iterator[Calls]:
    for name, value in row.items():
        if not name.endswith("_CALL_COUNT") or not value:
            continue
        stem = name.removesuffix("CALL_COUNT")
        ranges = {bounds: row.get(f"{stem}MSG_SIZE_AGG_{text}", 0.0) for text, bounds in RANGES.items()}
        volume = row.get(f"{stem}TOTAL_BYTES")
        if any(f"{stem}MSG_SIZE_AGG_{text}" in row for text in RANGES):
            agree({f"calls of {stem}": value, "those in ranges of sizes": sum(ranges.values())}, where)
        used = [bounds for bounds, count in ranges.items() if count]
        seconds = row.get(f"{stem}TOTAL_TIME")
        sized = volume is not None and bool(used)
        yield Calls(
            call_of(stem),
            volume / value if sized and volume is not None else None,
            int(value),
            seconds,
            None,
            float(used[0][0]) if sized else None,
            None if not sized or used[-1][1] is None else float(used[-1][1]),
        )

"""Intel MPI's native statistics, ``I_MPI_STATS`` (5.1 Reference Manual, 'Native Statistics Format'; gone since 2019).

Per process: 'Communication Activity' counts the calls of each operation (level 2), 'Communication Activity by actual args'
those of each size (level 3 or 4, without which there are no sizes). Csend is what collectives send inside and is left out: the
collective itself is there. Times of single operations are not taken from this format (``Cost(%)`` is of a lifetime whose unit
the manual does not give), so that what is covered is a share of calls and not of time.

What makes lost rows visible: 'Process I of N', both tables against each other, the line at the end of a process and of the
file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain

from reframe_tests.harness.vocabulary import BadInput

from . import columns
from .record import Calls, Given, Profile, agree, call_of, gathered, number

FORM = "Intel MPI statistics (I_MPI_STATS)"
_PROCESS = re.compile(r"~~~~ Process (\d+) of (\d+)\b.*")
_ALL, _BY_SIZE = "Communication Activity", "Communication Activity by actual args"
_RULE = re.compile(r"[-=]+\s*")
#: Point-to-point traffic inside collectives.
INSIDE = frozenset({"Csend", "Csendrecv"})
_Numbered = tuple[int, str]


def recognise(text: str) -> bool:
    """Whether a process of such a file begins."""
    return re.search(r"^~~~~ Process \d+ of \d+", text, re.MULTILINE) is not None


def read(text: str, source: str, given: Given) -> Profile:
    """:raises BadInput: no sizes, or processes or rows that are missing."""
    if not re.search(r"^_{2,} End of .*_{2,}\s*\Z", text, re.MULTILINE):
        raise BadInput(f"{source} is cut off: such a file ends with '____ End of ... file ____'; get the profile again.")
    parts: list[tuple[int, list[_Numbered]]] = []
    sizes = set()
    for at, line in enumerate(text.splitlines(), start=1):
        if found := _PROCESS.fullmatch(line):
            parts.append((int(found[1]), []))
            sizes.add(int(found[2]))
        elif parts:
            parts[-1][1].append((at, line))
    if len(sizes) != 1:
        raise BadInput(f"{source} mixes ranks: processes of {', '.join(map(str, sorted(sizes)))}; profile one run at a time.")
    (ranks,) = sizes
    agree({"processes": len({process for process, _ in parts}), "ranks of the run": ranks}, source)
    calls = chain.from_iterable(_process(lines, f"{source}, process {process}", source) for process, lines in parts)
    notes = ("Intel's statistics give no times of calls: what is covered is a share of calls",)
    return Profile(FORM, ranks, gathered(calls), None if given.wall_s is None else given.wall_s * ranks, notes=notes)


def _process(lines: list[_Numbered], where: str, source: str) -> list[Calls]:
    if not any(re.fullmatch(r"={10,}\s*", line) for _, line in lines[-8:]):
        raise BadInput(f"{where} is cut off: no line of '=' ends it; get the profile again.")
    titles = {line.strip(): at for at, (_, line) in enumerate(lines) if line.strip() in (_ALL, _BY_SIZE)}
    if _BY_SIZE not in titles:
        raise BadInput(f"{where} has no message sizes, without which nothing can be predicted: run with I_MPI_STATS=4.")
    sized = list(_by_size(lines[titles[_BY_SIZE] + 1 :], source))
    if _ALL in titles:
        counted = dict(_counted(lines[titles[_ALL] + 1 : titles[_BY_SIZE]], source))
        for call in {*counted, *(one.call for one in sized)} - INSIDE:
            found = sum(one.count for one in sized if one.call == call)
            agree({f"calls of {call} by size": found, "calls of it": counted.get(call, 0)}, where)
    return [one for one in sized if one.call not in INSIDE]


def _counted(lines: list[_Numbered], source: str) -> Iterator[tuple[str, int]]:
    heads: list[str] = []
    for at, line in lines:
        text = line.strip()
        if text.startswith("Operation"):
            heads = columns.names(line)
        elif heads and text and not _RULE.fullmatch(text) and len(text.split()) > 1:
            row = columns.row(line, heads, f"{source}, line {at}")
            yield call_of(row[heads[0]]), int(number(row["Calls"], "Calls", f"{source}, line {at}", whole=True))


def _by_size(lines: list[_Numbered], source: str) -> Iterator[Calls]:
    heads, call, where = list[str](), "", source
    for at, line in lines:
        text, where = line.strip(), f"{source}, line {at}"
        if text.startswith("Operation"):
            heads, call = columns.names(line)[1:], ""
        elif not heads or not text or _RULE.fullmatch(text) or text in ("P2P", "Collectives") or text.startswith("____"):
            continue
        elif re.fullmatch(r"[A-Za-z]\w*", text):
            call = call_of(text)
        elif not call:
            raise BadInput(f"{where}: a row of no operation: the file is damaged.")
        else:
            # Rows are numbered in front.
            row = columns.row(line, ["", *heads], where)
            size = number(row["Message size"], "message size", where)
            comm = int(number(row["Comm size"], "communicator size", where, whole=True)) if "Comm size" in row else None
            yield Calls(call, size, int(number(row["Calls"], "Calls", where, whole=True)), None, comm)

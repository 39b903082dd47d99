"""Strict reader of the NAS Parallel Benchmarks for MPI, 3.3 and 3.4: every line is one they print, and the verification passed.

Formats: ``common/print_results.f`` (3.3), ``.f90`` (3.4), ``common/c_print_results.c`` (IS), and each program's own lines.
"""

from __future__ import annotations

import re

from ..records import OutputError, Record
from . import operations, printed, rows, volume

TITLE = re.compile(rf"^[ \t]*NAS Parallel Benchmarks 3\.[34] -- ({'|'.join(rows.RANKS)}) Benchmark[ \t\r]*$", re.M)
_BEFORE = re.compile(r"[ \t\r\n]*")
#: Each program says so in its own words before the block says ``UNSUCCESSFUL``.
_FAILED = re.compile(
    r"^.*(?:UNSUCCESSFUL|(?i:verification failed)|FAILURE:|(?i:verification *not performed|no verification performed)"
    r"|NOT PERFORMED|Failed partial verification|out of sort).*$",
    re.M,
)
_REFUSED = re.compile(r"^.*(?:ERROR:|Error:|PROBLEM SIZE|SUBDOMAIN SIZE|Problem size too big).*$", re.M)
#: Share by which the product of time and rate may miss the operations, whose formulas have six digits.
_FIT = 1e-3
#: Half of the last printed digit of Mop/s.
_HALF = 0.005


def parse(text: str, source: str) -> list[Record]:
    """The one record of an output.

    :raises OutputError: if it is damaged, mixed up or cut off, the verification failed or was not made, not all ranks took
        part, or the program refused to run.
    """
    title = TITLE.search(text)
    if not title or not _BEFORE.fullmatch(text[: title.start()]):
        raise OutputError(f"{source}: before the title of a NAS Parallel Benchmark stands something else; keep it out.")
    name = title[1]
    if failed := _FAILED.search(text):
        raise _wrong(source, text, failed, f"the verification of {name} failed or was not made; its result is wrong")
    if refused := _REFUSED.search(text):
        raise _wrong(source, text, refused, f"{name} did not run")
    wanted = printed.TEXTS[name]
    found = wanted.pattern.fullmatch(text[title.start() :])
    if not found:
        number, line = wanted.find_fault(text[title.start() :])
        number += text.count("\n", 0, title.start()) + 1
        shown = "".join(ch if ch.isprintable() else "?" for ch in line[:60])
        said = f"'{shown}' is not a line of it" if line else "a line is missing, repeated or out of order"
        raise OutputError(f"{source}, line {number}: the output of {name} is damaged: {said}; run the benchmark again.")
    return [_record(source, name, found)]


def _record(source: str, name: str, found: re.Match[str]) -> Record:
    problem, total = found["problem"], int(found["total"])
    if found["verification"] != "SUCCESSFUL":
        raise OutputError(f"{source}: the verification of {name} is '{found['verification']}' and not SUCCESSFUL.")
    if problem not in rows.CLASSES:
        raise OutputError(f"{source}: {name} is of class {problem[:9]}; there are {', '.join(rows.CLASSES)}.")
    said = re.search(r"\(class (\w)\)", found["size"])
    if not found["version"].startswith(found["release"]) or (said and said[1] != problem):
        raise OutputError(f"{source}: the head and the end of {name} are of different runs; outputs are mixed up.")
    taking_part = found["active"] or found["compiled"]
    if not taking_part or (found["active"] and found["compiled"]) or int(taking_part) != total:
        what = "took part" if found["active"] else "is what it was built for"
        raise OutputError(
            f"{source}: {name} was started on {total} ranks, and {taking_part or 'no number of them'} {what}; start it on "
            f"{'as many as that' if taking_part else 'a number it prints'}."
        )
    wanted = volume.PROBLEMS[name][problem].iterations
    if int(found["iterations"]) != wanted:
        raise OutputError(
            f"{source}: {name} of class {problem} made {found['iterations']} iterations, and the class has {wanted}; it was "
            "changed, or the output is damaged."
        )
    rate = float(found["mops"])
    if total < 1 or abs(rate / total - float(found["each"])) > _HALF * 2 + rate * 1e-6:
        raise OutputError(f"{source}: Mop/s of {name} is not {total} times that of a process; the output is damaged.")
    _expect_fit(source, name, problem, found["seconds"], rate)
    values = {"time_s": float(found["seconds"]), "mop_per_s": rate}
    return Record(rows.NAME, name, total, 1, None, wanted or None, values, rows.variant(problem))


def _expect_fit(source: str, name: str, problem: str, seconds: str, rate: float) -> None:
    """Time and rate are those of the class' operations, as far as the printed digits of the time go."""
    counted, time = operations.count(name, problem) / 1e6, float(seconds)
    half = 0.5 * 10.0 ** -len(seconds.partition(".")[2])
    low, high = (rate * max(time + sign * half, 0.0) * (1 + sign * _FIT) for sign in (-1, 1))
    if not low <= counted <= high:
        raise OutputError(
            f"{source}: {name} of class {problem} makes {counted:.6g} million operations, and {seconds} s at {rate:g} Mop/s "
            "are not as many; the output is damaged, run it again."
        )


def _wrong(source: str, text: str, found: re.Match[str], what: str) -> OutputError:
    shown = " ".join(found[0].split())[:60]
    return OutputError(f"{source}, line {text.count(chr(10), 0, found.start()) + 1}: {what}: '{shown}'.")

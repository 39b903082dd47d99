"""Reader of the NAS Parallel Benchmarks for MPI, 3.3 and 3.4: the title and the block that all print alike at their end.

Formats: ``common/print_results.f`` (3.3), ``.f90`` (3.4), ``common/c_print_results.c`` (IS).
"""

from __future__ import annotations

import re

from ..records import OutputError, Record
from . import operations, rows, volume

TITLE = re.compile(
    rf"^[ \t]*NAS Parallel Benchmarks (?P<release>3\.[34]) -- (?P<name>{'|'.join(rows.RANKS)}) Benchmark[ \t\r]*$", re.M
)
_BEFORE = re.compile(r"[ \t\r\n]*")
_NUMBER, _WHOLE = r"[0-9]+\.[0-9]+", "[0-9]+"
#: The block at the end, line by line. 3.3 says how many ranks it was built for, 3.4 how many took part.
_BLOCK = re.compile(
    rf"^[ \t]*(?P<name>{'|'.join(rows.RANKS)}) Benchmark Completed\.?[ \t\r]*\n"
    + "".join(
        rf"(?:[ \t]*{label}[ \t]*=[ \t]*{shape}[ \t\r]*\n){'?' if 'procs' in label else ''}"
        for label, shape in (
            ("Class", r"(?P<problem>\S+)"),
            ("Size", r"[^\n]*\S"),
            ("Iterations", f"(?P<iterations>{_WHOLE})"),
            ("Time in seconds", f"(?P<seconds>{_NUMBER})"),
            ("Total processes", f"(?P<total>{_WHOLE})"),
            ("Compiled procs", f"(?P<compiled>{_WHOLE})"),
            ("Active procs", f"(?P<active>{_WHOLE})"),
            ("Mop/s total", f"(?P<mops>{_NUMBER})"),
            ("Mop/s/process", f"(?P<each>{_NUMBER})"),
            ("Operation type", r"[^\n]*\S"),
            ("Verification", r"(?P<verification>\S+)"),
            ("Version", r"(?P<version>\S+)"),
        )
    ),
    re.M,
)
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
    name = title["name"]
    if failed := _FAILED.search(text):
        raise _wrong(source, text, failed, f"the verification of {name} failed or was not made; its result is wrong")
    if refused := _REFUSED.search(text):
        raise _wrong(source, text, refused, f"{name} did not run")
    blocks = list(_BLOCK.finditer(text))
    if len(blocks) != 1 or text.count("Benchmark Completed") != 1 or len(TITLE.findall(text)) != 1 or blocks[0]["name"] != name:
        raise OutputError(f"{source}: the block at the end of {name} is cut, damaged, missing or there twice; run it again.")
    # The size of the problem names the class, too, where it is printed above.
    classes = set(re.findall(r"\(class (\w)\)", text)) | {blocks[0]["problem"]}
    if len(classes) > 1 or not blocks[0]["version"].startswith(title["release"]):
        raise OutputError(f"{source}: the head and the end of {name} are of different runs; outputs are mixed up.")
    return [_record(source, name, blocks[0])]


def _record(source: str, name: str, found: re.Match[str]) -> Record:
    problem, total = found["problem"], int(found["total"])
    if found["verification"] != "SUCCESSFUL":
        raise OutputError(f"{source}: the verification of {name} is '{found['verification']}' and not SUCCESSFUL.")
    if problem not in rows.CLASSES:
        raise OutputError(f"{source}: {name} is of class {problem[:9]}; there are {', '.join(rows.CLASSES)}.")
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

"""NAS Parallel Benchmarks for MPI, 3.3 and 3.4 (Spack's package ``npb``): eight programs, each
built in classes of growing problems. Programs of 3.4 run on any number of ranks (``bt.C.x``), those
of 3.3 on the one they were built for (``bt.C.16``).

Problem sizes are those of ``sys/setparams.c`` (and of NASA's page "Problem Sizes and Parameters in
NAS Parallel Benchmarks"), outputs those of ``common/print_results.f`` (3.3), ``.f90`` (3.4) and
``common/c_print_results.c`` (IS).

The least they must send, so that a run past its fabric is noticed: per iteration of the benchmark,
for all parties (nodes, or the ranks of one node) together, payload only, whatever the layout of
ranks. Two arguments are used:

*information*: FT, IS and CG. In FT each output depends on all inputs: of ``M`` complex numbers in
equal parts each party lacks the share ``1 - 1/n`` of its part. In IS the keys are random, and each
party keeps those of its own range: the same share of all keys moves (``MPI_Alltoallv`` of
``IS/is.c``). In CG each party's part of ``A p`` depends on the others' ``p``; as partial sums or as
entries, it receives as many doubles as its part has for each of 25 products (``cgitmax``) and the
residual.

*surface*: BT, SP, LU and MG. Neighbours on a grid of ``N^3`` points exchange what lies on both
sides of their common faces, at least once an iteration (``copy_faces.f``, ``exchange_3.f``,
``comm3`` of ``mg.f``). However a grid is cut, a part of ``V <= N^3/2`` points has at least
``min(N^2, 2 sqrt(V N), 3 V^(2/3))`` faces to the rest (Bollobas and Leader, "Edge-isoperimetric
inequalities in the grid", Combinatorica 11, 1991, theorem 3). One layer of points is counted; most
programs exchange two.

Only half of either bound is used, because parts are unequal if a grid or an order cannot be
divided. EP exchanges a dozen doubles in all, which a node's other traffic hides.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from .benchmark import NO_DATA, SIZELESS, Benchmark, OutputError, Plan, Record, SizeRange, at_levels
from .model import BenchmarkPackage, Group, Programs, Suite, no_arguments
from .traffic import Bound, nothing

_DOUBLE = 8
_COMPLEX = 16
_KEY = 4
#: Products of matrix and vector in one iteration of CG (``CG/cg.f``:
#: ``cgitmax``, and one for the residual).
_PRODUCTS = 26
#: BT, SP and LU: unknowns of a point (``u(5, ...)``).
_UNKNOWNS = 5


class NpbProblem(NamedTuple):
    """One program in one class.

    :param size: points of a side of the grid (BT, SP, LU, MG), of the whole grid (FT), keys (IS),
        or order of the matrix (CG); 0: it does not matter (EP).
    :param iterations: as the program prints them; 0 for EP.
    """

    size: int
    iterations: int


def _problems(*rows: tuple[int, int]) -> dict[str, NpbProblem]:
    return {problem: NpbProblem(*row) for problem, row in zip("SWABCD", rows, strict=True)}


PROBLEMS: Mapping[str, Mapping[str, NpbProblem]] = {
    "BT": _problems((12, 60), (24, 200), (64, 200), (102, 200), (162, 200), (408, 250)),
    "CG": _problems((1400, 15), (7000, 15), (14000, 15), (75000, 75), (150000, 75), (1500000, 100)),
    "EP": _problems(*[(0, 0)] * 6),
    "FT": _problems(
        (1 << 18, 6), (1 << 19, 6), (1 << 23, 6), (1 << 25, 20), (1 << 27, 20), (1 << 31, 25)
    ),
    "IS": _problems(
        (1 << 16, 10), (1 << 20, 10), (1 << 23, 10), (1 << 25, 10), (1 << 27, 10), (1 << 31, 10)
    ),
    "LU": _problems((12, 50), (33, 300), (64, 250), (102, 250), (162, 250), (408, 300)),
    "MG": _problems((32, 4), (128, 4), (256, 4), (256, 20), (512, 20), (1024, 50)),
    "SP": _problems((12, 100), (36, 400), (64, 400), (102, 400), (162, 400), (408, 500)),
}


def _transposed(width: int) -> Callable[[int, int], float]:
    """Elements of so many bytes, of which each party lacks all but its own share."""
    return lambda size, parties: width * size * (1 - 1 / parties)


def _products(size: int, parties: int) -> float:
    return _PRODUCTS * _DOUBLE * size


def surface(width: int) -> Callable[[int, int], float]:
    """Faces of all parties to the others, a point of so many bytes behind each."""

    def bound(size: int, parties: int) -> float:
        part = size**3 / parties
        return (
            width
            * parties
            * min(float(size**2), 2 * math.sqrt(part * size), 3 * math.pow(part, 2 / 3))
        )

    return bound


_BOUNDS: Mapping[str, Callable[[int, int], float]] = {
    "BT": surface(_UNKNOWNS * _DOUBLE),
    "CG": _products,
    "FT": _transposed(_COMPLEX),
    "IS": _transposed(_KEY),
    "LU": surface(_UNKNOWNS * _DOUBLE),
    "MG": surface(_DOUBLE),
    "SP": surface(_UNKNOWNS * _DOUBLE),
}


def bound_of(kernel: str, problem: str) -> Bound:
    """The bound of a program in a class, in bytes per iteration; the message size means nothing."""
    if kernel not in _BOUNDS:
        return nothing
    size = PROBLEMS[kernel][problem].size
    least = _BOUNDS[kernel]
    return lambda message_bytes, parties: int(least(size, parties) / 2) if parties > 1 else 0


#: Name of the suite; Spack's package has it, too.
NAME = "npb"
#: Classes: sample, workstation, three standard ones (each four times
#: the one before), and 16 times the last.
CLASSES = ("S", "W", "A", "B", "C", "D")
#: Program to the ranks it runs on (key of :data:`benchmark.RANK_RULES`): ``README`` and
#: ``sys/setparams.c`` of NPB 3.3 refuse others. 3.4 runs BT, SP, FT and MG on as many as fit and
#: lets the others wait, which the reader refuses; its LU also knows grids that are no powers of
#: two. In the paper of IBM (table 7) BT and SP have 36 and 121 tasks beside 32 and 128.
RANKS: Mapping[str, str] = {
    "BT": "square",
    "CG": "power_of_two",
    "EP": "all",
    "FT": "power_of_two",
    "IS": "power_of_two",
    "LU": "power_of_two",
    "MG": "power_of_two",
    "SP": "square",
}
#: "Time in seconds" of all steps, and the operations of the problem over it: one number in two
#: words. Of class S the first has no digit left (0.00), so that the second is judged.
QUANTITIES = ("time_s", "mop_per_s")


def program(kernel: str, problem: str) -> str:
    """``bt.C.x``."""
    return f"{kernel.lower()}.{problem}.x"


def group(problem: str) -> str:
    """``nas_c``: the group of a class."""
    return f"nas_{problem.lower()}"


def variant(problem: str) -> str:
    """What keeps the numbers of classes apart: ``class=C``."""
    return f"class={problem}"


# Parties of the bounds are nodes, or the ranks of one; what EP exchanges
# is too little to be seen beside other traffic.
ROWS: tuple[Benchmark, ...] = tuple(
    Benchmark(
        kernel,
        NAME,
        program(kernel, problem),
        group(problem),
        ranks,
        QUANTITIES,
        bound_of(kernel, problem),
        min_ranks=1,
        sizes=SIZELESS,
        gated_sizes={"mop_per_s": (None,)},
        variants=(variant(problem),),
        crossing=0,
        unbounded=f"{NO_DATA} but a dozen numbers at its end" if kernel == "EP" else "",
    )
    for problem in CLASSES
    for kernel, ranks in RANKS.items()
)

# A class is what it is at every level.
_ONCE = at_levels(*[SizeRange((0, 0), 1, 1)] * 3)

#: Group to what it measures and its invocations.
GROUPS: Mapping[str, Group] = {
    group(problem): Group(
        f"NAS Parallel Benchmarks of class {problem}: {', '.join(RANKS)}",
        tuple(
            Plan(f"{kernel}_{problem}".lower(), program(kernel, problem), (kernel,), _ONCE)
            for kernel in RANKS
        ),
        collective=True,
    )
    for problem in CLASSES
}


TITLE = re.compile(
    rf"^[ \t]*NAS Parallel Benchmarks (?P<release>3\.[34]) -- (?P<name>{'|'.join(RANKS)})"
    r" Benchmark[ \t\r]*$",
    re.M,
)
_BEFORE = re.compile(r"[ \t\r\n]*")
_NUMBER = r"[0-9]+\.[0-9]+"
_WHOLE = "[0-9]+"
#: The block at the end, line by line. 3.3 says how many ranks it
#: was built for, 3.4 how many took part.
_BLOCK = re.compile(
    rf"^[ \t]*(?P<name>{'|'.join(RANKS)}) Benchmark Completed\.?[ \t\r]*\n"
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
            ("Mop/s/process", f"(?P<per_process>{_NUMBER})"),
            ("Operation type", r"[^\n]*\S"),
            ("Verification", r"(?P<verification>\S+)"),
            ("Version", r"(?P<version>\S+)"),
        )
    ),
    re.M,
)
#: Each program says so in its own words before the block says ``UNSUCCESSFUL``.
_FAILED = re.compile(
    r"^.*(?:UNSUCCESSFUL|(?i:verification failed)|FAILURE:|(?i:verification *not performed"
    r"|no verification performed)"
    r"|NOT PERFORMED|Failed partial verification|out of sort).*$",
    re.M,
)
_REFUSED = re.compile(
    r"^.*(?:ERROR:|Error:|PROBLEM SIZE|SUBDOMAIN SIZE|Problem size too big).*$", re.M
)
#: Half of the last printed digit of Mop/s.
_HALF = 0.005


def parse(text: str, source: str) -> list[Record]:
    """The one record of an output.

    :raises OutputError: if it is damaged, mixed up or truncated, the verification failed or was not
        made, not all ranks took part, or the program refused to run.
    """

    def wrong(sentence: str) -> OutputError:
        return OutputError("output-damaged", f"{source}: {sentence}.")

    title = TITLE.search(text)
    if not title or not _BEFORE.fullmatch(text[: title.start()]):
        raise wrong("other output precedes the title of a NAS Parallel Benchmark; keep it out")
    name = title["name"]
    failed = f"the verification of {name} failed or did not run; its result is wrong"
    for pattern, meaning in ((_FAILED, failed), (_REFUSED, f"{name} did not run")):
        if odd := pattern.search(text):
            line = text.count("\n", 0, odd.start()) + 1
            shown = " ".join(odd[0].split())[:60]
            raise OutputError("output-damaged", f"{source}, line {line}: {meaning}: '{shown}'.")
    blocks = list(_BLOCK.finditer(text))
    if (
        len(blocks) != 1
        or text.count("Benchmark Completed") != 1
        or len(TITLE.findall(text)) != 1
        or blocks[0]["name"] != name
    ):
        raise wrong(
            f"the block at the end of {name} is truncated, damaged, missing or duplicated; run it "
            "again"
        )
    block = blocks[0]
    problem = block["problem"]
    total = int(block["total"])
    seconds = block["seconds"]
    rate = float(block["mops"])
    # The size of the problem names the class, too, where it is printed above.
    if {*re.findall(r"\(class (\w)\)", text), problem} != {problem} or not block[
        "version"
    ].startswith(title["release"]):
        raise wrong(
            f"the head and the end of {name} belong to different runs; outputs are mixed up"
        )
    if block["verification"] != "SUCCESSFUL":
        raise wrong(
            f"the verification of {name} is '{block['verification']}' instead of SUCCESSFUL"
        )
    if problem not in CLASSES:
        raise wrong(f"{name} is of class {problem[:9]}; there are {', '.join(CLASSES)}")
    taking_part = block["active"] or block["compiled"]
    if not taking_part or (block["active"] and block["compiled"]) or int(taking_part) != total:
        fault = (
            f"{taking_part or 'an unknown number'} "
            f"{'took part' if block['active'] else 'is what it was built for'}"
        )
        other = "that many" if taking_part else "a number it prints"
        raise wrong(f"{name} was started on {total} ranks, and {fault}; start it on {other}")
    iterations = PROBLEMS[name][problem].iterations
    if int(block["iterations"]) != iterations:
        fault = (
            f"{name} of class {problem} made {block['iterations']} iterations, but the class has "
            f"{iterations}"
        )
        raise wrong(f"{fault}; it was changed, or the output is damaged")
    if total < 1 or abs(rate / total - float(block["per_process"])) > _HALF * 2 + rate * 1e-6:
        raise wrong(f"Mop/s of {name} is not {total} times that per process; the output is damaged")
    values = {"time_s": float(seconds), "mop_per_s": rate}
    return [Record(NAME, name, total, 1, None, iterations or None, values, variant(problem))]


_NAMES = "|".join(name.lower() for name in RANKS)

SUITE = Suite(
    name=NAME,
    title="NPB",
    first_line=TITLE,
    parse=parse,
    rows=ROWS,
    groups=GROUPS,
    arguments=no_arguments,
    per_ranks=True,
    # They have no option, and class D takes an hour to say its version at the end.
    programs=Programs(
        "*.[A-FSW].*",
        rf"(?:{_NAMES})\.[A-FSW]\.(?:x|[0-9]+)",
        "",
        r"NAS Parallel Benchmarks (3\.[0-9]+) -- ",
        sample=(),
        in_file=True,
    ),
    spack=(BenchmarkPackage(NAME, "bin", "*.[A-FSW].*"),),
)

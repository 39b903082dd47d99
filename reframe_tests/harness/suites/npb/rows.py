"""The NAS Parallel Benchmarks for MPI: eight programs, each built in classes of growing problems.

Programs of 3.4 run on any number of ranks (``bt.C.x``), those of 3.3 on the one they were built for (``bt.C.16``).
"""

from __future__ import annotations

from collections.abc import Mapping

from ..benchmark import NO_DATA, SIZELESS, Benchmark
from ..model import Group, Run
from ..plans import Plan, SizeRange, at_levels
from . import volume

#: Name of the suite; Spack's package has it, too.
NAME = "npb"
#: Classes: sample, workstation, three standard ones (each four times the one before), and 16 times the last.
CLASSES = ("S", "W", "A", "B", "C", "D")
#: Program to the ranks it runs on (key of :data:`benchmark.RANK_RULES`): ``README`` and ``sys/setparams.c`` of NPB 3.3 refuse
#: others. 3.4 runs BT, SP, FT and MG on as many as fit and lets the others wait, which the reader refuses; its LU also knows
#: grids that are no powers of two. In the paper of IBM (table 7) BT and SP have 36 and 121 tasks beside 32 and 128.
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
#: "Time in seconds" of all steps, and the operations of the problem over it: one number in two words. Of class S the first has
#: no digit left (0.00), so that the second is judged.
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


# Parties of the bounds are nodes, or the ranks of one; what EP exchanges is too little to be seen beside other traffic.
ROWS: tuple[Benchmark, ...] = tuple(
    Benchmark(
        kernel,
        NAME,
        program(kernel, problem),
        group(problem),
        ranks,
        QUANTITIES,
        volume.bound_of(kernel, problem),
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
        tuple(Plan(f"{kernel}_{problem}".lower(), program(kernel, problem), (kernel,), _ONCE) for kernel in RANKS),
        collective=True,
    )
    for problem in CLASSES
}


def arguments(run: Run) -> list[str]:
    """None: everything is built in."""
    return []


def sizes(row: Benchmark, plan: Plan, size_range: SizeRange) -> tuple[int | None, ...]:
    """None: no row has a message size."""
    return (None,)

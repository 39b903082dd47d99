"""mpi4py.bench: the benchmarks that come with mpi4py, run by the stack's own Python."""

import re

from ..model import KeyFigure, Probe, Suite
from . import output, rows

SUITE = Suite(
    name=rows.NAME,
    title=rows.PROGRAM,
    first_line=re.compile(rf"^[ \t]*{output.TITLE}[ \t\r]*$", re.MULTILINE),
    parse=output.parse,
    rows=rows.ROWS,
    groups=rows.GROUPS,
    arguments=rows.arguments,
    # Every stack has it, so it comes before programs that only some have.
    probe=Probe(rows.PROGRAM, ("helloworld",), 1),
    key_figures=(
        KeyFigure("mpi4py latency", "pingpong", "latency_us", False, empty=True),
        KeyFigure("mpi4py bandwidth", "pingpong", "bandwidth_mb_per_s", True),
    ),
)

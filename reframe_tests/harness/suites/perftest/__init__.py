"""perftest: what an adapter does without an MPI."""

from ..model import BenchmarkPackage, Suite
from . import output, rows

SUITE = Suite(
    name=rows.NAME,
    title=rows.NAME,
    first_line=output.FIRST_LINE,
    parse=output.parse,
    rows=rows.ROWS,
    pairs=rows.PAIRS,
    spack=BenchmarkPackage(rows.NAME, "bin", "ib_*"),
)

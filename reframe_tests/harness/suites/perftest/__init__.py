"""perftest: what an adapter does without an MPI. Its outputs are read; no test starts it."""

import re

from ..model import BenchmarkPackage, Suite
from . import output, rows

SUITE = Suite(
    name=rows.NAME,
    title=rows.NAME,
    first_line=re.compile(output.TITLE.pattern, re.MULTILINE),
    parse=output.parse,
    rows=rows.ROWS,
    spack=BenchmarkPackage(rows.NAME, "bin", "ib_*"),
)

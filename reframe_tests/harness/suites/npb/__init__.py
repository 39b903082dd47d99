"""NAS Parallel Benchmarks for MPI, 3.3 and 3.4 (Spack's package ``npb``)."""

from ..model import BenchmarkPackage, Programs, Suite
from . import output, rows

_NAMES = "|".join(name.lower() for name in rows.RANKS)

SUITE = Suite(
    name=rows.NAME,
    title="NPB",
    first_line=output.TITLE,
    parse=output.parse,
    rows=rows.ROWS,
    groups=rows.GROUPS,
    arguments=rows.arguments,
    sizes=rows.sizes,
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
    spack=BenchmarkPackage(rows.NAME, "bin", "*.[A-FSW].*"),
)

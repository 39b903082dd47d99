"""OSU Micro-Benchmarks (OMB), 5.6 to 7.5."""

import re

from ..model import BenchmarkPackage, Programs, Suite
from . import options, output, rows

SUITE = Suite(
    name=rows.NAME,
    title="OSU",
    first_line=re.compile(r"^[ \t]*# OSU ", re.MULTILINE),
    parse=output.parse,
    extent=output.extent,
    piece=output.PIECE,
    said=output.said,
    rows=rows.ROWS,
    groups=rows.GROUPS,
    arguments=rows.arguments,
    sizes=rows.sizes,
    same_repetitions=True,
    # util/osu_util_options.h. One of some eighty programs is started after a build, because all are made by one build on one
    # library, and the package's install-time tests ran others.
    programs=Programs(
        "osu_*",
        r"osu_[a-z0-9_]+",
        "--version",
        r"(?m)^# OSU .*v([0-9][0-9.]*)",
        ranks=2,
        sample=("osu_latency",),
        # Fan-in and fan-out look for other nodes before they look at their options (osu_bw_fan_util.c); osu_mbw_mr of 5.x
        # ends MPI twice when it has said its version, which is lost then where the MPI aborts (osu_mbw_mr.c).
        refusal=r"Please run this benchmark on more than 1 node|after (?:finalizing MPICH|MPI_FINALIZE was invoked)",
    ),
    spack=BenchmarkPackage("osu-micro-benchmarks", "libexec", "osu_*"),
    offer=rows.OFFER,
    options=options.OPTIONS,
)

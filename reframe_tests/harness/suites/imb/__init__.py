"""Intel MPI Benchmarks, all eight binaries for memory of the host, 2018 to 2021.11."""

import re

from ..model import BenchmarkPackage, KeyFigure, Probe, Programs, Suite
from . import arguments, header, offered, options, output, plans, rows

SUITE = Suite(
    name=rows.NAME,
    title="IMB",
    first_line=re.compile(r"^[ \t]*# +Intel ?\(R\) MPI Benchmarks ", re.MULTILINE),
    parse=output.parse,
    extent=output.extent,
    last_line=output.LAST_LINE,
    piece=output.PIECE,
    rows=rows.ROWS,
    groups=plans.GROUPS,
    arguments=arguments.arguments,
    sizes=arguments.sizes,
    probe=Probe("IMB-MPI1", ("-iter", "1", "Barrier"), 2),
    # IMB User Guide, "Command-line Control"; the version is in the banner, which 2018 leaves out of its help (IMB.c).
    programs=Programs(
        "IMB-*",
        r"IMB-[A-Z0-9]+",
        "-help",
        r"MPI Benchmarks (20[0-9.]+(?: Update [0-9]+)?)",
        refusal=r"Calling sequence \(command line will be repeated in Output table!\)",
        version_in_file=r"\0(2018(?: Update [0-9]+)?)\0",
    ),
    spack=BenchmarkPackage("intel-mpi-benchmarks", "bin", "IMB-*"),
    key_figures=(
        KeyFigure("PingPong latency", "PingPong", "latency_us", False, empty=True),
        KeyFigure("PingPong bandwidth", "PingPong", "bandwidth_mb_per_s", True),
        KeyFigure("Uniband", "Uniband", "bandwidth_mb_per_s", True),
        KeyFigure("Biband", "Biband", "bandwidth_mb_per_s", True),
        KeyFigure("Allreduce", "Allreduce", "t_max_us", False),
        KeyFigure("Alltoall", "Alltoall", "t_max_us", True),
        KeyFigure("Barrier", "Barrier", "t_max_us", False),
    ),
    offer=offered.OFFER,
    options=options.OPTIONS,
    shown_arguments=header.shown_arguments,
)

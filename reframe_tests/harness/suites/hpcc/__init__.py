"""HPC Challenge (HPCC 1.4 and 1.5): one program that writes what it measures into a file of its own."""

import re

from ..model import BenchmarkPackage, Programs, Suite
from . import input_file, output, rows

SUITE = Suite(
    name=rows.NAME,
    title="HPCC",
    first_line=re.compile(r"^[ \t]*This is the DARPA/DOE HPC Challenge Benchmark version ", re.MULTILINE),
    parse=output.parse,
    rows=rows.ROWS,
    groups=rows.GROUPS,
    arguments=rows.arguments,
    sizes=rows.sizes,
    options=(rows.MEMORY,),
    files=rows.files,
    result=input_file.RESULT,
    variants=rows.variants,
    # It has no option: to say its version it solves the smallest problem, which takes less than a second.
    programs=Programs(
        rows.PROGRAM,
        rows.PROGRAM,
        "",
        r"HPC Challenge Benchmark version ([0-9.]+)",
        files={input_file.INPUT: input_file.write(1, 1)},
        result=input_file.RESULT,
        beside_launcher=True,
    ),
    spack=BenchmarkPackage(rows.NAME, "bin", rows.PROGRAM),
)

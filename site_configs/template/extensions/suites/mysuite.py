"""A suite of your own, to copy: one record, called SUITE. All fields:
model.py, benchmark.py in harness/suites/.

Here its one program, mysuite-ring, prints "# My suite 1.0" and lines "<bytes> <microseconds>". A
stack has the program when 'mpibench stacks add --mpirun ... --binaries FOLDER' found it
(``programs``), or when its stack.json has "mysuite-ring" in "binaries" and "mysuite" in "suites".
Nothing is run without a test class: tests/mysuite.py, beside this folder. A long suite can be a
folder, suites/mysuite/ with an __init__.py.

Where a program prints a last line, require it in ``parse``: a table that is cut between two rows
looks whole, and only a job, which knows the sizes that were asked for, notices
(reader.check_complete); 'mpibench catalogue --parse' cannot.
"""

import re

from reframe_tests.harness.suites import traffic
from reframe_tests.harness.suites.benchmark import (
    Benchmark,
    OutputError,
    Plan,
    Record,
    SizeRange,
    at_levels,
)
from reframe_tests.harness.suites.model import Group, Programs, Suite

#: A row per benchmark: name, suite, program, group, who takes part (RANK_RULES), what it prints
#: (vocabulary.QUANTITIES), and the fewest bytes that all ranks together must send per repetition:
#: the counters of the fabric are held against that.
RING = Benchmark(
    "Ring",
    "mysuite",
    "mysuite-ring",
    "mysuite_ring",
    "all",
    ("latency_us",),
    traffic.every_rank_once,
    gated_sizes={"latency_us": (8,)},  # sizes that may have a reference
)
LINE = re.compile(r"([0-9]+) +([0-9]+(?:\.[0-9]+)?)")


def parse(text, source):
    """A record per line; whatever is not understood is an error, never left out."""
    if not text.endswith("\n"):
        raise OutputError(
            "output-cut", f"{source}: the last line has no end; the output was cut off."
        )
    _, *lines = text.splitlines()
    rows = [LINE.fullmatch(line) for line in lines]
    if not rows or not all(rows):
        raise OutputError("output-damaged", f"{source}: this is not a whole table of My suite.")
    return [
        Record(
            suite="mysuite",
            benchmark="Ring",
            ranks=None,  # not printed
            groups=1,
            message_bytes=int(row[1]),
            repetitions=None,  # not printed
            values={"latency_us": float(row[2])},
        )
        for row in rows
    ]


def arguments(run):
    """Words behind the program; run.size_range has the sizes as powers of 2."""
    smallest, largest = run.size_range.log2
    return [
        "--sizes",
        f"{1 << smallest}:{1 << largest}",
        "--repeat",
        str(run.size_range.repetitions),
    ]


#: Per level: sizes from 2^a to 2^b bytes, repetitions at most, MiB per size at most.
LEVELS = at_levels(
    smoke=SizeRange((3, 10), 100, 1),
    nightly=SizeRange((3, 20), 1000, 64),
    acceptance=SizeRange((3, 22), 1000, 256),
)

SUITE = Suite(
    name="mysuite",
    title="My suite",
    # by which its outputs are recognised
    first_line=re.compile("^# My suite [0-9.]+$", re.MULTILINE),
    parse=parse,
    rows=(RING,),
    groups={
        "mysuite_ring": Group(
            "A message round all ranks", (Plan("ring", "mysuite-ring", ("Ring",), LEVELS),)
        )
    },
    arguments=arguments,
    programs=Programs(
        "mysuite-*", "mysuite-[a-z]+", option="--version", version="My suite ([0-9.]+)"
    ),
)

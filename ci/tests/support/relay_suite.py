"""A suite that nobody has: one benchmark, in one file of a folder."""

from __future__ import annotations

#: Its program on the made-up MPI (:mod:`torus_mpi`).
RELAY_PROGRAM = r"""
#include <stdio.h>
int MPI_Init(int *, char ***), MPI_Comm_rank(int, int *), MPI_Finalize(void);
int main(int count, char **words)
{
    int rank = -1;
    if (MPI_Init(&count, &words) || MPI_Comm_rank(7, &rank)) return 1;
    if (rank == 0) puts("# Relay\n8 1.50\n16 1.75");
    return MPI_Finalize();
}
"""
SUITE = '''
"""Relay: a token passed round a ring."""

import re

from reframe_tests.harness.suites import traffic
from reframe_tests.harness.suites.benchmark import (Benchmark, OutputError, Plan, Record, SizeRange, at_levels)
from reframe_tests.harness.suites.model import Group, Programs, Suite

ROW = Benchmark("token", "relay", "relay-run", "relay_ring", "all", ("latency_us",), traffic.every_rank_once,
                gated_sizes={"latency_us": (8,)})
LINE = re.compile(r"([0-9]+) ([0-9.]+)")


def parse(text, source):
    rows = [LINE.fullmatch(line) for line in text.splitlines()[1:]]
    if not all(rows):
        raise OutputError("output-damaged", f"{source}: the table is damaged.")
    return [Record("relay", "token", None, 1, int(row[1]), None, {"latency_us": float(row[2])}) for row in rows]


SUITE = Suite(
    "relay",
    "Relay",
    re.compile("^# Relay$", re.MULTILINE),
    parse,
    (ROW,),
    {
        "relay_ring": Group(
            "A token on a ring", (Plan("ring", "relay-run", ("token",), at_levels(*[SizeRange((3, 4), 50, 1)] * 3)),)
        ),
    },
    lambda run: ["--repeat", str(run.size_range.count), *run.names],
    programs=Programs("relay-*", "relay-[a-z]+", "--version", "Relay ([0-9.]+)"),
)
'''

"""mpi4py.bench: the benchmarks that come with mpi4py, run by the stack's own Python.

Its pingpong (mpi4py 3.1 and 4) is used: the same instrument on every stack. Two header lines, then
one row per size, doubling. There is no number of ranks and no last line, so a table truncated
between two rows looks complete: the caller compares the sizes with the requested ones
(``reader.check_complete``). The time is half of the round trip between ranks 0 and 1 and bandwidth
is bytes / time (mpi4py/bench.py, ``run_pingpong``). On one rank it sends to itself and prints the
same table; only the evidence of the ranks shows it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal

from ..printable import one_line
from ..vocabulary import NotMeasured
from . import traffic
from .benchmark import Benchmark, OutputError, Plan, Record, SizeRange, at_levels
from .model import Group, KeyFigure, Probe, Run, Suite

#: Name of the suite, of its command in a stack's metadata, and of its group.
NAME = "mpi4py"
PROGRAM = "mpi4py.bench"
GROUP = "p2p_mpi4py"

ROWS: tuple[Benchmark, ...] = (
    Benchmark(
        "pingpong",
        NAME,
        PROGRAM,
        GROUP,
        "pair",
        ("bandwidth_mb_per_s", "latency_us", "latency_stddev_us"),
        traffic.both_ways,
        gated_sizes={"latency_us": (1, 8, 1024), "bandwidth_mb_per_s": (65536, 1 << 20, 4 << 20)},
        directions=1,
        line_rate_from_bytes=4 << 20,
    ),
)

# mpi4py.bench has a count for messages up to 16 KiB, up to 1 MiB and above.
_IN_STEPS = at_levels(
    SizeRange((18, 22), 200, 40), SizeRange((0, 22), 1000, 200), SizeRange((0, 22), 2000, 400)
)

#: Group to what it measures and its invocations.
GROUPS: Mapping[str, Group] = {
    GROUP: Group(
        "Latency and bandwidth between one pair of ranks, the same instrument on every stack "
        "(mpi4py.bench pingpong)",
        (Plan(NAME, PROGRAM, ("pingpong",), _IN_STEPS),),
    ),
}


def arguments(run: Run) -> list[str]:
    """Repetitions in three steps, above 16 KiB and above 1 MiB fewer (its own defaults' limits).

    Plain byte buffers on purpose: with the default, the buffer
    depends on whether NumPy happens to be there.

    :raises NotMeasured: where the pair would be on one node of several.
    """
    if run.nodes > 1 and run.ranks > run.nodes:
        raise NotMeasured(
            "mpi4py.bench always uses ranks 0 and 1, which share a node if a node has several ranks"
        )
    size_range = run.size_range
    largest_mib = max(1 << size_range.log2[1] >> 20, 1)
    large = min(max(size_range.count // 5, 10), size_range.volume_mib)
    huge = min(max(size_range.count // 50, 5), max(size_range.volume_mib // largest_mib, 1))
    return [
        *run.names,
        "--min-size",
        str(1 << size_range.log2[0]),
        "--max-size",
        str(1 << size_range.log2[1]),
        "--array",
        "none",
        "--loop",
        str(size_range.count),
        "--skip",
        str(size_range.count // 10),
        "--loop-large",
        str(large),
        "--skip-large",
        str(large // 10),
        "--loop-huge",
        str(huge),
        "--skip-huge",
        "1",
    ]


TITLE = "# MPI PingPong Test"

#: Column title to its cells, the quantity in them, if any, and the power of ten to its unit.
_COLUMNS = {
    "Size [B]": ("[0-9]+", "", 0),
    "Bandwidth [MB/s]": (r"[0-9]+\.[0-9]{2}", "bandwidth_mb_per_s", 0),
    "Time Mean [s]": (r"[0-9]\.[0-9]{7}e[-+][0-9]{2}", "latency_us", 6),
    "StdDev [s]": (r"[0-9]\.[0-9]{4}e[-+][0-9]{2}", "latency_stddev_us", 6),
    "Samples": ("[0-9]+", "", 0),
}
#: Column titles are separated by two spaces, a bar or the plus-minus sign; cells also by one space.
_BETWEEN_TITLES = r" *\| *| *\u00b1 *| {2,}"
_BETWEEN_CELLS = r"(?: *\| *| +\u00b1 +| +)"
#: What a row may be instead.
_ODD = (
    (
        re.compile(r"\b(?:nan|inf)\b", re.IGNORECASE),
        "a measured value is not a number; the measurement failed",
    ),
    (re.compile(r"(?:^| )-[0-9]"), "a value is negative; the clock or the output is broken"),
    (
        re.compile(""),
        "it is not a row of mpi4py.bench pingpong; the output is damaged, truncated or mixed with "
        "other output",
    ),
)


def parse(text: str, source: str) -> list[Record]:
    """Records of one output, in printed order: one pair of ranks.

    :raises OutputError: if it is damaged, mixed up or empty, or a
        size inside the series is missing.
    """

    def wrong(number: int, sentence: str) -> OutputError:
        return OutputError(
            "output-damaged", f"{source}, line {number}: {sentence}; run the benchmark again."
        )

    if not text.endswith("\n"):
        raise OutputError(
            "output-cut",
            f"{source}: the last line is incomplete; the output is truncated, run the benchmark "
            "again.",
        )
    lines = [
        (number, line.strip()) for number, line in enumerate(text.split("\n"), 1) if line.strip()
    ]
    number, first = lines[0]
    if first != TITLE:
        raise wrong(
            number,
            f"'{first[:60]}' stands before '{TITLE}'; keep other output out of the file",
        )
    if again := [number for number, line in lines[1:] if line == TITLE]:
        raise wrong(
            again[0],
            "a second table starts; split the outputs, or start the ranks as one MPI program",
        )
    titles: list[str] = []
    for number, head in lines[1:2]:
        titles = [
            title for title in re.split(_BETWEEN_TITLES, head.removeprefix("#").strip()) if title
        ]
        known = (
            set(titles) <= _COLUMNS.keys()
            and titles[:2] == list(_COLUMNS)[:2]
            and len(set(titles)) == len(titles)
        )
        if not head.startswith("#") or not known:
            raise wrong(
                number,
                f"'{head[:60]}' is not a header of mpi4py.bench pingpong; the output is damaged "
                "or mixed",
            )
    pattern = re.compile(_BETWEEN_CELLS.join(f"({_COLUMNS[title][0]})" for title in titles))
    records: list[Record] = []
    for number, line in lines[2:]:
        if not (match := pattern.fullmatch(line)):
            why = next(why for odd, why in _ODD if odd.search(line))
            raise wrong(number, f"'{one_line(line)[:60]}': {why}")
        cells = dict(zip(titles, match.groups(), strict=True))
        columns = [(cell, *_COLUMNS[title][1:]) for title, cell in cells.items()]
        values = {name: float(Decimal(cell).scaleb(power)) for cell, name, power in columns if name}
        samples = int(cells["Samples"]) if "Samples" in cells else None
        size = int(cells["Size [B]"])
        before = records[-1] if records else None
        if before and size != 2 * (before.message_bytes or 0):
            fault = f"{size} bytes follow {before.message_bytes} bytes, but sizes must double"
            raise wrong(number, f"{fault}; rows are missing, repeated or mixed up")
        if samples is not None and not 0 < samples <= (
            (before.repetitions if before else None) or samples
        ):
            raise wrong(
                number,
                "the number of samples grows or is 0; outputs are mixed up, or nothing was "
                "measured",
            )
        records.append(Record(NAME, "pingpong", 2, 1, size, samples, values))
    if not records:
        raise OutputError(
            "output-empty",
            f"{source}: the table of mpi4py.bench has no rows; the output is incomplete, run it "
            "again.",
        )
    return records


SUITE = Suite(
    name=NAME,
    title=PROGRAM,
    first_line=re.compile(rf"^[ \t]*{TITLE}[ \t\r]*$", re.MULTILINE),
    parse=parse,
    rows=ROWS,
    groups=GROUPS,
    arguments=arguments,
    # Every stack has it, so it comes before programs that only some have.
    probe=Probe(PROGRAM, ("helloworld",), 1),
    key_figures=(
        KeyFigure("mpi4py latency", "pingpong", "latency_us", False, empty=True),
        KeyFigure("mpi4py bandwidth", "pingpong", "bandwidth_mb_per_s", True),
    ),
)

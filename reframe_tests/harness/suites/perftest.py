"""perftest: RDMA reads, writes and sends between two adapters below MPI,
latency and bandwidth (``ib_write_bw``, ...).

Outputs of one end or of both ends are read. Formats: perftest, ``src/perftest_parameters.h``
(``RESULT_FMT``, ``REPORT_FMT``, ``REPORT_FMT_EXT``, ``RESULT_FMT_LAT``, ``REPORT_FMT_LAT``) and
``perftest_parameters.c`` (``ctx_print_test_info``, ``print_report_bw``, ``print_report_lat``). What
older releases print as ``MB/sec`` is divided by 0x100000 there, so it is MiB/s, as newer ones say;
both become MB/s (1e6 bytes) here. The latency of a write or send is half of a round trip, that of a
read a whole one; ``t_typical`` is the median, and of all the two largest are left out
(``LAT_MEASURE_TAIL``). A table of several sizes (``-a``) doubles from 2 bytes to 8 MiB, over UD and
SRD to what a message may hold (``RUN_ALL`` of the programs' ``main``).
"""

from __future__ import annotations

import re
from dataclasses import replace
from decimal import Decimal
from itertools import pairwise
from pathlib import PurePosixPath

from ..machine.gpu import DEVICE, KINDS, Memory
from . import pair, traffic
from .benchmark import SINGLE, SMALL, STREAM, Benchmark, OutputError, Record
from .model import BenchmarkPackage, Suite
from .pair import SIZES, WIRE, Exchanged, MapPlan, Pair, PairGroup, PairPlan, Start, Words

#: Name of the suite.
NAME = "perftest"
GROUP = "wire_rdma"
#: Verb in the programs' names to the verb in their titles (``testsStr`` of perftest_parameters.c).
VERBS = {"write": "RDMA_Write", "read": "RDMA_Read", "send": "Send"}


#: Programs that are measured with GPU memory, and of which platforms. The latency of a write
#: cannot be (``perftest_parameters.c``: "doesn't support device memory latency test with write"):
#: its receiver would have to look there.
ON_GPU = dict.fromkeys(("ib_write_bw", "ib_read_bw"), ("cuda", "rocm"))


def _rows(verb: str, name: str) -> tuple[Benchmark, Benchmark]:
    """Bandwidth and latency. A read is answered by the adapter alone: its data comes back, and
    nothing goes there but the request, so that it is no question of a cascade.
    """
    bandwidth = f"ib_{verb}_bw"
    latency = f"ib_{verb}_lat"
    sent = verb != "read"
    return (
        Benchmark(
            bandwidth,
            NAME,
            bandwidth,
            GROUP,
            "pair",
            ("bandwidth_mb_per_s", "message_rate_per_s"),
            traffic.one_way,
            gated_sizes={"bandwidth_mb_per_s": (1 << 20, 1 << 22)},
            directions=1,
            # Messages follow each other without pause, so that perftest's
            # default size of 64 KiB fills a link.
            line_rate_from_bytes=65536,
            title=f"{name} BW Test",
            cascade=(STREAM,) if sent else (),
        ),
        Benchmark(
            latency,
            NAME,
            latency,
            GROUP,
            "pair",
            ("latency_us", "latency_p50_us", "latency_p99_us"),
            traffic.both_ways if sent else traffic.one_way,
            gated_sizes={"latency_us": (8,)},
            title=f"{name} Latency Test",
            cascade=(SINGLE, SMALL) if sent else (),
        ),
    )


ROWS: tuple[Benchmark, ...] = tuple(
    row for pair in zip(*(_rows(*verb) for verb in VERBS.items()), strict=True) for row in pair
)


def _words(program: str, start: Start) -> Words:
    """``-F``: a processor whose clock changes is no failure (perftest(1))."""
    counts = ("-s", str(start.size), "-n", str(start.repetitions))
    words: tuple[str, ...] = (
        program,
        "-d",
        start.device,
        "-i",
        str(start.port),
        "-p",
        "{port}",
        *counts,
        "-F",
    )
    if start.memory.on_gpu:
        # Numbered by PCI address, as the site's are, and not by speed.
        order = (f"{name}={value}" for name, value in KINDS[start.memory.kind].env.items())
        words = (*order, *words, f"--use_{start.memory.kind}={start.gpu}")
    return words, (*words, "{address}")


def exchanged(ends: Pair) -> Exchanged:
    """Bytes each way: writes and sends go to the server, reads come from it, and latencies go both
    ways.
    """
    program = PurePosixPath(ends.client.words[0]).name
    count = int(ends.client.option("-n"))
    data = int(ends.client.option("-s")) * count
    verb, kind = program.split("_")[1:]
    to, fro = (0, data) if verb == "read" else (data, data if kind == "lat" else 0)
    return Exchanged(to, fro, count)


def _plan(program: str) -> PairPlan:
    return PairPlan(program, lambda start: _words(program, start), SIZES, 5000)


PAIRS = (
    PairGroup(
        GROUP,
        "What two adapters write, read and send between two nodes, without MPI (perftest)",
        WIRE,
        "perftest",
        "perftest",
        ("verbs", "ucx"),
        tuple(_plan(row.name) for row in ROWS),
        exchanged,
        # As of the instrument between MPI's ranks; perftest's own 64 KiB fill a link as well.
        MapPlan(_plan("ib_write_bw"), 1 << 20),
        ON_GPU,
    ),
)


#: Verb of a title to the one in the program's name.
_VERBS = {title: name for name, title in VERBS.items()}
#: Bidirectional tests add up both ways under the same name and are another variant.
TITLE = re.compile(
    rf"^ *({'|'.join(_VERBS)}) (?:(Bidirectional )?(?:Post List )?(BW)|(Latency)) Test *$"
)
_PAIR = re.compile(rf"# server of (ib_(?:{'|'.join(VERBS)})_(?:bw|lat)), format 1")
FIRST_LINE = re.compile(rf"{TITLE.pattern}|^{_PAIR.pattern}\r?$", re.MULTILINE)
_HEADS = {
    "BW": re.compile(
        r" *#bytes +#iterations +BW peak\[(MB|MiB"
        r"|Gb)/sec\] +BW average\[\1/sec\] +MsgRate\[Mpps\](?P<cpu> +CPU_Util\[%\])?"
    ),
    "Latency": re.compile(
        r" *#bytes +#iterations +t_min\[(usec)\] +t_max\[usec\] +t_typical\[usec\]"
        r" +t_avg\[usec\] +t_stdev\[usec\]"
        r" +99% percentile\[usec\] +99\.9% percentile\[usec\](?P<cpu> +CPU_Util\[%\])?"
    ),
}
_TIME = r"\s+([0-9]+\.[0-9]{2})"
#: Bandwidths have two decimals, and in Gb/s six where each way is below 0.1
#: (``inc_accuracy`` of ``print_full_bw_report``).
_ROWS = {
    "BW": re.compile(
        r" *([0-9]+)\s+([0-9]+)\s+([0-9]+\.[0-9]{2}(?P<more>[0-9]{4})?)\s+([0-9]+\.[0-9]{2}(?"
        r"(more)[0-9]{4}))"
        r"\s+([0-9]+\.[0-9]{6})(?P<cpu>\s+[0-9]+\.[0-9]+)?\s*"
    ),
    "Latency": re.compile(rf" *([0-9]+)\s+([0-9]+){_TIME * 7}(?P<cpu>\s+[0-9]+\.[0-9]+)?\s*"),
}
#: Smallest and largest size of a table of several; over UD the largest is
#: the MTU, over SRD one that it does not say.
_FIRST_BYTES = 2
_LAST_BYTES = 8 << 20
_CONNECTION = re.compile(
    r"(?ms)^ *Connection type *: *(?!SRD\b)(\w+)(?:.*?^ *Mtu *: *([0-9]+)\[B\])"
)
#: With ``-O`` two ports add up under the same name, too.
_DUAL_PORT = re.compile(r"(?m)^ *Dual-port *: *ON\b")
#: Half of a last digit, and what a processor's own rounding adds.
_HALF = Decimal("0.50001")
#: Bytes per second of one printed unit, in MB/s.
_MB_PER_UNIT = {"MB": Decimal("1.048576"), "MiB": Decimal("1.048576"), "Gb": Decimal(125)}
#: What its sources print where a transfer or a connection failed (``perftest_resources.c``,
#: ``perftest_communication.c``).
_FAILED = re.compile(
    r"(?i:completion with error|failed status|couldn't|unable to|failed to|error:)"
)
_LINE = re.compile(r" *-{60,} *")
#: On standard error, so anywhere in a file of both streams: what it found of the clock
#: (``get_clock.c``; the second is AMD's).
_ON_STDERR = re.compile(
    r"Conflicting CPU frequency values detected: [0-9.]+ != [0-9.]+\. CPU Frequency is not max\."
    r"|Using sampled CPU speed [0-9]+ MHz over reported speed [0-9]+ MHz"
)
#: What AMD's perftest says behind its table.
_BEHIND = re.compile(
    r"Completed: \w{3} \w{3} [ \d]\d [\d:]{8} \d{4}|Total run time: [0-9]+\.[0-9]{3}s"
)
#: Addresses of a queue pair: what is an end's own is the other end's remote one
#: (``ctx_print_pingpong_data``).
_ADDRESS = re.compile(r"^ *(local|remote) address: (LID .* QPN .* PSN .*?)\s*$", re.M)
#: Columns of a latency table in rising order, as groups of its row: minimum,
#: median, percentiles, maximum; around the mean.
_RISING = ((3, 5, 8, 9, 4), (3, 6, 4))
#: Where its buffer is (``cuda_memory.c``, ``rocm_memory.c``; to 24.x ``perftest_resources.c``),
#: what it says when it gives that back, behind the table, and buffers of the host that it takes all
#: the same: of integrated GPUs, and of another type.
_ON_GPU = re.compile(r"(?m)^(?:allocated GPU buffer |allocated [0-9]+ bytes of GPU buffer )")
_GIVEN_BACK = re.compile(r"deallocating (?:RX )?GPU buffer \S+|destroying current CUDA Ctx")
_OTHER_MEMORY = re.compile(
    r"CUDA device integrated: 0*[1-9A-F].*|.* for type (?!CUDA_MEM_DEVICE\b).*"
)


def picked_bus(output: str) -> str:
    """PCI bus of the GPU that an end says it took, in hexadecimal; empty: it does not say."""
    picked = re.search(r"(?m)^Picking device No\. ([0-9]+)$", output)
    form = (
        rf"(?m)^CUDA device {picked[1]}: PCIe address is ([0-9A-F]+):"
        if picked
        else r"PCI Bus ID: 0x([0-9a-f]+),"
    )
    bus = re.search(form, output)
    return bus[1].lower().zfill(2) if bus else ""


def parse(text: str, source: str) -> list[Record]:
    """Records of one output: average bandwidth in MB/s and message rate per
    size, or mean, median and 99th percentile in us.

    :raises OutputError: if it is damaged, mixed up, empty or does not end with perftest's closing
        line; or, with both ends, if an end is not that of the command or the interfaces did not
        carry it.
    """
    both = _PAIR.match(text.lstrip())
    return _read_pair(text, both[1], source) if both else _read(text, source)


def _read_pair(text: str, program: str, source: str) -> list[Record]:
    """The one record of a launch."""
    ends = pair.read(text, program, source)
    records = _read(ends.client.output, source)
    server = [
        _program(match) for match in map(TITLE.fullmatch, ends.server.output.splitlines()) if match
    ]
    if server != [program]:
        raise OutputError(
            "output-mixed",
            f"{source}: {program}'s server does not confirm that it ran {program}; outputs are "
            "mixed up, run it again.",
        )
    size, count = map(ends.client.option, ("-s", "-n"))
    asked = any(word.startswith("--use_") for word in ends.client.words)
    if {asked} != {bool(_ON_GPU.search(end.output)) for end in (ends.server, ends.client)}:
        raise OutputError(
            "output-mixed",
            f"{source}: {program} was asked for memory of {'GPUs' if asked else 'the host'}, but "
            "one end does not confirm it; check how it was built.",
        )
    variant = Memory(DEVICE).variant if asked else ""
    if [
        (record.benchmark, str(record.message_bytes), str(record.repetitions), record.variant)
        for record in records
    ] != [(program, size, count, variant)]:
        raise OutputError(
            "output-mixed",
            f"{source}: {program} was asked for {size} bytes, {count} times, but printed another "
            "table; run it again.",
        )
    pair.expect_carried(ends, replace(exchanged(ends), messages=0), program, source)
    return records


def _program(title: re.Match[str]) -> str:
    return f"ib_{_VERBS[title[1]]}_{'bw' if title[3] else 'lat'}"


def _read(text: str, source: str) -> list[Record]:
    own, remote = (
        {address[2]: address.start() for address in _ADDRESS.finditer(text) if address[1] == whose}
        for whose in ("local", "remote")
    )
    if both := own.keys() & remote.keys():
        number = (
            text.count("\n", 0, max(max(own[address], remote[address]) for address in both)) + 1
        )
        fault = "this file also has the output of the other end; save them separately"
        raise OutputError("output-mixed", f"{source}, line {number}: {fault}.")
    title: re.Match[str] | None = None
    unit = ""
    with_cpu = False
    closed = False
    on_gpu = False
    two_ports = bool(_DUAL_PORT.search(text))
    records: list[Record] = []
    for number, line in enumerate(text.split("\n"), 1):
        kind = (title[3] or title[4]) if title else ""
        if match := TITLE.fullmatch(line) or _PAIR.fullmatch(line.rstrip()):
            if title or match.re is _PAIR:
                raise _wrong(source, number, "a second test starts; split the outputs")
            title = match
        elif match := next(
            filter(None, (head.fullmatch(line.rstrip()) for head in _HEADS.values())), None
        ):
            if not kind or unit or match.re is not _HEADS[kind]:
                raise _wrong(
                    source,
                    number,
                    "a table head is in an unexpected place; the output is mixed up",
                )
            unit = match[1]
            with_cpu = bool(match["cpu"])
        elif _OTHER_MEMORY.fullmatch(line):
            raise _wrong(
                source,
                number,
                f"'{line.strip()[:60]}' shows that its buffer is not only in GPU memory",
            )
        elif not title and _ON_GPU.match(line):
            on_gpu = True
        elif _ON_STDERR.fullmatch(said := line.rstrip()) or (
            closed and (_BEHIND.fullmatch(said) or (on_gpu and _GIVEN_BACK.fullmatch(said)))
        ):
            continue
        elif closed and line.strip() and not _LINE.fullmatch(line):
            raise _wrong(
                source,
                number,
                f"'{line.strip()[:60]}' follows the end of the table; see what failed",
            )
        elif _FAILED.search(line):
            raise _wrong(
                source,
                number,
                f"'{line.strip()[:60]}' reports a failure; its numbers are not used",
            )
        elif title and unit and line.strip():
            if closed := bool(_LINE.fullmatch(line)):
                continue
            match = _ROWS[kind].fullmatch(line)
            if not match or bool(match["cpu"]) != with_cpu:
                noun = "bandwidth" if kind == "BW" else "latency"
                raise _wrong(
                    source, number, f"'{line.strip()[:60]}' is not a row of a perftest {noun} table"
                )
            if records and int(match[1]) != 2 * (before := records[-1].message_bytes or 0):
                raise _wrong(
                    source,
                    number,
                    f"{match[1]} bytes follow {before} bytes; rows are missing, repeated or "
                    "mixed up",
                )
            if len(records) == 1 and before != _FIRST_BYTES:
                raise _wrong(
                    source,
                    number,
                    f"the table begins with {before} bytes instead of {_FIRST_BYTES}; rows are "
                    "missing",
                )
            if kind == "BW":
                average = Decimal(match[5])
                per_s = Decimal(match[6])
                if match["more"] and unit != "Gb":
                    raise _wrong(
                        source,
                        number,
                        f"'{match[5]}' has more digits than perftest prints in {unit}/s",
                    )
                bandwidth = average * _MB_PER_UNIT[unit]
                rate = per_s.scaleb(6)
                units = Decimal(match[1]) / _MB_PER_UNIT[unit]
                if (
                    abs(per_s * units - average)
                    > (_last_digit(average) + _last_digit(per_s) * units) * _HALF
                ):
                    raise _wrong(
                        source,
                        number,
                        f"{match[6]} million messages of {match[1]} bytes are not {match[5]} "
                        f"{unit}/s",
                    )
                values = {"bandwidth_mb_per_s": float(bandwidth), "message_rate_per_s": float(rate)}
            elif any(
                Decimal(match[low]) > Decimal(match[high])
                for order in _RISING
                for low, high in pairwise(order)
            ):
                raise _wrong(
                    source,
                    number,
                    "minimum, mean, median, percentiles and maximum contradict each other",
                )
            else:
                values = {
                    "latency_us": float(match[6]),
                    "latency_p50_us": float(match[5]),
                    "latency_p99_us": float(match[8]),
                }
            if not all(values.values()):
                raise _wrong(source, number, "a value is 0: nothing was measured")
            # Where perftest's iterations are unknown (0 in a recording) there are none to report.
            counts = (int(match[1]), int(match[2]) or None)
            words = {
                "bidirectional": title[2],
                "dual_port": two_ports,
                Memory(DEVICE).variant: on_gpu,
            }
            variant = ",".join(word for word, there in words.items() if there)
            records.append(Record(NAME, _program(title), 2, 1, *counts, values, variant))
    if not records:
        raise OutputError(
            "output-empty",
            f"{source}: the table of perftest has no rows; the output is incomplete, run it again.",
        )
    if not closed:
        raise OutputError(
            "output-cut",
            f"{source}: the table of perftest has no end; the output is truncated, run it again.",
        )
    connection = _CONNECTION.search(text)
    last = records[-1].message_bytes
    largest = int(connection[2]) if connection and connection[1] == "UD" else _LAST_BYTES
    if len(records) > 1 and connection and last != largest:
        fault = (
            f"the table of perftest ends with {last} bytes instead of {largest}; rows are missing, "
            "run it again"
        )
        raise OutputError("output-cut", f"{source}: {fault}.")
    return records


def _last_digit(number: Decimal) -> Decimal:
    """One of its last digit."""
    return Decimal(1).scaleb(int(number.as_tuple().exponent))


def _wrong(source: str, number: int, fault: str) -> OutputError:
    return OutputError(
        "output-damaged", f"{source}, line {number}: {fault}; run the benchmark again."
    )


SUITE = Suite(
    name=NAME,
    title=NAME,
    first_line=FIRST_LINE,
    parse=parse,
    rows=ROWS,
    pairs=PAIRS,
    on_gpu=lambda row, memory, version: (
        () if memory.word == DEVICE and memory.kind in ON_GPU.get(row.name, ()) else None
    ),
    spack=(BenchmarkPackage(NAME, "bin", "ib_*"),),
)

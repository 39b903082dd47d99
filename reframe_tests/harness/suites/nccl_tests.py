"""nccl-tests 2.0 to 2.19 and rccl-tests: collectives of NCCL and RCCL, which move GPU memory
without MPI.

https://github.com/NVIDIA/nccl-tests, https://github.com/ROCm/rccl-tests (a fork with the same
programs). Built with ``MPI=1`` a program is started as an MPI program, one process for each GPU;
MPI only distributes NCCL's identifier and adds up results; NCCL itself says which network it used
(:data:`LIBRARY`).

An output has lines about the run, a line for each rank, the head of a table, a row for each size,
and at the end the number of wrong results and the mean of all bus bandwidths (``run`` of
src/common.cu; src/util.cu since 2.17). Each row has two parts: separate buffers (out of place) and
a single one (in place). Time is in us, bandwidths in GB/s (1e9 bytes per second), kept as MB/s.
``algbw`` is size / time; ``busbw`` is what each GPU's link carries, if no switch computes
(doc/PERFORMANCE.md).

Before 2.17 no line names the program: the columns and the ratio of the two bandwidths distinguish
collectives as far as they differ.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ..machine.gpu import DEVICE, Memory
from ..mpis.transport import (
    Gap,
    Library,
    PacketClass,
    Proof,
    Range,
    TransportRow,
    set_by_variable,
)
from ..vocabulary import Refusal
from . import traffic
from .benchmark import NOTHING_SURE, Benchmark, OutputError, Plan, Record, SizeRange, at_levels
from .model import BenchmarkPackage, Facts, Group, Programs, Run, Suite
from .traffic import Bound

NAME = "nccl_tests"
GROUP = "nccl"
PAIR_GROUP = "nccl_pairs"
OUT_OF_PLACE = "out_of_place"
IN_PLACE = "in_place"
QUANTITIES = ("t_avg_us", "algbw_mb_per_s", "busbw_mb_per_s")
MIB = 1 << 20
_NO_COLUMN = "no column"


class Collective(NamedTuple):
    """One program, as its rows show it and as its source computes
    (src/<name>.cu, ``...GetBw``, ``...RunTest``).

    :param factor: busbw / algbw on so many ranks.
    :param reduces: its rows name an operation, and not ``none``.
    :param rooted: its rows have a root, and not -1.
    :param checks_in_place: wrong results are counted in place, too.
    :param crossing: see :attr:`Benchmark.crossing`.
    :param group: of the catalogue; empty: it is read only.
    :param unsaid: what releases before 2.13 print for the operation:
        nothing, no column, or as today (``None``).
    :param blocks: the size is cut into blocks for the ranks, each of whole 16 bytes.
    :param per_rank: see :attr:`Benchmark.per_rank`: its bus bandwidth is
        not that of a ring through all ranks.
    """

    name: str
    factor: Callable[[int], float]
    reduces: bool
    rooted: bool
    checks_in_place: bool
    traffic: Bound
    crossing: int | str
    group: str = ""
    unsaid: str | None = None
    blocks: bool = False
    per_rank: bool = False


def _twice_all_but_own(ranks: int) -> float:
    return 2 * (ranks - 1) / ranks


def _all_but_own(ranks: int) -> float:
    return (ranks - 1) / ranks


def _whole(ranks: int) -> float:
    return 1.0


_COLLECTIVES = (
    Collective(
        "all_reduce", _twice_all_but_own, True, False, True, traffic.every_rank_receives, 0, GROUP
    ),
    Collective(
        "all_gather",
        _all_but_own,
        False,
        False,
        True,
        traffic.one_per_other_rank,
        0,
        GROUP,
        _NO_COLUMN,
        blocks=True,
    ),
    Collective(
        "reduce_scatter", _all_but_own, True, False, True, traffic.one_way, 0, GROUP, blocks=True
    ),
    Collective(
        "alltoall",
        _all_but_own,
        False,
        False,
        False,
        traffic.one_per_other_rank,
        1,
        GROUP,
        "",
        blocks=True,
        per_rank=True,
    ),
    Collective(
        "broadcast", _whole, False, True, True, traffic.one_per_other_rank, 0, GROUP, _NO_COLUMN
    ),
    Collective(
        "sendrecv",
        _whole,
        True,
        False,
        False,
        traffic.every_rank_once,
        0,
        PAIR_GROUP,
        _NO_COLUMN,
        per_rank=True,
    ),
    Collective("reduce", _whole, True, True, True, traffic.one_per_other_rank, 0),
    Collective(
        "gather", _all_but_own, False, True, True, traffic.nothing, NOTHING_SURE, blocks=True
    ),
    Collective(
        "scatter", _all_but_own, False, True, True, traffic.nothing, NOTHING_SURE, blocks=True
    ),
    Collective(
        "hypercube",
        _whole,
        False,
        False,
        True,
        traffic.nothing,
        NOTHING_SURE,
        unsaid="",
        blocks=True,
    ),
)
COLLECTIVES: Mapping[str, Collective] = {row.name: row for row in _COLLECTIVES}


def most_over_link(collective: Collective, ranks: int, nodes: int) -> float:
    """Largest ``busbw`` divided by what a node's links carry one way; for traffic through the
    links, nodes count as ranks.

    An all-reduce needs at least 2 (n - 1) / n of the data (Patarasuk and Yuan, J. Parallel Distrib.
    Comput. 69, 2009, 117). Inside one node there is no bound: a GPU may use links to several others
    at the same time.
    """
    if nodes == 1 or collective.crossing == NOTHING_SURE:
        return math.inf
    return (
        collective.factor(ranks)
        / collective.factor(nodes)
        / float((ranks // nodes) ** int(collective.crossing))
    )


def _row(collective: Collective) -> Benchmark:
    name = collective.name
    return Benchmark(
        name,
        NAME,
        f"{name}_perf",
        collective.group or GROUP,
        "all",
        QUANTITIES,
        collective.traffic,
        variants=(OUT_OF_PLACE, IN_PLACE),
        gated_sizes={"t_avg_us": (64 << 10,), "busbw_mb_per_s": (MIB, 128 * MIB)},
        title=_title(collective),
        directions=1,
        most_over_link=lambda ranks, nodes: most_over_link(collective, ranks, nodes),
        per_rank=collective.per_rank,
        # Below, a collective waits for its latency, and buffers of NICs and
        # GPUs hide the link. 128 MiB in blocks is less.
        line_rate_from_bytes=127 * MIB,
        # A choice, that of the smoke level, made after a look at the recorded outputs of several
        # nodes, whose line rates are assumed: most show 0.48 or more, one over sockets 0.05. Slower
        # ones over fast networks, of unknown cause, would fail: two DGX Sparks (0.11), two nodes of
        # Sirius (0.07). What each rank sends to all others is as fast as the network's bisection,
        # the smaller a part the more nodes there are (2160 ranks: 0.21), so nothing is asked of it.
        link_share=0.0 if collective.crossing == 1 else 0.4,
        crossing=collective.crossing,
    )


def _title(collective: Collective) -> str:
    """What of its rows tells it apart from others, so that two
    programs whose rows are alike have one title.
    """
    shape = (
        collective.reduces,
        collective.rooted,
        collective.factor.__name__,
        collective.checks_in_place,
    )
    return " ".join(map(str, shape))


ROWS = tuple(map(_row, _COLLECTIVES))
_SIZES = at_levels(
    SizeRange((20, 20), 5, 1 << 10),
    SizeRange((10, 27), 20, 1 << 12),
    SizeRange((3, 30), 50, 1 << 16),
)
#: The rank has one GPU to see, and nccl-tests would take the one of its
#: local rank (``run`` of src/common.cu, 2.13.6 on).
_ENV = {"NCCL_TESTS_DEVICE": "0"}
GROUPS: Mapping[str, Group] = {
    GROUP: Group(
        "Collectives of NCCL or RCCL between memories of GPUs (nccl-tests)",
        tuple(
            Plan(name, f"{name}_perf", (name,), _SIZES, env=_ENV)
            for name, row in COLLECTIVES.items()
            if row.group == GROUP
        ),
        collective=True,
    ),
    PAIR_GROUP: Group(
        "Each GPU sends to the next one with NCCL or RCCL (nccl-tests sendrecv)",
        (Plan("sendrecv", "sendrecv_perf", ("sendrecv",), _SIZES, env=_ENV),),
    ),
}


def arguments(run: Run) -> list[str]:
    """Sizes in bytes, doubling; ``-g 1``: one GPU a process; ``-c
    1``: results are compared once a size.
    """
    low, high = (1 << log for log in run.size_range.log2)
    repetitions = run.size_range.repetitions
    sizes = ["-b", str(low), "-e", str(high), "-f", "2"]
    return [
        *sizes,
        "-g",
        "1",
        "-n",
        str(repetitions),
        "-w",
        str(max(2, repetitions // 4)),
        "-c",
        "1",
        "-d",
        "float",
    ]


#: Library of each platform, which its programs are linked with.
_BUILT_WITH = {"cuda": r"^libnccl\.", "rocm": r"^librccl\."}


def on_gpu(row: Benchmark, memory: Memory, version: tuple[int, ...]) -> tuple[str, ...] | None:
    """NCCL knows GPU memory and no other; its programs allocate that of the device."""
    return () if memory.word == DEVICE and memory.kind in _BUILT_WITH else None


def printed_sizes(row: Benchmark, size_range: SizeRange, ranks: int) -> tuple[int, ...]:
    """Sizes as rows have them: the larger of what a rank sends and receives (``TimeTest`` of
    src/common.cu), in whole blocks of 16 bytes for each rank (``...GetCollByteCount``).
    """
    asked = [1 << log for log in range(size_range.log2[0], size_range.log2[1] + 1)]
    if not COLLECTIVES[row.name].blocks:
        return tuple(asked)
    return tuple(filter(None, dict.fromkeys(size // ranks // 16 * 16 * ranks for size in asked)))


# ---- what NCCL says of its network ----

_MANUAL = "NCCL documentation, 'Environment Variables' ("
_DEBUG = {
    "NCCL_DEBUG": "INFO",
    "NCCL_DEBUG_SUBSYS": "INIT,NET,ENV,GRAPH",
    "NCCL_DEBUG_FILE": "{debug_file}.%h.%p",
}
#: In-network reduction would show more than a link carries (NCCL_COLLNET_ENABLE, 0 by default).
_PLAIN = {"NCCL_COLLNET_ENABLE": "0"}
#: "NCCL INFO Using network IB", since 2.4; with a number and a list of NICs in RCCL and later ones.
_NETWORK = r"NCCL INFO (?:Assigned NET plugin |Using network )([\w.-]+(?: Libfabric)?)"
#: Transport of each channel: "Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0/GDRDMA", "... via
#: NET/AWS Libfabric/1(5)/GDRDMA".
_WAY = (
    r"NCCL INFO Channel \d+.*? via (direct shared memory|NET/(?:AWS Libfabric"
    r"|[\w.-]+)(?:/[\w()]+)*|\w+(?:/[a-zA-Z]+)*)"
)


def _over(
    transport: str,
    network: str,
    variables: str,
    env: Mapping[str, str],
    *proofs: Proof,
    note: str = "",
    classes: Mapping[str, PacketClass] | None = None,
) -> TransportRow:
    """NCCL over a network: between nodes that network, inside a node
    what NCCL takes for the nearest GPUs.
    """
    named = Proof("network", _NETWORK, (network,))
    carried = Proof(
        "transport of channels", _WAY, (r"(?!NET/).*", rf"NET/{network}(?:/.*)?"), required=False
    )
    return TransportRow(
        transport,
        Range((0,)),
        f"{_MANUAL}{variables})",
        env={**_PLAIN, **env},
        debug_env=_DEBUG,
        by_rails={"one": {}, "many": {}},
        classes=classes or {},
        proofs=(named, carried, *proofs),
        note=note,
    )


#: "NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/RoCE [RO]; OOB ib0:10.0.0.1<0>"; of merged ports, 2.20
#: to 2.23 (src/transport/ net_ib.cc), "[0]={[0] mlx5_0:1/IB, [1] mlx5_1:1/IB}".
_HCA = Proof(
    "NIC", r"\[\d+\] ?([\w.-]+:\d+)/(?:IB|RoCE)", ("{device_port}",), line=r"NET/IB : Using "
)
_IB_MANUAL = "NCCL_NET, NCCL_IB_HCA, NCCL_IB_SL, NCCL_IB_TC, NCCL_COLLNET_ENABLE"
_IB = {"NCCL_NET": "IB", "NCCL_IB_HCA": "={device_ports}"}
#: "NCCL_IB_SL set by environment to 3." (src/misc/param.cc).
_IB_CLASSES = set_by_variable(
    lambda name, value: Proof(name, rf"{name} set by environment to (\d+)", (value,)),
    service_level="NCCL_IB_SL",
    traffic_class="NCCL_IB_TC",
)
#: NCCL's own, or that of nccl-rdma-sharp-plugins.
_LIBFABRIC = r"(?:AWS )?Libfabric"
_INFINIBAND = r"IB(?:ext(?:_v\d+)?)?"
#: aws-ofi-nccl calls itself "AWS Libfabric", since 1.13 as NCCL_NET says. NCCL does not start
#: without what that names, and so does not take sockets instead; but the plugin may take
#: libfabric's tcp, so its provider is the proof.
_OFI = {"NCCL_NET": "AWS Libfabric"}
#: "NET/OFI Selected Provider is efa (found 4 nics)", "NET/OFI Selected
#: provider is cxi, fabric is cxi (found 4 nics)".
_PROVIDER = r"NET/OFI Selected [Pp]rovider is (\w+)"


def network_notes(debug: str) -> tuple[str, ...]:
    """What NCCL or RCCL reports about itself, for the evidence: release,
    network, NICs, transports, GPUDirect RDMA, NVLS.
    """
    named = (
        ("", r"((?:NCCL|RCCL) version[ :]\s*[\w.+:-]+)"),
        ("network ", _NETWORK),
        ("NICs ", r"NET/(?:IB|Socket) : Using (\[\d.*?)(?: \[RO\])?(?: *;.*)?$"),
        ("provider ", _PROVIDER),
    )
    values_of = [
        (title, dict.fromkeys(re.findall(pattern, debug, re.MULTILINE))) for title, pattern in named
    ]
    notes = [f"{title}{', '.join(values)}" for title, values in values_of if values]
    ways = Counter(re.sub(r"/\d+(?:\(\d+\))?", "", way) for way in re.findall(_WAY, debug))
    if ways:
        notes.append(
            f"channels: {', '.join(f'{count} via {way}' for way, count in sorted(ways.items()))}"
        )
    if through := [way for way in ways if way.startswith("NET/")]:
        direct = sum("GDRDMA" in way for way in through)
        notes.append(
            "GPUDirect RDMA on "
            f"{'all' if direct == len(through) else 'some' if direct else 'no'} channels of the "
            "network"
        )
    if re.search(
        r"NCCL INFO (?:NVLS comm|Connected NVLS tree|NVLS multicast support is available)", debug
    ):
        notes.append("NVLink SHARP (NVLS) is available")
    warned = list(dict.fromkeys(re.findall(r"NCCL WARN (.*)", debug)))
    return (*notes, *(f"NCCL warned: {line[:120]}" for line in warned[:3]))


LIBRARY = Library(
    "NCCL",
    notes=network_notes,
    rows=(
        _over("ucx", _INFINIBAND, _IB_MANUAL, _IB, _HCA, classes=_IB_CLASSES),
        _over("verbs", _INFINIBAND, _IB_MANUAL, _IB, _HCA, classes=_IB_CLASSES),
        _over(
            "cxi",
            _LIBFABRIC,
            "NCCL_NET); aws-ofi-nccl, README",
            _OFI,
            Proof("provider", _PROVIDER, ("cxi",)),
        ),
        _over(
            "efa",
            _LIBFABRIC,
            "NCCL_NET); aws-ofi-nccl, README",
            _OFI,
            Proof("provider", _PROVIDER, ("efa",)),
        ),
        _over(
            "tcp",
            "Socket",
            "NCCL_NET, NCCL_SOCKET_IFNAME",
            {"NCCL_NET": "Socket", "NCCL_SOCKET_IFNAME": "={devices}"},
            Proof("interface", r"\[\d+\]([\w.-]+):", ("{device}",), line=r"NET/Socket : Using "),
        ),
        TransportRow(
            "gpu_ipc",
            Range((0,)),
            f"{_MANUAL}NCCL_P2P_DISABLE, NCCL_SHM_DISABLE, NCCL_P2P_LEVEL)",
            env={**_PLAIN, "NCCL_SHM_DISABLE": "1", "NCCL_P2P_LEVEL": "SYS"},
            debug_env=_DEBUG,
            # Within a node NVLink SHARP is named as such, or not at all.
            proofs=(Proof("transport of channels", _WAY, (r"P2P(?:/.*)?",), (r"NVLS(?:/.*)?",)),),
        ),
    ),
    gaps=tuple(
        Gap(name, Range((0,)), f"NCCL has no network of its own over {name}: measure it with MPI.")
        for name in ("shm", "psm2", "opx")
    ),
)

# ---- the reader ----

#: rccl-tests before 2023 have colons.
_SETUP = re.compile(
    r"# nThread:? (?P<threads>\d+) nGpus:? (?P<gpus>\d+) minBytes:? (?P<low>\d+) maxBytes:? "
    r"(?P<high>\d+) "
    r"step: (?P<step>\d+)\((?P<by>factor"
    r"|bytes)\) warmup ?[iI]ters: \d+ iters: (?P<iterations>\d+)"
    r"(?: agg iters: (?P<aggregated>\d+))? validation: (?P<validation>\d+)(?: graph: "
    r"(?P<graph>\d+))?"
    r"(?: unalign: (?P<unalign>\d+))? *"
)
_VERSION = re.compile(r"# nccl-tests version (\S+) .*|rccl-tests: Version (\S+) *")
_STARTED = re.compile(r"# Collective test (?:starting|concluded): (\S+?)(?:_perf)? *")
_RANK = re.compile(
    r"# +Rank +(\d+)(?: Group +(\d+))? Pid +\d+ on +(\S+) device +\d+ \[[0-9a-fA-Fx:.]+\] .*"
)
_HEAD = re.compile(r"# +size +count +type .*")
_WRONG = re.compile(r"# Out of bounds values +: (\d+) (OK|FAILED) *")
_MEAN = re.compile(r"# Avg bus bandwidth +: ([0-9.]+(?:e[+-]?\d+)?) *(OK|FAILED)? *")
#: What NCCL says of itself where no file is named for it, and what else may stand anywhere.
_REDUCED = re.compile(r"# Reducing maxBytes to (\d+) due to memory limitation *")
_LOG = re.compile(
    r"(?:\[[0-9 :-]+\] )?\S+:\d+:\d+ \[\d+\] (?:\S+:\d+ )?NCCL (?:INFO|TRACE|WARN) .*"
    r"|(?:NCCL|RCCL|HIP|ROCm) version.*|Hostname +: .*|Librccl path +: .*"
    r"|libfabric:\d+:.*<(?:info|warn|debug)>.*"
)
_PASSED_OVER = re.compile(
    r"#|# Using devices *|# +out-of-place +in-place *|# +\(B\) .*|# Per-Iteration Report.*"
    r"|# Parallel Init Enabled.*|"
    r"# Errors with asterisks .*|# GPU memory usage +: .*|"
    r"# Testing \d+ cycle\. *"
)
_TYPE = r"u?int(?:8|32|64)|half|float|double|bfloat16|f(?:p|loat)?8_?\w+"
#: What stands in front of the numbers of a row.
_WORDS = {
    **dict.fromkeys(("size", "count"), re.compile("[0-9]+")),
    "type": re.compile(_TYPE),
    "redop": re.compile("sum|prod|min|max|avg|mulsum|none"),
    "root": re.compile("-1|[0-9]+"),
}
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?(?:e\+[0-9]+)?")
_BLOCKING = re.compile(r"# Blocking Enabled.*")
_FAILED = re.compile(
    r"Test (?:NCCL|CUDA|HIP) failure|Test failure|\[ERROR\]|Invalid number of GPUs|Test timeout"
)
#: Columns of one part of a row.
_PART = ("time", "algbw", "busbw")
_COUNTED = ("error", "#wrong")
#: Rows of one output that are counted.
_MOST_SIZES = 10_000


@dataclass
class _Output:
    """What has been read of one output."""

    ranks: dict[int, str]
    groups: set[str]
    setup: Mapping[str, str | None]
    program: str = ""
    columns: tuple[str, ...] = ()
    blocking: bool = False
    wrong: int | None = None
    mean: float | None = None
    largest: int | None = None


def parse(text: str, source: str) -> list[Record]:
    """Records of one output, in printed order: of each size out of place, then in place.

    :raises OutputError: if it is damaged, mixed up, truncated, of
        other columns, or results were wrong.
    """
    seen = _Output({}, set(), {})
    rows = list[tuple[int, list[str]]]()

    def fault(code: Refusal, number: int, sentence: str) -> OutputError:
        return OutputError(code, f"{source}, line {number}: {sentence}.")

    for number, line in enumerate(map(str.rstrip, text.replace("\r\n", "\n").split("\n")), 1):
        if (
            not line
            or _LOG.fullmatch(line)
            or _PASSED_OVER.fullmatch(line)
            or _VERSION.fullmatch(line)
        ):
            continue
        if _FAILED.search(line):
            raise fault(
                "output-trouble", number, f"NCCL failed: '{line[:100]}'; there is no result to use"
            )
        if match := _SETUP.fullmatch(line):
            if seen.setup:
                raise fault(
                    "output-mixed", number, "a second output starts; put each into its own file"
                )
            seen.setup = match.groupdict()
        elif match := _STARTED.fullmatch(line):
            if seen.program not in ("", match[1]):
                raise fault(
                    "output-mixed",
                    number,
                    f"it is from {seen.program} and from {match[1]}; outputs are mixed up",
                )
            seen.program = match[1]
        elif match := _RANK.fullmatch(line):
            if int(match[1]) in seen.ranks or rows:
                raise fault(
                    "output-mixed", number, f"rank {match[1]} appears twice; outputs are mixed up"
                )
            seen.ranks[int(match[1])] = match[3]
            seen.groups.add(match[2])
        elif _HEAD.fullmatch(line):
            if seen.columns:
                raise fault(
                    "output-mixed",
                    number,
                    "a second table starts; put each output into its own file",
                )
            seen.columns = _columns(line, number, source)
        elif _BLOCKING.fullmatch(line):
            seen.blocking = True
        elif match := _REDUCED.fullmatch(line):
            seen.largest = int(match[1])
        elif match := _WRONG.fullmatch(line):
            seen.wrong = int(match[1])
            if seen.wrong or match[2] == "FAILED":
                raise fault(
                    "output-trouble",
                    number,
                    f"{match[1]} results were wrong; distrust this NCCL, GPU or link",
                )
        elif match := _MEAN.fullmatch(line):
            seen.mean = float(match[1])
        elif seen.columns and seen.wrong is None and line[0] in " 0123456789":
            rows.append((number, line.split()))
        elif not line.startswith("#") and seen.mean is not None:
            raise fault("output-trouble", number, f"'{line[:80]}' follows its end; run it again")
        else:
            raise fault(
                "output-damaged",
                number,
                f"'{line[:80]}' does not belong here; the output is damaged or mixed up",
            )
    return _records(seen, rows, source)


def _columns(line: str, number: int, source: str) -> tuple[str, ...]:
    """Titles of the columns.

    :raises OutputError: for other ones than those of a release.
    """
    titles = tuple(line.removeprefix("#").split())
    columns = [
        title
        for title in titles
        if title not in ("size", "count", "type", "redop", "root", "timestamp")
    ]
    both = [*_PART, columns[3] if len(columns) > 3 else ""] * 2
    if columns != both or both[3] not in _COUNTED:
        remedy = "run without -C and -I" if {"cputime", "i_min"} & set(titles) else "run it again"
        raise OutputError(
            "output-damaged",
            f"{source}, line {number}: the columns are not those of nccl-tests; {remedy}.",
        )
    return titles


def _records(seen: _Output, rows: Sequence[tuple[int, list[str]]], source: str) -> list[Record]:
    def fault(code: Refusal, sentence: str) -> OutputError:
        return OutputError(code, f"{source}: {sentence}.")

    if not seen.setup:
        raise fault(
            "output-damaged",
            "the line that says how it was run (nThread, nGpus, minBytes) is missing; run it again",
        )
    if seen.wrong is None or seen.mean is None or not rows:
        raise fault(
            "output-cut",
            "its last line (Avg bus bandwidth) is missing; the output is truncated, run it again",
        )
    threads, gpus = (int(seen.setup[name] or 1) for name in ("threads", "gpus"))
    count = len(seen.ranks)
    if sorted(seen.ranks) != list(range(count)) or not count or count % (threads * gpus):
        raise fault(
            "output-damaged",
            f"it names {count} ranks that do not count up from 0; the output is damaged",
        )
    if len(seen.groups) > 1:
        split = "unset NCCL_TESTS_SPLIT and NCCL_TESTS_SPLIT_MASK"
        raise fault(
            "output-trouble", f"its ranks ran in {len(seen.groups)} groups, each alone; {split}"
        )
    repetitions = (
        int(seen.setup["iterations"] or 1)
        * int(seen.setup["aggregated"] or 1)
        * max(1, int(seen.setup["graph"] or 0))
    )
    checked = seen.setup["validation"] != "0"
    cells = [_Cells.of(row, seen.columns, number, source) for number, row in rows]
    asked = _asked_sizes(seen.setup, seen.largest)
    if len({(row.kind, row.operation, row.root) for row in cells}) > 1:
        raise fault(
            "output-mixed", "one table has several types, operations or roots; run each alone"
        )
    # In whole numbers of the type, or blocks of 16 bytes for each rank.
    if len(cells) != len(asked) or any(
        not 0 <= size - row.size < 16 * count for size, row in zip(asked, cells, strict=True)
    ):
        message = f"its sizes are not the {len(asked)} of its own settings"
        raise fault(
            "output-damaged", f"{message}; rows are lost, repeated or mixed up, run it again"
        )
    shown = [value for row in cells for value in (row.halves[0][2], row.halves[1][2])]
    # The last line is the mean of all bus bandwidths, in six digits;
    # these have two decimals, large ones fewer.
    rounding = sum(0.5 * 10 ** -_decimals(value) for value in shown) / len(shown)
    if abs(sum(map(float, shown)) / len(shown) - seen.mean) > rounding + 1e-5 * seen.mean:
        raise fault(
            "output-damaged",
            f"the mean of its bus bandwidths is not {seen.mean:g}; rows are lost or damaged",
        )
    collective = _recognise(seen.program, cells, count, checked, fault)
    how = [
        f"{name}={value}"
        for name in ("graph", "unalign")
        if (value := seen.setup[name] or "0") != "0"
    ]
    how += ["blocking"] * seen.blocking
    records = []
    for row in (row for row in cells if row.size):  # below a block for each rank nothing is moved
        for place, (time, algbw, busbw, wrong) in zip(
            (OUT_OF_PLACE, IN_PLACE), row.halves, strict=True
        ):
            if wrong not in ("N/A", "0") and "#wrong" in seen.columns:
                raise fault(
                    "output-trouble",
                    f"{wrong} results of {row.size} bytes were wrong; distrust NCCL, GPU or link",
                )
            words = (place, *row.variant(collective), *how)
            values = dict(
                zip(QUANTITIES, (float(time), float(algbw) * 1e3, float(busbw) * 1e3), strict=True)
            )
            good = checked and (
                wrong != "N/A" or (place == IN_PLACE and not collective.checks_in_place)
            )
            variant = ",".join((*words, Memory(DEVICE).variant))
            records.append(
                Record(
                    NAME, collective.name, count, 1, row.size, repetitions, values, variant, good
                )
            )
    return records


def _asked_sizes(setup: Mapping[str, str | None], largest: int | None) -> list[int]:
    """Sizes in bytes that a program was run with (``TimeTest`` of src/common.cu)."""
    size, high, step = (int(setup[name] or 0) for name in ("low", "high", "step"))
    high = high if largest is None else largest
    size = min(size, high)
    sizes = [size]
    while (
        step
        and len(sizes) <= _MOST_SIZES
        and (size := size * step if setup["by"] == "factor" else size + step) <= high
    ):
        sizes.append(size)
    return sizes


class _Cells(NamedTuple):
    """One row of a table.

    :param operation: of the reduction, or ``none``; empty, or
        :data:`_NO_COLUMN`, where a release prints none.
    :param halves: time, algbw, busbw and wrong results as printed, out of place and in place.
    """

    size: int
    kind: str
    operation: str
    root: str
    halves: tuple[tuple[str, ...], tuple[str, ...]]

    @classmethod
    def of(cls, words: Sequence[str], columns: Sequence[str], number: int, source: str) -> _Cells:
        before = list(columns[: columns.index("time")])
        words = list(words)
        stamped = "timestamp" in columns
        # Some programs leave out the operation that they do not have.
        if "redop" in before and len(words) == len(columns) - 1 + stamped:
            before.remove("redop")
        named = dict(zip(before, words, strict=False))
        values = words[len(before) : len(words) - 2 * stamped]
        right = len(words) == len(before) + 8 + 2 * stamped and all(
            _WORDS[name].fullmatch(word) for name, word in named.items()
        )
        right = right and all(map(_NUMBER.fullmatch, [*values[:3], *values[4:7]]))
        right = right and all(
            re.fullmatch(r"N/A|[0-9]+(?:\.[0-9]+)?(?:e[+-][0-9]+)?", value)
            for value in values[3::4]
        )
        if not right:
            fault = "is not a row of this table; the output is damaged, truncated or mixed up"
            raise OutputError(
                "output-damaged", f"{source}, line {number}: '{' '.join(words)[:80]}' {fault}."
            )
        halves = (tuple(values[:4]), tuple(values[4:]))
        operation = named.get("redop", "" if "redop" in columns else _NO_COLUMN)
        root = named.get("root", "")
        return cls(int(named["size"]), named["type"], operation, root, halves)

    def variant(self, collective: Collective) -> tuple[str, ...]:
        """What makes it another measurement than one of floats, summed, from rank 0."""
        usual = {
            "type": "float",
            "op": "sum" if collective.reduces else "none",
            "root": "0" if collective.rooted else "-1",
        }
        printed = {"type": self.kind, "op": self.operation, "root": self.root}
        unsaid = ("", _NO_COLUMN)
        return tuple(
            f"{name}={value}"
            for name, value in printed.items()
            if value not in (usual[name], *unsaid)
        )


def _decimals(value: str) -> int:
    return len(value.partition(".")[2]) if "e" not in value else -int(value.partition("e")[2])


def _recognise(
    program: str,
    cells: Sequence[_Cells],
    ranks: int,
    checked: bool,
    fault: Callable[[Refusal, str], OutputError],
) -> Collective:
    """The collective: as it says, or the first whose rows these can be.

    :raises OutputError: if none can have printed these rows.
    """
    if program and program not in COLLECTIVES:
        raise fault("unknown-name", f"{program} is not a supported program of nccl-tests")
    able = [COLLECTIVES[program]] if program else _COLLECTIVES
    for collective in able:
        if all(_fits(row, collective, ranks, checked) for row in cells):
            return collective
    message = (
        f"its rows are not those of {program}"
        if program
        else "its rows belong to no program of nccl-tests"
    )
    raise fault("output-damaged", f"{message} on {ranks} ranks; the output is damaged or mixed up")


def _fits(row: _Cells, collective: Collective, ranks: int, checked: bool) -> bool:
    """Whether a collective can have printed a row."""
    unsaid = row.operation in ("", _NO_COLUMN)
    if (
        row.operation != collective.unsaid
        if unsaid
        else (row.operation != "none") != collective.reduces
    ):
        return False
    if (row.root not in ("", "-1")) != collective.rooted:
        return False
    if (
        checked
        and (row.halves[1][3] != "N/A") != collective.checks_in_place
        and row.halves[0][3] != "N/A"
    ):
        return False
    # algbw over size / time, and busbw over algbw; up to 2.9.0 both were of
    # what a rank does not send to itself (ec1b5e2).
    ways = [
        (1.0, collective.factor(ranks)),
        *([((ranks - 1) / ranks, 1.0)] if collective.blocks else []),
    ]
    for time, algbw, busbw, _ in row.halves:
        through = row.size / float(time) / 1e3 if float(time) else 0.0
        # Half of the last digit that is printed, and a little for binary
        # fractions; there are no times below 0.01.
        of_time, of_algbw, of_busbw = (
            0.51 * 10 ** -_decimals(value) for value in (time, algbw, busbw)
        )
        loose = of_algbw + through * of_time / max(float(time), 0.01)
        if not any(
            abs(float(algbw) - through * part) <= loose
            and abs(float(busbw) - float(algbw) * factor) <= of_algbw * factor + of_busbw
            for part, factor in ways
        ):
            return False
    return True


#: A line that only an output of nccl-tests has.
PIECE = re.compile(rf" *\d+ +\d+ +(?:{_TYPE}) .*|# nThread:? .*|{_WRONG.pattern}|{_MEAN.pattern}")


def extent(lines: Sequence[str], title: int) -> tuple[int, int]:
    """Where an output begins and ends: with its mean bandwidth,
    and what says that it is concluded.
    """
    end = next(
        (at for at in range(title + 1, len(lines)) if _MEAN.fullmatch(lines[at].rstrip())), -1
    )
    begins = re.compile(r"# nccl-tests version |# Collective test starting: ")
    again = next((at for at in range(title + 3, len(lines)) if begins.match(lines[at])), len(lines))
    if not 0 <= end < again:  # truncated
        end = max(
            at for at in range(title, again) if at == title or PIECE.fullmatch(lines[at].rstrip())
        )
    for at in range(end + 1, min(end + 4, len(lines))):
        if lines[at].rstrip() == "#" or lines[at].startswith("# Collective test concluded"):
            end = at
    return title, end + 1


def facts_of_output(text: str) -> Facts:
    """Release, and the nodes of the ranks."""
    match = _VERSION.search(text)
    version = next(filter(None, match.groups()), "") if match else ""
    hosts = {int(rank): host.split(".")[0] for rank, _, host in _RANK.findall(text)}
    return Facts(
        (f"{'rccl' if 'rccl-tests' in text else 'nccl'}-tests {version}",) if version else (), hosts
    )


SUITE = Suite(
    name=NAME,
    title="nccl-tests",
    first_line=re.compile(
        r"^#(?: nccl-tests version | Collective test starting: | nThread:? | +size +count +type )",
        re.MULTILINE,
    ),
    parse=parse,
    extent=extent,
    piece=PIECE,
    last_line=_MEAN.pattern,
    rows=ROWS,
    groups=GROUPS,
    arguments=arguments,
    on_gpu=on_gpu,
    printed_sizes=printed_sizes,
    same_repetitions=True,
    validates=True,
    facts=facts_of_output,
    library=LIBRARY,
    # It says its version with its numbers only; -h prints its options.
    programs=Programs(
        "*_perf",
        rf"(?:{'|'.join(COLLECTIVES)})_perf",
        "-h",
        r"nccl-tests version ([0-9][0-9.]*)",
        refusal=r"USAGE: \S+",
        unsaid="unknown",
        gpu=_BUILT_WITH,
    ),
    spack=(
        BenchmarkPackage("nccl-tests", "bin", "*_perf"),
        BenchmarkPackage("rccl-tests", "bin", "*_perf", "rocm"),
    ),
)

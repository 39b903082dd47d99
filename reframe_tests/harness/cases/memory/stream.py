"""STREAM as a program, and its output: read completely or not at all, with a check that threads and
pages were where they should be.
"""

from __future__ import annotations

import hashlib
import platform
import re
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec

from ...evidence import recorder
from ...printable import one_line
from ...suites.node_memory import FILLED, KERNELS
from ...vocabulary import BadInput

#: Smallest array by STREAM's rule 1(a) (``stream.c`` of version
#: 5.10): four times the last-level caches used.
CACHES = 4
#: Largest mean error of an array of doubles, relative to what it must
#: hold (``checkSTREAMresults`` of version 5.10).
LARGEST_ERROR = 1e-13
#: Interleaved pages: a node may have this share of an even one more or fewer, and a huge page (2
#: MiB in pages of 4 KiB) of each of the three arrays, since huge pages are dealt out whole.
UNEVEN = 0.05
UNEVEN_PAGES = 3 * 512
#: Key of pages whose node the kernel did not say.
UNKNOWN = "unknown"
#: Most characters of an output that is read: 1024 cores with all their nodes stay far below.
MOST = 1 << 20
_OUTPUT = re.compile(
    r"(?P<body># STREAM, format 2\n(?P<json>[^\n]+)\n)# end: CRC-32 (?P<sum>[0-9a-f]{8})\n"
)


Positive = Annotated[int, msgspec.Meta(gt=0)]
Counts = Mapping[str, Annotated[int, msgspec.Meta(ge=0)]]


@dataclass(frozen=True)
class StreamThread:
    """One thread, its core and its pages.

    :param allowed: those the kernel let it run on, in the kernel's list format.
    :param ran_on: the one it ended on.
    :param memory_node: node that its pages were to be on; -1 for all.
    :param pages: whole pages of its part of the three arrays by NUMA node
        (text), :data:`UNKNOWN` where the kernel did not say.
    """

    core: int
    allowed: str
    ran_on: int
    numa_node: int
    memory_node: int
    pages: Counts


@dataclass(frozen=True)
class StreamResult:
    """One run on one node.

    :param last_level_cache_bytes: last-level caches of all cores used, together.
    :param zone_reclaim_mode: ``vm.zone_reclaim_mode`` as the kernel
        prints it; empty if it has none.
    :param page_cache_kib: KiB of page cache by NUMA node (text) before the arrays were made.
    :param largest_error: the largest of the arrays' mean relative errors.
    :param mb_per_s: best rate of each kernel in 10^6 bytes per second.
    """

    memory: str
    page_cache: str
    array_bytes: Positive
    last_level_cache_bytes: Positive
    repetitions: int
    host: Annotated[str, msgspec.Meta(min_length=1)]
    zone_reclaim_mode: str
    numa_nodes: int
    page_cache_kib: Counts
    free_kib: Counts
    threads: tuple[StreamThread, ...]
    largest_error: Annotated[float, msgspec.Meta(ge=0)]
    mb_per_s: Mapping[str, Annotated[float, msgspec.Meta(gt=0)]]


def read(text: str, memory: str, page_cache: str, repetitions: int) -> StreamResult:
    """The result of one run.

    :param text: its whole standard output.
    :param memory: what was requested, as ``page_cache`` and ``repetitions``;
        an answer to another question is refused.
    :raises BadInput: it is truncated, changed, mixed with other output, or not of this format.
    """
    match = _OUTPUT.fullmatch(text) if len(text) <= MOST else None
    if not match:
        raise BadInput(
            "output-cut",
            f"STREAM's output is truncated or mixed with other output: {one_line(text[-80:])!r}; "
            "run it again.",
        )
    if f"{zlib.crc32(match['body'].encode(errors='replace')):08x}" != match["sum"]:
        raise BadInput(
            "output-damaged",
            "STREAM's output was damaged (wrong CRC-32); run it again.",
        )
    try:
        result = msgspec.json.decode(match["json"], type=StreamResult)
    except (ValueError, RecursionError) as error:
        raise BadInput(
            "output-damaged",
            f"STREAM's output has another format: {one_line(str(error))[:100]}.",
        ) from None
    if (result.memory, result.page_cache, result.repetitions) != (memory, page_cache, repetitions):
        raise BadInput(
            "not-comparable",
            f"STREAM was asked for {memory} memory, page cache {page_cache} and {repetitions} "
            f"repetitions but used {result.memory}, {result.page_cache} and "
            f"{result.repetitions}; run it again.",
        )
    if tuple(result.mb_per_s) != KERNELS or not result.threads:
        raise BadInput(
            "output-damaged", "STREAM's output has another format: it lacks kernels or threads."
        )
    if len({thread.core for thread in result.threads}) < len(result.threads):
        raise BadInput(
            "output-damaged",
            "STREAM's output has another format: two threads have the same core.",
        )
    if (
        result.free_kib.keys() != result.page_cache_kib.keys()
        or len(result.free_kib) != result.numa_nodes
    ):
        raise BadInput(
            "output-damaged",
            "STREAM's output has another format: its NUMA nodes differ from those whose memory it "
            "lists.",
        )
    return result


def judge(result: StreamResult, cores: int) -> list[str]:
    """A sentence for each deviation from the request; none if each thread stayed on its core and
    each page is where it should be.

    :param cores: of the node, each of which has a thread.
    """
    sentences = []
    if result.array_bytes < CACHES * result.last_level_cache_bytes:
        sentences.append(
            f"arrays of {result.array_bytes} bytes are smaller than {CACHES} x the last-level "
            f"caches ({result.last_level_cache_bytes} bytes), so caches were measured"
        )
    if result.largest_error > LARGEST_ERROR:
        sentences.append(
            f"the arrays hold wrong numbers: relative error {result.largest_error:g}, at most "
            f"{LARGEST_ERROR:g}"
        )
    if len(result.threads) != cores:
        sentences.append(
            f"{len(result.threads)} threads ran on a node with {cores} cores, instead of one on "
            "each"
        )
    moved = [
        thread.core
        for thread in result.threads
        if thread.allowed != str(thread.core) or thread.ran_on != thread.core
    ]
    if moved:
        sentences.append(
            f"{len(moved)} of {len(result.threads)} threads left their cores, the first that of "
            f"core {moved[0]}"
        )
    return [*sentences, *_judge_page_cache(result), *_judge_pages(result)]


def describe_memory(result: StreamResult) -> list[str]:
    """Facts: free and cached memory of each NUMA node before, and how much of the arrays is where
    it should be.
    """
    kib = [
        f"node {node}: {result.free_kib[node]} KiB free, {cached} KiB page cache"
        for node, cached in result.page_cache_kib.items()
    ]
    return [
        f"before the arrays were made, {'; '.join(kib)}",
        *(_find_displaced(result) if _may_be_displaced(result) else []),
    ]


def facts(result: StreamResult) -> dict[str, str]:
    return {
        "node": result.host,
        "vm.zone_reclaim_mode": result.zone_reclaim_mode,
        "NUMA nodes": str(result.numa_nodes),
        "last-level caches": f"{result.last_level_cache_bytes} bytes",
        "array": f"{result.array_bytes} bytes",
    }


def _may_be_displaced(result: StreamResult) -> bool:
    """Whether pages elsewhere are what is measured: only the kernel's
    policy of local memory, and no room there.
    """
    return result.page_cache == FILLED and result.memory == "local"


def _judge_page_cache(result: StreamResult) -> list[str]:
    """The page cache fills a NUMA node where the part of the arrays that
    is to be there does not fit into what is free.
    """
    if result.page_cache != FILLED:
        return []
    share = 3 * result.array_bytes // len(result.threads)
    wanted: Counter[str] = Counter()
    for thread in result.threads:
        for node in result.page_cache_kib if thread.memory_node < 0 else [str(thread.memory_node)]:
            wanted[node] += share // (result.numa_nodes if thread.memory_node < 0 else 1)
    there = [(node, needed) for node, needed in sorted(wanted.items()) if node in result.free_kib]
    unfilled = [
        f"the page cache does not fill NUMA node {node}: {result.free_kib[node]} KiB are free, and "
        f"{needed >> 10} KiB of the arrays should be there; use larger arrays (-S array_bytes=...) "
        "or more memory for the job; a kernel that pages out cold memory "
        "(/sys/kernel/mm/damon/admin/kdamonds/*/state is on) cannot keep the cache full"
        for node, needed in there
        if result.free_kib[node] << 10 >= needed
    ]
    # What the arrays push out must be cached files: memory that
    # programs hold cannot be given up for them.
    other = [
        f"NUMA node {node} is full, but not with cached files: {result.page_cache_kib[node]} KiB "
        f"are page cache, and {needed >> 10} KiB of the arrays should replace them; check which "
        "program uses the rest (numastat -p)"
        for node, needed in there
        if result.page_cache_kib[node] << 10 < needed
    ]
    return [*unfilled, *other][:1]


def _judge_pages(result: StreamResult) -> list[str]:
    silent = [
        thread.core for thread in result.threads if not thread.pages or thread.pages.get(UNKNOWN)
    ]
    if silent:
        return [
            f"the NUMA node of the pages of {len(silent)} threads is unknown, first of core "
            f"{silent[0]}"
        ]
    if result.memory == "interleaved":
        pages: Counter[str] = Counter()
        for thread in result.threads:
            pages.update(thread.pages)
        even = sum(pages.values()) / result.numa_nodes
        room = max(UNEVEN * even, min(UNEVEN_PAGES, even / 2))
        odd = [
            node
            for node in sorted({*result.page_cache_kib, *pages})
            if abs(pages[node] - even) > room
        ]
        if result.numa_nodes < 2:
            return ["one NUMA node cannot interleave memory"]
        return [
            f"pages are not interleaved evenly: node {node} has {pages[node]}, an even share is "
            f"{even:.0f}"
            for node in odd[:1]
        ]
    wrong = [
        thread.core
        for thread in result.threads
        if (thread.memory_node == thread.numa_node) != (result.memory == "local")
        or str(thread.memory_node) not in result.page_cache_kib
    ]
    if wrong:
        return [
            f"the memory of core {wrong[0]} should be {result.memory}, but was requested from "
            "another NUMA node"
        ]
    return [] if _may_be_displaced(result) else _find_displaced(result)


def _find_displaced(result: StreamResult) -> list[str]:
    total = sum(sum(thread.pages.values()) for thread in result.threads)
    elsewhere = total - sum(
        thread.pages.get(str(thread.memory_node), 0) for thread in result.threads
    )
    return (
        [f"{elsewhere} of {total} pages are not {result.memory} to the thread that uses them"]
        if elsewhere
        else []
    )


SOURCE = Path(__file__).with_name("stream.c")
#: ``-O3`` as STREAM's own instructions have it; no ``-march``, since the
#: nodes may be older than where it is built.
FLAGS = ("-std=c11", "-D_GNU_SOURCE", "-O3", "-pthread", "-Wall", "-Wextra", "-Wpedantic")


def path_in(directory: Path) -> Path:
    digest = hashlib.sha256("\0".join(FLAGS).encode() + SOURCE.read_bytes()).hexdigest()[:12]
    return directory / f"stream-{platform.machine()}-{digest}"


def build(destination: Path, compilers: Sequence[Sequence[str]] | None = None) -> Path:
    return recorder.compile_once(
        "STREAM", SOURCE, path_in(destination.absolute()), FLAGS, candidates=compilers
    )

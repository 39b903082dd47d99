"""What STREAM's output proves, and references of memory."""

import json
import random
import zlib
from pathlib import Path

import pytest

from reframe_tests.harness.cases.memory import stream
from reframe_tests.harness.cases.memory.stream import describe_memory, read
from reframe_tests.harness.suites.node_memory import KERNELS
from reframe_tests.harness.vocabulary import BadInput

GOLDEN = (Path(__file__).parents[2] / "data" / "golden_memory" / "stream_local.txt").read_text()
TITLE, LINE, _ = GOLDEN.splitlines()
REPETITIONS = 10
MUTATIONS = 5_000
#: Pages that a part of the recorded arrays has.
PAGES = 737280


def changed(**fields):
    """The golden output with other fields, signed."""
    said = f"{TITLE}\n{json.dumps({**json.loads(LINE), **fields})}\n"
    return f"{said}# end: CRC-32 {zlib.crc32(said.encode()):08x}\n"


def on_two_nodes(memory, *pages, **fields):
    """The output of a node with two NUMA nodes, one core each: the pages of each core's part."""
    wanted = {"local": [0, 1], "remote": [1, 0], "interleaved": [-1, -1]}[memory]
    threads = [
        {**thread, "numa_node": at, "memory_node": wanted[at], "pages": pages[at]}
        for at, thread in enumerate(json.loads(LINE)["threads"])
    ]
    kib = {"page_cache_kib": {"0": 1 << 30, "1": 1 << 30}, "free_kib": {"0": 100, "1": 200}}
    return changed(**{"memory": memory, "numa_nodes": 2, "threads": threads, **kib, **fields})


def judge(text, memory="local", cache="as_is", cores=2):
    """The judgement of a node, by default with as many cores as the recorded one."""
    return stream.judge(read(text, memory, cache, REPETITIONS), cores)


def test_the_golden_output_is_read_and_nothing_is_odd():
    result = read(GOLDEN, "local", "as_is", REPETITIONS)
    assert (result.array_bytes, result.last_level_cache_bytes) == (2013265920, 503316480)
    pages = [(one.core, dict(one.pages)) for one in result.threads]
    assert pages == [(0, {"0": PAGES}), (1, {"0": PAGES})]
    assert tuple(result.mb_per_s) == KERNELS
    assert dict(result.mb_per_s) == json.loads(LINE)["mb_per_s"]
    assert judge(GOLDEN) == judge(changed(largest_error=1e-13)) == []


def test_whatever_happens_to_the_text_is_refused():
    """A number that is lost or changed on the way is never taken for a measurement."""
    chance = random.Random(7)
    silent = []
    for _ in range(MUTATIONS):
        at, end = sorted(chance.sample(range(len(GOLDEN) + 1), 2))
        other = chance.choice('0123456789.,:{}[]"\n abe-')
        text = chance.choice(
            [
                GOLDEN[:at],
                GOLDEN[end:],
                GOLDEN[:at] + GOLDEN[end:],
                GOLDEN[:at] + other + GOLDEN[at:],
                GOLDEN[:at] + other + GOLDEN[at + 1 :],
                GOLDEN + GOLDEN[at:end],
                GOLDEN[at:end] + GOLDEN,
            ]
        )
        try:
            read(text, "local", "as_is", REPETITIONS)
        except BadInput:
            continue
        silent += [text] if text != GOLDEN else []
    assert silent == []


@pytest.mark.parametrize(
    ("text", "cores", "said"),
    [
        (changed(array_bytes=2013265912), 2, "smaller than 4 x the last-level caches"),
        (changed(largest_error=1.1e-13), 2, "wrong numbers"),
        (GOLDEN, 1, "2 threads ran on a node with 1 cores"),
        (GOLDEN, 4, "2 threads ran on a node with 4 cores"),
    ],
)
def test_what_is_no_measurement_of_the_node(text, cores, said):
    [sentence] = judge(text, cores=cores)
    assert said in sentence


@pytest.mark.parametrize(
    ("memory", "pages", "said"),
    [
        ("local", ({"0": 10}, {"1": 10}), ""),
        ("local", ({"0": 10}, {"0": 1, "1": 9}), "1 of 20 pages are not local"),
        ("remote", ({"1": 10}, {"0": 10}), ""),
        ("remote", ({"0": 10}, {"0": 10}), "10 of 20 pages are not remote"),
        ("interleaved", ({"0": 6, "1": 4}, {"0": 4, "1": 6}), ""),
        ("interleaved", ({"0": 10}, {"0": 10}), "node 0 has 20, an even share is 10"),
        ("interleaved", ({"0": 8, "2": 2}, {"1": 10}), "node 2 has 2, an even share is 10"),
        # Huge pages.
        ("interleaved", ({"0": 1_000_000}, {"1": 1_040_000}), ""),
        ("interleaved", ({"0": 3_000}, {"1": 4_500}), ""),
    ],
)
def test_pages_are_where_they_were_asked_for(memory, pages, said):
    sentences = judge(on_two_nodes(memory, *pages), memory)
    assert [said in one for one in sentences] == ([True] if said else []), sentences


def test_what_was_asked_of_the_kernel_is_held_against_the_request():
    """A program that binds the pages of a core to its own node and
    calls them remote has measured nothing.
    """
    [sentence] = judge(changed(memory="remote"), "remote")
    assert "should be remote" in sentence
    kib = {"page_cache_kib": {"0": 1}, "free_kib": {"0": 1}}
    alone = on_two_nodes("interleaved", {"0": 1}, {"0": 1}, numa_nodes=1, **kib)
    assert judge(alone, "interleaved") == ["one NUMA node cannot interleave memory"]


@pytest.mark.parametrize(
    ("memory", "free", "cached", "said"),
    [
        ("local", -1, 1, ""),
        ("local", 0, 1, "does not fill NUMA node 1: "),
        ("interleaved", 0, 1, "does not fill NUMA node 1: "),
        ("local", -1, -1, "NUMA node 1 is full, but not with cached files: "),
    ],
)
def test_memory_that_is_free_or_held_by_programs_is_no_filled_page_cache(
    memory, free, cached, said
):
    """What was to be on a node must not fit into what is free there:
    the kernel would not have had to choose.
    """
    needed_kib = 3 * json.loads(LINE)["array_bytes"] // 2 >> 10
    kib = {
        "page_cache_kib": {"0": 2 * needed_kib, "1": needed_kib + cached},
        "free_kib": {"0": 5, "1": needed_kib + free},
    }
    pages = ({"0": 10}, {"1": 10})
    sentences = judge(on_two_nodes(memory, *pages, page_cache="filled", **kib), memory, "filled")
    assert [said in one for one in sentences] == ([True] if said else []), sentences


def test_what_a_full_page_cache_displaces_is_what_is_measured():
    """Figure 7 of Cambridge 2011: with zone_reclaim_mode 0 the kernel takes
    memory of the other node, and it is said here.
    """
    few = {"page_cache": "filled", "free_kib": {"0": 5, "1": 5}}
    text = on_two_nodes("local", {"0": 4, "1": 6}, {"1": 10}, **few)
    assert judge(text, "local", "filled") == []
    _, displaced = describe_memory(read(text, "local", "filled", REPETITIONS))
    assert displaced.startswith("6 of 20 pages are not local")
    text = on_two_nodes("remote", {"0": 4, "1": 6}, {"0": 10}, **few)
    assert "4 of 20 pages are not remote" in judge(text, "remote", "filled")[0], "it is bound there"

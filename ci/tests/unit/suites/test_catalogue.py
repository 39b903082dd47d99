"""The catalogue: rows, bounds, names, and the launches made of them."""

import contextlib
import re

import pytest

from reframe_tests.harness.suites import catalogue, reader
from reframe_tests.harness.suites.catalogue import LEVELS, ROWS
from refusals import refused_as
from studies.output_damage import golden
from synthetic_stack import launches, stack_of

PLANS = {name: group.plans for name, group in catalogue.GROUPS.items() if group.plans}
#: Groups that time something; the group ``placement`` only starts ranks.
TIMED = tuple(PLANS)


def many(group):
    """More ranks than two, where a group runs on them."""
    rows = catalogue.rows(group)
    if any(row.ranks == "only_pair" for row in rows):
        return 2
    return max(
        16 if any(row.ranks == "square" for row in rows) else 8, *(row.min_nodes for row in rows), 0
    )


#: Groups of rows that are others'.
BORROWED = {catalogue.CROSS_CHECK, "allreduce_alltoall", "allreduce_alltoall_osu"}


@pytest.mark.parametrize(
    ("binary", "name", "ranks"),
    [
        ("IMB-MPI1", "PingPong", {1: 0, 2: 2, 7: 2}),
        ("IMB-MPI1", "Uniband", {1: 0, 2: 2, 7: 0, 8: 8}),
        ("IMB-MPI1", "Bcast", {1: 0, 2: 2, 7: 7}),
        ("IMB-P2P", "PingPong", {1: 0, 2: 2, 7: 0}),
        ("IMB-P2P", "Stencil2D", {2: 0, 4: 4, 6: 6, 7: 0, 12: 12}),
        # 104 = 13 x 4 x 2 exists, but IMB's search does not find it.
        ("IMB-P2P", "Stencil3D", {4: 0, 8: 8, 12: 12, 104: 0, 128: 128}),
    ],
)
def test_who_takes_part(binary, name, ranks):
    row = catalogue.find(binary, name)
    assert {number: row.active(number) for number in ranks} == ranks


@pytest.mark.parametrize("group", TIMED)
def test_gates_are_on_sizes_that_are_run(group):
    """A gate on a size that no level measures would never be applied (a peer looks its references
    up under a wrong key); algorithms and guidelines are held against each other.
    """
    for plan in PLANS[group]:
        assert re.fullmatch(r"[a-z0-9_]+", plan.name)  # part of file names, unquoted in shell
        assert set(plan.size_ranges) <= set(LEVELS)
        for name in plan.benchmarks:
            assert group in (catalogue.find(plan.binary, name).group, *BORROWED)
    measured = set()
    for level in LEVELS:
        metrics = []
        for osu in ("7.1", "7.5"):
            with contextlib.suppress(catalogue.NotMeasured):
                made = launches(group, ranks=many(group), level=level, stack=stack_of(osu=osu))
                metrics += catalogue.metrics(made)
        assert any(each.gated for each in metrics) == (group not in ("algorithms", "guidelines"))
        if group in ("p2p", "p2p_mpi4py", "p2p_osu", "one_sided_osu"):
            assert any(each.directions for each in metrics)
        measured |= {(each.benchmark, each.quantity, each.message_bytes) for each in metrics}
    planned = {(plan.binary, name) for plan in PLANS[group] for name in plan.benchmarks}
    for row in ROWS:
        if (row.binary, row.name) in planned and row.group == group:
            for quantity, sizes in row.gated_sizes.items():
                assert {(row.name, quantity, size) for size in sizes} <= measured


# What a launch gives against what was expected.

SIZES = (0, 8, 16, 32)
PING, *REST = (
    catalogue.Expected("PingPong", 2, SIZES),
    catalogue.Expected("Exchange", 2, SIZES),
    catalogue.Expected("Barrier", 2, (None,)),
    catalogue.Expected("Reduce", 2, SIZES),
)


@pytest.mark.parametrize(
    "asked",
    [
        [PING, *REST, catalogue.Expected("Bcast", 2, (0,))],
        REST,
        [*REST, PING],
        [PING._replace(ranks=4), *REST],
        [PING._replace(sizes=(*SIZES, 64)), *REST],
        [PING._replace(sizes=SIZES[:-1]), *REST],
        [PING._replace(sizes=(8, 0, 16, 32)), *REST],
        [PING._replace(variants=("aggregate",)), *REST],
    ],
)
def test_check_complete_refuses_anything_else(asked):
    records = reader.parse(golden("imb-mpi1-2021.11-n2-mpich.txt"))
    reader.check_complete(records, [PING, *REST])
    with refused_as("output-damaged"):
        reader.check_complete(records, asked)

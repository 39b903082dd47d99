"""The catalogue: rows, bounds, names, and the launches made of them."""

from __future__ import annotations

import contextlib
import re
from dataclasses import replace

import pytest

from catalogue_launches import BINARIES, launches, stack_of
from reframe_tests.harness.suites import catalogue, reader, traffic
from reframe_tests.harness.suites.benchmark import RANK_RULES, doubling_sizes
from reframe_tests.harness.suites.catalogue import GROUPS, LEVELS, ROWS
from reframe_tests.harness.vocabulary import LINK_BANDWIDTHS, QUANTITIES
from refusals import refused_as
from studies.output_damage import golden

PLANS = {name: group.plans for name, group in catalogue.GROUPS.items() if group.plans}
#: Groups that time something; the group ``placement`` only starts ranks.
TIMED = tuple(PLANS)


def many(group: str) -> int:
    """More ranks than two, where a group runs on them."""
    rows = catalogue.rows(group)
    if any(row.ranks == "only_pair" for row in rows):
        return 2
    return max(
        16 if any(row.ranks == "square" for row in rows) else 8, *(row.min_nodes for row in rows), 0
    )


# Rows.


#: Groups of rows that are others'.
BORROWED = {catalogue.CROSS_CHECK, "allreduce_alltoall", "allreduce_alltoall_osu"}


def test_rows_use_the_vocabulary():
    assert (
        {row.group for row in ROWS}
        == set(TIMED) - BORROWED
        == set(GROUPS) - {catalogue.PLACEMENT, catalogue.MEMORY, *BORROWED, *catalogue.PAIRS}
    )
    assert {row.ranks for row in ROWS} == set(RANK_RULES)
    for row in ROWS:
        assert set(row.quantities) <= set(QUANTITIES)
        assert set(row.gated_sizes) <= set(row.quantities), row.name
        assert all(QUANTITIES[name].direction != "none" for name in row.gated_sizes), row.name
        assert row.directions == 0 or set(LINK_BANDWIDTHS) & set(row.quantities)


@pytest.mark.parametrize("group", TIMED)
def test_metric_names_are_unique_safe_and_sorted_by_size(group):
    metrics = list(catalogue.metrics(launches(group, ranks=many(group))))
    names = [metric.name for metric in metrics]
    assert len(names) == len(set(names))
    assert all(re.fullmatch(r"[A-Za-z0-9_.\-]+", name) for name in names)
    for key in {(m.benchmark, m.variant, m.quantity) for m in metrics}:
        mine = [m for m in metrics if (m.benchmark, m.variant, m.quantity) == key]
        assert sorted(mine, key=lambda m: m.name) == sorted(
            mine, key=lambda m: m.message_bytes or 0
        )


def test_rows_are_unique():
    names = [(row.binary, row.name) for row in ROWS]
    assert len(names) == len(set(names))
    counts = [len([row for row in ROWS if row.binary == binary]) for binary in BINARIES]
    assert counts == [25, 8, 26, 19, 10, 6, 26, 37]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: catalogue.find("IMB-MPI1", "PingPang"), "no benchmark called 'PingPang'"),
        (lambda: catalogue.rows("p3p"), "no group 'p3p'"),
        (lambda: launches("p2p", level="deep"), "no level 'deep'"),
        (lambda: catalogue.why_unbuilt("p3p", stack_of()), "no group 'p3p'"),
    ],
)
def test_unknown_names_are_refused(call, words):
    with refused_as("unknown-name", match=words):
        call()


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


def test_stencils_need_a_grid():
    assert catalogue.find("IMB-P2P", "Stencil2D").grid(8) == (2, 4)
    expected = {item.benchmark: item for item in launches("p2p_pairs", ranks=12)[0].expected}
    assert expected["Stencil3D"].variants == ("grid=2x3x2",)


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (("Barrier", "t_max", None), "Barrier.t_max"),
        (
            ("Unidir_put", "latency", 8, "non-aggregate"),
            "Unidir_put.non-aggregate.latency.0000000008",
        ),
        (("PingPongMT", "t_max", 8, "threads=2"), "PingPongMT.threads2.t_max.0000000008"),
    ],
)
def test_metric_names(words, name):
    assert catalogue.metric_name(*words) == name


def test_gated_metrics_are_those_of_the_rows():
    metrics = {metric.name: metric for metric in catalogue.metrics(launches("p2p"))}
    latency = metrics["PingPong.latency.0000000008"]
    assert (latency.gated, latency.directions) == (True, 0)
    assert not metrics["PingPong.latency.0000000016"].gated
    bandwidth = metrics["PingPong.bandwidth.0004194304"]
    assert (bandwidth.gated, bandwidth.directions) == (True, 1)


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


# Launches.


def option(launch: catalogue.Launch, name: str) -> str:
    """The word behind an option of a launch, if it has it."""
    return launch.args[launch.args.index(name) + 1] if name in launch.args else ""


def named(group: str, name: str, **more) -> catalogue.Launch:
    return next(launch for launch in launches(group, **more) if launch.name == name)


def benchmarks(group: str, version: str = "2021.11", **more) -> set[str]:
    made = launches(group, stack=stack_of(version), **more)
    return {item.benchmark for launch in made for item in launch.expected}


def test_arguments_of_a_pair():
    (launch,) = launches("p2p")
    words = (
        "/opt/mpi/bin/IMB-MPI1 -npmin 2 -msglog 0:22 -iter 1000,40,1000 -time 30 PingPong PingPing"
    )
    assert launch.words(stack_of()) == words.split()
    assert launch.expected[0] == catalogue.Expected("PingPong", 2, doubling_sizes(1, 1 << 22))


def test_a_pair_spans_two_nodes():
    """Ranks fill nodes in blocks; without a map, ranks 0 and 1 of two full nodes are neighbours."""
    maps = [
        option(launches(group, ranks=ranks, nodes=nodes)[0], "-map")
        for group, ranks, nodes in (
            ("p2p", 8, 2),
            ("p2p", 2, 2),
            ("p2p", 8, 1),
            ("transfer", 8, 2),
        )
    ]
    assert maps == ["4x2", "", "", ""]


def test_only_the_full_number_of_ranks_is_run():
    assert {option(launch, "-npmin") for launch in launches("collectives", ranks=8)} == {"8"}
    # With a larger npmin IMB leaves out Fetch_and_op and Compare_and_swap without a word.
    assert option(named("one_sided", "passive_pair", ranks=8), "-npmin") == "2"


def test_the_window_is_the_same_in_every_version():
    """64 messages up to 2021.1; 256 by default from 2021.2, where 64 is asked for."""
    for version, window in (("2019 Update 6", ""), ("2021.1", "64"), ("2021.11", "64")):
        found = named("transfer", "window", stack=stack_of(version))
        assert option(found, "-window_size") == window
    assert traffic.WINDOW == 64


def test_old_versions_lack_benchmarks():
    new = benchmarks("collectives")
    lacked = {"Reduce_local", "Reduce_scatter_block"}
    assert new - benchmarks("collectives", "2018 Update 1") == lacked
    assert new - benchmarks("collectives", "2019 Update 1") == {"Reduce_local"}
    # Its clock begins with the time of day there (IMB_reduce_scatter.c).
    assert "Ireduce_scatter" not in benchmarks("nonblocking", "2018 Update 1")
    assert "Ireduce_scatter" in benchmarks("nonblocking", "2019 Update 6")
    with pytest.raises(catalogue.NotMeasured):
        launches("p2p_pairs", stack=stack_of("2019.0"))


def test_buffers_of_many_ranks_fit_into_memory():
    fans = [named("collectives", "fan", ranks=ranks) for ranks in (32, 96, 512)]
    assert [max(fan.expected[0].sizes) for fan in fans] == [4 << 20, 1 << 20, 256 << 10]


def test_threads_are_asked_for_and_expected():
    (launch,) = launches("threads", level="smoke")
    assert launch.words(stack_of())[:3] == ["env", "OMP_NUM_THREADS=2", "/opt/mpi/bin/IMB-MT"]
    assert launch.expected[0].variants == ("threads=2",)
    assert launch.expected[0].sizes == (2048, 4096, 8192)


def test_what_a_group_needs_of_a_stack():
    assert catalogue.suites("collectives") == ("imb",)
    assert catalogue.stack_selection("cross_check") == ["+imb +osu"]
    assert catalogue.stack_selection(catalogue.PLACEMENT) == ["+mpi4py", "+imb"]
    (launch,) = launches("p2p_mpi4py", stack=stack_of(binaries=()))
    assert launch.words(stack_of())[:4] == ["/opt/mpi/bin/python", "-m", "mpi4py.bench", "pingpong"]


@pytest.mark.parametrize(
    ("words", "group", "more"),
    [
        ("always uses ranks 0 and 1", "p2p_mpi4py", {"ranks": 4, "nodes": 2}),
        ("stack intelmpi-wheels has no IMB-MPI1", "p2p", {"stack": stack_of(binaries=())}),
        ("no benchmark of group p2p runs on 1 rank$", "p2p", {"ranks": 1}),
        ("it takes 2 nodes or more$", "congestion_osu", {"ranks": 8, "nodes": 1}),
        ("neither", catalogue.PLACEMENT, {"stack": replace(stack_of(binaries=()), commands={})}),
    ],
)
def test_what_cannot_be_measured_says_why(words, group, more):
    with pytest.raises(catalogue.NotMeasured, match=words):
        launches(group, **more)


def test_a_stack_without_any_program_of_a_group_says_so():
    """Known before a job is made; a stack that lacks some of them
    is told when its launches are made.
    """
    wheels = stack_of(binaries=BINARIES[:5])
    for group, said in (
        ("file_io", "stack intelmpi-wheels has no IMB-IO"),
        ("startup_osu", "has no osu_init and none of 1 more for group startup_osu"),
    ):
        assert said in catalogue.why_unbuilt(group, wheels)
    for group in ("p2p", catalogue.PLACEMENT, "cross_check"):
        assert catalogue.why_unbuilt(group, wheels) == ""


def test_congestion_takes_several_nodes():
    with pytest.raises(catalogue.NotMeasured, match=r"it takes 2 nodes or more$"):
        catalogue.check_ranks("congestion_osu", 8, 1)
    catalogue.check_ranks("congestion_osu", 8, 2)
    # three nodes of two ranks each send a window
    row = catalogue.find("osu_bw_fan_in", "osu_bw_fan_in")
    assert row.traffic_between(1 << 20, 8, 4) == traffic.WINDOW * 3 * 2 << 20


def test_the_placement_group_starts_ranks_and_expects_no_numbers():
    for stack, binary in (
        (stack_of(binaries=()), "mpi4py.bench"),
        (replace(stack_of(), commands={}), "IMB-MPI1"),
    ):
        (probe,) = launches(catalogue.PLACEMENT, ranks=1, stack=stack)
        assert (probe.binary, probe.expected, [*catalogue.metrics([probe])]) == (binary, (), [])


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

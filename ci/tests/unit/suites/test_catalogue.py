"""The catalogue: rows, bounds, names, and the launches made of them."""

from __future__ import annotations

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
MPI1_2021_11 = {
    *("PingPong", "PingPongSpecificSource", "PingPongAnySource", "PingPing", "PingPingSpecificSource", "PingPingAnySource"),
    *("Sendrecv", "Exchange", "Uniband", "Biband", "Allreduce", "Reduce", "Reduce_local", "Reduce_scatter"),
    *("Reduce_scatter_block", "Allgather", "Allgatherv", "Gather", "Gatherv", "Scatter", "Scatterv", "Alltoall", "Alltoallv"),
    *("Bcast", "Barrier"),
}


def many(group: str) -> int:
    """More ranks than two, where a group runs on them."""
    rows = catalogue.rows(group)
    if any(row.ranks == "only_pair" for row in rows):
        return 2
    return max(16 if any(row.ranks == "square" for row in rows) else 8, *(row.min_nodes for row in rows), 0)


# Rows.


def test_rows_use_the_vocabulary():
    assert (
        {row.group for row in ROWS}
        == set(TIMED) - {catalogue.CROSS_CHECK}
        == set(GROUPS) - {catalogue.PLACEMENT, catalogue.CROSS_CHECK, catalogue.MEMORY, *catalogue.PAIRS}
    )
    assert {row.ranks for row in ROWS} == set(RANK_RULES)
    for row in ROWS:
        assert set(row.quantities) <= set(QUANTITIES)
        assert set(row.gated_sizes) <= set(row.quantities), row.name
        assert all(QUANTITIES[name].direction != "none" for name in row.gated_sizes), row.name
        assert row.directions == 0 or set(LINK_BANDWIDTHS) & set(row.quantities)


def test_rows_are_unique_and_complete():
    names = [(row.binary, row.name) for row in ROWS]
    assert len(names) == len(set(names))
    assert {row.name for row in ROWS if row.binary == "IMB-MPI1"} == MPI1_2021_11
    assert [len([row for row in ROWS if row.binary == binary]) for binary in BINARIES] == [25, 8, 26, 19, 10, 6, 26, 37]


@pytest.mark.parametrize(
    "name",
    [
        "imb-p2p-2021.11-n8.txt",
        "imb-mt-2021.11-n2.txt",
        "mpi4py-pingpong-mpich-n2.txt",
    ],
)
def test_quantities_are_those_printed_in_that_order(name):
    binary = {"p2p": "IMB-P2P", "mt": "IMB-MT"}.get(name.split("-")[1])
    records = reader.parse(golden(name))
    printed = {record.benchmark: tuple(record.values) for record in records}
    for benchmark, quantities in printed.items():
        assert catalogue.find(binary or "mpi4py.bench", benchmark).quantities == quantities


def test_unknown_names_are_sentences():
    with refused_as("benchmark-unknown", match="no benchmark called 'PingPang'"):
        catalogue.find("IMB-MPI1", "PingPang")
    with refused_as("group-unknown", match="no group 'p3p'"):
        catalogue.rows("p3p")
    with refused_as("level-unknown", match="no level 'deep'"):
        launches("p2p", level="deep")


def test_who_takes_part():
    def active(binary, name, ranks):
        return catalogue.find(binary, name).active(ranks)

    assert [active("IMB-MPI1", "PingPong", ranks) for ranks in (1, 2, 7)] == [0, 2, 2]
    assert [active("IMB-MPI1", "Uniband", ranks) for ranks in (1, 2, 7, 8)] == [0, 2, 0, 8]
    assert [active("IMB-P2P", "PingPong", ranks) for ranks in (1, 2, 7)] == [0, 2, 0]
    assert [active("IMB-MPI1", "Bcast", ranks) for ranks in (1, 2, 7)] == [0, 2, 7]
    assert [active("IMB-P2P", "Stencil2D", ranks) for ranks in (2, 4, 6, 7, 12)] == [0, 4, 6, 0, 12]
    # 104 = 13 x 4 x 2 exists, but IMB's search does not find it.
    assert [active("IMB-P2P", "Stencil3D", ranks) for ranks in (4, 8, 12, 104, 128)] == [0, 8, 12, 0, 128]
    assert catalogue.find("IMB-P2P", "Stencil2D").grid(8) == (2, 4)
    assert catalogue.find("IMB-P2P", "Stencil3D").grid(12) == (2, 3, 2)


# Names.


def test_metric_names():
    assert catalogue.metric_name("PingPong", "latency", 8) == "PingPong.latency.0000000008"
    assert catalogue.metric_name("Barrier", "t_max", None) == "Barrier.t_max"
    assert catalogue.metric_name("Unidir_put", "latency", 8, "non-aggregate") == "Unidir_put.non-aggregate.latency.0000000008"
    assert catalogue.metric_name("PingPongMT", "t_max", 8, "threads=2") == "PingPongMT.threads2.t_max.0000000008"


@pytest.mark.parametrize("group", TIMED)
def test_metric_names_are_unique_safe_and_sorted_by_size(group):
    metrics = list(catalogue.metrics(launches(group, ranks=many(group))))
    names = [metric.name for metric in metrics]
    assert len(names) == len(set(names))
    assert all(re.fullmatch(r"[A-Za-z0-9_.\-]+", name) for name in names)
    for key in {(m.benchmark, m.variant, m.quantity) for m in metrics}:
        mine = [m for m in metrics if (m.benchmark, m.variant, m.quantity) == key]
        assert sorted(mine, key=lambda m: m.name) == sorted(mine, key=lambda m: m.message_bytes or 0)


def test_only_what_is_held_against_each_other_is_not_held_against_the_past():
    assert set(TIMED) - set(JUDGED) == {"algorithms", "guidelines"}


def test_gated_metrics_are_those_of_the_rows():
    metrics = {metric.name: metric for metric in catalogue.metrics(launches("p2p"))}
    assert metrics["PingPong.latency.0000000008"].gated
    assert not metrics["PingPong.latency.0000000016"].gated
    assert metrics["PingPong.bandwidth.0004194304"].gated
    assert metrics["PingPong.bandwidth.0004194304"].directions == 1
    assert metrics["PingPong.latency.0004194304"].directions == 0
    assert {m.name for m in catalogue.metrics(launches("collectives")) if m.gated and m.benchmark == "Barrier"} == {
        "Barrier.t_max"
    }


#: Groups whose numbers are held against the past; those of the guidelines are held against each other.
JUDGED = tuple(
    name for name in TIMED if any(QUANTITIES[q].direction != "none" for row in catalogue.rows(name) for q in row.quantities)
)


@pytest.mark.parametrize("group", JUDGED)
@pytest.mark.parametrize("level", LEVELS)
def test_every_level_has_gates(group, level):
    assert any(metric.gated for metric in catalogue.metrics(launches(group, ranks=many(group), level=level)))


@pytest.mark.parametrize("group", ["p2p", "p2p_mpi4py", "p2p_osu", "one_sided_osu"])
@pytest.mark.parametrize("level", LEVELS)
def test_a_pair_is_held_against_the_line_rate_at_every_level(group, level):
    assert any(metric.directions for metric in catalogue.metrics(launches(group, level=level)))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.binary}-{row.name}")
def test_gated_sizes_are_run(row):
    """A gate on a size that no level measures would never be applied (a peer looks its references up under a wrong key)."""
    planned = {name for plan in PLANS[row.group] for name in plan.benchmarks if plan.binary == row.binary}
    if row.name not in planned:
        return
    stack = stack_of(osu="7.1") if row.until else stack_of()
    measured = {
        (metric.quantity, metric.message_bytes)
        for level in LEVELS
        for metric in catalogue.metrics(launches(row.group, ranks=many(row.group), level=level, stack=stack))
        if metric.benchmark == row.name
    }
    wanted = {(quantity, size) for quantity, sizes in row.gated_sizes.items() for size in sizes}
    assert wanted <= measured


# Launches.


@pytest.mark.parametrize("group", TIMED)
def test_plans_name_rows_of_their_group(group):
    names = [plan.name for plan in PLANS[group]]
    assert len(names) == len(set(names))
    for plan in PLANS[group]:
        assert re.fullmatch(r"[a-z0-9_]+", plan.name)  # part of file names, unquoted in shell
        assert set(plan.size_ranges) <= set(LEVELS)
        for name in plan.benchmarks:
            assert group in (catalogue.find(plan.binary, name).group, catalogue.CROSS_CHECK)


def test_arguments_of_a_pair():
    (launch,) = launches("p2p")
    words = "/opt/mpi/bin/IMB-MPI1 -npmin 2 -msglog 0:22 -iter 1000,40,1000 -time 30 PingPong PingPing"
    assert launch.words(stack_of()) == words.split()
    assert launch.expected[0] == catalogue.Expected("PingPong", 2, doubling_sizes(1, 1 << 22))


def test_a_pair_spans_two_nodes():
    """Ranks fill nodes in blocks; without a map, ranks 0 and 1 of two full nodes are neighbours."""
    (launch,) = launches("p2p", ranks=8, nodes=2)
    assert launch.args[launch.args.index("-map") + 1] == "4x2"
    assert "-map" not in launches("p2p", ranks=2, nodes=2)[0].args
    assert "-map" not in launches("p2p", ranks=8)[0].args
    assert all("-map" not in launch.args for launch in launches("transfer", ranks=8, nodes=2))


def test_only_the_full_number_of_ranks_is_run():
    for launch in launches("collectives", ranks=8):
        assert launch.args[launch.args.index("-npmin") + 1] == "8"
    # With a larger npmin IMB leaves out Fetch_and_op and Compare_and_swap without a word.
    pair = next(launch for launch in launches("one_sided", ranks=8) if launch.name == "passive_pair")
    assert pair.args[pair.args.index("-npmin") + 1] == "2"


def test_the_window_is_the_same_in_every_version():
    """64 messages up to 2021.1; 256 by default from 2021.2, where 64 is asked for."""
    for version, asked in (("2018 Update 1", False), ("2019 Update 6", False), ("2021.1", True), ("2021.11", True)):
        window = next(launch for launch in launches("transfer", stack=stack_of(version)) if launch.name == "window")
        assert ("-window_size" in window.args) is asked, version
        if asked:
            assert window.args[window.args.index("-window_size") + 1] == str(traffic.WINDOW)


def test_old_versions_lack_benchmarks():
    def names(version):
        return {item.benchmark for launch in launches("collectives", stack=stack_of(version)) for item in launch.expected}

    assert names("2021.11") - names("2018 Update 1") == {"Reduce_local", "Reduce_scatter_block"}
    assert names("2021.11") - names("2019 Update 1") == {"Reduce_local"}
    with pytest.raises(catalogue.NotMeasured):
        launches("p2p_pairs", stack=stack_of("2019.0"))


def test_buffers_of_many_ranks_fit_into_memory():
    def largest(ranks):
        fan = next(launch for launch in launches("collectives", ranks=ranks) if launch.name == "fan")
        return max(size for size in fan.expected[0].sizes if size is not None)

    assert [largest(ranks) for ranks in (2, 32, 96, 512)] == [4 << 20, 4 << 20, 1 << 20, 256 << 10]


def test_threads_are_asked_for_and_expected():
    (launch,) = launches("threads", level="smoke")
    assert launch.words(stack_of())[:3] == ["env", "OMP_NUM_THREADS=2", "/opt/mpi/bin/IMB-MT"]
    assert launch.expected[0].variants == ("threads=2",)
    assert launch.expected[0].sizes == (2048, 4096, 8192)


def test_one_instrument_runs_on_every_stack():
    (launch,) = launches("p2p_mpi4py", stack=stack_of(binaries=()))
    assert launch.words(stack_of())[:4] == ["/opt/mpi/bin/python", "-m", "mpi4py.bench", "pingpong"]
    assert catalogue.suites("p2p_mpi4py") == ("mpi4py",)
    assert catalogue.suites("collectives") == ("imb",)


def test_what_cannot_be_measured_says_why():
    with pytest.raises(catalogue.NotMeasured, match="always uses ranks 0 and 1"):
        launches("p2p_mpi4py", ranks=4, nodes=2)
    assert launches("p2p_mpi4py", ranks=2, nodes=2)
    with pytest.raises(catalogue.NotMeasured, match="stack intelmpi-wheels has no IMB-MPI1"):
        launches("p2p", stack=stack_of(binaries=()))
    with pytest.raises(catalogue.NotMeasured, match=r"no benchmark of group p2p runs on 1 rank$"):
        launches("p2p", ranks=1)


def test_a_stack_without_any_program_of_a_group_says_so():
    """Known before a job is made; a stack that lacks some of them is told when its launches are made."""
    wheels = stack_of(binaries=BINARIES[:5])
    assert catalogue.why_unbuilt("file_io", wheels) == "stack intelmpi-wheels has no IMB-IO"
    assert catalogue.why_unbuilt("startup_osu", wheels) == (
        "stack intelmpi-wheels has no osu_init and none of 1 more for group startup_osu"
    )
    assert catalogue.why_unbuilt("p2p", wheels) == catalogue.why_unbuilt(catalogue.PLACEMENT, wheels) == ""
    assert catalogue.why_unbuilt("cross_check", wheels) == "", "its launches say what is missing"
    with refused_as("group-unknown", match="no group 'p3p'"):
        catalogue.why_unbuilt("p3p", wheels)


def test_benchmarks_of_several_nodes_are_left_out_on_one():
    with pytest.raises(
        catalogue.NotMeasured,
        match=r"no benchmark of group congestion_osu runs on 8 ranks of 1 node: it takes 2 nodes or more$",
    ):
        launches("congestion_osu", ranks=8, nodes=1)
    with pytest.raises(catalogue.NotMeasured, match=r"runs on 8 ranks of 1 node: it takes 2 nodes or more$"):
        catalogue.check_ranks("congestion_osu", 8, 1)
    catalogue.check_ranks("congestion_osu", 8, 2)
    assert {launch.binary for launch in launches("congestion_osu", ranks=8, nodes=4)} == {"osu_bw_fan_in", "osu_bw_fan_out"}
    row = catalogue.find("osu_bw_fan_in", "osu_bw_fan_in")
    assert row.traffic_between(1 << 20, 8, 4) == traffic.WINDOW * 3 * 2 << 20, "three nodes of two ranks each send a window"


def test_stencils_need_a_grid():
    def names(ranks):
        return {item.benchmark: item.variants for item in launches("p2p_pairs", ranks=ranks)[0].expected}

    assert "Stencil2D" not in names(2)
    assert names(8)["Stencil3D"] == ("grid=2x2x2",)
    assert "PingPong" not in names(3) and "Unirandom" in names(3)


def test_groups_of_several_suites_need_them_all():
    assert catalogue.stack_selection("p2p") == ["+imb"]
    assert catalogue.stack_selection("p2p_osu") == ["+osu"]
    assert catalogue.stack_selection("cross_check") == ["+imb +osu"]
    assert catalogue.stack_selection(catalogue.PLACEMENT) == ["+mpi4py", "+imb"]


def test_the_placement_group_starts_ranks_and_expects_no_numbers():
    for stack, binary in ((stack_of(binaries=()), "mpi4py.bench"), (replace(stack_of(), commands={}), "IMB-MPI1")):
        (probe,) = launches(catalogue.PLACEMENT, ranks=1, stack=stack)
        assert (probe.binary, probe.expected) == (binary, ())
        assert list(catalogue.metrics([probe])) == []
    assert {"imb", "mpi4py"} == set(catalogue.suites(catalogue.PLACEMENT))
    with pytest.raises(catalogue.NotMeasured, match="neither"):
        launches(catalogue.PLACEMENT, stack=replace(stack_of(binaries=()), commands={}))


# What a launch gives against what was expected.


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda expected: [*expected, ("Bcast", 2, (0,))], "benchmark Bcast was asked for and is missing"),
        (lambda expected: expected[1:], "benchmark PingPong was not asked for"),
        (lambda expected: expected[::-1], "another order"),
        (lambda expected: [("PingPong", 4, expected[0][2]), *expected[1:]], "ran on 2 ranks, asked for were 4"),
        (lambda expected: [("PingPong", 2, (0, 8, 16, 32, 64)), *expected[1:]], "lacks the size of 64 bytes"),
        (lambda expected: [("PingPong", 2, (0, 8, 16)), *expected[1:]], "has the size of 32 bytes, which was not asked for"),
        (lambda expected: [("PingPong", 2, (8, 0, 16, 32)), *expected[1:]], "out of order"),
        (lambda expected: [("PingPong", 2, expected[0][2], ("aggregate",)), *expected[1:]], "variants"),
    ],
)
def test_check_complete_refuses_anything_else(change, words):
    records = reader.parse(golden("imb-mpi1-2021.11-n2-mpich.txt"))
    sizes = (0, 8, 16, 32)
    expected = [("PingPong", 2, sizes), ("Exchange", 2, sizes), ("Barrier", 2, (None,)), ("Reduce", 2, sizes)]
    reader.check_complete(records, [catalogue.Expected(*item) for item in expected])
    with refused_as("output-damaged", match=words):
        reader.check_complete(records, [catalogue.Expected(*item) for item in change(expected)], source="job.out")


def test_imb_2018_does_not_time_ireduce_scatter() -> None:
    """Its clock begins with the time of day there (IMB_reduce_scatter.c)."""
    for version, timed in (("2018 Update 1", False), ("2019 Update 6", True)):
        for group in ("nonblocking", "nonblocking_pure"):
            words = {word for launch in launches(group, stack=stack_of(version)) for word in launch.args}
            assert any(word.startswith("Ireduce_scatter") for word in words) == timed

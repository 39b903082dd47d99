"""What is made of the outputs of a job: the time of a launch, bytes it must have sent, growth with the nodes."""

from __future__ import annotations

from pathlib import Path

import pytest

from catalogue_launches import launches
from hpcc_outputs import on_grid
from reframe_tests.harness.cases.results import derived
from reframe_tests.harness.cases.results.measurement import fill_launch_time, least_bytes, name_uncounted
from reframe_tests.harness.machine.fabric import Fabric, Rail
from reframe_tests.harness.samples import Sample
from reframe_tests.harness.stacks import metadata
from reframe_tests.harness.suites import catalogue, reader
from reframe_tests.harness.suites.benchmark import growing_node_counts
from reframe_tests.harness.suites.catalogue import ROWS
from reframe_tests.harness.suites.gpcnet import GROUP as GPCNET
from reframe_tests.harness.suites.gpcnet import LOADED_GROUP, bound_of, nodes_tested
from reframe_tests.harness.vocabulary import NotMeasured
from refusals import refused_as
from studies.output_damage import golden
from synthetic_conditions import simple_condition
from synthetic_stack import DOCUMENT


def records_of(number: int, text: str) -> list[reader.Record]:
    launch = launches("startup_osu", nodes=2)[number]
    return reader.complete(reader.parse(text), launch.expected)


def test_a_program_that_prints_no_time_has_that_of_its_launch() -> None:
    hello = launches("startup_osu", nodes=2)[1]
    (record,) = fill_launch_time(hello, records_of(1, golden("osu/osu-7.5-mpich-n2-hello.txt")), 1.25)
    assert (record.benchmark, record.variant, record.ranks) == ("osu_hello", "nodes=2", 2)
    assert record.values == {"time_s": 1.25}


@pytest.mark.parametrize("seconds", [None, 0.0])
def test_without_a_time_there_is_no_measurement(seconds: float | None) -> None:
    hello = launches("startup_osu", nodes=2)[1]
    with refused_as(
        "launch-time-missing", match=r"the job left no time of launch osu_hello, which is what is measured; run it again\.$"
    ):
        fill_launch_time(hello, records_of(1, golden("osu/osu-7.5-mpich-n2-hello.txt")), seconds)


@pytest.mark.parametrize("seconds", [None, 1.25])
def test_what_a_program_prints_itself_is_left_alone(seconds: float | None) -> None:
    init, records = launches("startup_osu", nodes=2)[0], records_of(0, golden("osu/osu-7.5-mpich-n2-init.txt"))
    assert fill_launch_time(init, records, seconds) == records
    assert set(records[0].values) == {"t_min_us", "t_avg_us", "t_max_us"}


ETH = Fabric("eth1g", "tcp", "cluster", (Rail("eth1"),))
LO = Fabric("lo", "tcp", "node", (Rail("lo"),))
SHM = Fabric("shm", "shm", "node")


def judged(group: str, file: str, ranks: int, nodes: int = 1, fabric: Fabric = LO, **more: str) -> tuple[float, list[str]]:
    """Bytes counted on and notes of an output, by its file or its text, as if of a job on so many nodes."""
    where = simple_condition({}, {}, {}, fabric=fabric, forced=True, nodes=nodes, ranks=ranks)
    planned = launches(group, ranks, nodes=nodes, **more)
    parsed = reader.parse(golden(file) if file.endswith(".txt") else file)
    launch = next(one for one in planned if {row.name for row in one.rows()} >= {record.benchmark for record in parsed})
    return (least_bytes(where, launch, parsed), name_uncounted(where, launch, parsed))


def test_the_random_numbers_of_nas_move_no_data_by_design() -> None:
    assert judged("nas_s", "npb-3.4-ep-n2.txt", 2) == (
        0.0,
        ["not held against the bytes that lo carried: EP (moves no data by design but a dozen numbers at its end)"],
    )


def test_what_hpccs_ranks_do_by_themselves_is_named() -> None:
    least, [note] = judged("hpcc", "hpcc-1.5.0-n2.txt", 2, level="smoke")
    # HPL, PTRANS, MPIRandomAccess, MPIFFT, two rings of 2 MB and of 8 bytes, as test_hpcc_volume counts them.
    assert least == 691_200 + 2_048_000 + 2_097_152 + 524_288 + 2 * 4 * 2_000_000 + 2 * 4 * 8
    assert note.endswith(" (moves no data by design)")
    names = note.removeprefix("not held against the bytes that lo carried: ").removesuffix(" (moves no data by design)")
    assert set(names.split(", ")) == {
        *("StarDGEMM", "SingleDGEMM", "StarRandomAccess", "StarFFT"),
        *(f"StarSTREAM_{kernel}" for kernel in ("Copy", "Scale", "Add", "Triad")),
    }


def test_a_transposition_that_may_stay_on_its_nodes_is_named() -> None:
    """Of a square grid with two ranks a node; with one a node it leaves them."""
    two, notes = judged("hpcc", on_grid(2, 2), 4, 2, ETH, level="smoke")
    assert [note for note in notes if "PTRANS (its grid of ranks is drawn by chance" in note]
    four, notes = judged("hpcc", on_grid(2, 2), 4, 4, ETH, level="smoke")
    assert not [note for note in notes if "PTRANS" in note] and four > two > 0


def test_in_memory_nothing_is_held_against_anything() -> None:
    assert judged("nas_s", "npb-3.4-ep-n2.txt", 2, fabric=SHM) == (0.0, [])


def test_the_first_measurement_of_gpcnet() -> None:
    """By hand, on two nodes of a rank each: 30 rings, 200 x 2 messages of 8 bytes or 8 x 8 x 2 of 128 KiB."""
    least, notes = judged(GPCNET, "gpcnet-1.3-network_test-n2-mpich.txt", 2, 2, ETH)
    latency, bandwidth = 2 * 30 * 200 * 2 * 8, 2 * 30 * 8 * 8 * 2 * 131072
    assert least == 2 * latency + 4 * bandwidth + 2 * 200 * 8 + 2 * 64 * 4096
    assert not notes


def test_gpcnet_under_load_counts_the_nodes_that_test() -> None:
    """13 of 64 nodes, alone and under load; the factors are computed from them."""
    least, [note] = judged(LOADED_GROUP, "gpcnet-1.3-network_load_test-n2048.txt", 2048, 64, ETH)
    assert nodes_tested(64, loaded=True) == 13
    assert least == 2 * 13 * 32 * (30 * 200 * 2 * 8 + 30 * 8 * 8 * 2 * 131072 + 200 * 8)
    assert note.endswith("Lat_impact, RR_Two-sided_BW_Sync_impact, Multiple_Allreduce_impact (the quotient of two others)")


@pytest.mark.parametrize("nodes", [2, 64, 65, 200, 5000])
def test_gpcnets_alltoall_is_called_less_often_on_more_than_64_nodes(nodes: int) -> None:
    calls = bound_of("Multiple Alltoall", 1, timed=False, loaded=False)({}, nodes, nodes) / nodes / (nodes - 1)
    assert calls == max(1, min(64, 64 * 64 // nodes))


@pytest.mark.parametrize("suite", ["hpcc", "npb", "gpcnet"])
def test_no_row_of_an_application_is_passed_over_in_silence(suite: str) -> None:
    for row in ROWS:
        if row.suite == suite:
            assert row.unbounded or row.of_run or row.traffic_between(0, 16, 4), row.name


GROUP = "growth"
STACK = metadata.parse(DOCUMENT, Path("stack.json"))
RECORDED = ("growth-mpich-n4.txt", "growth-intelmpi-n4.txt")


def launch(nodes: int, ppn: int = 1, level: str = "smoke") -> catalogue.Launch:
    (planned,) = catalogue.launches(GROUP, STACK, nodes * ppn, level, nodes)
    return planned


def test_node_counts_double_up_to_all() -> None:
    counts = {nodes: growing_node_counts(nodes) for nodes in (2, 3, 4, 6, 8, 1000)}
    assert counts[2] == (2,) and counts[3] == (2, 3) and counts[4] == (2, 4) and counts[6] == (2, 4, 6)
    assert counts[8] == (2, 4, 8) and counts[1000] == (2, 4, 8, 16, 32, 64, 128, 256, 512, 1000)


def test_the_program_is_asked_for_every_count_with_the_ranks_of_a_node() -> None:
    planned = launch(6, ppn=4, level="nightly")
    assert planned.args == (
        *("--nodes", "2,4,6", "--ppn", "4", "--repetitions", "1000", "Barrier", "Allreduce:8", "Alltoall:8,64"),
    )
    assert [(item.benchmark, item.ranks, item.sizes) for item in planned.expected] == [
        *(("Barrier", 24, (None,)), ("Allreduce", 24, (8,)), ("Alltoall", 24, (8, 64)))
    ]
    assert {item.variants for item in planned.expected} == {("nodes=2", "nodes=4", "nodes=6")}
    names = {metric.name for metric in catalogue.metrics([planned])}
    assert {"Barrier.nodes6.latency_p99", "Alltoall.nodes2.t_max.0000000064"} <= names
    assert set(catalogue.planned_metrics(GROUP)) >= {"Barrier.nodes*.latency_p50", "Allreduce.nodes*.t_max"}


def test_one_node_is_no_growth() -> None:
    with pytest.raises(NotMeasured, match=r"no benchmark of group growth runs on 8 ranks of 1 node"):
        catalogue.launches(GROUP, STACK, 8, "smoke", 1)


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_outputs(name: str) -> None:
    text = golden(name)
    records = reader.complete(reader.parse(text), launch(4).expected, source=name)
    assert len(records) == 8 and {record.repetitions for record in records} == {100}
    assert {(record.variant, record.ranks) for record in records} == {("nodes=2", 2), ("nodes=4", 4)}, "those that took part"
    with refused_as("output-damaged", match="made 100 repetitions, asked for were 1000"):
        reader.complete(reader.parse(text), launch(4, level="nightly").expected)
    with refused_as("output-damaged", match="variants"):
        reader.complete(reader.parse(text), launch(2, ppn=2).expected)


def test_values_are_those_printed() -> None:
    records = reader.parse(golden(RECORDED[0]))
    assert (records[0].benchmark, records[0].message_bytes, records[0].variant) == ("Barrier", None, "nodes=2")
    assert records[0].values == {
        **{"t_max_us": 43.53, "latency_p50_us": 16.731, "latency_p90_us": 19.527, "latency_p99_us": 1244.502}
    }


def sample(nodes: int, *values: float | None, quantity: str = derived.QUANTITY) -> Sample:
    return Sample("growth", "Barrier", GROUP, 64, 1, f"nodes={nodes}", None, 100, quantity, values)


def test_growth_by_rounds_is_one_and_more_is_more() -> None:
    found = derived.compare_nodes(
        [sample(2, 10.0, 11.0, 12.0), sample(8, 33.0, 33.0, 500.0), sample(64, 132.0, None, 132.0)], ppn=1
    )
    assert [(each.first, each.nodes, each.ratio, each.variant) for each in found] == [
        (2, 8, pytest.approx(1.0), "nodes=8"),
        (2, 64, pytest.approx(2.0), "nodes=64"),
    ]


def test_growth_counts_the_rounds_of_all_ranks() -> None:
    """Two nodes of 4 ranks take 3 rounds, six of them 5."""
    (found,) = derived.compare_nodes([sample(2, 30.0), sample(6, 50.0)], ppn=4)
    assert found.ratio == pytest.approx(1.0)


def test_growth_needs_two_counts_and_values() -> None:
    assert derived.compare_nodes([sample(2, 10.0)], ppn=1) == []
    assert derived.compare_nodes([sample(2, 10.0), sample(4, None)], ppn=1) == []
    assert derived.compare_nodes([sample(2, 10.0), sample(4, 20.0, quantity="t_max_us")], ppn=1) == []

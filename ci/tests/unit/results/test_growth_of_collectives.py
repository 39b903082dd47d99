"""Collectives on growing node counts: what is planned, how the table is read, and how growth is held against log2."""

from __future__ import annotations

from pathlib import Path

import pytest

from reframe_tests.harness.cases.results import derived
from reframe_tests.harness.samples import Sample
from reframe_tests.harness.stacks import metadata
from reframe_tests.harness.suites import catalogue, reader
from reframe_tests.harness.suites.benchmark import OutputError, growing_node_counts
from reframe_tests.harness.vocabulary import NotMeasured
from studies.output_damage import golden
from synthetic_stack import DOCUMENT

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
    with pytest.raises(OutputError, match="made 100 repetitions, asked for were 1000"):
        reader.complete(reader.parse(text), launch(4, level="nightly").expected)
    with pytest.raises(OutputError, match="variants"):
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

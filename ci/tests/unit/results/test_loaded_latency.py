"""Latency under load: what is planned, and how its table is read."""

from __future__ import annotations

import pytest

from catalogue_launches import launches
from instrument_output import resealed
from reframe_tests.harness.suites import catalogue, reader
from reframe_tests.harness.suites.benchmark import OutputError
from reframe_tests.harness.vocabulary import NotMeasured
from studies.output_damage import golden

GROUP = "loaded_latency"
NAME = "loaded_latency-mpich-n4.txt"


def test_what_is_planned() -> None:
    (planned,) = launches(GROUP, 8, level="smoke", nodes=4)
    assert planned.args == ("--ppn", "2", "--repetitions", "200")
    names = {metric.name for metric in catalogue.metrics([planned])}
    assert {"Victim.alone.latency_p99.0000000008", "Victim.loaded.latency.0000000008"} <= names
    assert {"Victim_impact.impact_p99.0000000008", "Load.bandwidth.0000131072"} <= names


def test_a_node_needs_a_rank_for_the_load() -> None:
    with pytest.raises(NotMeasured, match="needs two ranks a node or more"):
        launches(GROUP, 4, nodes=4)
    with pytest.raises(NotMeasured, match="no benchmark of group loaded_latency runs on 6 ranks of 3 nodes"):
        launches(GROUP, 6, nodes=3)


def test_a_recorded_output() -> None:
    (planned,) = launches(GROUP, 4, level="smoke", nodes=2)
    text = golden(NAME)
    alone, loaded, load, impact = reader.complete(reader.parse(text), planned.expected, source=NAME)
    assert (alone.variant, loaded.variant, load.benchmark, impact.benchmark) == ("alone", "loaded", "Load", "Victim_impact")
    assert (alone.repetitions, loaded.repetitions) == (200, 200)
    assert impact.values == {
        "impact": pytest.approx(loaded.values["latency_us"] / alone.values["latency_us"]),
        "impact_p99": pytest.approx(loaded.values["latency_p99_us"] / alone.values["latency_p99_us"]),
    }
    assert load.repetitions and load.message_bytes == 131072


def test_the_rows_are_those_of_one_run() -> None:
    with pytest.raises(OutputError, match="the rows are not those of"):
        reader.parse(resealed(golden(NAME), 0, state="loaded"), source="job.out")

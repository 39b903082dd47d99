"""GPCNeT: its outputs are read whole or not at all, and what its nodes allow is planned."""

from __future__ import annotations

import pytest

from catalogue_launches import launches, stack_of
from reframe_tests.harness.suites import catalogue, gpcnet, reader
from reframe_tests.harness.suites.benchmark import OutputError
from reframe_tests.harness.vocabulary import NotMeasured
from refusals import refused_as
from studies.output_damage import golden

ALONE = "gpcnet-1.3-network_test-n2048.txt"
UNDER_LOAD = "gpcnet-1.3-network_load_test-n2048.txt"
HERE = "gpcnet-1.3-network_test-n2-mpich.txt"
CUT = "gpcnet-1.3-network_load_test-n10-cut.txt"


def test_lines_of_its_script_above_its_title_are_set_aside_and_counted() -> None:
    """As HPE's documentation has them (``run_gpc_tests.sh``),
    and counters of the adapters below.
    """
    script = (
        "# ./run_gpc_tests.sh $PBS_NODEFILE\nNumber of nodes: 64\nnumber of process: "
        "2048\nExecuting gpc network test\n"
    )
    output = reader.read(f"{script}{golden(ALONE)}cxi0 tx 587019953\n")
    assert output.records == reader.parse(golden(ALONE))
    assert output.notes == ("4 lines above its title are another program's, set aside",)
    row = golden(ALONE).splitlines()[16]
    title = "".join(golden(ALONE).splitlines(keepends=True)[:2])
    for above in (f"{row}\n", f"{row[20:]}\n", title.replace("2048", "4096"), golden(ALONE)):
        with refused_as("output-damaged"):
            reader.read(above + golden(ALONE))


def test_values_are_those_printed() -> None:
    latency, _, bandwidth, *_ = reader.parse(golden(ALONE))
    assert (latency.message_bytes, latency.values) == (
        8,
        {"latency_us": 2.9, "latency_p99_us": 4.4},
    )
    assert bandwidth.values == {
        "bandwidth_mb_per_s": pytest.approx(4086.5 * 1.048576),
        "bandwidth_tail_mb_per_s": pytest.approx(2504.7 * 1.048576),
    }


def test_a_network_under_load() -> None:
    (planned,) = launches(gpcnet.LOADED_GROUP, 2048, nodes=64)
    records = reader.complete(reader.parse(golden(UNDER_LOAD)), planned.expected, source=UNDER_LOAD)
    found = {(record.benchmark, record.variant): record.values for record in records}
    assert found["RR_Two-sided_BW_Sync", "congested"]["bandwidth_mb_per_s"] == pytest.approx(
        4057.7 * 1.048576
    )
    # Printed are factors of 1.0X; what they were made of says more.
    assert found["Multiple_Allreduce_impact", ""]["impact"] == pytest.approx(20.3 / 20.2)
    assert found["RR_Two-sided_BW_Sync_impact", ""] == {
        "impact": pytest.approx(4061.4 / 4057.7),
        "impact_p99": pytest.approx(2829.5 / 2820.6),
    }
    names = {metric.name: metric for metric in catalogue.metrics([planned])}
    assert "RR_Two-sided_Lat.congested.latency_p99.0000000008" in names
    assert names["RR_Two-sided_Lat_impact.impact.0000000008"].gated


def test_an_output_that_was_cut_off() -> None:
    with refused_as(
        "output-cut", match=r"cut.txt: it ends before its last table does; the output was cut off"
    ):
        reader.parse(golden(CUT), source=CUT)
    with refused_as("output-cut", match="the last line has no end"):
        reader.parse(golden(ALONE)[:-1])


@pytest.mark.parametrize(("name", "nodes", "ranks"), [(ALONE, 64, 2048), (HERE, 2, 2)])
def test_a_network_alone(name: str, nodes: int, ranks: int) -> None:
    (planned,) = launches(gpcnet.GROUP, ranks, nodes=nodes)
    records = reader.complete(reader.parse(golden(name)), planned.expected, source=name)
    names = [test.name for test in gpcnet.TESTS[gpcnet.ISOLATED]]
    assert [record.benchmark for record in records] == names
    assert {(record.ranks, record.repetitions) for record in records} == {(ranks, None)}
    assert planned.words(stack_of()) == ["/opt/mpi/bin/network_test"], "it takes no argument"


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        (ALONE, "Network Tests v1.3", "Network Tests v1.4"),
        (ALONE, "(64 nodes)", "(1 nodes)"),
        (ALONE, "   2.9 |", "   0.0 |"),
        (ALONE, "   2.9 |", "  -nan |"),
        (ALONE, "4086.5", "086.5"),
        (ALONE, "usec", "msec"),
        (ALONE, f"+{'-' * 78}+", f"+{'-' * 138}+"),  # a build with -DVERBOSE
        (UNDER_LOAD, "13 nodes", "14 nodes"),
        (UNDER_LOAD, "min 12 ", "min 10 "),
        (UNDER_LOAD, "1.0X |", "1.1X |"),
        (UNDER_LOAD, "20.3", "40.3"),
    ],
)
def test_lines_that_cannot_be(name: str, old: str, new: str) -> None:
    assert old in golden(name)
    with pytest.raises(OutputError):
        reader.parse(golden(name).replace(old, new, 1))


def test_ten_nodes_are_the_fewest_under_load() -> None:
    """Two for its tests, and two for each of four congestors, which get 80 % of all."""
    with pytest.raises(NotMeasured, match="it takes 10 "):
        launches(gpcnet.LOADED_GROUP, 18, nodes=9)
    assert launches(gpcnet.LOADED_GROUP, 20, nodes=10)

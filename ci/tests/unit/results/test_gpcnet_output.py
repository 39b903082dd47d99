"""GPCNeT: its outputs are read whole or not at all, and what its nodes allow is planned."""

from __future__ import annotations

import re

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
WHOLE = (ALONE, UNDER_LOAD, HERE)
CUT = "gpcnet-1.3-network_load_test-n10-cut.txt"


def changed(name: str, pattern: str, replacement: str, count: int = 1) -> str:
    text, changes = re.subn(pattern, replacement, golden(name), count=count, flags=re.MULTILINE)
    assert changes
    return text


@pytest.mark.parametrize(("name", "nodes", "ranks"), [(ALONE, 64, 2048), (HERE, 2, 2)])
def test_a_network_alone(name: str, nodes: int, ranks: int) -> None:
    (planned,) = launches(gpcnet.GROUP, ranks, nodes=nodes)
    records = reader.complete(reader.parse(golden(name)), planned.expected, source=name)
    assert [record.benchmark for record in records] == [test.name for test in gpcnet.TESTS[gpcnet.ISOLATED]]
    assert {record.ranks for record in records} == {ranks} and {record.repetitions for record in records} == {None}
    assert planned.words(stack_of()) == ["/opt/mpi/bin/network_test"], "it takes no argument"


def test_values_are_those_printed() -> None:
    latency, _, bandwidth, *_ = reader.parse(golden(ALONE))
    assert (latency.message_bytes, latency.values) == (8, {"latency_us": 2.9, "latency_p99_us": 4.4})
    assert bandwidth.values == {
        "bandwidth_mb_per_s": pytest.approx(4086.5 * 1.048576),
        "bandwidth_tail_mb_per_s": pytest.approx(2504.7 * 1.048576),
    }


def test_a_network_under_load() -> None:
    (planned,) = launches(gpcnet.LOADED_GROUP, 2048, nodes=64)
    records = reader.complete(reader.parse(golden(UNDER_LOAD)), planned.expected, source=UNDER_LOAD)
    found = {(record.benchmark, record.variant): record.values for record in records}
    assert found["RR_Two-sided_BW_Sync", "congested"]["bandwidth_mb_per_s"] == pytest.approx(4057.7 * 1.048576)
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
    with refused_as("output-cut", match=r"cut.txt: it ends before its last table does; the output was cut off"):
        reader.parse(golden(CUT), source=CUT)
    with refused_as("output-cut", match="the last line has no end"):
        reader.parse(golden(ALONE)[:-1])


@pytest.mark.parametrize("name", WHOLE)
def test_nothing_is_lost_in_silence(name: str) -> None:
    """Without any one of its lines, with one twice, or cut after any of them, an output is refused or is the same."""
    lines, whole = golden(name).splitlines(keepends=True), reader.parse(golden(name))
    for at, line in enumerate(lines):
        for damaged in (
            "".join(lines[:at]),
            "".join([*lines[:at], *lines[at + 1 :]]),
            "".join([*lines[: at + 1], *lines[at:]]),
        ):
            try:
                assert reader.parse(damaged, source=line) == whole
            except OutputError:
                continue


@pytest.mark.parametrize(
    ("name", "pattern", "replacement", "words"),
    [
        (ALONE, r"^Network Tests v1\.3", "Network Tests v1.4", r"GPCNeT 1\.4 is not known"),
        (ALONE, r"\(64 nodes\)", "(1 nodes)", "says that 2048 ranks ran on 1 nodes"),
        (ALONE, r"   2\.9 \|", "   0.0 |", r"RR Two-sided Lat \(8 B\) is printed as nothing"),
        (ALONE, r"   2\.9 \|", "  -nan |", "rows of its tables are not those"),
        (ALONE, r"4086\.5", "4086.55", "rows of its tables are not those"),
        (ALONE, r"4086\.5", "086.5", "rows of its tables are not those"),
        (ALONE, r"usec", "msec", "rows of its tables are not those"),
        (ALONE, r" Get Lat \(8 B\)", " Get Lat (4 B)", "rows of its tables are not those"),
        (UNDER_LOAD, r"13 nodes", "14 nodes", "64 nodes are not split so"),
        (UNDER_LOAD, r"min 12 ", "min 10 ", "64 nodes are not split so"),
        (UNDER_LOAD, r"1\.0X \|", "1.1X |", "the factors of RR Two-sided Lat .* do not follow"),
        (UNDER_LOAD, r"20\.3", "40.3", "the factors of Multiple Allreduce .* do not follow"),
    ],
)
def test_lines_that_cannot_be(name: str, pattern: str, replacement: str, words: str) -> None:
    with pytest.raises(OutputError, match=words):
        reader.parse(changed(name, pattern, replacement), source="job.out")


def test_a_verbose_build_is_named() -> None:
    with refused_as("output-verbose-build", match="it was built with -DVERBOSE; build it without"):
        reader.parse(changed(ALONE, r"^\+-{78}\+$", f"+{'-' * 138}+"))


def test_ten_nodes_are_the_fewest_under_load() -> None:
    """Two for its tests, and two for each of four congestors, which get 80 % of all."""
    with pytest.raises(NotMeasured, match=r"no benchmark of group gpcnet_congestion runs on 18 ranks of 9 nodes: it takes 10 "):
        launches(gpcnet.LOADED_GROUP, 18, nodes=9)
    assert launches(gpcnet.LOADED_GROUP, 20, nodes=10)


def test_a_stack_without_it() -> None:
    with pytest.raises(NotMeasured, match="stack intelmpi-wheels has no network_test"):
        launches(gpcnet.GROUP, 2, nodes=2, stack=stack_of(binaries=("IMB-MPI1",)))

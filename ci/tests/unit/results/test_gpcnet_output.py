"""GPCNeT: its outputs are read whole or not at all, and what its nodes allow is planned."""

import pytest

from reframe_tests.harness.suites import gpcnet, reader
from refusals import refused_as
from studies.output_damage import golden
from synthetic_stack import launches, stack_of

ALONE = "gpcnet-1.3-network_test-n2048.txt"
HERE = "gpcnet-1.3-network_test-n2-mpich.txt"
CUT = "gpcnet-1.3-network_load_test-n10-cut.txt"


def test_values_are_those_printed_whatever_its_script_says_above_the_title():
    output = reader.read("$ ./run_gpc_tests.sh\nNumber of nodes: 64\n" + golden(ALONE))
    assert output.notes == ("2 lines above its title ignored: from another program",)
    latency, _, bandwidth, *_ = output.records
    values = {"latency_us": 2.9, "latency_p99_us": 4.4}
    assert (latency.message_bytes, latency.values) == (8, values)
    assert bandwidth.values == {
        "bandwidth_mb_per_s": pytest.approx(4086.5 * 1.048576),
        "bandwidth_tail_mb_per_s": pytest.approx(2504.7 * 1.048576),
    }


def test_an_output_that_was_cut_off():
    with refused_as(
        "output-cut", match=r"cut.txt: it ends within its last table; the output is truncated"
    ):
        reader.parse(golden(CUT), source=CUT)
    with refused_as("output-cut", match="the last line is incomplete"):
        reader.parse(golden(ALONE)[:-1])


@pytest.mark.parametrize(("name", "nodes", "ranks"), [(ALONE, 64, 2048), (HERE, 2, 2)])
def test_a_network_alone(name, nodes, ranks):
    (planned,) = launches(gpcnet.GROUP, ranks, nodes=nodes)
    records = reader.complete(reader.parse(golden(name)), planned.expected, source=name)
    names = [test.name for test in gpcnet.TESTS[gpcnet.ISOLATED]]
    assert [record.benchmark for record in records] == names
    assert {(record.ranks, record.repetitions) for record in records} == {(ranks, None)}
    assert planned.words(stack_of()) == ["/opt/mpi/bin/network_test"], "it takes no argument"

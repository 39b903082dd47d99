"""Outputs of nccl-tests and rccl-tests from public reports: what is
read of each, and why others are refused.
"""

import csv
import re
from dataclasses import replace

import pytest

from reframe_tests.harness.cases.job import condition, script, transports
from reframe_tests.harness.cases.results import measurement
from reframe_tests.harness.machine import topology
from reframe_tests.harness.machine.fabric import Fabric, Rail
from reframe_tests.harness.machine.gpu import Gpu
from reframe_tests.harness.suites import nccl_tests, reader
from reframe_tests.harness.suites.benchmark import OutputError
from reframe_tests.harness.suites.nccl_tests import COLLECTIVES, network_notes
from refusals import refused_as
from studies.output_damage import GOLDEN, golden
from synthetic_stack import launches, memory_of, stack_of

#: Each with its source, and rows counted by eye, those of 0 bytes among them.
SOURCES = {
    row["file"]: row
    for row in csv.DictReader((GOLDEN / "nccl" / "sources.tsv").open(), delimiter="\t")
}
READ = [name for name, row in SOURCES.items() if not row["read as"].startswith("output-")]
ALL_REDUCE = golden("nccl/nccl-allreduce-v2.18.2-gh200-2node.txt")
LOGS = GOLDEN / "nccl_debug"


def _fabric(transport, device):
    memory = memory_of("nccl")
    return Fabric(
        f"{transport}_device", transport, "cluster", (Rail(device),), memory=memory, gpus=(Gpu(),)
    )


@pytest.mark.parametrize("name", READ)
def test_as_many_rows_as_were_counted(name):
    text = golden(f"nccl/{name}")
    readings = reader.read_log(text, source=name)
    assert (
        "+".join(dict.fromkeys(reading.records[0].benchmark for reading in readings))
        == SOURCES[name]["read as"]
    )
    records = [record for reading in readings for record in reading.records]
    empty = len(re.findall(r"^ +0 +0 +\w+ ", text, re.MULTILINE))
    assert len(records) == 2 * (int(SOURCES[name]["rows"]) - empty)
    for record in records:
        algbw = record.values["algbw_mb_per_s"]
        busbw = record.values["busbw_mb_per_s"]
        factor = COLLECTIVES[record.benchmark].factor(record.ranks or 0)
        factor = 1.0 if "-old-reducescatter-v100" in name else factor  # before 2.9.0
        assert abs(busbw - factor * algbw) <= 10 * (1 + factor) * (10 if busbw >= 1e6 else 1)


def asked_for():
    """The launch that :data:`ALL_REDUCE` is the output of."""
    (launch, *_) = launches("nccl", 2, nodes=2)
    expected = launch.expected[0]._replace(sizes=tuple(1 << log for log in range(20, 28)))
    return replace(launch, expected=(expected,))


def test_an_output_is_held_against_its_launch():
    records = reader.parse(ALL_REDUCE)
    (item,) = asked_for().expected
    assert len(reader.complete(records, [item])) == 16
    for found, wanted in (
        ([replace(record, validated=False) for record in records], item),
        (records, item._replace(variants=item.variants[:1])),
    ):
        with pytest.raises(OutputError):
            reader.complete(found, [wanted])


@pytest.mark.parametrize("name", [path.stem for path in sorted(LOGS.glob("*.notes"))])
def test_what_nccl_says_of_its_network(name):
    notes = (LOGS / f"{name}.notes").read_text().splitlines()
    assert list(network_notes((LOGS / f"{name}.txt").read_text())) == notes


def test_units_and_variants():
    first, second, *_, last = reader.parse(ALL_REDUCE)
    assert (first.ranks, first.message_bytes, first.repetitions) == (2, 1 << 20, 20)
    assert first.values == {"t_avg_us": 339.61, "algbw_mb_per_s": 3090.0, "busbw_mb_per_s": 3090.0}
    assert first.variant == "out_of_place,memory=device"
    assert second.variant == "in_place,memory=device"
    assert last.message_bytes == 128 << 20 and last.validated


ROW = "     2097152        524288     float     sum"
UNALIGNED = "unalign: 0"


@pytest.mark.parametrize(
    ("code", "old", "new"),
    [
        ("output-trouble", "values : 0 OK", "values : 3 FAILED"),
        ("output-trouble", "3.09    3.09       0", "3.09    3.09      12"),
        ("output-damaged", "339.61    3.09    3.09", "339.61    3.09    9.09"),
        ("output-damaged", ROW, ROW.replace("152", "153")),
        ("output-damaged", "bandwidth    : 14.9966", "bandwidth    : 15.9966"),
        ("output-damaged", "#  Rank  1 Group", "#  Rank  7 Group"),
        ("output-damaged", "#wrong     time", "#wrong  cputime"),
        ("output-cut", "# Avg bus bandwidth    : 14.9966 \n", ""),
        ("output-mixed", "concluded: all_reduce_perf", "concluded: all_gather_perf"),
        ("unknown-name", "all_reduce_perf", "all_wrong_perf"),
        ("output-damaged", "all_reduce_perf", "all_gather_perf"),
        ("output-trouble", "Rank  1 Group  0", "Rank  1 Group  1"),
        ("output-mixed", ROW, ROW.replace(" sum", "prod")),
        ("output-damaged", UNALIGNED, f"{UNALIGNED}\n# Something Else"),
    ],
)
def test_damage(code, old, new):
    assert old in ALL_REDUCE
    with refused_as(code):
        reader.parse(ALL_REDUCE.replace(old, new))


def test_each_rank_must_have_said_which_network_it_took(tmp_path):
    (tmp_path / script.LAUNCH_LOG).write_text("all_reduce 1 0 3.00\n")
    (tmp_path / "all_reduce.1.out").write_text(ALL_REDUCE)
    partition = condition.Partition(topology.describe(1, 2), {}, launcher="srun")

    def said(transport, *rails):
        fabric = replace(_fabric(transport, ""), rails=rails)
        asked = condition.Asked(fabric, 2, "1", "none", library=nccl_tests.LIBRARY)
        where = condition.resolve(stack_of(), asked, partition)
        return " ".join(measurement.evaluate(where, [asked_for()], 1, 60, tmp_path).sentences)

    silent = "NCCL wrote debug lines on 1 of 2 ranks; evidence missing."
    for number, text in enumerate(("a", "")):
        (tmp_path / f"all_reduce.1.debug.n{number}.7").write_text(text)
        assert silent in said("ucx", Rail("mlx5_0"))
    (tmp_path / "all_reduce.1.debug.n1.7").write_text("b")
    told = said("ucx", Rail("mlx5_0", 100.0))
    assert silent not in told
    assert "shows 22880.0 MB/s, 1.83 times what ucx_device (100 Gbit/s)" in told
    assert "debug lines" not in said("as_shipped"), "nothing was asked for"


@pytest.mark.parametrize(
    ("log", "fabric", "sentence"),
    [
        ("nccl-2.20.5-polaris-cxi-ofi1.9", ("cxi", "cxi0"), ""),
        ("nccl-2.27.3-efa-g6e-gdr-disabled", ("efa", "rdmap0s6"), ""),
        ("nccl-2.20.5-polaris-socket-fallback", ("cxi", "cxi0"), "network 'Socket'"),
        ("rccl-2.20.5-lumi-plugin-missing-socket", ("cxi", "cxi0"), "network 'Socket'"),
        ("nccl-2.18.5-h100-nvls-6nodes-ib", ("ucx", "mlx5_0"), "NIC 'mlx5_3:1', 'mlx5_4:1'"),
        ("nccl-2.12.6azure3-version-suffix", ("ucx", "mlx5_0"), "printed no line naming"),
    ],
)
def test_the_network_is_proven_by_nccl_s_own_lines(log, fabric, sentence):
    setting = transports.resolve_transport(stack_of(), _fabric(*fabric), nccl_tests.LIBRARY)
    wrong = transports.check_proofs(setting, (LOGS / f"{log}.txt").read_text())
    assert sentence in wrong[0] if sentence else wrong == []

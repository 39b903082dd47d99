"""perftest: tables of latencies, and what says that memory of GPUs was used, for which the
host's never passes.
"""

from dataclasses import replace
from pathlib import Path

import pytest

from reframe_tests.harness.cases.cascade import below_mpi
from reframe_tests.harness.machine.fabric import Fabric, Rail
from reframe_tests.harness.machine.gpu import Gpu, Memory
from reframe_tests.harness.suites import catalogue, perftest, reader
from reframe_tests.harness.suites.benchmark import Limits
from synthetic_evidence import end

GOLDEN = Path(__file__).parents[2] / "data" / "golden" / "perftest_gpu"
RTX = (GOLDEN / "perftest-25-write_bw-rtx4080.txt").read_text()
HOST = (GOLDEN.parent / "composed" / "perftest-4.5-ib_write_bw-65536.txt").read_text()
GROUP = catalogue.PAIRS["wire_rdma"]
FABRIC = Fabric(
    "ib_device",
    "verbs",
    "cluster",
    (Rail("mlx5_1", 200, numa_node=1),),
    memory=Memory("device", "cuda"),
    gpus=(Gpu("0000:03:00.0", 0), Gpu("0000:41:00.0", 1), Gpu("0000:81:00.0", 1, nic="mlx5_1")),
)


def test_the_gpu_next_to_the_adapter_is_used():
    assert below_mpi.choose_gpu(FABRIC) == 2
    unsaid = tuple(replace(gpu, nic="") for gpu in FABRIC.gpus)
    assert below_mpi.choose_gpu(replace(FABRIC, gpus=unsaid)) == 1
    assert below_mpi.choose_gpu(replace(FABRIC, gpus=(Gpu(), Gpu()))) == 0


@pytest.mark.parametrize(
    ("name", "size", "bandwidth"),
    [
        ("perftest-24-write_bw-a40", 65536, 22682.5),
        ("perftest-25-write_bw-rtx4080", 65536, 15674.8),
        ("perftest-4.5-write_bw-a100", 8388608, 10120.0),
        ("perftest-amd-write_bw-mi355x", 8388608, 19969.5),
    ],
)
def test_tables_of_several_releases_are_read(name, size, bandwidth):
    [record] = reader.parse((GOLDEN / f"{name}.txt").read_text())
    assert (record.message_bytes, record.variant) == (size, "memory=device")
    assert round(record.values["bandwidth_mb_per_s"], 1) == bandwidth


def test_another_gpu_than_the_sites_contradicts(tmp_path):
    """The recorded end took the GPU on bus 10."""
    words = (
        *("ib_write_bw", "-d", "mlx5_0", "-i", "1", "-p", "{port}"),
        *("-s", "65536", "-n", "5000", "-F", "--use_cuda=0"),
    )
    data = 65536 * 5000
    (tmp_path / "a.server").write_text(end("server", words, RTX, rx=data, tx=40))
    client = end("client", (*words, "{address}"), RTX, rx=40, tx=data)
    (tmp_path / "a.client").write_text(client)
    able = [plan for plan in GROUP.plans if GROUP.measures(plan, FABRIC.memory)]
    assert [plan.benchmark for plan in able] == [*perftest.ON_GPU]
    limits = Limits(200.0, None)
    launch = below_mpi.make_launch(able[0], GROUP.name, FABRIC, 65536, "smoke", limits, 0)
    for bus_id, wrong in (("0000:10:00.0", False), ("", False), ("0000:41:00.0", True)):
        fabric = replace(FABRIC, gpus=(Gpu(bus_id),))
        measured = below_mpi.read_launch(tmp_path, "a", launch, GROUP, fabric)
        said = " ".join(sentence for _, sentence in measured.findings)
        assert ("c1 used the GPU on PCI bus 10 instead of 0000:41:00.0" in said) == wrong
    amd = "Using ROCm Device with ID: 1, Name: AMD, PCI Bus ID: 0xc1, GCN Arch: gfx90a"
    assert [perftest.picked_bus(text) for text in (RTX, amd, HOST)] == ["10", "c1", ""]


# ---- latencies: the table is written by ``RESULT_FMT_LAT`` and ``REPORT_FMT_LAT`` of perftest 4.5
# (``src/perftest_parameters.h``), since nothing here has an RDMA adapter; the values are those a
# 100 Gbit/s link may give.

RULE = "-" * 87
HEAD = (
    " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    "
    "t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec] "
)
ROW = (
    " %-7d 1000          %-7.2f        %-7.2f      %-7.2f  \t       %-7.2f     "
    "\t%-7.2f\t\t%-7.2f \t\t%-7.2f"
)
TIMES = (0.98, 3.61, 1.01, 1.02, 0.04, 1.21, 3.60)


@pytest.mark.parametrize(
    ("title", "name"),
    [("RDMA_Write", "ib_write_lat"), ("RDMA_Read", "ib_read_lat"), ("Send", "ib_send_lat")],
)
def test_mean_median_and_percentile_are_read(title, name):
    rows = [ROW % (size, *(more + time for time in TIMES)) for size, more in ((2, 0), (4, 1))]
    device = " Dual-port       : OFF\t\tDevice         : mlx5_0"
    lines = [RULE, f"          {title} Latency Test", device, RULE, HEAD, *rows, RULE, ""]
    record, larger = reader.parse("\n".join(lines))
    assert (record.benchmark, record.message_bytes) == (name, 2)
    assert (record.repetitions, record.ranks) == (1000, 2)
    assert record.values == {"latency_us": 1.02, "latency_p50_us": 1.01, "latency_p99_us": 1.21}
    assert record.values.keys() == set(catalogue.find(name, name).quantities)
    assert (larger.message_bytes, larger.values["latency_us"]) == (4, 2.02)

"""perftest with memory of GPUs: what says that it was used, and that the host's never passes for it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from reframe_tests.harness.cases.cascade import below_mpi
from reframe_tests.harness.machine.fabric import Fabric, Rail
from reframe_tests.harness.machine.gpu import Gpu, Memory
from reframe_tests.harness.suites import catalogue, perftest, reader
from reframe_tests.harness.suites.benchmark import Limits, OutputError
from refusals import refused_as
from synthetic_pair import end

GOLDEN = Path(__file__).parents[2] / "data" / "golden" / "perftest_gpu"
RTX = (GOLDEN / "perftest-25-write_bw-rtx4080.txt").read_text()
HOST = (GOLDEN.parent / "composed" / "perftest-4.5-ib_write_bw-65536.txt").read_text()
ROCM = "allocated 131072 bytes of GPU buffer at 0x7f0000000000\n"
GROUP = catalogue.PAIRS["wire_rdma"]
FABRIC = Fabric(
    *("ib_device", "verbs", "cluster", (Rail("mlx5_1", 200, numa_node=1),)),
    memory=Memory("device", "cuda"),
    gpus=(Gpu("0000:03:00.0", 0), Gpu("0000:41:00.0", 1), Gpu("0000:81:00.0", 1, nic="mlx5_1")),
)


def test_tables_of_three_releases_are_read() -> None:
    found = {path.name: reader.parse(path.read_text()) for path in sorted(GOLDEN.glob("*.txt"))}
    measured = {name: (row.message_bytes, round(row.values["bandwidth_mb_per_s"], 1)) for name, (row,) in found.items()}
    assert measured == {
        "perftest-24-write_bw-a40.txt": (65536, 22682.5),
        "perftest-25-write_bw-rtx4080.txt": (65536, 15674.8),
        "perftest-4.5-write_bw-a100.txt": (8388608, 10120.0),
    }
    assert {row.variant for rows in found.values() for row in rows} == {"memory=device"}
    [amd] = reader.parse(ROCM + HOST + "deallocating GPU buffer 0x7f0000000000\n")
    assert amd.variant == "memory=device" and reader.parse(HOST)[0].variant == ""


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("integrated: 0", "integrated: 1", "is not memory of a GPU alone"),
        ("CUDA_MEM_DEVICE", "CUDA_MEM_MANAGED", "is not memory of a GPU alone"),
        ("CUDA_MEM_DEVICE", "CUDA_MEM_MALLOC", "is not memory of a GPU alone"),
        ("creating CUDA Ctx", "Couldn't init GPU context: 1", "says that something failed"),
        ("destroying current CUDA Ctx", "destroying", "stands behind the end of the table"),
        ("allocated GPU", "alloc", "stands behind the end of the table"),
    ],
)
def test_other_memory_and_damage_are_refused(old: str, new: str, fault: str) -> None:
    assert old in RTX
    with pytest.raises(OutputError, match=fault):
        reader.parse(RTX.replace(old, new))


def started(client: str, server: str, *more: str) -> str:
    """Both ends of a launch of 5000 messages of 64 KiB."""
    words = ("ib_write_bw", "-d", "mlx5_0", "-i", "1", "-p", "{port}", "-s", "65536", "-n", "5000", "-F", *more)
    data = 65536 * 5000
    return end("server", words, server, rx=data, tx=40) + end("client", (*words, "{address}"), client, rx=40, tx=data)


def test_both_ends_say_whose_memory_they_used() -> None:
    assert reader.parse(started(RTX, RTX, "--use_cuda=0"))[0].variant == "memory=device"
    assert reader.parse(started(HOST, HOST))[0].variant == ""
    for client, server in ((RTX, HOST), (HOST, RTX), (HOST, HOST)):
        with refused_as("output-mixed", match="was asked for memory of GPUs, and an end does not say that it used that"):
            reader.parse(started(client, server, "--use_cuda=0"))
    with refused_as("output-mixed", match="was asked for memory of the host"):
        reader.parse(started(RTX, RTX))


def test_the_gpu_next_to_the_adapter_is_used() -> None:
    assert below_mpi.choose_gpu(FABRIC) == 2
    unsaid = tuple(replace(gpu, nic="") for gpu in FABRIC.gpus)
    assert below_mpi.choose_gpu(replace(FABRIC, gpus=unsaid)) == 1
    assert below_mpi.choose_gpu(replace(FABRIC, gpus=(Gpu(), Gpu()))) == 0


@pytest.mark.parametrize(
    ("kind", "first"), [("cuda", ["CUDA_DEVICE_ORDER=PCI_BUS_ID", "ib_write_bw"]), ("rocm", ["ib_write_bw"])]
)
def test_command_lines_name_the_gpu(kind: str, first: list[str]) -> None:
    fabric = replace(FABRIC, memory=Memory("device", kind))
    able = [plan for plan in GROUP.plans if GROUP.measures(plan, fabric.memory)]
    assert tuple(plan.benchmark for plan in able) == tuple(perftest.ON_GPU)
    launch = below_mpi.make_launch(able[0], GROUP.name, fabric, 65536, "smoke", Limits(200.0, None), 2)
    assert launch.name == "ib_write_bw_memorydevice_65536" and launch.plan.variant == "memory=device"
    for words in launch.words:
        assert list(words[: len(first)]) == first and f"--use_{kind}=2" in words
    places = [name for name in catalogue.planned_metrics(GROUP.name) if "memorydevice" in name]
    assert {name.partition(".")[0] for name in places} == set(perftest.ON_GPU)


@pytest.mark.parametrize("words", ["Invalid Command or flag.", "Parser function exited with Error"])
def test_a_perftest_without_memory_of_gpus_says_so(words: str, tmp_path: Path) -> None:
    (tmp_path / "a.server").write_text(f'{{"failed": "the server did not listen: {words}\\n Exiting"}}')
    assert below_mpi.find_unable(tmp_path) == words.removesuffix(".")
    (tmp_path / "a.server").write_text('{"failed": "the server did not listen: Couldn\'t init GPU context: 1"}')
    assert below_mpi.find_unable(tmp_path) == "", "one that has none for its job failed"


def test_another_gpu_than_the_sites_contradicts(tmp_path: Path) -> None:
    """The recorded end took the GPU on bus 10."""
    text = started(RTX, RTX, "--use_cuda=0")
    launch = below_mpi.make_launch(GROUP.plans[0], GROUP.name, FABRIC, 65536, "smoke", Limits(200.0, None), 0)
    at = text.index("# client of")
    (tmp_path / "a.server").write_text(text[:at])
    (tmp_path / "a.client").write_text(text[at:])

    def said(bus_id: str) -> str:
        fabric = replace(FABRIC, gpus=(Gpu(bus_id),))
        measured = below_mpi.read_launch(tmp_path, "a", launch, GROUP, fabric)
        return " ".join(sentence for _, sentence in measured.findings if "GPU" in sentence) if measured else "nothing"

    assert said("0000:10:00.0") == said("") == ""
    assert "c1 used the GPU on PCI bus 10, and 0000:41:00.0 was asked for" in said("0000:41:00.0")
    amd = "Using ROCm Device with ID: 1, Name: AMD, PCI Bus ID: 0xc1, GCN Arch: gfx90a"
    assert (perftest.picked_bus(RTX), perftest.picked_bus(amd), perftest.picked_bus(HOST)) == ("10", "c1", "")

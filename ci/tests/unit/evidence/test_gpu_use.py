"""Every sentence on the GPUs of ranks, on rank records made by hand."""

from dataclasses import replace

import pytest

from reframe_tests.harness.evidence import rank_records
from reframe_tests.harness.evidence.gpu_use import GpuFinding, check_gpus, rows_of
from reframe_tests.harness.machine.fabric import Fabric, Rail
from reframe_tests.harness.machine.gpu import Gpu, Memory
from synthetic_evidence import make_rank

A100 = "NVIDIA A100-SXM4-40GB"
SITE = (Gpu("0000:03:00.0", 0, nic="mlx5_0"), Gpu("0000:41:00.0", 1, nic="mlx5_1"))
FABRIC = Fabric(
    "ib_device",
    "ucx",
    "cluster",
    (Rail("mlx5_0"), Rail("mlx5_1")),
    memory=Memory("device", "cuda"),
    gpus=SITE,
)
PATHS = {
    "0000:03:00.0": "pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:00.0/0000:03:00.0",
    "0000:41:00.0": "pci0000:40/0000:40:01.0/0000:41:00.0",
    "mlx5_0": "pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:04.0/0000:05:00.0",
    "mlx5_1": "pci0000:48/0000:48:01.0/0000:49:00.0",
    "mlx5_7": "pci0000:40/0000:40:01.0/0000:41:00.1",
}
NUMA = {"0000:03:00.0": 0, "mlx5_0": 0}
DRIVER = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024"


def row_of(name):
    return {"path": PATHS[name], "numa_node": NUMA.get(name, 1)}


LINK = {
    "current_link_speed": "16.0 GT/s PCIe",
    "current_link_width": 16,
    "max_link_speed": "32.0 GT/s PCIe",
    "max_link_width": 16,
}
NODE = {
    "release": "6.1",
    "interfaces": {},
    "ports": {},
    "gpus": {name: row_of(name) | LINK for name in PATHS if ":" in name},
    "adapters": {name: row_of(name) for name in PATHS if ":" not in name},
    "NVIDIA driver": DRIVER,
}


def made(
    number,
    *bus_ids,
    name=A100,
    uuid="",
    node=None,
):
    gpus = [
        {"bus_id": bus, "current": at == 0, "name": name, "uuid": uuid}
        for at, bus in enumerate(bus_ids)
    ]
    node = {**NODE, **(node or {})} if number == 0 else {**NODE, "gpus": None, "adapters": None}
    return make_rank(
        number,
        node=node,
        finalize__gpus=gpus,
        finalize__gpu_library="/lib/libcuda.so.550",
        init__numa_node=number,
    )


#: A node where all is as it should be; the driver writes large letters and short functions.
GOOD = [made(0, "0000:03:00.0"), made(1, "00000000:41:00.0")]


def check(
    *ranks,
    fabric=FABRIC,
    pinning="gpu_local",
    platform="cuda",
):
    return check_gpus(ranks or GOOD, fabric, pinning, platform)


def test_a_rank_that_ended_before_it_was_asked_is_not_said_to_have_used_none():
    ended = [replace(rank, finalize=None) for rank in GOOD]
    assert check(*ended).sentences == []
    [said] = check(made(0), ended[1]).sentences
    assert said.startswith("asked for CUDA memory (device), but rank 0 on c1 used no GPU: ")


def test_each_rank_on_its_own_gpu_is_proven_and_named():
    assert check().sentences == []
    assert check().notes == [
        f"GPUs of the ranks on c1: 0 on 0000:03:00.0 ({A100}), 1 on 0000:41:00.0 ({A100})",
        "NVIDIA driver 550.54.15",
    ]
    first, second = rows_of(GOOD)
    assert first == {
        "gpu": "0000:03:00.0",
        "gpu_name": A100,
        "gpu_numa_node": 0,
        "gpu_link": "16.0 GT/s PCIe x16 of 32.0 GT/s PCIe x16",
        "nearest_adapters": ["mlx5_0"],
    }
    assert (second["gpu"], second["gpu_numa_node"], second["nearest_adapters"]) == (
        "0000:41:00.0",
        1,
        ["mlx5_7"],
    )
    assert rows_of([make_rank(0)]) == [{}], "sessions of host memory stay as they were"


def test_no_gpu_at_all():
    assert check(make_rank(0), made(1)).sentences == [
        "asked for CUDA memory (device), but rank 0 on c1 used no GPU: it loaded no GPU library.",
        "asked for CUDA memory (device), but rank 1 on c1 used no GPU: /lib/libcuda.so.550 had "
        "none for it.",
    ]


def test_an_output_of_another_platform():
    assert check(platform="").sentences == [], "not every output says it"
    assert check(platform="openacc").sentences == [
        "asked for CUDA memory (device), but the output is for memory of openacc."
    ]


def test_two_ranks_on_one_gpu():
    both = check(made(0, "0000:03:00.0"), made(1, "0000:03:00.0")).sentences
    assert both == [
        "rank 1 on c1 used GPU 0000:03:00.0, but the site's GPU 1 is 0000:41:00.0.",
        "ranks 0 and 1 on c1 used one GPU, 0000:03:00.0; each rank needs its own.",
    ]
    apart = [made(0, "0000:03:00.0"), replace(made(0, "0000:03:00.0"), host="c2", rank=1)]
    assert check(*apart).sentences == [], "the same address on another node is another GPU"
    uuid = bytes(range(16)).hex()
    same, *none = (
        made(0, "0000:03:00.0", uuid=word) for word in (uuid, "0" * 32, b"XX".hex().ljust(32, "0"))
    )
    (sentence,) = check(same, replace(same, host="c2", rank=1)).sentences
    assert sentence.startswith(f"rank 0 on c1 and rank 1 on c2 used one GPU, UUID {uuid}; "), (
        "two containers of one machine"
    )
    assert not any(check(rank, replace(rank, host="c2", rank=1)).sentences for rank in none), (
        "what stands for no UUID"
    )


def test_another_gpu_than_the_sites():
    swapped = [made(0, "0000:41:00.0"), made(1, "0000:03:00.0")]
    assert check(*swapped, pinning="none").sentences == [
        "rank 0 on c1 used GPU 0000:41:00.0, but the site's GPU 0 is 0000:03:00.0.",
        "rank 1 on c1 used GPU 0000:03:00.0, but the site's GPU 1 is 0000:41:00.0.",
    ]
    numbered = check(*swapped, fabric=replace(FABRIC, gpus=(Gpu(), Gpu()))).sentences
    assert all(said.startswith("asked for gpu_local") for said in numbered) and numbered


def test_instances_of_one_gpu():
    name = f"{A100} MIG 1g.5gb"
    ranks = [made(number, "0000:03:00.0", name=name, uuid=f"{number:032x}") for number in (0, 1)]
    sentences = check(*ranks).sentences
    assert (
        f"ranks 0 and 1 on c1 used a GPU instance ({name}); switch MIG off and measure whole GPUs."
        in sentences
    )
    assert (
        sentences[-1]
        == "ranks 0 and 1 on c1 used one GPU, 0000:03:00.0, in 2 instances; each rank needs its "
        "own."
    )


def test_the_kernels_numa_node_of_a_gpu_is_the_sites():
    wrong = replace(FABRIC, gpus=(replace(SITE[0], numa_node=1), SITE[1]))
    (sentence,) = check(fabric=wrong).sentences
    assert sentence.startswith(
        "GPU 0000:03:00.0 of c1 is on NUMA node 0, but the site says 1: correct numa_node of 'gpus' in "
    )
    unknown = {"gpus": {"0000:03:00.0": {"path": PATHS["0000:03:00.0"]}}}
    assert check(made(0, "0000:03:00.0", node=unknown), GOOD[1], fabric=wrong).sentences == [], (
        "the kernel may not know"
    )


def test_under_gpu_local_a_rank_is_where_its_gpu_is():
    away = replace(GOOD[0], init=replace(GOOD[0].init, numa_node=1))
    assert check(away, GOOD[1]).sentences == [
        "asked for gpu_local, but rank 0 on c1 was on cores 0 of NUMA node 1 and its GPU is on 0."
    ]
    assert check(away, GOOD[1], pinning="gpu_remote").sentences == []


@pytest.mark.parametrize(
    ("nic", "words"),
    [
        (
            "mlx5_1",
            "mlx5_0 is nearer to GPU 0000:03:00.0 of c1 than mlx5_1 (mlx5_0 shares a PCI switch "
            "with it, mlx5_1 not even ",
        ),
        ("mlx5_0", ""),
        ("bond0", ""),
    ],
    ids=["another", "nearest", "bond"],
)
def test_the_sites_nic_of_a_gpu_is_its_nearest(nic, words):
    sentences = check(fabric=replace(FABRIC, gpus=(replace(SITE[0], nic=nic), SITE[1]))).sentences
    assert [sentence.startswith(words) for sentence in sentences] == ([True] if words else [])


def test_an_adapter_that_is_no_rail_of_the_fabric_is_not_asked_of():
    rails = (*FABRIC.rails, Rail("mlx5_7"))
    assert check().sentences == [], "mlx5_7 shares a root port with GPU 1 and is no rail"
    (sentence,) = check(fabric=replace(FABRIC, rails=rails)).sentences
    assert "mlx5_7 shares a root port with it, mlx5_1 a NUMA node" in sentence


def test_a_gpu_in_a_case_of_host_memory_is_a_note():
    host = Fabric("ib", "ucx", "cluster", FABRIC.rails)
    assert check(fabric=host) == GpuFinding(
        [], ["ranks 0 and 1 on c1 also used a GPU, although host memory was measured"]
    )
    assert check(make_rank(0), make_rank(1), fabric=host) == GpuFinding()


def test_a_context_on_a_further_gpu_is_noted():
    assert (
        "rank 0 on c1 also had contexts on other GPUs"
        in check(made(0, "0000:03:00.0", "0000:41:00.0"), GOOD[1]).notes
    )


def test_drivers_spell_one_address_in_several_ways_and_what_is_none_is_damage():
    assert rank_records.spell_bus_id("3b:00") == rank_records.spell_bus_id("00000000:3B:00.0")
    with pytest.raises(rank_records.EvidenceError, match=r"'GPU 0' is not a PCI address"):
        made(0, "GPU 0")

"""The GPU a rank used, as the recorder hears it of a driver that the
program has loaded, and the node's GPUs in its sysfs.

No GPU is here: a library of the test's own stands for CUDA's driver, and a folder for /sys.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from programs import compile_c, inside_namespace
from reframe_tests.harness.evidence import gpu_use, rank_records, recorder
from reframe_tests.harness.evidence.gpu_use import (
    HOST_BRIDGE,
    NOTHING,
    NUMA_NODE,
    ROOT_PORT,
    SWITCH,
)
from reframe_tests.harness.evidence.rank_records import RankEvidence, UsedGpu
from reframe_tests.harness.launchers import registry
from synthetic_evidence import STACK
from synthetic_stack import DRIVER
from test_recorder_links import LIBRARY, plant

#: Loads a driver where it is told one, as CUDA's runtime does, and
#: uses it after MPI_Init where it is told so.
PROGRAM = r"""
#include <dlfcn.h>
#include <stdlib.h>
int PMPI_Init(int *, char ***), PMPI_Finalize(void);
int main(void)
{
    void *driver = getenv("DRIVER") ? dlopen(getenv("DRIVER"), RTLD_NOW) : 0;
    int (*begin)(unsigned) = driver ? (int (*)(unsigned))dlsym(driver, "cuInit") : 0;
    if (getenv("DRIVER") && !driver) return 2;
    if (PMPI_Init(0, 0)) return 1;
    if (begin && getenv("STAND_IN_DEVICES")) begin(0);
    return PMPI_Finalize();
}
"""
#: HIP's runtime, as far as the recorder asks it.
HIP = r"""
#include <string.h>
int hipGetDevice(int *device) { *device = 0; return 0; }
int hipDeviceGetPCIBusId(char *to, int size, int device) { strncpy(to, "0000:C1:00.0", (size_t)size); return device; }
int hipDeviceGetName(char *to, int size, int device) { strncpy(to, "AMD Instinct MI250X", (size_t)size); return device; }
"""
A100 = "NVIDIA A100-SXM4-40GB"
FIRST = "0000:03:00.0"
SECOND = "0000:41:00.0"


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gpu")
    compile_c(folder / "libmpi.so", LIBRARY, "-shared", "-fPIC")
    compile_c(folder / "program", PROGRAM, f"-L{folder}", "-lmpi", f"-Wl,-rpath,{folder}")
    compile_c(folder / "libcuda.so.1", DRIVER, "-shared", "-fPIC")
    (folder / "damaged").mkdir()
    compile_c(
        folder / "damaged" / "libcuda.so.1",
        "int cuInit(unsigned flags) { return 0 * (int)flags; }",
        "-shared",
        "-fPIC",
    )
    compile_c(folder / "libamdhip64.so.6", HIP, "-shared", "-fPIC")
    return folder


@pytest.fixture
def run(made: Path, tmp_path: Path) -> Callable[..., RankEvidence]:
    def run_(driver: str = "", **environment: str) -> RankEvidence:
        known = recorder.variables(STACK, registry.known()["srun"])
        loaded = {"DRIVER": str(made / driver)} if driver else {}
        own = {"LD_PRELOAD": str(recorder.build(made)), "MPIBENCH_EVIDENCE": str(tmp_path)}
        variables = {**os.environ, **own, **known, **loaded, **environment}
        done = subprocess.run(
            [made / "program"], env=variables, capture_output=True, timeout=60, check=False
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
        (rank,) = rank_records.read(tmp_path)
        return rank

    return run_


DEVICES = f"0000:03:00.0/{A100}/a,0000:41:00.0/{A100}/b"


ONE = UsedGpu(FIRST, False, A100, "61" * 16)
TWO = UsedGpu(SECOND, True, A100, "62" * 16)


@pytest.mark.parametrize(
    ("current", "active", "chosen", "gpus"),
    [("0", "0", "1", (TWO,)), ("", "0", "0,1", (ONE,)), ("1", "01", "0,1", (TWO, ONE))],
    ids=["the thread's context", "a primary one", "further ones come behind"],
)
def test_the_gpu_of_the_threads_context_is_the_ranks(
    run: Callable[..., RankEvidence],
    current: str,
    active: str,
    chosen: str,
    gpus: tuple[UsedGpu, ...],
) -> None:
    told = {"STAND_IN_CURRENT": current, "STAND_IN_ACTIVE": active, "CUDA_VISIBLE_DEVICES": chosen}
    rank = run("libcuda.so.1", STAND_IN_DEVICES=DEVICES, **told)
    assert (rank.init.gpus, rank.last.gpus) == ((), gpus), "it began after MPI_Init"
    assert rank.environment["CUDA_VISIBLE_DEVICES"] == chosen


@pytest.mark.parametrize(
    ("driver", "environment"),
    [
        ("libcuda.so.1", {}),
        ("libcuda.so.1", {"STAND_IN_DEVICES": ""}),
        ("libcuda.so.1", {"STAND_IN_DEVICES": DEVICES}),
        ("libcuda.so.1", {"STAND_IN_DEVICES": DEVICES, "STAND_IN_CURRENT": "7"}),
        ("damaged/libcuda.so.1", {"STAND_IN_DEVICES": DEVICES}),
        ("libamdhip64.so.6", {}),
    ],
    ids=[
        "never begun",
        "no device",
        "no context",
        "device that is not there",
        "without its functions",
        "HIP without its driver",
    ],
)
def test_a_driver_that_names_none_is_no_gpu(
    run: Callable[..., RankEvidence], driver: str, environment: dict[str, str]
) -> None:
    rank = run(driver, **environment)
    assert rank.last.gpus == ()
    assert (rank.last.gpu_library or "").endswith(driver)


def test_the_nodes_gpus_and_what_is_near_them(made: Path, tmp_path: Path) -> None:
    """Rank 0 on a node whose /sys is the tree of GPUs."""
    plant("gpus", tmp_path / "sys")
    known = {**recorder.variables(STACK, registry.known()["srun"]), "SLURM_LOCALID": "0"}
    words = " ".join(f"{name}={value}" for name, value in known.items())
    start = f"env LD_PRELOAD={recorder.build(made)} MPIBENCH_EVIDENCE={tmp_path} {words}"
    mount = f"mount --rbind {tmp_path}/sys /sys"
    inside_namespace(tmp_path, mount, f"{start} {made / 'program'}")
    (node,) = rank_records.read(tmp_path)
    gpus = node.node_gpus or {}
    adapters = node.adapters or {}
    assert sorted(gpus) == [FIRST, SECOND, "0000:81:00.0"], (
        "no display of another vendor, and no virtual function"
    )
    first = gpus[FIRST]
    assert (first.vendor, first.device, first.numa_node) == ("0x10de", "0x20b0", 0)
    assert (first.current_link_speed, first.current_link_width, first.max_link_width) == (
        "16.0 GT/s PCIe",
        16,
        16,
    )
    assert gpus["0000:81:00.0"].numa_node is None, "-1 is the kernel's word for none"
    assert sorted(adapters) == ["mlx5_0", "mlx5_1", "mlx5_2"], "loopback hangs nowhere"
    levels = {
        (bus_id, name): gpu_use.nearness(
            gpu.path, adapter.path, gpu.numa_node, adapter.numa_node
        ).level
        for bus_id, gpu in gpus.items()
        for name, adapter in adapters.items()
    }
    assert levels[FIRST, "mlx5_0"] == SWITCH
    assert levels[SECOND, "mlx5_1"] == ROOT_PORT
    assert levels[SECOND, "mlx5_2"] == NUMA_NODE
    assert {levels["0000:81:00.0", name] for name in adapters} == {NOTHING}
    assert (
        gpu_use.nearness("pci0000:00/0000:00:01.0/a", "pci0000:00/0000:00:02.0/b", 0).level
        == HOST_BRIDGE
    )
    assert node.kernel["amdgpu driver"] == "6.8.5"

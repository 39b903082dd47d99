"""Job scripts of the template of GPU partitions, held point by point against what four systems document."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

import published_stacks
from catalogue_launches import NCCL, OSU
from job_scripts import fabric_of, listed
from reframe_tests.harness.sites import site
from tiny_site import write_site

#: Stack: what it is in ``published_stacks.TODAY``, and the platform it was built for.
STACKS = {"hpcx-224": "cuda", "openmpi-508": "cuda", "craympich-81": "cuda", "mpich-43": "rocm"}
#: Partition: its stack, fabric, GPUs a node, and what its documentation says the script must have, each with where.
POINTS: dict[str, tuple[str, str, int, dict[str, str]]] = {
    "a100-infiniband": (
        "hpcx-224",
        "hdr200_device",
        4,
        {
            r"#SBATCH --partition=booster$": "JUWELS user documentation, partition of the Booster",
            r"#SBATCH --gres=gpu:4$": "JUWELS user documentation, --gres=gpu:4",
            r"#SBATCH --ntasks-per-node=4$": "one rank a GPU",
            r"--cpu-bind=map_cpu:18,6,42,30 ": "NUMA nodes 3, 1, 7, 5 of six cores each (POP CoE)",
            r"UCX_NET_DEVICES=mlx5_0:1,mlx5_1:1,mlx5_2:1,mlx5_3:1$": "four HDR200 cards (Booster overview)",
            r"UCX_TLS=\S*cuda_copy\S*cuda_ipc": "Open MPI documentation, CUDA: UCX_TLS",
        },
    ),
    "gh200-slingshot": (
        "openmpi-508",
        "ss200_device",
        4,
        {
            r"#SBATCH --gpus-per-node=4$": "CSCS documentation, one rank per GPU",
            r"--cpu-bind=map_cpu:0,72,144,216 ": "rank i on cores 72 i to 72 i + 71 (Alps hardware)",
            r"FI_CXI_DISABLE_HOST_REGISTER=1$": "CSCS documentation, NCCL",
            r"FI_MR_CACHE_MONITOR=userfaultfd$": "CSCS documentation, NCCL",
            r"OMPI_MCA_pml=cm$": "CSCS documentation, Open MPI over libfabric",
        },
    ),
    "mi250x-slingshot": (
        "mpich-43",
        "ss200_device",
        8,
        {
            r"#SBATCH --partition=standard-g$": "LUMI user guide, GPU jobs",
            r"#SBATCH --gpus-per-node=8$": "LUMI user guide, GPU jobs",
            r"select_gpu ROCR_VISIBLE_DEVICES ": "LUMI user guide, select_gpu",
            r"--cpu-bind=map_cpu:49,57,17,25,1,9,33,41 ": "LUMI user guide, CPU_BIND",
            r"select_gpu ROCR_VISIBLE_DEVICES '0 1 2 3 4 5 6 7' ": "LUMI user guide, ROCR_VISIBLE_DEVICES=$SLURM_LOCALID",
        },
    ),
    "p4d-efa": (
        "openmpi-508",
        "efa100_device",
        8,
        {
            r"#SBATCH --gpus-per-node=8$": "AWS samples, ParallelCluster",
            r"FI_EFA_FORK_SAFE=1$": "AWS samples, nccl-tests",
            r"OMPI_MCA_pml=cm$": "AWS samples: not UCX",
        },
    ),
}


def filled() -> dict[str, Any]:
    text = (site.ROOT / "site_configs" / "template" / "gpu_partitions.py").read_text()
    scope: dict[str, Any] = {}
    exec(text.replace("FILL_IN: ", "").replace("--account=...", "--account=abc"), scope)
    system: dict[str, Any] = scope["system"]
    return {**system, "prefix": "/tmp"}


def write_stacks(folder: Path) -> str:
    rows = {name: published_stacks.TODAY[name] for name in STACKS}
    named = published_stacks.write_all(folder, rows=rows)
    for name, platform in STACKS.items():
        path = folder / name / "stack.json"
        programs = {}
        for program in (*OSU, *NCCL):
            there = folder / name / "bin" / program
            there.write_text("#!/bin/sh\n")
            there.chmod(0o755)
            programs[program] = str(there)
        stack = json.loads(path.read_text())
        of_gpus = {"built_with": "its mpicc", "gpu": platform}
        stack["suites"] |= {"osu": {"version": "7.5", **of_gpus}, "nccl_tests": {"version": "2.18.2", **of_gpus}}
        stack["suites"]["mpi4py"] = {"version": "4.1.2", "built_with": "its mpicc"}
        stack["commands"]["mpi4py.bench"] = [sys.executable, "-m", "mpi4py.bench"]
        path.write_text(json.dumps({**stack, "gpu": platform, "binaries": {**stack["binaries"], **programs}}))
    return named


@pytest.fixture(scope="module")
def stacks(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_stacks(tmp_path_factory.mktemp("gpu") / "stacks")


@pytest.mark.parametrize("partition", POINTS)
def test_scripts_are_those_of_the_documentation(partition: str, stacks: str, run_reframe: Any, tmp_path: Path) -> None:
    stack, fabric, gpus, points = POINTS[partition]
    stage = tmp_path / "stage"
    where: dict[str, Any] = {"config": write_site(tmp_path, filled()), "environ": {"MPIBENCH_STACKS": stacks}}
    result = run_reframe(
        *("--dry-run", f"--system=mysystem:{partition}", "-S", "level=smoke", f"--stage={stage}", "--keep-stage-files"),
        *("-p", stack, "-P", "nodes=2", "-P", f"ppn={gpus}", "-P", "pinning=gpu_local"),
        *("-n", f"(OsuCollectives|NcclCollectives)%fabric={fabric}%"),
        **where,
    )
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr
    scripts = {path.parent.name.rpartition("_")[0]: path for path in stage.rglob("rfm_job.sh")}
    assert set(scripts) == {"OsuCollectives", "NcclCollectives"}, result.stdout[-3000:]
    assert {fabric_of(path, result.stdout) for path in scripts.values()} == {fabric}
    text = "\n".join(path.read_text() for path in scripts.values())
    missing = {f"{point} ({source})" for point, source in points.items() if not re.search(point, text, re.MULTILINE)}
    assert missing == set()
    assert re.search(r"osu_allreduce .*-d (cuda|rocm)", text) and re.search(r"all_reduce_perf -b \d+ -e \d+ -f 2 -g 1 ", text)


def test_the_matrix_of_a_gpu_partition_is_listed(stacks: str, run_reframe: Any, tmp_path: Path) -> None:
    """Each memory is a fabric of its own, and what cannot have it is left out."""
    where: dict[str, Any] = {"config": write_site(tmp_path, filled()), "environ": {"MPIBENCH_STACKS": stacks}}
    result = run_reframe("-lC", "-v", "--system=mysystem:a100-infiniband", "-p", "hpcx-224", **where)
    assert result.returncode == 0, result.stdout[-2000:]
    listing = listed(result.stdout)
    assert "measured nowhere" not in result.stdout, "each line has a reason"
    tests = {
        name: set(re.findall(rf"^(\w+) @ .*%fabric={name} ", listing, re.MULTILINE)) for name in ("hdr200", "hdr200_device")
    }
    assert {"OsuPointToPoint", "OsuCollectives", "NcclCollectives", "NcclSendRecv"} <= tests["hdr200_device"]
    assert not {name for name in tests["hdr200_device"] if name.startswith(("Imb", "Wire", "Mpi4py", "Stream"))}
    assert not {name for name in tests["hdr200"] if name.startswith("Nccl")}
    of_pairs = " ".join(line for line in listing.splitlines() if line.startswith("Pair"))
    maps = set(re.findall(r"%fabric=(\w+) %nodes=(\d+) %ppn=(\w+)", of_pairs))
    assert ("nvlink", "1", "gpu") in maps and ("hdr200_device", "2", "1") in maps, maps
    assert {(nodes, ppn) for _, nodes, ppn in maps} == {("1", "gpu"), ("2", "1")}, "one GPU a node, or those of one node"
    assert "OsuOneSided" in tests["hdr200"] - tests["hdr200_device"]
    assert "stack hpcx-224: its MPI does no one-sided operations in CUDA memory (device)" in result.stdout
    assert {"CrossCheck", "OsuParallelTransfer"} <= tests["hdr200"] - tests["hdr200_device"]
    assert "two suites are compared, and IMB does not measure CUDA memory (device)" in result.stdout
    assert "no benchmark of group transfer_osu in this stack measures CUDA memory (device) and says so" in result.stdout
    assert not re.search(r"^CrossCheck @ .*%nodes=2 %ppn=2", listing, re.MULTILINE), "two suites have one pair of ranks"


def test_cpus_that_no_node_has_are_one_sentence(run_reframe: Any, tmp_path: Path) -> None:
    system = filled()
    system["partitions"][2]["extras"]["gpus"]["of_node"][0]["cpus"] = "900-907"
    result = run_reframe("-l", "--system=mysystem:mi250x-slingshot", config=write_site(tmp_path, system))
    assert result.returncode == 1 and "Traceback" not in result.stdout + result.stderr
    assert "mysystem:mi250x-slingshot: no node has CPUs 900-907: correct cpus of 'gpus' in" in result.stdout + result.stderr


def test_two_gpus_of_a_node_are_mapped_and_not_in_turn(stacks: str, run_reframe: Any, tmp_path: Path) -> None:
    """``ppn=gpu`` is as many ranks as ``ppn=2`` there; probes without messages are in no memory of GPUs."""
    system = filled()
    (partition,) = (row for row in system["partitions"] if row["name"] == "a100-infiniband")
    partition["devices"][0]["num_devices"] = 2
    partition["extras"]["gpus"]["of_node"] = partition["extras"]["gpus"]["of_node"][:2]
    where: dict[str, Any] = {"config": write_site(tmp_path, system), "environ": {"MPIBENCH_STACKS": stacks}}
    words = ("--system=mysystem:a100-infiniband", "-p", "hpcx-224", "-n", "PairMap|PairTurn|Placement")
    result = run_reframe("-lC", "-v", *words, **where)
    assert result.returncode == 0, result.stdout[-2000:]
    cases = set(re.findall(r"- (\w+) %fabric=(\w+) %nodes=1 %ppn=gpu", result.stdout))
    assert ("PairMap", "nvlink") in cases
    assert ("PairTurn", "nvlink") not in cases and "the one pair of a node's two GPUs" in result.stdout
    assert not {fabric for _, fabric in re.findall(r"- (Placement) %fabric=(\w+)", result.stdout)} & {"nvlink", "hdr200_device"}

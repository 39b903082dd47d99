"""Job scripts of the template of GPU partitions, held point by
point against what four systems document.
"""

import json
import re
import sys

import pytest

import synthetic_fabric
import synthetic_stack
from programs import fabric_of
from reframe_tests.harness.sites import site
from synthetic_site import write_site
from synthetic_stack import NCCL, OSU, sealed

#: Stack: what it is in ``synthetic_stack.TODAY``, and the platform it was built for.
STACKS = {"hpcx-224": "cuda", "openmpi-508": "cuda", "craympich-81": "cuda", "mpich-43": "rocm"}
#: Partition: its stack, fabric, GPUs a node, and what its documentation
#: says the script must have, each with where.
POINTS = {
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


def filled():
    text = (site.ROOT / "site_configs" / "template" / "gpu_partitions.py").read_text()
    scope = {}
    exec(text.replace("FILL_IN: ", "").replace("--account=...", "--account=abc"), scope)
    system = scope["system"]
    return {**system, "prefix": "/tmp"}


@pytest.fixture(scope="module")
def stacks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gpu") / "stacks"
    rows = {name: synthetic_stack.TODAY[name] for name in STACKS}
    named = synthetic_stack.write_all(folder, rows=rows)
    for name, platform in STACKS.items():
        stack = json.loads((folder / name / "stack.json").read_text())
        stack["gpu"] = platform
        for program in (*OSU, *NCCL):
            there = folder / name / "bin" / program
            there.write_text("#!/bin/sh\n")
            there.chmod(0o755)
            stack["binaries"][program] = str(there)
        built = {"version": "7.5", "built_with": "its mpicc"}
        stack["suites"] |= {key: {**built, "gpu": platform} for key in ("osu", "nccl_tests")}
        stack["suites"]["mpi4py"] = built
        stack["commands"]["mpi4py.bench"] = [sys.executable, "-m", "mpi4py.bench"]
        (folder / name / "stack.json").write_text(json.dumps(sealed(stack)))
    return named


@pytest.fixture
def run(stacks, run_reframe, tmp_path):
    """ReFrame on a partition of a filled system, with the stage kept; its output."""

    def run(words, partition="a100-infiniband", system=None):
        result = run_reframe(
            *words.split(),
            f"--system=mysystem:{partition}",
            f"--stage={tmp_path / 'stage'}",
            "--keep-stage-files",
            config=write_site(tmp_path, system or filled()),
            environ={"MPIBENCH_STACKS": stacks},
        )
        assert result.returncode == 0, result.stdout[-3000:] + result.stderr
        return result.stdout

    return run


@pytest.mark.parametrize("partition", POINTS)
def test_scripts_are_those_of_the_documentation(partition, run, tmp_path):
    stack, fabric, gpus, points = POINTS[partition]
    words = f"--dry-run -S level=smoke -p {stack} -P nodes=2 -P ppn={gpus} -P pinning=gpu_local"
    said = run(f"{words} -n (OsuCollectives|NcclCollectives)%fabric={fabric}%", partition)
    scripts = list((tmp_path / "stage").rglob("rfm_job.sh"))
    assert len(scripts) == 2 and {fabric_of(path, said) for path in scripts} == {fabric}
    text = "\n".join(path.read_text() for path in scripts)
    ours = {r"osu_allreduce .*-d (cuda|rocm)": "OSU", r"all_reduce_perf -b \d+ -e \d+ -f 2": "NCCL"}
    sources = {**points, **ours}.items()
    assert [row for row in sources if not re.search(row[0], text, re.MULTILINE)] == []


def test_ranks_are_told_the_switches_of_the_rails(run, tmp_path):
    """A file of what was discovered, of which the partition's rails are a part."""
    system = filled()
    (partition,) = (row for row in system["partitions"] if row["name"] == "a100-infiniband")
    extras = partition["extras"]
    extras["node_counts"] = [4]
    for gpu in extras["gpus"]["of_node"]:
        gpu.pop("nic", None)
    fabric = extras["fabrics"]["hdr200"]
    fabric["rails"] = fabric["rails"][2:3]
    (tmp_path / "net.txt").write_text(synthetic_fabric.fat_trees(32, 5).text())
    words = f"--dry-run -p hpcx-224 -n PairMap%fabric=hdr200% -S switches={tmp_path}/net.txt"
    run(words, system=system)
    (script,) = (tmp_path / "stage").rglob("rfm_job.sh")
    assert re.search(r"n0017 \S*spine\S*\.r2leaf2$", script.read_text(), re.MULTILINE)
    assert "--switches switches.txt" in script.read_text()

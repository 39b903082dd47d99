"""Job scripts of the template of GPU partitions, held point by
point against what four systems document.
"""

import json
import re
import sys

import pytest
import yaml

import synthetic_fabric
import synthetic_stack
from folders import DATA, write
from programs import fabric_of
from reframe_tests.harness.sites import site
from synthetic_site import write_site
from synthetic_stack import NCCL, OSU, sealed

#: Stack: what it is in ``synthetic_stack.TODAY``, and the platform it was built for.
STACKS = {"hpcx-224": "cuda", "openmpi-508": "cuda", "craympich-81": "cuda", "mpich-43": "rocm"}
#: Partition: its stack, fabric, GPUs a node, and what its documentation says the script must have,
#: each with where.
POINTS = yaml.safe_load((DATA / "gpu_job_scripts.yaml").read_text())


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
            there = write(folder / name / "bin" / program, "#!/bin/sh\n", executable=True)
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
        return run_reframe(
            f"--system=mysystem:{partition}",
            words=f"--stage={tmp_path / 'stage'} --keep-stage-files {words}",
            config=write_site(tmp_path, system or filled()),
            environ={"MPIBENCH_STACKS": stacks},
            ended=0,
        ).stdout

    return run


@pytest.mark.parametrize("partition", POINTS)
def test_scripts_are_those_of_the_documentation(partition, run, tmp_path):
    stack, fabric, gpus, points = POINTS[partition].values()
    words = f"--dry-run -S level=smoke -p {stack} -P nodes=2 -P ppn={gpus} -P pinning=gpu_local"
    said = run(f"{words} -n (OsuCollectives|NcclCollectives)%fabric={fabric}%", partition)
    scripts = list((tmp_path / "stage").rglob("rfm_job.sh"))
    assert len(scripts) == 2 and {fabric_of(path, said) for path in scripts} == {fabric}
    text = "\n".join(path.read_text() for path in scripts)
    ours = (
        ("OSU", r"osu_allreduce .*-d (cuda|rocm)"),
        ("NCCL", r"all_reduce_perf -b \d+ -e \d+ -f 2"),
    )
    assert [row for row in (*points, *ours) if not re.search(row[1], text, re.MULTILINE)] == []


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

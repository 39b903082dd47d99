"""A tuning for a machine nobody has here: the job scripts of 64 ranks, 8
a node, for the site of a filled-in template.
"""

import re
from pathlib import Path

import synthetic_stack
from folders import write
from reframe_tests.harness.mpis import registry
from reframe_tests.harness.sites.site import ROOT
from synthetic_tuning import TuningProject

SITE = "lagoon"
STACK = "mpich-43"
WORDS = (
    f"tune --system {SITE}:hdr --stack {STACK} --fabric hdr200 --nodes 8 --ppn 8 --pinning none "
    "--collective Alltoallv --dry-run"
)
NODE = 'describe(sockets=2, cores_per_socket=8), "extras": {'


#: The template's words, and what a site has there.
FILLED = {
    '"mysystem"': f'"{SITE}"',
    "\n_SHM =": "\nfrom reframe_tests.harness.machine.topology import describe\n\n_SHM =",
    "FILL_IN: regular expression of the login nodes' names": "login[0-9]+",
    "FILL_IN: mlx5_0 (ibv_devices)": "mlx5_0",
    "FILL_IN: Slurm partition": "thin",
    "FILL_IN: account to charge": "fabrics",
    '"extras": {': f'"processor": {NODE}',
}


def fill_in(project):
    """The template, as its own text says."""
    text = (ROOT / "site_configs" / "template" / "modern.py").read_text()
    for word, ours in (
        *FILLED.items(),
        ("FILL_IN: folder all nodes see", str(project.top / "results")),
    ):
        text = text.replace(word, ours)
    text = re.sub('_NUMA = ".*"', "_NUMA = 0", text).replace("FILL_IN: ", "")
    write(project.top / "site_configs" / SITE / "system.py", text)


def test_a_dry_run_writes_the_jobs_of_64_ranks(tmp_path):
    project = TuningProject(tmp_path / "project")
    fill_in(project)
    rows = {STACK: synthetic_stack.TODAY[STACK]}
    stacks = synthetic_stack.write_all(tmp_path / "stacks", mpi4py=True, rows=rows)
    status, said = project.run(*WORDS.split(), environ={"MPIBENCH_STACKS": stacks})
    assert status == 0, said
    tuning = registry.find("mpich").tuning
    known = [each.word for each in tuning.find("Alltoallv").algorithms]
    assert f"Alltoallv: {len(known)} algorithms" in said
    assert re.search(r"about \d+ s on 8 nodes for the first round", said)
    [path] = re.findall(r"^job: (.*)$", said, re.M)
    text = Path(path).read_text()
    assert {"#SBATCH --ntasks=64", "#SBATCH --ntasks-per-node=8"} <= set(text.splitlines()), text
    for word in known:
        [launch] = re.findall(rf"launch alltoallv_{word} .*?Alltoallv\n", text, re.S)
        assert all(
            f"{name}={value}" in launch for name, value in tuning.force("Alltoallv", word).items()
        ), launch
        assert f"--algorithm {word} " in launch and ",1048576 " in launch
    assert not list(project.folder(SITE, STACK).rglob("state.json")), (
        "nothing is remembered of what was not measured"
    )

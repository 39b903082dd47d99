"""The tests below MPI as ReFrame lists and dry-runs them: where they are
left out and why, and the job that they would run.
"""

import itertools
import re

import pytest


def test_fabrics_that_a_program_does_not_know_are_left_out_and_say_why(run_here):
    said = run_here("-l", "-v", "--system=minicluster", only="cascade.py").stdout
    listed = set(re.findall(r"^- (\w+) %fabric=(\w+)", said, re.MULTILINE))
    tests = ("WireTcp", "TransportUcx", "TransportLibfabric")
    assert listed == {(test, name) for test in tests for name in ("eth1g", "eth10g", "eth40g")}
    for test, fabric, why in (
        ("WireRdma", "eth1g", "eth1g has transport tcp, without an RDMA adapter"),
        ("WireTcp", "shm", "shm is inside a node, but server and client run on two"),
        ("WireTcpMap", "eth1g", "one pair of nodes has nothing to be compared with"),
    ):
        assert f"left out: {test} %fabric={fabric} @minicluster:{fabric}: {why}" in said


@pytest.fixture
def job(run_here, sandbox):
    """The job script of a dry run of one test for the white paper's EDR, which nobody here has, on
    two nodes and on four.
    """
    path = sandbox / "site_configs" / "openhpc-mini" / "system.py"
    two = '"node_counts": [2]'
    text = path.read_text()
    assert two in text
    path.write_text(text.replace(two, '"node_counts": [2, 4]'))

    def write(test, *options):
        words = f"--dry-run --system=openhpc-mini -S level=smoke -n {test}%"
        run_here(*options, words=words, only="cascade.py", ended=0)
        [script] = sandbox.rglob("rfm_job.sh")
        return script.read_text()

    return write


def test_rdma_programs_take_the_port_and_meet_over_ip(job):
    text = job("WireRdma", "-S", "repeats=2")
    assert "--exclusive" in text and "--nodes=2" in text and "for repeat in 1 2; do" in text
    steps = [line for line in text.splitlines() if " task " in line]
    programs = [f"ib_{verb}_{kind}" for kind in ("bw", "lat") for verb in ("write", "read", "send")]
    assert len(steps) == 2 * len(programs)
    for name in programs:
        words = f" task {name}_8.$repeat mlx5_0/1@ib0 120 {name} -d mlx5_0 -i 1 "
        assert any(words in line for line in steps)


def test_a_map_of_the_wire_is_a_step_for_each_direction_of_a_round(run_here, sandbox, job):
    text = job("WireRdmaMap", "-S", "orders=1")
    assert "--exclusive" in text and "--ntasks=4" in text and "scontrol show topology" in text
    steps = [line.split()[1:] for line in text.splitlines() if line.startswith("step map/")]
    directions = [f"map/{number}.{phase}" for number in (1, 2, 3) for phase in (1, 2)]
    assert [name for name, _ in steps] == directions
    met = [tuple(map(int, pair.split("-"))) for _, pairs in steps for pair in pairs.split(",")]
    assert sorted(met) == [*itertools.permutations(range(4), 2)]
    words = "--dry-run --system=openhpc-mini -n WireRdmaMap -S nodes=2"
    refused = run_here(words=words, only="cascade.py", ended=1)
    assert "give 3 or more" in refused.stdout, refused.stdout[-2000:]

"""The mini-cluster really up: Slurm, names, cores, rates."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from live_cluster import LiveCluster, wait_for
from mpibench.cluster import namespaces, plan, state

#: Payload limit of eth1g in MB/s; what a stream may show above it: the bucket, and rounding.
LIMIT, EXCESS = 117.69, 1.03


def test_status_is_healthy_and_names_every_link(cluster: LiveCluster) -> None:
    shown = cluster.good("status")
    links = {tuple(line.split()[:2]): line.split()[2:] for line in shown.splitlines() if " up " in line}
    assert set(links) == {(node, fabric.name) for node in ("mc-head", "c1", "c2") for fabric in plan.FABRICS}
    assert links["c1", "eth1g"] == ["up", "984400Kbit"]
    assert links["c2", "eth40g"] == ["up", "unshaped"]
    assert "no fault in force" in shown


def test_up_again_changes_nothing(cluster: LiveCluster) -> None:
    before = cluster.state()
    assert "up already" in cluster.good("up")
    assert cluster.state() == before


def test_up_with_other_wishes_is_refused(cluster: LiveCluster) -> None:
    for words in (("--nodes", "3"), ("--layout", "westmere"), ("--share", "/dev/shm")):
        done = cluster("up", *words)
        assert (done.returncode, "down first" in done.stderr) == ((0, False) if words[0] == "--share" else (2, True))


def test_two_nodes_run_a_job_and_bind_to_different_cores(cluster: LiveCluster) -> None:
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("[cores] this machine has one core")
    show = "echo $(hostname) $(grep Cpus_allowed_list /proc/self/status)"
    bound = ("srun", "-N", "2", "--ntasks-per-node=1", "--cpu-bind=cores")
    lines = cluster.on(plan.HEAD, *bound, "sh", "-c", show).splitlines()
    cores = {line.split()[0]: line.split()[-1] for line in lines}
    assert set(cores) == {"c1", "c2"}
    assert cores["c1"] != cores["c2"]
    lines = cluster.on(plan.HEAD, "srun", "-N", "2", "--ntasks-per-node=2", "sh", "-c", show).splitlines()
    assert len({tuple(line.split()) for line in lines}) == 4
    # What an mpirun starts once per node keeps the whole node for the ranks it will start.
    lines = cluster.on(plan.HEAD, "srun", "-N", "2", "--ntasks-per-node=1", "sh", "-c", "nproc").splitlines()
    assert lines == [str(len(cluster.state().plan.host_cpus))] * 2


def test_accounting_knows_a_finished_job(cluster: LiveCluster) -> None:
    job = cluster.on(
        plan.HEAD, "sbatch", "--parsable", "-o", "/dev/null", "-p", "eth10g", "-N", "2", "--wrap", "exit 3"
    ).strip()

    def finished() -> bool:
        words = ("sacct", "-n", "-P", "-X", "-j", job, "-o", "state,exitcode,nodelist,partition")
        return cluster.ask(*words).strip() == "FAILED|3:0|c[1-2]|eth10g"

    assert wait_for(finished)


def test_slurm_and_the_kernel_have_what_they_were_told(cluster: LiveCluster) -> None:
    text = cluster.on(plan.HEAD, "scontrol", "show", "partition")
    assert text.count("OverSubscribe=EXCLUSIVE") == len(plan.DATA_FABRICS), "jobs do not share a node"
    assert {"pmi2", "pmix"} <= set(cluster.on(plan.HEAD, "srun", "--mpi=list").split()), "for every MPI"
    assert "can not load PMIx library" not in (cluster.runtime / "log/slurmd-c1.log").read_text()
    # tc takes a wrong clock, and so a bucket of 246 bytes, where it cannot read /proc/net/psched.
    words = cluster.on("c1", "tc", "class", "show", "dev", "eth1g").split()
    assert int(words[words.index("burst") + 1].removesuffix("b")) == pytest.approx(5_000, rel=0.05)
    routes = cluster.on("c2", "ip", "route", "show").splitlines()
    assert len(routes) == len(plan.FABRICS) and all("congctl cubic" in line for line in routes)


def test_nodes_have_names_addresses_and_private_places(cluster: LiveCluster) -> None:
    assert cluster.on("c2", "hostname").strip() == "c2"
    assert "10.61.10.1" in cluster.on("c2", "getent", "hosts", "c1-eth10g")
    for place in ("/tmp", "/dev/shm", "/run"):
        cluster.on("c1", "sh", "-c", f"echo mine > {place}/mpibench-private")
        assert cluster("exec", "--node", "c2", "--", "cat", f"{place}/mpibench-private").returncode != 0
        assert not Path(place, "mpibench-private").exists()
    assert set(cluster.on("c1", "ls", "/sys/class/net").split()) >= {"lo", *(fabric.name for fabric in plan.FABRICS)}


def test_home_and_checkout_are_the_same_everywhere(cluster: LiveCluster) -> None:
    for node in ("mc-head", "c1", "c2"):
        assert cluster.on(node, "cat", str(Path(plan.__file__))) == Path(plan.__file__).read_text()
        assert cluster.on(node, "pwd").strip() == str(Path.home())


def test_exec_passes_status_input_and_environment_on(cluster: LiveCluster) -> None:
    assert cluster("exec", "--", "sh", "-c", "exit 7").returncode == 7
    assert cluster("exec", "--", "sh", "-c", "kill -9 $$").returncode == 137
    with cluster.begin("exec", "--", "env") as process:
        shown = process.communicate()[0]
    assert f"{state.RUNTIME_VARIABLE}=" in shown
    assert "TMPDIR=" not in shown
    done = cluster("exec", "--", "no-such-program")
    assert (done.returncode, "No such file" in done.stderr) == (2, True)
    assert "c1, c2" in cluster("exec", "--node", "c7", "--", "true").stderr


def test_a_killed_exec_takes_its_program_along(cluster: LiveCluster) -> None:
    init = cluster.state().nodes["c1"]
    process = cluster.begin("exec", "--node", "c1", "--", "sleep", "1000")
    assert wait_for(lambda: "sleep" in namespaces.processes_of(init).values())
    process.kill()
    process.communicate()
    assert wait_for(lambda: "sleep" not in namespaces.processes_of(init).values())


def test_daemons_belong_to_their_nodes_init_and_to_nobody_outside(cluster: LiveCluster) -> None:
    # An orphan that goes to the machine's own process 1 outlives the cluster until that one looks.
    for name, init in cluster.state().nodes.items():
        inside = namespaces.processes_of(init)
        for pid in set(inside) - {init.pid}:
            text = Path(f"/proc/{pid}/stat").read_text()
            assert int(text[text.rindex(")") + 2 :].split()[1]) in inside, f"{inside[pid]} on {name}"


def test_a_stream_goes_over_its_fabric_at_no_more_than_its_rate(cluster: LiveCluster) -> None:
    def sent(fabric: str) -> int:
        return int(cluster.on("c1", "cat", f"/sys/class/net/{fabric}/statistics/tx_bytes"))

    before = {fabric: sent(fabric) for fabric in plan.DATA_FABRICS}
    rate = cluster.reaches("eth1g", LIMIT / 2)
    grown = {fabric: sent(fabric) - before[fabric] for fabric in plan.DATA_FABRICS}
    assert grown["eth1g"] > 32 << 20
    assert max(grown["eth10g"], grown["eth40g"]) < 100_000
    assert LIMIT / 2 < rate < LIMIT * EXCESS
    assert cluster.reaches("eth10g", LIMIT * EXCESS, 256) > LIMIT * EXCESS

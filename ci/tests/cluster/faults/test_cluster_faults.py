"""Faults on a real mini-cluster: each does what it says, is shown by `status`, spares the rest, and heals."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from live_cluster import LiveCluster, wait_for
from mpibench.cluster import namespaces, plan, state
from reframe_tests.harness.stacks.stack import Stack

LIMIT, EXCESS = 117.69, 1.03


def broken(cluster: LiveCluster) -> str:
    """What `status` says of a cluster that must not be healthy."""
    done = cluster("status")
    assert done.returncode == 1, done.stdout
    return done.stdout


def names_on(cluster: LiveCluster, node: str) -> set[str]:
    return set(namespaces.processes_of(cluster.state().nodes[node]).values())


def test_link_down_takes_one_link_only(cluster: LiveCluster) -> None:
    cluster.good("fault", "link-down", "c2", "eth1g")
    shown = [line.split()[:3] for line in broken(cluster).splitlines() if " down " in line]
    assert shown == [["c2", "eth1g", "down"]]
    assert cluster.on("c2", "cat", "/sys/class/net/eth1g/carrier").strip() == "0"
    # Slurm's own network still works, and so do the other fabrics.
    assert sorted(cluster.on(plan.HEAD, "srun", "-N", "2", "hostname").split()) == ["c1", "c2"]
    assert cluster.stream("eth10g") > 0
    cluster.good("fault", "clear")
    assert cluster.reaches("eth1g", LIMIT / 2) > LIMIT / 2


def test_slow_link_leaves_the_fraction(cluster: LiveCluster) -> None:
    cluster.good("fault", "slow-link", "eth1g")
    assert "246100Kbit" in broken(cluster)
    assert LIMIT / 8 < cluster.reaches("eth1g", LIMIT / 8, 16) < LIMIT / 4 * EXCESS
    cluster.good("fault", "clear")
    assert cluster.reaches("eth1g", LIMIT / 2) > LIMIT / 2


def test_slow_link_gives_an_unshaped_fabric_a_rate_and_takes_it_away(cluster: LiveCluster) -> None:
    cluster.good("fault", "slow-link", "eth40g", "--fraction", "0.01")
    assert cluster.stream("eth40g", 16) < 0.01 * 40 * LIMIT * EXCESS
    cluster.good("fault", "clear")
    assert "htb" not in cluster.on("c1", "tc", "qdisc", "show", "dev", "eth40g")


def test_police_drops_packets(cluster: LiveCluster) -> None:
    def sent_again() -> int:
        lines = cluster.on("c1", "cat", "/proc/net/snmp").splitlines()
        names, values = (line.split() for line in lines if line.startswith("Tcp:"))
        return int(values[names.index("RetransSegs")])

    before = sent_again()
    cluster.good("fault", "police", "eth1g")
    assert cluster.stream("eth1g", 8) < LIMIT / 2 * EXCESS
    assert sent_again() > before
    assert "police eth1g 0.5" in broken(cluster)


def test_kill_slurmd_is_seen_and_cleared(cluster: LiveCluster) -> None:
    cluster.good("fault", "kill-slurmd", "c2")
    assert "slurmd" not in names_on(cluster, "c2")
    assert "slurmd does not run" in broken(cluster)
    assert "no slurmd runs on c2" in cluster("fault", "kill-slurmd", "c2").stderr
    cluster.good("fault", "clear")
    assert sorted(cluster.on(plan.HEAD, "srun", "-N", "2", "hostname").split()) == ["c1", "c2"]


def test_kill_node_takes_its_processes_and_cables_and_heal_makes_a_new_one(cluster: LiveCluster) -> None:
    before = cluster.state()
    inside = [made for pid in namespaces.processes_of(before.nodes["c2"]) if (made := state.Process.observe(pid))]
    cluster.good("fault", "kill-node", "c2")
    assert wait_for(lambda: not any(process.alive for process in inside))
    assert wait_for(lambda: not any(name.startswith("c2.") for name in namespaces.interfaces(before.init)))
    assert "c2       dead" in broken(cluster)
    assert "node c2 is dead" in cluster("exec", "--node", "c2", "--", "true").stderr
    said = cluster.good("fault", "clear")
    assert "node c2 is back" in said
    assert sorted(cluster.on(plan.HEAD, "srun", "-N", "2", "hostname").split()) == ["c1", "c2"]
    assert LIMIT / 2 < cluster.reaches("eth1g", LIMIT / 2) < LIMIT * EXCESS


def test_slurm_takes_a_dead_node_out_and_does_not_start_the_job_again(cluster: LiveCluster) -> None:
    words = ("sbatch", "--parsable", "--no-requeue", "-N2", "-o/dev/null", "--wrap", "srun sleep 1000")
    job = cluster.on(plan.HEAD, *words).strip()
    assert wait_for(lambda: "sleep" in names_on(cluster, "c2"))
    cluster.good("fault", "kill-node", "c2")

    def accounted() -> str:
        return cluster.ask("sacct", "-n", "-P", "-X", "-D", "-j", job, "-o", "state").strip()

    assert wait_for(lambda: accounted() == "NODE_FAIL"), accounted()
    assert any(word in broken(cluster) for word in ("down", "completing"))


def test_full_disk_is_full_on_every_node_and_hides_nothing_for_good(cluster: LiveCluster, visible: Path) -> None:
    stage = visible
    (stage / "precious").write_text("kept")
    cluster.good("fault", "full-disk", str(stage), "--free-kib", "32")
    fill = f"dd if=/dev/zero of={stage}/$(hostname) bs=20k count=1"
    assert cluster("exec", "--node", "c1", "--", "sh", "-c", fill).returncode == 0
    second = cluster("exec", "--node", "c2", "--", "sh", "-c", fill)
    assert second.returncode != 0
    assert "No space left on device" in second.stderr
    assert cluster.on(plan.HEAD, "ls", str(stage)).split() == ["c1", "c2"]
    assert [path.name for path in stage.iterdir()] == ["precious"]
    cluster.good("fault", "clear")
    assert cluster.on("c2", "ls", str(stage)).split() == ["precious"]


def seconds_off(cluster: LiveCluster, node: str) -> float:
    return float(cluster.on(node, "date", "+%s")) - time.time()


def test_clock_jump_is_on_one_node_and_jobs_see_it(cluster: LiveCluster) -> None:
    cluster.good("fault", "clock-jump", "c1", "--seconds", "100")
    assert seconds_off(cluster, "c1") == pytest.approx(100, abs=10)
    assert seconds_off(cluster, "c2") == pytest.approx(0, abs=10)
    lines = cluster.on(plan.HEAD, "srun", "-N", "2", "sh", "-c", "echo $(hostname) $(date +%s)").splitlines()
    clocks = {line.split()[0]: int(line.split()[1]) for line in lines}
    assert clocks["c1"] - clocks["c2"] == pytest.approx(100, abs=10)
    cluster.good("fault", "clock-jump", "c1", "--seconds", "-50")
    assert seconds_off(cluster, "c1") == pytest.approx(-50, abs=10)
    cluster.good("fault", "clear")
    assert seconds_off(cluster, "c1") == pytest.approx(0, abs=10)


def test_a_clock_far_off_makes_munge_refuse_the_node(cluster: LiveCluster) -> None:
    cluster.good("fault", "clock-jump", "c1")
    done = cluster("exec", "--", "srun", "--immediate=5", "-w", "c1", "hostname")
    assert done.returncode != 0
    cluster.good("fault", "clear")
    assert cluster.on(plan.HEAD, "srun", "-w", "c1", "hostname").strip() == "c1"


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (("link-down", "c9", "eth1g"), "c1, c2"),
        (("link-down", "c1", "ib0"), "eth1g"),
        (("slow-link", "eth1g", "--fraction", "0"), "above 0, at most 1"),
        (("stop-rank", "c1"), "no MPI process runs on c1"),
        (("full-disk", "/etc/hosts"), "name an existing directory"),
    ],
)
def test_impossible_faults_are_refused_and_change_nothing(cluster: LiveCluster, words: tuple[str, ...], wanted: str) -> None:
    done = cluster("fault", *words)
    assert (done.returncode, wanted in done.stderr) == (2, True), done.stderr
    cluster.good("status")


def test_a_second_fault_of_a_cable_is_refused_and_the_first_stays(cluster: LiveCluster) -> None:
    cluster.good("fault", "lossy-cable", "c2", "eth1g")
    assert "such a fault already" in cluster("fault", "delay", "c2", "eth1g").stderr
    init = cluster.state().init
    assert "relay2-eth1g" in namespaces.processes_of(init).values() and "ra2-eth1g" in namespaces.interfaces(init)
    assert broken(cluster).count("fault in force") == 1
    cluster.good("fault", "clear")
    assert "ra2-eth1g" not in namespaces.interfaces(init)
    assert cluster.reaches("eth1g", LIMIT / 2) > LIMIT / 2


@pytest.mark.parametrize("name", ["slurmctld", "slurmdbd", "mariadbd", "munged"])
def test_heal_brings_a_daemon_back_that_died_on_its_own(cluster: LiveCluster, name: str) -> None:
    job = cluster.on(plan.HEAD, "sbatch", "--parsable", "-o/dev/null", "--wrap", "true").strip()
    words = ("sacct", "-n", "-X", "-j", job, "-o", "state")
    assert wait_for(lambda: "COMPLETED" in cluster.ask(*words))
    for pid, found in namespaces.processes_of(cluster.state().nodes[plan.HEAD]).items():
        if found == name:
            os.kill(pid, signal.SIGKILL)
    assert f"{name} does not run" in broken(cluster)
    cluster.good("fault", "clear")
    assert wait_for(lambda: "COMPLETED" in cluster.ask(*words))


def test_faults_add_up_and_heal_together(cluster: LiveCluster) -> None:
    cluster.good("fault", "link-down", "c1", "eth10g")
    cluster.good("fault", "slow-link", "eth1g")
    cluster.good("fault", "kill-node", "c1")
    shown = broken(cluster)
    assert shown.count("fault in force") == 3
    said = cluster.good("fault", "clear").splitlines()
    assert [line.split()[1] for line in said if line.startswith("cleared")] == ["kill-node", "slow-link", "link-down"]
    assert "no fault in force" in cluster.good("status")
    assert "cleared" not in cluster.good("fault", "clear"), "a second time changes nothing"
    assert sorted(cluster.on(plan.HEAD, "srun", "-N", "2", "hostname").split()) == ["c1", "c2"]


#: Two ranks that agree every 50 ms to go on, until a file is there.
AGREE = """
import os, sys, time
from mpi4py import MPI
while not MPI.COMM_WORLD.bcast(os.path.exists(sys.argv[1])):
    time.sleep(0.05)
print("rank", MPI.COMM_WORLD.rank, "agreed")
"""


def test_a_stopped_rank_hangs_its_job_until_it_goes_on(
    cluster: LiveCluster, visible: Path, require_stack: Callable[[str], Stack]
) -> None:
    stack = require_stack("mpich-wheels")
    paths = [f"{name}={':'.join(map(str, folders))}" for name, folders in stack.prepend_path.items() if name != "PATH"]
    chosen = ["UCX_NET_DEVICES=eth1g", "UCX_TLS=tcp,self,sm", *(f"{key}={value}" for key, value in stack.env_vars.items())]
    go = visible / "go"
    program = [stack.commands["mpi4py.bench"][0], "-c", AGREE, str(go)]
    job = cluster.begin("exec", "--", "env", *paths, *chosen, "srun", "-N2", "--mpi=pmi2", *program)
    assert wait_for(lambda: cluster("fault", "stop-rank", "c2").returncode == 0)
    victim = cluster.state().faults[0]["what"]["pid"]
    assert Path(f"/proc/{victim}/stat").read_text().rpartition(")")[2].split()[0] == "T"
    assert victim in namespaces.processes_of(cluster.state().nodes["c2"])
    go.touch()
    with pytest.raises(subprocess.TimeoutExpired):
        job.wait(2)
    cluster.good("fault", "clear")
    out, _ = job.communicate(timeout=120)
    assert job.returncode == 0, out
    assert sorted(line for line in out.splitlines() if "agreed" in line) == ["rank 0 agreed", "rank 1 agreed"]

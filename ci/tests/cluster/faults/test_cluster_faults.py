"""Faults on a real mini-cluster: each does what it says, is shown
by `status`, spares the rest, and heals.
"""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from mpibench_cluster import namespaces, plan, state
from programs import wait_for

LIMIT = 117.69
EXCESS = 1.03


def broken(cluster):
    """What `status` says of a cluster that must not be healthy."""
    done = cluster("status")
    assert done.returncode == 1, done.stdout
    return done.stdout


def test_slow_link_leaves_the_fraction(cluster):
    """An unshaped fabric gets a rate, and it is taken away again."""
    cluster.good("fault", "slow-link", "eth1g")
    cluster.good("fault", "slow-link", "eth40g", "--fraction", "0.01")
    assert "246100Kbit" in broken(cluster)
    assert LIMIT / 8 < cluster.reaches("eth1g", LIMIT / 8, 16) < LIMIT / 4 * EXCESS
    assert cluster.stream("eth40g", 16) < 0.01 * 40 * LIMIT * EXCESS
    cluster.good("fault", "clear")
    assert cluster.reaches("eth1g", LIMIT / 2) > LIMIT / 2
    assert "htb" not in cluster.on("c1", "tc", "qdisc", "show", "dev", "eth40g")


def test_full_disk_is_full_on_every_node_and_hides_nothing_for_good(cluster, visible):
    (visible / "precious").write_text("kept")
    cluster.good("fault", "full-disk", str(visible), "--free-kib", "32")
    fill = ("sh", "-c", f"dd if=/dev/zero of={visible}/$(hostname) bs=20k count=1")
    cluster.on("c1", *fill)
    second = cluster("exec", "--node", "c2", "--", *fill)
    assert second.returncode != 0 and "No space left on device" in second.stderr
    assert [path.name for path in visible.iterdir()] == ["precious"]
    cluster.good("fault", "clear")
    assert cluster.on("c2", "ls", str(visible)).split() == ["precious"]


def seconds_off(cluster, node):
    return float(cluster.on(node, "date", "+%s")) - time.time()


def test_clock_jump_is_on_one_node_and_jobs_see_it(cluster):
    for seconds in (100, 0):
        words = ("clock-jump", "c1", "--seconds", str(seconds)) if seconds else ("clear",)
        cluster.good("fault", *words)
        assert seconds_off(cluster, "c1") == pytest.approx(seconds, abs=10)
        assert seconds_off(cluster, "c2") == pytest.approx(0, abs=10)
        clock = cluster.on(plan.HEAD, "srun", "-w", "c1", "date", "+%s")
        assert float(clock) - time.time() == pytest.approx(seconds, abs=10)


def test_heal_brings_daemons_back_that_died_on_their_own(cluster):
    names = ("slurmctld", "mariadbd", "slurmdbd", "munged")
    job = cluster.on(plan.HEAD, "sbatch", "--parsable", "-o/dev/null", "--wrap", "true").strip()
    words = ("sacct", "-n", "-X", "-j", job, "-o", "state")
    assert wait_for(lambda: "COMPLETED" in cluster.ask(*words))
    for pid, found in namespaces.processes_of(cluster.state().nodes[plan.HEAD]).items():
        if found in names:
            os.kill(pid, signal.SIGKILL)
    said = broken(cluster)
    assert all(f"{name} does not run" in said for name in names), said
    cluster.good("fault", "clear")
    assert wait_for(lambda: "COMPLETED" in cluster.ask(*words))


def test_faults_add_up_and_heal_together(cluster):
    """A killed node takes its processes and cables along, and heal makes a new one."""
    before = cluster.state()
    observed = map(state.Process.observe, namespaces.processes_of(before.nodes["c2"]))
    inside = [made for made in observed if made]
    cluster.good("fault", "link-down", "c1", "eth10g")
    cluster.good("fault", "slow-link", "eth1g")
    cluster.good("fault", "kill-node", "c2")
    assert wait_for(lambda: not any(process.alive for process in inside))
    assert wait_for(lambda: not any("c2." in name for name in namespaces.interfaces(before.init)))
    shown = broken(cluster)
    assert "c2       dead" in shown and shown.count("fault in force") == 3
    assert "node c2 is dead" in cluster("exec", "--node", "c2", "--", "true").stderr
    said = cluster.good("fault", "clear").splitlines()
    cleared = [line.split()[1] for line in said if line.startswith("cleared")]
    assert cleared == ["kill-node", "slow-link", "link-down"]
    assert "no fault in force" in cluster.good("status")
    assert "cleared" not in cluster.good("fault", "clear"), "a second time changes nothing"
    on_both = cluster.on(plan.HEAD, "srun", "-N", "2", "hostname").split()
    assert sorted(on_both) == ["c1", "c2"]
    assert cluster.reaches("eth1g", LIMIT / 2) > LIMIT / 2


#: Two ranks that agree every 50 ms to go on, until a file is there.
AGREE = """
import os, sys, time
from mpi4py import MPI
while not MPI.COMM_WORLD.bcast(os.path.exists(sys.argv[1])):
    time.sleep(0.05)
print("rank", MPI.COMM_WORLD.rank, "agreed")
"""


def test_a_stopped_rank_hangs_its_job_until_it_goes_on(cluster, visible, mpich):
    paths = {
        name: ":".join(map(str, folders))
        for name, folders in mpich.prepend_path.items()
        if name != "PATH"
    }
    chosen = {"UCX_NET_DEVICES": "eth1g", "UCX_TLS": "tcp,self,sm"}
    env = [f"{key}={value}" for key, value in {**paths, **chosen, **mpich.env_vars}.items()]
    go = visible / "go"
    program = [mpich.commands["mpi4py.bench"][0], "-c", AGREE, str(go)]
    job = cluster.begin("exec", "--", "env", *env, "srun", "-N2", "--mpi=pmi2", *program)
    assert wait_for(lambda: cluster("fault", "stop-rank", "c2").returncode == 0)
    victim = cluster.state().faults[0]["what"]["pid"]
    assert Path(f"/proc/{victim}/stat").read_text().rpartition(")")[2].split()[0] == "T"
    assert victim in namespaces.processes_of(cluster.state().nodes["c2"])
    go.touch()
    with pytest.raises(subprocess.TimeoutExpired):
        job.wait(2)
    cluster.good("fault", "clear")
    out, _ = job.communicate(timeout=120)
    assert job.returncode == 0 and out.count(" agreed") == 2, out

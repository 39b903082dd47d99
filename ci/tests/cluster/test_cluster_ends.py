"""Clusters of their own, really up: nothing is left of one, however
it ends; other cores and other users, too.
"""

import contextlib
import ctypes
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import live_cluster
from live_cluster import LiveCluster
from mpibench_cluster import namespaces, packages, plan, state
from mpibench_cluster.namespaces import INIT
from programs import wait_for
from reframe_tests.harness.sites.site import ROOT

#: Payload limit of eth1g in MB/s; what a stream may show above it: the bucket, and rounding.
LIMIT = 117.69
EXCESS = 1.03


def machine():
    """What a cluster could leave behind on a machine that others use as well."""
    etc = [path for path in sorted(Path("/etc").rglob("*")) if path.is_file()]
    readable = [path.read_bytes() for path in etc if os.access(path, os.R_OK)]
    return {
        "links": sorted(os.listdir("/sys/class/net")),  # noqa: PTH208
        "mounts": Path("/proc/self/mountinfo").read_text(),
        "etc": (etc, hashlib.sha256(b"".join(readable)).hexdigest()),
        "named network namespaces": sorted(Path("/run/netns").glob("*")),
        "shared memory": sorted(Path("/dev/shm").glob("*mpibench*")),
    }


def spaces_of(pid):
    """The names of a process's namespaces (``net:[4026532281]``)."""
    names = ("net", "mnt", "uts", "ipc", "pid")
    return {str(Path(f"/proc/{pid}/ns/{name}").readlink()) for name in names}


def inside(cluster):
    """Every process of the cluster, and its namespaces."""
    found = cluster.state()
    processes = {found.init, *found.nodes.values()}
    for init in list(processes):
        observed = map(state.Process.observe, namespaces.processes_of(init))
        processes |= {made for made in observed if made}
    spaces = set().union(*(spaces_of(process.pid) for process in processes))
    return processes, spaces - spaces_of("self")


def left_of(processes, spaces):
    """What is left of a cluster. A process that has ended is not, even if
    its parent never asks for its exit status.
    """
    left = [f"process {process.pid}" for process in processes if process.alive]
    # The number of a namespace that is gone is given to the next, which may be of another's.
    latest = max(process.start_ticks for process in processes)
    for process_folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it may end meanwhile
            found = state.Process.observe(int(process_folder.name))
            for entry in (process_folder / "ns").iterdir():
                if str(entry.readlink()) in spaces and found and found.start_ticks <= latest:
                    left.append(f"{entry} in {entry.readlink()}")
    return left


def inits(runtime):
    """Clusters' inits whose log is in this runtime directory."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            mine = str(runtime) in str((entry / "fd/1").readlink())
            if (
                (entry / "comm").read_text().strip() == INIT
                and mine
                and state.Process.observe(int(entry.name))
            ):
                found.append(int(entry.name))
    return found


@pytest.fixture
def lone(tmp_path):
    """A cluster of its own, not up yet; the machine must look the same afterwards."""
    if reason := live_cluster.unavailable(tmp_path / "probe"):
        pytest.skip(f"[cluster] no mini-cluster here: {reason}")
    before = machine()
    made = LiveCluster(tmp_path / "cluster")
    try:
        yield made
    finally:
        made("down")
    assert machine() == before
    assert not made.runtime.exists()
    assert wait_for(lambda: not inits(made.runtime))


def test_down_leaves_nothing(orphans_stay, lone):
    """Nor counts an ended process as left whose exit status nobody asks for."""
    lone.good("up")
    processes, spaces = inside(lone)
    assert len(processes) >= 12 and len(spaces) == 4 * 5
    before = machine()
    job = lone.begin("exec", "--", "srun", "-N", "2", "sleep", "1000")
    assert wait_for(lambda: "sleep" in namespaces.processes_of(lone.state().nodes["c2"]).values())
    processes |= inside(lone)[0]
    assert "the cluster is down" in lone.good("down")
    assert wait_for(lambda: not left_of(processes, spaces)), left_of(processes, spaces)
    assert job.wait(120) != 0 and machine() == before
    assert corpses(), "the cluster's init has ended, and its exit status waits here"
    assert lone("status").returncode == 3 and "was not up" in lone.good("down")


def test_a_killed_test_leaves_no_cluster(lone):
    made = "import sys, time; from live_cluster import *; made = LiveCluster(Path(sys.argv[1]))"
    holder = f"{made}\nwith taken_down(made): made.good('up'); time.sleep(9999)"
    path = os.pathsep.join(sys.path)
    killed = subprocess.Popen(
        [sys.executable, "-c", holder, str(lone.runtime)],
        env={**lone.environment, "PYTHONPATH": path},
    )
    try:
        assert wait_for(lambda: lone("status").returncode == 0)
        everything = inside(lone)
    finally:
        killed.kill()
        killed.wait()
    assert wait_for(lambda: not left_of(*everything)), left_of(*everything)
    assert wait_for(lambda: not lone.runtime.exists())


@pytest.fixture
def orphans_stay():
    """Orphans come to this process, which never asks for their exit
    status, as process 1 of some containers.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    set_child_subreaper = 36  # linux/prctl.h
    assert libc.prctl(set_child_subreaper, 1, 0, 0, 0) == 0
    try:
        yield
    finally:
        assert libc.prctl(set_child_subreaper, 0, 0, 0, 0) == 0
        for corpse in corpses():
            os.waitpid(corpse, 0)


def corpses():
    """Children of this process that have ended."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            text = (entry / "stat").read_text()
            state_and_parent = text[text.rindex(")") + 2 :].split()[:2]
            if state_and_parent == ["Z", str(os.getpid())]:
                found.append(int(entry.name))
    return found


def test_an_interrupted_up_leaves_nothing_running(lone):
    """And the next one comes up over the remains."""
    for line, number in ((1, signal.SIGINT), (2, signal.SIGTERM), (3, signal.SIGKILL)):
        with lone.begin("up") as process:
            assert process.stdout is not None
            for _ in range(line):
                assert process.stdout.readline()
            process.send_signal(number)
            process.communicate()
        assert process.returncode != 0
        # Even before anybody calls `down`: the init ends with the
        # command that was building the cluster.
        assert wait_for(lambda: not inits(lone.runtime))
        # It has let go of its files before the last process inside is gone.
        assert wait_for(lambda: lone("status").returncode == 3)
    lone.good("up")
    lone.good("status")


@pytest.mark.parametrize("victim", ["init", "c1"])
def test_down_after_a_killed_process_leaves_nothing(lone, victim):
    lone.good("up")
    everything = inside(lone)
    found = lone.state()
    os.kill((found.init if victim == "init" else found.nodes[victim]).pid, signal.SIGKILL)
    assert wait_for(lambda: lone("status").returncode == (3 if victim == "init" else 1))
    lone.good("down")
    assert wait_for(lambda: not left_of(*everything)), left_of(*everything)


def test_a_lost_state_file_does_not_hide_a_cluster(lone):
    lone.good("up")
    everything = inside(lone)
    (lone.runtime / "state.json").unlink()
    assert "the cluster is down" in lone.good("down")
    assert wait_for(lambda: not left_of(*everything)), left_of(*everything)


def test_a_recycled_process_number_is_not_killed(lone):
    lone.good("up")
    mine = f'"pid": {lone.state().init.pid}'
    with subprocess.Popen(["sleep", "1000"]) as bystander:
        path = lone.runtime / "state.json"
        path.write_text(path.read_text().replace(mine, f'"pid": {bystander.pid}'))
        lone.good("down")
        assert bystander.poll() is None
        bystander.kill()


# ---- without root
# --------------------------------------------------------------------------------------------------

# setpriv keeps its capabilities until the first program it
# starts; that must not be the one under test.
_NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "env")


def works_without_root(cluster):
    said = cluster.good("up")
    assert "in a user namespace" in said
    everything = inside(cluster)
    lines = cluster.on(plan.HEAD, "srun", "-N", "2", "hostname").split()
    assert sorted(lines) == ["c1", "c2"]
    job = cluster.on(plan.HEAD, "sbatch", "--parsable", "-o", "/dev/null", "--wrap", "true").strip()
    assert wait_for(
        lambda: "COMPLETED" in cluster.on(plan.HEAD, "sacct", "-n", "-X", "-j", job, "-o", "state")
    )
    assert cluster.stream("eth1g") < LIMIT * EXCESS
    cluster.good("fault", "kill-node", "c2")
    cluster.good("fault", "clear")
    cluster.good("status")
    cluster.good("down")
    assert wait_for(lambda: not left_of(*everything)), left_of(*everything)


@pytest.mark.skipif(os.geteuid() != 0, reason="[root] the other tests already run without root")
def test_an_ordinary_user_gets_a_cluster_too(tmp_path):
    if reason := live_cluster.unavailable(tmp_path / "probe"):
        pytest.skip(f"[cluster] no mini-cluster here: {reason}")
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="mpibench-user-") as home:
        cache = Path(home, "cache/mpibench")
        if packages.root().exists():
            shutil.copytree(packages.root(), cache / packages.root().name, symlinks=True)
        subprocess.run(["chown", "-R", "65534:65534", home], check=True)
        own = [path for path in sys.path if path.endswith("site-packages")]
        path = os.pathsep.join([str(ROOT / "ci"), str(ROOT), *own])
        found = {"HOME": home, "XDG_CACHE_HOME": f"{home}/cache", "PYTHONPATH": path}
        cluster = LiveCluster(Path(home, "cluster"), _NOBODY, found)
        check = "import sys, typer, mpibench_cluster.commands; assert sys.version_info >= (3, 10)"
        for interpreter in (sys.executable, "/usr/bin/python3"):
            words = [*_NOBODY, interpreter, "-c", check]
            there = {"capture_output": True, "env": cluster.environment, "cwd": "/"}
            if subprocess.run(words, **there).returncode == 0:
                cluster.python = interpreter
                break
        else:
            pytest.skip("[python] no Python here that an ordinary user may run with this project")
        try:
            works_without_root(cluster)
        finally:
            cluster("down")

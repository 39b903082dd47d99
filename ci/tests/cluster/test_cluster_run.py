"""The mini-cluster really up: Slurm, names, cores, rates; and nothing left of it, however it ends."""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import live_cluster
from live_cluster import LiveCluster, wait_for
from mpibench.cluster import daemons, packages, plan, state
from mpibench.cluster.namespaces import INIT
from reframe_tests.harness.sites.site import ROOT

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


def test_jobs_do_not_share_a_node(cluster: LiveCluster) -> None:
    text = cluster.on(plan.HEAD, "scontrol", "show", "partition")
    assert text.count("OverSubscribe=EXCLUSIVE") == len(plan.DATA_FABRICS)


def test_process_managers_for_every_mpi_are_there(cluster: LiveCluster) -> None:
    shown = cluster.on(plan.HEAD, "srun", "--mpi=list")
    assert {"pmi2", "pmix"} <= set(shown.split())
    assert "can not load PMIx library" not in (cluster.runtime / "log/slurmd-c1.log").read_text()


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
    assert wait_for(lambda: "sleep" in daemons.processes_of(init).values())
    process.kill()
    process.communicate()
    assert wait_for(lambda: "sleep" not in daemons.processes_of(init).values())


def test_daemons_belong_to_their_nodes_init_and_to_nobody_outside(cluster: LiveCluster) -> None:
    # An orphan that goes to the machine's own process 1 outlives the cluster until that one looks.
    for name, init in cluster.state().nodes.items():
        inside = daemons.processes_of(init)
        for pid in set(inside) - {init.pid}:
            text = Path(f"/proc/{pid}/stat").read_text()
            assert int(text[text.rindex(")") + 2 :].split()[1]) in inside, f"{inside[pid]} on {name}"


def test_the_shaper_has_the_bucket_it_was_given(cluster: LiveCluster) -> None:
    # tc takes a wrong clock, and so a bucket of 246 bytes, where it cannot read /proc/net/psched.
    shown = cluster.on("c1", "tc", "class", "show", "dev", "eth1g")
    words = shown.split()
    assert int(words[words.index("burst") + 1].removesuffix("b")) == pytest.approx(5_000, rel=0.05)


def test_routes_have_their_congestion_control(cluster: LiveCluster) -> None:
    shown = cluster.on("c2", "ip", "route", "show").splitlines()
    assert len(shown) == len(plan.FABRICS)
    assert all("congctl cubic" in line for line in shown)


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


# ---- nothing is left behind -----------------------------------------------------------------------------------------


def machine() -> dict[str, object]:
    """What a cluster could leave behind on a machine that others use as well."""
    return {
        "links": sorted(os.listdir("/sys/class/net")),  # noqa: PTH208
        "mounts": Path("/proc/self/mountinfo").read_text(),
        "etc": hashlib.sha256(
            b"".join(
                str(path).encode() + (path.read_bytes() if os.access(path, os.R_OK) else b"")
                for path in sorted(Path("/etc").rglob("*"))
                if path.is_file()
            )
        ).hexdigest(),
        "named network namespaces": sorted(map(str, Path("/run/netns").glob("*"))),
        "shared memory": sorted(str(path) for path in Path("/dev/shm").glob("*mpibench*")),
    }


def inside(cluster: LiveCluster) -> tuple[set[state.Process], set[str]]:
    """Every process of the cluster, and the names of its namespaces (``net:[4026532281]``)."""
    found = cluster.state()
    processes = {found.init, *found.nodes.values()}
    for init in list(processes):
        processes |= {made for pid in daemons.processes_of(init) if (made := state.Process.observe(pid))}
    spaces = {
        str(Path(f"/proc/{process.pid}/ns/{name}").readlink())
        for process in processes
        for name in ("net", "mnt", "uts", "ipc", "pid")
    }
    return processes, spaces - {str(Path(f"/proc/self/ns/{name}").readlink()) for name in ("net", "mnt", "uts", "ipc", "pid")}


def left_of(processes: set[state.Process], spaces: set[str]) -> list[str]:
    """What is left of a cluster. A process that has ended is not, even if its parent never asks for its exit status."""
    left = [f"process {process.pid}" for process in processes if process.alive]
    for entry in Path("/proc").glob("[0-9]*/ns/*"):
        with contextlib.suppress(OSError):
            if str(entry.readlink()) in spaces and state.Process.observe(int(entry.parts[2])):
                left.append(f"{entry} in {entry.readlink()}")
    return left


def inits(runtime: Path) -> list[int]:
    """Clusters' inits whose log is in this runtime directory."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            mine = str(runtime) in str((entry / "fd/1").readlink())
            if (entry / "comm").read_text().strip() == INIT and mine and state.Process.observe(int(entry.name)):
                found.append(int(entry.name))
    return found


@pytest.fixture
def lone(tmp_path: Path) -> Iterator[LiveCluster]:
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


def test_down_leaves_nothing(lone: LiveCluster) -> None:
    lone.good("up")
    everything = inside(lone)
    assert len(everything[0]) >= 12
    assert len(everything[1]) == 4 * 5 + 0
    before = machine()
    job = lone.begin("exec", "--", "srun", "-N", "2", "sleep", "1000")
    assert wait_for(lambda: "sleep" in daemons.processes_of(lone.state().nodes["c2"]).values())
    everything[0].update(inside(lone)[0])
    assert "the cluster is down" in lone.good("down")
    assert wait_for(lambda: not left_of(*everything)), left_of(*everything)
    assert job.wait(120) != 0
    assert machine() == before
    assert lone("status").returncode == 3
    assert "was not up" in lone.good("down")


@pytest.fixture
def orphans_stay() -> Iterator[None]:
    """Orphans come to this process, which never asks for their exit status, as process 1 of some containers."""
    libc = ctypes.CDLL(None, use_errno=True)
    set_child_subreaper = 36  # linux/prctl.h
    assert libc.prctl(set_child_subreaper, 1, 0, 0, 0) == 0
    try:
        yield
    finally:
        assert libc.prctl(set_child_subreaper, 0, 0, 0, 0) == 0
        for corpse in corpses():
            os.waitpid(corpse, 0)


def corpses() -> list[int]:
    """Children of this process that have ended."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            text = entry.read_text()
            state_and_parent = text[text.rindex(")") + 2 :].split()[:2]
            if state_and_parent == ["Z", str(os.getpid())]:
                found.append(int(entry.parts[2]))
    return found


def test_an_ended_process_that_nobody_asks_for_is_not_left_behind(orphans_stay: None, lone: LiveCluster) -> None:
    lone.good("up")
    everything = inside(lone)
    assert "the cluster is down" in lone.good("down")
    assert corpses(), "the cluster's init has ended, and its exit status waits here"
    assert wait_for(lambda: not left_of(*everything)), left_of(*everything)
    assert lone("status").returncode == 3
    assert "was not up" in lone.good("down")
    lone.good("up")
    lone.good("status")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("line", [1, 2, 3])
def test_an_interrupted_up_leaves_nothing_running(lone: LiveCluster, line: int, number: int) -> None:
    with lone.begin("up") as process:
        assert process.stdout is not None
        for _ in range(line):
            assert process.stdout.readline()
        process.send_signal(number)
        process.communicate()
    assert process.returncode != 0
    # Even before anybody calls `down`: the init ends with the command that was building the cluster.
    assert wait_for(lambda: not inits(lone.runtime))
    assert lone("status").returncode in (3,)
    # And the next one comes up over the remains.
    lone.good("up")
    lone.good("status")


@pytest.mark.parametrize("victim", ["init", "mc-head", "c1"])
def test_down_after_a_killed_process_leaves_nothing(lone: LiveCluster, victim: str) -> None:
    lone.good("up")
    everything = inside(lone)
    found = lone.state()
    os.kill((found.init if victim == "init" else found.nodes[victim]).pid, signal.SIGKILL)
    assert lone("status").returncode == (3 if victim == "init" else 1)
    lone.good("down")
    assert wait_for(lambda: not left_of(*everything)), left_of(*everything)


def test_a_lost_state_file_does_not_hide_a_cluster(lone: LiveCluster) -> None:
    lone.good("up")
    everything = inside(lone)
    (lone.runtime / "state.json").unlink()
    assert "the cluster is down" in lone.good("down")
    assert wait_for(lambda: not left_of(*everything)), left_of(*everything)


def test_a_recycled_process_number_is_not_killed(lone: LiveCluster) -> None:
    lone.good("up")
    found = lone.state()
    with subprocess.Popen(["sleep", "1000"]) as bystander:
        text = (lone.runtime / "state.json").read_text()
        (lone.runtime / "state.json").write_text(text.replace(f'"pid": {found.init.pid}', f'"pid": {bystander.pid}'))
        lone.good("down")
        assert bystander.poll() is None
        bystander.kill()


def test_faked_cores_are_laid_out_and_twelve_ranks_fit(lone: LiveCluster) -> None:
    lone.good("up", "--layout", "westmere", "--nodes", "1")
    shown = lone.on(plan.HEAD, "sinfo", "--noheader", "--Node", "-p", "eth1g", "--format=%N %X %Y %Z").split()
    assert shown == ["c1", "2", "6", "1"]
    ranks = lone.on(plan.HEAD, "srun", "-N", "1", "--ntasks-per-node=12", "printenv", "SLURM_PROCID").split()
    assert sorted(map(int, ranks)) == list(range(12))


# ---- without root ---------------------------------------------------------------------------------------------------

# setpriv keeps its capabilities until the first program it starts; that must not be the one under test.
_NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "env")


def works_without_root(cluster: LiveCluster) -> None:
    said = cluster.good("up")
    assert "in a user namespace" in said
    everything = inside(cluster)
    lines = cluster.on(plan.HEAD, "srun", "-N", "2", "hostname").split()
    assert sorted(lines) == ["c1", "c2"]
    job = cluster.on(plan.HEAD, "sbatch", "--parsable", "-o", "/dev/null", "--wrap", "true").strip()
    assert wait_for(lambda: "COMPLETED" in cluster.on(plan.HEAD, "sacct", "-n", "-X", "-j", job, "-o", "state"))
    assert cluster.stream("eth1g") < LIMIT * EXCESS
    cluster.good("fault", "kill-node", "c2")
    cluster.good("fault", "heal")
    cluster.good("status")
    cluster.good("down")
    assert wait_for(lambda: not left_of(*everything)), left_of(*everything)


@pytest.mark.skipif(os.geteuid() != 0, reason="[root] the other tests already run without root")
def test_an_ordinary_user_gets_a_cluster_too(tmp_path: Path) -> None:
    if reason := live_cluster.unavailable(tmp_path / "probe"):
        pytest.skip(f"[cluster] no mini-cluster here: {reason}")
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="mpibench-user-") as home:
        cache = Path(home, "cache/mpibench")
        if packages.root().exists():
            shutil.copytree(packages.root(), cache / packages.root().name, symlinks=True)
        subprocess.run(["chown", "-R", "65534:65534", home], check=True)
        folders = [str(ROOT / "ci"), str(ROOT), *(path for path in sys.path if path.endswith("site-packages"))]
        found = {"HOME": home, "XDG_CACHE_HOME": f"{home}/cache", "PYTHONPATH": os.pathsep.join(folders)}
        cluster = LiveCluster(Path(home, "cluster"), _NOBODY, found)
        for interpreter in (sys.executable, "/usr/bin/python3"):
            words = [
                *_NOBODY,
                interpreter,
                "-c",
                "import sys, typer, mpibench.commands.cluster; assert sys.version_info >= (3, 10)",
            ]
            if subprocess.run(words, capture_output=True, env=cluster.environment, cwd="/").returncode == 0:
                cluster.python = interpreter
                break
        else:
            pytest.skip("[python] no Python here that an ordinary user may run with this project")
        try:
            works_without_root(cluster)
        finally:
            cluster("down")


def test_without_user_namespaces_one_sentence_says_so(tmp_path: Path) -> None:
    limit = Path("/proc/sys/user/max_user_namespaces")
    if os.geteuid() != 0 or not limit.exists():
        pytest.skip("[root] only root can take a user's right to make namespaces away, inside a namespace of its own")
    # The limit of a nested user namespace: this machine's own stays as it is.
    words = [
        "unshare",
        "-Ur",
        "sh",
        "-c",
        'echo 0 > /proc/sys/user/max_user_namespaces && exec setpriv --bounding-set=-all "$@"',
        "x",
    ]
    refused = LiveCluster(tmp_path / "cluster", words)
    done = refused("up")
    assert done.returncode == 2
    assert "refuses the cluster a namespace" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    refused("down")

"""Slurm, its accounting and munge: the plan as configuration files, and the daemons on their nodes.

Parameters are those of ``slurm.conf(5)``, ``slurmdbd.conf(5)``, ``topology.conf(5)`` and
``cgroup.conf(5)`` of Slurm 22.05. Daemons are started from outside, inside their node, and become
children of the node's init. A daemon is found again by its name and its node, never by a recorded
number.
"""

from __future__ import annotations

import contextlib
import json
import platform
import secrets
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from reframe_tests.harness.process_stat import Process
from reframe_tests.harness.vocabulary import BadInput

from . import namespaces
from .plan import CLUSTER_NAME, FABRICS, HEAD, SPINE, ClusterNode, ClusterPlan, ClusterTopology
from .state import State, log_dir

#: Default and longest run time of a job in minutes: a hung job ends
#: even if a test forgets its own limit.
TIME_LIMITS_MIN = (10, 120)


# ---- configuration ----


def slurm_conf(plan: ClusterPlan, log: Path) -> str:
    """``slurm.conf`` for all nodes; ``log`` is the directory for log files.

    Detection times are short, so that a dead node is noticed within half a minute; a node that
    comes back is used again (``ReturnToService=2``). A job has its nodes for itself: another
    partition's job on the same cores would disturb the measurement.
    """
    mgmt = FABRICS[0]
    # Nothing can be bound to cores the host does not have.
    task = "affinity" if plan.topology(plan.compute_nodes[0]).real else "none"
    lines = f"""
ClusterName={CLUSTER_NAME}
SlurmctldHost={HEAD}({plan.nodes[0].address(mgmt)})
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
MailProg=/usr/bin/true
MpiDefault=none
SwitchType=switch/none
StateSaveLocation=/run/slurmctld
SlurmdSpoolDir=/run/slurmd
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/{task}
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost={HEAD}
ReturnToService=2
SlurmdTimeout=20
KillWait=5
UnkillableStepTimeout=30
""".split()
    lines += [f"SlurmctldLogFile={log}/slurmctld.log", f"SlurmdLogFile={log}/slurmd-%n.log"]
    lines += ["TopologyPlugin=topology/tree"] if plan.leaves else []
    for node in plan.compute_nodes:
        shown = plan.topology(node)
        cores = f"Sockets={shown.sockets} CoresPerSocket={shown.cores_per_socket} ThreadsPerCore=1"
        lines.append(f"NodeName={node.name} NodeAddr={node.address(mgmt)} {cores} State=UNKNOWN")
    names = ",".join(node.name for node in plan.compute_nodes)
    limits = "DefaultTime={} MaxTime={}".format(*TIME_LIMITS_MIN)
    for fabric in (fabric for fabric in plan.fabrics if fabric.partition):
        default = "YES" if fabric.name == "eth1g" else "NO"
        lines.append(
            f"PartitionName={fabric.name} Nodes={names} Default={default} State=UP "
            f"OverSubscribe=EXCLUSIVE {limits}"
        )
    return "\n".join(lines) + "\n"


def slurmdbd_conf(plan: ClusterPlan, log: Path) -> str:
    """The accounting daemon and its database, both on the head, joined by the default socket."""
    lines = f"""
AuthType=auth/munge
DbdHost={HEAD}
DbdAddr={plan.nodes[0].address(FABRICS[0])}
SlurmUser=root
PidFile=/run/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=root
StorageLoc=slurm_acct_db
""".split()
    return "\n".join([*lines, f"LogFile={log}/slurmdbd.log"]) + "\n"


def topology_conf(plan: ClusterPlan) -> str:
    """The leaf switches and, above several, the spine; empty without leaves."""
    rows = [
        f"SwitchName={leaf.name} Nodes={','.join(node.name for node in leaf.nodes)}"
        for leaf in plan.leaves
    ]
    if len(rows) > 1:
        rows.append(f"SwitchName={SPINE} Switches={','.join(leaf.name for leaf in plan.leaves)}")
    return "".join(f"{row}\n" for row in rows)


def hosts(plan: ClusterPlan) -> str:
    """``/etc/hosts``: plain names on the management network,
    ``c1-eth1g`` and so on for the fabrics.
    """
    lines = ["127.0.0.1 localhost", "::1 localhost ip6-localhost"]
    for fabric in plan.fabrics:
        suffix = f"-{fabric.name}" if fabric.subnet else ""
        lines += [f"{node.address(fabric)} {node.name}{suffix}" for node in plan.nodes]
    return "\n".join(lines) + "\n"


def node_json(plan: ClusterPlan) -> str:
    """What the site's ``system.py`` needs to know of a compute node, as JSON.

    ``processor``: its topology as ReFrame wants it (``systems.partitions.processor``); NUMA nodes
    are taken to be the sockets. ``faked``: whether it shows cores that the machine does not have.
    ``cores``: those that all nodes share. ``node_counts``: those to measure on, 2, 4, 8, ... up to
    all. ``fabrics``: the data fabrics it has. ``oversubscription``: that of its leaf switches.
    """
    from reframe_tests.harness.suites.benchmark import growing_node_counts

    shown = plan.topology(plan.compute_nodes[0])
    masks = [hex(_mask(cpus)) for cpus in shown.by_socket]
    processor = {
        "arch": platform.machine(),
        "num_cpus": len(shown.cpus),
        "num_cpus_per_core": 1,
        "num_cpus_per_socket": shown.cores_per_socket,
        "num_sockets": shown.sockets,
        "topology": {
            "numa_nodes": masks,
            "sockets": masks,
            "caches": [],
            "cores": [hex(_mask([cpu])) for cpu in sorted(shown.cpus)],
        },
    }
    row = {
        "processor": processor,
        "faked": not shown.real,
        "cores": len(plan.host_cpus),
        "node_counts": growing_node_counts(max(2, plan.compute)),
        "fabrics": [fabric.name for fabric in plan.fabrics if fabric.partition],
        "oversubscription": plan.oversubscription,
    }
    return json.dumps(row, indent=1) + "\n"


def _mask(cpus: Sequence[int]) -> int:
    return sum(1 << cpu for cpu in cpus)


def _bitmap(cpus: Sequence[int]) -> str:
    """hwloc's notation: groups of 32 bits, the highest first (``hwloc_bitmap_snprintf``)."""
    mask = _mask(cpus)
    groups = [
        f"0x{mask >> shift & 0xFFFFFFFF:08x}" for shift in range(0, max(mask.bit_length(), 1), 32)
    ]
    return ",".join(reversed(groups))


def hwloc_xml(shown: ClusterTopology) -> str:
    """A node's topology for slurmd's hwloc (``HWLOC_XMLFILE``, hwloc 2 XML format).

    slurmd counts cores in hwloc's order and binds to the numbers (``os_index``) given here;
    ``slurm.conf`` cannot say that two nodes of one host start at different cores. hwloc orders by
    CPU set, so the sets are handed out in ascending order whatever the numbers; only slurmd reads
    this file, and it looks at the numbers alone.
    """
    serial = iter(range(1, 10_000))

    def opening(kind: str, index: int, cpus: Sequence[int], more: str = "") -> str:
        cpuset = _bitmap(cpus)
        nodes = 'nodeset="0x00000001" complete_nodeset="0x00000001"'
        sets = f'cpuset="{cpuset}" complete_cpuset="{cpuset}" {nodes}'
        return f'<object type="{kind}" os_index="{index}" {sets} gp_index="{next(serial)}"{more}>'

    ordered = sorted(shown.cpus)
    ascending = ClusterTopology(shown.sockets, shown.cores_per_socket, tuple(ordered))
    allowed = f' allowed_cpuset="{_bitmap(ordered)}" allowed_nodeset="0x00000001"'
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE topology SYSTEM '
        '"hwloc2.dtd">\n<topology version="2.0">',
        opening("Machine", 0, ordered, allowed),
        opening("NUMANode", 0, ordered, ' local_memory="1073741824"') + "</object>",
    ]
    for socket_, (cpus, span) in enumerate(zip(shown.by_socket, ascending.by_socket, strict=True)):
        lines.append(opening("Package", socket_, span))
        for core, (cpu, place) in enumerate(zip(cpus, span, strict=True)):
            lines.append(
                opening("Core", core, [place]) + opening("PU", cpu, [place]) + "</object></object>"
            )
        lines.append("</object>")
    return "\n".join([*lines, "</object>", "</topology>"]) + "\n"


def write_etc(plan: ClusterPlan, etc: Path, log: Path) -> None:
    """The files that lie over the host's ``/etc`` on every node; munge
    insists that the key is its owner's only.
    """
    preload = Path("/etc/ld.so.preload")
    files = {
        "hosts": hosts(plan),
        "slurm/slurm.conf": slurm_conf(plan, log),
        "slurm/slurmdbd.conf": slurmdbd_conf(plan, log),
        # Names a plugin, so that slurmd does not look for the host's control groups; none are used.
        "slurm/cgroup.conf": "CgroupPlugin=cgroup/v1\n",
        "slurm/topology.conf": topology_conf(plan),
        "mpibench/node.json": node_json(plan),
        # Bound over by the clock fault on one node; these change nothing.
        "ld.so.preload": "",
        "faketimerc": "",
        **{
            f"slurm/topology-{node.name}.xml": hwloc_xml(plan.topology(node))
            for node in plan.compute_nodes
        },
    }
    for name, text in files.items():
        path = etc / name
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        path.touch(mode=0o600 if name.endswith("slurmdbd.conf") else 0o644)
        path.write_text(text)
    if preload.exists():
        shutil.copyfile(preload, etc / preload.name)
    key = etc / "munge/munge.key"
    key.parent.mkdir(mode=0o700, exist_ok=True)
    key.touch(mode=0o600)
    key.write_bytes(secrets.token_bytes(128))  # munged(8): at least 32


# ---- daemons ----

#: Longest time for one daemon to get ready, in seconds; a loaded machine
#: needs a few, otherwise it is far less than one.
PATIENCE_S = 60
#: Time for nodes to register with the controller, in seconds.
_REGISTRATION_S = 90
#: Nodes that Slurm may give a job to, or has given one.
HEALTHY = ("idle", "allocated", "mixed", "completing")
_DATABASE_SOCKET = "/run/mysqld/mysqld.sock"
_DATA = "/run/mysqld/data"
#: The database holds a few jobs and lives in memory: smallest files, no users but the head's root.
#: Each commit is handed to the kernel (``innodb_flush_log_at_trx_commit=2``): with 0, a killed
#: server forgets what it confirmed in its last second.
_MARIADBD = (
    f"mariadbd --no-defaults --user=root --datadir={_DATA} --socket={_DATABASE_SOCKET} "
    "--skip-networking --skip-grant-tables --skip-log-bin --performance-schema=OFF "
    "--innodb-data-file-path=ibdata1:4M:autoextend "
    "--innodb-temp-data-file-path=ibtmp1:4M:autoextend --innodb-log-file-size=4M "
    "--innodb-buffer-pool-size=32M --innodb-lock-wait-timeout=900 "
    "--innodb-flush-log-at-trx-commit=2 --innodb-use-native-aio=0"
)
_MUNGE_SOCKET = "/run/munge/munge.socket.2"
#: Forced: without root, "/" belongs to nobody the user namespace knows,
#: and munged would refuse the path of its files.
_MUNGED = (
    f"munged --force --key-file=/etc/munge/munge.key --socket={_MUNGE_SOCKET} "
    "--pid-file=/run/munge/munged.pid --seed-file=/run/munge/munge.seed --num-threads=2"
)
#: Directories a node's private ``/run`` needs, with their mode (munged insists on it).
_RUN_DIRECTORIES = {"munge": 0o755, "slurmctld": 0o700, "slurmd": 0o755, "mysqld": 0o700}


@dataclass(frozen=True)
class Daemon:
    """One daemon.

    :param step: those of a step start together, once the step before is ready.
    :param places: where it runs: the nodes of a plan from the first to the second number.
    :param ready: whether it serves, given its node's init.
    :param words: its command line; its name if there is none.
    :param stays: true for a program that does not go to the background itself.
    """

    name: str
    step: int
    places: slice
    ready: Callable[[Process], bool]
    words: str = ""
    stays: bool = False

    def nodes(self, plan: ClusterPlan) -> tuple[ClusterNode, ...]:
        return plan.nodes[self.places]

    def environment(self, node: ClusterNode) -> Mapping[str, str]:
        if self.name != "slurmd":
            return {}
        # PMIx of slurmstepd would offer munge to the ranks, whose own
        # PMIx need not have it and then complains.
        topology = {
            "HWLOC_XMLFILE": f"/etc/slurm/topology-{node.name}.xml",
            "HWLOC_THISSYSTEM": "1",
        }
        return {**topology, "PMIX_MCA_psec": "native"}


def _listens(where: str) -> Callable[[Process], bool]:
    """Whether something listens on a TCP port (in hexadecimal digits) or socket in a node's network
    namespace (``proc(5)``: state ``0A`` of ``net/tcp``; the flag of ``net/unix`` is
    ``__SO_ACCEPTCON``).
    """

    def ready(process: Process) -> bool:
        for table in ("tcp", "tcp6", "unix"):
            with contextlib.suppress(OSError):
                for row in map(
                    str.split, Path(f"/proc/{process.pid}/net/{table}").read_text().splitlines()[1:]
                ):
                    place = row[-1] if table == "unix" else row[1].rpartition(":")[2]
                    if place == where and row[3] in ("0A", "00010000"):
                        return True
        return False

    return ready


_EVERY = slice(None)
_HEAD = slice(1)
_COMPUTE = slice(1, None)
#: Default ports (``slurm.conf(5)``, ``slurmdbd.conf(5)``). slurmd
#: waits for the controller: both start together.
MARIADBD = Daemon("mariadbd", 0, _HEAD, _listens(_DATABASE_SOCKET), _MARIADBD, stays=True)
MUNGED = Daemon("munged", 0, _EVERY, _listens(_MUNGE_SOCKET), _MUNGED)
SLURMDBD = Daemon("slurmdbd", 1, _HEAD, _listens(f"{6819:X}"))
SLURMCTLD = Daemon("slurmctld", 2, _HEAD, _listens(f"{6817:X}"))
SLURMD = Daemon("slurmd", 2, _COMPUTE, _listens(f"{6818:X}"))
DAEMONS = (MARIADBD, MUNGED, SLURMDBD, SLURMCTLD, SLURMD)


def prepare(process: Process) -> None:
    """Make what daemons expect below a node's private ``/run``."""
    for name, mode in _RUN_DIRECTORIES.items():
        path = Path(f"/proc/{process.pid}/root/run/{name}")
        path.mkdir(exist_ok=True)
        path.chmod(mode)


def missing(state: State, node: ClusterNode) -> list[Daemon]:
    """Daemons that should run on a node, which is alive, and do not."""
    running = set(namespaces.processes_of(state.node_process(node.name)).values())
    return [
        daemon
        for daemon in DAEMONS
        if node in daemon.nodes(state.plan) and daemon.name not in running
    ]


def begin(state: State, daemon: Daemon, node: ClusterNode) -> None:
    """Start a daemon on a node, without waiting until it serves."""
    process = state.node_process(node.name)
    environment = daemon.environment(node)
    words = (daemon.words or daemon.name).split()
    out = log_dir() / f"{daemon.name}-{node.name}.out"
    if daemon is MUNGED:
        words.append(f"--log-file={log_dir() / f'munged-{node.name}.log'}")
    if daemon is MARIADBD:
        _make_database(state, process)
    if daemon.stays:
        namespaces.start(state, process, words, out, environment)
        return
    variables = [f"{key}={value}" for key, value in environment.items()]
    done = namespaces.run(state, process, ["env", *variables, *words], timeout_s=PATIENCE_S)
    if done.returncode:
        out.write_text(done.stdout + done.stderr)
        raise BadInput(
            "cluster-not-ready",
            f"{daemon.name} on {node.name} ended at once; see {out} and the logs beside it.",
        )


def _make_database(state: State, process: Process) -> None:
    """Make the database's system tables, if it has none (``mariadbd
    --bootstrap``): Slurm stores a procedure in them.
    """
    root = Path(f"/proc/{process.pid}/root")
    data = root / _DATA.lstrip("/")
    if (data / "mysql").exists():
        return
    data.mkdir(parents=True, exist_ok=True)
    tables = (root / "usr/share/mysql/mysql_system_tables.sql").read_text()
    text = f"create database mysql;\nuse mysql;\n{tables}"
    done = namespaces.run(
        state, process, [*_MARIADBD.split(), "--bootstrap"], input=text, timeout_s=PATIENCE_S
    )
    out = log_dir() / "mariadb-tables.log"
    out.write_text(done.stdout + done.stderr)
    if done.returncode:
        raise BadInput("other-release", f"MariaDB could not create its tables; see {out}.")


def serve(state: State, say: Callable[[str], None]) -> None:
    """Start every daemon that does not run, in the order they need each
    other, and wait until Slurm may use all nodes.
    """
    lacking = {node: missing(state, node) for node in state.plan.nodes}
    for step in range(3):
        begun = [
            (daemon, node)
            for node, daemons in lacking.items()
            for daemon in daemons
            if daemon.step == step
        ]
        for daemon, node in begun:
            begin(state, daemon, node)
        for daemon, node in begun:
            process = state.node_process(node.name)
            if not namespaces.wait_until(partial(daemon.ready, process), PATIENCE_S):
                raise BadInput(
                    "cluster-not-ready",
                    f"{daemon.name} on {node.name} does not respond after {PATIENCE_S} s; see "
                    f"{log_dir()}.",
                )
            if daemon is SLURMDBD:  # it says nothing if it knows the cluster already
                words = ["sacctmgr", "--immediate", "add", "cluster", CLUSTER_NAME]
                namespaces.run(state, process, words, timeout_s=PATIENCE_S)
                say("accounting: MariaDB, slurmdbd")
    await_nodes(state)
    say(f"Slurm: {', '.join(f'{name} {word}' for name, word in node_states(state).items())}")


def node_states(state: State) -> dict[str, str]:
    """Slurm's word for each compute node (``idle``, ``down*``, ...);
    empty if the controller does not answer.
    """
    head = state.nodes.get(HEAD)
    # Asked first, because sinfo tries for long to reach a controller or a munge that is not there.
    if head is None or not head.alive or not SLURMCTLD.ready(head) or not MUNGED.ready(head):
        return {}
    done = namespaces.run(state, head, ["sinfo", "--noheader", "--Node", "--format=%N %T"])
    return dict(line.split() for line in done.stdout.splitlines() if len(line.split()) == 2)


def await_nodes(state: State) -> None:
    """Wait until Slurm may use every compute node."""
    states: dict[str, str] = {}

    def registered() -> bool:
        states.clear()
        states.update(node_states(state))
        return len(states) == state.plan.compute and all(
            word in HEALTHY for word in states.values()
        )

    if not namespaces.wait_until(registered, _REGISTRATION_S):
        found = (
            ", ".join(f"{name} {word}" for name, word in states.items())
            or "no answer from slurmctld"
        )
        raise BadInput(
            "cluster-not-ready",
            f"Slurm's nodes are not ready after {_REGISTRATION_S} s ({found}); see {log_dir()}.",
        )

"""What runs where: munge on every node, database, accounting and controller on the head, slurmd on compute nodes.

Daemons are started from outside, inside their node, and become children of the node's init. A daemon is found again
by its name and its node, never by a recorded number.
"""

from __future__ import annotations

import os
import secrets
import signal
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from reframe_tests.harness.vocabulary import BadInput

from . import namespaces, slurm
from .plan import CLUSTER_NAME, HEAD, Node, Plan
from .state import Process, State

#: Ports slurmctld, slurmd and slurmdbd listen on (``slurm.conf(5)``, ``slurmdbd.conf(5)``: default ports).
SLURMCTLD_PORT, SLURMD_PORT, SLURMDBD_PORT = 6817, 6818, 6819
#: Longest time for one daemon to get ready, in seconds; a loaded machine needs a few, otherwise it is far less than one.
PATIENCE_S = 60

_SOCKET = "/run/mysqld/mysqld.sock"
_DATA = "/run/mysqld/data"
#: The database holds a few jobs and lives in memory: smallest files, no users but the head's root. Each commit is handed to the
#: kernel (``innodb_flush_log_at_trx_commit=2``): with 0, a killed server forgets what it confirmed in its last second.
_MARIADBD = (
    "mariadbd",
    "--no-defaults",
    "--user=root",
    f"--datadir={_DATA}",
    f"--socket={_SOCKET}",
    "--skip-networking",
    "--skip-grant-tables",
    "--skip-log-bin",
    "--performance-schema=OFF",
    "--innodb-data-file-path=ibdata1:4M:autoextend",
    "--innodb-temp-data-file-path=ibtmp1:4M:autoextend",
    "--innodb-log-file-size=4M",
    "--innodb-buffer-pool-size=32M",
    "--innodb-lock-wait-timeout=900",
    "--innodb-flush-log-at-trx-commit=2",
    "--innodb-use-native-aio=0",
)
_SYSTEM_TABLES = "/usr/share/mysql/mysql_system_tables.sql"


@dataclass(frozen=True)
class Daemon:
    """One daemon.

    :param words: command line on a node, given the directory for logs.
    :param ready: whether it serves, given its node's init.
    :param stays: true for a program that does not go to the background itself.
    :param environment: more environment, given the node.
    """

    name: str
    words: Callable[[Node, Path], list[str]]
    ready: Callable[[Process], bool]
    stays: bool = False
    environment: Callable[[Node], Mapping[str, str]] = lambda node: {}


def listens(process: Process, port: int) -> bool:
    """Whether something listens on a TCP port in the network namespace of a process (``proc(5)``, ``net/tcp``; state 0A)."""
    for table in ("tcp", "tcp6"):
        try:
            lines = Path(f"/proc/{process.pid}/net/{table}").read_text().splitlines()[1:]
        except OSError:
            continue
        for fields in (line.split() for line in lines):
            if fields[3] == "0A" and int(fields[1].rpartition(":")[2], 16) == port:
                return True
    return False


def answers(process: Process, path: str) -> bool:
    """Whether something accepts connections on a socket of the node."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            # Through a descriptor of the root directory: a socket's path is limited to 107 bytes.
            root = os.open(f"/proc/{process.pid}/root", os.O_PATH | os.O_DIRECTORY)
        except OSError:
            return False
        try:
            probe.connect(f"/proc/self/fd/{root}{path}")
        except OSError:
            return False
        finally:
            os.close(root)
    return True


def _munged(node: Node, log: Path) -> list[str]:
    options = {
        "key-file": "/etc/munge/munge.key",
        "socket": "/run/munge/munge.socket.2",
        "pid-file": "/run/munge/munged.pid",
        "seed-file": "/run/munge/munge.seed",
        "log-file": str(log / f"munged-{node.name}.log"),
        "num-threads": "2",
    }
    # Forced: without root, "/" belongs to nobody the user namespace knows, and munged would refuse the path of its files.
    return ["munged", "--force", *(f"--{key}={value}" for key, value in options.items())]


MUNGED = Daemon("munged", _munged, lambda node: answers(node, "/run/munge/munge.socket.2"))
MARIADBD = Daemon("mariadbd", lambda node, log: list(_MARIADBD), lambda node: answers(node, _SOCKET), stays=True)
SLURMDBD = Daemon("slurmdbd", lambda node, log: ["slurmdbd"], lambda node: listens(node, SLURMDBD_PORT))
SLURMCTLD = Daemon("slurmctld", lambda node, log: ["slurmctld"], lambda node: listens(node, SLURMCTLD_PORT))
SLURMD = Daemon(
    "slurmd",
    lambda node, log: ["slurmd"],
    lambda node: listens(node, SLURMD_PORT),
    # PMIx of slurmstepd would offer munge to the ranks, whose own PMIx need not have it and then complains.
    environment=lambda node: {"HWLOC_XMLFILE": slurm.hwloc_file(node), "HWLOC_THISSYSTEM": "1", "PMIX_MCA_psec": "native"},
)


@dataclass(frozen=True)
class StartGroup:
    """Daemons that can start together, once the step before is ready."""

    places: Callable[[Plan], list[tuple[Daemon, Node]]]
    said: str = ""


def _on_head(*chosen: Daemon) -> Callable[[Plan], list[tuple[Daemon, Node]]]:
    return lambda plan: [(daemon, plan.nodes[0]) for daemon in chosen]


#: slurmd looks for the controller until it is there, so both start together.
ORDER: tuple[StartGroup, ...] = (
    StartGroup(lambda plan: [(MARIADBD, plan.nodes[0]), *((MUNGED, node) for node in plan.nodes)]),
    StartGroup(_on_head(SLURMDBD), "accounting: MariaDB, slurmdbd"),
    StartGroup(lambda plan: [(SLURMCTLD, plan.nodes[0]), *((SLURMD, node) for node in plan.compute_nodes)]),
)

#: Directories a node's private ``/run`` needs, with their mode (munged insists on it).
_RUN_DIRECTORIES = {"munge": 0o755, "slurmctld": 0o700, "slurmd": 0o755, "mysqld": 0o700}


def make_munge_key(path: Path) -> None:
    """A random key for the cluster, readable by its owner only (``munged(8)``: at least 32 bytes)."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.touch(mode=0o600)
    path.write_bytes(secrets.token_bytes(128))


def prepare(process: Process) -> None:
    """Make what daemons expect below the node's private ``/run``."""
    for name, mode in _RUN_DIRECTORIES.items():
        path = Path(f"/proc/{process.pid}/root/run/{name}")
        path.mkdir(exist_ok=True)
        path.chmod(mode)


def make_database(state: State, node: Node, log: Path) -> None:
    """Make the database's system tables, if it has none (``mariadbd --bootstrap``): Slurm stores a procedure in them.

    :raises BadInput: if MariaDB refuses.
    """
    process = state.node_process(node.name)
    data = Path(f"/proc/{process.pid}/root{_DATA}")
    if (data / "mysql").exists():
        return
    data.mkdir(parents=True, exist_ok=True)
    tables = Path(f"/proc/{process.pid}/root{_SYSTEM_TABLES}").read_text()
    done = namespaces.run(
        state, process, [*_MARIADBD, "--bootstrap"], input=f"create database mysql;\nuse mysql;\n{tables}", timeout_s=PATIENCE_S
    )
    out = log / "mariadb-tables.log"
    out.write_text(done.stdout + done.stderr)
    if done.returncode:
        raise BadInput(f"MariaDB could not make its tables; see {out}.")


def interfaces(process: Process) -> set[str]:
    """Network interfaces in the namespace of a process (``proc(5)``, ``net/dev``)."""
    lines = Path(f"/proc/{process.pid}/net/dev").read_text().splitlines()[2:]
    return {line.partition(":")[0].strip() for line in lines}


def begin(state: State, daemon: Daemon, node: Node, log: Path) -> None:
    """Start a daemon on a node, without waiting until it serves.

    :raises BadInput: if it ends at once with an error.
    """
    process = state.node_process(node.name)
    out = log / f"{daemon.name}-{node.name}.out"
    environment = daemon.environment(node)
    if daemon.stays:
        namespaces.start(state, process, daemon.words(node, log), out, environment)
        return
    words = ["env", *(f"{key}={value}" for key, value in environment.items()), *daemon.words(node, log)]
    done = namespaces.run(state, process, words, timeout_s=PATIENCE_S)
    if done.returncode:
        out.write_text(done.stdout + done.stderr)
        raise BadInput(f"{daemon.name} on {node.name} ended at once; see {out} and the logs beside it.")


def await_ready(state: State, daemon: Daemon, node: Node, log: Path) -> None:
    """Wait until a daemon serves.

    :raises BadInput: if it does not within :data:`PATIENCE_S`.
    """
    process = state.node_process(node.name)
    if not namespaces.wait_until(lambda: daemon.ready(process), PATIENCE_S):
        raise BadInput(f"{daemon.name} on {node.name} does not answer after {PATIENCE_S} s; see the logs in {log}.")


def processes_of(process: Process) -> dict[int, str]:
    """Processes in the pid namespace of a node's init, as seen from here: process id to name."""
    found = {}
    try:
        wanted = Path(f"/proc/{process.pid}/ns/pid").readlink()
    except OSError:
        return {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if (entry / "ns/pid").readlink() == wanted:
                found[int(entry.name)] = (entry / "comm").read_text().strip()
        except OSError:
            continue
    return found


def runs(state: State, daemon: Daemon, node: Node) -> bool:
    """Whether a daemon is there, on a node that is alive."""
    return daemon.name in processes_of(state.node_process(node.name)).values()


def missing(state: State, node: Node) -> list[Daemon]:
    """Daemons that should run on a node, which is alive, and do not."""
    running = set(processes_of(state.node_process(node.name)).values())
    wanted = [daemon for step in ORDER for daemon, where in step.places(state.plan) if where == node]
    return [daemon for daemon in wanted if daemon.name not in running]


def kill(process: Process, names: tuple[str, ...]) -> int:
    """Kill all processes of these names on a node; how many there were."""
    victims = [pid for pid, name in processes_of(process).items() if name in names]
    for pid in victims:
        os.kill(pid, signal.SIGKILL)
    namespaces.wait_until(lambda: not any(name in names for name in processes_of(process).values()), 5)
    return len(victims)


def register(state: State) -> None:
    """Tell the accounting about the cluster (``sacctmgr(1)``); says nothing if it knows it already."""
    head = state.node_process(HEAD)
    namespaces.run(state, head, ["sacctmgr", "--immediate", "add", "cluster", CLUSTER_NAME], timeout_s=PATIENCE_S)


def node_states(state: State) -> dict[str, str]:
    """Slurm's word for each compute node (``idle``, ``down*``, ...); empty if the controller does not answer."""
    head = state.nodes.get(HEAD)
    # Asked first, because sinfo tries for long to reach a controller or a munge that is not there.
    if head is None or not head.alive or not SLURMCTLD.ready(head) or not MUNGED.ready(head):
        return {}
    done = namespaces.run(state, head, ["sinfo", "--noheader", "--Node", "--format=%N %T"])
    return dict(line.split() for line in done.stdout.splitlines() if len(line.split()) == 2)

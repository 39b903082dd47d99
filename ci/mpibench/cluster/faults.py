"""Faults on purpose, each reversible: a table of how to make it and how to undo it.

A fault is written down before it is made, so that ``heal`` also undoes one that was interrupted half-way; undoing
what is not there does no harm.
"""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path
from typing import Any

from reframe_tests.harness.mpis import registry
from reframe_tests.harness.vocabulary import BadInput

from . import daemons, lifecycle, link_faults, namespaces, network, state
from .plan import HEAD
from .link_faults import Fault, Record
from .state import Process, State

#: libfaketime, as Debian and its relatives install it, for threaded programs (``faketime(1)``, "libfaketimeMT").
_FAKETIME = "/usr/lib/*/faketime/libfaketimeMT.so.1"
_PRELOAD, _OFFSET = "ld.so.preload", "faketimerc"


def _nothing(cluster: State, record: Record) -> None:
    """What is dead is brought back by ``heal`` in any case."""


def _link_down(cluster: State, record: Record) -> None:
    port = network.port(cluster.plan.node(record["node"]), cluster.plan.fabric(record["fabric"]))
    lifecycle.batch(cluster, cluster.init, "ip", [f"link set {port} down"])


def _link_up(cluster: State, record: Record) -> None:
    port = network.port(cluster.plan.node(record["node"]), cluster.plan.fabric(record["fabric"]))
    if port in daemons.interfaces(cluster.init):
        lifecycle.batch(cluster, cluster.init, "ip", [f"link set {port} up"])


def _slow_link(cluster: State, record: Record) -> None:
    for node in cluster.plan.compute_nodes:
        lifecycle.shape(cluster, node, record["fraction"], [record["fabric"]])


def _police(cluster: State, record: Record) -> None:
    fabric = cluster.plan.fabric(record["fabric"])
    for node in cluster.plan.compute_nodes:
        lines = network.police_lines(network.port(node, fabric), fabric, record["fraction"])
        lifecycle.batch(cluster, cluster.init, "tc", lines)


def _full_rate(cluster: State, record: Record) -> None:
    for node in cluster.plan.compute_nodes:
        if cluster.nodes[node.name].alive:
            lifecycle.shape(cluster, node, fabrics=[record["fabric"]])


def _kill_slurmd(cluster: State, record: Record) -> None:
    if not daemons.kill(cluster.node_process(record["node"]), (daemons.SLURMD.name,)):
        raise BadInput(f"no slurmd runs on {record['node']}; 'mpibench cluster fault heal' starts it.")


def _kill_node(cluster: State, record: Record) -> None:
    process = cluster.node_process(record["node"])
    os.kill(process.pid, signal.SIGKILL)
    namespaces.wait_until(lambda: not process.alive, 10)


def _is_rank(pid: int) -> bool:
    try:
        maps = Path(f"/proc/{pid}/maps").read_text()
    except OSError:
        return False
    return any(f"/{library}.so" in maps for library in registry.libraries())


def _stop_rank(cluster: State, record: Record) -> None:
    process = cluster.node_process(record["node"])
    ranks = [pid for pid in sorted(daemons.processes_of(process)) if _is_rank(pid)]
    victim = Process.observe(ranks[-1]) if ranks else None
    if victim is None:
        raise BadInput(f"no MPI process runs on {record['node']}; start a job there first.")
    record.update(pid=victim.pid, start_ticks=victim.start_ticks)
    state.save(cluster)
    os.kill(victim.pid, signal.SIGSTOP)


def _continue_rank(cluster: State, record: Record) -> None:
    if "pid" in record and Process(record["pid"], record["start_ticks"]).alive:
        os.kill(record["pid"], signal.SIGCONT)


def _full_disk(cluster: State, record: Record) -> None:
    # Mounted once where the nodes get their mounts from: every node sees the same small disk, as with a shared file system.
    options = f"size={record['free_kib']}k,mode=1777"
    words = ["mount", "-t", "tmpfs", "-o", options, _DISK, record["path"]]
    done = namespaces.run(cluster, cluster.init, words)
    if done.returncode:
        raise BadInput(f"{record['path']} cannot be made a small disk ({done.stderr.strip()}); name an existing directory.")


_DISK = "mpibench-small-disk"


def _usual_disk(cluster: State, record: Record) -> None:
    mounts = Path(f"/proc/{cluster.init.pid}/mounts").read_text()
    if any(line.split()[:2] == [_DISK, record["path"]] for line in mounts.splitlines()):
        namespaces.run(cluster, cluster.init, ["umount", "--lazy", record["path"]])


def _clock_jump(cluster: State, record: Record) -> None:
    node = cluster.plan.node(record["node"])
    process = cluster.node_process(node.name)
    folder = state.runtime_dir() / state.CLOCK / node.name
    folder.mkdir(parents=True, exist_ok=True)
    # libfaketime reads the file again every 10 s: processes that already run with it follow a second jump.
    (folder / _OFFSET).write_text(f"{record['seconds']:+d}\n")
    if _mounted_over_etc(process):
        return
    found = sorted(Path(f"/proc/{process.pid}/root/").glob(_FAKETIME.lstrip("/")))
    if not found:
        raise BadInput("libfaketime is not installed on this machine; install the package libfaketime.")
    usual = Path(f"/proc/{process.pid}/root/etc/{_PRELOAD}").read_text()
    library = "/" + str(found[0]).partition("/root/")[2]
    (folder / _PRELOAD).write_text(f"{library}\n{usual}")
    for name in (_OFFSET, _PRELOAD):
        namespaces.run(cluster, process, ["mount", "--bind", str(folder / name), f"/etc/{name}"])
    daemons.kill(process, (daemons.MUNGED.name, daemons.SLURMD.name))
    for daemon in (daemons.MUNGED, daemons.SLURMD):
        daemons.begin(cluster, daemon, node, lifecycle.log_dir())


def _mounted_over_etc(process: Process) -> bool:
    return f" /etc/{_PRELOAD} " in Path(f"/proc/{process.pid}/mounts").read_text()


def _usual_clock(cluster: State, record: Record) -> None:
    process = cluster.nodes[record["node"]]
    if not process.alive or not _mounted_over_etc(process):
        return
    for name in (_PRELOAD, _OFFSET):
        namespaces.run(cluster, process, ["umount", f"/etc/{name}"])
    daemons.kill(process, (daemons.MUNGED.name, daemons.SLURMD.name))


FAULTS: dict[str, Fault] = {
    "link-down": Fault(_link_down, _link_up),
    "slow-link": Fault(_slow_link, _full_rate),
    "police": Fault(_police, _full_rate),
    "kill-slurmd": Fault(_kill_slurmd, _nothing),
    "kill-node": Fault(_kill_node, _nothing),
    "stop-rank": Fault(_stop_rank, _continue_rank),
    "full-disk": Fault(_full_disk, _usual_disk),
    "clock-jump": Fault(_clock_jump, _usual_clock),
    **link_faults.FAULTS,
}


def make(name: str, **what: Any) -> None:
    """Make a fault; ``what`` are its parameters, checked before anything happens.

    :raises BadInput: if the cluster is not up, or has no such node, fabric or process.
    """
    with state.locked():
        cluster = state.running()
        if "node" in what:
            cluster.plan.node(what["node"])
        if "fabric" in what:
            cluster.plan.fabric(what["fabric"])
        if "leaf" in what:
            cluster.plan.leaf(what["leaf"])
        if not 0 < what.get("fraction", 1) <= 1:
            raise BadInput(f"a fraction of {what['fraction']} is not possible; give one above 0, at most 1.")
        record: Record = {"name": name, "words": [str(value) for value in what.values()], **what}
        cluster.faults.append(record)
        state.save(cluster)
        try:
            FAULTS[name].make(cluster, record)
        except BadInput:
            with contextlib.suppress(BadInput, OSError):
                FAULTS[name].undo(cluster, record)
            cluster.faults.remove(record)
            state.save(cluster)
            raise


def heal(say: lifecycle.Say) -> None:
    """Undo all faults, the latest first, and bring back dead nodes and daemons.

    :raises BadInput: if a node does not come back.
    """
    with state.locked():
        cluster = state.running()
        for record in reversed(cluster.faults[:]):
            FAULTS[record["name"]].undo(cluster, record)
            cluster.faults.remove(record)
            state.save(cluster)
            say(f"healed: {' '.join([record['name'], *record['words']])}")
        for node in cluster.plan.nodes:
            if not cluster.nodes[node.name].alive:
                lifecycle.boot(cluster, node)
                state.save(cluster)
                say(f"node {node.name} is back")
        lifecycle.serve(cluster, say)
        _free_nodes(cluster)


def _free_nodes(cluster: State) -> None:
    """Free nodes that wait for the end of a job they lost: Slurm asks them again only after a minute (``scontrol(1)``)."""
    for name, word in daemons.node_states(cluster).items():
        if word.startswith("completing"):
            for change in (["State=DOWN", "Reason=healed"], ["State=RESUME"]):
                namespaces.run(cluster, cluster.node_process(HEAD), ["scontrol", "update", f"NodeName={name}", *change])
    lifecycle.await_nodes(cluster)

"""Faults on purpose, each reversible: a table of how to make it and how to undo it.

A fault is written down before it is made, so that ``clear`` also undoes one that was interrupted
half-way; undoing what is not there does no harm. What must go on for as long as the fault does
(losing and delaying frames, stopping ranks, a link that is bad now and then) is a process of the
cluster (:mod:`.fault_process`), which is found again by its name.
"""

from __future__ import annotations

import contextlib
import inspect
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from reframe_tests.harness.process_stat import Process
from reframe_tests.harness.vocabulary import BadInput, meant

from . import fault_process, lifecycle, namespaces, plan, slurm, state
from .lifecycle import shape
from .namespaces import batch, interfaces, kill
from .plan import HEAD, ClusterFabric, ClusterNode, Leaf
from .state import State

#: Directions of a link as its node sees them, and of an uplink as the leaf does.
SEND = "send"
RECEIVE = "receive"
BOTH = "both"
_WAYS = {SEND: (SEND,), RECEIVE: (RECEIVE,), BOTH: (SEND, RECEIVE)}
_PROGRAM = str(Path(__file__).with_name("fault_process.py"))
#: What options may be. IPv4 needs an MTU of 576, the links have 1500 (RFC 791); TCP takes a longer
#: delay for a loss (RFC 6298, 200 ms in Linux).
_POSSIBLE: dict[str, tuple[Callable[[Any], bool], str]] = {
    "fraction": (lambda value: 0 < value <= 1, "above 0, at most 1"),
    "direction": (lambda value: value in _WAYS, ", ".join(_WAYS)),
    "loss": (lambda value: 0 <= value < 1, "at least 0, below 1"),
    "delay_us": (lambda value: 0 <= value <= 100_000, "0 to 100000"),
    "mtu": (lambda value: 576 <= value <= 1500, "576 to 1500"),
    "bad_s": (lambda value: value > 0, "above 0"),
    "good_s": (lambda value: value > 0, "above 0"),
    "free_kib": (lambda value: value >= 4, "at least 4"),
}


# ---- links of all nodes, and of one ----


def link_down(cluster: State, node: ClusterNode, fabric: ClusterFabric) -> None:
    """Take a link down: the node's interface loses its carrier. An MPI job that uses it hangs."""
    batch(cluster, cluster.init, "ip", [f"link set {node.port(fabric)} down"])


def slow_link(cluster: State, fabric: ClusterFabric, fraction: float = 0.25) -> None:
    """Limit what all compute nodes send to a fraction of the fabric's rate; nothing is lost."""
    for node in cluster.plan.compute_nodes:
        shape(cluster, node, [fabric], fraction)


def police(cluster: State, fabric: ClusterFabric, fraction: float = 0.5) -> None:
    """Drop packets to the compute nodes beyond a fraction of the
    fabric's rate; TCP retransmits them.
    """
    for node in cluster.plan.compute_nodes:
        batch(cluster, cluster.init, "tc", plan.police_lines(node.port(fabric), fabric, fraction))


def slow_port(
    cluster: State,
    node: ClusterNode,
    fabric: ClusterFabric,
    fraction: float = 0.25,
    direction: str = BOTH,
) -> None:
    """Limit one node's link to a fraction of its rate, in one
    direction or both; nothing is lost.
    """
    for way in _WAYS[direction]:
        batch(cluster, *_one_way(cluster, node, fabric, way, fraction))


def _one_way(
    cluster: State, node: ClusterNode, fabric: ClusterFabric, way: str, fraction: float
) -> tuple[Process, str, list[str]]:
    """``tc`` lines for one direction of a node's link, and in whose network they are to be run."""
    if way == SEND:
        return (
            cluster.node_process(node.name),
            "tc",
            plan.shape_lines(fabric.name, fabric, fraction),
        )
    if fraction == 1.0:
        return cluster.init, "tc", plan.port_lines(cluster.plan, node, fabric)
    return cluster.init, "tc", plan.shape_lines(node.port(fabric), fabric, fraction)


def flapping(
    cluster: State,
    node: ClusterNode,
    fabric: ClusterFabric,
    fraction: float = 0.1,
    direction: str = SEND,
    bad_s: float = 1,
    good_s: float = 3,
) -> None:
    """Limit one node's link now and then, in one direction, for so
    many seconds with so many good ones between.
    """
    if direction == BOTH:
        raise BadInput(
            "bad-option",
            f"an intermittent fault affects one direction; give {SEND} or {RECEIVE}.",
        )
    process, _, bad = _one_way(cluster, node, fabric, direction, fraction)
    good = _one_way(cluster, node, fabric, direction, 1.0)[2]
    _begin(
        cluster,
        process,
        _toggle_name(node, fabric),
        "toggle",
        bad_s,
        good_s,
        "; ".join(bad),
        "; ".join(good),
    )


def _toggle_name(node: ClusterNode, fabric: ClusterFabric) -> str:
    return f"tg-{node.name}-{fabric.name}"[:15]


def lossy_cable(
    cluster: State,
    node: ClusterNode,
    fabric: ClusterFabric,
    loss: float = 0.01,
    direction: str = BOTH,
) -> None:
    """Lose this fraction of the frames of one node's cable at random; TCP sends them again."""
    _relay(cluster, node, fabric, f"0:{loss}", direction)


def delay(
    cluster: State,
    node: ClusterNode,
    fabric: ClusterFabric,
    delay_us: int = 1000,
    direction: str = BOTH,
) -> None:
    """Hand each frame of one node's cable on later. A process
    does that: it needs a part of a core.
    """
    _relay(cluster, node, fabric, f"{delay_us}:0", direction)


def relay_names(node: ClusterNode, fabric: ClusterFabric) -> tuple[str, str, str]:
    """A relay's process, and both ends of the cable that it puts
    between a node's port and the switch.
    """
    return tuple(f"{kind}{node.index}-{fabric.name}" for kind in ("relay", "ra", "rb"))  # type: ignore[return-value]


def _relay(
    cluster: State, node: ClusterNode, fabric: ClusterFabric, setting: str, direction: str
) -> None:
    name, inner, outer = relay_names(node, fabric)
    if inner in interfaces(cluster.init):
        raise BadInput(
            "name-taken",
            f"the cable of {node.name} on {fabric.name} already has such a fault; run 'cluster "
            "fault clear' first.",
        )
    port = node.port(fabric)
    bridge = cluster.plan.bridge_above(node, fabric)
    lines = [
        f"link add {inner} type veth peer name {outer}",
        f"link set {port} nomaster promisc on",
    ]
    lines += [f"link set {inner} promisc on up", f"link set {outer} master {bridge} up"]
    batch(cluster, cluster.init, "ip", lines)
    # What the node sends comes in at its port, and goes on to the switch by
    # the inner end; what it receives the other way.
    settings = [setting if way in _WAYS[direction] else "0:0" for way in (SEND, RECEIVE)]
    _begin(cluster, cluster.init, name, "relay", port, inner, *settings)


def slow_uplink(cluster: State, leaf: Leaf, fraction: float = 0.25, direction: str = BOTH) -> None:
    """Limit the uplink of a leaf switch to a fraction of its rate,
    to the spine (send), from it or both.
    """
    ends = [(SEND, RECEIVE).index(way) for way in _WAYS[direction]]
    batch(cluster, cluster.init, "tc", plan.uplink_lines(leaf, fraction, ends))


def _usual_uplink(cluster: State, leaf: Leaf, **_: Any) -> None:
    batch(cluster, cluster.init, "tc", plan.uplink_lines(leaf))


def mtu(cluster: State, node: ClusterNode, fabric: ClusterFabric, mtu: int = 1400) -> None:
    """Give one node's interface another MTU; the other nodes have 1500."""
    batch(cluster, cluster.node_process(node.name), "ip", [f"link set {fabric.name} mtu {mtu}"])


def same_address(cluster: State, node: ClusterNode, fabric: ClusterFabric) -> None:
    """Give one node's interface the address of the first other node's instead of its own."""
    other = _first_other(cluster, node)
    if other is None:
        raise BadInput("nothing-measured", "the cluster has no other compute node.")
    batch(cluster, cluster.node_process(node.name), "ip", plan.node_lines(other, fabric, node))


def _first_other(cluster: State, node: ClusterNode) -> ClusterNode | None:
    return next((other for other in cluster.plan.compute_nodes if other != node), None)


def _usual_links(
    cluster: State, fabric: ClusterFabric, node: ClusterNode | None = None, **_: Any
) -> None:
    """Make a link, or all of a fabric, what the plan says, whatever was done to it."""
    for each in [node] if node else cluster.plan.compute_nodes:
        process, port, (relay, inner, _outer) = (
            cluster.nodes[each.name],
            each.port(fabric),
            relay_names(each, fabric),
        )
        kill(cluster.init, relay, _toggle_name(each, fabric))
        there = interfaces(cluster.init)
        lines = [f"link del {inner}"] if inner in there else []
        lines += (
            [f"link set {port} promisc off up master {cluster.plan.bridge_above(each, fabric)}"]
            if port in there
            else []
        )
        batch(cluster, cluster.init, "ip", lines)
        if process.alive:
            kill(process, _toggle_name(each, fabric))
            lines = plan.node_lines(each, fabric, _first_other(cluster, each))
            batch(cluster, process, "ip", [*lines, f"link set {fabric.name} mtu 1500"])
            shape(cluster, each, [fabric])


# ---- processes of a node ----


def _libraries() -> Sequence[str]:
    """MPI libraries by which ranks are known; loaded late,
    because every command loads this module.
    """
    from reframe_tests.harness.mpis import registry

    return registry.libraries()


def _begin(cluster: State, process: Process, name: str, *words: object) -> None:
    """Start a process of :mod:`.fault_process` and wait until it goes by its name."""
    log = state.log_dir() / f"{name}.log"
    namespaces.start(cluster, process, [sys.executable, _PROGRAM, name, *map(str, words)], log, {})
    if not namespaces.wait_until(lambda: name in namespaces.processes_of(process).values(), 10):
        raise BadInput("cluster-not-ready", f"the fault's process {name} did not start; see {log}.")


def slow_cpu(cluster: State, node: ClusterNode, fraction: float = 0.25) -> None:
    """Let the MPI processes of one node run for a fraction of each 4 ms
    only, as a quota of its processor would.
    """
    _begin(
        cluster, cluster.node_process(node.name), "mc-throttle", "throttle", fraction, *_libraries()
    )


def _usual_cpu(cluster: State, node: ClusterNode, **_: Any) -> None:
    process = cluster.nodes[node.name]
    if process.alive and kill(process, "mc-throttle"):
        # It may have been killed while the ranks were stopped.
        namespaces.run(
            cluster,
            process,
            [sys.executable, _PROGRAM, "mc-continue", "throttle", "1", *_libraries()],
        )


def kill_slurmd(cluster: State, node: ClusterNode) -> None:
    """Kill a node's slurmd. Slurm notices within half a minute;
    running steps continue until then.
    """
    if not kill(cluster.node_process(node.name), "slurmd"):
        raise BadInput(
            "cluster-not-ready",
            f"no slurmd runs on {node.name}; 'mpibench cluster fault clear' starts it.",
        )


def kill_node(cluster: State, node: ClusterNode) -> None:
    """Kill a node, with all its processes and links."""
    process = cluster.node_process(node.name)
    os.kill(process.pid, signal.SIGKILL)
    namespaces.wait_until(lambda: not process.alive, 10)


def _nothing(cluster: State, node: ClusterNode) -> None:
    """What is dead is brought back by ``clear`` in any case."""


def ranks_on(process: Process) -> list[int]:
    """Processes of a node that have loaded an MPI library, the youngest last."""
    return fault_process.ranks(_libraries(), sorted(namespaces.processes_of(process)))


def stop_rank(cluster: State, node: ClusterNode) -> None:
    """Stop (SIGSTOP) the youngest MPI process on a node. The job hangs until its time limit."""
    ranks = ranks_on(cluster.node_process(node.name))
    victim = Process.observe(ranks[-1]) if ranks else None
    if victim is None:
        raise BadInput(
            "stack-unusable", f"no MPI process runs on {node.name}; start a job there first."
        )
    cluster.faults[-1]["what"].update(pid=victim.pid, start_ticks=victim.start_ticks)
    state.save(cluster)
    os.kill(victim.pid, signal.SIGSTOP)


def _continue_rank(cluster: State, node: ClusterNode, pid: int = 0, start_ticks: int = 0) -> None:
    if pid and Process(pid, start_ticks).alive:
        os.kill(pid, signal.SIGCONT)


# ---- a disk, a clock ----

_DISK = "mpibench-small-disk"


def full_disk(cluster: State, path: str, free_kib: int = 64) -> None:
    """Mount a small disk over an existing directory (the stage
    directory, say) on all nodes, so that jobs fill it.
    """
    # Mounted once where the nodes get their mounts from: every node sees the
    # same small disk, as with a shared file system.
    words = ["mount", "-t", "tmpfs", "-o", f"size={free_kib}k,mode=1777", _DISK, path]
    done = namespaces.run(cluster, cluster.init, words)
    if done.returncode:
        raise BadInput(
            "not-ours",
            f"{path} cannot become a small disk ({done.stderr.strip()}); name an existing "
            "directory.",
        )


def _usual_disk(cluster: State, path: str, **_: Any) -> None:
    mounts = Path(f"/proc/{cluster.init.pid}/mounts").read_text()
    if any(line.split()[:2] == [_DISK, path] for line in mounts.splitlines()):
        namespaces.run(cluster, cluster.init, ["umount", "--lazy", path])


#: libfaketime, as Debian and its relatives install it, for threaded
#: programs (``faketime(1)``, "libfaketimeMT").
_FAKETIME = "usr/lib/*/faketime/libfaketimeMT.so.1"
_PRELOAD = "ld.so.preload"
_OFFSET = "faketimerc"


def clock_jump(cluster: State, node: ClusterNode, seconds: int = 3600) -> None:
    """Set a node's clock wrong (negative: back) for munge, slurmd and
    every program started on it from now on.

    The kernel has one calendar clock for all nodes, so libfaketime is preloaded: programs already
    running keep the right time; static programs and monotonic intervals are not affected. A second
    call changes the jump, and programs started in between follow within 10 s. Beyond 300 s munge
    refuses the node's credentials, so Slurm loses the node.
    """
    process = cluster.node_process(node.name)
    folder = state.runtime_dir() / state.CLOCK / node.name
    folder.mkdir(parents=True, exist_ok=True)
    # libfaketime reads the file again every 10 s: processes that
    # already run with it follow a second jump.
    (folder / _OFFSET).write_text(f"{seconds:+d}\n")
    if _mounted_over_etc(process):
        return
    root = Path(f"/proc/{process.pid}/root")
    found = sorted(root.glob(_FAKETIME))
    if not found:
        raise BadInput(
            "tool-missing",
            "libfaketime is not installed on this machine; install the package libfaketime.",
        )
    (folder / _PRELOAD).write_text(
        f"/{found[0].relative_to(root)}\n{(root / 'etc' / _PRELOAD).read_text()}"
    )
    for name in (_OFFSET, _PRELOAD):
        namespaces.run(cluster, process, ["mount", "--bind", str(folder / name), f"/etc/{name}"])
    kill(process, "munged", "slurmd")
    for daemon in (slurm.MUNGED, slurm.SLURMD):
        slurm.begin(cluster, daemon, node)


def _mounted_over_etc(process: Process) -> bool:
    return f" /etc/{_PRELOAD} " in Path(f"/proc/{process.pid}/mounts").read_text()


def _usual_clock(cluster: State, node: ClusterNode, **_: Any) -> None:
    process = cluster.nodes[node.name]
    if process.alive and _mounted_over_etc(process):
        for name in (_PRELOAD, _OFFSET):
            namespaces.run(cluster, process, ["umount", f"/etc/{name}"])
        kill(process, "munged", "slurmd")


# ---- the table ----


class Fault:
    """One kind of fault.

    :param make: makes it; its arguments without a default say on what (a node, fabric, leaf or
        path), the others are options.
    :param undo: undoes it; gets the same arguments.
    """

    def __init__(self, make: Callable[..., None], undo: Callable[..., None]) -> None:
        self.make = make
        self.undo = undo
        arguments = list(inspect.signature(make).parameters.values())[1:]
        self.where = [argument.name for argument in arguments if argument.default is argument.empty]
        self.options = {
            argument.name: argument.default
            for argument in arguments
            if argument.default is not argument.empty
        }
        options = [f"[--{name} {value}]".replace("_", "-") for name, value in self.options.items()]
        #: Its arguments as they are given to the command.
        self.usage = " ".join(
            [make.__name__.replace("_", "-"), *map(str.upper, self.where), *options]
        )


_UNDONE_BY: dict[Callable[..., None], tuple[Callable[..., None], ...]] = {
    _usual_links: (
        link_down,
        slow_link,
        police,
        slow_port,
        flapping,
        lossy_cable,
        delay,
        mtu,
        same_address,
    ),
    _usual_uplink: (slow_uplink,),
    _usual_cpu: (slow_cpu,),
    _nothing: (kill_slurmd, kill_node),
    _continue_rank: (stop_rank,),
    _usual_disk: (full_disk,),
    _usual_clock: (clock_jump,),
}
FAULTS = {
    kind.__name__.replace("_", "-"): Fault(kind, undo)
    for undo, kinds in _UNDONE_BY.items()
    for kind in kinds
}


def _things(cluster: State, what: dict[str, Any]) -> dict[str, Any]:
    """Arguments of a fault with the plan's nodes, fabrics and leaves for their names."""
    named = {"node": cluster.plan.node, "fabric": cluster.plan.fabric, "leaf": cluster.plan.leaf}
    return {name: named[name](value) if name in named else value for name, value in what.items()}


def make(name: str, *where: str, **what: Any) -> str:
    """Make a fault on this (in order, or by name) with these options, all
    checked before anything happens; how it is listed.
    """
    fault = FAULTS.get(name)
    if fault is None:
        raise BadInput(
            "unknown-name",
            f"there is no fault '{name}'{meant(name, FAULTS)}; known are {', '.join(FAULTS)}.",
        )
    what |= zip(fault.where, where, strict=False)
    if set(what) - set(fault.options) != set(fault.where) or len(where) > len(fault.where):
        raise BadInput("bad-option", f"wrong arguments for this kind; usage: {fault.usage}")
    if "path" in what:
        what["path"] = str(Path(what["path"]).resolve())
    what = {**{place: what[place] for place in fault.where}, **fault.options, **what}
    for option, value in what.items():
        possible, words = _POSSIBLE.get(option, (bool, ""))
        if option in _POSSIBLE and not possible(value):
            raise BadInput(
                "bad-option", f"--{option.replace('_', '-')} {value} is not possible; give {words}."
            )
    with state.locked():
        cluster = state.running()
        things = _things(cluster, what)
        alone = not any(
            FAULTS[other["name"]].undo is fault.undo
            and all(other["what"].get(place, what[place]) == what[place] for place in fault.where)
            for other in cluster.faults
        )
        cluster.faults.append(
            {"name": name, "words": [str(value) for value in what.values()], "what": what}
        )
        state.save(cluster)
        try:
            fault.make(cluster, **things)
        except BadInput:
            with contextlib.suppress(BadInput, OSError):
                if alone:  # undoing another fault of the place undoes the rest of this one
                    fault.undo(cluster, **things)
            cluster.faults.pop()
            state.save(cluster)
            raise
        return " ".join([name, *cluster.faults[-1]["words"]])


def clear(say: lifecycle.Say) -> None:
    """Undo all faults, the latest first, and bring back dead nodes and daemons."""
    with state.locked():
        cluster = state.running()
        for record in reversed(cluster.faults[:]):
            FAULTS[record["name"]].undo(cluster, **_things(cluster, record["what"]))
            cluster.faults.remove(record)
            state.save(cluster)
            say(f"cleared: {' '.join([record['name'], *record['words']])}")
        for node in cluster.plan.nodes:
            if not cluster.nodes[node.name].alive:
                lifecycle.boot(cluster, node)
                state.save(cluster)
                say(f"node {node.name} is back")
        # Back into service what Slurm has drained by itself, since a
        # job's processes did not end in time.
        _update_nodes(cluster, "drain", "State=RESUME")
        slurm.serve(cluster, say)
        # Free what waits for the end of a job it lost: Slurm asks such nodes
        # again only after a minute (scontrol(1)).
        _update_nodes(cluster, "completing", "State=DOWN Reason=cleared", "State=RESUME")
        slurm.await_nodes(cluster)


def _update_nodes(cluster: State, word: str, *changes: str) -> None:
    for name, shown in slurm.node_states(cluster).items():
        for change in changes if shown.startswith(word) else ():
            words = ["scontrol", "update", f"NodeName={name}", *change.split()]
            namespaces.run(cluster, cluster.node_process(HEAD), words)

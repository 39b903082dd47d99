"""Up, down and status of the cluster."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from reframe_tests.harness.vocabulary import ROOT, BadInput

from . import kernel, namespaces, packages, plan, slurm, state
from .namespaces import batch
from .plan import HEAD, Fabric, Node, Plan
from .state import State

Say = Callable[[str], None]


def up(wanted_nodes: int, layout: str, share: Sequence[Path], say: Say, **leaves: Any) -> State:
    """Bring the cluster up; nothing to do if the same cluster is up already.

    :param leaves: ``leaf_size`` and ``oversubscription``, as for :func:`.plan.make`.
    :raises BadInput: if this machine cannot carry it, or another one is up. Nothing is left behind then.
    """
    with state.locked() as runtime_dir:
        shown = [ROOT, Path.home(), Path(sys.prefix), Path(sys.base_prefix), Path.cwd(), runtime_dir, *share]
        visible = namespaces.hidden([path.absolute() for path in shown if path.exists()])
        wanted = plan.make(wanted_nodes, layout, visible, **leaves)
        found = state.load()
        if found and found.init.alive and found.ready:
            _expect_same(found.plan, wanted)
            names = ", ".join(node.name for node in wanted.nodes)
            say(f"the cluster is up already: {names}, layout {layout}")
            return found
        _tear_down(found)
        package_root = packages.provide(say)
        try:
            with _interruptible() as check_interrupt:

                def say_unless_interrupted(text: str) -> None:
                    check_interrupt()
                    say(text)

                cluster = _build(wanted, package_root, say_unless_interrupted)
                check_interrupt()
                return cluster
        except BaseException as error:
            _tear_down(state.load())
            if isinstance(error, BadInput):
                state.forget()  # the sentence points at the logs
            else:
                state.remove()
            raise


@contextlib.contextmanager
def _interruptible() -> Iterator[Callable[[], None]]:
    """A check that raises the KeyboardInterrupt which Python lost: one that falls into a hook of os.fork is dropped there."""
    seen = False
    previous = signal.getsignal(signal.SIGINT)

    def note(number: int, frame: object) -> None:
        nonlocal seen
        seen = True
        raise KeyboardInterrupt

    def check() -> None:
        if seen:
            raise KeyboardInterrupt

    if previous is not signal.default_int_handler:  # ignored by the caller's wish, or handled by somebody else
        yield check
        return
    signal.signal(signal.SIGINT, note)
    try:
        yield check
    finally:
        signal.signal(signal.SIGINT, previous)


def _expect_same(running: Plan, wanted: Plan) -> None:
    lacking = [path for path in wanted.shared if not any(Path(path).is_relative_to(known) for known in running.shared)]
    if (running.compute, running.layout) != (wanted.compute, wanted.layout):
        other = f"a cluster of {running.compute} nodes with layout {running.layout} is up"
    elif (running.leaf_size, running.oversubscription) != (wanted.leaf_size, wanted.oversubscription):
        other = f"a cluster with {_leaf_words(running)} is up"
    elif lacking:
        other = f"the cluster that is up does not show {', '.join(lacking)} on its nodes"
    else:
        return
    raise BadInput(f"{other}; take it down first.")


def _build(wanted: Plan, package_root: Path | None, say: Say) -> State:
    state.log_dir().mkdir(exist_ok=True)
    etc = state.runtime_dir() / state.ETC
    slurm.write_etc(wanted, etc, state.log_dir())
    own_user = not kernel.privileged()
    init, lifeline = namespaces.create_cluster(etc, package_root, own_user, state.init_log())
    try:
        cluster = State(wanted, init, str(package_root) if package_root else None, own_user)
        state.save(cluster)
        where = ", in a user namespace" if own_user else ""
        say(f"namespaces: switch with {', '.join(fabric.name for fabric in wanted.fabrics)}{where}")
        batch(cluster, init, "ip", plan.switch_lines(wanted))
        batch(cluster, init, "tc", [line for leaf in wanted.leaves for line in plan.uplink_lines(leaf)])
        for node in wanted.nodes:
            boot(cluster, node)
            state.save(cluster)
        say(f"nodes: {', '.join(node.name for node in wanted.nodes)} ({_layout_words(wanted)})")
        if wanted.leaves:
            say(f"switches: {_leaf_words(wanted)}")
        slurm.serve(cluster, say)
        cluster.ready = True
        state.save(cluster)
        os.write(lifeline, b"1")
        return cluster
    finally:
        os.close(lifeline)


def _layout_words(shown: Plan) -> str:
    rows = [(node.name, shown.topology(node)) for node in shown.compute_nodes]
    cores = [f"{name} on {'' if row.real else 'faked '}cores {','.join(map(str, row.cpus))}" for name, row in rows]
    return f"layout {shown.layout}: {', '.join(cores)}"


def _leaf_words(shown: Plan) -> str:
    if not shown.leaves:
        return "no leaf switches"
    leaves = ", ".join(f"{leaf.name} with {leaf.nodes[0].name} to {leaf.nodes[-1].name}" for leaf in shown.leaves)
    return f"{leaves}; uplinks of {shown.leaves[0].uplink.line_rate_mbit_per_s} Mbit/s ({shown.oversubscription:g} : 1)"


def boot(cluster: State, node: Node) -> None:
    """Make a node and plug its cables in; no daemon runs on it yet.

    :raises BadInput: if a step fails.
    """
    # The kernel removes a dead node's cables a moment after the node.
    ports = {node.port(fabric) for fabric in cluster.plan.fabrics}
    namespaces.wait_until(lambda: not ports & namespaces.interfaces(cluster.init), 10)
    process = cluster.nodes[node.name] = namespaces.create_node(cluster, node, state.init_log())
    batch(cluster, cluster.init, "ip", plan.cable_lines(cluster.plan, node, process.pid_in_parent))
    batch(cluster, process, "ip", plan.node_lines(cluster.plan, node))
    shape(cluster, node, cluster.plan.fabrics)
    slurm.prepare(process)


def shape(cluster: State, node: Node, fabrics: Sequence[Fabric], fraction: float = 1.0) -> None:
    """Give a node's links on these fabrics their rate, or a fraction of it."""
    lines = [line for fabric in fabrics for line in plan.shape_lines(fabric.name, fabric, fraction)]
    batch(cluster, cluster.node_process(node.name), "tc", lines)
    lines = [line for fabric in fabrics for line in plan.port_lines(cluster.plan, node, fabric, fraction)]
    batch(cluster, cluster.init, "tc", lines)


def down(say: Say) -> None:
    """Take the cluster down: every process, mount, link, namespace and file of it, and nothing else.

    :raises BadInput: if the runtime directory is somebody else's or holds something else; it is left as it is.
    """
    with state.locked():
        was_up = _tear_down(state.load())
        left = state.remove()
    say("the cluster is down" if was_up else "the cluster was not up")
    if left:
        say(f"left in {state.runtime_dir()}, because it is none of the cluster's: {', '.join(left)}")


def _tear_down(found: State | None) -> bool:
    """Kill the cluster's init, also one that no state file names any more; whether there was one."""
    inits = namespaces.inits_logging_to(state.init_log())
    if found is not None and found.init.alive:
        inits.add(found.init)
    for init in inits:
        os.kill(init.pid, signal.SIGKILL)
    # The kernel ends everything inside first; the init itself goes last.
    if not namespaces.wait_until(lambda: not any(init.alive for init in inits), 30):
        pids = ", ".join(str(init.pid) for init in inits if init.alive)
        raise BadInput(f"the cluster's process {pids} does not end; see what it waits for in /proc/<number>/stack.")
    return bool(inits)


# ---- status ----


class NodeStatus(NamedTuple):
    """A node: whether its init is alive, its state in Slurm, and the daemons that do not run."""

    node: str
    alive: bool
    slurm: str
    not_running: Sequence[str]


class LinkStatus(NamedTuple):
    """A node's interface as the kernel has it: ``up`` or ``down``, and its rate as ``tc`` prints it."""

    node: str
    fabric: str
    state: str
    rate: str


#: Shell script: all links as JSON, then the classes of each that is named, in one program on the node instead of one for each.
_SHOW_LINKS = 'ip -json link; for name do echo --; tc class show dev "$name"; done'


def links(cluster: State) -> list[LinkStatus]:
    """The interfaces of every node that is alive."""
    rows = []
    names = [fabric.name for fabric in cluster.plan.fabrics]
    for node, process in cluster.nodes.items():
        if not process.alive:
            continue
        shown = namespaces.run(cluster, process, ["sh", "-c", _SHOW_LINKS, "sh", *names]).stdout
        described, *classes = shown.split("--\n")
        up = {row["ifname"]: row["operstate"] == "UP" for row in json.loads(described or "[]")}
        for name, text in zip(names, classes, strict=False):
            if name in up:
                rate = re.search(r"\brate (\S+)", text)
                rows.append(LinkStatus(node, name, "up" if up[name] else "down", rate[1] if rate else "unshaped"))
    return rows


@dataclass(frozen=True)
class ClusterStatus:
    """How the cluster is.

    :param status: 0 all healthy; 1 a fault is in force, a node is not usable or a link is down; 3 not up.
    :param why: why there is nothing to look at; empty where there is.
    :param about: switches, layout, process and files, a sentence each.
    :param faults: in force, as they were asked for.
    """

    status: int
    why: str = ""
    about: Sequence[str] = ()
    nodes: Sequence[NodeStatus] = ()
    links: Sequence[LinkStatus] = ()
    faults: Sequence[str] = ()

    def lines(self) -> Iterator[str]:
        """For a terminal."""
        if self.why:
            yield self.why
            return
        yield from self.about
        for name, alive, word, missing in self.nodes:
            yield f"{name:8} {'alive' if alive else 'dead':6} {word}"
            yield from (f"{name:8} {daemon} does not run" for daemon in missing)
        yield from (f"{node:8} {fabric:8} {word:5} {rate}" for node, fabric, word, rate in self.links)
        yield from (f"fault in force: {fault}" for fault in self.faults)
        if not self.faults:
            yield "no fault in force"

    def as_data(self) -> dict[str, Any]:
        """The same, for programs."""
        rows = {"nodes": [row._asdict() for row in self.nodes], "links": [row._asdict() for row in self.links]}
        return {"healthy": self.status == 0, "why": self.why, **rows, "faults": list(self.faults)}


def look() -> ClusterStatus:
    """What is up, and how it is."""
    state.expect_host()
    found = state.load()
    if found is None:
        return ClusterStatus(3, "the cluster is not up")
    if not found.init.alive:
        return ClusterStatus(3, "the cluster's init is dead; 'mpibench cluster down' removes its files")
    if not found.ready:
        why = "the cluster is coming up, or did not come up completely; 'mpibench cluster down' takes it away"
        return ClusterStatus(1, why)
    about = [f"switches: {_leaf_words(found.plan)}"] if found.plan.leaves else []
    about.append(f"{_layout_words(found.plan)}; process {found.init.pid}, files in {state.runtime_dir()}")
    states = slurm.node_states(found)
    if states:
        states[HEAD] = "controller"
    nodes = []
    for node in found.plan.nodes:
        alive = found.nodes[node.name].alive
        missing = [daemon.name for daemon in slurm.missing(found, node)] if alive else []
        nodes.append(NodeStatus(node.name, alive, states.get(node.name, "no answer from slurmctld"), missing))
    there = links(found)
    healthy = all(row.alive and row.slurm in (*slurm.HEALTHY, "controller") and not row.not_running for row in nodes)
    healthy = healthy and not found.faults and all(row.state == "up" for row in there)
    faults = [" ".join([fault["name"], *fault["words"]]) for fault in found.faults]
    return ClusterStatus(0 if healthy else 1, "", about, nodes, there, faults)

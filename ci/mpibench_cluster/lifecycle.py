"""Up, down and status of the cluster."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from reframe_tests.harness.vocabulary import ROOT, BadInput

from . import kernel, namespaces, packages, plan, slurm, state
from .namespaces import batch
from .plan import HEAD, ClusterFabric, ClusterNode, ClusterPlan
from .state import State

Say = Callable[[str], None]


def up(wanted_nodes: int, layout: str, share: Sequence[Path], say: Say, **leaves: Any) -> State:
    """Bring the cluster up; nothing to do if the same cluster is up already.

    :param leaves: ``leaf_size`` and ``oversubscription``, as for :func:`.plan.make`.
    """
    with state.locked() as runtime_dir:
        shown = [
            ROOT,
            Path.home(),
            Path(sys.prefix),
            Path(sys.base_prefix),
            Path.cwd(),
            runtime_dir,
            *share,
        ]
        visible = namespaces.hidden([path.absolute() for path in shown if path.exists()])
        wanted = plan.make(wanted_nodes, layout, visible, **leaves)
        found = state.load()
        if found and found.init.alive and found.ready:
            _expect_same(found.plan, wanted)
            names = ", ".join(node.name for node in wanted.nodes)
            say(f"the cluster is already up: {names}, layout {layout}")
            return found
        _tear_down(found)
        package_root = packages.provide(say)
        previous = signal.getsignal(signal.SIGINT)
        try:
            if previous is signal.default_int_handler:
                # The kernel ends this process, and with it what it has built: Python drops a
                # KeyboardInterrupt that falls into a hook of os.fork.
                signal.signal(signal.SIGINT, signal.SIG_DFL)
            return _build(wanted, package_root, say)
        except BaseException as error:
            _tear_down(state.load())
            if isinstance(error, BadInput):
                state.forget()  # the sentence points at the logs
            else:
                state.remove()
            raise
        finally:
            signal.signal(signal.SIGINT, previous)


def _expect_same(running: ClusterPlan, wanted: ClusterPlan) -> None:
    lacking = [
        path
        for path in wanted.shared
        if not any(Path(path).is_relative_to(known) for known in running.shared)
    ]
    if replace(running, shared=(), host_cpus=()) != replace(wanted, shared=(), host_cpus=()):
        about = (
            f"a cluster of {running.compute} nodes with layout {running.layout} and "
            f"{_leaf_words(running)} is up"
        )
    elif lacking:
        about = f"the running cluster does not share {', '.join(lacking)} on its nodes"
    else:
        return
    raise BadInput("name-taken", f"{about}; take it down first.")


def _build(wanted: ClusterPlan, package_root: Path | None, say: Say) -> State:
    state.log_dir().mkdir(exist_ok=True)
    etc = state.runtime_dir() / state.ETC
    slurm.write_etc(wanted, etc, state.log_dir())
    own_user = not kernel.privileged()
    init, lifeline = namespaces.create_cluster(etc, package_root, own_user, state.init_log())
    try:
        cluster = State(wanted, init, own_user)
        state.save(cluster)
        where = ", in a user namespace" if own_user else ""
        say(f"namespaces: switch with {', '.join(fabric.name for fabric in wanted.fabrics)}{where}")
        batch(cluster, init, "ip", plan.switch_lines(wanted))
        batch(
            cluster,
            init,
            "tc",
            [line for leaf in wanted.leaves for line in plan.uplink_lines(leaf)],
        )
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


def _layout_words(shown: ClusterPlan) -> str:
    rows = [(node.name, shown.topology(node)) for node in shown.compute_nodes]
    cores = [
        f"{name} on {'' if row.real else 'faked '}cores {','.join(map(str, row.cpus))}"
        for name, row in rows
    ]
    return f"layout {shown.layout}: {', '.join(cores)}"


def _leaf_words(shown: ClusterPlan) -> str:
    if not shown.leaves:
        return "no leaf switches"
    leaves = ", ".join(
        f"{leaf.name} with {leaf.nodes[0].name} to {leaf.nodes[-1].name}" for leaf in shown.leaves
    )
    return (
        f"{leaves}; uplinks of {shown.leaves[0].uplink.line_rate_mbit_per_s} Mbit/s "
        f"({shown.oversubscription:g} : 1)"
    )


def boot(cluster: State, node: ClusterNode) -> None:
    """Make a node and plug its cables in; no daemon runs on it yet."""
    # The kernel removes a dead node's cables a moment after the node.
    ports = {node.port(fabric) for fabric in cluster.plan.fabrics}
    namespaces.wait_until(lambda: not ports & namespaces.interfaces(cluster.init), 10)
    process = cluster.nodes[node.name] = namespaces.create_node(cluster, node, state.init_log())
    batch(cluster, cluster.init, "ip", plan.cable_lines(cluster.plan, node, process.pid_in_parent))
    lines = [line for fabric in cluster.plan.fabrics for line in plan.node_lines(node, fabric)]
    batch(cluster, process, "ip", ["link set lo up", *lines])
    shape(cluster, node, cluster.plan.fabrics)
    slurm.prepare(process)


def shape(
    cluster: State, node: ClusterNode, fabrics: Sequence[ClusterFabric], fraction: float = 1.0
) -> None:
    """Give a node's links on these fabrics their rate, or a fraction of it."""
    lines = [line for fabric in fabrics for line in plan.shape_lines(fabric.name, fabric, fraction)]
    batch(cluster, cluster.node_process(node.name), "tc", lines)
    lines = [
        line for fabric in fabrics for line in plan.port_lines(cluster.plan, node, fabric, fraction)
    ]
    batch(cluster, cluster.init, "tc", lines)


def down(say: Say) -> None:
    """Take the cluster down: every process, mount, link,
    namespace and file of it, and nothing else.
    """
    with state.locked():
        was_up = _tear_down(state.load())
        left = state.remove()
    say("the cluster is down" if was_up else "the cluster was not up")
    if left:
        say(
            f"left in {state.runtime_dir()}, because the cluster did not make it: {', '.join(left)}"
        )


def _tear_down(found: State | None) -> bool:
    """Kill the cluster's init, also one that no state file
    names any more; whether there was one.
    """
    inits = namespaces.inits_logging_to(state.init_log())
    if found is not None and found.init.alive:
        inits.add(found.init)
    for init in inits:
        os.kill(init.pid, signal.SIGKILL)
    # The kernel ends everything inside first; the init itself goes last.
    if not namespaces.wait_until(lambda: not any(init.alive for init in inits), 30):
        pids = ", ".join(str(init.pid) for init in inits if init.alive)
        raise BadInput(
            "tool-failed",
            f"the cluster's process {pids} does not end; see what it is waiting for in "
            "/proc/<number>/stack.",
        )
    return bool(inits)


# ---- status ----


@dataclass(frozen=True)
class ClusterStatus:
    """How the cluster is.

    :param status: 0 all healthy; 1 a fault is in force, a node is not
        usable or a link is down; 3 not up.
    :param why: why there is nothing to look at; empty if there is.
    :param about: switches, layout, process and files, a sentence each.
    :param nodes: ``node``, whether its init is ``alive``, its state in
        ``slurm``, daemons ``not_running``.
    :param links: of nodes that are alive: ``node``, ``fabric``, ``state``
        (up or down), ``rate`` as ``tc`` prints it.
    :param faults: in force, as they were requested.
    """

    status: int
    why: str = ""
    about: Sequence[str] = ()
    nodes: Sequence[dict[str, Any]] = ()
    links: Sequence[dict[str, str]] = ()
    faults: Sequence[str] = ()

    def lines(self) -> Iterator[str]:
        """For a terminal."""
        if self.why:
            yield self.why
            return
        yield from self.about
        for row in self.nodes:
            yield f"{row['node']:8} {'alive' if row['alive'] else 'dead':6} {row['slurm']}"
            yield from (f"{row['node']:8} {daemon} does not run" for daemon in row["not_running"])
        yield from ("{node:8} {fabric:8} {state:5} {rate}".format(**row) for row in self.links)
        yield from [f"fault in force: {fault}" for fault in self.faults] or ["no fault in force"]

    def as_data(self) -> dict[str, Any]:
        """The same, for programs."""
        shown = {"why": self.why, "nodes": self.nodes, "links": self.links, "faults": self.faults}
        return {"healthy": self.status == 0, **shown}


def look() -> ClusterStatus:
    """What is up, and how it is."""
    state.expect_host()
    found = state.load()
    if found is None:
        return ClusterStatus(3, "the cluster is not up")
    if not found.init.alive:
        return ClusterStatus(
            3, "the cluster's init is dead; run 'mpibench cluster down' to remove its files"
        )
    if not found.ready:
        why = (
            "the cluster is starting, or failed to start; run 'mpibench cluster down' to remove it"
        )
        return ClusterStatus(1, why)
    about = [f"switches: {_leaf_words(found.plan)}"] if found.plan.leaves else []
    about.append(
        f"{_layout_words(found.plan)}; process {found.init.pid}, files in {state.runtime_dir()}"
    )
    states = slurm.node_states(found)
    if states:
        states[HEAD] = "controller"
    nodes: list[dict[str, Any]] = []
    links: list[dict[str, str]] = []
    for node in found.plan.nodes:
        alive = found.nodes[node.name].alive
        missing = [daemon.name for daemon in slurm.missing(found, node)] if alive else []
        word = states.get(node.name, "no answer from slurmctld")
        nodes.append({"node": node.name, "alive": alive, "slurm": word, "not_running": missing})
        links += _links(found, node) if alive else []
    healthy = all(
        row["alive"] and row["slurm"] in (*slurm.HEALTHY, "controller") and not row["not_running"]
        for row in nodes
    )
    healthy = healthy and not found.faults and all(row["state"] == "up" for row in links)
    faults = [" ".join([fault["name"], *fault["words"]]) for fault in found.faults]
    return ClusterStatus(0 if healthy else 1, "", about, nodes, links, faults)


#: Shell script: all links as JSON, then the classes of each that is named, in one program on the
#: node instead of one for each.
_SHOW_LINKS = 'ip -json link; for name do echo --; tc class show dev "$name"; done'


def _links(cluster: State, node: ClusterNode) -> Iterator[dict[str, str]]:
    names = [fabric.name for fabric in cluster.plan.fabrics]
    words = ["sh", "-c", _SHOW_LINKS, "sh", *names]
    described, *classes = namespaces.run(cluster, cluster.nodes[node.name], words).stdout.split(
        "--\n"
    )
    words_of = {
        row["ifname"]: "up" if row["operstate"] == "UP" else "down"
        for row in json.loads(described or "[]")
    }
    for name, text in zip(names, classes, strict=False):
        if name in words_of:
            rate = re.search(r"\brate (\S+)", text)
            yield {
                "node": node.name,
                "fabric": name,
                "state": words_of[name],
                "rate": rate[1] if rate else "unshaped",
            }

"""Up, down and status of the cluster."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reframe_tests.harness.vocabulary import ROOT, BadInput

from . import daemons, kernel, namespaces, network, packages, slurm, state
from .plan import HEAD, Node, Plan, make
from .state import Process, State

Say = Callable[[str], None]
#: Nodes that Slurm may give a job to, or has given one.
HEALTHY = ("idle", "allocated", "mixed", "completing")
#: Time for nodes to register with the controller, in seconds.
_REGISTRATION_S = 90


def log_dir() -> Path:
    """Where daemons write."""
    return state.runtime_dir() / state.LOG


def init_log() -> Path:
    """Where the inits write what goes wrong."""
    return log_dir() / "init.log"


def up(
    compute: int,
    layout: str,
    share: Sequence[Path],
    say: Say,
    *,
    leaf_size: int | None = None,
    oversubscription: float = 1.0,
) -> State:
    """Bring the cluster up; nothing to do if the same cluster is up already.

    :param leaf_size: nodes of a leaf switch, as for :func:`.plan.make`.

    :raises BadInput: if this machine cannot carry it, or another one is up. Nothing is left behind then.
    """
    with state.locked() as runtime_dir:
        shown = [ROOT, Path.home(), Path(sys.prefix), Path(sys.base_prefix), Path.cwd(), runtime_dir, *share]
        visible = namespaces.hidden([path.absolute() for path in shown if path.exists()])
        plan = make(compute, layout, visible, leaf_size, oversubscription)
        found = state.load()
        if found and found.init.alive and found.ready:
            _expect_same(found.plan, plan)
            say(f"the cluster is up already: {HEAD}, {', '.join(node.name for node in plan.compute_nodes)}, layout {layout}")
            return found
        _tear_down(found)
        package_root = packages.provide(say)
        try:
            with _interruptible() as check_interrupt:

                def say_unless_interrupted(text: str) -> None:
                    check_interrupt()
                    say(text)

                cluster = _build(plan, package_root, say_unless_interrupted)
                check_interrupt()
                return cluster
        except BadInput:
            # The logs stay, because the sentence points at them; everything else goes.
            _tear_down(state.load())
            state.forget()
            raise
        except BaseException:
            _tear_down(state.load())
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
    if (running.compute, running.layout) != (wanted.compute, wanted.layout):
        raise BadInput(f"a cluster of {running.compute} nodes with layout {running.layout} is up; take it down first.")
    if (running.leaf_size, running.oversubscription) != (wanted.leaf_size, wanted.oversubscription):
        raise BadInput(f"a cluster with {_leaf_words(running)} is up; take it down first.")
    lacking = [path for path in wanted.shared if not any(Path(path).is_relative_to(known) for known in running.shared)]
    if lacking:
        raise BadInput(f"the cluster that is up does not show {', '.join(lacking)} on its nodes; take it down first.")


def _build(plan: Plan, package_root: Path | None, say: Say) -> State:
    log = log_dir()
    log.mkdir(exist_ok=True)
    etc = state.runtime_dir() / state.ETC
    _write_etc(plan, etc, log)
    own_user = not kernel.privileged()
    init, lifeline = namespaces.create_cluster(etc, package_root, own_user, init_log())
    try:
        cluster = State(plan, init, str(package_root) if package_root else None, own_user)
        state.save(cluster)
        say(
            f"namespaces: switch with {', '.join(fabric.name for fabric in plan.fabrics)}"
            + (", in a user namespace" if own_user else "")
        )
        batch(cluster, init, "ip", network.switch_lines(plan))
        batch(cluster, init, "tc", [line for leaf in plan.leaves for line in network.uplink_lines(leaf)])
        for node in plan.nodes:
            boot(cluster, node)
            state.save(cluster)
        say(f"nodes: {', '.join(node.name for node in plan.nodes)} ({_layout_words(plan)})")
        if plan.leaves:
            say(f"switches: {_leaf_words(plan)}")
        serve(cluster, say)
        cluster.ready = True
        state.save(cluster)
        os.write(lifeline, b"1")
        return cluster
    finally:
        os.close(lifeline)


def _write_etc(plan: Plan, etc: Path, log: Path) -> None:
    for name, text in slurm.etc_files(plan, log).items():
        path = etc / name
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        path.touch(mode=0o600 if name.endswith("slurmdbd.conf") else 0o644)
        path.write_text(text)
    preload = Path("/etc/ld.so.preload")
    if preload.exists():
        shutil.copyfile(preload, etc / "ld.so.preload")
    daemons.make_munge_key(etc / "munge/munge.key")


def _layout_words(plan: Plan) -> str:
    cores = ", ".join(
        f"{node.name} on {'faked ' if not plan.topology(node).real else ''}cores {','.join(map(str, plan.topology(node).cpus))}"
        for node in plan.compute_nodes
    )
    return f"layout {plan.layout}: {cores}"


def _leaf_words(plan: Plan) -> str:
    if not plan.leaves:
        return "no leaf switches"
    leaves = ", ".join(f"{leaf.name} with {leaf.nodes[0].name} to {leaf.nodes[-1].name}" for leaf in plan.leaves)
    return f"{leaves}; uplinks of {plan.leaves[0].uplink.line_rate_mbit_per_s} Mbit/s ({plan.oversubscription:g} : 1)"


def boot(cluster: State, node: Node) -> None:
    """Make a node and plug its cables in; no daemon runs on it yet.

    :raises BadInput: if a step fails.
    """
    # The kernel removes a dead node's cables a moment after the node.
    ports = {network.port(node, fabric) for fabric in cluster.plan.fabrics}
    namespaces.wait_until(lambda: not ports & daemons.interfaces(cluster.init), 10)
    process = namespaces.create_node(cluster, node, init_log())
    cluster.nodes[node.name] = process
    batch(cluster, cluster.init, "ip", network.cable_lines(cluster.plan, node, process.pid_in_parent))
    batch(cluster, process, "ip", network.node_lines(cluster.plan, node))
    shape(cluster, node)
    daemons.prepare(process)


def shape(cluster: State, node: Node, fraction: float = 1.0, fabrics: Sequence[str] = ()) -> None:
    """Give a node's links their rate, or a fraction of it, on all fabrics or on some.

    :raises BadInput: if ``tc`` refuses.
    """
    chosen = [fabric for fabric in cluster.plan.fabrics if not fabrics or fabric.name in fabrics]
    lines = [line for fabric in chosen for line in network.shape_lines(fabric.name, fabric, fraction)]
    batch(cluster, cluster.node_process(node.name), "tc", lines)
    lines = [line for fabric in chosen for line in network.port_lines(cluster.plan, node, fabric, fraction)]
    batch(cluster, cluster.init, "tc", lines)


def batch(cluster: State, process: Process, tool: str, lines: Sequence[str]) -> None:
    """Run lines through ``ip`` or ``tc`` in the network of a process.

    With ``tc``, deletions of what is not there are forgiven.

    :raises BadInput: with the tool's first complaint.
    """
    forgiven = [number for number, line in enumerate(lines, 1) if tool == "tc" and line.startswith("qdisc del")]
    done = namespaces.run(cluster, process, [tool, "-force", "-batch", "-"], input="\n".join(lines) + "\n")
    failed = [line for line in done.stderr.splitlines() if line.startswith("Command failed")]
    if any(int(line.rpartition(":")[2]) not in forgiven for line in failed):
        raise BadInput(f"'{tool}' refuses a setting of the cluster's network: {' '.join(done.stderr.split())}")


def serve(cluster: State, say: Say) -> None:
    """Start every daemon that does not run, in the order they need each other, and wait until Slurm may use all nodes.

    :raises BadInput: naming the daemon or the nodes that do not get ready.
    """
    log = log_dir()
    for step in daemons.ORDER:
        begun = [(daemon, node) for daemon, node in step.places(cluster.plan) if not daemons.runs(cluster, daemon, node)]
        for daemon, node in begun:
            if daemon is daemons.MARIADBD:
                daemons.make_database(cluster, node, log)
            daemons.begin(cluster, daemon, node, log)
        for daemon, node in begun:
            daemons.await_ready(cluster, daemon, node, log)
            if daemon is daemons.SLURMDBD:
                daemons.register(cluster)
        if begun and step.said:
            say(step.said)
    await_nodes(cluster)
    say(f"Slurm: {', '.join(f'{name} {word}' for name, word in daemons.node_states(cluster).items())}")


def await_nodes(cluster: State) -> None:
    """Wait until Slurm may use every compute node.

    :raises BadInput: naming the nodes it may not use.
    """
    states: dict[str, str] = {}

    def registered() -> bool:
        nonlocal states
        states = daemons.node_states(cluster)
        return len(states) == cluster.plan.compute and all(word in HEALTHY for word in states.values())

    if not namespaces.wait_until(registered, _REGISTRATION_S):
        found = ", ".join(f"{name} {word}" for name, word in states.items()) or "no answer from slurmctld"
        raise BadInput(f"Slurm's nodes are not ready after {_REGISTRATION_S} s ({found}); see {log_dir()}.")


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
    inits = namespaces.inits_logging_to(init_log())
    if found is not None and found.init.alive:
        inits.add(found.init)
    for init in inits:
        os.kill(init.pid, signal.SIGKILL)
    # The kernel ends everything inside first; the init itself goes last.
    if not namespaces.wait_until(lambda: not any(init.alive for init in inits), 30):
        pids = ", ".join(str(init.pid) for init in inits if init.alive)
        raise BadInput(f"the cluster's process {pids} does not end; see what it waits for in /proc/<number>/stack.")
    return bool(inits)


#: Shell script: all links as JSON, then the classes of each that is named, in one program on the node instead of one for each.
_NEXT_LINK = "--\n"
_SHOW_LINKS = 'ip -json link; for name do echo --; tc class show dev "$name"; done'


def links(cluster: State) -> list[tuple[str, str, str, str]]:
    """Every node's interfaces as the kernel has them: node, fabric, ``up`` or ``down``, rate as ``tc`` prints it."""
    rows = []
    names = [fabric.name for fabric in cluster.plan.fabrics]
    for node in cluster.plan.nodes:
        process = cluster.nodes.get(node.name)
        if process is None or not process.alive:
            continue
        shown = namespaces.run(cluster, process, ["sh", "-c", _SHOW_LINKS, "sh", *names]).stdout
        described, *classes = shown.split(_NEXT_LINK)
        up = {row["ifname"]: row["operstate"] == "UP" for row in json.loads(described or "[]")}
        for name, text in zip(names, classes, strict=False):
            if name in up:
                rate = re.search(r"\brate (\S+)", text)
                rows.append((node.name, name, "up" if up[name] else "down", rate[1] if rate else "unshaped"))
    return rows


@dataclass(frozen=True)
class ClusterStatus:
    """How the cluster is.

    :param status: 0 all healthy; 1 a fault is in force, a node is not usable or a link is down; 3 not up.
    :param why: why there is nothing to look at; empty where there is.
    :param about: switches, layout, process and files, a sentence each.
    :param nodes: of each its name, whether its init is alive, its state in Slurm, and the daemons that do not run.
    :param links: as :func:`links`.
    :param faults: in force, as they were asked for.
    """

    status: int
    why: str = ""
    about: Sequence[str] = ()
    nodes: Sequence[tuple[str, bool, str, Sequence[str]]] = ()
    links: Sequence[tuple[str, str, str, str]] = ()
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
        return {
            "healthy": self.status == 0,
            "why": self.why,
            "nodes": [dict(zip(("node", "alive", "slurm", "not_running"), one, strict=True)) for one in self.nodes],
            "links": [dict(zip(("node", "fabric", "state", "rate"), one, strict=True)) for one in self.links],
            "faults": list(self.faults),
        }


def look() -> ClusterStatus:
    """What is up, and how it is."""
    state.expect_host()
    found = state.load()
    if found is None:
        return ClusterStatus(3, "the cluster is not up")
    if not found.init.alive:
        return ClusterStatus(3, "the cluster's init is dead; 'mpibench cluster down' removes its files")
    if not found.ready:
        return ClusterStatus(
            1, "the cluster is coming up, or did not come up completely; 'mpibench cluster down' takes it away"
        )
    about = [f"switches: {_leaf_words(found.plan)}"] if found.plan.leaves else []
    about.append(f"{_layout_words(found.plan)}; process {found.init.pid}, files in {state.runtime_dir()}")
    states = daemons.node_states(found)
    nodes, healthy = [], not found.faults
    for node in found.plan.nodes:
        process = found.nodes.get(node.name)
        alive = process is not None and process.alive
        word = "controller" if node.is_head and states else states.get(node.name, "no answer from slurmctld")
        missing = [daemon.name for daemon in daemons.missing(found, node)] if alive else []
        healthy &= alive and bool(states) and (node.is_head or word in HEALTHY) and not missing
        nodes.append((node.name, alive, word, missing))
    there = links(found)
    healthy &= all(word == "up" for _, _, word, _ in there)
    faults = [" ".join([fault["name"], *fault["words"]]) for fault in found.faults]
    return ClusterStatus(0 if healthy else 1, "", about, nodes, there, faults)

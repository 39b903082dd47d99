"""``mpibench cluster``: a cluster in a box, with a real Slurm, fabrics with a line rate, and faults on demand."""

from __future__ import annotations

import enum
import json
import os
from pathlib import Path
from typing import Annotated

import typer

from mpibench.cluster.plan import DATA_FABRICS, DEFAULT_LAYOUT, HEAD, LAYOUTS, LEAF_FABRIC, LEAF_SIZE, LEAVES_FROM

app = typer.Typer(
    name="cluster",
    help="A cluster on this machine: head and compute nodes, real Slurm with accounting, fabrics of known rate, faults.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
fault_app = typer.Typer(
    name="fault",
    help="Inject a fault. It stays until 'heal' undoes all faults; 'status' lists them.",
    no_args_is_help=True,
)
app.add_typer(fault_app)

Layout = enum.Enum("Layout", {name: name for name in LAYOUTS}, type=str)  # type: ignore[misc]
DEFAULT = Layout(DEFAULT_LAYOUT)
Node = Annotated[str, typer.Argument(help="Node, e.g. c2.")]
Fabric = Annotated[str, typer.Argument(help=f"Fabric: {', '.join(DATA_FABRICS)}, {LEAF_FABRIC.name}, or mgmt.")]
Direction = Annotated[str, typer.Option(help="send, receive or both, as the node sees it.")]
Remaining = Annotated[float, typer.Option(help="Fraction that remains.")]

#: Variables of the caller that would mislead programs on a node: paths private to a node, and another job's identity.
_PRIVATE_VARIABLES = ("TMPDIR", "XDG_RUNTIME_DIR", "HOSTNAME")
_PRIVATE_PREFIXES = ("SLURM_", "SBATCH_", "SRUN_", "PMI_", "PMIX_", "OMPI_COMM_")


@app.command()
def up(
    nodes: Annotated[int, typer.Option("--nodes", "-n", help="Number of compute nodes (c1, c2, ...), beside the head.")] = 2,
    layout: Annotated[
        Layout,
        typer.Option(
            help="Cores of a node. spread: all of this machine, counted from a different one on each node, so that one rank "
            "per node has a core of its own. westmere: faked, two sockets of six cores numbered alternately; nothing is bound."
        ),
    ] = DEFAULT,
    leaf_size: Annotated[
        int | None,
        typer.Option(
            help=f"Nodes of a leaf switch of the fabric {LEAF_FABRIC.name}, which only clusters with leaves have; 0: none. "
            f"Default: {LEAF_SIZE} from {LEAVES_FROM} nodes on.",
            show_default=False,
        ),
    ] = None,
    oversubscription: Annotated[
        float, typer.Option(help="What the nodes of a leaf can send together, over what its uplink to the spine carries.")
    ] = 1.0,
    share: Annotated[
        list[Path] | None, typer.Option(help="Directory below /tmp, /run or /dev/shm that all nodes share; repeatable.")
    ] = None,
) -> None:
    """Bring the cluster up in seconds; does nothing if it is up.

    Nodes are namespaces of this machine, whose own network and /etc stay as they are. Slurm is the machine's own or, if it
    has none, Debian's packages unpacked (not installed) below ~/.cache. All nodes see this machine's files, except
    /tmp, /run and /dev/shm, which each node has for itself. Works as root, and without root where the kernel lets
    users create namespaces.
    """
    from mpibench.cluster import lifecycle

    shared = share or []
    lifecycle.up(nodes, layout.value, shared, typer.echo, leaf_size=leaf_size, oversubscription=oversubscription)


@app.command()
def down() -> None:
    """Take the cluster down, also after a crash: no process, mount, link, namespace or file of it stays."""
    from mpibench.cluster import lifecycle

    lifecycle.down(typer.echo)


@app.command()
def status(
    as_json: Annotated[bool, typer.Option("--json", help="The whole answer as JSON on standard output.")] = False,
) -> None:
    """Show the nodes with their state in Slurm, the links with their rates in the kernel, and the faults in force.

    Exit status 0: all healthy; 1: a fault is in force, a node cannot be used or a link is down; 3: the cluster is not up.
    """
    from mpibench.cluster import lifecycle

    found = lifecycle.look()
    if as_json:
        typer.echo(json.dumps(found.as_data(), indent=2))
    else:
        typer.echo("\n".join(found.lines()))
    raise typer.Exit(found.status)


@app.command("exec", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
def execute(
    words: Annotated[list[str] | None, typer.Argument(metavar="[--] COMMAND...", help="Command; default: your shell.")] = None,
    node: Annotated[str, typer.Option("--node", "-w", help="Node to run on.")] = HEAD,
) -> None:
    """Run a command on a node, by default on the head, in the current directory; its exit status is passed on.

    For example: mpibench cluster exec -- srun -p eth1g -N 2 hostname
    """
    from mpibench.cluster import namespaces, state

    cluster = state.running()
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in _PRIVATE_VARIABLES and not name.startswith(_PRIVATE_PREFIXES)
    }
    command = words or [os.environ.get("SHELL", "/bin/sh")]
    raise typer.Exit(namespaces.execute(cluster, cluster.node_process(node), command, environment, Path.cwd()))


def _make(name: str, **what: object) -> None:
    from mpibench.cluster import faults

    faults.make(name, **what)
    typer.echo(f"in force: {' '.join([name, *map(str, what.values())])}; 'mpibench cluster fault heal' undoes it")


@fault_app.command("link-down")
def link_down(node: Node, fabric: Fabric) -> None:
    """Take a link down: the node's interface loses its carrier. An MPI job that uses it hangs."""
    _make("link-down", node=node, fabric=fabric)


@fault_app.command("slow-link")
def slow_link(
    fabric: Fabric, fraction: Annotated[float, typer.Option(help="Fraction of the line rate that remains.")] = 0.25
) -> None:
    """Limit what all compute nodes send to a fraction of the fabric's rate; nothing is lost."""
    _make("slow-link", fabric=fabric, fraction=fraction)


@fault_app.command("police")
def police(
    fabric: Fabric,
    fraction: Annotated[float, typer.Option(help="Fraction of the line rate above which packets are dropped.")] = 0.5,
) -> None:
    """Drop packets to the compute nodes beyond a fraction of the fabric's rate; TCP retransmits them."""
    _make("police", fabric=fabric, fraction=fraction)


@fault_app.command("slow-port")
def slow_port(node: Node, fabric: Fabric, fraction: Remaining = 0.25, direction: Direction = "both") -> None:
    """Limit one node's link to a fraction of its rate, in one direction or both; nothing is lost."""
    _make("slow-port", node=node, fabric=fabric, fraction=fraction, direction=direction)


@fault_app.command("flapping")
def flapping(
    node: Node,
    fabric: Fabric,
    fraction: Remaining = 0.1,
    direction: Annotated[str, typer.Option(help="send or receive.")] = "send",
    bad_s: Annotated[float, typer.Option(help="Seconds for which it is bad.")] = 1.0,
    good_s: Annotated[float, typer.Option(help="Seconds for which it is good again.")] = 3.0,
) -> None:
    """Limit one node's link now and then, in one direction."""
    _make("flapping", node=node, fabric=fabric, fraction=fraction, direction=direction, bad_s=bad_s, good_s=good_s)


@fault_app.command("lossy-cable")
def lossy_cable(
    node: Node,
    fabric: Fabric,
    loss: Annotated[float, typer.Option(help="Fraction of the frames that get lost.")] = 0.01,
    direction: Direction = "both",
) -> None:
    """Lose frames of one node's cable at random; TCP sends them again."""
    _make("lossy-cable", node=node, fabric=fabric, loss=loss, direction=direction)


@fault_app.command("delay")
def delay(
    node: Node,
    fabric: Fabric,
    delay_us: Annotated[int, typer.Option(help="Microseconds by which each frame comes later.")] = 1000,
    direction: Direction = "both",
) -> None:
    """Hand each frame of one node's cable on later. A process does that: it needs a part of a core."""
    _make("delay", node=node, fabric=fabric, delay_us=delay_us, direction=direction)


@fault_app.command("slow-uplink")
def slow_uplink(
    leaf: Annotated[str, typer.Argument(help="Leaf switch, e.g. leaf1.")],
    fraction: Remaining = 0.25,
    direction: Annotated[str, typer.Option(help="send (to the spine), receive (from it) or both.")] = "both",
) -> None:
    """Limit the uplink of a leaf switch to a fraction of its rate."""
    _make("slow-uplink", leaf=leaf, fraction=fraction, direction=direction)


@fault_app.command("mtu")
def mtu(node: Node, fabric: Fabric, mtu: Annotated[int, typer.Option(help="Bytes; the other nodes have 1500.")] = 1400) -> None:
    """Give one node's interface another MTU."""
    _make("mtu", node=node, fabric=fabric, mtu=mtu)


@fault_app.command("same-address")
def same_address(node: Node, fabric: Fabric) -> None:
    """Give one node's interface the address of the first other node's in place of its own."""
    _make("same-address", node=node, fabric=fabric)


@fault_app.command("slow-cpu")
def slow_cpu(node: Node, fraction: Remaining = 0.25) -> None:
    """Let the MPI processes of one node run for a fraction of each 4 ms only, as a quota of its processor would."""
    _make("slow-cpu", node=node, fraction=fraction)


@fault_app.command("kill-slurmd")
def kill_slurmd(node: Node) -> None:
    """Kill a node's slurmd. Slurm notices within half a minute; running steps continue until then."""
    _make("kill-slurmd", node=node)


@fault_app.command("kill-node")
def kill_node(node: Node) -> None:
    """Kill a node, with all its processes and links."""
    _make("kill-node", node=node)


@fault_app.command("stop-rank")
def stop_rank(node: Node) -> None:
    """Stop (SIGSTOP) the youngest MPI process on a node. The job hangs until its time limit."""
    _make("stop-rank", node=node)


@fault_app.command("full-disk")
def full_disk(
    path: Annotated[
        Path, typer.Argument(help="Existing directory, e.g. the stage directory; its content is hidden until heal.")
    ],
    free_kib: Annotated[int, typer.Option(min=4, help="Free space on it, in KiB.")] = 64,
) -> None:
    """Mount a small disk over a directory on all nodes, so that jobs fill it."""
    _make("full-disk", path=str(path.resolve()), free_kib=free_kib)


@fault_app.command("clock-jump")
def clock_jump(
    node: Node, seconds: Annotated[int, typer.Option(help="Seconds by which the clock jumps; negative: back.")] = 3600
) -> None:
    """Set a node's clock wrong for munge, slurmd and every program started on it from now on.

    The kernel has one calendar clock for all nodes, so libfaketime is preloaded: programs already running keep the right
    time; static programs and monotonic intervals are not affected. A second call changes the jump, and programs started
    in between follow within 10 s. Beyond 300 s munge refuses the node's credentials, so Slurm loses the node.
    """
    _make("clock-jump", node=node, seconds=seconds)


@fault_app.command("heal")
def heal() -> None:
    """Undo all faults and restart dead nodes and daemons; returns when every node is available in Slurm."""
    from mpibench.cluster import faults

    faults.heal(typer.echo)


def register(program: typer.Typer) -> None:
    """Add the commands to the program."""
    program.add_typer(app)

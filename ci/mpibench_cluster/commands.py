"""``mpibench cluster``: a cluster in a box, with a real Slurm,
fabrics with a line rate, and faults on demand.
"""

from __future__ import annotations

import enum
import inspect
import json
import os
from pathlib import Path
from typing import Annotated

import typer

from mpibench_cluster import faults, lifecycle, namespaces, state
from mpibench_cluster.plan import (
    DATA_FABRICS,
    DEFAULT_LAYOUT,
    HEAD,
    LAYOUTS,
    LEAF_FABRIC,
    LEAF_SIZE,
    LEAVES_FROM,
)

app = typer.Typer(
    name="cluster",
    help="A cluster on this machine: head and compute nodes, real Slurm with accounting, "
    "fabrics of known rate, faults.",
    rich_help_panel="Measure",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
Layout = enum.Enum("Layout", {name: name for name in LAYOUTS}, type=str)  # type: ignore[misc]
DEFAULT = Layout(DEFAULT_LAYOUT)
#: Variables of the caller that would mislead programs on a node: paths
#: private to a node, and another job's identity.
_PRIVATE_VARIABLES = ("TMPDIR", "XDG_RUNTIME_DIR", "HOSTNAME")
_PRIVATE_PREFIXES = ("SLURM_", "SBATCH_", "SRUN_", "PMI_", "PMIX_", "OMPI_COMM_")


@app.command()
def up(
    nodes: Annotated[
        int,
        typer.Option(
            "--nodes", "-n", help="Number of compute nodes (c1, c2, ...), beside the head."
        ),
    ] = 2,
    layout: Annotated[
        Layout,
        typer.Option(
            help="Cores of a node. spread: all of this machine, starting at a different one on "
            "each node, so that with one rank per node each rank has its own core. westmere: "
            "simulated, two sockets of six cores numbered alternately; nothing is bound."
        ),
    ] = DEFAULT,
    leaf_size: Annotated[
        int | None,
        typer.Option(
            help=f"Nodes of a leaf switch of the fabric {LEAF_FABRIC.name}, which only clusters "
            f"with leaf switches have; 0: none. Default: {LEAF_SIZE} from {LEAVES_FROM} nodes "
            "upwards.",
            show_default=False,
        ),
    ] = None,
    oversubscription: Annotated[
        float,
        typer.Option(
            help="Oversubscription: what the nodes of a leaf can send together, divided by what "
            "its uplink carries."
        ),
    ] = 1.0,
    share: Annotated[
        list[Path] | None,
        typer.Option(
            help="Directory below /tmp, /run or /dev/shm that all nodes share; repeatable."
        ),
    ] = None,
) -> None:
    """Bring the cluster up in seconds; does nothing if it is up.

    Nodes are namespaces of this machine, whose own network and /etc stay as they are. Slurm is the
    machine's own or, if it has none, Debian's packages unpacked (not installed) below ~/.cache. All
    nodes see this machine's files, except /tmp, /run and /dev/shm, which each node has for itself.
    Works as root, and without root where the kernel lets users create namespaces.
    """
    leaves = {"leaf_size": leaf_size, "oversubscription": oversubscription}
    lifecycle.up(nodes, layout.value, share or [], typer.echo, **leaves)


@app.command()
def down() -> None:
    """Take the cluster down, also after a crash: no process, mount,
    link, namespace or file of it stays.
    """
    lifecycle.down(typer.echo)


@app.command()
def status(
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the whole answer as JSON.")
    ] = False,
) -> None:
    """Show the nodes with their state in Slurm, the links with their
    rates in the kernel, and the faults in force.

    Exit status 0: all healthy; 1: a fault is in force, a node cannot be
    used or a link is down; 3: the cluster is not up.
    """
    found = lifecycle.look()
    if as_json:
        typer.echo(json.dumps(found.as_data(), indent=2))
    else:
        typer.echo("\n".join(found.lines()))
    raise typer.Exit(found.status)


@app.command(
    "exec", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False}
)
def execute(
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[--] COMMAND...", help="Command; default: your shell."),
    ] = None,
    node: Annotated[str, typer.Option("--node", "-w", help="Node to run on.")] = HEAD,
) -> None:
    """Run a command on a node, by default on the head, in the current
    directory; its exit status is passed on.

    For example: mpibench cluster exec -- srun -p eth1g -N 2 hostname
    """
    cluster = state.running()
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in _PRIVATE_VARIABLES and not name.startswith(_PRIVATE_PREFIXES)
    }
    command = words or [os.environ.get("SHELL", "/bin/sh")]
    raise typer.Exit(
        namespaces.execute(cluster, cluster.node_process(node), command, environment, Path.cwd())
    )


def _help() -> str:
    about = [
        f"{fault.usage}: {inspect.cleandoc(fault.make.__doc__ or '')}"
        for fault in faults.FAULTS.values()
    ]
    return "\n\n".join(
        [
            "Inject a fault of a KIND, with its arguments. It stays until 'clear' undoes all "
            "faults; 'status' lists them.",
            f"NODE is c2, say, LEAF leaf1, FABRIC {', '.join(DATA_FABRICS)}, {LEAF_FABRIC.name} "
            "or mgmt, a direction send, receive or both, as the node sees it, a fraction what "
            "remains of a rate. Kinds, with the usual values of their options:",
            *about,
            "clear: Undo all faults and restart dead nodes and daemons; returns when every node "
            "is available in Slurm.",
        ]
    )


@app.command(help=_help(), no_args_is_help=True)
def fault(
    context: typer.Context,
    kind: Annotated[str, typer.Argument(help="One of the kinds above, or clear.")],
    where: Annotated[
        list[str] | None,
        typer.Argument(metavar="NODE|FABRIC|LEAF|PATH...", help="Where to inject it."),
    ] = None,
    fraction: Annotated[float | None, typer.Option(help="Fraction that remains.")] = None,
    direction: Annotated[str | None, typer.Option(help="send, receive or both.")] = None,
    bad_s: Annotated[
        float | None, typer.Option(help="Seconds that a flapping link is bad.")
    ] = None,
    good_s: Annotated[
        float | None, typer.Option(help="Seconds that it is good in between.")
    ] = None,
    loss: Annotated[float | None, typer.Option(help="Fraction of frames to lose.")] = None,
    delay_us: Annotated[
        int | None, typer.Option(help="Microseconds by which to delay each frame.")
    ] = None,
    mtu: Annotated[int | None, typer.Option(help="Bytes.")] = None,
    free_kib: Annotated[
        int | None, typer.Option(help="Free space left on a full disk, in KiB.")
    ] = None,
    seconds: Annotated[
        int | None, typer.Option(help="Seconds by which the clock jumps; negative: backwards.")
    ] = None,
) -> None:
    options = {
        name: value
        for name, value in context.params.items()
        if name not in ("kind", "where") and value is not None
    }
    if kind == "clear" and not where and not options:
        faults.clear(typer.echo)
        return
    typer.echo(
        f"in force: {faults.make(kind, *(where or []), **options)}; undo it with 'mpibench cluster "
        "fault clear'"
    )

"""The plan as Slurm's, munge's and the resolver's configuration files. Pure text.

Parameters are those of ``slurm.conf(5)``, ``slurmdbd.conf(5)`` and ``cgroup.conf(5)`` of Slurm 22.05.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Sequence
from pathlib import Path

from reframe_tests.harness.suites.benchmark import growing_node_counts

from .plan import CLUSTER_NAME, FABRICS, HEAD, SPINE, Node, Plan, Topology

#: Default and longest run time of a job in minutes: a hung job ends even if a test forgets its own limit.
TIME_LIMITS_MIN = (10, 120)


def slurm_conf(plan: Plan, log: Path) -> str:
    """``slurm.conf`` for all nodes; ``log`` is the directory for log files.

    Detection times are short, so that a dead node is noticed within half a minute; a node that comes back is used
    again (``ReturnToService=2``). A job has its nodes for itself: another partition's job on the same cores would
    disturb the measurement.
    """
    mgmt = FABRICS[0]
    head = plan.nodes[0]
    names = ",".join(node.name for node in plan.compute_nodes)
    real = plan.topology(plan.compute_nodes[0]).real
    rows = {
        "ClusterName": CLUSTER_NAME,
        "SlurmctldHost": f"{HEAD}({head.address(mgmt)})",
        "SlurmUser": "root",
        "SlurmdUser": "root",
        "AuthType": "auth/munge",
        "CredType": "cred/munge",
        "StateSaveLocation": "/run/slurmctld",
        "SlurmdSpoolDir": "/run/slurmd",
        "SlurmctldPidFile": "/run/slurmctld.pid",
        "SlurmdPidFile": "/run/slurmd.pid",
        "SlurmctldLogFile": log / "slurmctld.log",
        "SlurmdLogFile": log / "slurmd-%n.log",
        "MailProg": "/usr/bin/true",
        "MpiDefault": "none",
        "SwitchType": "switch/none",
        "ProctrackType": "proctrack/linuxproc",
        # Nothing can be bound to cores the host does not have.
        "TaskPlugin": "task/affinity" if real else "task/none",
        "SelectType": "select/cons_tres",
        "SelectTypeParameters": "CR_Core",
        "SchedulerType": "sched/backfill",
        "SchedulerParameters": "batch_sched_delay=0",
        "AccountingStorageType": "accounting_storage/slurmdbd",
        "AccountingStorageHost": HEAD,
        "JobAcctGatherType": "jobacct_gather/none",
        "ReturnToService": 2,
        "SlurmdTimeout": 20,
        "KillWait": 5,
        "UnkillableStepTimeout": 30,
        **({"TopologyPlugin": "topology/tree"} if plan.leaves else {}),
    }
    lines = [f"{key}={value}" for key, value in rows.items()]
    for node in plan.compute_nodes:
        shown = plan.topology(node)
        lines.append(
            f"NodeName={node.name} NodeAddr={node.address(mgmt)} Sockets={shown.sockets} "
            f"CoresPerSocket={shown.cores_per_socket} ThreadsPerCore=1 State=UNKNOWN"
        )
    for fabric in (fabric for fabric in plan.fabrics if fabric.partition):
        default = "YES" if fabric.name == "eth1g" else "NO"
        lines.append(
            f"PartitionName={fabric.name} Nodes={names} Default={default} State=UP OverSubscribe=EXCLUSIVE "
            f"DefaultTime={TIME_LIMITS_MIN[0]} MaxTime={TIME_LIMITS_MIN[1]}"
        )
    return "\n".join(lines) + "\n"


def slurmdbd_conf(plan: Plan, log: Path) -> str:
    """``slurmdbd.conf``: the accounting daemon and its database, both on the head, joined by the default socket."""
    rows = {
        "AuthType": "auth/munge",
        "DbdHost": HEAD,
        "DbdAddr": plan.nodes[0].address(FABRICS[0]),
        "SlurmUser": "root",
        "StorageType": "accounting_storage/mysql",
        "StorageHost": "localhost",
        "StorageUser": "root",
        "StorageLoc": "slurm_acct_db",
        "LogFile": log / "slurmdbd.log",
        "PidFile": "/run/slurmdbd.pid",
    }
    return "".join(f"{key}={value}\n" for key, value in rows.items())


def topology_conf(plan: Plan) -> str:
    """``topology.conf(5)``: the leaf switches and, above several, the spine; empty without leaves."""
    rows = [f"SwitchName={leaf.name} Nodes={','.join(node.name for node in leaf.nodes)}" for leaf in plan.leaves]
    if len(rows) > 1:
        rows.append(f"SwitchName={SPINE} Switches={','.join(leaf.name for leaf in plan.leaves)}")
    return "".join(f"{row}\n" for row in rows)


def cgroup_conf() -> str:
    """``cgroup.conf``: names a plugin, so that slurmd does not look for the host's control groups; none are used."""
    return "CgroupPlugin=cgroup/v1\n"


def hosts(plan: Plan) -> str:
    """``/etc/hosts``: plain names on the management network, ``c1-eth1g`` and so on for the fabrics."""
    lines = ["127.0.0.1 localhost", "::1 localhost ip6-localhost"]
    for fabric in plan.fabrics:
        for node in plan.nodes:
            lines.append(f"{node.address(fabric)} {node.name}" + ("" if fabric.subnet == 0 else f"-{fabric.name}"))
    return "\n".join(lines) + "\n"


def node_json(plan: Plan) -> str:
    """What the site's ``system.py`` needs to know of a compute node, as JSON.

    ``processor``: its topology as ReFrame wants it (``systems.partitions.processor``); NUMA nodes are taken to be the sockets.
    ``faked``: whether it shows cores that the machine does not have. ``cores``: those that all nodes share.
    ``node_counts``: those to measure on, 2, 4, 8, ... up to all. ``fabrics``: the data fabrics it has.
    ``oversubscription``: that of its leaf switches.
    """
    shown = plan.topology(plan.compute_nodes[0])
    counts = {
        "node_counts": growing_node_counts(max(2, plan.compute)),
        "fabrics": [fabric.name for fabric in plan.fabrics if fabric.partition],
        "oversubscription": plan.oversubscription,
    }
    sockets = [
        shown.cpus[first : first + shown.cores_per_socket] for first in range(0, len(shown.cpus), shown.cores_per_socket)
    ]
    masks = [_mask(cpus) for cpus in sockets]
    row = {
        "arch": platform.machine(),
        "num_cpus": len(shown.cpus),
        "num_cpus_per_core": 1,
        "num_cpus_per_socket": shown.cores_per_socket,
        "num_sockets": shown.sockets,
        "topology": {
            "numa_nodes": masks,
            "sockets": masks,
            "cores": [_mask([cpu]) for cpu in sorted(shown.cpus)],
            "caches": [],
        },
    }
    return json.dumps({"processor": row, "faked": not shown.real, "cores": len(plan.host_cpus), **counts}, indent=1) + "\n"


def _mask(cpus: Sequence[int]) -> str:
    return hex(sum(1 << cpu for cpu in cpus))


def _bitmap(cpus: Sequence[int]) -> str:
    """hwloc's notation: groups of 32 bits, the highest first (``hwloc_bitmap_snprintf``)."""
    mask = sum(1 << cpu for cpu in cpus)
    groups = [f"0x{mask >> shift & 0xFFFFFFFF:08x}" for shift in range(0, max(mask.bit_length(), 1), 32)]
    return ",".join(reversed(groups))


def hwloc_xml(shown: Topology) -> str:
    """A node's topology for slurmd's hwloc (``HWLOC_XMLFILE``, hwloc 2 XML format).

    slurmd counts cores in hwloc's order and binds to the numbers (``os_index``) given here; ``slurm.conf`` cannot say that
    two nodes of one host start at different cores. hwloc orders by CPU set, so the sets are handed out in ascending
    order whatever the numbers; only slurmd reads this file, and it looks at the numbers alone.
    """
    ordered = sorted(shown.cpus)
    everything = _bitmap(ordered)
    sets = 'nodeset="0x00000001" complete_nodeset="0x00000001"'
    serial = iter(range(1, 10_000))

    def opening(kind: str, index: int, cpuset: str, more: str = "") -> str:
        return (
            f'<object type="{kind}" os_index="{index}" cpuset="{cpuset}" complete_cpuset="{cpuset}" {sets} '
            f'gp_index="{next(serial)}"{more}>'
        )

    allowed = f' allowed_cpuset="{everything}" allowed_nodeset="0x00000001"'
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        '<!DOCTYPE topology SYSTEM "hwloc2.dtd">',
        '<topology version="2.0">',
        opening("Machine", 0, everything, allowed),
        opening("NUMANode", 0, everything, ' local_memory="1073741824"') + "</object>",
    ]
    for socket in range(shown.sockets):
        span = slice(socket * shown.cores_per_socket, (socket + 1) * shown.cores_per_socket)
        cpus = shown.cpus[span]
        lines.append(opening("Package", socket, _bitmap(ordered[span])))
        for core, cpu in enumerate(cpus):
            cpuset = _bitmap([ordered[socket * shown.cores_per_socket + core]])
            lines.append(opening("Core", core, cpuset) + opening("PU", cpu, cpuset) + "</object></object>")
        lines.append("</object>")
    return "\n".join([*lines, "</object>", "</topology>"]) + "\n"


def etc_files(plan: Plan, log: Path) -> dict[str, str]:
    """Files that lie over the host's ``/etc`` on every node, by path below it."""
    files = {
        "hosts": hosts(plan),
        "slurm/slurm.conf": slurm_conf(plan, log),
        "slurm/slurmdbd.conf": slurmdbd_conf(plan, log),
        "slurm/cgroup.conf": cgroup_conf(),
        "slurm/topology.conf": topology_conf(plan),
        "mpibench/node.json": node_json(plan),
        # Bound over by the clock fault on one node; empty, they change nothing.
        "ld.so.preload": "",
        "faketimerc": "",
    }
    for node in plan.compute_nodes:
        files[f"slurm/topology-{node.name}.xml"] = hwloc_xml(plan.topology(node))
    return files


def hwloc_file(node: Node) -> str:
    """Where a node finds its topology."""
    return f"/etc/slurm/topology-{node.name}.xml"

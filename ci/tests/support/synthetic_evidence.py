"""Rank records made by hand: one rank's file as the recorder
writes it, and what can be changed in it.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from typing import Any

from reframe_tests.harness.evidence import rank_records
from reframe_tests.harness.evidence.rank_records import RankEvidence
from synthetic_stack import made_stack

SNAPSHOT: dict[str, Any] = {
    "cpus": "0",
    "siblings": "0",
    "cpu": 0,
    "numa_node": 0,
    "threads": [],
    "tcp": {"pairs": [], "uncounted": 0, "complete": True},
    "interfaces": {"lo": {"rx_bytes": 0, "tx_bytes": 0}, "eth1": {"rx_bytes": 0, "tx_bytes": 0}},
    "ports": {},
    "gpus": [],
    "gpu_library": None,
    "realtime_ns": 1_795_000_000_000_000_000,
    "monotonic_ns": 1_000_000_000,
    "uptime": "1.00 3.50",
    "usage": {"involuntary_switches": 1, "schedstat": "1000 0 1"},
}
INTERFACE: dict[str, Any] = {"dev_port": 0, "slot": None, "lower": [], "addresses": []}
#: One rank's file as the recorder writes it.
DOCUMENT: dict[str, Any] = {
    "format": 5,
    "finalized": True,
    "load": {"parent_cpus": "0-3", "cpuset": "0-3", "online": "0-3"},
    "host": "c1",
    "pid": 100,
    "loaded_ns": 900_000_000,
    "executable": "/opt/imb/IMB-MPI1",
    "executable_bytes": 1000,
    "nonce": "k.1",
    "rank": {"value": "0", "source": "PMI_RANK"},
    "size": {"value": "2", "source": "PMI_SIZE"},
    "job": {"value": "7", "source": "SLURM_JOB_ID"},
    "library": {
        "version": "Open MPI v5.0.11",
        "path": "/opt/ompi/lib/libmpi.so.40",
        "size_bytes": 2000,
        "mapped": ["/opt/ompi/lib/libmpi.so.40"],
    },
    "world": {"rank": 0, "size": 2},
    "environment": {"I_MPI_FABRICS": "shm:ofi"},
    "node": {
        "release": "6.1",
        "interfaces": {
            "lo": {**INTERFACE, "addresses": ["127.0.0.1"]},
            "eth1": {**INTERFACE, "addresses": ["10.0.0.1"]},
        },
        "ports": {},
        "gpus": None,
        "adapters": None,
    },
    "init": SNAPSHOT,
    "finalize": {**SNAPSHOT, "monotonic_ns": 3_000_000_000, "uptime": "3.00 3.50"},
}
STACK = made_stack(
    "openmpi",
    "5.0.11",
    **{"launcher_family": "prrte", "prefix": "/opt/ompi", "library": "/opt/ompi/lib/libmpi.so.40"},
    library_version_pattern=r"^Open MPI v5\.0\.11\b",
)


def make_rank(number: int = 0, host: str = "c1", **changes: Any) -> RankEvidence:
    """A rank, with parts of its document replaced:
    ``init__cpus="0-3"`` sets ``document["init"]["cpus"]``.
    """
    document = copy.deepcopy(DOCUMENT)
    document |= {"host": host, "pid": 100 + number, "world": {"rank": number, "size": 2}}
    for snapshot in ("init", "finalize"):
        document[snapshot]["cpus"] = str(number)
    for path, value in changes.items():
        *parents, last = path.split("__")
        at = document
        for key in parents:
            at = at[key]
        at[last] = value
    document["node"] = {"gpus": None, "adapters": None, **document["node"]}
    return rank_records.parse_rank(json.dumps(document), "c1.100.json")


def pair(**changes: Any) -> list[RankEvidence]:
    """Ranks 0 and 1 on one node, each on its own core."""
    return [make_rank(0, **changes), make_rank(1, **changes)]


def exchange(
    sent: dict[str, float], own: Sequence[tuple[str, str, float]] | None = None, **changes: Any
) -> list[RankEvidence]:
    """Two ranks of one node around whose run the node's interfaces and ports sent so many bytes.

    :param own: what the first rank's sockets sent, as (address, peer's
        address, bytes); ``None``: that is not known.
    """
    counted = {
        name: {"rx_bytes": int(count), "tx_bytes": int(count)} for name, count in sent.items()
    }
    zero = {name: {"rx_bytes": 0, "tx_bytes": 0} for name in sent}
    pairs = [
        {
            "local": local,
            "peer": peer,
            "count": 1,
            "sent_bytes": int(count),
            "received_bytes": int(count),
        }
        for local, peer, count in own or ()
    ]
    return [
        make_rank(
            number,
            init__interfaces={name: count for name, count in zero.items() if "/" not in name},
            init__ports={name: count for name, count in zero.items() if "/" in name},
            finalize__interfaces={
                name: count for name, count in counted.items() if "/" not in name
            },
            finalize__ports={name: count for name, count in counted.items() if "/" in name},
            finalize__tcp={
                "pairs": [] if number else pairs,
                "uncounted": int(own is None),
                "complete": True,
            },
            **changes,
        )
        for number in (0, 1)
    ]

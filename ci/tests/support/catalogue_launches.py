"""A stack with every program of the suites, as metadata would
describe it, and the launches of a group on it.
"""

from __future__ import annotations

from reframe_tests.harness.machine.gpu import DEVICE, OF_HOST, Memory
from reframe_tests.harness.stacks.stack import Stack
from reframe_tests.harness.suites import catalogue
from reframe_tests.harness.suites.catalogue import ROWS
from synthetic_stack import made_stack

BINARIES = ("IMB-MPI1", "IMB-P2P", "IMB-NBC", "IMB-RMA", "IMB-MT", "IMB-EXT", "IMB-MPI4", "IMB-IO")
OSU = tuple(row.binary for row in ROWS if row.suite == "osu")
GPCNET = tuple(dict.fromkeys(row.binary for row in ROWS if row.suite == "gpcnet"))
APPLICATIONS = tuple(dict.fromkeys(row.binary for row in ROWS if row.suite in ("hpcc", "npb")))
NCCL = tuple(row.binary for row in ROWS if row.suite == "nccl_tests")


def memory_of(group: str) -> Memory:
    """Memory of the host, and of GPUs for what measures no other."""
    return Memory(DEVICE, "cuda") if catalogue.library_of(group) else OF_HOST


def stack_of(
    version: str = "2021.11",
    binaries=BINARIES + OSU + GPCNET + APPLICATIONS + NCCL,
    osu: str = "7.5",
    gpu: str = "",
) -> Stack:
    """A stack as metadata would describe it.

    :param gpu: platform that OSU was built for.
    """
    return made_stack(
        "intelmpi",
        "2021.18.1",
        **{"name": "intelmpi-wheels", "origin": "wheels", "launcher_family": "hydra-intel"},
        binaries={name: f"/opt/mpi/bin/{name}" for name in binaries},
        commands={"mpi4py.bench": ("/opt/mpi/bin/python", "-m", "mpi4py.bench")},
        suites={
            "imb": {"version": version},
            "mpi4py": {"version": "4.1.2"},
            "osu": {"version": osu, **({"gpu": gpu} if gpu else {})},
            "nccl_tests": {"version": "2.18.2", "gpu": "cuda"},
        },
    )


def launches(group: str, ranks: int = 2, level: str = "nightly", **more):
    more = {
        "nodes": max((row.min_nodes for row in catalogue.rows(group)), default=1),
        "memory": memory_of(group),
        **more,
    }
    return catalogue.launches(group, more.pop("stack", stack_of()), ranks, level, **more)

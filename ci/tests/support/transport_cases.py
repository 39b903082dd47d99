"""Stacks and fabrics as the transport table meets them: every MPI
around every boundary of its versions.
"""

from __future__ import annotations

from dataclasses import replace

from folders import DATA
from reframe_tests.harness.cases.job.transports import (
    Setting,
    check_proofs,
    resolve_transport,
    strip_debug,
)
from reframe_tests.harness.machine.fabric import Fabric, Rail
from reframe_tests.harness.machine.gpu import DEVICE, OF_HOST, Memory
from reframe_tests.harness.machine.transport import TRANSPORTS
from reframe_tests.harness.mpis import registry
from reframe_tests.harness.stacks.stack import Stack
from reframe_tests.harness.vocabulary import NotMeasured
from synthetic_stack import made_stack

#: Real output: two ranks on one machine (lo, eth0, no RDMA adapter), or two on each of two
#: namespaces joined by a veth pair (two-nodes), of IMB-MPI1 2021.11 and mpi4py.bench 4.1; names and
#: prefixes of the machine replaced. What the benchmark printed is kept with lo and two-nodes only.
GOLDEN = DATA / "golden_transports"

#: Versions around every boundary of the table, per MPI; of an MPI that
#: is not here those of :func:`boundaries`.
VERSIONS = {
    "intelmpi": ("3.2", "4.0.1", "5.1.3", "2018.4", "2019.0", "2019.9", "2021.1", "2021.18.1"),
    "mpich": ("3.2", "3.3.2", "3.4.3", "4.0.2", "4.3.0", "5.0.2"),
    "openmpi": ("1.2.8", "1.4.2", "1.6.5", "1.10.7", "2.1.6", "3.1.6", "4.0.0", "4.1.4", "5.0.11"),
    "mvapich2": ("1.1", "1.5", "1.8", "1.9", "2.0", "2.1", "2.3.7"),
    "mvapich": ("2.2", "3.0", "4.1"),
    "pempi": ("4.1", "4.3"),
}
DEVICES = {
    "mpich": ("ch4:ofi", "ch4:ucx", "ch4:ucx,ofi", "ch3:nemesis"),
    "mvapich": ("ch4:ofi", "ch4:ucx"),
    "mvapich2": ("ch3:mrail", "ch3:psm", "ch3:nemesis"),
}
#: Transports that an MPI is made to use, each with a rail.
FORCED = tuple(name for name, row in TRANSPORTS.items() if row.forced and not row.gpus_only)
#: Those for memory of GPUs.
OF_GPUS = (*FORCED, *(name for name, row in TRANSPORTS.items() if row.gpus_only))
RAILS = {
    "shm": (),
    "gpu_ipc": (),
    "tcp": (Rail("eth1"),),
    "verbs": (Rail("mlx5_0", port=2),),
    "ucx": (Rail("mlx5_0", port=2),),
    "psm2": (Rail("hfi1_1"),),
    "opx": (Rail("hfi1_1"),),
    "efa": (Rail("rdmap0s6"),),
    "cxi": (Rail("cxi0"),),
}

SHM = Fabric("shm", "shm", "node")
LO = Fabric("lo", "tcp", "node", (Rail("lo"),))
ETH = Fabric("eth1g", "tcp", "cluster", (Rail("eth1"),))
EDR = Fabric("edr", "ucx", "cluster", (Rail("mlx5_0"),))


def make_stack(mpi: str, version: str, device: str = "") -> Stack:
    return made_stack(mpi, version, device=device)


INTEL = make_stack("intelmpi", "2021.18.1")
MPICH = make_stack("mpich", "5.0.2", "ch4:ucx,ofi")
MPICH_UCX = make_stack("mpich", "5.0.2", "ch4:ucx")
MPICH_4 = make_stack("mpich", "4.0.2", "ch4:ucx")
OPENMPI = make_stack("openmpi", "5.0.11")
OPENMPI_4 = make_stack("openmpi", "4.1.4")
MVAPICH2 = make_stack("mvapich2", "2.3.7", "ch3:mrail")


setting_of = resolve_transport


def attempt(stack: Stack, fabric: Fabric) -> Setting | NotMeasured:
    """The setting, or the reason why there is none."""
    try:
        return resolve_transport(stack, fabric)
    except NotMeasured as reason:
        return reason


def fabric_of(transport: str, scope: str, kind: str = "") -> Fabric:
    """A fabric of a transport, of device memory of a platform of GPUs where one is named."""
    memory = Memory(DEVICE, kind) if kind else OF_HOST
    return Fabric(f"the_{transport}", transport, scope, RAILS[transport], memory=memory)


def knowing(stack: Stack, kind: str) -> Stack:
    """The stack, built for a platform of GPUs."""
    return replace(stack, gpu=kind)


def boundaries(mpi: str) -> tuple[str, ...]:
    """First and first excluded versions of its rows and gaps."""
    record = registry.find(mpi)
    ends = {
        version
        for row in (*record.rows, *record.gaps)
        for version in (row.versions.since, row.versions.until)
        if version
    }
    return tuple(".".join(map(str, version)) for version in sorted(ends))


def every_stack() -> list[Stack]:
    """Each MPI there is, in all versions and with all communication devices that matter."""
    return [
        make_stack(name, version, device)
        for name, record in registry.known().items()
        for version in VERSIONS.get(name) or boundaries(name)
        for device in DEVICES.get(name) or tuple(dict.fromkeys(row.device for row in record.rows))
    ]


def golden(name: str) -> tuple[str, str]:
    """Recorded stdout and stderr; at least one was not empty."""
    texts = [
        path.read_text() if path.exists() else ""
        for path in (GOLDEN / f"{name}.out.txt", GOLDEN / f"{name}.err.txt")
    ]
    assert any(texts), f"no recording {name}"
    return texts[0], texts[1]


def judge(stack: Stack, fabric: Fabric, name: str, libraries: tuple[str, ...] = ()) -> list[str]:
    """Proofs of (stack, fabric) against a recording, as a test reads
    it: debug lines of stdout, and stderr.
    """
    out, err = golden(name)
    _, debug = strip_debug(stack, out)
    return check_proofs(setting_of(stack, fabric), debug + err, libraries)

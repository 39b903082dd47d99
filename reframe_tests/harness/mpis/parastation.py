"""ParaStation MPI (psmpi): MPICH on ParaStation's communication library pscom.

Each of pscom's plugins has a priority in a variable of its name, and 0 turns it off (pscom,
doc/RuntimeConfig.md). All but the requested one are turned off here, so that a plugin that cannot
be loaded ends the run instead of being replaced by another. ``PSP_DEBUG_CONTYPE=1`` names the
plugin of each connection on stderr (lib/pscom/pscom_con.c).

It could not be run here: everything below is from its documentation and sources.
"""

from __future__ import annotations

from typing import Any

from ..machine.transport import TRANSPORTS
from . import shared_evidence as shared
from .model import MPICH_COMPILED, MPICH_WORLD, Banner, Mpi, SpackPackage
from .shared_evidence import (
    PSM2,
    PSM2_MANUAL,
    UCX_CONTEXT,
    UCX_DEBUG_ENV,
    UCX_IB_LANE,
    UCX_RAILS,
    ucx_lanes,
)
from .transport import DeviceMemory, Gap, Proof, Range, TransportRow, scoped, scoped_proofs

_VERSIONS = Range((5,))
_MANUAL = (
    "ParaStation MPI README, 'Runtime Parameters' (PSP_DEBUG_CONTYPE); pscom, 'Runtime "
    "Configuration Options', "
)
_DEBUG = {"PSP_DEBUG_CONTYPE": "1"}
#: Plugins of the networks that have a row, and TCP: others are built where their hardware is.
_NETWORKS = ("OPENIB", "UCP", "PSM", "TCP")


#: Of pscom built with CUDA: with enforced staging it would copy to
#: host memory before any plugin.
_CUDA = {
    "cuda": DeviceMemory(
        _MANUAL + "'CUDA options' (PSP_CUDA, PSP_CUDA_ENFORCE_STAGING)",
        env={"PSP_CUDA": "1", "PSP_CUDA_ENFORCE_STAGING": "0"},
    )
}


def _only(plugin: str) -> dict[str, str]:
    """Of the networks' plugins one alone; of shared memory the scope says."""
    return {f"PSP_{name}": "1" if name == plugin else "0" for name in _NETWORKS}


def _connections(expect: str, *allow: str) -> Proof:
    """``CONNECT (0,n1,r0000) to (1,n2,r0001) via openib``, on stderr;
    a rank's connection to itself is 'loop'.
    """
    return Proof(
        "pscom connection type",
        r"\bvia (\w+)",
        (expect,),
        ("loop", *allow),
        line=r"\b(?:CONNECT|ACCEPT) ",
    )


def _row(transport: str, plugin: str, manual: str, **more: Any) -> TransportRow:
    reported = plugin.lower()
    return TransportRow(
        transport,
        _VERSIONS,
        _MANUAL + manual,
        env=_only(plugin),
        debug_env=_DEBUG,
        by_scope=scoped(node={"PSP_SHM": "0"}, cluster={"PSP_SHM": "1"}),
        proofs_by_scope=scoped_proofs(
            node=(_connections(reported),), cluster=(_connections(reported, "shm"),)
        ),
    ).adding(**more)


_ROWS: tuple[TransportRow, ...] = (
    TransportRow(
        "shm",
        _VERSIONS,
        _MANUAL + "'Customizing plugin priority' (PSP_SHM)",
        env={**_only(""), "PSP_SHM": "1"},
        debug_env=_DEBUG,
        proofs=(_connections("shm"),),
    ),
    _row(
        "verbs",
        "OPENIB",
        "'OpenIB plugin options' (PSP_OPENIB_HCA, PSP_OPENIB_PORT)",
        env={"PSP_OPENIB_HCA": "{device}", "PSP_OPENIB_PORT": "{port}"},
        memory={
            kind: memory.adding(
                env={"PSP_CUDA_AWARE_OPENIB": "1"},
                note="pscom does not say whether it copied through memory of the host",
            )
            for kind, memory in _CUDA.items()
        },
    ),
    _row(
        "ucx",
        "UCP",
        "'UCP plugin options'; UCX documentation, 'Environment Parameters' (UCX_TLS, "
        "UCX_NET_DEVICES)",
        env={"UCX_NET_DEVICES": "{device_ports}"},
        debug_env=UCX_DEBUG_ENV,
        by_scope=scoped(node={"UCX_TLS": "self,ib"}, cluster={"UCX_TLS": "self,ib"}),
        by_rails=UCX_RAILS,
        proofs=(ucx_lanes(UCX_IB_LANE, memory=False),),
        memory=shared.with_library(_CUDA, shared.ucx_memory("ib", UCX_IB_LANE, shortcut=False)),
        classes=shared.UCX_CLASSES,
        context=UCX_CONTEXT,
    ),
    TransportRow(
        "gpu_ipc",
        _VERSIONS,
        _MANUAL + "'UCP plugin options'; UCX documentation, 'Environment Parameters' (UCX_TLS)",
        env={**_only("UCP"), "PSP_SHM": "0"},
        debug_env={**_DEBUG, **UCX_DEBUG_ENV},
        proofs=(_connections("ucp"), shared.UCX_MEMORY),
        memory=shared.with_library(_CUDA, shared.ucx_ipc_memory()),
        context=UCX_CONTEXT,
    ),
    _row("psm2", "PSM", "'PSM plugin options'; " + PSM2_MANUAL, **PSM2),
)

_HAS_ROWS = {row.transport for row in _ROWS}
#: Why, and what instead.
_WITHOUT = {
    "tcp": "ParaStation MPI chooses its TCP network by address (PSP_NETWORK), not by interface: "
    "use an as_shipped fabric.",
    "opx": "ParaStation MPI has no plugin for libfabric (psmpi issue 4): use transport psm2.",
    "efa": "ParaStation MPI has no plugin for libfabric (psmpi issue 4): use an as_shipped fabric.",
    "cxi": "ParaStation MPI has no plugin for libfabric (psmpi issue 4): use an as_shipped fabric.",
}

_GAPS: tuple[Gap, ...] = (
    *(
        Gap(
            transport,
            Range((0,), (5,)),
            "ParaStation MPI before 5 has no row here: use 5 or newer.",
        )
        for transport in TRANSPORTS
        if transport in _HAS_ROWS
    ),
    *(Gap(transport, Range((0,)), reason) for transport, reason in _WITHOUT.items()),
    *(
        Gap(
            transport,
            Range((0,)),
            "pscom takes memory of CUDA only: use another MPI for ROCm memory.",
            ("rocm",),
        )
        for transport in TRANSPORTS
    ),
    Gap(
        "psm2",
        Range((0,)),
        "pscom's PSM plugin takes memory of the host only: use transport ucx or verbs.",
        ("cuda",),
    ),
)

MPI = Mpi(
    name="parastation",
    title="ParaStation MPI",
    abi="mpich",
    # psmpi is built with Hydra where asked to (--enable-hydra).
    launchers=("psmgmt", "hydra"),
    # MPID_DEV_VERSION_STRING of its psp device stands before MPICH's own
    # lines: "=== ParaStation MPI 5.10.0-1 ===".
    banner=Banner(
        r"^=== ParaStation MPI ([0-9][\w.-]*) ===",
        r"=== ParaStation MPI {version} ===",
        compiled=MPICH_COMPILED,
    ),
    # MPICH ABI Compatibility Initiative.
    sonames=(r"libmpi\.so\.12",),
    world=MPICH_WORLD,
    # srun of psslurm starts its ranks with the site's default; which that
    # is 'srun_mpi' of the partition's extras says.
    settings=("PSP_", "MPIR_CVAR_"),
    rows=_ROWS,
    gaps=_GAPS,
    # Its ranks are started by ParaStation's management, or by Hydra where it was built with that.
    spack=(
        SpackPackage("parastationmpi", launchers=("bin/mpirun", "/opt/parastation/bin/mpiexec")),
    ),
    untested="it was not built here, and pscom's verbs, UCX and PSM2 plugins need their adapters",
)

"""Cray MPICH 8 and 9 of HPE's Cray Programming Environment,
over libfabric (Slingshot) and over UCX.

It is two builds, chosen by module: ``cray-mpich`` with ``craype-network-ofi``, ``cray-mpich-ucx``
with ``craype-network-ucx`` (release notes of 8.1.23). Its own variables are documented in
intro_mpi(3). Each rank uses one network card (``MPICH_OFI_NIC_POLICY``) and reports it:
``MPICH_OFI_VERBOSE`` names provider and domain, ``MPICH_OFI_NIC_VERBOSE=2`` the card of each rank.
The lines come from other people's logs (ci/tests/data/golden_transports/craympich-lines.txt).

It could not be run here: Slingshot and its provider come with HPE's systems.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from . import shared_evidence as shared
from .model import MPICH_COMPILED, MPICH_WORLD, Banner, Mpi, SpackPackage
from .transport import (
    LIBRARIES,
    MANY_RAILS,
    ONE_RAIL,
    DeviceMemory,
    PacketClass,
    Proof,
    Range,
    TransportRow,
    gaps,
    scoped,
)

OFI = "ch4:ofi"
UCX = "ch4:ucx"
_VERSIONS = Range((8,))
_MANUAL = "intro_mpi(3) of Cray MPICH 8.1 and 9.0, "
_OFI_MANUAL = (
    _MANUAL + "'OFI environment variables' (MPICH_OFI_USE_PROVIDER, MPICH_OFI_NIC_POLICY, "
    "MPICH_OFI_VERBOSE, MPICH_OFI_DEFAULT_TCLASS, MPICH_OFI_TCLASS_ERRORS); libfabric, "
)
_DEBUG = {"MPICH_OFI_VERBOSE": "1", "MPICH_OFI_NIC_VERBOSE": "2", "MPICH_VERSION_DISPLAY": "1"}
#: Ranks of one node through their card: the first keeps a job on one
#: node from opening none, the second is MPICH's.
_REMOTE = {"MPICH_SINGLE_HOST_ENABLED": "0", "MPICH_NO_LOCAL": "1"}

#: Lines of those variables, among the benchmark's, and none of an error: "PE <rank>: ..."; where
#: intra-node shortcuts are off a warning of several lines; at the end the counters of Slingshot
#: cards.
_STDOUT_LINES = re.compile(
    r"PE \d+: (?!.*\b(?:[Ee]rror|ERROR|[Ff]ail)).*|MPI VERSION +: CRAY MPICH version .*"
    r"|MPI BUILD INFO +: .*"
    r"| {6}(?:This setting disables all intra-node MPI optimizations\."
    r"|In addition, on systems with multiple NICs per node, this setting"
    r"|forces HPE Cray MPI to only use a single NIC on each node\. This"
    r"|setting is intended only for debugging and may significantly|impact MPI performance\.)"
    r"|MPICH Slingshot Network Summary: \d+ network timeouts"
)

#: Its library for a platform of GPUs, which programs are linked with (module craype-accel-...);
#: without it MPI_Init ends ("MPIDI_CRAY_init: GPU_SUPPORT_ENABLED is requested, but GTL library is
#: not linked").
_GTL = {"cuda": "libmpi_gtl_cuda", "rocm": "libmpi_gtl_hsa"}


def _shown(variable: str, value: str) -> Proof:
    """A setting in effect: "PE 0:   MPICH_GPU_IPC_ENABLED                          = 1"."""
    return Proof(variable, rf"^PE 0: +{variable} += (\d+)", (value,))


def _gpu_memory(**more: Any) -> dict[str, DeviceMemory]:
    return {
        kind: DeviceMemory(
            _MANUAL + "'GPU-enabled environment variables' (MPICH_GPU_SUPPORT_ENABLED, "
            "MPICH_GPU_IPC_ENABLED, MPICH_GPU_IPC_THRESHOLD, MPICH_OFI_NIC_POLICY)",
            env={"MPICH_GPU_SUPPORT_ENABLED": "1"},
            debug_env={"MPICH_ENV_DISPLAY": "1"},
            proofs=(
                Proof(
                    "GPU transport library (GTL)",
                    r"/(libmpi_gtl_\w+)\.so",
                    (library,),
                    source=LIBRARIES,
                ),
                _shown("MPICH_GPU_SUPPORT_ENABLED", "1"),
            ),
        ).adding(**more)
        for kind, library in _GTL.items()
    }


#: Between GPUs of a node: the smallest message that takes that way is 1024 B unless set.
_GPU_IPC = _gpu_memory(
    env={"MPICH_GPU_IPC_ENABLED": "1", "MPICH_GPU_IPC_THRESHOLD": "1"},
    proofs=(_shown("MPICH_GPU_IPC_ENABLED", "1"), _shown("MPICH_GPU_IPC_THRESHOLD", "1")),
    note="the settings are shown, not which messages went between the GPUs directly",
)
#: Each rank takes the card next to its GPU, where there are several.
_GPU_NETWORK = _gpu_memory(
    by_scope=scoped(node={"MPICH_GPU_IPC_ENABLED": "0"}),
    by_rails={MANY_RAILS: {"MPICH_OFI_NIC_POLICY": "GPU"}},
    note="whether the card reads memory of the GPU or a copy in the host's is not shown",
)

#: A class that the job may not use ends it, and the one in effect is shown ("PE 0:
#: MPICH_OFI_DEFAULT_TCLASS                       = TC_BEST_EFFORT").
_CLASSES = {
    "traffic_class": PacketClass(
        {"MPICH_OFI_DEFAULT_TCLASS": "TC_{traffic_class}", "MPICH_OFI_TCLASS_ERRORS": "error"},
        {"MPICH_ENV_DISPLAY": "1"},
        (
            Proof(
                "MPICH_OFI_DEFAULT_TCLASS",
                r"^PE 0: +MPICH_OFI_DEFAULT_TCLASS += (\w+)",
                ("TC_{traffic_class}",),
            ),
        ),
    )
}
#: "PE 0: MPICH CH4 OFI netmod using cxi provider (domain_name=cxi0)".
_NETMOD = r"\bOFI netmod using "


def _ofi_row(
    transport: str, provider: str, manual: str, env: Mapping[str, str], *, named: bool
) -> TransportRow:
    """The build on libfabric, on one provider.

    :param named: its domains are called as the devices are, so that
        the card of a rank can be looked at.
    """
    # The line of the netmod names the domain of rank 0, "selected NIC" that of each rank.
    card = Proof(
        "NIC",
        r"\bdomain_name=([^,\s)]+)",
        ("{device}",),
        line=rf"{_NETMOD}|\bselected NIC ",
        required=named,
    )
    return TransportRow(
        transport,
        _VERSIONS,
        _OFI_MANUAL + manual,
        device=OFI,
        env={"MPICH_OFI_USE_PROVIDER": provider, **env},
        debug_env=_DEBUG,
        by_scope=scoped(node=_REMOTE),
        # Each rank takes the card next to it, and never two: there is no setting that stripes.
        by_rails={ONE_RAIL: {}, MANY_RAILS: {"MPICH_OFI_NIC_POLICY": "NUMA"}},
        proofs=(
            Proof("libfabric provider", _NETMOD + r"(\S+) provider", (re.escape(provider),)),
            card,
        ),
        memory=_GPU_NETWORK,
        classes=_CLASSES if transport == "cxi" else {},
        note="MPICH_NO_LOCAL=1 keeps a node to one card, so that several rails inside one node "
        "are not shown by it.",
    )


def _ucx_row(
    transport: str, proofs: tuple[Proof, ...], env: Mapping[str, str], **more: Any
) -> TransportRow:
    return TransportRow(
        transport,
        _VERSIONS,
        _MANUAL
        + "'UCX environment variables'; UCX documentation, 'Environment Parameters' (UCX_TLS, "
        "UCX_NET_DEVICES)",
        device=UCX,
        env=env,
        debug_env=shared.UCX_DEBUG_ENV,
        proofs=proofs,
        context=shared.UCX_CONTEXT,
        **more,
    )


_SHM = TransportRow(
    "shm",
    _VERSIONS,
    _MANUAL
    + "'SMP environment variables' (MPICH_SINGLE_HOST_ENABLED, MPICH_SMP_SINGLE_COPY_MODE); "
    "MPICH_ENV_DISPLAY",
    device=OFI,
    env={"MPICH_SINGLE_HOST_ENABLED": "1"},
    debug_env={"MPICH_ENV_DISPLAY": "1", **_DEBUG},
    proofs=(
        # "PE 0:   MPICH_SINGLE_HOST_ENABLED                      = 1": without
        # it the netmod is opened on one node, too.
        _shown("MPICH_SINGLE_HOST_ENABLED", "1"),
        Proof("libfabric provider", _NETMOD + r"(\S+) provider", absent=True),
    ),
)
_SHM_OF_UCX = _ucx_row("shm", (shared.UCX_MEMORY,), {"UCX_TLS": "self,sm"})

_ROWS: tuple[TransportRow, ...] = (
    _SHM,
    replace(_SHM, transport="gpu_ipc", memory=_GPU_IPC),
    _ofi_row("cxi", "cxi", shared.CXI_MANUAL, shared.CXI["env"], named=True),
    # Slingshot 10, whose cards are Mellanox'.
    _ofi_row("verbs", "verbs;ofi_rxm", shared.VERBS_MANUAL, shared.VERBS["env"], named=False),
    _ofi_row(
        "tcp", "tcp;ofi_rxm", "fi_tcp(7) (FI_TCP_IFACE)", {"FI_TCP_IFACE": "{device}"}, named=False
    ),
    _SHM_OF_UCX,
    replace(_SHM_OF_UCX, transport="gpu_ipc", memory=_GPU_IPC),
    _ucx_row(
        "ucx",
        (),
        {"UCX_NET_DEVICES": "{device_ports}"},
        by_scope=scoped(
            node={"UCX_TLS": "self,ib", "MPICH_NO_LOCAL": "1"}, cluster={"UCX_TLS": "self,sm,ib"}
        ),
        by_rails=shared.UCX_RAILS,
        proofs_by_scope=shared.ucx_proofs(shared.UCX_IB_LANE),
        classes=shared.UCX_CLASSES,
        memory=shared.with_library(_gpu_memory(), shared.ucx_memory("ib", shared.UCX_IB_LANE)),
    ),
)

MPI = Mpi(
    name="craympich",
    title="Cray MPICH",
    abi="mpich",
    # It has no launcher of its own: PALS or ALPS under PBS, srun under Slurm.
    launchers=("pals",),
    # "MPI VERSION    : CRAY MPICH version 8.1.28.2 (ANL base 3.4a2)". Which build it is only its
    # folder says: /opt/cray/pe/mpich/8.1.28/ofi/gnu/9.1/lib (release notes of 8.1.23).
    banner=Banner(
        r"^MPI VERSION\s*: CRAY MPICH version ([0-9][\w.-]*)",
        r"CRAY MPICH version {version}(?![\w.-])",
        device_by_path={r"/mpich/[^/]+/ofi/": OFI, r"/mpich/[^/]+/ucx/": UCX},
        # The library for its memory that a program was linked with
        # ("GPU Transport Layer" in intro_mpi).
        gpu={"cuda": r"^libmpi_gtl_cuda\.", "rocm": r"^libmpi_gtl_hsa\."},
        compiled=MPICH_COMPILED,
    ),
    # One library for each compiler (libmpi_gnu_91, libmpi_cray);
    # libmpi is that of the module cray-mpich-abi.
    libraries=(
        "libmpi",
        "libmpi_cray",
        "libmpi_intel",
        "libmpi_nvidia",
        "libmpi_amd",
        "libmpi_aocc",
        "libmpi_gnu_91",
        "libmpi_gnu_103",
        "libmpi_gnu_112",
        "libmpi_gnu_123",
    ),
    sonames=(r"libmpi(?:_(?:cray|intel|nvidia|amd|aocc|gnu)(?:_\d+)?)?\.so\.12",),
    world=MPICH_WORLD,
    # Slurm's plugin for it (src/plugins/mpi/cray_shasta); with pmi2 or pmix every rank is alone.
    pmi="cray_shasta",
    stdout_lines=_STDOUT_LINES,
    settings=("MPICH_", "MPIR_CVAR_"),
    rows=_ROWS,
    gaps=gaps(
        _ROWS,
        (8,),
        "Cray MPICH before 8 is that of Gemini and Aries: use 8 or newer, or an as_shipped fabric.",
        "Cray MPICH is not supported over {transport}: use an as_shipped fabric.",
    ),
    spack=(SpackPackage("cray-mpich", launchers=("/opt/cray/pe/pals/default/bin/mpiexec",)),),
    untested="it comes with HPE Cray systems only",
)

"""MPICH's ch4 device, in MPICH and in MPIs based on it (MVAPICH 3 and 4): netmods ofi and ucx.

Ranks on one node communicate through ch4's own shared memory, whatever the netmod;
``MPIR_CVAR_NOLOCAL=1`` makes every rank remote, so that every byte goes through the netmod.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from ..machine.gpu import KINDS
from ..machine.transport import TRANSPORTS
from . import shared_evidence as shared
from .transport import DeviceMemory, Gap, Proof, Range, TransportRow, Version, scoped, scoped_proofs

OFI = "ch4:ofi"
UCX = "ch4:ucx"
#: Name under which programs ask for it (MPICH ABI Compatibility Initiative).
SONAME = r"libmpi\.so\.12"
_MANUAL = "MPICH README.envvar and `mpivars -a` (MPIR_CVAR_CH4_NETMOD, MPIR_CVAR_NOLOCAL"
_NOLOCAL = {"MPIR_CVAR_NOLOCAL": "1"}

#: MPICH prints its libfabric provider at start-up, on stdout, rank 0: up to 3.4 with the first,
#: since 4.0 with the second variable (src/mpid/ch4/netmod/ofi/ofi_init.c); level 2 adds one line
#: per rank with its NIC since 4.3.0.
CAPABILITY = "MPIR_CVAR_CH4_OFI_CAPABILITY_SETS_DEBUG"
SUMMARY = "MPIR_CVAR_DEBUG_SUMMARY"
_NIC_SINCE: Version = (4, 3)

#: Lines of those summaries (src/mpi/init/mpir_init.c, src/mpid/ch4/src/ch4_init.c,
#: src/mpid/ch4/netmod/ofi/ofi_init.c, init_provider.c; 3.4 to 5.0), on stdout, among the
#: benchmark's. The two numbers behind a local rank are printed one by one: on a busy node another
#: rank's line comes between (5.0.2, ofi).
SUMMARY_LINES = re.compile(
    r"(?:Rank: \d+, Local_rank: \d+ \[ \d+(?:, \d+)?)?(?:=={3,}(?: [\w ()/]+ ={4,})?"
    r"|(?:MPIR|MPID|MPID/shm)(?: \(GPU\))?: \S+"
    r"|(?:MPIR_CVAR|MPIDI_OFI|MPIDI_UCX|MPIDI_CH4)_\w+: .*"
    r"|MAXIMUM (?:SUPPORTED RANKS|TAG): \d+"
    r"|(?:max_(?:buffered_(?:send|write)|msg_size|order_(?:raw|war|waw)|mr_key_size)|(?:tx|rx"
    r"|rma)_iov_limit"
    r"|num_(?:vcis|vnis|nics)|tag_bits|(?:sub)?device_count|sizeof\(\w+\)): -?\d+"
    r"|Required minimum FI_VERSION: .*"
    r"|provider: [^,]+, score = .*"
    r"|libfabric provider: .*"
    r"|MPICH \d\S* - .*"
    r"|(?:error checking|QMPI|debugger support|thread level|thread CS|threadcomm) *: .*"
    r"|Rank: \d+, Local_rank: \d+(?:, NIC: \S+| \[[ \d,]+\])"
    r"|(?:CUDA|HIP)_VISIBLE_DEVICES: [\w,-]*)|(?:, \d+)? \]"
)

#: It prints one line for its platform of GPUs where it has found at least one: "==== GPU Init
#: (CUDA) ====", 4.1 to 5.0 (src/mpl/src/gpu/mpl_gpu_cuda.c, mpl_gpu_hip.c), and whether device
#: memory is handed to libfabric (ofi_init.c): where a provider does not take it,
#: "MPIDI_OFI_ENABLE_HMEM: 0" whatever was requested (5.0.2 on tcp here).
_GPU_SINCE: Version = (4, 1)
_GPU_NAMES = {"cuda": "CUDA", "rocm": "HIP"}
_GPU_MANUAL = (
    "MPICH README.envvar and `mpivars -a` (MPIR_CVAR_ENABLE_GPU, MPIR_CVAR_CH4_OFI_ENABLE_HMEM, "
)
_GPU_MANUAL += "MPIR_CVAR_CH4_IPC_GPU_P2P_THRESHOLD, MPIR_CVAR_DEBUG_SUMMARY)"
#: Providers that take device memory (capability sets of
#: ofi_capability_sets.h; fi_psm2(7) has no FI_HMEM).
_HMEM = ("verbs", "efa", "opx", "cxi")


def _gpu_memory(
    *, known: bool, hmem: bool = False, ipc: bool = False, **more: Any
) -> dict[str, DeviceMemory]:
    """GPU memory in ch4.

    :param known: the MPI is known to print MPICH's lines.
    :param hmem: libfabric is given device memory; else ch4 copies it to the host's first.
    :param ipc: instead of a network, GPUs of the node open each
        other's memory, for messages of every size.
    """
    env = {"MPIR_CVAR_ENABLE_GPU": "1"}
    env |= {"MPIR_CVAR_CH4_OFI_ENABLE_HMEM": "1"} if hmem else {}
    env |= {"MPIR_CVAR_CH4_IPC_GPU_P2P_THRESHOLD": "0"} if ipc else {}
    direct = (
        (Proof("MPIDI_OFI_ENABLE_HMEM", r"^MPIDI_OFI_ENABLE_HMEM: (\d+)", ("1",), required=known),)
        if hmem
        else ()
    )
    return {
        kind: DeviceMemory(
            _GPU_MANUAL,
            env=env,
            debug_env={SUMMARY: "2"},
            proofs=(
                Proof("GPU Init", r"^==== GPU Init \((\w+)\) ====", (name,), required=known),
                *direct,
            ),
            since=_GPU_SINCE if known else (),
        ).adding(**more)
        for kind, name in _GPU_NAMES.items()
    }


#: Of rows over the GPUs' links. Shared memory below is what messages of the host take.
_IPC_NOTE = (
    "nothing shows which messages went between the GPUs directly: those of memory that one GPU "
    "cannot open of the other go through the host's"
)
_COPIED_NOTE = (
    "nothing shows it, but this netmod is given memory of the host: ch4 copies every byte there "
    "first"
)


def _per_rank(known: bool, subject: str, pattern: str, expect: str) -> Proof:
    return Proof(subject, r"^Rank: \d+, " + pattern, (expect,), required=known, since=_NIC_SINCE)


def ofi_rows(
    versions: Range, debug: Mapping[str, str], *, rank_lines: bool
) -> Iterator[TransportRow]:
    """Rows of the ofi netmod for one MPI in one range of versions.

    :param debug: variables that make it print its provider.
    :param rank_lines: it is known to print a line per rank (from MPICH 4.3 on).
    """
    local_rank = _per_rank(
        rank_lines, "Local_rank (0 everywhere under MPIR_CVAR_NOLOCAL=1)", r"Local_rank: (\d+)", "0"
    )

    def row(provider: str, manual: str, *, reported: str = "", **more: Any) -> TransportRow:
        """The row of the transport with the provider's name."""
        network = not TRANSPORTS[provider].in_memory
        return TransportRow(
            provider,
            versions,
            f"{_MANUAL}, {next(iter(debug))}); libfabric, {manual}",
            device=OFI,
            env={"MPIR_CVAR_CH4_NETMOD": "ofi", "FI_PROVIDER": provider},
            debug_env=debug,
            by_scope=scoped(node=_NOLOCAL if network else {}),
            proofs=(
                Proof("libfabric provider", r"^libfabric provider: (\S+)", (reported or provider,)),
            ),
            proofs_by_scope=scoped_proofs(node=(local_rank,) if network else ()),
            memory=_gpu_memory(known=rank_lines, hmem=True) if provider in _HMEM else {},
        ).adding(**more)

    shm = row("shm", "fi_shm(7)")
    yield shm
    yield replace(
        shm, transport="gpu_ipc", memory=_gpu_memory(known=rank_lines, ipc=True, note=_IPC_NOTE)
    )
    yield row(
        "tcp",
        "fi_tcp(7) (FI_TCP_IFACE)",
        env={"FI_TCP_IFACE": "{device}"},
        reported=r"tcp(?:;ofi_rxm)?",
        proofs=(_per_rank(rank_lines, "NIC", r"Local_rank: \d+, NIC: (\S+)", "{device}"),),
        memory=_gpu_memory(known=rank_lines, note=_COPIED_NOTE),
    )
    yield row("verbs", shared.VERBS_MANUAL, reported=r"verbs(?:;ofi_rxm)?", **shared.VERBS)
    yield row("psm2", "fi_psm2(7); " + shared.PSM2_MANUAL, **shared.PSM2)
    yield row("efa", shared.EFA_MANUAL, **shared.EFA)
    if versions.until is None or versions.until > (4,):
        yield row("opx", shared.OPX_MANUAL, **shared.OPX)
        yield row("cxi", shared.CXI_MANUAL, **shared.CXI)


def ucx_rows(versions: Range, *, rank_lines: bool) -> Iterator[TransportRow]:
    """Rows of the ucx netmod for one MPI in one range of versions."""
    manual = (
        f"{_MANUAL}); UCX documentation, 'Environment Parameters' (UCX_TLS, UCX_NET_DEVICES, "
        "UCX_LOG_LEVEL)"
    )
    env = {"MPIR_CVAR_CH4_NETMOD": "ucx"}
    shm = TransportRow(
        "shm",
        versions,
        manual,
        device=UCX,
        env={**env, "UCX_TLS": "self,sm"},
        debug_env=shared.UCX_DEBUG_ENV,
        proofs=(shared.UCX_MEMORY,),
        context=shared.UCX_CONTEXT,
    )
    yield shm
    yield replace(
        shm, transport="gpu_ipc", memory=_gpu_memory(known=rank_lines, ipc=True, note=_IPC_NOTE)
    )

    def over(transport: str, link: str, devices: str, lane: str, **more: Any) -> TransportRow:
        """Between nodes; ``link`` is the placeholder in ``UCX_TLS``."""
        return TransportRow(
            transport,
            versions,
            manual,
            device=UCX,
            env={**env, "UCX_NET_DEVICES": devices},
            debug_env=shared.UCX_DEBUG_ENV,
            by_scope=scoped(
                node={"UCX_TLS": f"self,{link}", **_NOLOCAL}, cluster={"UCX_TLS": f"self,sm,{link}"}
            ),
            by_rails=shared.UCX_RAILS,
            proofs_by_scope=shared.ucx_proofs(lane),
            context=shared.UCX_CONTEXT,
            memory=shared.with_library(
                _gpu_memory(known=rank_lines), shared.ucx_memory(link, lane)
            ),
            **more,
        )

    yield over(
        "tcp",
        "tcp",
        "{devices}",
        shared.UCX_TCP_LANE,
        last_resort_for=("lo",),
        note="UCX 1.20.0 and 1.20.1 cannot connect over lo (openucx/ucx pull request 11202, in "
        "1.21.0). MPICH 4.0.2 with UCX 1.13.1 (Debian 12), two ranks a node on two nodes: "
        "half of the starts hang in MPI_Finalize; none of 6 did with MPIR_CVAR_NOLOCAL=1.",
    )
    yield over("ucx", "ib", "{device_ports}", shared.UCX_IB_LANE, classes=shared.UCX_CLASSES)


def gpu_gaps() -> Iterator[Gap]:
    """Transports on which ch4 is not used with GPU memory."""
    yield Gap(
        "psm2",
        Range((0,)),
        "libfabric's psm2 provider does not take memory of GPUs: use transport opx.",
        tuple(KINDS),
    )

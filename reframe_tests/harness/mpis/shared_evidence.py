"""Settings and proofs that several MPIs share, because the library below them reads or prints them: UCX, libfabric, PSM2.

Names in capitals without a further word (``PSM2``) are what a row adds to its own (:meth:`TransportRow.adding`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .transport import MANY_RAILS, ONE_RAIL, STRIPED, Proof, scoped, scoped_proofs

#: UCX names the lanes of each endpoint once, when it connects. Up to 1.14 ``ep_cfg[1]: tag(tcp/lo) ...``, from 1.15
#: ``intra-node cfg#1 tag(tcp/lo) ...`` (src/ucp/core/ucp_worker.c, ucp_ep.c). ``stderr`` is a name it knows
#: (ucs_open_output_stream); left alone it writes among the benchmark's lines (UCX_LOG_FILE, `ucx_info -f`).
UCX_DEBUG_ENV = {"UCX_LOG_LEVEL": "info", "UCX_LOG_FILE": "stderr"}
#: The settings in effect, as UCX logs them (src/ucs/config/parser.c).
UCX_CONTEXT = r"UCX_\* env variables: (.*)"

_LANE_LINES = r"(?:\bcfg#\d+|\bep_cfg\[\d+\]:) +\w+\("
_LANE = r"[( ](\w+/[\w.:@-]+)"
_SELF_LANE = r"self/memory\d*"
_MEMORY_LANE = r"(?:self|sysv|posix|xpmem|cma|knem)/memory\d*"


def ucx_lanes(expect: str, *, memory: bool, required: bool = True) -> Proof:
    """Lanes UCX may use between ranks: those named ``transport/device`` in ``expect`` and, if ``memory``, shared memory."""
    allow = _MEMORY_LANE if memory else _SELF_LANE
    return Proof("UCX lane", _LANE, (expect,), (allow,), line=_LANE_LINES, required=required)


def ucx_proofs(expect: str) -> dict[str, tuple[Proof, ...]]:
    """Of rows over links: inside a node nothing may go through memory."""
    return scoped_proofs(node=(ucx_lanes(expect, memory=False),), cluster=(ucx_lanes(expect, memory=True),))


#: UCX over shared memory only.
UCX_MEMORY = Proof("UCX lane", _LANE, (_MEMORY_LANE,), line=_LANE_LINES)
#: UCX over TCP, or over an InfiniBand or RoCE port with the transports the alias ``ib`` stands for (`UCX_TLS`).
UCX_TCP_LANE = "tcp/{device}"
UCX_IB_LANE = r"(?:rc|ud|dc|gga)_\w+/{device_port}"

#: UCX puts large messages on two devices by default (``ucx_info -f``: UCX_MAX_RNDV_RAILS=2); lanes of one-sided operations are
#: counted by UCX_MAX_RMA_RAILS (1 by default in 1.20; src/ucp/core/ucp_context.c). UCX 1.13 does not know the latter and says
#: so in a warning, which :data:`UCX_DEBUG_ENV` keeps away from the benchmark's lines.
_UCX_RAILS = ("UCX_MAX_EAGER_RAILS", "UCX_MAX_RNDV_RAILS", "UCX_MAX_RMA_RAILS")
UCX_RAILS = {ONE_RAIL: {}, MANY_RAILS: dict.fromkeys(_UCX_RAILS, "1"), STRIPED: dict.fromkeys(_UCX_RAILS, "{rails}")}

#: UCX over InfiniBand or RoCE.
UCX_IB: Mapping[str, Any] = {
    "env": {"UCX_NET_DEVICES": "{device_ports}"},
    "debug_env": UCX_DEBUG_ENV,
    "by_scope": scoped(node={"UCX_TLS": "self,ib"}, cluster={"UCX_TLS": "self,sm,ib"}),
    "by_rails": UCX_RAILS,
}

#: PSM2 takes the adapter next to the rank's core by default; PSM2_MULTIRAIL=1 splits messages over all.
PSM2_RAILS = {
    ONE_RAIL: {"HFI_UNIT": "{unit}", "PSM2_MULTIRAIL": "0"},
    MANY_RAILS: {"PSM2_MULTIRAIL": "0"},
    STRIPED: {"PSM2_MULTIRAIL": "1"},
}
PSM2_MANUAL = "Intel PSM2 Programmer's Guide, 'Environment Variables' (HFI_UNIT, PSM2_DEVICES, PSM2_MULTIRAIL)"
#: With ``shm`` in the list ranks of one node talk through memory.
PSM2_NODE = {"PSM2_DEVICES": "self,hfi"}
PSM2: Mapping[str, Any] = {"by_scope": scoped(node=PSM2_NODE, cluster={"PSM2_DEVICES": "self,hfi,shm"}), "by_rails": PSM2_RAILS}
#: Omni-Path Express: the provider takes the adapter next to the rank's core unless its number is set. Between ranks on one and
#: the same adapter it keeps to memory all the same; counters then show it.
OPX: Mapping[str, Any] = {
    "by_scope": scoped(node={"FI_OPX_SHM_ENABLE": "0"}),
    "by_rails": {ONE_RAIL: {"FI_OPX_HFI_SELECT": "{unit}"}, MANY_RAILS: {}},
}
OPX_MANUAL = "fi_opx(7) (FI_OPX_HFI_SELECT, FI_OPX_SHM_ENABLE)"
EFA: Mapping[str, Any] = {"env": {"FI_EFA_IFACE": "{devices}"}, "by_scope": scoped(node={"FI_EFA_ENABLE_SHM_TRANSFER": "0"})}
EFA_MANUAL = "fi_efa(7) (FI_EFA_IFACE from libfabric 2.0 on, FI_EFA_ENABLE_SHM_TRANSFER)"
CXI: Mapping[str, Any] = {"env": {"FI_CXI_DEVICE_NAME": "{devices}"}}
CXI_MANUAL = "fi_cxi(7) (FI_CXI_DEVICE_NAME)"
VERBS: Mapping[str, Any] = {"env": {"FI_VERBS_DEVICE_NAME": "{devices}", "FI_VERBS_IFACE": "{tcp_interfaces}"}}
VERBS_MANUAL = "fi_verbs(7) (FI_VERBS_DEVICE_NAME, FI_VERBS_IFACE)"

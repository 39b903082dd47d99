"""Proofs that several MPIs share, because the library below them prints them: UCX, libfabric, PSM2."""

from __future__ import annotations

from .transport import MANY_RAILS, ONE_RAIL, STRIPED, Proof

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


#: UCX over shared memory only.
UCX_MEMORY = Proof("UCX lane", _LANE, (_MEMORY_LANE,), line=_LANE_LINES)
#: UCX over TCP, or over an InfiniBand or RoCE port with the transports the alias ``ib`` stands for (`UCX_TLS`).
UCX_TCP_LANE = "tcp/{device}"
UCX_IB_LANE = r"(?:rc|ud|dc|gga)_\w+/{device_port}"

#: UCX puts large messages on two devices by default (``ucx_info -f``: UCX_MAX_RNDV_RAILS=2); lanes of one-sided operations are
#: counted by UCX_MAX_RMA_RAILS (1 by default in 1.20; src/ucp/core/ucp_context.c). UCX 1.13 does not know the latter and says
#: so in a warning, which :data:`UCX_DEBUG_ENV` keeps away from the benchmark's lines.
_UCX_RAILS = ("UCX_MAX_EAGER_RAILS", "UCX_MAX_RNDV_RAILS", "UCX_MAX_RMA_RAILS")
UCX_RAILS = {
    ONE_RAIL: {},
    MANY_RAILS: dict.fromkeys(_UCX_RAILS, "1"),
    STRIPED: dict.fromkeys(_UCX_RAILS, "{rails}"),
}

#: PSM2 takes the adapter next to the rank's core by default; PSM2_MULTIRAIL=1 splits messages over all.
PSM2_RAILS = {
    ONE_RAIL: {"HFI_UNIT": "{unit}", "PSM2_MULTIRAIL": "0"},
    MANY_RAILS: {"PSM2_MULTIRAIL": "0"},
    STRIPED: {"PSM2_MULTIRAIL": "1"},
}
PSM2_MANUAL = "Intel PSM2 Programmer's Guide, 'Environment Variables' (HFI_UNIT, PSM2_DEVICES, PSM2_MULTIRAIL)"
#: Omni-Path Express: the provider takes the adapter next to the rank's core unless its number is set.
OPX_RAILS = {ONE_RAIL: {"FI_OPX_HFI_SELECT": "{unit}"}, MANY_RAILS: {}}
OPX_MANUAL = "fi_opx(7) (FI_OPX_HFI_SELECT, FI_OPX_SHM_ENABLE)"
#: Between ranks on one and the same adapter the provider keeps to memory all the same; counters then show it.
OPX_NODE = {"FI_OPX_SHM_ENABLE": "0"}

#: With ``shm`` in the list ranks of one node talk through memory.
PSM2_NODE = {"PSM2_DEVICES": "self,hfi"}
PSM2_CLUSTER = {"PSM2_DEVICES": "self,hfi,shm"}

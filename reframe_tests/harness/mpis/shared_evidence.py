"""Settings and proofs that several MPIs share, because the library below reads or prints them: UCX,
libfabric, PSM2.

Names in capitals without a further word (``PSM2``) are what a row adds to its own
(:meth:`TransportRow.adding`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..machine.gpu import KINDS
from .transport import (
    LIBRARIES,
    MANY_RAILS,
    ONE_RAIL,
    STRIPED,
    DeviceMemory,
    Proof,
    scoped,
    scoped_proofs,
    set_by_variable,
)

#: UCX names the lanes of each endpoint once, when it connects. Up to 1.14 ``ep_cfg[1]: tag(tcp/lo)
#: ...``, from 1.15 ``intra-node cfg#1 tag(tcp/lo) ...`` (src/ucp/core/ucp_worker.c, ucp_ep.c).
#: ``stderr`` is a name it knows (ucs_open_output_stream); left alone it writes among the
#: benchmark's lines (UCX_LOG_FILE, `ucx_info -f`).
UCX_DEBUG_ENV = {"UCX_LOG_LEVEL": "info", "UCX_LOG_FILE": "stderr"}
#: The settings in effect, as UCX logs them (src/ucs/config/parser.c).
UCX_CONTEXT = r"UCX_\* env variables: (.*)"

_LANE_LINES = r"(?:\bcfg#\d+|\bep_cfg\[\d+\]:) +\w+\("
_LANE = r"[( ](\w+/[\w.:@-]+)"
_SELF_LANE = r"self/memory\d*"
_MEMORY_LANE = r"(?:self|sysv|posix|xpmem|cma|knem)/memory\d*"


def ucx_lanes(expect: str, *, memory: bool, required: bool = True, also: str = "") -> Proof:
    """Lanes UCX may use between ranks: those named ``transport/device`` in
    ``expect`` and, if ``memory``, shared memory.

    :param also: further ones that may stand beside.
    """
    allow = (_MEMORY_LANE if memory else _SELF_LANE, *filter(None, [also]))
    return Proof("UCX lane", _LANE, (expect,), allow, line=_LANE_LINES, required=required)


def ucx_proofs(expect: str) -> dict[str, tuple[Proof, ...]]:
    """Of rows over links: inside a node nothing may go through memory."""
    return scoped_proofs(
        node=(ucx_lanes(expect, memory=False),), cluster=(ucx_lanes(expect, memory=True),)
    )


#: UCX over shared memory only.
UCX_MEMORY = Proof("UCX lane", _LANE, (_MEMORY_LANE,), line=_LANE_LINES)
#: UCX over TCP, or over an InfiniBand or RoCE port with the transports
#: the alias ``ib`` stands for (`UCX_TLS`).
UCX_TCP_LANE = "tcp/{device}"
UCX_IB_LANE = r"(?:rc|ud|dc|gga)_\w+/{device_port}"

#: UCX puts large messages on two devices by default (``ucx_info -f``: UCX_MAX_RNDV_RAILS=2); lanes
#: of one-sided operations are counted by UCX_MAX_RMA_RAILS (1 by default in 1.20;
#: src/ucp/core/ucp_context.c). UCX 1.13 does not know the latter and says so in a warning, which
#: :data:`UCX_DEBUG_ENV` keeps away from the benchmark's lines.
_UCX_RAILS = ("UCX_MAX_EAGER_RAILS", "UCX_MAX_RNDV_RAILS", "UCX_MAX_RMA_RAILS")
UCX_RAILS = {
    ONE_RAIL: {},
    MANY_RAILS: dict.fromkeys(_UCX_RAILS, "1"),
    STRIPED: dict.fromkeys(_UCX_RAILS, "{rails}"),
}

#: Of RoCE the service level is the Ethernet priority, and the traffic class DSCP with two bits
#: behind (``ucx_info -f``). UCX warns of variables that it does not read (src/ucs/config/parser.c),
#: unless told not to; before 1.13 "unused env variables: A, B,...", of many only the first.
UCX_CLASSES = {
    word: replace(row, debug_env={"UCX_WARN_UNUSED_ENV_VARS": "y"})
    for word, row in set_by_variable(
        lambda name, value: Proof(
            "unused variable",
            rf"unused env(?:ironment)? variables?:.*?(\b{name}\b|,\.\.\.)",
            absent=True,
        ),
        service_level="UCX_IB_SL",
        traffic_class="UCX_IB_TRAFFIC_CLASS",
    ).items()
}
#: UCX over InfiniBand or RoCE.
UCX_IB: Mapping[str, Any] = {
    "env": {"UCX_NET_DEVICES": "{device_ports}"},
    "debug_env": UCX_DEBUG_ENV,
    "by_scope": scoped(node={"UCX_TLS": "self,ib"}, cluster={"UCX_TLS": "self,sm,ib"}),
    "by_rails": UCX_RAILS,
    "classes": UCX_CLASSES,
}

#: UCX's transports of GPU memory (`ucx_info -d`): to and from
#: host memory, and between GPUs of a node.
_GPU_COPY = {"cuda": "cuda_copy,gdr_copy", "rocm": "rocm_copy"}
_GPU_IPC = {"cuda": "cuda_ipc", "rocm": "rocm_ipc"}
#: Their lanes: "cuda_copy/cuda" (UCX documentation, FAQ),
#: "rocm_copy/rocm_cpy" (name of its memory domain).
_GPU_COPY_LANE = {"cuda": r"(?:cuda|gdr)_copy/cuda\w*", "rocm": r"rocm_copy/rocm_\w+"}
_GPU_IPC_LANE = {"cuda": r"cuda_ipc/cuda\w*", "rocm": r"rocm_ipc/rocm_ipc"}
#: What makes messages take the GPUs' links and not host memory. UCX 1.22 with a stand-in for
#: the driver here: as it is, messages of up to 4 KiB, and short data of a rendezvous, are copied;
#: with these all is written into the other GPU. (With get_zcopy all is copied where UCX has reading
#: off.) rocm_ipc takes 128 B and more (`ucx_info -d`, put_zcopy).
_GPU_IPC_ENV = {
    "cuda": {"UCX_RNDV_THRESH": "1", "UCX_RNDV_SCHEME": "put_zcopy"},
    "rocm": {"UCX_RNDV_THRESH": "128"},
}
_GPU_MANUAL = "UCX documentation, FAQ, 'Working with GPU'; `ucx_info -f` "

#: A line of UCX's tables of protocols (UCX_PROTO_INFO), one a kind of message, lines of several
#: ranks among each other: "[1645027038.680993] [host2:43:0]   | mpi ep_cfg[3] | tagged message by
#: ucp_tag_send*() from cuda/GPU0   |", and below "[1645027038.681001] [host2:43:0]   |
#: 8247..811555 | eager zero-copy copy-out   | rc_mlx5/mlx5_0:1 |". In 1.22 the kind of message has
#: a line of its own, and the columns have titles.
_TABLE_LINE = re.compile(r"\[([\w.-]+:\d+ *:\w+)\] +\|(.*)\|\s*")
_TABLE_ROW = re.compile(r"\d[\w.]*")
_TABLE_OF_GPUS = re.compile(r"\b(?:cuda|rocm)(?:-managed)?/(?:GPU\d+|dev\[\d+\])")
_HOST_COPY = re.compile(r"copy-in|copy-out|_copy\b|frag host")


def ucx_ways(debug: str) -> tuple[str, ...]:
    """How UCX sends messages from and into GPU memory, and
    whether through host memory.
    """
    about: dict[str, str] = {}
    ways: dict[str, dict[str, None]] = {}
    for process, line in (
        match.groups() for line in debug.splitlines() if (match := _TABLE_LINE.search(line))
    ):
        cells = [cell.strip() for cell in line.split("|")]
        if not _TABLE_ROW.fullmatch(cells[0]):
            if len(cells) < 3:
                title = re.sub(r"/(?:GPU\d+|dev\[\d+\])", "", cells[-1])
                about[process] = title if _TABLE_OF_GPUS.search(cells[-1]) else ""
        elif cells[0] != "0" and about.get(process):
            through = ", through memory of the host" if _HOST_COPY.search(cells[1]) else ""
            row = f"{cells[0]} {cells[1].removeprefix('(?) ')} ({cells[-1]}{through})"
            ways.setdefault(about[process], {})[row] = None
    if not ways:
        return (
            "nothing shows whether memory of GPUs went through the host's: UCX 1.16 and newer "
            "say it",
        )
    return tuple(f"UCX, {title}: {'; '.join(rows)}" for title, rows in ways.items())


def _ucx_module(kind: str, *, required: bool) -> Proof:
    """UCX loads it where it was built for these GPUs and their driver is there."""
    return Proof(
        f"UCX module of {KINDS[kind].title}",
        rf"/(libuct_{kind})\.so",
        (f"libuct_{kind}",),
        source=LIBRARIES,
        required=required,
    )


def ucx_memory(
    link: str, lane: str, *, shortcut: bool = True, required: bool = True
) -> dict[str, DeviceMemory]:
    """GPU memory in UCX over links.

    :param link: stands for them in ``UCX_TLS``: of ``ib`` the adapters must reach GPU memory by
        themselves, or UCX refuses them (GPUDirect RDMA).
    :param shortcut: between nodes, ranks of one node take shared memory and the GPUs' links.
    """
    direct = {"UCX_IB_GPU_DIRECT_RDMA": "y"} if link == "ib" else {}
    memory = {}
    for kind, copy in _GPU_COPY.items():
        inside = f"self,{link},{copy}"
        between = f"self,sm,{link},{copy},{_GPU_IPC[kind]}" if shortcut else inside
        beside = _GPU_COPY_LANE[kind]
        also = f"{beside}|{_GPU_IPC_LANE[kind]}" if shortcut else beside
        memory[kind] = DeviceMemory(
            f"{_GPU_MANUAL}(UCX_TLS, UCX_IB_GPU_DIRECT_RDMA, UCX_PROTO_INFO)",
            env=direct,
            debug_env={"UCX_PROTO_INFO": "y"},
            by_scope=scoped(node={"UCX_TLS": inside}, cluster={"UCX_TLS": between}),
            proofs=(_ucx_module(kind, required=required),),
            proofs_by_scope=scoped_proofs(
                node=(ucx_lanes(lane, memory=False, required=required, also=beside),),
                cluster=(ucx_lanes(lane, memory=shortcut, required=required, also=also),),
            ),
            replaces=("UCX lane",),
            note=""
            if direct
            else "the network reaches memory of the host only: UCX copies every byte there first",
            notes=ucx_ways,
        )
    return memory


def ucx_ipc_memory() -> dict[str, DeviceMemory]:
    """GPU memory of one node in UCX, over the GPUs' links."""
    return {
        kind: DeviceMemory(
            f"{_GPU_MANUAL}(UCX_TLS, UCX_RNDV_THRESH, UCX_RNDV_SCHEME, "
            "UCX_RNDV_PIPELINE_SHM_ENABLE, UCX_PROTO_INFO)",
            env={
                "UCX_TLS": f"self,sm,{_GPU_COPY[kind].split(',')[0]},{ipc}",
                "UCX_RNDV_PIPELINE_SHM_ENABLE": "n",
                **_GPU_IPC_ENV[kind],
            },
            debug_env={"UCX_PROTO_INFO": "y"},
            proofs=(
                _ucx_module(kind, required=True),
                ucx_lanes(_GPU_IPC_LANE[kind], memory=True, also=_GPU_COPY_LANE[kind]),
            ),
            replaces=("UCX lane",),
            notes=ucx_ways,
        )
        for kind, ipc in _GPU_IPC.items()
    }


def with_library(
    own: Mapping[str, DeviceMemory], library: Mapping[str, DeviceMemory]
) -> dict[str, DeviceMemory]:
    """What an MPI needs and what the library below it needs, for the platforms that both know."""
    return {
        kind: library[kind].adding(
            manual=f"{memory.manual}; {library[kind].manual}",
            env=memory.env,
            debug_env=memory.debug_env,
            by_scope=memory.by_scope,
            proofs=memory.proofs,
            since=memory.since,
            without=memory.without,
            note=memory.note or library[kind].note,
        )
        for kind, memory in own.items()
        if kind in library
    }


#: PSM2 takes the adapter next to the rank's core by default;
#: PSM2_MULTIRAIL=1 splits messages over all.
PSM2_RAILS = {
    ONE_RAIL: {"HFI_UNIT": "{unit}", "PSM2_MULTIRAIL": "0"},
    MANY_RAILS: {"PSM2_MULTIRAIL": "0"},
    STRIPED: {"PSM2_MULTIRAIL": "1"},
}
PSM2_MANUAL = (
    "Intel PSM2 Programmer's Guide, 'Environment Variables' (HFI_UNIT, HFI_SL, PSM2_DEVICES, "
    "PSM2_MULTIRAIL)"
)
#: With ``shm`` in the list ranks of one node talk through memory.
PSM2_NODE = {"PSM2_DEVICES": "self,hfi"}
PSM2: Mapping[str, Any] = {
    "by_scope": scoped(node=PSM2_NODE, cluster={"PSM2_DEVICES": "self,hfi,shm"}),
    "by_rails": PSM2_RAILS,
    "classes": set_by_variable(service_level="HFI_SL"),
}
#: Omni-Path Express: the provider takes the adapter next to the rank's core unless its number is
#: set. Between ranks on one and the same adapter it keeps to memory all the same; counters then
#: show it.
OPX: Mapping[str, Any] = {
    "by_scope": scoped(node={"FI_OPX_SHM_ENABLE": "0"}),
    "by_rails": {ONE_RAIL: {"FI_OPX_HFI_SELECT": "{unit}"}, MANY_RAILS: {}},
    "classes": set_by_variable(service_level="FI_OPX_SL"),
}
OPX_MANUAL = "fi_opx(7) (FI_OPX_HFI_SELECT, FI_OPX_SHM_ENABLE, FI_OPX_SL)"
EFA: Mapping[str, Any] = {
    "env": {"FI_EFA_IFACE": "{devices}"},
    "by_scope": scoped(node={"FI_EFA_ENABLE_SHM_TRANSFER": "0"}),
}
EFA_MANUAL = "fi_efa(7) (FI_EFA_IFACE from libfabric 2.0 on, FI_EFA_ENABLE_SHM_TRANSFER)"
#: The provider has no variable for its traffic class; a program asks for it (``tclass``,
#: fi_domain(3)).
CXI: Mapping[str, Any] = {"env": {"FI_CXI_DEVICE_NAME": "{devices}"}}
CXI_MANUAL = "fi_cxi(7) (FI_CXI_DEVICE_NAME)"
VERBS: Mapping[str, Any] = {
    "env": {"FI_VERBS_DEVICE_NAME": "{devices}", "FI_VERBS_IFACE": "{tcp_interfaces}"}
}
VERBS_MANUAL = "fi_verbs(7) (FI_VERBS_DEVICE_NAME, FI_VERBS_IFACE)"

"""Finds the line of a failed launch's standard error that gives the reason; MPI libraries bury it
among others.
"""

from __future__ import annotations

import re

from ...printable import printable

#: UCX's log lines (UCX 1.20, ``ucs_log_default_handler``): ``[time]
#: [host:pid:thread] file.c:line  UCX  LEVEL message``.
_UCX = re.compile(
    r"^\[\d+\.\d+\]\s+\[(?P<host>[^:\]]+):\d+\s*:\d+\]\s+\S+:\d+\s+UCX\s+(?P<level>[A-Z]+)\s+"
    r"(?P<text>.*)"
)
#: Levels below a warning report what was tried on the way; a
#: failure there is not one of the launch.
_CHATTER = ("DIAG", "INFO", "DEBUG", "TRACE", "REQ", "DATA", "ASYNC", "FUNC", "POLL")
#: MPICH and what descends from it: a heading, then one line per function, the one that failed last
#: (src/mpi/errhan/errutil.c, ``MPIR_Err_print_stack_string_ext``); most have nothing to say.
_STACK_HEAD = re.compile(r"^(?P<call>.*\berror in \w+): .*error stack:$")
_STACK_FRAME = re.compile(r"^(?:\w+|\(unknown\))\(\d*\)\.*:\s*(?P<text>.*)$")
#: What the line to quote looks like, the most informative first: a device by its name, a cause,
#: then any complaint. Nodes complain in any order, and the other end of a link that is down only
#: lists what it tried.
_INFORMATIVE = (
    re.compile(r"\bmpibench: "),  # our own scripts, of the rank they are run for
    re.compile(
        r"no space left|\bdevice '?\w\S* is not available|no such device: \S", re.IGNORECASE
    ),
    re.compile(
        r"no space left|disk quota|node failure|not available|unreachable|no route to host"
        r"|link is down|refused|timed out|"
        r"out of memory|oom.kill|no such file|not found|no such device|launch .*failed"
        r"|invalid job credential|"
        # UCX, Open MPI and its launcher, Hydra (MPICH, Intel MPI), in that order
        r"protocol authentication|\bsignal(?: \d|: )",
        re.IGNORECASE,
    ),
    re.compile(r"\b(error|fatal|abort|failed|cannot|unable)\b", re.IGNORECASE),
)
_LONGEST = 300
#: Complaints whose cause lies elsewhere, and what to do.
_REMEDIES = (
    (
        # Slurm reads at most 1024 bytes of a PMI-1 request (22.05, src/plugins/mpi/pmi2/pmi1.c,
        # MAX_READLINE) and answers nothing to a longer one. MPICH since 5.0.0 sends 4096 bytes
        # for a UCX address of some 250, with what lies behind it on the heap
        # (src/mpid/ch4/netmod/ucx/ucx_init.c, MPIDI_UCX_comm_addr_exchange): whether a piece gets
        # too long depends on what was there, so on the length of a path. Up to 4.3.2 it sends what
        # the address has.
        re.compile(r"mpi/pmi2: invalid client request"),
        "MPICH 5.0 with UCX can send more than Slurm's PMI-2 reads at a time and then hangs: use "
        "MPICH 4.3, or start it with its own mpirun",
    ),
    (
        # MPICH 4 and 5 (src/pmi, src/util/mpir_pmi.c); Open MPI 4 and 5 (help texts of ess/pmi and
        # of ompi/runtime): as Slurm 22.05 started them with the other one's.
        re.compile(
            r"launcher not compatible with PMI1 client|uses unsupported PMI version"
            r"|OMPI was not built with SLURM's PMI support|No PMIx server was reachable"
        ),
        "launcher and MPI do not speak the same PMI: see 'srun --mpi=list' and srun_mpi in the "
        "description of the partition, or use the MPI's own mpirun",
    ),
    (
        # UCX, src/ucs/debug/debug.c, of SEGV_ACCERR (openucx/ucx, issues 4756, 7845 and 9533); Open
        # MPI, opal/util/stacktrace.c (open-mpi/ompi, issue 11399).
        re.compile(r"invalid permissions for mapped object|Signal code: Invalid permissions"),
        "the CPU touched GPU memory, as an MPI or UCX without CUDA or ROCm does: use a build with "
        "it",
    ),
    (
        # Open MPI, ompi/runtime/help-mpi-runtime.txt.
        re.compile(r"library was not compiled with any support"),
        "this Open MPI was built without CUDA: use a build with it",
    ),
    (
        # HPE Cray MPICH, intro_mpi(3), MPICH_GPU_SUPPORT_ENABLED.
        re.compile(r"GPU_SUPPORT_ENABLED is requested, but GTL library is not linked"),
        "the program is not linked with libmpi_gtl_cuda or libmpi_gtl_hsa: load the module "
        "craype-accel-... and rebuild it",
    ),
    (
        # cudaErrorInsufficientDriver (35); CUDA Runtime API, "Data types used by CUDA Runtime".
        re.compile(
            r"CUDA driver version is insufficient for CUDA runtime version"
            r"|cudaErrorInsufficientDriver"
        ),
        "the node's NVIDIA driver is older than the program's CUDA: compare with nvidia-smi, and "
        "build with an older CUDA",
    ),
    (
        # cudaErrorNoDevice (100), likewise; hipErrorNoDevice (100), HIP, "Error Handling".
        re.compile(
            r"no (?:CUDA|ROCm)-capable device is detected|\b(?:cuda|hip)ErrorNoDevice\b",
            re.IGNORECASE,
        ),
        "the rank sees no GPU: check CUDA_VISIBLE_DEVICES or ROCR_VISIBLE_DEVICES, and what the "
        "job requested",
    ),
    (
        # nccl-tests, src/common.h, NCCLCHECK, CUDACHECK; src/common.cu, testStreamSynchronize.
        re.compile(r"\bTest (?:NCCL|CUDA|HIP) failure|\bTest timeout"),
        "for details see 'NCCL WARN' in the job's files *.debug.*",
    ),
)


def excerpt(text: str) -> str:
    """The most informative line of a standard error, at most 300
    characters, and what to do where that is known.

    Empty if there is none.
    Time stamps and process numbers go, so that the same trouble in
    two repeats reads the same; so do colours.
    """
    if cause := explain(text):
        return cause
    lines = _lines(text)
    for pattern in _INFORMATIVE:
        for line in lines:
            if pattern.search(line):
                return line[:_LONGEST]
    return lines[-1][:_LONGEST] if lines else ""


def explain(text: str) -> str:
    """A line with a known cause elsewhere, and what to do; empty if there is none. Programs print
    such lines anywhere.
    """
    lines = _lines(text)
    for pattern, remedy in _REMEDIES:
        for line in lines:
            if pattern.search(line):
                return f"{line[:_LONGEST]} ({remedy})"
    return ""


def _lines(text: str) -> list[str]:
    return _without_stacks(
        [line for raw in printable(text).splitlines() if (line := _cleaned(raw.strip()))]
    )


def _without_stacks(lines: list[str]) -> list[str]:
    """The lines, each error stack in one: what was called, and what its innermost function said."""
    short: list[str] = []
    call = ""
    for line in lines:
        frame = _STACK_FRAME.match(line) if call else None
        if frame:
            if frame["text"]:
                short[-1] = f"{call}: {frame['text']}"
            continue
        head = _STACK_HEAD.match(line)
        call = head["call"] if head else ""
        short.append(line)
    return short


def _cleaned(line: str) -> str:
    """The line without what changes from run to run; empty for chatter."""
    match = _UCX.match(line)
    if not match:
        return line
    return (
        ""
        if match["level"] in _CHATTER
        else f"{match['host']}: UCX {match['level']} {match['text']}"
    )

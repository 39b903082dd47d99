"""Intel MPI: fabrics up to 2018 (dapl, tcp, tmi), libfabric providers since 2019.

``I_MPI_DEBUG=5`` is the level that prints the provider (1), NIC per rank (3) and ``I_MPI_*``
settings (5), on stdout; ``I_MPI_DEBUG_OUTPUT`` is documented to redirect it, but 2021.18.1 reads it
and still writes to stdout.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ..machine.transport import TRANSPORTS
from . import shared_evidence as shared
from .model import MPICH_COMPILED, MPICH_WORLD, Banner, Mpi, SpackPackage, Unbinding
from .transport import (
    LIBRARIES,
    DeviceMemory,
    Gap,
    Proof,
    Range,
    TransportRow,
    Version,
    scoped,
    scoped_proofs,
    set_by_variable,
)
from .tuning.model import (
    Algorithm,
    AlgorithmListing,
    Compilation,
    Control,
    TunedFiles,
    Tuning,
    Wanted,
)

_REFERENCE = "Intel MPI Library Developer Reference for Linux, "
_FABRICS = _REFERENCE + "'Communication Fabrics Control' (I_MPI_FABRICS)"
_OFI = _FABRICS + " and 'OFI-capable Network Fabrics Control' (I_MPI_OFI_PROVIDER); "
_OLD = "Intel MPI Library for Linux Reference Manual 4.0 to 2018, 'Communication Fabrics Control'; "
_DEBUG = {"I_MPI_DEBUG": "5"}

#: Lines it prints on stdout, among the benchmark's: "[0] MPI startup(): ..." and the like, each
#: with function and, but for a few of "MPI startup()", with rank, or with those of two in one line;
#: a list of CPUs goes on over further lines, below its first. Not among them: that there is no
#: process manager, so that each rank is alone.
_STDOUT_LINES = re.compile(
    r"(?:(?:\[\d+\] )+\w[\w ]*|MPI startup)\(\): (?!PMI server not found).*| {8,}[0-9,-]+\}?"
)
_CONTEXT = r"MPI startup\(\): (I_MPI_FABRICS=\S+)"


#: First release whose manual names GPUs of NVIDIA beside Intel's (I_MPI_OFFLOAD_MODE).
_CUDA_SINCE: Version = (2021, 13)


#: What it says where it goes on without; the last as "FI_HMEM not detected in provider, falling
#: back to Intel MPI GPU handling" (2021.18.1 with a stand-in for the driver here).
_WITHOUT = (
    r"(disabling offloaded buffers support|GPU IPC will be disabled"
    r"|FI_HMEM not detected in provider)"
)


def _cuda(**more: Any) -> dict[str, DeviceMemory]:
    """Memory of NVIDIA's GPUs. Where libcuda is not there, 2021.18.1 ends
    in MPI_Init ("Could not open libcuda.so").
    """
    row = DeviceMemory(
        _REFERENCE + "'GPU Support' and 'GPU Buffers Support' (I_MPI_OFFLOAD, _MODE, _RDMA, _IPC)",
        env={"I_MPI_OFFLOAD": "1", "I_MPI_OFFLOAD_MODE": "cuda"},
        proofs=(
            Proof("I_MPI_OFFLOAD_MODE", r"MPI startup\(\): I_MPI_OFFLOAD_MODE=(\w+)", ("cuda",)),
            Proof("support of GPUs", _WITHOUT, absent=True),
        ),
        since=_CUDA_SINCE,
        note="which messages the adapter or the other GPU took from the GPU itself is not shown",
    )
    return {"cuda": row.adding(**more)}


_INTELS_GPUS = "Intel MPI before 2021.13 is documented for Intel's GPUs only: use 2021.13 or newer."
#: Of a network whose provider may be given GPU memory.
_GDR = _cuda(env={"I_MPI_OFFLOAD_RDMA": "1"}, by_scope=scoped(node={"I_MPI_OFFLOAD_IPC": "0"}))


def _fabrics(value: str) -> Proof:
    """The fabrics in effect: with ``shm:ofi`` on one node the
    provider is opened but carries nothing.
    """
    return Proof("I_MPI_FABRICS", r"MPI startup\(\): I_MPI_FABRICS=(\S+)", (value,))


def _nic(since: Version, expect: str) -> Proof:
    """NIC per rank ('NIC Pinning'): columns rank, thread and NIC
    (2021.18), rank, NIC and NIC id (2021.12).
    """
    pattern = r"MPI startup\(\): \d+ +(?:\d+ +)?([A-Za-z][^\s{]*)(?: +\d+)?\s*$"
    return Proof("NIC", pattern, (expect,), since=since)


def _ofi_row(
    transport: str, provider: str, manual: str, *, reported: str = "", **more: Any
) -> TransportRow:
    return TransportRow(
        transport,
        Range((2019,)),
        _OFI + manual,
        env={"I_MPI_OFI_PROVIDER": provider, "FI_PROVIDER": provider},
        debug_env=_DEBUG,
        # Without the second, Bcast, Allreduce and Barrier of small messages stay in shared memory
        # whatever the fabric (Developer Reference, I_MPI_COLL_INTRANODE; 2021.18: 13 kB instead of
        # 1.3 MB over lo).
        by_scope=scoped(
            node={"I_MPI_FABRICS": "ofi", "I_MPI_COLL_INTRANODE": "pt2pt"},
            cluster={"I_MPI_FABRICS": "shm:ofi"},
        ),
        # The line, not the libraries mapped: libfabric loads every provider whose own libraries the
        # node has, and keeps those FI_PROVIDER leaves out mapped (fi_prov_ini of its src/fabric.c).
        proofs=(
            Proof(
                "libfabric provider",
                r"MPI startup\(\): libfabric provider: (\S+)",
                (reported or provider,),
            ),
        ),
        proofs_by_scope=scoped_proofs(node=(_fabrics("ofi"),), cluster=(_fabrics("shm:ofi"),)),
        context=_CONTEXT,
    ).adding(**more)


def _mode(*expect: str) -> Proof:
    return Proof(
        "data transfer mode", r"MPI startup\(\): ((?:\w+ and )?\w+) data transfer modes?", expect
    )


def _old_row(transport: str, fabric: str, section: str, **more: Any) -> TransportRow:
    return TransportRow(
        transport,
        Range((4,), (2019,)),
        _OLD + section + "; 'Other Environment Variables' (I_MPI_DEBUG)",
        # Without I_MPI_FALLBACK=0 a fabric that cannot be opened is
        # replaced by another without a word.
        env={"I_MPI_FALLBACK": "0"},
        debug_env=_DEBUG,
        by_scope=scoped(node={"I_MPI_FABRICS": fabric}, cluster={"I_MPI_FABRICS": f"shm:{fabric}"}),
        proofs_by_scope=scoped_proofs(
            node=(_mode(fabric),), cluster=(_mode(f"shm and {fabric}", fabric),)
        ),
        context=_CONTEXT,
    ).adding(**more)


_SYSTEMS = (
    "The provider comes with the system's libfabric, which must be first on the library path of "
    "the stack."
)

_ROWS: tuple[TransportRow, ...] = (
    TransportRow(
        "shm",
        Range((4,), (2019,)),
        _OLD + "'Shared Memory Control'; 'Other Environment Variables' (I_MPI_DEBUG)",
        env={"I_MPI_FABRICS": "shm", "I_MPI_FALLBACK": "0"},
        debug_env=_DEBUG,
        proofs=(_mode("shm"),),
        context=_CONTEXT,
    ),
    TransportRow(
        "shm",
        Range((2021,)),
        _FABRICS,
        env={"I_MPI_FABRICS": "shm"},
        debug_env=_DEBUG,
        proofs=(
            Proof("libfabric provider", r"MPI startup\(\): libfabric provider: (\S+)", absent=True),
            _fabrics("shm"),
            Proof(
                "network library",
                r"/(lib(?:fabric|\w+-fi)\.so)",
                source=LIBRARIES,
                absent=True,
                required=False,
            ),
        ),
        context=_CONTEXT,
    ),
    TransportRow(
        "gpu_ipc",
        Range(_CUDA_SINCE),
        _FABRICS,
        env={"I_MPI_FABRICS": "shm"},
        debug_env=_DEBUG,
        proofs=(_fabrics("shm"),),
        memory=_cuda(env={"I_MPI_OFFLOAD_IPC": "1"}),
        context=_CONTEXT,
    ),
    _old_row(
        "tcp",
        "tcp",
        "'TCP-capable Network Fabrics Control' (I_MPI_TCP_NETMASK takes an interface's name)",
        env={"I_MPI_TCP_NETMASK": "{device}"},
    ),
    _old_row(
        "verbs",
        "dapl",
        "'DAPL-capable Network Fabrics Control' (I_MPI_DAPL_PROVIDER; OFED's dat.conf names "
        "ports ofa-v2-<device>-<port>)",
        env={"I_MPI_DAPL_PROVIDER": "ofa-v2-{device}-{port}"},
        proofs=(
            Proof(
                "DAPL provider",
                r"MPI startup\(\): DAPL provider (\S+)",
                ("ofa-v2-{device}-{port}",),
            ),
        ),
        # uDAPL 2.0, dapl/openib_common (scm and ucm providers).
        classes=set_by_variable(service_level="DAPL_IB_SL"),
    ),
    _old_row(
        "psm2",
        "tmi",
        "'TMI-capable Network Fabrics Control' (I_MPI_TMI_PROVIDER); " + shared.PSM2_MANUAL,
        versions=Range((5, 1), (2019,)),
        env={"I_MPI_TMI_PROVIDER": "psm2"},
        by_scope=scoped(node=shared.PSM2_NODE),
        by_rails=shared.PSM2_RAILS,
        classes=shared.PSM2["classes"],
    ),
    # libfabric's tcp provider ignores an interface that is not there and
    # takes another: the NIC must be looked at.
    _ofi_row(
        "tcp",
        "tcp",
        "libfabric, fi_tcp(7) (FI_TCP_IFACE)",
        env={"FI_TCP_IFACE": "{device}"},
        reported=r"tcp(?:;ofi_rxm)?",
        proofs=(_nic((2021, 18), "{device}"),),
        memory=_cuda(
            env={"I_MPI_OFFLOAD_RDMA": "0"},
            by_scope=scoped(node={"I_MPI_OFFLOAD_IPC": "0"}),
            note="the network reaches memory of the host only: Intel MPI copies every byte "
            "there first",
        ),
    ),
    _ofi_row(
        "verbs",
        "verbs",
        "libfabric, " + shared.VERBS_MANUAL,
        reported=r"verbs(?:;ofi_rxm)?",
        memory=_GDR,
        **shared.VERBS,
    ),
    _ofi_row(
        "ucx",
        "mlx",
        "'Intel MPI Library over Libfabric' (mlx provider); UCX documentation, 'Environment "
        "Parameters' (UCX_NET_DEVICES)",
        versions=Range((2019, 5)),
        # The provider may be built on a UCX that logs nothing; a lane
        # that is logged must be the right one.
        proofs=(shared.ucx_lanes(shared.UCX_IB_LANE, memory=True, required=False),),
        memory=shared.with_library(
            _GDR, shared.ucx_memory("ib", shared.UCX_IB_LANE, required=False)
        ),
        **shared.UCX_IB,
    ),
    _ofi_row("psm2", "psm2", "libfabric, fi_psm2(7); " + shared.PSM2_MANUAL, **shared.PSM2),
    _ofi_row(
        "opx",
        "opx",
        "libfabric, " + shared.OPX_MANUAL,
        versions=Range((2021,)),
        note=_SYSTEMS,
        **shared.OPX,
    ),
    _ofi_row(
        "efa",
        "efa",
        "libfabric, " + shared.EFA_MANUAL,
        versions=Range((2019, 5)),
        memory=_GDR,
        **shared.EFA,
    ),
    _ofi_row(
        "cxi",
        "cxi",
        "libfabric, " + shared.CXI_MANUAL,
        versions=Range((2021,)),
        note=_SYSTEMS,
        memory=_GDR,
        **shared.CXI,
    ),
)

_GAPS: tuple[Gap, ...] = (
    *(
        Gap(
            transport,
            Range((0,), (4,)),
            "Intel MPI before 4.0 selects devices with I_MPI_DEVICE: use 4.0 or newer.",
        )
        for transport in ("shm", "tcp", "verbs", "psm2")
    ),
    Gap(
        "shm",
        Range((2019,), (2021,)),
        "Intel MPI 2019 and 2020 document I_MPI_FABRICS=ofi and shm:ofi only: use 2021 or newer "
        "for shared memory alone.",
    ),
    Gap(
        "psm2", Range((4,), (5, 1)), "Intel MPI before 5.1 has no psm2 provider: use 5.1 or newer."
    ),
    Gap(
        "ucx",
        Range((0,), (2019, 5)),
        "Intel MPI before 2019 Update 5 has no mlx provider: use transport verbs.",
    ),
    Gap(
        "opx",
        Range((0,), (2021,)),
        "Intel MPI before 2021 is not used with the opx provider: use transport psm2.",
    ),
    Gap(
        "efa",
        Range((0,), (2019, 5)),
        "Intel MPI before 2019 Update 5 has no efa provider: use transport tcp.",
    ),
    Gap(
        "cxi",
        Range((0,), (2021,)),
        "Intel MPI before 2021 is not used with the cxi provider: use transport tcp.",
    ),
    Gap("gpu_ipc", Range((0,), _CUDA_SINCE), _INTELS_GPUS),
    *(
        Gap(
            name,
            Range((0,)),
            "Intel MPI is documented for GPUs of Intel and NVIDIA only: use another MPI for "
            "ROCm memory.",
            ("rocm",),
        )
        for name in TRANSPORTS
    ),
    *(
        Gap(name, Range((0,), (2019,)), _INTELS_GPUS, ("cuda",))
        for name in ("tcp", "verbs", "psm2")
    ),
    *(
        Gap(
            name,
            Range((2019,)),
            f"Intel MPI is not used for memory of GPUs over {name} here: use transport verbs.",
            ("cuda",),
        )
        for name in ("psm2", "opx")
    ),
)

#: Collective to the last preset of 2021.18 (impi_info); what the manual
#: lists of each are fewer, and their names changed.
_PRESETS: Mapping[str, int] = {
    "Allgather": 6,
    "Allgatherv": 5,
    "Allreduce": 32,
    "Alltoall": 18,
    "Alltoallv": 9,
    "Bcast": 22,
    "Gather": 5,
    "Gatherv": 4,
    "Reduce": 19,
    "Reduce_scatter": 6,
    "Reduce_scatter_block": 4,
    "Scan": 3,
    "Scatter": 5,
    "Scatterv": 4,
}
#: One algorithm for all sizes: ranks need not know each other's counts.
_ONE_CHOICE = ("Allgatherv", "Alltoallv", "Gatherv", "Scatterv")

#: Largest message of a condition: that of a C int.
_MOST = 2**31 - 1


def _write_conditions(tuning: Tuning, wanted: Wanted) -> TunedFiles:
    """``I_MPI_ADJUST_<op>`` variables, and ``mpiexec_<name>.conf`` with
    the same, which ``mpiexec -tune`` reads.

    ``ALGORITHM:CONDITION,CONDITION;ALGORITHM:...``, where a condition is ``l``, ``l-m``, ``l@p``,
    ``l-m@p-q``: message sizes and ranks of the communicator, inclusive. Sizes and communicators
    that no condition fits keep the library's own choice.
    """
    conditions: dict[str, list[str]] = {}
    for rule in wanted.rules:
        control = tuning.find(rule.collective)
        first, last = (rule.first, rule.last) if control.by_size else (0, _MOST)
        conditions.setdefault(control.variable, []).append(
            f"{rule.word}:{first}-{last}@{wanted.ranks}-{wanted.ranks}"
        )
    env = {variable: ";".join(words) for variable, words in conditions.items()}
    lines = "".join(f"-genv {variable} '{value}'\n" for variable, value in env.items())
    return TunedFiles(env, further={f"mpiexec_{wanted.name}.conf": lines} if env else {})


_TUNING = Tuning(
    source=_REFERENCE + "'I_MPI_ADJUST Family Environment Variables'; impi_info of the library",
    controls=tuple(
        Control(
            name,
            f"I_MPI_ADJUST_{name.upper()}",
            tuple(Algorithm(str(number)) for number in range(1, last + 1)),
            by_size=name not in _ONE_CHOICE,
            # 2021.18, shm, 2 ranks, Bcast: set to 0, or for 64 ranks only, it
            # changes times at 2 ranks by 0.7 to 1.4 times.
            spills=True,
        )
        for name, last in _PRESETS.items()
    ),
    write=_write_conditions,
    listing=AlgorithmListing(("bin/impi_info", "-v", "{variable}"), r"range:\s*0-(?P<last>[0-9]+)"),
    # impi_info lists it without a word. Its own choice of Barrier in
    # MPI_Init falls back, too, and nothing would start.
    proving={"I_MPI_ADJUST_FAILURE_ON_COLL_FALLBACK": "1", "I_MPI_ADJUST_BARRIER": "1"},
    fallback=r"{collective}: algo #[0-9]+ has fallback",
    ignored=r"MPI startup\(\): Incorrect (?:algorithm|adjust value): .*will be ignored",
    note="where a collective's variable is set, or the file loaded, 2021.18 also takes other "
    "ways at sizes and in communicators that are not named: of the sizes measured none is "
    "worse, smaller communicators were not measured",
    # Developer Reference, 'Autotuning' and I_MPI_TUNING_BIN. Of a file that it cannot open it says
    # "was not loaded! Load default tuning file"; one that was cut short makes 2021.18.1 hang in
    # MPI_Init.
    compilation=Compilation(
        "I_MPI_TUNING_BIN_DUMP",
        "I_MPI_TUNING_BIN",
        "tuned.dat",
        r'MPI startup\(\): Load tuning file: "\./{file}"',
    ),
)

MPI = Mpi(
    name="intelmpi",
    title="Intel MPI",
    newest="2021.19",
    abi="mpich",
    launchers=("hydra-intel",),
    banner=Banner(
        r"Intel\(R\) MPI Library ([0-9][0-9.]*) for ",
        r"Intel\(R\) MPI Library {version} for ",
        compiled=MPICH_COMPILED,
    ),
    # MPICH ABI Compatibility Initiative.
    sonames=(r"libmpi\.so\.12",),
    world=MPICH_WORLD,
    env={"I_MPI_ROOT": "{prefix}"},
    # It speaks PMI2 without a path to its library (Slurm's MPI guide).
    pmi="pmi2",
    stdout_lines=_STDOUT_LINES,
    unbinding=(
        Unbinding(
            "Intel MPI Developer Reference, 'Environment Variables for Process Pinning', I_MPI_PIN",
            (),
            {"I_MPI_PIN": "off"},
        ),
    ),
    settings=("I_MPI_",),
    bookkeeping=("I_MPI_INFO_", "I_MPI_HYDRA_"),
    # The layout is that of the package's recipe (component_prefix).
    spack=(
        SpackPackage(
            "intel-oneapi-mpi",
            homes=("mpi/{short}", "mpi/{version}", "mpi/latest", ""),
            libraries=("lib", "lib/release"),
        ),
    ),
    rows=_ROWS,
    gaps=_GAPS,
    tuning=_TUNING,
)

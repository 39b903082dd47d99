"""MVAPICH2 1.9 to 2.3, verbs since 1.2: ch3:mrail (verbs), ch3:psm
(PSM2), ch3:nemesis (TCP). Its evidence is on stderr.

MVAPICH2-GDR is the build for GPU memory, with GPUDirect RDMA.
"""

from __future__ import annotations

from ..machine.gpu import KINDS
from ..machine.transport import TRANSPORTS
from .model import MPICH_COMPILED, MPICH_GPU, MPICH_WORLD, Banner, Mpi, SpackPackage, Unbinding
from .shared_evidence import PSM2, PSM2_MANUAL
from .transport import (
    LIBRARIES,
    MANY_RAILS,
    ONE_RAIL,
    STRIPED,
    DeviceMemory,
    Gap,
    Proof,
    Range,
    TransportRow,
    scoped,
    set_by_variable,
)
from .tuning.model import Algorithm, Control, TunedFiles, Tuning, Wanted

_GUIDE = "MVAPICH2 2.3.7 User Guide, "
_VERSIONS = Range((1, 9))
_MRAIL = "ch3:mrail"
_PSM = "ch3:psm"
_NEMESIS = "ch3:nemesis"

#: A build of ch3:nemesis prints nothing about its network, but TCP is
#: the only one it can reach without these.
_NO_RDMA = Proof(
    "RDMA library", r"/lib(ibverbs|rdmacm|psm2|psm_infinipath)\.so", source=LIBRARIES, absent=True
)
_GDR = (
    "MVAPICH2-GDR 2.3 User Guide, 'GPUDIRECT RDMA'; MVAPICH2 2.3.7 User Guide, 'MV2_USE_CUDA', "
    "'MV2_CUDA_IPC'"
)
_GDR_NOTE = (
    "MVAPICH2-GDR does not say whether the adapter took messages from memory of the GPU itself"
)
_CLASSES = set_by_variable(service_level="MV2_DEFAULT_SERVICE_LEVEL")
_COUNTERS = "Only the interfaces' byte counters distinguish TCP from shared memory."

_ROWS: tuple[TransportRow, ...] = (
    TransportRow(
        "verbs",
        Range((1, 2), (1, 9)),
        "MVAPICH2 1.5 User Guide, 'MVAPICH2 Parameters' (MV2_NUM_HCAS, MV2_IBA_HCA, "
        "MV2_DEFAULT_PORT, MV2_DEFAULT_SERVICE_LEVEL, MV2_USE_SHARED_MEM)",
        device=_MRAIL,
        env={"MV2_IBA_HCA": "{hcas}"},
        by_scope=scoped(node={"MV2_USE_SHARED_MEM": "0", "MV2_USE_SHMEM_COLL": "0"}),
        by_rails={
            ONE_RAIL: {"MV2_NUM_HCAS": "1", "MV2_DEFAULT_PORT": "{port}"},
            MANY_RAILS: {"MV2_NUM_HCAS": "{rails}"},
        },
        proofs=(Proof("verbs library", r"/(libibverbs)\.so", ("libibverbs",), source=LIBRARIES),),
        classes=_CLASSES,
        note="These versions print nothing about their adapter: only the ports' byte counters "
        "show which one it was.",
    ),
    TransportRow(
        "verbs",
        _VERSIONS,
        _GUIDE + "11.17 MV2_SHOW_HCA_BINDING, 11.25 MV2_IBA_HCA, 11.35 MV2_DEFAULT_PORT, 11.39 "
        "MV2_RAIL_SHARING_LARGE_MSG_THRESHOLD, 11.89 MV2_USE_SHARED_MEM, 11.93 "
        "MV2_USE_SHMEM_COLL",
        device=_MRAIL,
        env={"MV2_IBA_HCA": "{hcas}"},
        debug_env={"MV2_SHOW_HCA_BINDING": "2"},
        by_scope=scoped(
            node={"MV2_USE_SHARED_MEM": "0", "MV2_USE_SHMEM_COLL": "0", "MV2_SMP_USE_CMA": "0"}
        ),
        by_rails={
            ONE_RAIL: {"MV2_NUM_HCAS": "1", "MV2_DEFAULT_PORT": "{port}"},
            # Beyond this message size (16 KB unless set) a message is split over the rails (11.39).
            MANY_RAILS: {
                "MV2_NUM_HCAS": "{rails}",
                "MV2_RAIL_SHARING_LARGE_MSG_THRESHOLD": str(2**31 - 1),
            },
            STRIPED: {
                "MV2_NUM_HCAS": "{rails}",
                "MV2_RAIL_SHARING_LARGE_MSG_THRESHOLD": str(16 << 10),
            },
        },
        # "Process: 0 HCAs: mlx5_0 mlx5_1", rank 0 for all
        # (src/mpid/ch3/channels/mrail/src/gen2/rdma_iba_init.c).
        proofs=(Proof("HCA", r"\b([a-z]\w*\d)\b", ("{device}",), line=r"^Process: \d+ HCAs:"),),
        classes=_CLASSES,
        memory={
            "cuda": DeviceMemory(
                _GDR,
                env={"MV2_USE_CUDA": "1", "MV2_USE_GPUDIRECT": "1"},
                by_scope=scoped(node={"MV2_CUDA_IPC": "0"}),
                since=(2, 0),
                note=_GDR_NOTE,
            ),
            "rocm": DeviceMemory(
                "MVAPICH2-GDR 2.3.7 User Guide, 'Running on AMD GPUs' (MV2_USE_ROCM)",
                env={"MV2_USE_ROCM": "1"},
                since=(2, 3, 5),
                note=_GDR_NOTE,
            ),
        },
        note="With MV2_USE_SHARED_MEM=0 the library does no CPU binding of its own (11.22).",
    ),
    TransportRow(
        "psm2",
        Range((2, 2)),
        _GUIDE
        + "4.10 'Configuring a build for Intel Omni-Path (PSM2-CH3)', 10.6 MV2_SHOW_ENV_INFO; "
        + PSM2_MANUAL,
        device=_PSM,
        debug_env={"MV2_SHOW_ENV_INFO": "2"},
        proofs=(Proof("HCA name", r"^\s*HCA NAME\s*: (\w+)", ("MV2_HCA_INTEL_HFI1",)),),
        **PSM2,
    ),
    TransportRow(
        "tcp",
        Range((2, 0)),
        _GUIDE
        + "4.11 'Configuring a build for TCP/IP-Nemesis', 5.2.10 'Run using IPoIB'; `mpivars` "
        "(src/mpid/ch3/src/mpid_vc.c: ch3 does not read MPICH 4's MPIR_CVAR_NOLOCAL)",
        device=_NEMESIS,
        # Hydra gives each rank MPIR_CVAR_CH3_INTERFACE_HOSTNAME, which excludes the other
        # (src/pm/hydra/ui/mpich/utils.c).
        env={"MPIR_CVAR_NEMESIS_TCP_NETWORK_IFACE": "{device}", "HYDRA_HOSTNAME_PROPAGATION": "0"},
        by_scope=scoped(node={"MPIR_CVAR_CH3_NOLOCAL": "1"}),
        proofs=(_NO_RDMA,),
        note=_COUNTERS,
    ),
    TransportRow(
        "shm",
        _VERSIONS,
        _GUIDE + "4.11 'Configuring a build for TCP/IP-Nemesis', 4.14 'Configuring a build for "
        "Shared-Memory-Nemesis'",
        device=_NEMESIS,
        proofs=(_NO_RDMA,),
        note=_COUNTERS,
    ),
)

_NEWER = {"ucx": "MVAPICH 3", "opx": "MVAPICH 4", "cxi": "MVAPICH 4", "efa": "MVAPICH 3"}

_GAPS: tuple[Gap, ...] = (
    *(
        Gap(
            transport, Range((0,), (1, 9)), "MVAPICH2 before 1.9 has no row here: use 1.9 or newer."
        )
        for transport in TRANSPORTS
        if transport not in ("verbs", "psm2", "gpu_ipc", *_NEWER)
    ),
    Gap(
        "gpu_ipc",
        Range((0,)),
        "MVAPICH2 does not say which way messages between GPUs took: use an as_shipped fabric.",
    ),
    Gap(
        "verbs",
        Range((1, 2), (1, 9)),
        "MVAPICH2-GDR begins with 2.0: use 2.0 or newer.",
        tuple(KINDS),
    ),
    *(
        Gap(
            transport,
            Range((0,)),
            "MVAPICH2-GDR is built for verbs alone: use transport verbs.",
            tuple(KINDS),
        )
        for transport in ("tcp", "psm2")
    ),
    Gap("verbs", Range((0,), (1, 2)), "MVAPICH2 before 1.2 has no row here: use 1.2 or newer."),
    Gap(
        "tcp",
        Range((1, 9), (2, 0)),
        "MVAPICH2 1.9 names its network settings otherwise: use 2.0 or newer for TCP.",
    ),
    Gap("psm2", Range((0,), (2, 2)), "MVAPICH2 before 2.2 has no PSM2 channel: use 2.2 or newer."),
    *(
        Gap(transport, Range((0,)), f"MVAPICH2 cannot use {transport}: use {newer} or newer.")
        for transport, newer in _NEWER.items()
    ),
)


def _write_variables(tuning: Tuning, wanted: Wanted) -> TunedFiles:
    """Variables, which choose for all sizes and all communicators, and
    a file of shell assignments with the same.
    """
    env = {tuning.find(rule.collective).variable: rule.word for rule in wanted.rules}
    text = "".join(f"export {name}={value}\n" for name, value in env.items())
    return TunedFiles(env, further={"mpi_tuned.env": text} if env else {})


#: It reads numbers and says nothing of them; there is no condition of sizes or communicators.
_TUNING = Tuning(
    source=_GUIDE + "'MV2_ALLTOALL_TUNING'; src/mpi/coll/alltoall_tuning.h",
    controls=(
        Control(
            "Alltoall",
            "MV2_ALLTOALL_TUNING",
            tuple(
                Algorithm(str(at), title)
                for at, title in enumerate(
                    ("bruck", "recursive_doubling", "scatter_destination", "pairwise")
                )
            ),
            by_size=False,
        ),
    ),
    write=_write_variables,
)

MPI = Mpi(
    name="mvapich2",
    title="MVAPICH2",
    abi="mpich",
    launchers=("mpirun_rsh", "hydra"),
    # MVAPICH2 2.3.7, src/mpi/misc/get_library_version.c: "<name> Version:" like MPICH.
    banner=Banner(
        r"^MVAPICH2 Version\s*:\s+([0-9][\w.-]*)",
        r"MVAPICH2 Version\s*:\s+{version}\s",
        r"^MVAPICH2 Device\s*:\s+(\S.*)$",
        gpu=MPICH_GPU,
        compiled=MPICH_COMPILED,
    ),
    # MPICH ABI Compatibility Initiative.
    sonames=(r"libmpi\.so\.12",),
    world=MPICH_WORLD,
    pmi="pmi2",
    unbinding=(
        Unbinding(
            "MVAPICH2 user guide 2.3.7, 11.22 MV2_ENABLE_AFFINITY",
            ("hydra", "mpirun_rsh"),
            {"MV2_ENABLE_AFFINITY": "0"},
        ),
    ),
    settings=("MV2_", "MPIR_CVAR_"),
    tuning=_TUNING,
    spack=(SpackPackage("mvapich2"),),
    rows=_ROWS,
    gaps=_GAPS,
)

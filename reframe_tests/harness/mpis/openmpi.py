"""Open MPI: BTLs under the ob1 PML (tcp, openib, shared memory), the
ucx PML, MTLs under the cm PML (psm2, ofi).

One-sided and collective components that choose their own network (``osc/ucx``, ``coll/hcoll``,
``coll/ucc``) are off. NVIDIA's HPC-X is Open MPI with its own UCX, HCOLL, UCC and SHARP: it
identifies itself as Open MPI ("Open MPI v4.1.7rc1, package: Open MPI root@hpc-kernel-03
Distribution") and uses this record, with its folders on the library path of its stack. Its
additions to collectives are off, as above; on a fabric ``as_shipped`` it is measured as users have
it. Traffic of the launcher (``oob_tcp_if_include``, PRRTE's and PMIx's own) deliberately stays on
the management network: on the fabric it would be counted as the benchmark's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from . import shared_evidence as shared
from .model import Banner, CompilerReport, Mpi, SpackPackage, Unbinding
from .transport import (
    ACCUMULATE,
    MANY_RAILS,
    NONBLOCKING,
    NONBLOCKING_REDUCTION,
    ONE_SIDED,
    STRIPED,
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
from .tuning import rules_file
from .tuning.model import Algorithm, AlgorithmLevels, AlgorithmListing, Control, Tuning

_FAQ = "Open MPI FAQ, "
_DOCS = "Open MPI documentation, 'Networking support', "
_COMMON = {"OMPI_MCA_coll": "^hcoll,ucc"}
_OB1 = {"OMPI_MCA_pml": "ob1", "OMPI_MCA_osc": "^ucx", **_COMMON}
#: ob1 names the BTL of each peer, on stderr (ompi/mca/bml/r2/bml_r2.c):
#: "mca: bml: Using tcp btl for send to ...".
_BTL = r"mca: bml: Using (\w+) btl (?:for send )?to "
_NOTE = (
    "Inside one node, windows from MPI_Win_allocate stay in shared memory (osc/rdma): one-sided "
    "rows prove nothing."
)


#: ob1 splits a large message over all BTL modules of a peer, at most four (ompi_info --all:
#: pml_ob1_max_send_per_range, pml_ob1_max_rdma_per_request). With 1 a message takes one of them,
#: the next message the next one.
_OB1_RAILS = {
    rails: {
        "OMPI_MCA_pml_ob1_max_send_per_range": most,
        "OMPI_MCA_pml_ob1_max_rdma_per_request": most,
    }
    for rails, most in ((MANY_RAILS, "1"), (STRIPED, "{rails}"))
}


def _btl(expect: str, *allow: str) -> Proof:
    return Proof("BTL", _BTL, (expect,), ("self", *allow))


#: The tcp BTL's interfaces: "btl: tcp: Using interface: lo" at level 20
#: (4.x), "btl:tcp: 0x55: if lo kidx 1 ..." at 5 (5.x).
_INTERFACE = Proof(
    "tcp BTL interface",
    r"btl: ?tcp: (?:0x\w+: if|Using interface:) ([\w.:@-]+)",
    ("{device}",),
    since=(4,),
)


_GPU_DOCS = "Open MPI documentation, 'CUDA' and 'ROCm' (opal_cuda_support, accelerator)"


#: What it does not do in GPU memory: Open MPI documentation, 'CUDA', "Which MPI APIs do NOT
#: work with CUDA-aware", and of UCX "... with CUDA-aware UCX". Persistent collectives are the
#: nonblocking ones (coll/libnbc), which are the same for ROCm.
_UNDONE = (ACCUMULATE, NONBLOCKING)
_UNDONE_BY_UCX = (ONE_SIDED, NONBLOCKING_REDUCTION)


def _accelerator(
    kind: str, since: Version = (), without: tuple[str, ...] = _UNDONE, **more: Any
) -> DeviceMemory:
    """What GPUs need whatever the transport.

    With a component named, 5.0 does not start on a build without it ("A requested component was not
    found", 5.0.11 here); else it says "[n1:7] selected cuda". Older releases end where
    opal_cuda_support is asked of a build without.
    """
    support = {"OMPI_MCA_opal_cuda_support": "1"} if kind == "cuda" else {}
    return DeviceMemory(
        _GPU_DOCS,
        env={"OMPI_MCA_accelerator": kind, **support},
        debug_env={"OMPI_MCA_accelerator_base_verbose": "10"},
        proofs=(Proof("accelerator", r"\] selected (\w+)\s*$", (kind,), since=(5,)),),
        since=since,
        without=without,
    ).adding(**more)


#: Of the platforms, and from which version on UCX is given their memory.
_UCX_GPUS = {
    kind: _accelerator(kind, since, _UNDONE_BY_UCX)
    for kind, since in (("cuda", ()), ("rocm", (5,)))
}
#: The ofi MTL asks libfabric for a provider that takes device memory; if there is none, it takes
#: one that does not and says so at this level only (5.0.11 on tcp here). That it has found one it
#: says since 5.0.9 (mtl_ofi_component.c).
_STAGED = "Continuing with device to host copies"
_GIVEN = "Support for device buffers enabled"
_OFI_GPUS = {
    kind: _accelerator(
        kind,
        (5,),
        manual=_GPU_DOCS + "; `ompi_info --all` (mtl_ofi_disable_hmem)",
        env={"OMPI_MCA_mtl_ofi_disable_hmem": "0"},
        debug_env={"OMPI_MCA_opal_common_ofi_verbose": "50"},
        proofs=(
            Proof(
                "handling of device buffers", f"({_GIVEN}|{_STAGED})", (_GIVEN,), since=(5, 0, 9)
            ),
        ),
        note="whether the provider copies through memory of the host is not shown",
    )
    for kind in _UCX_GPUS
}


def _btl_rows(versions: Range, memory: str, level: str) -> Iterator[TransportRow]:
    """Rows under ob1, for the versions whose shared-memory BTL is called ``memory``."""
    debug = {"OMPI_MCA_btl_base_verbose": level}
    # Between ranks of one node smcuda is the BTL for GPUs.
    gpus = _accelerator(
        "cuda",
        manual=_GPU_DOCS + "; 'Running applications that pass CUDA buffers' (btl smcuda, tcp)",
        by_scope=scoped(node={}, cluster={"OMPI_MCA_btl": "self,smcuda,tcp"}),
        proofs_by_scope=scoped_proofs(node=(_btl("tcp"),), cluster=(_btl("tcp", "smcuda"),)),
        replaces=("BTL",),
        note="the network reaches memory of the host only: Open MPI copies every byte there first",
    )
    yield TransportRow(
        "shm",
        versions,
        _FAQ + "'Tuning the run-time characteristics of MPI shared memory communications'",
        env={**_OB1, "OMPI_MCA_btl": f"self,{memory}"},
        debug_env=debug,
        proofs=(_btl(memory),),
    )
    yield TransportRow(
        "tcp",
        versions,
        _FAQ
        + "'Tuning the run-time characteristics of MPI TCP communications' (btl_tcp_if_include)",
        env={**_OB1, "OMPI_MCA_btl_tcp_if_include": "{devices}"},
        debug_env=debug,
        by_scope=scoped(
            node={"OMPI_MCA_btl": "self,tcp"}, cluster={"OMPI_MCA_btl": f"self,{memory},tcp"}
        ),
        by_rails=_OB1_RAILS,
        proofs=(_INTERFACE,),
        proofs_by_scope=scoped_proofs(node=(_btl("tcp"),), cluster=(_btl("tcp", memory),)),
        memory={"cuda": gpus} if versions.since >= (1, 8) else {},
        note=_NOTE,
    )


def _openib_row(versions: Range, memory: str, level: str) -> TransportRow:
    """The openib BTL, which Open MPI 5 no longer has."""
    return TransportRow(
        "verbs",
        versions,
        _FAQ + "'Tuning the run-time characteristics of MPI InfiniBand, RoCE, and iWARP "
        "communications' (btl_openib_if_include, btl_openib_ib_service_level)",
        # From 4.0 on openib leaves InfiniBand ports to UCX unless
        # allowed to take them (btl_openib_allow_ib).
        env={
            **_OB1,
            "OMPI_MCA_btl_openib_if_include": "{device_ports}",
            "OMPI_MCA_btl_openib_allow_ib": "1",
        },
        debug_env={"OMPI_MCA_btl_base_verbose": level},
        by_scope=scoped(
            node={"OMPI_MCA_btl": "self,openib"}, cluster={"OMPI_MCA_btl": f"self,{memory},openib"}
        ),
        by_rails=_OB1_RAILS,
        proofs=(
            Proof("openib port", r"openib: using port (\S+:\d+)", ("{device_port}",), since=(1, 8)),
        ),
        proofs_by_scope=scoped_proofs(node=(_btl("openib"),), cluster=(_btl("openib", memory),)),
        classes=set_by_variable(service_level="OMPI_MCA_btl_openib_ib_service_level"),
        note=_NOTE,
    )


def _ofi_row(transport: str, since: Version, manual: str, **more: Any) -> TransportRow:
    """The ofi MTL on one libfabric provider of the transport's name."""
    return TransportRow(
        transport,
        Range(since),
        _DOCS + "'OpenFabrics Interfaces (OFI) / Libfabric support' (mtl_ofi_provider_include); "
        "libfabric, " + manual,
        env={
            "OMPI_MCA_pml": "cm",
            "OMPI_MCA_mtl": "ofi",
            "OMPI_MCA_mtl_ofi_provider_include": transport,
            **_COMMON,
        },
        # Up to 4.x the MTL's own verbosity prints "mtl:ofi:prov: efa", in
        # 5.x the common one "mtl:ofi:provider: efa".
        debug_env={"OMPI_MCA_mtl_base_verbose": "1", "OMPI_MCA_opal_common_ofi_verbose": "1"},
        by_scope=scoped(node={}),
        proofs=(Proof("libfabric provider", r"mtl:ofi:prov(?:ider)?: (\S+)", (transport,)),),
        memory=_OFI_GPUS,
    ).adding(**more)


#: `any`: else the PML refuses transports and devices that are not
#: on its own list (opal/mca/common/ucx).
_UCX = {
    "OMPI_MCA_pml": "ucx",
    "OMPI_MCA_osc": "ucx",
    "OMPI_MCA_btl": "^openib,uct",
    "OMPI_MCA_pml_ucx_tls": "any",
    "OMPI_MCA_pml_ucx_devices": "any",
}


_ROWS: tuple[TransportRow, ...] = (
    *_btl_rows(Range((1, 3), (1, 8)), "sm", "20"),
    *_btl_rows(Range((1, 8), (5,)), "vader", "20"),
    *_btl_rows(Range((5,)), "sm", "5"),
    _openib_row(Range((1, 3), (1, 8)), "sm", "20"),
    _openib_row(Range((1, 8), (5,)), "vader", "20"),
    TransportRow(
        "ucx",
        Range((3,)),
        _DOCS
        + "'InfiniBand / RoCE support' (pml ucx); UCX documentation, 'Environment Parameters' "
        "(UCX_NET_DEVICES)",
        env={**_UCX, "UCX_NET_DEVICES": "{device_ports}", **_COMMON},
        proofs_by_scope=shared.ucx_proofs(shared.UCX_IB_LANE),
        memory=shared.with_library(_UCX_GPUS, shared.ucx_memory("ib", shared.UCX_IB_LANE)),
        context=shared.UCX_CONTEXT,
    ).adding(**shared.UCX_IB),
    TransportRow(
        "gpu_ipc",
        Range((3,)),
        "Open MPI documentation, 'CUDA' and 'ROCm' (pml ucx); UCX documentation, 'Environment "
        "Parameters' (UCX_TLS)",
        env={**_UCX, **_COMMON},
        debug_env=shared.UCX_DEBUG_ENV,
        proofs=(shared.UCX_MEMORY,),
        memory=shared.with_library(_UCX_GPUS, shared.ucx_ipc_memory()),
        context=shared.UCX_CONTEXT,
    ),
    TransportRow(
        "psm2",
        Range((1, 10)),
        _DOCS + "'Omni-Path' (mtl psm2, PSM2_MULTIRAIL); " + shared.PSM2_MANUAL,
        env={"OMPI_MCA_pml": "cm", "OMPI_MCA_mtl": "psm2", **_COMMON},
        debug_env={"OMPI_MCA_mtl_base_verbose": "10"},
        proofs=(
            Proof("MTL", r"mca:base:select:\( *mtl\) Selected component \[(\w+)\]", ("psm2",)),
        ),
        memory={
            "cuda": _accelerator(
                "cuda",
                manual=_GPU_DOCS + "; 'PSM2 / Omni-Path' (PSM2_CUDA, PSM2_GPUDIRECT)",
                env={"PSM2_CUDA": "1", "PSM2_GPUDIRECT": "1"},
                note="PSM2 does not say whether it copied through memory of the host",
            )
        },
        **shared.PSM2,
    ),
    _ofi_row("efa", (4,), shared.EFA_MANUAL, **shared.EFA),
    _ofi_row("opx", (4, 1), shared.OPX_MANUAL, **shared.OPX),
    _ofi_row("cxi", (5,), shared.CXI_MANUAL, **shared.CXI),
)

_GAPS: tuple[Gap, ...] = (
    *(
        Gap(
            transport, Range((0,), (1, 3)), "Open MPI before 1.3 has no row here: use 1.3 or newer."
        )
        for transport in ("shm", "tcp", "verbs")
    ),
    Gap("verbs", Range((5,)), "Open MPI 5 has no openib BTL: use transport ucx."),
    Gap(
        "ucx",
        Range((0,), (3,)),
        "Open MPI before 3.0 has no supported ucx PML: use transport verbs.",
    ),
    Gap("psm2", Range((0,), (1, 10)), "Open MPI before 1.10 has no psm2 MTL: use 1.10 or newer."),
    Gap(
        "efa",
        Range((0,), (4,)),
        "Open MPI before 4.0 is not used with the efa provider: use 4.0 or newer.",
    ),
    Gap(
        "opx",
        Range((0,), (4, 1)),
        "Open MPI before 4.1 is not used with the opx provider: use transport psm2.",
    ),
    Gap(
        "cxi",
        Range((0,), (5,)),
        "Open MPI before 5.0 is not used with the cxi provider: use 5.0 or newer.",
    ),
    Gap(
        "gpu_ipc",
        Range((0,), (3,)),
        "Open MPI before 3.0 has no supported ucx PML: use 3.0 or newer.",
    ),
    Gap(
        "tcp",
        Range((0,), (1, 8)),
        "Open MPI before 1.8 is not used with memory of GPUs here: use 1.8 or newer.",
        ("cuda",),
    ),
    Gap(
        "tcp",
        Range((0,)),
        "Open MPI's tcp BTL is documented for CUDA memory only: use transport ucx or gpu_ipc.",
        ("rocm",),
    ),
    Gap("psm2", Range((0,)), "PSM2 takes CUDA memory only: use transport opx.", ("rocm",)),
    Gap(
        "verbs",
        Range((0,)),
        "Open MPI's openib BTL is not used with memory of GPUs here: use transport ucx.",
        ("cuda", "rocm"),
    ),
)

#: Collective to its id in rule files (ompi/mca/coll/base/coll_base_functions.h) and the algorithms
#: of 5.0, from number 1 on. ``coll/tuned`` has none of Gatherv and Scatterv.
_ALGORITHMS: Mapping[str, tuple[int, str]] = {
    "Allgather": (0, "linear bruck recursive_doubling ring neighbor two_proc sparbit"),
    "Allgatherv": (1, "default bruck ring neighbor two_proc sparbit"),
    "Allreduce": (
        2,
        "basic_linear nonoverlapping recursive_doubling ring segmented_ring rabenseifner",
    ),
    "Alltoall": (3, "linear pairwise modified_bruck linear_sync two_proc"),
    "Alltoallv": (4, "basic_linear pairwise"),
    "Bcast": (
        7,
        "basic_linear chain pipeline split_binary_tree binary_tree binomial knomial "
        "scatter_allgather scatter_allgather_ring",
    ),
    "Gather": (9, "basic_linear binomial linear_sync"),
    "Reduce": (11, "linear chain pipeline binary binomial in-order_binary rabenseifner"),
    "Reduce_scatter": (12, "non-overlapping recursive_halving ring butterfly"),
    "Reduce_scatter_block": (13, "basic_linear recursive_doubling recursive_halving butterfly"),
    "Scan": (14, "linear recursive_doubling"),
    "Scatter": (15, "basic_linear binomial linear_nb"),
}
#: Those whose size in a rule is that of all ranks' blocks together (coll_tuned_decision_dynamic.c).
#: Of Allgatherv that differs between releases, and of Alltoallv only the rule for 0 bytes counts.
_WHOLE = ("Allgather", "Alltoall", "Gather", "Scatter")
_ONE_CHOICE = ("Allgatherv", "Alltoallv")
#: Those of coll/han in 5.0 (coll_han_algorithms.c).
_OF_HAN: Mapping[str, str] = {
    **dict.fromkeys(("Allgather", "Bcast", "Gather", "Scatter"), "intra simple"),
    **dict.fromkeys(("Allreduce", "Reduce"), "intra simple reproducible"),
}


def _listing(component: str, pattern: str) -> AlgorithmListing:
    program = ("bin/ompi_info", "--param", "coll", component, "--level", "9", "--parsable")
    return AlgorithmListing(program, pattern, ignored=("0", "default"), prefix="OMPI_MCA_")


def _of_han(name: str) -> AlgorithmLevels | None:
    words = tuple(Algorithm(word) for word in _OF_HAN.get(name, "").split())
    listing = _listing("han", r"param:{variable}:enumerator:value:[0-9]+:(?P<word>\w+)")
    return (
        AlgorithmLevels(
            rules_file.HAN_PREFIX, f"OMPI_MCA_coll_han_use_{name.lower()}_algorithm", words, listing
        )
        if words
        else None
    )


_TUNING = Tuning(
    source="Open MPI documentation, 'Tuning Collectives'; ompi_info of the library",
    controls=tuple(
        Control(
            name,
            f"OMPI_MCA_coll_tuned_{name.lower()}_algorithm",
            tuple(Algorithm(str(at), title) for at, title in enumerate(titles.split(), 1)),
            by_size=name not in _ONE_CHOICE,
            whole=name in _WHOLE,
            number=number,
            levels=_of_han(name),
        )
        for name, (number, titles) in _ALGORITHMS.items()
    ),
    write=rules_file.write,
    listing=_listing("tuned", r"param:{variable}:enumerator:value:(?P<word>[0-9]+):(?P<title>\S+)"),
    # Between nodes coll/han comes before coll/tuned (priority 35), and
    # its sub-communicators would be what is set.
    env={"OMPI_MCA_coll_tuned_use_dynamic_rules": "1", rules_file.PRIORITY: "90"},
    counting={
        "OMPI_MCA_pml_monitoring_enable": "1",
        "OMPI_MCA_pml": "{OMPI_MCA_pml},monitoring",
        "OMPI_MCA_coll_han_verbose": "1",
        # In MPI_Finalize (5.0) coll/han under pml/monitoring reads memory that
        # it has released and Python has used again.
        "PYTHONMALLOC": "malloc",
    },
    naming=r"coll:han:get_algorithm {collective} size:(?P<size>[0-9]+) algorithm:[0-9]+ "
    r"(?P<word>\w+)",
    # Said at any verbosity; the rest of its rules is not used, either.
    ignored=r"coll:han:mca_coll_han_init_dynamic_rules could not fully read dynamic rules file",
    # Unlike the fixed decisions, coll_tuned_decision_dynamic.c does not look
    # at the operation: a ring adds in another order.
    note="rules of reductions also hold for operations that do not commute (MPI_Op_create), "
    "whose results they may change: not for programs with such.",
)

#: What a build of it says of itself.
_INFO = ("ompi_info", "--parsable", "--all")

MPI = Mpi(
    name="openmpi",
    title="Open MPI",
    newest="5.0.11",
    abi="openmpi",
    launchers=("orterun", "prrte"),
    banner=Banner(
        r"^Open MPI v([0-9][\w.-]*),",
        r"Open MPI v{version}, ",
        # Its FAQ, "Running CUDA-aware Open MPI"; ROCm it names since 5.0, by a component.
        gpu={
            "cuda": r":(?:mpi|opal)_built_with_cuda_support:value:true$",
            "rocm": "^mca:accelerator:rocm:",
        },
        gpu_words=_INFO,
        compiled=CompilerReport(
            flags=r"^option:build:cflags:()(.*)$",
            debugging=r"^option:(?:mem-)?debug:yes$",
            checks={"yes": r":mpi_param_check:value:true$", "no": r":mpi_param_check:value:false$"},
            words=_INFO,
        ),
    ),
    # Open MPI 1.7 to 5, whose sequence of numbers is one of incompatible interfaces.
    sonames=(r"libmpi\.so\.(?:1|20|40)",),
    world="ompi_mpi_comm_world",
    # They matter to root only, as in a container, where mpirun refuses to start without them.
    env={"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"},
    # Open MPI 4 and 5 speak PMIx (Slurm's MPI guide).
    pmi="pmix",
    unbinding=(
        Unbinding(
            "Open MPI 4.1, orte/mca/ess/base/ess_base_fns.c: a rank started by srun binds "
            "itself if a policy is set",
            (),
            {"OMPI_MCA_hwloc_base_binding_policy": "none"},
            before=(5,),
        ),
    ),
    settings=("OMPI_", "OPAL_", "PRTE_", "PMIX_MCA_"),
    bookkeeping=("OMPI_ARGV", "OMPI_MCA_PREFIXES"),
    # The one of NVIDIA's HPC-X, which counts releases by itself.
    # HPC-X is unpacked anywhere, and its Open MPI was built for another place (docs of HPC-X,
    # "Installing and Loading HPC-X").
    spack=(
        SpackPackage("openmpi"),
        SpackPackage("hpcx-mpi", bundle=True, env={"OPAL_PREFIX": "{prefix}"}),
    ),
    rows=_ROWS,
    gaps=_GAPS,
    tuning=_TUNING,
)

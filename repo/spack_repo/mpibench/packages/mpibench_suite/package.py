# SPDX-License-Identifier: BSD-3-Clause

"""What one MPI stack consists of: an MPI and the benchmarks built on it."""

from spack.package import conflicts, depends_on, license, variant, version
from spack_repo.builtin.build_systems.bundle import BundlePackage
from spack_repo.builtin.build_systems.cuda import CudaPackage
from spack_repo.builtin.build_systems.rocm import ROCmPackage
from spack_repo.mpibench.mpi_standards import MPI4


class MpibenchSuite(BundlePackage, CudaPackage, ROCmPackage):
    """One MPI stack as mpibench measures it.

    An environment that asks for ``mpibench-suite ^openmpi`` has everything the tests run, with the
    same versions and variants of the benchmarks as every other stack; versions are pinned where
    environments share their settings.

    With ``+cuda cuda_arch=80`` or ``+rocm amdgpu_target=gfx90a`` MPI and OSU take memory of these
    GPUs, and NVIDIA's have nccl-tests. Nothing of that was ever built by the project.
    """

    license("BSD-3-Clause")

    version("1")

    variant("imb", default=True, description="Intel MPI Benchmarks, all suites that the MPI has")
    variant("osu", default=True, description="OSU Micro-Benchmarks")
    variant(
        "gpcnet",
        default=False,
        description="GPCNeT: a network alone and under congestion, from ten nodes on",
    )
    variant("perftest", default=False, description="perftest: InfiniBand verbs without MPI")
    variant("hpcc", default=False, description="HPC Challenge, on a BLAS")
    variant("npb", default=False, description="NAS Parallel Benchmarks, classes S to D")
    variant("nccl", default=True, when="+cuda", description="nccl-tests: collectives of NCCL")

    depends_on("mpi")
    depends_on(
        "intel-mpi-benchmarks@2021.7: +mpi1+ext+io+nbc+rma+mt+p2p~check",
        when="+imb",
        type=("build", "run"),
    )
    depends_on("osu-micro-benchmarks@5.6:", when="+osu", type=("build", "run"))
    # Where the MPI has sessions, persistent collectives and partitioned
    # sends, nobody has to ask for their programs.
    for _mpi in MPI4:
        depends_on("intel-mpi-benchmarks@2021.9: +mpi4", when=f"+imb {_mpi}", type=("build", "run"))
        depends_on("osu-micro-benchmarks@7.2: +mpi4", when=f"+osu {_mpi}", type=("build", "run"))
    depends_on("gpcnet@1.3", when="+gpcnet", type=("build", "run"))
    depends_on("perftest", when="+perftest", type=("build", "run"))
    depends_on("hpcc@1.5:", when="+hpcc", type=("build", "run"))
    # From 3.4 on one program runs on any number of ranks.
    depends_on(
        "npb@3.4: implementation=mpi classes=S,W,A,B,C,D", when="+npb", type=("build", "run")
    )

    for _kind, _words in (
        *(("cuda", f"cuda_arch={arch}") for arch in CudaPackage.cuda_arch_values),
        *(("rocm", f"amdgpu_target={target}") for target in ROCmPackage.amdgpu_targets),
    ):
        _asked = f"+{_kind} {_words}"
        depends_on(f"osu-micro-benchmarks {_asked}", when=f"+osu {_asked}", type=("build", "run"))
        if _kind == "cuda":
            depends_on(f"nccl-tests +mpi {_words}", when=f"+nccl {_asked}", type=("build", "run"))
            depends_on(f"nccl {_words}", when=f"+nccl {_asked}", type=("build", "run"))
        # Of CUDA an MPI is not built for one architecture, and an external
        # says none. Cray MPICH is what its entry says.
        _wanted = _asked if _kind == "rocm" else "+cuda"
        for _mpi in ("openmpi", "mpich", "mvapich-plus"):
            depends_on(f"{_mpi} {_wanted}", when=f"{_asked} ^[virtuals=mpi] {_mpi}")
    conflicts(
        "+cuda",
        when="cuda_arch=none",
        msg="mpibench-suite +cuda needs the GPUs' architecture: cuda_arch=80, for one",
    )
    conflicts(
        "+cuda", when="+rocm", msg="mpibench-suite takes one kind of GPUs: choose cuda or rocm"
    )
    for _kind in ("cuda", "rocm"):
        for _mpi in ("mvapich", "mvapich2"):
            message = "mpibench-suite: this MVAPICH takes no memory of GPUs: mvapich-plus does"
            conflicts(f"+{_kind}", when=f"^[virtuals=mpi] {_mpi}", msg=message)

    conflicts(
        "~imb~osu",
        msg="mpibench-suite without benchmarks measures nothing: enable imb, osu or both",
    )

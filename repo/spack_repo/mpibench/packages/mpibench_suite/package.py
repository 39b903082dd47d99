# SPDX-License-Identifier: BSD-3-Clause

"""What one MPI stack consists of: an MPI and the benchmarks built on it."""

from spack.package import conflicts, depends_on, license, variant, version
from spack_repo.builtin.build_systems.bundle import BundlePackage
from spack_repo.mpibench.mpi_standards import MPI4


class MpibenchSuite(BundlePackage):
    """One MPI stack as mpibench measures it.

    An environment that asks for ``mpibench-suite ^openmpi`` has everything the tests run, with the same versions and
    variants of the benchmarks as every other stack; versions are pinned where environments share their settings.
    """

    homepage = "https://github.com/intel/mpi-benchmarks"

    license("BSD-3-Clause")

    version("1")

    variant("imb", default=True, description="Intel MPI Benchmarks, all suites that the MPI has")
    variant("osu", default=True, description="OSU Micro-Benchmarks")
    variant("gpcnet", default=False, description="GPCNeT: a network alone and under congestion, from ten nodes on")
    variant("perftest", default=False, description="perftest: InfiniBand verbs without MPI")
    variant("hpcc", default=False, description="HPC Challenge, on a BLAS")
    variant("npb", default=False, description="NAS Parallel Benchmarks, classes S to D")

    depends_on("mpi")
    depends_on("intel-mpi-benchmarks@2021.7: +mpi1+ext+io+nbc+rma+mt+p2p~check", when="+imb", type=("build", "run"))
    depends_on("osu-micro-benchmarks@5.6:", when="+osu", type=("build", "run"))
    # Where the MPI has sessions, persistent collectives and partitioned sends, nobody has to ask for their programs.
    for _mpi in MPI4:
        depends_on("intel-mpi-benchmarks@2021.9: +mpi4", when=f"+imb {_mpi}", type=("build", "run"))
        depends_on("osu-micro-benchmarks@7.2: +mpi4", when=f"+osu {_mpi}", type=("build", "run"))
    depends_on("gpcnet@1.3", when="+gpcnet", type=("build", "run"))
    depends_on("perftest", when="+perftest", type=("build", "run"))
    depends_on("hpcc@1.5:", when="+hpcc", type=("build", "run"))
    # From 3.4 on one program runs on any number of ranks.
    depends_on("npb@3.4: implementation=mpi classes=S,W,A,B,C,D", when="+npb", type=("build", "run"))

    conflicts("~imb~osu", msg="mpibench-suite without benchmarks measures nothing: enable imb, osu or both")

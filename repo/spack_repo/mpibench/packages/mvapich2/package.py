# SPDX-License-Identifier: BSD-3-Clause

"""MVAPICH2, the MPI of many InfiniBand clusters; its last release was 2.3.7-1 in 2022."""

from typing import ClassVar

from spack.package import (
    EnvironmentModifications,
    Executable,
    Spec,
    auto_or_any_combination_of,
    conflicts,
    depends_on,
    disjoint_sets,
    env_flags,
    filter_compiler_wrappers,
    find_libraries,
    license,
    patch,
    provides,
    variant,
    version,
)
from spack_repo.builtin.build_systems.autotools import AutotoolsPackage
from spack_repo.builtin.packages.mpich.package import MpichEnvironmentModifications
from spack_repo.builtin.packages.mvapich2.package import Mvapich2 as BuiltinMvapich2
from spack_repo.mpibench.mpi_checks import FLOOD_PASSED, FLOOD_SOURCE, RING_SOURCE, run_program

#: Value of ``fabrics`` -> device of ``configure --with-device``
#: (MVAPICH2 2.3.7 user guide, section 4).
DEVICES = {
    "mrail": "ch3:mrail",
    "psm2": "ch3:psm",
    "nemesis": "ch3:nemesis",
    "nemesisib": "ch3:nemesis:ib",
    "nemesisibtcp": "ch3:nemesis:ib,tcp",
    "nemesistcpib": "ch3:nemesis:tcp,ib",
    "nemesisofi": "ch3:nemesis:ofi",
    "sock": "ch3:sock",
}


class Mvapich2(MpichEnvironmentModifications, AutotoolsPackage):
    """MPI over InfiniBand, Omni-Path, Ethernet and RoCE, based on MPICH 3.2.

    Deprecated upstream in favour of MVAPICH 3 and later; kept to compare with what clusters have
    run for years. Spack builds it only where the configuration says ``config:deprecated:true``.

    Not derived from builtin's recipe: that one needs exactly automake 1.15, for a patch to a
    configure script that is then generated again, and a dependency that is inherited cannot be
    taken back. Here nothing is generated again.
    """

    homepage = "https://mvapich.cse.ohio-state.edu/"
    url = "https://mvapich.cse.ohio-state.edu/download/mvapich/mv2/mvapich2-2.3.7-1.tar.gz"
    list_url = "https://mvapich.cse.ohio-state.edu/downloads/"

    license("BSD-3-Clause")

    version(
        "2.3.7-1",
        sha256="fdd971cf36d6476d007b5d63d19414546ca8a2937b66886f24a1d9ca154634e4",
        deprecated=True,
    )

    provides("mpi@:3.1")

    variant(
        "fabrics",
        default="mrail",
        values=tuple(DEVICES),
        multi=False,
        description="Network the library is built for; nemesis is TCP and shared memory and "
        "needs no network adapter",
    )
    variant(
        "process_managers",
        description="Process managers to build; auto is upstream's choice, hydra and mpirun_rsh",
        values=disjoint_sets(("auto",), ("slurm",), ("hydra", "gforker", "remshell"))
        .prohibit_empty_set()
        .with_error("'slurm' and 'auto' exclude other process managers")
        .with_default("auto")
        .with_non_feature_values("auto"),
    )
    variant(
        "pmi_version",
        default="pmi2",
        values=("pmi1", "pmi2", "pmix"),
        multi=False,
        when="process_managers=slurm",
        description="PMI that srun speaks with the library",
    )
    variant(
        "threads",
        default="multiple",
        values=("single", "funneled", "serialized", "multiple"),
        multi=False,
        description="Highest level MPI_Init_thread can give",
    )
    variant(
        "ch3_rank_bits",
        default="32",
        values=("16", "32"),
        multi=False,
        description="Bits of a rank; 16 is enough up to 32768 processes",
    )
    variant("alloca", default=False, description="Temporary memory on the stack")
    variant(
        "file_systems",
        values=auto_or_any_combination_of("lustre", "gpfs", "nfs", "ufs"),
        description="File systems that ROMIO knows",
    )
    variant("regcache", default=True, description="Cache registered memory")
    variant("wrapperrpath", default=True, description="Have the compiler wrappers set a run path")
    variant("debug", default=False, description="Error checking and debugging information")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("fortran", type="build")
    depends_on("gmake", type="build")
    depends_on("bison", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("libxml2")
    depends_on("libpciaccess")
    depends_on("opa-psm2", when="fabrics=psm2")
    depends_on("libfabric", when="fabrics=nemesisofi")
    depends_on("slurm", when="process_managers=slurm")
    depends_on("pmix", when="pmi_version=pmix")
    for _fabric in ("mrail", "nemesisib", "nemesisibtcp", "nemesistcpib"):
        depends_on("rdma-core", when=f"fabrics={_fabric}")

    conflicts(
        "process_managers=slurm",
        when="fabrics=nemesis",
        msg="mvapich2 fabrics=nemesis starts its ranks with Hydra; use process_managers=hydra "
        "or auto",
    )

    # Two wrong types and a misspelt variable keep the TCP module from compiling; an empty statement
    # after an `if` gives up a host look-up after its first try.
    patch("nemesis-tcp.patch")
    # MPI_Finalize follows a null pointer for an attribute whose keyval has already gone.
    patch("attribute-without-keyval.patch")
    # A send that has to wait for a free buffer keeps a pointer into its caller's stack for a
    # header: both directions at once end with signal 11, garbage sizes ("unable to allocate
    # -1390069744 bytes") or a hang.
    patch("nemesis-queued-header.patch")

    filter_compiler_wrappers("mpicc", "mpicxx", "mpif77", "mpif90", "mpifort", relative_root="bin")

    executables: ClassVar[list[str]] = ["^mpiname$"]

    @classmethod
    def determine_version(cls, exe: str) -> str | None:
        words = Executable(exe)("-v", output=str, error=str, fail_on_error=False).split()
        return words[1] if words[:1] == ["MVAPICH2"] and len(words) > 1 else None

    @classmethod
    def determine_variants(cls, exes: list[str], version: str) -> list[str]:
        return BuiltinMvapich2.determine_variants(exes, version)

    @property
    def libs(self):
        wanted = (
            ["libmpicxx", "libmpi"]
            if "cxx" in self.spec.last_query.extra_parameters
            else ["libmpi"]
        )
        return find_libraries(wanted, root=self.prefix, shared=True, recursive=True)

    def flag_handler(self, name, flags):
        # MPICH 3.2's own Fortran passes arguments of different types to
        # one procedure, an error since GCC 10.
        if name == "fflags" and self.spec.satisfies("%fortran=gcc@10:"):
            flags = [*(flags or []), "-fallow-argument-mismatch"]
        return env_flags(name, flags)

    def process_manager_options(self) -> list[str]:
        spec = self.spec
        if spec.satisfies("process_managers=slurm"):
            pmi = spec.variants["pmi_version"].value
            options = [
                "--with-pm=slurm",
                f"--with-slurm={spec['slurm'].prefix}",
                f"--with-pmi={pmi}",
            ]
            return [*options, f"--with-pmix={spec['pmix'].prefix}"] if pmi == "pmix" else options
        named = [
            name
            for name in ("hydra", "gforker", "remshell")
            if spec.satisfies(f"process_managers={name}")
        ]
        return [f"--with-pm={':'.join(named)}"] if named else []

    def network_options(self) -> list[str]:
        spec = self.spec
        fabric = spec.variants["fabrics"].value
        options = [f"--with-device={DEVICES[fabric]}"]
        if fabric == "mrail":
            options += ["--with-rdma=gen2", "--disable-mcast"]
        elif fabric == "psm2":
            options += [f"--with-psm2={spec['opa-psm2'].prefix}"]
        elif fabric == "nemesisofi":
            options += [f"--with-ofi={spec['libfabric'].prefix}"]
        if spec.satisfies("^rdma-core"):
            root = spec["rdma-core"]
            options += [
                f"--with-ib-include={root.prefix.include}",
                f"--with-ib-libpath={root.libs.directories[0]}",
            ]
        return options

    def file_system_options(self) -> list[str]:
        named = [
            name
            for name in ("lustre", "gpfs", "nfs", "ufs")
            if self.spec.satisfies(f"file_systems={name}")
        ]
        return [f"--with-file-system={'+'.join(named)}"] if named else []

    def configure_args(self) -> list[str]:
        spec = self.spec
        debug = [
            "--disable-fast",
            "--enable-error-checking=runtime",
            "--enable-error-messages=all",
            "--enable-g=dbg",
        ]
        return [
            "--disable-maintainer-mode",
            "--disable-silent-rules",
            "--disable-new-dtags",
            "--enable-shared",
            "--enable-romio",
            "--enable-fortran=all",
            "--disable-cuda",
            "--disable-opencl",
            "--disable-gl",
            "--disable-nvml",
            f"--enable-threads={spec.variants['threads'].value}",
            f"--with-ch3-rank-bits={spec.variants['ch3_rank_bits'].value}",
            f"--enable-wrapper-rpath={'yes' if '+wrapperrpath' in spec else 'no'}",
            *self.enable_or_disable("alloca"),
            *self.enable_or_disable("registration-cache", variant="regcache"),
            *(debug if "+debug" in spec else ["--enable-fast=all"]),
            *self.process_manager_options(),
            *self.network_options(),
            *self.file_system_options(),
        ]

    def setup_run_environment(self, env: EnvironmentModifications) -> None:
        env.set("MPI_ROOT", self.prefix)
        if self.spec.satisfies("process_managers=slurm"):
            env.set("SLURM_MPI_TYPE", self.spec.variants["pmi_version"].value)
        self.setup_mpi_wrapper_variables(env)

    def setup_dependent_build_environment(
        self, env: EnvironmentModifications, dependent_spec: Spec
    ) -> None:
        self.setup_mpi_wrapper_variables(env)
        super().setup_dependent_build_environment(env, dependent_spec)

    def test_ring(self):
        """compile a program with mpicc and pass a token round two ranks"""
        printed = run_program(self.spec, "ring", RING_SOURCE)
        assert "ring of 2 closed" in printed, printed
        # the tarball's "-1" is not said
        assert f"MVAPICH2 Version      :\t{self.version.up_to(3)}\n" in printed, printed

    def test_flood(self):
        """both ranks send more short messages than fit into the library's buffers"""
        printed = run_program(self.spec, "flood", FLOOD_SOURCE)
        assert FLOOD_PASSED in printed, printed

# SPDX-License-Identifier: BSD-3-Clause

"""Intel MPI Benchmarks, each suite built by itself and with optimisation."""

from pathlib import Path
from typing import NamedTuple

from spack.package import (
    Version,
    conflicts,
    depends_on,
    filter_file,
    install,
    install_tree,
    license,
    mkdirp,
    test_part,
    variant,
    version,
    working_dir,
)
from spack_repo.builtin.build_systems.makefile import MakefilePackage
from spack_repo.mpibench.mpi_checks import run_two_ranks
from spack_repo.mpibench.mpi_standards import NO_MPI4


class ImbProgram(NamedTuple):
    """One program of the benchmarks: how upstream's Makefiles
    build it and how to see that it works.
    """

    name: str
    since: str
    default: bool
    check: tuple[str, ...]
    folder: str = "src_cpp"
    openmp: bool = False

    @property
    def binary(self) -> str:
        return f"IMB-{self.name.upper()}"


_SHORT = ("-iter", "10", "-msglog", "3")

SUITES = (
    ImbProgram("mpi1", "2019.0", True, ("PingPong", *_SHORT)),
    ImbProgram("ext", "2019.0", True, ("Unidir_Put", *_SHORT)),
    ImbProgram("io", "2019.0", True, ("P_Read_indv", *_SHORT)),
    ImbProgram("nbc", "2019.0", True, ("Ibcast", *_SHORT)),
    ImbProgram("rma", "2019.0", True, ("Unidir_put", *_SHORT)),
    ImbProgram(
        "mt",
        "2019.0",
        True,
        ("-thread_level", "multiple", "-count", "1", "-repeat", "10", "PingPongMT"),
        openmp=True,
    ),
    ImbProgram("p2p", "2019.2", True, ("PingPong", "-iter", "10"), folder="src_c/P2P"),
    ImbProgram("mpi4", "2021.9", False, ("Bcast_persist", *_SHORT)),
)

#: Releases that have the same suites -> the spec in which none of these is built.
NO_SUITE = {
    ":2019.1": "~mpi1~ext~io~nbc~rma~mt",
    "2019.2:2021.8": "~mpi1~ext~io~nbc~rma~mt~p2p",
    "2021.9:": "~mpi1~ext~io~nbc~rma~mt~p2p~mpi4",
}


class IntelMpiBenchmarks(MakefilePackage):
    """Benchmarks of MPI point-to-point, collective, one-sided, multi-threaded and file operations.

    Not derived from builtin's recipe, whose variants only choose what is installed, whose conflicts
    deny suites that exist, and whose patches cannot be taken back. Upstream's top-level Makefile is
    not used: its sub-makes share object files though they compile them with different flags, so
    what a binary contains depends on their order. Here each suite is built in a copy of the sources
    of its own.
    """

    homepage = "https://github.com/intel/mpi-benchmarks"
    url = "https://github.com/intel/mpi-benchmarks/archive/refs/tags/IMB-v2021.11.tar.gz"
    git = "https://github.com/intel/mpi-benchmarks.git"

    license("BSD-3-Clause", when="@2021.7:")
    license("CPL-1.0", when="@:2021.6")

    version("2021.11", sha256="728b522b3bb05580c26e374bfae2a262bf8007b3b2c7d4c9480e4363953270c7")
    version("2021.10", sha256="286a5a10009355a61ed4a499ab4cb81bade41e6930a651a92928228343ff4a82")
    version("2021.9.1", sha256="85216bbef3ec8fd0b34f9d2e8a2c51d89c22faf58bfebadb6be0422b79a31fcc")
    version("2021.9", sha256="5922e74974e05e027aa7e2579afd5e2fb83de17e7d72f4da7d461580c04363c8")
    version("2021.8", sha256="78914a8e127d776f1cf71b095dc564ade60c1cf8d497f65f3390167a11a121bf")
    version("2021.7", sha256="acee02cc719a74e6853194576cb7e6bf1fdc74f8971578e1b2141306c3c19477")
    version("2021.6", sha256="57d1bcc0027f8fc7bffe323ab70cc9d3f1d7482d456c47b4a9e7c4337089bd54")
    version("2021.5", sha256="ac144dbfad8759e4956d99569dfcbec25758ba10abfb5ae2d83831660f27be60")
    version("2021.4", sha256="786570f0ff46aab01c4e5ecbde72c8051682809b23a04e55554f265b761ddde3")
    version("2021.3", sha256="9b58a4a7eef7c0c877513152340948402fd87cb06270d2d81308dc2ef740f4c7")
    version("2021.2", sha256="ade3bfe18b4313a31fc09f0bf038e0a6c169c4145089bfc6f1f827687b81be6a")
    version("2021.1", sha256="9089bb81e3091af3481e03b898b339fb2d9fb6574d4ef059adb1f5410112b23a")
    version("2019.6", sha256="1cd0bab9e947228fced4666d907f77c51336291533919896a923cff5fcad62e9")
    version("2019.5", sha256="61f8e872a3c3076af53007a68e4da3a8d66be2ba7a051dc21e626a4e2d26e651")
    version("2019.4", sha256="aeb336be10275c1a2f579b491b6631122876b461ac7148b1d0764f13b7552690")
    version("2019.3", sha256="4f256d11bfed9ca6166548486d61a062e67be61f13dd9f30690232720e185f31")
    version("2019.2", sha256="0bc2224a913073aaa5958f6ae08341e5fcd39cedc6722a09bfd4a3d7591a340b")
    version("2019.1", sha256="fe0d065b9936b6943ea83cb3d00aede43b17565285c6b1791fee8e340853ef79")
    version("2019.0", sha256="1c7d44aa7fd86ca84ac7cae1a69a8426243048d6294582337f1de7b4ffe68d37")

    for _suite in SUITES:
        variant(
            _suite.name,
            default=_suite.default,
            when=f"@{_suite.since}:",
            description=f"Build and install {_suite.binary}",
        )
    variant(
        "check",
        default=False,
        description="Verify the data received; the numbers are then not for comparison",
    )
    variant(
        "cuda",
        default=False,
        when="@2021.7:",
        description="Build IMB-MPI1-GPU (and IMB-RMA-GPU) for CUDA",
    )
    variant(
        "level_zero",
        default=False,
        when="@2021.7:",
        description="Build IMB-MPI1-GPU (and IMB-RMA-GPU) for Level Zero",
    )

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("gmake", type="build")
    depends_on("mpi")
    for _mpi in NO_MPI4:
        conflicts(
            "+mpi4",
            when=_mpi,
            msg="intel-mpi-benchmarks +mpi4 calls what this MPI has not: persistent collectives "
            "of MPI 4",
        )
    depends_on("cuda", when="+cuda")
    depends_on("oneapi-level-zero", when="+level_zero")

    for _range, _none in NO_SUITE.items():
        conflicts(
            _none,
            when=f"@{_range}",
            msg="intel-mpi-benchmarks without a single suite: enable at least one, as +mpi1",
        )
    for _gpu in ("cuda", "level_zero"):
        conflicts(
            f"+{_gpu}",
            when="~mpi1~rma",
            msg=f"intel-mpi-benchmarks +{_gpu} builds mpi1 and rma for a GPU: enable one of them",
        )
    conflicts(
        "^openmpi",
        when="@:2019.0",
        msg="intel-mpi-benchmarks 2019.0 uses MPI-1 calls that Open MPI has removed: take "
        "2019.1 or later",
    )

    def url_for_version(self, ver):
        tag = f"v{ver}" if ver <= Version("2019.1") else f"IMB-v{ver}"
        return f"https://github.com/intel/mpi-benchmarks/archive/refs/tags/{tag}.tar.gz"

    @property
    def suites(self) -> list[ImbProgram]:
        """Those chosen."""
        return [suite for suite in SUITES if self.spec.satisfies(f"+{suite.name}")]

    @property
    def gpu_suites(self) -> list[ImbProgram]:
        """Those built a second time, for buffers on an accelerator;
        upstream has RMA's since 2021.9.
        """
        if not (self.spec.satisfies("+cuda") or self.spec.satisfies("+level_zero")):
            return []
        named = ("mpi1", "rma") if self.spec.satisfies("@2021.9:") else ("mpi1",)
        return [suite for suite in self.suites if suite.name in named]

    @property
    def sanity_check_is_file(self) -> list[str]:
        names = [suite.binary for suite in self.suites] + [
            f"{suite.binary}-GPU" for suite in self.gpu_suites
        ]
        return [f"bin/{name}" for name in names]

    def edit(self, spec, prefix):
        """Take out flags that upstream appends to whatever a user asks
        for: no optimisation, warnings as errors.
        """
        for makefile in ("src_cpp/Makefile", "src_c/P2P/Makefile"):
            if Path(makefile).exists():
                filter_file(
                    r"^(override C(?:XX)?FLAGS \+=.*?)\s-O[03]", r"\1", makefile, backup=False
                )
                filter_file(
                    r"^(override C(?:XX)?FLAGS \+=.*?)\s-Werror", r"\1", makefile, backup=False
                )

    def optimisation(self, language: str) -> str:
        """What is passed besides the user's own flags, which Spack's
        compiler wrapper puts in front of it.
        """
        own = " ".join(self.spec.compiler_flags.get(language, []))
        return "" if "-O" in own else "-O2"

    def make_arguments(self, suite: ImbProgram, gpu: bool) -> list[str]:
        mpi = self.spec["mpi"]
        openmp = (
            {"c": self["c"].openmp_flag, "cxx": self["cxx"].openmp_flag}
            if suite.openmp
            else {"c": "", "cxx": ""}
        )
        arguments = [
            f"TARGET={suite.name.upper()}",
            f"CC={mpi.mpicc}",
            f"CXX={mpi.mpicxx}",
            f"CFLAGS={self.optimisation('cflags')} {openmp['c']}",
            f"CXXFLAGS={self.optimisation('cxxflags')} {openmp['cxx']}",
            f"CPPFLAGS={'-DCHECK' if '+check' in self.spec else ''}",
        ]
        if gpu:
            arguments.append("GPU_ENABLE=1")
            if self.spec.satisfies("+cuda"):
                arguments.append(f"CUDA_INCLUDE_DIR={self.spec['cuda'].prefix.include}")
            if self.spec.satisfies("+level_zero"):
                arguments.append(
                    f"ZE_INCLUDE_DIR={self.spec['oneapi-level-zero'].prefix.include.level_zero}"
                )
        return arguments

    def build(self, spec, prefix):
        for gpu, suites in ((False, self.suites), (True, self.gpu_suites)):
            for suite in suites:
                name = f"{suite.binary}-GPU" if gpu else suite.binary
                for folder in ("src_cpp", "src_c"):
                    install_tree(folder, f"build/{name}/{folder}")
                with working_dir(f"build/{name}/{suite.folder}"):
                    self.module.make(*self.make_arguments(suite, gpu))
                    Path(suite.binary).rename(f"{self.stage.source_path}/build/{name}.built")

    def install(self, spec, prefix):
        mkdirp(prefix.bin)
        for built in Path("build").glob("*.built"):
            install(str(built), f"{prefix.bin}/{built.stem}")

    def test_suites(self):
        """run one benchmark of each installed suite on two ranks of this machine"""
        for suite in self.suites:
            with test_part(
                self, f"test_suites_{suite.name}", purpose=f"{suite.binary} {' '.join(suite.check)}"
            ):
                # Not more threads than two per rank: enough to see that OpenMP is in the program.
                printed = run_two_ranks(
                    self.spec["mpi"],
                    str(self.prefix.bin.join(suite.binary)),
                    *suite.check,
                    threads=2,
                )
                assert "#processes = 2" in printed, printed
                assert not suite.openmp or "(threads: 2)" in printed, (
                    f"no second OpenMP thread:\n{printed}"
                )

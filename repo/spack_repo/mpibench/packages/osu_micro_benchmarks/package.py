# SPDX-License-Identifier: BSD-3-Clause

"""OSU Micro-Benchmarks as builtin has them, with every program within reach and tested."""

from pathlib import Path

from spack.package import (
    EnvironmentModifications,
    conflicts,
    depends_on,
    run_after,
    symlink,
    test_part,
    variant,
)
from spack_repo.builtin.packages.osu_micro_benchmarks.package import (
    OsuMicroBenchmarks as BuiltinOsuMicroBenchmarks,
)
from spack_repo.mpibench.mpi_checks import run_two_ranks
from spack_repo.mpibench.mpi_standards import NO_MPI4

#: One program of each kind that runs on two ranks: name -> words that keep it short.
CHECKS = {
    "osu_latency": ("-m", "1:8", "-i", "10", "-x", "2"),
    "osu_mbw_mr": ("-m", "1:8", "-i", "10", "-x", "2"),
    "osu_put_bw": ("-m", "1:8", "-i", "10", "-x", "2"),
    "osu_allreduce": ("-m", "4:8", "-i", "10", "-x", "2"),
    "osu_ibcast": ("-m", "1:8", "-i", "10", "-x", "2"),
    "osu_init": (),
}


class OsuMicroBenchmarks(BuiltinOsuMicroBenchmarks):
    """Latency, bandwidth and message rate of MPI point-to-point,
    one-sided and collective operations.

    Beyond builtin: every installed program is linked from ``bin`` (upstream spreads them over
    folders below libexec, and not all of those were on PATH), what configure offers is a variant,
    and nothing is switched on by what happens to be installed on the build machine.
    """

    variant(
        "mpi4",
        default=False,
        when="@7.2:",
        description="Sessions, persistent collectives and partitioned sends; otherwise off, "
        "whatever the MPI offers",
    )
    variant("openacc", default=False, description="Buffers in device memory through OpenACC")
    variant(
        "sycl", default=False, when="@7.5:", description="Buffers in device memory through SYCL"
    )

    depends_on("gmake", type="build")
    for _mpi in NO_MPI4:
        conflicts(
            "+mpi4",
            when=_mpi,
            msg="osu-micro-benchmarks +mpi4 calls what this MPI has not: persistent collectives "
            "of MPI 4",
        )

    conflicts(
        "+cuda",
        when="+rocm",
        msg="osu-micro-benchmarks takes one kind of device memory: choose cuda or rocm",
    )
    conflicts(
        "+sycl",
        when="+cuda",
        msg="osu-micro-benchmarks takes one kind of device memory: choose cuda or sycl",
    )
    conflicts(
        "+sycl",
        when="+rocm",
        msg="osu-micro-benchmarks takes one kind of device memory: choose rocm or sycl",
    )
    conflicts("+papi", when="@:6", msg="osu-micro-benchmarks reads PAPI counters since 7.0")
    conflicts("+graphing", when="@:6.1", msg="osu-micro-benchmarks draws graphs since 6.2")
    for _compiler in ("gcc", "llvm", "llvm-amdgpu", "aocc", "nvhpc"):
        conflicts(
            "+sycl",
            when=f"%cxx={_compiler}",
            msg="osu-micro-benchmarks +sycl needs the compilers of oneAPI",
        )

    def configure_args(self) -> list[str]:
        chosen = [
            *self.enable_or_disable("mpi4"),
            *self.enable_or_disable("openacc"),
            *self.enable_or_disable("sycl"),
        ]
        return [*super().configure_args(), *chosen, "--disable-silent-rules"]

    @property
    def programs(self) -> list[Path]:
        """Every installed benchmark. Names are unique over the folders."""
        top = Path(self.prefix.libexec) / "osu-micro-benchmarks"
        return sorted(path for path in top.rglob("osu_*") if path.is_file())

    @run_after("install")
    def link_programs(self):
        folder = Path(self.prefix.bin)
        folder.mkdir(exist_ok=True)
        for program in self.programs:
            symlink(f"../{program.relative_to(self.prefix)}", str(folder / program.name))

    def setup_run_environment(self, env: EnvironmentModifications) -> None:
        env.prepend_path("PATH", self.prefix.bin)

    def test_two_ranks(self):
        """run one benchmark of each kind on two ranks of this machine"""
        for name, words in CHECKS.items():
            with test_part(self, f"test_two_ranks_{name}", purpose=f"{name} {' '.join(words)}"):
                printed = run_two_ranks(self.spec["mpi"], str(self.prefix.bin.join(name)), *words)
                assert "# OSU MPI" in printed, printed

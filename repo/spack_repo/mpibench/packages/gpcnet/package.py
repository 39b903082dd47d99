# SPDX-License-Identifier: BSD-3-Clause

"""GPCNeT: what a network does alone and under congestion, on many nodes."""

from spack.package import depends_on, install, license, mkdirp, test_part, version
from spack_repo.builtin.build_systems.makefile import MakefilePackage
from spack_repo.mpibench.mpi_checks import LOCAL_LAUNCH, launcher

PROGRAMS = ("network_test", "network_load_test")


class Gpcnet(MakefilePackage):
    """Global Performance and Congestion Network Test: random rings and
    collectives, alone and beside congestors.

    Beyond builtin: version 1.3 by its commit, where builtin has the default branch, which may move.
    """

    homepage = "https://github.com/netbench/GPCNET"
    git = "https://github.com/netbench/GPCNET.git"

    license("Apache-2.0")

    version("1.3", commit="c56fd950ae6552ffce7a55cfa6d5617454e983e3")

    depends_on("c", type="build")
    depends_on("gmake", type="build")
    depends_on("mpi")

    @property
    def build_targets(self) -> list[str]:
        # Without -DVERBOSE: results that are compared are those of the default (its README).
        return ["all", f"CC={self.spec['mpi'].mpicc}"]

    @property
    def sanity_check_is_file(self) -> list[str]:
        return [f"bin/{name}" for name in PROGRAMS]

    def install(self, spec, prefix):
        mkdirp(prefix.bin)
        for name in PROGRAMS:
            install(name, prefix.bin)

    def test_starts(self):
        """start each program on this machine, on which it says how many nodes it needs"""
        for name in PROGRAMS:
            with test_part(self, f"test_starts_{name}", purpose=name):
                words = ("-n", "2", str(self.prefix.bin.join(name)))
                started = launcher(self.spec["mpi"])
                printed = started(
                    *words,
                    extra_env=LOCAL_LAUNCH,
                    output=str,
                    error=str,
                    fail_on_error=False,
                    timeout=120,
                )
                assert "this application must be run on at least" in printed, printed

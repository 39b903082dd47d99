# SPDX-License-Identifier: BSD-3-Clause

"""MVAPICH 3 and later as builtin has it, on the libfabric or UCX that Spack chose."""

import re
from pathlib import Path

from spack.package import SkipTest, test_part, which
from spack_repo.builtin.packages.mvapich.package import Mvapich as BuiltinMvapich
from spack_repo.mpibench.mpi_checks import FLOOD_PASSED, FLOOD_SOURCE, RING_SOURCE, run_program

#: Value of ``netmod`` -> (package that carries it, its configure
#: option, library that libmpi must load from it).
NETWORK_LIBRARIES = {
    "ofi": ("libfabric", "--with-libfabric", "libfabric.so"),
    "ucx": ("ucx", "--with-ucx", "libucp.so"),
}


class Mvapich(BuiltinMvapich):
    """MPI over whatever libfabric or UCX drive, based on MPICH 4.

    Beyond builtin: the library named by ``netmod`` is handed to configure. Without that, configure
    builds the copy bundled with MVAPICH, which has neither the version nor the transports that the
    environment asked for. And ``+fast`` optimises: of builtin's ``--enable-fast=opt`` configure
    makes ``-03`` (4.0, configure.ac), which no compiler takes.
    """

    def configure_args(self) -> list[str]:
        package, option, _ = NETWORK_LIBRARIES[self.spec.variants["netmod"].value]
        told = [
            "--enable-fast=O3,ndebug" if word == "--enable-fast=opt" else word
            for word in super().configure_args()
        ]
        return [*told, "--disable-maintainer-mode", f"{option}={self.spec[package].prefix}"]

    def test_optimisation(self):
        """the library says that it was compiled with optimisation"""
        if self.spec.satisfies("~fast"):
            raise SkipTest("built without optimisation: ~fast")
        program = which("mpichversion", path=[str(self.prefix.bin)], required=True)
        printed = program(output=str, error=str)
        flags = next(line for line in printed.splitlines() if re.match(r"\w+ CC\s*:", line))
        assert re.search(r"\s-O[123s]\b", flags), printed

    def test_ring(self):
        """compile a program with mpicc and pass a token round two ranks"""
        printed = run_program(self.spec, "ring", RING_SOURCE)
        assert "ring of 2 closed" in printed, printed

    def test_flood(self):
        """both ranks send more short messages than fit into the library's buffers"""
        printed = run_program(self.spec, "flood", FLOOD_SOURCE)
        assert FLOOD_PASSED in printed, printed

    def test_network_library(self):
        """libmpi loads the network library that Spack chose, not a bundled one"""
        package, _, library = NETWORK_LIBRARIES[self.spec.variants["netmod"].value]
        chosen = {
            path.resolve() for path in Path(self.spec[package].prefix).glob(f"lib*/**/{library}*")
        }
        ldd = which("ldd", required=True)
        with test_part(
            self, f"test_network_library_{package}", purpose=f"{library} is {package}'s"
        ):
            printed = ldd(str(self.prefix.lib.join("libmpi.so")), output=str)
            loaded = [
                line.split("=>")[1].split()[0]
                for line in printed.splitlines()
                if library in line and "=>" in line
            ]
            assert loaded, f"libmpi does not load {library}:\n{printed}"
            assert {Path(path).resolve() for path in loaded} <= chosen, (
                f"{loaded} is not from {self.spec[package].prefix}"
            )

# SPDX-License-Identifier: BSD-3-Clause

"""Open MPI as builtin has it, in a release that builtin has not yet."""

from spack.package import version
from spack_repo.builtin.packages.openmpi.package import Openmpi as BuiltinOpenmpi
from spack_repo.mpibench.mpi_checks import RING_SOURCE, run_program


class Openmpi(BuiltinOpenmpi):
    """Open MPI.

    Beyond builtin: 5.0.11, with the checksum that its own releases.json has, and a test that root
    may run, too.
    """

    version("5.0.11", sha256="e668a3c4acd50c41dc204c8a6dd98a611e0f26af89cf677577fa9be8a2698003")

    def test_example(self):
        """compile a program with mpicc and pass a token round two ranks"""
        printed = run_program(self.spec, "ring", RING_SOURCE)
        assert "ring of 2 closed" in printed, printed

# SPDX-License-Identifier: BSD-3-Clause

"""Compilers for the MPI Forum's ABI: what they build runs on every MPI that has it."""

import shlex
from pathlib import Path

from spack.package import Executable, depends_on, license, mkdirp, provides, set_executable, version
from spack_repo.builtin.build_systems.generic import Package
from spack_repo.builtin.packages.mpich.package import MpichEnvironmentModifications
from spack_repo.mpibench.mpi_checks import RING_SOURCE, run_program


class MpiAbi(MpichEnvironmentModifications, Package):
    """``mpicc`` and ``mpicxx`` for the ABI of MPI 5.0 (chapter 20), after those of MPICH 5.

    A program asks for ``libmpi_abi.so.1`` and has no path to any: which MPI it runs on is chosen
    where it is started ('mpibench stacks abi --binaries'). So MPICH is needed to build it only.
    """

    homepage = "https://www.mpi-forum.org/docs/"
    has_code = False

    license("BSD-3-Clause")

    # What MPI_Abi_get_version says is the major one.
    version("1")

    provides("mpi@:5.0")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("mpich@5:", type="build")

    def install(self, spec, prefix):
        mkdirp(prefix.bin)
        for name, variable, compiler in (
            ("mpicc", "MPICH_CC", self["c"].cc),
            ("mpicxx", "MPICH_CXX", self["cxx"].cxx),
        ):
            shown = Executable(f"{spec['mpich'].prefix.bin}/{name}_abi")("-show", output=str)
            # Not its compiler, which is the wrapper of its own build, and no path for the loader.
            words = [word for word in shlex.split(shown) if word[:2] in ("-D", "-I", "-L", "-l")]
            wrapper = Path(prefix.bin, name)
            wrapper.write_text(
                f'#!/bin/sh\nexec "${{{variable}:-{compiler}}}" "$@" {shlex.join(words)}\n'
            )
            set_executable(str(wrapper))
        # For tests, Spack's own of an MPI, too: nothing else names that MPICH.
        starter = Path(prefix.bin, "mpirun")
        mpich = spec["mpich"].prefix
        starter.write_text(f'#!/bin/sh\nLD_LIBRARY_PATH={mpich.lib} exec {mpich.bin}/mpirun "$@"\n')
        set_executable(str(starter))

    def setup_dependent_package(self, module, dependent_spec):
        """The ABI has no Fortran."""
        self.spec.mpicc = self.prefix.bin.mpicc
        self.spec.mpicxx = self.prefix.bin.mpicxx

    def setup_run_environment(self, env):
        env.set("MPICC", self.prefix.bin.mpicc)
        env.set("MPICXX", self.prefix.bin.mpicxx)

    @property
    def virtuals_provided(self):
        """While it is tested, not MPI: Spack's own test of any MPI wants Fortran."""
        return [] if self.test_suite else super().virtuals_provided

    def test_ring(self):
        """a program with no path to an MPI passes a token round two ranks of MPICH's"""
        printed = run_program(self.spec, "ring", RING_SOURCE)
        assert "ring of 2 closed" in printed, printed
        needed = Executable("readelf")("-d", "ring", output=str)
        assert "[libmpi_abi.so.1]" in needed, needed
        assert str(self.spec["mpich"].prefix) not in needed, needed

# SPDX-License-Identifier: BSD-3-Clause

"""ParaStation MPI as an installation of the site's: Spack's own repository has none."""

from spack.package import InstallError, depends_on, license, provides, requires, version
from spack_repo.builtin.build_systems.generic import Package
from spack_repo.builtin.packages.mpich.package import MpichEnvironmentModifications


class Parastationmpi(MpichEnvironmentModifications, Package):
    """MPICH on ParaStation's communication library pscom; for externals only."""

    homepage = "https://github.com/ParaStation/psmpi"
    has_code = False

    license("BSD-2-Clause")

    version("5")

    provides("mpi@:3.1")

    # Attaches compilers to externals.
    depends_on("c", type="build")
    requires("platform=linux")

    def install(self, spec, prefix):
        raise InstallError(
            "parastationmpi is not built by Spack: name the site's as an external in packages.yaml"
        )

# SPDX-License-Identifier: BSD-3-Clause

"""Which MPIs have what the benchmarks of MPI 4 call: persistent
collectives, partitioned sends, sessions.
"""

#: Package -> versions that have all three, versions that lack some. Not ``mpi@4:``, of which
#: builtin's recipes say too little (Open MPI 5 and today's Intel MPI are 3.1 there) or too much
#: (MPICH 3.4 is 4.0). Seen in mpi.h and libmpi: Open MPI 4.1.4 has none, 5.0 all; MPICH 4.0 all;
#: MVAPICH 4.0 is made of MPICH 4.3, 3.0 of 3.4; Intel MPI has sessions since 2021.11, persistent
#: collectives since 2021.12, all since 2021.14. Cray MPICH: as builtin has it.
_VERSIONS = {
    "openmpi": ("5:", ":4"),
    "mpich": ("4:", ":3"),
    "mvapich": ("4:", ":3"),
    "intel-oneapi-mpi": ("2021.14:", ":2021.13"),
    "cray-mpich": ("9:", ":8"),
    "mpi-abi": ("1:", ":0"),
}

#: As conditions on a package. Those that lack some are for ``conflicts``: of ``requires`` with
#: several Spack likes the first best, and leaves a suite out or takes an older MPI for its sake.
MPI4 = tuple(f"^{name}@{having}" for name, (having, _) in _VERSIONS.items())
NO_MPI4 = ("^mvapich2", *(f"^{name}@{lacking}" for name, (_, lacking) in _VERSIONS.items()))

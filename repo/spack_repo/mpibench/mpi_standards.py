# SPDX-License-Identifier: BSD-3-Clause

"""Which MPIs have what the benchmarks of MPI 4 call: persistent collectives, partitioned sends, sessions."""

#: As conditions on a package. Not ``mpi@4:``, of which builtin's recipes say too little (Open MPI 5 and today's Intel MPI are
#: 3.1 there) or too much (MPICH 3.4 is 4.0). Seen in mpi.h and libmpi: Open MPI 4.1.4 has none of the three, 5.0 all; MPICH 4.0
#: all; MVAPICH 4.0 is made of MPICH 4.3, 3.0 of 3.4; Intel MPI has sessions since 2021.11, collectives since 2021.12, all since
#: 2021.14. Cray MPICH: as builtin has it.
MPI4 = ("^openmpi@5:", "^mpich@4:", "^mvapich@4:", "^intel-oneapi-mpi@2021.14:", "^cray-mpich@9:")

# SPDX-License-Identifier: BSD-3-Clause

"""What install-time tests of MPI libraries and MPI benchmarks
share: starting two ranks on this machine.
"""

from __future__ import annotations

from pathlib import Path

from spack.package import Executable, SkipTest, Spec, which

#: Starts ranks as plain child processes, also inside a batch job and as root (container builds).
#: Spack clears such settings from the test's environment, so they are given to each launch.
LOCAL_LAUNCH = {
    "HYDRA_LAUNCHER": "fork",
    "I_MPI_HYDRA_BOOTSTRAP": "fork",
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_plm": "isolated",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "PRTE_ALLOW_RUN_AS_ROOT": "1",
    "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_MCA_plm": "ssh",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
}

#: Passes a token round all ranks, so that every rank has sent and
#: received before anything is printed.
RING_SOURCE = r"""
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    int rank, size, token = 0, length;
    char library[MPI_MAX_LIBRARY_VERSION_STRING];

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (rank > 0)
        MPI_Recv(&token, 1, MPI_INT, rank - 1, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    token++;
    if (size > 1)
        MPI_Send(&token, 1, MPI_INT, (rank + 1) % size, 7, MPI_COMM_WORLD);
    if (rank == 0) {
        if (size > 1)
            MPI_Recv(&token, 1, MPI_INT, size - 1, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Get_library_version(library, &length);
        printf("ring of %d closed\n%s\n", token, library);
    }
    MPI_Finalize();
    return 0;
}
"""

#: Both ranks send more short messages than a library holds buffers for before either receives, as
#: bidirectional benchmarks do: what could not leave at once has to leave later, with its own header
#: and its own data.
FLOOD_SOURCE = r"""
#include <mpi.h>
#include <stdio.h>

enum { ROUNDS = 100, WINDOW = 256 };

int main(int argc, char **argv)
{
    int rank, size, next, last, round, i, wrong = 0;
    long long sent[WINDOW], received[WINDOW];
    MPI_Request requests[2 * WINDOW];

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    next = (rank + 1) % size;
    last = (rank + size - 1) % size;
    for (round = 0; round < ROUNDS; round++) {
        for (i = 0; i < WINDOW; i++) {
            sent[i] = ((long long)rank * ROUNDS + round) * WINDOW + i;
            MPI_Isend(&sent[i], 1, MPI_LONG_LONG, next, i, MPI_COMM_WORLD, &requests[i]);
        }
        for (i = 0; i < WINDOW; i++)
            MPI_Irecv(&received[i], 1, MPI_LONG_LONG, last, i, MPI_COMM_WORLD,
                      &requests[WINDOW + i]);
        MPI_Waitall(2 * WINDOW, requests, MPI_STATUSES_IGNORE);
        for (i = 0; i < WINDOW; i++)
            wrong += received[i] != ((long long)last * ROUNDS + round) * WINDOW + i;
    }
    MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%d messages, %d of them wrong\n", size * ROUNDS * WINDOW, wrong);
    MPI_Finalize();
    return 0;
}
"""
#: What ``FLOOD_SOURCE`` prints on two ranks when every message arrived.
FLOOD_PASSED = "51200 messages, 0 of them wrong"


def launcher(mpi: Spec) -> Executable:
    """The MPI's own ``mpiexec``; Intel's lies in a component folder below its prefix."""
    folder = getattr(mpi.package, "component_prefix", mpi.prefix).bin
    found = which("mpiexec", "mpirun", path=[str(folder)])
    if found is None:
        raise SkipTest(
            f"{mpi.name} has no mpiexec in {folder}; its programs need the site's own launcher"
        )
    return found


def run_two_ranks(mpi: Spec, *words: str, threads: int = 1) -> str:
    """Run a program on two ranks of this machine; what both streams had. A
    program that fails raises ``ProcessError``.
    """
    environment = {**LOCAL_LAUNCH, "OMP_NUM_THREADS": str(threads)}
    return launcher(mpi)(
        "-n", "2", *words, extra_env=environment, output=str, error=str, timeout=120
    )


def run_program(mpi: Spec, name: str, source: str) -> str:
    """Compile a C program with the MPI's ``mpicc`` in the working
    directory and run it on two ranks; what it printed.
    """
    Path(f"{name}.c").write_text(source)
    Executable(str(mpi.prefix.bin.mpicc))(f"{name}.c", "-o", name)
    return run_two_ranks(mpi, str(Path(name).resolve()))

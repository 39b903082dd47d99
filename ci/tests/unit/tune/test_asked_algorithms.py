"""The lists that libraries print of their algorithms, as the
programs of real installations print them.
"""

import pytest

from mpibench_tune.measuring import parse_list
from reframe_tests.harness.mpis import registry

#: impi_info of Intel MPI 2021.18; ompi_info of Open MPI 5.0.11;
#: mpivars of MPICH 4.3.2. Cut to what counts.
INTEL = """I_MPI_ADJUST_ALLREDUCE
  MPI Datatype:
    MPI_CHAR
  Description:
    Control selection of MPI_Allreduce algorithm presets.
    Arguments
    <presetid> - Preset identifier
    range: 0-32
"""
OPEN_MPI = """mca:coll:tuned:param:coll_tuned_alltoallv_algorithm:enumerator:value:0:ignore
mca:coll:tuned:param:coll_tuned_alltoallv_algorithm:enumerator:value:1:basic_linear
mca:coll:tuned:param:coll_tuned_alltoallv_algorithm:enumerator:value:2:pairwise
mca:coll:tuned:param:coll_tuned_barrier_algorithm:enumerator:value:1:linear
"""
MPICH = (
    "\tMPIR_CVAR_ALLTOALL_INTRA_ALGORITHM=0\tSCOPE_ALL_EQ\tNo-object\tMPI_INT\tVERBOSITY\tVariable "
    "to select\n"
    "auto - Internal algorithm selection\n"
    "brucks                    - Force brucks algorithm\n"
    "k_brucks                  - Force Force radix k brucks algorithm\n"
    "pairwise                  - Force pairwise algorithm\n"
    "\tMPIR_CVAR_ALLTOALL_INTER_ALGORITHM=0\tSCOPE_ALL_EQ\tNo-object\tMPI_INT\tVERBOSITY\tVariable "
    "to select\n"
    "pairwise_exchange - Force pairwise exchange algorithm\n"
)


@pytest.mark.parametrize(
    ("mpi", "collective", "text", "words"),
    [
        ("intelmpi", "Allreduce", INTEL, [str(number) for number in range(1, 33)]),
        ("openmpi", "Alltoallv", OPEN_MPI, ["1", "2"]),
        ("mpich", "Alltoall", MPICH, ["brucks", "pairwise"]),
        ("mpich", "Bcast", MPICH, []),
    ],
)
def test_a_library_lists_its_algorithms(mpi, collective, text, words):
    tuning = registry.find(mpi).tuning
    assert tuning is not None and tuning.listing is not None
    control = tuning.find(collective)
    variable = control.variable.removeprefix(tuning.listing.prefix)
    found = parse_list(
        text, tuning.listing, variable, {each.word: each for each in control.algorithms}
    )
    assert [each.word for each in found] == words

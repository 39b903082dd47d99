"""MPICH: ch4 since 3.4."""

from __future__ import annotations

from collections.abc import Mapping

from ..machine.transport import TRANSPORTS
from . import ch4
from .model import MPICH_COMPILED, MPICH_GPU, MPICH_WORLD, Banner, Mpi, SpackPackage
from .transport import Gap, Range
from .tuning import selection_file
from .tuning.model import Algorithm, AlgorithmListing, Control, Tuning

#: Collective to algorithms of 4.3 that need no further number (radix, kind of tree), which a
#: selection file would have to say.
_ALGORITHMS: Mapping[str, str] = {
    "Allgather": "brucks recursive_doubling ring nb",
    "Allgatherv": "brucks recursive_doubling ring nb",
    "Allreduce": "recursive_doubling reduce_scatter_allgather ring nb",
    "Alltoall": "brucks pairwise scattered nb",
    "Alltoallv": "scattered nb",
    "Bcast": "binomial scatter_recursive_doubling_allgather scatter_ring_allgather nb",
    "Gather": "binomial nb",
    "Gatherv": "linear nb",
    "Reduce": "binomial reduce_scatter_gather nb",
    "Reduce_scatter": "noncommutative pairwise recursive_doubling recursive_halving nb",
    "Reduce_scatter_block": "noncommutative pairwise recursive_doubling recursive_halving nb",
    "Scan": "recursive_doubling nb",
    "Scatter": "binomial nb",
    "Scatterv": "linear nb",
}
#: Those whose size a selection file tests as that of all ranks' blocks together, as the library's
#: own tree does; and those of which it tests none, or none that all ranks agree on.
_WHOLE = ("Allgather", "Gather", "Scatter")
_ONE_CHOICE = ("Allgatherv", "Alltoallv", "Gatherv", "Scatterv", "Scan")
#: Further: what a file cannot say without its parameters, and what is for MPI_IN_PLACE only. And
#: smp, the library's own choice where a node has several ranks: it calls the same collective on its
#: nodes' communicators, where a variable forces it as well and it does not apply, so that Allreduce
#: hangs (4.3.2, fallback set to error).
_IGNORED = (
    "auto",
    "k_brucks",
    "recexch",
    "recexch_doubling",
    "recexch_halving",
    "recursive_multiplying",
    "tree",
    "ccl",
    "pipelined_tree",
    "k_reduce_scatter_allgather",
    "pairwise_sendrecv_replace",
    "smp",
)

#: Of MPICH and what is built on it.
TUNING = Tuning(
    source="MPICH, doc/mpich/tuning_parameters.md and src/mpi/coll/cvars.txt; mpivars of the "
    "library",
    controls=tuple(
        Control(
            name,
            f"MPIR_CVAR_{name.upper()}_INTRA_ALGORITHM",
            tuple(Algorithm(word) for word in words.split()),
            by_size=name not in _ONE_CHOICE,
            whole=name in _WHOLE,
            env={f"MPIR_CVAR_{name.upper()}_DEVICE_COLLECTIVE": "0"},
        )
        for name, words in _ALGORITHMS.items()
    ),
    write=selection_file.write,
    listing=AlgorithmListing(
        ("bin/mpivars",),
        r"^(?P<word>\w+) +- Force",
        ignored=_IGNORED,
        part=r"^\t{variable} *=.*\n((?:(?!\t).*\n)*)",
    ),
    # By default a forced algorithm that does not apply is replaced without a word.
    strict={"MPIR_CVAR_COLLECTIVE_FALLBACK": "error"},
    note="MPIR_CVAR_<OP>_DEVICE_COLLECTIVE=0 holds in communicators of every size.",
)

MPI = Mpi(
    name="mpich",
    title="MPICH",
    newest="5.0.2",
    abi="mpich",
    launchers=("hydra",),
    banner=Banner(
        r"^MPICH Version:\s+([0-9][\w.-]*)",
        r"MPICH Version:\s+{version}\s",
        r"^MPICH Device:\s+(\S.*)$",
        gpu=MPICH_GPU,
        compiled=MPICH_COMPILED,
    ),
    # Debian's MPICH calls its library libmpich.so.12.
    libraries=("libmpi", "libmpich"),
    sonames=(ch4.SONAME, r"libmpich\.so\.12"),
    world=MPICH_WORLD,
    # It speaks PMI2 without a path to its library (Slurm's MPI guide).
    pmi="pmi2",
    stdout_lines=ch4.SUMMARY_LINES,
    settings=("MPIR_CVAR_", "MPICH_"),
    spack=(SpackPackage("mpich"),),
    tuning=TUNING,
    rows=(
        *ch4.ofi_rows(Range((3, 4), (4,)), {ch4.CAPABILITY: "1"}, rank_lines=True),
        *ch4.ofi_rows(Range((4,)), {ch4.SUMMARY: "2"}, rank_lines=True),
        *ch4.ucx_rows(Range((3, 4)), rank_lines=True),
    ),
    gaps=(
        *(
            Gap(
                transport,
                Range((0,), (3, 4)),
                "MPICH before 3.4 prints nothing that names the network it uses, so nothing can "
                "be proven: use 3.4 or newer.",
            )
            for transport in TRANSPORTS
        ),
        Gap(
            "opx",
            Range((3, 4), (4,)),
            "MPICH before 4.0 is not used with the opx provider: use 4.0 or newer.",
        ),
        Gap(
            "cxi",
            Range((3, 4), (4,)),
            "MPICH before 4.0 is not used with the cxi provider: use 4.0 or newer.",
        ),
        *ch4.gpu_gaps(),
    ),
)

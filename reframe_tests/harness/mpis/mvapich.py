"""MVAPICH 3 and 4: MPICH's ch4 device under another name. As far as known, it prints no line per
rank.

MVAPICH-Plus is the build for GPU memory (ROCm and CUDA). It accepts MPICH's variables under their
own names and as ``MVP_...`` (MVAPICH documentation, 'CVAR Environment Variables').
"""

from __future__ import annotations

from ..machine.transport import TRANSPORTS
from . import ch4
from .model import MPICH_COMPILED, MPICH_GPU, MPICH_WORLD, Banner, Mpi, SpackPackage, Unbinding
from .transport import Gap, Range

MPI = Mpi(
    name="mvapich",
    title="MVAPICH",
    abi="mpich",
    launchers=("mpirun_rsh", "hydra"),
    # MVAPICH 3.0, src/binding: "<name> Version:" like MPICH.
    banner=Banner(
        r"^MVAPICH Version\s*:\s+([0-9][\w.-]*)",
        r"MVAPICH Version\s*:\s+{version}\s",
        r"^MVAPICH Device\s*:\s+(\S.*)$",
        gpu=MPICH_GPU,
        compiled=MPICH_COMPILED,
    ),
    newest="4.1",
    sonames=(ch4.SONAME,),
    world=MPICH_WORLD,
    pmi="pmi2",
    stdout_lines=ch4.SUMMARY_LINES,
    unbinding=(
        Unbinding(
            "MVAPICH 3.0, mpivars (the MV2_ variables, renamed)",
            ("hydra", "mpirun_rsh"),
            {"MVP_ENABLE_AFFINITY": "0"},
        ),
    ),
    settings=("MPIR_CVAR_", "MVP_"),
    spack=(SpackPackage("mvapich"), SpackPackage("mvapich-plus")),
    rows=(
        *ch4.ofi_rows(Range((3,), (4,)), {ch4.CAPABILITY: "1"}, rank_lines=False),
        *ch4.ofi_rows(Range((4,)), {ch4.SUMMARY: "2"}, rank_lines=False),
        *ch4.ucx_rows(Range((3,)), rank_lines=False),
    ),
    gaps=(
        Gap(
            "opx",
            Range((3,), (4,)),
            "MVAPICH 3 is not used with the opx provider here: use 4.0 or newer.",
        ),
        Gap(
            "cxi",
            Range((3,), (4,)),
            "MVAPICH 3 is not used with the cxi provider here: use 4.0 or newer.",
        ),
        *(
            Gap(
                transport,
                Range((0,), (3,)),
                "MVAPICH before 3.0 is MVAPICH2: name it mvapich2 in the metadata.",
            )
            for transport in TRANSPORTS
        ),
        *ch4.gpu_gaps(),
    ),
    untested="Spack concretizes it here, and it was never built",
)

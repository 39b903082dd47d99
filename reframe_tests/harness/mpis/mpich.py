"""MPICH: ch4 from 3.4 on."""

from __future__ import annotations

from ..machine.transport import TRANSPORTS
from . import ch4
from .model import MPICH_WORLD, Banner, Mpi, SpackPackage
from .transport import Gap, Range

MPI = Mpi(
    name="mpich",
    title="MPICH",
    abi="mpich",
    launchers=("hydra",),
    banner=Banner(r"^MPICH Version:\s+([0-9][\w.-]*)", r"MPICH Version:\s+{version}\s", r"^MPICH Device:\s+(\S.*)$"),
    # Debian's MPICH calls its library libmpich.so.12.
    libraries=("libmpi", "libmpich"),
    sonames=(ch4.SONAME, r"libmpich\.so\.12"),
    world=MPICH_WORLD,
    # It speaks PMI2 without a path to its library (Slurm's MPI guide).
    pmi="pmi2",
    stdout_lines=ch4.SUMMARY_LINES,
    settings=("MPIR_CVAR_", "MPICH_"),
    spack=SpackPackage("mpich"),
    rows=(
        *ch4.ofi_rows(Range((3, 4), (4,)), {ch4.CAPABILITY: "1"}, rank_lines=True),
        *ch4.ofi_rows(Range((4,)), {ch4.SUMMARY: "2"}, rank_lines=True),
        *ch4.ucx_rows(Range((3, 4))),
    ),
    gaps=(
        *(
            Gap(
                transport,
                Range((0,), (3, 4)),
                "MPICH before 3.4 prints nothing that names the network it uses, so nothing can be proven: use 3.4 or newer.",
            )
            for transport in TRANSPORTS
        ),
        Gap("opx", Range((3, 4), (4,)), "MPICH before 4.0 is not used with the opx provider: use 4.0 or newer."),
        Gap("cxi", Range((3, 4), (4,)), "MPICH before 4.0 is not used with the cxi provider: use 4.0 or newer."),
    ),
)

"""Hydra of Intel MPI, and MPD of version 4.0, which takes the same options."""

from __future__ import annotations

from ..mpis.transport import Range
from . import pbs
from .model import Binding, Bootstrap, Introduction, Launcher, RankNames, Request, mask

#: First version with Hydra.
HYDRA = (4, 1)


def _count(request: Request) -> Binding:
    # Under a batch system -ppn is ignored without this variable; 4.0's MPD knows no such thing.
    several = request.nodes > 1 and not request.before(*HYDRA)
    return Binding(
        {"I_MPI_JOB_RESPECT_PROCESS_PLACEMENT": "off"} if several else {},
        ("-ppn", str(request.ppn)),
    )


def _unbound(request: Request) -> Binding:
    return _count(request).adding(env={"I_MPI_PIN": "off"})


def _explicit(request: Request) -> Binding:
    words = {"I_MPI_PIN_DOMAIN": f"[{','.join(map(mask, request.ranks))}]"}
    if request.before(*HYDRA):
        # 4.0 pinned inside the library by default, when memory had already
        # been placed (Cambridge paper, section 3.4).
        listed = {"I_MPI_PIN_PROCESSOR_LIST": ",".join(str(cpus[0]) for cpus in request.ranks)}
        words = {**(listed if request.narrow else words), "I_MPI_PIN_MODE": "mpd"}
    return _count(request).adding(env={"I_MPI_PIN": "on", **words})


LAUNCHER = Launcher(
    name="hydra-intel",
    title="Intel MPI's Hydra",
    manual="Intel MPI Developer Reference, 'Interoperability with OpenMP API', "
    "I_MPI_PIN_DOMAIN=<masklist>; 'Environment Variables for Process Pinning', "
    "I_MPI_PIN; 'Hydra Environment Variables', I_MPI_JOB_RESPECT_PROCESS_PLACEMENT; "
    "'mpiexec.hydra', -ppn and -hosts",
    count=_count,
    unbound=_unbound,
    explicit=_explicit,
    # -np begins a program's own options for the MPD of 4.0 (mpiexec <g-options> <l-options>
    # <program>; Cambridge paper, appendix A: mpirun -ppn $ppn -np $np).
    total_last=True,
    # mpiexec.hydra of Intel MPI 2021.
    introduction=Introduction(r"Intel\(R\) MPI Library for "),
    bootstraps=(
        Bootstrap(
            "Cambridge white paper (2011), Appendix A (I_MPI_MPD_RSH); Intel MPI 4.0 starts "
            "through MPD daemons",
            pbs.SCHEDULERS,
            Range((4,), HYDRA),
            {"I_MPI_MPD_RSH": f"$PWD/{pbs.REMOTE_SHELL}"},
            pbs.SCRIPTS,
        ),
        Bootstrap(
            "Intel MPI Developer Reference, 'Hydra Environment Variables' "
            "(I_MPI_HYDRA_BOOTSTRAP, I_MPI_HYDRA_BOOTSTRAP_EXEC)",
            pbs.SCHEDULERS,
            Range(HYDRA),
            {
                "I_MPI_HYDRA_BOOTSTRAP": "rsh",
                "I_MPI_HYDRA_BOOTSTRAP_EXEC": f"$PWD/{pbs.REMOTE_SHELL}",
            },
            pbs.SCRIPTS,
        ),
    ),
    private=("I_MPI_HYDRA_", "I_MPI_JOB_", "I_MPI_MPD_"),
    identity=RankNames(rank=("PMI_RANK",), size=("PMI_SIZE",), local_rank=("MPI_LOCALRANKID",)),
    settings=("PMI_RANK", "PMI_SIZE"),
    note="Always masks: I_MPI_PIN_PROCESSOR_LIST is ignored if a domain is inherited, and with "
    "a CPU outside the job's cpuset 2021.18's hydra_pmi_proxy spins forever, where a mask "
    "ends with 'unable to bind process'. Masks need their 0x (without, 2021.18 prints an "
    "error and pins by default). Both variables are in 4.0.1 too (Cambridge paper, 3.4).",
)

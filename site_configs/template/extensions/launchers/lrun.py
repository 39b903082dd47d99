"""lrun of LLNL: a wrapper of jsrun with a placement of its own."""

from __future__ import annotations

from reframe_tests.harness.launchers.model import Binding, Launcher, RankNames, Request
from reframe_tests.harness.vocabulary import NotMeasured


def _count(request: Request) -> Binding:
    return Binding(options=(f"-N{request.nodes}", f"-T{request.ppn}"))


def _unbound(request: Request) -> Binding:
    return _count(request).adding("--nolbind", env=request.unbinding)


def _explicit(request: Request) -> Binding:
    raise NotMeasured(
        "lrun places ranks by itself (mpibind) and has no words for a list of cores; use "
        "launcher jsrun for those"
    )


LAUNCHER = Launcher(
    name="lrun",
    title="lrun",
    manual="LLNL, 'Slurm srun versus IBM CSM jsrun', Simple Job Step Launch on CORAL systems "
    "(-T, -N, --nolbind; no blank between an option and its value)",
    # ReFrame's launcher of that name parts options and values by blanks.
    site=("lrun",),
    program=("lrun",),
    count=_count,
    unbound=_unbound,
    explicit=_explicit,
    total=(),
    pmi_extra="lrun_pmi",
    # As for jsrun, which it starts.
    pmi_words={"pmix": ()},
    identity=RankNames(
        rank=("PMIX_RANK", "JSM_NAMESPACE_RANK", "OMPI_COMM_WORLD_RANK"),
        size=("JSM_NAMESPACE_SIZE", "OMPI_COMM_WORLD_SIZE"),
        local_rank=("JSM_NAMESPACE_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK"),
    ),
    settings=("JSM_NAMESPACE_", "PMIX_RANK"),
    untested="it comes with LLNL's systems only",
)

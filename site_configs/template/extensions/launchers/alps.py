"""aprun of Cray's ALPS (XT to XC), which HPE's PALS has as well, under the same options."""

from __future__ import annotations

from reframe_tests.harness.launchers.model import Binding, Launcher, RankNames, Request


def _count(request: Request) -> Binding:
    return Binding(options=("-N", str(request.ppn)))


def _unbound(request: Request) -> Binding:
    return _count(request).adding("-cc", "none", env=request.unbinding)


def _explicit(request: Request) -> Binding:
    listed = ":".join(",".join(map(str, cpus)) for cpus in request.ranks)
    # Without -j 0 the second hardware thread of a core is none of the node's CPUs.
    return _count(request).adding("-j", "0", "-cc", listed, env=request.unbinding)


LAUNCHER = Launcher(
    name="alps",
    title="ALPS",
    manual="aprun(1), -n, -N, -j, -cc cpu_list (lists of CPUs parted by colons, one per PE of a "
    "node) and -cc none; Cray S-2496, 'Running Applications', 2.1",
    # ReFrame's launcher of that name gives the counts, too; here they are the condition's.
    site=("alps",),
    program=("aprun",),
    count=_count,
    unbound=_unbound,
    explicit=_explicit,
    total=("-n", "{ranks}"),
    pmi_extra="alps_pmi",
    pmi_words={"cray_shasta": ()},
    private=("ALPS_",),
    identity=RankNames(
        rank=("PMI_RANK", "ALPS_APP_PE"), size=("PMI_SIZE",), local_rank=("PMI_LOCAL_RANK",)
    ),
    settings=("ALPS_APP_PE", "PMI_RANK", "PMI_SIZE"),
    untested="it comes with Cray systems only",
    note="The whole environment of the login node is handed on, and the working directory must "
    "be on a file system of the compute nodes.",
)

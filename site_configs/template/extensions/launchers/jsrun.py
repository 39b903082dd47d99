"""jsrun of IBM's Job Step Manager (LSF on Summit, Sierra and
their like): one resource set for each node.
"""

from __future__ import annotations

from reframe_tests.harness.launchers.model import Binding, Launcher, RankNames, Request
from reframe_tests.harness.vocabulary import NotMeasured

#: Explicit resource file, in the directory jsrun is started in.
RESOURCES = "resources.erf"


def _count(request: Request) -> Binding:
    words = (
        f"--nrs={request.nodes}",
        "--rs_per_host=1",
        f"--tasks_per_rs={request.ppn}",
        "--cpu_per_rs=ALL_CPUS",
    )
    return Binding(options=words)


def _unbound(request: Request) -> Binding:
    return _count(request).adding("--bind=none", env=request.unbinding)


def _explicit(request: Request) -> Binding:
    """The file says everything, and excludes the options that count."""
    topology = request.placement.topology
    if topology is None:
        raise NotMeasured(
            "jsrun counts CPUs in hwloc's order, and the placement comes without its topology"
        )
    slots = [
        ",".join(map(str, sorted(topology.logical[cpu] for cpu in cpus))) for cpus in request.ranks
    ]
    lines = [
        f"rank: {host * request.ppn + rank}: {{ host: {host + 1}; cpu: {{{listed}}} }}\n"
        for host in range(request.nodes)
        for rank, listed in enumerate(slots)
    ]
    text = "".join(("cpu_index_using: logical\n", "overlapping_rs: error\n", *lines))
    return Binding(request.unbinding, (f"--erf_input={RESOURCES}",), {RESOURCES: text})


LAUNCHER = Launcher(
    name="jsrun",
    title="jsrun",
    manual="jsrun(1) and 'Explicit Resource File (ERF) format' of IBM Job Step Manager 10; OLCF "
    "Summit user guide, 'Job Launcher (jsrun)', --nrs, --rs_per_host, --tasks_per_rs, "
    "--cpu_per_rs, --bind (packed:1 unless said)",
    site=("jsrun",),
    program=("jsrun",),
    count=_count,
    unbound=_unbound,
    explicit=_explicit,
    total=(),
    pmi_extra="jsrun_pmi",
    # JSM starts each task as a client of its PMIx server (jsrun(1), Description).
    pmi_words={"pmix": ()},
    private=("JSM_JSRUN_",),
    identity=RankNames(
        rank=("PMIX_RANK", "JSM_NAMESPACE_RANK", "OMPI_COMM_WORLD_RANK"),
        size=("JSM_NAMESPACE_SIZE", "OMPI_COMM_WORLD_SIZE"),
        local_rank=("JSM_NAMESPACE_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK"),
    ),
    settings=("JSM_NAMESPACE_", "PMIX_RANK"),
    untested="it comes with IBM's Job Step Manager only",
    note="host is the number of a node in the allocation, from 1 on: 0 is the launch node. cpu "
    "is a hardware thread by hwloc's logical number: with physical ones RADICAL-Pilot had "
    "'error in ptssup_mkcltsock_afunix()'.",
)

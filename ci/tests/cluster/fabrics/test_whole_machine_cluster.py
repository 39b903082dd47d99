"""All idle nodes of a real Slurm in one job, counted when it is
made; too few of them fail with the reason.
"""

import pytest

import live_cluster
from mpibench.store import dataset
from mpibench.store.store import Store

pytestmark = pytest.mark.usefixtures("mpich")
OPTIONS = [
    "-n",
    "WholeMachine%fabric=eth1g%.*%ppn=1%",
    "-P",
    "nodes=all",
    "-p",
    "mpich-wheels",
    "--system=minicluster:eth1g",
]


def test_collectives_on_all_idle_nodes(cluster, visible):
    done = live_cluster.run(cluster, visible / "all", *OPTIONS, files=["collectives.py"])
    (case,) = done.measured
    assert (done.status, case.result, case.evidence) == (0, "pass", "proven"), case.reason
    assert " %nodes=all %ppn=1 " in case.name
    assert (case.nodes, case.condition["nodes_symbol"]) == (2, "all")
    assert case.proof is not None and [rank["host"] for rank in case.proof.ranks] == ["c1", "c2"]
    found = {(sample.benchmark, sample.variant, sample.ranks) for sample in case.samples}
    assert found == {(name, "nodes=2", 2) for name in ("Barrier", "Allreduce", "Alltoall")}
    barrier = [sample for sample in case.samples if sample.benchmark == "Barrier"]
    values = {sample.quantity: sample.values[0] for sample in barrier}
    percentiles = [values[f"latency_p{part}_us"] for part in (50, 90, 99)]
    assert percentiles[0] > 0 and percentiles == sorted(percentiles)

    exported = visible / "dataset"
    dataset.export(done.folder / "results.db", exported)
    assert Store(exported).cases("minicluster").collect()["nodes"].to_list() == [0], (
        "one history, however many"
    )

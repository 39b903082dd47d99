"""What ``mpibench cluster status`` says of a cluster, to people and to programs."""

from __future__ import annotations

import json

import pytest

from mpibench import cli
from mpibench.cluster import lifecycle
from mpibench.cluster.lifecycle import ClusterStatus, LinkStatus, NodeStatus

ILL = ClusterStatus(
    1,
    "",
    ["layout spread; process 7, files in /run/mpibench-cluster"],
    [
        NodeStatus("mc-head", True, "controller", []),
        NodeStatus("c1", True, "idle", ["slurmd"]),
        NodeStatus("c2", False, "no answer from slurmctld", []),
    ],
    [LinkStatus("c1", "eth1g", "up", "1Gbit"), LinkStatus("c1", "eth40g", "down", "unshaped")],
    ["link-down c1 eth40g"],
)
WELL = ClusterStatus(0, "", ["layout spread"], [NodeStatus("c1", True, "idle", [])], [LinkStatus("c1", "eth1g", "up", "1Gbit")])


def test_what_is_wrong_is_a_line_each() -> None:
    assert list(ILL.lines()) == [
        "layout spread; process 7, files in /run/mpibench-cluster",
        "mc-head  alive  controller",
        "c1       alive  idle",
        "c1       slurmd does not run",
        "c2       dead   no answer from slurmctld",
        "c1       eth1g    up    1Gbit",
        "c1       eth40g   down  unshaped",
        "fault in force: link-down c1 eth40g",
    ]
    assert list(WELL.lines())[-1] == "no fault in force"
    assert list(ClusterStatus(3, "the cluster is not up").lines()) == ["the cluster is not up"]


@pytest.mark.parametrize("found", [ILL, WELL, ClusterStatus(3, "the cluster is not up")])
def test_programs_get_the_same(
    found: ClusterStatus, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(lifecycle, "look", lambda: found)
    assert cli.main(["cluster", "status", "--json"]) == found.status
    said = json.loads(capsys.readouterr().out)
    assert (said["healthy"], said["why"]) == (found.status == 0, found.why)
    assert [(row["node"], row["alive"], row["slurm"], row["not_running"]) for row in said["nodes"]] == list(found.nodes)
    assert [tuple(row.values()) for row in said["links"]] == list(found.links) and said["faults"] == list(found.faults)
    assert cli.main(["cluster", "status"]) == found.status
    assert capsys.readouterr().out.splitlines() == list(found.lines())

"""What ``mpibench cluster status`` says of a cluster, to people and to programs."""

from __future__ import annotations

import json

import pytest

from mpibench import cli
from mpibench.cluster import lifecycle
from mpibench.cluster.lifecycle import ClusterStatus

ILL = ClusterStatus(
    1,
    "",
    ["layout spread; process 7, files in /run/mpibench-cluster"],
    [
        {"node": "mc-head", "alive": True, "slurm": "controller", "not_running": []},
        {"node": "c1", "alive": True, "slurm": "idle", "not_running": ["slurmd"]},
        {"node": "c2", "alive": False, "slurm": "no answer from slurmctld", "not_running": []},
    ],
    [
        {"node": "c1", "fabric": "eth1g", "state": "up", "rate": "1Gbit"},
        {"node": "c1", "fabric": "eth40g", "state": "down", "rate": "unshaped"},
    ],
    ["link-down c1 eth40g"],
)
WELL = ClusterStatus(0, "", ["layout spread"], [{"node": "c1", "alive": True, "slurm": "idle", "not_running": []}])


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
    assert (said["nodes"], said["links"], said["faults"]) == (list(found.nodes), list(found.links), list(found.faults))
    assert cli.main(["cluster", "status"]) == found.status
    assert capsys.readouterr().out.splitlines() == list(found.lines())

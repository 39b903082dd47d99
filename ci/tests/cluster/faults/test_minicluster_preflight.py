"""Preflight through Slurm and ReFrame: every idle node answers once, and what is odd is named with its node."""

from __future__ import annotations

import re
from pathlib import Path

import cluster_reframe
from fault_box import Box
from live_cluster import LiveCluster, wait_for
from mpibench.cluster import plan

ONLY = ("-n", "NodePreflight", "--system=minicluster:eth1g")


def test_every_idle_node_answers_and_one_with_another_mtu_is_named(cluster: LiveCluster, visible: Path) -> None:
    well = cluster_reframe.run(cluster, visible / "well", *ONLY, files=["preflight.py"])
    (case,) = well.measured
    assert (well.status, case.result, case.evidence) == (0, "pass", "proven"), case.reason
    assert (case.stack, case.group, case.nodes, case.ppn) == ("builtin", "preflight", 2, 1)
    assert case.proof is not None
    rows = [row for row in case.proof.kernel if not isinstance(row, str)]
    assert [row["node"] for row in rows] == ["c1", "c2"]
    assert all(row["mtu_bytes of eth1g"] == 1500 and row["state of eth1g"] == "up" and row["kernel"] for row in rows)

    cluster.on("c2", "ip", "link", "set", "eth1g", "mtu", "1400")
    try:
        odd = cluster_reframe.run(cluster, visible / "odd", *ONLY, files=["preflight.py"])
    finally:
        cluster.on("c2", "ip", "link", "set", "eth1g", "mtu", "1500")
    (case,) = odd.measured
    assert (odd.status, case.result, case.evidence) == (1, "fail", "contradicted"), case.reason
    assert case.reason.startswith("sanity error: mtu_bytes of eth1g is 1400 on c2; the site says 1500 for eth1g: "), case.reason


def test_an_address_that_two_nodes_have_is_named(cluster: LiveCluster, visible: Path) -> None:
    cluster.good("fault", "same-address", "c2", "eth1g")
    try:
        odd = cluster_reframe.run(cluster, visible / "twice", *ONLY, files=["preflight.py"])
    finally:
        cluster.good("fault", "clear")
    (case,) = odd.measured
    assert (odd.status, case.result, case.evidence) == (1, "fail", "contradicted"), case.reason
    assert re.match(r"sanity error: addresses of eth1g is 10\.61\.\d+\.1 on c1, c2; each node must have", case.reason), (
        case.reason
    )
    well = cluster_reframe.run(cluster, visible / "cleared", *ONLY, files=["preflight.py"])
    assert well.status == 0, well.output


def test_a_job_that_others_keep_from_starting_is_given_up(cluster: LiveCluster, visible: Path) -> None:
    """Its nodes were idle when they were counted; somebody else has them now."""
    held = cluster("exec", "--", "sbatch", "--parsable", "--partition=eth1g", "-N2", "--exclusive", "--wrap=sleep 600")
    assert held.returncode == 0, held.stderr
    try:
        wanted = ("-S", "node_count=2", "-S", "max_pending_time=3s")
        done = cluster_reframe.run(cluster, visible / "held", *ONLY, *wanted, files=["preflight.py"])
    finally:
        cluster("exec", "--", "scancel", held.stdout.strip())
    (case,) = done.measured
    assert (done.status, case.result) == (1, "fail"), done.output
    assert case.reason.startswith("sanity error: the job never started (state CANCELLED"), case.reason


def test_a_drained_node_is_named_and_fails_where_the_site_misses_it(cluster: LiveCluster, visible: Path) -> None:
    box = Box(cluster, visible, ())
    box.amend('by_name["eth1g"]["extras"]["nodes_in_service"] = ["c[12]"]')
    there = {"RFM_CONFIG_FILES": str(box.top / "site_configs" / "settings.py")}
    cluster.good("exec", "--", "scontrol", "update", "nodename=c2", "state=drain", "reason=bad DIMM")
    try:
        noted = cluster_reframe.run(cluster, visible / "noted", *ONLY, files=["preflight.py"])
        missed = cluster_reframe.run(cluster, visible / "missed", *ONLY, files=["preflight.py"], environ=there)
    finally:
        cluster.good("exec", "--", "scontrol", "update", "nodename=c2", "state=resume")
    (case,) = noted.measured
    assert (noted.status, case.result, case.evidence, case.nodes) == (0, "pass", "proven", 1), case.reason
    assert case.proof is not None
    assert "not looked at because they are out of service: c2 (drain+idle: bad DIMM)" in case.proof.notes, case.proof.notes
    (case,) = missed.measured
    assert (missed.status, case.result, case.evidence) == (1, "fail", "contradicted"), case.reason
    assert "not looked at though they must be in service: c2 (drain+idle: bad DIMM)" in case.reason


def test_a_node_that_is_reserved_for_others_fails_where_the_site_misses_it(cluster: LiveCluster, visible: Path) -> None:
    """ReFrame does not choose it, and knows nothing of it further on."""
    box = Box(cluster, visible, ())
    box.amend('by_name["eth1g"]["extras"]["nodes_in_service"] = ["*"]')
    there = {"RFM_CONFIG_FILES": str(box.top / "site_configs" / "settings.py")}
    words = ("reservationname=repair", "starttime=now", "duration=60", "users=root", "flags=maint", "nodes=c2")
    cluster.good("exec", "--", "scontrol", "create", "reservation", *words)
    try:
        assert wait_for(lambda: "RESERVED" in cluster.on(plan.HEAD, "scontrol", "show", "node", "c2"))
        missed = cluster_reframe.run(cluster, visible / "missed", *ONLY, files=["preflight.py"], environ=there)
    finally:
        cluster.good("exec", "--", "scontrol", "delete", "reservationname=repair")
    (case,) = missed.measured
    assert (missed.status, case.result) == (1, "fail"), case.reason
    assert "not looked at though they must be in service: c2 (" in case.reason and "reserved" in case.reason, case.reason
    assert wait_for(lambda: "RESERVED" not in cluster.on(plan.HEAD, "scontrol", "show", "node", "c2"))

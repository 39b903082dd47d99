"""Preflight through Slurm and ReFrame: every idle node answers
once, and what is odd is named with its node.
"""

import re

import live_cluster
from live_cluster import Box

ONLY = ("-n", "NodePreflight", "--system=minicluster:eth1g")


def preflight(cluster, folder, *more, **how):
    """Exit status and the case."""
    done = live_cluster.run(cluster, folder, *ONLY, *more, files=["preflight.py"], **how)
    (case,) = done.measured
    assert case.result == ("fail" if done.status else "pass"), done.output
    return done.status, case


def test_every_idle_node_answers_and_one_with_another_mtu_and_anothers_address_is_named(
    cluster, visible
):
    status, case = preflight(cluster, visible / "well")
    assert (status, case.evidence) == (0, "proven"), case.reason
    assert (case.stack, case.group, case.nodes, case.ppn) == ("builtin", "preflight", 2, 1)
    rows = [row for row in case.proof.kernel if not isinstance(row, str)]
    assert [row["node"] for row in rows] == ["c1", "c2"]
    for row in rows:
        assert (row["mtu_bytes of eth1g"], row["state of eth1g"]) == (1500, "up") and row["kernel"]
    cluster.good("fault", "mtu", "c2", "eth1g")
    cluster.good("fault", "same-address", "c2", "eth1g")
    status, case = preflight(cluster, visible / "odd")
    assert (status, case.evidence) == (1, "contradicted"), case.reason
    assert re.search(r"mtu_bytes of eth1g is 1400 on c2; the site says 1500", case.reason)
    assert re.search(r"addresses of eth1g is 10\.61\.\d+\.1 on c1, c2", case.reason), case.reason


def test_a_job_that_others_keep_from_starting_is_given_up(cluster, visible):
    """Its nodes were idle when they were counted; somebody else has them now."""
    words = ["sbatch", "--parsable", "--partition=eth1g", "-N2", "--exclusive", "--wrap"]
    held = cluster.good("exec", "--", *words, "sleep 600").strip()
    try:
        wanted = ("-S", "node_count=2", "-S", "max_pending_time=3s")
        status, case = preflight(cluster, visible / "held", *wanted)
    finally:
        cluster("exec", "--", "scancel", held)
    assert status == 1 and "the job never started (state CANCELLED" in case.reason, case.reason


def test_a_drained_node_is_named_and_fails_where_the_site_misses_it(cluster, visible):
    box = Box(cluster, visible, ())
    box.amend('by_name["eth1g"]["extras"]["nodes_in_service"] = ["c[12]"]')
    there = {"RFM_CONFIG_FILES": str(box.top / "site_configs" / "settings.py")}
    update = ("exec", "--", "scontrol", "update", "nodename=c2")
    cluster.good(*update, "state=drain", "reason=bad DIMM")
    try:
        noted = preflight(cluster, visible / "noted")
        missed = preflight(cluster, visible / "missed", environ=there)
    finally:
        cluster.good(*update, "state=resume")
    status, case = noted
    assert (status, case.evidence, case.nodes) == (0, "proven", 1), case.reason
    said = "not checked, because they are out of service: c2 (drain+idle: bad DIMM)"
    assert said in case.proof.notes
    status, case = missed
    assert (status, case.evidence) == (1, "contradicted"), case.reason
    assert "not checked, although they must be in service: c2 (drain+idle: bad DIMM)" in case.reason

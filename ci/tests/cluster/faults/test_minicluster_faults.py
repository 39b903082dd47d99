"""Every fault through Slurm and ReFrame: what the suite says of it,
and that the session's other cases stay proven.

Each session measures with one rank on each of two nodes, one case per fabric; the case whose fabric
is not touched is the healthy control. A fault is in force from the start or strikes while ranks are
running.
"""

import re

import pytest
import yaml

from live_cluster import end_of
from mpibench_cluster import faults, state
from programs import wait_for

STACK = "mpich-wheels"
CASES = "ImbPointToPoint%fabric=eth.*%nodes=2%ppn=1%pinning=default"
#: Seconds a launch is given where one will hang; a healthy one needs 2 s on
#: a quiet machine, a whole curve on eth40g 4 s.
LIMIT_S = 30
#: Repeats of a case that is struck: enough to be still at it when the fault comes.
REPEATS = 6


@pytest.fixture
def box(box, monkeypatch):
    """The cluster sees to it that whatever a test breaks heals."""
    box.keep_partitions("eth1g", "eth10g", "eth40g")
    # Faults that must strike at a moment are made from here,
    # without the start of a command in between.
    monkeypatch.setenv(state.RUNTIME_VARIABLE, str(box.cluster.runtime))
    return box


def said(case):
    """Why a case failed, which ReFrame printed and the database keeps,
    both in its own words and in our proof.
    """
    assert case["result"] == "fail"
    proof = case["proof"]
    assert proof["verdict"] != "proven"
    assert all(sentence in case["fail_reason"] for sentence in proof["sentences"])
    return " ".join(proof["sentences"])


def expect_control(case, repeats):
    """The control passed, with proof and every repeat of every metric."""
    assert (case["result"], case["proof"]["verdict"]) == ("pass", "proven"), case["fail_reason"]
    assert case["samples"]
    assert all(
        len(sample["values"]) == repeats and None not in sample["values"]
        for sample in case["samples"]
    )


def ranks_on(node):
    return faults.ranks_on(state.running().nodes[node])


def strike(box, partition, fault, *, row=262144, **what):
    """Wait until a case of the partition has printed the row of this size
    and has ranks on c2, then break something.
    """

    def measuring():
        printed = any(
            f" {row} " in path.read_text(errors="replace")
            for path in box.files(partition, "pair.*.out")
        )
        return printed and bool(ranks_on("c2"))

    assert wait_for(measuring), f"no case ever ran on {partition}"
    faults.make(fault, **what)


def heal():
    faults.clear(lambda text: None)


def reported(box, partition):
    """Whether the case's job has come to its end: Slurm no longer has a job in the partition."""
    words = ("squeue", "--noheader", "--states=R,CG,PD", "-p", partition, "-o", "%i %T")
    return lambda: "RUNNING" not in box.cluster.ask(*words)


def test_a_link_down_and_a_full_disk_fail_their_own_case_and_no_other(box):
    disk = box.stage / "minicluster" / "eth10g"
    disk.mkdir(parents=True)
    faults.make("link-down", node="c2", fabric="eth1g")
    faults.make("full-disk", path=str(disk), free_kib=32)
    status, output = box.run("-S", "repeats=2", "-S", f"limit_s={LIMIT_S}", names=CASES)
    assert status == 1, output
    cases = box.cases()
    text = said(cases[f"eth1g {STACK}"])
    assert re.search(r"pair(, repeat [12] of 2)?: ended with exit status", text)
    assert "c2: UCX WARN network device 'eth1g' is not available" in text
    text = said(cases[f"eth10g {STACK}"])
    assert f"cannot write to the stage directory {disk}" in text
    assert "No space left on device" in text
    expect_control(cases[f"eth40g {STACK}"], repeats=2)


def test_a_link_that_goes_down_and_a_stopped_rank_end_by_the_tests_own_limit(box):
    # Whole curves: when the row of 1 KiB has been printed, seconds
    # of larger messages are still to come.
    options = ("-S", "repeats=2", "-S", f"limit_s={LIMIT_S}", "--exec-policy=serial")
    session = box.begin(*options, names=CASES.replace("eth.*", "eth1(0|)g"), level="nightly")
    strike(box, "eth1g", "link-down", row=1024, node="c2", fabric="eth1g")
    assert wait_for(reported(box, "eth1g"))
    heal()
    strike(box, "eth10g", "stop-rank", row=1024, node="c2")
    assert wait_for(reported(box, "eth10g"))
    heal()
    status, output = end_of(session)
    assert status == 1, output
    cases = box.cases()
    for partition in ("eth1g", "eth10g"):
        text = said(cases[f"{partition} {STACK}"])
        assert f"timed out after {LIMIT_S} s, the test's limit_s; its last line was: " in text
        assert "rank 0 on c1 and rank 1 on c2 never called MPI_Finalize" in text
        assert "repeat 2 of 2: not started, because pair.1 timed out" in text
        assert cases[f"{partition} {STACK}"]["proof"]["verdict"] == "missing"


@pytest.mark.parametrize(
    "fault", ["kill-node", pytest.param("kill-slurmd", marks=pytest.mark.whole)]
)
def test_a_lost_node_is_named_and_what_was_measured_before_stays(box, fault):
    box.keep_partitions("eth40g", "eth1g", "eth10g")
    session = box.begin("-S", f"repeats={REPEATS}", "--exec-policy=serial", names=CASES)
    strike(box, "eth1g", fault, node="c2")
    status, output = end_of(session)
    assert status == 1, output
    cases = box.cases()
    expect_control(cases[f"eth40g {STACK}"], REPEATS)
    text = said(cases[f"eth1g {STACK}"])
    # With slurmd dead, the next launch fails, or the job is lost first.
    lost = "on c1, c2: ended in state NODE_FAIL: a node of it died or lost its daemon." in text
    assert lost or (fault == "kill-slurmd" and "ended with exit status" in text and "c2" in text), (
        text
    )
    # The next case does not wait for the node for ever.
    after = cases[f"eth10g {STACK}"]
    assert after["result"] == "fail"
    assert "c2" in after["fail_reason"]
    if lost:
        assert (
            "job cancelled because it was blocked due to reason: ReqNodeNotAvail"
            in after["fail_reason"]
        )


def learned(partition, bandwidth_mb_per_s):
    """A references.yaml with one reference, PingPong at 1 MiB, to
    be kept within half, and its origin.
    """
    keys = [f"minicluster:{partition}", STACK, partition, 2, 1, "default"]
    content = {"PingPong.bandwidth.0001048576": [bandwidth_mb_per_s, -0.5, None, "MB/s"]}
    origin = {"session": "abc", "date": "2026-11-01", "n": 5, "spread": 0.1}
    origin = dict.fromkeys(content, origin)
    for key in reversed(keys):
        content = {key: content}
        origin = {key: origin}
    index = ["$partition", "$environ", "fabric", "nodes", "ranks_per_node", "pinning"]
    return yaml.safe_dump(
        {
            "ImbPointToPoint": {"$index": index, **content},
            "provenance": {"ImbPointToPoint": origin},
        }
    )


def test_a_slow_link_misses_its_line_rate_and_a_lossy_one_what_was_learned_of_it(box):
    references = box.top / "site_configs" / "minicluster" / "references.yaml"
    references.write_text(learned("eth10g", 800))
    faults.make("slow-link", fabric="eth1g", fraction=0.25)
    faults.make("police", fabric="eth10g", fraction=0.1)
    status, output = box.run("-S", "repeats=1", names=CASES)
    assert status == 1, output
    cases = box.cases()
    for partition, layer, metric, most in (
        ("eth1g", "physics", "PingPong.line_rate_fraction.0004194304", 0.9415 / 4),
        ("eth10g", "learned", "PingPong.bandwidth.0001048576", 1176.9 / 10),
    ):
        case = cases[f"{partition} {STACK}"]
        # All was as asked for and is proven; what was reached is too little.
        assert (case["result"], case["fail_phase"]) == ("fail", "performance")
        assert case["proof"]["verdict"] == "proven"
        [value] = [
            gate["value"]
            for gate in case["gates"]
            if (gate["layer"], gate["metric"], gate["outcome"]) == (layer, metric, "fail")
        ]
        assert 0 < value < most * 1.1 and f"{metric}=" in case["fail_reason"]
    expect_control(cases[f"eth40g {STACK}"], repeats=1)


def test_a_clock_that_jumped_is_named(box):
    """One that is behind: the other is ahead."""
    faults.make("clock-jump", node="c1", seconds=-100)
    status, output = box.run("-S", "repeats=1", names=CASES, system="minicluster:eth40g")
    assert status == 1, output
    [case] = box.cases().values()
    found = re.search(r"the clocks of c2 and c1 disagree by (\d+) s \(c2 is ahead\)", said(case))
    assert found and int(found[1]) == pytest.approx(100, abs=20)
    assert case["proof"]["verdict"] == "contradicted"
    assert case["samples"], "the numbers are kept, marked"

"""References from history: what is learned, what is not, what
is kept, and what the diff would do.
"""

from functools import partial
from pathlib import Path

import pytest
import yaml

from dataset_here import HERE, write_session, write_sessions
from mpibench.judge import expected, rebaseline
from mpibench.store.store import Store, StoredNight
from reframe_tests.harness.sites import references
from refusals import refused_as
from synthetic_verdicts import by

ALL = "20260101:now"
#: Sessions of one test that gives both metrics: a reference is kept for
#: what its test gives, and for nothing else.
write = partial(
    write_sessions,
    benchmarks={"PingPong": "latency_us", "PingPing": "bandwidth_mb_per_s"},
    noise=0.01,
)


#: What the site says before anything is learned.
REFERENCES = Path("site_configs/testbed/references.yaml")


def keep(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def sides(diff):
    """What a diff of one hunk is made from, and what it makes of it."""
    lines = diff.splitlines(keepends=True)[3:]
    return ["".join(line[1:] for line in lines if line[0] in kept) for kept in (" -", " +")]


def learned(text="# ours\n{}\n"):
    keep(REFERENCES, text)
    return rebaseline.propose(Store(HERE), ALL, root=HERE)


def entries(tree):
    """Of the one condition that was measured."""
    for key in ("ImbPointToPoint", "testbed:node", "openmpi-spack", "eth1g", 2, 1, "bunch"):
        tree = tree[key]
    return tree


def test_the_diff_says_what_past_sessions_would_have_done():
    write(6)
    proposal = learned()
    assert sides(proposal.diff()) == [REFERENCES.read_text(), proposal.after]
    write([1.3] * 3, first=6)
    again = learned(proposal.after)
    assert again.effect["failed_before"].to_list() == [0] * 6 + [21] * 3
    assert again.effect["failed_after"].sum() < 21  # the slow sessions are part of the history now


def test_nothing_is_learned_from_too_few_failed_or_oversubscribed_jobs():
    write(8, condition={"oversubscribed": "64 ranks on 2 cores"})
    with refused_as("bad-option", match="8 cases not used: oversubscribed"):
        learned()
    write(4, first=8)
    write(3, first=12, evidence="contradicted")
    write(3, first=22, result="fail")
    with refused_as("nothing-measured", match="no metric has 5 jobs"):
        learned()
    with refused_as("configuration-unusable"):
        learned("ImbPointToPoint: {x: [")


def test_what_often_takes_twice_as_long_gets_no_reference():
    """A bound of 100 % would be refused as a percentage, and would hold nothing."""
    write([by(2.5, size=8)] * 2 + [1.0] * 6)
    proposal = learned()
    metrics = entries(yaml.safe_load(proposal.after))
    assert "PingPong.latency.0000000008" not in metrics
    assert "PingPing.bandwidth.0000000008" in metrics
    assert (proposal.learned, proposal.refused) == (20, 1)


def test_references_that_cannot_be_read_are_not_proposed_anew():
    """A link to nothing, as of a file system that is not mounted;
    from none, all entries would be new.
    """
    write(1)
    REFERENCES.parent.mkdir(parents=True)
    REFERENCES.symlink_to("/not/mounted/here")
    with refused_as("file-unreadable", match=r"references\.yaml cannot be read"):
        rebaseline.propose(Store(HERE), ALL, root=HERE)


STACKS = ("a-spack", "b-spack")
PLACES = [{"group": "p2p", "fabric": "eth1g"}, {"group": "p2p", "fabric": "shm"}]


def night(number, stacks=STACKS, run="nightly", **more):
    return write_session(
        number, labels={"run": run}, stacks=stacks, sizes=(8,), where=PLACES, **more
    )


def propose_expected(selector=ALL):
    return rebaseline.propose_expected(Store(HERE), selector, root=HERE)


def complete(session):
    night = StoredNight(Store(HERE), "testbed", session)
    return expected.judge(night, root=HERE)


#: What the site says must be there.
EXPECTED = expected.path_of("testbed", Path())


def test_what_is_proven_is_named_once_and_compactly():
    night(0)
    last = night(1)
    proposal = propose_expected()
    assert (proposal.added, proposal.retired) == (8, 0)
    entry = {
        "partition": "node",
        "stack": ["a-spack", "b-spack"],
        "fabric": ["eth1g", "shm"],
        "group": "p2p",
        "benchmark": ["PingPong", "Uniband"],
    }
    assert yaml.safe_load(proposal.after) == {"runs": {"nightly": {"expected": [entry]}}}
    keep(EXPECTED, proposal.after)
    assert propose_expected().diff(Path()) == ""
    answer = complete(last)
    assert answer.complete and answer.expected == 8


def test_what_is_gone_is_a_line_that_waits_for_its_reason():
    night(0)
    night(1, run="smoke")
    last = night(2, stacks=STACKS[:1])
    proposal = propose_expected(last)
    [line] = yaml.safe_load(proposal.after)["retired"]
    assert (line["run"], line["stack"], line["reason"]) == ("nightly", "b-spack", "")
    keep(EXPECTED, proposal.after)
    with refused_as("configuration-unusable"):
        expected.load_file("testbed", HERE)
    keep(EXPECTED, proposal.after.replace("reason: ''", "reason: replaced by c"))
    assert complete(last).complete
    assert propose_expected(last).retired == 0


def test_a_benchmark_that_is_gone_is_retired_alone():
    night(0)
    last = night(1, benchmarks={"PingPong": "latency_us"})
    lines = yaml.safe_load(propose_expected(last).after)["retired"]
    assert {(line["stack"], line["fabric"], tuple(line["benchmark"])) for line in lines} == {
        (stack, place["fabric"], ("Uniband",)) for stack in STACKS for place in PLACES
    }


def test_references_are_medians_with_bounds_and_origin_and_hand_set_ones_stay():
    write(8)
    proposal = learned()
    assert (proposal.learned, proposal.kept, proposal.refused) == (21, 0, 0)
    assert proposal.after.startswith("# ours\n")
    assert proposal.effect["failed_after"].sum() == 0
    tree = yaml.safe_load(proposal.after)
    references.check_file("x", tree)
    value, lower, upper, unit = entries(tree)["PingPong.latency.0000000008"]
    assert (value, lower, unit) == (pytest.approx(5.008, rel=0.02), None, "us")
    assert upper >= 0.05  # never inside the margin
    value, lower, upper, unit = entries(tree)["PingPing.bandwidth.0004194304"]
    assert (upper, unit) == (None, "MB/s") and lower <= -0.03
    origin = entries(tree["provenance"])["PingPong.latency.0000000008"]
    assert (origin["n"], str(origin["date"])) == (8, "2026-01-12")
    own = [1.0, None, 0.1, "us"]
    entries(tree)["PingPong.latency.0000000008"] = own
    origin["session"] = "hand"
    proposal = learned(yaml.safe_dump(tree))
    assert proposal.kept == 1
    assert entries(yaml.safe_load(proposal.after))["PingPong.latency.0000000008"] == own

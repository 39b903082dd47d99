"""What a night makes of a session of preflight: problems, notes,
and nodes that nothing is measured on.
"""

import pytest

from mpibench.night import preflight, settings
from mpibench.store.sessions import Case, Session
from reframe_tests.harness.samples import read_evidence
from refusals import refused_as


def case(result="pass", nodes=8, sentences=(), **entry):
    proof = {"verdict": "contradicted" if sentences else "proven", "sentences": list(sentences)}
    whole = {"result": result, "partition": "batch", "system": "s", "condition": {}, **entry}
    return Case("u", 0, whole, {"nodes": nodes}, (), read_evidence(proof, "test"), ())


def odd(*nodes, note=False):
    return {"fact": "kernel", "note": note, "values": [{"value": "a", "nodes": list(nodes)}]}


def judge(*cases, exclude=True):
    return preflight.judge(Session({}, cases), exclude=exclude)


def failed(*sentences, nodes=8, **entry):
    return case("fail", nodes, sentences or ("x",), **entry)


LATE = "sanity error: the job never started (state CANCELLED): it waited"


def test_odd_nodes_are_named_and_left_out_by_their_names_in_the_scheduler():
    rows = [odd("n7.cluster"), odd("n7.cluster", "n3"), odd("n1", note=True)]
    assert judge(case(odd_nodes=rows[2:])) == preflight.PreflightAnswer()
    night = failed("kernel is odd.", odd_nodes=rows)
    found = judge(night)
    assert found.problems == ["preflight of batch: kernel is odd"]
    assert found.notes == ["preflight of batch: nothing is measured on n7.cluster, n3"]
    assert judge(night, exclude=False).options == []
    for kept_out, excluded in (("", "n7.cluster,n3"), ("n9", "n9,n7.cluster,n3")):
        found.kept_out = kept_out.split()
        last = f"--job-option=exclude={excluded}"
        assert found.options == [last], "of several Slurm takes the last"


def test_nodes_that_did_not_answer_are_left_out():
    """Two of the five that were asked; where half or more are odd or silent, nothing is
    known that would speak for the others.
    """
    silent = judge(failed(nodes=4, silent_nodes=["n4"], odd_nodes=[odd("n1")]))
    assert silent.excluded == ["n4", "n1"]
    assert judge(failed(nodes=1, silent_nodes=["n2", "n3"])).excluded == []
    found = judge(failed(nodes=2, odd_nodes=[odd("n1")]))
    assert found.excluded == []
    assert "no node is left out: 1 of 2 differ or did not answer" in found.notes[0]


def test_what_was_not_looked_at_is_no_success():
    none = "preflight: no node was checked: "
    skipped = case("skip", skip_reason="no idle node")
    late = case("fail", fail_reason=LATE, never_started=True)
    lost = Case("u", 0, {"result": "pass", "partition": "batch", "condition": {}}, {}, (), None, ())
    for cases, said in (
        ([], f"{none}the session has no case; PREFLIGHT=no measures without"),
        ([case("abort")], "preflight of batch: failed without a reason"),
        ([lost], "preflight of batch: failed without a reason"),
        ([skipped, skipped], f"{none}see the notes; PREFLIGHT=no measures without"),
        ([late, skipped], f"{none}see the notes; PREFLIGHT=no measures without"),
    ):
        assert judge(*cases).problems == [said]
    waited = judge(case(), late)
    assert waited.problems == []
    assert waited.notes == [
        "preflight of batch: not checked: the job never started (state CANCELLED): it waited"
    ]
    assert judge(skipped).notes == ["preflight of batch: not checked: no idle node"]


@pytest.mark.parametrize("rows", ["none", [3], [{"values": [{}]}]])
def test_what_is_stored_otherwise_leaves_no_node_out(rows):
    found = judge(failed(odd_nodes=rows))
    assert found.excluded == [] and len(found.problems) == 1
    assert judge(case(out_of_service=rows, not_idle=rows)) == preflight.PreflightAnswer()


def test_options_and_words():
    """By default nodes are looked at where there is a way to."""
    words = ["-t", "x", "--system=a:b", "-J", "qos=debug"]
    assert settings.places(words) == ["--system=a:b", "--job-option=qos=debug"]
    with refused_as("bad-option", match=r"PREFLIGHT= is not one of no, yes, exclude\."):
        preflight.choice("")
    found = [preflight.choice(None, level) for level in ("acceptance", "smoke")]
    assert found == [preflight.DEFAULT, preflight.NO]
    assert preflight.choice("yes", "smoke") == preflight.YES


GONE = [
    {"node": "n3", "states": "drain+idle", "reason": "bad DIMM", "missed": False},
    {"node": "n7", "states": "down*", "reason": "", "missed": True},
]


def test_nodes_out_of_service_are_named_and_those_the_site_misses_make_the_night_red():
    """Once, and never cut off behind other sentences; those that others had are counted."""
    missed = "preflight of batch: not checked, although they must be in service: n7 (down*)"
    found = judge(case(out_of_service=GONE, not_idle={"allocated": 3, "drain+idle": 1}))
    assert found.problems == [missed]
    notes = "".join(found.notes)
    assert "they are out of service: n3 (drain+idle: bad DIMM)" in notes
    assert "4 nodes were not idle and not checked: 3 allocated, 1 drain+idle" in notes
    assert judge(case(out_of_service=GONE[:1], not_idle={})).problems == []
    once = judge(failed(missed.partition(": ")[2], out_of_service=GONE))
    assert once.problems == [missed] and once.excluded == []
    assert missed in judge(case("fail", fail_reason=LATE, out_of_service=GONE), case()).problems
    many = judge(failed(*map(str, range(12)), out_of_service=GONE)).problems
    assert many[-1] == missed and many[-2].startswith("preflight of batch: and 7 more")

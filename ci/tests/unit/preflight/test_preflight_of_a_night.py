"""What a night makes of a session of preflight: problems, notes, and nodes that nothing is measured on."""

from __future__ import annotations

from typing import Any

import pytest

from mpibench.night import preflight, settings
from mpibench.store.sessions import Case, Session
from reframe_tests.harness.samples import read_evidence
from refusals import refused_as


def case(result: str = "pass", nodes: int = 8, sentences: tuple[str, ...] = (), **entry: Any) -> Case:
    proof = {"verdict": "contradicted" if sentences else "proven", "sentences": list(sentences)}
    whole = {"result": result, "partition": "batch", "system": "s", "condition": {}, **entry}
    return Case("u", 0, whole, {"nodes": nodes}, (), read_evidence(proof, "test"), ())


def odd(*nodes: str, note: bool = False) -> dict[str, Any]:
    return {"fact": "kernel", "note": note, "values": [{"value": "a", "nodes": list(nodes)}]}


def judge(*cases: Case, exclude: bool = True) -> preflight.PreflightAnswer:
    return preflight.judge(Session({}, cases), exclude=exclude)


def test_nodes_that_are_well_say_nothing() -> None:
    assert judge(case(odd_nodes=[odd("n1", note=True)])) == preflight.PreflightAnswer()


def test_odd_nodes_are_named_and_left_out_by_their_names_in_the_scheduler() -> None:
    failed = case(
        "fail", sentences=("kernel is odd.",), odd_nodes=[odd("n7.cluster"), odd("n7.cluster", "n3"), odd("n1", note=True)]
    )
    found = judge(failed)
    assert found.problems == ["preflight of batch: kernel is odd"]
    assert found.excluded == ["n7.cluster", "n3"] and found.options == ["--job-option=exclude=n7.cluster,n3"]
    assert found.notes == ["preflight of batch: nothing is measured on n7.cluster, n3"]
    assert judge(failed, exclude=False).options == []
    found.kept_out = ["n9"]
    assert found.options == ["--job-option=exclude=n9,n7.cluster,n3"], "of several Slurm takes the last"


@pytest.mark.parametrize(("option", "nodes"), [("exclude=n1,n2", "n1,n2"), ("--exclude=n1", "n1"), ("-x n1", "n1")])
def test_nodes_that_are_left_out_already_are_known(option: str, nodes: str) -> None:
    found = preflight._EXCLUDE_OPTION.fullmatch(option)
    assert found and found[1] == nodes
    assert preflight._EXCLUDE_OPTION.fullmatch("--exclusive") is None


def test_where_half_of_the_nodes_are_odd_none_is_left_out() -> None:
    found = judge(case("fail", 2, ("x",), odd_nodes=[odd("n1")]))
    assert found.excluded == [] and found.notes == [
        "preflight of batch: no node is left out, because 1 of 2 are odd or did not answer"
    ]


def test_nodes_that_did_not_answer_are_left_out() -> None:
    """Two of the five that were asked; of two of three nothing is known that would speak for the third."""
    silent = judge(case("fail", 4, ("x",), silent_nodes=["n4"], odd_nodes=[odd("n1")]))
    assert silent.excluded == ["n4", "n1"]
    assert judge(case("fail", 1, ("x",), silent_nodes=["n2", "n3"])).excluded == []


def test_what_was_not_looked_at_is_no_success() -> None:
    assert judge().problems == ["preflight: no node was looked at: the session has no case; PREFLIGHT=no measures without"]
    assert judge(case("abort")).problems == ["preflight of batch: failed without a reason"]
    lost = Case("u", 0, {"result": "pass", "partition": "batch", "condition": {}}, {}, (), None, ())
    assert judge(lost).problems == ["preflight of batch: failed without a reason"], "passed in ReFrame, and no proof was stored"
    none = ["preflight: no node was looked at: see the notes; PREFLIGHT=no measures without"]
    assert judge(case("skip", skip_reason="no idle node"), case("skip", skip_reason="x")).problems == none
    late = case("fail", fail_reason="sanity error: the job never started (state CANCELLED): it waited")
    assert judge(late).problems == none and judge(late, case("skip", skip_reason="x")).problems == none
    waited = judge(case(), case("fail", fail_reason="sanity error: the job never started (state CANCELLED): it waited"))
    assert waited.problems == []
    assert waited.notes == ["preflight of batch: not looked at: the job never started (state CANCELLED): it waited"]
    assert judge(case("skip", skip_reason="no idle node")).notes == ["preflight of batch: not looked at: no idle node"]


def test_many_sentences_are_cut_and_counted() -> None:
    found = judge(case("fail", sentences=tuple(f"{number}" for number in range(12))))
    assert len(found.problems) == preflight.FEW + 1 and found.problems[-1].startswith("preflight of batch: and 7 more")


@pytest.mark.parametrize("rows", ["none", [3], [{"values": 3}], [{"values": [{}]}]])
def test_what_is_stored_otherwise_leaves_no_node_out(rows: Any) -> None:
    found = judge(case("fail", sentences=("x",), odd_nodes=rows))
    assert found.excluded == [] and len(found.problems) == 1


def test_options_and_words() -> None:
    assert settings.places(["-t", "x", "--system=a:b", "-J", "qos=debug", "--job-option=account=p"]) == [
        "--system=a:b",
        "--job-option=qos=debug",
        "--job-option=account=p",
    ]
    assert [preflight.choice(word) for word in preflight.CHOICES] == list(preflight.CHOICES)
    with refused_as("preflight-choice", match=r"PREFLIGHT= is none of no, yes, exclude\."):
        preflight.choice("")


def test_nodes_that_others_had_are_counted() -> None:
    found = judge(case(not_idle={"allocated": 3, "drain+idle": 1}))
    assert found.problems == []
    assert found.notes == ["preflight of batch: 4 nodes were not idle and not looked at: 3 allocated, 1 drain+idle"]
    assert judge(case(not_idle={"down": 1})).notes == ["preflight of batch: 1 node was not idle and not looked at: 1 down"]
    assert judge(case(not_idle={})).notes == judge(case(not_idle="many")).notes == judge(case(not_idle={"a": None})).notes == []


GONE = [
    {"node": "n3", "states": "drain+idle", "reason": "bad DIMM", "missed": False},
    {"node": "n7", "states": "down*", "reason": "", "missed": True},
]


def test_nodes_out_of_service_are_named_and_those_the_site_misses_make_the_night_red() -> None:
    found = judge(case(out_of_service=GONE))
    assert found.notes == ["preflight of batch: not looked at because they are out of service: n3 (drain+idle: bad DIMM)"]
    assert found.problems == ["preflight of batch: not looked at though they must be in service: n7 (down*)"]
    assert judge(case(out_of_service=GONE[:1])).problems == []
    assert judge(case(out_of_service="n3")) == judge(case(out_of_service=[{"node": 3}])) == preflight.PreflightAnswer()


def test_a_missed_node_is_said_once_and_never_cut_off() -> None:
    said = "not looked at though they must be in service: n7 (down*)"
    once = judge(case("fail", sentences=(said,), out_of_service=GONE))
    assert once.problems == [f"preflight of batch: {said}"] and once.excluded == []
    late = case("fail", fail_reason="sanity error: the job never started (state CANCELLED): it waited", out_of_service=GONE)
    assert f"preflight of batch: {said}" in judge(late, case()).problems
    many = case("fail", sentences=tuple("123456"), out_of_service=GONE)
    assert f"preflight of batch: {said}" in judge(many).problems


def test_by_default_nodes_are_looked_at_where_there_is_a_way_to() -> None:
    assert preflight.choice(None) == preflight.choice(None, "acceptance") == preflight.DEFAULT
    assert preflight.choice(None, "smoke") == preflight.NO
    assert preflight.choice("yes", "smoke") == preflight.YES

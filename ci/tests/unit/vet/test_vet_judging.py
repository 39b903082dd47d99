"""Which nodes pass, which fail and which are undecided, by what a session says of them."""

from dataclasses import replace

import pytest

import synthetic_fabric as synthetic
from mpibench.locate import answers
from mpibench.store.sessions import Case
from mpibench_vet import judging, leaves, reasons, vet_page
from mpibench_vet.judging import PartitionLevel
from mpibench_vet.reasons import FACTS, MEMORY, PAIRS, NodeReason, Why
from mpibench_vet.vetting import VetAnswer
from reframe_tests.harness.instruments.pairs.pair_values import BANDWIDTH, LATENCY
from reframe_tests.harness.samples import read_evidence

LINE_RATE = PartitionLevel(12.5, 0.8, "line rate")


def judged(measured, level=LINE_RATE, unproven=""):
    """The reason of each node that has one; the nodes of the map were asked for."""
    rows = judging.of_map(
        answers.judge_map(measured), measured, measured.nodes, PAIRS, level, unproven
    )
    assert all(row.text and row.fails is (row.remedy == "") for row in rows)
    return {row.node: row.why for row in rows}


def preflight(seen, *odd_nodes):
    kernel = [{"node": node} for node in seen]
    proof = {"verdict": "proven", "ranks": [], "devices": [], "kernel": kernel}
    entry = {"odd_nodes": odd_nodes}
    return Case("s:0:0", 0, entry, {"group": "preflight"}, (), read_evidence(proof, "here"), ())


def odd(fact, **values):
    seen = [{"value": value, "nodes": nodes} for value, nodes in values.items()]
    said = dict.fromkeys(("instance", "wanted", "why", "fix"), "x")
    return {"fact": fact, "values": seen, "note": False, **said}


def test_a_node_without_a_reason_passes_and_one_that_fails_is_told_by_what_fails():
    rows = [
        NodeReason("b", FACTS, Why.SILENT, {}),
        NodeReason("b", PAIRS, Why.MAP_FLAGS, {"said": "slow"}),
        NodeReason("c", MEMORY, Why.NOT_MEASURED, {}),
    ]
    verdicts = reasons.fold(["a", "b", "c"], rows)
    assert [one.verdict for one in verdicts] == [reasons.PASS, reasons.FAIL, reasons.UNDECIDED]
    assert verdicts[1].reasons[0].why is Why.MAP_FLAGS
    parts = (verdicts[:1], verdicts, verdicts[2:], [])
    assert list(map(reasons.status, parts)) == [0, 1, 3, 3]


def test_who_stopped_answering_fails_not():
    """Slurm lost another node, say, and ended the job."""
    found = judged(synthetic.pair_map(silent={"c3": "left no record"}))
    assert found == {"c3": Why.STOPPED} and Why.STOPPED.remedy


def test_a_slow_uplink_drains_nobody():
    slow = synthetic.across([synthetic.names(8)[:4], synthetic.names(8)[4:]], 4)
    found = judged(synthetic.pair_map(slow=slow, oversubscription=1))
    assert found
    assert set(found.values()) == {Why.PATH_FLAGGED}


def test_what_is_slow_on_all_nodes_alike_is_held_against_the_level():
    everywhere = synthetic.pair_map(slow=lambda quantity, *_: 4.0 if quantity == BANDWIDTH else 1.0)
    level = judging.learned_level([synthetic.pair_map(), everywhere, synthetic.pair_map(seed=2)])
    assert level.mb_per_s == pytest.approx(synthetic.PAIR_MB_PER_S, rel=0.1)
    for held in (LINE_RATE, level):
        assert judged(everywhere, held) == dict.fromkeys(everywhere.nodes, Why.ALL_BELOW_LEVEL)
    assert judging.learned_level([]) is None


def test_two_nodes_are_decided_by_a_level_alone():
    two = synthetic.pair_map(2, leaf=None)
    assert judged(two) == {}
    assert set(judged(two, None).values()) == {Why.UNCLEAR_MAP}


def test_what_a_map_lacks_leaves_its_node_undecided():
    """Its proof, a node, and what a node received: one that only sent was not measured."""
    measured = synthetic.pair_map()
    assert judged(measured) == {}
    assert set(judged(measured, unproven="it has no proof").values()) == {Why.NOT_MEASURED}
    found = answers.judge_map(measured)
    sent = replace(measured, values=tuple(row for row in measured.values if row.target != "c2"))
    for seen, nodes, lacks in (
        (measured, [*measured.nodes, "c9"], "c9"),
        (sent, measured.nodes, "c2"),
    ):
        rows = judging.of_map(found, seen, nodes, PAIRS, LINE_RATE)
        assert [(row.node, row.why) for row in rows] == [(lacks, Why.NOT_MEASURED)]


@pytest.mark.parametrize(
    ("rates", "found"),
    [
        ({"c": [8, 9, 9], "d": [5, 5, 6]}, {"d": Why.SLOW_MEMORY}),
        ({"c": [8, 9, 9], "d": [5, 9, 5]}, {}),
        ({"c": [5, 5, 5], "d": [4, 4, 4]}, {"c": Why.SLOW_MEMORY, "d": Why.SLOW_MEMORY}),
        ({"c": []}, {"c": Why.NOT_MEASURED}),
        ({"c": [9, 9]}, {"c": Why.NOT_MEASURED}),
    ],
)
def test_memory_is_slow_where_all_runs_are_below_those_of_the_others(rates, found):
    whole = {"a": [9, 8, 9], "b": [9, 9, 8], **rates}
    rows = judging.of_memory(whole, {}, list(whole))
    assert {row.node: row.why for row in rows} == found
    assert all(row.text for row in rows)


def test_a_run_of_memory_that_went_wrong_is_no_pass():
    [few] = judging.of_memory({"a": [9, 8, 9], "b": [5, 5, 5]}, {}, ["a", "b"])
    assert (few.node, few.why) == ("b", Why.FEW_FOR_MEMORY)
    rates = {"a": [9.0, 8.0], "b": [9.0], "c": [9.0, 8.0]}
    wrong = {"b": "its sums are wrong"}
    for there in (rates, {"b": [9.0, 8.0]}):
        [found] = judging.of_memory(there, wrong, list(there))
        assert (found.node, found.why) == ("b", Why.NOT_MEASURED)
    # A run that all of them lack, as on a busy machine, says nothing of one.
    whole = {node: [9.0, 8.0] for node in rates}
    assert not judging.of_memory(whole, dict.fromkeys(rates, "no output"), list(rates))


def test_facts_name_the_odd_node_where_there_is_a_majority():
    nodes = ["a", "b", "c"]

    def found(row, seen):
        rows = judging.of_facts(preflight(seen, row), seen)
        return {one.node: one.why for one in rows}

    assert found(odd("kernel", old=["c"]), nodes) == {"c": Why.ODD_FACT}
    halves = odd("kernel", old=["a"], new=["b"])
    assert set(found(halves, nodes[:2]).values()) == {Why.NO_MAJORITY}
    address = odd("addresses", same=["a", "b"])
    assert found(address, nodes) == dict.fromkeys("ab", Why.SHARED_ADDRESS)
    [silent] = judging.of_facts(preflight(["a"]), ["a", "b"])
    assert (silent.node, silent.why) == ("b", Why.SILENT)
    assert {row.why for row in judging.of_facts(None, ["a", "b"])} == {Why.NOT_MEASURED}


@pytest.mark.parametrize("moved", ["", "c4"])
def test_a_node_listed_under_the_wrong_leaf_is_named(moved):
    """The map is that of a node below leaf2, and the description has it below leaf1."""
    near = {name: number // 6 for number, name in enumerate(synthetic.names(12))} | {moved: 1}

    def slow(quantity, source, target, round_):
        return 1.2 if quantity == LATENCY and near[source] != near[target] else 1.0

    measured = synthetic.pair_map(12, slow, leaf=6, noise=0.005)
    places = answers.judge_map(measured).places
    assert leaves.misplaced(measured, places) == ({moved: "leaf2"} if moved else {})
    assert leaves.misplaced(replace(measured, shared_cores="they share a core"), places) == {}
    # A node's three latencies to its own leaf may be the longest of seven by chance.
    small = synthetic.pair_map(8, synthetic.late("c4", 1.2, (LATENCY,)))
    assert leaves.misplaced(small, answers.judge_map(small).places) == {}


def test_the_lines_and_the_page_name_each_node_once_with_its_reason():
    measured = synthetic.pair_map(slow=synthetic.sends_slowly("c3", 4))
    found = answers.judge_map(measured)
    rows = judging.of_map(found, measured, measured.nodes, PAIRS, LINE_RATE)
    assert [(row.node, row.why) for row in rows] == [("c3", Why.MAP_FLAGS)]
    rows += judging.not_measured(["c1", "c2"], MEMORY, "no <compiler>")
    verdicts = reasons.fold(list(measured.nodes), rows)
    said = dict.fromkeys(("system", "partition", "fabric", "stack", "session"), "x")
    answer = VetAnswer(
        **said,
        seconds=12.0,
        status=reasons.status(verdicts),
        false_positives_per_run_at_most=found.rate,
        nodes=verdicts,
        notes=[],
        commands=["scontrol update nodename=c3"],
        applied=[],
    )
    first, failed, undecided, passed, *_ = answer.lines()
    assert "5 of 8 nodes pass, 1 fail, 2 undecided" in first
    assert failed.startswith("  FAIL c3: sends at ")
    assert undecided.startswith("  UNDECIDED c1, c2: ")
    assert passed == "  PASS c4, c5, c6, c7, c8"
    html = vet_page.page(answer, [found])
    assert "no &lt;compiler&gt;" in html
    assert html.count("sends at ") == 1

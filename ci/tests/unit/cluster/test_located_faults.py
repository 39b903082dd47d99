"""The series of faults: places by chance that stay the same, what
counts as named, and a file that was cut off.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mpibench.locate import judgement, maps
from mpibench.locate.findings import MapJudgement
from mpibench_cluster import faults, plan
from reframe_tests.harness.instruments.pairs.pair_values import PairMap
from refusals import refused_as
from studies import located_faults, peer_rules
from synthetic_pair_map import late, pair_map, sends_slowly

PLAN = plan.make(8, plan.DEFAULT_LAYOUT)


def answer_to(measured: PairMap) -> MapJudgement:
    places, _ = maps.places_of(measured.tree, measured.nodes)
    return judgement.judge(maps.prepare(measured)[0], places, {}, oversubscribed=False)


@pytest.mark.parametrize("kind", located_faults.FAULTS)
def test_each_fault_is_one_of_the_cluster_at_a_place_that_stays(kind: str) -> None:
    made = located_faults.draw(kind, 3, 1, PLAN)
    assert [one.what for one in made] == [one.what for one in located_faults.draw(kind, 3, 1, PLAN)]
    assert {one.name for one in made} <= set(faults.FAULTS)
    assert len({one.thing for one in made}) == len(made)
    places = {one.thing for run in range(40) for one in located_faults.draw(kind, run, 1, PLAN)}
    assert len(places) == (0 if kind == "healthy" else 2 if kind == "slow-uplink" else 8)


def test_what_counts_as_found_and_named() -> None:
    sends = located_faults.FAULTS["slow-send"][0]("c5")
    receives = located_faults.FAULTS["slow-receive"][0]("c5")
    other = located_faults.FAULTS["slow-send"][0]("c1")
    answer = answer_to(pair_map(8, sends_slowly("c5", 2.0)))
    scores = [located_faults.score(answer, made) for made in ([sends], [receives], [other], [])]
    assert [(one["found"], one["named"], one["innocents"]) for one in scores] == [
        (1, 1, []),
        (1, 0, []),
        (0, 0, ["node c5"]),
        (0, 0, ["node c5"]),
    ]


def test_two_faults_are_two_and_an_uplink_is_no_node() -> None:
    two = [
        make(node) for make, node in zip(located_faults.FAULTS["two"], ("c2", "c7"), strict=True)
    ]
    slow = sends_slowly("c2", 2.0)
    delayed = late("c7", 20.0)
    found = located_faults.score(
        answer_to(pair_map(8, lambda *pair: max(slow(*pair), delayed(*pair)))), two
    )
    assert (found["faults"], found["found"], found["named"], found["innocents"]) == (2, 2, 2, [])
    uplink = [located_faults.FAULTS["slow-uplink"][0]("leaf2")]
    found = located_faults.score(answer_to(pair_map(8, uplink=1.0)), uplink)
    assert (found["found"], found["named"], found["innocents"]) == (1, 1, [])


def test_a_line_that_was_cut_off_is_measured_again(tmp_path: Path) -> None:
    file = tmp_path / "runs.jsonl"
    row = {"fault": "healthy", "nodes": 8, "faults": 0, "found": 0, "named": 0, "innocents": []}
    row |= {"inconclusive": [], "seconds": 20.0, "load": 1.0}
    file.write_text(json.dumps(row) + '\n{"fault": "sl')
    assert [one["fault"] for one in located_faults.read(file)] == ["healthy"]
    (line,) = located_faults.table(located_faults.read(file))
    assert "1 runs: 0 innocents accused in 0 runs" in line
    file.write_text('{"fault"\n' + json.dumps(row) + "\n")
    with refused_as("tool-failed", match="line 1"):
        located_faults.read(file)


def test_other_rules_are_applied_to_the_maps_of_a_series(tmp_path: Path) -> None:
    """A node that sends slowly all know; of a node that is late
    ClusterKit's bound (2.1 times the least) knows nothing.
    """
    file = tmp_path / "runs.jsonl"
    rows = []
    for kind, run, slow in (
        ("slow-send", 1, sends_slowly),
        ("slow-send", 2, sends_slowly),
        ("delay", 1, late),
    ):
        (made,) = located_faults.draw(kind, run, 1, PLAN)
        measured = pair_map(8, slow(made.thing, 1.8), orders=4, seed=run, oversubscription=1.0)
        row = {"fault": kind, "nodes": 8, "run": run, "seed": 1}
        rows.append({**row, **located_faults.keep_map(located_faults.maps_of(file), row, measured)})
    # A run whose map was not measured, and those of a series of before, have none.
    file.write_text(
        "".join(
            f"{json.dumps(row)}\n"
            for row in [*rows, {"fault": "delay", "nodes": 8, "run": 2, "seed": 1}]
        )
    )
    lines = list(located_faults.peers(file))
    assert lines[0].endswith("2 runs: 2 of 2 faulty nodes named, 0 innocent nodes named in 0 runs")
    assert [line.split()[3] for line in lines] == ["locate", "ClusterKit", "LinkTest"] * 2
    assert ["1 of 1" in line for line in lines[3:]] == [True, False, True]
    (located_faults.maps_of(file) / rows[0]["map"]).write_text("{")
    with refused_as("tool-failed", match=r"8-1-slow-send-1\.json: the map of a run cannot be read"):
        list(located_faults.peers(file))


def test_an_uplink_is_no_node_and_nobody_below_it_is_faulty() -> None:
    for kind, place, faulty in (("slow-uplink", "leaf2", 0), ("slow-send", "c5", 1)):
        made = [located_faults.FAULTS[kind][0](place)]
        assert located_faults.score_nodes({"c5", "c6"}, made) == {
            "faults": faulty,
            "found": faulty,
            "innocents": 2 - faulty,
        }


def test_what_another_pass_measured_is_the_second_measurement_of_other_rules() -> None:
    """A pair that was slow once is a suspect of the first pass and nobody in the end."""
    once = pair_map(
        8, lambda quantity, source, target, round_: 3.0 if round_ == 1 else 1.0, orders=4
    )
    always = pair_map(8, sends_slowly("c3", 3.0), orders=4)
    assert peer_rules.on_map(once) == {"ClusterKit": set(), "LinkTest": set()}
    assert peer_rules.on_map(always) == {"ClusterKit": {"c3"}, "LinkTest": {"c3"}}

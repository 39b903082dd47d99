"""The series of faults: places by chance that stay the same, what counts as named, and a file that was cut off."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mpibench.cluster import faults, plan
from mpibench.locate import judgement, pair_maps
from mpibench.locate.judgement import Localisation
from reframe_tests.harness.pairs.pair_values import PairMap
from reframe_tests.harness.vocabulary import BadInput
from studies import located_faults
from synthetic_pair_map import late, pair_map, sends_slowly

PLAN = plan.make(8, plan.DEFAULT_LAYOUT)


def answer_to(measured: PairMap) -> Localisation:
    ready = pair_maps.prepare(measured)
    places, _ = pair_maps.places_of(measured.tree, measured.nodes)
    return judgement.judge(ready.parts, places, {}, oversubscribed=False)


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
    two = [make(node) for make, node in zip(located_faults.FAULTS["two"], ("c2", "c7"), strict=True)]
    slow, delayed = sends_slowly("c2", 2.0), late("c7", 20.0)
    found = located_faults.score(answer_to(pair_map(8, lambda *pair: max(slow(*pair), delayed(*pair)))), two)
    assert (found["faults"], found["found"], found["named"], found["innocents"]) == (2, 2, 2, [])
    uplink = [located_faults.FAULTS["slow-uplink"][0]("leaf2")]
    found = located_faults.score(answer_to(pair_map(8, uplink=1.0)), uplink)
    assert (found["found"], found["named"], found["innocents"]) == (1, 1, [])


def test_a_line_that_was_cut_off_is_measured_again(tmp_path: Path) -> None:
    file = tmp_path / "runs.jsonl"
    row = {"fault": "healthy", "nodes": 8, "faults": 0, "found": 0, "named": 0, "innocents": [], "inconclusive": []}
    file.write_text(json.dumps({**row, "seconds": 20.0, "load": 1.0}) + '\n{"fault": "sl')
    assert [one["fault"] for one in located_faults.read(file)] == ["healthy"]
    (line,) = located_faults.table(located_faults.read(file))
    assert "1 runs: 0 innocents accused in 0 runs" in line
    file.write_text('{"fault"\n' + json.dumps(row) + "\n")
    with pytest.raises(BadInput, match="line 1"):
        located_faults.read(file)

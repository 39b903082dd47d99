"""The stored record of a map: what is written is read, and what is wrong is one sentence."""

from __future__ import annotations

import json
from typing import Any

import pytest

from reframe_tests.harness.instruments.pairs.pair_values import BANDWIDTH, LATENCY, PairMap, PairValue, read_pair_map
from reframe_tests.harness.machine.switches import SLURM, Switch, SwitchTree
from reframe_tests.harness.vocabulary import BadInput

TREE = SwitchTree(SLURM, {"spine": Switch(), "leaf1": Switch("spine", ("c1", "c2")), "leaf2": Switch("spine", ("c3",))})
VALUES = (
    PairValue(1, 1, 1, "c1", "c2", LATENCY, 8, 1, 12.5, None),
    PairValue(1, 1, 2, "c2", "c1", BANDWIDTH, 1 << 20, 1, 11.7, True),
    PairValue(1, 2, 1, "c1", "c3", BANDWIDTH, 1 << 20, 1, None, False),
)
MAP = PairMap("all", 1, 3, ("c1", "c2", "c3"), {"c3": "did not answer in round 2"}, VALUES, TREE)


def stored(**changes: Any) -> dict[str, Any]:
    row: dict[str, Any] = json.loads(json.dumps(MAP.as_dict()))
    return {**row, **changes}


def test_what_is_written_is_read() -> None:
    assert read_pair_map(stored(), "case 1") == MAP
    assert read_pair_map(stored(tree=None), "case 1") == PairMap(**{**vars(MAP), "tree": None})
    assert read_pair_map(None, "case 1") is None
    assert read_pair_map({}, "case 1") is None


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"version": 2}, "newer mpibench"),
        ({"design": "some"}, "design"),
        ({"rows": 7}, "rows"),
        ({"rows": [[1, 2]]}, "rows"),
        ({"rows": [[1, 1, 1, 0, 9, 0, 8, 1, 2.0, None]]}, "out of range"),
        ({"rows": [[1, 1, 1, 0, 1, 0, 8, 1, 2.0, "yes"]]}, "rows"),
        ({"seed": -1}, "seed"),
        ({"tree": {"origin": "rumour", "switches": {}}}, "rumour"),
        ({"tree": {"origin": "slurm", "switches": {"a": {"parent": "b", "nodes": []}}}}, "not described"),
    ],
)
def test_what_is_wrong_is_said(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        read_pair_map(stored(**changes), "case 1")

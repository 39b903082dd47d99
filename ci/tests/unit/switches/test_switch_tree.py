"""Trees of switches: what they say of nodes, and what is no tree."""

from __future__ import annotations

import pytest

from reframe_tests.harness.machine.switches import SLURM, Switch, SwitchTree
from reframe_tests.harness.vocabulary import BadInput

TREE = SwitchTree(
    SLURM,
    {
        "top": Switch(),
        "s1": Switch("top"),
        "leaf1": Switch("s1", ("c1", "c2")),
        "leaf2": Switch("s1", ("c3",)),
        "leaf3": Switch("top", ("c4",)),
        "apart": Switch(None, ("c5",)),
    },
)


def test_paths_begin_at_the_top() -> None:
    assert TREE.path("c1") == ("top", "s1", "leaf1")
    assert TREE.path("c9") == ()
    assert TREE.leaf_of["c4"] == "leaf3"


def test_links_go_up_to_the_switch_above_both_and_down_again() -> None:
    assert TREE.edges("c1", "c2") == (("c1", "leaf1"), ("leaf1", "c2"))
    assert TREE.edges("c1", "c3") == (("c1", "leaf1"), ("leaf1", "s1"), ("s1", "leaf2"), ("leaf2", "c3"))
    assert TREE.edges("c4", "c1") == (("c4", "leaf3"), ("leaf3", "top"), ("top", "s1"), ("s1", "leaf1"), ("leaf1", "c1"))
    assert TREE.edges("c1", "c5") == TREE.edges("c1", "c9") == ()


def test_a_part_has_only_what_is_above_it() -> None:
    part = TREE.only(["c1", "c4", "c9"])
    assert dict(part.switches) == {
        "top": Switch(),
        "s1": Switch("top"),
        "leaf1": Switch("s1", ("c1",)),
        "leaf3": Switch("top", ("c4",)),
    }


@pytest.mark.parametrize(
    ("switches", "said"),
    [
        ({"a": Switch("b")}, "not described"),
        ({"a": Switch("b"), "b": Switch("a")}, "above itself"),
        ({"a": Switch(None, ("c1",)), "b": Switch(None, ("c1",))}, "hangs on two switches"),
    ],
)
def test_what_is_no_tree_is_refused(switches: dict[str, Switch], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        SwitchTree(SLURM, switches)

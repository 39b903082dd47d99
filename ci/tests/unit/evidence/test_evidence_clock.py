"""Clocks of the nodes, as the ranks saw them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reframe_tests.harness.evidence.checks import check_clocks
from synthetic_evidence import make_rank

BASE_NS = 1_795_000_000_000_000_000
RUN_NS = 2_000_000_000


def rank(number: int, at_init_s: float = 0, at_end_s: float = 0):
    return make_rank(
        number,
        f"c{number + 1}",
        init__realtime_ns=BASE_NS + int(at_init_s * 1e9),
        finalize__realtime_ns=BASE_NS + RUN_NS + int(at_end_s * 1e9),
    )


@pytest.mark.parametrize("late", [0, 5, 29])
def test_clocks_that_agree_say_nothing_even_if_ranks_are_late(late: float) -> None:
    assert check_clocks([rank(0), rank(1, late, late)]) == []
    assert check_clocks([rank(0), rank(1, 100, 0)][:1]) == []
    assert check_clocks([]) == []


@pytest.mark.parametrize(
    ("offset", "wanted"), [(100, "c2 and c1 disagree by 100 s (c2"), (-3600, "c1 and c2 disagree by 3600 s (c1")]
)
def test_clocks_that_disagree_are_named(offset: float, wanted: str) -> None:
    [sentence] = check_clocks([rank(0), rank(1, offset, offset)])
    assert wanted in sentence


def test_ranks_that_wait_for_each_other_at_one_end_only_are_no_wrong_clocks() -> None:
    assert check_clocks([rank(0), rank(1, 28, 0)]) == []


@pytest.mark.parametrize("jump", [3600, -3600])
def test_a_jump_during_the_run_names_its_node(jump: float) -> None:
    [sentence] = check_clocks([rank(0), rank(1, 0, jump)])
    assert f"the clock of c2 jumped by {jump:+d} s during the run" in sentence


def test_a_rank_that_never_finalised_is_not_asked() -> None:
    lost = replace(rank(1, 1000, 1000), finalize=None)
    assert check_clocks([rank(0), lost]) == []

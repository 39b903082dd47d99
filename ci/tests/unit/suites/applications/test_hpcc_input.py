"""``hpccinf.txt``: order of the matrix and grid of ranks, for each level and as asked for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalogue_launches import launches
from reframe_tests.harness.suites import catalogue, hpcc, options
from refusals import refused_as


def test_the_grid_is_nearest_to_a_square_and_has_all_ranks() -> None:
    for ranks, grid in {1: (1, 1), 2: (1, 2), 6: (2, 3), 7: (1, 7), 36: (6, 6)}.items():
        assert hpcc.find_grid(ranks) == grid


@given(st.integers(1, 4096), st.integers(1, 4096))
def test_the_matrix_takes_at_most_its_share_of_the_memory(ranks: int, mib: int) -> None:
    size = hpcc.find_size(ranks, mib)
    step = 2 * hpcc.BLOCK
    room = hpcc.MEMORY_SHARE * ranks * (mib << 20)
    assert size % step == 0
    assert 8 * size**2 <= room < 8 * (size + step) ** 2 or size == step


def test_hpccs_own_default_is_the_same_formula() -> None:
    """64 MiB a rank without an input file: the recorded run of two ranks took N = 3520."""
    assert hpcc.find_size(2, 64) == 3520


def asked(level: str, ranks: int = 2, **chosen: str) -> catalogue.Launch:
    options_of_group = options.of_group(catalogue.OPTIONS, "hpcc", chosen)
    (launch,) = launches("hpcc", ranks=ranks, level=level, chosen=options_of_group)
    assert launch.result == "hpccoutf.txt" and not launch.args
    return launch


@pytest.mark.parametrize(
    ("level", "chosen", "order"),
    [
        ("smoke", {}, "640"),
        ("nightly", {}, "2560"),
        ("acceptance", {}, "7200"),
        ("smoke", {"hpcc_mib_per_rank": "1024"}, "14560"),
    ],
)
def test_each_level_asks_for_more_and_the_memory_can_be_asked_for(level, chosen, order) -> None:
    launch = asked(level, ranks=6, **chosen)
    written = launch.files["hpccinf.txt"].splitlines()
    order = written[5].split()[0]
    assert {variant for item in launch.expected for variant in item.variants} == {"", f"N={order}"}
    assert [written[line].split()[0] for line in (7, 10, 11)] == ["80", "2", "3"]
    # Line 32 is ignored (hpcc's example says so), and three more follow for PTRANS.
    assert written[31].startswith("##### This line (no. 32)") and len(written) == 36


def test_a_memory_that_is_none_is_refused() -> None:
    with refused_as("bad-option", match="'much' is not a value of hpcc_mib_per_rank"):
        asked("smoke", hpcc_mib_per_rank="much")

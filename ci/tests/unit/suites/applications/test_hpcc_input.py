"""``hpccinf.txt``: order of the matrix and grid of ranks, for each level and as asked for."""

from __future__ import annotations

import pytest

from catalogue_launches import launches
from reframe_tests.harness.suites import catalogue, hpcc, options
from refusals import refused_as


@pytest.mark.parametrize(
    ("ranks", "grid"), {1: (1, 1), 2: (1, 2), 4: (2, 2), 6: (2, 3), 7: (1, 7), 12: (3, 4), 36: (6, 6)}.items()
)
def test_the_grid_is_nearest_to_a_square_and_has_all_ranks(ranks: int, grid: tuple[int, int]) -> None:
    assert hpcc.find_grid(ranks) == grid


@pytest.mark.parametrize("ranks", [1, 2, 3, 16, 128, 4096])
@pytest.mark.parametrize("mib", [1, 2, 64, 4096])
def test_the_matrix_takes_at_most_its_share_of_the_memory(ranks: int, mib: int) -> None:
    size, step = hpcc.find_size(ranks, mib), 2 * hpcc.BLOCK
    room = hpcc.MEMORY_SHARE * ranks * (mib << 20)
    assert size % step == 0
    assert 8 * size**2 <= room < 8 * (size + step) ** 2 or size == step


def test_hpccs_own_default_is_the_same_formula() -> None:
    """64 MiB a rank without an input file: the recorded run of two ranks took N = 3520."""
    assert hpcc.find_size(2, 64) == 3520


def lines(level: str, ranks: int = 2, **chosen: str) -> list[str]:
    asked = options.of_group(catalogue.OPTIONS, "hpcc", chosen)
    (launch,) = launches("hpcc", ranks=ranks, level=level, chosen=asked)
    assert launch.result == "hpccoutf.txt" and not launch.args
    return launch.files["hpccinf.txt"].splitlines()


def test_each_level_asks_for_more() -> None:
    found = [lines(level)[5].split() for level in ("smoke", "nightly", "acceptance")]
    assert found == [["640", "Ns"], ["2560", "Ns"], ["7200", "Ns"]]
    written = lines("smoke", ranks=6)
    assert (written[7].split()[0], written[10].split()[0], written[11].split()[0]) == ("80", "2", "3")
    # Line 32 is ignored (hpcc's example says so), and three more follow for PTRANS.
    assert written[31].startswith("##### This line (no. 32)") and len(written) == 36


def test_the_memory_can_be_asked_for() -> None:
    assert lines("smoke", hpcc_mib_per_rank="1024")[5].split() == ["14560", "Ns"]
    (launch,) = launches("hpcc", level="smoke", chosen={"hpcc_mib_per_rank": "1024"})
    assert {variant for item in launch.expected for variant in item.variants} == {"", "N=14560"}
    with refused_as(
        "suite-option-value", match="'much' is not a value of hpcc_mib_per_rank; there are level or a number of MiB"
    ):
        lines("smoke", hpcc_mib_per_rank="much")

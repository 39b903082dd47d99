"""``hpccinf.txt``: order of the matrix and grid of ranks, for each level and as asked for."""

import pytest

from reframe_tests.harness.suites import catalogue, options
from synthetic_stack import launches


@pytest.mark.parametrize(
    ("level", "chosen", "order"),
    [
        ("smoke", {}, "1120"),
        ("nightly", {}, "4480"),
        ("acceptance", {}, "12640"),
        ("smoke", {"hpcc_mib_per_rank": "1024"}, "25280"),
    ],
)
def test_each_level_asks_for_more_and_the_memory_can_be_asked_for(level, chosen, order):
    """80 % of 2, 32, 256 or as many MiB as asked for, of each of 6 ranks."""
    under = options.of_group(catalogue.OPTIONS, "hpcc", chosen)
    (launch,) = launches("hpcc", ranks=6, level=level, chosen=under)
    assert launch.result == "hpccoutf.txt" and not launch.args
    written = launch.files["hpccinf.txt"].splitlines()
    assert [written[line].split()[0] for line in (5, 7, 10, 11)] == [order, "80", "2", "3"]
    assert {variant for item in launch.expected for variant in item.variants} == {"", f"N={order}"}
    # Line 32 is ignored (hpcc's example says so), and three more follow for PTRANS.
    assert written[31].startswith("##### This line (no. 32)") and len(written) == 36

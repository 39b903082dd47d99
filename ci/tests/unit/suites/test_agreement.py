"""OSU over IMB: the ratio, its interval, and what is said of it."""

from random import Random

import pytest

from reframe_tests.harness.cases.results.derived import compare_suites, interval


def test_the_interval_holds_the_median_as_often_as_it_says():
    random = Random(2)
    for count in (6, 9):
        drawn = [interval([random.expovariate(1) for _ in range(count)]) for _ in range(4000)]
        held = sum(low <= 0.6931 <= high for low, high, _ in drawn) / len(drawn)
        assert held == pytest.approx(drawn[0][2], abs=0.015)


@pytest.mark.parametrize(
    ("osu", "imb", "verdict"),
    [
        ([117.1, 117.3, 117.2, 117.0, 117.4, 117.2], [117.2] * 6, "agree"),
        ([120.0, 121.0, 119.5, 120.5, 120.0, 120.2], [100.0] * 6, "differ"),
        # An interval from a third to three holds equality and says nothing.
        ([30.0, 100.0, 300.0, 90.0, 110.0, 120.0], [100.0] * 6, "inconclusive"),
        ([100.0] * 5, [100.0] * 5, "inconclusive"),
    ],
)
def test_what_is_said_of_two_suites(osu, imb, verdict):
    at = ("bandwidth_mb_per_s", 1 << 20)
    (found,) = compare_suites({("osu_bw", *at): osu, ("Uniband", *at): imb})
    assert found.verdict == verdict
    if verdict == "differ":
        assert found.sentence.startswith("osu_bw is 1.20")
        assert found.low < found.ratio < found.high

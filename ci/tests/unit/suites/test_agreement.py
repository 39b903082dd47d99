"""OSU over IMB: the ratio, its interval, and what is said of it."""

from __future__ import annotations

from random import Random

import pytest

from reframe_tests.harness.cases.results import derived
from reframe_tests.harness.cases.results.derived import compare_suites, interval
from reframe_tests.harness.suites import catalogue

OSU = ("osu_bw", "bandwidth_mb_per_s")
IMB = ("Uniband", "bandwidth_mb_per_s")


def of(osu, imb, size=1 << 20):
    return compare_suites({(*OSU, size): osu, (*IMB, size): imb})


@pytest.mark.parametrize(
    ("count", "low", "high", "level"),
    [
        # Binomial tables: 1 - 2 / 2^n for the whole range.
        (1, 0, 0, 0.0),
        (6, 0, 5, 0.96875),
        (9, 1, 7, 1 - 2 * 10 / 512),
    ],
)
def test_interval_of_the_median(count, low, high, level):
    values = [float(value) for value in range(count)]
    Random(1).shuffle(values)
    assert interval(values) == (low, high, pytest.approx(level))


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
        ([50.0], [100.0], "inconclusive"),
    ],
)
def test_what_is_said_of_two_suites(osu, imb, verdict):
    (found,) = of(osu, imb)
    assert found.verdict == verdict
    if verdict == "differ":
        assert found.sentence.startswith("osu_bw is 1.20")
        assert found.low < found.ratio < found.high


def test_ratios_are_of_the_same_repeat():
    """Noise that hits both suites in one repeat does not widen the interval."""
    (found,) = of([50.0, 100.0, 200.0, 80.0, 90.0, 100.0], [50.0, 100.0, 200.0, 80.0, 90.0, 100.0])
    assert found.high - found.low < 0.001


def test_printed_decimals_limit_what_can_be_said():
    """0.20 and 0.21 us may be the same time."""
    key = ("latency_us", 8)
    (found,) = compare_suites({("osu_latency", *key): [0.21] * 6, ("PingPong", *key): [0.20] * 6})
    assert found.low < 1 < found.high
    assert found.verdict == "inconclusive"
    (found,) = compare_suites({("osu_latency", *key): [0.24] * 6, ("PingPong", *key): [0.20] * 6})
    assert found.verdict == "differ"


def test_a_repeat_that_gave_nothing_is_left_out():
    (found,) = of([1.0, None, 1.0], [1.0, 1.0, None])
    assert found.repeats == 1
    assert of([None], [1.0]) == []
    assert compare_suites({(*OSU, 8): [1.0]}) == []


def test_the_pairs_are_measured_at_the_same_sizes():
    """Every pair, at every level; otherwise the test would compare nothing."""
    from catalogue_launches import launches

    for level in catalogue.LEVELS:
        sizes = {}
        for metric in catalogue.metrics(launches("cross_check", level=level)):
            sizes.setdefault((metric.benchmark, metric.quantity), []).append(metric.message_bytes)
        for first, second in derived.PAIRS:
            assert set(sizes[first]) == set(sizes[second]) - {0}
            assert {8, 1 << 20} <= set(sizes[first])
    with pytest.raises(catalogue.NotMeasured, match="one pair of ranks"):
        launches("cross_check", ranks=4)

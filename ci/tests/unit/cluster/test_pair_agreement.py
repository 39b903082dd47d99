"""A map and IMB on one pair: what is compared, and what was not measured is said."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mpibench.store.sessions import Session
from reframe_tests.harness.samples import Sample
from refusals import refused_as
from studies import pair_agreement
from synthetic_pair_map import MB_PER_S, US, pair_map, session_of


def session(*latencies: float | None) -> Session:
    """A map of two nodes, and PingPong at three sizes, of which
    the smallest and the largest count.
    """
    (case,) = session_of(pair_map(2, noise=0.001)).cases
    rows = (
        ("latency_us", 0, latencies),
        ("latency_us", 64, (1.0,)),
        ("bandwidth_mb_per_s", 1 << 20, (10.0, None, 12.0)),
    )
    samples = tuple(
        Sample("imb", "PingPong", "p2p", 2, 1, "", size, 10, quantity, tuple(values))
        for quantity, size, values in rows
    )
    other = replace(case, uuid="s:0:1", pair_map=None, samples=samples)
    return Session(
        {"uuid": "0123abcd-0000", "time_start_unix": 1.0, "time_elapsed": 60.0}, (case, other)
    )


def test_medians_of_both_are_held_against_each_other() -> None:
    found = pair_agreement.values_of(session(40.0, 60.0, 48.0))
    assert found["latency_us"] == {"map": pytest.approx(US, rel=0.02), "PingPong": 48.0}
    assert found["bandwidth_mb_per_s"] == {
        "map": pytest.approx(MB_PER_S, rel=0.02),
        "PingPong": 11.0,
    }
    latency, bandwidth = pair_agreement.table([found, found])
    assert latency.startswith("latency_us, 2 runs: map 50") and "one to the other 1.0" in latency
    assert "PingPong 11 (11 to 11)" in bandwidth


def test_what_one_did_not_measure_is_said() -> None:
    with refused_as("tool-failed", match="latency_us was not measured by both"):
        pair_agreement.values_of(session(None))

"""Guidelines judged: violations are found with their size, noise is
not called, and what cannot be judged is red.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from mpibench import cli
from mpibench.judge import policy as verdict_policy
from mpibench.judge.policy import Policy
from mpibench.store import dataset
from mpibench.store.store import Store
from mpibench_tune import guidelines
from recorded_guidelines import RECORDED, recorded_session
from reframe_tests.harness.suites import catalogue
from refusals import refused_as
from synthetic_guidelines import sample, samples, session_of

NAMES = [row.name for row in catalogue.rows("guidelines")]
SIZES = (16, 64, 256, 1024, 4096, 16384, 65536, 262144)
WORST = ("Allreduce-vs-Reduce-Bcast", 65536)


def noise(
    seed: int = 1, repeats: int = 6, spread: float = 0.05, centre: float = 0.8
) -> dict[tuple[str, int], list[float]]:
    """Ratios of every row, heavy-tailed, where nothing is violated."""
    rng = np.random.default_rng(seed)
    return {
        (name, size): list(centre * np.exp(spread * rng.standard_t(3, repeats)))
        for name in NAMES
        for size in SIZES
    }


def judge(
    ratios: dict[tuple[str, int], list[float]], policy: Policy | None = None
) -> guidelines.Findings:
    return guidelines.judge(session_of(samples(ratios)), policy or Policy())


def test_a_violation_is_found_with_its_size() -> None:
    """A wider margin calls less."""
    rng = np.random.default_rng(2)
    ratios = {**noise(), WORST: list(1.8 * np.exp(0.02 * rng.standard_normal(6)))}
    found = judge(ratios)
    (row,) = found.violations
    assert (row.guideline, row.message_bytes) == WORST
    assert 1.1 < row.low < row.ratio < row.high and row.low < 1.8 < row.high
    assert (row.call_us, row.mockup_us, row.repeats) == (pytest.approx(36, rel=0.05), 20.0, 6)
    assert found.counts[guidelines.HELD] > 200
    assert judge(ratios, Policy(guidelines_margin_percent=150)).violations == []


def test_noise_is_not_called() -> None:
    """At the bound itself, where a call is as likely as it can be with
    nothing violated: 1 of 100 sessions is aimed at.
    """
    called = [bool(judge(noise(seed, spread=0.2, centre=1.1)).violations) for seed in range(30)]
    assert sum(called) <= 3


def test_intervals_agree_with_what_is_said_of_them() -> None:
    rng = np.random.default_rng(3)
    centred = noise(spread=0.03, centre=1.1)
    found = judge(
        {key: list(np.exp(rng.uniform(-0.5, 0.5)) * np.array(centred[key])) for key in centred}
    )
    assert {row.outcome for row in found.rows} == set(guidelines.OUTCOMES)
    for row in found.rows:
        assert row.outcome != guidelines.VIOLATED or row.low > 1.1
        assert row.outcome != guidelines.HELD or row.high <= 1.1


def test_too_few_repeats_are_inconclusive() -> None:
    """Jobs of one condition are one sample."""
    few = noise(repeats=2, spread=0.001, centre=3.0)
    found = judge(few)
    assert found.counts[guidelines.INCONCLUSIVE] == len(found.rows) == len(few)
    both = guidelines.judge(session_of(samples(few), samples(few)), Policy())
    assert {row.repeats for row in both.rows} == {4} and both.violations


def test_what_cannot_be_judged_is_said() -> None:
    for session in (
        session_of((sample("PingPong", 8, "latency_us", [1.0]),)),
        session_of(samples(noise()), status="contradicted"),
    ):
        with refused_as("nothing-measured"):
            guidelines.judge(session, Policy())


@pytest.mark.parametrize(
    ("ratios", "refuse", "status"),
    [
        ({**noise(), WORST: [1.8, 1.81, 1.79, 1.8, 1.82, 1.8]}, False, 0),
        ({**noise(), WORST: [1.8, 1.81, 1.79, 1.8, 1.82, 1.8]}, True, 1),
        (noise(), True, 0),
        (noise(repeats=2), True, 3),
        ({}, True, cli.BAD_INPUT),
    ],
)
def test_exit_statuses(
    ratios,
    refuse: bool,
    status: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    measured = session_of(samples(ratios))
    dataset.export_session(measured, tmp_path)
    monkeypatch.setattr(Store, "session", lambda store, named: measured)
    monkeypatch.setattr(verdict_policy, "load", lambda system: Policy(guidelines_refuse=refuse))
    words = ["report", "--guidelines", "--session=0123", "--json", "--dataset-only", "--dataset"]
    assert cli.main([*words, str(tmp_path)]) == status
    if ratios:
        data = json.loads(capsys.readouterr().out)
        assert sum(data[outcome] for outcome in guidelines.OUTCOMES) == len(data["guidelines"])


def test_a_policy_may_set_margin_and_refusal(tmp_path: Path) -> None:
    folder = tmp_path / "site_configs" / "here"
    folder.mkdir(parents=True)
    (folder / "policy.yaml").write_text("guidelines_margin_percent: 25\nguidelines_refuse: true\n")
    found = verdict_policy.load("here", tmp_path)
    assert (found.guidelines_margin_percent, found.guidelines_refuse) == (25, True)


SLOW = "Bcast-vs-Scatter-Allgather"


@pytest.mark.parametrize("kind", ["forced", "default"])
def test_a_call_that_was_recorded_slow_is_named_at_each_size_and_what_uses_it_is_not_blamed(
    kind: str,
) -> None:
    """Open MPI was told to do a broadcast badly; without that none is named."""
    assert len(list(RECORDED.glob(f"{kind}*"))) == 4
    found = guidelines.judge(recorded_session(kind), Policy())
    assert len(found.rows) == 6 and {row.repeats for row in found.rows} == {4}
    outcome = guidelines.HELD if kind == "default" else guidelines.VIOLATED
    for row in found.rows:
        if row.guideline == SLOW and row.message_bytes >= 65536:
            assert row.outcome == outcome and (kind == "default" or row.ratio > 5)
        else:
            assert row.outcome != guidelines.VIOLATED

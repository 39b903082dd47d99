"""Guidelines judged: violations are found with their size, noise is
not called, and what cannot be judged is red.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from mpibench import cli
from mpibench.judge import policy as verdict_policy
from mpibench.judge.policy import Policy
from mpibench.pages import session as report
from mpibench.store import dataset
from mpibench.store.store import Store
from mpibench_tune import guidelines
from page_reader import Reader
from reframe_tests.harness.suites import catalogue
from synthetic_session import HOSTILE
from synthetic_tuning import samples, session_of

NAMES = [row.name for row in catalogue.rows("guidelines")]
SIZES = (16, 64, 256, 1024, 4096, 16384, 65536, 262144)
WORST = ("Allreduce-vs-Reduce-Bcast", 65536)
VIOLATED = {WORST: [1.8, 1.81, 1.79, 1.8, 1.82, 1.8]}


def noise(seed=1, repeats=6, spread=0.05, centre=0.8):
    """Ratios of every row, heavy-tailed, where nothing is violated."""
    rng = np.random.default_rng(seed)
    return {
        (name, size): list(centre * np.exp(spread * rng.standard_t(3, repeats)))
        for name in NAMES
        for size in SIZES
    }


def judge(ratios, policy=None):
    return guidelines.judge(session_of(samples(ratios)), policy or Policy())


def test_a_violation_is_found_with_its_size():
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


def test_noise_is_not_called():
    """At the bound itself, where a call is as likely as it can be with
    nothing violated: 1 of 100 sessions is aimed at.
    """
    called = [bool(judge(noise(seed, spread=0.2, centre=1.1)).violations) for seed in range(12)]
    assert sum(called) <= 1


@pytest.mark.parametrize(
    ("ratios", "refuse", "status"),
    [
        ({**noise(), **VIOLATED}, False, 0),
        ({**noise(), **VIOLATED}, True, 1),
        (noise(), True, 0),
        (noise(repeats=2), True, 3),
        ({}, True, cli.BAD_INPUT),
    ],
)
def test_exit_statuses(ratios, refuse, status, tmp_path, monkeypatch, capsys):
    measured = session_of(samples(ratios))
    dataset.export_session(measured, tmp_path)
    monkeypatch.setattr(Store, "session", lambda store, named: measured)
    monkeypatch.setattr(verdict_policy, "load", lambda system: Policy(guidelines_refuse=refuse))
    words = ["report", "--guidelines", "--session=0123", "--json", "--dataset-only", "--dataset"]
    assert cli.main([*words, str(tmp_path)]) == status
    if ratios:
        data = json.loads(capsys.readouterr().out)
        assert sum(data[outcome] for outcome in guidelines.OUTCOMES) == len(data["guidelines"])


def test_hostile_names_are_text_in_the_report():
    session = session_of(samples(VIOLATED), stack=HOSTILE)
    page = Reader(report.render(report.View(session, Path())))
    assert HOSTILE in page.text["guidelines"]
    assert not [tag for tag, _ in page.tags if tag in ("img", "iframe")]

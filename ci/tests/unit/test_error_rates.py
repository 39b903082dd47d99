"""``mpibench error-rates``: noise is read as it is, drawn jointly, and judged by the decision of ``accept``."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from mpibench import cli
from mpibench.error_rates import answer, draws, noise
from mpibench.verdicts import curve_tests
from mpibench.verdicts.policy import Policy
from reframe_tests.harness.sites.site import ROOT
from reframe_tests.harness.vocabulary import BadInput
from synthetic_verdicts import write_session

RECORDED = ROOT / "ci" / "tests" / "data" / "golden_noise" / "repeats.parquet"
POLICY = answer.with_margin(Policy(), 2)
KEYS = [
    *("fabric", "spread_percent", "units", "history_jobs", "candidate_jobs", "repeats", "sessions_refused_percent"),
    *("metrics_called_per_1000", "coverage_percent", "found_percent", "draws", "monte_carlo_error"),
]


def table(jobs: int = 24, repeats: int = 3, shared: float = 0.0, own: float = 0.01, seed: int = 1) -> pl.DataFrame:
    """Noise of two curves; ``shared`` is the spread of what all curves of a job have in common."""
    rng = np.random.default_rng(seed)
    common = shared * rng.standard_normal(jobs)
    rows = [
        {
            **{"fabric": "eth1g", "benchmark": benchmark, "quantity": quantity, "job": job, "repeat": repeat},
            **{"message_bytes": size, "value": 100 * np.exp(sign * (common[job] + own * rng.standard_normal()))},
        }
        for benchmark, quantity, sign in (("PingPong", "latency_us", 1), ("Uniband", "bandwidth_mb_per_s", -1))
        for size in (8, 4096, 1048576)
        for job in range(jobs)
        for repeat in range(repeats)
    ]
    return pl.DataFrame(rows)


def ask(*words: str, capsys: pytest.CaptureFixture[str]) -> list[dict]:
    assert cli.main(["error-rates", "--json", *words]) == 0
    return json.loads(capsys.readouterr().out)


def test_recorded_noise_is_read_whole() -> None:
    found = {trace.fabric: trace for trace in noise.read_file(RECORDED)}
    assert {name: (trace.jobs, trace.repeats, trace.metrics) for name, trace in found.items()} == {
        "shm": (80, 5, 48),
        "eth1g": (20, 5, 22),
    }
    assert found["shm"].scaled(0.01).spread == pytest.approx(0.01)


def test_jobs_stay_whole_and_worse_is_more(tmp_path: Path) -> None:
    table(shared=0.05, own=0.0005).write_csv(tmp_path / "noise.csv")
    (trace,) = noise.read_file(tmp_path / "noise.csv")
    one, two = trace.curves
    assert one.logs.shape == (3, 24, 3)
    assert np.corrcoef(one.logs[0, :, 0], two.logs[0, :, 0])[0, 1] > 0.99
    history, candidate = draws.draw(np.random.default_rng(2), trace, draws.Setting(None, 5, 2, 3), False)
    drawn = [np.concatenate(sides, axis=1) for sides in zip(history, candidate, strict=True)]
    assert np.corrcoef(drawn[0][0, :, 0], drawn[1][0, :, 0])[0, 1] > 0.99


def test_an_answer_has_stable_keys_and_the_error_of_its_draws(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table().write_parquet(tmp_path / "noise.parquet")
    words = ("--noise", str(tmp_path / "noise.parquet"), "--draws", "20", "--spread", "1", "--history", "15")
    (row,) = ask(*words, "--candidate", "1", capsys=capsys)
    assert list(row) == KEYS
    assert (row["fabric"], row["spread_percent"], row["units"], row["repeats"]) == ("eth1g", 1, "sessions", 3)
    assert list(row["found_percent"]) == ["3", "5", "10"]
    assert list(row["found_percent"]["5"]) == ["all sizes", "band", "one size"]
    assert row["sessions_refused_percent"] == 0
    assert row["found_percent"]["10"]["all sizes"] == 100
    assert row["monte_carlo_error"]["sessions_refused_percent"] == pytest.approx(16.1, abs=0.1), "Wilson, 0 of 20"
    assert 85 <= row["coverage_percent"] <= 100
    assert ask(*words, "--candidate", "1", capsys=capsys) == [row], "the same seed gives the same answer"


def test_what_jobs_share_is_seen_with_a_history_and_not_without() -> None:
    """Repeats of one job against one are no sample of the machine: whatever a night does is called."""
    (trace,) = noise.traces(table(jobs=40, shared=0.05, own=0.003), "here")
    alone = draws.measure(trace, draws.Setting(None, 1, 1, 3), POLICY, 20, seed=1)
    known = draws.measure(trace, draws.Setting(None, 15, 1, 3), POLICY, 20, seed=1)
    assert (alone.units, known.units) == (curve_tests.REPEATS, curve_tests.SESSIONS)
    assert alone.refused.mean >= 0.15
    assert known.refused.mean <= 0.05


def test_sessions_that_lack_a_curve_are_gaps() -> None:
    """As in a history where one night a benchmark failed."""
    whole = table()
    (trace,) = noise.traces(whole.filter(~((pl.col("job") % 5 == 2) & (pl.col("benchmark") == "PingPong"))), "here")
    assert (trace.jobs, trace.repeats) == (24, 3)
    assert np.flatnonzero(np.isnan(trace.curves[0].logs).all(axis=(0, 2))).tolist() == [2, 7, 12, 17, 22], "in their order"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rates = draws.measure(trace, draws.Setting(None, 15, 1, 3), POLICY, 5, seed=1)
    assert rates.refused.mean == 0
    assert rates.found[10.0]["all sizes"].mean == 1


def test_the_decision_is_the_products_own(monkeypatch: pytest.MonkeyPatch) -> None:
    (trace,) = noise.traces(table(), "here")
    monkeypatch.setattr(curve_tests, "overall", lambda bands, metrics: "regressed")
    assert draws.measure(trace, draws.Setting(None, 5, 1, 3), POLICY, 3, seed=1).refused.mean == 1


@pytest.mark.parametrize(("history", "units"), [(8, curve_tests.SESSIONS), (3, curve_tests.JOBS)])
def test_shifted_results_are_those_of_a_slower_candidate(history: int, units: str) -> None:
    """Whoever asks for many slowdowns of one candidate learns the baseline once."""
    rng = np.random.default_rng(5)
    left, right = 0.01 * rng.standard_normal((6, history)), 0.01 * rng.standard_normal((6, 3))
    nights = tuple(range(history)), tuple(range(history, history + 3))
    slower = np.array([[0, 0, 0.04, 0.03, 0, 0], [0.2, 0, 0, 0, 0, 0.01]])

    def tests(shift: np.ndarray) -> list[curve_tests.CurveTest]:
        sizes: list[int | None] = [1, 8, 64, 512, 4096, 65536]
        return curve_tests.tests_of_curve(0, sizes, left, right + shift[:, None], POLICY, units=units, nights=nights)

    same = tests(np.zeros(6))
    weights = np.array([[place in test.places for place in range(6)] for test in same], dtype=float)
    weights /= weights.sum(axis=1, keepdims=True)
    found = curve_tests.evaluate(same, POLICY).shifted(slower @ weights.T, POLICY)
    margins = np.full(len(same), 0.02)
    verdicts = curve_tests.final_verdicts(found, margins, curve_tests.wider_tests(same), POLICY)
    for place, shift in enumerate(slower):
        alone = curve_tests.evaluate(tests(shift), POLICY)
        for name in ("effect", "low", "high", "upper", "p", "real"):
            assert getattr(found, name)[place] == pytest.approx(getattr(alone, name)), name
        expected = [verdict for verdict, _ in curve_tests.combine_verdicts(same, alone, margins, POLICY)]
        assert verdicts[place].tolist() == expected
        assert "regressed" in expected


def test_a_systems_own_history_is_asked_by_stratum(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(9):
        write_session(tmp_path, number, mpi_version="5.0.9" if number < 2 else "5.0.10")
    write_session(tmp_path, 9, mpi_version="5.0.11")
    words = ("--dataset", str(tmp_path), "--sessions", "20260101:20270101", "--draws", "3", "--margin", "2")
    (row,) = ask(*words, "--history", "6", "--candidate", "1", capsys=capsys)
    assert (row["fabric"], row["history_jobs"]) == ("eth1g (openmpi-spack 5.0.10 on node, lock hash-5.)", 6)
    assert row["spread_percent"] is None
    assert cli.main(["error-rates", *words, "--history", "6", "--candidate", "1"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "as recorded" in shown
    assert "left out: eth1g (openmpi-spack 5.0.11 on node, lock hash-5.): one session" in shown


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda rows: rows.drop("job"), "has no column job"),
        (lambda rows: rows.with_columns(value=pl.lit(0.0)), "is 0.0, expected a number above 0 (432 such rows)"),
        (lambda rows: rows.with_columns(value=pl.lit(None, pl.Float64)), "is None, expected a number above 0"),
        (lambda rows: rows.with_columns(quantity=pl.lit("speed")), "quantity 'speed' is not one that is judged"),
        (lambda rows: rows.with_columns(repeat=pl.lit(1)), "repeat 1 of job 0, PingPong, is there twice"),
        (lambda rows: rows.filter(pl.col("job") == 0), "eth1g has 1 job"),
        (lambda rows: rows.clear(), "holds no row"),
        (lambda rows: rows.with_columns(message_bytes=pl.lit("many")), "expected fabric (String)"),
    ],
)
def test_bad_noise_is_one_sentence(change, sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    change(table()).write_csv(tmp_path / "noise.csv")
    assert cli.main(["error-rates", "--noise", str(tmp_path / "noise.csv")]) == cli.BAD_INPUT
    assert sentence in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--draws", "1"), "--draws is 1, expected numbers of at least 2"),
        (("--history", "0"), "--history is 0"),
        (("--spread", "-1"), "--spread is -1.0"),
        (("--margin", "0"), "--margin is 0"),
        (("--history", "300"), "there are 24 jobs at most, and --history 300 with --candidate 1 needs 301"),
    ],
)
def test_bad_questions_are_one_sentence(
    words: tuple[str, ...], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table().write_csv(tmp_path / "noise.csv")
    assert cli.main(["error-rates", "--noise", str(tmp_path / "noise.csv"), *words]) == cli.BAD_INPUT
    assert sentence in capsys.readouterr().err


def test_noise_that_never_varies_is_not_scaled() -> None:
    (trace,) = noise.traces(table(own=0.0), "here")
    with pytest.raises(BadInput, match="never vary"):
        trace.scaled(0.01)
    still = draws.measure(trace, draws.Setting(None, 6, 1, 3), POLICY, 3, seed=1)
    assert (still.refused.mean, still.covered.mean) == (0, 1)


def test_a_file_that_is_none_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "noise.parquet").write_text("no parquet")
    for path in (tmp_path / "noise.parquet", tmp_path / "absent.csv"):
        assert cli.main(["error-rates", "--noise", str(path)]) == cli.BAD_INPUT
        assert f"cannot read {path}" in capsys.readouterr().err

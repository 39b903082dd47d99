"""``python -m studies.error_rates``: noise is read as it is, drawn jointly, and judged by the decision of ``accept``."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy import stats

from mpibench import cli
from mpibench.judge import curve_tests, drift
from mpibench.judge.gate import REMEMBERED_NIGHTS
from mpibench.judge.policy import Policy
from page_reader import Reader
from reframe_tests.harness.sites.site import ROOT
from refusals import refused_as
from studies.error_rates import answer, draws, history, nights, noise, shares, summary
from studies.error_rates.__main__ import main
from synthetic_verdicts import write_session

RECORDED = ROOT / "ci" / "tests" / "data" / "golden_noise" / "repeats.parquet"
#: 47 sessions of ``ImbPointToPoint`` (level=smoke, 3 repeats, pinning bunch; MPICH 4.3.2 and Intel MPI 2021.18.1 of the wheels,
#: shared memory and TCP on the loopback), one each 9 s, on a virtual machine with two cores: no rule was chosen on it.
ANOTHER_DAY = RECORDED.with_name("another_day.parquet")
POLICY = answer.with_margin(Policy(), 2)
#: Sizes and bands of :func:`table`.
TESTS = 12
KEYS = [
    *("fabric", "spread_percent", "units", "history_jobs", "candidate_jobs", "repeats", "sessions_refused_percent"),
    *("confirmed_refused_percent", "metrics_called_per_1000", "coverage_percent", "found_percent", "confirmed_found_percent"),
    "smallest_found_percent",
    *("nights_called_percent", "years_called_percent", "draws", "jobs_recorded", "interval_95"),
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
    assert main(["--json", *words]) == 0
    return json.loads(capsys.readouterr().out)


def test_recorded_noise_is_read_whole() -> None:
    found = {trace.fabric: trace for trace in noise.read_file(RECORDED)}
    assert {name: (trace.jobs, trace.repeats, trace.metrics) for name, trace in found.items()} == {
        "shm": (80, 5, 48),
        "eth1g": (20, 5, 22),
    }
    assert found["shm"].scaled(0.01).spread == pytest.approx(0.01)


def test_rates_on_recorded_noise() -> None:
    """Drawn jointly: all metrics of a job move together here, so that one draw's intervals hold nearly all or nearly none."""
    (shm,) = (trace for trace in noise.read_file(RECORDED) if trace.fabric == "shm")
    assert shm.jobs * shm.repeats == 400
    rates = draws.measure(shm, shares.Setting(0.01, 15, 3, 5), POLICY, 8, seed=1)
    assert rates.called.mean <= 0.005
    assert rates.refused.mean == 0
    assert rates.found[5.0]["all sizes"].mean >= 0.95
    assert rates.smallest["all sizes"].mean < 0.05
    alone = draws.measure(shm, shares.Setting(0.01, 15, 1, 5), POLICY, 20, seed=1)
    assert alone.refused.mean == 0
    assert alone.covered.mean > 0.88


@pytest.mark.parametrize("before", [1, 5])
def test_what_is_measured_again_is_refused_if_it_is_there_again(before: int) -> None:
    """An odd job is drawn a second time seldom, and a slower machine is so each time."""
    setting = shares.Setting(None, before, 1, 3)
    slower = pl.when(pl.col("quantity") == "latency_us").then(1.5).otherwise(1 / 1.5)

    def trace(late: pl.Expr, jobs: int) -> noise.Trace:
        values = table(jobs=jobs, own=0.002).with_columns(value=pl.col("value") * pl.when(late).then(slower).otherwise(1.0))
        return noise.traces(values, "here")[0]

    odd = draws.measure(trace(pl.col("job") % 8 == 0, 40), setting, POLICY, 40, seed=1)
    assert odd.confirmed is not None and odd.refused.mean >= 0.05
    assert odd.confirmed.mean < odd.refused.mean / 2
    again = draws.sessions_again(odd.units, setting, POLICY, TESTS)
    assert again == {1: 1, 5: 7}[before]
    later = trace(pl.col("job") >= before, before + 1 + again)
    lasting = draws.measure(later, setting, POLICY, 2, seed=1, in_order=True)
    assert lasting.confirmed is not None and lasting.confirmed.mean == 1
    assert draws.measure(trace(pl.col("job") < 0, before + again), setting, POLICY, 2, seed=1).confirmed is None


@pytest.mark.parametrize(("before", "percent"), [(1, 10.0), (8, 3.0)])
def test_what_is_found_when_measured_again_is_what_slower_jobs_show(before: int, percent: float) -> None:
    """Slowed down in the draw, or slower when they were measured: the same is refused."""
    setting = shares.Setting(None, before, 1, 3)
    jobs = before + 1 + draws.sessions_again(curve_tests.choose_units(range(before), [0]), setting, POLICY, TESTS)

    def rates(slower: float, seed: int) -> shares.ErrorRates:
        change = pl.when(pl.col("job") < before).then(1.0).when(pl.col("quantity") == "latency_us").then(slower)
        values = table(jobs=jobs, own=0.02, seed=seed).with_columns(value=pl.col("value") * change.otherwise(1 / slower))
        return draws.measure(noise.traces(values, "here")[0], setting, POLICY, 1, seed=1, in_order=True)

    found = [(rates(1.0, seed), rates(1 + percent / 100, seed)) for seed in range(12)]
    said = [same.found_again and same.found_again[percent]["all sizes"].mean for same, _ in found]
    assert said == [slower.confirmed and slower.confirmed.mean for _, slower in found]
    assert {0.0, 1.0} == set(said)


def test_jobs_stay_whole_and_worse_is_more(tmp_path: Path) -> None:
    table(shared=0.05, own=0.0005).write_csv(tmp_path / "noise.csv")
    (trace,) = noise.read_file(tmp_path / "noise.csv")
    one, two = trace.curves
    assert one.logs.shape == (3, 24, 3)
    assert np.corrcoef(one.logs[0, :, 0], two.logs[0, :, 0])[0, 1] > 0.99
    jobs = draws.draw(np.random.default_rng(2), trace.jobs, 7, False)
    assert len(set(jobs)) == 7
    assert set(np.diff(draws.draw(np.random.default_rng(2), trace.jobs, 7, True))) == {1}
    drawn = [curve.logs[:, jobs] for curve in trace.curves]
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
    assert row["confirmed_found_percent"]["10"]["all sizes"] == 100
    assert row["confirmed_found_percent"]["5"]["one size"] > row["found_percent"]["5"]["one size"]
    assert row["interval_95"]["sessions_refused_percent"] == pytest.approx([0, 16.84], abs=0.01), "Clopper-Pearson, 0 of 20"
    assert list(row["smallest_found_percent"]) == ["all sizes", "small", "medium", "large"]
    assert 2 < row["smallest_found_percent"]["all sizes"] < row["smallest_found_percent"]["small"] < 10
    assert row["interval_95"]["smallest_found_percent"]["small"][1] is None, "20 draws do not show what one in 100 may need"
    assert row["nights_called_percent"] <= 1
    said = " ".join(summary.sentences([row], "here"))
    assert "refused in 0.0 % of cases, within the aim of 1 %; by 20 draws it is 0.0 to 16.8 %; with --confirm" in said
    assert "--confirm at most 0.0 % [0.0, 16.8]" in said
    assert f"asked each night, is red for a change that is none in {row['nights_called_percent']:.1f} % of nights [" in said
    assert 85 <= row["coverage_percent"] <= 100
    assert ask(*words, "--candidate", "1", capsys=capsys) == [row], "the same seed gives the same answer"


def test_what_jobs_share_is_seen_with_a_history_and_not_without() -> None:
    """Repeats of one job against one are no sample of the machine: whatever a night does is called."""
    (trace,) = noise.traces(table(jobs=40, shared=0.05, own=0.003), "here")
    alone = draws.measure(trace, shares.Setting(None, 1, 1, 3), POLICY, 20, seed=1)
    known = draws.measure(trace, shares.Setting(None, 15, 1, 3), POLICY, 20, seed=1)
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
        rates = draws.measure(trace, shares.Setting(None, 15, 1, 3), POLICY, 5, seed=1)
    assert rates.refused.mean == 0
    assert rates.found[10.0]["all sizes"].mean == 1


def test_the_decision_is_the_products_own(monkeypatch: pytest.MonkeyPatch) -> None:
    (trace,) = noise.traces(table(), "here")
    monkeypatch.setattr(curve_tests, "overall", lambda bands, metrics: "regressed")
    assert draws.measure(trace, shares.Setting(None, 5, 1, 3), POLICY, 3, seed=1).refused.mean == 1


@pytest.mark.parametrize(("history", "units"), [(8, curve_tests.SESSIONS), (3, curve_tests.JOBS)])
def test_shifted_results_are_those_of_a_slower_candidate(history: int, units: str) -> None:
    """Whoever asks for many slowdowns of one candidate learns the baseline once."""
    rng = np.random.default_rng(5)
    left, right = 0.01 * rng.standard_normal((6, history)), 0.01 * rng.standard_normal((6, 3))
    nights = tuple(range(history)), tuple(range(history, history + 3))
    slower = np.array([[0, 0, 0.04, 0.03, 0, 0], [0.2, 0, 0, 0, 0, 0.01]])

    def tests(shift: np.ndarray) -> list[curve_tests.CurveTest]:
        sizes: list[int | None] = [1, 8, 64, 512, 4096, 65536]
        return curve_tests.tests_of_curve(
            0, "latency_us", sizes, left, right + shift[:, None], POLICY, units=units, nights=nights
        )

    same = tests(np.zeros(6))
    weights = np.array([[place in test.places for place in range(6)] for test in same], dtype=float)
    weights /= weights.sum(axis=1, keepdims=True)
    found = draws.shifted(curve_tests.evaluate(same, POLICY), slower @ weights.T, POLICY)
    margins = curve_tests.margins_of(same)
    verdicts = curve_tests.final_verdicts(found, margins, curve_tests.wider_tests(same), POLICY)
    for place, shift in enumerate(slower):
        alone = curve_tests.evaluate(tests(shift), POLICY)
        for name in ("effect", "low", "high", "upper", "p", "real"):
            assert getattr(found, name)[place] == pytest.approx(getattr(alone, name)), name
        expected = [verdict for verdict, _ in curve_tests.combine_verdicts(same, alone, POLICY)]
        assert verdicts[place].tolist() == expected
        assert "regressed" in expected


def test_the_smallest_slowdown_found_is_where_finding_begins() -> None:
    (trace,) = noise.traces(table(jobs=30), "here")
    for jobs in (1, 3):
        rates = draws.measure(trace, shares.Setting(None, 12, jobs, 3), POLICY, 30, seed=2)
        for percent in draws.SLOWDOWNS_PERCENT:
            seen = rates.found[percent]["all sizes"].values
            assert [float(least <= percent / 100) for least in rates.smallest["all sizes"].values] == seen
        assert sum(rates.found[3.0]["all sizes"].values) > 0
        ordered = sorted(rates.smallest["all sizes"].values)
        assert rates.smallest["all sizes"].mean == ordered[-1], "99 % of 30 draws are all of them"
        assert min(ordered) > 0.005, "the margin, less what this candidate happens to be slower"


def test_what_no_slowdown_shows_is_none() -> None:
    """A baseline of one repeat a job and one job a side is no ground for any verdict."""
    (trace,) = noise.traces(table(repeats=1), "here")
    row = draws.measure(trace, shares.Setting(None, 1, 1, 1), POLICY, 4, seed=2).row()
    assert row["smallest_found_percent"] == dict.fromkeys(("all sizes", "small", "medium", "large"))
    assert answer.smallest_text(row, "small") == "> 400 [> 400, > 400] %"


@pytest.mark.parametrize(
    ("values", "least", "interval"),
    [
        ([0.0] * 400, 1.0, (0, 0.00918)),
        ([1.0] * 4 + [0.0] * 396, 1.0, (0.00273, 0.0254)),
        ([0.0] * 400, 0.02, (0, 0.000184)),
        ([1.0] * 400, 0.02, (1 - 0.000184, 1)),
        ([0.90, 1.0] * 200, 0.02, (0.9451, 0.9549)),
    ],
)
def test_intervals_of_rates(values: list[float], least: float, interval: tuple[float, float]) -> None:
    """The first two as printed in tables of Clopper and Pearson's limits."""
    assert shares.Shares(least, values).interval == pytest.approx(interval, abs=6e-5)


def test_the_interval_of_a_quantile_is_by_ranks() -> None:
    values = list(np.random.default_rng(3).permutation(400) / 100)
    assert shares.Smallest(values).mean == 3.95
    low, high = shares.Smallest(values).interval
    inside = stats.binom.cdf(round(100 * high), 400, 0.99) - stats.binom.cdf(round(100 * low), 400, 0.99)
    assert 0.95 <= inside <= 0.99
    assert shares.Smallest(values[:367]).interval[1] == np.inf
    assert shares.Smallest(values[:368]).interval[1] < np.inf


def test_what_the_policy_does_not_judge_is_not_asked() -> None:
    (trace,) = noise.traces(table(), "here")
    margins = {"latency_us": {"small": None, "medium": 2.0, "large": None}, "bandwidth_mb_per_s": None}
    kept = draws.judged(trace, Policy(margins_percent=margins))
    assert [(one.quantity, one.sizes) for one in kept.curves] == [("latency_us", [4096])]
    none = Policy(margins_percent=dict.fromkeys(margins), source="site_configs/x/policy.yaml")
    with refused_as("policy-without-margin", match=r"site_configs/x/policy.yaml gives none of the 6 metrics of eth1g a margin"):
        draws.judged(trace, none)


def test_nights_in_which_nothing_lasts_are_rarely_called() -> None:
    (trace,) = noise.traces(table(jobs=44), "here")
    assert nights.nights_called(noise.traces(table(jobs=5), "here")[0], POLICY, 5, 1) is None
    called = nights.nights_called(trace, POLICY, 80, 1)
    assert called is not None
    assert (len(called.nights.values), len(called.years.values)) == (2, 2)
    assert called.nights.mean <= 0.01


def test_noise_that_no_rule_was_chosen_on_is_not_called_as_it_came_and_a_change_in_it_is() -> None:
    traces = noise.read_file(ANOTHER_DAY)
    assert {trace.fabric: (trace.jobs, trace.repeats, trace.metrics) for trace in traces} == dict.fromkeys(
        ("lo", "shm"), (47, 3, 24)
    )
    for trace in traces:
        asked = nights.nights_called(trace, POLICY, 1, 1, in_order=True)
        assert asked is not None and asked.nights.mean == 0
        logs = draws.job_medians(trace.scaled(0.01))
        assert nights.change_points(trace, logs, POLICY, REMEMBERED_NIGHTS).is_empty()
        logs[:, 39:] += np.log(1.05)
        assert nights.change_points(trace, logs, POLICY, REMEMBERED_NIGHTS)["row"].n_unique() > trace.metrics / 2


def test_the_gates_own_search_is_asked_every_night_of_a_year(monkeypatch: pytest.MonkeyPatch) -> None:
    (trace,) = noise.traces(table(jobs=60), "here")
    seen = []

    def called(history: drift.History, policy: Policy, recent: int | None = None) -> pl.DataFrame:
        seen.append((history.logs.shape, recent))
        return pl.DataFrame({"row": [0], "slower": [0.1 if len(seen) % 2 else -0.1]})

    monkeypatch.setattr(drift, "change_points", called)
    found = nights.nights_called(trace, POLICY, 40, 1)
    assert found is not None
    assert found.nights.mean == pytest.approx(0.5, abs=0.002), "what is faster fails no gate"
    assert found.years.mean == 1
    assert [shape for shape, _ in seen[:2]] == [(6, drift.FEWEST_NIGHTS), (6, drift.FEWEST_NIGHTS + 1)]
    assert seen[-1] == ((6, REMEMBERED_NIGHTS + POLICY.drift_window_nights), REMEMBERED_NIGHTS)
    assert len(seen) == nights.YEAR + 1 - drift.FEWEST_NIGHTS


def write_history(folder: Path, sessions: int) -> tuple[str, ...]:
    """Sessions of one stack on two fabrics; the words that ask for them."""
    for number in range(sessions):
        where = [{"fabric": "eth1g"}, {"fabric": "shm"}]
        write_session(folder, number, where=where, sizes=(8, 4096, 1048576))
    return ("--dataset", str(folder), "--sessions", "20260101:20270101", "--draws", "6")


def test_an_acceptance_judges_all_conditions_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = write_history(tmp_path, 9)
    rows = ask(*words, capsys=capsys)
    names = ["all together", *(f"{name} (openmpi-spack 5.0.10 on node, lock hash-5.)" for name in ("eth1g", "shm"))]
    assert [row["fabric"] for row in rows] == [name for name in names for _ in (1, 3)], "5 before and 5 after are 10"
    assert {(row["history_jobs"], row["candidate_jobs"]) for row in rows} == {(5, 1), (5, 3)}
    traces, left = history.read(tmp_path, "testbed", "20260101:20270101")
    assert left == []
    assert [trace.metrics for trace in traces] == [12, 6, 6]
    assert [one.stratum for one in traces[0].curves] == [0, 0, 1, 1]
    whole = traces[0].curves[0].logs
    assert np.array_equal(whole, traces[1].curves[0].logs), "the same sessions in the same order"


def test_a_page_has_a_figure_for_each_fabric_and_all_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = write_history(tmp_path, 9)
    page = tmp_path / "rates.html"
    assert main([*words, "--candidate", "1", "--out", str(page)]) == 0
    said = " ".join(capsys.readouterr().out.partition("\n\n")[0].split())
    assert "9 recorded sessions cannot show a rate below 33.6 %" in said
    read = Reader(page.read_text())
    assert said.split(". ")[0] in " ".join(" ".join(read.text.values()).split())
    figures = read.blocks["figures"]
    assert [figure["layout"]["title"]["text"].split(" ")[0] for figure in figures] == ["all", "eth1g", "shm"]
    assert [trace["name"] for trace in figures[0]["data"]] == ["all sizes", "small", "medium", "large"]


def test_few_nights_are_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = write_history(tmp_path, 4)
    assert main([*words]) == cli.BAD_INPUT
    assert "4 jobs at most, and --history 5 with --candidate 1 needs 6" in capsys.readouterr().err
    assert main([*words, "--history", "3", "--candidate", "1"]) == 0
    assert "Whether the nightly gate cries wolf cannot be said: too few nights" in " ".join(capsys.readouterr().out.split())


def test_a_systems_own_history_is_asked_by_stratum(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(9):
        write_session(tmp_path, number, mpi_version="5.0.9" if number < 2 else "5.0.10")
    write_session(tmp_path, 9, mpi_version="5.0.11")
    words = ("--dataset", str(tmp_path), "--sessions", "20260101:20270101", "--draws", "3", "--margin", "2")
    (row,) = ask(*words, "--history", "6", "--candidate", "1", capsys=capsys)
    assert (row["fabric"], row["history_jobs"]) == ("eth1g (openmpi-spack 5.0.10 on node, lock hash-5.)", 6)
    assert row["spread_percent"] is None
    assert main([*words, "--history", "6", "--candidate", "1"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "as recorded" in shown
    assert "left out: eth1g (openmpi-spack 5.0.11 on node, lock hash-5.): one session" in shown


def test_what_verdicts_do_not_pool_is_not_drawn_together(tmp_path: Path) -> None:
    """As histories of verdicts: another placement is another measurement, another label another series."""
    for number in range(8):
        write_session(tmp_path, number, labels={"run": "nightly"})
    for number in range(8, 11):
        write_session(tmp_path, number, labels={"run": "acceptance"}, sizes=(8, 4096))
    for number, night in ((20, 1), (21, 2)):
        placed = {"placement": [[0], [4]]}
        write_session(tmp_path, number, night=night, labels={"run": "nightly"}, condition=placed)
    traces, left = history.read(tmp_path, "testbed", "20260101:20270101")
    assert [(trace.fabric.rpartition("run=")[2], trace.jobs) for trace in traces] == [("nightly)", 8), ("acceptance)", 3)]
    differing = "transport, placement, suites, suite_options, striped, tuned, oversubscribed, network"
    assert left[-1] == f"2 cases with another {differing} than the newest of their condition"


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda rows: rows.drop("job"), "has no column job"),
        (lambda rows: rows.with_columns(unit=pl.lit("ms")), "PingPong latency_us of job 0 is in ms, expected us"),
        (lambda rows: rows.with_columns(value=pl.lit(float("nan"))), "is nan, expected a number above 0"),
        (lambda rows: rows.with_columns(value=-pl.col("value")), ", expected a number above 0 (432 such rows): leave it out"),
        (lambda rows: rows.with_columns(quantity=pl.lit("speed")), "quantity 'speed' is not one that is judged"),
        (lambda rows: rows.with_columns(repeat=pl.lit(1)), "repeat 1 of job 0, PingPong, is there twice"),
        (lambda rows: rows.filter(pl.col("job") == 0), "eth1g has 1 job"),
        (lambda rows: rows.clear(), "holds no row"),
    ],
)
def test_bad_noise_is_one_sentence(change, sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    change(table()).write_csv(tmp_path / "noise.csv")
    assert main(["--noise", str(tmp_path / "noise.csv")]) == cli.BAD_INPUT
    assert sentence in capsys.readouterr().err


def test_fabrics_of_one_file_are_never_mixed() -> None:
    both = pl.concat([table(), table(own=0.05).with_columns(fabric=pl.lit("shm"))])
    quiet, wild = noise.traces(both, "here")
    assert (quiet.fabric, wild.fabric) == ("eth1g", "shm")
    assert wild.spread > 3 * quiet.spread


def test_repeats_counted_throughout_are_repeats_of_their_jobs() -> None:
    (trace,) = noise.traces(table().with_columns(repeat=3 * pl.col("job") + pl.col("repeat")), "here")
    assert (trace.jobs, trace.repeats, trace.curves[0].logs.shape) == (24, 3, (3, 24, 3))


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--draws", "1"), "--draws is 1, expected numbers of at least 2"),
        (("--history", "300"), "there are 24 jobs at most, and --history 300 with --candidate 1 needs 301"),
    ],
)
def test_bad_questions_are_one_sentence(
    words: tuple[str, ...], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table().write_csv(tmp_path / "noise.csv")
    assert main(["--noise", str(tmp_path / "noise.csv"), *words]) == cli.BAD_INPUT
    assert sentence in capsys.readouterr().err


def test_noise_that_never_varies_is_not_scaled() -> None:
    (trace,) = noise.traces(table(own=0.0), "here")
    with refused_as("noise-unusable", match="never vary"):
        trace.scaled(0.01)
    still = draws.measure(trace, shares.Setting(None, 6, 1, 3), POLICY, 3, seed=1)
    assert (still.refused.mean, still.covered.mean) == (0, 1)


def test_a_file_that_is_none_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "noise.parquet").write_text("no parquet")
    for path in (tmp_path / "noise.parquet", tmp_path / "absent.csv"):
        assert main(["--noise", str(path)]) == cli.BAD_INPUT
        assert f"cannot read {path}" in capsys.readouterr().err

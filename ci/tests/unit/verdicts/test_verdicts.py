"""Verdicts on datasets with known changes, and the one place that decides which cases may be used."""

from __future__ import annotations

import shutil
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from random import Random
from typing import Any

import polars as pl
import pytest

from mpibench.judge import comparison
from mpibench.judge import policy as verdict_policy
from mpibench.judge import text as verdict_text
from mpibench.store import eligibility, selectors
from mpibench.store.dataset_layout import DIGEST_KEY, write_file
from mpibench.store.session_values import Selection
from mpibench.store.store import Store
from reframe_tests.harness.vocabulary import BadInput
from refusals import refused_as
from site_nights import gate
from synthetic_verdicts import FIRST, SIZES, by, write_before, write_session

POLICY = verdict_policy.Policy(between_jobs_percent=0.2, between_jobs_times_repeats=0)


def sides_of(folder: Path) -> list[Selection]:
    """The nights before (:func:`write_before`) with the last but one session, and the last."""
    store = Store(folder)
    before = "20251201:20260105"
    known = selectors.sessions_table(store.cases("testbed"))
    old = selectors.select(before, known) if known["started"].min() < FIRST else []
    return [store.select("testbed", name) for name in (",".join([*old, "latest~1"]), "latest")]


def judge(folder: Path, policy: verdict_policy.Policy = POLICY) -> comparison.Judgement:
    return comparison.judge(*sides_of(folder), policy)


def sizes_of(judgement: comparison.Judgement, verdict: str, benchmark: str = "PingPong") -> list[int]:
    found = judgement.metrics.filter(pl.col("verdict") == verdict, pl.col("benchmark") == benchmark)
    return sorted(found["message_bytes"].to_list())


def test_the_same_machine_again_passes(tmp_path: Path) -> None:
    write_before(tmp_path)
    for number in range(2):
        write_session(tmp_path, number)
    judgement = judge(tmp_path)
    assert judgement.verdict == comparison.PASS
    assert judgement.counts() == {"regressed": 0, "missing": 0, "inconclusive": 0, "improved": 0, "pass": 21}
    assert judgement.metrics["ratio"].to_numpy() == pytest.approx(1, abs=0.02)
    assert judgement.metrics["baseline_jobs"].to_list() == [6] * 21


def test_a_slower_link_is_found_in_both_directions_of_better(tmp_path: Path) -> None:
    write_before(tmp_path)
    write_session(tmp_path, 0)
    write_session(tmp_path, 1, change=lambda benchmark, size, stack: 1.08)
    judgement = judge(tmp_path)
    assert judgement.verdict == comparison.REGRESSED
    assert judgement.counts()["regressed"] == 21
    rows = {row["benchmark"]: row for row in judgement.bands.to_dicts() if row["band"] == "large"}
    assert rows["PingPong"]["ratio"] == pytest.approx(1.08, abs=0.01)
    assert rows["Uniband"]["ratio"] == pytest.approx(1 / 1.08, abs=0.01)
    assert rows["Uniband"]["low"] < 1 / 1.08 < rows["Uniband"]["high"] < 1
    assert rows["Uniband"]["slower"] == pytest.approx(0.08, abs=0.01)


def test_one_size_and_one_band_are_named(tmp_path: Path) -> None:
    write_before(tmp_path)
    write_session(tmp_path, 0)
    write_session(tmp_path, 1, change=lambda benchmark, size, stack: 1.3 if (benchmark, size) == ("PingPong", 16384) else 1.0)
    assert sizes_of(judge(tmp_path), comparison.REGRESSED) == [16384]
    for folder in tmp_path.glob("*/*/date=2026-01-06"):
        shutil.rmtree(folder)
    write_session(tmp_path, 2, change=lambda benchmark, size, stack: 0.8 if size >= 65536 else 1.0)
    judgement = judge(tmp_path)
    assert sizes_of(judgement, comparison.IMPROVED)[-3:] == [262144, 1048576, 4194304]
    assert judgement.verdict == comparison.PASS


def test_what_is_called_is_listed_by_metric_to_be_measured_again(tmp_path: Path) -> None:
    write_before(tmp_path)
    write_session(tmp_path, 0)
    write_session(tmp_path, 1, sizes=SIZES[:-1], change=lambda name, size, _: 1.3 if (name, size) == ("PingPong", 512) else 1)
    judgement = judge(tmp_path)
    found = comparison.called(judgement)
    assert found.select("benchmark", "quantity", "message_bytes", "band").rows() == [("PingPong", "latency_us", 512, "small")]
    assert found["slower"].to_list() == [pytest.approx(0.3, abs=0.02)]
    only = judgement.bands.with_columns(verdict=pl.lit(comparison.REGRESSED)).filter(pl.col("band") == "medium")
    lone = replace(judgement, bands=only, metrics=judgement.metrics.with_columns(verdict=pl.lit(comparison.INCONCLUSIVE)))
    assert set(comparison.called(lone)["message_bytes"]) == {4096, 16384}


def test_neighbours_tell_what_a_single_size_cannot(tmp_path: Path) -> None:
    """At 3 % noise few sizes alone show 10 %; eleven sizes together do."""
    latency = {"benchmarks": {"PingPong": "latency_us"}, "noise": 0.03}
    write_before(tmp_path, 15, **latency)
    for number, factor in ((0, 1.0), (1, 1.1)):
        write_session(tmp_path, number, change=by(factor), **latency)
    judgement = judge(tmp_path)
    assert judgement.verdict == comparison.REGRESSED
    together = judgement.metrics.filter(pl.col("why").str.starts_with("with "))
    assert together.height >= 2


def test_two_repeats_are_no_ground_for_a_verdict(tmp_path: Path) -> None:
    write_before(tmp_path)
    for number in range(2):
        write_session(tmp_path, number, repeats=2)
    judgement = judge(tmp_path)
    assert judgement.counts()["inconclusive"] == 21
    assert set(judgement.metrics["needed"]) == {None}, "more sessions would not tell"


def test_jobs_are_the_units_of_two_sides_where_there_are_enough(tmp_path: Path) -> None:
    write_session(tmp_path, 0, jobs=4)
    write_session(tmp_path, 1, jobs=3)
    judgement = comparison.judge(*sides_of(tmp_path), POLICY, asked=comparison.Asked.SIDES)
    assert set(judgement.metrics["units"]) == {"jobs"}
    assert judgement.verdict == comparison.PASS
    row = judgement.metrics.row(0, named=True)
    assert (row["baseline_jobs"], row["candidate_jobs"], row["baseline_repeats"]) == (4, 3, 20)


def test_two_sides_that_differ_as_jobs_do_are_no_finding(tmp_path: Path) -> None:
    write_session(tmp_path, 0, noise=0.001)
    write_session(tmp_path, 1, noise=0.001, change=by(1.06))
    for percent, verdict in ((5, comparison.INCONCLUSIVE), (0.2, comparison.REGRESSED)):
        policy = verdict_policy.Policy(between_jobs_percent=percent)
        judgement = comparison.judge(*sides_of(tmp_path), policy, asked=comparison.Asked.SIDES)
        assert judgement.verdict == verdict, percent


def test_what_has_no_margin_is_not_judged_and_counted(tmp_path: Path) -> None:
    def small(benchmark: str, size: int, stack: str) -> float:
        return 3.0 if size <= 1024 else 1.0

    write_before(tmp_path)
    write_session(tmp_path, 0)
    write_session(tmp_path, 1, change=small)
    policy = replace(POLICY, margins_percent={one: {"small": None} for one in ("latency_us", "bandwidth_mb_per_s")})
    sides = sides_of(tmp_path)
    judgement = comparison.judge(*sides, policy)
    assert judgement.verdict == comparison.PASS
    assert judgement.unjudged == 9  # five sizes of PingPong, four of Uniband
    assert set(judgement.bands["band"]) == {"medium", "large"}
    assert comparison.judge(*sides, policy.judging_all()).verdict == comparison.REGRESSED
    write_session(tmp_path, 2, sizes=SIZES[2:])  # what is gone is missing all the same
    sides[1] = Store(tmp_path).select("testbed", "latest")
    assert comparison.judge(*sides, policy).verdict == comparison.MISSING


def test_what_the_candidate_lacks_is_missing(tmp_path: Path) -> None:
    write_session(tmp_path, 0)
    write_session(tmp_path, 1, sizes=SIZES[:-2])
    judgement = judge(tmp_path)
    assert judgement.verdict == comparison.MISSING
    assert sizes_of(judgement, comparison.MISSING, "Uniband") == [1048576, 4194304]
    assert set(judgement.bands.filter(pl.col("verdict") == "missing")["band"]) == {"large"}
    write_session(tmp_path, 2)
    assert judge(tmp_path).new.height == 4


def test_a_renamed_benchmark_is_missing_until_it_is_named(tmp_path: Path) -> None:
    write_before(tmp_path)
    write_session(tmp_path, 0)
    write_session(tmp_path, 1, benchmarks={"PingPong": "latency_us", "Unidirectional": "bandwidth_mb_per_s"})
    judgement = judge(tmp_path)
    assert sizes_of(judgement, comparison.MISSING, "Uniband") == list(SIZES[1:])
    assert set(judgement.new["benchmark"]) == {"Unidirectional"}
    old, candidate = sides_of(tmp_path)
    baseline = Store(tmp_path).select("testbed", old.selector, rename={"Uniband": "Unidirectional"})
    assert comparison.judge(baseline, candidate, POLICY).verdict == comparison.PASS
    with refused_as("rename-unknown", match="--rename Nonsuch=X"):
        Store(tmp_path).select("testbed", "latest", rename={"Nonsuch": "X"})


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"evidence": "contradicted"}, "no proof"),
        ({"evidence": "missing"}, "no proof"),
        ({"result": "fail", "fail_phase": "sanity"}, "failed"),
        ({"result": "abort"}, "failed"),
        ({"superseded": True}, "run again"),
        ({"samples": 0}, "no measurement"),
    ],
)
def test_cases_that_are_never_used(tmp_path: Path, changes: dict[str, Any], why: str) -> None:
    write_session(tmp_path, 0)
    cases = Store(tmp_path).cases("testbed").collect()
    assert eligibility.split_cases(cases).eligible.height == 1
    found = eligibility.split_cases(cases.with_columns(**{name: pl.lit(value) for name, value in changes.items()}))
    assert found.eligible.height == 0
    assert why in found.left_out["why"][0]


@pytest.mark.parametrize("text", ['{"recorded": "by hand"}', '{"replay": "of the outage"}', '{"synthetic": true}'])
def test_a_label_takes_no_session_out_of_the_verdicts(tmp_path: Path, text: str) -> None:
    write_session(tmp_path, 0)
    cases = Store(tmp_path).cases("testbed").collect().with_columns(labels=pl.lit(text))
    assert eligibility.split_cases(cases).eligible.height == 1


def test_a_missed_reference_is_compared_but_not_learned_from(tmp_path: Path) -> None:
    write_session(tmp_path, 0, result="fail")
    assert Store(tmp_path).select("testbed", "latest").values.height == 105
    with refused_as("selector-unusable", match="missed a reference"):
        Store(tmp_path).select("testbed", "latest", for_learning=True)


def test_a_value_that_is_no_number_is_refused(tmp_path: Path) -> None:
    write_session(tmp_path, 0, edit=lambda row: {**row, "value": float("nan")} if row["message_bytes"] == 8 else row)
    with refused_as("value-not-finite", match="is nan, which nothing can take"):
        Store(tmp_path).select("testbed", "latest")


def test_duplicate_damaged_future_and_foreign_sessions_are_refused(tmp_path: Path) -> None:
    with refused_as("no-dataset", match="no dataset"):
        Store(tmp_path).system_of(None)
    name = write_session(tmp_path, 0)
    write_session(tmp_path, 1, system="elsewhere")
    with refused_as("several-systems", match=r"2 systems.*--system"):
        Store(tmp_path).system_of(None)
    with refused_as("system-unknown", match="no system 'mars'"):
        Store(tmp_path).system_of("mars")
    with refused_as("selector-empty"):  # a session of another system is not there
        Store(tmp_path).select("testbed", "latest~1")
    write_session(tmp_path, 0, started=datetime(2026, 2, 1, tzinfo=timezone.utc))
    with refused_as("session-unreadable", match=f"session {name} is in the dataset.*twice"):
        Store(tmp_path).select("testbed", "latest")
    for path in list(tmp_path.glob("*/system=testbed/date=2026-02-01/*.parquet")):
        path.unlink()
    early = write_session(tmp_path, 7, started=datetime.now(timezone.utc) + timedelta(days=30))
    for selector in ("latest", early, f"{early},{name}"):
        with refused_as("session-to-come", match=f"session {early}.*correct the clock.*mpibench sessions withdraw {early}"):
            Store(tmp_path).select("testbed", selector)


REACHED = {**gate("Uniband.bandwidth.0004194304", 910.0, 900.0), "upper": 1000.0}
RETRIED = [{"result": "fail", "superseded": True}, {"run": 1}]


@pytest.mark.parametrize(
    ("cases", "words"),
    [
        ([{"gates": [REACHED, {**REACHED, "value": 500.0}]}], "outcome"),
        ([{"gates": [{**REACHED, "value": 1000.5}]}], "outcome"),
        ([{"gates": [{**REACHED, "outcome": "fail"}]}], "outcome"),
        ([{"gates": [{**REACHED, "outcome": "no reference"}]}], "outcome"),
        ([{"gates": [{**REACHED, "lower": None, "upper": None}]}], "outcome"),
        ([{"gates": [{**REACHED, "value": None}]}], "outcome"),
        ([{"gates": [{**REACHED, "outcome": None}]}], "outcome"),
        ([{}, {"superseded": True, "result": "fail"}], "no later run"),
        ([{**RETRIED[0], "run": 1}, {"run": 0}], "no later run"),
        ([{**RETRIED[0], "stack": "mpich-spack"}, RETRIED[1]], "no later run"),
        ([{**RETRIED[0], "result": "pass"}, RETRIED[1]], "no later run"),
        ([{"started": None}, {}], "do not say when"),
        ([{"gates": [REACHED, {**REACHED, "upper": None}]}], ""),
        ([{"gates": [gate("Uniband.bandwidth.0004194304", 500.0, 900.0, "fail")]}], ""),
        (RETRIED, ""),
    ],
)
def test_rows_that_contradict_themselves_are_refused(tmp_path: Path, cases: list[dict[str, Any]], words: str) -> None:
    """A reference that is said to be reached, and a failure that was never run again, would be believed."""
    write_session(tmp_path, 0)
    write_session(tmp_path, 1, where=cases)
    [path] = (path for path in tmp_path.glob("cases/*/*/*.parquet") if path.stem.startswith("00000002"))
    if not words:
        assert Store(tmp_path).select("testbed", "latest").values.height
        return
    for asked in ("latest", "latest~1"):
        with refused_as("session-unreadable", match=f"{path} .*{words}.*: export that session again, or remove it"):
            Store(tmp_path).select("testbed", asked)


def test_no_bit_of_a_stored_session_can_change_unseen(tmp_path: Path) -> None:
    write_session(tmp_path, 0)
    for table in ("cases", "samples"):
        [path] = tmp_path.glob(f"{table}/*/*/*.parquet")
        whole, rows = path.read_bytes(), Store(tmp_path).scan(table).collect()
        for bit in Random(7).sample(range(8 * len(whole)), 150):
            flipped = bytearray(whole)
            flipped[bit // 8] ^= 1 << bit % 8
            path.write_bytes(flipped)
            try:  # one in what says that there is a digest changes no row
                assert Store(tmp_path).scan(table).collect().equals(rows)
            except BadInput as error:
                assert error.code == "session-unreadable" and str(path) in str(error) and "export" in str(error)
        path.write_bytes(whole)


def test_a_file_without_a_digest_is_read_as_before_and_refused_where_it_cannot_be_decoded(tmp_path: Path) -> None:
    write_session(tmp_path, 0, where={"gates": [REACHED]})
    write_session(tmp_path, 1)
    [path] = (path for path in tmp_path.glob("cases/*/*/*.parquet") if path.stem.startswith("00000001"))
    rows = Store(tmp_path).scan("cases").collect()
    said = {name: text for name, text in pl.read_parquet_metadata(path).items() if name.startswith("mpibench_")}
    del said[DIGEST_KEY]
    pl.read_parquet(path, hive_partitioning=False).write_parquet(path, metadata=said)
    assert Store(tmp_path).scan("cases").collect().equals(rows)
    whole, refused = path.read_bytes(), 0
    for bit in Random(7).sample(range(8 * len(whole)), 150):
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        try:
            Store(tmp_path).files("cases")
        except BadInput as error:
            refused += 1
            assert error.code == "session-unreadable" and str(path) in str(error) and "export" in str(error)
    assert refused > 15


def test_zero_is_no_ratio_and_is_said(tmp_path: Path) -> None:
    write_session(tmp_path, 0)
    notes = Store(tmp_path).select("testbed", "latest").notes
    assert any("5 values of zero" in note for note in notes)  # Uniband at 0 bytes


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("margins_percent: {latency_ms: 3}", "latency_ms"),
        ("margins_percent: {latency_us: -1}", "margins_percent.latency_us"),
        ("margins_percent: {latency_us: {huge: 3}}", "no such band"),
        ("marginz: 3", "marginz"),
        ("bands_bytes: {a: 10, b: 5, c: null}", "must ascend"),
        ("bands_bytes: {a: 10}", "must ascend"),
        ("minimum_repeats: 1", "minimum_repeats"),
        ("margins_percent: {latency_us: {small: .nan}}", "margins_percent.latency_us.small is not a finite number"),
        ("false_discovery_rate: .nan", "false_discovery_rate is not a finite number"),
        ("max_age_hours: .inf", "max_age_hours is not a finite number"),
        ("levels: [{since: 2026-01-01, slower_percent: .nan, why: x}]", "levels.0.slower_percent is not a finite number"),
        ("a: [", "not YAML"),
    ],
)
def test_a_bad_policy_is_one_sentence(tmp_path: Path, text: str, part: str) -> None:
    path = tmp_path / "site_configs" / "testbed" / "policy.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    with pytest.raises(BadInput, match=part) as caught:
        verdict_policy.load("testbed", tmp_path)
    assert "\n" not in str(caught.value)


def test_a_policy_with_a_key_of_before_is_read(tmp_path: Path) -> None:
    path = tmp_path / "site_configs" / "testbed" / "policy.yaml"
    path.parent.mkdir(parents=True)
    path.write_text("power: 0.8\nconfidence: 0.9\n")
    assert verdict_policy.load("testbed", tmp_path).confidence == 0.9


def test_the_bundled_policies_are_good(root: Path) -> None:
    for path in sorted(root.glob("site_configs/*/policy.yaml")):
        policy = verdict_policy.load(path.parent.name)
        assert policy.source == f"site_configs/{path.parent.name}/policy.yaml"
    here = verdict_policy.load("minicluster")
    assert here.margin("bandwidth_mb_per_s", here.band(65536)) == pytest.approx(0.04)
    assert here.judges("latency_us", here.band(4 << 20)) and not here.judges("latency_us", here.band(1 << 20))
    assert verdict_policy.load("nonsuch").margin("t_avg_us", "small") == pytest.approx(0.05)


def zero_at(repeats: tuple[int, ...], benchmark: str = "Uniband", size: int = 65536) -> Any:
    """Changes some repeats of one metric to zero."""

    def edit(row: dict[str, Any]) -> dict[str, Any]:
        hit = (row["benchmark"], row["message_bytes"]) == (benchmark, size) and row["repeat"] in repeats
        return {**row, "value": 0.0} if hit else row

    return edit


@pytest.mark.parametrize("repeats", [(2, 3, 4, 5), (5,), (1, 2, 3, 4, 5)])
def test_a_bandwidth_of_zero_is_the_worst_value_and_not_left_out(tmp_path: Path, repeats: tuple[int, ...]) -> None:
    write_session(tmp_path, 0)
    write_session(tmp_path, 1, edit=zero_at(repeats))
    judgement = judge(tmp_path)
    (row,) = judgement.metrics.filter(pl.col("verdict") == "regressed").to_dicts()
    assert (row["benchmark"], row["message_bytes"], row["why"]) == (
        *("Uniband", 65536),
        f"{len(repeats)} of 5 values of the candidate are zero",
    )
    assert row["candidate_repeats"] == 5
    assert judgement.verdict == "regressed"
    assert f"at 64 KiB: {len(repeats)} of 5 values of the candidate are zero" in verdict_text.sentences(judgement)[0]


def test_a_bandwidth_of_zero_is_not_replaced_by_the_rate_beside_it(tmp_path: Path) -> None:
    """Benchmarks that print both: only the bandwidth is judged, also where it is zero."""
    write_session(tmp_path, 0)
    write_session(tmp_path, 1, edit=zero_at((1, 2)))
    for path in tmp_path.glob("samples/*/*/*.parquet"):
        table = pl.read_parquet(path)
        rates = table.filter(pl.col("benchmark") == "Uniband").with_columns(
            quantity=pl.lit("message_rate_per_s"), unit=pl.lit("msg/s"), value=1e5 + pl.col("repeat")
        )
        write_file(path, pl.concat([table, rates]))
    judgement = judge(tmp_path)
    assert judgement.verdict == "regressed"
    assert sizes_of(judgement, "regressed", "Uniband") == [65536]


def test_a_baseline_of_zero_never_helps_the_candidate(tmp_path: Path) -> None:
    write_session(tmp_path, 0, edit=zero_at((1, 2)))
    write_session(tmp_path, 1)
    judgement = judge(tmp_path)
    (row,) = judgement.metrics.filter(pl.col("message_bytes") == 65536, pl.col("benchmark") == "Uniband").to_dicts()
    assert row["verdict"] == "inconclusive"
    assert row["why"].startswith("2 of 5 values of the baseline are zero: no ground to compare with")
    assert judgement.counts()["improved"] == 0


def test_a_message_of_no_bytes_has_no_bandwidth_and_that_is_no_loss(tmp_path: Path) -> None:
    empty = zero_at((1, 2, 3, 4, 5), size=0)
    write_before(tmp_path, edit=empty)
    for number in range(2):
        write_session(tmp_path, number, edit=empty)
    assert judge(tmp_path).verdict == "pass"


def test_a_stored_latency_of_zero_is_damage(tmp_path: Path) -> None:
    write_session(tmp_path, 0)
    write_session(tmp_path, 1, edit=zero_at((2,), benchmark="PingPong"))
    with refused_as(
        "value-not-finite", match=r"PingPong latency_us of case .* is 0, which nothing can take.*leave the case out with"
    ):
        judge(tmp_path)

"""Verdicts on datasets with known changes, and the one place
that decides which cases may be used.
"""

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from random import Random

import polars as pl
import pytest

from dataset_here import HERE, write_before, write_session, write_sessions
from mpibench.judge import comparison, pairing
from mpibench.judge import policy as verdict_policy
from mpibench.store import eligibility, selectors
from mpibench.store.dataset_layout import DIGEST_KEY, write_file
from mpibench.store.store import Store
from reframe_tests.harness.vocabulary import BadInput
from refusals import refused_as
from synthetic_verdicts import FIRST, SIZES

POLICY = verdict_policy.Policy(between_jobs_percent=0.2, between_jobs_times_repeats=0)


def sides_of():
    """The nights before (:func:`write_before`) with the last but one session, and the last."""
    store = Store(HERE)
    before = "20251201:20260105"
    known = selectors.sessions_table(store.cases("testbed"))
    old = selectors.select(before, known) if known["started"].min() < FIRST else []
    return [store.select("testbed", name) for name in (",".join([*old, "latest~1"]), "latest")]


def select(selector="latest", **options):
    return Store(HERE).select("testbed", selector, **options)


def judge(policy=POLICY):
    return comparison.judge(*sides_of(), policy)


def test_jobs_are_the_units_of_two_sides_where_there_are_enough():
    write_session(0, jobs=4)
    write_session(1, jobs=3)
    judgement = comparison.judge(*sides_of(), POLICY, asked=comparison.Question.SIDES)
    row = judgement.metrics.row(0, named=True)
    assert (row["units"], row["baseline_jobs"], row["candidate_jobs"]) == ("jobs", 4, 3)
    assert judgement.verdict == comparison.PASS


def test_two_sides_that_differ_as_jobs_do_are_no_finding():
    write_sessions([1.0, 1.06], noise=0.001)
    for percent, verdict in ((5, comparison.INCONCLUSIVE), (0.2, comparison.REGRESSED)):
        policy = verdict_policy.Policy(between_jobs_percent=percent)
        judgement = comparison.judge(*sides_of(), policy, asked=comparison.Question.SIDES)
        assert judgement.verdict == verdict, percent


def test_what_has_no_margin_is_not_judged_and_counted():
    write_before()
    write_sessions([1.0, lambda _, size, __: 3.0 if size <= 1024 else 1.0])
    nothing = {name: {"small": None} for name in ("latency_us", "bandwidth_mb_per_s")}
    policy = replace(POLICY, margins_percent=nothing)
    sides = sides_of()
    judgement = comparison.judge(*sides, policy)
    assert judgement.verdict == comparison.PASS
    assert judgement.without_margin == 9  # five sizes of PingPong, four of Uniband
    assert comparison.judge(*sides, policy.judging_all()).verdict == comparison.REGRESSED
    write_session(2, sizes=SIZES[2:])  # what is gone is missing all the same
    sides[1] = select()
    assert comparison.judge(*sides, policy).verdict == comparison.MISSING


def test_a_renamed_benchmark_is_missing_until_it_is_named():
    write_before()
    write_session(0)
    renamed = {"PingPong": "latency_us", "Unidirectional": "bandwidth_mb_per_s"}
    write_session(1, benchmarks=renamed)
    judgement = judge()
    missing = judgement.metrics.filter(verdict=comparison.MISSING)
    assert set(missing["benchmark"]) == {"Uniband"} and missing.height == len(SIZES) - 1
    assert set(judgement.new["benchmark"]) == {"Unidirectional"}
    old, candidate = sides_of()
    baseline = select(old.selector, rename={"Uniband": "Unidirectional"})
    assert comparison.judge(baseline, candidate, POLICY).verdict == comparison.PASS
    with refused_as("unknown-name"):
        select(rename={"Nonsuch": "X"})


def test_cases_that_are_never_used():
    write_session(0, labels={"recorded": "by hand"})  # a label makes no difference
    cases = Store(HERE).cases("testbed").collect()
    assert eligibility.split_cases(cases).eligible.height == 1
    for changes in (
        {"evidence": "contradicted"},
        {"result": "fail", "fail_phase": "sanity"},
        {"result": "abort"},
        {"superseded": True},
        {"samples": 0},
    ):
        changed = cases.with_columns(**{name: pl.lit(value) for name, value in changes.items()})
        assert eligibility.split_cases(changed).eligible.is_empty(), changes


def test_a_missed_reference_is_compared_but_not_learned_from():
    write_session(0, result="fail")
    assert select().values.height == 105
    with refused_as("bad-option", match="missed a reference"):
        select(for_learning=True)


@pytest.mark.parametrize("digest", [True, False])
def test_a_file_that_was_edited_is_refused(digest):
    """A reference that is said to be reached, and a failure that
    was never run again, would be believed.
    """
    write_sessions(2)
    path = max(HERE.glob("cases/*/*/*.parquet"))
    said = pl.read_parquet_metadata(path)
    kept = {name: said[name] for name in said if name.startswith("mpibench_")}
    if not digest:
        del kept[DIGEST_KEY]
    changed = pl.read_parquet(path, hive_partitioning=False).with_columns(superseded=pl.lit(True))
    changed.write_parquet(path, metadata=kept)
    for asked in ("latest", "latest~1"):
        with refused_as("file-unreadable", match=f"{path} "):
            select(asked)


def test_no_bit_of_a_stored_session_can_change_unseen():
    write_session(0)
    for table in ("cases", "samples"):
        [path] = HERE.glob(f"{table}/*/*/*.parquet")
        whole = path.read_bytes()
        rows = Store(HERE).scan(table).collect()
        for bit in Random(7).sample(range(8 * len(whole)), 150):
            flipped = bytearray(whole)
            flipped[bit // 8] ^= 1 << bit % 8
            path.write_bytes(flipped)
            try:  # one in what says that there is a digest changes no row
                assert Store(HERE).scan(table).collect().equals(rows)
            except BadInput as error:
                assert error.code == "file-unreadable" and str(path) in str(error)
        path.write_bytes(whole)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("margins_percent: {latency_ms: 3}", "latency_ms"),
        ("margins_percent: {latency_us: {huge: 3}}", "unknown band"),
        ("marginz: 3", "marginz"),
        ("bands_bytes: {a: 10, b: 5, c: null}", "must ascend"),
        ("levels: [{since: 2026-01-01, slower_percent: .nan, why: x}]", "is not a finite number"),
        ("a: [", "not YAML"),
    ],
)
def test_a_bad_policy_is_one_sentence(text, part):
    path = Path("site_configs/testbed/policy.yaml")
    path.parent.mkdir(parents=True)
    path.write_text(text)
    with pytest.raises(BadInput, match=part):
        verdict_policy.load("testbed", HERE)


def test_the_bundled_policies_are_good(root):
    for path in sorted(root.glob("site_configs/*/policy.yaml")):
        verdict_policy.load(path.parent.name)
    here = verdict_policy.load("minicluster")
    assert here.judges("latency_us", here.band(4 << 20))
    assert not here.judges("latency_us", here.band(1 << 20))
    assert verdict_policy.load("nonsuch").margin("t_avg_us", "small") == pytest.approx(0.05)


def zero_at(repeats, size=65536):
    """Changes some repeats of one metric to zero."""

    def edit(row):
        hit = (row["benchmark"], row["message_bytes"]) == ("Uniband", size)
        return {**row, "value": 0.0} if hit and row["repeat"] in repeats else row

    return edit


ALL = (1, 2, 3, 4, 5)


@pytest.mark.parametrize("repeats", [(5,), ALL])
def test_a_bandwidth_of_zero_is_the_worst_value_and_not_left_out(repeats):
    """Nor replaced by the rate beside it, which some benchmarks print, too."""
    write_session(0)
    write_session(1, edit=zero_at(repeats))
    for path in HERE.glob("samples/*/*/*.parquet"):
        table = pl.read_parquet(path)
        rates = table.filter(pl.col("benchmark") == "Uniband").with_columns(
            quantity=pl.lit("message_rate_per_s"),
            unit=pl.lit("msg/s"),
            value=1e5 + pl.col("repeat"),
        )
        write_file(path, pl.concat([table, rates]))
    judgement = judge()
    assert judgement.verdict == "regressed"
    [row] = judgement.metrics.filter(verdict="regressed").to_dicts()
    assert (row["benchmark"], row["message_bytes"]) == ("Uniband", 65536)
    assert row["why"] == f"{len(repeats)} of 5 values of the candidate are zero"


def test_a_baseline_of_zero_never_helps_the_candidate():
    write_session(0, edit=zero_at((1, 2)))
    write_session(1)
    judgement = judge()
    [row] = judgement.metrics.filter(message_bytes=65536, benchmark="Uniband").to_dicts()
    assert row["verdict"] == "inconclusive" and row["why"].startswith("2 of 5 values of the")
    assert judgement.counts()["improved"] == 0


def test_a_message_of_no_bytes_has_no_bandwidth_and_that_is_no_loss():
    empty = zero_at(ALL, size=0)
    write_before(edit=empty)
    write_sessions(2, edit=empty)
    assert judge().verdict == "pass"


def test_duplicate_future_and_foreign_sessions_are_refused():
    with refused_as("session-missing"):
        Store(HERE).system_of(None)
    name = write_session(0)
    write_session(1, system="elsewhere")
    with refused_as("ambiguous-name"):
        Store(HERE).system_of(None)
    with refused_as("unknown-name"):
        Store(HERE).system_of("mars")
    with refused_as("bad-option"):  # a session of another system is not there
        select("latest~1")
    write_session(0, started=datetime(2026, 2, 1, tzinfo=timezone.utc))
    with refused_as("file-unreadable", match=f"session {name} is in the dataset.*twice"):
        select()
    for path in list(HERE.glob("*/system=testbed/date=2026-02-01/*.parquet")):
        path.unlink()
    early = write_session(7, started=datetime.now(timezone.utc) + timedelta(days=30))
    for selector in ("latest", early, f"{early},{name}"):
        with refused_as("bad-option", match=f"session {early}.*correct the clock"):
            select(selector)


@pytest.mark.parametrize("value", [0.0, float("nan")])
def test_a_stored_latency_of_nothing_is_damage(value):
    write_session(0, sizes=(8,), edit=lambda row: {**row, "value": value})
    with refused_as("output-damaged", match="which is impossible"):
        select()


#: Of a case whose ranks shared cores.
SHARED = {"oversubscribed": "64 ranks on 2 cores"}


def test_metrics_of_ranks_that_shared_cores_are_other_metrics():
    """No ratio is made of one and the other; what the other side has is missing, which refuses."""
    plain = write_session(0)
    shared = write_session(1, condition=SHARED)
    assert set(select(plain).values["variant"]) == {""}
    assert set(select(shared).values["variant"]) == {"oversubscribed"}
    for first, second in ((plain, shared), (shared, plain)):
        sides = select(first), select(second)
        judged = comparison.judge(*sides, verdict_policy.load("testbed"))
        assert judged.metrics["ratio"].drop_nulls().is_empty()
        assert set(judged.metrics["verdict"]) == {"missing"}
    more = write_session(2, condition={"oversubscribed": "128 ranks on 2 cores"})
    assert pairing.pair(Store(HERE), "", "session", shared, more).unequal == ()
    with refused_as("not-comparable"):
        pairing.pair(Store(HERE), "", "session", plain, shared, allow=("nodelist", "placement"))

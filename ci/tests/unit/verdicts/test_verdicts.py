"""Verdicts on datasets with known changes, and the one place
that decides which cases may be used.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path
from random import Random
from typing import Any

import polars as pl
import pytest

from mpibench.judge import comparison
from mpibench.judge import policy as verdict_policy
from mpibench.store import selectors
from mpibench.store.dataset_layout import DIGEST_KEY, write_file
from mpibench.store.session_values import Selection
from mpibench.store.store import Store
from reframe_tests.harness.vocabulary import BadInput
from refusals import refused_as
from synthetic_verdicts import FIRST, by, write_before, write_session

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


def test_a_slower_link_is_found_in_both_directions_of_better(tmp_path: Path) -> None:
    write_before(tmp_path)
    write_session(tmp_path, 0)
    write_session(tmp_path, 1, change=by(1.08))
    judgement = judge(tmp_path)
    assert judgement.counts()["regressed"] == 21
    rows = {row["benchmark"]: row for row in judgement.bands.to_dicts() if row["band"] == "large"}
    assert rows["PingPong"]["ratio"] == pytest.approx(1.08, abs=0.01)
    assert rows["Uniband"]["ratio"] == pytest.approx(1 / 1.08, abs=0.01)
    assert rows["Uniband"]["low"] < 1 / 1.08 < rows["Uniband"]["high"] < 1
    assert rows["Uniband"]["slower"] == pytest.approx(0.08, abs=0.01)


def test_jobs_are_the_units_of_two_sides_where_there_are_enough(tmp_path: Path) -> None:
    write_session(tmp_path, 0, jobs=4)
    write_session(tmp_path, 1, jobs=3)
    judgement = comparison.judge(*sides_of(tmp_path), POLICY, asked=comparison.Question.SIDES)
    row = judgement.metrics.row(0, named=True)
    assert (row["units"], row["baseline_jobs"], row["candidate_jobs"]) == ("jobs", 4, 3)
    assert judgement.verdict == comparison.PASS


@pytest.mark.parametrize("kept", ["digest", "no digest"])
def test_a_file_that_was_edited_is_refused(tmp_path: Path, kept: str) -> None:
    """A reference that is said to be reached, and a failure that
    was never run again, would be believed.
    """
    write_session(tmp_path, 0)
    write_session(tmp_path, 1)
    path = max(tmp_path.glob("cases/*/*/*.parquet"))
    said = {
        name: text
        for name, text in pl.read_parquet_metadata(path).items()
        if name.startswith("mpibench_") and (kept == "digest" or name != DIGEST_KEY)
    }
    changed = pl.read_parquet(path, hive_partitioning=False).with_columns(superseded=pl.lit(True))
    changed.write_parquet(path, metadata=said)
    for asked in ("latest", "latest~1"):
        with refused_as("file-unreadable", match=f"{path} "):
            Store(tmp_path).select("testbed", asked)


def test_no_bit_of_a_stored_session_can_change_unseen(tmp_path: Path) -> None:
    write_session(tmp_path, 0)
    for table in ("cases", "samples"):
        [path] = tmp_path.glob(f"{table}/*/*/*.parquet")
        whole = path.read_bytes()
        rows = Store(tmp_path).scan(table).collect()
        for bit in Random(7).sample(range(8 * len(whole)), 150):
            flipped = bytearray(whole)
            flipped[bit // 8] ^= 1 << bit % 8
            path.write_bytes(flipped)
            try:  # one in what says that there is a digest changes no row
                assert Store(tmp_path).scan(table).collect().equals(rows)
            except BadInput as error:
                assert (
                    error.code == "file-unreadable"
                    and str(path) in str(error)
                    and "export" in str(error)
                )
        path.write_bytes(whole)


def zero_at(repeats: tuple[int, ...], benchmark: str = "Uniband", size: int = 65536) -> Any:
    """Changes some repeats of one metric to zero."""

    def edit(row: dict[str, Any]) -> dict[str, Any]:
        metric = row["benchmark"], row["message_bytes"]
        hit = metric == (benchmark, size) and row["repeat"] in repeats
        return {**row, "value": 0.0} if hit else row

    return edit


@pytest.mark.parametrize("repeats", [(5,), (1, 2, 3, 4, 5)])
def test_a_bandwidth_of_zero_is_the_worst_value_and_not_left_out(
    tmp_path: Path, repeats: tuple[int, ...]
) -> None:
    """Nor replaced by the rate beside it, which some benchmarks print, too."""
    write_session(tmp_path, 0)
    write_session(tmp_path, 1, edit=zero_at(repeats))
    for path in tmp_path.glob("samples/*/*/*.parquet"):
        table = pl.read_parquet(path)
        rates = table.filter(pl.col("benchmark") == "Uniband").with_columns(
            quantity=pl.lit("message_rate_per_s"),
            unit=pl.lit("msg/s"),
            value=1e5 + pl.col("repeat"),
        )
        write_file(path, pl.concat([table, rates]))
    judgement = judge(tmp_path)
    assert judgement.verdict == "regressed"
    [row] = judgement.metrics.filter(pl.col("verdict") == "regressed").to_dicts()
    assert (row["benchmark"], row["message_bytes"]) == ("Uniband", 65536)
    assert row["why"] == f"{len(repeats)} of 5 values of the candidate are zero"


def test_duplicate_future_and_foreign_sessions_are_refused(tmp_path: Path) -> None:
    with refused_as("session-missing"):
        Store(tmp_path).system_of(None)
    name = write_session(tmp_path, 0)
    write_session(tmp_path, 1, system="elsewhere")
    with refused_as("ambiguous-name"):
        Store(tmp_path).system_of(None)
    with refused_as("unknown-name"):
        Store(tmp_path).system_of("mars")
    with refused_as("bad-option"):  # a session of another system is not there
        Store(tmp_path).select("testbed", "latest~1")
    write_session(tmp_path, 0, started=datetime(2026, 2, 1, tzinfo=timezone.utc))
    with refused_as("file-unreadable", match=f"session {name} is in the dataset.*twice"):
        Store(tmp_path).select("testbed", "latest")
    for path in list(tmp_path.glob("*/system=testbed/date=2026-02-01/*.parquet")):
        path.unlink()
    early = write_session(tmp_path, 7, started=datetime.now(timezone.utc) + timedelta(days=30))
    for selector in ("latest", early, f"{early},{name}"):
        with refused_as("bad-option", match=f"session {early}.*correct the clock"):
            Store(tmp_path).select("testbed", selector)


@pytest.mark.parametrize("value", [0.0, float("nan")])
def test_a_stored_latency_of_nothing_is_damage(tmp_path: Path, value: float) -> None:
    write_session(
        tmp_path,
        0,
        edit=lambda row: {**row, "value": value} if row["message_bytes"] == 8 else row,
    )
    with refused_as("output-damaged", match="which nothing can take"):
        Store(tmp_path).select("testbed", "latest")

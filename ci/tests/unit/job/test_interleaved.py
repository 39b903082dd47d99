"""Two stacks interleaved in one job: each in its own environment, stored as two cases, compared pair by pair."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mpibench.judge import curve_tests, pairing
from mpibench.store import sessions
from mpibench.store.dataset_layout import write_file
from mpibench.store.store import Store
from reframe_tests.harness.cases.job import interleaved
from reframe_tests.harness.stacks.stack import Stack
from reframe_tests.harness.vocabulary import NotMeasured
from synthetic_conditions import simple_condition
from synthetic_report import SMALL_REPORT
from synthetic_verdicts import write_session


def test_stacks_that_cannot_share_a_job_are_named(require_stack: Callable[[str], Stack]) -> None:
    own = require_stack("mpich-wheels")
    with pytest.raises(NotMeasured, match="own stack"):
        interleaved.find(own.name, own)
    with pytest.raises(NotMeasured, match=r"is not a stack here; there are .*mpich-wheels"):
        interleaved.find("nosuch", own)
    with pytest.raises(NotMeasured, match="other cores"):
        interleaved.pair(simple_condition({}, {}, {}, core_list=((0,),)), simple_condition({}, {}, {}, core_list=((1,),)), ())
    files = [SimpleNamespace(files={"hosts": text}, scripts={}) for text in ("a", "b")]
    with pytest.raises(NotMeasured, match="another file hosts"):
        interleaved.pair(*(simple_condition({}, {}, {}, binding=one) for one in files), ())


def test_a_stored_case_with_a_paired_stack_is_two_cases() -> None:
    entry = dict(SMALL_REPORT["runs"][0]["testcases"][0])
    run = {"condition": {**entry["condition"], "stack": "other-stack"}, "samples": entry["samples"], "proof": entry["proof"]}
    report = {**SMALL_REPORT, "runs": [{"testcases": [{**entry, "rival_run": run}]}]}
    own, other = sessions._cases(report, "here")
    assert (other.uuid, other.stack) == (own.uuid + sessions.PAIRED, "other-stack")
    assert (other.samples, other.gates, other.job_id) == (own.samples, (), own.job_id)
    report["runs"][0]["testcases"][0]["rival_run"] = ["?"]
    with pytest.raises(sessions.BadInput, match="rival_run"):
        list(sessions._cases(report, "here"))


@pytest.mark.parametrize(("jobs", "units"), [(1, curve_tests.PAIRS), (3, curve_tests.PAIRS)])
def test_pairs_see_what_the_machines_noise_hides(tmp_path: Path, jobs: int, units: str) -> None:
    """Both stacks meet the same 20 % of noise in each repeat; 3 % between them is seen only pair by pair."""
    rng = np.random.default_rng(5)
    shared: dict[tuple[str, int], float] = {}

    def interleave(pair: bool) -> Callable[[dict[str, Any]], dict[str, Any]]:
        def edit(row: dict[str, Any]) -> dict[str, Any]:
            place = int(row["case"].rsplit(":", 1)[1])
            base, theirs = place % jobs, place >= jobs
            noise = shared.setdefault((base, row["repeat"]), float(np.exp(0.2 * rng.standard_normal())))
            case = f"{row['session']}:0:{base}{':rival' if theirs else ''}" if pair else row["case"]
            return {**row, "case": case, "value": row["value"] * noise * (1.03 if theirs else 1.0)}

        return edit

    for number, pair in enumerate((True, False)):
        folder = tmp_path / str(pair)
        options = {"stacks": ("a-spack", "b-spack"), "jobs": jobs, "noise": 0.002, "benchmarks": {"PingPong": "latency_us"}}
        write_session(folder, number, edit=interleave(pair), **options)
        if pair:
            name_the_cases(folder, jobs)
        rows = pairing.pair(Store(folder), "latest", "stack", "a-spack", "b-spack").bands.to_dicts()
        assert {row["winner"] for row in rows} == ({"a-spack"} if pair else {pairing.TIE})
        assert ({row["units"] for row in rows} == {units}) == pair
        if pair:
            assert all(row["ratio"] == pytest.approx(1.03, abs=0.006) for row in rows)


def name_the_cases(folder: Path, jobs: int) -> None:
    """The table of cases with the ids that the samples have."""
    import polars as pl

    path = next((folder / "cases").rglob("*.parquet"))
    table = pl.read_parquet(path)
    names = [f"{table['session'][0]}:0:{place % jobs}{':rival' if place >= jobs else ''}" for place in range(2 * jobs)]
    write_file(path, table.with_columns(case=pl.Series(names)))

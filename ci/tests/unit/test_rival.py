"""Two stacks in turns in one job: each in its own environment, stored as two cases, compared pair by pair."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mpibench import cli
from mpibench.results import sessions
from mpibench.verdict_pages import compare, compare_tables
from mpibench.verdicts import comparison
from reframe_tests.harness.job import interleaved, script
from reframe_tests.harness.stacks.stack import Stack
from reframe_tests.harness.vocabulary import NotMeasured
from synthetic_report import SMALL_REPORT
from synthetic_verdicts import write_session

CASE = "PointToPoint%fabric=shm%nodes=1%ppn=2%pinning=bunch"


def condition(env: dict[str, str], paths: dict[str, tuple[str, ...]], debug: dict[str, str], **more: Any) -> SimpleNamespace:
    empty = SimpleNamespace(files={}, scripts={})
    stack = SimpleNamespace(name="theirs", env_vars=env, prepend_path=paths)
    return SimpleNamespace(
        **{
            "stack": stack,
            "job_env": {},
            "assignments": {},
            "debug_env": debug,
            "binding": empty,
            "bootstrap": empty,
            "core_list": None,
            **more,
        }
    )


def test_the_rival_leaves_the_jobs_stack_and_enters_its_own(tmp_path: Path) -> None:
    own = condition({"OWN": "1", "BOTH": "own"}, {"LIBS": ("/own/a", "/own/b"), "ONLY": ("/own",)}, {"OWN_DEBUG": "x"})
    theirs = condition(
        {"BOTH": "it's $theirs"}, {"LIBS": ("/their libs",), "MORE": ("/more",)}, {"LOG": f"a={script.DEBUG_FILE}"}
    )
    command = script.Command(
        "rival_p",
        ["env"],
        ["sh", "-c", 'env | grep -E "^(OWN|BOTH|LIBS|ONLY|MORE|OWN_DEBUG|LOG)="'],
        interleaved._enter("rival_p", own, theirs),
    )
    body = script.write_body([command], repeats=2, limit_s=60, recorder="", debug_env={"OWN_DEBUG": "y"})
    head = ["export OWN=1 BOTH=own LIBS=/own/a:/own/b:/site ONLY=/own", "unset MORE"]
    done = subprocess.run(
        ["bash", "-c", "\n".join([*head, *body, "measure"])], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
    said = dict(line.split("=", 1) for line in (tmp_path / "rival_p.2.out").read_text().splitlines())
    log = f"a={tmp_path}/rival_p.2.debug"
    assert said == {"BOTH": "it's $theirs", "LIBS": "/their libs:/site", "ONLY": "", "MORE": "/more", "LOG": log}


def test_who_cannot_share_a_job_is_told(require_stack: Callable[[str], Stack]) -> None:
    own = require_stack("mpich-wheels")
    with pytest.raises(NotMeasured, match="own stack"):
        interleaved.find(own.name, own)
    with pytest.raises(NotMeasured, match=r"no stack here; there are .*mpich-wheels"):
        interleaved.find("nosuch", own)
    with pytest.raises(NotMeasured, match="other cores"):
        interleaved.pair(condition({}, {}, {}, core_list=((0,),)), condition({}, {}, {}, core_list=((1,),)), ())
    files = [SimpleNamespace(files={"hosts": text}, scripts={}) for text in ("a", "b")]
    with pytest.raises(NotMeasured, match="another file hosts"):
        interleaved.pair(*(condition({}, {}, {}, binding=one) for one in files), ())


def test_a_stored_case_with_a_rival_is_two_cases() -> None:
    entry = dict(SMALL_REPORT["runs"][0]["testcases"][0])
    run = {"condition": {**entry["condition"], "stack": "rival-stack"}, "samples": entry["samples"], "proof": entry["proof"]}
    report = {**SMALL_REPORT, "runs": [{"testcases": [{**entry, "rival_run": run}]}]}
    own, other = sessions._cases(report, "here")
    assert (other.uuid, other.stack) == (own.uuid + sessions.RIVAL, "rival-stack")
    assert (other.samples, other.gates, other.job_id) == (own.samples, (), own.job_id)
    report["runs"][0]["testcases"][0]["rival_run"] = ["?"]
    with pytest.raises(sessions.BadInput, match="rival_run"):
        list(sessions._cases(report, "here"))


@pytest.mark.parametrize(("jobs", "units"), [(1, comparison.PAIRS), (3, comparison.PAIRS)])
def test_pairs_see_what_the_machines_noise_hides(tmp_path: Path, jobs: int, units: str) -> None:
    """Both stacks meet the same 20 % of noise in each repeat; 3 % between them is seen only pair by pair."""
    rng = np.random.default_rng(5)
    shared: dict[tuple[str, int], float] = {}

    def in_turns(pair: bool) -> Callable[[dict[str, Any]], dict[str, Any]]:
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
        write_session(folder, number, edit=in_turns(pair), **options)
        if pair:
            name_the_cases(folder, jobs)
        rows = compare.pair(folder, "latest", "stack", "a-spack", "b-spack").bands.to_dicts()
        assert {row["winner"] for row in rows} == ({"a-spack"} if pair else {compare_tables.TIE})
        assert ({row["units"] for row in rows} == {units}) == pair
        if pair:
            assert all(row["ratio"] == pytest.approx(1.03, abs=0.006) for row in rows)


def name_the_cases(folder: Path, jobs: int) -> None:
    """The table of cases with the ids that the samples have."""
    import polars as pl

    path = next((folder / "cases").rglob("*.parquet"))
    table = pl.read_parquet(path)
    names = [f"{table['session'][0]}:0:{place % jobs}{':rival' if place >= jobs else ''}" for place in range(2 * jobs)]
    table.with_columns(case=pl.Series(names)).write_parquet(path)


def test_two_stacks_in_one_real_job(
    tmp_path: Path, require_stack: Callable[[str], Stack], run_reframe: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    require_stack("intelmpi-wheels"), require_stack("mpich-wheels")
    environ = {"RFM_SQLITE_DB_FILE": str(tmp_path / "results.db"), "RFM_PREFIX": str(tmp_path)}
    chosen = ("-n", CASE, "-p", "intelmpi-wheels", "-S", "depth=smoke", "-S", "rival=mpich-wheels", "--system=generic")
    done = run_reframe("-r", *chosen, environ=environ)
    cases = sessions.read_session(tmp_path / "results.db").cases
    if any(case.result == "skip" for case in cases):
        pytest.skip(f"not measured here: {cases[0].reason}")
    assert done.returncode == 0, done.stdout[-2000:]
    assert [(case.stack, case.evidence) for case in cases] == [("intelmpi-wheels", "proven"), ("mpich-wheels", "proven")]
    assert "MPICH" in (cases[1].proof.library_version or "") and "Intel" in (cases[0].proof.library_version or "")
    words = ("--db", str(tmp_path / "results.db"), "--dataset", str(tmp_path / "set"), "--out", str(tmp_path / "page.html"))
    assert cli.main(["compare", "intelmpi-wheels", "mpich-wheels", *words]) == 0
    assert "in turns in the same jobs" in capsys.readouterr().out

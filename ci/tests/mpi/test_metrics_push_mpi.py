"""Values of real sessions pushed to a site's own monitoring through ReFrame's own handler."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from metrics_gateway import Gateway, read
from reframe_tests.harness.stacks.stack import Stack

ONE = "ImbPointToPoint%fabric=shm%nodes=1%ppn=2%pinning=bunch"


@pytest.mark.parametrize("kind", ["prometheus+", ""])
def test_a_real_session_is_sent(
    kind: str,
    gateway: tuple[str, Gateway],
    require_stack: Callable[[str], Stack],
    run_reframe: Callable[..., Any],
    tmp_path: Path,
) -> None:
    require_stack("mpich-wheels")
    require_stack("intelmpi-wheels")
    url, kept = gateway
    done = run_session(run_reframe, tmp_path, f"{kind}{url}/metrics/job/mpibench")
    assert done.returncode == 0, done.stdout[-2000:]
    if kind:
        pushed = [(name, dict(labels)) for name, labels, _ in read(kept.metrics())]
        assert {labels["stack"] for _, labels in pushed} == {"mpich-wheels", "intelmpi-wheels"}
        assert {labels["benchmark"] for _, labels in pushed} == {"PingPong", "PingPing"}
        assert {(labels["system"], labels["partition"], labels["group"]) for _, labels in pushed} == {
            ("generic", "default", "p2p")
        }
        assert {name for name, _ in pushed} == {"mpibench_latency_us", "mpibench_bandwidth_mb_per_s"}
    else:
        assert {path for path, _, _ in kept.posts} == {"/metrics/job/mpibench"}
        sent = [row for _, _, body in kept.posts for row in json.loads(body)]
        assert {(row["benchmark"], row["stack"]) for row in sent} == {
            (benchmark, stack) for benchmark in ("PingPong", "PingPing") for stack in ("mpich-wheels", "intelmpi-wheels")
        }


def run_session(run_reframe: Callable[..., Any], folder: Path, metrics: str) -> Any:
    environ = {"MPIBENCH_METRICS": metrics, "RFM_PREFIX": str(folder)}
    environ["RFM_SQLITE_DB_FILE"] = str(folder / "results.db")
    environ["NO_PROXY"] = environ["no_proxy"] = "127.0.0.1"
    options = ("-p", "(mpich|intelmpi)-wheels", "-S", "level=smoke", "-S", "repeats=1", "--system=generic")
    done = run_reframe("-r", "-n", ONE, *options, environ=environ, only="point_to_point.py")
    if "[    SKIP ]" in done.stdout:
        pytest.skip("[cores] two ranks in one node are not measured here")
    return done


def test_a_gateway_that_refuses_harms_no_test(
    gateway: tuple[str, Gateway], require_stack: Callable[[str], Stack], run_reframe: Callable[..., Any], tmp_path: Path
) -> None:
    require_stack("mpich-wheels")
    url, kept = gateway
    kept.status = 400
    done = run_session(run_reframe, tmp_path, f"prometheus+{url}/metrics/job/mpibench")
    assert done.returncode == 0
    assert "MPIBENCH_METRICS got no metrics: HTTP Error 400" in done.stdout + done.stderr

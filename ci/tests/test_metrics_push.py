"""Values pushed to a site's monitoring through ReFrame's own handler: sent, in both formats, and only what is proven."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from reframe_tests.harness import metrics_push
from reframe_tests.harness.stack import Stack
from reframe_tests.harness.vocabulary import BadInput

SAMPLE = {
    **{"suite": "imb", "benchmark": "PingPong", "variant": "", "ranks": 2, "groups": 1, "message_bytes": 8},
    **{"quantity": "latency_us", "unit": "us", "direction": "lower", "values": [1.5, None, 1.25]},
}
ONE = "PointToPoint%fabric=shm%nodes=1%ppn=2%pinning=bunch"


@pytest.fixture
def collector() -> Iterator[tuple[str, list[tuple[str, str, str]]]]:
    """A server that keeps path, content type and body of what is posted to it."""
    got: list[tuple[str, str, str]] = []

    class Keep(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            got.append((self.path, self.headers["Content-type"], body))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *words: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Keep)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", got
    server.shutdown()
    server.server_close()


def record(verdict: str = "proven") -> SimpleNamespace:
    return SimpleNamespace(
        **{"check_system": "s", "check_partition": "p", "check_environ": 'a"b\\', "check_fabric": "shm", "check_nodes": 1},
        **{"check_ranks_per_node": 2, "check_pinning": "bunch", "check_proof": {"verdict": verdict}, "check_samples": [SAMPLE]},
    )


def test_prometheus_text() -> None:
    assert metrics_push.as_prometheus(record(), {"site": "x"}, ()) == (
        "# TYPE mpibench_latency_us gauge\n"
        'mpibench_latency_us{system="s",partition="p",stack="a\\"b\\\\",fabric="shm",nodes="1",ppn="2",pinning="bunch",'
        'suite="imb",benchmark="PingPong",ranks="2",groups="1",message_bytes="8",site="x"} 1.375\n'
    )


def test_json_has_every_repeat() -> None:
    (row,) = json.loads(metrics_push.as_json(record(), None, ()))
    assert (row["stack"], row["values"], row["unit"]) == ('a"b\\', [1.5, None, 1.25], "us")


@pytest.mark.parametrize("verdict", ["contradicted", "missing", "replayed", ""])
def test_what_is_not_proven_is_not_sent(verdict: str) -> None:
    assert metrics_push.as_json(record(verdict), None, ()) is None
    assert metrics_push.as_prometheus(record(verdict), None, ()) is None


def test_the_variable_is_checked() -> None:
    assert metrics_push.handlers({}) == []
    with pytest.raises(BadInput, match="MPIBENCH_METRICS is 'gateway:9091'"):
        metrics_push.handlers({"MPIBENCH_METRICS": "gateway:9091"})


@pytest.mark.parametrize("kind", ["prometheus+", ""])
def test_a_real_session_is_sent(
    kind: str,
    collector: tuple[str, list[tuple[str, str, str]]],
    require_stack: Callable[[str], Stack],
    run_reframe: Callable[..., Any],
    tmp_path: Path,
) -> None:
    require_stack("mpich-wheels")
    url, got = collector
    environ = {"MPIBENCH_METRICS": f"{kind}{url}/metrics/job/mpibench", "RFM_PREFIX": str(tmp_path)}
    environ["RFM_SQLITE_DB_FILE"] = str(tmp_path / "results.db")
    environ["NO_PROXY"] = environ["no_proxy"] = "127.0.0.1"
    done = run_reframe("-r", "-n", ONE, "-p", "mpich-wheels", "-S", "depth=smoke", "--system=generic", environ=environ)
    if "[    SKIP ]" in done.stdout:
        pytest.skip("two ranks in one node are not measured here")
    assert done.returncode == 0, done.stdout[-2000:]
    ((path, content, body),) = got
    assert path == "/metrics/job/mpibench"
    if kind:
        assert content.startswith("text/plain")
        assert 'mpibench_latency_us{system="generic",partition="default",stack="mpich-wheels",fabric="shm"' in body
    else:
        assert {row["benchmark"] for row in json.loads(body)} == {"PingPong", "PingPing"}


def test_a_server_that_does_not_answer_harms_no_test(run_reframe: Callable[..., Any]) -> None:
    done = run_reframe("-l", environ={"MPIBENCH_METRICS": "http://127.0.0.1:9/x"})
    assert done.returncode == 0
    assert "could not connect to server 127.0.0.1:9" in done.stdout + done.stderr

"""Servers of metrics on free ports of this machine, each ended with the test."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import threading
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from programs import wait_for
from reframe_tests.harness.stacks import metadata

# ---- A server that keeps what it is asked, and what a Pushgateway shows.

PUSHED = tuple[str, frozenset[tuple[str, str]], float]


class Gateway:
    """What a server was sent, and what it answers: each post with its path and kind."""

    def __init__(self) -> None:
        self.posts: list[tuple[str, str, str]] = []
        self.authorizations: list[str] = []
        self.status = 200
        self.location = ""  # of a redirect
        self.answer = b""


@contextmanager
def serving() -> Iterator[tuple[str, Gateway]]:
    """A server on this machine that keeps what it gets."""
    kept = Gateway()

    class Keep(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            if kept.status == 200:
                kept.posts.append((self.path, self.headers["Content-type"], body))
            self.answer(kept.answer)

        do_PUT = do_POST  # noqa: N815

        def do_GET(self) -> None:
            """What a client makes of a POST that is redirected."""
            kept.posts.append((self.path, "GET", ""))
            self.answer(b"[]")

        def answer(self, body: bytes) -> None:
            kept.authorizations += filter(None, [self.headers["Authorization"]])
            self.send_response(kept.status)
            if kept.location:
                self.send_header("Location", kept.location)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *words: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Keep)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", kept
    finally:
        server.shutdown()
        server.server_close()


def read(text: str) -> set[PUSHED]:
    """Metrics of ours: name, labels, value; without the labels a
    gateway or a job adds and without empty ones.
    """
    return {
        (
            sample.name,
            frozenset(
                (key, value) for key, value in sample.labels.items() if value and key != "job"
            ),
            sample.value,
        )
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name.startswith("mpibench_")
    }


# ---- Debian's Prometheus, Pushgateway and InfluxDB on free ports of this machine, each ended
# with the test. Their packages start services, so ``ci/setup test`` unpacks them into
# ``results/monitoring``. What a host has installed is used where it lies.

UNPACKED = metadata.ROOT / "results" / "monitoring"
RULES = metadata.ROOT / "ci" / "mpibench_site" / "monitoring"


def program(name: str) -> str:
    """Path of a program, or the test is skipped."""
    executable = next(
        (str(path) for path in sorted(UNPACKED.glob(f"*/usr/bin/{name}"))), None
    ) or shutil.which(name)
    if executable is None:
        pytest.skip(f"[pushgateway] no {name} here (MPIBENCH_INSTALL=yes ci/setup test)")
    return executable


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens to, all different."""
    probes = [socket.socket() for _ in range(count)]
    try:
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]
    finally:
        for probe in probes:
            probe.close()


def fetch(url: str, body: bytes | None = None) -> str:
    """What a server on this machine answers."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url, data=body, timeout=30) as answer:
        return str(answer.read().decode())


@contextmanager
def running(
    words: Sequence[str], ready: str, log: Path, answers: Callable[[str], bool] = lambda _: True
) -> Iterator[None]:
    """A server until the end of the test; its address is asked until it answers."""
    with log.open("wb") as stream:
        process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=stream, stderr=subprocess.STDOUT
        )
    try:
        wait(lambda: _is_ready(process, ready, answers), f"{words[0]} does not answer: see {log}")
        yield
    finally:
        process.terminate()
        try:
            process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _is_ready(process: subprocess.Popen[bytes], url: str, answers: Callable[[str], bool]) -> bool:
    assert process.poll() is None, f"{process.args!r} ended with {process.returncode}"
    try:
        return answers(fetch(url))
    except OSError:
        return False


def wait(holds: Callable[[], bool], why: str) -> None:
    """Until something holds; a loaded machine takes its time."""
    assert wait_for(holds, 240), why


@contextmanager
def pushgateway(folder: Path) -> Iterator[str]:
    """Address of a Pushgateway."""
    [port] = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    words = [
        program("prometheus-pushgateway"),
        f"--web.listen-address=127.0.0.1:{port}",
        f"--persistence.file={folder}/kept",
    ]
    with running(words, f"{url}/-/ready", folder / "pushgateway.log"):
        yield url


@contextmanager
def prometheus(folder: Path, gateway: str) -> Iterator[str]:
    """Address of a Prometheus with the project's own configuration
    and rules, which asks a gateway often.

    What rules hold against the day before is held against the scrape before.
    """
    [port] = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    for path in RULES.glob("*.yml"):
        text = path.read_text().replace("localhost:9091", gateway.removeprefix("http://"))
        for often in ("scrape_interval: 60s", "interval: 5m", "offset 1d"):
            text = text.replace(often, f"{often.rpartition(' ')[0]} 1s")
        (folder / path.name).write_text(text)
    words = [
        program("prometheus"),
        f"--config.file={folder}/prometheus.yml",
        f"--storage.tsdb.path={folder}/data",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with running(words, f"{url}/-/ready", folder / "prometheus.log"):
        yield url


def query(url: str, expression: str) -> list[dict[str, Any]]:
    """What a Prometheus answers to a query at this moment.

    :raises AssertionError: it refuses the query.
    """
    answer = json.loads(
        fetch(f"{url}/api/v1/query", urllib.parse.urlencode({"query": expression}).encode())
    )
    assert answer["status"] == "success", answer
    result = answer["data"]["result"]
    assert isinstance(result, list)
    return result


@contextmanager
def influxdb(folder: Path) -> Iterator[str]:
    """Address of an InfluxDB 1 with a database ``mpibench``."""
    port, backup = free_ports(2)
    url = f"http://127.0.0.1:{port}"
    (folder / "influxdb.conf").write_text(
        f'reporting-disabled = true\nbind-address = "127.0.0.1:{backup}"\n[meta]\ndir = '
        f'"{folder}/meta"\n'
        f'[data]\ndir = "{folder}/data"\nwal-dir = "{folder}/wal"\n[http]\nbind-address = '
        f'"127.0.0.1:{port}"\n'
    )
    words = [program("influxd"), "-config", f"{folder}/influxdb.conf"]
    with running(
        words,
        f"{url}/query?{urllib.parse.urlencode({'q': 'SHOW DATABASES'})}",
        folder / "influxdb.log",
    ):
        fetch(f"{url}/query", urllib.parse.urlencode({"q": "CREATE DATABASE mpibench"}).encode())
        yield url


def influx_rows(url: str, asked: str) -> list[dict[str, Any]]:
    """Rows of all series that InfluxDB answers with."""
    words = urllib.parse.urlencode({"db": "mpibench", "q": asked})
    answer = json.loads(fetch(f"{url}/query?{words}"))
    assert "error" not in answer["results"][0], answer
    series = answer["results"][0].get("series", [])
    return [
        {**table.get("tags", {}), **dict(zip(table["columns"], row, strict=True))}
        for table in series
        for row in table["values"]
    ]

"""A Pushgateway as its README has it, on this machine, and what it shows of ours."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

PUSHED = tuple[str, frozenset[tuple[str, str]], float]


class Gateway:
    """What a Pushgateway keeps (its README): a set of metrics per grouping
    key; PUT replaces the set, POST the names in it.
    """

    def __init__(self) -> None:
        self.groups: dict[str, dict[str, str]] = {}
        self.posts: list[tuple[str, str, str]] = []
        self.authorizations: list[str] = []
        self.status = 200
        self.location = ""  # of a redirect
        self.answer = b""

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
            key = ",".join(
                f'{name}="{value}"' for name, value in zip(words[::2], words[1::2], strict=True)
            )
            lines = "".join(names.values()).splitlines()
            text += "".join(
                f"{line.replace('{', '{' + key + ',', 1)}\n"
                for line in lines
                if not line.startswith("#")
            )
        return text


@contextmanager
def serving() -> Iterator[tuple[str, Gateway]]:
    """A server on this machine that keeps what it gets."""
    kept = Gateway()

    class Keep(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            kept.authorizations += filter(None, [self.headers["Authorization"]])
            if kept.status == 200:
                kept.take(self.command, self.path, self.headers["Content-type"], body)
            self.send_response(kept.status)
            if kept.location:
                self.send_header("Location", kept.location)
            self.end_headers()
            self.wfile.write(kept.answer)

        def do_PUT(self) -> None:
            self.do_POST()

        def do_GET(self) -> None:
            """What a client makes of a POST that is redirected."""
            kept.authorizations += filter(None, [self.headers["Authorization"]])
            kept.posts.append((self.path, "GET", ""))
            self.send_response(kept.status)
            if kept.location:
                self.send_header("Location", kept.location)
            self.end_headers()
            self.wfile.write(b"[]")

        def log_message(self, *words: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Keep)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
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

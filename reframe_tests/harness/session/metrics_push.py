"""Values to a site's own monitoring, one message per case that is proven; everything else stays in the database only.

``MPIBENCH_METRICS=prometheus+http://gateway:9091/metrics/job/mpibench`` (a Pushgateway, or what takes its requests) or
``http://collector:8088/...`` for JSON through ReFrame's ``httpjson`` handler. A server that does not answer is ReFrame's
warning and harms no test.

A Pushgateway keeps one set of metrics per grouping key, the labels in the path of the request, and replaces the set as a whole
(its README, "PUT method"). What makes a case is therefore its grouping key: cases replace earlier runs of themselves and
never each other.

Sources: ReFrame manual, "HTTP JSON log handler" (``json_formatter``), and ``reframe/core/logging.py``
(``register_log_handler``) of ReFrame 4.10; documentation of ``prometheus_client``, "Pushgateway".
"""

from __future__ import annotations

import json
import logging
import os
import re
import socket
import statistics
from collections.abc import Iterator, Mapping
from http.client import HTTPException
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

from ..vocabulary import QUANTITIES, BadInput

VARIABLE = "MPIBENCH_METRICS"
PROMETHEUS = "prometheus+"
#: Type of our handler in ReFrame's configuration.
HANDLER = "pushgateway"
#: Labels of a case: attribute of ReFrame's log record, and what it is called.
_CASE = {
    **{"check_system": "system", "check_partition": "partition", "check_environ": "stack", "check_fabric": "fabric"},
    **{"check_nodes": "nodes", "check_ranks_per_node": "ppn", "check_pinning": "pinning", "check_group": "group"},
}
_SAMPLE = ("suite", "benchmark", "variant", "ranks", "groups", "message_bytes")
#: Path of a push: whatever lies in front, the job, further labels for all cases (Pushgateway's README, "URL").
_PUSH_PATH = re.compile(r"(?P<front>.*)/metrics/job/(?P<job>[^/]+)(?P<labels>(?:/[^/]+/[^/]+)*)/?")
_TIMEOUT_S = 10


def handlers(environ: Mapping[str, str] = os.environ) -> list[dict[str, Any]]:
    """ReFrame's ``handlers_perflog``: nothing, or the one that the variable asks for.

    :raises BadInput: it is not a URL, or none that a Pushgateway has.
    """
    url = environ.get(VARIABLE, "")
    if not url:
        return []
    plain = url.removeprefix(PROMETHEUS)
    if not plain.startswith(("http://", "https://")):
        raise BadInput(
            f"{VARIABLE} is {url!r}: write http://HOST:PORT/PATH, or {PROMETHEUS}http://HOST:PORT/metrics/job/NAME for "
            "Prometheus."
        )
    if plain == url:
        handler = {"type": "httpjson", "url": plain, "retry_timeout": _TIMEOUT_S, "json_formatter": as_json}
        return [{**handler, "level": "info", "extra_headers": {}}]
    _address(plain)
    _register()
    return [{"type": HANDLER, "url": plain, "level": "info"}]


def _address(url: str) -> tuple[SplitResult, str, dict[str, str]]:
    """Gateway, job and further labels of a push URL."""
    parts = urlsplit(url)
    found = _PUSH_PATH.fullmatch(parts.path)
    try:
        named = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        named = False
    if not found or not named:
        raise BadInput(
            f"{VARIABLE} is {PROMETHEUS}{url!r}: the address of a Pushgateway ends in /metrics/job/NAME, "
            f"e.g. {PROMETHEUS}http://gateway:9091/metrics/job/mpibench."
        )
    words = [unquote(word) for word in found["labels"].split("/")[1:]]
    taken = sorted({*_CASE.values(), *_SAMPLE} & set(words[::2]))
    if taken:
        raise BadInput(f"{VARIABLE}: the label {taken[0]!r} is the case's own; leave it out of the address.")
    return parts._replace(path=found["front"]), unquote(found["job"]), dict(zip(words[::2], words[1::2], strict=True))


def _register() -> None:
    """Tell ReFrame how our handler is made; it is asked once per run.

    :raises BadInput: the client library is not here. It is loaded now: what a running session lacks ends it.
    """
    try:
        import prometheus_client  # noqa: F401
    except ImportError:
        raise BadInput(f"{VARIABLE} needs the Python package prometheus_client: install it, or run ci/setup.") from None
    from reframe.core.logging import getlogger, register_log_handler

    @register_log_handler(HANDLER)
    def _create(site_config: Any, config_prefix: str) -> logging.Handler | None:
        url = site_config.get(f"{config_prefix}/url")
        host = urlsplit(url)
        port = host.port or (443 if host.scheme == "https" else 80)
        try:
            socket.create_connection((host.hostname or "", port), timeout=1).close()
        except OSError as error:
            getlogger().warning(f"{HANDLER}: could not connect to server {host.hostname}:{port}: {error}")
            return None
        return PushHandler(url)


class PushHandler(logging.Handler):
    """Pushes what a case measured; used by ReFrame in place of its own handlers."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self._url = url

    def emit(self, record: logging.LogRecord) -> None:
        """Push each stack of a proven case.

        :raises LoggingError: the gateway refuses or does not answer; ReFrame warns and goes on.
        """
        from reframe.core.exceptions import LoggingError

        try:
            push(record, self._url)
        except (OSError, HTTPException, ValueError) as error:  # what urllib and http.client raise
            raise LoggingError(f"{HANDLER}: {VARIABLE} got no metrics: {error}") from error


def push(record: Any, url: str) -> None:
    """Replace what a Pushgateway has of each stack of a case by the medians of the repeats.

    A quantity's name, which ends in its unit, is the metric's.

    :raises OSError: the gateway refuses or does not answer.
    """
    from prometheus_client import CollectorRegistry, Gauge, push_to_gateway
    from prometheus_client.exposition import basic_auth_handler, default_handler

    parts, job, labels = _address(url)
    gateway = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))

    def send(**request: Any) -> Any:
        if parts.username is None:
            return default_handler(**request)
        password = unquote(parts.password or "")
        return basic_auth_handler(**request, username=unquote(parts.username), password=password)

    for case, samples in _proven(record):
        registry = CollectorRegistry()
        gauges: dict[str, Gauge] = {}
        for sample in samples:
            name = sample["quantity"]
            if name not in gauges:
                text = f"Median of the repeats, in {QUANTITIES[name].unit}"
                gauges[name] = Gauge(f"mpibench_{name}", text, _SAMPLE, registry=registry)
            point = ["" if sample[label] is None else str(sample[label]) for label in _SAMPLE]
            gauges[name].labels(*point).set(statistics.median(one for one in sample["values"] if one is not None))
        key = {name: str(value) for name, value in {**labels, **case}.items() if value not in (None, "")}
        push_to_gateway(gateway, job, registry, grouping_key=key, timeout=_TIMEOUT_S, handler=send)


def _proven(record: Any) -> Iterator[tuple[dict[str, Any], list[Mapping[str, Any]]]]:
    """Labels and samples of each stack of a case that is proven: its own, and the one interleaved with it."""
    case = {name: getattr(record, attribute, None) for attribute, name in _CASE.items()}
    own = {"proof": getattr(record, "check_proof", None), "samples": getattr(record, "check_samples", None)}
    paired = getattr(record, "check_rival_run", None) or {}
    runs = [(case, own), ({**case, "stack": (paired.get("condition") or {}).get("stack")}, paired)]
    for labels, run in runs:
        samples = [one for one in run.get("samples") or () if any(value is not None for value in one["values"])]
        if (run.get("proof") or {}).get("verdict") == "proven" and samples:
            yield labels, samples


def as_json(record: Any, extras: Any, ignore_keys: Any) -> str | None:
    """Labels, quantity, unit and all repeats of each metric of a case, as a list; ``None``: nothing is sent."""
    rows = [
        {
            **case,
            **{name: sample[name] for name in (*_SAMPLE, "quantity", "unit", "direction", "values")},
            **(extras or {}),
        }
        for case, samples in _proven(record)
        for sample in samples
    ]
    return json.dumps(rows) if rows else None

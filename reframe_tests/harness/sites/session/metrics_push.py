"""Values to a site's own monitoring, as each case ends; an address that does not take them is ReFrame's warning, harms no test
and keeps no other address from getting its values.

``MPIBENCH_METRICS`` holds one address or several, separated by blanks:

``prometheus+http://gateway:9091/metrics/job/mpibench``
    a Pushgateway, or what takes its requests
``influx+http://influx:8086/api/v2/write?org=hpc&bucket=mpibench`` (or ``/write?db=mpibench``)
    InfluxDB's line protocol; the token is taken from ``INFLUX_TOKEN``, as by InfluxDB's own ``influx``
``influx+file:///var/lib/mpibench/metrics.influx``
    the same, appended to a file that Telegraf reads
``json+file:///var/log/mpibench/cases.jsonl``
    one JSON object a line for each case, failed ones too, for a log store's collector
``http://collector:8088/...``
    a JSON list of a case's metrics

What is sent goes to its address and nowhere else: a redirect is a refusal. RFC 9110, section 15.4, lets a client repeat a POST
that was sent on as a GET, which has no body, and the password would go to the host that is named.

A Pushgateway keeps one set of metrics per grouping key, the labels in the path of the request, and replaces the set as a whole
(its README, "PUT method"). What makes a case is therefore its grouping key: cases replace earlier runs of themselves and
never each other, and a case that is not proven takes its earlier values away.

Sources: ``reframe/core/logging.py`` (``register_log_handler``) of ReFrame 4.10; documentation of ``prometheus_client``,
"Pushgateway"; InfluxDB API, ``/write`` (1.8) and ``/api/v2/write``.
"""

from __future__ import annotations

import base64
import fcntl
import logging
import os
import re
import socket
import threading
import urllib.request
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit, urlunsplit

from ...printable import first_line, printable
from ...vocabulary import BadInput
from . import case_messages

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

VARIABLE = "MPIBENCH_METRICS"
#: Variable with the token for InfluxDB; the name is that of InfluxDB's own command.
TOKEN = "INFLUX_TOKEN"
PROMETHEUS, INFLUX, INFLUX_FILE, JSON_FILE = "prometheus+", "influx+", "influx+file://", "json+file://"
#: Type of the handler of a Pushgateway in ReFrame's configuration, and of the others.
PUSHGATEWAY, LINE_PROTOCOL, CASE_LOG, JSON_LIST = "pushgateway", "influx", "caselog", "jsonlist"
#: Path of a push: whatever lies in front, the job, further labels for all cases (Pushgateway's README, "URL").
_PUSH_PATH = re.compile(r"(?P<front>.*)/metrics/job/(?P<job>[^/]+)(?P<labels>(?:/[^/]+/[^/]+)*)/?")
#: What comes before a host (all to the last ``@``: a password may hold a slash that nobody escaped), and any parameter.
_USER = re.compile(r"(^|//)\S*(?:@|%40)", re.IGNORECASE)
_PARAMETER = re.compile(r"([?&#;])(?:([^=?&#;\s]*)=)?([^?&#;\s]*)")
#: Parameters whose values are no secrets, of InfluxDB's two interfaces; the secret ones have too many names.
_OPEN_PARAMETERS = ("org", "orgid", "bucket", "db", "rp", "precision", "consistency")
_HOST = re.compile(r"[\w.:-]+")
#: Seconds that an address gets, whatever it is that takes so long.
_TIMEOUT_S = 10
_FORMS = (
    f"{PROMETHEUS}http://HOST:PORT/metrics/job/NAME for Prometheus, {INFLUX}http://HOST:PORT/api/v2/write?org=ORG&bucket=BUCKET"
    f" or {INFLUX_FILE}/PATH for InfluxDB, {JSON_FILE}/PATH for a log store, or http://HOST:PORT/PATH for JSON"
)


@dataclass(frozen=True)
class MetricsTarget:
    """Where values go.

    :param handler: type of its handler in ReFrame's configuration.
    :param url: without the prefix that says what it is; of a file its path.
    """

    handler: str
    url: str

    @property
    def is_file(self) -> bool:
        """Whether lines are appended to a file."""
        return self.url.startswith("/")


def without_secrets(text: str) -> str:
    """An address as it may stand in a log, or a sentence with one."""

    def cut(parameter: re.Match[str]) -> str:
        mark, name, value = parameter.groups()
        if not value or (name or "").lower() in _OPEN_PARAMETERS:
            return parameter[0]
        return f"{mark}{'' if name is None else name + '='}..."

    return _USER.sub(r"\1...@", _PARAMETER.sub(cut, text))


def targets(environ: Mapping[str, str] = os.environ) -> list[MetricsTarget]:
    """What the variable asks for.

    :raises BadInput: a word that is no such address.
    """
    return [_target(word) for word in environ.get(VARIABLE, "").split()]


def _target(word: str) -> MetricsTarget:
    for prefix, handler in ((JSON_FILE, CASE_LOG), (INFLUX_FILE, LINE_PROTOCOL)):
        if word.startswith(prefix):
            path = unquote(word.removeprefix(prefix))
            if not path.startswith("/") or path.endswith("/"):
                raise BadInput(f"{VARIABLE}: {word!r} names no file: write {prefix}/PATH, with the whole path.")
            return MetricsTarget(handler, path)
    plain = word.removeprefix(PROMETHEUS).removeprefix(INFLUX)
    if not plain.startswith(("http://", "https://")):
        raise BadInput(f"{VARIABLE} is {without_secrets(word)!r}: write {_FORMS}.")
    if word.startswith(PROMETHEUS):
        _address(plain)
        return MetricsTarget(PUSHGATEWAY, plain)
    if word.startswith(INFLUX):
        _check_influx(plain)
        return MetricsTarget(LINE_PROTOCOL, plain)
    if not _has_host(urlsplit(plain)):
        raise BadInput(f"{VARIABLE} is {without_secrets(word)!r}: write {_FORMS}.")
    return MetricsTarget(JSON_LIST, plain)


def handlers(environ: Mapping[str, str] = os.environ) -> list[dict[str, Any]]:
    """ReFrame's ``handlers_perflog``: nothing, or those that the variable asks for.

    :raises BadInput: it is not an address, or none that a server of that sort has.
    """
    asked = targets(environ)
    for target in asked:
        _register(target.handler)
    return [{"type": target.handler, "url": target.url, "level": "info"} for target in asked]


def _has_host(parts: SplitResult) -> bool:
    try:
        return bool(_HOST.fullmatch(parts.hostname or "")) and (parts.port is None or parts.port > 0)
    except ValueError:
        return False


def _address(url: str) -> tuple[SplitResult, str, dict[str, str]]:
    """Gateway, job and further labels of a push URL."""
    parts = urlsplit(url)
    path = _PUSH_PATH.fullmatch(parts.path)
    if not path or not _has_host(parts):
        raise BadInput(
            f"{VARIABLE} is {PROMETHEUS}{without_secrets(url)!r}: the address of a Pushgateway ends in /metrics/job/NAME, "
            f"e.g. {PROMETHEUS}http://gateway:9091/metrics/job/mpibench."
        )
    words = [unquote(word) for word in path["labels"].split("/")[1:]]
    own = sorted({*case_messages.CASE.values(), *case_messages.SAMPLE, *case_messages.REFERENCE, "run"} & set(words[::2]))
    if own:
        raise BadInput(f"{VARIABLE}: the label {own[0]!r} is the case's own; leave it out of the address.")
    return parts._replace(path=path["front"]), unquote(path["job"]), dict(zip(words[::2], words[1::2], strict=True))


def _check_influx(url: str) -> None:
    parts = urlsplit(url)
    asked = parse_qs(parts.query)
    wanted = {"org", "bucket"} if parts.path.endswith("/api/v2/write") else {"db"}
    if not _has_host(parts) or not parts.path.endswith("/write") or not wanted <= set(asked):
        raise BadInput(
            f"{VARIABLE} is {INFLUX}{without_secrets(url)!r}: InfluxDB is written to at "
            "/api/v2/write?org=ORG&bucket=BUCKET, or at /write?db=NAME by version 1."
        )
    if asked.get("precision", ["ns"]) != ["ns"]:
        raise BadInput(f"{VARIABLE} is {INFLUX}{without_secrets(url)!r}: times are sent in nanoseconds; leave out precision=.")


def _register(kind: str) -> None:
    """Tell ReFrame how a handler of ours is made; it is asked once per run.

    :raises BadInput: the client library is not here. It is loaded now: what a running session lacks ends it.
    """
    if kind == PUSHGATEWAY:
        try:
            import prometheus_client  # noqa: F401
        except ImportError:
            raise BadInput(f"{VARIABLE} needs the Python package prometheus_client: install it, or run ci/setup.") from None
    from reframe.core.logging import getlogger, register_log_handler

    @register_log_handler(kind)
    def _create(site_config: Any, config_prefix: str) -> logging.Handler | None:
        target = MetricsTarget(kind, site_config.get(f"{config_prefix}/url"))
        why = unreachable(target)
        if why:
            getlogger().warning(f"{kind}: {why}")
            return None
        return MetricsHandler(target)


def unreachable(target: MetricsTarget) -> str:
    """Why nothing can be sent to a target; empty where it answers."""
    parts = urlsplit(target.url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        if target.is_file:
            append(target.url, ())
        else:
            socket.create_connection((parts.hostname or "", port), timeout=1).close()
    except OSError as error:
        where = f"write {target.url}" if target.is_file else f"connect to server {parts.hostname}:{port}"
        return f"could not {where}: {error}"
    return ""


class MetricsHandler(logging.Handler):
    """Sends what a case measured; used by ReFrame in place of its own handlers."""

    def __init__(self, target: MetricsTarget) -> None:
        super().__init__()
        self._target = target

    def emit(self, record: logging.LogRecord) -> None:
        """Send each stack of a case; ReFrame warns of a server that refuses or does not answer.

        Nothing is raised: Python gives no handler behind one that raises its record.
        """
        from reframe.core.logging import getlogger

        why = failure(lambda: _SENDERS[self._target.handler](record, self._target.url))
        if why:
            getlogger().warning(f"{self._target.handler}: {VARIABLE} got no metrics: {why}")


def failure(send: Callable[[], None]) -> str:
    """Why something could not be sent, fit for a log; empty where it was. It may take :data:`_TIMEOUT_S`.

    A thread of its own does it: no timeout of a socket ends a name that is looked up, an answer that comes byte by byte, a file
    that somebody else holds locked.
    """
    ended: list[Exception | None] = []

    def work() -> None:
        try:
            send()
            ended.append(None)
        except Exception as error:  # whatever monitoring ends with, no measurement does
            ended.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(_TIMEOUT_S + 1)
    if not ended:
        return f"it did not end within {_TIMEOUT_S} s"
    return reason_of(ended[0]) if ended[0] else ""


def reason_of(error: Exception) -> str:
    """What a server said of a request it refused."""
    said = ""
    if isinstance(error, HTTPError):
        to = printable(error.headers.get("Location") or "")
        text = printable(error.read(4096).decode(errors="replace"))
        said = f"it redirects to {without_secrets(to)}: give that address" if to else without_secrets(text)
    words = first_line(without_secrets(printable(str(error)))) or type(error).__name__
    said = first_line(said)
    return f"{words} ({said})" if said else words


def push(record: Any, url: str) -> None:
    """Replace what a Pushgateway has of each stack of a case.

    :raises OSError: the gateway refuses or does not answer.
    """
    for run in case_messages.runs_of(record):
        push_registry(url, case_messages.registry_of(run), run.case)


def push_registry(url: str, registry: CollectorRegistry, key: Mapping[str, Any]) -> None:
    """Replace what a Pushgateway has under a grouping key.

    :param key: labels; those without a value are left out.
    :raises OSError: the gateway refuses or does not answer.
    """
    from prometheus_client import push_to_gateway

    _ask_gateway(push_to_gateway, url, key, registry)


def forget(url: str, key: Mapping[str, Any]) -> None:
    """Remove what a Pushgateway has under a grouping key, if anything.

    :raises OSError: the gateway refuses or does not answer.
    """
    from prometheus_client import delete_from_gateway

    _ask_gateway(delete_from_gateway, url, key)


def _ask_gateway(ask: Callable[..., None], url: str, key: Mapping[str, Any], *what: CollectorRegistry) -> None:
    parts, job, labels = _address(url)

    def request(*, url: str, method: str, headers: Iterable[tuple[str, str]], data: bytes, **_: Any) -> Callable[[], None]:
        return lambda: _ask(method, url, data, dict(headers))

    named = {name: str(value) for name, value in {**labels, **key}.items() if value not in (None, "")}
    ask(urlunsplit(parts), job, *what, grouping_key=named, handler=request)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Makes a redirect the error that any other refusal is."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _ask(method: str, url: str, body: bytes, headers: Mapping[str, str]) -> None:
    """Send a request; the user of its address is its Basic authorization, unless the headers hold one.

    :raises OSError: the server refuses, redirects or does not answer.
    """
    parts = urlsplit(url)
    known = {}
    if parts.username is not None:
        user = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        known = {"Authorization": f"Basic {base64.b64encode(user.encode()).decode()}"}
    server = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
    request = urllib.request.Request(server, body, {**known, **headers}, method=method)
    with urllib.request.build_opener(_NoRedirects).open(request, timeout=_TIMEOUT_S) as answer:
        answer.read(4096)


def write(lines: Iterable[str], url: str) -> None:
    """Lines of InfluxDB's protocol to a server, or to a file.

    :raises OSError: the server refuses or does not answer; the file cannot be written.
    """
    body = list(lines)
    if url.startswith("/"):
        append(url, body)
    elif body:
        headers = {"Content-Type": "text/plain; charset=utf-8"}
        if os.environ.get(TOKEN):
            headers["Authorization"] = f"Token {os.environ[TOKEN]}"
        _ask("POST", url, "\n".join(body).encode(), headers)


def _write_json(record: Any, url: str) -> None:
    rows = case_messages.as_json(record)
    if rows:
        _ask("POST", url, rows.encode(), {"Content-Type": "application/json"})


def append(path: str, lines: Iterable[str]) -> None:
    """Whole lines to the end of a file, whoever else writes there.

    :raises OSError: it cannot be written; of a pipe also that nobody reads it, which is not waited for.
    """
    text = "".join(f"{line}\n" for line in lines).encode()
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        while text:
            text = text[os.write(descriptor, text) :]
    finally:
        os.close(descriptor)


_SENDERS: dict[str, Callable[[Any, str], None]] = {
    PUSHGATEWAY: push,
    LINE_PROTOCOL: lambda record, url: write(case_messages.protocol_lines(record), url),
    JSON_LIST: _write_json,
    CASE_LOG: lambda record, url: append(url, case_messages.case_lines(record)),
}

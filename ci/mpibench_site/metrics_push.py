"""Values to a site's own monitoring, as each case ends; an address that does not take them is
ReFrame's warning, harms no test and keeps no other address from getting its values.

``MPIBENCH_METRICS`` holds one address or several, separated by blanks:

``prometheus+http://gateway:9091/metrics/job/mpibench``
    a Pushgateway, or what takes its requests
``influx+http://influx:8086/api/v2/write?org=hpc&bucket=mpibench`` (or ``/write?db=mpibench``)
    InfluxDB's line protocol; the token is taken from
    ``INFLUX_TOKEN``, as by InfluxDB's own ``influx``
``influx+file:///var/lib/mpibench/metrics.influx``
    the same, appended to a file that Telegraf reads
``json+file:///var/log/mpibench/cases.jsonl``
    one JSON object a line for each case, failed ones too, for a log store's collector
``http://collector:8088/...``
    a JSON list of a case's metrics

What is sent goes to its address and nowhere else: a redirect is a refusal. RFC 9110, section 15.4,
lets a client repeat a POST that was sent on as a GET, which has no body, and the password would go
to the host that is named.

Values are those of proven cases only. That a case was not proven is itself a message: what an
earlier night measured must not stand for tonight's.

A Pushgateway keeps one set of metrics per grouping key, the labels in the path of the request, and
replaces the set as a whole (its README, "PUT method"). What makes a case is therefore its grouping
key: cases replace earlier runs of themselves and never each other, and a case that is not proven
takes its earlier values away.

A centre's own ReFrame loads this file, whose Python has neither :mod:`mpibench` nor its libraries.

Sources: ``reframe/core/logging.py`` (``register_log_handler``, ``log_result``) of ReFrame 4.10;
documentation of ``prometheus_client``, "Pushgateway", and of Prometheus, "Metric and label naming";
InfluxDB API, ``/write`` (1.8) and ``/api/v2/write``, and its "Line protocol reference" (escapes,
types).
"""

from __future__ import annotations

import base64
import fcntl
import json
import logging
import math
import os
import re
import socket
import statistics
import threading
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit, urlunsplit

from reframe_tests.harness.printable import first_line, one_line, printable
from reframe_tests.harness.samples import DRY_RUN, FAIL, NO_REFERENCE
from reframe_tests.harness.vocabulary import MB_PER_GBIT, QUANTITIES, BadInput

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

VARIABLE = "MPIBENCH_METRICS"
#: Variable with the token for InfluxDB; the name is that of InfluxDB's own command.
TOKEN = "INFLUX_TOKEN"
PROMETHEUS = "prometheus+"
INFLUX = "influx+"
INFLUX_FILE = "influx+file://"
JSON_FILE = "json+file://"
#: Type of the handler of a Pushgateway in ReFrame's configuration, and of the others.
PUSHGATEWAY = "pushgateway"
LINE_PROTOCOL = "influx"
CASE_LOG = "caselog"
JSON_LIST = "jsonlist"
#: Path of a push: whatever lies in front, the job, further labels for
#: all cases (Pushgateway's README, "URL").
_PUSH_PATH = re.compile(r"(?P<front>.*)/metrics/job/(?P<job>[^/]+)(?P<labels>(?:/[^/]+/[^/]+)*)/?")
#: What comes before a host (all to the last ``@``: a password may hold a slash that nobody
#: escaped), and any parameter.
_USER = re.compile(r"(^|//)\S*(?:@|%40)", re.IGNORECASE)
_PARAMETER = re.compile(r"([?&#;])(?:([^=?&#;\s]*)=)?([^?&#;\s]*)")
#: Parameters whose values are no secrets, of InfluxDB's two
#: interfaces; the secret ones have too many names.
_OPEN_PARAMETERS = ("org", "orgid", "bucket", "db", "rp", "precision", "consistency")
_HOST = re.compile(r"[\w.:-]+")
#: Seconds that an address gets, whatever it is that takes so long.
_TIMEOUT_S = 10
_FORMS = (
    f"{PROMETHEUS}http://HOST:PORT/metrics/job/NAME for Prometheus, "
    f"{INFLUX}http://HOST:PORT/api/v2/write?org=ORG&bucket=BUCKET or {INFLUX_FILE}/PATH for "
    f"InfluxDB, {JSON_FILE}/PATH for a log store, or http://HOST:PORT/PATH for JSON"
)

#: Labels of a case: attribute of ReFrame's log record, and what it is called.
CASE = {
    "check_system": "system",
    "check_partition": "partition",
    "check_environ": "stack",
    "check_fabric": "fabric",
    "check_nodes": "nodes",
    "check_ranks_per_node": "ppn",
    "check_pinning": "pinning",
    "check_group": "group",
}
#: Labels of a value, beside those of its case.
SAMPLE = ("suite", "benchmark", "variant", "ranks", "groups", "message_bytes")
#: Labels of a reference: the name of the performance variable it is of, and its layer.
REFERENCE = ("metric", "layer")
#: Characters of a reason; the report and the job's output have all of it.
LONGEST_REASON = 1000


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
                raise BadInput(
                    "not-reached",
                    f"{VARIABLE}: {word!r} names no file: write {prefix}/PATH, with the whole "
                    "path.",
                )
            return MetricsTarget(handler, path)
    plain = word.removeprefix(PROMETHEUS).removeprefix(INFLUX)
    if not plain.startswith(("http://", "https://")):
        raise BadInput("not-reached", f"{VARIABLE} is {without_secrets(word)!r}: write {_FORMS}.")
    if word.startswith(PROMETHEUS):
        _address(plain)
        return MetricsTarget(PUSHGATEWAY, plain)
    if word.startswith(INFLUX):
        _check_influx(plain)
        return MetricsTarget(LINE_PROTOCOL, plain)
    if not _has_host(urlsplit(plain)):
        raise BadInput("not-reached", f"{VARIABLE} is {without_secrets(word)!r}: write {_FORMS}.")
    return MetricsTarget(JSON_LIST, plain)


def handlers(environ: Mapping[str, str] = os.environ) -> list[dict[str, Any]]:
    """ReFrame's ``handlers_perflog``: nothing, or those that the variable asks for.

    :raises BadInput: it is not an address, or none that a server of that sort has.
    """
    asked = targets(environ)
    for target in asked:
        _register(target.handler)
    return [{"type": target.handler, "url": target.url, "level": "info"} for target in asked]


def _has_host(address: SplitResult) -> bool:
    try:
        return bool(_HOST.fullmatch(address.hostname or "")) and (
            address.port is None or address.port > 0
        )
    except ValueError:
        return False


def _address(url: str) -> tuple[SplitResult, str, dict[str, str]]:
    address = urlsplit(url)
    path = _PUSH_PATH.fullmatch(address.path)
    if not path or not _has_host(address):
        raise BadInput(
            "not-reached",
            f"{VARIABLE} is {PROMETHEUS}{without_secrets(url)!r}: the address of a Pushgateway "
            "ends in /metrics/job/NAME, e.g. "
            f"{PROMETHEUS}http://gateway:9091/metrics/job/mpibench.",
        )
    words = [unquote(word) for word in path["labels"].split("/")[1:]]
    own = sorted({*CASE.values(), *SAMPLE, *REFERENCE, "run"} & set(words[::2]))
    if own:
        raise BadInput(
            "not-reached",
            f"{VARIABLE}: the label {own[0]!r} is the case's own; leave it out of the address.",
        )
    return (
        address._replace(path=path["front"]),
        unquote(path["job"]),
        dict(zip(words[::2], words[1::2], strict=True)),
    )


def _check_influx(url: str) -> None:
    address = urlsplit(url)
    asked = parse_qs(address.query)
    wanted = {"org", "bucket"} if address.path.endswith("/api/v2/write") else {"db"}
    if not _has_host(address) or not address.path.endswith("/write") or not wanted <= set(asked):
        raise BadInput(
            "not-reached",
            f"{VARIABLE} is {INFLUX}{without_secrets(url)!r}: InfluxDB is written to at "
            "/api/v2/write?org=ORG&bucket=BUCKET, or at /write?db=NAME by version 1.",
        )
    if asked.get("precision", ["ns"]) != ["ns"]:
        raise BadInput(
            "not-reached",
            f"{VARIABLE} is {INFLUX}{without_secrets(url)!r}: times are sent in nanoseconds; "
            "leave out precision=.",
        )


def _register(kind: str) -> None:
    """Tell ReFrame how a handler of ours is made; it is asked once per run.

    :raises BadInput: the client library is not here. It is loaded now:
        what a running session lacks ends it.
    """
    if kind == PUSHGATEWAY:
        try:
            import prometheus_client  # noqa: F401
        except ImportError:
            raise BadInput(
                "tool-missing",
                f"{VARIABLE} needs the Python package prometheus_client: install it, or run "
                "ci/setup.",
            ) from None
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
    address = urlsplit(target.url)
    port = address.port or (443 if address.scheme == "https" else 80)
    try:
        if target.is_file:
            append(target.url, ())
        else:
            socket.create_connection((address.hostname or "", port), timeout=1).close()
    except OSError as error:
        where = (
            f"write {target.url}"
            if target.is_file
            else f"connect to server {address.hostname}:{port}"
        )
        return f"could not {where}: {error}"
    return ""


@dataclass(frozen=True)
class MeasuredRun:
    """One stack of a case: its own, or the one interleaved with it,
    which has neither gates nor a result.

    :param case: its labels (:data:`CASE`).
    :param status: of its evidence: ``proven``, ``contradicted``,
        ``missing``; empty where none was read.
    :param samples: those with a value; none unless proven.
    """

    case: Mapping[str, Any]
    status: str
    samples: Sequence[Mapping[str, Any]]
    gates: Sequence[Mapping[str, Any]]
    condition: Mapping[str, Any]
    result: str
    sentences: Sequence[str]

    @property
    def proven(self) -> bool:
        return self.status == "proven"


def runs_of(record: Any) -> list[MeasuredRun]:
    """Runs of a case by its log record; none of a dry run and of
    tests that are not this project's.
    """

    def of(name: str) -> Any:
        return getattr(record, f"check_{name}", None)

    if of("samples") is None or of("proof") is None:
        return []
    case = {label: getattr(record, attribute, None) for attribute, label in CASE.items()}
    own = {name: of(name) for name in ("proof", "samples", "condition", "gates", "result")}
    runs = [(case, own)]
    paired = of("rival_run")
    if paired:
        runs.append(({**case, "stack": (paired.get("condition") or {}).get("stack")}, paired))
    listed = []
    for labels, run in runs:
        proof = run.get("proof") or {}
        status = proof.get("verdict") or ""
        samples = [row for row in run.get("samples") or () if status == "proven" and values_of(row)]
        result = str(run.get("result") or "")
        sentences = proof.get("sentences") or ()
        listed.append(
            MeasuredRun(
                labels,
                status,
                samples,
                run.get("gates") or (),
                run.get("condition") or {},
                result,
                sentences,
            )
        )
    return [run for run in listed if run.status != DRY_RUN]


def values_of(sample: Mapping[str, Any]) -> list[float]:
    return [value for value in sample["values"] if value is not None]


def registry_of(run: MeasuredRun) -> CollectorRegistry:
    """Gauges of a run: whether it is proven and passed, and of a proven one the medians of its
    repeats, its line rate and its references. A quantity's name, which ends in its unit, is the
    metric's.
    """
    from prometheus_client import CollectorRegistry, Gauge

    registry = CollectorRegistry()
    gauges: dict[str, Gauge] = {}

    def put(
        name: str, text: str, value: float, labels: Sequence[str] = (), words: Sequence[str] = ()
    ) -> None:
        if name not in gauges:
            gauges[name] = Gauge(f"mpibench_{name}", text, labels, registry=registry)
        (gauges[name].labels(*words) if labels else gauges[name]).set(value)

    put(
        "case_proven",
        "1: the conditions of the case are proven; 0: they are not, and nothing else is kept of it",
        run.proven,
    )
    if run.result:
        put(
            "case_passed", "1: proven, and every reference it has was reached", run.result == "pass"
        )
    if not run.proven:
        return registry
    for sample in run.samples:
        name = sample["quantity"]
        point = ["" if sample[label] is None else str(sample[label]) for label in SAMPLE]
        put(
            name,
            f"Median of the repeats, in {QUANTITIES[name].unit}",
            statistics.median(values_of(sample)),
            SAMPLE,
            point,
        )
    if rate := run.condition.get("line_rate_gbit_per_s"):
        put(
            "line_rate_mb_per_s",
            "Line rate of the fabric, all rails together, in MB/s",
            rate * MB_PER_GBIT,
        )
    for gate in run.gates:
        if gate["outcome"] == NO_REFERENCE:
            continue
        words = [str(gate[label]) for label in REFERENCE]
        put(
            "reference_held",
            "1: the reference was reached",
            gate["outcome"] != FAIL,
            REFERENCE,
            words,
        )
        for bound in ("lower", "upper"):
            if gate.get(bound) is not None:
                put(
                    f"reference_{bound}",
                    f"The {bound} bound, in the metric's unit",
                    float(gate[bound]),
                    REFERENCE,
                    words,
                )
    return registry


def rows_of(record: Any) -> list[dict[str, Any]]:
    """Labels, quantity, unit and all repeats of each metric of a case."""
    return [
        {
            **run.case,
            **{name: sample[name] for name in (*SAMPLE, "quantity", "unit", "direction", "values")},
        }
        for run in runs_of(record)
        for sample in run.samples
    ]


def case_lines(record: Any) -> Iterator[str]:
    """One JSON object a run, proven or not, each in a line of its own: what
    a log store is asked for when a night was red.

    ``medians`` holds a number per metric under the name it has in
    ReFrame; the repeats are in the results database.
    """
    from reframe_tests.harness.suites.benchmark import metric_name

    for run in runs_of(record):
        failed = (
            getattr(record, "check_fail_reason", None) if run.result not in ("", "pass") else None
        )
        medians = {
            metric_name(
                row["benchmark"],
                QUANTITIES[row["quantity"]].short,
                row["message_bytes"],
                row["variant"] or "",
            ): statistics.median(values_of(row))
            for row in run.samples
        }
        line = {
            "time": iso_time(record.created),
            "event": "mpibench_case",
            **run.case,
            "test": one_line(
                str(
                    getattr(record, "check_display_name", None)
                    or getattr(record, "check_name", None)
                    or ""
                )
            ),
            "result": run.result or ("pass" if run.proven else "fail"),
            "evidence": run.status or "missing",
            "reason": cut(failed),
            "sentences": [cut(sentence) for sentence in run.sentences] if not run.proven else [],
            "job_id": str(getattr(record, "check_jobid", None) or ""),
            "nodelist": nodes_of(record),
            "missed": [gate["metric"] for gate in run.gates if gate["outcome"] == FAIL],
            "medians": medians,
        }
        yield json.dumps(line, ensure_ascii=True, allow_nan=False, default=str)


def nodes_of(record: Any) -> str:
    nodes = getattr(record, "check_job_nodelist", None) or ()
    return nodes if isinstance(nodes, str) else ",".join(map(str, nodes))


def cut(reason: object) -> str:
    return first_line(one_line(str(reason or "")), LONGEST_REASON)


def iso_time(seconds: float) -> str:
    """UTC, as log stores read it."""
    return f"{datetime.fromtimestamp(seconds, timezone.utc):%Y-%m-%dT%H:%M:%S.%f}Z"


def protocol_lines(record: Any) -> Iterator[str]:
    """InfluxDB's line protocol: ``mpibench_case`` says whether a run
    was proven, ``mpibench`` has its medians.

    Lowest and highest repeat are beside each median, as ``latency_us_low`` and ``latency_us_high``.
    """
    at = round(record.created * 1e9)
    for run in runs_of(record):
        passed = {"passed": run.result == "pass"} if run.result else {}
        job = str(getattr(record, "check_jobid", None) or "")
        yield protocol_line(
            "mpibench_case", run.case, {"proven": run.proven, **passed, "job_id": job}, at
        )
        points: dict[tuple[Any, ...], dict[str, float]] = {}
        for sample in run.samples:
            values = values_of(sample)
            fields = points.setdefault(tuple(sample[label] for label in SAMPLE), {})
            name = str(sample["quantity"])
            fields |= {
                name: statistics.median(values),
                f"{name}_low": min(values),
                f"{name}_high": max(values),
            }
        for point, fields in points.items():
            yield protocol_line(
                "mpibench", {**run.case, **dict(zip(SAMPLE, point, strict=True))}, fields, at
            )


def protocol_line(
    measurement: str, tags: Mapping[str, Any], fields: Mapping[str, Any], at: int
) -> str:
    """A point in InfluxDB's line protocol; what has no value is left out.

    :param at: nanoseconds since 1970.
    """
    named = ((name, _tag(value)) for name, value in sorted(tags.items()) if value is not None)
    words = [measurement, *(f"{_tag(name)}={value}" for name, value in named if value)]
    shown = ",".join(
        f"{_tag(name)}={text}" for name, value in fields.items() if (text := _field(value))
    )
    return f"{','.join(words)} {shown} {at}"


def _tag(value: Any) -> str:
    """A tag's value. A backslash would escape the separator behind
    it, so that slashes stand for backslashes.
    """
    return re.sub(
        r"([,= ])", r"\\\1", one_line(str(value)).replace("\\", "/").replace("\t", " ").strip()
    )


def _field(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return f"{value}i"
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else ""
    text = one_line(str(value))
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"' if text else ""


class MetricsHandler(logging.Handler):
    """Sends what a case measured; used by ReFrame in place of its own handlers."""

    def __init__(self, target: MetricsTarget) -> None:
        super().__init__()
        self._target = target
        self._given_up = False

    def emit(self, record: logging.LogRecord) -> None:
        """Send each stack of a case. Nothing is raised: Python gives no
        handler behind one that raises its record.

        An address that used up its time once gets nothing more: all cases wait for it.
        """
        from reframe.core.logging import getlogger

        if self._given_up:
            return
        began = time.monotonic()
        why = failure(lambda: _SENDERS[self._target.handler](record, self._target.url))
        if why:
            self._given_up = time.monotonic() - began > 0.9 * _TIMEOUT_S
            rest = "; the other cases of this session are not sent there" if self._given_up else ""
            getlogger().warning(f"{self._target.handler}: {VARIABLE} got no metrics: {why}{rest}")


def failure(send: Callable[[], None]) -> str:
    """Why something could not be sent, fit for a log; empty where
    it was. It may take :data:`_TIMEOUT_S`.

    A thread of its own does it: no timeout of a socket ends a name that is looked up, an answer
    that comes byte by byte, a file that somebody else holds locked.
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
    answer = ""
    if isinstance(error, HTTPError):
        to = printable(error.headers.get("Location") or "")
        text = printable(error.read(4096).decode(errors="replace"))
        answer = (
            f"it redirects to {without_secrets(to)}: give that address"
            if to
            else without_secrets(text)
        )
    words = first_line(without_secrets(printable(str(error)))) or type(error).__name__
    answer = first_line(answer)
    return f"{words} ({answer})" if answer else words


def push(record: Any, url: str) -> None:
    """Replace what a Pushgateway has of each stack of a case.

    :raises OSError: the gateway refuses or does not answer.
    """
    for run in runs_of(record):
        push_registry(url, registry_of(run), run.case)


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


def _ask_gateway(
    ask: Callable[..., None], url: str, key: Mapping[str, Any], *registries: CollectorRegistry
) -> None:
    address, job, labels = _address(url)

    def request(
        *, url: str, method: str, headers: Iterable[tuple[str, str]], data: bytes, **_: Any
    ) -> Callable[[], None]:
        return lambda: request_once(method, url, data, dict(headers))

    named = {
        name: str(value) for name, value in {**labels, **key}.items() if value not in (None, "")
    }
    ask(urlunsplit(address), job, *registries, grouping_key=named, handler=request)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Makes a redirect the error that any other refusal is."""

    def redirect_request(self, *_: Any) -> None:
        return None


def request_once(method: str, url: str, body: bytes, headers: Mapping[str, str]) -> None:
    """Send a request; the user of its address is its Basic
    authorization, unless the headers hold one.

    :raises OSError: the server refuses, redirects or does not answer.
    """
    address = urlsplit(url)
    known = {}
    if address.username is not None:
        user = f"{unquote(address.username)}:{unquote(address.password or '')}"
        known = {"Authorization": f"Basic {base64.b64encode(user.encode()).decode()}"}
    server = urlunsplit(address._replace(netloc=address.netloc.rpartition("@")[2]))
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
        request_once("POST", url, "\n".join(body).encode(), headers)


def _write_json(record: Any, url: str) -> None:
    if rows := rows_of(record):
        request_once("POST", url, json.dumps(rows).encode(), {"Content-Type": "application/json"})


def append(path: str, lines: Iterable[str]) -> None:
    """Whole lines to the end of a file, whoever else writes there.

    :raises OSError: it cannot be written; of a pipe also that nobody
        reads it, which is not waited for.
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
    LINE_PROTOCOL: lambda record, url: write(protocol_lines(record), url),
    JSON_LIST: _write_json,
    CASE_LOG: lambda record, url: append(url, case_lines(record)),
}

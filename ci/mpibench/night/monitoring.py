"""The night's answer for a site's own monitoring: sent where ``MPIBENCH_METRICS`` sends each case, when it ends."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import time
from typing import TYPE_CHECKING, Any

from reframe_tests.harness.sites.session import metrics_push
from reframe_tests.harness.sites.session.metrics_push import (
    CASE_LOG,
    LINE_PROTOCOL,
    PUSHGATEWAY,
    MetricsTarget,
    cut,
    iso_time,
    protocol_line,
)
from reframe_tests.harness.vocabulary import BadInput

from ..store import records

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

#: Problems that a line for a log store names; the others are counted.
MOST_NAMED = 20


@dataclass(frozen=True)
class NightMessage:
    """What is sent of a night.

    :param system: as ReFrame names it; empty where no session was stored.
    :param run: label of the night.
    :param session: id; empty where none was stored.
    :param cases: number of cases by ReFrame's result.
    :param ended: seconds since 1970.
    """

    system: str
    run: str
    session: str
    problems: Sequence[str]
    cases: Mapping[str, int]
    ended: float

    @property
    def key(self) -> dict[str, str]:
        """Labels that a night has, whatever became of it."""
        return {"system": self.system, "run": self.run}


def send(
    dataset: Path,
    system: str,
    run: str,
    session: str | None,
    problems: Sequence[str],
    cases: Mapping[str, int],
    environ: Mapping[str, str] = os.environ,
) -> list[str]:
    """Send a night's answer, with the gate's where it was asked; a sentence for each address that did not take it.

    :param problems: of the night itself.
    :param cases: number of cases by ReFrame's result.
    :raises BadInput: the variable holds no address.
    """
    to = [target for target in metrics_push.targets(environ) if target.handler in _SENDERS]
    if not to:
        return []
    said: Sequence[records.StoredAnswer] = ()
    with suppress(BadInput):  # their folder cannot be read, so that tonight's could not be kept, which is a problem of it
        said = records.answers(dataset).get(session, ()) if session else ()
    every = [*problems, *(text for answer in said if answer.source == records.GATE for text in answer.problems)]
    message = NightMessage(system, run, session or "", tuple(dict.fromkeys(every)), cases, time())
    return list(filter(None, (_send(message, target) for target in to)))


def _send(message: NightMessage, target: MetricsTarget) -> str:
    why = metrics_push.failure(lambda: _SENDERS[target.handler](message, target.url))
    where = target.url if target.is_file else target.url.rpartition("@")[2].partition("?")[0]
    return f"the site's monitoring did not get this night's answer ({where}: {why})" if why else ""


def registry_of(message: NightMessage) -> CollectorRegistry:
    """Gauges of a night."""
    from prometheus_client import CollectorRegistry, Gauge

    registry = CollectorRegistry()
    for name, text, value in (
        ("night_ok", "1: nothing was the matter with the night; 0: something was", float(not message.problems)),
        ("night_problems", "How many reasons the night gives why it is not accepted", len(message.problems)),
        ("night_end_time_seconds", "When the night ended, in seconds since 1970", message.ended),
    ):
        Gauge(f"mpibench_{name}", text, registry=registry).set(value)
    info = Gauge("mpibench_night_info", "1; its label names the session", ["session"], registry=registry)
    info.labels(message.session).set(1)
    count = Gauge("mpibench_night_cases", "Cases of the night by ReFrame's result", ["result"], registry=registry)
    for result, number in message.cases.items():
        count.labels(result).set(number)
    return registry


def as_line(message: NightMessage) -> str:
    """One JSON object in one line."""
    row: dict[str, Any] = {
        **{"time": iso_time(message.ended), "event": "mpibench_night", **message.key, "session": message.session},
        **{"result": "fail" if message.problems else "pass", "cases": dict(message.cases)},
        "problems": [cut(one) for one in message.problems[:MOST_NAMED]],
        "more_problems": max(0, len(message.problems) - MOST_NAMED),
    }
    return json.dumps(row, ensure_ascii=True)


def as_point(message: NightMessage) -> str:
    """A point of InfluxDB's measurement ``mpibench_night``."""
    counts = {f"cases_{result}": number for result, number in message.cases.items()}
    fields = {"ok": not message.problems, "problems": len(message.problems), "session": message.session, **counts}
    return protocol_line("mpibench_night", message.key, fields, round(message.ended * 1e9))


def _push(message: NightMessage, url: str) -> None:
    metrics_push.push_registry(url, registry_of(message), message.key)
    if message.system:
        # Of a night that stored no session on a machine that had none yet: it would be red for ever.
        metrics_push.forget(url, {"run": message.run})


_SENDERS = {
    PUSHGATEWAY: _push,
    LINE_PROTOCOL: lambda message, url: metrics_push.write([as_point(message)], url),
    CASE_LOG: lambda message, url: metrics_push.append(url, [as_line(message)]),
}
